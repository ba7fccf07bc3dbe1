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
    const char *only = getenv("SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, last = only ? first : getenv("LAST") ? strtoull(getenv("LAST"), NULL, 10) : 3000;
    for (uint64_t seed = first; seed <= last; seed++) {
        qb_error err = {0};
        Graph *g = random_graph(seed, 5 + (int)(seed % 60), &err);
        if (!CHECK(g != NULL)) fprintf(stderr, "    seed %llu: %s\n", (unsigned long long)seed, err.message);
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

int main(void)
{
    RUN(test_an_output_may_be_an_input_a_constant_a_view_or_repeated);
    RUN(test_random_programs_keep_their_bits);
    return test_report();
}
