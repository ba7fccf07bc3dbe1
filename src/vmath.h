/* Elementary functions in branch-free scalar C. Here: exp, log and their nearest relatives; the
   headers included at the end hold the other families.

   One text serves every target. A function here uses only IEEE add, mul, fma, sqrt, select and
   integer operations, so a loop over it vectorises, and scalar code, 256-bit and 512-bit vectors,
   gcc and clang all give the same bits (tests/math compares them). Compile with -ffp-contract=off
   -fno-math-errno -fno-trapping-math; a fused multiply-add is written out where it is wanted.

   Where some arguments need a slow path, three more functions stand beside q_NAME: q_NAME_rare
   tests an argument, q_NAME_main is branch-free and valid where the test says 0, q_NAME_slow is any
   C and valid where it says 1.

   All polynomials are minimax, on the interval and with the error given beside them: Sollya, as in
     fpminimax((expm1(x) - x) / x^2, 10, [|D...|], [-log(2)/2; log(2)/2], absolute)
   They are evaluated in Estrin's order (pairs, then pairs of pairs): a
   loop over a tile is bound by the number of instructions that wait, so a short chain counts as
   much as a small number. A plain division is cheap here, since the divider works beside the other
   units: log with a polynomial guess and Newton steps instead took 1.05 ns, not 0.86. */
#pragma once
#include <stdint.h>
#include <string.h>

/* A target with other names for these defines them before. A call left in a loop would stop the
   vectoriser: so always inline. */
#ifndef Q_FN
#define Q_FN static inline __attribute__((always_inline))
#define q_fma __builtin_fma
#define q_root __builtin_sqrt
#endif

#define Q_SIGN 0x8000000000000000u
#define Q_INF __builtin_inf()
#define Q_NAN __builtin_nan("")
#define Q_MAGIC 6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer in the low bits */
#define Q_MAGIC_EXP (Q_MAGIC + 1023.0) /* the same with the exponent bias already in the low bits */
#define Q_LOG2E 0x1.71547652b82fep+0
#define Q_LN2_HI 0x1.62e42fefa39efp-1
#define Q_LN2_LO 0x1.abc9e3b39803fp-56

Q_FN uint64_t q_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
Q_FN double q_from(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
Q_FN double q_abs(double x) { return q_from(q_bits(x) & ~Q_SIGN); }

/* y >= 0 with the sign of x: the cheaper copysign */
Q_FN double q_with_sign(double y, double x) { return q_from(q_bits(y) | (q_bits(x) & Q_SIGN)); }
Q_FN double q_copysign(double y, double x) { return q_with_sign(q_abs(y), x); }

/* 2^k, k the integer in the low bits of m = k + Q_MAGIC_EXP */
Q_FN double q_scale(double m) { return q_from(q_bits(m) << 52); }

/* (e^r - 1 - r) / r^2 for |r| <= ln2/2; r^2 times its error is below 2^-62 */
Q_FN double q_exp_tail(double r, double r2)
{
    double r4 = r2 * r2;
    double q0 = q_fma(r, 0x1.5555555555557p-3, 0x1p-1);
    double q1 = q_fma(r, 0x1.111111111004bp-7, 0x1.5555555555557p-5);
    double q2 = q_fma(r, 0x1.a01a01ac22811p-13, 0x1.6c16c16c156a1p-10);
    double q3 = q_fma(r, 0x1.71de019c2894cp-19, 0x1.a01a01ab9b063p-16);
    double q4 = q_fma(r, 0x1.af4ef08f1869ap-26, 0x1.27e4cfa72c9c6p-22);
    q4 = q_fma(r2, 0x1.1f87005e7855ep-29, q4);
    return q_fma(r4, q_fma(r4, q4, q_fma(r2, q3, q2)), q_fma(r2, q1, q0));
}

/* p 2^k with k in the low bits of m, |k| < 2000. Two factors, each a normal number: the only
   rounding is the last product's, so that overflow and subnormal results are those of IEEE. */
Q_FN double q_scale_wide(double p, double m)
{
    double h = q_fma(m - Q_MAGIC_EXP, 0.5, Q_MAGIC_EXP);
    return p * q_scale(h) * q_scale(m - (h - Q_MAGIC_EXP));
}

/* x, or the limit with the sign of x. One test on |x|: gcc turns two tests in a row into a tree of
   masks. */
Q_FN double q_clamp(double x, double limit)
{
    double a = q_abs(x);
    return q_copysign(a > limit ? limit : a, x);
}

Q_FN double q_exp(double x)
{
    double y = q_clamp(x, 800.0), m = q_fma(y, Q_LOG2E, Q_MAGIC_EXP), k = m - Q_MAGIC_EXP;
    double r = q_fma(k, -Q_LN2_LO, q_fma(k, -Q_LN2_HI, y)), r2 = r * r;
    return q_scale_wide(1.0 + q_fma(r2, q_exp_tail(r, r2), r), m);
}

/* 2^k (p + 1) - 1 with p = e^r - 1, in halves, so that k = 1024 has a scale; a tiny x would lose a
   bit by that. */
Q_FN double q_expm1(double x)
{
    double y = q_clamp(x, 710.0), m = q_fma(y, Q_LOG2E, Q_MAGIC_EXP), k = m - Q_MAGIC_EXP;
    double r = q_fma(k, -Q_LN2_LO, q_fma(k, -Q_LN2_HI, y)), r2 = r * r;
    double s = q_scale(m - 1.0), e = 2.0 * q_fma(s, q_fma(r2, q_exp_tail(r, r2), r), s - 0.5);
    e = x < -40.0 ? -1.0 : e;
    return q_abs(x) < 0x1p-54 ? x : e;
}

/* 2^r for |r| <= 0.505, minimax to 2^-57; exact at 0. The largest coefficient comes last and alone,
   so that it is rounded once. */
Q_FN double q_exp2_poly(double r)
{
    double r2 = r * r, r4 = r2 * r2;
    double a = q_fma(r, 0x1.c6b08d704a1cep-5, 0x1.ebfbdff82c599p-3);
    double b = q_fma(r, 0x1.5d87fe787649ep-10, 0x1.3b2ab6fba1ac2p-7);
    double c = q_fma(r, 0x1.ffcbfd3c07dd1p-17, 0x1.4309130a50012p-13);
    double d = q_fma(r, 0x1.b5235480b4eb6p-24, 0x1.62bfd1b4861dcp-20);
    double e = q_fma(r, 0x1.ec3438d0f9949p-32, 0x1.e60bddc0272f1p-28);
    double t = q_fma(r4, q_fma(r4, e, q_fma(r2, d, c)), q_fma(r2, b, a));
    return q_fma(r, q_fma(r, t, 0x1.62e42fefa39efp-1), 1.0);
}

Q_FN double q_exp2(double x)
{
    double y = q_clamp(x, 1200.0), m = y + Q_MAGIC_EXP;
    return q_scale_wide(q_exp2_poly(y - (m - Q_MAGIC_EXP)), m);
}

/* x = m 2^(k - down) with m in [sqrt(1/2), sqrt(2)); returns m - 1. x is positive, finite and not
   subnormal. */
Q_FN double q_split(double x, double down, double *k)
{
    const uint64_t root = 0x3fe6a09e667f3bcdu;
    uint64_t u = q_bits(x) + (0x3ff0000000000000u - root);
    *k = q_from((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0 + down);
    return q_from((u & 0x000fffffffffffffu) + root) - 1.0;
}

/* The same for subnormal x too; zero, negative and non-finite x give numbers that q_log_ends
   replaces. Constants are selected, not values: gcc would compute everything that follows a
   selected value twice. */
Q_FN double q_split_all(double x, double *k)
{
    return q_split(x * (x < 0x1p-1022 ? 0x1p54 : 1.0), x < 0x1p-1022 ? 54.0 : 0.0, k);
}

/* y = log x where x is positive and finite; the limits elsewhere */
Q_FN double q_log_ends(double x, double y)
{
    double end = x == 0.0 ? -Q_INF : Q_NAN;
    y = x < Q_INF ? y : x;
    return x > 0.0 ? y : end;
}

/* (log((1 + s) / (1 - s)) - 2 s) / s^3 at z = s^2 <= 0.02945, to 2^-54 */
Q_FN double q_atanh_tail(double z)
{
    double z2 = z * z;
    double a = q_fma(z, 0x1.99999999952d1p-2, 0x1.5555555555558p-1);
    double b = q_fma(z, 0x1.c71c62dab0eddp-3, 0x1.2492492df8654p-2);
    double c = q_fma(z, 0x1.39fdf803d4c2dp-3, 0x1.7462b7d8cea48p-3);
    c = q_fma(z2, 0x1.2b5d2f49fc42cp-3, c);
    return q_fma(z2, q_fma(z2, c, b), a);
}

/* s (f^2/2 + R) with s = f / (2 + f): log(1 + f) is f - (f^2/2 - this), fdlibm's arrangement, in
   which the quotient only enters a small term. */
Q_FN double q_log_tail(double f, double s)
{
    double z = s * s;
    return s * q_fma(0.5 * f, f, z * q_atanh_tail(z));
}

Q_FN double q_log(double x)
{
    double k, f = q_split_all(x, &k), t = q_fma(k, Q_LN2_LO, q_log_tail(f, f / (2.0 + f)));
    return q_log_ends(x, q_fma(k, Q_LN2_HI, f - q_fma(0.5 * f, f, -t)));
}

/* u = 1 + x loses c = x - (u - 1); log(1 + x) = log u + c / u, with 1/u = 2^-k (1 - s) / (1 + s) as
   a short series, because c is below half an ulp of u. */
Q_FN double q_log1p(double x)
{
    double u = 1.0 + x, b = u - 1.0, c = (1.0 - (u - b)) + (x - b);
    double k, f = q_split(u, 0.0, &k), s = f / (2.0 + f);
    double inv = q_scale(Q_MAGIC_EXP - k) * q_fma(s, q_fma(s, q_fma(s, -2.0, 2.0), -2.0), 1.0);
    c = x < 0x1p60 ? c * inv : 0.0;
    double t = q_fma(k, Q_LN2_LO, q_log_tail(f, s)) + c;
    double y = q_fma(k, Q_LN2_HI, f - q_fma(0.5 * f, f, -t));
    return q_log_ends(u, q_copysign(y, x));
}

/* (k hi + lo) + (log m) c for log2 and log10: log m in two doubles, so that powers of 2 and of 10
   come out exact. k hi must be exact. */
Q_FN double q_log_base(double x, double hi, double lo, double c, double cl)
{
    double k, f = q_split_all(x, &k), v = q_fma(0.5 * f, f, -q_log_tail(f, f / (2.0 + f)));
    double h = f - v, l = f - h - v, p = h * c, pl = q_fma(h, c, -p) + q_fma(h, cl, l * c);
    double b = k * hi, y = b + p, yl = b - y + p + q_fma(k, lo, pl);
    return q_log_ends(x, y + yl);
}

Q_FN double q_log2(double x)
{
    return q_log_base(x, 1.0, 0.0, Q_LOG2E, 0x1.777d0ffda0d24p-56);
}

Q_FN double q_log10(double x)
{
    return q_log_base(x, 0x1.34413509f78p-2, 0x1.fef311f12b358p-46, /* log10 2: 42 bits, the rest */
                      0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57); /* log10 e */
}

#include "vmath_hyp.h"
#include "vmath_trig.h"
#include "vmath_arc.h"
#include "vmath_pow.h"
#include "vmath_erf.h"
