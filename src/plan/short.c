/* short.c: reductions over a few elements become elementwise work on slices, which are views. So the transpose of a broadcast
   over three directions, as Hessians have them, is two additions of long rows, not a sum over short ones. Distances of all pairs
   of points, (x[:, None] - y[None]) ** 2 summed over the last axis, are computed coordinate by coordinate.

   The order contract (plan.h) says which additions: with at most 8 elements each lane has one, and the fixed tree adds the
   lanes that there are, for -0.0, which the others hold, changes nothing. */
#include "plan/plan.h"

/* Fewer results are not worth it, nor are sums of rows along the last axis, which are fast as they are, but for values that are
   SPREAD times as many as those that they come from, by a few cheap operations. */
enum { RESULTS = 64, INNER = 8, SPREAD = 8, DEPTH = 4 };

/* The reduced axes: how many elements go to one result, how many results there are and follow each other, their shape. */
typedef struct {
    int64_t count, inner, size;
    int rank;
    int64_t dims[QB_MAX_RANK];
} Reduced;

static Reduced reduced(const Type *t, const Attr *a)
{
    Reduced r = {.count = 1, .inner = 1, .size = 1};
    for (int i = 0, k = 0; i < t->rank; i++)
        if (k < a->n && a->list[k] == i) {
            r.count *= t->dims[i];
            if (t->dims[i] > 1) r.inner = 1;
            k++;
        } else {
            r.dims[r.rank++] = t->dims[i];
            r.inner *= t->dims[i];
            r.size *= t->dims[i];
        }
    return r;
}

/* Element k of the reduced axes in row-major order, for all results. */
static Val element(Val x, const Attr *a, const Reduced *r, int64_t k)
{
    for (int i = a->n - 1; i >= 0; i--) {
        int64_t length = type_of(x)->dims[a->list[i]];
        if (length > 1) x = gslice(x, (int)a->list[i], k % length, 1, 1);
        k /= length;
    }
    return greshape(x, r->rank, r->dims);
}

static bool cheap(const Node *n)
{
    return n->op == OP_add || n->op == OP_sub || n->op == OP_mul || n->op == OP_neg ||
           (n->op == OP_powi && n->attr->i <= 3);
}

/* Does x come from values that are broadcast, by cheap operations alone? */
static bool spread(Val x, int depth)
{
    const Node *n = node_of(x);
    if (n->op == OP_broadcast)
        return type_size(type_of(x)) >= SPREAD * type_size(&x.graph->types[n->x[0]]);
    bool any = false;
    for (uint32_t k = 0; depth && cheap(n) && k < n->n; k++)
        any |= spread(graph_val(x.graph, n->x[k]), depth - 1);
    return any;
}

/* The same as element, by operations on elements of what x is made of. */
static Val part(Val x, const Attr *a, const Reduced *r, int64_t k, int depth)
{
    const Node *n = node_of(x);
    if (!depth || !cheap(n)) return element(x, a, r, k);
    Val y[2];
    for (uint32_t i = 0; i < n->n; i++)
        y[i] = part(graph_val(x.graph, n->x[i]), a, r, k, depth - 1);
    return graph_emit(x.graph, n->op, y, (int)n->n, n->attr);
}

/* The lanes l[0 .. 8) as the tree of the contract; NONE: a lane without an element. */
static Val tree(Val *l, Val (*join)(Val, Val))
{
    for (int half = SUM_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            if (!val_none(l[i + half])) l[i] = join(l[i], l[i + half]);
    return l[0];
}

static Val over(Val x, const Attr *a, const Reduced *r, int depth, int dtype, Val (*join)(Val, Val))
{
    Val lanes[SUM_LANES];
    for (int64_t k = 0; k < SUM_LANES; k++)
        lanes[k] = k < r->count ? gcast(part(x, a, r, k, depth), dtype) : NONE;
    return tree(lanes, join);
}

static Val sum(Val x, const Node *n, const Reduced *r, bool native)
{
    const int dtype = type_of(x)->dtype;
    const int depth = spread(x, DEPTH) ? DEPTH : 0;
    if (r->inner < INNER && !depth) return NONE;
    Val total = over(x, n->attr, r, depth, native ? dtype : QB_F64, gadd);
    if (n->op == OP_mean) total = gdiv(total, glike(total, (double)r->count));
    return gcast(total, dtype);
}

/* Is any of a few truth values set? Masks of cotangents ask that. */
static Val any(Val x, const Node *n, const Reduced *r)
{
    const Node *from = node_of(x);
    if (from->op != OP_cast) return NONE;
    Val mask = graph_val(x.graph, from->x[0]);
    if (type_of(mask)->dtype != QB_BOOL) return NONE;
    return gcast(over(mask, n->attr, r, 0, QB_BOOL, glogical_or), type_of(x)->dtype);
}

/* The largest of one element is that element, but for NaN, which a reduction makes canonical. */
static Val extreme(Val x, const Reduced *r)
{
    Val number = gequal(x, x), nan = glike(x, __builtin_nan(""));
    return greshape(gwhere(number, x, nan), r->rank, r->dims);
}

Val short_reduce(Val x, const Node *n, bool native)
{
    const Reduced r = reduced(type_of(x), n->attr);
    const bool largest = n->op == OP_max || n->op == OP_min;
    if (r.count == 1 && largest) return extreme(x, &r);
    if (r.count < 2 || r.count > SUM_LANES || r.size < RESULTS || n->op == OP_min) return NONE;
    return largest ? any(x, n, &r) : sum(x, n, &r, native);
}
