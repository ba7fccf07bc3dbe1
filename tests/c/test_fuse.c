/* What becomes one step. Every program here is also run and compared with the reference
   evaluator. */
#include "reference.h"

/* The plan of a program in text, after a check of its bits. */
static qb_plan *plan_of(const char *text)
{
    qb_error err = {0};
    Graph *g = parse_graph(text, &err);
    qb_plan *p = g ? plan_compile(g, &reference_target, NULL, &err) : NULL;
    if (!CHECK(p != NULL)) fprintf(stderr, "    %s\n", err.message);
    if (p) CHECK(ref_check(g, 7));
    graph_release(g);
    return p;
}

static const Region *region_at(const qb_plan *p, int i)
{
    return i < p->n_steps && p->steps[i].kind == STEP_REGION ? &p->steps[i].region : NULL;
}

static int count(const qb_plan *p, StepKind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) n += p->steps[i].kind == kind;
    return n;
}

static void test_a_layer_and_its_loss_are_one_region(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<8x4xf64>\n"
                         "%1 = input[name=b] : tensor<1x4xf64>\n"
                         "%2 = broadcast(%1) : tensor<8x4xf64>\n"
                         "%3 = add(%0, %2) : tensor<8x4xf64>\n"
                         "%4 = tanh(%3) : tensor<8x4xf64>\n"
                         "%5 = mul(%4, %4) : tensor<8x4xf64>\n"
                         "%6 = mean[axes=[0, 1]](%5) : tensor<f64>\n"
                         "return %6\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 1);
    const Region *r = region_at(p, 0);
    REQUIRE(r != NULL);
    CHECK_EQ_INT(r->n_loads, 2);
    CHECK_EQ_INT(r->n_instrs, 3);
    CHECK_EQ_INT(r->n_stores, 0);
    CHECK_EQ_INT(r->form, REDUCE_TRAILING);
    CHECK_EQ_INT(r->split, 0);
    CHECK_EQ_INT(r->rank, 2);
    CHECK_EQ_INT(p->work_bytes, 0);
    plan_release(p);
}

static void test_dims_that_can_be_walked_as_one_are_one(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<2x1x3x4xf64>\n"
                         "%1 = input[name=b] : tensor<3x4xf64>\n"
                         "%2 = reshape(%1) : tensor<1x1x3x4xf64>\n"
                         "%3 = broadcast(%2) : tensor<2x1x3x4xf64>\n"
                         "%4 = add(%0, %3) : tensor<2x1x3x4xf64>\n"
                         "return %4\n");
    REQUIRE(p != NULL);
    const Region *r = region_at(p, 0);
    REQUIRE(r != NULL);
    CHECK_EQ_INT(r->rank, 2);
    CHECK_EQ_INT(r->dims[0], 2);
    CHECK_EQ_INT(r->dims[1], 12);
    plan_release(p);
}

/* b1 * m is ready at once, but it is computed where the gradient is. */
static void test_work_that_is_needed_late_is_done_late(void)
{
    qb_plan *p = plan_of("%0 = input[name=w] : tensor<4x4xf64>\n"
                         "%1 = input[name=m] : tensor<4x4xf64>\n"
                         "%2 = const[0.9] : tensor<4x4xf64>\n"
                         "%3 = mul(%2, %1) : tensor<4x4xf64>\n"
                         "%4 = matmul(%0, %0) : tensor<4x4xf64>\n"
                         "%5 = add(%3, %4) : tensor<4x4xf64>\n"
                         "return %5\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 2);
    CHECK_EQ_INT(count(p, STEP_MATMUL), 1);
    plan_release(p);
}

static void test_products_with_one_right_operand_are_one_step(void)
{
    qb_plan *p = plan_of("%0 = input[name=a] : tensor<3x4xf64>\n"
                         "%1 = input[name=b] : tensor<5x4xf64>\n"
                         "%2 = input[name=w] : tensor<6x4xf64>\n"
                         "%3 = transpose[axes=[1, 0]](%2) : tensor<4x6xf64>\n"
                         "%4 = matmul(%0, %3) : tensor<3x6xf64>\n"
                         "%5 = tanh(%1) : tensor<5x4xf64>\n"
                         "%6 = matmul(%1, %3) : tensor<5x6xf64>\n"
                         "return %4, %5, %6\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(count(p, STEP_MATMUL), 1);
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind != STEP_MATMUL) continue;
        CHECK_EQ_INT(p->steps[i].matmul.n_parts, 2);
        CHECK_EQ_INT(p->steps[i].matmul.b.row, 1);
        CHECK_EQ_INT(p->steps[i].matmul.b.col, 4);
    }
    plan_release(p);
}

/* The second product needs the first, so they cannot be one. */
static void test_products_that_depend_on_each_other_stay_apart(void)
{
    qb_plan *p = plan_of("%0 = input[name=a] : tensor<3x4xf64>\n"
                         "%1 = input[name=w] : tensor<4x4xf64>\n"
                         "%2 = matmul(%0, %1) : tensor<3x4xf64>\n"
                         "%3 = matmul(%2, %1) : tensor<3x4xf64>\n"
                         "return %3\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(count(p, STEP_MATMUL), 2);
    plan_release(p);
}

static void test_a_batch_with_one_right_operand_is_more_rows(void)
{
    qb_plan *p = plan_of("%0 = input[name=a] : tensor<7x3x4xf64>\n"
                         "%1 = input[name=w] : tensor<1x4x5xf64>\n"
                         "%2 = broadcast(%1) : tensor<7x4x5xf64>\n"
                         "%3 = matmul(%0, %2) : tensor<7x3x5xf64>\n"
                         "return %3\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 1);
    CHECK_EQ_INT(p->steps[0].matmul.rank, 0);
    CHECK_EQ_INT(p->steps[0].matmul.parts[0].m, 21);
    plan_release(p);
}

static void test_a_batch_of_columns_with_one_left_operand_is_rows(void)
{
    qb_plan *p = plan_of("%0 = input[name=w] : tensor<1x1x3x4xf64>\n"
                         "%1 = input[name=v] : tensor<2x7x4x1xf64>\n"
                         "%2 = broadcast(%0) : tensor<2x7x3x4xf64>\n"
                         "%3 = matmul(%2, %1) : tensor<2x7x3x1xf64>\n"
                         "return %3\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 1);
    CHECK_EQ_INT(p->steps[0].matmul.rank, 0);
    CHECK_EQ_INT(p->steps[0].matmul.n, 3);
    CHECK_EQ_INT(p->steps[0].matmul.parts[0].m, 14);
    plan_release(p);
}

static void test_sums_over_rows_and_over_columns_are_two_regions(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<8x4xf64>\n"
                         "%1 = exp(%0) : tensor<8x4xf64>\n"
                         "%2 = sum[axes=[0]](%1) : tensor<4xf64>\n"
                         "%3 = sum[axes=[1]](%1) : tensor<8xf64>\n"
                         "%4 = max[axes=[0]](%1) : tensor<4xf64>\n"
                         "return %2, %3, %4\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 2);
    const Region *r = region_at(p, 0), *s = region_at(p, 1);
    REQUIRE(r != NULL && s != NULL);
    CHECK_EQ_INT(r->form, REDUCE_LEADING);
    CHECK_EQ_INT(r->n_reduces, 2);
    CHECK_EQ_INT(s->form, REDUCE_TRAILING);
    CHECK_EQ_INT(s->split, 1);
    plan_release(p);
}

static void test_a_sum_over_a_middle_dim_walks_it_last(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<2x3x4xf64>\n"
                         "%1 = sum[axes=[1]](%0) : tensor<2x4xf64>\n"
                         "return %1\n");
    REQUIRE(p != NULL);
    const Region *r = region_at(p, 0);
    REQUIRE(r != NULL);
    CHECK_EQ_INT(r->form, REDUCE_TRAILING);
    CHECK_EQ_INT(r->split, 2);
    CHECK_EQ_INT(r->dims[2], 3);
    CHECK_EQ_INT(r->loads[0].at.stride[2], 4);
    plan_release(p);
}

static void test_parts_of_a_concat_are_made_in_place(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<4xf64>\n"
                         "%1 = input[name=w] : tensor<4x4xf64>\n"
                         "%2 = tanh(%0) : tensor<4xf64>\n"
                         "%3 = reshape(%2) : tensor<1x4xf64>\n"
                         "%4 = matmul(%1, %1) : tensor<4x4xf64>\n"
                         "%5 = concat[axis=0](%3, %4) : tensor<5x4xf64>\n"
                         "%6 = matmul(%5, %1) : tensor<5x4xf64>\n"
                         "return %6\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 3);
    CHECK_EQ_INT(p->work_bytes, 192); /* 5 x 4 x 8 bytes, rounded up: the concat alone */
    plan_release(p);
}

static void test_a_concat_of_inputs_is_one_copy(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<9xf64>\n"
                         "%1 = input[name=t] : tensor<9xf64>\n"
                         "%2 = reshape(%0) : tensor<9x1xf64>\n"
                         "%3 = reshape(%1) : tensor<9x1xf64>\n"
                         "%4 = concat[axis=1](%2, %3) : tensor<9x2xf64>\n"
                         "return %4\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 1);
    const Region *r = region_at(p, 0);
    REQUIRE(r != NULL);
    CHECK_EQ_INT(r->n_stores, 2);
    CHECK_EQ_INT(r->n_instrs, 0);
    plan_release(p);
}

static void test_a_pad_slice_is_zeros_and_then_its_operand(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<2x3xf64>\n"
                         "%1 = exp(%0) : tensor<2x3xf64>\n"
                         "%2 = pad_slice[axis=1, start=1, total=7, step=2](%1) : tensor<2x7xf64>\n"
                         "%3 = reshape(%2) : tensor<1x2x7xf64>\n"
                         "%4 = concat[axis=0](%3, %3) : tensor<2x2x7xf64>\n"
                         "return %2, %4\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 3);
    plan_release(p);
}

static void test_unrelated_work_stays_apart_but_scalars_run_together(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<8xf64>\n"
                         "%1 = input[name=y] : tensor<8xf64>\n"
                         "%2 = exp(%0) : tensor<8xf64>\n"
                         "%3 = exp(%1) : tensor<8xf64>\n"
                         "return %2, %3\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 2);
    plan_release(p);
    p = plan_of("%0 = input[name=x] : tensor<f64>\n"
                "%1 = input[name=y] : tensor<1xf64>\n"
                "%2 = exp(%0) : tensor<f64>\n"
                "%3 = exp(%1) : tensor<1xf64>\n"
                "return %2, %3\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 1);
    plan_release(p);
}

/* A long chain with one load per link: more than a region takes. */
static void test_a_large_cluster_is_cut(void)
{
    Text t = {0};
    qb_error err = {0};
    enum { LINKS = 60 };
    for (int i = 0; i < LINKS; i++) text_add(&t, "%%%d = input[name=x%d] : tensor<3xf64>\n", i, i);
    text_add(&t, "%%%d = mul(%%0, %%1) : tensor<3xf64>\n", LINKS);
    for (int i = 2; i < LINKS; i++)
        text_add(&t, "%%%d = add(%%%d, %%%d) : tensor<3xf64>\n", LINKS + i - 1, LINKS + i - 2, i);
    text_add(&t, "return %%%d\n", 2 * LINKS - 2);
    char *text = text_take(&t, &err);
    qb_plan *p = plan_of(text);
    mem_free(text);
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 3);
    for (int i = 0; i < p->n_steps; i++) CHECK(p->steps[i].region.n_loads <= 24);
    plan_release(p);
}

/* 1 - h h is read in the region that makes h and again behind the product. */
static const char *const recompute =
    "%%0 = input[name=x] : tensor<%dx64xf64>\n"
    "%%1 = input[name=w] : tensor<64x64xf64>\n"
    "%%2 = tanh(%%0) : tensor<%dx64xf64>\n"
    "%%3 = mul(%%2, %%2) : tensor<%dx64xf64>\n"
    "%%4 = const[1] : tensor<%dx64xf64>\n"
    "%%5 = sub(%%4, %%3) : tensor<%dx64xf64>\n"
    "%%6 = mul(%%5, %%0) : tensor<%dx64xf64>\n"
    "%%7 = slice[axis=0, start=0, length=64, step=1](%%6) : tensor<64x64xf64>\n"
    "%%8 = matmul(%%2, %%7) : tensor<%dx64xf64>\n"
    "%%9 = mul(%%8, %%5) : tensor<%dx64xf64>\n"
    "return %%9\n";

static qb_plan *recomputing(int n)
{
    Text t = {0};
    qb_error err = {0};
    text_add(&t, recompute, n, n, n, n, n, n, n, n);
    char *text = text_take(&t, &err);
    qb_plan *p = plan_of(text);
    mem_free(text);
    return p;
}

static void test_a_large_cheap_value_is_computed_again_and_a_small_one_kept(void)
{
    qb_plan *small = recomputing(64), *large = recomputing(1100);
    REQUIRE(small != NULL && large != NULL);
    CHECK_EQ_INT(small->n_steps, 3);
    CHECK_EQ_INT(large->n_steps, 3);
    const Region *first = region_at(small, 0), *last = region_at(small, 2);
    REQUIRE(first != NULL && last != NULL);
    CHECK_EQ_INT(first->n_stores, 3);
    CHECK_EQ_INT(last->n_instrs, 1);
    first = region_at(large, 0), last = region_at(large, 2);
    REQUIRE(first != NULL && last != NULL);
    CHECK_EQ_INT(first->n_stores, 2);
    CHECK_EQ_INT(last->n_instrs, 3);
    plan_release(small);
    plan_release(large);
}

static void test_a_reshape_of_a_transpose_is_a_copy(void)
{
    qb_plan *p = plan_of("%0 = input[name=x] : tensor<3x4xf64>\n"
                         "%1 = transpose[axes=[1, 0]](%0) : tensor<4x3xf64>\n"
                         "%2 = reshape(%1) : tensor<6x2xf64>\n"
                         "%3 = transpose[axes=[1, 0]](%2) : tensor<2x6xf64>\n"
                         "%4 = matmul(%2, %3) : tensor<6x6xf64>\n"
                         "return %4\n");
    REQUIRE(p != NULL);
    CHECK_EQ_INT(p->n_steps, 2);
    const Region *r = region_at(p, 0);
    REQUIRE(r != NULL);
    CHECK_EQ_INT(r->n_instrs, 0);
    CHECK_EQ_INT(r->loads[0].at.stride[0], 1);
    CHECK_EQ_INT(r->loads[0].at.stride[1], 4);
    plan_release(p);
}

int main(void)
{
    RUN(test_a_layer_and_its_loss_are_one_region);
    RUN(test_dims_that_can_be_walked_as_one_are_one);
    RUN(test_work_that_is_needed_late_is_done_late);
    RUN(test_products_with_one_right_operand_are_one_step);
    RUN(test_products_that_depend_on_each_other_stay_apart);
    RUN(test_a_batch_with_one_right_operand_is_more_rows);
    RUN(test_a_batch_of_columns_with_one_left_operand_is_rows);
    RUN(test_sums_over_rows_and_over_columns_are_two_regions);
    RUN(test_a_sum_over_a_middle_dim_walks_it_last);
    RUN(test_parts_of_a_concat_are_made_in_place);
    RUN(test_a_concat_of_inputs_is_one_copy);
    RUN(test_a_pad_slice_is_zeros_and_then_its_operand);
    RUN(test_unrelated_work_stays_apart_but_scalars_run_together);
    RUN(test_a_large_cluster_is_cut);
    RUN(test_a_large_cheap_value_is_computed_again_and_a_small_one_kept);
    RUN(test_a_reshape_of_a_transpose_is_a_copy);
    return test_report();
}
