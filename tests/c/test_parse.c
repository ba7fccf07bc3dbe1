/* test_parse.c: text and graph are two forms of one thing, and no text is a crash. The messages stand in tests/ir/parse.ir. */
#include "programs.h"
#include "test.h"
#include <stdlib.h>

static char *text_of(const Graph *g)
{
    Text t = {0};
    qb_error err;
    print_graph(&t, g);
    return text_take(&t, &err);
}

static void test_a_printed_graph_parses_to_the_same_graph(void)
{
    qb_error err = {0};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        Graph *g = pick_program(seed, 60, 10);
        REQUIRE(graph_freeze(g, &err));
        char *a = text_of(g);
        Graph *h = parse_graph(a, &err);
        if (!CHECK(h != NULL)) fprintf(stderr, "    %s\n%s", err.message, a);
        char *b = h ? text_of(h) : NULL;
        CHECK_EQ_STR(a, b);
        if (h) CHECK_EQ_INT(g->n_nodes, h->n_nodes);
        for (Id v = 0; h && v < g->n_values; v++) CHECK(type_exact(&g->types[v], &h->types[v]));
        for (Id i = 0; h && i < g->n_nodes; i++) { /* every number with its bits */
            const Attr *x = g->nodes[i].attr, *y = h->nodes[i].attr;
            CHECK_EQ_BITS(&x->f, &y->f, sizeof x->f);
            if (x->buffer)
                CHECK_EQ_BITS(x->buffer->data, y->buffer->data, (size_t)x->buffer->bytes);
        }
        mem_free(a);
        mem_free(b);
        graph_release(g);
        graph_release(h);
    }
}

/* Cut short, or with a character changed: an error or a legal program, and nothing lost. */
static void test_broken_text_is_an_error_or_a_program(void)
{
    qb_error err = {0};
    int errors = 0, programs = 0;
    Graph *g = pick_program(3, 40, 4);
    REQUIRE(graph_freeze(g, &err));
    char *text = text_of(g);
    size_t n = strlen(text);
    int64_t before = qb_test_live_bytes();
    for (int i = 0; i < 3000; i++) {
        size_t at = (size_t)pick((int)n);
        char kept = text[at];
        text[at] = i % 3 == 0 ? 0 : (char)(i % 3 == 1 ? ' ' + pick(95) : pick(256));
        Graph *h = parse_graph(text, &err);
        if (h && !check_graph(h, &err)) CHECK_EQ_STR(err.message, "");
        if (!h) CHECK(err.code == QB_EPARSE && strncmp(err.message, "line ", 5) == 0);
        h ? programs++ : errors++;
        graph_release(h);
        text[at] = kept;
    }
    CHECK(errors > 100 && programs > 10);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
    mem_free(text);
    graph_release(g);
}

static void test_parsing_survives_failing_allocations(void)
{
    qb_error err = {0};
    Graph *g = pick_program(5, 40, 4);
    REQUIRE(graph_freeze(g, &err));
    char *text = text_of(g);
    graph_release(parse_graph(text, &err));
    int64_t before = qb_test_live_bytes();
    int failed = 0;
    for (int64_t n = 0; n < 60; n++) {
        qb_test_fail_alloc(n);
        Graph *h = parse_graph(text, &err);
        qb_test_fail_alloc(-1);
        if (!h) CHECK_EQ_INT(err.code, QB_EMEMORY);
        failed += !h;
        graph_release(h);
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
    CHECK(failed > 3);
    mem_free(text);
    graph_release(g);
}

static void test_numbers_keep_their_bits(void)
{
    static const uint64_t bits[] = {0,
                                    1,
                                    0x8000000000000000u,
                                    0x7ff0000000000000u,
                                    0x7ff8000000000000u,
                                    0xfff8000000000000u,
                                    0x7ff8000000000123u,
                                    0x7fefffffffffffffu,
                                    0x3fb999999999999au,
                                    0x0010000000000000u};
    qb_error err = {0};
    Type t = type_make(QB_F64, 0, NULL);
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        double v;
        memcpy(&v, &bits[i], sizeof v);
        Graph *g = graph_new(&err);
        graph_output(g, gconst(g, &t, v));
        graph_freeze(g, &err);
        char *text = text_of(g);
        Graph *h = parse_graph(text, &err);
        REQUIRE(h != NULL);
        CHECK_EQ_BITS(&h->nodes[0].attr->f, &bits[i], sizeof v);
        mem_free(text);
        graph_release(g);
        graph_release(h);
    }
}

/* Digits of a printed number without the zeros that only say where its point is. */
static int significant(const char *s)
{
    int n = 0, zeros = 0;
    for (; *s != ']' && *s != 'e'; s++) {
        if (*s < '0' || *s > '9' || (n == 0 && *s == '0')) continue;
        zeros = *s == '0' ? zeros + 1 : 0;
        n++;
    }
    return n - zeros;
}

/* Floats print as floats: all digits of a float32 and none of the double's. */
static void test_every_float32_reads_back(void)
{
    qb_error err = {0};
    Type t = type_make(QB_F32, 0, NULL);
    program_seed = 99;
    for (int i = 0; i < 2000; i++) {
        uint32_t bits = (uint32_t)pick(1 << 30) << 2 | (uint32_t)pick(4);
        float v;
        memcpy(&v, &bits, sizeof v);
        if (v != v) continue;
        Graph *g = graph_new(&err);
        graph_output(g, gconst(g, &t, v));
        graph_freeze(g, &err);
        char *text = text_of(g);
        CHECK(significant(strchr(text, '[') + 1) <= 9);
        Graph *h = parse_graph(text, &err);
        REQUIRE(h != NULL);
        float w = (float)h->nodes[0].attr->f;
        CHECK_EQ_BITS(&w, &v, sizeof v);
        mem_free(text);
        graph_release(g);
        graph_release(h);
    }
}

static void test_a_long_program_parses_in_linear_time(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    Type t = type_make(QB_F64, 1, (int64_t[]){3});
    Val x = graph_input(g, "x", &t);
    for (int i = 0; i < 50000; i++) x = gsin(x);
    graph_output(g, x);
    REQUIRE(graph_freeze(g, &err));
    char *text = text_of(g);
    Graph *h = parse_graph(text, &err);
    CHECK(h && h->n_nodes == g->n_nodes);
    mem_free(text);
    graph_release(g);
    graph_release(h);
}

int main(void)
{
    RUN(test_a_printed_graph_parses_to_the_same_graph);
    RUN(test_broken_text_is_an_error_or_a_program);
    RUN(test_parsing_survives_failing_allocations);
    RUN(test_numbers_keep_their_bits);
    RUN(test_every_float32_reads_back);
    RUN(test_a_long_program_parses_in_linear_time);
    return test_report();
}
