/* profile.c: what each step of a plan does, in numbers: operations and bytes. Times are the
   target's.

   An elementwise operation counts as one, whatever it is, an element of a reduction as one, a
   product as 2 m n k. Bytes are those of the operands and results of a step, each once: what a step
   takes from and leaves to others, be it in memory or in a cache. */
#include "plan/plan.h"
#include <stdio.h>

/* How often the step of a sweep is done, and whether it is at all part of one. */
static double repeats(const qb_plan *p, int step, int *sweep)
{
    *sweep = 0;
    for (int i = 0; i < p->n_sweeps; i++) {
        const Sweep *s = &p->sweeps[i];
        if (step < s->first || step >= s->first + s->n) continue;
        *sweep = i + 1;
        return (double)s->points / BLOCK;
    }
    return 1;
}

/* Bytes of an access that moves through so many elements. In a sweep a slot that is the same for all
   blocks counts once, as the parts of a sum do: they stay in cache. */
static double traffic(const qb_plan *p, int32_t slot, double elements, double times)
{
    const Slot *s = &p->slots[slot];
    bool moves = s->kind == SLOT_ROWS || s->kind == SLOT_CURSOR;
    return elements * (double)type_elem(s->dtype) * (moves ? times : 1);
}

static double distinct(const Region *r, const Access *at)
{
    double n = 1;
    for (int i = 0; i < r->rank; i++)
        if (at->stride[i]) n *= (double)r->dims[i];
    return n;
}

static void region(const qb_plan *p, const Region *r, double times, qb_step_profile *out)
{
    char dims[32] = "";
    int used = 0;
    for (int i = 0; i < r->rank && used < 24; i++)
        used += snprintf(dims + used, sizeof dims - (size_t)used, "%s%lld", i ? "x" : "",
                         (long long)r->dims[i]);
    snprintf(out->what, sizeof out->what, "elementwise %s, %d ops%s", r->rank ? dims : "scalar",
             r->n_instrs, r->n_reduces ? ", reduces" : "");
    out->flops = times * (double)r->size * (r->n_instrs + r->n_reduces);
    for (int i = 0; i < r->n_loads; i++)
        if (!r->loads[i].splat)
            out->bytes += traffic(p, r->loads[i].at.slot, distinct(r, &r->loads[i].at), times);
    for (int i = 0; i < r->n_stores; i++)
        out->bytes += traffic(p, r->stores[i].at.slot, distinct(r, &r->stores[i].at), times);
    for (int i = 0; i < r->n_reduces; i++)
        out->bytes += traffic(p, r->reduces[i].at.slot, distinct(r, &r->reduces[i].at), times);
}

static double batches(const MatMul *m, const int64_t *stride)
{
    double n = 1;
    for (int i = 0; i < m->rank; i++)
        if (!stride || stride[i]) n *= (double)m->dims[i];
    return n;
}

static void product(const qb_plan *p, const MatMul *m, double times, qb_step_profile *out)
{
    double n = (double)m->n, k = (double)m->k, rows = 0;
    for (int i = 0; i < m->n_parts; i++) {
        const MatPart *x = &m->parts[i];
        double r = (double)x->m;
        rows += r;
        out->bytes += traffic(p, x->a.slot, r * k * batches(m, x->a.batch), times);
        out->bytes += traffic(p, x->c.slot, r * n * batches(m, x->c.batch), times);
    }
    out->bytes += traffic(p, m->b.slot, n * k * batches(m, m->b.batch), times);
    out->flops = times * 2 * rows * n * k * batches(m, NULL);
    snprintf(out->what, sizeof out->what, "matmul %.0fx%.0fx%.0f", rows, k, n);
    if (m->rank)
        snprintf(out->what, sizeof out->what, "matmul %.0f of %.0fx%.0fx%.0f", batches(m, NULL),
                 rows, k, n);
}

void profile_step(const qb_plan *p, int i, qb_step_profile *out)
{
    const Step *s = &p->steps[i];
    int sweep;
    double times = repeats(p, i, &sweep);
    *out = (qb_step_profile){.file = s->file, .line = s->line, .sweep = sweep};
    if (s->kind == STEP_REGION)
        region(p, &s->region, times, out);
    else if (s->kind == STEP_MATMUL)
        product(p, &s->matmul, times, out);
    else
        snprintf(out->what, sizeof out->what, "%s",
                 op_table[s->kind == STEP_LOOP ? s->loop.op : s->call.op].name);
}
