/* hash.c */
#include "base/base.h"
#include "test.h"

static void test_ids_are_found_by_hash(void)
{
    HashIndex h = {0};
    enum { N = 50000 };
    uint32_t i = HASH_START;
    CHECK_EQ_INT(hash_next(&h, 5, &i), UINT32_MAX);
    for (uint32_t id = 0; id < N; id++) REQUIRE(hash_add(&h, hash_bytes(0, &id, sizeof id), id));
    CHECK_EQ_INT(h.used, N);
    int missing = 0, strangers = 0;
    for (uint32_t id = 0; id < N; id++) {
        uint32_t found, hits = 0;
        i = HASH_START;
        while ((found = hash_next(&h, hash_bytes(0, &id, sizeof id), &i)) != UINT32_MAX) {
            if (found == id)
                hits++;
            else
                strangers++;
        }
        missing += hits != 1;
    }
    CHECK_EQ_INT(missing, 0);
    CHECK(strangers < 10); /* 32 bits of the hash are compared */
    hash_free(&h);
    CHECK_EQ_INT(h.used, 0);
}

static void test_equal_hashes_are_listed_once_each(void)
{
    HashIndex h = {0};
    for (uint32_t id = 0; id < 100; id++) REQUIRE(hash_add(&h, id % 2 ? 7 : ~(uint64_t)0, id));
    int seen[100] = {0}, wrong = 0;
    for (int k = 0; k < 2; k++)
        for (uint32_t i = HASH_START, id;
             (id = hash_next(&h, k ? 7 : ~(uint64_t)0, &i)) != UINT32_MAX;)
            seen[id]++;
    for (int id = 0; id < 100; id++) wrong += seen[id] != 1;
    CHECK_EQ_INT(wrong, 0);
    hash_free(&h);
}

static void test_bytes_count_each(void)
{
    unsigned char s[40] = {0};
    uint64_t h = hash_bytes(1, s, 40);
    CHECK(hash_bytes(2, s, 40) != h);
    for (int i = 0; i < 40; i++) {
        s[i] = 1;
        CHECK(hash_bytes(1, s, 40) != h);
        s[i] = 0;
        CHECK(hash_bytes(1, s, (size_t)i) != h);
    }
    CHECK(hash_bytes(1, s, 40) == h);
}

static void test_a_failed_growth_leaves_the_index_whole(void)
{
    int64_t before = qb_test_live_bytes();
    HashIndex h = {0};
    for (uint32_t id = 0; id < 8; id++) REQUIRE(hash_add(&h, id, id));
    qb_test_fail_alloc(1);
    CHECK(!hash_add(&h, 8, 8));
    qb_test_fail_alloc(-1);
    for (uint32_t id = 0; id < 8; id++) {
        uint32_t i = HASH_START;
        CHECK_EQ_INT(hash_next(&h, id, &i), id);
    }
    CHECK(hash_add(&h, 8, 8));
    hash_free(&h);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

int main(void)
{
    RUN(test_ids_are_found_by_hash);
    RUN(test_equal_hashes_are_listed_once_each);
    RUN(test_bytes_count_each);
    RUN(test_a_failed_growth_leaves_the_index_whole);
    return test_report();
}
