/* The error function and its complement.

   Below 0.75 erf x = x + x^3 P; above, erfc x = e^(-x^2) g(x), where g(x) (x + 2) is a polynomial
   in 1 / (x + 2) (after Shepherd and Laframboise 1981). Rounding errors of x^2, x + 2 and the
   quotient are carried along. */
#pragma once
#include "vmath.h"

/* erf x for |x| <= 0.75; minimax to 2^-58 */
Q_FN double q_erf_small(double x)
{
    double z = x * x, z2 = z * z, z4 = z2 * z2;
    double a = q_fma(z, 0x1.ce2f21a042bd6p-4, -0x1.812746b0379e7p-2);
    double b = q_fma(z, 0x1.565bcd0c2a957p-8, -0x1.b82ce312840dbp-6);
    double c = q_fma(z, 0x1.f9a2f19050035p-14, -0x1.c02db3122a2d6p-11);
    double d = q_fma(z, 0x1.b95218245a5a3p-20, -0x1.f4cb3e4932189p-17);
    double e = q_fma(z, 0x1.94c6e9a2aad54p-27, -0x1.581f93082ad5ap-23);
    double p = q_fma(z4, q_fma(z4, e, q_fma(z2, d, c)), q_fma(z2, b, a));
    return q_fma(x, 0x1.20dd750429b6dp+0, x * q_fma(z, p, 0x1.1ae3a914fed8p-56));
}

/* erfc x for x >= 0.75 */
Q_FN double q_erfc_large(double x)
{
    x = x > 28.0 ? 28.0 : x;
    double d = x + 2.0, v = 1.0 / d;
    double e = q_fma(-v, d, 1.0) - v * (x - (d - 2.0)); /* v (1 + e) is 1 / (x + 2) */
    double t = q_fma(v, 6.0, -1.1875), t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
    double c0 = q_fma(t, 0x1.ca5018fc968f4p-4, 0x1.8954e406c94eap-2);
    double c1 = q_fma(t, -0x1.531aa46e5ff7ap-9, 0x1.efcd1935131f6p-7);
    double c2 = q_fma(t, 0x1.a7db229056f51p-14, -0x1.3fe7262ad3f8ep-10);
    double c3 = q_fma(t, -0x1.807d1329c5b56p-17, 0x1.a627dbbc00ff9p-14);
    double c4 = q_fma(t, 0x1.1c935de072f9cp-19, -0x1.3414c82a24a93p-17);
    double c5 = q_fma(t, -0x1.962750ddcc0ffp-22, 0x1.99618422e523bp-21);
    double c6 = q_fma(t, 0x1.de8493ab30958p-25, -0x1.a70a83e052bb7p-26);
    double c7 = q_fma(t, -0x1.85b9938e81ab8p-28, -0x1.572f08dd4314dp-27);
    double c8 = q_fma(t, 0x1.85f180ca67bd4p-33, 0x1.a2c3eca92d1d2p-29);
    double c9 = q_fma(t, 0x1.176f9bdbef0b4p-35, -0x1.0808b03d0f3f5p-31);
    c9 = q_fma(t2, 0x1.4bc1a1996622ap-35, c9);
    double s = q_fma(t8, q_fma(t2, c9, c8), q_fma(t4, q_fma(t2, c7, c6), q_fma(t2, c5, c4)));
    s = q_fma(t8, s, q_fma(t4, q_fma(t2, c3, c2), q_fma(t2, c1, c0)));
    const double top = 0x1.c7c6918564768p-1;
    double h = q_fma(t, s, top), hl = q_fma(t, s, top - h);
    double g = v * h, gl = q_fma(v, hl, q_fma(v, h, -g));
    double y = -(x * x), yl = -q_fma(x, x, y);
    double m = q_fma(y, Q_LOG2E, Q_MAGIC_EXP), k = m - Q_MAGIC_EXP;
    double r = q_fma(k, -Q_LN2_LO, q_fma(k, -Q_LN2_HI, y)), r2 = r * r;
    double q = q_fma(r2, q_exp_tail(r, r2), r), p = 1.0 + q, pl = 1.0 - p + q;
    double weight = q_fma(v, 2.74, 1.0); /* of a relative error of 1 / (x + 2) in g, nearly */
    pl = q_fma(p, q_fma(e, weight, yl), pl);
    return q_scale_wide(q_fma(g, p, q_fma(gl, p, g * pl)), m);
}

Q_FN double q_erf(double x)
{
    double a = q_abs(x), s = q_erf_small(a), l = 1.0 - q_erfc_large(a);
    return q_copysign(a < 0.75 ? s : l, x);
}

Q_FN double q_erfc(double x)
{
    double a = q_abs(x), s = 1.0 - q_erf_small(x), l = q_erfc_large(a);
    l = x < 0.0 ? 2.0 - l : l;
    return a < 0.75 ? s : l;
}
