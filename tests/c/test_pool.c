/* pool.c: every tile once, whatever the pool does. QUABLA_EXHAUSTIVE=1 runs 3 million jobs. */
#include "base/base.h"
#include "test.h"
#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 300 };
typedef struct {
    atomic_uchar hits[MOST];
    atomic_int high;   /* largest thread seen */
    atomic_int shared; /* tiles that a helper ran */
} Job;

static void tile(void *arg, int64_t i, int thread)
{
    Job *j = arg;
    atomic_fetch_add_explicit(&j->hits[i], 1, memory_order_relaxed);
    int high = atomic_load_explicit(&j->high, memory_order_relaxed);
    while (thread > high && !atomic_compare_exchange_weak(&j->high, &high, thread)) {}
    if (thread) atomic_fetch_add_explicit(&j->shared, 1, memory_order_relaxed);
}

/* Tiles of the job that did not run exactly once. */
static int run(Job *j, int tiles)
{
    int wrong = 0;
    memset(j->hits, 0, sizeof j->hits);
    pool_run(tile, j, tiles);
    for (int i = 0; i < MOST; i++) wrong += j->hits[i] != (i < tiles);
    return wrong;
}

static void resize(int n)
{
    qb_error err = {0};
    CHECK(pool_resize(n, &err));
    if (n) CHECK_EQ_INT(pool_threads(), n);
}

static void test_every_tile_runs_once(void)
{
    static Job j;
    int jobs = getenv("QUABLA_EXHAUSTIVE") ? 1000000 : 20000, wrong = 0;
    unsigned seed = 1;
    for (int threads = 2; threads <= 4; threads++) {
        resize(threads);
        j.high = 0;
        for (int n = 0; n < jobs; n++) {
            seed = seed * 1664525u + 1013904223u;
            wrong += run(&j, (int)((seed >> 16) % (n % 100 == 0 ? MOST : 6)));
        }
        CHECK(j.high < threads);
    }
    CHECK_EQ_INT(wrong, 0);
}

typedef struct {
    atomic_int here, met;
} Meeting;

/* A tile waits until two have come, for 50 ms at most: on one thread the first would wait alone. */
static void meet(void *arg, int64_t i, int thread)
{
    (void)i;
    (void)thread;
    Meeting *m = arg;
    atomic_fetch_add(&m->here, 1);
    for (int ms = 0; ms < 50 && atomic_load(&m->here) < 2; ms++) usleep(1000);
    atomic_fetch_add(&m->met, atomic_load(&m->here) == 2);
}

/* Do two threads meet in one of many jobs? On a busy machine the pool runs some of them by itself. */
static bool ever_meet(unsigned pause)
{
    for (int job = 0; job < 500; job++) {
        Meeting m = {0};
        usleep(pause);
        pool_run(meet, &m, 2);
        if (m.met == 2) return true;
    }
    return false;
}

static void test_helpers_take_part_awake_or_asleep(void)
{
    resize(2);
    CHECK(ever_meet(0));
    CHECK(ever_meet(0));
    CHECK(ever_meet(5000)); /* longer than a helper spins */
}

/* Tiles that let each other go on in order, as blocks of a sweep do. */
typedef struct {
    atomic_llong *next;
    int64_t tile;
} Turn;

static bool not_yet(void *arg)
{
    const Turn *t = arg;
    return atomic_load(t->next) != t->tile;
}

static void in_turn(void *arg, int64_t i, int thread)
{
    Turn turn = {arg, i};
    if (i % 2 == 0) usleep(500);
    pool_wait(not_yet, &turn, thread);
    atomic_store(turn.next, i + 1);
}

static void test_a_tile_may_wait_for_another(void)
{
    for (int threads = 1; threads <= 3; threads++) {
        atomic_llong next = 0;
        resize(threads);
        pool_run(in_turn, &next, 20);
        CHECK_EQ_INT(next, 20);
    }
}

static void test_one_thread_runs_in_order(void)
{
    static Job j;
    resize(1);
    CHECK_EQ_INT(run(&j, 100), 0);
    CHECK_EQ_INT(j.shared, 0);
    pool_run(tile, &j, 0);
    pool_run(tile, &j, -1);
}

static void test_a_limit_holds_while_the_pool_is_larger(void)
{
    static Job j;
    resize(4);
    for (int n = 0; n < 3000; n++) pool_run_on(tile, &j, 8, 2);
    CHECK(j.high < 2);
}

static void nested(void *arg, int64_t i, int thread)
{
    static Job inner[8];
    (void)thread;
    if (run(&inner[i], 50)) atomic_fetch_add((atomic_int *)arg, 1);
}

static void test_a_tile_may_run_a_job(void)
{
    atomic_int wrong = 0;
    resize(3);
    for (int n = 0; n < 200; n++) pool_run(nested, &wrong, 8);
    CHECK_EQ_INT(wrong, 0);
}

static void *caller(void *arg)
{
    Job *j = calloc(1, sizeof *j);
    for (int n = 0; n < 3000; n++) *(int *)arg += run(j, n % 20);
    free(j);
    return NULL;
}

static void *resizer(void *arg)
{
    qb_error err;
    for (int n = 0; n < 60; n++) *(int *)arg += !pool_resize(1 + n % 5, &err);
    return NULL;
}

static void test_callers_and_resizes_meet(void)
{
    pthread_t t[4];
    int wrong[4] = {0};
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&t[i], NULL, i ? caller : resizer, &wrong[i]) == 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    CHECK_EQ_INT(wrong[0] + wrong[1] + wrong[2] + wrong[3], 0);
}

static void rounding(void *arg, int64_t i, int thread)
{
    (void)i;
    (void)thread;
    volatile double one = 1, tiny = 1e-30;
    if (one + tiny == 1) atomic_fetch_add((atomic_int *)arg, 1);
    usleep(200);
}

static void test_helpers_round_as_their_caller(void)
{
    atomic_int nearest = 0;
    resize(4);
    fesetround(FE_UPWARD);
    pool_run(rounding, &nearest, 40);
    CHECK_EQ_INT(nearest, 0);
    fesetround(FE_TONEAREST);
    pool_run(rounding, &nearest, 40);
    CHECK_EQ_INT(nearest, 40);
}

static void test_a_forked_child_has_a_pool_of_its_own(void)
{
    static Job j;
    resize(3);
    CHECK_EQ_INT(run(&j, 100), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        int wrong = 0;
        for (int n = 0; n < 300; n++) wrong += run(&j, n % MOST);
        wrong += !pool_resize(2, &(qb_error){0}) + run(&j, 50);
        _exit(wrong != 0);
    }
    int status = -1;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ_INT(status, 0);
    CHECK_EQ_INT(run(&j, 100), 0);
}

static void test_thread_counts_are_checked(void)
{
    qb_error err = {0};
    CHECK(!pool_resize(-1, &err));
    CHECK_EQ_INT(err.code, QB_EVALUE);
    CHECK(pool_resize(QB_MAX_THREADS, &err));
    CHECK(!pool_resize(QB_MAX_THREADS + 1, &err));
    CHECK(!pool_resize((int64_t)1 << 32, &err));
    CHECK_EQ_STR(err.message,
                 "set_num_threads: n must be from 1 to 256, or 0 for the default, not 4294967296");
    setenv("QUABLA_NUM_THREADS", "3", 1);
    resize(0);
    CHECK_EQ_INT(pool_threads(), 3);
    setenv("QUABLA_NUM_THREADS", "many", 1);
    resize(0);
    int cpus = pool_threads();
    unsetenv("QUABLA_NUM_THREADS");
    resize(0);
    CHECK_EQ_INT(pool_threads(), cpus);
    CHECK(cpus >= 1);
    resize(1);
}

int main(void)
{
    RUN(test_every_tile_runs_once);
    RUN(test_helpers_take_part_awake_or_asleep);
    RUN(test_a_tile_may_wait_for_another);
    RUN(test_one_thread_runs_in_order);
    RUN(test_a_limit_holds_while_the_pool_is_larger);
    RUN(test_a_tile_may_run_a_job);
    RUN(test_callers_and_resizes_meet);
    RUN(test_helpers_round_as_their_caller);
    RUN(test_a_forked_child_has_a_pool_of_its_own);
    RUN(test_thread_counts_are_checked);
    return test_report();
}
