/* region.c: a cluster becomes regions. Items are taken in order of ids; each resolves what it
   reads to a value of the open region: an instruction that is there already, a load, or a cheap
   value computed again. A region that grows too large is closed and the next one goes on; what
   it still needs from the earlier ones is then loaded, and they store it (finish.c).

   Reductions of a region all reduce the same group of dims, so those of another form follow in
   regions of their own. */
#include "plan/plan.h"

enum {
    MAX_INSTRS = 200, /* per region: beyond, a tile's values leave the first-level cache */
    MAX_LOADS = 24,
    MAX_COPIES = 64,     /* stores to memory that is not a value's own */
    INSTR_BASE = 1 << 24 /* while a region is open, instruction i is value INSTR_BASE + i */
};

struct RegionDraft {
    Job *job;              /* NULL: none is open */
    int32_t number;        /* of the open region; seen[v] == number: local[v] is v's value in it */
    int32_t *seen, *local; /* per value of the graph */
    int cap_loads, cap_instrs, cap_values, cap_stores, cap_reduces;
};

bool region_open(Draft *d)
{
    RegionDraft *o = d->open = plan_alloc(d, 1, sizeof *o);
    if (!o) return false;
    o->seen = plan_alloc(d, d->g->n_values, sizeof *o->seen);
    o->local = plan_alloc(d, d->g->n_values, sizeof *o->local);
    return o->seen && o->local;
}

ReduceForm region_form(const Type *t, const Attr *attr, int *split)
{
    int kept = 0, reduced = 0, kept_first = 0,
        reduced_first = 0; /* kept dims before any reduced one, and the reverse */
    for (int i = 0, k = 0; i < t->rank; i++) {
        bool gone = k < attr->n && attr->list[k] == i;
        k += gone;
        if (t->dims[i] == 1) continue;
        if (gone && !kept) reduced_first++;
        if (!gone && !reduced) kept_first++;
        if (gone)
            reduced++;
        else
            kept++;
    }
    *split = kept_first;
    if (kept_first == kept) return REDUCE_TRAILING;
    *split = reduced_first;
    return reduced_first == reduced ? REDUCE_LEADING : REDUCE_NONE;
}

/* ---- the open region ---- */

static Region *region_of(const Draft *d) { return &d->open->job->step.region; }

static Region *begin(Draft *d, int rank, const int64_t *dims, int depth)
{
    RegionDraft *o = d->open;
    o->job = plan_job(d, STEP_REGION, depth);
    o->number++;
    o->cap_loads = o->cap_instrs = o->cap_values = o->cap_stores = o->cap_reduces = 0;
    if (!o->job) return NULL;
    Region *r = region_of(d);
    r->rank = rank;
    memcpy(r->dims, dims, (size_t)rank * sizeof *dims);
    r->size = 1;
    for (int i = 0; i < rank; i++) r->size *= dims[i];
    return r;
}

static int32_t final_id(const Region *r, int32_t id)
{
    return id >= INSTR_BASE ? r->n_loads + id - INSTR_BASE : id;
}

/* Now that the number of loads is known, values get their ids. */
static void end(Draft *d)
{
    Region *r = region_of(d);
    for (int i = 0; i < r->n_instrs; i++) {
        r->instrs[i].a = final_id(r, r->instrs[i].a);
        r->instrs[i].b = final_id(r, r->instrs[i].b);
        r->instrs[i].c = final_id(r, r->instrs[i].c);
    }
    for (int i = 0; i < r->n_stores; i++) r->stores[i].value = final_id(r, r->stores[i].value);
    for (int i = 0; i < r->n_reduces; i++) r->reduces[i].value = final_id(r, r->reduces[i].value);
    d->open->job->room = d->open->cap_stores;
    d->open->job = NULL;
}

static bool same_load(const Region *r, const Load *a, const Load *b)
{
    if (a->splat || b->splat)
        return a->splat && b->splat && a->dtype == b->dtype &&
               memcmp(&a->value, &b->value, sizeof a->value) == 0;
    return a->at.slot == b->at.slot && a->at.offset == b->at.offset &&
           memcmp(a->at.stride, b->at.stride, (size_t)r->rank * sizeof *a->at.stride) == 0;
}

static bool add_load(Draft *d, const Load *load, int32_t *out)
{
    Region *r = region_of(d);
    int32_t i = 0;
    while (i < r->n_loads && !same_load(r, &r->loads[i], load)) i++;
    *out = i;
    if (i < r->n_loads) return true;
    Load *loads = plan_grow(d, r->loads, r->n_loads, &d->open->cap_loads, sizeof *loads);
    if (!loads) return false;
    r->loads = loads;
    loads[r->n_loads++] = *load;
    return true;
}

/* x from memory, over the dims of its own shape that are not 1, which are the region's. */
static bool load_value(Draft *d, Id x, int32_t *out)
{
    const Type *t = &d->g->types[x];
    View w;
    view_of(d, x, &w);
    Load load = {.dtype = t->dtype, .at = {.slot = -1, .offset = w.offset}};
    if (d->made[w.base] == MADE_SPLAT) {
        load.splat = true;
        load.at.offset = 0;
        const_splat(graph_val(d->g, w.base), &load.value);
        return add_load(d, &load, out);
    }
    if (d->place[w.base]) return plan_fail(d, QB_EBUG, "a part of a concat is read alone");
    load.at.slot = memory_slot(d, w.base);
    view_squeeze(t, w.stride, load.at.stride);
    return load.at.slot >= 0 && add_load(d, &load, out);
}

static bool add_instr(Draft *d, const Node *n, Id made, int32_t *out);

/* The value of the region that is x. */
static bool resolve(Draft *d, Id x, int32_t *out)
{
    RegionDraft *o = d->open;
    Id s = d->same[x];
    if (s == NO_ID) return load_value(d, x, out);
    if (o->seen[s] == o->number) return *out = o->local[s], true;
    if (!d->stored[s] && d->again[s]) return add_instr(d, &d->g->nodes[d->g->def[s]], NO_ID, out);
    d->stored[s] = true;
    if (!load_value(d, s, out)) return false;
    o->seen[s] = o->number;
    o->local[s] = *out;
    return true;
}

/* Node n as an instruction; made is its value, or NO_ID when it is only computed again here. */
static bool add_instr(Draft *d, const Node *n, Id made, int32_t *out)
{
    const Graph *g = d->g;
    RegionDraft *o = d->open;
    int32_t x[3] = {-1, -1, -1};
    for (uint32_t k = 0; k < n->n; k++)
        if (!resolve(d, n->x[k], &x[k])) return false;
    Region *r = region_of(d);
    Instr *instrs = plan_grow(d, r->instrs, r->n_instrs, &o->cap_instrs, sizeof *instrs);
    if (instrs) r->instrs = instrs;
    Id *values =
        instrs ? plan_grow(d, o->job->values, r->n_instrs, &o->cap_values, sizeof *values) : NULL;
    if (!values) return false;
    o->job->values = values;
    values[r->n_instrs] = made;
    instrs[r->n_instrs] = (Instr){.op = n->op,
                                  .in = g->types[n->x[n->op == OP_where]].dtype,
                                  .out = g->types[n->first].dtype,
                                  .a = x[0],
                                  .b = x[1],
                                  .c = x[2],
                                  .i = n->op == OP_powi ? n->attr->i : 0};
    *out = INSTR_BASE + r->n_instrs++;
    o->seen[n->first] = o->number;
    o->local[n->first] = *out;
    return true;
}

static bool add_store(Draft *d, const Item *it)
{
    Region *r = region_of(d);
    int32_t value = -1;
    if (!resolve(d, it->value, &value)) return false;
    Store *stores = plan_grow(d, r->stores, r->n_stores, &d->open->cap_stores, sizeof *stores);
    if (!stores) return false;
    r->stores = stores;
    stores[r->n_stores].value = value;
    place_access(&d->g->types[it->value], it->to, &stores[r->n_stores++].at);
    return place_fills(d, it->parent, d->open->job);
}

/* Strides of a reduction's result over its operand's dims that are not 1; order[i] is where dim
   i is in the iteration. */
static bool reduce_access(Draft *d, const Node *n, const int *order, Access *out)
{
    const Type *x = &d->g->types[n->x[0]];
    Spot spot;
    if (!place_spot(d, n->first, &spot)) return false;
    *out = (Access){.slot = spot.slot, .offset = spot.offset};
    for (int i = 0, k = 0, kept = 0, dim = 0; i < x->rank; i++) {
        bool gone = k < n->attr->n && n->attr->list[k] == i;
        k += gone;
        if (x->dims[i] != 1) out->stride[order[dim++]] = gone ? 0 : spot.stride[kept];
        kept += !gone;
    }
    return true;
}

static bool add_reduce(Draft *d, const Node *n, int32_t value, const int *order)
{
    Region *r = region_of(d);
    Reduce *reduces =
        plan_grow(d, r->reduces, r->n_reduces, &d->open->cap_reduces, sizeof *reduces);
    if (!reduces) return false;
    r->reduces = reduces;
    reduces[r->n_reduces].value = value;
    reduces[r->n_reduces].op = n->op;
    if (!reduce_access(d, n, order, &reduces[r->n_reduces++].at)) return false;
    return !d->place[n->first] || place_fills(d, d->place[n->first]->parent, d->open->job);
}

/* ---- clusters ---- */

static const Node *node_made(const Draft *d, const Item *it)
{
    return &d->g->nodes[d->g->def[it->value]];
}

static const Type *item_type(const Draft *d, const Item *it)
{
    return &d->g->types[it->kind == ITEM_REDUCE ? node_made(d, it)->x[0] : it->value];
}

static ReduceForm item_form(const Draft *d, const Item *it, int *split)
{
    return region_form(item_type(d, it), node_made(d, it)->attr, split);
}

static bool add_item(Draft *d, const Item *it)
{
    static const int in_order[QB_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const Node *n = node_made(d, it);
    Step *step = &d->open->job->step;
    int32_t value = -1;
    if (n->line) step->file = n->file, step->line = n->line;
    if (it->kind == ITEM_STORE) return add_store(d, it);
    if (it->kind == ITEM_INSTR) return add_instr(d, n, n->first, &value);
    step->region.form = item_form(d, it, &step->region.split);
    return resolve(d, n->x[0], &value) && add_reduce(d, n, value, in_order);
}

/* How many values the item would add as loads, at most. */
static int new_loads(const Draft *d, const Item *it)
{
    const RegionDraft *o = d->open;
    if (it->kind == ITEM_STORE) return 1;
    const Node *n = node_made(d, it);
    int count = 0;
    for (uint32_t k = 0; k < n->n; k++) {
        Id s = d->same[n->x[k]];
        count += s == NO_ID || o->seen[s] != o->number;
    }
    return count;
}

/* Makes sure that a region is open that has room for the item, and whose reductions are of its
   form. */
static bool prepare(Draft *d, const Item *it)
{
    if (d->open->job) {
        const Region *r = region_of(d);
        int split = r->split;
        bool fits = r->n_instrs < MAX_INSTRS && r->n_stores < MAX_COPIES &&
                    r->n_loads + new_loads(d, it) <= MAX_LOADS;
        if (it->kind == ITEM_REDUCE && r->n_reduces)
            fits &= item_form(d, it, &split) == r->form && split == r->split;
        if (fits) return true;
        end(d);
    }
    int64_t dims[QB_MAX_RANK];
    int rank = view_strip(item_type(d, it), dims);
    return begin(d, rank, dims, it->depth) != NULL;
}

bool region_cluster(Draft *d, Item *items, int first)
{
    ReduceForm form =
        REDUCE_NONE; /* of the reductions that stay with the instructions: the first one's */
    int split = 0, other_split;
    bool others = false;
    for (int i = first; i >= 0; i = items[i].next) {
        if (items[i].kind == ITEM_REDUCE) {
            ReduceForm f = item_form(d, &items[i], &other_split);
            if (form == REDUCE_NONE) form = f, split = other_split;
            if (f != form || other_split != split) {
                others = true;
                continue;
            }
        }
        if (!prepare(d, &items[i]) || !add_item(d, &items[i])) return false;
    }
    for (int i = first; others && i >= 0; i = items[i].next) {
        if (items[i].kind != ITEM_REDUCE) continue;
        if (item_form(d, &items[i], &other_split) == form && other_split == split) continue;
        if (!prepare(d, &items[i]) || !add_item(d, &items[i])) return false;
    }
    if (d->open->job) end(d);
    return true;
}

/* ---- regions of their own ---- */

/* The kept dims come first, so that the reduced ones are trailing, in the operand's order. */
bool region_permuted(Draft *d, Id reduce, int depth)
{
    const Node *n = &d->g->nodes[d->g->def[reduce]];
    const Type *t = &d->g->types[n->x[0]];
    int64_t own[QB_MAX_RANK], dims[QB_MAX_RANK], stride[QB_MAX_RANK];
    int order[QB_MAX_RANK] = {0}, rank = view_strip(t, own), to = 0, split = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0, k = 0, dim = 0; i < t->rank; i++) {
            bool gone = k < n->attr->n && n->attr->list[k] == i;
            k += gone;
            if (t->dims[i] == 1) continue;
            if (gone == pass) order[dim] = to, dims[to++] = own[dim];
            dim++;
        }
        if (pass == 0) split = to;
    }
    Region *r = begin(d, rank, dims, depth);
    int32_t value = -1;
    if (!r || !load_value(d, n->x[0], &value)) return false;
    if (!r->loads[value].splat) {
        memcpy(stride, r->loads[value].at.stride, sizeof stride);
        for (int i = 0; i < rank; i++) r->loads[value].at.stride[order[i]] = stride[i];
    }
    r->form = REDUCE_TRAILING;
    r->split = split;
    d->open->job->step.file = n->file;
    d->open->job->step.line = n->line;
    if (!add_reduce(d, n, value, order)) return false;
    end(d);
    return true;
}

int region_fill(Draft *d, Id pad)
{
    const Type *t = &d->g->types[pad];
    const Node *n = &d->g->nodes[d->g->def[pad]];
    int64_t dims[QB_MAX_RANK];
    int rank = view_strip(t, dims);
    int job = d->n_jobs;
    Region *r = begin(d, rank, dims, d->depth[pad]);
    Load zero = {.dtype = t->dtype, .splat = true, .at.slot = -1};
    Spot spot;
    int32_t value = -1;
    if (!r || !place_spot(d, pad, &spot) || !add_load(d, &zero, &value)) return -1;
    r->stores = plan_grow(d, NULL, 0, &d->open->cap_stores, sizeof *r->stores);
    if (!r->stores) return -1;
    r->stores[r->n_stores++].value = value;
    place_access(t, &spot, &r->stores[0].at);
    d->open->job->fill = true;
    d->open->job->step.file = n->file;
    d->open->job->step.line = n->line;
    end(d);
    return job;
}
