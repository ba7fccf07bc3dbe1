/* call.c: ops that no region can make, because an element of their result depends on elements elsewhere in a way that no
   strides say. Such an op is one step, a call: its operands and results lie row-major in memory, and each backend has a kernel
   for it. An operand that is a view in another order, or a constant of one value, is copied first by a region, as
   for a loop (loop_temps).

   A new op of this kind is a line in `calls` and a kernel in each backend. */
#include "plan/plan.h"

static const bool calls[OP_COUNT] = {
    [OP_gather] = true, [OP_scatter_add] = true, [OP_cumsum] = true};

bool call_op(int op) { return calls[op]; }

/* temp: slot of a copy, -1: the operand's own memory is row-major. */
static bool operand(Draft *d, Id x, int32_t temp, CallArg *out)
{
    View w;
    view_of(d, x, &w);
    *out = (CallArg){.slot = temp, .type = d->g->types[x]};
    if (temp >= 0) return true;
    if (d->place[w.base]) return plan_fail(d, QB_EBUG, "a part of a concat is read alone");
    out->slot = memory_slot(d, w.base);
    out->offset = w.offset;
    return out->slot >= 0;
}

static bool attributes(Draft *d, const Node *n, Call *c)
{
    Attr *a = plan_keep(d, 1, sizeof *a);
    if (!a) return false;
    *a = *n->attr;
    c->attr = a;
    return !a->buffer || memory_keep(d, a->buffer);
}

static bool add(Draft *d, const Node *n)
{
    Job *job = plan_job(d, STEP_CALL, d->depth[n->first]);
    if (!job) return false;
    Call *c = &job->step.call;
    *c = (Call){.op = n->op, .n = (int)n->n, .results = n->results};
    c->x = plan_keep(d, c->n, sizeof *c->x);
    c->z = plan_keep(d, c->results, sizeof *c->z);
    if (!c->x || !c->z || !attributes(d, n, c)) return false;
    job->step.file = n->file;
    job->step.line = n->line;
    for (int k = 0; k < c->n; k++)
        if (!operand(d, n->x[k], d->temp[n->first][k], &c->x[k]) ||
            !plan_note(d, &job->reads, c->x[k].slot))
            return false;
    for (int r = 0; r < c->results; r++) {
        Id v = n->first + (Id)r;
        c->z[r] = (CallArg){.slot = memory_slot(d, v), .type = d->g->types[v]};
        if (c->z[r].slot < 0 || !plan_note(d, &job->writes, c->z[r].slot)) return false;
    }
    return true;
}

bool call_run(Draft *d)
{
    for (uint32_t i = 0; i < d->g->n_nodes; i++)
        if (d->made[d->g->nodes[i].first] == MADE_CALL && !add(d, &d->g->nodes[i])) return false;
    return true;
}
