/* place.c: which values are made in the memory of another. A result that is the whole of an
   output is written to the output; the parts of a concat or pad_slice are written where they
   belong by whoever makes them. What cannot (an operand with other readers, an input, a view) is
   copied by a region.

   Parts are settled from the last node to the first, so that an outer concat has its place
   before an inner one asks for it. */
#include "plan/plan.h"

static void count_uses(const Draft *d)
{
    const Graph *g = d->g;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].n; k++) d->uses[g->nodes[i].x[k]]++;
    for (uint32_t i = 0; i < g->n_outputs; i++) d->uses[g->outputs[i]]++;
}

static bool made_by_step(const Draft *d, Id v) { return d->made[v] > MADE_VIEW; }

/* Outputs that are all of a value made here take its memory; the first output of a value wins. */
static void take_outputs(Draft *d)
{
    for (uint32_t i = 0; i < d->g->n_outputs; i++) {
        Id base;
        if (view_whole(d, d->g->outputs[i], &base) && made_by_step(d, base) && d->slot[base] < 0)
            d->slot[base] = (int32_t)(d->g->n_inputs + i);
    }
}

bool place_spot(Draft *d, Id v, Spot *out)
{
    const Place *p = d->place[v];
    out->slot = memory_slot(d, p ? p->at.base : v);
    out->offset = p ? p->at.offset : 0;
    if (p)
        memcpy(out->stride, p->at.stride, sizeof out->stride);
    else
        view_rows(&d->g->types[v], out->stride);
    return out->slot >= 0;
}

void place_access(const Type *t, const Spot *spot, Access *out)
{
    *out = (Access){.slot = spot->slot, .offset = spot->offset};
    view_squeeze(t, spot->stride, out->stride);
}

/* Where operand x of n belongs, which starts at element `start` of n's axis, in the memory that
   n's result is in. */
static void part_of(const Draft *d, const Node *n, Id x, int64_t start, View *out)
{
    const Graph *g = d->g;
    const Place *p = d->place[n->first];
    int axis = (int)n->attr->i;
    if (p)
        *out = p->at;
    else {
        *out = (View){.base = n->first};
        view_rows(&g->types[n->first], out->stride);
    }
    out->offset += start * out->stride[axis];
    if (n->op == OP_pad_slice) out->stride[axis] *= n->attr->step;
    if (g->types[x].dims[axis] == 1) out->stride[axis] = 0;
}

int64_t place_start(const Node *n) { return n->op == OP_pad_slice ? n->attr->start : 0; }

bool place_part(Draft *d, const Node *n, Id x, int64_t start, Spot *out)
{
    View part;
    part_of(d, n, x, start, &part);
    out->slot = memory_slot(d, part.base);
    out->offset = part.offset;
    memcpy(out->stride, part.stride, sizeof out->stride);
    return out->slot >= 0;
}

/* Make operand x of n in place, if n is its only reader, through reshapes at most. */
static bool settle(Draft *d, const Node *n, Id x, int64_t start)
{
    const Graph *g = d->g;
    Id v = x;
    View part;
    part_of(d, n, x, start, &part);
    while (d->uses[v] == 1 && d->made[v] == MADE_VIEW && g->nodes[g->def[v]].op == OP_reshape)
        v = g->nodes[g->def[v]].x[0];
    if (d->uses[v] != 1 || !made_by_step(d, v) || d->made[v] == MADE_CALL) return true;
    const Type *t = &g->types[v];
    View at = part;
    if (!view_reshape(&g->types[x], part.stride, t, at.stride)) return true;
    if (d->made[v] == MADE_MATMUL && t->dims[t->rank - 1] > 1 && at.stride[t->rank - 1] != 1)
        return true;
    int64_t source[QB_MAX_RANK]; /* a copy runs over the shape of what it copies */
    if (d->made[v] == MADE_COPY &&
        !view_reshape(t, at.stride, &g->types[g->nodes[g->def[v]].x[0]], source))
        return true;
    if (d->made[v] == MADE_LOOP) { /* it writes row-major */
        view_rows(t, source);
        if (memcmp(source, at.stride, t->rank * sizeof *source) != 0) return true;
    }
    Place *p = plan_alloc(d, 1, sizeof *p);
    if (!p) return false;
    p->at = at;
    p->parent = n->first;
    d->place[v] = p;
    return true;
}

bool place_fills(Draft *d, Id parent, Job *job)
{
    while (parent != NO_ID) {
        if (d->made[parent] == MADE_PAD && !plan_note(d, &job->fills, d->fill[parent]))
            return false;
        parent = d->place[parent] ? d->place[parent]->parent : NO_ID;
    }
    return true;
}

bool place_run(Draft *d)
{
    const Graph *g = d->g;
    d->uses = plan_alloc(d, g->n_values, sizeof *d->uses);
    d->place = plan_alloc(d, g->n_values, sizeof *d->place);
    if (!d->uses || !d->place) return false;
    count_uses(d);
    take_outputs(d);
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const Node *n = &g->nodes[i];
        if (d->made[n->first] != MADE_CONCAT && d->made[n->first] != MADE_PAD) continue;
        int64_t start = place_start(n);
        for (uint32_t k = 0; k < n->n; k++) {
            if (!settle(d, n, n->x[k], start)) return false;
            start += g->types[n->x[k]].dims[n->attr->i];
        }
    }
    return true;
}
