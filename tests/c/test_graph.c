/* test_graph.c: emit, reuse, failures that stick, and what happens when memory ends. */
#include "ir/ir.h"
#include "test.h"
#include <time.h>

static Type shape23(void) { return type_make(QB_F64, 2, (int64_t[]){2, 3}); }

static Graph *fresh(void)
{
    qb_error err = {0};
    return graph_new(&err);
}

static void test_the_same_computation_is_one_node(void)
{
    Graph *g = fresh();
    Type t = shape23();
    Val x = graph_input(g, "x", &t), y = graph_input(g, "y", &t);
    uint32_t before = g->n_nodes;
    Val a = gtanh(gmul(x, y)), b = gtanh(gmul(x, y)), c = gtanh(gmul(y, x));
    CHECK(val_same(a, b) && val_same(a, c));
    CHECK_EQ_INT(g->n_nodes, before + 2);
    CHECK(!val_same(gsub(x, y), gsub(y, x)));
    CHECK(val_same(gpowi(x, 3), gpowi(x, 3)) && !val_same(gpowi(x, 3), gpowi(x, 4)));
    CHECK(val_same(gsum(x, (int64_t[]){1}, 1), gsum(x, (int64_t[]){1}, 1)));
    CHECK(!val_same(gsum(x, (int64_t[]){0}, 1), gsum(x, (int64_t[]){1}, 1)));
    CHECK(val_same(glike(x, 0.5), glike(y, 0.5)) && !val_same(glike(x, 0.0), glike(x, -0.0)));
    graph_release(g);
}

static void test_a_recompute_scope_keeps_copies_apart(void)
{
    Graph *g = fresh();
    Type t = shape23();
    Val x = graph_input(g, "x", &t), a = gexp(x);
    g->scope = 1;
    Val b = gexp(x);
    g->scope = 0;
    CHECK(!val_same(a, b));
    CHECK(val_same(a, gexp(x)));
    graph_release(g);
}

static void test_inputs_are_never_merged_and_names_are_unique(void)
{
    Graph *g = fresh();
    Type t = shape23();
    Val a = graph_input(g, "x", &t), b = graph_input(g, NULL, &t), c = graph_input(g, NULL, &t);
    CHECK(!val_same(a, b) && !val_same(b, c));
    CHECK_EQ_STR(node_of(b)->attr->name, "in1");
    CHECK_EQ_STR(node_of(c)->attr->name, "in2");
    CHECK(val_none(graph_input(g, "x", &t)));
    CHECK_EQ_INT(g->error.code, QB_EVALUE);
    CHECK(strstr(g->error.message, "'x'"));
    graph_release(g);
}

static void test_the_first_failure_sticks_with_the_users_line(void)
{
    Graph *g = fresh();
    Type t = shape23(), u = type_make(QB_F32, 0, NULL);
    Val x = graph_input(g, "x", &t), y = graph_input(g, "y", &u);
    g->file = graph_intern(g, "burgers.py");
    g->line = 41;
    Val bad = gadd(x, y);
    CHECK(val_none(bad));
    CHECK(val_none(gtanh(bad)) && val_none(gtanh(x)));
    CHECK_EQ_INT(g->error.code, QB_EDTYPE);
    CHECK_EQ_STR(g->error.message, "burgers.py:41: add: f64[2,3] and f32[]; use astype");
    qb_error err = {0};
    CHECK(!graph_freeze(g, &err));
    CHECK_EQ_INT(err.code, QB_EDTYPE);
    CHECK(graph_error(g, &err) && !graph_error(g, &err));
    Val good = gtanh(x);
    CHECK(!val_none(good));
    CHECK_EQ_STR(node_of(good)->file, "burgers.py");
    CHECK_EQ_INT(node_of(good)->line, 41);
    graph_release(g);
}

static void test_file_names_are_copied_once(void)
{
    Graph *g = fresh();
    char name[] = "a.py";
    const char *first = graph_intern(g, name);
    name[0] = 'b';
    CHECK_EQ_STR(first, "a.py");
    CHECK(graph_intern(g, "a.py") == first && graph_intern(g, "b.py") != first);
    CHECK(graph_intern(g, NULL) == NULL);
    graph_release(g);
}

static void test_a_frozen_graph_and_a_foreign_value_are_bugs(void)
{
    Graph *g = fresh(), *h = fresh();
    Type t = shape23();
    qb_error err = {0};
    Val x = graph_input(g, "x", &t), y = graph_input(h, "y", &t);
    CHECK(val_none(graph_emit(g, OP_add, (Val[]){x, y}, 2, NULL)));
    CHECK_EQ_INT(g->error.code, QB_EBUG);
    graph_error(g, &err);
    graph_output(g, y);
    CHECK_EQ_INT(g->error.code, QB_EBUG);
    graph_error(g, &err);
    CHECK(graph_freeze(g, &err) && graph_freeze(g, &err));
    CHECK(val_none(gtanh(x)));
    CHECK_EQ_INT(g->error.code, QB_EBUG);
    graph_release(g);
    graph_release(h);
}

static void test_results_too_large_for_memory_are_refused(void)
{
    Graph *g = fresh();
    Type t = type_make(QB_F64, 2, (int64_t[]){1, 1});
    Val x = graph_input(g, "x", &t);
    CHECK(val_none(gbroadcast(x, 2, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40})));
    CHECK_EQ_INT(g->error.code, QB_EMEMORY);
    graph_release(g);
}

static void test_pointers_to_types_and_nodes_stay_valid(void)
{
    Graph *g = fresh();
    Type t = shape23();
    Val x = graph_input(g, "x", &t);
    const Type *type = type_of(x);
    const Node *node = node_of(x);
    for (int i = 0; i < 5000; i++) x = gsin(x);
    CHECK_EQ_INT(type->dims[1], 3);
    CHECK_EQ_INT(node->op, OP_input);
    graph_release(g);
}

static void test_dense_data_is_shared_and_given_back(void)
{
    int64_t before = qb_test_live_bytes();
    qb_error err = {0};
    Graph *g = fresh();
    Type t = shape23();
    qb_buffer *a = qb_buffer_new(48, &err), *b = qb_buffer_new(48, &err),
              *same = qb_buffer_new(48, &err);
    for (int i = 0; i < 6; i++) {
        ((double *)a->data)[i] = i;
        ((double *)b->data)[i] = -i;
        ((double *)same->data)[i] = 2.5;
    }
    Val x = gdense(g, &t, a), y = gdense(g, &t, b), z = gdense(g, &t, same);
    double v = 0;
    CHECK(!val_same(x, y) && val_same(x, gdense(g, &t, a)));
    CHECK(const_splat(z, &v) && v == 2.5);
    CHECK(const_node(x) && !const_splat(x, &v));
    CHECK_EQ_INT(atomic_load(&a->refs), 2);
    CHECK_EQ_INT(atomic_load(&same->refs), 1);
    graph_release(g);
    CHECK_EQ_INT(atomic_load(&a->refs), 1);
    qb_buffer_release(a);
    qb_buffer_release(b);
    qb_buffer_release(same);
    CHECK(qb_test_live_bytes() <= before + 4096); /* small blocks may wait in a cache */
}

static Val chain(Graph *g, int n)
{
    Type t = shape23();
    Val x = graph_input(g, "x", &t), y = x;
    for (int i = 0; i < n; i++)
        y = i % 3 == 0 ? gadd(y, glike(x, i)) : i % 3 == 1 ? gtanh(y) : gmul(y, x);
    return y;
}

static double seconds(int n)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    Graph *g = fresh();
    CHECK(!val_none(chain(g, n)));
    graph_release(g);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

/* A quadratic step would make ten times the nodes a hundred times the work. */
static void test_time_grows_with_the_number_of_nodes(void)
{
    double few = seconds(20000), many = seconds(200000);
    CHECK(many < 40 * few + 0.2);
}

/* Whatever allocation fails, the graph says so, and no byte is lost. */
static void test_every_allocation_may_fail(void)
{
    qb_error err = {0};
    graph_release(fresh());
    int64_t before = qb_test_live_bytes();
    int failed = 0;
    for (int64_t n = 0; n < 200; n++) {
        qb_test_fail_alloc(n);
        Graph *g = graph_new(&err);
        if (g) {
            Val y = chain(g, 300);
            Val all[9];
            for (int i = 0; i < 9; i++) all[i] = y;
            graph_output(g, gconcat(g, all, 9, 0));
            qb_test_fail_alloc(-1);
            if (graph_failed(g)) {
                CHECK_EQ_INT(g->error.code, QB_EMEMORY);
                failed++;
            } else {
                CHECK(graph_freeze(g, &err));
                CHECK(check_graph(g, &err));
            }
        } else {
            CHECK_EQ_INT(err.code, QB_EMEMORY);
        }
        qb_test_fail_alloc(-1);
        graph_release(g);
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
    CHECK(failed > 5);
}

static void test_check_names_the_node_that_is_wrong(void)
{
    Graph *g = fresh();
    Type t = shape23();
    qb_error err = {0};
    Val x = graph_input(g, "x", &t), y = gtanh(x);
    graph_output(g, y);
    CHECK(check_graph(g, &err));
    g->types[y.id].dims[0] = 7;
    CHECK(!check_graph(g, &err));
    CHECK_EQ_STR(err.message, "node 1 (%1 = tanh): its type is f64[7,3], infer says f64[2,3]");
    g->types[y.id].dims[0] = 2;
    ((Id *)(uintptr_t)g->nodes[1].x)[0] = 1;
    CHECK(!check_graph(g, &err));
    CHECK_EQ_STR(err.message, "node 1 (%1 = tanh): operand %1 is not before it");
    ((Id *)(uintptr_t)g->nodes[1].x)[0] = 0;
    g->outputs[0] = 9;
    CHECK(!check_graph(g, &err));
    CHECK(strstr(err.message, "output 0"));
    graph_release(g);
}

int main(void)
{
    RUN(test_the_same_computation_is_one_node);
    RUN(test_a_recompute_scope_keeps_copies_apart);
    RUN(test_inputs_are_never_merged_and_names_are_unique);
    RUN(test_the_first_failure_sticks_with_the_users_line);
    RUN(test_file_names_are_copied_once);
    RUN(test_a_frozen_graph_and_a_foreign_value_are_bugs);
    RUN(test_results_too_large_for_memory_are_refused);
    RUN(test_pointers_to_types_and_nodes_stay_valid);
    RUN(test_dense_data_is_shared_and_given_back);
    RUN(test_time_grows_with_the_number_of_nodes);
    RUN(test_every_allocation_may_fail);
    RUN(test_check_names_the_node_that_is_wrong);
    return test_report();
}
