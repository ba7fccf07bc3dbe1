/* isa_neon.h: what C lacks on vectors of double, for aarch64. See isa_v4.h. A mask is the number of
   elements. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include <arm_neon.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef NATIVE
enum { LANES = 4, REGISTERS = 32 };
typedef float Real;
typedef float32x4_t V;
typedef int64_t M;

INLINE M mask_of(int64_t n) { return n; }
INLINE V load(const float *p) { return vld1q_f32(p); }
INLINE V load_m(M m, const float *p)
{
    if (m >= LANES) return vld1q_f32(p);
    V v = vdupq_n_f32(0);
    if (m > 0) v = vld1q_lane_f32(p, v, 0);
    if (m > 1) v = vld1q_lane_f32(p + 1, v, 1);
    if (m > 2) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}
INLINE void store(float *p, V v) { vst1q_f32(p, v); }
INLINE void store_m(float *p, M m, V v)
{
    if (m >= LANES) {
        vst1q_f32(p, v);
        return;
    }
    if (m > 0) vst1q_lane_f32(p, v, 0);
    if (m > 1) vst1q_lane_f32(p + 1, v, 1);
    if (m > 2) vst1q_lane_f32(p + 2, v, 2);
}
INLINE V splat(float x) { return vdupq_n_f32(x); }
INLINE V fma_v(V a, V b, V c) { return vfmaq_f32(c, a, b); }

/* Rows become columns. */
INLINE void transpose(V r[LANES])
{
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1])),
                b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1])),
                c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3])),
                d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
#include "cpu/isa_native.h"
#else
enum { LANES = 2, REGISTERS = 32 };
typedef double Real;
typedef float64x2_t V;
typedef int64_t M;

INLINE M mask_of(int64_t n) { return n; }
INLINE V load(const double *p) { return vld1q_f64(p); }
INLINE V load_m(M m, const double *p)
{
    if (m >= 2) return vld1q_f64(p);
    return m == 1 ? vcombine_f64(vld1_f64(p), vdup_n_f64(0)) : vdupq_n_f64(0);
}
INLINE V load_f32(const float *p) { return vcvt_f64_f32(vld1_f32(p)); }
INLINE V load_f32_m(M m, const float *p)
{
    if (m >= 2) return load_f32(p);
    return vcvt_f64_f32(m == 1 ? vld1_lane_f32(p, vdup_n_f32(0), 0) : vdup_n_f32(0));
}
INLINE void store(double *p, V v) { vst1q_f64(p, v); }
INLINE void store_m(double *p, M m, V v)
{
    if (m >= 2)
        vst1q_f64(p, v);
    else if (m == 1)
        vst1q_lane_f64(p, v, 0);
}
INLINE void store_f32_m(float *p, M m, V v)
{
    float32x2_t f = vcvt_f32_f64(v);
    if (m >= 2)
        vst1_f32(p, f);
    else if (m == 1)
        vst1_lane_f32(p, f, 0);
}
INLINE V splat(double x) { return vdupq_n_f64(x); }
INLINE V fma_v(V a, V b, V c) { return vfmaq_f64(c, a, b); }

/* Rows become columns. */
INLINE void transpose(V r[LANES])
{
    V a = vzip1q_f64(r[0], r[1]), b = vzip2q_f64(r[0], r[1]);
    r[0] = a;
    r[1] = b;
}

/* r[j] = column j of LANES rows that lie `row` elements apart. */
INLINE void load_columns(const double *p, int64_t row, V r[LANES])
{
    for (int i = 0; i < LANES; i++) r[i] = load(p + i * row);
    transpose(r);
}
#endif

#endif
