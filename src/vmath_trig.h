/* Sine, cosine and tangent.

   x = k pi + r with |r| <= pi/2, so that one odd polynomial serves the whole circle; cos x is the
   sine with k a half integer. pi in three parts of 53 bits is enough below Q_TRIG_BIG; above, r is
   x times 1/pi in integers (Payne and Hanek 1983). */
#pragma once
#include "vmath.h"

#define Q_TRIG_BIG 0x1p30
#define Q_1_PI 0x1.45f306dc9c883p-2
#define Q_PI_1 0x1.921fb54442d18p+1
#define Q_PI_2 0x1.1a62633145c06p-53
#define Q_PI_3 0x1.c1cd129024e08p-106

/* sin r for |r| <= pi/2; (sin r - r) / r^3 is minimax to 2^-59. Near pi/2 the cubic term is large,
   so the rounding error of r^2 is put back and the first coefficient comes last and alone: 1.2 ulp
   in place of 2.2 there. The first two coefficients are moved by 1 and 7 units of their last
   places: up by 0.15 ulp near r = 1, where the cosine of a small x loses that much in r, and not up
   at pi/2. No result exceeds 1 (tried for every r within 2^-25 of pi/2). */
Q_FN double q_sin_poly(double r)
{
    double z = r * r, e = q_fma(r, r, -z), z2 = z * z;
    double a = q_fma(z, -0x1.a01a01a013538p-13, 0x1.11111111110b2p-7);
    double b = q_fma(z, -0x1.ae64545abb8a8p-26, 0x1.71de3a51c253dp-19);
    double c = q_fma(z, -0x1.ae39c467c57a4p-41, 0x1.6123aa900a174p-33);
    c = q_fma(z2, 0x1.871b88957f99ep-49, c);
    double t = q_fma(z2, q_fma(z2, q_fma(z2, c, b), a), e * -0.13);
    return q_fma(r, q_fma(z, -0x1.5555555555554p-3, t), r);
}

/* x - k pi */
Q_FN double q_pi_rest(double x, double k)
{
    return q_fma(k, -Q_PI_3, q_fma(k, -Q_PI_2, q_fma(k, -Q_PI_1, x)));
}

Q_FN int q_sin_rare(double x) { return !(q_abs(x) < Q_TRIG_BIG); }
Q_FN int q_cos_rare(double x) { return q_sin_rare(x); }

Q_FN double q_sin_main(double x)
{
    double a = q_abs(x), m = q_fma(a, Q_1_PI, Q_MAGIC);
    double s = q_sin_poly(q_pi_rest(a, m - Q_MAGIC));
    return q_from(q_bits(s) ^ (q_bits(x) & Q_SIGN) ^ (q_bits(m) << 63));
}

/* x = r + (j - 1/2) pi: cos x is (-1)^j sin r. */
Q_FN double q_cos_main(double x)
{
    double m = q_fma(x, Q_1_PI, 0.5) + Q_MAGIC;
    double s = q_sin_poly(q_pi_rest(x, m - Q_MAGIC - 0.5));
    return q_from(q_bits(s) ^ (q_bits(m) << 63));
}

/* (|x| / pi + shift / 2) for |x| >= 2^22, split into the nearest integer and a rest times pi:
   returns the rest, and the integer's parity in *odd. A product of the 53-bit significand with the
   192 bits of 1/pi that matter, modulo 2. */
static inline double q_pi_rest_big(double x, uint32_t shift, uint64_t *odd)
{
    static const uint32_t inv_pi[40] = { /* 32 zero bits, then the fraction of 1/pi */
        0x00000000, 0x517cc1b7, 0x27220a94, 0xfe13abe8, 0xfa9a6ee0, 0x6db14acc, 0x9e21c820,
        0xff28b1d5, 0xef5de2b0, 0xdb92371d, 0x2126e970, 0x03249775, 0x04e8c90e, 0x7f0ef58e,
        0x5894d39f, 0x74411afa, 0x975da242, 0x74ce3813, 0x5a2fbf20, 0x9cc8eb1c, 0xc1a99cfa,
        0x4e422fc5, 0xdefc941d, 0x8ffc4bff, 0xef02cc07, 0xf79788c5, 0xad05368f, 0xb69b3f67,
        0x93e584db, 0xa7a31fb3, 0x4f2ff516, 0xba93dd63, 0xf5f2f8bd, 0x9e839cfb, 0xc5294975,
        0x35fdafd8, 0x8fc6ae84, 0x2b019823, 0x7e3db5d5, 0xf867de10};
    uint64_t u = q_bits(x), sig = (u & 0x000fffffffffffffu) | 0x0010000000000000u;
    uint32_t p[6] = {0}; /* the product in units of 2^-191, least significant word first */
    int start = (int)(u >> 52 & 0x7ff) - 1075 + 31;
    for (int half = 0; half < 2; half++) {
        uint64_t f = half ? sig >> 32 : sig & 0xffffffffu, carry = 0;
        for (int i = half; i < 6; i++) {
            const uint32_t *w = inv_pi + start / 32 + (5 - i + half);
            uint64_t pair = (uint64_t)w[0] << 32 | w[1];
            uint64_t t = f * (uint32_t)(pair << start % 32 >> 32) + p[i] + carry;
            p[i] = (uint32_t)t;
            carry = t >> 32;
        }
    }
    p[5] += (1 + shift) << 30; /* half an integer up: truncation is now rounding */
    *odd = p[5] >> 31;
    p[5] = (p[5] & 0x7fffffffu) - 0x40000000u;
    uint32_t neg = p[5] >> 31 ? 0xffffffffu : 0;
    for (int i = 0; i < 6; i++) p[i] ^= neg; /* one's complement: off by 2^-191 only */
    double unit = 0x1p-31 * Q_PI_1;
    int top = p[5] ? 5 : p[4] ? 4 : 3; /* the rest is never below 2^-70 */
    for (int i = 5; i > top; i--) unit *= 0x1p-32;
    double h = (double)p[top] * 0x1p32 + (double)(p[top - 1] & 0xffff0000u);
    double l = (double)(p[top - 1] & 0xffffu) + (double)p[top - 2] * 0x1p-32;
    unit *= 0x1p-32;
    h = q_fma(h, unit, h * (unit * (Q_PI_2 / Q_PI_1)) + l * unit);
    return neg ? -h : h;
}

static inline double q_sin_slow(double x)
{
    if (!(q_abs(x) < Q_INF)) return Q_NAN;
    uint64_t odd;
    double s = q_sin_poly(q_pi_rest_big(x, 0, &odd));
    return q_from(q_bits(s) ^ (q_bits(x) & Q_SIGN) ^ odd << 63);
}

static inline double q_cos_slow(double x)
{
    if (!(q_abs(x) < Q_INF)) return Q_NAN;
    uint64_t odd;
    double s = q_sin_poly(q_pi_rest_big(x, 1, &odd));
    return q_from(q_bits(s) ^ odd << 63);
}

static inline double q_sin(double x) { return q_sin_rare(x) ? q_sin_slow(x) : q_sin_main(x); }
static inline double q_cos(double x) { return q_cos_rare(x) ? q_cos_slow(x) : q_cos_main(x); }

/* r cot r for |r| <= pi/4, minimax to 2^-55. A polynomial in r^2 - 5/16: about the middle, the
   terms beside the constant are small and so are their rounding errors. */
Q_FN double q_cot_poly(double r)
{
    double z = q_fma(r, r, -0.3125), z2 = z * z, z4 = z2 * z2;
    double a = q_fma(z, -0x1.8ebda2f82f613p-6, -0x1.6437cfe8f5c9fp-2);
    double b = q_fma(z, -0x1.048866840aed4p-12, -0x1.3afeecffead6fp-9);
    double c = q_fma(z, -0x1.6bde4dec1925bp-19, -0x1.b2f9bb80a52p-16);
    double d = q_fma(z, -0x1.ff3829a9deb84p-26, -0x1.3089b3e9bb724p-22);
    d = q_fma(z2, -0x1.ab0d492bea1aap-29, d);
    return q_fma(z, q_fma(z4, q_fma(z2, d, c), q_fma(z2, b, a)), 0x1.c9857bc2b8555p-1);
}

/* x = k pi/2 + r with |r| <= pi/4: tan x is r / (r cot r), or minus its inverse when k is odd */
Q_FN double q_tan_of(double r, uint64_t odd)
{
    double e = q_cot_poly(r);
    return (odd ? -e : r) / (odd ? r : e);
}

Q_FN int q_tan_rare(double x) { return q_sin_rare(x); }

Q_FN double q_tan_main(double x)
{
    double a = q_abs(x), m = q_fma(a, 2.0 * Q_1_PI, Q_MAGIC);
    double t = q_tan_of(q_pi_rest(a, 0.5 * (m - Q_MAGIC)), q_bits(m) & 1);
    return q_from(q_bits(t) ^ (q_bits(x) & Q_SIGN));
}

/* A rest beyond pi/4 is reduced again with the half shift: an odd multiple of pi/2 goes. */
static inline double q_tan_slow(double x)
{
    if (!(q_abs(x) < Q_INF)) return Q_NAN;
    uint64_t odd, half = 0;
    double r = q_pi_rest_big(x, 0, &odd);
    if (q_abs(r) > 0.25 * Q_PI_1) {
        half = 1;
        r = q_pi_rest_big(x, 1, &odd);
    }
    double t = q_tan_of(r, half);
    return q_from(q_bits(t) ^ (q_bits(x) & Q_SIGN));
}

static inline double q_tan(double x) { return q_tan_rare(x) ? q_tan_slow(x) : q_tan_main(x); }
