/* test_jvp.c: forward mode: what it leaves out, the conventions at special points, high orders, and
   where its nodes come from. That its numbers are derivatives is for test_ops_table.c. */
#include "graphs.h"
#include <math.h>

/* ---- zero tangents ---- */

static void test_a_zero_tangent_costs_no_node(void)
{
    Graph *f = start(), *g = start(), *plain = start();
    Val x = scalar(f, "x"), y = scalar(f, "y");
    graph_output(f, gadd(gmul(x, y), gsin(y)));
    graph_output(f, gexp(y));
    finish(f);
    Val args[2] = {scalar(g, "x"), scalar(g, "y")}, t[2] = {scalar(g, "t"), NONE}, z[2], tz[2];
    Val plain_args[3] = {scalar(plain, "x"), scalar(plain, "y"), scalar(plain, "t")};
    CHECK(jvp_run(g, f, args, t, z, tz));
    CHECK(inline_run(plain, f, plain_args, z));
    CHECK(!val_none(tz[0]));
    CHECK(val_none(tz[1]));
    CHECK_EQ_INT(g->n_nodes, plain->n_nodes + 2); /* t y, and the 1 that is the partial of a sum */
    CHECK_EQ_INT(count_op(g, OP_cos), 0);
    graph_release(f);
    graph_release(g);
    graph_release(plain);
}

static void test_steps_masks_and_stopped_values_have_no_tangent(void)
{
    Graph *f = start(), *g = start();
    Val x = scalar(f, "x"),
        y[6] = {gfloor(x), gceil(x),          ground(x),
                gsign(x),  gstop_gradient(x), gcast(ggreater(x, gzeros(x)), QB_F64)};
    for (int i = 0; i < 6; i++) graph_output(f, y[i]);
    graph_output(f, gless(x, gzeros(x)));
    finish(f);
    Val arg = scalar(g, "x"), t = scalar(g, "t"), z[7], tz[7];
    REQUIRE(jvp_run(g, f, &arg, &t, z, tz));
    for (int i = 0; i < 7; i++) CHECK(val_none(tz[i]));
    graph_release(f);
    graph_release(g);
}

static void test_the_tangent_of_a_bool_input_is_ignored(void)
{
    Graph *f = start(), *g = start();
    Type b = shape(QB_BOOL);
    Val m = graph_input(f, "m", &b), x = scalar(f, "x");
    graph_output(f, gwhere(m, x, gneg(x)));
    finish(f);
    Val args[2] = {graph_input(g, "m", &b), scalar(g, "x")},
        t[2] = {graph_input(g, "tm", &b), NONE}, z, tz;
    CHECK(jvp_run(g, f, args, t, &z, &tz));
    CHECK(val_none(tz));
    graph_release(f);
    graph_release(g);
}

/* ---- conventions ---- */

typedef Val Fn(Val x);
static Val f_sqrt(Val x) { return gsqrt(x); }
static Val f_root_of_square(Val x) { return gsqrt(gmul(x, x)); }
static Val f_pow(Val x) { return gpow(x, glike(x, 0.5)); }
static Val f_pow_1(Val x) { return gpow(x, glike(x, 1)); }
static Val f_exponent(Val x) { return gpow(gzeros(x), x); }
static Val f_abs(Val x) { return gabs(x); }
static Val f_hypot(Val x) { return ghypot(x, gzeros(x)); }
static Val f_atan2(Val x) { return gatan2(x, x); }
static Val f_far(Val x) { return gatan2(x, glike(x, 1e200)); }
static Val f_arcsinh(Val x) { return garcsinh(x); }
static Val f_quotient(Val x) { return gdiv(glike(x, 1e-25), x); }
static Val f_powi_0(Val x) { return gpowi(x, 0); }
static Val f_fmod(Val x) { return gfmod(glike(x, 7), x); }
static Val f_arctanh(Val x) { return garctanh(x); }

/* clang-format off */
static const struct { const char *name; Fn *f; double x, slope, second; } points[] = {
    {"sqrt at 0", f_sqrt, 0, 0, 0},
    {"sqrt at -0", f_sqrt, -0.0, 0, 0},
    {"sqrt of a square at 0", f_root_of_square, 0, 0, 0},
    {"x to the 1/2 at 0", f_pow, 0, 0, 0},
    {"x to the 1. at 0", f_pow_1, 0, 1, 0},
    {"0 to the x", f_exponent, 2, 0, 0},
    {"abs at 0", f_abs, 0, 0, 0},
    {"hypot at 0", f_hypot, 0, 0, 0},
    {"atan2 at the origin", f_atan2, 0, 0, 0},
    {"atan2 far away", f_far, 1e200, 5e-201, 0},
    {"arcsinh far away", f_arcsinh, 1e200, 1e-200, 0},
    {"a quotient of tiny numbers", f_quotient, 1e-25, -1e25, 2e50},
    {"x to the 0 at 0", f_powi_0, 0, 0, 0},
    {"7 mod x", f_fmod, 2, -3, 0},
    {"arctanh at 0", f_arctanh, 0, 1, 0},
};
/* clang-format on */

static Graph *of_scalar(Fn *fn)
{
    Graph *g = start();
    graph_output(g, fn(scalar(g, "x")));
    return finish(g);
}

/* First and second order in both modes. */
static void test_conventions_hold_at_both_orders_in_both_modes(void)
{
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        Graph *f = of_scalar(points[i].f);
        for (int mode = 0; mode < 4; mode++) {
            Graph *d = slope_of(f, mode & 1), *dd = slope_of(d, mode & 2);
            double slope = run_scalar(d, &points[i].x), second = run_scalar(dd, &points[i].x);
            bool ok = CHECK_NEAR(slope, points[i].slope, 1e-14 * fabs(points[i].slope));
            ok &= CHECK_NEAR(second, points[i].second, 1e-14 * fabs(points[i].second) + 1e-300);
            if (!ok) fprintf(stderr, "    %s, mode %d\n", points[i].name, mode);
            graph_release(d);
            graph_release(dd);
        }
        graph_release(f);
    }
}

static void test_a_domain_error_stays_in_the_derivative(void)
{
    static Fn *const fns[] = {f_sqrt, f_atan2, f_hypot, f_pow};
    static const double at[] = {-1, NAN, NAN, NAN};
    for (int i = 0; i < 4; i++) {
        Graph *f = of_scalar(fns[i]), *d = slope_of(f, true), *r = slope_of(f, false);
        CHECK(isnan(run_scalar(d, &at[i])));
        CHECK(isnan(run_scalar(r, &at[i])));
        graph_release(f);
        graph_release(d);
        graph_release(r);
    }
}

/* [1, 3, 3, 2] has two largest elements: each gets half. */
static void test_ties_of_max_share_the_derivative(void)
{
    for (int op = OP_max; op <= OP_min; op++) {
        Graph *f = start();
        Type t = shape(QB_F64, 4);
        graph_output(f, greduce((Op)op, graph_input(f, "x", &t), (int64_t[]){0}, 1));
        Graph *forward = jvp_of(finish(f)), *back = vjp_of(f);
        double x[4] = {1, 3, 3, 2}, dx[4] = {1, 2, 8, 16}, ct = 2, tz, grad[4];
        if (op == OP_min)
            for (int i = 0; i < 4; i++) x[i] = -x[i];
        qb_error err;
        CHECK(value_run(forward, (const void *[]){x, dx}, (void *[]){&tz}, &err));
        CHECK(value_run(back, (const void *[]){x, &ct}, (void *[]){grad}, &err));
        CHECK_NEAR(tz, 5, 0);
        CHECK_EQ_BITS(grad, ((double[]){0, 1, 1, 0}), sizeof grad);
        x[0] = NAN;
        CHECK(value_run(forward, (const void *[]){x, dx}, (void *[]){&tz}, &err));
        CHECK(value_run(back, (const void *[]){x, &ct}, (void *[]){grad}, &err));
        CHECK(isnan(tz));
        CHECK(isnan(grad[0]));
        graph_release(f);
        graph_release(forward);
        graph_release(back);
    }
}

/* ---- high orders ---- */

enum { UNITS = 3, ORDERS = 6 };
static const double weight[UNITS] = {0.7, -1.1, 0.4}, bias[UNITS] = {0.1, -0.3, 0.5},
                    outer[UNITS] = {1.3, 0.8, -0.6};

static Val dense(Graph *g, const double *data, Type t)
{
    qb_error err = {0};
    qb_buffer *b = qb_buffer_new(type_bytes(&t), &err);
    must(b, &err);
    memcpy(qb_buffer_data(b), data, (size_t)type_bytes(&t));
    Val v = gdense(g, &t, b);
    qb_buffer_release(b);
    return v;
}

/* u(x) = sum of outer tanh(weight x + bias), as a network writes it */
static Graph *network(void)
{
    Graph *g = start();
    Val x = greshape(scalar(g, "x"), 2, (int64_t[]){1, 1});
    Val h = gmatmul(x, dense(g, weight, shape(QB_F64, 1, UNITS)));
    h = gtanh(gadd(h, dense(g, bias, shape(QB_F64, 1, UNITS))));
    graph_output(g, greshape(gmatmul(h, dense(g, outer, shape(QB_F64, UNITS, 1))), 0, NULL));
    return finish(g);
}

/* Its derivative of some order: tanh's derivatives are polynomials p in z = tanh, with p' (1 - z^2)
   as the next one. */
static double closed_form(double x, int order)
{
    double sum = 0, p[ORDERS + 3] = {0, 1}, next[ORDERS + 3];
    for (int k = 0; k < order; k++) {
        for (int i = 0; i < ORDERS + 2; i++) {
            next[i] = (double)(i + 1) * p[i + 1];
            if (i >= 2) next[i] -= (double)(i - 1) * p[i - 1];
        }
        memcpy(p, next, sizeof *p * (ORDERS + 2));
    }
    for (int u = 0; u < UNITS; u++) {
        double z = tanh(weight[u] * x + bias[u]), value = 0;
        for (int i = ORDERS + 1; i >= 0; i--) value = value * z + p[i];
        sum += outer[u] * pow(weight[u], order) * value;
    }
    return sum;
}

/* All forward, all reverse, and the two mixed. */
static void test_high_orders_of_a_network_are_the_closed_forms(void)
{
    for (int mode = 0; mode < 4; mode++) {
        Graph *g = network();
        int orders = mode == 0 ? ORDERS : 4;
        for (int order = 0; order <= orders; order++) {
            for (double x = -1; x <= 1; x += 0.5)
                if (!CHECK_NEAR(run_scalar(g, &x), closed_form(x, order),
                                1e-13 * (order > 4 ? 100 : 10)))
                    fprintf(stderr, "    order %d, mode %d\n", order, mode);
            bool forward = mode == 0 || (mode == 2 && order % 2) || (mode == 3 && order % 2 == 0);
            Graph *d = slope_of(g, forward);
            graph_release(g);
            g = d;
        }
        graph_release(g);
    }
}

/* u, u_x and u_xx of one point share their work: the graph of all three is not much larger than
   that of the last. */
static void test_nested_forward_mode_shares_its_work(void)
{
    Graph *f = network(), *d = slope_of(f, true), *dd = slope_of(d, true), *all = start();
    Val x = scalar(all, "x"), z;
    CHECK(inline_run(all, f, &x, &z));
    CHECK(inline_run(all, d, &x, &z));
    Id before = all->n_nodes;
    CHECK(inline_run(all, dd, &x, &z));
    CHECK_EQ_INT(count_op(all, OP_tanh), 1);
    CHECK(before < dd->n_nodes);
    Id after = all->n_nodes;
    CHECK(inline_run(all, dd, &x, &z));
    CHECK_EQ_INT(all->n_nodes, after);
    graph_release(f);
    graph_release(d);
    graph_release(dd);
    graph_release(all);
}

/* A node that no output needs is not copied, whatever it is. */
static void test_dead_nodes_are_left_behind(void)
{
    Graph *f = start();
    Val x = scalar(f, "x");
    gtanh(gexp(x));
    graph_output(f, gsin(x));
    finish(f);
    bool mapped = true, out_mapped;
    Graph *all[] = {f, jvp_of(f), vjp_of(f), vmap_of(f, &mapped, 2, &out_mapped)};
    for (int i = 1; i < 4; i++)
        CHECK_EQ_INT(count_op(all[i], OP_sin) + 10 * count_op(all[i], OP_exp), 1);
    for (int i = 0; i < 4; i++) graph_release(all[i]);
}

/* ---- places ---- */

static void test_nodes_of_a_derivative_name_the_line_they_come_from(void)
{
    Graph *f = start(), *g = start();
    char file[] = "burgers.py";
    f->file = file;
    f->line = 41;
    Val x = scalar(f, "x"), y = gsin(x);
    f->line = 42;
    graph_output(f, gmul(y, y));
    finish(f);
    g->file = "outer.py";
    g->line = 7;
    Val arg = scalar(g, "x"), t = scalar(g, "t"), z, tz, grad;
    CHECK(jvp_run(g, f, &arg, &t, &z, &tz));
    CHECK(vjp_run(g, f, &arg, &t, NULL, &z, &grad));
    CHECK_EQ_INT(g->line, 7);
    CHECK_EQ_STR(g->file, "outer.py");
    graph_release(f);
    memset(file, 'x', sizeof file - 1); /* g keeps its own copy */
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (n->op == OP_cos) CHECK_EQ_INT(n->line, 41);
        if (n->op == OP_add) CHECK_EQ_INT(n->line, 42);
        if (n->op == OP_input)
            CHECK_EQ_STR(n->file, "outer.py");
        else
            CHECK_EQ_STR(n->file, "burgers.py");
    }
    CHECK_EQ_INT(count_op(g, OP_cos), 1);
    graph_release(g);
}

/* A graph that failed stays failed, says its first error and takes no more. */
static void test_a_failed_graph_is_left_alone(void)
{
    Graph *f = of_scalar(f_sqrt), *g = start();
    Val x = scalar(g, "x"), t = scalar(g, "t"), z = NONE, tz = NONE;
    fail(g, QB_EVALUE, "the first");
    CHECK(!jvp_run(g, f, &x, &t, &z, &tz));
    CHECK(!vjp_run(g, f, &x, &t, NULL, &z, &tz));
    CHECK(!vmap_run(g, f, &x, (bool[]){true}, 3, &z, (bool[1]){0}));
    CHECK(!inline_run(g, f, &x, &z));
    CHECK_EQ_STR(g->error.message, "the first");
    graph_release(f);
    graph_release(g);
}

int main(void)
{
    RUN(test_a_zero_tangent_costs_no_node);
    RUN(test_steps_masks_and_stopped_values_have_no_tangent);
    RUN(test_the_tangent_of_a_bool_input_is_ignored);
    RUN(test_conventions_hold_at_both_orders_in_both_modes);
    RUN(test_a_domain_error_stays_in_the_derivative);
    RUN(test_ties_of_max_share_the_derivative);
    RUN(test_high_orders_of_a_network_are_the_closed_forms);
    RUN(test_nested_forward_mode_shares_its_work);
    RUN(test_dead_nodes_are_left_behind);
    RUN(test_nodes_of_a_derivative_name_the_line_they_come_from);
    RUN(test_a_failed_graph_is_left_alone);
    return test_report();
}
