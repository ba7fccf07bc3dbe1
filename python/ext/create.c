/* create.c: arrays from a rule: zeros, ones, full, eye, arange, linspace, random numbers, and
   array/asarray themselves. */
#include "ext.h"

/* dtype argument at a[i]: the default is float64. */
static int float64_or(PyObject *o) { return dtype_or(o, QB_F64); }

static void fill_value(Tensor *t, double value)
{
    void *data = qb_buffer_data(t->buffer);
    const int64_t n = qb_type_size(&t->type);
    if (t->type.dtype == QB_F64)
        for (int64_t i = 0; i < n; i++) ((double *)data)[i] = value;
    else if (t->type.dtype == QB_F32)
        for (int64_t i = 0; i < n; i++) ((float *)data)[i] = (float)value;
    else
        memset(data, value != 0, (size_t)n);
}

static PyObject *filled(const qb_type *t, double value)
{
    Tensor *out = tensor_empty(t);
    if (out) fill_value(out, value);
    return (PyObject *)out;
}

/* ---- array, asarray ---- */

static const char *const array_names[] = {"obj", "dtype"};

static PyObject *convert(const char *who, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                         bool copy)
{
    PyObject *a[2];
    if (!module_args(who, array_names, 1, 2, args, n, kwnames, a)) return NULL;
    const int dtype = dtype_or(a[1], -1);
    if (dtype < 0 && PyErr_Occurred()) return NULL;
    PyObject *out = convert_array(a[0], dtype, copy, NULL);
    return out ? out : error_says("array", who);
}

static PyObject *array(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                       PyObject *kwnames)
{
    return convert("array", args, n, kwnames, true);
}

static PyObject *asarray(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                         PyObject *kwnames)
{
    return convert("asarray", args, n, kwnames, false);
}

/* ---- zeros, ones, full and their _like forms ---- */

static const char *const zeros_names[] = {"shape", "dtype"}, *const like_names[] = {"x", "dtype"};

static PyObject *constant(const char *who, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                          double value)
{
    PyObject *a[2];
    qb_type t;
    if (!module_args(who, zeros_names, 1, 2, args, n, kwnames, a)) return NULL;
    const int dtype = float64_or(a[1]);
    if (dtype < 0 || !read_shape(who, a[0], &t)) return NULL;
    t.dtype = (uint8_t)dtype;
    return filled(&t, value);
}

static PyObject *constant_like(const char *who, PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames, double value)
{
    PyObject *a[2];
    if (!module_args(who, like_names, 1, 2, args, n, kwnames, a)) return NULL;
    PyObject *x = ops_array(a[0]);
    if (!x) return error_says("array", who);
    qb_type t = *array_type(x);
    Py_DECREF(x);
    const int dtype = dtype_or(a[1], t.dtype);
    t.dtype = (uint8_t)dtype;
    t.weak = 0;
    return dtype < 0 ? NULL : filled(&t, value);
}

static PyObject *zeros(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                       PyObject *kwnames)
{
    return constant("zeros", args, n, kwnames, 0);
}

static PyObject *ones(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                      PyObject *kwnames)
{
    return constant("ones", args, n, kwnames, 1);
}

static PyObject *zeros_like(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                            PyObject *kwnames)
{
    return constant_like("zeros_like", args, n, kwnames, 0);
}

static PyObject *ones_like(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames)
{
    return constant_like("ones_like", args, n, kwnames, 1);
}

/* value broadcast to t's shape; dtype -1: the value's own. */
static PyObject *full_of(const char *who, const qb_type *t, PyObject *value, int dtype)
{
    PyObject *x = convert_array(value, dtype, false, NULL);
    PyObject *out = x ? shape_broadcast(who, x, t) : error_says("array", who);
    Py_XDECREF(x);
    return out;
}

static const char *const full_names[] = {"shape", "fill_value", "dtype"},
                         *const full_like_names[] = {"x", "fill_value", "dtype"};

static PyObject *full(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                      PyObject *kwnames)
{
    PyObject *a[3];
    qb_type t;
    if (!module_args("full", full_names, 2, 3, args, n, kwnames, a)) return NULL;
    const int dtype = dtype_or(a[2], -1);
    if ((dtype < 0 && PyErr_Occurred()) || !read_shape("full", a[0], &t)) return NULL;
    return full_of("full", &t, a[1], dtype);
}

static PyObject *full_like(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames)
{
    PyObject *a[3];
    if (!module_args("full_like", full_like_names, 2, 3, args, n, kwnames, a)) return NULL;
    PyObject *x = ops_array(a[0]);
    if (!x) return error_says("array", "full_like");
    const qb_type t = *array_type(x);
    Py_DECREF(x);
    const int dtype = dtype_or(a[2], t.dtype);
    return dtype < 0 ? NULL : full_of("full_like", &t, a[1], dtype);
}

/* ---- eye, arange, linspace ---- */

static bool number(const char *who, const char *what, PyObject *o, double *out)
{
    if (tracer_check(o)) {
        PyErr_Format(core.TracerError, "%s: %s decides the shape, so it cannot be a TraceTensor",
                     who, what);
        return false;
    }
    *out = PyFloat_AsDouble(o);
    if (*out != -1 || !PyErr_Occurred()) return true;
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError, "%s: %s is a number, not %s", who, what, stage_kind(o));
    return false;
}

static PyObject *vector(int64_t n, int dtype)
{
    const qb_type t = {.dtype = (uint8_t)dtype, .rank = 1, .dims = {n}};
    return (PyObject *)tensor_empty(&t);
}

static void store(PyObject *t, int64_t i, double v)
{
    void *data = tensor_data(t);
    if (((Tensor *)t)->type.dtype == QB_F64)
        ((double *)data)[i] = v;
    else if (((Tensor *)t)->type.dtype == QB_F32)
        ((float *)data)[i] = (float)v;
    else
        ((unsigned char *)data)[i] = v != 0;
}

static const char *const eye_names[] = {"n", "m", "dtype"};

static PyObject *eye(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[3];
    if (!module_args("eye", eye_names, 1, 3, args, n, kwnames, a)) return NULL;
    const int dtype = float64_or(a[2]);
    int64_t rows, columns;
    PyObject *out = NULL, *shape = NULL;
    qb_type t;
    if (dtype >= 0 && read_int("eye", "n", a[0], &rows) &&
        read_int("eye", "m", a[1] && a[1] != Py_None ? a[1] : a[0], &columns))
        shape = Py_BuildValue("(LL)", (long long)rows, (long long)columns);
    if (shape && read_shape("eye", shape, &t)) {
        t.dtype = (uint8_t)dtype;
        out = filled(&t, 0);
        for (int64_t i = 0; out && i < t.dims[0] && i < t.dims[1]; i++)
            store(out, i * t.dims[1] + i, 1);
    }
    Py_XDECREF(shape);
    return out;
}

/* arange: ceil((stop - start) / step) elements, as NumPy counts. */
static const char *const arange_names[] = {"start", "stop", "step", "dtype"};

static PyObject *arange(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames)
{
    PyObject *a[4];
    double start = 0, stop, step = 1;
    if (!module_args("arange", arange_names, 1, 4, args, n, kwnames, a)) return NULL;
    const int dtype = float64_or(a[3]);
    const bool two = a[1] && a[1] != Py_None;
    if (dtype < 0 || !number("arange", "stop", two ? a[1] : a[0], &stop) ||
        (two && !number("arange", "start", a[0], &start)) ||
        (a[2] && !number("arange", "step", a[2], &step)))
        return NULL;
    if (!step || !Py_IS_FINITE(start) || !Py_IS_FINITE(stop) || !Py_IS_FINITE(step)) {
        PyErr_SetString(PyExc_ValueError,
                        "arange: start, stop and step must be finite, and step not zero");
        return NULL;
    }
    const double count = ceil((stop - start) / step);
    if (!(count >= 1)) {
        PyErr_SetString(PyExc_ValueError, "arange: no elements between start and stop; arrays "
                                          "without elements are not supported");
        return NULL;
    }
    if (count > 1e18) {
        PyErr_SetString(PyExc_MemoryError, "arange: more elements than any memory holds");
        return NULL;
    }
    PyObject *out = vector((int64_t)count, dtype);
    for (int64_t i = 0; out && i < (int64_t)count; i++) store(out, i, start + (double)i * step);
    return out;
}

static const char *const linspace_names[] = {"start", "stop", "num", "dtype"};

static PyObject *linspace(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                          PyObject *kwnames)
{
    PyObject *a[4];
    double start, stop;
    if (!module_args("linspace", linspace_names, 3, 4, args, n, kwnames, a)) return NULL;
    const int dtype = float64_or(a[3]);
    qb_type t;
    int64_t num;
    if (dtype < 0 || !number("linspace", "start", a[0], &start) ||
        !number("linspace", "stop", a[1], &stop) || !read_int("linspace", "num", a[2], &num) ||
        !read_shape("linspace", a[2], &t))
        return NULL;
    const int64_t last = t.dims[0] - 1;
    const double gap = stop - start, step = gap / (double)(last ? last : 1);
    PyObject *out = vector(t.dims[0], dtype);
    for (int64_t i = 0; out && i < last; i++)
        store(out, i, (step ? (double)i * step : (double)i / (double)last * gap) + start);
    if (out) store(out, last, last ? stop : start);
    return out;
}

/* ---- random numbers: the core's streams; keys are in random.py ---- */

static PyObject *random_bits(PyObject *Py_UNUSED(m), PyObject *args)
{
    unsigned long long key, i;
    return PyArg_ParseTuple(args, "KK:random_bits", &key, &i)
               ? PyLong_FromUnsignedLongLong(qb_random_bits(key, i))
               : NULL;
}

static PyObject *random_array(PyObject *args, const char *format,
                              void (*sample)(uint64_t, int64_t, double, double, int, void *))
{
    unsigned long long key;
    PyObject *shape, *dtype;
    double a, b;
    qb_type t;
    if (!PyArg_ParseTuple(args, format, &key, &shape, &dtype, &a, &b)) return NULL;
    const int code = dtype_of(dtype);
    if (code < 0 || !read_shape("random", shape, &t)) return NULL;
    if (code == QB_BOOL) {
        PyErr_SetString(PyExc_TypeError, "random: samples are float32 or float64, not bool");
        return NULL;
    }
    t.dtype = (uint8_t)code;
    Tensor *out = tensor_empty(&t);
    if (!out) return NULL;
    void *data = qb_buffer_data(out->buffer);
    Py_BEGIN_ALLOW_THREADS sample(key, qb_type_size(&t), a, b, code, data);
    Py_END_ALLOW_THREADS return (PyObject *)out;
}

static PyObject *random_uniform(PyObject *Py_UNUSED(m), PyObject *args)
{
    return random_array(args, "KOOdd:random_uniform", qb_random_uniform);
}

static PyObject *random_normal(PyObject *Py_UNUSED(m), PyObject *args)
{
    return random_array(args, "KOOdd:random_normal", qb_random_normal);
}

static PyObject *random_truncated(PyObject *Py_UNUSED(m), PyObject *args)
{
    return random_array(args, "KOOdd:random_truncated", qb_random_truncated);
}

/* k indices below n: without replacement the first k of a permutation. float64, as all numbers. */
static PyObject *random_indices(PyObject *Py_UNUSED(m), PyObject *args)
{
    unsigned long long key;
    long long n, k;
    int replace;
    if (!PyArg_ParseTuple(args, "KLLp:random_indices", &key, &n, &k, &replace)) return NULL;
    if (n < 1 || k < 1 || (!replace && k > n)) {
        PyErr_Format(PyExc_ValueError, "random: %lld of %lld items%s", k, n,
                     replace ? "" : " without replacement");
        return NULL;
    }
    if (replace || k == n) {
        PyObject *out = vector(replace ? k : n, QB_F64);
        if (!out) return NULL;
        double *data = tensor_data(out);
        Py_BEGIN_ALLOW_THREADS;
        if (replace)
            qb_random_integers(key, n, k, data);
        else
            qb_random_permutation(key, n, n, data);
        Py_END_ALLOW_THREADS return out;
    }
    PyObject *all = vector(n, QB_F64), *out = all ? vector(k, QB_F64) : NULL;
    if (out) {
        qb_random_permutation(key, n, k, tensor_data(all));
        memcpy(tensor_data(out), tensor_data(all), (size_t)k * sizeof(double));
    }
    Py_XDECREF(all);
    return out;
}

/* rows(x, index): the entries of x along its first axis that a float64 vector of indices names. */
static PyObject *random_rows(PyObject *Py_UNUSED(m), PyObject *args)
{
    Tensor *x, *index;
    if (!PyArg_ParseTuple(args, "O!O!:random_rows", core.Tensor, &x, core.Tensor, &index))
        return NULL;
    if (x->type.rank < 1 || index->type.rank != 1 || index->type.dtype != QB_F64) {
        PyErr_SetString(PyExc_ValueError,
                        "random: an array with at least one axis, and a float64 vector of indices");
        return NULL;
    }
    qb_type t = x->type;
    t.dims[0] = index->type.dims[0];
    Tensor *out = tensor_empty(&t);
    if (!out) return NULL;
    const int64_t rows = x->type.dims[0];
    const size_t row = (size_t)(qb_type_bytes(&x->type) / rows);
    const double *at = tensor_data((PyObject *)index);
    const char *from = tensor_data((PyObject *)x);
    char *to = tensor_data((PyObject *)out);
    for (int64_t i = 0; i < t.dims[0]; i++) {
        if (!(at[i] >= 0 && at[i] < (double)rows)) {
            Py_DECREF(out);
            PyErr_Format(PyExc_IndexError, "random: an index is out of range for %lld rows",
                         (long long)rows);
            return NULL;
        }
        memcpy(to + (size_t)i * row, from + (size_t)(int64_t)at[i] * row, row);
    }
    return (PyObject *)out;
}

/* Sentences that many docs share. */
#define SHAPE                                                                                  \
    "\nshape: an int or ints of at least 1; () is a scalar. dtype: quabla.float32, float64, "  \
    "bool_, their names, or NumPy's.\nRaises ValueError for lengths below 1, MemoryError for " \
    "more elements than any memory holds, TypeError for other shapes and dtypes.\n"
#define LIKE                                                                                      \
    "\nx: array, number or list of any shape and dtype. Raises TypeError for another dtype than " \
    "float32, float64 and bool_.\n"
#define EXAMPLE(call, result) "\n>>> qb." call "\n" result "\n"
#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef functions[] = {
    {"array", FAST(array),
     "array(obj, dtype=None)\n--\n\nA new Tensor from a number, nested lists, a NumPy array or a "
     "Tensor.\n\n"
     "obj: its nesting or its axes are the shape; it is copied. dtype: None: numbers and lists "
     "give float64, lists of bools alone bool_, arrays keep "
     "float32, float64 and bool, integers become\n"
     "float64. Raises ValueError for ragged or empty lists, TypeError for other objects and dtypes "
     "(float16, complex).\n" EXAMPLE("array([[1, 2], [3, 4]])",
                                     "Tensor([[1., 2.],\n        [3., 4.]], dtype=float64)")},
    {"asarray", FAST(asarray),
     "asarray(obj, dtype=None)\n--\n\nobj as a Tensor, by the rules of array; obj itself when "
     "nothing changes.\n\nobj, dtype: as for array; a Tensor or a traced array of the dtype "
     "float32, float64 or bool that is asked for "
     "is returned as it is, in its shape.\nRaises as array does: ValueError for ragged or empty "
     "lists, TypeError for what is no array.\n" EXAMPLE("asarray([True, False])",
                                                        "Tensor([ True, False], dtype=bool)")},
    {"zeros", FAST(zeros),
     "zeros(shape, dtype=None)\n--\n\nAn array of zeros, float64 unless another dtype is "
     "given.\n" SHAPE EXAMPLE("zeros((2,), dtype=qb.float32)", "Tensor([0., 0.], dtype=float32)")},
    {"ones", FAST(ones),
     "ones(shape, dtype=None)\n--\n\nAn array of ones, float64 unless another dtype is "
     "given.\n" SHAPE EXAMPLE("ones(2)", "Tensor([1., 1.], dtype=float64)")},
    {"full", FAST(full),
     "full(shape, fill_value, dtype=None)\n--\n\nfill_value, a number or an array, broadcast to a "
     "shape.\n" SHAPE
     "dtype: None is that of fill_value. ValueError when fill_value does not broadcast.\n" EXAMPLE(
         "full((2,), 7)", "Tensor([7., 7.], dtype=float64)")},
    {"zeros_like", FAST(zeros_like),
     "zeros_like(x, dtype=None)\n--\n\nZeros in the shape of x, and in its dtype unless another is "
     "given.\n" LIKE EXAMPLE("zeros_like([1, 2])", "Tensor([0., 0.], dtype=float64)")},
    {"ones_like", FAST(ones_like),
     "ones_like(x, dtype=None)\n--\n\nOnes in the shape of x, and in its dtype unless another is "
     "given.\n" LIKE EXAMPLE("ones_like([1, 2])", "Tensor([1., 1.], dtype=float64)")},
    {"full_like", FAST(full_like),
     "full_like(x, fill_value, dtype=None)\n--\n\nfill_value in the shape of x, and in its dtype "
     "unless another is given.\n" LIKE
     "fill_value: a number or an array that broadcasts to x; ValueError when it does "
     "not.\n" EXAMPLE("full_like([1, 2], 7)", "Tensor([7., 7.], dtype=float64)")},
    {"eye", FAST(eye),
     "eye(n, m=None, dtype=None)\n--\n\nOnes on the diagonal of an n by m matrix, zeros "
     "elsewhere; m is n by default.\n\nn, m: ints of at least 1, the lengths of the axes. dtype: "
     "float64 unless another is given. "
     "Raises ValueError for lengths below 1, TypeError\nfor others, MemoryError for more elements "
     "than any memory holds.\n" EXAMPLE("eye(2)",
                                        "Tensor([[1., 0.],\n        [0., 1.]], dtype=float64)")},
    {"arange", FAST(arange),
     "arange(start, stop=None, step=1.0, dtype=None)\n--\n\nstart, start + step, ... below "
     "stop; arange(stop) starts at 0.\n\n"
     "A vector of ceil((stop - start) / step) elements, as NumPy counts, float64 unless another "
     "dtype is given. Raises ValueError when there are "
     "none, for step 0 and for numbers that\n"
     "are not finite.\n" EXAMPLE("arange(0, 1, 0.25)",
                                 "Tensor([0.  , 0.25, 0.5 , 0.75], dtype=float64)")},
    {"linspace", FAST(linspace),
     "linspace(start, stop, num, dtype=None)\n--\n\nnum >= 1 equally spaced values from start "
     "to stop, both included.\n\nstart, stop: numbers. A vector of num elements, float64 "
     "unless another dtype is given; the last is exactly stop.\n"
     "Raises ValueError for num below 1, TypeError for what is no number.\n" EXAMPLE(
         "linspace(0, 1, 5)", "Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float64)")},
    {"random_bits", random_bits, METH_VARARGS,
     "random_bits(key, i)\n--\n\nOutput i of the stream with state key."},
    {"random_uniform", random_uniform, METH_VARARGS,
     "random_uniform(key, shape, dtype, lo, hi)\n--\n\nSamples on [lo, hi)."},
    {"random_normal", random_normal, METH_VARARGS,
     "random_normal(key, shape, dtype, mean, stddev)\n--\n\nNormal samples."},
    {"random_truncated", random_truncated, METH_VARARGS,
     "random_truncated(key, shape, dtype, lo, hi)\n--\n\nStandard normal samples in [lo, hi]."},
    {"random_indices", random_indices, METH_VARARGS,
     "random_indices(key, n, k, replace)\n--\n\nk random indices below n, as float64."},
    {"random_rows", random_rows, METH_VARARGS,
     "random_rows(x, index)\n--\n\nThe rows of x that a vector of indices names."},
    {0},
};
#undef FAST
#undef EXAMPLE
#undef SHAPE
#undef LIKE

bool create_init(PyObject *m) { return !PyModule_AddFunctions(m, functions); }
