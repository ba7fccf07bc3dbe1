/* isa_v3.h: what C lacks on vectors of double, for x86-64-v3 (AVX2 and FMA). See isa_v4.h. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef NATIVE
enum { LANES = 8, REGISTERS = 16 };
typedef float Real;
typedef __m256 V;
typedef __m256i M;

INLINE M mask_of(int64_t n)
{
    int few = n < LANES ? (int)n : LANES;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(few), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE V load(const float *p) { return _mm256_loadu_ps(p); }
INLINE V load_m(M m, const float *p) { return _mm256_maskload_ps(p, m); }
INLINE void store(float *p, V v) { _mm256_storeu_ps(p, v); }
INLINE void store_m(float *p, M m, V v) { _mm256_maskstore_ps(p, m, v); }
INLINE V splat(float x) { return _mm256_set1_ps(x); }
INLINE V fma_v(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }

/* Rows become columns: pairs, then pairs of pairs, then halves. */
INLINE void transpose(V r[LANES])
{
    V s[LANES], t[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            t[i + 2 * j] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0x44);
            t[i + 2 * j + 1] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0xee);
        }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        r[c] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x20);
        r[c + 4] = _mm256_permute2f128_ps(t[c], t[4 + c], 0x31);
    }
}
#include "cpu/isa_native.h"
#else
enum { LANES = 4, REGISTERS = 16 };
typedef double Real;
typedef __m256d V;
typedef __m256i M;

INLINE M mask_of(int64_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
INLINE V load(const double *p) { return _mm256_loadu_pd(p); }
INLINE V load_m(M m, const double *p) { return _mm256_maskload_pd(p, m); }
INLINE V load_f32(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
INLINE M halves_of(M m)
{
    return _mm256_permutevar8x32_epi32(m, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
}
INLINE V load_f32_m(M m, const float *p)
{
    return _mm256_cvtps_pd(_mm_maskload_ps(p, _mm256_castsi256_si128(halves_of(m))));
}
INLINE void store(double *p, V v) { _mm256_storeu_pd(p, v); }
INLINE void store_m(double *p, M m, V v) { _mm256_maskstore_pd(p, m, v); }
INLINE void store_f32_m(float *p, M m, V v)
{
    _mm_maskstore_ps(p, _mm256_castsi256_si128(halves_of(m)), _mm256_cvtpd_ps(v));
}
INLINE V splat(double x) { return _mm256_set1_pd(x); }
INLINE V fma_v(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }

/* Rows become columns. */
INLINE void transpose(V r[LANES])
{
    V s0 = _mm256_unpacklo_pd(r[0], r[1]), s1 = _mm256_unpackhi_pd(r[0], r[1]);
    V s2 = _mm256_unpacklo_pd(r[2], r[3]), s3 = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(s0, s2, 0x20);
    r[1] = _mm256_permute2f128_pd(s1, s3, 0x20);
    r[2] = _mm256_permute2f128_pd(s0, s2, 0x31);
    r[3] = _mm256_permute2f128_pd(s1, s3, 0x31);
}

/* r[j] = column j of LANES rows that lie `row` elements apart. Halves are joined by the loads. */
INLINE void load_columns(const double *p, int64_t row, V r[LANES])
{
#pragma GCC unroll 2
    for (int h = 0; h < 4; h += 2) {
        V s[2];
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++)
            s[i] = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(p + i * row + h)),
                                        _mm_loadu_pd(p + (i + 2) * row + h), 1);
        r[h] = _mm256_unpacklo_pd(s[0], s[1]);
        r[h + 1] = _mm256_unpackhi_pd(s[0], s[1]);
    }
}
#endif

#endif
