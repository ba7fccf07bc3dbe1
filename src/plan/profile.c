/* profile.c: what each step of a plan does, in numbers: operations and bytes. Times are the
   target's.

   An elementwise operation counts as one, whatever it is, an element of a reduction as one, a
   product as 2 m n k. Bytes are those of the operands and results of a step, each once: what a step
   takes from and leaves to others, be it in memory or in a cache. Functions are the operations that
   have an error bound: exp, tanh and the like. A loop counts what its bodies do. */
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

__attribute__((format(printf, 2, 3))) static void put(qb_step_profile *out, const char *format, ...)
{
    size_t used = strlen(out->what);
    va_list args;
    va_start(args, format);
    vsnprintf(out->what + used, sizeof out->what - used, format, args);
    va_end(args);
}

/* Each op once with its number, in order of first use: "elementwise 1000x64: tanh, 3 mul; sum". */
static void name_region(const Region *r, qb_step_profile *out)
{
    put(out, r->rank ? "elementwise " : "elementwise scalar");
    for (int i = 0; i < r->rank; i++) put(out, i ? "x%lld" : "%lld", (long long)r->dims[i]);
    const char *between = ": ";
    for (int i = 0; i < r->n_instrs; i++) {
        int op = r->instrs[i].op, first = i, uses = 0;
        for (int k = r->n_instrs - 1; k >= 0; k--)
            if (r->instrs[k].op == op) uses++, first = k;
        if (first < i) continue;
        put(out, "%s", between);
        if (uses > 1) put(out, "%d ", uses);
        put(out, "%s", op_table[op].name);
        between = ", ";
    }
    for (int i = 0; i < r->n_reduces; i++)
        put(out, "%s%s", i || r->n_instrs ? "; " : ": ", op_table[r->reduces[i].op].name);
}

static void region(const qb_plan *p, const Region *r, double times, qb_step_profile *out)
{
    name_region(r, out);
    double elements = times * (double)r->size;
    out->flops = elements * (r->n_instrs + r->n_reduces);
    for (int i = 0; i < r->n_instrs; i++)
        if (op_table[r->instrs[i].op].ulp > 0) out->functions += elements;
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

static qb_step_profile whole(const qb_plan *body)
{
    qb_step_profile sum = {0}, s;
    for (int i = 0; body && i < body->n_steps; i++) {
        profile_step(body, i, &s);
        sum.flops += s.flops;
        sum.functions += s.functions;
        sum.bytes += s.bytes;
    }
    return sum;
}

/* scan: all iterations. while: one, since the data say how many there are; its test is in the body.
   cond: the branch with more to do. */
static void loop(const Loop *l, qb_step_profile *out)
{
    put(out, "%s", op_table[l->op].name);
    if (l->op == OP_scan) put(out, " %lld times", (long long)l->length);
    qb_step_profile a = whole(l->body[0]), b = whole(l->body[1]);
    bool second = l->op == OP_while || (l->op == OP_cond && b.flops + b.bytes > a.flops + a.bytes);
    double times = l->op == OP_scan ? (double)l->length : 1;
    const qb_step_profile *body = second ? &b : &a;
    out->flops = times * body->flops;
    out->functions = times * body->functions;
    out->bytes = times * body->bytes;
}

void profile_step(const qb_plan *p, int i, qb_step_profile *out)
{
    const Step *s = &p->steps[i];
    int sweep;
    double times = repeats(p, i, &sweep);
    *out = (qb_step_profile){.file = s->file, .line = s->line, .sweep = sweep};
    switch (s->kind) {
    case STEP_REGION: region(p, &s->region, times, out); break;
    case STEP_MATMUL: product(p, &s->matmul, times, out); break;
    case STEP_LOOP: loop(&s->loop, out); break;
    case STEP_CALL: put(out, "%s", op_table[s->call.op].name);
    }
    if (strlen(out->what) == sizeof out->what - 1)
        memcpy(out->what + sizeof out->what - 4, "...", 4); /* it did not fit */
}
