/* fold.c: what emit need not append. Three parts: constants are computed, identities give an operand back, and a few pairs of
   shape ops become one.

   The law: a fold changes no bit of any result, NaN payloads and the sign of zero included. So x*0 and x+0 stay (NaN, -0.0),
   and so does x*(-1): it keeps the sign of a NaN, neg turns it. Constants are computed by value.c, which every backend equals.
   An identity must give the type back too: a strong result never folds to a weak operand. */
#include "ir/ir.h"

enum {
    DENSE_LIMIT = 4096
}; /* elements of a dense constant that emit computes; larger ones wait for simplify */

bool const_node(Val v) { return !val_none(v) && node_of(v)->op == OP_constant; }

bool const_splat(Val v, double *value)
{
    if (!const_node(v) || node_of(v)->attr->buffer) return false;
    *value = node_of(v)->attr->f;
    return true;
}

/* Is every element of v this constant, its sign of zero included? */
static bool is(Val v, double c)
{
    double d;
    return const_splat(v, &d) && memcmp(&d, &c, sizeof d) == 0;
}

static bool is_op(Val v, Op op) { return node_of(v)->op == op; }
static Val operand(Val v, int i) { return graph_val(v.graph, node_of(v)->x[i]); }
static Val keep(Val v, const Type *out) { return type_exact(type_of(v), out) ? v : NONE; }

/* ---- constants ---- */

/* The one value in every element of data, as a constant's attribute holds it. */
static bool uniform(const Type *t, const void *data, double *value)
{
    int64_t elem = type_elem(t->dtype), bytes = type_bytes(t);
    if (memcmp(data, (const char *)data + elem, (size_t)(bytes - elem)) != 0) return false;
    if (t->dtype == QB_F64)
        *value = *(const double *)data;
    else if (t->dtype == QB_F32)
        *value = *(const float *)data;
    else
        *value = *(const unsigned char *)data != 0;
    return true;
}

/* Row-major data of a constant; a splat is written out into *room, which the caller frees. NULL: no memory. */
static const void *data_of(Val v, void **room)
{
    const Attr *a = node_of(v)->attr;
    if (a->buffer) return a->buffer->data;
    const Type *t = type_of(v);
    int64_t n = type_size(t);
    char *p = *room = mem_alloc((size_t)type_bytes(t));
    for (int64_t i = 0; p && i < n; i++) {
        if (t->dtype == QB_F64)
            ((double *)p)[i] = a->f;
        else if (t->dtype == QB_F32)
            ((float *)p)[i] = (float)a->f;
        else
            p[i] = a->f != 0;
    }
    return p;
}

/* Elementwise on splats: one element is computed, as rank 0. */
static Val splat_op(Graph *g, Op op, const Val *x, int n, const Attr *attr, const Type *out)
{
    Type types[3], one = type_make(out->dtype, 0, NULL);
    double value = 0, data[3] = {0}, result = 0;
    const void *p[3];
    void *to = &result;
    for (int i = 0; i < n; i++) {
        const_splat(x[i], &value);
        types[i] = type_make(type_of(x[i])->dtype, 0, NULL);
        if (types[i].dtype == QB_F64)
            memcpy(&data[i], &value, sizeof value);
        else if (types[i].dtype == QB_F32)
            memcpy(&data[i], &(float){(float)value}, sizeof(float));
        else
            memcpy(&data[i], &(unsigned char){value != 0}, 1);
        p[i] = &data[i];
    }
    if (!value_op(op, attr, n, types, &one, p, &to, &g->error)) return NONE;
    uniform(&one, &result, &value);
    return gconst(g, out, value);
}

/* Any op on small constants, dense or splat. */
static Val dense_op(Graph *g, Op op, const Val *x, int n, const Attr *attr, const Type *out)
{
    const void **p = mem_zeroed((size_t)n, 2 * sizeof *p + sizeof(Type));
    void **room = p ? (void **)(p + n) : NULL;
    Type *types = p ? (Type *)(room + n) : NULL;
    qb_buffer *b = p ? qb_buffer_new(type_bytes(out), &g->error) : NULL;
    Val v = NONE;
    bool ok = b != NULL;
    for (int i = 0; ok && i < n; i++) {
        types[i] = *type_of(x[i]);
        ok = (p[i] = data_of(x[i], &room[i])) != NULL;
    }
    if (!ok)
        fail(g, QB_EMEMORY, "out of memory for the constant %s", TYPE_TEXT(out));
    else if (value_op(op, attr, n, types, out, p, &b->data, &g->error))
        v = gdense(g, out, b);
    for (int i = 0; p && i < n; i++) mem_free(room[i]);
    mem_free(p);
    qb_buffer_release(b);
    return v;
}

/* Moving the elements of a splat moves nothing. */
static bool moves(Op op)
{
    return op == OP_broadcast || op == OP_reshape || op == OP_transpose || op == OP_slice ||
           op == OP_concat;
}

static bool same_splats(const Val *x, int n)
{
    double first, d;
    if (!const_splat(x[0], &first)) return false;
    for (int i = 1; i < n; i++)
        if (!const_splat(x[i], &d) || memcmp(&d, &first, sizeof d) != 0) return false;
    return true;
}

static Val constants(Graph *g, Op op, const Val *x, int n, const Attr *attr, const Type *out)
{
    double d;
    bool splats = true, small = type_size(out) <= DENSE_LIMIT;
    for (int i = 0; i < n; i++) {
        if (!const_node(x[i])) return NONE;
        splats &= const_splat(x[i], &d);
        small &= type_size(type_of(x[i])) <= DENSE_LIMIT;
    }
    if (splats && op_elementwise(op)) return splat_op(g, op, x, n, attr, out);
    if (moves(op) && same_splats(x, n)) return gconst(g, out, node_of(x[0])->attr->f);
    if (op == OP_pad_slice && is(x[0], 0.0)) return gconst(g, out, 0);
    return small && n > 0 ? dense_op(g, op, x, n, attr, out) : NONE;
}

/* ---- identities ---- */

typedef Val Fold(Graph *g, const Val *x, const Attr *a, const Type *out);
#define FOLD(op)                                                         \
    static Val op##_fold(__attribute__((unused)) Graph *g, const Val *x, \
                         __attribute__((unused)) const Attr *a, const Type *out)

FOLD(add)
{
    if (is(x[1], -0.0)) return keep(x[0], out);
    return is(x[0], -0.0) ? keep(x[1], out) : NONE;
}

FOLD(sub) { return is(x[1], 0.0) ? keep(x[0], out) : NONE; }

FOLD(mul)
{
    if (is(x[1], 1)) return keep(x[0], out);
    return is(x[0], 1) ? keep(x[1], out) : NONE;
}

FOLD(div) { return is(x[1], 1) ? keep(x[0], out) : NONE; }
FOLD(neg) { return is_op(x[0], OP_neg) ? keep(operand(x[0], 0), out) : NONE; }

FOLD(abs)
{
    if (is_op(x[0], OP_abs)) return keep(x[0], out);
    return is_op(x[0], OP_neg) ? gabs(operand(x[0], 0)) : NONE;
}

FOLD(logical_and)
{
    for (int i = 0; i < 2; i++) {
        if (is(x[i], 1) || val_same(x[0], x[1])) return keep(x[1 - i], out);
        if (is(x[i], 0)) return keep(x[i], out);
    }
    return NONE;
}

FOLD(logical_or)
{
    for (int i = 0; i < 2; i++) {
        if (is(x[i], 0) || val_same(x[0], x[1])) return keep(x[1 - i], out);
        if (is(x[i], 1)) return keep(x[i], out);
    }
    return NONE;
}

/* NaN is neither less nor greater_equal, so only these three turn. */
FOLD(logical_not)
{
    if (is_op(x[0], OP_logical_not)) return keep(operand(x[0], 0), out);
    if (is_op(x[0], OP_equal)) return gnot_equal(operand(x[0], 0), operand(x[0], 1));
    return is_op(x[0], OP_not_equal) ? gequal(operand(x[0], 0), operand(x[0], 1)) : NONE;
}

FOLD(powi)
{
    if (a->i == 0) return gconst(g, out, 1);
    return a->i == 1 ? keep(x[0], out) : NONE;
}

/* A widening cast followed by another loses nothing: bool -> f32 -> f64 -> bool. */
FOLD(cast)
{
    if (type_exact(type_of(x[0]), out)) return x[0];
    if (!is_op(x[0], OP_cast)) return NONE;
    Val from = operand(x[0], 0);
    int first = type_of(from)->dtype, middle = type_of(x[0])->dtype;
    bool widening = first == middle || first == QB_BOOL || (first == QB_F32 && middle == QB_F64);
    if (!widening) return NONE;
    if (type_exact(type_of(from), out)) return from;
    return graph_emit(g, OP_cast, &from, 1, a);
}

FOLD(stop_gradient)
{
    return const_node(x[0]) || is_op(x[0], OP_stop_gradient) ? keep(x[0], out) : NONE;
}

/* A branch that chooses by the same mask is chosen already. */
static Val chosen(Val mask, Val v, int side)
{
    return is_op(v, OP_where) && val_same(operand(v, 0), mask) ? operand(v, side) : v;
}

FOLD(where)
{
    double m;
    if (const_splat(x[0], &m)) return keep(m != 0 ? x[1] : x[2], out);
    if (val_same(x[1], x[2])) return keep(x[1], out);
    if (is_op(x[0], OP_logical_not)) return gwhere(operand(x[0], 0), x[2], x[1]);
    Val then = chosen(x[0], x[1], 1), other = chosen(x[0], x[2], 2);
    if (val_same(then, x[1]) && val_same(other, x[2])) return NONE;
    Val v = gwhere(x[0], then, other);
    return val_none(v) ? v : keep(v, out);
}

/* ---- shapes ---- */

FOLD(reshape)
{
    if (is_op(x[0], OP_reshape)) return greshape(operand(x[0], 0), out->rank, out->dims);
    return keep(x[0], out);
}

FOLD(broadcast)
{
    if (is_op(x[0], OP_broadcast)) return gbroadcast(operand(x[0], 0), out->rank, out->dims);
    return keep(x[0], out);
}

FOLD(transpose)
{
    bool same = true;
    for (int i = 0; i < a->n; i++) same &= a->list[i] == i;
    if (same) return keep(x[0], out);
    if (!is_op(x[0], OP_transpose)) return NONE;
    int64_t axes[QB_MAX_RANK];
    for (int i = 0; i < a->n; i++) axes[i] = node_of(x[0])->attr->list[a->list[i]];
    return gtranspose(operand(x[0], 0), axes);
}

/* A slice that lies in one part of a concat is a slice of that part. */
static Val slice_of_concat(Val v, const Attr *a)
{
    const Node *n = node_of(v);
    if (n->attr->i != a->i) return NONE;
    int64_t last = a->start + (a->length - 1) * a->step;
    int64_t low = last < a->start ? last : a->start, high = last < a->start ? a->start : last,
            from = 0;
    for (uint32_t k = 0; k < n->n; k++) {
        Val part = graph_val(v.graph, n->x[k]);
        int64_t to = from + type_of(part)->dims[a->i];
        if (low >= from && high < to)
            return gslice(part, (int)a->i, a->start - from, a->length, a->step);
        if (low < to) return NONE;
        from = to;
    }
    return NONE;
}

FOLD(slice)
{
    if (a->start == 0 && a->step == 1 && type_exact(type_of(x[0]), out)) return x[0];
    const Attr *b = node_of(x[0])->attr;
    if (is_op(x[0], OP_concat)) return slice_of_concat(x[0], a);
    if (is_op(x[0], OP_slice) && b->i == a->i)
        return gslice(operand(x[0], 0), (int)a->i, b->start + a->start * b->step, a->length,
                      a->step * b->step);
    if (is_op(x[0], OP_pad_slice) && b->i == a->i && b->start == a->start && b->step == a->step)
        return keep(operand(x[0], 0), out);
    return NONE;
}

FOLD(pad_slice) { return a->start == 0 && a->step == 1 ? keep(x[0], out) : NONE; }

/* A sum of one element is that element: the lanes of plan.h start from -0.0. So is a mean. Of several, it is a sum. */
FOLD(sum)
{
    for (int i = 0; i < a->n; i++)
        if (type_of(x[0])->dims[a->list[i]] != 1) return NONE;
    return greshape(x[0], out->rank, out->dims);
}

FOLD(concat) { return keep(x[0], out); } /* of a single operand: others make the result longer */

static Fold *const folds[OP_COUNT] = {
    [OP_add] = add_fold,
    [OP_sub] = sub_fold,
    [OP_mul] = mul_fold,
    [OP_div] = div_fold,
    [OP_neg] = neg_fold,
    [OP_abs] = abs_fold,
    [OP_logical_and] = logical_and_fold,
    [OP_logical_or] = logical_or_fold,
    [OP_logical_not] = logical_not_fold,
    [OP_powi] = powi_fold,
    [OP_cast] = cast_fold,
    [OP_stop_gradient] = stop_gradient_fold,
    [OP_where] = where_fold,
    [OP_reshape] = reshape_fold,
    [OP_broadcast] = broadcast_fold,
    [OP_transpose] = transpose_fold,
    [OP_slice] = slice_fold,
    [OP_pad_slice] = pad_slice_fold,
    [OP_sum] = sum_fold,
    [OP_mean] = sum_fold,
    [OP_concat] = concat_fold,
};

Val fold_emit(Graph *g, Op op, const Val *x, int n, const Attr *attr, const Type *out)
{
    double d;
    if (op == OP_constant)
        return attr->buffer && uniform(out, attr->buffer->data, &d) ? gconst(g, out, d) : NONE;
    Val v = constants(g, op, x, n, attr, out);
    if (!val_none(v) || graph_failed(g)) return v;
    if (folds[op]) v = folds[op](g, x, attr, out);
    if (!val_none(v) || graph_failed(g) || !op_rules[op] || !op_rules[op]->fold) return v;
    uint32_t few[4];
    Node node = {.op = (uint8_t)op,
                 .results = 1,
                 .scope = g->scope,
                 .n = (uint32_t)n,
                 .x = few,
                 .attr = attr};
    if (n > 4) return NONE;
    for (int i = 0; i < n; i++) few[i] = x[i].id;
    return op_rules[op]->fold(g, &node, x);
}
