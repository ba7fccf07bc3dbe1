/* Plans against the reference evaluator: whatever the passes do, every output keeps its bits. */
#include "random_graph.h"
#include "reference.h"

static Graph *parse(const char *text)
{
    qb_error err = {0};
    Graph *g = parse_graph(text, &err);
    if (!g) fprintf(stderr, "    %s\n", err.message);
    return g;
}

static void test_random_programs_keep_their_bits(void)
{
    uint64_t first, last;
    test_seeds(3000, &first, &last);
    for (uint64_t seed = first; seed <= last; seed++) {
        qb_error err = {0};
        Graph *g = random_graph(seed, 5 + (int)(seed % 60), &err);
        if (!CHECK(g != NULL))
            fprintf(stderr, "    seed %llu: %s\n", (unsigned long long)seed, err.message);
        if (g && !CHECK(ref_check(g, seed))) {
            fprintf(stderr, "    seed %llu\n", (unsigned long long)seed);
            if (test_failures > 5) seed = last;
        }
        graph_release(g);
    }
}

static void test_an_output_may_be_an_input_a_constant_a_view_or_repeated(void)
{
    Graph *g = parse("%0 = input[name=x] : tensor<2x3xf64>\n"
                     "%1 = const[2.5] : tensor<4xf64>\n"
                     "%2 = transpose[axes=[1, 0]](%0) : tensor<3x2xf64>\n"
                     "%3 = neg(%0) : tensor<2x3xf64>\n"
                     "%4 = reshape(%3) : tensor<6xf64>\n"
                     "return %0, %1, %2, %3, %3, %4, %0\n");
    REQUIRE(g != NULL);
    CHECK(ref_check(g, 1));
    graph_release(g);
}

/* Larger than what emit folds, small enough to be worth computing once. */
static void test_work_on_constants_is_done_when_the_plan_is_made(void)
{
    enum { N = 10000 };
    qb_error err = {0};
    Graph *g = graph_new(&err);
    REQUIRE(g != NULL);
    Type t = type_make(QB_F64, 2, (int64_t[]){N / 4, 4});
    qb_buffer *b = qb_buffer_new(type_bytes(&t), &err);
    REQUIRE(b != NULL);
    for (int i = 0; i < N; i++) ((double *)b->data)[i] = i * 1e-3;
    Val c = gdense(g, &t, b), x = graph_input(g, "x", &t);
    Val root = gsqrt(gadd(c, glike(c, 1)));
    Val sum = gsum(root, (int64_t[]){0}, 1);
    graph_output(g, gmul(x, gadd(root, gexpand(sum, root))));
    qb_buffer_release(b);
    REQUIRE(graph_freeze(g, &err));
    qb_plan *p = plan_compile(g, &reference_target, NULL, &err);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 1);
    CHECK_EQ_INT(p->steps[0].region.n_instrs, 1);
    plan_release(p);
    CHECK(ref_check(g, 5));
    graph_release(g);
}

static char *steps_of(const Graph *g)
{
    qb_error err = {0};
    Text t = {0};
    qb_plan *p = plan_compile(g, &reference_target, NULL, &err);
    if (p) dump_steps(&t, p);
    plan_release(p);
    return text_take(&t, &err);
}

static void test_a_program_always_gives_the_same_plan(void)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        qb_error err = {0};
        Graph *g = random_graph(seed, 60, &err);
        REQUIRE(g != NULL);
        char *a = steps_of(g), *b = steps_of(g);
        CHECK_EQ_STR(a, b);
        mem_free(a);
        mem_free(b);
        graph_release(g);
    }
}

static void test_steps_name_the_line_of_the_user(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    REQUIRE(g != NULL);
    Type t = type_make(QB_F64, 2, (int64_t[]){4, 4});
    char file[] = "net.py";
    Val x = graph_input(g, "x", &t);
    g->file = graph_intern(g, file);
    g->line = 12;
    Val y = gmatmul(x, x);
    g->line = 13;
    graph_output(g, gtanh(y));
    REQUIRE(graph_freeze(g, &err));
    qb_plan *p = plan_compile(g, &reference_target, NULL, &err);
    graph_release(g);
    REQUIRE(p != NULL && p->n_steps == 2);
    CHECK_EQ_STR(p->steps[0].file, "net.py");
    CHECK_EQ_INT(p->steps[0].line, 12);
    CHECK_EQ_INT(p->steps[1].line, 13);
    plan_release(p);
}

/* 20,000 products and activations in a row: no recursion, no search through what came before. */
static void test_a_long_program_compiles(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    REQUIRE(g != NULL);
    Type t = type_make(QB_F64, 2, (int64_t[]){2, 2});
    Val x = graph_input(g, "x", &t), w = graph_input(g, "w", &t);
    for (int i = 0; i < 10000; i++) x = gtanh(gmatmul(x, w));
    graph_output(g, x);
    REQUIRE(graph_freeze(g, &err));
    CHECK(ref_check(g, 1));
    qb_plan *p = plan_compile(g, &reference_target, NULL, &err);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 20000);
    CHECK_EQ_INT(p->work_bytes, 128);
    plan_release(p);
    graph_release(g);
}

int main(void)
{
    RUN(test_work_on_constants_is_done_when_the_plan_is_made);
    RUN(test_a_program_always_gives_the_same_plan);
    RUN(test_steps_name_the_line_of_the_user);
    RUN(test_a_long_program_compiles);
    RUN(test_an_output_may_be_an_input_a_constant_a_view_or_repeated);
    RUN(test_random_programs_keep_their_bits);
    return test_report();
}
