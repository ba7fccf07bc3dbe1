/* Hyperbolic functions and their inverses. */
#pragma once
#include "vmath.h"

/* tanh r for |r| <= ln2/4; the factor of r^3 is minimax, to 2^-56 of the result */
Q_FN double q_tanh_poly(double r)
{
    double z = r * r, z2 = z * z;
    double a = q_fma(z, 0x1.11111111065dcp-3, -0x1.555555555554cp-2);
    double b = q_fma(z, 0x1.664f00a509371p-6, -0x1.ba1ba1795c37bp-5);
    double c = q_fma(z, 0x1.c601bba6b1ecep-9, -0x1.224a121f3d3c4p-7);
    return q_fma(r * z, q_fma(z2, q_fma(z2, c, b), a), r);
}

/* With |x| = r - k ln2/2, s = 2^k and t = tanh r
     tanh|x| = ((1 - s) + (1 + s) t) / ((1 + s) + (1 - s) t)
   where 1 - s and 1 + s are exact, t is small and good to half an ulp. The sign goes back at the
   end, so -0.0 and NaN are right too. */
Q_FN double q_tanh(double x)
{
    double a = q_abs(x);
    a = a > 22.0 ? 22.0 : a;
    double m = q_fma(a, -2.0 * Q_LOG2E, Q_MAGIC_EXP), k = m - Q_MAGIC_EXP, s = q_scale(m);
    double t = q_tanh_poly(q_fma(k, 0.5 * Q_LN2_LO, q_fma(k, 0.5 * Q_LN2_HI, a)));
    double u = 1.0 - s, v = 1.0 + s;
    return q_with_sign(q_fma(v, t, u) / q_fma(u, t, v), x);
}

/* 1 / (1 + e^-x) and log(1 + e^x), of e^-|x|, which never overflows: both tails keep their relative accuracy. */
Q_FN double q_sigmoid(double x)
{
    double z = q_exp(-q_abs(x));
    return (x > 0.0 ? 1.0 : z) / (1.0 + z);
}

Q_FN double q_softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + q_log1p(q_exp(-q_abs(x)));
}

/* e^r = c + s, e^-r = c - s with s = sinh r, c = cosh r = 1 + d: sinh and cosh of |x| = r + k ln2
   are sums of c and s with the factors 2^(k-1) -+ 2^(-k-1). Both are returned halved, the last
   doubling is the caller's. */
Q_FN double q_sinh_cosh(double a, double sign)
{
    a = a > 710.5 ? 710.5 : a; /* sinh and cosh are infinite there */
    double m = q_fma(a, Q_LOG2E, Q_MAGIC_EXP), k = m - Q_MAGIC_EXP;
    double r = q_fma(k, -Q_LN2_LO, q_fma(k, -Q_LN2_HI, a)), z = r * r, z2 = z * z;
    double s0 = q_fma(z, 0x1.1111111110707p-7, 0x1.5555555555556p-3);
    double s1 = q_fma(z, 0x1.71de0a2c9a29ap-19, 0x1.a01a01a9060fcp-13);
    double s = q_fma(r * z, q_fma(z2, q_fma(z2, 0x1.af3f2ebb8e563p-26, s1), s0), r);
    double c0 = q_fma(z, 0x1.5555555555556p-5, 0x1p-1);
    double c1 = q_fma(z, 0x1.a01a01a81c377p-16, 0x1.6c16c16c15ff5p-10);
    double c2 = q_fma(z, 0x1.1f78fc6e9df16p-29, 0x1.27e4d80b82319p-22);
    double d = z * q_fma(z2, q_fma(z2, c2, c1), c0);
    double up = q_scale(m - 2.0), down = k > 60.0 ? 0.0 : q_scale(Q_MAGIC_EXP - 2.0 - k);
    double p = up - sign * down, q = up + sign * down; /* the factors of c and of s */
    return p + q_fma(p, d, q * s);
}

Q_FN double q_sinh(double x)
{
    double a = q_abs(x), y = 2.0 * q_sinh_cosh(a, 1.0);
    return q_copysign(a < 0x1p-28 ? a : y, x);
}

Q_FN double q_cosh(double x) { return 2.0 * q_sinh_cosh(q_abs(x), -1.0); }

/* log1p of what exceeds 1 in x + sqrt(x^2 + 1); above 2^54, where squares may overflow, log 2x */
Q_FN double q_arcsinh(double x)
{
    double a = q_abs(x), a2 = a * a, big = a < 0x1p54 ? 0.0 : Q_LN2_HI;
    double w = a < 0x1p54 ? a + a2 / (1.0 + q_root(q_fma(a, a, 1.0))) : a;
    return q_copysign(q_log1p(w) + big, x);
}

Q_FN double q_arccosh(double x)
{
    double t = x - 1.0, big = x < 0x1p54 ? 0.0 : Q_LN2_HI;
    double w = x < 0x1p54 ? t + q_root(q_fma(t, t, 2.0 * t)) : x;
    return x < 1.0 ? Q_NAN : q_log1p(w) + big;
}

Q_FN double q_arctanh(double x)
{
    double a = q_abs(x), y = 0.5 * q_log1p(2.0 * a / (1.0 - a));
    y = a > 1.0 ? Q_NAN : y;
    return q_copysign(a < 0x1p-28 ? a : y, x);
}
