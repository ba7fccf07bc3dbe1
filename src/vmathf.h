/* Native float32 functions, for precision="float32": the methods of their double counterparts in
   vmath.h with shorter polynomials (a third of the time), within 2.5 ulp. */
#pragma once
#include "vmath.h"

#ifndef q_fmaf
#define q_fmaf __builtin_fmaf
#endif

#define Q_SIGNF 0x80000000u
#define Q_INFF __builtin_inff()
#define Q_MAGICF 12582912.0f /* 1.5 * 2^23 */
#define Q_MAGICF_EXP (Q_MAGICF + 127.0f)
#define Q_LOG2EF 0x1.715476p+0f
#define Q_LN2F_HI 0x1.62e43p-1f
#define Q_LN2F_LO -0x1.05c61p-29f
#define Q_TRIGF_BIG 0x1p14f

Q_FN uint32_t q_bits32(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
Q_FN float q_from32(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
Q_FN float q_abs32(float x) { return q_from32(q_bits32(x) & ~Q_SIGNF); }
Q_FN float q_with_signf(float y, float x)
{
    return q_from32(q_bits32(y) | (q_bits32(x) & Q_SIGNF));
}

Q_FN float q_scalef(float m) { return q_from32(q_bits32(m) << 23); }

Q_FN float q_clampf(float x, float limit)
{
    float a = q_abs32(x);
    return q_with_signf(a > limit ? limit : a, x);
}

/* (e^r - 1 - r) / r^2 for |r| <= ln2/2 */
Q_FN float q_exp_tailf(float r, float r2)
{
    float t0 = q_fmaf(r, 0x1.5554e8p-5f, 0x1.5554dcp-3f);
    return q_fmaf(r, q_fmaf(r2, q_fmaf(r, 0x1.6d4e78p-10f, 0x1.120c38p-7f), t0), 0.5f);
}

/* p 2^k, m = k + Q_MAGICF_EXP: two factors, so that only the last product rounds */
Q_FN float q_scale_widef(float p, float m)
{
    float h = q_fmaf(m - Q_MAGICF_EXP, 0.5f, Q_MAGICF_EXP);
    return p * q_scalef(h) * q_scalef(m - (h - Q_MAGICF_EXP));
}

Q_FN float q_expf(float x)
{
    float y = q_clampf(x, 120.0f), m = q_fmaf(y, Q_LOG2EF, Q_MAGICF_EXP), k = m - Q_MAGICF_EXP;
    float r = q_fmaf(k, -Q_LN2F_LO, q_fmaf(k, -Q_LN2F_HI, y)), r2 = r * r;
    return q_scale_widef(1.0f + q_fmaf(r2, q_exp_tailf(r, r2), r), m);
}

Q_FN float q_exp2f(float x)
{
    float y = q_clampf(x, 200.0f), m = y + Q_MAGICF_EXP;
    float r = (y - (m - Q_MAGICF_EXP)) * 0x1.62e43p-1f, r2 = r * r;
    return q_scale_widef(1.0f + q_fmaf(r2, q_exp_tailf(r, r2), r), m);
}

Q_FN float q_expm1f(float x)
{
    float y = q_clampf(x, 89.0f), m = q_fmaf(y, Q_LOG2EF, Q_MAGICF_EXP), k = m - Q_MAGICF_EXP;
    float r = q_fmaf(k, -Q_LN2F_LO, q_fmaf(k, -Q_LN2F_HI, y)), r2 = r * r;
    float s = q_scalef(m - 1.0f);
    float e = 2.0f * q_fmaf(s, q_fmaf(r2, q_exp_tailf(r, r2), r), s - 0.5f);
    e = x < -18.0f ? -1.0f : e;
    return q_abs32(x) < 0x1p-25f ? x : e;
}

Q_FN float q_tanhf(float x)
{
    float a = q_abs32(x);
    a = a > 10.0f ? 10.0f : a;
    float m = q_fmaf(a, -2.0f * Q_LOG2EF, Q_MAGICF_EXP), k = m - Q_MAGICF_EXP, s = q_scalef(m);
    float r = q_fmaf(k, 0.5f * Q_LN2F_LO, q_fmaf(k, 0.5f * Q_LN2F_HI, a)), z = r * r;
    float t = q_fmaf(z, q_fmaf(z, -0x1.b2173cp-5f, 0x1.110b3ap-3f), -0x1.555554p-2f);
    t = q_fmaf(r * z, t, r);
    float u = 1.0f - s, v = 1.0f + s;
    return q_with_signf(q_fmaf(v, t, u) / q_fmaf(u, t, v), x);
}

Q_FN float q_sinf_of(float x, float k)
{
    float r = q_fmaf(k, -0x1.921fb6p+1f, x);
    r = q_fmaf(k, 0x1.ee59dap-49f, q_fmaf(k, 0x1.777a5cp-24f, r));
    float z = r * r, z2 = z * z;
    float p0 = q_fmaf(z, -0x1.a02e4p-13f, 0x1.11114ap-7f);
    float p = q_fmaf(z2, q_fmaf(z, -0x1.dfcc6p-26f, 0x1.7474c4p-19f), p0), e = q_fmaf(r, r, -z);
    p = q_fmaf(z, p, -0x1.555556p-3f);
    return q_fmaf(r, q_fmaf(z, p, e * -0.14f), r); /* as in vmath_trig.h; never above 1 */
}

/* Beyond 2^14 the double functions serve, rounded. */
Q_FN int q_sinf_rare(float x) { return !(q_abs32(x) < Q_TRIGF_BIG); }
Q_FN int q_cosf_rare(float x) { return q_sinf_rare(x); }

Q_FN float q_sinf_main(float x)
{
    float a = q_abs32(x), m = q_fmaf(a, 0x1.45f306p-2f, Q_MAGICF), s = q_sinf_of(a, m - Q_MAGICF);
    return q_from32(q_bits32(s) ^ (q_bits32(x) & Q_SIGNF) ^ (q_bits32(m) << 31));
}

Q_FN float q_cosf_main(float x)
{
    float m = q_fmaf(x, 0x1.45f306p-2f, 0.5f) + Q_MAGICF, s = q_sinf_of(x, m - Q_MAGICF - 0.5f);
    return q_from32(q_bits32(s) ^ (q_bits32(m) << 31));
}

static inline float q_sinf_slow(float x) { return (float)q_sin(x); }
static inline float q_cosf_slow(float x) { return (float)q_cos(x); }
static inline float q_sinf(float x) { return q_sinf_rare(x) ? q_sinf_slow(x) : q_sinf_main(x); }
static inline float q_cosf(float x) { return q_cosf_rare(x) ? q_cosf_slow(x) : q_cosf_main(x); }

/* The sums of vmath_hyp.h, of Taylor's polynomials: enough for |r| <= ln2/2 */
Q_FN float q_sinh_coshf(float a, float sign)
{
    a = a > 89.5f ? 89.5f : a; /* both are infinite there */
    float m = q_fmaf(a, Q_LOG2EF, Q_MAGICF_EXP), k = m - Q_MAGICF_EXP;
    float r = q_fmaf(k, -Q_LN2F_LO, q_fmaf(k, -Q_LN2F_HI, a)), z = r * r;
    float s =
        q_fmaf(r * z, q_fmaf(z, q_fmaf(z, 0x1.a01a02p-13f, 0x1.111112p-7f), 0x1.555556p-3f), r);
    float d = z * q_fmaf(z, q_fmaf(z, 0x1.6c16c2p-10f, 0x1.555556p-5f), 0.5f);
    float up = q_scalef(m - 2.0f), down = k > 30.0f ? 0.0f : q_scalef(Q_MAGICF_EXP - 2.0f - k);
    float p = up - sign * down, q = up + sign * down;
    return p + q_fmaf(p, d, q * s);
}

Q_FN float q_sinhf(float x)
{
    float a = q_abs32(x), y = 2.0f * q_sinh_coshf(a, 1.0f);
    return q_with_signf(a < 0x1p-13f ? a : q_abs32(y), x);
}

Q_FN float q_coshf(float x) { return 2.0f * q_sinh_coshf(q_abs32(x), -1.0f); }

/* ---- logarithms: x = (1 + f) 2^k ---- */
Q_FN float q_splitf(float x, float *k)
{
    const uint32_t root = 0x3f3504f3u;
    uint32_t u = q_bits32(x * (x < 0x1p-126f ? 0x1p24f : 1.0f)) + (0x3f800000u - root);
    *k = q_from32((u >> 23) | 0x4b000000u) - (x < 0x1p-126f ? 0x1p23f + 151.0f : 0x1p23f + 127.0f);
    return q_from32((u & 0x007fffffu) + root) - 1.0f;
}

/* f^2/2 - (f - log(1 + f)), see q_log_tail */
Q_FN float q_log_tailf(float f)
{
    float s = f / (2.0f + f), z = s * s;
    float t = z * q_fmaf(z, q_fmaf(z, 0x1.2ef9dcp-2f, 0x1.997b8ap-2f), 0x1.55555cp-1f);
    return s * q_fmaf(0.5f * f, f, t);
}

Q_FN float q_log_endsf(float x, float y)
{
    y = x < Q_INFF ? y : x;
    y = x < 0.0f ? (float)Q_NAN : y;
    return x == 0.0f ? -Q_INFF : y;
}

Q_FN float q_logf(float x)
{
    float k, f = q_splitf(x, &k), t = q_fmaf(k, Q_LN2F_LO, q_log_tailf(f));
    return q_log_endsf(x, q_fmaf(k, Q_LN2F_HI, f - q_fmaf(0.5f * f, f, -t)));
}

/* c: what u = 1 + x loses, as in q_log1p */
Q_FN float q_log1pf(float x)
{
    float u = 1.0f + x, b = u - 1.0f, c = (1.0f - (u - b)) + (x - b);
    c = x < 0x1p30f ? c / u : 0.0f;
    float k, f = q_splitf(u, &k), t = q_fmaf(k, Q_LN2F_LO, q_log_tailf(f)) + c;
    float y = q_fmaf(k, Q_LN2F_HI, f - q_fmaf(0.5f * f, f, -t));
    return q_log_endsf(u, q_with_signf(q_abs32(y), x));
}

Q_FN float q_log2f(float x)
{
    float k, f = q_splitf(x, &k), l = f - q_fmaf(0.5f * f, f, -q_log_tailf(f));
    return q_log_endsf(x, q_fmaf(l, Q_LOG2EF, k));
}

Q_FN float q_log10f(float x)
{
    float k, f = q_splitf(x, &k), l = f - q_fmaf(0.5f * f, f, -q_log_tailf(f));
    float y = q_fmaf(l, 0x1.bcb7b2p-2f, k * 0x1.3509f8p-18f); /* log10 e, the rest of log10 2 */
    return q_log_endsf(x, q_fmaf(k, 0x1.344p-2f, y));
}

Q_FN float q_sigmoidf(float x)
{
    float z = q_expf(-q_abs32(x));
    return (x > 0.0f ? 1.0f : z) / (1.0f + z);
}

Q_FN float q_softplusf(float x)
{
    return (x > 0.0f ? x : 0.0f) + q_log1pf(q_expf(-q_abs32(x)));
}
