/* depth.c: when a value can be made. Elementwise nodes of one depth and one shape may share a
   region, because every reading between different regions leads from a smaller depth to a larger
   one: no cycle can arise, whatever is put together.

     depth(n) = max over operands x: depth(x) where n reads x inside a region,
                1 + depth(x) where x must be in memory first, 0 for inputs and constants

   As-soon-as-possible depths put work too early: b1 * m of an Adam step is ready at once and
   waits for the gradient. So a value that is only read at larger depths sinks to the smallest of
   them, unless more values must then be stored than are saved. A value that is still read at
   several depths is stored, or computed again if that costs a few cheap instructions over what
   is in memory anyway. Measured on whole training steps: a 128x6 net with 10,000 points takes
   4 % less time and 420 MB in place of 543; where values fit a cache (64x4 with 1,000 points,
   512 KB each) it takes 2 % more, hence AGAIN_BYTES. */
#include "plan/plan.h"

enum {
    AGAIN_COST = 4,       /* instructions of a value that is computed again; 0 turns it off */
    AGAIN_LOADS = 2,      /* values in memory that they read */
    AGAIN_BYTES = 1 << 19 /* a value this large costs more to keep */
};

/* Who reads an elementwise value inside a region. */
typedef struct {
    uint32_t total, level; /* how many; how many at the value's own depth */
    int32_t first, last;   /* smallest and largest depth */
    bool pinned;           /* copied from its region to somewhere else: it does not sink */
} Readers;

/* ---- what is read how ---- */

static bool find_same(Draft *d)
{
    const Graph *g = d->g;
    d->same = plan_alloc(d, g->n_values, sizeof *d->same);
    if (!d->same) return false;
    for (Id v = 0; v < g->n_values; v++) {
        Id base = NO_ID;
        int64_t a[QB_MAX_RANK], b[QB_MAX_RANK];
        d->same[v] = NO_ID;
        if (d->made[v] != MADE_ELEM && d->made[v] != MADE_VIEW) continue;
        if (!view_whole(d, v, &base) || d->made[base] != MADE_ELEM) continue;
        int rank = view_strip(&g->types[v], a);
        if (rank == view_strip(&g->types[base], b) && memcmp(a, b, (size_t)rank * sizeof *a) == 0)
            d->same[v] = base;
    }
    return true;
}

/* The elementwise value that n reads inside a region when it reads x; NO_ID when x comes from
   memory. */
static Id inside(const Draft *d, const Node *n, Id x)
{
    int split;
    if (d->made[n->first] == MADE_ELEM) return d->same[x];
    if (d->made[n->first] != MADE_REDUCE) return NO_ID;
    return region_form(&d->g->types[x], n->attr, &split) == REDUCE_NONE ? NO_ID : d->same[x];
}

int depth_ready(const Draft *d, Id base)
{
    return d->made[base] <= MADE_SPLAT ? 0 : d->depth[base] + 1;
}

static int depth_part(const Draft *d, const Node *n, Id x)
{
    Id base = view_base(d, x);
    if (d->place[base] && d->place[base]->parent == n->first) return d->depth[base];
    return d->same[x] != NO_ID ? d->depth[d->same[x]] : depth_ready(d, base);
}

/* x is written to memory that is not its own, from its region if it can be, else from its own
   memory. */
static void pin(Draft *d, Id x, Readers *readers)
{
    if (d->same[x] != NO_ID)
        readers[d->same[x]].pinned = true;
    else
        d->stored[view_base(d, x)] = true;
}

/* `after(x, y)`: what reads it does so when y is in memory. Only its depth knows, and the order of the steps follows that. */
static void lift_floor(Draft *d, const Node *n)
{
    int32_t floor = d->floor[n->x[0]];
    if (n->op == OP_after) {
        int ready = depth_ready(d, view_base(d, n->x[1]));
        if (ready > floor) floor = ready;
        if (floor < d->late) d->late = floor;
    }
    d->floor[n->first] = floor;
}

static int depth_of(Draft *d, const Node *n, Readers *readers)
{
    int depth = 0;
    bool joins = d->made[n->first] == MADE_CONCAT || d->made[n->first] == MADE_PAD;
    for (uint32_t k = 0; k < n->n; k++) {
        Id x = n->x[k], s = inside(d, n, x), base = view_base(d, x);
        int ready = s != NO_ID ? d->depth[s] : joins ? depth_part(d, n, x) : depth_ready(d, base);
        bool whole = d->made[n->first] == MADE_LOOP || d->made[n->first] == MADE_CALL;
        if (whole && loop_copies(d, x)) ready++;
        if (d->floor[x] > ready) ready = d->floor[x];
        if (ready > depth) depth = ready;
        if (joins && !d->place[base])
            pin(d, x, readers);
        else if (s == NO_ID)
            d->stored[base] = true;
    }
    return depth;
}

static bool set_depths(Draft *d, Readers *readers)
{
    const Graph *g = d->g;
    d->depth = plan_alloc(d, g->n_values, sizeof *d->depth);
    d->floor = plan_alloc(d, g->n_values, sizeof *d->floor);
    d->stored = plan_alloc(d, g->n_values, sizeof *d->stored);
    d->again = plan_alloc(d, g->n_values, sizeof *d->again);
    d->late = INT32_MAX;
    if (!d->depth || !d->floor || !d->stored || !d->again) return false;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        Id base;
        if (view_whole(d, g->outputs[i], &base) && d->slot[base] == (int32_t)(g->n_inputs + i))
            d->stored[base] = true;
        else
            pin(d, g->outputs[i], readers);
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (d->made[n->first] == MADE_VIEW) lift_floor(d, n);
        if (d->made[n->first] <= MADE_VIEW) continue;
        int depth = depth_of(d, n, readers);
        for (Id r = n->first; r < n->first + n->results; r++) d->depth[r] = depth;
        for (uint32_t k = 0; k < n->n; k++) {
            Id s = inside(d, n, n->x[k]);
            if (s == NO_ID) continue;
            readers[s].total++;
            readers[s].level += d->depth[s] == d->depth[n->first];
        }
    }
    return true;
}

/* ---- sinking ---- */

/* Operands of n that would have to be stored if n left its depth, because somebody there still
   needs them made. */
static int left_behind(const Draft *d, const Node *n, const Readers *readers)
{
    int count = 0;
    for (uint32_t k = 0; k < n->n; k++) {
        Id s = inside(d, n, n->x[k]);
        uint32_t own = 0, before = 0;
        if (s == NO_ID || d->stored[s] || d->depth[s] != d->depth[n->first]) continue;
        for (uint32_t j = 0; j < n->n; j++) {
            bool it = inside(d, n, n->x[j]) == s;
            own += it;
            before += it && j < k;
        }
        count += before == 0 && readers[s].level > own && readers[s].total == readers[s].level;
    }
    return count;
}

static void sink(Draft *d, Readers *readers)
{
    const Graph *g = d->g;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const Node *n = &g->nodes[i];
        Id v = n->first;
        if (d->made[v] != MADE_ELEM && d->made[v] != MADE_REDUCE) continue;
        bool move = d->made[v] == MADE_ELEM && !d->stored[v] && !readers[v].pinned &&
                    readers[v].first > d->depth[v] && left_behind(d, n, readers) <= 1;
        int old = d->depth[v];
        if (move) d->depth[v] = readers[v].first;
        for (uint32_t k = 0; k < n->n; k++) {
            Id s = inside(d, n, n->x[k]);
            if (s == NO_ID) continue;
            Readers *r = &readers[s];
            if (move && d->depth[s] == old) r->level--;
            if (d->depth[v] < r->first) r->first = d->depth[v];
            if (d->depth[v] > r->last) r->last = d->depth[v];
        }
    }
}

/* ---- again ---- */

static const bool cheap[OP_COUNT] = {
    [OP_add] = 1,        [OP_sub] = 1,         [OP_mul] = 1,           [OP_neg] = 1,
    [OP_abs] = 1,        [OP_greater] = 1,     [OP_greater_equal] = 1, [OP_less] = 1,
    [OP_less_equal] = 1, [OP_equal] = 1,       [OP_not_equal] = 1,     [OP_logical_and] = 1,
    [OP_logical_or] = 1, [OP_logical_not] = 1, [OP_cast] = 1,          [OP_where] = 1,
};

typedef struct {
    uint8_t cost, leaves;
    Id leaf[AGAIN_LOADS];
} Recipe; /* cost 0: none */

static bool add_leaf(Recipe *r, Id leaf)
{
    for (int i = 0; i < r->leaves; i++)
        if (r->leaf[i] == leaf) return true;
    if (r->leaves == AGAIN_LOADS) return false;
    r->leaf[r->leaves++] = leaf;
    return true;
}

/* What it takes to compute v from memory; false when that is too much. */
static bool recipe_of(const Draft *d, const Node *n, const Recipe *all, Recipe *r)
{
    int cost = 1;
    if (!cheap[n->op]) return false;
    for (uint32_t k = 0; k < n->n; k++) {
        Id s = d->same[n->x[k]], base = view_base(d, n->x[k]);
        if (d->made[base] == MADE_SPLAT) continue;
        if (s == NO_ID || d->stored[s]) {
            if (!add_leaf(r, s == NO_ID ? base : s)) return false;
            continue;
        }
        if (all[s].cost == 0) return false;
        cost += all[s].cost;
        for (int i = 0; i < all[s].leaves; i++)
            if (!add_leaf(r, all[s].leaf[i])) return false;
    }
    if (cost > AGAIN_COST) return false;
    r->cost = (uint8_t)cost;
    return true;
}

/* From the first node to the last, so that what a recipe reads is decided before it. */
static bool store_or_again(Draft *d, const Readers *readers)
{
    const Graph *g = d->g;
    Recipe *all = plan_alloc(d, g->n_values, sizeof *all);
    if (!all) return false;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        Id v = n->first;
        if (d->made[v] != MADE_ELEM) continue;
        Recipe r = {0};
        if (type_bytes(&g->types[v]) >= AGAIN_BYTES && recipe_of(d, n, all, &r)) all[v] = r;
        d->again[v] = all[v].cost > 0;
        if (readers[v].total > 0 && readers[v].last > d->depth[v] && !d->again[v])
            d->stored[v] = true;
    }
    return true;
}

bool depth_run(Draft *d)
{
    Readers *readers = plan_alloc(d, d->g->n_values, sizeof *readers);
    if (!readers) return false;
    for (Id v = 0; v < d->g->n_values; v++) readers[v].first = INT32_MAX;
    if (!find_same(d) || !set_depths(d, readers)) return false;
    sink(d, readers);
    return store_or_again(d, readers);
}
