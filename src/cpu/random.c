/* random.c: the SplitMix64 streams of quabla.h (Steele, Lea, Flood 2014). Output i depends on
   the key and i alone, so samples are made a tile at a time with the vector kernels, by several
   threads, and are the same whatever the tile, ISA or thread.

   uniform: u_i is the top 53 bits of output i, times 2^-53. normal: one sample per pair of
   outputs by Box-Muller, sqrt(-2 ln u_2i) cos(2 pi u_2i+1), with 2^-54 for a u of 0. All is
   float64; a float32 sample is the rounded one. */
#include "cpu/cpu.h"
#include "scalar.h"

enum { SHARE = 16384 }; /* samples a task of the pool */

uint64_t qb_random_bits(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double unit(uint64_t key, uint64_t i)
{
    return (double)(int64_t)(qb_random_bits(key, i) >> 11) * 0x1p-53;
}

typedef struct {
    uint64_t key;
    int64_t n;
    double x, y; /* lo and hi, or mean and stddev */
    int dtype;
    void *out;
    const Isa *isa;
} Samples;

static void put(const Samples *s, int64_t i, const double *x, int64_t n)
{
    if (s->dtype == QB_F32)
        s->isa->kernels[kernel_cast(QB_F64, QB_F32)]((float *)s->out + i, x, NULL, NULL, 0, n);
    else
        memcpy((double *)s->out + i, x, (size_t)n * sizeof *x);
}

/* The largest sample below hi: rounding must not reach it. */
static double below(double hi, int dtype)
{
    if (dtype == QB_F64) {
        uint64_t u = q_bits(hi);
        return hi == 0 ? -0x1p-1074 : q_from(hi > 0 ? u - 1 : u + 1);
    }
    float f = (float)hi, back;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (f < hi) return f;
    u = f == 0 ? 0x80000001u : f > 0 ? u - 1 : u + 1;
    memcpy(&back, &u, sizeof back);
    return back;
}

static void uniform_tile(const Samples *s, int64_t i, int64_t n)
{
    double v[TILE], width = s->y - s->x, most = width > 0 ? below(s->y, s->dtype) : s->y;
    for (int64_t k = 0; k < n; k++) {
        double x = s->x + width * unit(s->key, (uint64_t)(i + k));
        v[k] = s->dtype == QB_F32 ? (double)(float)x : x;
        v[k] = v[k] >= s->y ? most : v[k];
    }
    put(s, i, v, n);
}

static void normal_tile(const Samples *s, int64_t i, int64_t n)
{
    double u[TILE] = {0}, v[TILE] = {0}, c[TILE];
    KernelFn *const *kernels = s->isa->kernels;
    for (int64_t k = 0; k < n; k++) {
        double first = unit(s->key, 2 * (uint64_t)(i + k));
        u[k] = first == 0 ? 0x1p-54 : first;
        v[k] = 6.283185307179586 * unit(s->key, 2 * (uint64_t)(i + k) + 1);
    }
    kernels[kernel_op(OP_log, QB_F64)](u, u, NULL, NULL, 0, n);
    kernels[kernel_op(OP_cos, QB_F64)](c, v, NULL, NULL, 0, n);
    for (int64_t k = 0; k < n; k++) u[k] *= -2.0;
    kernels[kernel_op(OP_sqrt, QB_F64)](u, u, NULL, NULL, 0, n);
    for (int64_t k = 0; k < n; k++) u[k] = s->x + s->y * (u[k] * c[k]);
    put(s, i, u, n);
}

static void share(const Samples *s, int64_t task, void (*tile)(const Samples *, int64_t, int64_t))
{
    int64_t i = task * SHARE, end = i + SHARE < s->n ? i + SHARE : s->n;
    for (; i < end; i += TILE) tile(s, i, end - i < TILE ? end - i : TILE);
}

static void uniform_share(void *arg, int64_t task, int thread)
{
    (void)thread, share(arg, task, uniform_tile);
}
static void normal_share(void *arg, int64_t task, int thread)
{
    (void)thread, share(arg, task, normal_tile);
}

void qb_random_uniform(uint64_t key, int64_t n, double lo, double hi, int dtype, void *out)
{
    Samples s = {key, n, lo, hi, dtype, out, isa_now()};
    pool_run(uniform_share, &s, (n + SHARE - 1) / SHARE);
}

void qb_random_normal(uint64_t key, int64_t n, double mean, double stddev, int dtype, void *out)
{
    Samples s = {key, n, mean, stddev, dtype, out, isa_now()};
    pool_run(normal_share, &s, (n + SHARE - 1) / SHARE);
}
