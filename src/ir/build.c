/* build.c: short builders for rules and passes. Each is one emit or a few; what changes nothing returns its operand. */
#include "ir/ir.h"

/* The value as t's dtype holds it. */
static double rounded(int dtype, double value)
{
    if (dtype == QB_F32) return (double)(float)value;
    if (dtype == QB_BOOL) return value != 0; /* NaN is true */
    return value;
}

static Attr typed(const Type *t)
{
    Attr a = {.i = t->dtype, .start = t->weak != 0, .n = t->rank};
    for (int i = 0; i < t->rank && t->rank <= QB_MAX_RANK; i++) a.list[i] = t->dims[i];
    return a;
}

static Val emit1(Op op, Val x, const Attr *a)
{
    return val_none(x) ? NONE : graph_emit(x.graph, op, &x, 1, a);
}

static Val shaped(Op op, Val x, int rank, const int64_t *dims)
{
    if (rank < 0 || rank > QB_MAX_RANK)
        return fail(x.graph, QB_ESHAPE, "%s: more than %d axes", op_table[op].name, QB_MAX_RANK),
               NONE;
    Attr a = {.n = rank};
    for (int i = 0; i < rank; i++) a.list[i] = dims[i];
    return emit1(op, x, &a);
}

static bool has_shape(Val x, int rank, const int64_t *dims)
{
    const Type *t = type_of(x);
    if (t->rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (t->dims[i] != dims[i]) return false;
    return true;
}

/* ---- constants ---- */

Val gconst(Graph *g, const Type *t, double value)
{
    Attr a = typed(t);
    a.f = rounded(t->dtype, value);
    return graph_emit(g, OP_constant, NULL, 0, &a);
}

Val gdense(Graph *g, const Type *t, qb_buffer *data)
{
    Attr a = typed(t);
    a.buffer = data;
    return graph_emit(g, OP_constant, NULL, 0, &a);
}

Val glike(Val x, double value) { return val_none(x) ? NONE : gconst(x.graph, type_of(x), value); }

Val gzeros(Val x) { return glike(x, 0); }

/* ---- elementwise ---- */

Val gplus(double c, Val x) { return gadd(glike(x, c), x); }

Val gminus(double c, Val x) { return gsub(glike(x, c), x); }

Val gtimes(double c, Val x) { return gmul(glike(x, c), x); }

Val grecip(Val x) { return gdiv(glike(x, 1), x); }

Val gtrunc(Val x)
{
    Val negative = gless(x, gzeros(x)), up = gceil(x);
    return gwhere(negative, up, gfloor(x));
}

Val gpowi(Val x, int64_t n) { return emit1(OP_powi, x, &(Attr){.i = n}); }

Val gcast(Val x, int dtype)
{
    if (val_none(x) || type_of(x)->dtype == dtype) return x;
    return emit1(OP_cast, x, &(Attr){.i = dtype});
}

Val gcast_like(Val x, Val like)
{
    if (val_none(x) || val_none(like)) return NONE;
    const Type *t = type_of(x), *to = type_of(like);
    if (t->dtype == to->dtype && t->weak == to->weak) return x;
    return emit1(OP_cast, x, &(Attr){.i = to->dtype, .start = to->weak});
}

Val gafter(Val x, Val y)
{
    if (val_none(x) || val_none(y) || const_node(x) || const_node(y)) return x;
    return graph_emit(x.graph, OP_after, (Val[]){x, y}, 2, NULL);
}

Val ginstead(Val x, Val y)
{
    if (val_none(x) || val_none(y) || val_same(x, y)) return x;
    return graph_emit(x.graph, OP_instead, (Val[]){x, y}, 2, NULL);
}

Val gstop_gradient(Val x) { return emit1(OP_stop_gradient, x, NULL); }

Val gwhere(Val mask, Val a, Val b)
{
    if (val_none(mask) || val_none(a) || val_none(b)) return NONE;
    return graph_emit(mask.graph, OP_where, (Val[]){mask, a, b}, 3, NULL);
}

Val gselect0(Val mask, Val a) { return gwhere(mask, a, gzeros(a)); }

Val gmax2(Val x, Val y)
{
    Val above = ggreater(x, y);
    return gwhere(glogical_or(above, gnot_equal(x, x)), x, y);
}

Val gaccumulate(Val a, Val b)
{
    if (val_none(a)) return b;
    return val_none(b) ? a : gadd(a, b);
}

/* ---- shapes ---- */

Val gbroadcast(Val x, int rank, const int64_t *dims)
{
    return val_none(x) || has_shape(x, rank, dims) ? x : shaped(OP_broadcast, x, rank, dims);
}

Val greshape(Val x, int rank, const int64_t *dims)
{
    return val_none(x) || has_shape(x, rank, dims) ? x : shaped(OP_reshape, x, rank, dims);
}

Val gexpand(Val x, Val like)
{
    if (val_none(x) || val_none(like)) return NONE;
    Type t = *type_of(x), to = *type_of(like);
    if (type_same_shape(&t, &to)) return x;
    int more = to.rank - t.rank;
    if (more > 0) {
        int64_t dims[QB_MAX_RANK];
        for (int i = 0; i < to.rank; i++) dims[i] = i < more ? 1 : t.dims[i - more];
        x = greshape(x, to.rank, dims);
    }
    return gbroadcast(x, to.rank, to.dims);
}

Val gtranspose(Val x, const int64_t *axes)
{
    if (val_none(x)) return NONE;
    Attr a = {.n = type_of(x)->rank};
    bool same = true;
    for (int i = 0; i < a.n; i++) {
        a.list[i] = axes[i];
        same &= axes[i] == i;
    }
    return same ? x : emit1(OP_transpose, x, &a);
}

Val gmove_axis(Val x, int from, int to)
{
    if (val_none(x)) return NONE;
    int64_t axes[QB_MAX_RANK];
    int rank = type_of(x)->rank;
    for (int i = 0, k = 0; i < rank; i++) {
        if (k == from) k++;
        axes[i] = i == to ? from : k++;
    }
    return gtranspose(x, axes);
}

Val gswap_last(Val x)
{
    if (val_none(x)) return NONE;
    int rank = type_of(x)->rank;
    if (rank < 2)
        return fail(x.graph, QB_EBUG, "transpose of the last two axes of %s",
                    TYPE_TEXT(type_of(x))),
               NONE;
    return gmove_axis(x, rank - 1, rank - 2);
}

/* The step of a single element says nothing, so it is 1: equal slices are equal nodes. */
Val gslice(Val x, int axis, int64_t start, int64_t length, int64_t step)
{
    if (length == 1) step = 1;
    return emit1(OP_slice, x, &(Attr){.i = axis, .start = start, .length = length, .step = step});
}

Val gpad_slice(Val x, int axis, int64_t start, int64_t total, int64_t step)
{
    if (val_none(x)) return NONE;
    if (axis >= 0 && axis < type_of(x)->rank && type_of(x)->dims[axis] == 1) step = 1;
    return emit1(OP_pad_slice, x,
                 &(Attr){.i = axis, .start = start, .length = total, .step = step});
}

Val gconcat(Graph *g, const Val *x, int n, int axis)
{
    if (!g) return NONE; /* taken from a value that is none */
    return graph_emit(g, OP_concat, x, n, &(Attr){.i = axis});
}

/* ---- indices and running sums ---- */

Val ggather(Val x, int axis, qb_buffer *indices)
{
    return emit1(OP_gather, x, &(Attr){.i = axis, .buffer = indices});
}

Val gscatter_add(Val x, Val updates, int axis, qb_buffer *indices)
{
    if (val_none(x) || val_none(updates)) return NONE;
    return graph_emit(x.graph, OP_scatter_add, (Val[]){x, updates}, 2,
                      &(Attr){.i = axis, .buffer = indices});
}

Val gcumsum(Val x, int axis, bool reverse)
{
    return emit1(OP_cumsum, x, &(Attr){.i = axis, .start = reverse});
}

/* ---- reductions and products ---- */

Val greduce(Op op, Val x, const int64_t *axes, int n)
{
    if (n == 0) return x;
    if (n < 0 || n > QB_MAX_RANK)
        return fail(x.graph, QB_EBUG, "%s: %d axes", op_table[op].name, n), NONE;
    Attr a = {.n = n};
    for (int i = 0; i < n; i++) a.list[i] = axes[i];
    return emit1(op, x, &a);
}

Val gsum(Val x, const int64_t *axes, int n) { return greduce(OP_sum, x, axes, n); }

Val gmatmul(Val x, Val y)
{
    if (val_none(x) || val_none(y)) return NONE;
    return graph_emit(x.graph, OP_matmul, (Val[]){x, y}, 2, NULL);
}
