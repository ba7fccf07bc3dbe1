/* Inverse trigonometric functions. */
#pragma once
#include "vmath.h"

#define Q_PI_4_HI 0x1.921fb54442d18p-1
#define Q_PI_4_LO 0x1.1a62633145c07p-55
#define Q_3PI_4_HI 0x1.2d97c7f3321d2p+1
#define Q_3PI_4_LO 0x1.a79394c9e8a0ap-54
#define Q_TAN_PI_8 0x1.a827999fcef32p-2

/* (arctan t - t) / t for |t| <= tan(pi/8); minimax to 2^-57 */
Q_FN double q_arctan_tail(double t)
{
    double z = t * t, z2 = z * z, z4 = z2 * z2;
    double a = q_fma(z, 0x1.9999999999451p-3, -0x1.5555555555555p-2);
    double b = q_fma(z, 0x1.c71c718a11ee9p-4, -0x1.249249243f9ccp-3);
    double c = q_fma(z, 0x1.3b127080cedd6p-4, -0x1.745d0bd0c7105p-4);
    double d = q_fma(z, 0x1.dff0e211a2e9fp-5, -0x1.10fb22b6785c6p-4);
    double e = q_fma(z, 0x1.41ebf5a639436p-5, -0x1.a0ccbbcb2631fp-5);
    e = q_fma(z2, -0x1.3b6bd17dc2fc4p-6, e);
    return z * q_fma(z4, q_fma(z4, e, q_fma(z2, d, c)), q_fma(z2, b, a));
}

/* Three pieces: t = x, (x - 1) / (x + 1) and -1 / x, around 0, pi/4 and pi/2 */
Q_FN double q_arctan(double x)
{
    double a = q_abs(x), n = a, d = 1.0, j = 0.0;
    n = a > Q_TAN_PI_8 ? a - 1.0 : n;
    d = a > Q_TAN_PI_8 ? a + 1.0 : d;
    j = a > Q_TAN_PI_8 ? 1.0 : j;
    n = a > 1.0 / Q_TAN_PI_8 ? -1.0 : n;
    d = a > 1.0 / Q_TAN_PI_8 ? a : d;
    j = a > 1.0 / Q_TAN_PI_8 ? 2.0 : j;
    double t = n / d;
    return q_copysign(q_fma(j, Q_PI_4_HI, t + q_fma(t, q_arctan_tail(t), j * Q_PI_4_LO)), x);
}

/* The angle of (x, y): the same three pieces in |y| and |x|, then pi minus the result where x has
   its sign bit set (j is the multiple of pi/4, 3 the one that needs its own constants). Two
   infinities act as two ones, two zeros as an angle of zero; large pairs are scaled down before
   they are added, small ones up before they are compared. */
Q_FN double q_atan2(double y, double x)
{
    double a = q_abs(x), b = q_abs(y), top = a > b ? a : b;
    double scale = top > 0x1p1000 ? 0x1p-100 : top < 0x1p-900 ? 0x1p100 : 1.0;
    double same = a == b ? a : 0.0, one = same == Q_INF ? 1.0 : 0.0;
    a = one > 0.0 ? 1.0 : a * scale;
    b = one > 0.0 ? 1.0 : b * scale;
    double n = b, d = a, j = 0.0, left = q_copysign(1.0, x);
    n = b > a * Q_TAN_PI_8 ? b - a : n;
    d = b > a * Q_TAN_PI_8 ? b + a : d;
    j = b > a * Q_TAN_PI_8 ? 1.0 : j;
    n = b * Q_TAN_PI_8 > a ? -a : n;
    d = b * Q_TAN_PI_8 > a ? b : d;
    j = b * Q_TAN_PI_8 > a ? 2.0 : j;
    d = d == 0.0 ? 1.0 : d;
    double t = n / d, w = t * q_arctan_tail(t) * left;
    j = left < 0.0 ? 4.0 - j : j;
    double hi = j == 3.0 ? Q_3PI_4_HI : j * Q_PI_4_HI, lo = j == 3.0 ? Q_3PI_4_LO : j * Q_PI_4_LO;
    return q_copysign(hi + q_fma(t, left, w + lo), y);
}

/* (arcsin s - s) / s for |s| <= 1/2, z = s^2; minimax to 2^-58 */
Q_FN double q_arcsin_tail(double z)
{
    double z2 = z * z, z4 = z2 * z2;
    double a = q_fma(z, 0x1.3333333332da2p-4, 0x1.5555555555556p-3);
    double b = q_fma(z, 0x1.f1c71c11deea2p-6, 0x1.6db6db6e48603p-5);
    double c = q_fma(z, 0x1.1c4d112ceeedbp-6, 0x1.6e8bb37521a1dp-6);
    double d = q_fma(z, 0x1.780102229fbb1p-7, 0x1.c9d30ac395d41p-7);
    double e = q_fma(z, 0x1.5e29168e16942p-8, 0x1.532a913650ec7p-7);
    double f = q_fma(z, -0x1.f58c562a8e30cp-7, 0x1.220541765d58fp-6);
    e = q_fma(z4, 0x1.dc181cd5bef71p-6, q_fma(z2, f, e));
    return z * q_fma(z4, q_fma(z4, e, q_fma(z2, d, c)), q_fma(z2, b, a));
}

/* Above 1/2: arcsin a = pi/2 - 2 arcsin s with s = sqrt((1 - a) / 2); 1 - a is exact there. */
Q_FN double q_arcsin(double x)
{
    double a = q_abs(x);
    int big = a > 0.5;
    double z = big ? 0.5 - 0.5 * a : a * a, s = big ? q_root(z) : a, w = s * q_arcsin_tail(z);
    double y = big ? 2.0 * Q_PI_4_HI - 2.0 * s - q_fma(2.0, w, -2.0 * Q_PI_4_LO) : s + w;
    return q_copysign(y, x);
}

/* pi/2 - arcsin x near 0, 2 arcsin s near 1, pi - 2 arcsin s near -1; j counts in units of pi/4 */
Q_FN double q_arccos(double x)
{
    double a = q_abs(x), sign = q_copysign(1.0, x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a;
    double s = a > 0.5 ? q_root(z) : a, j = q_fma(a > 0.5 ? -2.0 : 0.0, sign, 2.0);
    s *= sign * (a > 0.5 ? -2.0 : 1.0);
    double y = q_fma(j, Q_PI_4_HI, -(s + q_fma(j, -Q_PI_4_LO, s * q_arcsin_tail(z))));
    return a <= 1.0 ? y : Q_NAN; /* one NaN: its sign would depend on how a compiler negates */
}
