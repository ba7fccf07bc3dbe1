/* memory.c: where values live. Inputs, outputs and constants have their own memory; everything
   else gets an offset in one workspace, from its first writer to its last reader. An elementwise
   result takes over the memory of an operand that dies there, under the rule that plan.h states
   (canonical accesses only). Blocks are multiples of 64 bytes, best fit.

   The steps of a sweep count as one: what they share with others lives through all of it. What they
   write has its memory before the first step that runs beside the sweep, so it takes over none of
   theirs. The rows of a block have a memory of their own, in which they live from step to step as
   usual. */
#include "plan/plan.h"

enum { ALIGN = 64 };

typedef struct {
    int64_t offset, size;
} Block;
typedef struct {
    Draft *d;
    uint8_t kind;          /* of the slots that are placed */
    int32_t *first, *last; /* per slot: the jobs between which it lives */
    bool *placed, *taken;  /* per slot: it has its memory; somebody took that over */
    Block *gaps;
    int n_gaps, cap_gaps; /* free blocks below `top`, by offset */
    int64_t top;
} Memory;

/* ---- slots ---- */

int memory_add(Draft *d, Slot slot)
{
    qb_plan *p = d->p;
    Slot *slots = plan_grow(d, p->slots, p->n_slots, &d->cap_slots, sizeof *slots);
    if (!slots) return -1;
    p->slots = slots;
    slots[p->n_slots] = slot;
    return p->n_slots++;
}

/* The plan's reference to b; takes over the caller's. */
static bool hold(Draft *d, qb_buffer *b)
{
    qb_plan *p = d->p;
    qb_buffer **consts =
        b ? plan_grow(d, p->consts, p->n_consts, &d->cap_consts, sizeof *consts) : NULL;
    if (!consts) return qb_buffer_release(b), false;
    p->consts = consts;
    consts[p->n_consts++] = b;
    return true;
}

bool memory_keep(Draft *d, qb_buffer *b) { return hold(d, qb_buffer_retain(b)); }

static int add_const(Draft *d, qb_buffer *b, int dtype)
{
    qb_plan *p = d->p;
    if (!hold(d, b)) return -1;
    return memory_add(d, (Slot){.kind = SLOT_CONST,
                                .dtype = (uint8_t)dtype,
                                .index = p->n_consts - 1,
                                .bytes = b->bytes});
}

/* One element for all: a matmul reads it with strides of 0. */
static int add_splat(Draft *d, Id v)
{
    double value;
    int dtype = d->g->types[v].dtype;
    const_splat(graph_val(d->g, v), &value);
    qb_buffer *b = qb_buffer_new(type_elem(dtype), d->err);
    if (b && dtype == QB_F64) *(double *)b->data = value;
    if (b && dtype == QB_F32) *(float *)b->data = (float)value;
    if (b && dtype == QB_BOOL) *(unsigned char *)b->data = value != 0;
    return add_const(d, b, dtype);
}

int memory_work(Draft *d, int dtype, int64_t bytes)
{
    return memory_add(
        d, (Slot){.kind = SLOT_WORK, .dtype = (uint8_t)dtype, .index = -1, .bytes = bytes});
}

int memory_slot(Draft *d, Id v)
{
    const Type *t = &d->g->types[v];
    if (d->slot[v] >= 0) return d->slot[v];
    if (d->made[v] == MADE_SPLAT)
        d->slot[v] = add_splat(d, v);
    else if (d->made[v] == MADE_LEAF)
        d->slot[v] =
            add_const(d, qb_buffer_retain(d->g->nodes[d->g->def[v]].attr->buffer), t->dtype);
    else
        d->slot[v] = memory_work(d, t->dtype, type_bytes(t));
    return d->slot[v];
}

bool memory_open(Draft *d)
{
    const Graph *g = d->g;
    d->slot = plan_alloc(d, g->n_values, sizeof *d->slot);
    if (!d->slot) return false;
    for (Id v = 0; v < g->n_values; v++) d->slot[v] = -1;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const Type *t = &g->types[g->inputs[i]];
        int s = memory_add(d, (Slot){.kind = SLOT_INPUT,
                                     .dtype = t->dtype,
                                     .index = (int32_t)i,
                                     .bytes = type_bytes(t)});
        if (s < 0) return false;
        d->slot[g->inputs[i]] = s;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const Type *t = &g->types[g->outputs[i]];
        if (memory_add(d, (Slot){.kind = SLOT_OUTPUT,
                                 .dtype = t->dtype,
                                 .index = (int32_t)i,
                                 .bytes = type_bytes(t)}) < 0)
            return false;
    }
    return true;
}

/* ---- the workspace ---- */

/* The sweep that begins at this unit, with what runs beside it or without; NULL. */
static const Sweep *sweep_at(const Memory *m, int unit, bool beside)
{
    const qb_plan *p = m->d->p;
    for (int i = 0; m->kind == SLOT_WORK && i < p->n_sweeps; i++)
        if (p->sweeps[i].first - (beside ? p->sweeps[i].beside : 0) == unit) return &p->sweeps[i];
    return NULL;
}

/* A unit is a job, or the jobs of a sweep where only what it shares with others matters. */
static int unit_end(const Memory *m, int job)
{
    const Sweep *s = sweep_at(m, job, false);
    return job + (s ? s->n : 1);
}

static void live_from_to(Memory *m, const List *slots, int from, int unit)
{
    for (int i = 0; i < slots->n; i++) {
        int32_t s = slots->at[i];
        if (m->first[s] < 0) m->first[s] = from;
        m->last[s] = unit;
    }
}

static bool find_lives(Memory *m, int begin, int end)
{
    Draft *d = m->d;
    m->first = plan_alloc(d, d->p->n_slots, sizeof *m->first);
    m->last = plan_alloc(d, d->p->n_slots, sizeof *m->last);
    m->placed = plan_alloc(d, d->p->n_slots, sizeof *m->placed);
    m->taken = plan_alloc(d, d->p->n_slots, sizeof *m->taken);
    if (!m->first || !m->last || !m->placed || !m->taken) return false;
    for (int s = 0; s < d->p->n_slots; s++) m->first[s] = -1;
    for (int unit = begin, next; unit < end; unit = next) {
        const Sweep *s = sweep_at(m, unit, false);
        int from = s ? unit - s->beside : unit;
        next = unit_end(m, unit);
        for (int j = unit; j < next; j++) {
            live_from_to(m, &d->jobs[j]->reads, from, unit);
            live_from_to(m, &d->jobs[j]->writes, from, unit);
        }
    }
    return true;
}

static int64_t room_for(const Slot *s) { return (s->bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* The smallest gap that is large enough; else the top grows, over a last gap that touches it. */
static bool give(Memory *m, Slot *slot)
{
    int64_t need = room_for(slot);
    int best = -1;
    for (int i = 0; i < m->n_gaps; i++)
        if (m->gaps[i].size >= need && (best < 0 || m->gaps[i].size < m->gaps[best].size)) best = i;
    if (best >= 0) {
        slot->offset = m->gaps[best].offset;
        m->gaps[best].offset += need;
        m->gaps[best].size -= need;
        if (m->gaps[best].size > 0) return true;
        m->n_gaps--;
        memmove(&m->gaps[best], &m->gaps[best + 1], (size_t)(m->n_gaps - best) * sizeof *m->gaps);
        return true;
    }
    slot->offset = m->top;
    if (m->n_gaps && m->gaps[m->n_gaps - 1].offset + m->gaps[m->n_gaps - 1].size == m->top)
        slot->offset = m->gaps[--m->n_gaps].offset;
    if (!__builtin_add_overflow(slot->offset, need, &m->top)) return true;
    return plan_fail(m->d, QB_EMEMORY, "the working memory of a program exceeds 2^63 bytes");
}

static bool take_back(Memory *m, const Slot *slot)
{
    Block b = {slot->offset, room_for(slot)};
    Block *gaps = plan_grow(m->d, m->gaps, m->n_gaps, &m->cap_gaps, sizeof *gaps);
    if (!gaps) return false;
    m->gaps = gaps;
    int i = m->n_gaps;
    while (i > 0 && gaps[i - 1].offset > b.offset) i--;
    bool below = i > 0 && gaps[i - 1].offset + gaps[i - 1].size == b.offset;
    bool above = i < m->n_gaps && b.offset + b.size == gaps[i].offset;
    if (below) {
        gaps[i - 1].size += b.size;
        if (!above) return true;
        gaps[i - 1].size += gaps[i].size;
        m->n_gaps--;
        memmove(&gaps[i], &gaps[i + 1], (size_t)(m->n_gaps - i) * sizeof *gaps);
        return true;
    }
    if (above) {
        gaps[i].offset = b.offset;
        gaps[i].size += b.size;
        return true;
    }
    memmove(&gaps[i + 1], &gaps[i], (size_t)(m->n_gaps - i) * sizeof *gaps);
    gaps[i] = b;
    m->n_gaps++;
    return true;
}

/* ---- in place ---- */

static bool canonical(const Region *r, const Access *a, const Slot *slot)
{
    int64_t step = 1;
    if (a->offset != 0 || r->size * type_elem(slot->dtype) != slot->bytes) return false;
    for (int i = r->rank - 1; i >= 0; i--) {
        if (a->stride[i] != step) return false;
        step *= r->dims[i];
    }
    return true;
}

/* Is every access of the region to slot s canonical? */
static bool only_canonical(const Region *r, const Slot *slots, int s)
{
    for (int i = 0; i < r->n_loads; i++)
        if (!r->loads[i].splat && r->loads[i].at.slot == s &&
            !canonical(r, &r->loads[i].at, &slots[s]))
            return false;
    for (int i = 0; i < r->n_stores; i++)
        if (r->stores[i].at.slot == s && !canonical(r, &r->stores[i].at, &slots[s])) return false;
    for (int i = 0; i < r->n_reduces; i++)
        if (r->reduces[i].at.slot == s) return false;
    return true;
}

/* An operand of the region that dies at this job and whose memory the store to slot s may take
   over; -1. */
static int dying(const Memory *m, int job, int s)
{
    const Slot *slots = m->d->p->slots;
    const Region *r = &m->d->jobs[job]->step.region;
    if (!only_canonical(r, slots, s)) return -1;
    for (int i = 0; i < r->n_loads; i++) {
        int l = r->loads[i].splat ? -1 : r->loads[i].at.slot;
        if (l < 0 || slots[l].kind != m->kind || m->last[l] != job || m->first[l] == job ||
            m->taken[l])
            continue;
        if (slots[l].bytes != slots[s].bytes ||
            type_elem(slots[l].dtype) != type_elem(slots[s].dtype))
            continue;
        if (only_canonical(r, slots, l)) return l;
    }
    return -1;
}

static bool place_writes(Memory *m, int job, int unit, bool alone)
{
    Draft *d = m->d;
    Slot *slots = d->p->slots;
    const Job *j = d->jobs[job];
    for (int i = 0; i < j->writes.n; i++) {
        int s = j->writes.at[i];
        if (slots[s].kind != m->kind || m->first[s] != unit || m->placed[s]) continue;
        m->placed[s] = true;
        int l = alone && j->step.kind == STEP_REGION ? dying(m, job, s) : -1;
        if (l >= 0) {
            slots[s].offset = slots[l].offset;
            m->taken[l] = true;
        } else if (!give(m, &slots[s])) {
            return false;
        }
    }
    return true;
}

static bool free_dead(Memory *m, const List *list, int unit)
{
    for (int i = 0; i < list->n; i++) {
        int s = list->at[i];
        const Slot *slot = &m->d->p->slots[s];
        if (slot->kind != m->kind || m->last[s] != unit || m->taken[s]) continue;
        m->taken[s] = true;
        if (!take_back(m, slot)) return false;
    }
    return true;
}

/* Offsets of the slots of one kind that jobs begin .. end write; *bytes is what they take. */
static bool place(Draft *d, uint8_t kind, int begin, int end, int64_t *bytes)
{
    Memory m = {.d = d, .kind = kind};
    if (!find_lives(&m, begin, end)) return false;
    for (int unit = begin, next; unit < end; unit = next) {
        const Sweep *s = sweep_at(&m, unit, true);
        for (int j = 0; s && j < s->n; j++)
            if (!place_writes(&m, s->first + j, unit, false)) return false;
        next = unit_end(&m, unit);
        for (int j = unit; j < next; j++)
            if (!place_writes(&m, j, unit, next == unit + 1)) return false;
        for (int j = unit; j < next; j++)
            if (!free_dead(&m, &d->jobs[j]->reads, unit) ||
                !free_dead(&m, &d->jobs[j]->writes, unit))
                return false;
    }
    *bytes = m.top;
    return true;
}

bool memory_run(Draft *d)
{
    for (int i = 0; i < d->p->n_sweeps; i++) {
        Sweep *s = &d->p->sweeps[i];
        if (!place(d, SLOT_ROWS, s->first, s->first + s->n, &s->rows_bytes)) return false;
    }
    return place(d, SLOT_WORK, 0, d->n_jobs, &d->p->work_bytes);
}
