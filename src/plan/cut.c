/* cut.c: elementwise work on joined arrays is done part by part. A roll is a concat of two slices, the derivative of a slice a
   pad_slice; read by elementwise nodes alone, such a join was written to memory only to be read again. Here the space of those
   nodes is cut where the joins are, and each cell has nodes of its own, which read the parts: views, or zeros. What others read is
   the concat of the cells, and that is no work but stores to parts of one array. A step of a 2-d heat equation with four rolls
   becomes one stencil over the inner part of the grid and eight small ones along its edges.

   A node between joins that nobody else reads is lazy: a cell computes what it needs of it, each element once, or what is cheap
   perhaps again. Values are those of elements, so no bit changes. */
#include "plan/plan.h"
#include "transform/transform.h"

enum {
    MOST_CELLS = 25,      /* of a group: a 5-point stencil has 9, its derivative 25 */
    MOST_CUTS = 16,       /* along an axis */
    MOST_ABOVE = 16,      /* lazy nodes above each other */
    LEAST_CELL = 128,     /* elements of one on average; fewer cost more than the copies took */
    MOST_NODES = 1 << 12, /* nodes times cells that a program may grow by */
};

/* Where a group of nodes is cut: axis i at at[i][0 .. n[i]). */
typedef struct {
    bool off; /* it stays whole */
    int cells;
    int n[QB_MAX_RANK];
    int64_t at[QB_MAX_RANK][MOST_CUTS];
} Grid;
typedef struct {
    int64_t start[QB_MAX_RANK], length[QB_MAX_RANK];
} Box;

typedef struct {
    Walk *w;
    uint32_t *uses; /* per value */
    bool *needs; /* it is in memory: an output, or read by what is neither elementwise nor lazy */
    uint8_t *above; /* how many lazy readers are above each other */
    bool *lazy;     /* it is computed where a cell reads it */
    bool *again;    /* a lazy node above it is read more than once */
    Id *group; /* of an elementwise value that reads joins, or that such values alone read: a value
                    that stands for the group; NO_ID: it is in none */
    Id *readers; /* the group of all readers; NO_ID: there is no such one */
    Grid **grid; /* of a value that stands for a group */
    Val **cells; /* of a value in a group */
} Cut;

static const Node *def(const Cut *c, Id v) { return &c->w->src->nodes[c->w->src->def[v]]; }
static const Type *type_at(const Cut *c, Id v) { return &c->w->src->types[v]; }

/* ---- which nodes ---- */

static bool joins(const Node *n)
{
    return n->op == OP_concat || (n->op == OP_pad_slice && n->attr->step == 1);
}

static bool elementwise(const Node *n) { return op_elementwise(n->op) && n->n > 0; }

static bool cheap(const Node *n) { return op_table[n->op].ulp == 0; }

/* From the last node to the first: a join is lazy when elementwise nodes and lazy joins alone read it, and so is an elementwise
   value that one lazy node reads and nobody else; if that node is read more than once, the value must be cheap. */
static void find_lazy(Cut *c)
{
    const Graph *g = c->w->src;
    for (uint32_t i = 0; i < g->n_outputs; i++) c->needs[g->outputs[i]] = true;
    for (Id i = g->n_nodes; i-- > 0;) {
        const Node *n = &g->nodes[i];
        Id v = n->first;
        if (!c->w->live[i]) continue;
        bool may = joins(n) ||
                   (elementwise(n) && c->uses[v] == 1 && c->above[v] && (!c->again[v] || cheap(n)));
        c->lazy[v] = may && !c->needs[v] && c->above[v] < MOST_ABOVE;
        c->needs[v] |= c->above[v] && !c->lazy[v];
        for (uint32_t k = 0; k < n->n; k++) {
            Id x = n->x[k];
            c->uses[x]++;
            c->needs[x] |= !c->lazy[v] && !elementwise(n);
            if (c->lazy[v] && c->above[x] <= c->above[v]) c->above[x] = c->above[v] + 1;
            c->again[x] |= c->lazy[v] && (c->again[v] || c->uses[v] > 1);
        }
    }
}

static Id find(Cut *c, Id v)
{
    while (c->group[v] != v) v = c->group[v] = c->group[c->group[v]];
    return v;
}

/* A value that is in memory anyway is read from there, unless its reader is cut for other reasons. */
static bool reads_joins(const Cut *c, const Node *n)
{
    for (uint32_t k = 0; k < n->n; k++) {
        Id x = n->x[k];
        if (c->lazy[x] || (c->group[x] != NO_ID && !c->needs[x])) return true;
    }
    return false;
}

static void find_groups(Cut *c)
{
    const Graph *g = c->w->src;
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        Id v = n->first;
        if (!c->w->live[i] || !elementwise(n) || c->lazy[v] || !reads_joins(c, n)) continue;
        c->group[v] = v;
        for (uint32_t k = 0; k < n->n; k++)
            if (c->group[n->x[k]] != NO_ID) c->group[find(c, n->x[k])] = v;
    }
}

/* What one group alone reads belongs to it. */
static void find_inputs(Cut *c)
{
    const Graph *g = c->w->src;
    memset(c->uses, 0, g->n_values * sizeof *c->uses); /* readers seen so far */
    for (Id i = g->n_nodes; i-- > 0;) {
        const Node *n = &g->nodes[i];
        Id v = n->first;
        if (!c->w->live[i] || !elementwise(n)) continue;
        if (c->group[v] == NO_ID && !c->lazy[v] && !c->needs[v]) c->group[v] = c->readers[v];
        Id group = c->group[v] == NO_ID ? NO_ID : find(c, v);
        for (uint32_t k = 0; k < n->n; k++) {
            Id x = n->x[k];
            c->readers[x] = c->uses[x]++ == 0 || c->readers[x] == group ? group : NO_ID;
        }
    }
}

/* ---- where they are cut ---- */

static void cut_at(Grid *grid, int axis, int64_t at, int64_t end)
{
    int i = grid->n[axis];
    int64_t *list = grid->at[axis];
    for (int k = 0; k < i; k++)
        if (list[k] == at) return;
    if (at <= 0 || at >= end) return;
    if (i == MOST_CUTS) {
        grid->off = true;
        return;
    }
    for (; i > 0 && list[i - 1] > at; i--) list[i] = list[i - 1];
    list[i] = at;
    grid->n[axis]++;
}

/* The cuts of the joins in v, element 0 of which is at `from` of a group of type t. */
static void cut_joins(const Cut *c, Grid *grid, Id v, const Type *t, int64_t *from)
{
    const Node *n = def(c, v);
    if (!c->lazy[v] || grid->off) return;
    if (!joins(n)) {
        for (uint32_t k = 0; k < n->n; k++) cut_joins(c, grid, n->x[k], t, from);
        return;
    }
    const int axis = (int)n->attr->i;
    const int64_t old = from[axis], end = t->dims[axis];
    if (n->op == OP_pad_slice) from[axis] += n->attr->start;
    for (uint32_t k = 0; k < n->n; k++) {
        cut_at(grid, axis, from[axis], end);
        cut_joins(c, grid, n->x[k], t, from);
        from[axis] += type_at(c, n->x[k])->dims[axis];
        cut_at(grid, axis, from[axis], end);
    }
    from[axis] = old;
}

static bool cut_groups(Cut *c)
{
    const Graph *g = c->w->src;
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (c->group[n->first] == NO_ID) continue;
        Grid **grid = &c->grid[find(c, n->first)];
        if (!*grid) *grid = walk_alloc(c->w, 1, sizeof **grid);
        if (!*grid) return false;
        int64_t from[QB_MAX_RANK] = {0};
        for (uint32_t k = 0; k < n->n; k++)
            cut_joins(c, *grid, n->x[k], type_at(c, n->first), from);
    }
    return true;
}

/* Elements along an axis of its longest part. */
static int64_t longest(const Grid *grid, int axis, int64_t end)
{
    int64_t most = 0, from = 0;
    for (int k = 0; k <= grid->n[axis]; k++) {
        int64_t to = k < grid->n[axis] ? grid->at[axis][k] : end;
        if (to - from > most) most = to - from;
        from = to;
    }
    return most;
}

/* Cells may have any size where each is a piece of memory; else most of the work is to be in one, with long rows. */
static bool worth_it(Grid *grid, const Type *t)
{
    int64_t most = 1, size = type_size(t);
    int first = 0;
    bool along_first = true;
    while (first < t->rank && t->dims[first] == 1) first++;
    grid->cells = 1;
    for (int i = 0; i < t->rank; i++) {
        grid->cells *= grid->n[i] + 1;
        most *= longest(grid, i, t->dims[i]);
        along_first &= i == first || grid->n[i] == 0;
        if (grid->cells > MOST_CELLS) return false;
    }
    return grid->cells > 1 && size >= (int64_t)LEAST_CELL * grid->cells &&
           (along_first || most >= size / 4 * 3);
}

/* Groups that are cut; false: none is. */
static bool choose(Cut *c)
{
    const Graph *g = c->w->src;
    int64_t nodes = 0;
    bool any = false;
    for (Id v = 0; v < g->n_values; v++) {
        Grid *grid = c->grid[v];
        if (grid) grid->off = grid->off || !worth_it(grid, type_at(c, v));
    }
    for (Id v = 0; v < g->n_values; v++) {
        if (c->group[v] != NO_ID && !c->grid[find(c, v)]->off) nodes += c->grid[find(c, v)]->cells;
        if (c->lazy[v]) nodes += MOST_CELLS;
    }
    for (Id v = 0; v < g->n_values; v++) {
        if (c->group[v] == NO_ID) continue;
        c->group[v] = find(c, v);
        if (c->grid[c->group[v]]->off || nodes > MOST_NODES) c->group[v] = NO_ID;
        any |= c->group[v] != NO_ID;
    }
    return any;
}

/* ---- values, whole and in part ---- */

static Val whole(Cut *c, Id v);
static Val emit(Cut *c, const Node *n, Id group, int cell, const Box *b);

/* Node n is copied now, perhaps later than its place in the program. */
static void copy(Cut *c, const Node *n)
{
    for (uint32_t k = 0; k < n->n; k++) whole(c, n->x[k]);
    walk_visit(c->w, n);
    walk_copy(c->w, n);
}

/* The cells from *next on, of the axes from `axis` on, as one array. */
static Val assemble(Cut *c, const Grid *grid, const Val *cells, int axis, int rank, int *next)
{
    Val part[MOST_CUTS + 1];
    if (axis == rank) return cells[(*next)++];
    for (int k = 0; k <= grid->n[axis]; k++)
        part[k] = assemble(c, grid, cells, axis + 1, rank, next);
    return grid->n[axis] ? gconcat(c->w->dst, part, grid->n[axis] + 1, axis) : part[0];
}

static Val whole(Cut *c, Id v)
{
    Val *z = &c->w->map[v];
    int next = 0;
    if (!val_none(*z)) return *z;
    if (c->group[v] == NO_ID)
        copy(c, def(c, v));
    else
        *z = assemble(c, c->grid[c->group[v]], c->cells[v], 0, type_at(c, v)->rank, &next);
    return *z;
}

static Val slices(Val x, const Box *b)
{
    for (int i = 0; !val_none(x) && i < type_of(x)->rank; i++)
        if (b->length[i] != type_of(x)->dims[i]) x = gslice(x, i, b->start[i], b->length[i], 1);
    return x;
}

/* A box of x that lies in one part of every join on the way, or beside the only one. */
static Val part_of(Cut *c, Id v, Box b)
{
    const Node *n = def(c, v);
    if (!c->lazy[v]) return slices(whole(c, v), &b);
    if (!joins(n)) return emit(c, n, NO_ID, 0, &b);
    const int axis = (int)n->attr->i;
    if (n->op == OP_pad_slice) b.start[axis] -= n->attr->start;
    for (uint32_t k = 0; k < n->n; k++) {
        int64_t length = type_at(c, n->x[k])->dims[axis];
        if (b.start[axis] >= 0 && b.start[axis] < length) return part_of(c, n->x[k], b);
        b.start[axis] -= length;
    }
    Type t = *type_at(c, v);
    memcpy(t.dims, b.length, (size_t)t.rank * sizeof *t.dims);
    return gconst(c->w->dst, &t, 0);
}

/* Elementwise node n on a box; operands of this group are there, in the cell. */
static Val emit(Cut *c, const Node *n, Id group, int cell, const Box *b)
{
    Val x[3];
    for (uint32_t k = 0; k < n->n; k++) {
        Id v = n->x[k];
        x[k] = group != NO_ID && c->group[v] == group ? c->cells[v][cell] : part_of(c, v, *b);
    }
    walk_visit(c->w, n); /* for its place in the user's code */
    return graph_emit(c->w->dst, n->op, x, (int)n->n, n->attr);
}

static Box box_of(const Grid *grid, const Type *t, int cell)
{
    Box b;
    for (int i = t->rank - 1; i >= 0; cell /= grid->n[i--] + 1) {
        int k = cell % (grid->n[i] + 1);
        b.start[i] = k ? grid->at[i][k - 1] : 0;
        b.length[i] = (k < grid->n[i] ? grid->at[i][k] : t->dims[i]) - b.start[i];
    }
    return b;
}

static void make_cells(Cut *c, const Node *n)
{
    Id v = n->first;
    const Grid *grid = c->grid[c->group[v]];
    Val *cells = c->cells[v] = walk_alloc(c->w, (size_t)grid->cells, sizeof *cells);
    for (int i = 0; cells && i < grid->cells; i++) {
        const Box b = box_of(grid, type_at(c, v), i);
        cells[i] = emit(c, n, c->group[v], i, &b);
    }
    if (cells && c->needs[v]) whole(c, v);
}

static void copy_nodes(Cut *c)
{
    const Graph *g = c->w->src;
    for (Id i = 0; i < g->n_nodes && !graph_failed(c->w->dst); i++) {
        const Node *n = &g->nodes[i];
        Id v = n->first;
        if (!c->w->live[i] || c->lazy[v]) continue;
        if (c->group[v] == NO_ID)
            copy(c, n);
        else
            make_cells(c, n);
    }
}

/* ---- the pass ---- */

static bool analyse(Cut *c)
{
    const size_t n = c->w->src->n_values;
    c->uses = walk_alloc(c->w, n, sizeof *c->uses);
    c->needs = walk_alloc(c->w, n, sizeof *c->needs);
    c->above = walk_alloc(c->w, n, sizeof *c->above);
    c->lazy = walk_alloc(c->w, n, sizeof *c->lazy);
    c->again = walk_alloc(c->w, n, sizeof *c->again);
    c->group = walk_alloc(c->w, n, sizeof *c->group);
    c->readers = walk_alloc(c->w, n, sizeof *c->readers);
    c->grid = walk_alloc(c->w, n, sizeof(Grid *));
    c->cells = walk_alloc(c->w, n, sizeof(Val *));
    if (graph_failed(c->w->dst)) return false;
    for (size_t v = 0; v < n; v++) c->group[v] = c->readers[v] = NO_ID;
    find_lazy(c);
    find_groups(c);
    find_inputs(c);
    return cut_groups(c) && choose(c);
}

static bool has_joins(const Graph *g)
{
    for (Id i = 0; i < g->n_nodes; i++)
        if (joins(&g->nodes[i]) && type_size(&g->types[g->nodes[i].first]) >= 2 * LEAST_CELL)
            return true;
    return false;
}

static void rewrite(Walk *w, void *arg)
{
    (void)arg;
    Cut c = {.w = w};
    if (!analyse(&c) && !graph_failed(w->dst)) memset(c.lazy, 0, w->src->n_values * sizeof *c.lazy);
    copy_nodes(&c);
}

/* g itself where nothing is joined. */
Graph *cut_run(const Graph *g, qb_error *err)
{
    if (!has_joins(g)) return graph_retain((Graph *)(uintptr_t)g);
    return walk_rewrite(g, rewrite, NULL, err);
}
