/* shape.c: reductions and structural functions, as functions of the module and as methods.
   Axes, lengths and dtypes are judged by the core, which knows the messages. */
#include "ext.h"

/* ---- used by other files ---- */

PyObject *shape_reshape(PyObject *x, int rank, const int64_t *dims)
{
    qb_attr a = {.n = rank};
    if (rank > 0) memcpy(a.list, dims, sizeof *dims * (size_t)rank);
    return ops_apply(core.op.reshape, &a, &x, 1);
}

PyObject *shape_transpose(PyObject *x, int rank, const int64_t *axes)
{
    qb_attr a = {.n = rank};
    if (rank > 0) memcpy(a.list, axes, sizeof *axes * (size_t)rank);
    return ops_apply(core.op.transpose, &a, &x, 1);
}

PyObject *shape_astype(PyObject *x, int dtype)
{
    if (array_check(x) && array_type(x)->dtype == dtype && !array_type(x)->weak)
        return Py_NewRef(x);
    return ops_apply(core.op.cast, &(qb_attr){.i = dtype}, &x, 1);
}

PyObject *shape_broadcast(const char *who, PyObject *x, const qb_type *shape)
{
    qb_attr a = {.n = shape->rank};
    memcpy(a.list, shape->dims, sizeof *shape->dims * shape->rank);
    PyObject *out = ops_apply(core.op.broadcast, &a, &x, 1);
    return out ? out : error_says("broadcast", who);
}

/* ---- functions ---- */

static const char *const reduce_names[] = {"x", "axis", "keepdims"};

static PyObject *reduce(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    const int number = ops_number(op);
    const char *who = qb_op_at(number).name;
    PyObject *a[3];
    qb_attr attr = {.n = -1};
    if (!module_args(who, reduce_names, 1, 3, args, n, kwnames, a)) return NULL;
    bool keep = false;
    if (!read_axes(who, a[1], &attr) || !read_flag(who, "keepdims", a[2], &keep)) return NULL;
    attr.keepdims = keep;
    return ops_apply(number, &attr, a, 1);
}

/* An op without attributes; all its operands have names. */
static PyObject *named(int op, const char *const *names, int count, PyObject *const *args,
                       Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[3];
    return module_args(qb_op_at(op).name, names, count, count, args, n, kwnames, a)
               ? ops_apply(op, NULL, a, count)
               : NULL;
}

static const char *const matmul_names[] = {"x1", "x2"}, *const sides_names[] = {"self", "rhs"},
                         *const where_names[] = {"mask", "on_true", "on_false"},
                         *const x_names[] = {"x"};

static PyObject *matmul(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames)
{
    return named(core.op.matmul, matmul_names, 2, args, n, kwnames);
}

static PyObject *matmul_method(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames)
{
    return named(core.op.matmul, sides_names, 2, args, n, kwnames);
}

static PyObject *where(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                       PyObject *kwnames)
{
    return named(core.op.where, where_names, 3, args, n, kwnames);
}

static PyObject *stop_gradient(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames)
{
    return named(core.op.stop_gradient, x_names, 1, args, n, kwnames);
}

static const char *const powi_names[] = {"x", "exponent"};

static PyObject *powi(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                      PyObject *kwnames)
{
    PyObject *a[2];
    qb_attr attr = {0};
    if (!module_args("powi", powi_names, 2, 2, args, n, kwnames, a) ||
        !read_int("powi", "exponent", a[1], &attr.i))
        return NULL;
    return ops_apply(core.op.powi, &attr, a, 1);
}

static const char *const astype_names[] = {"x", "dtype"};

static PyObject *astype(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames)
{
    PyObject *a[2];
    if (!module_args("astype", astype_names, 2, 2, args, n, kwnames, a)) return NULL;
    const int dtype = dtype_of(a[1]);
    return dtype < 0 ? NULL : shape_astype(a[0], dtype);
}

/* reshape(x, shape), and x.reshape(2, 3) as x.reshape([2, 3]). */
static const char *const shape_names[] = {"x", "shape"};

static PyObject *with_list(const char *who, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                           const char *const *names, int required, qb_attr *attr, PyObject **x)
{
    PyObject *a[2], *many = NULL;
    if (n > 2 && !kwnames) {
        many = PyTuple_New(n - 1);
        for (Py_ssize_t i = 1; many && i < n; i++)
            PyTuple_SET_ITEM(many, i - 1, Py_NewRef(args[i]));
        if (!many) return NULL;
        a[0] = args[0];
        a[1] = many;
    } else if (!module_args(who, names, required, 2, args, n, kwnames, a)) {
        return NULL;
    }
    if (a[1] && a[1] != Py_None) attr->n = read_ints(who, names[1], a[1], attr->list);
    const bool failed = a[1] && a[1] != Py_None && attr->n < 0;
    Py_XDECREF(many);
    *x = a[0];
    return failed ? NULL : *x;
}

static PyObject *reshape(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                         PyObject *kwnames)
{
    qb_attr attr = {0};
    PyObject *x;
    if (n == 1 && !kwnames) return shape_reshape(args[0], 0, attr.list); /* x.reshape(): a scalar */
    return with_list("reshape", args, n, kwnames, shape_names, 2, &attr, &x)
               ? ops_apply(core.op.reshape, &attr, &x, 1)
               : NULL;
}

static const char *const transpose_names[] = {"x", "axes"};

static PyObject *transpose(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames)
{
    qb_attr attr = {.n = -1};
    PyObject *x;
    return with_list("transpose", args, n, kwnames, transpose_names, 1, &attr, &x)
               ? ops_apply(core.op.transpose, &attr, &x, 1)
               : NULL;
}

static PyObject *broadcast_to(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames)
{
    PyObject *a[2];
    qb_type shape;
    if (!module_args("broadcast_to", shape_names, 2, 2, args, n, kwnames, a) ||
        !read_shape("broadcast_to", a[1], &shape))
        return NULL;
    return shape_broadcast("broadcast_to", a[0], &shape);
}

/* a: axis, start, length, step, and whatever comes before them. */
static bool slice_attr(PyObject *const *a, qb_attr *attr)
{
    *attr = (qb_attr){.step = 1};
    return read_int("slice", "axis", a[0], &attr->i) &&
           read_int("slice", "start", a[1], &attr->start) &&
           read_int("slice", "length", a[2], &attr->length) &&
           (!a[3] || read_int("slice", "step", a[3], &attr->step));
}

static const char *const slice_names[] = {"x", "axis", "start", "length", "step"};

bool shape_slice_args(PyObject *const *args, Py_ssize_t n, PyObject *kwnames, qb_attr *attr)
{
    PyObject *a[4];
    return module_args("slice", slice_names + 1, 3, 4, args, n, kwnames, a) && slice_attr(a, attr);
}

static PyObject *slice(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                       PyObject *kwnames)
{
    PyObject *a[5];
    qb_attr attr;
    if (!module_args("slice", slice_names, 4, 5, args, n, kwnames, a) || !slice_attr(a + 1, &attr))
        return NULL;
    return ops_apply(core.op.slice, &attr, a, 1);
}

/* Of a Tensor a view, of a traced value a node. */
static PyObject *slice_method(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    qb_attr attr;
    if (!n || !tensor_check(args[0])) return slice(op, args, n, kwnames);
    return shape_slice_args(args + 1, n - 1, kwnames, &attr) ? view_slice(args[0], &attr) : NULL;
}

/* x.gt(y): the comparison as 0 and 1 of x's dtype. */
static PyObject *gt(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[2];
    if (!module_args("gt", sides_names, 2, 2, args, n, kwnames, a)) return NULL;
    const int dtype = array_type(a[0])->dtype;
    PyObject *mask = ops_binary(core.op.greater, a[0], a[1]);
    PyObject *out = mask ? shape_astype(mask, dtype == QB_BOOL ? QB_F64 : dtype) : NULL;
    Py_XDECREF(mask);
    return out;
}

/* round(x): what Python's own function calls; digits are not for arrays. */
static const char *const round_names[] = {"self", "ndigits"};

static PyObject *rounded(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *a[2];
    if (!module_args("round", round_names, 1, 2, args, n, kwnames, a)) return NULL;
    if (!a[1] || a[1] == Py_None) return ops_unary(ops_number(op), a[0]);
    PyErr_SetString(PyExc_TypeError,
                    "round: arrays round to integers; for digits use round(x * 10**n) / 10**n");
    return NULL;
}

bool shape_init(PyObject *m)
{
    enum { BOTH = AS_FUNCTION | AS_METHOD };
    /* clang-format off */
    const OpRow rows[] = {
        {"sum",
         "sum(x, axis=None, keepdims=False)\n--\n\nSum over axes, in a fixed order: blocks of 128, "
         "8 lanes each. float32 sums are float64 inside and rounded once." FLOATS OVER,
         reduce, core.op.sum, BOTH},
        {"mean",
         "mean(x, axis=None, keepdims=False)\n--\n\nMean over axes: the sum divided by the number "
         "of elements, float32 rounded once at the end." FLOATS OVER,
         reduce, core.op.mean, BOTH},
        {"max",
         "max(x, axis=None, keepdims=False)\n--\n\nLargest element over axes; NaN wins, -0 < +0. "
         "The derivative is split equally between ties." FLOATS OVER,
         reduce, core.op.max, BOTH},
        {"min",
         "min(x, axis=None, keepdims=False)\n--\n\nSmallest element over axes; NaN wins, -0 < +0. "
         "The derivative is split equally between ties." FLOATS OVER,
         reduce, core.op.min, BOTH},
        {"prod",
         "prod(x, axis=None, keepdims=False)\n--\n\nProduct over axes, as a tree of pairs; its "
         "derivatives are products, exact also where elements are 0." FLOATS OVER,
         reduce, qb_op_find("prod"), BOTH},
        {"norm",
         "norm(x, axis=None, keepdims=False)\n--\n\nSquare root of the sum of squares over axes, "
         "without overflow; its derivative at 0 is 0." FLOATS OVER,
         reduce, qb_op_find("norm"), BOTH},
        {"logsumexp",
         "logsumexp(x, axis=None, keepdims=False)\n--\n\nLogarithm of the sum of exponentials over "
         "axes, without overflow; -inf where all elements are, inf where one is." FLOATS OVER,
         reduce, qb_op_find("logsumexp"), BOTH},
        {"any",
         "any(x, axis=None, keepdims=False)\n--\n\nIs any element true over axes? Nonzero and NaN "
         "are. Returns bool.\n\nx: array, number or list of any dtype and shape.\n" OVER,
         reduce, qb_op_find("any"), BOTH},
        {"all",
         "all(x, axis=None, keepdims=False)\n--\n\nAre all elements true over axes? Nonzero and "
         "NaN are. Returns bool.\n\nx: array, number or list of any dtype and shape.\n" OVER,
         reduce, qb_op_find("all"), BOTH},
        {"matmul",
         "matmul(x1, x2)\n--\n\nMatrix product, as NumPy's.\n\nx1: [..., m, k], x2: [..., k, n], "
         "float32 or float64, batch axes broadcast; a vector counts as a row on the left, a\n"
         "column on the right. Returns [..., m, n] without the axes of vectors. float32 products "
         "and sums are float64 inside, rounded once.\n"
         "Raises ValueError for scalars, inner lengths or batch axes that do not fit, dtypes that "
         "differ.\n",
         matmul, 0, AS_FUNCTION},
        {"matmul", "matmul(self, rhs)\n--\n\nquabla.matmul with this array on the left.\n", matmul_method, 0, AS_METHOD},
        {"where",
         "where(mask, on_true, on_false)\n--\n\nElements of on_true where mask is true, of "
         "on_false elsewhere.\n\nmask: bool, or floating tested != 0. All three broadcast to one shape; the "
         "branches have one dtype, numbers adopt it.\nRaises ValueError for shapes that do not broadcast and for float32 beside float64.\n"
         "No derivative goes through mask or the element that is not taken: NaN or inf there never "
         "leaks.\n",
         where, 0, AS_FUNCTION},
        {"where_select",
         "where_select(mask, on_true, on_false)\n--\n\nquabla.where with this array as the mask.\n",
         where, 0, AS_METHOD},
        {"stop_gradient",
         "stop_gradient(x)\n--\n\nx itself, with zero derivative in every mode.\n\nx: array of any "
         "dtype and shape; TypeError for what is no array.\n",
         stop_gradient, 0, BOTH},
        {"powi",
         "powi(x, exponent)\n--\n\nx to a constant int power >= 0, by multiplications; x ** 3 is "
         "this." FLOATS "ValueError for a negative exponent.\n",
         powi, 0, BOTH},
        {"astype",
         "astype(x, dtype)\n--\n\nThe array in another dtype; to bool, nonzero and NaN are "
         "True.\n\nx: array, number or list of any shape. dtype: quabla.float32, float64 or bool_, their names, "
         "or NumPy's; else TypeError. The derivative is cast\n"
         "back between floating dtypes, and 0 to and from bool.\n",
         astype, 0, BOTH},
        {"cast", "cast(x, dtype)\n--\n\nThe same as astype.\n", astype, 0, BOTH},
        {"reshape",
         "reshape(x, shape)\n--\n\nThe same elements in row-major order in another shape.\n\nx: "
         "array of any dtype. shape: an int or ints, one of which may be -1; x.reshape(2, 3) works "
         "too.\n"
         "Raises ValueError when the elements do not fill it.\n",
         reshape, 0, AS_FUNCTION},
        {"reshape",
         "reshape(self, *shape)\n--\n\nThe same elements in row-major order in another shape: ints, or a list of them, one of "
         "which may be -1.\n\nRaises ValueError when the elements do not fill it.\n",
         reshape, 0, AS_METHOD},
        {"transpose",
         "transpose(x, axes=None)\n--\n\nAxes permuted: axis i of the result is axes[i] of x; "
         "reversed for None.\n\nx: array of any dtype. Raises ValueError when axes does not name "
         "each axis once.\n",
         transpose, 0, BOTH},
        {"broadcast_to",
         "broadcast_to(x, shape)\n--\n\nx repeated to a shape, by NumPy's rules.\n\nx: array of "
         "any dtype. Raises ValueError when its axes are neither 1 nor those of shape.\n",
         broadcast_to, 0, BOTH},
        {"slice",
         "slice(x, axis, start, length, step=1)\n--\n\nElements start + i * step, i < length, "
         "along one axis; step is any nonzero int.\n\nRaises IndexError when they leave the axis, "
         "ValueError for length < 1, step 0 or an axis that x has not.\n",
         slice, 0, AS_FUNCTION},
        {"slice",
         "slice(x, axis, start, length, step=1)\n--\n\nA TensorView of elements start + i * step, "
         "i < length, along one axis: nothing is copied. Of a traced value, those elements.\n\n"
         "Raises IndexError when they leave the axis, ValueError for length < 1, step 0 or an axis "
         "that x has not.\n",
         slice_method, 0, AS_METHOD},
        {"__round__", "__round__(self, ndigits=None)\n--\n\nNearest integers, half to even.\n",
         rounded, core.op.round, AS_METHOD},
        {"gt", "gt(self, rhs)\n--\n\nself > rhs as a mask of 0 and 1 in the dtype of self.\n", gt,
         0, AS_METHOD},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!ops_add(m, &rows[i])) return false;
    return true;
}
