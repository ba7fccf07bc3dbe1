/* compose.c: the composites of composites.h, in terms of ops.

   Conventions at special points are choices among formulas with equal values: a tie goes where the `where` sends it, and what
   is only there for the range (the largest element that softmax subtracts) is a constant to every derivative. Operands come
   promoted and of one shape. */
#include "ir/ir.h"

typedef Val Compose(Graph *g, const Val *x, const Attr *a);

static Val number(Val x, double c) { return glike(x, c); }
static Val is_nan(Val x) { return gnot_equal(x, x); }
static Val inf_of(Val x) { return number(x, __builtin_inf()); }

static Val is_inf(Val x)
{
    Val inf = inf_of(x);
    return gequal(gabs(x), inf);
}

static Val is_finite(Val x)
{
    Val inf = inf_of(x);
    return gless(gabs(x), inf);
}

/* ---- elementwise ---- */

#define COMPOSE(name)                                                    \
    static Val name##_of(__attribute__((unused)) Graph *g, const Val *x, \
                         __attribute__((unused)) const Attr *a)

COMPOSE(square) { return gmul(x[0], x[0]); }
COMPOSE(reciprocal) { return grecip(x[0]); }
COMPOSE(isnan) { return is_nan(x[0]); }
COMPOSE(isinf) { return is_inf(x[0]); }
COMPOSE(isfinite) { return is_finite(x[0]); }

/* NaN is not <= 0, and so stays. */
COMPOSE(relu)
{
    Val zero = gzeros(x[0]);
    return gwhere(gless_equal(x[0], zero), zero, x[0]);
}

COMPOSE(silu) { return gmul(x[0], gsigmoid(x[0])); }

/* Hendrycks and Gimpel 2016. erfc keeps the relative accuracy of the negative tail. 1 + tanh u is 2 sigmoid(2u). */
COMPOSE(gelu)
{
    Val v = x[0];
    if (!a->i) {
        Val tail = gerfc(gmul(v, number(v, -0.707106781186547524400844)));
        return gmul(gtimes(0.5, v), tail);
    }
    Val cube = gmul(gmul(v, v), v), u = gadd(v, gmul(number(v, 0.044715), cube));
    return gmul(v, gsigmoid(gmul(number(v, 1.595769121605730711759763), u)));
}

COMPOSE(maximum) { return gmax2(x[0], x[1]); }

static Val smaller(Val x, Val y)
{
    Val nan = is_nan(x);
    return gwhere(glogical_or(gless(x, y), nan), x, y);
}

COMPOSE(minimum) { return smaller(x[0], x[1]); }
COMPOSE(clip) { return smaller(gmax2(x[0], x[1]), x[2]); }

/* fmod has the sign of x; where that is the wrong one, y is added. Adding 0 makes -0 to +0 and changes nothing else; a negative y
   wants it the other way. */
static Val floor_mod(Val x, Val y)
{
    Val zero = gzeros(x), r = gfmod(x, y), below = gless(y, zero);
    Val apart = gnot_equal(gless(r, zero), below), wrong = glogical_and(gnot_equal(r, zero), apart);
    Val m = gwhere(wrong, gadd(r, y), r), up = gadd(m, zero);
    return gwhere(below, gneg(gadd(gneg(m), zero)), up);
}

COMPOSE(mod) { return floor_mod(x[0], x[1]); }
COMPOSE(remainder) { return floor_mod(x[0], x[1]); }

/* The quotient less its remainder is within rounding of an integer, which floor may just miss. A zero has the sign of the
   quotient. */
COMPOSE(floor_divide)
{
    Val zero = gzeros(x[0]), q = gdiv(x[0], x[1]), r = gfmod(x[0], x[1]);
    Val d = gdiv(gsub(x[0], r), x[1]), below = gless(x[1], zero);
    Val apart = gnot_equal(gless(r, zero), below), wrong = glogical_and(gnot_equal(r, zero), apart);
    d = gwhere(wrong, gsub(d, number(d, 1)), d);
    Val f = gfloor(d), above = gadd(f, number(f, 1)), half = number(d, 0.5);
    f = gwhere(ggreater(gsub(d, f), half), above, f);
    Val signed_zero = gmul(q, zero);
    f = gwhere(gequal(d, zero), signed_zero, f);
    return gstop_gradient(gwhere(gequal(x[1], zero), q, f));
}

/* hi + log1p(exp(lo - hi)): at a tie half of the derivative goes to each side. Equal infinities have no difference; there it is
   their mean. */
COMPOSE(logaddexp)
{
    Val more = ggreater(x[0], x[1]), hi = gwhere(more, x[0], x[1]), lo = gwhere(more, x[1], x[0]);
    Val half = number(hi, 0.5), right = gmul(half, x[1]), mean = gadd(gmul(half, x[0]), right);
    Val infinite = is_inf(x[0]), same = glogical_and(gequal(x[0], x[1]), infinite);
    return gwhere(same, mean, gadd(hi, glog1p(gexp(gsub(lo, hi)))));
}

/* x, and what stands for NaN, inf and -inf */
COMPOSE(nan_to_num)
{
    double inf = __builtin_inf();
    Val v = gwhere(gequal(x[0], number(x[0], -inf)), x[3], x[0]);
    v = gwhere(gequal(x[0], number(x[0], inf)), x[2], v);
    return gwhere(is_nan(x[0]), x[1], v);
}

/* ---- over axes ---- */

/* The axes of a reduction, sorted, and the operand's shape with length 1 there. */
typedef struct {
    int n;
    int64_t at[QB_MAX_RANK], count;
    Type ones;
} Axes;

static bool axes_of(Graph *g, int op, Val x, const Attr *a, Axes *r)
{
    int64_t axes[QB_MAX_RANK];
    r->ones = *type_of(x);
    r->count = 1;
    int n = apply_axes(g, op, type_of(x), a, axes);
    if (n < 0) return false;
    bool gone[QB_MAX_RANK] = {false};
    for (int i = 0; i < n; i++) gone[axes[i]] = true;
    r->n = 0;
    for (int i = 0; i < r->ones.rank; i++) {
        if (!gone[i]) continue;
        r->at[r->n++] = i;
        r->count *= r->ones.dims[i];
        r->ones.dims[i] = 1;
    }
    return true;
}

static Val reduce(Op op, Val x, const Axes *r) { return greduce(op, x, r->at, r->n); }

/* A reduced value repeated along the axes again. */
static Val spread(Val v, const Axes *r, Val x)
{
    return gexpand(greshape(v, r->ones.rank, r->ones.dims), x);
}

typedef Val Over(Val x, const Axes *r, const Attr *a);

/* Elements `at` .. at + n of v where v has become the products of its elements i and i + half of it, `level` times. */
static Val pairs(Val v, int level, int64_t at, int64_t n)
{
    if (level == 0) return gslice(v, 1, at, n, 1);
    Val second = pairs(v, level - 1, at + (type_of(v)->dims[1] >> level), n);
    return gmul(pairs(v, level - 1, at, n), second);
}

/* Element i times element i + h, h half of what is left; an odd one out waits for the next round. Up to three rounds are one step,
   which reads slices of what is there before them. */
static Val prod_over(Val x, const Axes *r, const Attr *a)
{
    (void)a;
    Type kept = {0}, t = *type_of(x);
    int64_t order[QB_MAX_RANK], n = r->count, flat[3] = {1, n, 1};
    const int first = r->n ? (int)r->at[0] : 0;
    const bool together = r->n == 0 || r->at[r->n - 1] - first == r->n - 1;
    for (int i = 0; i < r->n; i++) order[i] = r->at[i];
    for (int i = 0, k = 0; i < t.rank; i++) {
        if (k < r->n && r->at[k] == i) {
            k++;
            continue;
        }
        flat[together && i < first ? 0 : 2] *= t.dims[i];
        order[r->n + kept.rank] = i;
        kept.dims[kept.rank++] = t.dims[i];
    }
    Val v = greshape(together ? x : gtranspose(x, order), 3, flat);
    while (n > 1 && !val_none(v)) {
        int levels = n % 8 == 0 ? 3 : n % 4 == 0 ? 2 : 1;
        int64_t h = n >> levels;
        Val made = pairs(v, levels, 0, h);
        v = n % 2 ? gconcat(v.graph, (Val[]){made, gslice(v, 1, n - 1, 1, 1)}, 2, 1) : made;
        n = h + n % 2;
    }
    return greshape(v, kept.rank, kept.dims);
}

static Val truth(Val x, const Axes *r, Op op)
{
    return gcast(reduce(op, gcast(gcast(x, QB_BOOL), QB_F32), r), QB_BOOL);
}

static Val any_over(Val x, const Axes *r, const Attr *a) { return (void)a, truth(x, r, OP_max); }
static Val all_over(Val x, const Axes *r, const Attr *a) { return (void)a, truth(x, r, OP_min); }

/* m sqrt(sum((x / m)^2)) with m the largest magnitude, or 1 where that is no divisor. The norm does not depend on m. */
static Val norm_over(Val x, const Axes *r, const Attr *a)
{
    (void)a;
    Val m = gstop_gradient(reduce(OP_max, gabs(x), r)), one = number(m, 1);
    Val apart = gnot_equal(m, gzeros(m));
    m = gwhere(glogical_and(is_finite(m), apart), m, one);
    Val y = gdiv(x, spread(m, r, x));
    return gmul(m, gsqrt(reduce(OP_sum, gmul(y, y), r)));
}

static Val var_over(Val x, const Axes *r, const Attr *a)
{
    Val d = gsub(x, spread(reduce(OP_mean, x, r), r, x)), sum = reduce(OP_sum, gmul(d, d), r);
    double divisor = (double)r->count - a->f;
    return gdiv(sum, number(sum, divisor > 0 ? divisor : 0));
}

static Val std_over(Val x, const Axes *r, const Attr *a) { return gsqrt(var_over(x, r, a)); }

static Val logsumexp_over(Val x, const Axes *r, const Attr *a)
{
    (void)a;
    Val m = gstop_gradient(reduce(OP_max, x, r));
    Val zero = gzeros(m);
    m = gwhere(is_finite(m), m, zero);
    return gadd(glog(reduce(OP_sum, gexp(gsub(x, spread(m, r, x))), r)), m);
}

/* x less its largest element */
static Val shifted(Val x, const Axes *r)
{
    return gsub(x, spread(gstop_gradient(reduce(OP_max, x, r)), r, x));
}

static Val softmax_over(Val x, const Axes *r, const Attr *a)
{
    (void)a;
    Val e = gexp(shifted(x, r));
    return gdiv(e, spread(reduce(OP_sum, e, r), r, x));
}

static Val log_softmax_over(Val x, const Axes *r, const Attr *a)
{
    (void)a;
    Val y = shifted(x, r);
    return gsub(y, spread(glog(reduce(OP_sum, gexp(y), r)), r, x));
}

/* ---- the table ---- */

typedef enum { ELEMENT, TEST, REDUCE, AXIS } Form;
typedef struct {
    uint8_t form;
    Compose *elementwise;
    Over *over;
} Row;

#define FORM_ELEMENT(name) {ELEMENT, name##_of, NULL},
#define FORM_TEST(name) {TEST, name##_of, NULL},
#define FORM_REDUCE(name) {REDUCE, NULL, name##_over},
#define FORM_AXIS(name) {AXIS, NULL, name##_over},
static const Row rows[] = {
#define COMPOSITE(name, form, ...) FORM_##form(name)
#include "composites.h"
};

Val compose_apply(Graph *g, int op, Val *x, int n, const Attr *a)
{
    const Row *row = &rows[op - OP_COUNT];
    bool truth = row->over == any_over || row->over == all_over;
    if (!apply_promote(g, op, x, n, truth)) return NONE;
    if (row->elementwise) return apply_together(g, op, x, n) ? row->elementwise(g, x, a) : NONE;
    Axes r;
    const Attr *axes = row->form == AXIS ? &(Attr){.n = 1, .list = {a->i}} : a;
    if (!axes_of(g, op, x[0], axes, &r)) return NONE;
    Val v = row->over(x[0], &r, a);
    return row->form == REDUCE && a->keepdims ? greshape(v, r.ones.rank, r.ones.dims) : v;
}
