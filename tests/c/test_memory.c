/* Where plans keep their values, and what happens when memory runs out. */
#include "random_graph.h"
#include "reference.h"

static qb_plan *plan_of(Graph *g)
{
    qb_error err = {0};
    qb_plan *p = g && graph_freeze(g, &err) ? plan_compile(g, &reference_target, NULL, &err) : NULL;
    if (!CHECK(p != NULL)) fprintf(stderr, "    %s\n", err.message);
    if (p) CHECK(ref_check(g, 3));
    graph_release(g);
    return p;
}

static Graph *start(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    if (!g) exit(1);
    return g;
}

static Val matrix(Graph *g, const char *name, int64_t rows, int64_t cols)
{
    Type t = type_make(QB_F64, 2, (int64_t[]){rows, cols});
    return graph_input(g, name, &t);
}

/* h = tanh(h W) many times: one product and one activation, each over the other's dead operand. */
static void test_a_long_chain_needs_two_buffers(void)
{
    Graph *g = start();
    Val x = matrix(g, "x", 32, 16), w = matrix(g, "w", 16, 16);
    for (int i = 0; i < 50; i++) x = gtanh(gmatmul(x, w));
    graph_output(g, x);
    qb_plan *p = plan_of(g);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 100);
    CHECK_EQ_INT(p->work_bytes, 2 * 32 * 16 * 8);
    plan_release(p);
}

/* exp overwrites the product that it alone reads. */
static void test_a_result_takes_over_the_memory_of_an_operand_that_dies(void)
{
    Graph *g = start();
    Val x = matrix(g, "x", 4, 4), y = gmatmul(x, x), z = gexp(y);
    graph_output(g, gmatmul(z, z));
    qb_plan *p = plan_of(g);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->work_bytes, 4 * 4 * 8);
    plan_release(p);
}

/* A row that is repeated is read again and again, so it may not be overwritten while it is; nor
   may a transposed operand. */
static void test_only_canonical_operands_are_overwritten(void)
{
    Graph *g = start();
    Val x = matrix(g, "x", 4, 4), y = gmatmul(x, x), z = gexp(gswap_last(y));
    graph_output(g, gmatmul(z, z));
    qb_plan *p = plan_of(g);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->work_bytes, 2 * 4 * 4 * 8);
    plan_release(p);
    g = start();
    x = matrix(g, "x", 4, 4), y = gmatmul(x, x), z = gadd(y, gswap_last(y));
    graph_output(g, gmatmul(z, z));
    p = plan_of(g);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->work_bytes, 2 * 4 * 4 * 8);
    plan_release(p);
}

/* Sixteen products that are each summed at once: their buffers do not add up. */
static void test_results_are_consumed_before_new_ones_are_made(void)
{
    Graph *g = start();
    Val x = matrix(g, "x", 16, 16), total = NONE;
    for (int i = 0; i < 16; i++) {
        int64_t axes[] = {0, 1};
        Val y = gmatmul(x, matrix(g, NULL, 16, 16));
        total = gaccumulate(total, gsum(gmul(y, y), axes, 2));
    }
    graph_output(g, total);
    qb_plan *p = plan_of(g);
    REQUIRE(p != NULL);
    CHECK(p->work_bytes <= 16 * 16 * 8 + 16 * 64);
    plan_release(p);
}

static void test_outputs_are_written_in_place(void)
{
    Graph *g = start();
    Val x = matrix(g, "x", 8, 8), y = gmatmul(x, x);
    graph_output(g, greshape(gexp(y), 1, (int64_t[]){64}));
    graph_output(g, y);
    qb_plan *p = plan_of(g);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->work_bytes, 0);
    CHECK_EQ_INT(p->n_steps, 2);
    plan_release(p);
}

/* Three products of 2^61 bytes each, and their products, never allocated: sizes are added with
   care. */
static void test_a_workspace_that_no_address_can_hold_is_an_error(void)
{
    Graph *g = start();
    Type row = type_make(QB_F64, 2, (int64_t[]){(int64_t)1 << 29, 1});
    Val x = graph_input(g, "x", &row), y = graph_input(g, "y", &row), w[3];
    for (int i = 0; i < 3; i++) w[i] = gmatmul(gmul(x, glike(x, 2 + i)), gswap_last(y));
    Val z = gmatmul(w[0], w[1]), u = gmatmul(w[1], w[2]), t = gmatmul(w[2], w[0]);
    graph_output(g, gadd(gadd(gswap_last(z), gswap_last(u)), t));
    qb_error err = {0};
    REQUIRE(graph_freeze(g, &err));
    qb_plan *p = plan_compile(g, &reference_target, NULL, &err);
    CHECK(p == NULL);
    CHECK_EQ_INT(err.code, QB_EMEMORY);
    plan_release(p);
    graph_release(g);
}

/* Every allocation of a compile fails once: an error each time, and nothing is left behind. */
static void test_a_compile_that_runs_out_of_memory_leaks_nothing(void)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        qb_error err = {0};
        Graph *g = random_graph(seed, 40, &err);
        REQUIRE(g != NULL);
        int64_t before = qb_test_live_bytes(), n = 0;
        qb_plan *p = NULL;
        for (; !p && n < 10000; n++) {
            err = (qb_error){0};
            qb_test_fail_alloc(n);
            p = plan_compile(g, &reference_target, NULL, &err);
            qb_test_fail_alloc(-1);
            if (p) break;
            if (!CHECK_EQ_INT(err.code, QB_EMEMORY) || !CHECK_EQ_INT(qb_test_live_bytes(), before))
                break;
        }
        CHECK(n > 3);
        plan_release(p);
        CHECK_EQ_INT(qb_test_live_bytes(), before);
        graph_release(g);
    }
}

int main(void)
{
    RUN(test_a_long_chain_needs_two_buffers);
    RUN(test_a_result_takes_over_the_memory_of_an_operand_that_dies);
    RUN(test_only_canonical_operands_are_overwritten);
    RUN(test_results_are_consumed_before_new_ones_are_made);
    RUN(test_outputs_are_written_in_place);
    RUN(test_a_workspace_that_no_address_can_hold_is_an_error);
    RUN(test_a_compile_that_runs_out_of_memory_leaks_nothing);
    return test_report();
}
