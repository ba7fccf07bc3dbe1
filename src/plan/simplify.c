/* simplify.c: rewrites that wait until a program is whole. Emit has folded what it saw; here
   derivatives are done, so markers for them go (stop_gradient, instead, weak flags), larger constants are
   worth computing, and work can move below a broadcast.

   The law is fold.c's: no rewrite changes a bit of any result, NaN payloads and the sign of zero
   included. */
#include "plan/plan.h"

enum {
    DENSE_LIMIT = 1 << 16, /* elements of a constant that is computed here, not in every run */
    WORK_LIMIT = 1 << 20,  /* steps of that computation: scalar code, about 10 ns each */
    VIEWS_LIMIT = 8,       /* views between a constant and its reader */
    SINK_SIZE = 4096,      /* a broadcast this large is worth a step of its own for its source */
    SINK_RATIO = 8         /* which is smaller by this factor at least */
};

static Val operand(Val v, int i) { return graph_val(v.graph, node_of(v)->x[i]); }

/* ---- constants ---- */

/* Scalar steps that computing node n takes; -1 when it overflows. */
static int64_t work_of(const Graph *g, const Node *n)
{
    int64_t work = type_size(&g->types[n->first]);
    for (uint32_t k = 0; k < n->n; k++) {
        int64_t size = type_size(&g->types[n->x[k]]);
        if (size > work) work = size;
    }
    if (n->op != OP_matmul) return work;
    const Type *a = &g->types[n->x[0]];
    return mem_mul(type_size(&g->types[n->first]), a->dims[a->rank - 1], &work) ? work : -1;
}

static bool is_view(int op)
{
    return op == OP_broadcast || op == OP_reshape || op == OP_transpose || op == OP_slice;
}

/* A constant, or a view of one within a few steps. */
static bool is_constant(Val v)
{
    for (int i = 0; i < VIEWS_LIMIT && is_view(node_of(v)->op); i++) v = operand(v, 0);
    return node_of(v)->op == OP_constant;
}

static bool all_constant(const Node *n, const Val *map)
{
    for (uint32_t k = 0; k < n->n; k++)
        if (!is_constant(map[n->x[k]])) return false;
    return n->n > 0;
}

/* Row-major data of such a value; a splat and a view are written out. */
static qb_buffer *data_of(Val v, qb_error *err)
{
    const Node *n = node_of(v);
    if (n->attr->buffer) return qb_buffer_retain(n->attr->buffer);
    qb_buffer *x = n->n ? data_of(operand(v, 0), err) : NULL;
    if (n->n && !x) return NULL;
    qb_buffer *b = qb_buffer_new(type_bytes(type_of(v)), err);
    const void *from = x ? x->data : NULL;
    void *to = b ? b->data : NULL;
    bool ok = b && value_node(v.graph, n, &from, &to, err);
    qb_buffer_release(x);
    if (ok) return b;
    qb_buffer_release(b);
    return NULL;
}

static Val compute(Graph *g, const Graph *from, const Node *n, const Val *map)
{
    const Type *t = &from->types[n->first];
    qb_buffer **x = mem_zeroed(n->n, sizeof *x + sizeof(void *));
    const void **p = x ? (const void **)(x + n->n) : NULL;
    qb_buffer *out = x ? qb_buffer_new(type_bytes(t), &g->error) : NULL;
    bool ok = out != NULL;
    for (uint32_t k = 0; ok && k < n->n; k++) {
        x[k] = data_of(map[n->x[k]], &g->error);
        ok = x[k] != NULL;
        if (ok) p[k] = x[k]->data;
    }
    Val v = NONE;
    if (!ok)
        fail(g, QB_EMEMORY, "out of memory for a constant of %s", TYPE_TEXT(t));
    else if (value_node(from, n, p, &out->data, &g->error))
        v = gdense(g, t, out);
    for (uint32_t k = 0; x && k < n->n; k++) qb_buffer_release(x[k]);
    mem_free(x);
    qb_buffer_release(out);
    return v;
}

/* Views of constants stay views: they cost nothing, and a broadcast would only make the constant
   larger. */
static bool worth_computing(const Graph *g, const Node *n)
{
    if (is_view(n->op)) return false;
    int64_t work = work_of(g, n);
    return type_size(&g->types[n->first]) <= DENSE_LIMIT && work >= 0 && work <= WORK_LIMIT;
}

/* ---- elementwise work below a broadcast: f(broadcast(x)) is broadcast(f(x)) ---- */

/* The shape that all operands are broadcast from; NULL when there is none or little to win. */
static const Type *source_shape(const Type *t, const Node *n, const Val *map)
{
    double c;
    const Type *s = NULL;
    int64_t size = type_size(t);
    if (size < SINK_SIZE) return NULL;
    for (uint32_t k = 0; k < n->n; k++) {
        Val x = map[n->x[k]];
        if (const_splat(x, &c)) continue;
        if (node_of(x)->op != OP_broadcast) return NULL;
        const Type *from = type_of(operand(x, 0));
        if (s && !type_same_shape(s, from)) return NULL;
        s = from;
    }
    return s && type_size(s) <= size / SINK_RATIO ? s : NULL;
}

static Val sink(Graph *g, const Graph *from, const Node *n, const Val *map)
{
    const Type *t = &from->types[n->first];
    const Type *s = source_shape(t, n, map);
    if (!s) return NONE;
    Type shape = *s;
    Val x[3];
    for (uint32_t k = 0; k < n->n; k++) {
        double c;
        Val v = map[n->x[k]];
        if (const_splat(v, &c)) {
            shape.dtype = type_of(v)->dtype;
            shape.weak = type_of(v)->weak;
            x[k] = gconst(g, &shape, c);
        } else {
            x[k] = operand(v, 0);
        }
    }
    Val v = graph_emit(g, n->op, x, (int)n->n, n->attr);
    return gbroadcast(v, t->rank, t->dims);
}

/* ---- one op at a time; NONE: nothing to do ---- */

/* A marker for derivatives. */
static Val first(const Val *x, const Node *n)
{
    (void)n;
    return x[0];
}

/* Weak or strong is of no account to a plan. */
static Val cast(const Val *x, const Node *n)
{
    return type_of(x[0])->dtype == n->attr->i ? x[0] : NONE;
}

/* (x + x) * -1 is x * -2, as derivatives of squares have it: doubling is exact, and overflows
   where the result does. */
static Val mul(const Val *x, const Node *n)
{
    (void)n;
    for (int i = 0; i < 2; i++) {
        double c;
        const Node *sum = node_of(x[1 - i]);
        if (!const_splat(x[i], &c) || c != -1 || sum->op != OP_add || sum->x[0] != sum->x[1])
            continue;
        Val minus_two = glike(x[i], -2);
        return gmul(operand(x[1 - i], 0), minus_two);
    }
    return NONE;
}

/* A maximum with a number that is no NaN, x > c or x is NaN: x, else c. It is c where x <= c, else x; and so for minima. */
static Val where(const Val *x, const Node *n)
{
    (void)n;
    double c;
    const Node *either = node_of(x[0]);
    if (either->op != OP_logical_or || !const_splat(x[2], &c) || c != c) return NONE;
    for (int i = 0; i < 2; i++) {
        const Node *order = node_of(operand(x[0], i)), *nan = node_of(operand(x[0], 1 - i));
        const Id v = x[1].id;
        bool largest = order->op == OP_greater, smallest = order->op == OP_less;
        if (nan->op != OP_not_equal || nan->x[0] != v || nan->x[1] != v) continue;
        if (!(largest || smallest) || order->x[0] != v || order->x[1] != x[2].id) continue;
        Val beyond = largest ? gless_equal(x[1], x[2]) : ggreater_equal(x[1], x[2]);
        return gwhere(beyond, x[2], x[1]);
    }
    return NONE;
}

/* Moving an axis of length 1 moves no element. */
static Val transpose(const Val *x, const Node *n)
{
    const Type *t = type_of(x[0]);
    int64_t dims[QB_MAX_RANK], last = -1;
    for (int i = 0; i < t->rank; i++) {
        int64_t axis = n->attr->list[i];
        dims[i] = t->dims[axis];
        if (dims[i] == 1) continue;
        if (axis < last) return NONE;
        last = axis;
    }
    return greshape(x[0], t->rank, dims);
}

typedef Val Rewrite(const Val *x, const Node *n);
static Rewrite *const rules[OP_COUNT] = {
    [OP_stop_gradient] = first, [OP_instead] = first, [OP_cast] = cast, [OP_mul] = mul,
    [OP_transpose] = transpose, [OP_where] = where,
};

static bool reduces(int op)
{
    return op == OP_sum || op == OP_mean || op == OP_max || op == OP_min;
}

static Val rewrite_for(Graph *to, const Graph *from, const Node *n, const Val *map, bool native)
{
    Val v = NONE, x[3] = {NONE, NONE, NONE};
    for (uint32_t k = 0; k < n->n; k++) {
        if (val_none(map[n->x[k]])) return NONE;
        if (k < 3) x[k] = map[n->x[k]];
    }
    if (rules[n->op]) v = rules[n->op](x, n);
    if (reduces(n->op)) v = short_reduce(x[0], n, native);
    if (val_none(v) && op_elementwise(n->op)) v = sink(to, from, n, map);
    if (!val_none(v) || graph_failed(to)) return v;
    v = dce_copy(to, from, n, map); /* splats and small constants fold here */
    if (val_none(v) || node_of(v)->op == OP_constant || !all_constant(n, map)) return v;
    return worth_computing(from, n) ? compute(to, from, n, map) : v;
}

static Val rewrite(Graph *to, const Graph *from, const Node *n, const Val *map)
{
    return rewrite_for(to, from, n, map, false);
}

static Val rewrite_native(Graph *to, const Graph *from, const Node *n, const Val *map)
{
    return rewrite_for(to, from, n, map, true);
}

Graph *simplify_run(const Graph *g, qb_error *err) { return dce_rewrite(g, rewrite, err); }
Graph *simplify_native(const Graph *g, qb_error *err)
{
    return dce_rewrite(g, rewrite_native, err);
}
