/* buffer.c */
#include "base/base.h"
#include "test.h"

static void test_a_buffer_lives_until_its_last_reference(void)
{
    qb_error err = {0};
    int64_t before = qb_test_live_bytes();
    for (int64_t bytes = 0; bytes < 5000; bytes = bytes * 3 + 1) {
        qb_buffer *b = qb_buffer_new(bytes, &err);
        REQUIRE(b);
        CHECK_EQ_INT(qb_buffer_bytes(b), bytes);
        CHECK_EQ_INT((uintptr_t)qb_buffer_data(b) % 64, 0);
        memset(qb_buffer_data(b), 1, (size_t)bytes);
        CHECK(qb_buffer_retain(b) == b);
        qb_buffer_release(b);
        CHECK(qb_test_live_bytes() >= before + bytes);
        qb_buffer_release(b);
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
    qb_buffer_release(NULL);
}

static void count(void *owner) { ++*(int *)owner; }

static void test_a_wrapped_buffer_calls_its_owner_once(void)
{
    qb_error err = {0};
    double x[3];
    int released = 0;
    qb_buffer *b = qb_buffer_wrap(x, sizeof x, count, &released, &err);
    REQUIRE(b);
    CHECK(qb_buffer_data(b) == x);
    qb_buffer_retain(b);
    qb_buffer_release(b);
    CHECK_EQ_INT(released, 0);
    qb_buffer_release(b);
    CHECK_EQ_INT(released, 1);
}

static void test_no_memory_is_an_error(void)
{
    static const int64_t sizes[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 60, (int64_t)1 << 50};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        qb_error err = {0};
        CHECK(qb_buffer_new(sizes[i], &err) == NULL);
        CHECK_EQ_INT(err.code, QB_EMEMORY);
    }
    qb_error err = {0};
    int released = 0;
    qb_test_fail_alloc(1);
    CHECK(qb_buffer_new(8, &err) == NULL);
    CHECK(qb_buffer_wrap(&err, 8, count, &released, &err) == NULL);
    qb_test_fail_alloc(-1);
    CHECK_EQ_INT(err.code, QB_EMEMORY);
    CHECK_EQ_INT(released, 0);
}

int main(void)
{
    RUN(test_a_buffer_lives_until_its_last_reference);
    RUN(test_a_wrapped_buffer_calls_its_owner_once);
    RUN(test_no_memory_is_an_error);
    return test_report();
}
