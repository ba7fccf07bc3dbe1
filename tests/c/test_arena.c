/* arena.c */
#include "base/base.h"
#include "test.h"

static void test_pieces_are_aligned_and_apart(void)
{
    Arena a = {0};
    enum { N = 3000 };
    static unsigned char *p[N];
    for (int i = 0; i < N; i++) {
        size_t size = i % 97 == 0 ? 20000 : (size_t)(i % 61);
        p[i] = arena_alloc(&a, size);
        REQUIRE(p[i]);
        memset(p[i], i & 255, size);
    }
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        wrong += (uintptr_t)p[i] % 16 != 0;
        for (int j = 0; j < (i % 97 == 0 ? 20000 : i % 61); j++) wrong += p[i][j] != (i & 255);
        if (i) wrong += p[i] == p[i - 1];
    }
    CHECK_EQ_INT(wrong, 0);
    arena_free(&a);
}

static void test_free_gives_everything_back_and_the_arena_works_again(void)
{
    int64_t before = qb_test_live_bytes();
    Arena a = {0};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) CHECK(arena_alloc(&a, 100) != NULL);
        CHECK(qb_test_live_bytes() - before >= 100000);
        arena_free(&a);
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
}

static void test_copies(void)
{
    Arena a = {0};
    CHECK_EQ_STR(arena_text(&a, "tanh"), "tanh");
    CHECK_EQ_STR(arena_text(&a, ""), "");
    int x[3] = {1, 2, 3}, *y = arena_copy(&a, x, sizeof x);
    CHECK(y != x);
    CHECK_EQ_BITS(x, y, sizeof x);
    int *z = arena_zeroed(&a, 3, sizeof *z);
    CHECK_EQ_INT(z[0] | z[1] | z[2], 0);
    CHECK(arena_copy(&a, NULL, 0) != NULL);
    arena_free(&a);
}

static void test_running_out_leaves_the_arena_whole(void)
{
    int64_t before = qb_test_live_bytes();
    Arena a = {0};
    char *s = arena_text(&a, "kept");
    qb_test_fail_alloc(1);
    CHECK(arena_alloc(&a, 1 << 20) == NULL);
    CHECK(arena_zeroed(&a, 1 << 20, 8) == NULL);
    qb_test_fail_alloc(-1);
    CHECK(arena_alloc(&a, SIZE_MAX) == NULL);
    CHECK(arena_alloc(&a, SIZE_MAX - 8) == NULL);
    CHECK(arena_zeroed(&a, SIZE_MAX / 2, 4) == NULL);
    CHECK_EQ_STR(s, "kept");
    CHECK(arena_alloc(&a, 10) != NULL);
    arena_free(&a);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

int main(void)
{
    RUN(test_pieces_are_aligned_and_apart);
    RUN(test_free_gives_everything_back_and_the_arena_works_again);
    RUN(test_copies);
    RUN(test_running_out_leaves_the_arena_whole);
    return test_report();
}
