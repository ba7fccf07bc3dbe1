/* Powers and the functions of two arguments that go with them; rounding. */
#pragma once
#include "vmath.h"

/* -1, 0 or 1; +0 at -0, NaN at NaN */
Q_FN double q_sign(double x)
{
    return x != x ? x : (x > 0.0 ? 1.0 : 0.0) - (x < 0.0 ? 1.0 : 0.0);
}

Q_FN double q_floor(double x) { return __builtin_floor(x); }
Q_FN double q_ceil(double x) { return __builtin_ceil(x); }
Q_FN double q_trunc(double x) { return __builtin_trunc(x); }

/* to the nearest integer, halves to even: beyond 2^52 every double is one */
Q_FN double q_round(double x)
{
    double a = q_abs(x), r = a + 0x1p52 - 0x1p52;
    return q_copysign(a < 0x1p52 ? r : a, x);
}

/* |x|^y without the special cases; |x| is 2^-down a (a positive, finite, not subnormal), y is
   finite. The logarithm is 2 / ln2 (s + s^3/3 + s^5 (...)): s and the factor of s^3 are kept in two
   doubles, the rest in one. */
Q_FN double q_pow_positive(double a, double down, double y)
{
    double k, f = q_split(a, down, &k), d = 2.0 + f, e = f - (d - 2.0), g = 1.0 / d;
    double s = f * g, sl = q_fma(-s, e, q_fma(-s, d, f)) * g;
    double z = s * s, zl = q_fma(s, s, -z) + 2.0 * s * sl, z2 = z * z;
    /* 1/5 + z/7 + ... for z <= 0.02945 */
    double p0 = q_fma(z, 0x1.24924924922fdp-3, 0x1.999999999999ap-3);
    double p1 = q_fma(z, 0x1.745d173ca3ea2p-4, 0x1.c71c71c74cc3fp-4);
    double p2 = q_fma(z, 0x1.11154be178622p-4, 0x1.3b13a9e53da5bp-4);
    double p3 = q_fma(z, 0x1.da9aa9cbe387fp-5, 0x1.e01a7efc9f76ap-5);
    double p = z * q_fma(z2, q_fma(z2, q_fma(z2, p3, p2), p1), p0);
    const double third = 0x1.5555555555555p-2, third_l = 0x1.5555555555555p-56;
    double c = third + p, cl = third - c + p + third_l;
    double u = z * c, ul = q_fma(z, c, -u) + q_fma(z, cl, zl * c);
    double v = s * u, vl = q_fma(s, u, -v) + q_fma(s, ul, sl * u);
    double l = s + v, ll = s - l + v + (vl + sl);
    const double ch = 0x1.71547652b82fep+1, cll = 0x1.777d0ffda0d24p-55; /* 2 / ln 2 */
    double h = l * ch, hl = q_fma(l, ch, -h) + q_fma(l, cll, ll * ch);
    double b = k + h, bl = k - b + h + hl; /* b + bl = log2 |x| */
    double w = y * b, wl = q_fma(y, b, -w) + y * bl, far = q_abs(w);
    wl = far > 1200.0 ? 0.0 : wl;
    w = q_clamp(w, 1200.0);
    double m = w + Q_MAGIC_EXP, n = m - Q_MAGIC_EXP;
    return q_scale_wide(q_exp2_poly(w - n + wl), m);
}

Q_FN int q_pow_rare(double x, double y)
{
    double a = q_abs(x);
    return !((a >= 0x1p-1022) & (a < Q_INF) & (q_abs(y) < Q_INF));
}

/* The sign of a negative x comes back when y is odd; a negative x has no other real power. Beyond
   2^65 every y gives 0, 1 or infinity, and is even. */
Q_FN double q_pow_main(double x, double y)
{
    double v = q_pow_positive(q_abs(x), 0.0, q_clamp(y, 0x1p65)), half = 0.5 * y;
    double other = q_trunc(y) != y ? Q_NAN : q_trunc(half) != half ? -v : v;
    return x < 0.0 ? other : v;
}

/* The special cases of C99 annex F.10.4.4, and subnormal x */
static inline double q_pow_slow(double x, double y)
{
    double a = q_abs(x);
    if (y == 0.0 || x == 1.0) return 1.0;
    if (x != x || y != y) return Q_NAN;
    if (q_abs(y) == Q_INF) return a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? Q_INF : 0.0;
    int whole = q_trunc(y) == y, odd = whole && q_trunc(0.5 * y) != 0.5 * y;
    double v = (a == 0.0) == (y > 0.0) ? 0.0 : Q_INF; /* of zero or infinity */
    if (a > 0.0 && a < Q_INF) {
        if (x < 0.0 && !whole) return Q_NAN;
        double up = a < 0x1p-1022 ? 54.0 : 0.0;
        v = q_pow_positive(up > 0.0 ? a * 0x1p54 : a, up, q_clamp(y, 0x1p65));
    }
    return odd ? q_copysign(v, x) : v;
}

static inline double q_pow(double x, double y)
{
    return q_pow_rare(x, y) ? q_pow_slow(x, y) : q_pow_main(x, y);
}

/* x = a 2^(3 q) with the exponent j of a in -1, 0, 1. y = a^(-1/3) from a polynomial and one step
   of fourth order; a y^2 is the root, and the last correction rounds it almost correctly. */
Q_FN double q_cbrt(double x)
{
    double ax = q_abs(x), k, f = q_split_all(ax, &k);
    double q = q_fma(k, 0x1.5555555555555p-2, Q_MAGIC) - Q_MAGIC, j = q_fma(q, -3.0, k);
    double m = f + 1.0, m2 = m * m, a = m * (j > 0.0 ? 2.0 : j < 0.0 ? 0.5 : 1.0);
    double y0 = q_fma(m, -0x1.3e32475f98822p+1, 0x1.ffc9a81c50b94p+0);
    double y1 = q_fma(m, -0x1.e5e800ec2a91fp+0, 0x1.6565c9465783cp+1);
    double y2 = q_fma(m, -0x1.ba97f93af4931p-4, 0x1.66c22a6ff741bp-1);
    double y = q_fma(m2, q_fma(m2, y2, y1), y0);
    y *= j > 0.0 ? 0x1.965fea53d6e3dp-1 : j < 0.0 ? 0x1.428a2f98d728bp+0 : 1.0; /* 2^(-+1/3) */
    double e = q_fma(-a * y, y * y, 1.0); /* (1 - e)^(-1/3) = 1 + e/3 + 2 e^2/9 + 14 e^3/81 + ... */
    y = q_fma(y * e, q_fma(e, q_fma(e, 14.0 / 81, 2.0 / 9), 1.0 / 3), y);
    double yy = y * y, r = a * yy, r2 = r * r, d = q_fma(r2, r, -a) + q_fma(r, r, -r2) * r;
    r = q_fma(d, yy * (-1.0 / 3), r) * q_scale(q + Q_MAGIC_EXP);
    return q_copysign(ax > 0.0 && ax < Q_INF ? r : ax, x);
}

Q_FN double q_hypot(double x, double y)
{
    double p = q_abs(x), q = q_abs(y), a = p > q ? p : q, b = p > q ? q : p;
    double scale = a > 0x1p500 ? 0x1p-600 : a < 0x1p-400 ? 0x1p600 : 1.0;
    double back = a > 0x1p500 ? 0x1p600 : a < 0x1p-400 ? 0x1p-600 : 1.0;
    a *= scale;
    b *= scale;
    double r = q_root(q_fma(a, a, b * b)) * back;
    return p == Q_INF ? p : q == Q_INF ? q : r;
}

/* x - n y with n = trunc(x / y), exact: the rounded quotient is n or n + 1, and both remainders are
   doubles. */
Q_FN int q_fmod_rare(double x, double y) { return !(q_abs(x) < q_abs(y) * 0x1p52); }

Q_FN double q_fmod_main(double x, double y)
{
    double a = q_abs(x), b = q_abs(y), n = q_trunc(a / b), r = q_fma(-n, b, a);
    r = r < 0.0 ? r + b : r;
    return q_copysign(n == 0.0 ? a : r, x);
}

/* Long division, 11 bits of the quotient at a time */
static inline double q_fmod_slow(double x, double y)
{
    double a = q_abs(x), b = q_abs(y);
    if (!(a < Q_INF) || !(b > 0.0)) return Q_NAN;
    int ea = (int)(q_bits(a) >> 52), eb = (int)(q_bits(b) >> 52);
    uint64_t one = 0x0010000000000000u, ma = q_bits(a) & (one - 1), mb = q_bits(b) & (one - 1);
    if (ea) ma |= one; else ea = 1;
    if (eb) mb |= one; else eb = 1;
    for (int left = ea - eb; left > 0; left -= 11) ma = (ma % mb) << (left < 11 ? left : 11);
    ma %= mb;
    double r = (double)ma; /* exact; its unit is that of the last place of b */
    return q_copysign(r * q_from(eb > 52 ? (uint64_t)(eb - 52) << 52 : (uint64_t)1 << (eb - 1)), x);
}

static inline double q_fmod(double x, double y)
{
    return q_fmod_rare(x, y) ? q_fmod_slow(x, y) : q_fmod_main(x, y);
}
