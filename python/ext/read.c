/* read.c: parameters that are ints, flags, axes or shapes. */
#include "ext.h"

PyObject *read_index(const char *who, const char *what, PyObject *o)
{
    const bool like = PyIndex_Check(o) && !PyBool_Check(o) && !array_check(o);
    PyObject *index = like ? PyNumber_Index(o) : NULL; /* NumPy's arrays look like ints */
    if (!like || (!index && PyErr_ExceptionMatches(PyExc_TypeError)))
        PyErr_Format(PyExc_TypeError, "%s: %s is a Python int, not %s", who, what, stage_kind(o));
    return index;
}

bool read_int(const char *who, const char *what, PyObject *o, int64_t *out)
{
    PyObject *index = read_index(who, what, o);
    if (!index) return false;
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow) *out = overflow > 0 ? INT64_MAX : INT64_MIN;
    return *out != -1 || !PyErr_Occurred();
}

bool read_flag(const char *who, const char *what, PyObject *o, bool *out)
{
    if (!o) return true;
    const char *type = Py_TYPE(o)->tp_name;
    if (PyLong_Check(o) || !strcmp(type, "numpy.bool") || !strcmp(type, "numpy.bool_")) {
        const int truth = PyObject_IsTrue(o);
        *out = truth > 0;
        return truth >= 0;
    }
    PyErr_Format(PyExc_TypeError, "%s: %s is True or False, not %s", who, what, stage_kind(o));
    return false;
}

/* An int, or a list, tuple or NumPy array of ints, at most QB_MAX_RANK of them. Returns their
   number, -1 with an exception. */
int read_ints(const char *who, const char *what, PyObject *o, int64_t *out)
{
    if (ops_foreign(o) && !view_check(o) && PyObject_HasAttrString(o, "tolist")) {
        PyObject *plain = PyObject_CallMethod(o, "tolist", NULL);
        const int n = !plain ? -1 : ops_foreign(plain) ? -2 : read_ints(who, what, plain, out);
        Py_XDECREF(plain);
        if (n > -2) return n;
    }
    if (!PyList_Check(o) && !PyTuple_Check(o) && !PyRange_Check(o))
        return read_int(who, what, o, out) ? 1 : -1;
    PyObject *list = PySequence_Fast(o, "not a sequence");
    if (!list) return -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(list);
    if (n > QB_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "%s: %s has %zd entries; at most %d axes", who, what, n,
                     QB_MAX_RANK);
        n = -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (!read_int(who, what, PySequence_Fast_GET_ITEM(list, i), &out[i])) n = -1;
    Py_DECREF(list);
    return (int)n;
}

bool read_axes(const char *who, PyObject *o, qb_attr *attr)
{
    attr->n = -1;
    return !o || o == Py_None || (attr->n = read_ints(who, "axis", o, attr->list)) >= 0;
}

bool read_shape(const char *who, PyObject *o, qb_type *t)
{
    *t = (qb_type){.dtype = QB_F64};
    const int n = read_ints(who, "shape", o, t->dims);
    if (n < 0) return false;
    t->rank = (uint8_t)n;
    for (int i = 0; i < n; i++)
        if (t->dims[i] < 1) {
            PyErr_Format(
                PyExc_ValueError,
                "%s: shape %R: lengths are at least 1; arrays without elements are not supported",
                who, o);
            return false;
        }
    if (qb_type_size(t) >= 0) return true;
    PyErr_Format(PyExc_MemoryError, "%s: an array of shape %R is larger than any memory", who, o);
    return false;
}
