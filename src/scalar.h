/* scalar.h: small helpers that value columns of ops.h use, beside the functions of vmath.h. Each is one scalar expression, so that
   the same text is the reference, the vector kernel and the text of a device kernel. q_abs, q_sqrt and q_sign take the type of
   their argument: float32 stays native, and the result is the rounded double result all the same. */
#ifndef SCALAR_H
#define SCALAR_H

#include "vmath.h"

#define NEVER 0 /* the rare column of a row whose value serves every argument */

static inline float q_absf(float x) { return __builtin_fabsf(x); }
static inline float q_sqrtf(float x) { return __builtin_sqrtf(x); }
static inline double q_sqrtd(double x) { return __builtin_sqrt(x); }
/* +0 at -0, NaN at NaN */
static inline double q_signd(double x) { return x != x ? x : (x > 0 ? 1.0 : 0.0) - (x < 0 ? 1.0 : 0.0); }
static inline float q_signf(float x) { return x != x ? x : (x > 0 ? 1.0f : 0.0f) - (x < 0 ? 1.0f : 0.0f); }
#define q_abs(x) _Generic((x), float: q_absf, default: q_abs)(x)
#define q_sqrt(x) _Generic((x), float: q_sqrtf, default: q_sqrtd)(x)
#define q_sign(x) _Generic((x), float: q_signf, default: q_signd)(x)

/* x to the power n >= 0 by repeated squaring, lowest bit of n first; 1 for n == 0, NaN included. float32 is computed here, in
   double, and rounded once. Vector kernels do the same multiplications in the same order. */
static inline double q_powi(double x, int64_t n)
{
    double result = 1;
    for (; n > 0; n >>= 1) {
        if (n & 1) result *= x;
        if (n > 1) x *= x;
    }
    return result;
}

/* One step of max and min reductions: NaN wins (as the canonical quiet NaN), -0 < +0; so any order gives the same bits. */
static inline double q_max_step(double a, double b)
{
    if (a != a || b != b) return Q_NAN;
    if (a == b) return q_bits(a) >> 63 ? b : a;
    return a > b ? a : b;
}

static inline double q_min_step(double a, double b)
{
    if (a != a || b != b) return Q_NAN;
    if (a == b) return q_bits(a) >> 63 ? a : b;
    return a < b ? a : b;
}

#endif
