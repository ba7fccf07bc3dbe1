/* elementwise.c: the derivative columns of ops.h as functions, and the elementwise ops that carry
   more than a row can say: powi, cast, stop_gradient, where.

   A helper d_<name> is a partial derivative that is no one-liner. Where a convention makes a
   derivative zero, it is a `where` with that zero: jvp never mixes the other branch in, and vjp
   masks it, so the convention holds at every order. */
#include "ops/rules.h"

/* ---- helpers of the d columns ---- */

/* 1 / (2 sqrt(x)), and 0 at 0 (of either sign). NaN for negatives, as z is. */
static Val d_sqrt(Val x, Val z)
{
    Val half = gdiv(glike(x, 0.5), z), zero = gzeros(x);
    return gwhere(gequal(x, zero), zero, half);
}

/* y x^(y-1); 0 where x is 0 and y < 1. */
static Val d_pow_x(Val x, Val y)
{
    Val one = glike(y, 1), low = gless(y, one), zero = gzeros(x);
    Val pole = glogical_and(gequal(x, zero), low), d = gmul(y, gpow(x, gsub(y, one)));
    return gwhere(pole, zero, d);
}

/* x^y ln x; 0 where x <= 0. */
static Val d_pow_y(Val x, Val y, Val z)
{
    (void)y;
    Val d = gmul(z, glog(x)), zero = gzeros(x);
    return gwhere(gless_equal(x, zero), zero, d);
}

/* num / (x^2 + y^2), computed with x and y scaled by s = |x| + |y| so that no square leaves the
   range; 0 where s is 0 or infinite. The value does not depend on s, so s counts as a constant and
   every higher order is exact without it. */
static Val over_square(Val num, Val x, Val y)
{
    Val high = gabs(y), s = gstop_gradient(gadd(gabs(x), high));
    Val a = gdiv(x, s), b = gdiv(y, s), bb = gmul(b, b), sum = gadd(gmul(a, a), bb);
    Val d = gdiv(gdiv(gdiv(num, s), sum), s), zero = gzeros(s);
    Val infinite = gequal(s, glike(s, __builtin_inf()));
    return gwhere(glogical_or(gequal(s, zero), infinite), zero, d);
}

/* The angle of the point (y, x): here x is the first operand, the ordinate. */
static Val d_atan2_x(Val x, Val y) { return over_square(y, x, y); }
static Val d_atan2_y(Val x, Val y) { return gneg(over_square(x, x, y)); }

/* x / z; 0 where the length z is 0. */
static Val d_ratio(Val x, Val z)
{
    Val d = gdiv(x, z), zero = gzeros(z);
    return gwhere(gequal(z, zero), zero, d);
}

/* 1 - x^2 without cancellation near 1 and -1. */
static Val d_one_minus_sq(Val x)
{
    Val more = gplus(1, x);
    return gmul(gminus(1, x), more);
}

/* sqrt(x^2 - 1), which overflows where x does */
static Val d_arccosh(Val x)
{
    Val more = gsqrt(gadd(x, glike(x, 1)));
    return gmul(gsqrt(gsub(x, glike(x, 1))), more);
}

/* 2 / sqrt(pi) exp(-x^2) */
static Val d_erf(Val x) { return gtimes(1.1283791670955125738961589031, gexp(gneg(gmul(x, x)))); }

/* ---- op_partial: one function per operand of every row ---- */

#define K(c) glike(x, c)
#define ZERO NONE
#define PARTIAL(fn, d) \
    static Val fn(Val x, Val y, Val z) { return (void)x, (void)y, (void)z, d; }
#define UNARY(name, in, out, value, rare, slow, d, ...) PARTIAL(dx_##name, d)
#define BINARY(name, in, out, value, rare, slow, dx, dy, ...) \
    PARTIAL(dx_##name, dx) PARTIAL(dy_##name, dy)
#include "ops.h"
#undef PARTIAL
#undef ZERO
#undef K

typedef Val Partial(Val x, Val y, Val z);
static Partial *const partials[OP_COUNT][2] = {
#define UNARY(name, ...) [OP_##name] = {dx_##name, NULL},
#define BINARY(name, ...) [OP_##name] = {dx_##name, dy_##name},
#include "ops.h"
};

Val op_partial(Op op, int k, Val x, Val y, Val z)
{
    Partial *p = k < 2 ? partials[op][k] : NULL;
    return p ? p(x, y, z) : NONE;
}

/* ---- powi: d/dx is i x^(i-1); 0 for i = 0, also at x = 0 ---- */

static bool powi_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    if (!rules_floating(g, n, x)) return false;
    if (n->attr->i < 0)
        return fail(g, QB_EVALUE, "powi: exponent %lld is negative; use pow with a float exponent",
                    (long long)n->attr->i);
    *out = *x;
    return true;
}

static Val powi_slope(const Node *n, Val x, Val t)
{
    int64_t i = n->attr->i;
    return i ? gmul(t, gtimes((double)i, gpowi(x, i - 1))) : NONE;
}

static void powi_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)g, (void)z;
    tz[0] = powi_slope(n, x[0], t[0]);
}

static void powi_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)z;
    out[0] = powi_slope(n, x[0], ct[0]);
}

const Rules powi_rules = {.infer = powi_infer, .jvp = powi_jvp, .vjp = powi_vjp};

/* ---- cast: linear between floating dtypes, constant to and from bool ---- */

static bool cast_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    int64_t dtype = n->attr->i;
    if (dtype < 0 || dtype >= QB_DTYPE_COUNT)
        return fail(g, QB_EDTYPE, "cast: no dtype has the number %lld", (long long)dtype);
    *out = *x;
    out->dtype = (uint8_t)dtype;
    out->weak = n->attr->start != 0;
    return true;
}

static void cast_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)x, (void)z;
    if (n->attr->i != QB_BOOL) tz[0] = graph_emit(g, OP_cast, t, 1, n->attr);
}

static void cast_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)n, (void)z;
    if (type_floating(type_of(x[0]))) out[0] = gcast(ct[0], type_of(x[0])->dtype);
}

const Rules cast_rules = {.infer = cast_infer, .jvp = cast_jvp, .vjp = cast_vjp};

/* ---- stop_gradient: the identity; its rules leave zero ---- */

static bool stop_gradient_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    (void)g, (void)n;
    *out = *x;
    return true;
}

static void nothing(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *out)
{
    (void)g, (void)n, (void)x, (void)z, (void)t, (void)out;
}

const Rules stop_gradient_rules = {.infer = stop_gradient_infer, .jvp = nothing, .vjp = nothing};

/* ---- where: linear in its branches; vjp.c adds the masks of the two cotangents ---- */

static bool where_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    (void)n;
    if (x[0].dtype != QB_BOOL)
        return fail(g, QB_EDTYPE, "where: the mask is %s; use astype(bool_)", TYPE_TEXT(&x[0]));
    if (!type_same_shape(&x[0], &x[1]) || !type_same(&x[1], &x[2]))
        return fail(
            g, x[1].dtype == x[2].dtype ? QB_ESHAPE : QB_EDTYPE,
            "where: %s, %s and %s; all need one shape, and the branches one dtype (use astype)",
            TYPE_TEXT(&x[0]), TYPE_TEXT(&x[1]), TYPE_TEXT(&x[2]));
    *out = x[1];
    out->weak = x[1].weak && x[2].weak;
    return true;
}

/* t in the branches where it is not zero */
static Val choose(Val mask, Val a, Val b)
{
    if (val_none(b)) return gselect0(mask, a);
    return gwhere(mask, val_none(a) ? gzeros(b) : a, b);
}

static void where_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)g, (void)n, (void)z;
    tz[0] = choose(x[0], t[1], t[2]);
}

static void where_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)n, (void)z;
    out[1] = choose(x[0], ct[0], NONE);
    out[2] = choose(x[0], NONE, ct[0]);
}

const Rules where_rules = {.infer = where_infer, .jvp = where_jvp, .vjp = where_vjp};
