/* repr.c: the text of a Tensor: NumPy's default print options, plus the dtype.

   Numbers get the fewest digits that read back to the same value of their dtype, at most 8 after
   the point. All elements that are shown are measured first, so that columns line up; large
   arrays show three items at each end of a long axis, and only those are read. Texts are ASCII,
   built in one growing buffer. */
#include "ext.h"

enum { WIDTH = 75, PRECISION = 8, EDGE = 3, MANY = 1000, INDENT = 7 /* of "Tensor(" */ };

/* ---- a growing text ---- */

typedef struct {
    char *s;
    size_t n, cap;
    bool failed;
} Buf;

static void put(Buf *b, const char *s, size_t n)
{
    if (b->n + n > b->cap) {
        const size_t cap = 2 * (b->n + n) + 64;
        char *grown = b->failed ? NULL : PyMem_Realloc(b->s, cap);
        if (!grown) {
            b->failed = true;
            return;
        }
        b->s = grown;
        b->cap = cap;
    }
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

static void put_text(Buf *b, const char *s) { put(b, s, strlen(s)); }

static void put_spaces(Buf *b, int n)
{
    while (n-- > 0) put(b, " ", 1);
}

/* ---- decimal digits ---- */

typedef struct {
    bool negative;
    char digit[24];
    int n, exponent;
} Decimal; /* d.ddd times 10^exponent, no trailing zeros */

/* Digits of a text such as "-12.5e-7". */
static void parse(const char *s, Decimal *d)
{
    int point = -1, seen = 0, leading = 0;
    d->n = 0;
    d->negative = *s == '-';
    for (s += *s == '-'; *s && *s != 'e'; s++) {
        if (*s == '.')
            point = seen;
        else {
            seen++;
            if (*s == '0' && !d->n)
                leading++;
            else if (d->n < (int)sizeof d->digit)
                d->digit[d->n++] = *s;
        }
    }
    d->exponent = (point < 0 ? seen : point) - leading - 1 + (*s == 'e' ? atoi(s + 1) : 0);
    while (d->n > 1 && d->digit[d->n - 1] == '0') d->n--;
    if (!d->n) *d = (Decimal){.negative = d->negative, .digit = "0", .n = 1};
}

static bool digits_of(double v, char code, int precision, Decimal *d)
{
    char *text = PyOS_double_to_string(v, code, precision, 0, NULL);
    if (!text) return false;
    parse(text, d);
    PyMem_Free(text);
    return true;
}

/* Does d read back as v? Written without a point, which some locales spell otherwise. */
static bool reads_back(const Decimal *d, float v)
{
    char text[48];
    snprintf(text, sizeof text, "%s%.*se%d", d->negative ? "-" : "", d->n, d->digit,
             d->exponent - d->n + 1);
    return strtof(text, NULL) == v;
}

/* The next larger number of the same number of digits. */
static void increment(Decimal *d)
{
    int i = d->n - 1;
    while (i >= 0 && d->digit[i] == '9') d->digit[i--] = '0';
    if (i >= 0) {
        d->digit[i]++;
    } else {
        d->digit[0] = '1';
        d->exponent++;
    }
}

/* The fewest digits that read back to the float v, the nearest where several do. The exact value
   is cut and rounded up at 1, 2, ... digits; below a power of two only one of the two may. */
static bool shortest_float(float v, Decimal *d)
{
    enum { EXACT = 120 }; /* digits after the point of the longest float32 */
    char *text = PyOS_double_to_string(v, 'e', EXACT, 0, NULL);
    if (!text) return false;
    const char *s = text + (*text == '-'), *rest = s + 2; /* "d.ddd...e-07" */
    const int exponent = atoi(strchr(s, 'e') + 1);
    for (int n = 1; n <= 9; n++) {
        Decimal low = {.negative = *text == '-', .n = n, .exponent = exponent};
        low.digit[0] = *s;
        memcpy(low.digit + 1, rest, (size_t)n - 1);
        Decimal high = low;
        increment(&high);
        const bool down = reads_back(&low, v), up = reads_back(&high, v);
        if (!down && !up) continue;
        const char *tail = rest + n - 1; /* the digits that were cut */
        bool nearer_up =
            *tail > '5' || (*tail == '5' && strspn(tail + 1, "0") < (size_t)(EXACT - n));
        if (*tail == '5' && !nearer_up) nearer_up = (low.digit[n - 1] - '0') % 2;
        *d = (down && up ? nearer_up : up) ? high : low;
        break;
    }
    while (d->n > 1 && d->digit[d->n - 1] == '0') d->n--;
    PyMem_Free(text);
    return true;
}

/* ---- the format of an array: found from the elements that are shown ---- */

typedef struct {
    const Tensor *t;
    int64_t stride[QB_MAX_RANK]; /* in elements */
    bool summary, failed;
    /* floats */
    bool scientific;
    int left, right;      /* width before and after the point */
    int frac, exp_digits; /* scientific: digits after the point and of the exponent */
    /* gathered on the way */
    double largest, smallest; /* of |x|, nonzero finite */
    bool any_finite, any_nan, any_inf, any_negative_inf;
} Format;

/* v as it is printed: the fewest digits, or as many as the precision allows. */
static bool decimal(Format *f, double v, Decimal *d)
{
    if (!v) {
        *d = (Decimal){.negative = signbit(v), .digit = "0", .n = 1};
        return true;
    }
    if (!(f->t->type.dtype == QB_F32 ? shortest_float((float)v, d) : digits_of(v, 'r', 0, d)))
        return false;
    if (f->scientific) return d->n - 1 <= PRECISION || digits_of(v, 'e', PRECISION, d);
    return d->n - 1 - d->exponent <= PRECISION || digits_of(v, 'f', PRECISION, d);
}

static int digit_count(int n)
{
    int count = 1;
    for (; n > 9; n /= 10) count++;
    return count;
}

static void measure_range(Format *f, double v)
{
    if (v != v)
        f->any_nan = true;
    else if (!Py_IS_FINITE(v))
        f->any_inf = true, f->any_negative_inf |= v < 0;
    else {
        f->any_finite = true;
        const double a = fabs(v);
        if (a && (!f->largest || a > f->largest)) f->largest = a;
        if (a && (!f->smallest || a < f->smallest)) f->smallest = a;
    }
}

static void measure_width(Format *f, double v)
{
    Decimal d;
    if (!Py_IS_FINITE(v)) return;
    if (!decimal(f, v, &d)) {
        f->failed = true;
        return;
    }
    const int before = d.negative + (f->scientific || d.exponent < 0 ? 1 : d.exponent + 1);
    const int after = f->scientific ? d.n - 1 : d.n - 1 - d.exponent;
    if (before > f->left) f->left = before;
    if (after > f->right) f->right = after;
    const int size = digit_count(abs(d.exponent));
    if (size > f->exp_digits) f->exp_digits = size;
}

/* Calls see(f, v) for every element that is shown. */
static void each_shown(Format *f, int axis, int64_t at, void (*see)(Format *, double))
{
    if (axis == f->t->type.rank) {
        see(f, tensor_element(f->t, at));
        return;
    }
    const int64_t n = f->t->type.dims[axis];
    const bool gap = f->summary && n > 2 * EDGE;
    for (int64_t i = 0; i < n; i++) {
        if (gap && i == EDGE) i = n - EDGE;
        each_shown(f, axis + 1, at + i * f->stride[axis], see);
    }
}

static void measure(Format *f)
{
    each_shown(f, 0, 0, measure_range);
    if (f->largest) {
        const bool wide = f->t->type.dtype == QB_F32
                              ? (float)f->largest / (float)f->smallest > 1000.0f
                              : f->largest / f->smallest > 1000.0;
        const bool small =
            f->t->type.dtype == QB_F32 ? (float)f->smallest < 0.0001f : f->smallest < 0.0001;
        f->scientific = f->largest >= 1e8 || small || wide;
    }
    f->exp_digits = 2;
    each_shown(f, 0, 0, measure_width);
    f->frac = f->right;
    if (f->scientific) f->right += f->exp_digits + 2;
    if (f->any_nan && f->left < 3 - (f->right + 1)) f->left = 3 - (f->right + 1);
    if (f->any_inf || f->any_nan) {
        const int inf = 3 + f->any_negative_inf - (f->right + 1);
        if (f->left < inf) f->left = inf;
    }
}

/* ---- writing ---- */

static void put_float(Format *f, Buf *b, double v)
{
    if (!Py_IS_FINITE(v)) {
        const char *text = v != v ? "nan" : v < 0 ? "-inf" : "inf";
        put_spaces(b, f->left + f->right + 1 - (int)strlen(text));
        put_text(b, text);
        return;
    }
    Decimal d;
    bool ok = decimal(f, v, &d);
    if (ok && f->scientific && v &&
        d.n - 1 < f->frac) /* as many digits as the longest, those of the exact value */
        ok = digits_of(v, 'e', f->frac, &d);
    if (!ok) {
        b->failed = true;
        return;
    }
    const int whole =
        f->scientific || d.exponent < 0 ? 1 : d.exponent + 1; /* digits before the point */
    put_spaces(b, f->left - d.negative - whole);
    if (d.negative) put(b, "-", 1);
    int i = 0;
    if (!f->scientific && d.exponent < 0)
        put(b, "0", 1);
    else
        for (; i < whole; i++) put(b, i < d.n ? &d.digit[i] : "0", 1);
    put(b, ".", 1);
    int after = 0;
    if (!f->scientific)
        for (int zeros = -1 - d.exponent; zeros > 0 && d.digit[0] != '0'; zeros--, after++)
            put(b, "0", 1);
    for (; i < d.n && !(d.n == 1 && d.digit[0] == '0'); i++, after++) put(b, &d.digit[i], 1);
    if (!f->scientific) {
        put_spaces(b, f->right - after);
        return;
    }
    for (; after < f->frac; after++) put(b, "0", 1);
    char exponent[16];
    snprintf(exponent, sizeof exponent, "e%c%0*d", d.exponent < 0 ? '-' : '+', f->exp_digits,
             abs(d.exponent));
    put_text(b, exponent);
}

static void put_element(Format *f, Buf *b, int64_t at)
{
    const double v = tensor_element(f->t, at);
    if (f->t->type.dtype != QB_BOOL)
        put_float(f, b, v);
    else
        put_text(b, v == 0 ? "False" : f->t->type.rank ? " True" : "True");
}

/* The innermost axis: words on lines of at most `width`. b->n - line is the length of the line so
   far. */
static void put_row(Format *f, Buf *b, int axis, int64_t at, int indent, int width)
{
    const int64_t n = f->t->type.dims[axis];
    const bool gap = f->summary && n > 2 * EDGE;
    size_t line = b->n - (size_t)indent -
                  1; /* where the line began; "[" stands in place of the last indent */
    for (int64_t i = 0; i < n; i++) {
        const bool dots = gap && i == EDGE;
        const size_t start = b->n;
        if (dots)
            put_text(b, "...");
        else
            put_element(f, b, at + i * f->stride[axis]);
        if (b->failed) return;
        const size_t word = b->n - start;
        if (start - line + word > (size_t)width && start - line > (size_t)indent + 1) {
            size_t end = start; /* the word moves to a line of its own */
            while (b->s[end - 1] == ' ') end--;
            char text[64];
            memcpy(text, b->s + start, word);
            b->n = end;
            put(b, "\n", 1);
            line = b->n;
            put_spaces(b, indent + 1);
            put(b, text, word);
        }
        if (i + 1 < n) put(b, ", ", 2);
        if (dots) i = n - EDGE - 1;
    }
}

static void put_axis(Format *f, Buf *b, int axis, int64_t at, int indent, int width)
{
    const int rank = f->t->type.rank;
    if (axis == rank) {
        put_element(f, b, at);
        return;
    }
    put(b, "[", 1);
    if (axis == rank - 1) {
        put_row(f, b, axis, at, indent, width - 1);
    } else {
        const int64_t n = f->t->type.dims[axis];
        const bool gap = f->summary && n > 2 * EDGE;
        for (int64_t i = 0; i < n && !b->failed; i++) {
            if (i) {
                put(b, ",", 1);
                for (int k = axis + 1; k < rank; k++) put(b, "\n", 1);
                put_spaces(b, indent + 1);
            }
            if (gap && i == EDGE) {
                put_text(b, "...");
                i = n - EDGE - 1;
            } else {
                put_axis(f, b, axis + 1, at + i * f->stride[axis], indent + 1, width - 1);
            }
        }
    }
    put(b, "]", 1);
}

PyObject *repr_tensor(PyObject *o)
{
    Format f = {.t = (Tensor *)o};
    const qb_type *t = &f.t->type;
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        f.stride[i] = stride;
        stride *= t->dims[i];
    }
    f.summary = stride > MANY;
    if (t->dtype != QB_BOOL) measure(&f);
    Buf b = {0};
    put_text(&b, "Tensor(");
    if (!f.failed) put_axis(&f, &b, 0, 0, INDENT, WIDTH - 1);
    put(&b, ",", 1);
    PyObject *out = NULL;
    if (!b.failed && !f.failed) {
        size_t line = b.n;
        while (line && b.s[line - 1] != '\n') line--;
        char dtype[32];
        const int n = snprintf(dtype, sizeof dtype, "dtype=%s)", dtype_label(t->dtype));
        if ((int)(b.n - line) + n + 1 > WIDTH) {
            put(&b, "\n", 1);
            put_spaces(&b, INDENT);
        } else {
            put(&b, " ", 1);
        }
        put(&b, dtype, (size_t)n);
    }
    if (!b.failed && !f.failed)
        out = PyUnicode_FromStringAndSize(b.s, (Py_ssize_t)b.n);
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    PyMem_Free(b.s);
    return out;
}
