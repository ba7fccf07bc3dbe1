/* stablehlo.c: a graph as a StableHLO module, text that other compilers read.

   Most elementwise ops are one word of a table. Where StableHLO has no such op the table says how to spell it with
   what it has, or names the op of CHLO, the dialect beside it. Promises about bits end here: the text says what to compute, and the
   reader of it rounds as it likes. */
#include "ir/stablehlo.h"
#include <math.h>
#include <stdio.h>

enum {
    INPUT = 1 << 30,
    HEX_SIZE = 64 /* elements of a dense float constant that are written one by one */
};

/* ---- pieces ---- */

void stablehlo_type(Text *t, const Type *type)
{
    text_add(t, "tensor<");
    for (int i = 0; i < type->rank; i++) text_add(t, "%lldx", (long long)type->dims[i]);
    text_add(t, "%s>", dtype_ir(type->dtype));
}

void stablehlo_name(Out *o, uint32_t name)
{
    if (name & INPUT)
        text_add(o->t, "%%arg%u", (unsigned)(name ^ INPUT));
    else
        text_add(o->t, "%%%u", (unsigned)name);
}

void stablehlo_list(Text *t, const int64_t *list, int n)
{
    text_add(t, "[");
    for (int i = 0; i < n; i++) text_add(t, i ? ", %lld" : "%lld", (long long)list[i]);
    text_add(t, "]");
}

/* A float literal has a point; what is not finite is its bits. */
static void number_out(Text *t, double x, int dtype)
{
    if (dtype == QB_BOOL) {
        text_add(t, x != 0 ? "true" : "false");
        return;
    }
    if (!isfinite(x) && dtype == QB_F32) {
        text_add(t, isnan(x) ? "0x7FC00000" : x > 0 ? "0x7F800000" : "0xFF800000");
        return;
    }
    if (!isfinite(x)) {
        text_add(t, isnan(x) ? "0x7FF8000000000000"
                    : x > 0  ? "0x7FF0000000000000"
                             : "0xFFF0000000000000");
        return;
    }
    Text part = {0};
    text_number(&part, x);
    if (part.failed) {
        t->failed = true;
        mem_free(part.data);
        return;
    }
    int whole = (int)strcspn(part.data, ".e");
    bool point = part.data[whole] == '.';
    text_add(t, "%.*s%s%s", whole, part.data, point ? "" : ".0", part.data + whole);
    mem_free(part.data);
}

static double element(const Type *type, const void *data, int64_t i)
{
    if (type->dtype == QB_F64) return ((const double *)data)[i];
    if (type->dtype == QB_F32) return ((const float *)data)[i];
    return ((const unsigned char *)data)[i] != 0;
}

/* "[[1.0, 2.0], [3.0, 4.0]]" from element *at on. */
static void nested_out(Text *t, const Type *type, const void *data, int axis, int64_t *at)
{
    if (axis == type->rank) {
        number_out(t, element(type, data, (*at)++), type->dtype);
        return;
    }
    text_add(t, "[");
    for (int64_t i = 0; i < type->dims[axis]; i++) {
        if (i) text_add(t, ", ");
        nested_out(t, type, data, axis + 1, at);
    }
    text_add(t, "]");
}

/* ---- lines ---- */

/* "    %3 = " of a new value; returns its name. */
static uint32_t begin(Out *o)
{
    text_add(o->t, "%*s%%%u = ", o->indent, "", (unsigned)o->next);
    return o->next++;
}

uint32_t stablehlo_splat(Out *o, const Type *type, double value)
{
    uint32_t z = begin(o);
    text_add(o->t, "stablehlo.constant dense<");
    number_out(o->t, value, type->dtype);
    text_add(o->t, "> : ");
    stablehlo_type(o->t, type);
    text_add(o->t, "\n");
    return z;
}

static uint32_t dense_line(Out *o, const Type *type, const qb_buffer *b)
{
    uint32_t z = begin(o);
    text_add(o->t, "stablehlo.constant dense<");
    int64_t at = 0;
    if (type->dtype == QB_BOOL || type_size(type) <= HEX_SIZE) {
        nested_out(o->t, type, b->data, 0, &at);
    } else {
        text_add(o->t, "\"0x");
        for (int64_t i = 0; i < type_bytes(type); i++)
            text_add(o->t, "%02X", ((const unsigned char *)b->data)[i]);
        text_add(o->t, "\"");
    }
    text_add(o->t, "> : ");
    stablehlo_type(o->t, type);
    text_add(o->t, "\n");
    return z;
}

/* word x, y : type, for operands and a result of one type. */
static uint32_t same_line(Out *o, const char *word, const uint32_t *x, int n, const Type *type)
{
    uint32_t z = begin(o);
    text_add(o->t, "%s", word);
    for (int i = 0; i < n; i++) {
        text_add(o->t, i ? ", " : " ");
        stablehlo_name(o, x[i]);
    }
    text_add(o->t, " : ");
    stablehlo_type(o->t, type);
    if (strncmp(word, "chlo.", 5) == 0) {
        text_add(o->t, " -> ");
        stablehlo_type(o->t, type);
    }
    text_add(o->t, "\n");
    return z;
}

static uint32_t two(Out *o, const char *word, uint32_t x, uint32_t y, const Type *type)
{
    return same_line(o, word, (uint32_t[]){x, y}, 2, type);
}

/* " : (tensor<..>, tensor<..>) -> tensor<..>" and the end of the line. */
static void signature(Out *o, const Type *const *x, int n, const Type *z)
{
    text_add(o->t, " : (");
    for (int i = 0; i < n; i++) {
        if (i) text_add(o->t, ", ");
        stablehlo_type(o->t, x[i]);
    }
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, z);
    text_add(o->t, "\n");
}

static uint32_t compare_line(Out *o, const char *kind, uint32_t x, uint32_t y, const Type *tx,
                             const Type *tz)
{
    uint32_t z = begin(o);
    text_add(o->t, "stablehlo.compare %s, ", kind);
    stablehlo_name(o, x);
    text_add(o->t, ", ");
    stablehlo_name(o, y);
    text_add(o->t, ", %s", tx->dtype == QB_BOOL ? "UNSIGNED" : "FLOAT");
    signature(o, (const Type *const[]){tx, tx}, 2, tz);
    return z;
}

/* ---- elementwise ops ---- */

/* How an op is spelled: a word, or a word of x times `scale` (PRE), or the result times it (POST). */
typedef enum { PLAIN, COMPARE, PRE, POST } Form;
static const struct {
    const char *word;
    Form form;
    double scale;
} words[OP_COUNT] = {
    [OP_add] = {"stablehlo.add", PLAIN, 0},
    [OP_sub] = {"stablehlo.subtract", PLAIN, 0},
    [OP_mul] = {"stablehlo.multiply", PLAIN, 0},
    [OP_div] = {"stablehlo.divide", PLAIN, 0},
    [OP_pow] = {"stablehlo.power", PLAIN, 0},
    [OP_atan2] = {"stablehlo.atan2", PLAIN, 0},
    [OP_fmod] = {"stablehlo.remainder", PLAIN, 0},
    [OP_greater] = {"GT", COMPARE, 0},
    [OP_greater_equal] = {"GE", COMPARE, 0},
    [OP_less] = {"LT", COMPARE, 0},
    [OP_less_equal] = {"LE", COMPARE, 0},
    [OP_equal] = {"EQ", COMPARE, 0},
    [OP_not_equal] = {"NE", COMPARE, 0},
    [OP_logical_and] = {"stablehlo.and", PLAIN, 0},
    [OP_logical_or] = {"stablehlo.or", PLAIN, 0},
    [OP_logical_not] = {"stablehlo.not", PLAIN, 0},
    [OP_neg] = {"stablehlo.negate", PLAIN, 0},
    [OP_abs] = {"stablehlo.abs", PLAIN, 0},
    [OP_sign] = {"stablehlo.sign", PLAIN, 0},
    [OP_floor] = {"stablehlo.floor", PLAIN, 0},
    [OP_ceil] = {"stablehlo.ceil", PLAIN, 0},
    [OP_round] = {"stablehlo.round_nearest_even", PLAIN, 0},
    [OP_sqrt] = {"stablehlo.sqrt", PLAIN, 0},
    [OP_cbrt] = {"stablehlo.cbrt", PLAIN, 0},
    [OP_exp] = {"stablehlo.exponential", PLAIN, 0},
    [OP_exp2] = {"stablehlo.exponential", PRE, 0.693147180559945309417232},
    [OP_expm1] = {"stablehlo.exponential_minus_one", PLAIN, 0},
    [OP_log] = {"stablehlo.log", PLAIN, 0},
    [OP_log1p] = {"stablehlo.log_plus_one", PLAIN, 0},
    [OP_log2] = {"stablehlo.log", POST, 1.442695040888963407359925},
    [OP_log10] = {"stablehlo.log", POST, 0.434294481903251827651129},
    [OP_sin] = {"stablehlo.sine", PLAIN, 0},
    [OP_cos] = {"stablehlo.cosine", PLAIN, 0},
    [OP_tan] = {"stablehlo.tan", PLAIN, 0},
    [OP_arcsin] = {"chlo.asin", PLAIN, 0},
    [OP_arccos] = {"chlo.acos", PLAIN, 0},
    [OP_arctan] = {"chlo.atan", PLAIN, 0},
    [OP_sinh] = {"chlo.sinh", PLAIN, 0},
    [OP_cosh] = {"chlo.cosh", PLAIN, 0},
    [OP_tanh] = {"stablehlo.tanh", PLAIN, 0},
    [OP_arcsinh] = {"chlo.asinh", PLAIN, 0},
    [OP_arccosh] = {"chlo.acosh", PLAIN, 0},
    [OP_arctanh] = {"chlo.atanh", PLAIN, 0},
    [OP_erf] = {"chlo.erf", PLAIN, 0},
    [OP_erfc] = {"chlo.erfc", PLAIN, 0},
};

static uint32_t word_line(Out *o, const Node *n, const uint32_t *x, const Type *tx, const Type *tz)
{
    const char *word = words[n->op].word;
    const Form form = words[n->op].form;
    if (form == COMPARE) return compare_line(o, word, x[0], x[1], tx, tz);
    if (form == PLAIN) return same_line(o, word, x, (int)n->n, tz);
    uint32_t scale = stablehlo_splat(o, tz, words[n->op].scale), v = x[0];
    if (form == PRE) v = two(o, "stablehlo.multiply", v, scale, tz);
    v = same_line(o, word, &v, 1, tz);
    return form == POST ? two(o, "stablehlo.multiply", v, scale, tz) : v;
}

/* sqrt(x^2 + y^2), scaled by the larger one so that it does not overflow. */
static uint32_t hypot_lines(Out *o, const uint32_t *x, const Type *t)
{
    uint32_t a = same_line(o, "stablehlo.abs", x, 1, t),
             b = same_line(o, "stablehlo.abs", x + 1, 1, t);
    uint32_t big = two(o, "stablehlo.maximum", a, b, t), zero = stablehlo_splat(o, t, 0),
             one = stablehlo_splat(o, t, 1);
    Type mask = *t;
    mask.dtype = QB_BOOL;
    uint32_t empty = compare_line(o, "EQ", big, zero, t, &mask), scale = begin(o);
    text_add(o->t, "stablehlo.select %%%u, %%%u, %%%u : ", (unsigned)empty, (unsigned)one,
             (unsigned)big);
    stablehlo_type(o->t, &mask);
    text_add(o->t, ", ");
    stablehlo_type(o->t, t);
    text_add(o->t, "\n");
    a = two(o, "stablehlo.divide", a, scale, t);
    b = two(o, "stablehlo.divide", b, scale, t);
    a = two(o, "stablehlo.add", two(o, "stablehlo.multiply", a, a, t),
            two(o, "stablehlo.multiply", b, b, t), t);
    return two(o, "stablehlo.multiply", same_line(o, "stablehlo.sqrt", &a, 1, t), scale, t);
}

/* By repeated squaring. */
static uint32_t powi_lines(Out *o, uint32_t x, int64_t n, const Type *t)
{
    if (n == 0) return stablehlo_splat(o, t, 1);
    uint32_t power = x, product = 0;
    bool some = false;
    for (; n; n >>= 1) {
        if (n & 1) product = some ? two(o, "stablehlo.multiply", product, power, t) : power;
        some |= n & 1;
        if (n > 1) power = two(o, "stablehlo.multiply", power, power, t);
    }
    return product;
}

static uint32_t cast_line(Out *o, uint32_t x, const Type *from, const Type *to)
{
    if (from->dtype == to->dtype) return x;
    if (to->dtype == QB_BOOL)
        return compare_line(o, "NE", x, stablehlo_splat(o, from, 0), from, to);
    uint32_t z = begin(o);
    text_add(o->t, "stablehlo.convert ");
    stablehlo_name(o, x);
    signature(o, (const Type *const[]){from}, 1, to);
    return z;
}

static uint32_t where_line(Out *o, const uint32_t *x, const Type *mask, const Type *t)
{
    uint32_t z = begin(o);
    text_add(o->t, "stablehlo.select ");
    for (int i = 0; i < 3; i++) {
        if (i) text_add(o->t, ", ");
        stablehlo_name(o, x[i]);
    }
    text_add(o->t, " : ");
    stablehlo_type(o->t, mask);
    text_add(o->t, ", ");
    stablehlo_type(o->t, t);
    text_add(o->t, "\n");
    return z;
}

/* ---- structural ops ---- */

/* word x, attribute = [list] : (from) -> to */
static uint32_t list_line(Out *o, const char *word, uint32_t x, const char *attribute,
                          const int64_t *list, int n, const Type *from, const Type *to)
{
    uint32_t z = begin(o);
    text_add(o->t, "%s ", word);
    stablehlo_name(o, x);
    if (attribute) {
        text_add(o->t, ", %s = ", attribute);
        stablehlo_list(o->t, list, n);
    }
    signature(o, (const Type *const[]){from}, 1, to);
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
    uint32_t z = begin(o);
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
    uint32_t z = begin(o);
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
    signature(o, (const Type *const[]){from}, 1, to);
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
    uint32_t zero = stablehlo_splat(o, &scalar, 0), z = begin(o);
    text_add(o->t, "stablehlo.pad ");
    stablehlo_name(o, x);
    text_add(o->t, ", %%%u, low = ", (unsigned)zero);
    stablehlo_list(o->t, low, from->rank);
    text_add(o->t, ", high = ");
    stablehlo_list(o->t, high, from->rank);
    text_add(o->t, ", interior = ");
    stablehlo_list(o->t, gap, from->rank);
    signature(o, (const Type *const[]){from, &scalar}, 2, to);
    return z;
}

static uint32_t concat_line(Out *o, const Node *n, const Type *to)
{
    uint32_t z = begin(o);
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
             z = begin(o);
    text_add(o->t, "stablehlo.reduce(");
    stablehlo_name(o, x);
    text_add(o->t, " init: %%%u) applies stablehlo.%s across dimensions = ", (unsigned)init, word);
    stablehlo_list(o->t, n->attr->list, n->attr->n);
    signature(o, (const Type *const[]){from, &scalar}, 2, to);
    if (n->op != OP_mean) return z;
    double count = (double)type_size(from) / (double)type_size(to);
    return two(o, "stablehlo.divide", z, stablehlo_splat(o, to, count), to);
}

static uint32_t matmul_line(Out *o, const uint32_t *x, const Type *a, const Type *b, const Type *to)
{
    int64_t batch[QB_MAX_RANK];
    for (int i = 0; i < a->rank - 2; i++) batch[i] = i;
    uint32_t z = begin(o);
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
    signature(o, (const Type *const[]){a, b}, 2, to);
    return z;
}

/* ---- indices and running sums ---- */

/* The indices as a constant, and how many there are. */
static uint32_t indices_line(Out *o, const Attr *a, int64_t *count)
{
    const int64_t *at = a->buffer->data;
    uint32_t z = begin(o);
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
    uint32_t at = indices_line(o, a, &count), z = begin(o);
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
    uint32_t at = indices_line(o, a, &count), z = begin(o);
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
    uint32_t zero = stablehlo_splat(o, &scalar, 0), z = begin(o);
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

static uint32_t lines(Out *o, const Node *n)
{
    const Graph *g = o->src;
    const Type *tz = &g->types[n->first], *tx = n->n ? &g->types[n->x[0]] : NULL;
    const Attr *a = n->attr;
    uint32_t x[3] = {0};
    for (uint32_t k = 0; k < n->n && k < 3; k++) x[k] = o->name[n->x[k]];
    if (words[n->op].word) return word_line(o, n, x, tx, tz);
    switch ((Op)n->op) {
    case OP_constant:
        return a->buffer ? dense_line(o, tz, a->buffer) : stablehlo_splat(o, tz, a->f);
    case OP_hypot: return hypot_lines(o, x, tz);
    case OP_powi: return powi_lines(o, x[0], a->i, tz);
    case OP_cast: return cast_line(o, x[0], tx, tz);
    case OP_after:
    case OP_instead:
    case OP_stop_gradient: return x[0];
    case OP_where: return where_line(o, x, tx, tz);
    case OP_broadcast: return broadcast_line(o, x[0], tx, tz);
    case OP_reshape: return list_line(o, "stablehlo.reshape", x[0], NULL, NULL, 0, tx, tz);
    case OP_transpose:
        return list_line(o, "stablehlo.transpose", x[0], "dims", a->list, a->n, tx, tz);
    case OP_slice: return slice_line(o, x[0], a, tx, tz);
    case OP_pad_slice: return pad_line(o, x[0], a, tx, tz);
    case OP_concat: return concat_line(o, n, tz);
    case OP_sum:
    case OP_mean:
    case OP_max:
    case OP_min: return reduce_line(o, n, x[0], tx, tz);
    case OP_gather: return gather_line(o, x[0], a, tx, tz);
    case OP_scatter_add: return scatter_line(o, x, a, &g->types[n->x[1]], tz);
    case OP_cumsum: return cumsum_line(o, x[0], a, tz);
    case OP_matmul: return matmul_line(o, x, tx, &g->types[n->x[1]], tz);
    default: break;
    }
    fail(o->g, QB_EUNSUPPORTED, "StableHLO has no op for %s", op_table[n->op].name);
    snprintf(o->g->error.op, sizeof o->g->error.op, "%s", op_table[n->op].name);
    return 0;
}

/* ---- a graph ---- */

static void mark(Out *o)
{
    const Graph *g = o->src;
    for (uint32_t i = 0; i < g->n_outputs; i++) o->live[g->def[g->outputs[i]]] = true;
    for (Id i = g->n_nodes; i-- > 0;)
        for (uint32_t k = 0; o->live[i] && k < g->nodes[i].n; k++)
            o->live[g->def[g->nodes[i].x[k]]] = true;
}

static void node_lines(Out *o)
{
    const Graph *g = o->src;
    for (Id i = 0; i < g->n_nodes && !graph_failed(o->g); i++) {
        const Node *n = &g->nodes[i];
        if (!o->live[i] || n->op == OP_input) continue;
        if (n->sub)
            stablehlo_region(o, n);
        else
            o->name[n->first] = lines(o, n);
    }
}

static bool notes_open(Out *o)
{
    o->name = mem_zeroed(o->src->n_values + (size_t)1, sizeof *o->name);
    o->live = mem_zeroed(o->src->n_nodes + (size_t)1, 1);
    if (!o->name || !o->live)
        return fail(o->g, QB_EMEMORY, "out of memory for the text of a program");
    mark(o);
    return true;
}

static void notes_drop(Out *o)
{
    mem_free(o->name);
    mem_free(o->live);
}

/* The lines of a body, its inputs named as args. */
bool stablehlo_body(Out *o, const Graph *body, const uint32_t *args, uint32_t *outs)
{
    Out b = {.t = o->t, .g = o->g, .src = body, .next = o->next, .indent = o->indent + 2};
    if (notes_open(&b)) {
        for (uint32_t i = 0; i < body->n_inputs; i++) b.name[body->inputs[i]] = args[i];
        node_lines(&b);
        for (uint32_t i = 0; i < body->n_outputs; i++) outs[i] = b.name[body->outputs[i]];
    }
    o->next = b.next;
    notes_drop(&b);
    return !graph_failed(o->g);
}

static void types_out(Out *o, const Id *v, uint32_t n, bool parens)
{
    if (parens) text_add(o->t, "(");
    for (uint32_t i = 0; i < n; i++) {
        if (i) text_add(o->t, ", ");
        stablehlo_type(o->t, &o->src->types[v[i]]);
    }
    if (parens) text_add(o->t, ")");
}

static void module(Out *o)
{
    const Graph *g = o->src;
    text_add(o->t, "module @quabla {\n  func.func @main(");
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        o->name[g->inputs[i]] = i | INPUT;
        text_add(o->t, i ? ", %%arg%u: " : "%%arg%u: ", (unsigned)i);
        stablehlo_type(o->t, &g->types[g->inputs[i]]);
    }
    text_add(o->t, ") -> ");
    types_out(o, g->outputs, g->n_outputs, g->n_outputs != 1);
    text_add(o->t, " {\n");
    node_lines(o);
    text_add(o->t, "    return");
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        text_add(o->t, i ? ", " : " ");
        stablehlo_name(o, o->name[g->outputs[i]]);
    }
    if (g->n_outputs) text_add(o->t, " : ");
    types_out(o, g->outputs, g->n_outputs, false);
    text_add(o->t, "\n  }\n}\n");
}

bool stablehlo_print(Text *t, const Graph *g, qb_error *err)
{
    Out o = {.t = t, .src = g, .indent = 4, .g = graph_new(err)};
    if (!o.g) return false;
    if (notes_open(&o)) module(&o);
    notes_drop(&o);
    const bool failed = graph_error(o.g, err);
    graph_release(o.g);
    return !failed;
}
