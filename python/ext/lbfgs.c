/* lbfgs.c: Lbfgs(params, ...): minimization that asks for values instead of calling a function.

   `point` is where the value and the gradient are wanted next; tell(value, grads) takes them,
   moves on and says whether more is wanted. So the function may be anything that Python can call,
   an exception or Ctrl-C in it finds a sound state here, and the work outside the function is a
   few passes over flat float64 vectors.

   Two-loop recursion (Nocedal 1980) from H0 = (s'y / y'y) I. The line search looks for the strong
   Wolfe conditions by bracketing and a safeguarded cubic (Nocedal and Wright, Numerical
   Optimization, 2nd ed., algorithms 3.5 and 3.6): `lo` is the best point so far that decreases f
   enough, `hi` the other end. Where f changes by less than its own rounding, the slopes alone
   decide (approximate Wolfe conditions: Hager and Zhang 2005). Whatever happens, a run never ends
   at a point worse than one it had.

   All that a run needs lies in one block of float64: `Head`, then vectors of n. The block is the
   saved state. */
#include "ext.h"
#include <float.h>

#define C1 1e-4
#define C2 0.9
enum { SEARCH_MAX = 25 };

typedef enum { RUNNING, GRADIENT, CHANGE, ITERATIONS, EVALUATIONS, SEARCH_FAILED, REASONS } Reason;
static const char *const reason_names[REASONS] = {"running",          "gradient_tolerance",
                                                  "change_tolerance", "max_iterations",
                                                  "max_evaluations",  "line_search_failed"};

typedef struct {
    double t, f, slope;
} Point;
typedef struct {
    double f, grad_norm, iterations, evaluations, reason; /* of the point that is kept: x */
    double best_f, best_norm; /* of `best`; below f only after a step within the rounding of f */
    double started, failed;   /* f at the first point is known; the last search failed */
    double count, next;       /* pairs in the history, where the next one goes */
    double slope, t, tries, has_hi, hi_finite, width; /* the search: g'd, the trial step, ... */
    Point lo, hi;
} Head;
typedef struct {
    double max_iterations, max_evaluations, tolerance_grad, tolerance_change, noise;
} Limits;
typedef struct {
    PyObject_HEAD TreeDef *tree;
    Leaves leaves; /* of the first point: their types are those of every point */
    Limits limits;
    int64_t n, m, total; /* entries, pairs kept, doubles of the block */
    Head *head;          /* the block */
    double *x, *g, *d, *trial, *trial_g, *lo_g, *best, *s, *y, *rho;
} Lbfgs;

/* ---- vectors; sums in eight lanes and a fixed tree, so the same bits everywhere ---- */

/* Twice in the program, once for wider vectors; the loader picks one. */
#if defined(__x86_64__) && defined(__gnu_linux__)
#define CLONED __attribute__((target_clones("avx2", "default")))
#else
#define CLONED
#endif

enum { LANES = 8 };
typedef double V __attribute__((vector_size(32), aligned(8), may_alias));

static double sum_of(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

CLONED static double dot(const double *a, const double *b, int64_t n)
{
    double lane[LANES];
    V sum[2] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        sum[0] += *(const V *)(a + i) * *(const V *)(b + i);
        sum[1] += *(const V *)(a + i + 4) * *(const V *)(b + i + 4);
    }
    memcpy(lane, sum, sizeof lane);
    for (int k = 0; i < n; i++, k++) lane[k] += a[i] * b[i];
    return sum_of(lane);
}

/* d += a x, and the dot product of d and z, in one pass. */
CLONED static double add_dot(double *d, double a, const double *x, const double *z, int64_t n)
{
    double lane[LANES];
    V sum[2] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const V low = *(V *)(d + i) + a * *(const V *)(x + i),
                high = *(V *)(d + i + 4) + a * *(const V *)(x + i + 4);
        *(V *)(d + i) = low;
        *(V *)(d + i + 4) = high;
        sum[0] += low * *(const V *)(z + i);
        sum[1] += high * *(const V *)(z + i + 4);
    }
    memcpy(lane, sum, sizeof lane);
    for (int k = 0; i < n; i++, k++) {
        d[i] += a * x[i];
        lane[k] += d[i] * z[i];
    }
    return sum_of(lane);
}

CLONED static double largest(const double *x, int64_t n) /* of |x|; NaN where there is one */
{
    const double squares = dot(x, x, n);
    double lane[LANES] = {0}, top = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            const double a = fabs(x[i + k]);
            lane[k] = a > lane[k] ? a : lane[k];
        }
    for (int k = 0; i < n; i++, k++) lane[k] = fabs(x[i]) > lane[k] ? fabs(x[i]) : lane[k];
    for (int k = 0; k < LANES; k++) top = lane[k] > top ? lane[k] : top;
    return squares != squares ? squares : top;
}

static double norm(const double *x, int64_t n) /* does not overflow */
{
    const double plain = dot(x, x, n);
    if (plain > DBL_MIN && plain <= DBL_MAX) return sqrt(plain);
    const double top = largest(x, n);
    if (!(top > 0 && top <= DBL_MAX)) return top;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (x[i] / top) * (x[i] / top);
    return top * sqrt(sum);
}

/* ---- directions ---- */

static void forget(Lbfgs *l) { l->head->count = l->head->next = 0; }

/* The pair of the step to `trial`; one without positive curvature is left out. */
static void remember(Lbfgs *l)
{
    Head *h = l->head;
    const int64_t at = (int64_t)h->next, n = l->n;
    double *s = l->s + at * n, *y = l->y + at * n;
    for (int64_t i = 0; i < n; i++) {
        s[i] = l->trial[i] - l->x[i];
        y[i] = l->trial_g[i] - l->g[i];
    }
    const double sy = dot(s, y, n);
    if (!(sy > 1e-10 * norm(s, n) * norm(y, n)) || !(1 / sy <= DBL_MAX)) return;
    l->rho[at] = 1 / sy;
    h->next = (double)((at + 1) % l->m);
    if (h->count < (double)l->m) h->count++;
}

/* The pair that is `back` steps old, 1 the newest: its row in s, y, rho and alpha. */
static int64_t row(const Lbfgs *l, int64_t back)
{
    return ((int64_t)l->head->next - back + l->m) % l->m;
}

/* d = -H g by the two loops; false when there is no history or d does not descend. Each pass over
   d also takes the product that the next one needs. */
static bool two_loops(Lbfgs *l)
{
    Head *h = l->head;
    const int64_t n = l->n, count = (int64_t)h->count;
    double *alpha = l->rho + l->m;
    if (!count) return false;
    const int64_t last = row(l, 1);
    const double size = norm(l->y + last * n, n), scale = 1 / (l->rho[last] * size) / size;
    for (int64_t i = 0; i < n; i++) l->d[i] = -l->g[i];
    double product = dot(l->s + last * n, l->d, n);
    for (int64_t k = 1; k <= count; k++) {
        const int64_t i = row(l, k);
        const double *then = l->s + row(l, k < count ? k + 1 : k) * n;
        alpha[i] = l->rho[i] * product;
        product = add_dot(l->d, -alpha[i], l->y + i * n, then, n);
    }
    for (int64_t i = 0; i < n; i++) l->d[i] *= scale;
    product = dot(l->y + row(l, count) * n, l->d, n);
    for (int64_t k = count; k >= 1; k--) {
        const int64_t i = row(l, k);
        const double *then = k > 1 ? l->y + row(l, k - 1) * n : l->g;
        product = add_dot(l->d, alpha[i] - l->rho[i] * product, l->s + i * n, then, n);
    }
    h->slope = product;
    return h->slope < 0 && h->slope >= -DBL_MAX;
}

/* Steepest descent, at most of length 1. */
static void steepest(Lbfgs *l)
{
    forget(l);
    const double size = norm(l->g, l->n), scale = size > 1 ? 1 / size : 1;
    for (int64_t i = 0; i < l->n; i++) l->d[i] = -l->g[i] * scale;
    l->head->slope = -size * (size > 1 ? 1 : size);
}

/* trial = x + t d, rounded to the dtypes of the parameters. */
static void move(Lbfgs *l, double t)
{
    int64_t at = 0;
    for (int64_t i = 0; i < l->n; i++) l->trial[i] = l->x[i] + t * l->d[i];
    for (Py_ssize_t k = 0; k < l->leaves.n; k++) {
        const qb_type *type = array_type(l->leaves.v[k]);
        const int64_t end = at + qb_type_size(type);
        for (; type->dtype == QB_F32 && at < end; at++) l->trial[at] = (double)(float)l->trial[at];
        at = end;
    }
}

/* Is there a point at step t, other than x? */
static bool step_to(Lbfgs *l, double t)
{
    l->head->t = t;
    move(l, t);
    return memcmp(l->trial, l->x, (size_t)l->n * sizeof *l->x) != 0;
}

static bool finish(Lbfgs *l, Reason reason)
{
    Head *h = l->head;
    h->reason = reason;
    if (h->best_f < h->f) {
        memcpy(l->x, l->best, (size_t)l->n * sizeof *l->x);
        h->f = h->best_f;
        h->grad_norm = h->best_norm;
    }
    return false;
}

/* A search from x begins. False at the end of the run. */
static bool search(Lbfgs *l, bool restart)
{
    Head *h = l->head;
    if (restart || !two_loops(l)) steepest(l);
    h->lo = (Point){0, h->f, h->slope};
    h->tries = h->has_hi = 0;
    return step_to(l, 1) || finish(l, SEARCH_FAILED);
}

/* ---- the line search ---- */

/* Minimizer of the cubic with the values and slopes of a and b; NaN when it has none. */
static double cubic(const Point *a, const Point *b)
{
    const double gap = b->t - a->t, p = a->slope + b->slope - 3 * (b->f - a->f) / gap,
                 q = p * p - a->slope * b->slope;
    if (!(q >= 0)) return NAN;
    const double root = gap > 0 ? sqrt(q) : -sqrt(q);
    return b->t - gap * ((b->slope + root - p) / (b->slope - a->slope + 2 * root));
}

static double inside(double t, double a,
                     double b) /* t in [a, b], in whichever order; the middle for NaN */
{
    const double low = a < b ? a : b, high = a < b ? b : a;
    return t != t ? 0.5 * (a + b) : t < low ? low : t > high ? high : t;
}

/* The next step, after lo and hi took in the last one; `before` is lo as it was. 0: the interval
   is used up. */
static double next_step(Head *h, const Point *before)
{
    const double lo = h->lo.t, hi = h->hi.t, gap = hi - lo;
    if (!h->has_hi)
        return inside(cubic(before, &h->lo), lo + 1.1 * (lo - before->t),
                      lo + 4 * (lo - before->t));
    if (fabs(gap) <= 1e-15 * fabs(lo) || fabs(gap) < 1e-300) return 0;
    if (!h->hi_finite) return lo + 0.2 * gap;
    const bool slow = fabs(gap) > 0.66 * h->width; /* two thirds left: halve it */
    h->width = fabs(gap);
    return slow ? lo + 0.5 * gap : inside(cubic(&h->lo, &h->hi), lo + 0.1 * gap, hi - 0.1 * gap);
}

/* x moves to `trial`, whose value is f and whose gradient is in trial_g. False at the end. */
static bool take(Lbfgs *l, double f, bool restart)
{
    Head *h = l->head;
    const double change = fabs(h->f - f), scale = fmax(fabs(h->f), fabs(f));
    remember(l);
    memcpy(l->x, l->trial, (size_t)l->n * sizeof *l->x);
    memcpy(l->g, l->trial_g, (size_t)l->n * sizeof *l->g);
    h->f = f;
    h->grad_norm = largest(l->g, l->n);
    h->iterations++;
    if (f <= h->best_f) {
        h->best_f = f;
        h->best_norm = h->grad_norm;
        memcpy(l->best, l->x, (size_t)l->n * sizeof *l->x);
    }
    if (h->grad_norm <= l->limits.tolerance_grad) return finish(l, GRADIENT);
    if (change <= l->limits.tolerance_change * scale) return finish(l, CHANGE);
    if (h->iterations >= l->limits.max_iterations) return finish(l, ITERATIONS);
    if (h->evaluations >= l->limits.max_evaluations) return finish(l, EVALUATIONS);
    return search(l, restart);
}

/* The best point of a search that came to no end, if it is better than x. */
static bool better(Lbfgs *l)
{
    if (!(l->head->lo.t > 0 && l->head->lo.f < l->head->f)) return false;
    move(l, l->head->lo.t);
    memcpy(l->trial_g, l->lo_g, (size_t)l->n * sizeof *l->lo_g);
    return true;
}

/* A failed search keeps what it gained and goes on once from steepest descent; the second failure
   in a row ends the run. */
static bool give_up(Lbfgs *l)
{
    Head *h = l->head;
    const bool again = h->failed || !h->count, gained = better(l);
    h->failed = 1;
    if (gained && !take(l, h->lo.f, true)) return false;
    if (again) return finish(l, SEARCH_FAILED);
    return gained || search(l, true);
}

/* The first value. */
static bool start(Lbfgs *l, double f)
{
    Head *h = l->head;
    memcpy(l->g, l->trial_g, (size_t)l->n * sizeof *l->g);
    memcpy(l->best, l->x, (size_t)l->n * sizeof *l->x);
    h->started = 1;
    h->f = h->best_f = f;
    h->grad_norm = h->best_norm = largest(l->g, l->n);
    if (!isfinite(f) || !isfinite(h->grad_norm)) return finish(l, SEARCH_FAILED);
    if (h->grad_norm <= l->limits.tolerance_grad) return finish(l, GRADIENT);
    if (h->evaluations >= l->limits.max_evaluations) return finish(l, EVALUATIONS);
    return search(l, true);
}

/* The value f at the trial step, its gradient in trial_g. Is another one wanted? */
static bool advance(Lbfgs *l, double f)
{
    Head *h = l->head;
    h->evaluations++;
    if (!h->started) return start(l, f);
    const double slope = dot(l->trial_g, l->d, l->n), bound = h->f + C1 * h->t * h->slope;
    const bool finite = isfinite(f) && isfinite(slope);
    const bool wolfe = f <= bound && fabs(slope) <= -C2 * h->slope;
    const bool same = fabs(f - h->f) <= l->limits.noise * fabs(h->f); /* f can tell nothing */
    const bool close = same && slope >= C2 * h->slope && slope <= (2 * C1 - 1) * h->slope;
    if (finite && (wolfe || close)) {
        h->failed = 0;
        return take(l, f, false);
    }
    const Point now = {h->t, f, slope}, before = h->lo;
    const bool first_hi = !h->has_hi;
    if (!finite || f > bound || f >= h->lo.f) {
        h->hi = now;
        h->hi_finite = finite;
        h->has_hi = 1;
    } else {
        if (h->has_hi ? slope * (h->hi.t - h->lo.t) >= 0 : slope >= 0) {
            h->hi = h->lo;
            h->has_hi = h->hi_finite = 1;
        }
        h->lo = now;
        memcpy(l->lo_g, l->trial_g, (size_t)l->n * sizeof *l->lo_g);
    }
    if (first_hi && h->has_hi) h->width = 4 * fabs(h->hi.t - h->lo.t);
    if (h->evaluations >= l->limits.max_evaluations) {
        if (better(l) && !take(l, h->lo.f, false)) return false;
        return finish(l, EVALUATIONS);
    }
    const double t = ++h->tries < SEARCH_MAX ? next_step(h, &before) : 0;
    return (t > 0 && step_to(l, t)) || give_up(l);
}

/* ---- trees ---- */

static void read_leaves(double *to, const Leaves *leaves)
{
    for (Py_ssize_t k = 0; k < leaves->n; k++) {
        const qb_type *t = array_type(leaves->v[k]);
        const int64_t size = qb_type_size(t);
        if (t->dtype == QB_F64)
            memcpy(to, tensor_data(leaves->v[k]), (size_t)size * sizeof *to);
        else
            for (int64_t i = 0; i < size; i++)
                to[i] = ((const float *)tensor_data(leaves->v[k]))[i];
        to += size;
    }
}

static PyObject *write_tree(const Lbfgs *l, const double *from)
{
    Leaves out = {0};
    bool ok = true;
    for (Py_ssize_t k = 0; ok && k < l->leaves.n; k++) {
        const qb_type *t = array_type(l->leaves.v[k]);
        const int64_t size = qb_type_size(t);
        Tensor *leaf = tensor_empty(t);
        ok = leaf && leaves_push(&out, (PyObject *)leaf);
        if (!ok) break;
        if (t->dtype == QB_F64)
            memcpy(tensor_data((PyObject *)leaf), from, (size_t)size * sizeof *from);
        else
            for (int64_t i = 0; i < size; i++)
                ((float *)tensor_data((PyObject *)leaf))[i] = (float)from[i];
        from += size;
    }
    PyObject *tree = ok ? tree_unflatten(l->tree, out.v) : NULL;
    leaves_free(&out);
    return tree;
}

/* ---- the type ---- */

static PyObject *get_point(PyObject *o, void *Py_UNUSED(c))
{
    return write_tree((Lbfgs *)o, ((Lbfgs *)o)->trial);
}
static PyObject *get_params(PyObject *o, void *Py_UNUSED(c))
{
    return write_tree((Lbfgs *)o, ((Lbfgs *)o)->x);
}
static PyObject *get_best(PyObject *o, void *Py_UNUSED(c))
{
    const Lbfgs *l = (Lbfgs *)o;
    return write_tree(l, l->head->started ? l->best : l->x);
}
static PyObject *get_best_loss(PyObject *o, void *Py_UNUSED(c))
{
    const Head *h = ((Lbfgs *)o)->head;
    return PyFloat_FromDouble(h->started ? h->best_f : INFINITY);
}
static PyObject *get_loss(PyObject *o, void *Py_UNUSED(c))
{
    return PyFloat_FromDouble(((Lbfgs *)o)->head->f);
}
static PyObject *get_norm(PyObject *o, void *Py_UNUSED(c))
{
    return PyFloat_FromDouble(((Lbfgs *)o)->head->grad_norm);
}
static PyObject *get_iterations(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromDouble(((Lbfgs *)o)->head->iterations);
}
static PyObject *get_evaluations(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromDouble(((Lbfgs *)o)->head->evaluations);
}
static PyObject *get_reason(PyObject *o, void *Py_UNUSED(c))
{
    return PyUnicode_FromString(reason_names[(int)((Lbfgs *)o)->head->reason]);
}

static PyObject *tell(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    Lbfgs *l = (Lbfgs *)o;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "tell(value, grads)");
        return NULL;
    }
    if (l->head->reason != RUNNING) {
        PyErr_Format(PyExc_ValueError, "the run has ended: %s", reason_names[(int)l->head->reason]);
        return NULL;
    }
    const double f = PyFloat_AsDouble(args[0]);
    if (f == -1 && PyErr_Occurred()) return NULL;
    Leaves grads = {0};
    Py_ssize_t at = 0;
    int match = tree_match(l->tree, &at, args[1], &grads);
    for (Py_ssize_t k = 0; match == 1 && k < grads.n; k++)
        match = tensor_check(grads.v[k]) &&
                qb_type_size(array_type(grads.v[k])) == qb_type_size(array_type(l->leaves.v[k])) &&
                array_type(grads.v[k])->dtype != QB_BOOL;
    if (match == 1) read_leaves(l->trial_g, &grads);
    leaves_free(&grads);
    if (match < 0) return NULL;
    if (!match) {
        PyErr_SetString(PyExc_ValueError,
                        "tell: the gradients have not the structure and shapes of the parameters");
        return NULL;
    }
    return PyBool_FromLong(advance(l, f));
}

static PyObject *dump(PyObject *o, PyObject *Py_UNUSED(none))
{
    const Lbfgs *l = (Lbfgs *)o;
    const qb_type t = {.dtype = QB_F64, .rank = 1, .dims = {l->total}};
    Tensor *out = tensor_empty(&t);
    if (out) memcpy(tensor_data((PyObject *)out), l->head, (size_t)l->total * sizeof(double));
    return (PyObject *)out;
}

static bool sound(const Lbfgs *l)
{
    const Head *h = l->head;
    const double m = (double)l->m;
    return h->count >= 0 && h->count <= m && h->next >= 0 && h->next < m && h->reason >= 0 &&
           h->reason < REASONS && h->count == floor(h->count) && h->next == floor(h->next) &&
           h->reason == floor(h->reason) && h->iterations >= 0 && h->evaluations >= 0 &&
           h->tries >= 0;
}

static PyObject *restore(PyObject *o, PyObject *state)
{
    Lbfgs *l = (Lbfgs *)o;
    const qb_type *t = tensor_check(state) ? array_type(state) : NULL;
    if (!t || t->dtype != QB_F64 || t->rank != 1 || t->dims[0] != l->total) {
        PyErr_SetString(
            PyExc_ValueError,
            "the saved state of L-BFGS is of other parameters or another history length");
        return NULL;
    }
    memcpy(l->head, tensor_data(state), (size_t)l->total * sizeof(double));
    if (sound(l)) Py_RETURN_NONE;
    memset(l->head, 0, sizeof *l->head);
    PyErr_SetString(PyExc_ValueError, "the saved state of L-BFGS is damaged");
    return NULL;
}

/* Memory for n entries and m pairs, the vectors placed behind the head. */
static bool place(Lbfgs *l)
{
    const int64_t fixed = (int64_t)(sizeof(Head) / sizeof(double)), vectors = 7 + 2 * l->m;
    if (l->m > INT32_MAX || l->n > (INT64_MAX / 16 - fixed - 2 * l->m) / vectors)
        return PyErr_NoMemory(), false;
    l->total = fixed + vectors * l->n + 2 * l->m;
    double *at = PyMem_RawCalloc((size_t)l->total, sizeof *at);
    if (!at) return PyErr_NoMemory(), false;
    l->head = (Head *)at;
    at += fixed;
    double **const vector[] = {&l->x,       &l->g,    &l->d,    &l->trial,
                               &l->trial_g, &l->lo_g, &l->best, &l->s};
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++, at += l->n) *vector[i] = at;
    l->y = l->s + l->m * l->n;
    l->rho = l->y + l->m * l->n;
    return true;
}

static PyObject *construct(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"params",         "history",
                            "max_iterations", "max_evaluations",
                            "tolerance_grad", "tolerance_change",
                            "noise",          NULL};
    PyObject *params;
    long long history;
    Limits limits;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OLddddd:Lbfgs", names, &params, &history,
                                     &limits.max_iterations, &limits.max_evaluations,
                                     &limits.tolerance_grad, &limits.tolerance_change,
                                     &limits.noise))
        return NULL;
    if (history < 1) {
        PyErr_Format(PyExc_ValueError, "Lbfgs: history %lld; at least one pair is kept", history);
        return NULL;
    }
    Lbfgs *l = (Lbfgs *)type->tp_alloc(type, 0);
    if (!l) return NULL;
    l->limits = limits;
    l->m = history;
    bool ok = (l->tree = tree_flatten(params, &l->leaves)) != NULL;
    for (Py_ssize_t k = 0; ok && k < l->leaves.n; k++) {
        ok = tensor_check(l->leaves.v[k]) && array_type(l->leaves.v[k])->dtype != QB_BOOL;
        if (ok)
            l->n += qb_type_size(array_type(l->leaves.v[k]));
        else
            PyErr_SetString(PyExc_TypeError, "Lbfgs: parameters are float32 or float64 Tensors");
    }
    if (ok && !l->n) {
        ok = false;
        PyErr_SetString(PyExc_ValueError, "Lbfgs: there are no parameters");
    }
    ok = ok && place(l);
    if (ok) {
        read_leaves(l->x, &l->leaves);
        memcpy(l->trial, l->x, (size_t)l->n * sizeof *l->x);
    } else {
        Py_CLEAR(l);
    }
    return (PyObject *)l;
}

static void dealloc(PyObject *o)
{
    Lbfgs *l = (Lbfgs *)o;
    PyTypeObject *type = Py_TYPE(o);
    Py_XDECREF(l->tree);
    leaves_free(&l->leaves);
    PyMem_RawFree(l->head);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"tell", (PyCFunction)(void (*)(void))tell, METH_FASTCALL,
     "tell(value, grads)\n--\n\nThe value and the gradients at `point`. True while more are "
     "wanted."},
    {"dump", dump, METH_NOARGS, "dump()\n--\n\nThe whole state as one float64 vector."},
    {"restore", restore, METH_O, "restore(state)\n--\n\nGo on from a state that dump gave."},
    {0},
};
static PyGetSetDef getset[] = {
    {"point", get_point, NULL, "where the function is wanted next", NULL},
    {"params", get_params, NULL, "the point that the last step reached", NULL},
    {"loss", get_loss, NULL, "its value", NULL},
    {"best", get_best, NULL, "the best point so far; params may lie above it by a rounding", NULL},
    {"best_loss", get_best_loss, NULL, "its value", NULL},
    {"grad_norm", get_norm, NULL, "the largest |gradient| there", NULL},
    {"iterations", get_iterations, NULL, "steps taken", NULL},
    {"evaluations", get_evaluations, NULL, "values taken in", NULL},
    {"reason", get_reason, NULL, "why the run ended, or 'running'", NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "Lbfgs(params, history, max_iterations, max_evaluations, tolerance_grad, "
                "tolerance_change, noise)\n--\n\n"
                "L-BFGS that asks for values: evaluate at `point`, then tell."},
    {Py_tp_new, construct},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0},
};
static PyType_Spec spec = {"quabla._core.Lbfgs", sizeof(Lbfgs), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

bool lbfgs_init(PyObject *m) { return module_add(m, "Lbfgs", PyType_FromSpec(&spec)); }
