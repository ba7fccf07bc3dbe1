/* pool.c: one job at a time, its tiles claimed one by one.

   The caller works too and never waits for a tile that nobody claimed, so a helper that the system
   has taken off its core costs nothing, unless it was taken off inside a tile. Static halves were
   measured first: they stall 4-16 ms at p95 when a core is busy.

   `next` packs (job << 32 | next tile). A helper claims with a compare-and-swap that carries the
   job it woke for, so a late one cannot touch a tile of a later job. A new job closes the old one
   before it changes anything else: with the new tile count and the old job number a late helper
   once claimed a tile that was not there, and the caller spun for ever. What a job says is read
   only after a claim succeeded, and stands until that tile is done.

   Helpers spin for 50 us after a job, then sleep: a spinning helper starts in well under 1 us, a
   sleeping one in 3 to 5 us, but a spin of 10 ms made the code that ran next 3-4 times slower on a
   machine without an idle core. There too a job can take longer than it would alone. The caller
   compares, and runs the jobs of the next milliseconds by itself when helpers cost more than they
   give. */
#define _GNU_SOURCE
#include "base/base.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { SPIN_NS = 50000, YIELD_NS = 20000, SLACK_NS = 20000, BACK_OFF = 32 };
enum {
    STACK_BYTES = 2 << 20
}; /* kernels keep up to 256 KB there, and some C libraries give a thread 128 KB */

/* Each hot word has its own cache line. */
static struct {
    _Alignas(64) atomic_uint job;
    _Alignas(64) atomic_uint_least64_t next;
    _Alignas(64) atomic_llong done;
    _Alignas(64) atomic_llong tiles;
    atomic_int limit; /* threads below this one take part */
    PoolFn *fn;
    void *arg;
    uint64_t control;
    _Alignas(64) atomic_int sleepers;
    atomic_int threads; /* 0: not asked yet */
    atomic_bool busy;   /* held while a job runs or the helpers change */
    atomic_bool stop;
    /* of the holder of busy */
    bool watched; /* pthread_atfork was called */
    int helpers;  /* running, with ids 1 .. helpers */
    int64_t serial_until;
    int64_t waited; /* by the caller, inside tiles of this job */
    int64_t calm;   /* shared since the last stall */
    pthread_t handle[QB_MAX_THREADS];
} pool;

/* ---- what the CPU and the system have ---- */

/* Rounding and denormal modes of this thread, without the exception flags. */
static uint64_t control_now(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu;
#elif defined(__aarch64__)
    uint64_t x;
    __asm__ volatile("mrs %0, fpcr" : "=r"(x));
    return x;
#else
    return 0;
#endif
}

static void control_set(uint64_t x)
{
    if (x == control_now()) return;
#if defined(__x86_64__)
    _mm_setcsr((unsigned)x);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(x));
#endif
}

static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Sleep while the job is `seen`. sleepers is counted before the word is compared again, and a
   caller writes the word before it reads sleepers: no wake-up is lost. */
#ifdef __linux__
static void sleep_on(unsigned seen)
{
    atomic_fetch_add(&pool.sleepers, 1);
    syscall(SYS_futex, &pool.job, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&pool.sleepers, 1);
}

static void wake(int n)
{
    if (atomic_load(&pool.sleepers))
        syscall(SYS_futex, &pool.job, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}
#else
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void sleep_on(unsigned seen)
{
    pthread_mutex_lock(&mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    while (atomic_load(&pool.job) == seen) pthread_cond_wait(&cond, &mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&mutex);
}

static void wake(int n)
{
    if (!atomic_load(&pool.sleepers)) return;
    pthread_mutex_lock(&mutex);
    if (n == 1)
        pthread_cond_signal(&cond);
    else
        pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
}
#endif

/* ---- tiles ---- */

/* The next tile of this job, or -1. */
static int64_t claim(unsigned job, int64_t tiles)
{
    uint_least64_t v = atomic_load_explicit(&pool.next, memory_order_acquire);
    for (;;) {
        if ((unsigned)(v >> 32) != job || (int64_t)(uint32_t)v >= tiles) return -1;
        if (atomic_compare_exchange_weak(&pool.next, &v, v + 1)) return (int64_t)(uint32_t)v;
    }
}

/* How many tiles this thread ran. */
static int64_t work(unsigned job, int thread)
{
    int64_t tiles = atomic_load_explicit(&pool.tiles, memory_order_relaxed), tile, n = 0;
    for (; (tile = claim(job, tiles)) >= 0; n++) {
        if (thread) control_set(pool.control);
        pool.fn(pool.arg, tile, thread);
        atomic_fetch_add_explicit(&pool.done, 1, memory_order_release);
    }
    return n;
}

static unsigned wait_for_job(unsigned seen)
{
    for (;;) {
        int64_t end = now() + SPIN_NS;
        do
            for (int i = 0; i < 32; i++) {
                unsigned job = atomic_load_explicit(&pool.job, memory_order_acquire);
                if (job != seen) return job;
                relax();
            }
        while (now() < end);
        sleep_on(seen);
    }
}

static void *help(void *arg)
{
    int thread = (int)(intptr_t)arg;
    unsigned job = atomic_load(&pool.job);
    while (!atomic_load(&pool.stop)) {
        if (thread < atomic_load_explicit(&pool.limit, memory_order_relaxed)) work(job, thread);
        job = wait_for_job(job);
    }
    return NULL;
}

/* ---- helpers come and go; the caller holds busy ---- */

/* A forked child has this thread alone. */
static void forget_helpers(void)
{
    pool.helpers = 0;
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.stop, false);
    atomic_store(&pool.busy, false);
}

/* Helpers take no signals: those belong to the program. Fewer helpers than asked for give the same
   results. */
static void start_helpers(int threads)
{
    if (!pool.watched && pthread_atfork(NULL, NULL, forget_helpers)) return;
    pool.watched = true;
    pthread_attr_t attr;
    if (pthread_attr_init(&attr)) return;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (pool.helpers < threads - 1) {
        intptr_t id = pool.helpers + 1;
        if (pthread_create(&pool.handle[id], &attr, help, (void *)id)) break;
        pool.helpers++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

static void stop_helpers(void)
{
    atomic_store(&pool.stop, true);
    atomic_fetch_add(&pool.job, 1);
    wake(INT32_MAX);
    for (; pool.helpers; pool.helpers--) pthread_join(pool.handle[pool.helpers], NULL);
    atomic_store(&pool.stop, false);
}

static int clamp(long n) { return n < 1 ? 1 : n > QB_MAX_THREADS ? QB_MAX_THREADS : (int)n; }

static int default_threads(void)
{
    const char *s = getenv("QUABLA_NUM_THREADS");
    char *end = NULL;
    long n = s ? strtol(s, &end, 10) : 0;
    if (n > 0 && *end == 0) return clamp(n);
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return clamp(CPU_COUNT(&set));
#endif
    return clamp(sysconf(_SC_NPROCESSORS_ONLN));
}

int pool_threads(void)
{
    int n = atomic_load_explicit(&pool.threads, memory_order_relaxed), none = 0;
    if (n) return n;
    n = default_threads();
    return atomic_compare_exchange_strong(&pool.threads, &none, n) ? n : none;
}

bool pool_resize(int64_t n, qb_error *err)
{
    if (n < 0 || n > QB_MAX_THREADS) {
        error_set(err, QB_EVALUE,
                  "set_num_threads: n must be from 1 to %d, or 0 for the default, not %lld",
                  QB_MAX_THREADS, (long long)n);
        return false;
    }
    while (atomic_exchange(&pool.busy, true)) sched_yield();
    stop_helpers();
    atomic_store(&pool.threads, n ? (int)n : default_threads());
    pool.serial_until = pool.calm = 0;
    atomic_store(&pool.busy, false);
    return true;
}

/* ---- a job ---- */

/* Alone, the job would have taken about as long as this thread's tiles did, times their share. When
   it took longer than that and some slack, helpers were in the way: one was taken off its core in a
   tile. Jobs are not shared then for BACK_OFF times what was lost, less the time that was shared in
   peace before: so a step in thirty stalls at most, also beside a core that is always busy, where a
   helper has some good milliseconds in every time slice. What it costs to wake helpers is not
   judged. */
static void judge(int64_t took, int64_t busy, int64_t mine, int64_t tiles, int64_t end)
{
    if (mine == 0) return;
    double alone = (double)busy * ((double)tiles / (double)mine);
    double lost = (double)took - 1.25 * alone - SLACK_NS;
    pool.calm += took;
    if (lost <= 0) return;
    int64_t rest = (int64_t)(BACK_OFF * lost) - pool.calm;
    if (rest > 0) pool.serial_until = end + rest;
    pool.calm = 0;
}

/* What the caller waits inside its tiles is no work of theirs. */
void pool_wait(bool (*blocked)(void *), void *arg, int thread)
{
    if (!blocked(arg)) return;
    int64_t start = now();
    do sched_yield();
    while (blocked(arg));
    if (thread == 0) pool.waited += now() - start;
}

static void share(PoolFn *fn, void *arg, int64_t tiles, int threads)
{
    unsigned job = atomic_load(&pool.job) + 1;
    atomic_store(&pool.next, (uint_least64_t)job << 32 | UINT32_MAX); /* closes the old job */
    pool.fn = fn;
    pool.arg = arg;
    pool.control = control_now();
    atomic_store_explicit(&pool.limit, threads, memory_order_relaxed);
    atomic_store_explicit(&pool.tiles, tiles, memory_order_relaxed);
    atomic_store(&pool.done, 0);
    atomic_store(&pool.next, (uint_least64_t)job << 32);
    atomic_store(&pool.job, job);
    wake(threads <= pool.helpers ? INT32_MAX : tiles < threads ? (int)tiles - 1 : threads - 1);
    pool.waited = 0;
    int64_t start = now(), mine = work(job, 0), worked = now(), end = worked;
    while (atomic_load_explicit(&pool.done, memory_order_acquire) != tiles) {
        for (int i = 0; i < 32; i++) relax();
        end = now();
        if (end - worked > YIELD_NS) sched_yield(); /* the helper may need this very core */
    }
    judge(end - start, worked - start - pool.waited, mine, tiles, end);
}

/* busy is held already by a job that calls this from one of its tiles, or by another thread: then
   the tiles run here. */
void pool_run_on(PoolFn *fn, void *arg, int64_t tiles, int threads)
{
    int all = pool_threads();
    if (threads > all) threads = all;
    if (threads > 1 && tiles > 1 && tiles < UINT32_MAX && !atomic_exchange(&pool.busy, true)) {
        bool shared = now() >= pool.serial_until;
        if (shared) {
            all = atomic_load(&pool.threads);
            if (pool.helpers < all - 1) start_helpers(all);
            share(fn, arg, tiles, threads);
        }
        atomic_store(&pool.busy, false);
        if (shared) return;
    }
    for (int64_t tile = 0; tile < tiles; tile++) fn(arg, tile, 0);
}

void pool_run(PoolFn *fn, void *arg, int64_t tiles) { pool_run_on(fn, arg, tiles, QB_MAX_THREADS); }
