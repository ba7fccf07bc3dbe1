/* stablehlo_shape.c: StableHLO of the ops that move, join, reduce and multiply arrays. */
#include "ir/stablehlo.h"
#include <math.h>

/* ---- structural ops ---- */

/* word x, attribute = [list] : (from) -> to */
static uint32_t list_line(Out *o, const char *word, uint32_t x, const char *attribute,
                          const int64_t *list, int n, const Type *from, const Type *to)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "%s ", word);
    stablehlo_name(o, x);
    if (attribute) {
        text_add(o->t, ", %s = ", attribute);
        stablehlo_list(o->t, list, n);
    }
    stablehlo_signature(o, (const Type *const[]){from}, 1, to);
    return z;
}

static uint32_t broadcast_line(Out *o, uint32_t x, const Type *from, const Type *to)
{
    int64_t dims[QB_MAX_RANK];
    for (int i = 0; i < to->rank; i++) dims[i] = i;
    return list_line(o, "stablehlo.broadcast_in_dim", x, "dims", dims, to->rank, from, to);
}

static uint32_t reversed(Out *o, uint32_t x, int64_t axis, const Type *t)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.reverse ");
    stablehlo_name(o, x);
    text_add(o->t, ", dims = [%lld] : ", (long long)axis);
    stablehlo_type(o->t, t);
    text_add(o->t, "\n");
    return z;
}

static uint32_t slice_line(Out *o, uint32_t x, const Attr *a, const Type *from, const Type *to)
{
    int64_t start = a->start, step = a->step;
    if (step < 0) {
        x = reversed(o, x, a->i, from);
        start = from->dims[a->i] - 1 - start;
        step = -step;
    }
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.slice ");
    stablehlo_name(o, x);
    text_add(o->t, " [");
    for (int i = 0; i < from->rank; i++) {
        bool cut = i == a->i;
        long long lo = cut ? start : 0, by = cut ? step : 1;
        long long hi = cut ? start + (a->length - 1) * step + 1 : from->dims[i];
        text_add(o->t, i ? ", %lld:%lld" : "%lld:%lld", lo, hi);
        if (by != 1) text_add(o->t, ":%lld", by);
    }
    text_add(o->t, "]");
    stablehlo_signature(o, (const Type *const[]){from}, 1, to);
    return z;
}

static uint32_t pad_line(Out *o, uint32_t x, const Attr *a, const Type *from, const Type *to)
{
    int64_t n = from->dims[a->i], start = a->start, step = a->step;
    if (step < 0) {
        x = reversed(o, x, a->i, from);
        start += (n - 1) * step;
        step = -step;
    }
    int64_t low[QB_MAX_RANK] = {0}, high[QB_MAX_RANK] = {0}, gap[QB_MAX_RANK] = {0};
    low[a->i] = start;
    high[a->i] = to->dims[a->i] - (start + (n - 1) * step + 1);
    gap[a->i] = step - 1;
    Type scalar = {.dtype = from->dtype};
    uint32_t zero = stablehlo_splat(o, &scalar, 0), z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.pad ");
    stablehlo_name(o, x);
    text_add(o->t, ", %%%u, low = ", (unsigned)zero);
    stablehlo_list(o->t, low, from->rank);
    text_add(o->t, ", high = ");
    stablehlo_list(o->t, high, from->rank);
    text_add(o->t, ", interior = ");
    stablehlo_list(o->t, gap, from->rank);
    stablehlo_signature(o, (const Type *const[]){from, &scalar}, 2, to);
    return z;
}

static uint32_t concat_line(Out *o, const Node *n, const Type *to)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.concatenate ");
    for (uint32_t k = 0; k < n->n; k++) {
        stablehlo_name(o, o->name[n->x[k]]);
        text_add(o->t, ", ");
    }
    text_add(o->t, "dim = %lld : (", (long long)n->attr->i);
    for (uint32_t k = 0; k < n->n; k++) {
        if (k) text_add(o->t, ", ");
        stablehlo_type(o->t, &o->src->types[n->x[k]]);
    }
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, to);
    text_add(o->t, "\n");
    return z;
}

static uint32_t reduce_line(Out *o, const Node *n, uint32_t x, const Type *from, const Type *to)
{
    bool adds = n->op == OP_sum || n->op == OP_mean;
    const char *word = adds ? "add" : n->op == OP_max ? "maximum" : "minimum";
    Type scalar = {.dtype = from->dtype};
    uint32_t init = stablehlo_splat(o, &scalar,
                                    adds              ? 0
                                    : n->op == OP_max ? -INFINITY
                                                      : INFINITY),
             z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.reduce(");
    stablehlo_name(o, x);
    text_add(o->t, " init: %%%u) applies stablehlo.%s across dimensions = ", (unsigned)init, word);
    stablehlo_list(o->t, n->attr->list, n->attr->n);
    stablehlo_signature(o, (const Type *const[]){from, &scalar}, 2, to);
    if (n->op != OP_mean) return z;
    double count = (double)type_size(from) / (double)type_size(to);
    return stablehlo_two(o, "stablehlo.divide", z, stablehlo_splat(o, to, count), to);
}

static uint32_t matmul_line(Out *o, const uint32_t *x, const Type *a, const Type *b, const Type *to)
{
    int64_t batch[QB_MAX_RANK];
    for (int i = 0; i < a->rank - 2; i++) batch[i] = i;
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.dot_general ");
    stablehlo_name(o, x[0]);
    text_add(o->t, ", ");
    stablehlo_name(o, x[1]);
    if (a->rank > 2) {
        text_add(o->t, ", batching_dims = ");
        stablehlo_list(o->t, batch, a->rank - 2);
        text_add(o->t, " x ");
        stablehlo_list(o->t, batch, a->rank - 2);
    }
    text_add(o->t, ", contracting_dims = [%d] x [%d]", a->rank - 1, a->rank - 2);
    stablehlo_signature(o, (const Type *const[]){a, b}, 2, to);
    return z;
}

/* ---- indices and running sums ---- */

/* The indices as a constant, and how many there are. */
static uint32_t indices_line(Out *o, const Attr *a, int64_t *count)
{
    const int64_t *at = a->buffer->data;
    uint32_t z = stablehlo_begin(o);
    *count = a->buffer->bytes / (int64_t)sizeof *at;
    text_add(o->t, "stablehlo.constant dense<[");
    for (int64_t k = 0; k < *count; k++) text_add(o->t, k ? ", %lld" : "%lld", (long long)at[k]);
    text_add(o->t, "]> : tensor<%lldxi64>\n", (long long)*count);
    return z;
}

/* "[0, 2]": the axes of a rank but for one. */
static void others_out(Out *o, int rank, int64_t axis)
{
    int64_t list[QB_MAX_RANK];
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (i != axis) list[n++] = i;
    stablehlo_list(o->t, list, n);
}

/* "array<i64: 1, 3>": `here` along one axis, the lengths of dims (NULL: 1) along the others. */
static void array_out(Out *o, const Type *t, int64_t axis, int64_t here, const int64_t *dims)
{
    text_add(o->t, "array<i64: ");
    for (int i = 0; i < t->rank; i++)
        text_add(o->t, i ? ", %lld" : "%lld", (long long)(i == axis ? here : dims ? dims[i] : 1));
    text_add(o->t, ">");
}

static uint32_t gather_line(Out *o, uint32_t x, const Attr *a, const Type *from, const Type *to)
{
    int64_t count;
    uint32_t at = indices_line(o, a, &count), z = stablehlo_begin(o);
    text_add(o->t, "\"stablehlo.gather\"(");
    stablehlo_name(o, x);
    text_add(o->t, ", %%%u) <{dimension_numbers = #stablehlo.gather<offset_dims = ", (unsigned)at);
    others_out(o, to->rank, a->i);
    text_add(o->t, ", collapsed_slice_dims = [%lld], start_index_map = [%lld]", (long long)a->i,
             (long long)a->i);
    text_add(o->t, ", index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = ");
    array_out(o, from, a->i, 1, from->dims);
    text_add(o->t, "}> : (");
    stablehlo_type(o->t, from);
    text_add(o->t, ", tensor<%lldxi64>) -> ", (long long)count);
    stablehlo_type(o->t, to);
    text_add(o->t, "\n");
    return z;
}

/* " ({ ... })": the sum of two scalars. */
static void sum_region(Out *o, int dtype)
{
    const char *t = dtype_ir(dtype);
    const int in = o->indent;
    text_add(o->t, " ({\n%*s^bb0(%%lhs: tensor<%s>, %%rhs: tensor<%s>):\n", in, "", t, t);
    text_add(o->t, "%*s  %%sum = stablehlo.add %%lhs, %%rhs : tensor<%s>\n", in, "", t);
    text_add(o->t, "%*s  stablehlo.return %%sum : tensor<%s>\n%*s}) : (", in, "", t, in, "");
}

static uint32_t scatter_line(Out *o, const uint32_t *x, const Attr *a, const Type *updates,
                             const Type *to)
{
    int64_t count;
    uint32_t at = indices_line(o, a, &count), z = stablehlo_begin(o);
    text_add(o->t, "\"stablehlo.scatter\"(");
    stablehlo_name(o, x[0]);
    text_add(o->t, ", %%%u, ", (unsigned)at);
    stablehlo_name(o, x[1]);
    text_add(o->t, ") <{indices_are_sorted = false, scatter_dimension_numbers = ");
    text_add(o->t, "#stablehlo.scatter<update_window_dims = ");
    others_out(o, to->rank, a->i);
    text_add(o->t, ", inserted_window_dims = [%lld], scatter_dims_to_operand_dims = [%lld]",
             (long long)a->i, (long long)a->i);
    text_add(o->t, ", index_vector_dim = 1>, unique_indices = false}>");
    sum_region(o, to->dtype);
    stablehlo_type(o->t, to);
    text_add(o->t, ", tensor<%lldxi64>, ", (long long)count);
    stablehlo_type(o->t, updates);
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, to);
    text_add(o->t, "\n");
    return z;
}

/* A window as long as the axis ends, or in reverse begins, at each element. */
static uint32_t cumsum_line(Out *o, uint32_t x, const Attr *a, const Type *t)
{
    Type scalar = {.dtype = t->dtype};
    long long n = (long long)t->dims[a->i] - 1;
    uint32_t zero = stablehlo_splat(o, &scalar, 0), z = stablehlo_begin(o);
    text_add(o->t, "\"stablehlo.reduce_window\"(");
    stablehlo_name(o, x);
    text_add(o->t, ", %%%u) <{padding = dense<[", (unsigned)zero);
    for (int i = 0; i < t->rank; i++)
        text_add(o->t, i ? ", [%lld, %lld]" : "[%lld, %lld]", i == a->i && !a->start ? n : 0,
                 i == a->i && a->start ? n : 0);
    text_add(o->t, "]> : tensor<%dx2xi64>, window_dimensions = ", (int)t->rank);
    array_out(o, t, a->i, t->dims[a->i], NULL);
    text_add(o->t, ", window_strides = ");
    array_out(o, t, -1, 1, NULL);
    text_add(o->t, "}>");
    sum_region(o, t->dtype);
    stablehlo_type(o->t, t);
    text_add(o->t, ", ");
    stablehlo_type(o->t, &scalar);
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, t);
    text_add(o->t, "\n");
    return z;
}

/* ---- a node ---- */

bool stablehlo_shape(Out *o, const Node *n, const uint32_t *x, uint32_t *z)
{
    const Type *types = o->src->types, *tz = &types[n->first], *tx = n->n ? &types[n->x[0]] : tz;
    const Attr *a = n->attr;
    switch ((Op)n->op) {
    case OP_broadcast: *z = broadcast_line(o, x[0], tx, tz); return true;
    case OP_reshape:
        *z = list_line(o, "stablehlo.reshape", x[0], NULL, NULL, 0, tx, tz);
        return true;
    case OP_transpose:
        *z = list_line(o, "stablehlo.transpose", x[0], "dims", a->list, a->n, tx, tz);
        return true;
    case OP_slice: *z = slice_line(o, x[0], a, tx, tz); return true;
    case OP_pad_slice: *z = pad_line(o, x[0], a, tx, tz); return true;
    case OP_concat: *z = concat_line(o, n, tz); return true;
    case OP_sum:
    case OP_mean:
    case OP_max:
    case OP_min: *z = reduce_line(o, n, x[0], tx, tz); return true;
    case OP_gather: *z = gather_line(o, x[0], a, tx, tz); return true;
    case OP_scatter_add: *z = scatter_line(o, x, a, &types[n->x[1]], tz); return true;
    case OP_cumsum: *z = cumsum_line(o, x[0], a, tz); return true;
    case OP_matmul: *z = matmul_line(o, x, tx, &types[n->x[1]], tz); return true;
    default: return false;
    }
}
