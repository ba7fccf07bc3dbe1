/* value.c: the reference. What an op means, element by element, in plain scalar code; slow and short.

   Elements travel as doubles, which hold every float32 and bool. Elementwise rows evaluate their value column in the operand's C
   type and round once, so each row has one function per dtype, made from the table. Reductions and products follow the order
   contract of plan.h, and everything that computes constants, tests or backends is measured against this file. */
#include "ir/ir.h"
#include "scalar.h"

enum { BLOCK_OF_K = 128, LANES = 8 }; /* the order contract of plan.h, which is a layer above */

/* ---- rows ---- */

typedef double Row(double x, double y);

/* A row in the C type T. `rare ? slow : value`, as the vector kernels do, in one rounding to T. */
#define EVAL(name, T, value, rare, slow)                        \
    static double name(double x_, double y_)                    \
    {                                                           \
        T x = (T)x_, y = (T)y_;                                 \
        (void)x, (void)y;                                       \
        return (rare) ? (double)(T)(slow) : (double)(T)(value); \
    }
#define EVAL_F(name, value, rare, slow)        \
    EVAL(name##_f32, float, value, rare, slow) \
    EVAL(name##_f64, double, value, rare, slow)
#define EVAL_B(name, value, rare, slow) EVAL(name##_bool, unsigned char, value, rare, slow)
#define EVAL_A(name, value, rare, slow) \
    EVAL_F(name, value, rare, slow) EVAL_B(name, value, rare, slow)
#define UNARY(name, in, out, value, rare, slow, ...) EVAL_##in(name, value, rare, slow)
#define BINARY(name, in, out, value, rare, slow, ...) EVAL_##in(name, value, rare, slow)
#include "ops.h"

#define LIST_F(name) [OP_##name] = {[QB_F32] = name##_f32, [QB_F64] = name##_f64},
#define LIST_B(name) [OP_##name] = {[QB_BOOL] = name##_bool},
#define LIST_A(name) \
    [OP_##name] = {[QB_F32] = name##_f32, [QB_F64] = name##_f64, [QB_BOOL] = name##_bool},
static Row *const rows[OP_COUNT][QB_DTYPE_COUNT] = {
#define UNARY(name, in, ...) LIST_##in(name)
#define BINARY(name, in, ...) LIST_##in(name)
#include "ops.h"
};

double value_scalar(Op op, int dtype, double x, double y)
{
    Row *f = op < OP_COUNT && dtype >= 0 && dtype < QB_DTYPE_COUNT ? rows[op][dtype] : NULL;
    return f ? f(x, y) : Q_NAN;
}

/* ---- elements ---- */

static double load(int dtype, const void *p, int64_t i)
{
    if (dtype == QB_F64) return ((const double *)p)[i];
    if (dtype == QB_F32) return ((const float *)p)[i];
    return ((const unsigned char *)p)[i];
}

static void store(int dtype, void *p, int64_t i, double v)
{
    if (dtype == QB_F64)
        ((double *)p)[i] = v;
    else if (dtype == QB_F32)
        ((float *)p)[i] = (float)v;
    else
        ((unsigned char *)p)[i] = v != 0; /* NaN is true */
}

/* Row-major strides of t, in elements. */
static void strides_of(const Type *t, int64_t *stride)
{
    int64_t s = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = s;
        s *= t->dims[i];
    }
}

/* The place, in strides, of element i of t in row-major order. */
static int64_t place(const Type *t, const int64_t *stride, int64_t i)
{
    int64_t at = 0;
    for (int k = t->rank - 1; k >= 0; k--) {
        at += i % t->dims[k] * stride[k];
        i /= t->dims[k];
    }
    return at;
}

/* ---- one function for each family ---- */

typedef struct {
    Op op;
    const Attr *attr;
    int n;
    const Type *xt, *ot;
    const void *const *x;
    void *out;
    qb_error *err;
} Job;

static bool elementwise(const Job *j)
{
    int64_t size = type_size(j->ot);
    int in = j->xt[0].dtype, to = j->ot->dtype;
    for (int64_t i = 0; i < size; i++) {
        double a = load(in, j->x[0], i), v = a;
        if (j->op == OP_where)
            v = load(to, j->x[a != 0 ? 1 : 2], i);
        else if (j->op == OP_powi)
            v = q_powi(a, j->attr->i);
        else if (op_table[j->op].cls != CLASS_STRUCT)
            v = rows[j->op][in](a, j->n > 1 ? load(in, j->x[1], i) : 0);
        store(to, j->out, i, v); /* cast and stop_gradient only store */
    }
    return true;
}

/* broadcast, reshape, transpose, slice: result element i is the operand's element at `offset` + its place in `stride`. */
static bool gather(const Job *j)
{
    const Type *x = j->xt, *z = j->ot;
    const Attr *a = j->attr;
    int64_t from[QB_MAX_RANK], stride[QB_MAX_RANK], offset = 0, size = type_size(z);
    strides_of(j->op == OP_reshape ? z : x, from);
    for (int k = 0; k < z->rank; k++) {
        stride[k] = from[j->op == OP_transpose ? a->list[k] : k];
        if (j->op == OP_broadcast && x->dims[k] == 1) stride[k] = 0;
        if (j->op == OP_slice && k == a->i) {
            offset = a->start * stride[k];
            stride[k] *= a->step;
        }
    }
    for (int64_t i = 0; i < size; i++)
        store(z->dtype, j->out, i, load(x->dtype, j->x[0], offset + place(z, stride, i)));
    return true;
}

/* Operand k goes to the result at start + i * step along an axis: pad_slice over zeros, concat without gaps. */
static bool scatter(const Job *j)
{
    const Type *z = j->ot;
    int axis = (int)j->attr->i, dtype = z->dtype;
    int64_t stride[QB_MAX_RANK], at = 0, size = type_size(z);
    strides_of(z, stride);
    int64_t unit = stride[axis];
    if (j->op == OP_pad_slice) {
        for (int64_t i = 0; i < size; i++) store(dtype, j->out, i, 0);
        stride[axis] *= j->attr->step;
        at = j->attr->start;
    }
    for (int k = 0; k < j->n; k++) {
        const Type *x = &j->xt[k];
        int64_t count = type_size(x);
        for (int64_t i = 0; i < count; i++)
            store(dtype, j->out, at * unit + place(x, stride, i), load(dtype, j->x[k], i));
        at += x->dims[axis];
    }
    return true;
}

/* The sum of the `count` elements at base + place(t, stride, k), in blocks and lanes. */
static double sum_of(const Job *j, const Type *t, const int64_t *stride, int64_t base,
                     int64_t count)
{
    double total = 0;
    for (int64_t block = 0; block < count; block += BLOCK_OF_K) {
        double lane[LANES];
        for (int i = 0; i < LANES; i++) lane[i] = -0.0;
        for (int64_t k = block; k < count && k < block + BLOCK_OF_K; k++)
            lane[k % LANES] += load(t->dtype, j->x[0], base + place(t, stride, k));
        for (int width = LANES / 2; width > 0; width /= 2)
            for (int i = 0; i < width; i++) lane[i] += lane[i + width];
        total = block ? total + lane[0] : lane[0];
    }
    return total;
}

static double extreme_of(const Job *j, const Type *t, const int64_t *stride, int64_t base,
                         int64_t count)
{
    double v = load(t->dtype, j->x[0], base);
    v = j->op == OP_max ? q_max_step(v, v) : q_min_step(v, v);
    for (int64_t k = 1; k < count; k++) {
        double e = load(t->dtype, j->x[0], base + place(t, stride, k));
        v = j->op == OP_max ? q_max_step(v, e) : q_min_step(v, e);
    }
    return v;
}

/* sum, mean, max, min: the axes are split in kept ones and reduced ones, each in the operand's order. */
static bool reduce(const Job *j)
{
    const Type *x = j->xt;
    Type kept = {0}, gone = {.dtype = x->dtype};
    int64_t stride[QB_MAX_RANK], keep[QB_MAX_RANK], away[QB_MAX_RANK];
    strides_of(x, stride);
    for (int k = 0, r = 0; k < x->rank; k++) {
        bool reduced = r < j->attr->n && j->attr->list[r] == k;
        Type *t = reduced ? &gone : &kept;
        (reduced ? away : keep)[t->rank] = stride[k];
        t->dims[t->rank++] = x->dims[k];
        r += reduced;
    }
    int64_t count = type_size(&gone), size = type_size(j->ot);
    for (int64_t i = 0; i < size; i++) {
        int64_t base = place(&kept, keep, i);
        double v = j->op == OP_sum || j->op == OP_mean ? sum_of(j, &gone, away, base, count)
                                                       : extreme_of(j, &gone, away, base, count);
        store(j->ot->dtype, j->out, i, j->op == OP_mean ? v / (double)count : v);
    }
    return true;
}

static bool matmul(const Job *j)
{
    const Type *z = j->ot;
    int rank = z->rank, dtype = z->dtype;
    int64_t m = z->dims[rank - 2], n = z->dims[rank - 1], depth = j->xt[0].dims[rank - 1],
            size = type_size(z);
    for (int64_t i = 0; i < size; i++) {
        int64_t batch = i / (m * n), row = i / n % m, column = i % n;
        int64_t a = (batch * m + row) * depth, b = batch * depth * n + column;
        double total = 0;
        for (int64_t block = 0; block < depth; block += BLOCK_OF_K) {
            double acc = 0;
            for (int64_t k = block; k < depth && k < block + BLOCK_OF_K; k++)
                acc = __builtin_fma(load(dtype, j->x[0], a + k), load(dtype, j->x[1], b + k * n),
                                    acc);
            total = block ? total + acc : acc;
        }
        store(dtype, j->out, i, total);
    }
    return true;
}

static bool constant(const Job *j)
{
    int64_t size = type_size(j->ot);
    const qb_buffer *b = j->attr->buffer;
    for (int64_t i = 0; i < size; i++)
        store(j->ot->dtype, j->out, i, b ? load(j->ot->dtype, b->data, i) : j->attr->f);
    return true;
}

/* An array seen from one axis: `outer` blocks of n rows of `inner` elements. */
typedef struct {
    int64_t outer, n, inner;
} Rows;
static Rows rows_of(const Type *t, int axis)
{
    Rows r = {1, t->dims[axis], 1};
    for (int k = 0; k < axis; k++) r.outer *= t->dims[k];
    for (int k = axis + 1; k < t->rank; k++) r.inner *= t->dims[k];
    return r;
}

static bool gather_rows(const Job *j)
{
    Rows x = rows_of(j->xt, (int)j->attr->i), z = rows_of(j->ot, (int)j->attr->i);
    const int64_t *at = j->attr->buffer->data;
    int dtype = j->ot->dtype;
    for (int64_t o = 0; o < z.outer; o++)
        for (int64_t k = 0; k < z.n; k++)
            for (int64_t i = 0; i < z.inner; i++)
                store(dtype, j->out, (o * z.n + k) * z.inner + i,
                      load(dtype, j->x[0], (o * x.n + at[k]) * x.inner + i));
    return true;
}

static bool scatter_rows(const Job *j)
{
    Rows z = rows_of(j->ot, (int)j->attr->i), u = rows_of(&j->xt[1], (int)j->attr->i);
    const int64_t *at = j->attr->buffer->data;
    int dtype = j->ot->dtype;
    memcpy(j->out, j->x[0], (size_t)type_bytes(j->ot));
    for (int64_t o = 0; o < u.outer; o++)
        for (int64_t k = 0; k < u.n; k++)
            for (int64_t i = 0; i < u.inner; i++) {
                int64_t to = (o * z.n + at[k]) * z.inner + i;
                store(dtype, j->out, to,
                      load(dtype, j->out, to) + load(dtype, j->x[1], (o * u.n + k) * u.inner + i));
            }
    return true;
}

static bool running_sum(const Job *j)
{
    Rows r = rows_of(j->ot, (int)j->attr->i);
    int dtype = j->ot->dtype;
    for (int64_t o = 0; o < r.outer; o++)
        for (int64_t i = 0; i < r.inner; i++)
            for (int64_t k = 0; k < r.n; k++) {
                int64_t row = j->attr->start ? r.n - 1 - k : k,
                        before = row + (j->attr->start ? 1 : -1);
                double v = load(dtype, j->x[0], (o * r.n + row) * r.inner + i);
                if (k) v += load(dtype, j->out, (o * r.n + before) * r.inner + i);
                store(dtype, j->out, (o * r.n + row) * r.inner + i, v);
            }
    return true;
}

typedef bool Family(const Job *j);
static Family *const families[OP_COUNT] = {
    [OP_constant] = constant,  [OP_broadcast] = gather,
    [OP_reshape] = gather,     [OP_after] = gather,
    [OP_transpose] = gather,   [OP_slice] = gather,
    [OP_pad_slice] = scatter,  [OP_concat] = scatter,
    [OP_sum] = reduce,         [OP_mean] = reduce,
    [OP_max] = reduce,         [OP_min] = reduce,
    [OP_matmul] = matmul,      [OP_gather] = gather_rows,
    [OP_cumsum] = running_sum, [OP_scatter_add] = scatter_rows,
    [OP_instead] = gather,
};

bool value_op(Op op, const Attr *attr, int n, const Type *xt, const Type *ot, const void *const *x,
              void *const *out, qb_error *err)
{
    Job j = {.op = op, .attr = attr, .n = n, .xt = xt, .ot = ot, .x = x, .out = out[0], .err = err};
    Family *f = op_elementwise(op) ? elementwise : families[op];
    if (f) return f(&j);
    error_set(err, QB_EBUG, "%s has no reference value", op_table[op].name);
    return false;
}

bool value_node(const Graph *g, const Node *n, const void *const *x, void *const *out,
                qb_error *err)
{
    if (n->sub) return value_region(g, n, x, out, err);
    Type few[4], *xt = n->n <= 4 ? few : mem_zeroed(n->n, sizeof *xt);
    if (!xt) return error_memory(err, "the reference value of a node", -1), false;
    for (uint32_t i = 0; i < n->n; i++) xt[i] = g->types[n->x[i]];
    bool ok = value_op(n->op, n->attr, (int)n->n, xt, &g->types[n->first], x, out, err);
    if (xt != few) mem_free(xt);
    return ok;
}

/* Every value in memory of its own, in one arena: programs here are small. */
bool value_run(const Graph *g, const void *const *inputs, void *const *outputs, qb_error *err)
{
    Arena arena = {0};
    void **value = arena_zeroed(&arena, (size_t)g->n_values + 1, sizeof *value);
    bool ok = value != NULL;
    for (Id i = 0; ok && i < g->n_values; i++) {
        int64_t bytes = type_bytes(&g->types[i]);
        ok = bytes >= 0 && (value[i] = arena_alloc(&arena, (size_t)bytes)) != NULL;
    }
    for (uint32_t i = 0; ok && i < g->n_inputs; i++)
        memcpy(value[g->inputs[i]], inputs[i], (size_t)type_bytes(&g->types[g->inputs[i]]));
    if (!ok) error_memory(err, "the values of a program", -1);
    for (Id i = 0; ok && i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (n->op == OP_input) continue;
        const void **x = arena_alloc(&arena, (n->n + 1) * sizeof *x);
        if (!x) error_memory(err, "the values of a program", -1);
        for (uint32_t k = 0; x && k < n->n; k++) x[k] = value[n->x[k]];
        ok = x && value_node(g, n, x, &value[n->first], err);
    }
    for (uint32_t i = 0; ok && i < g->n_outputs; i++)
        memcpy(outputs[i], value[g->outputs[i]], (size_t)type_bytes(&g->types[g->outputs[i]]));
    arena_free(&arena);
    return ok;
}
