/* sweep.c: the jobs that tile.c chose become the steps of a sweep (plan.h): written for one block
   of points, with slots that say what a block sees. Rows that only they use shrink to one block;
   everything else they walk through, or read as it is. */
#include "plan/plan.h"

typedef struct {
    Draft *d;
    Sweep *s;
    const bool *local;
    int cap_sums, step; /* the step in hand */
} Maker;

/* ---- slots ---- */

/* The slot that cursors through `slot` by `step` bytes a point; -1 when out of memory. */
static int cursor(Maker *m, int slot, int64_t step)
{
    Draft *d = m->d;
    qb_plan *p = d->p;
    for (int s = 0; s < p->n_slots; s++) {
        const Slot *x = &p->slots[s];
        if (x->kind == SLOT_CURSOR && x->index >= m->s->first_cursor &&
            p->cursors[x->index].slot == slot && p->cursors[x->index].step == step)
            return s;
    }
    Cursor *cursors = plan_grow(d, p->cursors, p->n_cursors, &d->cap_cursors, sizeof *cursors);
    if (!cursors) return -1;
    p->cursors = cursors;
    cursors[p->n_cursors++] = (Cursor){slot, step};
    m->s->n_cursors++;
    return memory_add(d, (Slot){.kind = SLOT_CURSOR,
                                .dtype = p->slots[slot].dtype,
                                .index = p->n_cursors - 1,
                                .bytes = p->slots[slot].bytes});
}

/* What a step has in place of `slot`, through which a point moves it by `step` elements. False: out
   of memory. */
static bool see(Maker *m, int32_t *slot, int64_t step)
{
    Draft *d = m->d;
    if (m->local[*slot]) return true; /* slots made here are not asked for again */
    if (step != 0) *slot = cursor(m, *slot, step * type_elem(d->p->slots[*slot].dtype));
    return *slot >= 0;
}

/* A sum over points; its block results go to a slot of their own, which takes the place of at->slot. */
static bool add_sum(Maker *m, SweepSum sum, int dtype)
{
    Draft *d = m->d;
    SweepSum *sums = plan_grow(d, m->s->sums, m->s->n_sums, &m->cap_sums, sizeof *sums);
    if (!sums) return false;
    int64_t bytes = sum.width * sum.per * type_elem(dtype);
    sum.part = memory_add(d, (Slot){.kind = SLOT_PART,
                                    .dtype = (uint8_t)dtype,
                                    .offset = m->s->part_bytes,
                                    .bytes = bytes});
    sum.step = m->step;
    m->s->part_bytes += mem_lines(bytes);
    m->s->sums = sums;
    sums[m->s->n_sums++] = sum;
    return sum.part >= 0;
}

/* ---- steps ---- */

/* Row-major strides of the results in their part. */
static void dense(const Region *r, int first, int end, int64_t *stride)
{
    int64_t n = 1;
    memset(stride, 0, QB_MAX_RANK * sizeof *stride);
    for (int i = end - 1; i >= first; i--) {
        stride[i] = n;
        n *= r->dims[i];
    }
}

/* The results are those of the dims that stay; none where all are reduced. */
static bool sum_region(Maker *m, const Region *r, Reduce *x)
{
    int first = r->form == REDUCE_LEADING ? r->split : r->rank;
    SweepSum sum = {.op = x->op == OP_mean ? OP_sum : x->op, .width = 1, .rank = r->rank - first};
    for (int i = first; i < r->rank; i++) {
        sum.dims[i - first] = r->dims[i];
        sum.at.stride[i - first] = x->at.stride[i];
        sum.width *= r->dims[i];
    }
    int64_t reduced = r->size / sum.width;
    sum.per = reduced / m->s->points;
    sum.count = x->op == OP_mean ? reduced : 0;
    sum.at.slot = x->at.slot;
    sum.at.offset = x->at.offset;
    if (!add_sum(m, sum, QB_F64)) return false;
    x->op = sum.op;
    x->at = (Access){.slot = m->s->sums[m->s->n_sums - 1].part};
    dense(r, first, r->rank, x->at.stride);
    return true;
}

static bool make_region(Maker *m, Region *r)
{
    int64_t rows = r->dims[0] / m->s->points;
    bool sums = r->form == REDUCE_LEADING || r->split == 0;
    for (int i = 0; i < r->n_loads; i++)
        if (!r->loads[i].splat && !see(m, &r->loads[i].at.slot, rows * r->loads[i].at.stride[0]))
            return false;
    for (int i = 0; i < r->n_stores; i++)
        if (!see(m, &r->stores[i].at.slot, rows * r->stores[i].at.stride[0])) return false;
    for (int i = 0; i < r->n_reduces; i++) {
        Access *at = &r->reduces[i].at;
        if (!(sums ? sum_region(m, r, &r->reduces[i]) : see(m, &at->slot, rows * at->stride[0])))
            return false;
    }
    r->size = r->size / r->dims[0] * rows * BLOCK;
    r->dims[0] = rows * BLOCK;
    return true;
}

static bool sum_product(Maker *m, const MatMul *x, MatPart *p)
{
    SweepSum sum = {.op = OP_sum,
                    .width = p->m * x->n,
                    .per = 1,
                    .rank = 2,
                    .dims = {p->m, x->n},
                    .at = {p->c.slot, p->c.offset, {p->c.row, p->c.col}}};
    if (!add_sum(m, sum, m->d->p->native ? x->dtype : QB_F64)) return false;
    p->c = (Mat){.slot = m->s->sums[m->s->n_sums - 1].part, .row = x->n, .col = 1};
    return true;
}

static bool make_product(Maker *m, MatMul *x, Along along)
{
    int64_t n = m->s->points, batch = along == ALONG_BATCH ? x->dims[0] / n : 0;
    for (int i = 0; i < x->n_parts; i++) {
        MatPart *p = &x->parts[i];
        int64_t rows = along == ALONG_ROWS ? p->m / n : 0;
        bool inner = along == ALONG_INNER;
        if (!see(m, &p->a.slot, inner ? p->a.col : batch * p->a.batch[0] + rows * p->a.row) ||
            !(inner ? sum_product(m, x, p)
                    : see(m, &p->c.slot, batch * p->c.batch[0] + rows * p->c.row)))
            return false;
        if (rows) p->m = rows * BLOCK;
    }
    if (!see(m, &x->b.slot, along == ALONG_INNER ? x->b.row : batch * x->b.batch[0])) return false;
    if (along == ALONG_INNER) x->k = BLOCK;
    if (along == ALONG_BATCH) x->dims[0] = batch * BLOCK;
    return true;
}

/* A local slot is as large as a block's rows. The slots that the jobs read and write stay noted as
   they were: by their own names, whatever a step sees of them. */
static void shrink(Draft *d, int64_t points, const bool *local, int n)
{
    for (int i = 0; i < n; i++) {
        Slot *s = &d->p->slots[i];
        if (!local[i]) continue;
        s->kind = SLOT_ROWS;
        s->bytes = s->bytes / points * BLOCK;
    }
}

bool sweep_make(Draft *d, int64_t points, const bool *local)
{
    qb_plan *p = d->p;
    Sweep *sweeps = plan_grow(d, p->sweeps, p->n_sweeps, &d->cap_sweeps, sizeof *sweeps);
    if (!sweeps) return false;
    p->sweeps = sweeps;
    int number = p->n_sweeps + 1, n_slots = p->n_slots;
    Maker m = {.d = d, .s = &sweeps[p->n_sweeps++], .local = local};
    *m.s = (Sweep){.points = points, .first_cursor = p->n_cursors};
    for (int j = 0; j < d->n_jobs; j++) {
        Step *s = &d->jobs[j]->step;
        if (d->jobs[j]->sweep != number) continue;
        if (!(s->kind == STEP_REGION ? make_region(&m, &s->region)
                                     : make_product(&m, &s->matmul, (Along)s->along)))
            return false;
        m.step++;
    }
    shrink(d, points, local, n_slots);
    SweepSum *sums = plan_keep(d, m.s->n_sums, sizeof *sums);
    if (!sums) return false;
    if (m.s->n_sums) memcpy(sums, m.s->sums, (size_t)m.s->n_sums * sizeof *sums);
    m.s->sums = sums;
    return true;
}

bool sweep_order(Draft *d)
{
    qb_plan *p = d->p;
    Sweep *ordered = plan_alloc(d, p->n_sweeps, sizeof *ordered);
    int n = 0;
    if (!ordered) return false;
    for (int j = 0; j < d->n_jobs; j++) {
        int sweep = d->jobs[j]->sweep;
        if (!sweep) continue;
        if (j == 0 || d->jobs[j - 1]->sweep != sweep) {
            ordered[n] = p->sweeps[sweep - 1];
            ordered[n].first = j;
            ordered[n++].n = 0;
        }
        ordered[n - 1].n++;
    }
    p->sweeps = ordered;
    return true;
}
