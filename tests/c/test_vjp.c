/* test_vjp.c: reverse mode: masked cotangents, what is left out, and running out of memory. That
   its numbers are derivatives is the business of test_ops_table.c. */
#include "graphs.h"
#include <math.h>

/* ---- masked cotangents: a NaN or an infinity in the unselected branch never leaks ---- */

typedef Val Fn(Val x);

static Val positive(Val x) { return ggreater(x, gzeros(x)); }
static Val greater_than(Val x, double c) { return ggreater(x, glike(x, c)); }
static Val wide(Val x) { return gexpand(x, const_of(x.graph, shape(QB_F64, 2, 3), 0)); }
static Val total(Val x) { return gsum(x, (int64_t[]){0, 1}, 2); }

static Val sqrt_above_1(Val x) { return gwhere(gless(x, glike(x, 1)), x, gsqrt(x)); }
static Val log_of_sqrt(Val x) { return gwhere(positive(x), glog(gsqrt(x)), gzeros(x)); }
static Val reciprocal(Val x) { return gwhere(positive(x), grecip(x), gmul(x, x)); }
static Val in_the_other_branch(Val x)
{
    return gwhere(positive(x), x, gmul(x, gcos(gwhere(positive(x), gzeros(x), x))));
}
static Val nested(Val x)
{
    return gwhere(positive(x), gwhere(gless(x, glike(x, 2)), glog(x), grecip(x)),
                  gmul(glike(x, 5), x));
}
static Val nested_inside(Val x)
{
    return gwhere(greater_than(x, -1), gwhere(positive(x), glog(x), gmul(glike(x, 2), x)), x);
}
static Val cube_below_1(Val x) { return gwhere(gless(x, glike(x, 1)), gpowi(x, 3), x); }
static Val through_powi(Val x) { return gwhere(positive(x), gpowi(grecip(x), 2), x); }
static Val through_cast(Val x)
{
    Val y = gcast(gcast(grecip(x), QB_F32), QB_F64);
    return gwhere(positive(x), y, x);
}
static Val through_pow(Val x) { return gwhere(positive(x), gpow(gcbrt(x), glike(x, 0.25)), x); }

/* Two consumers of u with masks that are both false at 0, and one with none. */
static Val joined(Val x)
{
    Val u = gmul(glike(x, 2), x), a = gwhere(positive(u), glog(u), gzeros(u));
    Val b = gwhere(gless(u, glike(u, -1)), grecip(u), u);
    return gadd(gadd(a, b), gmul(u, u));
}

/* u gets one cotangent from each side: the union of the two masks is everything. */
static Val both_sides(Val x)
{
    Val u = gmul(x, x), m = positive(x);
    return gadd(gwhere(m, u, gzeros(u)), gwhere(m, gzeros(u), gmul(glike(u, 3), u)));
}

/* One of the three elements is selected. */
static Val partly_selected(Val x)
{
    Val one = const_of(x.graph, shape(QB_F64, 1), 1), padded = gpad_slice(one, 0, 1, 3, 1);
    Val m = ggreater(padded, gzeros(padded));
    Val y = gexpand(gmul(x, x), m);
    return gsum(gwhere(m, y, gzeros(y)), (int64_t[]){0}, 1);
}

/* The singular value is made in many elements, moved by every shape op, and masked at the end. */
static Val through_shapes(Val x)
{
    Val y = gtranspose(glog(wide(x)), (int64_t[]){1, 0}); /* [3,2] */
    y = gslice(y, 0, 2, 3, -1);
    y = gconcat(x.graph, (Val[]){y, grecip(y)}, 2, 1); /* [3,4] */
    y = greshape(gpad_slice(y, 1, 0, 8, 2), 2, (int64_t[]){4, 6});
    Val like = gexpand(x, y);
    y = gwhere(positive(like), y, like); /* 24 times x at x <= 0 */
    return total(y);
}
/* The mask is on the broadcast value, the singular partial on its operand. */
static Val under_a_broadcast(Val x)
{
    Val y = wide(grecip(x));
    return total(gwhere(positive(wide(x)), y, wide(x)));
}
/* The mask is on the reduced value, the singular partial on its elements. */
static Val under_a_sum(Val x) { return gwhere(positive(x), total(grecip(wide(x))), x); }
static Val under_a_mean(Val x)
{
    return gwhere(positive(x), greduce(OP_mean, grecip(wide(x)), (int64_t[]){0, 1}, 2), x);
}
static Val under_a_max(Val x)
{
    return gwhere(positive(x), greduce(OP_max, grecip(wide(x)), (int64_t[]){0, 1}, 2), x);
}

/* clang-format off */
static const struct { const char *name; Fn *f; double x, slope, second; } masked[] = {
    {"where(x < 1, x, sqrt(x))", sqrt_above_1, 0, 1, 0},
    {"log of sqrt", log_of_sqrt, 0, 0, 0},
    {"1 / x", reciprocal, 0, 0, 2},
    {"a where inside a branch", in_the_other_branch, 0, 1, 0},
    {"nested", nested, 0, 5, 0},
    {"nested, the inner one unselected", nested_inside, 0, 2, 0},
    {"powi", through_powi, 0, 1, 0},
    {"powi at infinity", cube_below_1, INFINITY, 1, 0},
    {"cast", through_cast, 0, 1, 0},
    {"pow", through_pow, 0, 1, 0},
    {"joined", joined, 0, 2, 8},
    {"the left side of two", both_sides, -2, -12, 6},
    {"the right side of two", both_sides, 2, 4, 2},
    {"some of a broadcast value", partly_selected, 3, 6, 2},
    {"shape ops", through_shapes, 0, 24, 0},
    {"broadcast", under_a_broadcast, 0, 6, 0},
    {"sum", under_a_sum, 0, 1, 0},
    {"mean", under_a_mean, 0, 1, 0},
    {"max", under_a_max, 0, 1, 0},
};
/* clang-format on */

static Graph *of_scalar(Fn *fn)
{
    Graph *g = start();
    graph_output(g, fn(scalar(g, "x")));
    return finish(g);
}

static void test_an_unselected_branch_never_leaks(void)
{
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
        Graph *f = of_scalar(masked[i].f);
        for (int mode = 0; mode < 4; mode++) { /* forward or reverse, of forward or reverse */
            Graph *d = slope_of(f, mode & 1), *dd = slope_of(d, mode & 2);
            bool ok = CHECK_NEAR(run_scalar(d, &masked[i].x), masked[i].slope, 0);
            ok &= CHECK_NEAR(run_scalar(dd, &masked[i].x), masked[i].second, 0);
            if (!ok) fprintf(stderr, "    %s, mode %d\n", masked[i].name, mode);
            graph_release(d);
            graph_release(dd);
        }
        graph_release(f);
    }
}

/* The guard hides nothing where the branch is selected. */
static void test_a_selected_branch_has_its_derivative(void)
{
    Graph *f = of_scalar(log_of_sqrt), *d = slope_of(f, false), *dd = slope_of(d, false),
          *forward = slope_of(d, true);
    double x = 4;
    CHECK_NEAR(run_scalar(d, &x), 0.125, 1e-16);
    CHECK_NEAR(run_scalar(dd, &x), -1.0 / 32, 1e-16);
    CHECK_NEAR(run_scalar(forward, &x), -1.0 / 32, 1e-16);
    Graph *all[] = {f, d, dd, forward};
    for (int i = 0; i < 4; i++) graph_release(all[i]);
}

static void test_a_true_infinity_is_not_hidden(void)
{
    Graph *f = start();
    Val x = scalar(f, "x");
    graph_output(f, gwhere(gless(x, glike(x, 1)), gcbrt(x), x));
    Graph *d = slope_of(finish(f), false);
    double zero = 0;
    CHECK(run_scalar(d, &zero) == INFINITY);
    graph_release(f);
    graph_release(d);
}

static void test_masks_cost_nothing_without_where(void)
{
    Graph *f = start();
    Val x = input_of(f, "x", shape(QB_F64, 4, 2)), w = input_of(f, "w", shape(QB_F64, 2, 3));
    graph_output(f, greduce(OP_mean, gtanh(gmatmul(x, w)), (int64_t[]){0, 1}, 2));
    Graph *back = vjp_of(finish(f));
    CHECK_EQ_INT(count_op(back, OP_where) + count_op(back, OP_logical_and) +
                     count_op(back, OP_logical_or),
                 0);
    graph_release(f);
    graph_release(back);
}

/* relu needs one select: the partial of a bias or a product never meets the mask. */
static void test_a_constant_partial_needs_no_select(void)
{
    Graph *f = start();
    Val x = scalar(f, "x"), h = gneg(gsub(gmul(glike(x, 3), x), glike(x, 1)));
    graph_output(f, gwhere(positive(h), h, gzeros(h)));
    Graph *back = vjp_of(finish(f));
    /* the function, and the cotangents of its two branches */
    CHECK_EQ_INT(count_op(back, OP_where), 3);
    graph_release(f);
    graph_release(back);
}

/* ---- what is left out ---- */

static void test_only_wanted_inputs_get_gradients(void)
{
    Graph *f = start(), *g = start();
    Val x = scalar(f, "x"), y = scalar(f, "y"), unused = scalar(f, "unused");
    (void)unused;
    graph_output(f, gmul(gsin(x), gexp(y)));
    finish(f);
    Val args[3] = {scalar(g, "x"), scalar(g, "y"), scalar(g, "u")}, ct = scalar(g, "ct"), z,
        grad[3] = {args[0], args[0], args[0]};
    CHECK(vjp_run(g, f, args, &ct, (bool[]){false, true, true}, &z, grad));
    CHECK(val_none(grad[0]));
    CHECK(!val_none(grad[1]));
    CHECK(val_none(grad[2]));
    CHECK_EQ_INT(count_op(g, OP_cos), 0);
    graph_release(f);
    graph_release(g);
}

static void test_an_absent_cotangent_gives_absent_gradients(void)
{
    Graph *f = start(), *g = start();
    Val x = scalar(f, "x"), y = scalar(f, "y");
    graph_output(f, gsin(x));
    graph_output(f, gexp(y));
    graph_output(f, gless(x, y));
    finish(f);
    Val args[2] = {scalar(g, "x"), scalar(g, "y")}, ct[3] = {NONE, scalar(g, "ct"), NONE}, z[3],
        grad[2];
    CHECK(vjp_run(g, f, args, ct, NULL, z, grad));
    CHECK(val_none(grad[0]));
    CHECK(!val_none(grad[1]));
    CHECK_EQ_INT(count_op(g, OP_less), 1);
    graph_release(f);
    graph_release(g);
}

static void test_steps_masks_and_stopped_values_pass_nothing_on(void)
{
    Graph *f = start(), *g = start();
    Val x = scalar(f, "x");
    Val y =
        gadd(gadd(gfloor(x), gsign(x)), gadd(gstop_gradient(gexp(x)), gcast(positive(x), QB_F64)));
    graph_output(f, y);
    finish(f);
    Val arg = scalar(g, "x"), ct = scalar(g, "ct"), z, grad;
    CHECK(vjp_run(g, f, &arg, &ct, NULL, &z, &grad));
    CHECK(val_none(grad));
    graph_release(f);
    graph_release(g);
}

/* The factor that is stopped gets no cotangent at all. */
static void test_a_stopped_value_costs_no_node(void)
{
    Graph *f = start(), *g = start();
    Val x = scalar(f, "x");
    graph_output(f, gmul(gstop_gradient(gexp(x)), x));
    finish(f);
    Val arg = scalar(g, "x"), ct = scalar(g, "ct"), z, grad;
    CHECK(vjp_run(g, f, &arg, &ct, NULL, &z, &grad));
    CHECK(node_of(grad)->op == OP_mul);
    CHECK_EQ_INT(count_op(g, OP_mul), 2);
    graph_release(f);
    graph_release(g);
}

static void test_a_value_used_often_sums_its_cotangents(void)
{
    Graph *f = start();
    Val x = scalar(f, "x");
    graph_output(f, gadd(gmul(x, gmul(x, x)), gadd(x, x)));
    Graph *d = slope_of(finish(f), false), *dd = slope_of(d, false);
    double at = 3;
    CHECK_NEAR(run_scalar(d, &at), 29, 0);
    CHECK_NEAR(run_scalar(dd, &at), 18, 0);
    graph_release(f);
    graph_release(d);
    graph_release(dd);
}

static void test_an_output_that_is_an_input_passes_its_cotangent(void)
{
    Graph *f = start(), *g = start();
    Val x = scalar(f, "x");
    graph_output(f, x);
    graph_output(f, x);
    finish(f);
    Val arg = scalar(g, "x"), ct[2] = {scalar(g, "a"), scalar(g, "b")}, z[2], grad;
    CHECK(vjp_run(g, f, &arg, ct, NULL, z, &grad));
    CHECK(node_of(grad)->op == OP_add);
    CHECK(val_same(z[0], arg));
    graph_release(f);
    graph_release(g);
}

/* ---- derived rules: the numbers are compared in test_ops_table.c ---- */

static void test_a_derived_vjp_leaves_constant_operands_out(void)
{
    Graph *f = start(), *g = start();
    Type b = shape(QB_BOOL, 2), t = shape(QB_F64, 2);
    Val x[3] = {graph_input(f, "m", &b), graph_input(f, "a", &t), graph_input(f, "b", &t)};
    graph_output(f, gwhere(x[0], x[1], x[2]));
    finish(f);
    Val args[3] = {graph_input(g, "m", &b), graph_input(g, "a", &t), graph_input(g, "b", &t)},
        ct = graph_input(g, "ct", &t);
    Val z = gwhere(args[0], args[1], args[2]), out[3] = {NONE, NONE, NONE};
    vjp_derived(g, node_of(graph_val(f, f->outputs[0])), args, &z, &ct, out);
    CHECK(!graph_failed(g));
    CHECK(val_none(out[0]));
    CHECK(!val_none(out[1]) && !val_none(out[2]));
    graph_release(f);
    graph_release(g);
}

/* ---- out of memory ---- */

static Val everything(Val x)
{
    Graph *g = x.graph;
    Val y = wide(x), m = gmatmul(y, gtranspose(y, (int64_t[]){1, 0}));
    m = gconcat(g, (Val[]){m, gtanh(m), const_of(g, shape(QB_F64, 2, 2), 1)}, 3, 0);
    return gadd(total(gwhere(positive(m), glog(m), m)), through_shapes(x));
}

/* All transforms of f into one graph; false and a code when something failed. */
static int transform_all(const Graph *f, int64_t fail_at)
{
    qb_error err = {0};
    qb_test_fail_alloc(fail_at);
    Graph *g = graph_new(&err);
    if (g) {
        Type t = shape(QB_F64), batch = shape(QB_F64, 3);
        Val x = graph_input(g, "x", &t), b = graph_input(g, "b", &batch), z, d, out[1] = {NONE};
        bool mapped = true;
        Val one = glike(x, 1), square = gpowi(x, 2);
        if (jvp_run(g, f, &x, &one, &z, &d) && vjp_run(g, f, &x, &one, NULL, &z, &d) &&
            vmap_run(g, f, &b, &mapped, 3, &z, &mapped))
            vjp_derived(g, node_of(square), &x, &square, &one, out);
        graph_error(g, &err);
    }
    qb_test_fail_alloc(-1);
    graph_release(g);
    return err.code;
}

static void test_running_out_of_memory_is_an_error_and_leaks_nothing(void)
{
    Graph *f = of_scalar(everything);
    int64_t live = qb_test_live_bytes(), n = 1;
    int code = QB_EMEMORY;
    for (; n < 10000 && code == QB_EMEMORY; n++) {
        code = transform_all(f, n);
        CHECK(code == QB_EMEMORY || code == QB_OK);
        if (!CHECK_EQ_INT(qb_test_live_bytes(), live)) break;
    }
    CHECK_EQ_INT(code, QB_OK);
    CHECK(n > 10); /* it did fail on the way */
    graph_release(f);
}

int main(void)
{
    RUN(test_an_unselected_branch_never_leaks);
    RUN(test_a_selected_branch_has_its_derivative);
    RUN(test_a_true_infinity_is_not_hidden);
    RUN(test_masks_cost_nothing_without_where);
    RUN(test_a_constant_partial_needs_no_select);
    RUN(test_only_wanted_inputs_get_gradients);
    RUN(test_an_absent_cotangent_gives_absent_gradients);
    RUN(test_steps_masks_and_stopped_values_pass_nothing_on);
    RUN(test_a_stopped_value_costs_no_node);
    RUN(test_a_value_used_often_sums_its_cotangents);
    RUN(test_an_output_that_is_an_input_passes_its_cotangent);
    RUN(test_a_derived_vjp_leaves_constant_operands_out);
    RUN(test_running_out_of_memory_is_an_error_and_leaks_nothing);
    return test_report();
}
