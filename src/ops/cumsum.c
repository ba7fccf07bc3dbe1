/* cumsum.c: running sums along one axis. The first sum is the first element; every sum is rounded to the dtype, so a float32
   program sees what adding one element after the other gives. The transpose runs the other way. */
#include "ops/rules.h"

static bool cumsum_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    *out = *x;
    return rules_floating(g, n, x) && rules_axis(g, n, x);
}

/* Of a mask: is any element set whose sum this one enters? */
static void cumsum_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)x;
    bool mask = type_of(ct[0])->dtype == QB_BOOL, reverse = n->attr->start != 0;
    Val v = gcumsum(mask ? gcast_like(ct[0], z[0]) : ct[0], (int)n->attr->i, !reverse);
    out[0] = mask ? gcast(v, QB_BOOL) : v;
}

static void cumsum_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                        Val *z)
{
    (void)g, (void)mapped, (void)size;
    z[0] = gcumsum(x[0], (int)n->attr->i + 1, n->attr->start != 0);
}

const Rules cumsum_rules = {.infer = cumsum_infer,
                            .jvp = rules_linear_jvp,
                            .vjp = cumsum_vjp,
                            .vmap = cumsum_vmap,
                            .moves_mask = true};
