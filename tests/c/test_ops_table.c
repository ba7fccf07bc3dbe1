/* test_ops_table.c: every op of the table, every dtype, every transform. A new row is tested by
   existing; a structural op needs an entry in `cases`, and one without an entry fails.

   For each program f, as the reference evaluator runs it:
     jvp        equals central differences of f, and so do the jvps of jvp(f) and of vjp(f), which
                is the second order
     vjp        agrees with jvp: <ct, jvp(t)> = <vjp(ct), t>, again for f, jvp(f) and vjp(f)
     derived    a vjp derived from the jvp rule equals the vjp rule
     float32    derivatives are those of float64, to float32 precision
     vmap       equals the loop bit for bit, for every choice of mapped inputs, of f, jvp(f) and
                vjp(f)
     fold       with constant inputs the same bits come out, and elementwise programs leave no node
                but the constant
     text       prints and parses back to the same text */
#include "graphs.h"

typedef Val Build(Graph *g, const Val *x);
typedef struct {
    Op op;
    const char *name;
    double lo, hi; /* of the inputs' values */
    Build *build;
    int n;
    Type in[3];
} Case;

static const char *what; /* the program at hand, for messages */

/* ---- comparisons ---- */

static double largest(const Array *a, uint32_t n)
{
    double m = 0;
    for (uint32_t i = 0; i < n; i++)
        for (int64_t k = 0; k < type_size(&a[i].type); k++)
            m = __builtin_fmax(m, __builtin_fabs(array_get(a[i], k)));
    return m;
}

static double distance(const Array *a, const Array *b, uint32_t n)
{
    double m = 0;
    for (uint32_t i = 0; i < n; i++)
        for (int64_t k = 0; k < type_size(&a[i].type); k++) {
            double d = __builtin_fabs(array_get(a[i], k) - array_get(b[i], k));
            if (!(d <= m)) m = d; /* a NaN stays */
        }
    return m;
}

static double dot(const Array *a, const Array *b, uint32_t n)
{
    double s = 0;
    for (uint32_t i = 0; i < n; i++)
        for (int64_t k = 0; k < type_size(&a[i].type); k++)
            s += array_get(a[i], k) * array_get(b[i], k);
    return s;
}

static bool close_to(double difference, double tolerance, const char *of)
{
    if (CHECK(difference <= tolerance)) return true;
    fprintf(stderr, "    %s: %s: off by %g, allowed %g\n", what, of, difference, tolerance);
    return false;
}

/* Inputs of a case have its range; tangents and cotangents after them are in [-1, 1). */
static void fill(const Graph *f, const Case *c, Array *in, uint64_t seed)
{
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        bool own = (int)i < c->n;
        in[i] = array_random(input_type(f, i), own ? c->lo : -1, own ? c->hi : 1, &seed);
    }
}

/* The floating arrays among a, in order. */
static int floating(const Array *a, uint32_t n, Array *out)
{
    int m = 0;
    for (uint32_t i = 0; i < n; i++)
        if (type_floating(&a[i].type)) out[m++] = a[i];
    return m;
}

/* ---- the checks ---- */

/* jvp(f) against (f(x + h t) - f(x - h t)) / 2h, and against vjp(f). f is in float64. */
static void check_derivatives(const Graph *f, const Case *c, const char *of)
{
    const double h = 1e-5;
    Graph *forward = jvp_of(f), *back = vjp_of(f);
    Array in[4 * MOST], up[4 * MOST], down[4 * MOST], z_up[4 * MOST], z_down[4 * MOST],
        tz[4 * MOST], grad[4 * MOST];
    fill(forward, c, in, 11);
    uint32_t n = f->n_inputs, m = forward->n_inputs - n;
    for (uint32_t i = 0, k = n; i < n; i++) {
        up[i] = array_copy(in[i]);
        down[i] = array_copy(in[i]);
        if (!type_floating(&in[i].type)) continue;
        for (int64_t j = 0; j < type_size(&in[i].type); j++) {
            array_set(up[i], j, array_get(in[i], j) + h * array_get(in[k], j));
            array_set(down[i], j, array_get(in[i], j) - h * array_get(in[k], j));
        }
        k++;
    }
    run(f, up, z_up);
    run(f, down, z_down);
    run(forward, in, tz);
    Array a[4 * MOST], b[4 * MOST], ct[4 * MOST];
    uint32_t outs = (uint32_t)floating(z_up, f->n_outputs, a);
    floating(z_down, f->n_outputs, b);
    for (uint32_t i = 0; i < outs; i++)
        for (int64_t j = 0; j < type_size(&a[i].type); j++)
            array_set(a[i], j, (array_get(a[i], j) - array_get(b[i], j)) / (2 * h));
    close_to(distance(a, tz, outs), 2e-7 * (1 + largest(a, outs)), of);

    fill(back, c, ct, 11); /* the same x */
    run(back, ct, grad);
    double left = dot(ct + n, tz, outs), right = dot(grad, in + n, m);
    double scale = 1 + largest(tz, outs) + largest(grad, m);
    close_to(__builtin_fabs(left - right), 1e-11 * scale, "vjp against jvp");

    arrays_drop(in, (int)forward->n_inputs);
    arrays_drop(ct, (int)back->n_inputs);
    arrays_drop(up, (int)n);
    arrays_drop(down, (int)n);
    arrays_drop(z_up, (int)f->n_outputs);
    arrays_drop(z_down, (int)f->n_outputs);
    arrays_drop(tz, (int)forward->n_outputs);
    arrays_drop(grad, (int)back->n_outputs);
    graph_release(forward);
    graph_release(back);
}

/* The same program in two dtypes gives the same numbers to float32 precision. */
static void check_float32(const Graph *f64, const Graph *f32, const Case *c, const char *of)
{
    Array in64[4 * MOST], in32[4 * MOST], out64[4 * MOST], out32[4 * MOST];
    fill(f64, c, in64, 5);
    fill(f32, c, in32, 5);
    run(f64, in64, out64);
    run(f32, in32, out32);
    close_to(distance(out64, out32, f64->n_outputs), 2e-5 * (1 + largest(out64, f64->n_outputs)),
             of);
    arrays_drop(in64, (int)f64->n_inputs);
    arrays_drop(in32, (int)f32->n_inputs);
    arrays_drop(out64, (int)f64->n_outputs);
    arrays_drop(out32, (int)f32->n_outputs);
}

static Array row_of(Array a, int64_t i)
{
    Array r = {.type = a.type};
    r.type.rank--;
    memmove(r.type.dims, r.type.dims + 1, sizeof *r.type.dims * r.type.rank);
    r.data = (char *)a.data + i * type_bytes(&r.type);
    return r;
}

static void check_vmap(const Graph *f, const Case *c, const char *of)
{
    enum { SIZE = 3 };
    for (uint32_t subset = 1; subset < 1u << f->n_inputs; subset++) {
        bool mapped[4 * MOST], out_mapped[4 * MOST];
        for (uint32_t i = 0; i < f->n_inputs; i++) mapped[i] = subset >> i & 1;
        Graph *batch = vmap_of(f, mapped, SIZE, out_mapped);
        Array in[4 * MOST], out[4 * MOST], one[4 * MOST], expected[4 * MOST];
        fill(batch, c, in, 3 + subset);
        run(batch, in, out);
        bool same = true;
        for (int64_t b = 0; b < SIZE; b++) {
            for (uint32_t i = 0; i < f->n_inputs; i++)
                one[i] = mapped[i] ? row_of(in[i], b) : in[i];
            run(f, one, expected);
            for (uint32_t i = 0; i < f->n_outputs; i++) {
                Array got = out_mapped[i] ? row_of(out[i], b) : out[i];
                same &= type_same(&got.type, &expected[i].type) &&
                        memcmp(got.data, expected[i].data, (size_t)type_bytes(&got.type)) == 0;
            }
            arrays_drop(expected, (int)f->n_outputs);
        }
        if (!CHECK(same))
            fprintf(stderr, "    %s: vmap of %s, mapped inputs %#x\n", what, of, subset);
        arrays_drop(in, (int)batch->n_inputs);
        arrays_drop(out, (int)batch->n_outputs);
        graph_release(batch);
    }
}

static void check_fold(const Graph *f, const Case *c, bool all)
{
    Array in[4 * MOST], out[4 * MOST], folded[4 * MOST];
    Val args[4 * MOST], z[4 * MOST];
    qb_error err = {0};
    Graph *g = start();
    fill(f, c, in, 7);
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        qb_buffer *b = qb_buffer_new(type_bytes(&in[i].type), &err);
        must(b, &err);
        memcpy(qb_buffer_data(b), in[i].data, (size_t)type_bytes(&in[i].type));
        args[i] = gdense(g, &in[i].type, b);
        qb_buffer_release(b);
    }
    inline_run(g, f, args, z);
    for (uint32_t i = 0; i < f->n_outputs; i++) graph_output(g, z[i]);
    finish(g);
    run(f, in, out);
    run(g, NULL, folded);
    for (uint32_t i = 0; i < f->n_outputs; i++) {
        if (all && !CHECK(const_node(z[i]))) fprintf(stderr, "    %s: not folded\n", what);
        if (!CHECK_EQ_BITS(out[i].data, folded[i].data, (size_t)type_bytes(&out[i].type)))
            fprintf(stderr, "    %s: folded\n", what);
    }
    arrays_drop(in, (int)f->n_inputs);
    arrays_drop(out, (int)f->n_outputs);
    arrays_drop(folded, (int)f->n_outputs);
    graph_release(g);
}

static void check_text(const Graph *f)
{
    Text before = {0}, after = {0};
    qb_error err = {0};
    print_graph(&before, f);
    char *a = text_take(&before, &err);
    must(a, &err);
    Graph *g = parse_graph(a, &err);
    must(g, &err);
    print_graph(&after, g);
    char *b = text_take(&after, &err);
    must(b, &err);
    CHECK_EQ_STR(a, b);
    CHECK(check_graph(f, &err));
    mem_free(a);
    mem_free(b);
    graph_release(g);
}

/* vjp_derived of f's last op, whose operands are f's inputs: else as vjp_of. */
static Graph *derived_of(const Graph *f)
{
    Graph *g = start();
    Val x[MOST], map[64], grad[MOST] = {0};
    const Node *n = &f->nodes[f->def[f->outputs[0]]];
    for (uint32_t i = 0; i < f->n_inputs; i++) x[i] = input_of(g, NULL, input_type(f, i));
    Val ct = input_of(g, NULL, output_type(f, 0));
    inline_map(g, f, x, map);
    vjp_derived(g, n, x, &map[n->first], &ct, grad);
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        Type t = input_type(f, i);
        if (type_floating(&t)) graph_output(g, present(g, grad[i], t));
    }
    return finish(g);
}

static void check_derived(const Graph *f, const Case *c)
{
    const Node *n = &f->nodes[f->def[f->outputs[0]]];
    for (uint32_t i = 0; i < f->n_inputs; i++)
        if (i >= n->n || n->x[i] != f->inputs[i]) return; /* a program of several nodes */
    if (n->n != f->n_inputs || f->n_values > 64) return;
    Graph *rule = vjp_of(f), *derived = derived_of(f);
    Array in[4 * MOST], a[4 * MOST], b[4 * MOST];
    fill(rule, c, in, 17);
    run(rule, in, a);
    run(derived, in, b);
    close_to(distance(a, b, rule->n_outputs), 1e-14 * (1 + largest(a, rule->n_outputs)),
             "derived vjp");
    arrays_drop(in, (int)rule->n_inputs);
    arrays_drop(a, (int)rule->n_outputs);
    arrays_drop(b, (int)rule->n_outputs);
    graph_release(rule);
    graph_release(derived);
}

/* ---- programs ---- */

static Graph *program(const Case *c, int dtype)
{
    Graph *g = start();
    Val x[3];
    for (int i = 0; i < c->n; i++) {
        Type t = c->in[i];
        if (t.dtype == QB_F64) t.dtype = (uint8_t)dtype;
        x[i] = graph_input(g, NULL, &t);
    }
    graph_output(g, c->build ? c->build(g, x) : graph_emit(g, c->op, x, c->n, NULL));
    return finish(g);
}

static void check_case(const Case *c)
{
    what = c->name ? c->name : op_table[c->op].name;
    Graph *f = program(c, QB_F64), *small = program(c, QB_F32);
    Graph *forward = jvp_of(f), *back = vjp_of(f), *forward32 = jvp_of(small),
          *back32 = vjp_of(small);
    check_text(f);
    check_text(small);
    check_text(forward);
    check_text(back);
    check_fold(f, c, !c->build);
    check_fold(small, c, !c->build);
    check_vmap(f, c, "f");
    check_vmap(small, c, "f in float32");
    if (forward->n_outputs && c->op != OP_stop_gradient) { /* which is no derivative of its value */
        check_derivatives(f, c, "jvp");
        check_derivatives(forward, c, "jvp of jvp");
        check_derivatives(back, c, "jvp of vjp");
        check_vmap(forward, c, "jvp");
        check_vmap(back, c, "vjp");
        check_float32(forward, forward32, c, "jvp in float32");
        check_float32(back, back32, c, "vjp in float32");
        check_derived(f, c);
    }
    Graph *all[] = {f, small, forward, back, forward32, back32};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) graph_release(all[i]);
}

/* clang-format off */
/* Where a row is smooth, if not on [-2, 2). */
static const struct { Op op; double lo, hi; } ranges[] = {
    {OP_pow, 0.2, 2},     {OP_sqrt, 0.2, 2},    {OP_cbrt, 0.2, 2},      {OP_log, 0.2, 2},     {OP_log1p, -0.5, 2},
    {OP_log2, 0.2, 2},    {OP_log10, 0.2, 2},   {OP_tan, -1.2, 1.2},    {OP_arcsin, -0.8, 0.8}, {OP_arccos, -0.8, 0.8},
    {OP_arccosh, 1.3, 3}, {OP_arctanh, -0.8, 0.8}, {OP_hypot, 0.3, 2}, {OP_atan2, 0.3, 2},
};
/* clang-format on */

static void test_every_elementwise_row(void)
{
    for (int op = 0; op < OP_COUNT; op++) {
        const OpRow *r = &op_table[op];
        if (r->cls == CLASS_STRUCT) continue;
        Type t = r->in == IN_B ? shape(QB_BOOL, 2, 3) : shape(QB_F64, 2, 3);
        Case c = {.op = (Op)op, .lo = -2, .hi = 2, .n = r->arity, .in = {t, t}};
        for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
            if (ranges[i].op == c.op) c.lo = ranges[i].lo, c.hi = ranges[i].hi;
        check_case(&c);
        if (r->in != IN_A) continue;
        c.in[0] = c.in[1] = shape(QB_BOOL, 2, 3);
        check_case(&c);
    }
}

/* clang-format off */
#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#define AXES(...) (int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
static qb_buffer *indices_of(const int64_t *at, int n)
{
    qb_error err = {0};
    qb_buffer *b = qb_buffer_new(n * (int64_t)sizeof *at, &err);
    must(b, &err);
    memcpy(qb_buffer_data(b), at, (size_t)n * sizeof *at);
    return b;
}

static Val taken(Val x, int axis, const int64_t *at, int n)
{
    qb_buffer *b = indices_of(at, n);
    Val v = ggather(x, axis, b);
    qb_buffer_release(b);
    return v;
}

static Val put(Val x, Val updates, int axis, const int64_t *at, int n)
{
    qb_buffer *b = indices_of(at, n);
    Val v = gscatter_add(x, updates, axis, b);
    qb_buffer_release(b);
    return v;
}

#define BUILD(name, v) \
    static Val name(Graph *g, const Val *x) { return (void)g, (v); }
BUILD(powi_0, graph_emit(g, OP_powi, x, 1, &(Attr){.i = 0}))
BUILD(powi_1, graph_emit(g, OP_powi, x, 1, &(Attr){.i = 1}))
BUILD(powi_3, gpowi(x[0], 3))
BUILD(cast_f32, gcast(x[0], QB_F32))
BUILD(cast_f64, gcast(x[0], QB_F64))
BUILD(cast_bool, gcast(x[0], QB_BOOL))
BUILD(cast_from_bool, gmul(gcast_like(x[0], x[1]), x[1]))
BUILD(where_2, gwhere(x[0], x[1], x[2]))
BUILD(repeat, gbroadcast(x[0], DIMS(2, 4, 3)))
BUILD(expand, gexpand(x[0], x[1]))
BUILD(reshape_23, greshape(x[0], DIMS(6)))
BUILD(reshape_scalar, greshape(x[0], DIMS(1, 1)))
BUILD(transpose_3, gtranspose(x[0], (int64_t[]){2, 0, 1}))
BUILD(slice_2, gslice(x[0], 1, 1, 2, 3))
BUILD(slice_back, gslice(x[0], 0, 3, 3, -1))
BUILD(pad_2, gpad_slice(x[0], 1, 1, 8, 3))
BUILD(pad_back, gpad_slice(x[0], 0, 5, 6, -2))
BUILD(concat_3, gconcat(g, x, 3, 1))
BUILD(concat_twice, gconcat(g, (Val[]){x[0], x[1], x[0]}, 3, 0))
BUILD(sum_last, gsum(x[0], AXES(1)))
BUILD(sum_two, gsum(x[0], AXES(0, 2)))
BUILD(sum_all, gsum(x[0], AXES(0, 1)))
BUILD(mean_first, greduce(OP_mean, x[0], AXES(0)))
BUILD(mean_all, greduce(OP_mean, x[0], AXES(0, 1)))
BUILD(max_last, greduce(OP_max, x[0], AXES(1)))
BUILD(max_two, greduce(OP_max, x[0], AXES(0, 2)))
BUILD(min_first, greduce(OP_min, x[0], AXES(0)))
BUILD(gather_rows, taken(x[0], 0, AXES(2, 0, 2, 1, 2)))
BUILD(gather_columns, taken(x[0], 1, AXES(3, 0)))
BUILD(scatter_rows, put(x[0], x[1], 0, AXES(2, 0, 2)))
BUILD(scatter_columns, put(x[0], x[1], 1, AXES(1, 1)))
BUILD(cumsum_first, gcumsum(x[0], 0, false))
BUILD(cumsum_last_back, gcumsum(x[0], 2, true))
BUILD(product, gmatmul(x[0], x[1]))
BUILD(after_1, gmul(gafter(x[0], gsin(x[1])), x[1]))
/* The same function twice, so that the value and its derivative agree. */
BUILD(instead_1, gmul(ginstead(gmul(x[0], gneg(x[0])), gneg(gpowi(x[0], 2))), x[1]))
BUILD(squared_bools, gwhere(ggreater(x[0], gzeros(x[0])), gpowi(x[0], 2), gneg(x[0])))
BUILD(layer, gtanh(gadd(gmatmul(x[0], x[1]), gexpand(x[2], gmatmul(x[0], x[1])))))
#undef BUILD
/* clang-format on */

#define SCALAR shape(QB_F64)
#define F(...) shape(QB_F64, __VA_ARGS__)
#define B(...) shape(QB_BOOL, __VA_ARGS__)
static void test_every_structural_op(void)
{
    /* clang-format off */
const Case cases[] = {
        {OP_powi, "powi 0", -2, 2, powi_0, 1, {F(3)}},
        {OP_powi, "powi 1", -2, 2, powi_1, 1, {F(3)}},
        {OP_powi, "powi 3", -2, 2, powi_3, 1, {F(2, 2)}},
        {OP_cast, "cast to f32", -1, 1, cast_f64, 1, {F(2, 3)}}, /* of a float32 program: to f64 */
        {OP_cast, "cast to bool", -1, 1, cast_bool, 1, {F(2, 3)}},
        {OP_cast, "cast of a mask", -1, 1, cast_from_bool, 2, {B(4), F(4)}},
        {OP_stop_gradient, "stop_gradient", -1, 1, NULL, 1, {F(4)}},
        {OP_where, "where", -1, 1, where_2, 3, {B(3, 2), F(3, 2), F(3, 2)}},
        {OP_where, "where of a comparison", -1, 1, squared_bools, 1, {F(5)}},
        {OP_broadcast, "broadcast", -1, 1, repeat, 1, {F(2, 1, 3)}},
        {OP_broadcast, "broadcast of a scalar", -1, 1, expand, 2, {SCALAR, F(2, 3)}},
        {OP_broadcast, "broadcast of a mask", -1, 1, expand, 2, {B(3), F(2, 3)}},
        {OP_reshape, "reshape", -1, 1, reshape_23, 1, {F(2, 3)}},
        {OP_reshape, "reshape of a scalar", -1, 1, reshape_scalar, 1, {SCALAR}},
        {OP_transpose, "transpose", -1, 1, transpose_3, 1, {F(2, 3, 4)}},
        {OP_slice, "slice", -1, 1, slice_2, 1, {F(2, 6)}},
        {OP_slice, "slice backward", -1, 1, slice_back, 1, {F(4, 2)}},
        {OP_pad_slice, "pad_slice", -1, 1, pad_2, 1, {F(2, 3)}},
        {OP_pad_slice, "pad_slice backward", -1, 1, pad_back, 1, {F(3)}},
        {OP_concat, "concat", -1, 1, concat_3, 3, {F(2, 1), F(2, 3), F(2, 2)}},
        {OP_concat, "concat with a repeat", -1, 1, concat_twice, 2, {F(2), F(3)}},
        {OP_sum, "sum of the last axis", -1, 1, sum_last, 1, {F(3, 200)}},
        {OP_sum, "sum of two axes", -1, 1, sum_two, 1, {F(2, 3, 4)}},
        {OP_sum, "sum of all", -1, 1, sum_all, 1, {F(20, 20)}},
        {OP_mean, "mean of the first axis", -1, 1, mean_first, 1, {F(150, 2)}},
        {OP_mean, "mean of all", -1, 1, mean_all, 1, {F(3, 4)}},
        {OP_max, "max of the last axis", -1, 1, max_last, 1, {F(3, 5)}},
        {OP_max, "max of two axes", -1, 1, max_two, 1, {F(2, 3, 4)}},
        {OP_min, "min of the first axis", -1, 1, min_first, 1, {F(5, 3)}},
        {OP_gather, "gather of rows", -1, 1, gather_rows, 1, {F(3, 2)}},
        {OP_gather, "gather of columns", -1, 1, gather_columns, 1, {F(2, 4, 3)}},
        {OP_scatter_add, "scatter_add of rows", -1, 1, scatter_rows, 2, {F(4, 2), F(3, 2)}},
        {OP_scatter_add, "scatter_add of columns", -1, 1, scatter_columns, 2, {F(2, 3), F(2, 2)}},
        {OP_cumsum, "cumsum", -1, 1, cumsum_first, 1, {F(5, 2)}},
        {OP_cumsum, "cumsum backward", -1, 1, cumsum_last_back, 1, {F(2, 1, 6)}},
        {OP_matmul, "matmul", -1, 1, product, 2, {F(2, 130), F(130, 3)}},
        {OP_matmul, "matmul of a batch", -1, 1, product, 2, {F(2, 3, 4), F(2, 4, 2)}},
        {OP_matmul, "matmul of two batch axes", -1, 1, product, 2, {F(2, 3, 2, 4), F(2, 3, 4, 5)}},
        {OP_matmul, "matmul with a vector", -1, 1, product, 2, {F(1, 4), F(4, 1)}},
        {OP_after, "after", -1, 1, after_1, 2, {F(3), F(3)}},
        {OP_instead, "instead", -1, 1, instead_1, 2, {F(3), F(3)}},
        {OP_matmul, "a layer", -1, 1, layer, 3, {F(3, 2), F(2, 4), F(4)}},
    };
    /* clang-format on */
    bool seen[OP_COUNT] = {false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        seen[cases[i].op] = true;
        check_case(&cases[i]);
    }
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_table[op].cls != CLASS_STRUCT || op == OP_input || op == OP_constant) continue;
        if (op_bodies(op)) continue; /* test_region.c */
        if (!CHECK(seen[op])) fprintf(stderr, "    %s has no case\n", op_table[op].name);
    }
}

/* Both ways in one program, which stays in float64 for the differences: the tangent loses what
   float32 cannot hold. */
static void test_a_cast_rounds_its_tangent(void)
{
    Graph *g = start();
    Type t = shape(QB_F64, 1);
    Val x = graph_input(g, "x", &t);
    graph_output(g, cast_f64(g, (Val[]){cast_f32(g, &x)}));
    finish(g);
    Graph *forward = jvp_of(g), *back = vjp_of(g);
    CHECK(run_scalar(forward, (double[]){2, 0.1}) == (double)0.1f);
    CHECK(run_scalar(back, (double[]){2, 0.1}) == (double)0.1f);
    graph_release(g);
    graph_release(forward);
    graph_release(back);
}

static Op composite; /* what apply() applies */
static Val apply(Graph *g, const Val *x)
{
    return apply_op(g, composite, x, op_table[composite].arity, &(Attr){.n = -1});
}

/* Composites need no rule of their own. On both sides of their special points they are smooth. */
static void test_every_composite(void)
{
    static const struct {
        double lo, hi;
    } sides[] = {{0.2, 1.2}, {-1.2, -0.2}};
    for (int op = OP_COUNT; op < APPLY_COUNT; op++) {
        if (op == COMPOSE_clip || op == COMPOSE_nan_to_num)
            continue; /* with bounds that are numbers: in Python's tests */
        composite = (Op)op;
        for (int i = 0; i < 2; i++) {
            Case c = {(Op)op, op_table[op].name,  sides[i].lo,       sides[i].hi,
                      apply,  op_table[op].arity, {F(2, 3), F(2, 3)}};
            check_case(&c);
        }
    }
}

int main(void)
{
    RUN(test_every_composite);
    RUN(test_every_elementwise_row);
    RUN(test_every_structural_op);
    RUN(test_a_cast_rounds_its_tangent);
    return test_report();
}
