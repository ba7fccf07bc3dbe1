/* isa_v4.h: what C lacks on vectors of double, for x86-64-v4 (AVX-512), or with NATIVE on vectors of
   float. isa_v3.h and isa_neon.h say the same for theirs.

   A mask selects the first elements; a masked load gives zero elsewhere and touches nothing there. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef NATIVE
enum { LANES = 16, REGISTERS = 32 };
typedef float Real;
typedef __m512 V;
typedef __mmask16 M;

INLINE M mask_of(int64_t n) { return n >= LANES ? 0xffff : (M)((1u << n) - 1); }
INLINE V load(const float *p) { return _mm512_loadu_ps(p); }
INLINE V load_m(M m, const float *p) { return _mm512_maskz_loadu_ps(m, p); }
INLINE void store(float *p, V v) { _mm512_storeu_ps(p, v); }
INLINE void store_m(float *p, M m, V v) { _mm512_mask_storeu_ps(p, m, v); }
INLINE V splat(float x) { return _mm512_set1_ps(x); }
INLINE V fma_v(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

/* Rows become columns: pairs, then pairs of pairs, then quarters, then halves. */
INLINE void transpose(V r[LANES])
{
    V s[LANES], t[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(s[i + j]), b = _mm512_castps_pd(s[i + j + 2]);
            t[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            t[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    /* t[4 q + c] holds, of rows 4 q .. 4 q + 3, the columns c, c + 4, c + 8, c + 12 */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        V a = _mm512_shuffle_f32x4(t[c], t[4 + c], 0x88),
          b = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0x88),
          d = _mm512_shuffle_f32x4(t[c], t[4 + c], 0xdd),
          e = _mm512_shuffle_f32x4(t[8 + c], t[12 + c], 0xdd);
        r[c] = _mm512_shuffle_f32x4(a, b, 0x88);
        r[c + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
        r[c + 4] = _mm512_shuffle_f32x4(d, e, 0x88);
        r[c + 12] = _mm512_shuffle_f32x4(d, e, 0xdd);
    }
}
#include "cpu/isa_native.h"
#else
enum { LANES = 8, REGISTERS = 32 };
typedef double Real;
typedef __m512d V;
typedef __mmask8 M;

INLINE M mask_of(int64_t n) { return n >= LANES ? 0xff : (M)((1u << n) - 1); } /* n >= 0 */
INLINE V load(const double *p) { return _mm512_loadu_pd(p); }
INLINE V load_m(M m, const double *p) { return _mm512_maskz_loadu_pd(m, p); }
INLINE V load_f32(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
INLINE V load_f32_m(M m, const float *p) { return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(m, p)); }
INLINE void store(double *p, V v) { _mm512_storeu_pd(p, v); }
INLINE void store_m(double *p, M m, V v) { _mm512_mask_storeu_pd(p, m, v); }
INLINE void store_f32_m(float *p, M m, V v) { _mm256_mask_storeu_ps(p, m, _mm512_cvtpd_ps(v)); }
INLINE V splat(double x) { return _mm512_set1_pd(x); }
INLINE V fma_v(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }

/* Rows become columns: pairs, then pairs of pairs, then halves. */
INLINE void transpose(V r[LANES])
{
    V s[LANES], t[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            t[i + j] = _mm512_shuffle_f64x2(s[i + j], s[i + j + 2], 0x88);
            t[i + j + 2] = _mm512_shuffle_f64x2(s[i + j], s[i + j + 2], 0xdd);
        }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        r[j] = _mm512_shuffle_f64x2(t[j], t[j + 4], 0x88);
        r[j + 4] = _mm512_shuffle_f64x2(t[j], t[j + 4], 0xdd);
    }
}

/* r[j] = column j of LANES rows that lie `row` elements apart. Halves are joined by the loads: 16
   shuffles in place of 24. */
INLINE void load_columns(const double *p, int64_t row, V r[LANES])
{
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
#pragma GCC unroll 2
    for (int h = 0; h < 8; h += 4) {
        V s[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            s[i] = _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(p + i * row + h)),
                                      _mm256_loadu_pd(p + (i + 4) * row + h), 1);
        V a = _mm512_unpacklo_pd(s[0], s[1]), b = _mm512_unpackhi_pd(s[0], s[1]);
        V c = _mm512_unpacklo_pd(s[2], s[3]), d = _mm512_unpackhi_pd(s[2], s[3]);
        r[h] = _mm512_permutex2var_pd(a, low, c);
        r[h + 1] = _mm512_permutex2var_pd(b, low, d);
        r[h + 2] = _mm512_permutex2var_pd(a, high, c);
        r[h + 3] = _mm512_permutex2var_pd(b, high, d);
    }
}
#endif

#endif
