/* test_value.c: the reference against plain loops that are written out here from the order contract of plan.h, and against numbers
   known by hand. */
#include "ir/ir.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

static double numbers[4096];
static float floats[4096];

/* Values whose sums depend on their order. */
static void fill_numbers(void)
{
    uint64_t s = 42;
    for (int i = 0; i < 4096; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = ldexp((double)(int64_t)s / 9e18, (int)(s >> 60) * 3 - 20);
        floats[i] = (float)numbers[i];
    }
}

static bool eval(Op op, const Attr *a, int n, const Type *xt, Type ot, const void *const *x,
                 void *out)
{
    qb_error err = {0};
    return value_op(op, a, n, xt, &ot, x, &out, &err);
}

/* The contract's sum of count numbers that are `step` apart. */
static double contract_sum(const double *x, int count, int step)
{
    double total = 0;
    for (int block = 0; block * 128 < count; block++) {
        double lane[8] = {-0.0, -0.0, -0.0, -0.0, -0.0, -0.0, -0.0, -0.0};
        int end = count < block * 128 + 128 ? count : block * 128 + 128;
        for (int k = block * 128; k < end; k++) lane[k % 8] += x[k * step];
        double a = lane[0] + lane[4], b = lane[1] + lane[5], c = lane[2] + lane[6],
               d = lane[3] + lane[7];
        double sum = (a + c) + (b + d);
        total = block == 0 ? sum : total + sum;
    }
    return total;
}

static void test_a_sum_follows_the_order_contract(void)
{
    static const int counts[] = {1, 2, 7, 8, 9, 127, 128, 129, 255, 256, 1000, 4096};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        Type t = type_make(QB_F64, 1, (int64_t[]){counts[i]});
        double got, want = contract_sum(numbers, counts[i], 1);
        CHECK(eval(OP_sum, &(Attr){.n = 1}, 1, &t, type_make(QB_F64, 0, NULL),
                   (const void *[]){numbers}, &got));
        CHECK_EQ_BITS(&got, &want, sizeof got);
        want /= counts[i];
        CHECK(eval(OP_mean, &(Attr){.n = 1}, 1, &t, type_make(QB_F64, 0, NULL),
                   (const void *[]){numbers}, &got));
        CHECK_EQ_BITS(&got, &want, sizeof got);
    }
}

static void test_a_sum_over_a_leading_axis_is_the_same_sum(void)
{
    Type t = type_make(QB_F64, 2, (int64_t[]){500, 3}), out = type_make(QB_F64, 1, (int64_t[]){3});
    double got[3];
    CHECK(eval(OP_sum, &(Attr){.n = 1, .list = {0}}, 1, &t, out, (const void *[]){numbers}, got));
    for (int i = 0; i < 3; i++) {
        double want = contract_sum(numbers + i, 500, 3);
        CHECK_EQ_BITS(&got[i], &want, sizeof want);
    }
}

/* Axes 0 and 2 of [4,3,50] are one index of 200 in row-major order. */
static void test_several_axes_are_one_flat_index(void)
{
    Type t = type_make(QB_F64, 3, (int64_t[]){4, 3, 50}),
         out = type_make(QB_F64, 1, (int64_t[]){3});
    double got[3], flat[200];
    CHECK(
        eval(OP_sum, &(Attr){.n = 2, .list = {0, 2}}, 1, &t, out, (const void *[]){numbers}, got));
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 50; k++) flat[i * 50 + k] = numbers[(i * 3 + j) * 50 + k];
        double want = contract_sum(flat, 200, 1);
        CHECK_EQ_BITS(&got[j], &want, sizeof want);
    }
}

static void test_float32_sums_round_once(void)
{
    Type t = type_make(QB_F32, 1, (int64_t[]){3}), scalar = type_make(QB_F32, 0, NULL);
    float x[] = {1e8f, 1, -1e8f}, got;
    CHECK(eval(OP_sum, &(Attr){.n = 1}, 1, &t, scalar, (const void *[]){x}, &got));
    CHECK(got == 1);
    double wide[1000];
    for (int i = 0; i < 1000; i++) wide[i] = floats[i];
    Type u = type_make(QB_F32, 1, (int64_t[]){1000});
    float want = (float)(contract_sum(wide, 1000, 1) / 1000);
    CHECK(eval(OP_mean, &(Attr){.n = 1}, 1, &u, scalar, (const void *[]){floats}, &got));
    CHECK_EQ_BITS(&got, &want, sizeof got);
}

static void test_a_sum_of_negative_zeros_is_negative_zero(void)
{
    double x[] = {-0.0, -0.0, -0.0}, got, want = -0.0;
    Type t = type_make(QB_F64, 1, (int64_t[]){3});
    CHECK(eval(OP_sum, &(Attr){.n = 1}, 1, &t, type_make(QB_F64, 0, NULL), (const void *[]){x},
               &got));
    CHECK_EQ_BITS(&got, &want, sizeof got);
}

static void test_max_and_min_know_nan_and_the_sign_of_zero(void)
{
    static const double cases[][5] = {/* a, b, c, max, min */
                                      {1, 2, 3, 3, 1},
                                      {-0.0, 0.0, -0.0, 0.0, -0.0},
                                      {-INFINITY, 5, INFINITY, INFINITY, -INFINITY},
                                      {-0.0, -0.0, -0.0, -0.0, -0.0}};
    Type t = type_make(QB_F64, 1, (int64_t[]){3}), scalar = type_make(QB_F64, 0, NULL);
    double got;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(eval(OP_max, &(Attr){.n = 1}, 1, &t, scalar, (const void *[]){cases[i]}, &got));
        CHECK_EQ_BITS(&got, &cases[i][3], sizeof got);
        CHECK(eval(OP_min, &(Attr){.n = 1}, 1, &t, scalar, (const void *[]){cases[i]}, &got));
        CHECK_EQ_BITS(&got, &cases[i][4], sizeof got);
    }
    for (int at = 0; at < 3; at++) { /* any NaN becomes the plain quiet one */
        double x[] = {1, INFINITY, 3}, plain = NAN;
        x[at] = copysign(NAN, -1);
        CHECK(eval(OP_max, &(Attr){.n = 1}, 1, &t, scalar, (const void *[]){x}, &got));
        CHECK_EQ_BITS(&got, &plain, sizeof got);
        CHECK(eval(OP_min, &(Attr){.n = 1}, 1, &t, scalar, (const void *[]){x}, &got));
        CHECK_EQ_BITS(&got, &plain, sizeof got);
    }
}

static void test_matmul_is_one_fma_chain_per_block(void)
{
    enum { M = 3, K = 300, N = 4, BATCH = 2 };
    Type t[] = {type_make(QB_F64, 3, (int64_t[]){BATCH, M, K}),
                type_make(QB_F64, 3, (int64_t[]){BATCH, K, N})};
    Type out = type_make(QB_F64, 3, (int64_t[]){BATCH, M, N});
    const double *a = numbers, *b = numbers + 1000;
    double got[BATCH * M * N];
    CHECK(eval(OP_matmul, &(Attr){0}, 2, t, out, (const void *[]){a, b}, got));
    for (int s = 0; s < BATCH; s++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double part[3] = {0, 0, 0};
                for (int k = 0; k < K; k++)
                    part[k / 128] =
                        fma(a[(s * M + i) * K + k], b[(s * K + k) * N + j], part[k / 128]);
                double want = part[0] + part[1] + part[2];
                CHECK_EQ_BITS(&got[(s * M + i) * N + j], &want, sizeof want);
            }
}

static void test_a_float32_matmul_rounds_once(void)
{
    Type t[] = {type_make(QB_F32, 2, (int64_t[]){1, 3}), type_make(QB_F32, 2, (int64_t[]){3, 1})};
    float a[] = {1e8f, 1, -1e8f}, b[] = {1, 1, 1}, got;
    CHECK(eval(OP_matmul, &(Attr){0}, 2, t, type_make(QB_F32, 2, (int64_t[]){1, 1}),
               (const void *[]){a, b}, &got));
    CHECK(got == 1);
}

/* [0, 1, ... 23] as [2,3,4]. */
static void test_shape_ops_move_elements(void)
{
    double x[24], got[64];
    for (int i = 0; i < 24; i++) x[i] = i;
    Type t = type_make(QB_F64, 3, (int64_t[]){2, 3, 4});
    CHECK(eval(OP_transpose, &(Attr){.n = 3, .list = {2, 0, 1}}, 1, &t,
               type_make(QB_F64, 3, (int64_t[]){4, 2, 3}), (const void *[]){x}, got));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 3; k++) CHECK(got[(i * 2 + j) * 3 + k] == x[(j * 3 + k) * 4 + i]);
    CHECK(eval(OP_slice, &(Attr){.i = 1, .start = 2, .length = 2, .step = -2}, 1, &t,
               type_make(QB_F64, 3, (int64_t[]){2, 2, 4}), (const void *[]){x}, got));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 4; k++)
                CHECK(got[(i * 2 + j) * 4 + k] == x[(i * 3 + 2 - 2 * j) * 4 + k]);
    Type r = type_make(QB_F64, 2, (int64_t[]){1, 3});
    CHECK(eval(OP_broadcast, &(Attr){0}, 1, &r, type_make(QB_F64, 2, (int64_t[]){4, 3}),
               (const void *[]){x}, got));
    for (int i = 0; i < 12; i++) CHECK(got[i] == i % 3);
    CHECK(eval(OP_reshape, &(Attr){0}, 1, &t, type_make(QB_F64, 1, (int64_t[]){24}),
               (const void *[]){x}, got));
    CHECK_EQ_BITS(got, x, sizeof x);
}

static void test_pad_slice_is_zero_elsewhere(void)
{
    double x[] = {1, 2, 3}, got[8], want[] = {0, 0, 3, 0, 2, 0, 1, 0};
    Type t = type_make(QB_F64, 1, (int64_t[]){3});
    CHECK(eval(OP_pad_slice, &(Attr){.i = 0, .start = 6, .length = 8, .step = -2}, 1, &t,
               type_make(QB_F64, 1, (int64_t[]){8}), (const void *[]){x}, got));
    CHECK_EQ_BITS(got, want, sizeof want);
}

static void test_concat_along_an_inner_axis(void)
{
    Type t[] = {type_make(QB_F64, 2, (int64_t[]){2, 1}), type_make(QB_F64, 2, (int64_t[]){2, 2})};
    double a[] = {1, 2}, b[] = {3, 4, 5, 6}, got[6], want[] = {1, 3, 4, 2, 5, 6};
    CHECK(eval(OP_concat, &(Attr){.i = 1}, 2, t, type_make(QB_F64, 2, (int64_t[]){2, 3}),
               (const void *[]){a, b}, got));
    CHECK_EQ_BITS(got, want, sizeof want);
}

static void test_casts_where_and_powers(void)
{
    Type d = type_make(QB_F64, 1, (int64_t[]){5}), m = type_make(QB_BOOL, 1, (int64_t[]){5}),
         f = type_make(QB_F32, 1, (int64_t[]){5});
    double x[] = {0.0, -0.0, NAN, 1e-300, 0.1}, got[5];
    unsigned char mask[5], want[] = {0, 0, 1, 1, 1};
    float narrow[5];
    CHECK(eval(OP_cast, &(Attr){.i = QB_BOOL}, 1, &d, m, (const void *[]){x}, mask));
    CHECK_EQ_BITS(mask, want, 5);
    CHECK(eval(OP_cast, &(Attr){.i = QB_F32}, 1, &d, f, (const void *[]){x}, narrow));
    CHECK(narrow[3] == 0 && narrow[4] == 0.1f && isnan(narrow[2]));
    double b[] = {1, 2, 3, 4, 5}, chosen[] = {1, 2, NAN, 1e-300, 0.1};
    Type t[] = {m, d, d};
    CHECK(eval(OP_where, &(Attr){0}, 3, t, d, (const void *[]){mask, x, b}, got));
    CHECK_EQ_BITS(got, chosen, sizeof chosen);
    CHECK(eval(OP_powi, &(Attr){.i = 3}, 1, &d, d, (const void *[]){b}, got));
    CHECK(got[0] == 1 && got[1] == 8 && got[2] == 27 && got[4] == 125);
    CHECK(eval(OP_powi, &(Attr){.i = 0}, 1, &d, d, (const void *[]){x}, got));
    CHECK(got[2] == 1 && got[0] == 1);
}

/* A float32 result is the float64 one, rounded; masks are 0 or 1; what a row has no function for is NaN. */
static void test_one_element_of_every_row(void)
{
    for (int op = 0; op < OP_COUNT; op++) {
        const OpRow *r = &op_table[op];
        if (r->cls == CLASS_STRUCT || r->in == IN_B) continue;
        for (int i = 0; i < 200; i++) {
            float x = floats[i], y = floats[i + 200];
            double wide = value_scalar((Op)op, QB_F64, x, y),
                   narrow = value_scalar((Op)op, QB_F32, x, y), want = (double)(float)wide;
            if (!isnan(wide)) CHECK_EQ_BITS(&narrow, &want, sizeof want);
            if (r->to_bool) CHECK(wide == 0 || wide == 1);
        }
    }
    CHECK(value_scalar(OP_logical_not, QB_BOOL, 1, 0) == 0 &&
          value_scalar(OP_logical_not, QB_BOOL, 0, 0) == 1);
    CHECK(value_scalar(OP_logical_and, QB_BOOL, 1, 0) == 0 &&
          value_scalar(OP_logical_or, QB_BOOL, 1, 0) == 1);
    CHECK(isnan(value_scalar(OP_tanh, QB_BOOL, 1, 0)));
    CHECK(value_scalar(OP_not_equal, QB_F64, NAN, NAN) == 1 &&
          value_scalar(OP_equal, QB_F64, NAN, NAN) == 0);
    double zero = 0, got = value_scalar(OP_sign, QB_F64, -0.0, 0),
           root = value_scalar(OP_sqrt, QB_F32, 2, 0);
    CHECK_EQ_BITS(&got, &zero, sizeof got);
    CHECK(root == (double)sqrtf(2));
}

static void test_a_program_runs_or_says_why_not(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    Type t = type_make(QB_F64, 1, (int64_t[]){3});
    Val x = graph_input(g, "x", &t), y = gadd(gmul(x, x), glike(x, 1));
    graph_output(g, gsum(y, (int64_t[]){0}, 1));
    graph_output(g, x);
    double in[] = {1, 2, 3}, sum, copy[3];
    const void *inputs[] = {in};
    void *outputs[] = {&sum, copy};
    CHECK(value_run(g, inputs, outputs, &err));
    CHECK(sum == 17 && copy[2] == 3);
    int64_t before = qb_test_live_bytes();
    int failed = 0;
    for (int64_t n = 0; n < 12; n++) {
        qb_test_fail_alloc(n);
        bool ok = value_run(g, inputs, outputs, &err);
        qb_test_fail_alloc(-1);
        CHECK(ok || err.code == QB_EMEMORY);
        failed += !ok;
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
    CHECK(failed > 0);
    graph_release(g);
}

int main(void)
{
    fill_numbers();
    RUN(test_a_sum_follows_the_order_contract);
    RUN(test_a_sum_over_a_leading_axis_is_the_same_sum);
    RUN(test_several_axes_are_one_flat_index);
    RUN(test_float32_sums_round_once);
    RUN(test_a_sum_of_negative_zeros_is_negative_zero);
    RUN(test_max_and_min_know_nan_and_the_sign_of_zero);
    RUN(test_matmul_is_one_fma_chain_per_block);
    RUN(test_a_float32_matmul_rounds_once);
    RUN(test_shape_ops_move_elements);
    RUN(test_pad_slice_is_zero_elsewhere);
    RUN(test_concat_along_an_inner_axis);
    RUN(test_casts_where_and_powers);
    RUN(test_one_element_of_every_row);
    RUN(test_a_program_runs_or_says_why_not);
    return test_report();
}
