/* compose.c: composites and ops that take more than arrays: a mode, bounds, a ddof, an axis or a list of indices. */
#include "ext.h"
#include <float.h>

/* ---- elementwise ---- */

static const char *const gelu_names[] = {"x", "approximate"};

static PyObject *gelu(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[2];
    if (!module_args("gelu", gelu_names, 1, 2, args, n, kwnames, a)) return NULL;
    bool approximate = true;
    if (!read_flag("gelu", "approximate", a[1], &approximate)) return NULL;
    return ops_apply(ops_number(op), &(qb_attr){.i = approximate}, a, 1);
}

/* A bound that is None is no bound. */
static const char *const clip_names[] = {"x", "lo", "hi"};

static PyObject *clip(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[3];
    if (!module_args("clip", clip_names, 1, 3, args, n, kwnames, a)) return NULL;
    const bool lo = a[1] && a[1] != Py_None, hi = a[2] && a[2] != Py_None;
    if (lo && hi) return ops_apply(ops_number(op), NULL, a, 3);
    if (lo) return ops_binary(core.op.maximum, a[0], a[1]);
    return hi ? ops_binary(core.op.minimum, a[0], a[2]) : ops_array(a[0]);
}

/* copy is NumPy's parameter; the result is always another array. posinf, neginf: the largest numbers of the dtype. */
static const char *const nan_names[] = {"x", "copy", "nan", "posinf", "neginf"};

static PyObject *nan_to_num(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[5], *x[4] = {NULL}, *out = NULL;
    if (!module_args("nan_to_num", nan_names, 1, 5, args, n, kwnames, a)) return NULL;
    x[0] = ops_array(a[0]);
    if (!x[0]) return error_says("array", "nan_to_num");
    if (array_type(x[0])->dtype == QB_BOOL) {
        PyErr_SetString(PyExc_ValueError,
                        "nan_to_num: a bool array is not floating; convert it with astype");
        Py_DECREF(x[0]);
        return NULL;
    }
    const double most = array_type(x[0])->dtype == QB_F32 ? (double)FLT_MAX : DBL_MAX;
    const double defaults[3] = {0, most, -most};
    bool ok = true;
    for (int i = 0; i < 3 && ok; i++) {
        PyObject *given = a[2 + i];
        x[1 + i] = given && given != Py_None ? Py_NewRef(given) : PyFloat_FromDouble(defaults[i]);
        ok = x[1 + i] != NULL;
    }
    if (ok) out = ops_apply(ops_number(op), NULL, x, 4);
    for (int i = 0; i < 4; i++) Py_XDECREF(x[i]);
    return out;
}

/* ---- over axes ---- */

static const char *const moment_names[] = {"x", "axis", "keepdims", "ddof"};

static PyObject *moment(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[4];
    const char *who = qb_op_at(ops_number(op)).name;
    qb_attr attr = {.n = -1};
    bool keep = false;
    if (!module_args(who, moment_names, 1, 4, args, n, kwnames, a) ||
        !read_axes(who, a[1], &attr) || !read_flag(who, "keepdims", a[2], &keep))
        return NULL;
    attr.keepdims = keep;
    if (a[3] && (attr.f = PyFloat_AsDouble(a[3])) == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) && !tracer_check(a[3]))
            PyErr_Format(PyExc_TypeError, "%s: ddof is a number, not %s", who, stage_kind(a[3]));
        return NULL;
    }
    return ops_apply(ops_number(op), &attr, a, 1);
}

static const char *const along_names[] = {"x", "axis"};

static PyObject *along(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[2];
    const char *who = qb_op_at(ops_number(op)).name;
    qb_attr attr = {.i = -1};
    if (!module_args(who, along_names, 1, 2, args, n, kwnames, a) ||
        (a[1] && !read_int(who, "axis", a[1], &attr.i)))
        return NULL;
    return ops_apply(ops_number(op), &attr, a, 1);
}

/* axis None: of the elements in row-major order. */
static const char *const cumsum_names[] = {"x", "axis", "reverse"};

static PyObject *cumsum(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[3];
    qb_attr attr = {0};
    bool reverse = false;
    if (!module_args("cumsum", cumsum_names, 1, 3, args, n, kwnames, a) ||
        !read_flag("cumsum", "reverse", a[2], &reverse))
        return NULL;
    const bool flat = !a[1] || a[1] == Py_None;
    if (!flat && !read_int("cumsum", "axis", a[1], &attr.i)) return NULL;
    attr.start = reverse;
    PyObject *x = flat ? shape_reshape(a[0], 1, (int64_t[]){-1}) : Py_NewRef(a[0]);
    PyObject *out = x ? ops_apply(ops_number(op), &attr, &x, 1) : NULL;
    Py_XDECREF(x);
    return out;
}

/* ---- lists of indices ---- */

/* The ints of o as the core takes them; NULL and an exception. */
static qb_buffer *indices_of(const char *who, PyObject *o)
{
    if (tracer_check(o)) {
        PyErr_Format(
            core.TracerError,
            "%s: indices are fixed when a function is traced; a TraceTensor has no values yet",
            who);
        return NULL;
    }
    PyObject *list = PyUnicode_Check(o) || PyLong_Check(o) ? NULL : PySequence_Fast(o, "");
    if (!list) {
        PyErr_Clear();
        return PyErr_Format(PyExc_TypeError, "%s: indices are a list of ints, not %s", who,
                            stage_kind(o)),
               NULL;
    }
    qb_error err = {0};
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    if (!n)
        PyErr_Format(PyExc_ValueError,
                     "%s: an empty list of indices; arrays without elements are not supported",
                     who);
    qb_buffer *b = n ? qb_buffer_new((int64_t)n * (int64_t)sizeof(int64_t), &err) : NULL;
    if (n && !b) error_raise(&err);
    for (Py_ssize_t i = 0; b && i < n; i++) {
        int64_t index;
        if (read_int(who, "an index", PySequence_Fast_GET_ITEM(list, i), &index)) {
            ((int64_t *)qb_buffer_data(b))[i] = index;
        } else {
            qb_buffer_release(b);
            b = NULL;
        }
    }
    Py_DECREF(list);
    return b;
}

static PyObject *indexed(int op, const char *who, PyObject *const *x, Py_ssize_t n,
                         PyObject *indices, PyObject *axis)
{
    qb_attr attr = {0};
    if (axis && !read_int(who, "axis", axis, &attr.i)) return NULL;
    attr.buffer = indices_of(who, indices);
    PyObject *out = attr.buffer ? ops_apply(op, &attr, x, n) : NULL;
    qb_buffer_release(attr.buffer);
    return out;
}

static const char *const gather_names[] = {"x", "indices", "axis"};

static PyObject *gather(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[3];
    if (!module_args("gather", gather_names, 2, 3, args, n, kwnames, a)) return NULL;
    return indexed(ops_number(op), "gather", a, 1, a[1], a[2]);
}

static const char *const scatter_names[] = {"x", "indices", "updates", "axis"};

static PyObject *scatter_add(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[4];
    if (!module_args("scatter_add", scatter_names, 3, 4, args, n, kwnames, a)) return NULL;
    return indexed(ops_number(op), "scatter_add", (PyObject *[]){a[0], a[2]}, 2, a[1], a[3]);
}

/* Zeros of `total` along an axis with x at start, start + step, ...: for the package's own functions. */
static const char *const pad_names[] = {"x", "axis", "start", "total", "step"};

static PyObject *pad_slice(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[5];
    qb_attr attr = {.step = 1};
    if (!module_args("_pad_slice", pad_names, 4, 5, args, n, kwnames, a) ||
        !read_int("_pad_slice", "axis", a[1], &attr.i) ||
        !read_int("_pad_slice", "start", a[2], &attr.start) ||
        !read_int("_pad_slice", "total", a[3], &attr.length) ||
        (a[4] && !read_int("_pad_slice", "step", a[4], &attr.step)))
        return NULL;
    return ops_apply(ops_number(op), &attr, a, 1);
}

/* ---- for functions that are written in Python ---- */

static PyObject *operand(const char *who, PyObject *o)
{
    const bool number = PyFloat_Check(o) || PyLong_Check(o);
    PyObject *x = number ? shape_reshape(o, 0, NULL) : ops_array(o);
    return x ? x : error_says(number ? "reshape" : "array", who);
}

/* The core's own error about the dtypes of x and y (or x alone), said of `who`. */
static bool refuse(const char *who, PyObject *x, PyObject *y)
{
    PyObject *out = y ? ops_binary(core.op.mul, x, y) : ops_unary(core.op.neg, x);
    Py_XDECREF(out); /* there is none: both want one floating dtype */
    return error_says(y ? "mul" : "neg", who);
}

/* Bool beside numbers is 0 and 1 of their dtype. */
static PyObject *number_of(PyObject *mask, const qb_type *strong)
{
    if (strong) return shape_astype(mask, strong->dtype);
    PyObject *one = PyFloat_FromDouble(1), *out = one ? ops_binary(core.op.mul, mask, one) : NULL;
    Py_XDECREF(one);
    return out;
}

/* Have the arrays one dtype, and a floating one if it must be? Masks become numbers then. */
static bool one_dtype(const char *who, bool floating, PyObject *arrays)
{
    PyObject *strong = NULL;
    bool masks = true;
    const Py_ssize_t n = PyTuple_GET_SIZE(arrays);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(arrays, i);
        const qb_type *t = array_type(x);
        masks &= t->dtype == QB_BOOL;
        if (t->dtype == QB_BOOL || t->weak) continue;
        if (strong && array_type(strong)->dtype != t->dtype) return refuse(who, strong, x);
        strong = x;
    }
    if (!floating) return true;
    if (masks)
        return refuse(who, PyTuple_GET_ITEM(arrays, 0), n > 1 ? PyTuple_GET_ITEM(arrays, 1) : NULL);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(arrays, i);
        if (array_type(x)->dtype != QB_BOOL) continue;
        PyObject *y = number_of(x, strong ? array_type(strong) : NULL);
        if (!y) return false;
        PyTuple_SET_ITEM(arrays, i, y);
        Py_DECREF(x);
    }
    return true;
}

static PyObject *operands(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n)
{
    const char *who = n > 2 ? PyUnicode_AsUTF8(args[0]) : NULL;
    PyObject *out = who ? PyTuple_New(n - 2) : NULL;
    if (!who && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "_operands: no operands");
    for (Py_ssize_t i = 0; out && i < n - 2; i++) {
        PyObject *x = operand(who, args[2 + i]);
        if (x)
            PyTuple_SET_ITEM(out, i, x);
        else
            Py_CLEAR(out);
    }
    if (out && !one_dtype(who, args[1] == Py_True, out)) Py_CLEAR(out);
    return out;
}

static PyMethodDef functions[] = {
    {"_operands", (PyCFunction)(void (*)(void))operands, METH_FASTCALL,
     "_operands(who, floating, *values)\n--\n\nThe values as a tuple of arrays, numbers as weak "
     "scalars. ValueError that names `who` unless they have one\nfloating dtype; bool alone is "
     "fine when `floating` is False."},
    {0},
};

bool compose_init(PyObject *m)
{
    enum { BOTH = AS_FUNCTION | AS_METHOD };
    static const struct {
        const char *op;
        OpRow row;
    } rows[] = {
        {"gelu",
         {"gelu",
          "gelu(x, approximate=True)\n--\n\nElementwise: x times the normal distribution function "
          "of x (Hendrycks and Gimpel 2016)." FLOATS
          "approximate: its tanh form, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as x "
          "sigmoid(2u); else the exact form through\n"
          "erfc, whose negative tail keeps its relative accuracy. Returns an array of x's shape "
          "and dtype.\n",
          gelu, 0, BOTH}},
        {"clip",
         {"clip",
          "clip(x, lo=None, hi=None)\n--\n\nElementwise: x between the bounds lo and hi, "
          "minimum(maximum(x, lo), hi)." FLOATS
          "lo, hi: bounds that broadcast with x; None for none. NaN in x or a bound gives NaN; "
          "where lo > hi the result is hi. At a bound\n"
          "the derivative goes to the bound, so the derivative in x is 0 there.\n",
          clip, 0, BOTH}},
        {"nan_to_num",
         {"nan_to_num",
          "nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None)\n--\n\nElementwise: x with "
          "NaN, inf and -inf replaced." FLOATS
          "nan, posinf, neginf: what replaces them; None is the largest finite number of x's dtype "
          "and its negative. copy has no effect:\n"
          "arrays are immutable. The derivative is 0 where an element is replaced.\n",
          nan_to_num, 0, BOTH}},
        {"var",
         {"var",
          "var(x, axis=None, keepdims=False, ddof=0)\n--\n\nMean squared distance from the mean "
          "over axes, in two passes: var(1e8 + [1, 2, 3]) is exactly 2/3." FLOATS OVER
          "ddof: the divisor is the number of elements less ddof; where that is not positive the "
          "result is inf, or NaN for 0 / 0.\n",
          moment, 0, BOTH}},
        {"std",
         {"std",
          "std(x, axis=None, keepdims=False, ddof=0)\n--\n\nSquare root of the variance over axes; "
          "its derivative is 0 where the variance is 0." FLOATS OVER
          "ddof: the divisor is the number of elements less ddof; where that is not positive the "
          "result is inf, or NaN for 0 / 0.\n",
          moment, 0, BOTH}},
        {"softmax",
         {"softmax",
          "softmax(x, axis=-1)\n--\n\nExponentials divided by their sum along one axis; the "
          "largest element is subtracted first, so nothing overflows." FLOATS
          "axis: an int, negative from the end; ValueError when x has no such axis. Where all "
          "elements are -inf the result is NaN.\n",
          along, 0, BOTH}},
        {"log_softmax",
         {"log_softmax",
          "log_softmax(x, axis=-1)\n--\n\nLogarithm of softmax along one axis, without overflow or "
          "underflow." FLOATS "axis: an int, negative from the end; ValueError when x has no such "
          "axis. Where all elements are -inf the result is NaN.\n",
          along, 0, BOTH}},
        {"cumsum",
         {"cumsum",
          "cumsum(x, axis=None, reverse=False)\n--\n\nRunning sums along one axis, or of all "
          "elements in row-major order for axis None." FLOATS
          "reverse: from the last element on. Every sum is rounded to the dtype, as adding one "
          "element after the other does.\n"
          "The derivative is the running sum the other way. Raises ValueError for an axis that x "
          "has not.\n",
          cumsum, 0, BOTH}},
        {"gather",
         {"gather",
          "gather(x, indices, axis=0)\n--\n\nElements of x along one axis at a list of "
          "indices.\n\nx: array of any dtype with at least one axis.\n"
          "indices: ints, known when a function is traced; they may repeat, negative ones count "
          "from the end. IndexError out of range.\n"
          "Returns an array like x with len(indices) elements along axis. The derivative is "
          "scatter_add.\n",
          gather, 0, BOTH}},
        {"scatter_add",
         {"scatter_add",
          "scatter_add(x, indices, updates, axis=0)\n--\n\nx with updates added along one axis at "
          "a list of indices, in the order of the list.\n\n"
          "x: float32 or float64 array. indices: ints, as for gather. updates: broadcast to x's "
          "shape with len(indices) elements along\n"
          "axis; ValueError when they do not fit. Every sum is rounded to the dtype. The "
          "derivative in updates is gather.\n",
          scatter_add, 0, BOTH}},
        {"pad_slice",
         {"_pad_slice",
          "_pad_slice(x, axis, start, total, step=1)\n--\n\nZeros with x at start + i * step along "
          "an axis.",
          pad_slice, 0, AS_FUNCTION}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OpRow row = rows[i].row;
        row.op = qb_op_find(rows[i].op);
        if (!ops_add(m, &row)) return false;
    }
    return !PyModule_AddFunctions(m, functions);
}
