/* Eager ops: compiled once per op, attributes and operand types; bounded; safe from many
   threads. */
#include "reference.h"
#include <pthread.h>

static atomic_int compiled;

static bool counting_prepare(qb_plan *p, const qb_options *options, qb_error *err)
{
    compiled++;
    return ref_prepare(p, options, err);
}

static const Target counting_target = {.name = "counting",
                                       .prepare = counting_prepare,
                                       .run = ref_run,
                                       .drop = ref_drop};

/* One op on up to two arrays of one dtype and shape; the first element of the result. */
static double eager(Op op, const Attr *attr, const Type *t, int n, const void *x, const void *y,
                    qb_error *err)
{
    qb_buffer *out = NULL;
    Type type;
    if (!cache_eager(&counting_target, op, attr, n, (const Type *const[]){t, t},
                     (const void *const[]){x, y}, &out, &type, err))
        return -1;
    double v = element_get(type.dtype, out->data, 0);
    qb_buffer_release(out);
    return v;
}

static void test_an_op_is_compiled_once(void)
{
    qb_error err = {0};
    Type t = type_make(QB_F64, 0, NULL);
    double x = 2, y = 3;
    cache_clear();
    compiled = 0;
    for (int i = 0; i < 5; i++) CHECK_NEAR(eager(OP_add, NULL, &t, 2, &x, &y, &err), 5, 0);
    CHECK_EQ_INT(compiled, 1);
    CHECK_NEAR(eager(OP_mul, NULL, &t, 2, &x, &y, &err), 6, 0);
    CHECK_EQ_INT(compiled, 2);
    cache_clear();
    CHECK_NEAR(eager(OP_add, NULL, &t, 2, &x, &y, &err), 5, 0);
    CHECK_EQ_INT(compiled, 3);
}

static void test_attributes_types_and_weakness_make_another_op(void)
{
    qb_error err = {0};
    double x[7] = {1, 2, 3, 4, 5, 6, 7};
    Type row = type_make(QB_F64, 1, (int64_t[]){6}),
         table = type_make(QB_F64, 2, (int64_t[]){2, 3});
    Type tall = type_make(QB_F64, 2, (int64_t[]){3, 2}), weak = type_make(QB_F64, 0, NULL),
         strong = weak;
    weak.weak = 1;
    cache_clear();
    compiled = 0;
    CHECK_NEAR(eager(OP_sum, &(Attr){.n = 1, .list = {0}}, &row, 1, x, NULL, &err), 21, 0);
    CHECK_NEAR(eager(OP_sum, &(Attr){.n = 1, .list = {0}}, &table, 1, x, NULL, &err), 5, 0);
    CHECK_NEAR(eager(OP_sum, &(Attr){.n = 1, .list = {1}}, &table, 1, x, NULL, &err), 6, 0);
    CHECK_NEAR(eager(OP_sum, &(Attr){.n = 1, .list = {1}}, &tall, 1, x, NULL, &err), 3, 0);
    CHECK_NEAR(eager(OP_sum, &(Attr){.n = -1}, &tall, 1, x, NULL, &err), 21, 0);
    CHECK_NEAR(eager(OP_powi, &(Attr){.i = 2}, &row, 1, x + 1, NULL, &err), 4, 0);
    CHECK_NEAR(eager(OP_powi, &(Attr){.i = 3}, &row, 1, x + 1, NULL, &err), 8, 0);
    CHECK_EQ_INT(compiled, 7);
    const Type *mixed[] = {&weak, &strong}, *strongs[] = {&strong, &strong},
               *weaks[] = {&weak, &weak};
    const Type *const *cases[] = {mixed, strongs, weaks};
    for (int i = 0; i < 3; i++) {
        qb_buffer *out = NULL;
        Type type;
        CHECK(cache_eager(&counting_target, OP_add, NULL, 2, cases[i], (const void *const[]){x, x},
                          &out, &type, &err));
        CHECK_EQ_INT(type.weak, i == 2);
        qb_buffer_release(out);
    }
    CHECK_EQ_INT(compiled, 10);
}

static void test_a_wrong_op_is_an_error_each_time(void)
{
    qb_error err = {0};
    double x[6] = {0};
    Type a = type_make(QB_F64, 1, (int64_t[]){3}), b = type_make(QB_F64, 1, (int64_t[]){4});
    const Type *types[] = {&a, &b};
    qb_buffer *out = NULL;
    Type type;
    for (int i = 0; i < 2; i++) {
        err = (qb_error){0};
        CHECK(!cache_eager(&counting_target, OP_add, NULL, 2, types, (const void *const[]){x, x},
                           &out, &type, &err));
        CHECK_EQ_INT(err.code, QB_ESHAPE);
        CHECK(strstr(err.message, "[3]") && strstr(err.message, "[4]"));
    }
    CHECK(!cache_eager(&counting_target, OP_COUNT, NULL, 2, types, (const void *const[]){x, x},
                       &out, &type, &err));
    CHECK(out == NULL);
}

/* Many shapes: the memory of the compiled ops stops growing, and all of it is given back. */
static void test_the_cache_is_bounded(void)
{
    qb_error err = {0};
    static double x[6000];
    cache_clear();
    int64_t before = qb_test_live_bytes(), half = 0;
    compiled = 0;
    for (int64_t n = 1; n <= 6000; n++) {
        Type t = type_make(QB_F64, 1, &n);
        eager(OP_neg, NULL, &t, 1, x, NULL, &err);
        if (n == 3000) half = qb_test_live_bytes() - before;
    }
    CHECK_EQ_INT(compiled, 6000);
    CHECK(qb_test_live_bytes() - before < 2 * half);
    cache_clear();
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

static void *work(void *arg)
{
    qb_error err = {0};
    uint64_t state = (uint64_t)(uintptr_t)arg;
    double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    bool ok = true;
    for (int i = 0; i < 4000; i++) {
        state = state * 6364136223846793005u + 1;
        int64_t n = 1 + (int64_t)(state >> 60) / 2;
        Type t = type_make(QB_F64, 1, &n);
        Op op = state >> 40 & 1 ? OP_add : OP_mul;
        ok &= eager(op, NULL, &t, 2, x, x, &err) == (op == OP_add ? 2 : 1);
        if (i % 1000 == 999) cache_clear();
    }
    return ok ? arg : NULL;
}

static void test_threads_share_it(void)
{
    pthread_t threads[4];
    cache_clear();
    int64_t before = qb_test_live_bytes();
    for (intptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        CHECK(result != NULL);
    }
    cache_clear();
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

static void test_without_memory_it_is_an_error_and_nothing_leaks(void)
{
    Type t = type_make(QB_F64, 1, (int64_t[]){3});
    double x[3] = {1, 2, 3}, v = -1;
    cache_clear();
    int64_t before = qb_test_live_bytes(), n = 0;
    for (; v < 0 && n < 1000; n++) {
        qb_error err = {0};
        qb_test_fail_alloc(n);
        v = eager(OP_add, NULL, &t, 2, x, x, &err);
        qb_test_fail_alloc(-1);
        if (v < 0) CHECK_EQ_INT(err.code, QB_EMEMORY);
        cache_clear();
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
    CHECK_NEAR(v, 2, 0);
}

int main(void)
{
    RUN(test_an_op_is_compiled_once);
    RUN(test_attributes_types_and_weakness_make_another_op);
    RUN(test_a_wrong_op_is_an_error_each_time);
    RUN(test_the_cache_is_bounded);
    RUN(test_threads_share_it);
    RUN(test_without_memory_it_is_an_error_and_nothing_leaks);
    return test_report();
}
