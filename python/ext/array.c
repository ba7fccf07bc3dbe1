/* array.c: operators and properties that Tensor and TraceTensor share. Each operator is one op;
   what is eager and what is traced is decided in ops.c. == and != compare identity, so arrays can
   be keys. */
#include "ext.h"

/* NumPy's scalars are numbers. */
static bool is_scalar(PyObject *o)
{
    PyObject *bases = Py_TYPE(o)->tp_mro;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); i++)
        if (!strcmp(((PyTypeObject *)PyTuple_GET_ITEM(bases, i))->tp_name, "numpy.generic"))
            return true;
    return false;
}

/* A foreign array beside a tracer is refused: its values would silently become constants of the
   trace. */
static bool clash(PyObject *l, PyObject *r)
{
    if (tracer_check(l) && !view_check(r) && ops_foreign(r) && !is_scalar(r)) {
        PyErr_Format(PyExc_TypeError,
                     "a %s meets a TraceTensor; make it a Tensor first, with quabla.asarray",
                     Py_TYPE(r)->tp_name);
        return true;
    }
    if (tracer_check(r) && !view_check(l) && ops_foreign(l) && !is_scalar(l)) {
        PyErr_Format(core.TracerError,
                     "a %s meets a TraceTensor; make it a Tensor first, with quabla.asarray",
                     Py_TYPE(l)->tp_name);
        return true;
    }
    return false;
}

static PyObject *binary(int op, PyObject *l, PyObject *r)
{
    if (!ops_operand(l) || !ops_operand(r)) Py_RETURN_NOTIMPLEMENTED;
    return clash(l, r) ? NULL : ops_binary(op, l, r);
}

PyObject *array_add(PyObject *l, PyObject *r) { return binary(core.op.add, l, r); }
PyObject *array_sub(PyObject *l, PyObject *r) { return binary(core.op.sub, l, r); }
PyObject *array_mul(PyObject *l, PyObject *r) { return binary(core.op.mul, l, r); }
PyObject *array_div(PyObject *l, PyObject *r) { return binary(core.op.div, l, r); }
PyObject *array_and(PyObject *l, PyObject *r) { return binary(core.op.logical_and, l, r); }
PyObject *array_or(PyObject *l, PyObject *r) { return binary(core.op.logical_or, l, r); }
PyObject *array_neg(PyObject *x) { return ops_unary(core.op.neg, x); }
PyObject *array_pos(PyObject *x) { return Py_NewRef(x); }
PyObject *array_abs(PyObject *x) { return ops_unary(core.op.abs, x); }
PyObject *array_invert(PyObject *x) { return ops_unary(core.op.logical_not, x); }

PyObject *array_pow(PyObject *l, PyObject *r, PyObject *modulus)
{
    if (modulus != Py_None || !ops_operand(l) || !ops_operand(r)) Py_RETURN_NOTIMPLEMENTED;
    return clash(l, r) ? NULL : ops_power(l, r);
}

/* @ is for matrices; quabla.matmul takes vectors too. */
PyObject *array_matmul(PyObject *l, PyObject *r)
{
    if (!ops_operand(l) || !ops_operand(r)) Py_RETURN_NOTIMPLEMENTED;
    if (clash(l, r)) return NULL;
    PyObject *x = ops_array(l), *y = x ? ops_array(r) : NULL, *out = NULL;
    if (y && (array_type(x)->rank < 2 || array_type(y)->rank < 2)) {
        PyObject *a = dtype_text(array_type(x)), *b = dtype_text(array_type(y));
        if (a && b)
            PyErr_Format(PyExc_ValueError,
                         "@ needs two axes or more on both sides, not %U and %U; use quabla.matmul",
                         a, b);
        Py_XDECREF(a);
        Py_XDECREF(b);
    } else if (y) {
        out = ops_binary(core.op.matmul, x, y);
    }
    Py_XDECREF(x);
    Py_XDECREF(y);
    return out;
}

PyObject *array_mod(PyObject *l, PyObject *r) { return binary(core.op.mod, l, r); }
PyObject *array_floordiv(PyObject *l, PyObject *r) { return binary(core.op.floor_divide, l, r); }

PyObject *array_divmod(PyObject *l, PyObject *r)
{
    PyObject *q = array_floordiv(l, r);
    if (!q || q == Py_NotImplemented) return q;
    PyObject *rest = array_mod(l, r), *out = rest ? PyTuple_Pack(2, q, rest) : NULL;
    Py_DECREF(q);
    Py_XDECREF(rest);
    return out;
}

/* a < x is x > a to Python when a gives way, so which side a foreign array stood on is not known. */
static PyObject *compare(int op, PyObject *l, PyObject *r)
{
    if (tracer_check(l) && clash(r, l)) return NULL;
    return binary(op, l, r);
}

PyObject *array_compare(PyObject *l, PyObject *r, int how)
{
    switch (how) {
    case Py_LT: return compare(core.op.less, l, r);
    case Py_LE: return compare(core.op.less_equal, l, r);
    case Py_GT: return compare(core.op.greater, l, r);
    case Py_GE: return compare(core.op.greater_equal, l, r);
    default: return PyBool_FromLong((l == r) == (how == Py_EQ));
    }
}

Py_hash_t array_hash(PyObject *x)
{
    const size_t p = (size_t)x;
    const Py_hash_t hash = (Py_hash_t)(p >> 4 | p << (8 * sizeof p - 4));
    return hash == -1 ? -2 : hash;
}

PyObject *array_iter(PyObject *x)
{
    if (array_type(x)->rank) return PySeqIter_New(x);
    PyErr_SetString(PyExc_TypeError, "a scalar array has nothing to iterate over");
    return NULL;
}

/* x[i] = y and del x[i]: TypeError. */
int array_assign(PyObject *x, PyObject *Py_UNUSED(key), PyObject *y)
{
    PyErr_Format(
        PyExc_TypeError,
        "%s is immutable, so elements cannot be %s; make a new array of it, with quabla.where, "
        "concat or scatter_add",
        stage_kind(x), y ? "assigned" : "deleted");
    return -1;
}

/* v in x: is an element equal? Equality of arrays is identity, which would never find one. */
int array_contains(PyObject *x, PyObject *v)
{
    PyObject *same = ops_binary(core.op.equal, x, v);
    PyObject *any = same ? ops_apply(core.op.any, &(qb_attr){.n = -1}, &same, 1) : NULL;
    const int found = any ? PyObject_IsTrue(any) : -1;
    Py_XDECREF(same);
    Py_XDECREF(any);
    return found;
}

/* ---- properties ---- */

PyObject *array_shape_list(const qb_type *t)
{
    PyObject *list = PyList_New(t->rank);
    for (int i = 0; list && i < t->rank; i++) {
        PyObject *n = PyLong_FromLongLong(t->dims[i]);
        if (!n)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, n);
    }
    return list;
}

static PyObject *get_shape(PyObject *x, void *Py_UNUSED(c))
{
    return array_shape_list(array_type(x));
}
static PyObject *get_ndim(PyObject *x, void *Py_UNUSED(c))
{
    return PyLong_FromLong(array_type(x)->rank);
}
static PyObject *get_size(PyObject *x, void *Py_UNUSED(c))
{
    return PyLong_FromLongLong(qb_type_size(array_type(x)));
}
static PyObject *get_dtype(PyObject *x, void *Py_UNUSED(c))
{
    return Py_NewRef(dtype_object(array_type(x)->dtype));
}
static PyObject *get_T(PyObject *x, void *Py_UNUSED(c)) { return shape_transpose(x, -1, NULL); }
/* NumPy leaves operators to the side with the higher priority. */
static PyObject *get_priority(PyObject *Py_UNUSED(x), void *Py_UNUSED(c))
{
    return PyLong_FromLong(1000);
}

PyGetSetDef array_getset[] = {
    {"shape", get_shape, NULL, "lengths of the axes, a list", NULL},
    {"ndim", get_ndim, NULL, "number of axes", NULL},
    {"size", get_size, NULL, "number of elements", NULL},
    {"dtype", get_dtype, NULL, "quabla.float32, quabla.float64 or quabla.bool_", NULL},
    {"T", get_T, NULL, "the array with its axes reversed", NULL},
    {"__array_priority__", get_priority, NULL, NULL, NULL},
    {0},
};
