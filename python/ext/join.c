/* join.c: concat and stack, of lists of arrays. */
#include "ext.h"

/* Elements of the sequence o, as arrays, in a new tuple. */
static PyObject *parts(const char *who, PyObject *o)
{
    PyObject *tuple = NULL;
    if (PyList_Check(o) || PyTuple_Check(o)) {
        tuple = PySequence_Tuple(o);
    } else if (array_check(o) || ops_foreign(o)) {
        PyObject *x = ops_array(o);
        if (!x) return error_says("array", who);
        tuple = PySequence_Tuple(x);
        Py_DECREF(x);
    }
    if (!tuple) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%s takes a list of arrays, not %s", who, stage_kind(o));
        return NULL;
    }
    if (!PyTuple_GET_SIZE(tuple)) {
        PyErr_Format(PyExc_ValueError, "%s needs at least one array", who);
        Py_CLEAR(tuple);
    }
    return tuple;
}

static const char *const concat_names[] = {"matrices", "axis"};

static PyObject *concat(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames)
{
    PyObject *a[2];
    qb_attr attr = {0};
    if (!module_args("concat", concat_names, 1, 2, args, n, kwnames, a) ||
        (a[1] && !read_int("concat", "axis", a[1], &attr.i)))
        return NULL;
    PyObject *list = parts("concat", a[0]);
    PyObject *out =
        list ? ops_apply(core.op.concat, &attr, PySequence_Fast_ITEMS(list), PyTuple_GET_SIZE(list))
             : NULL;
    Py_XDECREF(list);
    return out;
}

/* Item i of a tuple of our own becomes y, unless that is NULL. */
static bool put(PyObject *tuple, Py_ssize_t i, PyObject *y)
{
    if (!y) return false;
    Py_DECREF(PyTuple_GET_ITEM(tuple, i));
    PyTuple_SET_ITEM(tuple, i, y);
    return true;
}

/* A new axis of length 1 at `axis` of the result, which may be negative. */
static PyObject *expand(PyObject *o, int64_t axis)
{
    PyObject *x = ops_array(o);
    if (!x) return NULL;
    const qb_type *t = array_type(x);
    const int64_t at = axis < 0 ? axis + t->rank + 1 : axis;
    int64_t dims[QB_MAX_RANK + 1];
    PyObject *out = NULL;
    if (at < 0 || at > t->rank) {
        PyErr_Format(PyExc_ValueError, "stack: axis %lld is out of range for arrays with %d axes",
                     (long long)axis, t->rank);
    } else if (t->rank == QB_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "stack: the arrays have %d axes, and none has more",
                     t->rank);
    } else {
        for (int i = 0, j = 0; i <= t->rank; i++) dims[i] = i == at ? 1 : t->dims[j++];
        out = shape_reshape(x, t->rank + 1, dims);
    }
    Py_DECREF(x);
    return out;
}

static bool equal_shapes(PyObject *list)
{
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(list); i++) {
        PyObject *x = PyTuple_GET_ITEM(list, 0), *y = PyTuple_GET_ITEM(list, i);
        const qb_type *s = array_type(x), *t = array_type(y);
        if (s->rank == t->rank && !memcmp(s->dims, t->dims, sizeof *s->dims * s->rank)) continue;
        PyObject *a = array_shape_list(s), *b = array_shape_list(t);
        if (a && b)
            PyErr_Format(PyExc_ValueError, "stack: array 0 has shape %R, array %zd has %R", a, i,
                         b);
        Py_XDECREF(a);
        Py_XDECREF(b);
        return false;
    }
    return true;
}

static bool is_number(PyObject *o) { return PyFloat_Check(o) || PyLong_Check(o); }

static const char *const stack_names[] = {"tensors", "axis"};

static PyObject *stack(PyObject *Py_UNUSED(op), PyObject *const *args, Py_ssize_t n,
                       PyObject *kwnames)
{
    PyObject *a[2], *out = NULL;
    qb_attr attr = {0};
    if (!module_args("stack", stack_names, 1, 2, args, n, kwnames, a) ||
        (a[1] && !read_int("stack", "axis", a[1], &attr.i)))
        return NULL;
    PyObject *list = parts("stack", a[0]);
    if (!list) return NULL;
    bool numbers = true; /* alone they stack to float64, beside arrays they take their dtype */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); i++)
        numbers &= is_number(PyTuple_GET_ITEM(list, i));
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(list); i++) {
        PyObject *x = PyTuple_GET_ITEM(list, i);
        ok = put(list, i, !numbers && is_number(x) ? shape_reshape(x, 0, attr.list) : ops_array(x));
    }
    if (!ok) error_says("array", "stack");
    ok = ok && equal_shapes(list);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(list); i++) {
        ok = put(list, i, expand(PyTuple_GET_ITEM(list, i), attr.i));
    }
    if (ok)
        out = ops_apply(core.op.concat, &attr, PySequence_Fast_ITEMS(list), PyTuple_GET_SIZE(list));
    if (ok && !out) error_says("concat", "stack");
    Py_DECREF(list);
    return out;
}

bool join_init(PyObject *m)
{
    /* clang-format off */
    const OpRow rows[] = {
        {"concat",
         "concat(matrices, axis=0)\n--\n\nArrays one after the other along an axis.\n\nmatrices: a "
         "list or tuple of arrays of one dtype that agree outside axis; else ValueError.\n",
         concat, 0, AS_FUNCTION},
        {"stack",
         "stack(tensors, axis=0)\n--\n\nArrays of one shape along a new axis.\n\ntensors: a list "
         "or tuple of arrays or numbers of one dtype and shape; else ValueError. axis: place of "
         "the new axis, negative from the end.\n",
         stack, 0, AS_FUNCTION},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!ops_add(m, &rows[i])) return false;
    return true;
}
