/* test_loops.c: long loops, the region calls of the C API, interrupts, and loops whose memory runs out. */
#include "failing.h"
#include <math.h>

static bool same(Array a, Array b)
{
    for (int64_t i = 0; i < type_size(&a.type); i++)
        if (array_get(a, i) != array_get(b, i)) return false;
    return true;
}

/* ---- long loops ---- */

/* c = tanh(c * w + x_i), y = sin(c * w): carry, slices, capture. */
static Graph *recurrence(void)
{
    Graph *b = start();
    Val c = input_of(b, NULL, pair()), x = input_of(b, NULL, pair()), w = input_of(b, NULL, pair());
    Val next = gtanh(gadd(gmul(c, w), x));
    graph_output(b, next);
    graph_output(b, gsin(gmul(c, w)));
    return finish(b);
}

static Graph *long_loop(int64_t length, bool reverse, bool flat)
{
    Graph *g = start(), *body = recurrence();
    Val c = input_of(g, "c", pair()), xs = input_of(g, "xs", shape(QB_F64, length, 2)),
        w = input_of(g, "w", pair()), z[2];
    if (!flat) {
        region_scan(g, body, (ScanForm){length, reverse, 1, 1}, (Val[]){c, xs, w}, 3, z);
    } else {
        Val *ys = calloc((size_t)length, sizeof *ys);
        z[0] = c;
        for (int64_t k = 0; k < length && ys; k++) {
            int64_t i = reverse ? length - 1 - k : k;
            Val out[2];
            inline_run(g, body,
                       (Val[]){z[0], greshape(gslice(xs, 0, i, 1, 1), 1, (int64_t[]){2}), w}, out);
            z[0] = out[0];
            ys[i] = greshape(out[1], 2, (int64_t[]){1, 2});
        }
        z[1] = gconcat(g, ys, (int)length, 0);
        free(ys);
    }
    graph_output(g, z[0]);
    graph_output(g, z[1]);
    graph_release(body);
    return finish(g);
}

/* Lengths with a full tape, with blocks, and with blocks and a rest. */
static void test_gradients_of_long_loops_have_the_bits_of_the_unrolled_program(void)
{
    const int64_t lengths[] = {5, 64, 100, 1024, 1025, 1369, 2027};
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        Graph *f = long_loop(lengths[i / 2], i % 2, false),
              *h = long_loop(lengths[i / 2], i % 2, true);
        Graph *df = vjp_of(f), *dh = vjp_of(h);
        Array in[4 * MOST], a[4 * MOST], b[4 * MOST];
        uint64_t s = 7;
        for (uint32_t k = 0; k < df->n_inputs; k++)
            in[k] = array_random(input_type(df, k), -1, 1, &s);
        run_plan(df, in, a);
        run(dh, in, b);
        for (uint32_t k = 0; k < df->n_outputs; k++)
            if (!CHECK(same(a[k], b[k])))
                fprintf(stderr, "    length %lld, gradient %u\n", (long long)lengths[i / 2],
                        (unsigned)k);
        arrays_drop(in, (int)df->n_inputs);
        arrays_drop(a, (int)df->n_outputs);
        arrays_drop(b, (int)df->n_outputs);
        graph_release(f), graph_release(h), graph_release(df), graph_release(dh);
    }
}

/* ---- the C API ---- */

static Graph *doubled(void)
{
    Graph *b = start();
    Val c = input_of(b, NULL, pair());
    graph_output(b, gadd(c, c));
    return finish(b);
}

static void test_regions_of_the_c_api_refuse_what_does_not_fit(void)
{
    qb_error err = {0};
    Graph *g = start(), *open = start(), *body = doubled();
    Val x = input_of(g, "x", pair()), wide = input_of(g, "wide", shape(QB_F64, 3)),
        p = input_of(g, "p", shape(QB_BOOL)), z[2];
    CHECK(!qb_scan(g, open, 3, false, 1, 0, &x, 1, z, &err) && strstr(err.message, "not frozen"));
    CHECK(!qb_scan(g, body, 3, false, 1, 0, (Val[]){x, x}, 2, z, &err) &&
          strstr(err.message, "takes 1 operands, not 2"));
    CHECK(!qb_scan(g, body, 0, false, 1, 0, &x, 1, z, &err) && strstr(err.message, "length 0"));
    CHECK(!qb_scan(g, body, 3, false, 2, 0, &x, 1, z, &err) && strstr(err.message, "2 carries"));
    CHECK(!qb_scan(g, body, 3, false, 0, 1, &x, 1, z, &err) &&
          strstr(err.message, "first axis must have the length 3"));
    CHECK(!qb_scan(g, body, 3, false, 1, 0, &wide, 1, z, &err) &&
          strstr(err.message, "f64[3], but it takes f64[2]"));
    CHECK(!qb_cond(g, x, body, body, &x, 1, z, &err) &&
          strstr(err.message, "the predicate is f64[2]"));
    CHECK(!qb_cond(g, p, body, body, &wide, 1, z, &err) &&
          strstr(err.message, "f64[3], but a branch takes f64[2]"));
    CHECK(!qb_while(g, body, body, 0, 1, &x, 1, z, &err) &&
          strstr(err.message, "the test returns f64[2]"));
    CHECK(!qb_apply(g, OP_scan, &x, 1, NULL, &err).graph && err.code == QB_EVALUE);
    CHECK(qb_scan(g, body, 3, false, 1, 0, &x, 1, z, &err) &&
          z[0].graph == g); /* g is usable still */
    graph_release(g), graph_release(open), graph_release(body);
}

/* c = c + 1 until c is no number. */
static Graph *endless(void)
{
    Graph *test = start(), *step = start(), *g = start();
    Type t = shape(QB_F64);
    Val c = input_of(test, NULL, t), z;
    graph_output(test, gequal(c, c));
    c = input_of(step, NULL, t);
    graph_output(step, gadd(c, glike(c, 1)));
    finish(test), finish(step);
    c = input_of(g, NULL, t);
    region_while(g, test, step, 0, 1, &c, 1, &z);
    graph_output(g, z);
    graph_release(test), graph_release(step);
    return finish(g);
}

static bool third(void *arg) { return ++*(int *)arg == 3; }

static void test_an_endless_loop_ends_when_the_interrupt_function_says_so(void)
{
    qb_error err = {0};
    Graph *g = endless();
    qb_plan *p = qb_compile(g, NULL, &err);
    must(p != NULL, &err);
    int calls = 0;
    double x = 0, y, never = __builtin_nan("");
    qb_set_interrupt(third, &calls);
    CHECK(!qb_plan_run(p, (const void *[]){&x}, (void *[]){&y}, &err) && err.code == QB_EINTERRUPT);
    CHECK_EQ_INT(calls, 3);
    qb_set_interrupt(NULL, NULL);
    CHECK(qb_plan_run(p, (const void *[]){&never}, (void *[]){&y}, &err) &&
          y != y); /* no iteration; the plan is usable */
    qb_plan_release(p);
    graph_release(g);
}

/* ---- memory runs out ---- */

static Graph *parsed(const char *text)
{
    qb_error err = {0};
    Graph *g = parse_graph(text, &err);
    must(g != NULL, &err);
    return g;
}

/* Slices, a capture, a bool carry and stacked results; long enough for blocks and a rest. */
static const char counted[] =
    "%0 = input[name=c] : tensor<2xf64>\n"
    "%1 = input[name=p] : tensor<i1>\n"
    "%2 = input[name=xs] : tensor<1301x2xf64>\n"
    "%3 = input[name=w] : tensor<2xf64>\n"
    "%4, %5, %6 = scan[length=1301, reverse=0, carries=2, xs=1](%0, %1, %2, %3)"
    " : tensor<2xf64>, tensor<i1>, tensor<1301x2xf64> {\n"
    "    %0 = input[name=c] : tensor<2xf64>\n"
    "    %1 = input[name=p] : tensor<i1>\n"
    "    %2 = input[name=x] : tensor<2xf64>\n"
    "    %3 = input[name=w] : tensor<2xf64>\n"
    "    %4 = mul(%0, %3) : tensor<2xf64>\n"
    "    %5 = add(%4, %2) : tensor<2xf64>\n"
    "    %6 = tanh(%5) : tensor<2xf64>\n"
    "    %7 = logical_not(%1) : tensor<i1>\n"
    "    %8 = mul(%6, %0) : tensor<2xf64>\n"
    "    return %6, %7, %8\n"
    "}\n"
    "return %4, %6\n";

/* At most four steps c = W sqrt(c) while the sum of c is below 3. */
static const char bounded[] = "%0 = input[name=c] : tensor<2x1xf64>\n"
                              "%1 = input[name=w] : tensor<2x2xf64>\n"
                              "%2 = while[carries=1, max_steps=4](%0, %1) : tensor<2x1xf64> {\n"
                              "    %0 = input[name=c] : tensor<2x1xf64>\n"
                              "    %1 = input[name=w] : tensor<2x2xf64>\n"
                              "    %2 = sum[axes=[0, 1]](%0) : tensor<f64>\n"
                              "    %3 = const[3] : tensor<f64>\n"
                              "    %4 = less(%2, %3) : tensor<i1>\n"
                              "    return %4\n"
                              "} {\n"
                              "    %0 = input[name=c] : tensor<2x1xf64>\n"
                              "    %1 = input[name=w] : tensor<2x2xf64>\n"
                              "    %2 = sqrt(%0) : tensor<2x1xf64>\n"
                              "    %3 = matmul(%1, %2) : tensor<2x1xf64>\n"
                              "    %4 = add(%3, %0) : tensor<2x1xf64>\n"
                              "    return %4\n"
                              "}\n"
                              "return %2\n";

static const char branches[] = "%0 = input[name=p] : tensor<i1>\n"
                               "%1 = input[name=x] : tensor<2xf64>\n"
                               "%2 = input[name=y] : tensor<2xf64>\n"
                               "%3, %4 = cond(%0, %1, %2) : tensor<2xf64>, tensor<2xf64> {\n"
                               "    %0 = input[name=x] : tensor<2xf64>\n"
                               "    %1 = input[name=y] : tensor<2xf64>\n"
                               "    %2 = log(%0) : tensor<2xf64>\n"
                               "    %3 = mul(%2, %1) : tensor<2xf64>\n"
                               "    return %3, %0\n"
                               "} {\n"
                               "    %0 = input[name=x] : tensor<2xf64>\n"
                               "    %1 = input[name=y] : tensor<2xf64>\n"
                               "    %2 = sin(%1) : tensor<2xf64>\n"
                               "    return %0, %2\n"
                               "}\n"
                               "return %3, %4\n";

static void test_no_failed_allocation_of_a_transformed_loop_leaks_or_crashes(void)
{
    static const struct {
        const char *text, *chains[7];
    } programs[] = {
        {counted, {"", "j", "v", "b", "vv", "vb", "jv"}},
        {bounded, {"", "j", "v", "b", "bv", "vb", "bvj"}},
        {branches, {"", "j", "v", "b", "bv", "vb", "bvv"}},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        Graph *f = parsed(programs[i].text);
        for (int k = 0; k < 7; k++) no_failure_leaks(f, programs[i].chains[k]);
        graph_release(f);
    }
}

int main(void)
{
    RUN(test_regions_of_the_c_api_refuse_what_does_not_fit);
    RUN(test_an_endless_loop_ends_when_the_interrupt_function_says_so);
    RUN(test_gradients_of_long_loops_have_the_bits_of_the_unrolled_program);
    RUN(test_no_failed_allocation_of_a_transformed_loop_leaks_or_crashes);
    return test_report();
}
