/* test_fold.c: folding changes no bit. Random programs, written down raw and then emitted (folded, shared), give the same values.
   The single folds stand in tests/ir/fold_*.ir. */
#include "programs.h"
#include "test.h"
#include <stdlib.h>

enum { OUTPUTS = 40, ROOM = 4096 };

/* All nodes again, through emit; NULL when there is no memory for a graph at all. */
static Graph *emitted(const Graph *src)
{
    qb_error err;
    Graph *g = graph_new(&err);
    if (!g) return NULL;
    Val *map = calloc(src->n_values, sizeof *map);
    if (!map) exit(1);
    for (Id i = 0; i < src->n_nodes; i++) {
        const Node *n = &src->nodes[i];
        Val x[4];
        for (uint32_t k = 0; k < n->n; k++) x[k] = map[n->x[k]];
        map[n->first] = n->op == OP_input ? graph_input(g, n->attr->name, &src->types[n->first])
                                          : graph_emit(g, n->op, x, (int)n->n, n->attr);
    }
    for (uint32_t i = 0; i < src->n_outputs; i++) graph_output(g, map[src->outputs[i]]);
    free(map);
    return g;
}

static void fill(const Type *t, void *p)
{
    for (int64_t i = 0; i < type_size(t); i++) {
        if (t->dtype == QB_F64)
            ((double *)p)[i] = pick_number();
        else if (t->dtype == QB_F32)
            ((float *)p)[i] = (float)pick_number();
        else
            ((unsigned char *)p)[i] = (unsigned char)pick(2);
    }
}

/* Two NaNs are one value here: where both operands of a sum are NaN, the machine may keep either. */
static bool same(const Type *t, const void *a, const void *b)
{
    if (memcmp(a, b, (size_t)type_bytes(t)) == 0) return true;
    for (int64_t i = 0; i < type_size(t); i++) {
        double x = t->dtype == QB_F64   ? ((const double *)a)[i]
                   : t->dtype == QB_F32 ? ((const float *)a)[i]
                                        : ((const char *)a)[i];
        double y = t->dtype == QB_F64   ? ((const double *)b)[i]
                   : t->dtype == QB_F32 ? ((const float *)b)[i]
                                        : ((const char *)b)[i];
        if (memcmp(&x, &y, sizeof x) != 0 && !(isnan(x) && isnan(y))) return false;
    }
    return true;
}

static void test_folded_programs_give_the_same_bits(void)
{
    static char in[8][ROOM], out[2][OUTPUTS][ROOM];
    const void *inputs[8];
    void *outputs[2][OUTPUTS];
    qb_error err = {0};
    uint64_t raw = 0, folded = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        Graph *g = pick_program(seed, 80, OUTPUTS);
        Graph *h = emitted(g);
        REQUIRE(graph_freeze(g, &err) && graph_freeze(h, &err));
        if (!check_graph(h, &err)) CHECK_EQ_STR(err.message, "");
        raw += g->n_nodes;
        folded += h->n_nodes;
        for (uint32_t i = 0; i < g->n_inputs; i++) {
            fill(&g->types[g->inputs[i]], in[i]);
            inputs[i] = in[i];
        }
        for (int k = 0; k < 2; k++)
            for (uint32_t i = 0; i < g->n_outputs; i++) outputs[k][i] = out[k][i];
        CHECK(value_run(g, inputs, outputs[0], &err) && value_run(h, inputs, outputs[1], &err));
        for (uint32_t i = 0; i < g->n_outputs; i++) {
            const Type *t = &g->types[g->outputs[i]];
            REQUIRE(type_bytes(t) <= ROOM);
            CHECK(type_exact(t, &h->types[h->outputs[i]]));
            if (!CHECK(same(t, out[0][i], out[1][i])))
                fprintf(stderr, "    program %d, output %d\n", (int)seed, (int)i);
        }
        graph_release(g);
        graph_release(h);
    }
    CHECK(folded < raw); /* or nothing was tested */
    printf("%lld nodes became %lld\n", (long long)raw, (long long)folded);
}

/* What emit gives is what emit would leave alone: a second pass changes nothing. */
static void test_folding_twice_is_folding_once(void)
{
    qb_error err = {0};
    int grown = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        Graph *g = pick_program(seed, 60, OUTPUTS), *h = emitted(g), *again = emitted(h);
        CHECK(again->n_nodes <= h->n_nodes);
        grown += again->n_nodes > h->n_nodes;
        REQUIRE(graph_freeze(again, &err));
        graph_release(g);
        graph_release(h);
        graph_release(again);
    }
    CHECK_EQ_INT(grown, 0);
}

/* A fold that runs out of memory is an error of the graph, and leaks nothing. */
static void test_folding_survives_failing_allocations(void)
{
    qb_error err = {0};
    Graph *g = pick_program(7, 40, OUTPUTS);
    REQUIRE(graph_freeze(g, &err));
    graph_release(emitted(g));
    int64_t before = qb_test_live_bytes();
    for (int64_t n = 1; n < 60; n++) {
        qb_test_fail_alloc(n);
        Graph *h = emitted(g);
        qb_test_fail_alloc(-1);
        if (h && graph_failed(h)) CHECK_EQ_INT(h->error.code, QB_EMEMORY);
        graph_release(h);
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
    graph_release(g);
}

int main(void)
{
    RUN(test_folded_programs_give_the_same_bits);
    RUN(test_folding_twice_is_folding_once);
    RUN(test_folding_survives_failing_allocations);
    return test_report();
}
