/* random.c: the SplitMix64 streams of quabla.h (Steele, Lea, Flood 2014). Output i depends on
   the key and i alone, so samples are made a tile at a time with the vector kernels, by several
   threads, and are the same whatever the tile, ISA or thread.

   uniform: u_i is the top 53 bits of output i, times 2^-53. normal: one sample per pair of
   outputs by Box-Muller, sqrt(-2 ln u_2i) cos(2 pi u_2i+1), with 2^-54 for a u of 0. truncated:
   the inverse of the normal distribution function at uniform samples between its values at lo
   and hi. All is float64; a float32 sample is the rounded one. permutation: one index after the
   other, by outputs of the stream in order. */
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
    double p, q; /* truncated: the distribution function at x, and its growth to y */
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

/* ---- truncated normal ---- */

static double poly(const double *c, double r) /* c[0] r^7 + ... + c[7] */
{
    double v = c[0];
    for (int i = 1; i < 8; i++) v = v * r + c[i];
    return v;
}

/* x with P(X <= x) = p for a normal X; r = sqrt(-ln min(p, 1 - p)). Algorithm AS 241 (Wichura
   1988), relative error 1e-16. */
static double quantile(double p, double r)
{
    static const double top[3][8] = {
        {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
         13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608},
        {7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
         1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
         4.6303378461565452959, 1.42343711074968357734},
        {2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
         0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
         5.4637849111641143699, 6.6579046435011037772}};
    static const double low[3][8] = {
        {5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
         5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0},
        {1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
         0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
         2.05319162663775882187, 1.0},
        {2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
         7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
         0.59983220655588793769, 1.0}};
    const double q = p - 0.5;
    if (q >= -0.425 && q <= 0.425)
        return q * poly(top[0], 0.180625 - q * q) / poly(low[0], 0.180625 - q * q);
    const int k = r <= 5 ? 1 : 2;
    const double at = r - (k == 1 ? 1.6 : 5.0), x = poly(top[k], at) / poly(low[k], at);
    return q < 0 ? -x : x;
}

static void truncated_tile(const Samples *s, int64_t i, int64_t n)
{
    /* The upper tail is the lower one seen in a mirror: its probabilities are not close to 1. */
    const bool mirror = s->x > 0;
    const double lo = mirror ? -s->y : s->x, hi = mirror ? -s->x : s->y;
    double p[TILE], r[TILE] = {0};
    for (int64_t k = 0; k < n; k++) {
        const double u = unit(s->key, (uint64_t)(i + k));
        p[k] = s->p + s->q * (u == 0 ? 0x1p-54 : u);
        r[k] = p[k] < 0.5 ? p[k] : 1 - p[k];
        r[k] =
            r[k] < 0x1p-1022 ? 0x1p-1022 : r[k]; /* a finite quantile, which the bound then takes */
    }
    s->isa->kernels[kernel_op(OP_log, QB_F64)](r, r, NULL, NULL, 0, n);
    for (int64_t k = 0; k < n; k++) {
        double x = quantile(p[k], __builtin_sqrt(-r[k]));
        x = x < lo ? lo : x > hi ? hi : x;
        p[k] = mirror ? -x : x;
    }
    put(s, i, p, n);
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
static void truncated_share(void *arg, int64_t task, int thread)
{
    (void)thread, share(arg, task, truncated_tile);
}

void qb_random_uniform(uint64_t key, int64_t n, double lo, double hi, int dtype, void *out)
{
    Samples s = {
        .key = key, .n = n, .x = lo, .y = hi, .dtype = dtype, .out = out, .isa = isa_now()};
    pool_run(uniform_share, &s, (n + SHARE - 1) / SHARE);
}

void qb_random_normal(uint64_t key, int64_t n, double mean, double stddev, int dtype, void *out)
{
    Samples s = {
        .key = key, .n = n, .x = mean, .y = stddev, .dtype = dtype, .out = out, .isa = isa_now()};
    pool_run(normal_share, &s, (n + SHARE - 1) / SHARE);
}

static double below_probability(double x) { return 0.5 * q_erfc(x * -0.7071067811865476); }

void qb_random_truncated(uint64_t key, int64_t n, double lo, double hi, int dtype, void *out)
{
    Samples s = {
        .key = key, .n = n, .x = lo, .y = hi, .dtype = dtype, .out = out, .isa = isa_now()};
    s.p = below_probability(lo > 0 ? -hi : lo);
    s.q = below_probability(lo > 0 ? -lo : hi) - s.p;
    pool_run(truncated_share, &s, (n + SHARE - 1) / SHARE);
}

__extension__ typedef unsigned __int128 Wide;

/* A number below n, all equally likely: the high half of output * n, unless the low half falls
   into the n-th part of 2^64 that would favour some (Lemire 2019); then the next output. */
static uint64_t pick(uint64_t key, uint64_t *i, uint64_t n)
{
    const uint64_t least = (0 - n) % n;
    for (;;) {
        const Wide m = (Wide)qb_random_bits(key, (*i)++) * n;
        if ((uint64_t)m >= least) return (uint64_t)(m >> 64);
    }
}

void qb_random_permutation(uint64_t key, int64_t n, int64_t k, double *index)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < n; i++) index[i] = (double)i;
    for (int64_t i = 0; i < k && i < n - 1; i++) { /* Fisher and Yates, from the front */
        const int64_t j = i + (int64_t)pick(key, &at, (uint64_t)(n - i));
        const double v = index[i];
        index[i] = index[j];
        index[j] = v;
    }
}

void qb_random_integers(uint64_t key, int64_t n, int64_t k, double *out)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < k; i++) out[i] = (double)pick(key, &at, (uint64_t)n);
}
