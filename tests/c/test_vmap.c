/* test_vmap.c: batching: which nodes a batch costs. That a batch is the loop bit for bit is the
   business of test_ops_table.c. */
#include "graphs.h"

static Val reciprocal_of_sum(Val x) { return grecip(gsum(x, (int64_t[]){0}, 1)); }

static void test_unmapped_nodes_are_copied_once(void)
{
    Graph *f = start();
    Val x = input_of(f, "x", shape(QB_F64, 4)), w = input_of(f, "w", shape(QB_F64, 4));
    graph_output(f, gmul(x, gexp(w)));
    graph_output(f, gsin(w));
    bool mapped[2] = {true, false}, out_mapped[2];
    Graph *g = vmap_of(finish(f), mapped, 5, out_mapped);
    CHECK(out_mapped[0] && !out_mapped[1]);
    CHECK_EQ_STR(TYPE_TEXT(&(Type[]){output_type(g, 0)}[0]), "f64[5,4]");
    CHECK_EQ_STR(TYPE_TEXT(&(Type[]){output_type(g, 1)}[0]), "f64[4]");
    for (Id i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == OP_exp)
            CHECK_EQ_STR(TYPE_TEXT(&g->types[g->nodes[i].first]), "f64[4]");
    CHECK_EQ_INT(count_op(g, OP_exp), 1);
    graph_release(f);
    graph_release(g);
}

static void test_nothing_mapped_is_a_copy(void)
{
    Graph *f = start();
    graph_output(f, reciprocal_of_sum(input_of(f, "x", shape(QB_F64, 4))));
    bool mapped = false, out_mapped = true;
    Graph *g = vmap_of(finish(f), &mapped, 5, &out_mapped);
    CHECK(!out_mapped);
    CHECK_EQ_INT(g->n_nodes, f->n_nodes);
    graph_release(f);
    graph_release(g);
}

/* The only matmul of g, as "f64[12,4] f64[4,2]"; "" when there are more or fewer. */
static const char *product_of(const Graph *g, char *buf, size_t size)
{
    buf[0] = 0;
    if (count_op(g, OP_matmul) != 1) return buf;
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (n->op != OP_matmul) continue;
        snprintf(buf, size, "%s %s", TYPE_TEXT(&g->types[n->x[0]]), TYPE_TEXT(&g->types[n->x[1]]));
    }
    return buf;
}
#define PRODUCT(g) product_of((g), (char[200]){0}, 200)

static Graph *product(Type a, Type b)
{
    Graph *f = start();
    Val x = input_of(f, "a", a), y = input_of(f, "b", b);
    graph_output(f, gmatmul(x, y));
    return finish(f);
}

static void test_a_batch_with_a_shared_matrix_is_one_tall_product(void)
{
    /* clang-format off */
static const struct { int rank; bool left, right; const char *text; } cases[] = {
        {2, true, false, "f64[15,4] f64[4,2]"},          /* 5 batches of 3 rows */
        {2, false, true, "f64[10,4] f64[4,3]"},          /* 5 batches of 2 columns, transposed */
        {2, true, true, "f64[5,3,4] f64[5,4,2]"},
        {3, true, false, "f64[7,15,4] f64[7,4,2]"},
        {3, false, true, "f64[7,10,4] f64[7,4,3]"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool two = cases[i].rank == 2, mapped[2] = {cases[i].left, cases[i].right}, out_mapped;
        Graph *f = product(two ? shape(QB_F64, 3, 4) : shape(QB_F64, 7, 3, 4),
                           two ? shape(QB_F64, 4, 2) : shape(QB_F64, 7, 4, 2));
        Graph *g = vmap_of(f, mapped, 5, &out_mapped);
        CHECK(out_mapped);
        CHECK_EQ_STR(PRODUCT(g), cases[i].text);
        graph_release(f);
        graph_release(g);
    }
}

/* The gradient of the shared matrix is one product over all rows of the batch, with no batch of
   gradients to sum. */
static void test_the_gradient_of_a_shared_matrix_is_one_product(void)
{
    for (int shared = 0; shared < 2; shared++) {
        bool mapped[2] = {shared != 0, shared != 1}, out_mapped,
             wanted[2] = {shared == 0, shared == 1};
        Graph *f = product(shape(QB_F64, 3, 4), shape(QB_F64, 4, 2)),
              *b = vmap_of(f, mapped, 5, &out_mapped), *g = start(), *live = start();
        Val x[2], z, grad[2];
        for (uint32_t i = 0; i < 2; i++) x[i] = input_of(g, NULL, input_type(b, i));
        Val ct = input_of(g, "ct", output_type(b, 0));
        CHECK(vjp_run(g, b, x, &ct, wanted, &z, grad));
        graph_output(g, grad[shared]);
        finish(g);
        Val args[3] = {input_of(live, "a", input_type(g, 0)), input_of(live, "b", input_type(g, 1)),
                       input_of(live, "ct", input_type(g, 2))};
        CHECK(inline_run(live, g, args, &z)); /* leaves out what the gradient does not need */
        CHECK_EQ_STR(PRODUCT(live), shared == 1 ? "f64[4,15] f64[15,2]" : "f64[4,10] f64[10,3]");
        CHECK_EQ_INT(count_op(live, OP_sum), 0);
        Graph *all[] = {f, b, g, live};
        for (int i = 0; i < 4; i++) graph_release(all[i]);
    }
}

/* vmap of vmap puts the outer axis first. */
static void test_batches_nest(void)
{
    Graph *f = start();
    Val x = input_of(f, "x", shape(QB_F64, 2)), y = input_of(f, "y", shape(QB_F64, 2));
    graph_output(f, gsum(gmul(x, y), (int64_t[]){0}, 1));
    bool inner[2] = {true, false}, outer[2] = {false, true}, out_mapped;
    Graph *g = vmap_of(finish(f), inner, 3, &out_mapped), *h = vmap_of(g, outer, 2, &out_mapped);
    double xs[6] = {1, 2, 3, 4, 5, 6}, ys[4] = {1, 0, 0, 1}, z[6];
    qb_error err;
    CHECK(value_run(h, (const void *[]){xs, ys}, (void *[]){z}, &err));
    CHECK_EQ_BITS(z, ((double[]){1, 3, 5, 2, 4, 6}), sizeof z);
    Graph *all[] = {f, g, h};
    for (int i = 0; i < 3; i++) graph_release(all[i]);
}

/* The idiom of physics-informed networks: vmap(grad(grad(u))), here u = x^3. */
static void test_a_batch_of_second_derivatives(void)
{
    Graph *f = start();
    graph_output(f, gpowi(scalar(f, "x"), 3));
    Graph *d = slope_of(finish(f), true), *dd = slope_of(d, false);
    bool mapped = true, out_mapped;
    Graph *g = vmap_of(dd, &mapped, 4, &out_mapped);
    double x[4] = {-1, 0, 1, 2}, z[4];
    qb_error err;
    CHECK(value_run(g, (const void *[]){x}, (void *[]){z}, &err));
    for (int i = 0; i < 4; i++) CHECK_NEAR(z[i], 6 * x[i], 0);
    Graph *all[] = {f, d, dd, g};
    for (int i = 0; i < 4; i++) graph_release(all[i]);
}

/* An intermediate value of 16 axes has no room for a batch axis. */
static void test_too_many_axes_is_an_error(void)
{
    int64_t ones[QB_MAX_RANK];
    for (int i = 0; i < QB_MAX_RANK; i++) ones[i] = 1;
    Graph *f = start(), *g = start();
    Val x = scalar(f, "x");
    graph_output(f, greshape(gsin(greshape(x, QB_MAX_RANK, ones)), 0, NULL));
    finish(f);
    Val arg = input_of(g, "x", shape(QB_F64, 3)), z;
    bool mapped = true;
    CHECK(!vmap_run(g, f, &arg, &mapped, 3, &z, &mapped));
    CHECK_EQ_INT(g->error.code, QB_ESHAPE);
    CHECK(strstr(g->error.message, "reshape") && strstr(g->error.message, "16 axes"));
    graph_release(f);
    graph_release(g);
}

int main(void)
{
    RUN(test_unmapped_nodes_are_copied_once);
    RUN(test_nothing_mapped_is_a_copy);
    RUN(test_a_batch_with_a_shared_matrix_is_one_tall_product);
    RUN(test_the_gradient_of_a_shared_matrix_is_one_product);
    RUN(test_batches_nest);
    RUN(test_a_batch_of_second_derivatives);
    RUN(test_too_many_axes_is_an_error);
    return test_report();
}
