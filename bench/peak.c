/* peak.c: what this machine can do at best, as one line of JSON: fused multiply-adds and memory
   bandwidth, of one thread and of all.

   The loops hold nothing but the thing measured: 12 chains of vector FMAs in registers, and
   a = b + c * s over arrays that no cache holds. Each number is the best of many windows of some
   milliseconds, so a machine that is busy now and then still shows its peak. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHAINS = 12, ROUNDS = 200000, WINDOWS = 300, MOST_THREADS = 64 };
enum { ELEMENTS = 16 << 20 }; /* of one array of a thread: 128 MiB */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One text for each width: the compiler's vectors, contracted to FMAs (bench/meson.build). */
#define FMA_LOOP(name, type, bytes, how)                                                   \
    how static double name(void)                                                           \
    {                                                                                      \
        typedef type Vec __attribute__((vector_size(bytes)));                              \
        Vec x[CHAINS], a = {0}, b = {0};                                                   \
        a += (type)0.999;                                                                  \
        b += (type)1e-3;                                                                   \
        for (int i = 0; i < CHAINS; i++) x[i] = b * (type)i;                               \
        for (int k = 0; k < ROUNDS; k++)                                                   \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) x[i] = x[i] * a + b; \
        for (int i = 1; i < CHAINS; i++) x[0] += x[i];                                     \
        volatile type keep = x[0][0];                                                      \
        (void)keep;                                                                        \
        return 2.0 * CHAINS * ROUNDS * (bytes) / sizeof(type);                             \
    }
#if defined __x86_64__
FMA_LOOP(fma64_wide, double, 64, __attribute__((target("avx512f"))))
FMA_LOOP(fma32_wide, float, 64, __attribute__((target("avx512f"))))
FMA_LOOP(fma64, double, 32, __attribute__((target("avx2,fma"))))
FMA_LOOP(fma32, float, 32, __attribute__((target("avx2,fma"))))
#else
FMA_LOOP(fma64, double, 16, )
FMA_LOOP(fma32, float, 16, )
#endif
#undef FMA_LOOP

static _Thread_local double *arrays;

/* Bytes that pass: two arrays read, one written. */
static double triad(void)
{
    if (!arrays) {
        arrays = malloc(3 * sizeof *arrays * ELEMENTS);
        if (!arrays) exit(1);
        for (long i = 0; i < 3L * ELEMENTS; i++) arrays[i] = 1.0;
    }
    double *restrict a = arrays, *restrict b = arrays + ELEMENTS, *restrict c = b + ELEMENTS;
    for (long i = 0; i < ELEMENTS; i++) a[i] = b[i] + c[i] * 0.5;
    volatile double keep = a[ELEMENTS / 2];
    (void)keep;
    return 3.0 * sizeof *arrays * ELEMENTS;
}

/* ---- threads start a window together, and the last one ends it ---- */
typedef struct {
    double (*work)(void);
    pthread_barrier_t *gate;
    int windows;
    double amount, best; /* best: of the first thread, with the time of all */
} Worker;

static void *work(void *arg)
{
    Worker *w = arg;
    w->work(); /* memory is there, the clock of the core is up */
    for (int i = 0; i < w->windows; i++) {
        pthread_barrier_wait(w->gate);
        double start = now();
        w->amount = w->work();
        pthread_barrier_wait(w->gate);
        double rate = w->amount / (now() - start);
        if (rate > w->best) w->best = rate;
    }
    free(arrays);
    arrays = NULL;
    return NULL;
}

/* Units a second of n threads. */
static double rate(double (*fn)(void), int n, int windows)
{
    pthread_t threads[MOST_THREADS];
    Worker workers[MOST_THREADS];
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        workers[i] = (Worker){fn, &gate, windows, 0, 0};
        if (pthread_create(&threads[i], NULL, work, &workers[i])) exit(1);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&gate);
    return n * workers[0].best;
}

static int cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int n = CPU_COUNT(&set);
    return n < MOST_THREADS ? n : MOST_THREADS;
}

int main(void)
{
    double (*f64)(void) = fma64, (*f32)(void) = fma32;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f")) f64 = fma64_wide, f32 = fma32_wide;
    if (!__builtin_cpu_supports("fma")) return 1;
#endif
    int n = cores();
    printf("{\"threads\": %d, \"f64\": [%.4g, %.4g], \"f32\": [%.4g, %.4g], \"bytes\": [%.4g, "
           "%.4g]}\n",
           n, rate(f64, 1, WINDOWS), rate(f64, n, WINDOWS), rate(f32, 1, WINDOWS),
           rate(f32, n, WINDOWS), rate(triad, 1, WINDOWS / 20), rate(triad, n, WINDOWS / 20));
    return 0;
}
