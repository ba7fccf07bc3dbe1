/* mem.c: alignment, live bytes, the failing allocator, sizes. */
#include "base/base.h"
#include "test.h"
#include <pthread.h>

static void test_blocks_are_aligned_and_hold_their_data(void)
{
    enum { N = 200 };
    unsigned char *p[N];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            size_t size = (size_t)i * 13;
            p[i] = mem_alloc(size);
            REQUIRE(p[i]);
            CHECK_EQ_INT((uintptr_t)p[i] % 64, 0);
            memset(p[i], i, size);
        }
        int wrong = 0;
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < i * 13; j++) wrong += p[i][j] != i;
            mem_free(p[i]);
        }
        CHECK_EQ_INT(wrong, 0);
    }
    mem_free(NULL);
}

static void test_live_bytes_are_counted(void)
{
    int64_t before = qb_test_live_bytes();
    void *p = mem_alloc(100), *q = mem_alloc(5000);
    CHECK_EQ_INT(qb_test_live_bytes() - before, 5100);
    p = mem_grow(p, 100, 300);
    CHECK_EQ_INT(qb_test_live_bytes() - before, 5300);
    mem_free(p);
    mem_free(q);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

static void test_large_blocks_begin_at_large_pages(void)
{
    static const size_t sizes[] = {0,       1000,          (1 << 20) - 1, 1 << 20,
                                   2 << 20, (3 << 20) + 7, (5 << 20) - 1};
    int64_t before = qb_test_live_bytes();
    for (int i = 0; i < 7; i++) {
        void *block;
        char *p = mem_alloc_paged(sizes[i], &block);
        REQUIRE(p);
        CHECK_EQ_INT((uintptr_t)p % (sizes[i] < 1 << 20 ? 64 : 2 << 20), 0);
        memset(p, 1, sizes[i]); /* under AddressSanitizer: all of it is there */
        mem_free(block);
    }
    CHECK_EQ_INT(qb_test_live_bytes(), before);
    void *block;
    CHECK(!mem_alloc_paged(SIZE_MAX, &block));
    qb_test_fail_alloc(1);
    CHECK(!mem_alloc_paged(1 << 22, &block));
    qb_test_fail_alloc(-1);
}

static void test_the_nth_allocation_fails_and_all_after_it(void)
{
    int64_t before = qb_test_live_bytes();
    qb_test_fail_alloc(2);
    char *p = mem_alloc(8);
    CHECK(p != NULL);
    CHECK(mem_alloc(8) == NULL);
    CHECK(mem_zeroed(4, 8) == NULL);
    CHECK(mem_alloc(1 << 20) == NULL);
    strcpy(p, "abc");
    CHECK(mem_grow(p, 8, 16) == NULL);
    CHECK_EQ_STR(p, "abc");
    qb_test_fail_alloc(-1);
    p = mem_grow(p, 8, 16);
    CHECK_EQ_STR(p, "abc");
    mem_free(p);
    qb_test_fail_alloc(1);
    CHECK(mem_alloc(8) == NULL);
    qb_test_fail_alloc(-1);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

static void test_zeroed_memory_is_zero_even_when_reused(void)
{
    for (int round = 0; round < 3; round++) {
        unsigned char *p = mem_zeroed(10, 20);
        int sum = 0;
        for (int i = 0; i < 200; i++) sum += p[i];
        CHECK_EQ_INT(sum, 0);
        memset(p, 255, 200);
        mem_free(p);
    }
}

static void test_sizes_that_overflow_are_refused(void)
{
    int64_t x = 0;
    CHECK(mem_alloc(SIZE_MAX) == NULL);
    CHECK(mem_alloc((size_t)1 << 60) == NULL);
    CHECK(mem_zeroed(SIZE_MAX / 2, 3) == NULL);
    CHECK(mem_mul(1 << 20, 1 << 20, &x));
    CHECK_EQ_INT(x, (int64_t)1 << 40);
    CHECK(mem_mul(0, INT64_MAX, &x));
    CHECK(!mem_mul(INT64_MAX, 2, &x));
    CHECK(!mem_mul(-1, 2, &x));
    CHECK(!mem_mul(2, -1, &x));
}

static void *churn(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        void *p = mem_alloc(8), *q = mem_alloc(500);
        mem_free(p);
        mem_free(q);
    }
    mem_free(arg); /* of another thread */
    return NULL;
}

static void test_threads_share_and_pass_blocks(void)
{
    int64_t before = qb_test_live_bytes();
    pthread_t t[4];
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&t[i], NULL, churn, mem_alloc(64)) == 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

/* Else every array of a loop stands twice. */
static void test_a_freed_block_fits_the_next_of_its_size(void)
{
#if defined(__GLIBC__) && !MEM_CHECKED
    enum { SIZE = 100000 };
    void *p = mem_alloc(SIZE), *behind = mem_alloc(SIZE);
    REQUIRE(p && behind);
    mem_free(p);
    void *q = mem_alloc(SIZE);
    CHECK(q == p);
    mem_free(behind);
    mem_free(q);
#endif
}

int main(void)
{
    RUN(test_blocks_are_aligned_and_hold_their_data);
    RUN(test_live_bytes_are_counted);
    RUN(test_large_blocks_begin_at_large_pages);
    RUN(test_the_nth_allocation_fails_and_all_after_it);
    RUN(test_zeroed_memory_is_zero_even_when_reused);
    RUN(test_sizes_that_overflow_are_refused);
    RUN(test_threads_share_and_pass_blocks);
    RUN(test_a_freed_block_fits_the_next_of_its_size);
    return test_report();
}
