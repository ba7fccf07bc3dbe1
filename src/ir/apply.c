/* apply.c: an op as a user writes it. Dtypes are promoted, shapes broadcast as NumPy does, axes may be negative; what reaches the
   builders is exact: equal dtypes and shapes, sorted axes, ranges inside their operand. Messages name the op, what it got and
   the way out.

   Promotion: strong floats must agree. Weak values (Python scalars) adopt the strong dtype and are float64 among themselves.
   bool beside a float acts as 0 and 1 of its dtype; beside a weak value it becomes weak float64. */
#include "ir/ir.h"
#include <stdio.h>

#define NAME(op) op_table[op].name
#define SHAPE(t) strchr(TYPE_TEXT(t), '[')

typedef Val Manner(Graph *g, Op op, Val *x, int n, const Attr *a);

/* ---- dtypes ---- */

/* x in another dtype or weakness. A weak constant becomes strong, so that it is the same node as a strong one; other values keep
   their weak flag where the dtype fits, because a cast would be a step for nothing. */
static Val convert(Val x, int dtype, bool weak)
{
    double d;
    const Type *t = type_of(x);
    if (t->dtype == dtype && (t->weak == weak || !const_splat(x, &d))) return x;
    return graph_emit(x.graph, OP_cast, &x, 1, &(Attr){.i = dtype, .start = weak});
}

bool apply_promote(Graph *g, int op, Val *x, int n, bool bools)
{
    int strong = -1, weak = -1, first = 0;
    for (int i = 0; i < n; i++) {
        const Type *t = type_of(x[i]);
        if (!type_floating(t)) continue;
        if (t->weak) {
            weak = t->dtype > weak ? t->dtype : weak;
        } else if (strong < 0) {
            strong = t->dtype;
            first = i;
        } else if (strong != t->dtype) {
            return fail(g, QB_EDTYPE,
                        "%s: %s and %s do not mix (%s with %s); convert one with astype", NAME(op),
                        dtype_name(strong), dtype_name(t->dtype), TYPE_TEXT(type_of(x[first])),
                        TYPE_TEXT(t));
        }
    }
    if (strong < 0 && weak < 0) {
        if (bools) return true;
        if (n == 1)
            return fail(g, QB_EDTYPE, "%s: %s is not floating; convert it with astype", NAME(op),
                        TYPE_TEXT(type_of(x[0])));
        return fail(g, QB_EDTYPE, "%s: %s and %s are not floating; convert one with astype",
                    NAME(op), TYPE_TEXT(type_of(x[0])), TYPE_TEXT(type_of(x[1])));
    }
    for (int i = 0; i < n; i++) x[i] = convert(x[i], strong >= 0 ? strong : weak, strong < 0);
    return !graph_failed(g);
}

Val apply_astype(Val x, int dtype)
{
    if (val_none(x)) return NONE;
    if (dtype < 0 || dtype >= QB_DTYPE_COUNT)
        return fail(x.graph, QB_EDTYPE, "cast: no dtype has the number %d", dtype), NONE;
    if (type_of(x)->dtype == dtype && !type_of(x)->weak) return x;
    return graph_emit(x.graph, OP_cast, &x, 1, &(Attr){.i = dtype});
}

/* ---- shapes ---- */

static void shapes(char *text, size_t size, const Val *x, int n)
{
    size_t used = 0;
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i == 0      ? ""
                                 : i + 1 < n ? ", "
                                             : " and ",
                                 SHAPE(type_of(x[i])));
}

/* The common shape of axes [0, rank - skip) counted from the end; the last `skip` axes are not looked at. */
static bool common(Graph *g, int op, const Val *x, int n, int skip, Type *out)
{
    *out = (Type){0};
    for (int i = 0; i < n; i++)
        if (type_of(x[i])->rank - skip > out->rank)
            out->rank = (uint8_t)(type_of(x[i])->rank - skip);
    for (int k = 1; k <= out->rank; k++) {
        int64_t *d = &out->dims[out->rank - k];
        *d = 1;
        for (int i = 0; i < n; i++) {
            const Type *t = type_of(x[i]);
            int64_t length = t->rank - skip >= k ? t->dims[t->rank - skip - k] : 1;
            if (length == 1 || length == *d) continue;
            if (*d == 1) {
                *d = length;
                continue;
            }
            char text[400] = "";
            shapes(text, sizeof text, x, n);
            return fail(g, QB_ESHAPE, "%s: shapes %s do not broadcast together", NAME(op), text);
        }
    }
    return true;
}

/* `who` opens the message of an error. */
static Val broadcast(const char *who, Val x, int rank, const int64_t *dims)
{
    if (val_none(x)) return NONE;
    if (rank < 0 || rank > QB_MAX_RANK)
        return fail(x.graph, QB_ESHAPE, "%s: more than %d axes", who, QB_MAX_RANK), NONE;
    Type t = *type_of(x), to = type_make(t.dtype, rank, dims);
    int more = rank - t.rank;
    bool fits = more >= 0;
    for (int i = 0; fits && i < t.rank; i++) fits = t.dims[i] == dims[i + more] || t.dims[i] == 1;
    for (int i = 0; fits && i < rank; i++) fits = dims[i] > 0;
    if (!fits)
        return fail(x.graph, QB_ESHAPE, "%s: shape %s does not broadcast to %s", who, SHAPE(&t),
                    SHAPE(&to)),
               NONE;
    int64_t ones[QB_MAX_RANK];
    for (int i = 0; i < rank; i++) ones[i] = i < more ? 1 : t.dims[i - more];
    return gbroadcast(greshape(x, rank, ones), rank, dims);
}

Val apply_broadcast(Val x, int rank, const int64_t *dims)
{
    return broadcast("broadcast", x, rank, dims);
}

bool apply_together(Graph *g, int op, Val *x, int n)
{
    Type t;
    if (!common(g, op, x, n, 0, &t)) return false;
    for (int i = 0; i < n; i++) x[i] = apply_broadcast(x[i], t.rank, t.dims);
    return !graph_failed(g);
}

/* An axis in 0..rank-1 from one that may be negative; -1 and the graph fails when there is none. */
static int axis_of(Graph *g, int op, const Type *t, int64_t axis)
{
    if (axis >= -t->rank && axis < t->rank) return (int)(axis < 0 ? axis + t->rank : axis);
    if (!t->rank)
        fail(g, QB_ESHAPE, "%s: axis %lld; a scalar has no axes", NAME(op), (long long)axis);
    else
        fail(g, QB_ESHAPE, "%s: axis %lld of shape %s; axes go from %d to %d", NAME(op),
             (long long)axis, SHAPE(t), -t->rank, t->rank - 1);
    return -1;
}

int apply_axes(Graph *g, int op, const Type *t, const Attr *a, int64_t *axes)
{
    bool seen[QB_MAX_RANK] = {0};
    int n = a->n < 0 ? t->rank : a->n;
    if (n > t->rank && t->rank)
        return fail(g, QB_ESHAPE, "%s: %d %s for shape %s", NAME(op), n, n == 1 ? "axis" : "axes",
                    SHAPE(t)),
               -1;
    for (int i = 0; i < n; i++) {
        int axis = axis_of(g, op, t, a->n < 0 ? i : a->list[i]);
        if (axis < 0) return -1;
        if (seen[axis])
            return fail(g, QB_ESHAPE, "%s: axis %lld is named twice", NAME(op),
                        (long long)a->list[i]),
                   -1;
        seen[axis] = true;
        axes[i] = axis;
    }
    return n;
}

/* ---- elementwise ---- */

static Val apply_row(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)a;
    const OpRow *r = &op_table[op];
    for (int i = 0; r->in == IN_B && i < n; i++)
        if (type_of(x[i])->dtype != QB_BOOL)
            return fail(g, QB_EDTYPE, "%s: %s is not bool; compare it or convert it with astype",
                        r->name, TYPE_TEXT(type_of(x[i]))),
                   NONE;
    if (r->in != IN_B && !apply_promote(g, op, x, n, r->in == IN_A)) return NONE;
    return apply_together(g, op, x, n) ? graph_emit(g, op, x, n, NULL) : NONE;
}

static Val apply_where(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)a;
    x[0] = gcast(x[0], QB_BOOL);
    if (!apply_promote(g, op, x + 1, 2, true) || !apply_together(g, op, x, n)) return NONE;
    return gwhere(x[0], x[1], x[2]);
}

static Val apply_powi(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    if (a->i < 0)
        return fail(g, QB_EVALUE, "powi: exponent %lld is negative; use pow, or 1 / x",
                    (long long)a->i),
               NONE;
    return apply_promote(g, op, x, n, false) ? gpowi(x[0], a->i) : NONE;
}

static Val apply_cast(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)g, (void)op, (void)n;
    return apply_astype(x[0], a->i < 0 || a->i >= QB_DTYPE_COUNT ? -1 : (int)a->i);
}

static Val apply_stop_gradient(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)g, (void)op, (void)n, (void)a;
    return gstop_gradient(x[0]);
}

/* ---- shape ops ---- */

static Val apply_broadcast_op(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)g, (void)op, (void)n;
    return apply_broadcast(x[0], a->n, a->list);
}

static Val apply_reshape(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)op, (void)n;
    const Type *t = type_of(x[0]);
    if (a->n < 0 || a->n > QB_MAX_RANK)
        return fail(g, QB_ESHAPE, "reshape: at most %d axes", QB_MAX_RANK), NONE;
    Type to = type_make(t->dtype, a->n, a->list);
    int64_t known = 1, size = type_size(t);
    int open = -1;
    bool fits = true;
    for (int i = 0; fits && i < a->n; i++) {
        if (a->list[i] == -1 && open < 0)
            open = i;
        else
            fits = a->list[i] > 0 && mem_mul(known, a->list[i], &known);
    }
    fits = fits && (open < 0 ? known == size : size % known == 0);
    if (!fits)
        return fail(g, QB_ESHAPE, "reshape: shape %s has %lld elements, which do not fill %s",
                    SHAPE(t), (long long)size, SHAPE(&to)),
               NONE;
    if (open >= 0) to.dims[open] = size / known;
    return greshape(x[0], to.rank, to.dims);
}

static Val apply_transpose(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)n;
    const Type *t = type_of(x[0]);
    int64_t axes[QB_MAX_RANK];
    if (a->n >= 0 && a->n != t->rank)
        return fail(g, QB_ESHAPE, "transpose: %d axes for shape %s; name each axis once", a->n,
                    SHAPE(t)),
               NONE;
    if (apply_axes(g, op, t, a, axes) < 0) return NONE;
    for (int i = 0; a->n < 0 && i < t->rank; i++) axes[i] = t->rank - 1 - i;
    return gtranspose(x[0], axes);
}

/* Do `count` places at start + i * step lie in 0..length-1? */
static bool in_range(int64_t start, int64_t count, int64_t step, int64_t length)
{
    int64_t last;
    if (start < 0 || start >= length) return false;
    if (__builtin_mul_overflow(count - 1, step, &last) ||
        __builtin_add_overflow(start, last, &last))
        return false;
    return last >= 0 && last < length;
}

static Val apply_slice(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)n;
    const Type *t = type_of(x[0]);
    int axis = axis_of(g, op, t, a->i);
    if (axis < 0) return NONE;
    if (a->step == 0) return fail(g, QB_EVALUE, "slice: step 0"), NONE;
    if (a->length < 1)
        return fail(g, QB_ESHAPE, "slice: %lld elements along axis %d of %s; at least one",
                    (long long)a->length, axis, SHAPE(t)),
               NONE;
    if (!in_range(a->start, a->length, a->step, t->dims[axis]))
        return fail(g, QB_EINDEX,
                    "slice: %lld elements from %lld by %lld leave axis %d of shape %s",
                    (long long)a->length, (long long)a->start, (long long)a->step, axis, SHAPE(t)),
               NONE;
    return gslice(x[0], axis, a->start, a->length, a->step);
}

static Val apply_pad_slice(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)n;
    const Type *t = type_of(x[0]);
    int axis = axis_of(g, op, t, a->i);
    if (axis < 0) return NONE;
    if (a->step == 0) return fail(g, QB_EVALUE, "pad_slice: step 0"), NONE;
    if (!in_range(a->start, t->dims[axis], a->step, a->length))
        return fail(g, QB_EINDEX,
                    "pad_slice: %s from %lld by %lld along axis %d leaves a length of %lld",
                    SHAPE(t), (long long)a->start, (long long)a->step, axis, (long long)a->length),
               NONE;
    return gpad_slice(x[0], axis, a->start, a->length, a->step);
}

static Val apply_concat(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    if (!apply_promote(g, op, x, n, true)) return NONE;
    const Type *t = type_of(x[0]);
    if (t->rank == 0) return fail(g, QB_ESHAPE, "concat: an operand of shape []; use stack"), NONE;
    int axis = axis_of(g, op, t, a->i);
    if (axis < 0) return NONE;
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        const Type *u = type_of(x[i]);
        bool fits = u->rank == t->rank;
        for (int k = 0; fits && k < t->rank; k++) fits = k == axis || t->dims[k] == u->dims[k];
        if (!fits)
            return fail(g, QB_ESHAPE, "concat: shapes %s and %s differ outside axis %d", SHAPE(t),
                        SHAPE(u), axis),
                   NONE;
        if (__builtin_add_overflow(total, u->dims[axis], &total))
            return fail(g, QB_EMEMORY, "concat: the result is too long"), NONE;
    }
    return gconcat(g, x, n, axis);
}

/* ---- indices and running sums ---- */

/* The indices of a as they stand in a graph: within an axis of n elements, none negative. A new reference; NULL and the graph
   fails. */
static qb_buffer *indices_of(Graph *g, Op op, const Attr *a, int axis, const Type *t)
{
    int64_t count = a->buffer ? a->buffer->bytes / (int64_t)sizeof(int64_t) : 0, n = t->dims[axis];
    if (count < 1) return fail(g, QB_EVALUE, "%s: no indices", NAME(op)), NULL;
    const int64_t *from = a->buffer->data;
    bool negative = false;
    for (int64_t k = 0; k < count; k++) {
        if (from[k] < -n || from[k] >= n)
            return fail(g, QB_EINDEX, "%s: index %lld is out of range for axis %d of shape %s",
                        NAME(op), (long long)from[k], axis, SHAPE(t)),
                   NULL;
        negative |= from[k] < 0;
    }
    if (!negative) return qb_buffer_retain(a->buffer);
    qb_buffer *b = qb_buffer_new(a->buffer->bytes, &g->error);
    for (int64_t k = 0; b && k < count; k++)
        ((int64_t *)b->data)[k] = from[k] < 0 ? from[k] + n : from[k];
    return b;
}

static Val apply_gather(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)n;
    const Type *t = type_of(x[0]);
    int axis = axis_of(g, op, t, a->i);
    qb_buffer *indices = axis < 0 ? NULL : indices_of(g, op, a, axis, t);
    Val v = indices ? ggather(x[0], axis, indices) : NONE;
    qb_buffer_release(indices);
    return v;
}

/* The updates are broadcast to the shape of what they are added to. */
static Val apply_scatter_add(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    if (!apply_promote(g, op, x, n, false)) return NONE;
    Type t = *type_of(x[0]);
    int axis = axis_of(g, op, &t, a->i);
    qb_buffer *indices = axis < 0 ? NULL : indices_of(g, op, a, axis, &t);
    if (!indices) return NONE;
    t.dims[axis] = indices->bytes / (int64_t)sizeof(int64_t);
    Val v =
        gscatter_add(x[0], broadcast("scatter_add: updates", x[1], t.rank, t.dims), axis, indices);
    qb_buffer_release(indices);
    return v;
}

static Val apply_cumsum(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    if (!apply_promote(g, op, x, n, false)) return NONE;
    int axis = axis_of(g, op, type_of(x[0]), a->i);
    return axis < 0 ? NONE : gcumsum(x[0], axis, a->start != 0);
}

/* ---- reductions and products ---- */

static Val apply_reduce(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    if (!apply_promote(g, op, x, n, false)) return NONE;
    Type t = *type_of(x[0]);
    int64_t axes[QB_MAX_RANK], sorted[QB_MAX_RANK];
    int count = apply_axes(g, op, &t, a, axes), used = 0;
    if (count < 0) return NONE;
    bool gone[QB_MAX_RANK] = {0};
    for (int i = 0; i < count; i++) gone[axes[i]] = true;
    for (int i = 0; i < t.rank; i++) {
        if (!gone[i]) continue;
        sorted[used++] = i;
        t.dims[i] = 1;
    }
    Val v = greduce(op, x[0], sorted, used);
    return a->keepdims ? greshape(v, t.rank, t.dims) : v;
}

/* x with its batch axes broadcast to those of `batch` */
static Val batched(Val x, const Type *batch)
{
    const Type *t = type_of(x);
    int64_t dims[QB_MAX_RANK];
    int rank = batch->rank + 2;
    for (int i = 0; i < rank; i++)
        dims[i] = i < batch->rank ? batch->dims[i] : t->dims[t->rank - rank + i];
    return apply_broadcast(x, rank, dims);
}

/* Rank 1 gets an axis that is dropped at the end. A left operand alone with batch axes is one tall matrix: same bits, one product. */
static Val apply_matmul(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    (void)a;
    if (!apply_promote(g, op, x, n, false)) return NONE;
    Type t[2] = {*type_of(x[0]), *type_of(x[1])}, batch;
    if (t[0].rank == 0 || t[1].rank == 0)
        return fail(g, QB_ESHAPE, "matmul: shapes %s and %s; a scalar needs mul", SHAPE(&t[0]),
                    SHAPE(&t[1])),
               NONE;
    bool row = t[0].rank == 1, column = t[1].rank == 1;
    int64_t inner = t[0].dims[t[0].rank - 1], other = t[1].dims[column ? 0 : t[1].rank - 2];
    if (inner != other)
        return fail(g, QB_ESHAPE, "matmul: shapes %s and %s do not fit: %lld columns, %lld rows",
                    SHAPE(&t[0]), SHAPE(&t[1]), (long long)inner, (long long)other),
               NONE;
    if (row) x[0] = greshape(x[0], 2, (int64_t[]){1, inner});
    if (column) x[1] = greshape(x[1], 2, (int64_t[]){inner, 1});
    if (graph_failed(g)) return NONE;
    t[0] = *type_of(x[0]);
    t[1] = *type_of(x[1]);
    if (!common(g, op, x, 2, 2, &batch)) return NONE;
    int64_t m = t[0].dims[t[0].rank - 2], columns = t[1].dims[t[1].rank - 1];
    Val v;
    if (t[1].rank == 2) {
        int64_t rows = type_size(&t[0]) / inner;
        v = gmatmul(greshape(x[0], 2, (int64_t[]){rows, inner}), x[1]);
    } else {
        Val right = batched(x[1], &batch);
        v = gmatmul(batched(x[0], &batch), right);
    }
    if (!row) batch.dims[batch.rank++] = m;
    if (!column) batch.dims[batch.rank++] = columns;
    return greshape(v, batch.rank, batch.dims);
}

/* ---- the table ---- */

static Manner *const manners[OP_COUNT] = {
    [OP_where] = apply_where,         [OP_powi] = apply_powi,
    [OP_cast] = apply_cast,           [OP_reshape] = apply_reshape,
    [OP_transpose] = apply_transpose, [OP_broadcast] = apply_broadcast_op,
    [OP_slice] = apply_slice,         [OP_pad_slice] = apply_pad_slice,
    [OP_concat] = apply_concat,       [OP_sum] = apply_reduce,
    [OP_mean] = apply_reduce,         [OP_max] = apply_reduce,
    [OP_min] = apply_reduce,          [OP_matmul] = apply_matmul,
    [OP_gather] = apply_gather,       [OP_scatter_add] = apply_scatter_add,
    [OP_cumsum] = apply_cumsum,       [OP_stop_gradient] = apply_stop_gradient,
};

static Val compose(Graph *g, Op op, Val *x, int n, const Attr *a)
{
    return compose_apply(g, (int)op, x, n, a);
}

/* Without attributes: all axes, or their reverse. */
static const Attr all_axes = {.n = -1};

Val apply_op(Graph *g, int op, const Val *x, int n, const Attr *attr)
{
    if (graph_failed(g)) return NONE;
    if (op < 0 || op >= APPLY_COUNT) return fail(g, QB_EVALUE, "no op has the number %d", op), NONE;
    int cls = op_table[op].cls;
    Manner *f = cls == CLASS_STRUCT ? manners[op] : cls == CLASS_COMPOSITE ? compose : apply_row;
    if (!f)
        return fail(g, QB_EVALUE, "%s is not applied to values; it has a function of its own",
                    NAME(op)),
               NONE;
    int arity = op_table[op].arity;
    const char *plural = arity == 1 ? "" : "s";
    if (arity == 255 && n < 1)
        return fail(g, QB_ETYPE, "%s takes one operand or more", NAME(op)), NONE;
    if (arity != 255 && n != arity)
        return fail(g, QB_ETYPE, "%s takes %d operand%s, not %d", NAME(op), arity, plural, n), NONE;
    for (int i = 0; i < n; i++)
        if (x[i].graph != g || x[i].id >= g->n_values)
            return fail(g, QB_EBUG, "%s: operand %d is no value of this graph", NAME(op), i), NONE;
    Val few[4], *own = n <= 4 ? few : mem_alloc((size_t)n * sizeof *own);
    if (!own) return fail(g, QB_EMEMORY, "%s: out of memory for %d operands", NAME(op), n), NONE;
    memcpy(own, x, (size_t)n * sizeof *own);
    Val v = f(g, (Op)op, own, n, attr ? attr : &all_axes);
    if (own != few) mem_free(own);
    return v;
}
