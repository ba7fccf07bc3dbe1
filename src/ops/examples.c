/* examples.c: batches whose examples part ways: under vmap a cond takes a branch, and a while goes
   on, for some of them alone. Then all run, and each takes its own result.

   What enters the part that an example does not take is cut off for derivatives: where(taken, x,
   stop_gradient(x)). The value is x, and a plan drops the choice. But a derivative of the batch
   program gets an exact zero there, so 0 * inf in a part that is not taken stays in it. That holds
   for values that all examples share too: each example gets its own. */
#include "ops/rules.h"

/* A bool of shape [size] along the first axis of v. */
static Val along(Val mask, Val v)
{
    Type t = *type_of(v);
    int64_t dims[QB_MAX_RANK];
    for (int i = 1; i < QB_MAX_RANK; i++) dims[i] = 1;
    dims[0] = t.dims[0];
    return gbroadcast(greshape(mask, t.rank, dims), t.rank, t.dims);
}

Val examples_select(Val mask, Val yes, Val no)
{
    return val_none(yes) || val_none(no) ? NONE : gwhere(along(mask, yes), yes, no);
}

Val examples_enter(Val mask, Val x, bool taken)
{
    if (val_none(x) || !type_floating(type_of(x))) return x;
    Val cut = gstop_gradient(x);
    return taken ? examples_select(mask, x, cut) : examples_select(mask, cut, x);
}
