/* reduce.c: sums, maxima and minima in the order contract of plan.h. Compiled once per ISA level
   (-DISA=v3 -march=...).

   The eight lanes of a block are one vector register on one level, two or four on another, and
   the same additions. A plain array of lanes was tried first: the compiler did not keep it in
   registers, and it ran 2-4 times slower. The functions are written once, over a load (float64,
   or float32 widened), which is a constant argument that the compiler inlines.

   Maxima and minima are exact, so any order will do. They compare integer keys that sort as the
   numbers do, with -0 below +0 and every NaN at the end that wins. */
#include "cpu/cpu.h"
#include "scalar.h"
#if defined(__AVX512F__)
#include "cpu/isa_v4.h"
#elif defined(__AVX2__)
#include "cpu/isa_v3.h"
#else
#include "cpu/isa_neon.h"
#endif

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define UNROLL _Pragma("GCC unroll 8")

enum { SET = SUM_LANES / LANES }; /* vectors that hold the eight lanes */
typedef int64_t Bits __attribute__((vector_size(sizeof(V))));

/* ---- loads ---- */
typedef double Get(const void *x, int64_t k);
typedef V Load1(const void *x, int64_t k);
typedef V LoadMask(M m, const void *x, int64_t k);

INLINE double get_f64(const void *x, int64_t k) { return ((const double *)x)[k]; }
INLINE double get_f32(const void *x, int64_t k) { return ((const float *)x)[k]; }
INLINE V load1_f64(const void *x, int64_t k) { return load((const double *)x + k); }
INLINE V load1_f32(const void *x, int64_t k) { return load_f32((const float *)x + k); }
INLINE V mask1_f64(M m, const void *x, int64_t k) { return load_m(m, (const double *)x + k); }
INLINE V mask1_f32(M m, const void *x, int64_t k) { return load_f32_m(m, (const float *)x + k); }

#include "cpu/reduce_few.h"

/* ---- sums along a row: the lanes are elements of SET vectors ---- */

/* What a group of fewer than 8 elements adds to each lane. A masked load gives +0.0 where there
   is no element; with the sign bit of `none` that is -0.0, which changes nothing. */
typedef struct {
    V none[SET];
    M mask[SET];
    int64_t n;
} Rest;

INLINE void rest_of(Rest *r, int64_t n)
{
    double none[SUM_LANES];
    *r = (Rest){.n = n};
    if (!n) return;
    for (int i = 0; i < SUM_LANES; i++) none[i] = i < n ? 0.0 : -0.0;
    UNROLL
    for (int i = 0; i < SET; i++) {
        int64_t left = n - i * LANES;
        r->mask[i] = mask_of(left < 0 ? 0 : left);
        r->none[i] = load(none + i * LANES);
    }
}

/* Adds to the lanes the rest, fewer than 8 elements from x[k] on. */
INLINE void add_rest(V lane[SET], const void *x, int64_t k, const Rest *r, LoadMask *mask1)
{
    if (!r->n) return;
    UNROLL
    for (int i = 0; i < SET; i++) {
        int64_t at = i * LANES < r->n ? k + i * LANES
                                      : k; /* an empty mask reads nothing, wherever it points */
        lane[i] += (V)((Bits)mask1(r->mask[i], x, at) | (Bits)r->none[i]);
    }
}

/* Adds to the lanes n elements from x[k] on, whole groups, then the rest. */
INLINE void lanes_of(V lane[SET], const void *x, int64_t k, int64_t n, const Rest *r, Load1 *load1,
                     LoadMask *mask1)
{
    UNROLL
    for (int i = 0; i < SET; i++) lane[i] = splat(-0.0);
    for (int64_t end = k + n - r->n; k < end; k += SUM_LANES) UNROLL
    for (int i = 0; i < SET; i++) lane[i] += load1(x, k + i * LANES);
    add_rest(lane, x, k, r, mask1);
}

typedef double V4 __attribute__((vector_size(32)));
typedef double V2 __attribute__((vector_size(16)));

INLINE double tree_of(V lane[SET])
{
    UNROLL
    for (int n = SET / 2; n; n /= 2) UNROLL
    for (int i = 0; i < n; i++) lane[i] += lane[i + n];
#if defined(__AVX512F__)
    V4 four = __builtin_shufflevector(lane[0], lane[0], 0, 1, 2, 3) +
              __builtin_shufflevector(lane[0], lane[0], 4, 5, 6, 7);
    V2 two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
#elif defined(__AVX2__)
    V2 two = __builtin_shufflevector(lane[0], lane[0], 0, 1) +
             __builtin_shufflevector(lane[0], lane[0], 2, 3);
#else
    V2 two = (V2)lane[0];
#endif
    return two[0] + two[1];
}

/* Two blocks at a time, the second one whole or not: one chain of additions alone waits for itself. */
INLINE void blocks_of(double *out, const void *x, int64_t n, Load1 *load1, LoadMask *mask1)
{
    int64_t k = 0;
    V a[SET], b[SET];
    Rest r;
    for (; k + 2 * BLOCK <= n; k += 2 * BLOCK) {
        UNROLL
        for (int i = 0; i < SET; i++)
            a[i] = load1(x, k + i * LANES), b[i] = load1(x, k + BLOCK + i * LANES);
        for (int64_t j = k + SUM_LANES; j < k + BLOCK; j += SUM_LANES) UNROLL
        for (int i = 0; i < SET; i++)
            a[i] += load1(x, j + i * LANES), b[i] += load1(x, j + BLOCK + i * LANES);
        *out++ = tree_of(a);
        *out++ = tree_of(b);
    }
    if (k == n) return;
    int64_t left = n - k, second = left - BLOCK, end = k + left / SUM_LANES * SUM_LANES;
    rest_of(&r, left % SUM_LANES);
    if (second <= 0) {
        lanes_of(a, x, k, left, &r, load1, mask1);
        *out = tree_of(a);
        return;
    }
    UNROLL
    for (int i = 0; i < SET; i++) a[i] = b[i] = splat(-0.0);
    int64_t j = k + BLOCK;
    for (; j < end; j += SUM_LANES) UNROLL
    for (int i = 0; i < SET; i++)
        a[i] += load1(x, j - BLOCK + i * LANES), b[i] += load1(x, j + i * LANES);
    add_rest(b, x, end, &r, mask1);
    for (j -= BLOCK; j < k + BLOCK; j += SUM_LANES) UNROLL
    for (int i = 0; i < SET; i++) a[i] += load1(x, j + i * LANES);
    out[0] = tree_of(a);
    out[1] = tree_of(b);
}

INLINE void rows_of(double *out, const void *x, int64_t rows, int64_t w, Get *get, Load1 *load1,
                    LoadMask *mask1)
{
    if (few_rows(out, x, rows, w, get, few_sum)) return;
    Rest rest;
    rest_of(&rest, w % SUM_LANES);
    for (int64_t r = 0; r < rows; r++) {
        V lane[SET];
        lanes_of(lane, x, r * w, w, &rest, load1, mask1);
        out[r] = tree_of(lane);
    }
}

/* ---- sums of products: the products are rounded, then added as above ---- */
typedef struct {
    const double *x, *y;
} Factors;

INLINE double get_dot(const void *p, int64_t k)
{
    const Factors *f = p;
    return f->x[k] * f->y[k];
}

INLINE V load1_dot(const void *p, int64_t k)
{
    const Factors *f = p;
    return load(f->x + k) * load(f->y + k);
}

INLINE V mask1_dot(M m, const void *p, int64_t k)
{
    const Factors *f = p;
    return load_m(m, f->x + k) * load_m(m, f->y + k);
}

static void dot_blocks(double *out, const void *x, const void *y, int64_t n)
{
    const Factors f = {x, y};
    blocks_of(out, &f, n, load1_dot, mask1_dot);
}

static void dot_rows(double *out, const void *x, const void *y, int64_t rows, int64_t w)
{
    const Factors f = {x, y};
    rows_of(out, &f, rows, w, get_dot, load1_dot, mask1_dot);
}

/* The same where one factor is made on the way. Every element is read once. */
INLINE V chained(int fused, V a, V b, V c)
{
    return fused == FUSED_MUL_ADD ? a * b + c : fused == FUSED_MUL_SUB ? a * b - c : c - a * b;
}

/* one: a is one number for all elements. */
INLINE V load1_chain(int fused, bool one, const void *p, int64_t k)
{
    const Chain *x = p;
    V a = one ? splat(*x->a) : load(x->a + k),
      v = chained(fused, a, load(x->b + k), load(x->c + k));
    store(x->o + k, v);
    return v * load(x->w + k);
}

INLINE V mask1_chain(int fused, bool one, M m, const void *p, int64_t k)
{
    const Chain *x = p;
    V a = one ? splat(*x->a) : load_m(m, x->a + k);
    V v = chained(fused, a, load_m(m, x->b + k), load_m(m, x->c + k));
    store_m(x->o + k, m, v);
    return v * load_m(m, x->w + k);
}

#define CHAIN(name, fused, one)                                                                \
    INLINE V load1_##name(const void *p, int64_t k) { return load1_chain(fused, one, p, k); }  \
    INLINE V mask1_##name(M m, const void *p, int64_t k)                                       \
    {                                                                                          \
        return mask1_chain(fused, one, m, p, k);                                               \
    }                                                                                          \
    static void name(double *out, const Chain *x, int64_t n)                                   \
    {                                                                                          \
        const Chain here = *x; /* stores cannot change this one: pointers stay in registers */ \
        blocks_of(out, &here, n, load1_##name, mask1_##name);                                  \
    }
CHAIN(chain_mul_add, FUSED_MUL_ADD, false)
CHAIN(chain_mul_sub, FUSED_MUL_SUB, false)
CHAIN(chain_sub_mul, FUSED_SUB_MUL, false)
CHAIN(scaled_add, FUSED_MUL_ADD, true)
CHAIN(scaled_sub, FUSED_MUL_SUB, true)
CHAIN(sub_scaled, FUSED_SUB_MUL, true)
#undef CHAIN

ChainFn *const PASTE(chains, ISA)[FUSED_COUNT][2] = {[FUSED_MUL_ADD] = {chain_mul_add, scaled_add},
                                                     [FUSED_MUL_SUB] = {chain_mul_sub, scaled_sub},
                                                     [FUSED_SUB_MUL] = {chain_sub_mul, sub_scaled}};

/* ---- sums along a column: a lane is a row of w accumulators, a vector neighbouring columns ---- */
INLINE void lanes_add(double *lanes, const void *x, int64_t first, int64_t rows, int64_t w,
                      int64_t apart, Load1 *load1, LoadMask *mask1)
{
    M rest = mask_of(w % LANES);
    for (int64_t lane = 0; lane < SUM_LANES; lane++) {
        double *acc = lanes + lane * w;
        int64_t r0 = (lane - first) & (SUM_LANES - 1), c = 0;
        for (; c + 2 * LANES <= w; c += 2 * LANES) {
            V a = load(acc + c), b = load(acc + c + LANES);
            for (int64_t r = r0; r < rows; r += SUM_LANES) {
                a += load1(x, r * apart + c);
                b += load1(x, r * apart + c + LANES);
            }
            store(acc + c, a);
            store(acc + c + LANES, b);
        }
        for (; c + LANES <= w; c += LANES) {
            V a = load(acc + c);
            for (int64_t r = r0; r < rows; r += SUM_LANES) a += load1(x, r * apart + c);
            store(acc + c, a);
        }
        if (c == w) continue;
        V a = load_m(rest, acc + c);
        for (int64_t r = r0; r < rows; r += SUM_LANES) a += mask1(rest, x, r * apart + c);
        store_m(acc + c, rest, a);
    }
}

static void sum_tree(double *out, const double *lanes, int64_t w)
{
#pragma omp simd
    for (int64_t c = 0; c < w; c++) {
        const double *l = lanes + c;
        double l0 = l[0] + l[4 * w], l1 = l[w] + l[5 * w], l2 = l[2 * w] + l[6 * w],
               l3 = l[3 * w] + l[7 * w];
        out[c] = (l0 + l2) + (l1 + l3);
    }
}

static void sum_join(double *total, const double *next, int64_t n)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) total[k] += next[k];
}

/* ---- maxima and minima ---- */
INLINE int64_t flip(int64_t bits) { return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1); }
INLINE int64_t key_of(double x, int64_t nan) { return x != x ? nan : flip((int64_t)q_bits(x)); }
/* Back from a key; the key of a NaN gives the canonical one. */
INLINE double number_of(int64_t key, int64_t nan)
{
    return key == nan ? Q_NAN : q_from((uint64_t)flip(key));
}

INLINE double max_of(const void *x, int64_t k, int64_t n, Get *get)
{
    int64_t best = INT64_MIN;
#pragma omp simd reduction(max : best)
    for (int64_t i = 0; i < n; i++) {
        int64_t key = key_of(get(x, k + i), INT64_MAX);
        best = key > best ? key : best;
    }
    return number_of(best, INT64_MAX);
}

INLINE double min_of(const void *x, int64_t k, int64_t n, Get *get)
{
    int64_t best = INT64_MAX;
#pragma omp simd reduction(min : best)
    for (int64_t i = 0; i < n; i++) {
        int64_t key = key_of(get(x, k + i), INT64_MIN);
        best = key < best ? key : best;
    }
    return number_of(best, INT64_MIN);
}

INLINE double larger(double a, double b)
{
    int64_t x = key_of(a, INT64_MAX), y = key_of(b, INT64_MAX);
    return number_of(x > y ? x : y, INT64_MAX);
}

INLINE double smaller(double a, double b)
{
    int64_t x = key_of(a, INT64_MIN), y = key_of(b, INT64_MIN);
    return number_of(x < y ? x : y, INT64_MIN);
}

/* One lane is enough for them: lane 0. */
static void extreme_tree(double *out, const double *lanes, int64_t w)
{
    memcpy(out, lanes, (size_t)w * sizeof *out);
}

/* ---- sums of a native plan: lanes and tree are float32. Results of blocks are given in float64, in which
   totals are ---- */
#define TWO_ZEROS -0x1p-1043 /* as bytes: -0.0f twice, where lanes of float32 start */
typedef float F8 __attribute__((vector_size(4 * SUM_LANES)));
typedef float F4 __attribute__((vector_size(16)));

INLINE F8 load8(const float *x)
{
    F8 v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* n < 8 elements; -0.0 elsewhere, which changes nothing. */
INLINE F8 load_rest(const float *x, int64_t n)
{
    float v[SUM_LANES];
    for (int64_t i = 0; i < SUM_LANES; i++) v[i] = i < n ? x[i] : -0.0f;
    return load8(v);
}

INLINE F8 native_lanes(const float *x, int64_t n)
{
    F8 lane = -(F8){0};
    int64_t k = 0;
    for (; k + SUM_LANES <= n; k += SUM_LANES) lane += load8(x + k);
    return k < n ? lane + load_rest(x + k, n - k) : lane;
}

INLINE double native_sum(F8 l)
{
    F4 four = __builtin_shufflevector(l, l, 0, 1, 2, 3) + __builtin_shufflevector(l, l, 4, 5, 6, 7);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* Four whole blocks at a time. */
static void native_blocks(double *out, const void *p, int64_t n)
{
    const float *x = p;
    for (; n >= 4 * BLOCK; n -= 4 * BLOCK, x += 4 * BLOCK) {
        F8 lane[4];
        for (int b = 0; b < 4; b++) lane[b] = load8(x + b * BLOCK);
        for (int k = SUM_LANES; k < BLOCK; k += SUM_LANES)
            for (int b = 0; b < 4; b++) lane[b] += load8(x + b * BLOCK + k);
        for (int b = 0; b < 4; b++) *out++ = native_sum(lane[b]);
    }
    for (; n > 0; n -= BLOCK, x += BLOCK)
        *out++ = native_sum(native_lanes(x, n < BLOCK ? n : BLOCK));
}

static void native_rows(double *out, const void *p, int64_t rows, int64_t w)
{
    const float *x = p;
    if (few_rows(out, p, rows, w, get_f32, few_native)) return;
    for (int64_t r = 0; r < rows; r++) out[r] = native_sum(native_lanes(x + r * w, w));
}

/* The lanes are float32, at the start of their memory. */
static void native_add(double *lanes, const void *p, int64_t first, int64_t rows, int64_t w,
                       int64_t apart)
{
    const float *x = p;
    for (int64_t r = 0; r < rows; r++, x += apart) {
        float *acc = (float *)lanes + (first + r) % SUM_LANES * w;
#pragma omp simd
        for (int64_t c = 0; c < w; c++) acc[c] += x[c];
    }
}

static void native_tree(double *out, const double *lanes, int64_t w)
{
    const float *acc = (const float *)lanes;
#pragma omp simd
    for (int64_t c = 0; c < w; c++) {
        const float *l = acc + c;
        float l0 = l[0] + l[4 * w], l1 = l[w] + l[5 * w], l2 = l[2 * w] + l[6 * w],
              l3 = l[3 * w] + l[7 * w];
        out[c] = (l0 + l2) + (l1 + l3);
    }
}

/* clang-format off */
/* ---- the functions of each operation and dtype, and the table ---- */
#define SUM(dtype)                                                                                                              \
    static void sum_blocks_##dtype(double *out, const void *x, int64_t n)                                                       \
    {                                                                                                                           \
        blocks_of(out, x, n, load1_##dtype, mask1_##dtype);                                                                     \
    }                                                                                                                           \
    static void sum_rows_##dtype(double *out, const void *x, int64_t rows, int64_t w)                                           \
    {                                                                                                                           \
        rows_of(out, x, rows, w, get_##dtype, load1_##dtype, mask1_##dtype);                                                                 \
    }                                                                                                                           \
    static void sum_lanes_##dtype(double *lanes, const void *x, int64_t first, int64_t rows, int64_t w, int64_t apart)          \
    {                                                                                                                           \
        lanes_add(lanes, x, first, rows, w, apart, load1_##dtype, mask1_##dtype);                                                      \
    }
SUM(f32)
SUM(f64)
#undef SUM

#define EXTREME(op, better, dtype)                                                                                              \
    static void op##_blocks_##dtype(double *out, const void *x, int64_t n)                                                      \
    {                                                                                                                           \
        for (int64_t k = 0; k < n; k += BLOCK) *out++ = op##_of(x, k, n - k < BLOCK ? n - k : BLOCK, get_##dtype);              \
    }                                                                                                                           \
    static void op##_rows_##dtype(double *out, const void *x, int64_t rows, int64_t w)                                          \
    {                                                                                                                           \
        if (few_rows(out, x, rows, w, get_##dtype, op##_of)) return;                                                            \
        for (int64_t r = 0; r < rows; r++) out[r] = op##_of(x, r * w, w, get_##dtype);                                          \
    }                                                                                                                           \
    static void op##_lanes_##dtype(double *lanes, const void *x, int64_t first, int64_t rows, int64_t w, int64_t apart)         \
    {                                                                                                                           \
        (void)first;                                                                                                            \
        for (int64_t r = 0; r < rows; r++)                                                                                      \
            _Pragma("omp simd") for (int64_t c = 0; c < w; c++) lanes[c] = better(lanes[c], get_##dtype(x, r * apart + c));     \
    }
#define EXTREMES(op, better)                                                                                                    \
    EXTREME(op, better, f32)                                                                                                    \
    EXTREME(op, better, f64)                                                                                                    \
    static void op##_join(double *total, const double *next, int64_t n)                                                         \
    {                                                                                                                           \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++) total[k] = better(total[k], next[k]);                               \
    }
EXTREMES(max, larger)
EXTREMES(min, smaller)
#undef EXTREME
#undef EXTREMES

const Reducer PASTE(reducers, ISA)[REDUCER_COUNT][REDUCE_FORMS] = {
#define ROW(op, tree, dtype, neutral) {op##_blocks_##dtype, op##_rows_##dtype, op##_lanes_##dtype, tree, op##_join, neutral, NULL, NULL}
    [REDUCE_SUM] = {[QB_F32] = ROW(sum, sum_tree, f32, -0.0), [QB_F64] = {sum_blocks_f64, sum_rows_f64, sum_lanes_f64, sum_tree, sum_join, -0.0, dot_blocks, dot_rows},
                    [REDUCE_NATIVE] = {native_blocks, native_rows, native_add, native_tree, sum_join, TWO_ZEROS, NULL, NULL}},
    [REDUCE_MAX] = {[QB_F32] = ROW(max, extreme_tree, f32, -Q_INF), [QB_F64] = ROW(max, extreme_tree, f64, -Q_INF),
                    [REDUCE_NATIVE] = ROW(max, extreme_tree, f32, -Q_INF)},
    [REDUCE_MIN] = {[QB_F32] = ROW(min, extreme_tree, f32, Q_INF), [QB_F64] = ROW(min, extreme_tree, f64, Q_INF),
                    [REDUCE_NATIVE] = ROW(min, extreme_tree, f32, Q_INF)},
};
/* clang-format on */
