/* The kernels of one dtype, from the rows of ops.h. kernels.c includes this text once per dtype, with
       T            element type of the operands      NAME(f)   f with the dtype's suffix
       FOR_F/B/A    their argument where the dtype is in that operand class, else nothing
       FLOATING     1 for float and double
       NATIVE_ROWS  in place of ops.h the rows of native.h, and nothing else
   A row becomes three functions of one element (value, rare, slow) and a kernel that maps them over arrays. The maps are
   ordinary functions whose function arguments are constants: the compiler inlines them and makes one vector loop a row. */

enum { NAME(GROUP) = 64 / sizeof(T) }; /* elements of the longest vector */
typedef T NAME(Value)(T x, T y);
typedef int NAME(Rare)(T x, T y);
typedef void NAME(Whole)(T *o, const T *a, const T *b, int64_t n);

/* Any n. For values of a few instructions: the compiler's own remainder loop is good enough. */
INLINE void NAME(map)(T *o, const T *a, const T *b, int64_t n, NAME(Value) *value)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) o[k] = value(a[k], b[k]);
}

/* Truth is one byte, elements are longer. The compiler takes VECTOR elements at a time and the rest one by one, where 16
   float64 take 9 ns; so what is left goes group by group: 2.5 ns. */
enum { NAME(FEW) = VECTOR / sizeof(T) };
typedef __typeof__(__builtin_choose_expr(sizeof(T) == 8, (int64_t)0, __builtin_choose_expr(sizeof(T) == 4, 0, (int8_t)0))) NAME(Word);
typedef NAME(Word) NAME(Words) __attribute__((vector_size(VECTOR)));
typedef int8_t NAME(Truths) __attribute__((vector_size(VECTOR / sizeof(T))));

INLINE void NAME(map_bool)(Bool *o, const T *a, const T *b, int64_t n, NAME(Rare) *value)
{
    int64_t k = VECTOR < 64 ? n : n & -VECTOR; /* of shorter vectors the compiler makes short loops itself */
#pragma omp simd
    for (int64_t j = 0; j < k; j++) o[j] = (Bool)value(a[j], b[j]);
    for (; k + NAME(FEW) <= n; k += NAME(FEW)) {
        NAME(Word) x[NAME(FEW)];
        NAME(Words) words;
#pragma omp simd
        for (int j = 0; j < NAME(FEW); j++) x[j] = (NAME(Word))value(a[k + j], b[k + j]);
        memcpy(&words, x, sizeof words);
        NAME(Truths) truths = __builtin_convertvector(words, NAME(Truths));
        memcpy(o + k, &truths, sizeof truths);
    }
    for (; k < n; k++) o[k] = (Bool)value(a[k], b[k]);
}

/* Any n, for long values: whole groups by `whole`, the rest in a padded group. A scalar remainder of 7 tanh takes longer
   than 64 vector ones. */
INLINE void NAME(map_groups)(T *o, const T *a, const T *b, int64_t n, NAME(Whole) *whole)
{
    int64_t m = n & -NAME(GROUP), left = n - m;
    if (m) whole(o, a, b, m);
    if (!left) return;
    T x[NAME(GROUP)], y[NAME(GROUP)], z[NAME(GROUP)];
    for (int64_t k = 0; k < NAME(GROUP); k++) x[k] = a[m + (k < left ? k : 0)];
    for (int64_t k = 0; k < NAME(GROUP); k++) y[k] = b[m + (k < left ? k : 0)];
    whole(z, x, y, NAME(GROUP));
    for (int64_t k = 0; k < left; k++) o[m + k] = z[k];
}

/* Is one of the elements rare? Then the caller takes map_rare for all of them, at scalar speed. */
INLINE bool NAME(any)(const T *a, const T *b, int64_t n, NAME(Rare) *rare)
{
    int any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t k = 0; k < n; k++) any |= rare(a[k], b[k]);
    return any;
}

INLINE void NAME(map_rare)(T *o, const T *a, const T *b, int64_t n, NAME(Value) *value, NAME(Rare) *rare, NAME(Value) *slow)
{
    for (int64_t k = 0; k < n; k++) o[k] = rare(a[k], b[k]) ? slow(a[k], b[k]) : value(a[k], b[k]);
}

/* ---- one kernel a row ---- */
#define UNUSED (void)x, (void)y, (void)c, (void)i

#define KERNEL_same(name, operand, value_, rare_, slow_, ulp)                                                                   \
    INLINE T NAME(name##_value)(T x, T y) { return (void)x, (void)y, (T)(value_); }                                             \
    INLINE int NAME(name##_rare)(T x, T y) { return (void)x, (void)y, (rare_); }                                                \
    INLINE T NAME(name##_slow)(T x, T y) { return (void)x, (void)y, (T)(slow_); }                                               \
    static __attribute__((noinline)) void NAME(name##_whole)(T *o, const T *x, const T *y, int64_t n)                           \
    {                                                                                                                           \
        NAME(map)(o, x, y, n & -NAME(GROUP), NAME(name##_value));                                                                     \
    }                                                                                                                           \
    static void NAME(name)(void *o, const void *x, const void *y, const void *c, int64_t i, int64_t n)                          \
    {                                                                                                                           \
        UNUSED;                                                                                                                 \
        if (NAME(any)(x, operand, n, NAME(name##_rare)))                                                                        \
            NAME(map_rare)(o, x, operand, n, NAME(name##_value), NAME(name##_rare), NAME(name##_slow));                         \
        else if ((ulp) > 0) NAME(map_groups)(o, x, operand, n, NAME(name##_whole));                                             \
        else NAME(map)(o, x, operand, n, NAME(name##_value));                                                                   \
    }

#define KERNEL_bool(name, operand, value_, rare_, slow_, ulp)                                                                   \
    INLINE int NAME(name##_value)(T x, T y) { return (value_); }                                                                \
    static void NAME(name)(void *o, const void *x, const void *y, const void *c, int64_t i, int64_t n)                          \
    {                                                                                                                           \
        UNUSED;                                                                                                                 \
        NAME(map_bool)(o, x, operand, n, NAME(name##_value));                                                                   \
    }

/* The second operand of a unary row is the first again; nothing reads it. */
#define UNARY(name, in, out, value, rare, slow, d, mlx, ulp, doc) FOR_##in(KERNEL_##out(name, x, value, rare, slow, ulp))
#define BINARY(name, in, out, value, rare, slow, dx, dy, mlx, ulp, doc) FOR_##in(KERNEL_##out(name, y, value, rare, slow, ulp))
#ifdef NATIVE_ROWS
#include "cpu/native.h"
#else
#include "ops.h"
#endif
#undef KERNEL_same
#undef KERNEL_bool

#ifndef NATIVE_ROWS

/* ---- where, copies, powers and superinstructions ---- */
static void NAME(where)(void *o, const void *mask, const void *a, const void *b, int64_t i, int64_t n)
{
    T *out = o;
    const Bool *m = mask;
    const T *x = a, *y = b;
    int64_t k = n & -VECTOR;
    (void)i;
#pragma omp simd
    for (int64_t j = 0; j < k; j++) {
        T s = x[j], t = y[j];
        out[j] = m[j] ? s : t;
    }
    for (; k + NAME(FEW) <= n; k += NAME(FEW)) {
        NAME(Truths) truths;
        NAME(Words) s, t;
        memcpy(&truths, m + k, sizeof truths);
        memcpy(&s, x + k, sizeof s);
        memcpy(&t, y + k, sizeof t);
        NAME(Words) first = __builtin_convertvector(truths != 0, NAME(Words));
        s = (s & first) | (t & ~first);
        memcpy(out + k, &s, sizeof s);
    }
    for (; k < n; k++) out[k] = m[k] ? x[k] : y[k];
}

static void NAME(copy)(void *o, const void *a, const void *b, const void *c, int64_t i, int64_t n)
{
    (void)b, (void)c, (void)i;
    if (o != a) memcpy(o, a, (size_t)n * sizeof(T));
}

#if FLOATING
/* Repeated squaring as in q_powi, in float64: one multiplication for a group at a time, since the exponent is the same in
   every element. Starting from 1 changes no bit: 1 * x is x. */
static void NAME(powi)(void *o, const void *a, const void *b, const void *c, int64_t i, int64_t n)
{
    enum { LENGTH = 32 };
    T *out = o;
    const T *x = a;
    (void)b, (void)c;
    if (i == 2 || i == 3) {
        bool cube = i == 3;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            double v = x[k], square = v * v;
            out[k] = (T)(cube ? v * square : square);
        }
        return;
    }
    for (int64_t start = 0; start < n; start += LENGTH) {
        double power[LENGTH], base[LENGTH];
        int64_t left = n - start < LENGTH ? n - start : LENGTH;
        for (int64_t k = 0; k < LENGTH; k++) power[k] = 1.0, base[k] = x[start + (k < left ? k : 0)];
        for (uint64_t e = (uint64_t)i; e; e >>= 1) {
            if (e & 1)
                for (int k = 0; k < LENGTH; k++) power[k] *= base[k];
            if (e > 1)
                for (int k = 0; k < LENGTH; k++) base[k] *= base[k];
        }
        for (int64_t k = 0; k < left; k++) out[start + k] = (T)power[k];
    }
}

/* A product that feeds one sum or difference. Both roundings stay (no fma), so the bits are those of two kernels; what is
   saved is a dispatch and a trip through the cache. */
#define FUSED(name, value)                                                                                                      \
    static void NAME(name)(void *o, const void *pa, const void *pb, const void *pc, int64_t i, int64_t n)                       \
    {                                                                                                                           \
        T *out = o;                                                                                                             \
        const T *a = pa, *b = pb, *c = pc;                                                                                      \
        (void)i;                                                                                                                \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++) out[k] = (value);                                                   \
    }
FUSED(mul_add, a[k] * b[k] + c[k])
FUSED(mul_sub, a[k] * b[k] - c[k])
FUSED(sub_mul, c[k] - a[k] * b[k])
#undef FUSED
#endif
#endif
#undef UNUSED
