/* index.c: basic indexing: ints, slices of any nonzero step, None and one `...`, as NumPy's.

   A key becomes one {start, length, step} per axis and the shape of the result. Eager arrays are
   copied out in one strided pass; traced ones become a slice node per axis that is cut, and one
   reshape. */
#include "ext.h"

typedef struct {
    int64_t start, length, step;
    bool keep;
} Cut;
typedef struct {
    Cut cut[QB_MAX_RANK]; /* one per axis of the array */
    qb_type shape;        /* of the result */
} Key;

Py_ssize_t index_length(PyObject *x)
{
    const qb_type *t = array_type(x);
    if (t->rank) return (Py_ssize_t)t->dims[0];
    PyErr_SetString(PyExc_TypeError, "a scalar array has no len()");
    return -1;
}

/* ---- reading the key ---- */

static bool no_index(PyObject *o)
{
    PyErr_Format(PyExc_TypeError,
                 "an index is made of ints, slices, None and one `...`, not %s; for masks use "
                 "quabla.where, for lists of ints quabla.gather",
                 stage_kind(o));
    return false;
}

static bool cut_int(PyObject *o, int axis, int64_t n, Cut *c)
{
    const Py_ssize_t i = PyNumber_AsSsize_t(o, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return PyErr_ExceptionMatches(PyExc_TypeError) &&
               no_index(o); /* NumPy's arrays look like ints */
    if (i < -n || i >= n) {
        PyErr_Format(PyExc_IndexError, "index %zd is out of range for axis %d with length %lld", i,
                     axis, (long long)n);
        return false;
    }
    *c = (Cut){i < 0 ? i + n : i, 1, 1, false};
    return true;
}

static bool cut_slice(PyObject *o, int axis, int64_t n, Cut *c)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(o, &start, &stop, &step)) return false;
    const Py_ssize_t length = PySlice_AdjustIndices((Py_ssize_t)n, &start, &stop, step);
    if (length < 1) {
        PyErr_Format(PyExc_ValueError,
                     "%R selects nothing of axis %d with length %lld; arrays without elements are "
                     "not supported",
                     o, axis, (long long)n);
        return false;
    }
    *c = (Cut){start, length, length > 1 ? step : 1,
               true}; /* one element: any step, and none overflows */
    return true;
}

static bool is_int(PyObject *o) { return PyIndex_Check(o) && !PyBool_Check(o) && !array_check(o); }

/* How many axes does the key consume? -1 and an exception for a part that is no basic index. */
static int consumed(PyObject *const *parts, Py_ssize_t n)
{
    int axes = 0, dots = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (parts[i] == Py_Ellipsis)
            dots++;
        else if (is_int(parts[i]) || PySlice_Check(parts[i]))
            axes++;
        else if (parts[i] != Py_None)
            return no_index(parts[i]), -1;
    }
    if (dots <= 1) return axes;
    PyErr_SetString(PyExc_IndexError, "an index may hold one `...` only");
    return -1;
}

static bool append(Key *k, int64_t length)
{
    if (k->shape.rank == QB_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "the result would have more than %d axes", QB_MAX_RANK);
        return false;
    }
    k->shape.dims[k->shape.rank++] = length;
    return true;
}

static bool whole(Key *k, const qb_type *t, int axis)
{
    k->cut[axis] = (Cut){0, t->dims[axis], 1, true};
    return append(k, t->dims[axis]);
}

static bool read_key(const qb_type *t, PyObject *const *parts, Py_ssize_t n, Key *k)
{
    const int used = consumed(parts, n);
    if (used < 0) return false;
    if (used > t->rank) {
        PyErr_Format(PyExc_IndexError, "%d indices for an array with %d axes", used, t->rank);
        return false;
    }
    k->shape = (qb_type){.dtype = t->dtype, .weak = t->weak};
    int axis = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = parts[i];
        if (o == Py_None) {
            if (!append(k, 1)) return false;
        } else if (o == Py_Ellipsis) {
            for (int rest = t->rank - used; rest; rest--)
                if (!whole(k, t, axis++)) return false;
        } else if (PySlice_Check(o)) {
            if (!cut_slice(o, axis, t->dims[axis], &k->cut[axis]) ||
                !append(k, k->cut[axis].length))
                return false;
            axis++;
        } else {
            if (!cut_int(o, axis, t->dims[axis], &k->cut[axis])) return false;
            axis++;
        }
    }
    while (axis < t->rank)
        if (!whole(k, t, axis++)) return false;
    return true;
}

/* ---- taking ---- */

static PyObject *take_eager(PyObject *x, const Key *k)
{
    const qb_type *t = &((Tensor *)x)->type;
    const int64_t item = qb_dtype_size(t->dtype);
    int64_t dims[QB_MAX_RANK], strides[QB_MAX_RANK], stride = item, offset = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        dims[i] = k->cut[i].length;
        strides[i] = stride * k->cut[i].step;
        offset += stride * k->cut[i].start;
        stride *= t->dims[i];
    }
    if (qb_type_size(&k->shape) == qb_type_size(t) &&
        !offset) { /* nothing is left out or turned round */
        bool forward = true;
        for (int i = 0; i < t->rank; i++) forward &= k->cut[i].step > 0 || dims[i] == 1;
        if (forward) return tensor_new(qb_buffer_retain(((Tensor *)x)->buffer), &k->shape);
    }
    Tensor *out = tensor_empty(&k->shape);
    if (out)
        convert_gather(qb_buffer_data(out->buffer), (char *)tensor_data(x) + offset, item, t->rank,
                       dims, strides);
    return (PyObject *)out;
}

static PyObject *take_traced(PyObject *x, const Key *k)
{
    const qb_type t = *array_type(x);
    PyObject *y = Py_NewRef(x);
    bool same = t.rank == k->shape.rank;
    for (int i = 0; y && i < t.rank; i++) {
        const Cut *c = &k->cut[i];
        same &= c->keep && same && k->shape.dims[i] == c->length;
        if (c->length == t.dims[i] && c->step == 1) continue;
        const qb_attr a = {.i = i, .start = c->start, .length = c->length, .step = c->step};
        Py_SETREF(y, ops_apply(core.op.slice, &a, &y, 1));
    }
    if (y && !same) Py_SETREF(y, shape_reshape(y, k->shape.rank, k->shape.dims));
    return y;
}

PyObject *index_item(PyObject *x, Py_ssize_t i)
{
    const qb_type *t = array_type(x);
    if (t->rank && i >= 0 && i < t->dims[0]) {
        PyObject *index = PyLong_FromSsize_t(i), *out = index ? index_get(x, index) : NULL;
        Py_XDECREF(index);
        return out;
    }
    PyErr_Format(PyExc_IndexError, "index %zd is out of range", i);
    return NULL;
}

PyObject *index_get(PyObject *x, PyObject *key)
{
    Key k = {0};
    const bool tuple = PyTuple_Check(key);
    PyObject *const *parts = tuple ? PySequence_Fast_ITEMS(key) : &key;
    if (!read_key(array_type(x), parts, tuple ? PyTuple_GET_SIZE(key) : 1, &k)) return NULL;
    return tensor_check(x) ? take_eager(x, &k) : take_traced(x, &k);
}
