/* view.c: TensorView, what Tensor.slice gives: some elements of a Tensor's memory, with strides, not copied and read-only.

   Functions take it as they take any array: it becomes a Tensor first. Operators, indexing and the methods of arrays do the same,
   so that only the view itself is cheap. */
#include "ext.h"

typedef struct {
    PyObject_HEAD qb_buffer *buffer;
    qb_type type;
    int64_t offset; /* in elements, of the first one */
    int64_t strides[QB_MAX_RANK];
    Py_ssize_t bytes[QB_MAX_RANK]; /* the strides in bytes, for the buffer protocol */
    PyObject *weakrefs;
} View;

bool view_check(PyObject *o) { return Py_TYPE(o) == core.View; }

static int64_t item_size(const View *v) { return qb_dtype_size(v->type.dtype); }
static char *first(const View *v)
{
    return (char *)qb_buffer_data(v->buffer) + v->offset * item_size(v);
}

/* ---- making ---- */

static View *view_new(qb_buffer *buffer, const qb_type *t, int64_t offset, const int64_t *strides)
{
    View *v = PyObject_New(View, core.View);
    if (!v) return NULL;
    v->buffer = qb_buffer_retain(buffer);
    v->type = *t;
    v->offset = offset;
    v->weakrefs = NULL;
    for (int i = 0; i < t->rank; i++) {
        v->strides[i] = strides[i];
        v->bytes[i] = (Py_ssize_t)(strides[i] * item_size(v));
    }
    return v;
}

/* The elements start + i * step, i < length, along an axis. */
static PyObject *cut(qb_buffer *buffer, const qb_type *from, int64_t offset, const int64_t *strides,
                     const qb_attr *a)
{
    qb_type t = *from;
    int64_t moved[QB_MAX_RANK], last;
    const int64_t axis = a->i < 0 ? a->i + t.rank : a->i;
    if (axis < 0 || axis >= t.rank) {
        PyErr_Format(PyExc_ValueError, "slice: axis %lld is out of range for an array with %d axes",
                     (long long)a->i, t.rank);
        return NULL;
    }
    if (a->length < 1 || !a->step) {
        PyErr_Format(PyExc_ValueError,
                     "slice: length %lld and step %lld; at least one element, and no step 0",
                     (long long)a->length, (long long)a->step);
        return NULL;
    }
    if (a->start < 0 || a->start >= t.dims[axis] ||
        __builtin_mul_overflow(a->length - 1, a->step, &last) ||
        __builtin_add_overflow(last, a->start, &last) || last < 0 || last >= t.dims[axis]) {
        PyErr_Format(PyExc_IndexError,
                     "slice: %lld elements from %lld by %lld leave axis %lld with length %lld",
                     (long long)a->length, (long long)a->start, (long long)a->step, (long long)axis,
                     (long long)t.dims[axis]);
        return NULL;
    }
    memcpy(moved, strides, sizeof *moved * t.rank);
    t.dims[axis] = a->length;
    t.weak = 0;
    int64_t far, bytes; /* of one element the step may be beyond any memory: then it says nothing */
    if (!__builtin_mul_overflow(strides[axis], a->step, &far) &&
        !__builtin_mul_overflow(far, qb_dtype_size(t.dtype), &bytes))
        moved[axis] = far;
    return (PyObject *)view_new(buffer, &t, offset + a->start * strides[axis], moved);
}

PyObject *view_slice(PyObject *tensor, const qb_attr *a)
{
    const Tensor *t = (Tensor *)tensor;
    int64_t strides[QB_MAX_RANK], stride = 1;
    for (int i = t->type.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= t->type.dims[i];
    }
    return cut(t->buffer, &t->type, 0, strides, a);
}

static PyObject *slice(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    const View *v = (View *)o;
    qb_attr a;
    return shape_slice_args(args, n, kwnames, &a)
               ? cut(v->buffer, &v->type, v->offset, v->strides, &a)
               : NULL;
}

PyObject *view_tensor(PyObject *o)
{
    const View *v = (View *)o;
    Tensor *out = tensor_empty(&v->type);
    int64_t bytes[QB_MAX_RANK];
    for (int i = 0; i < v->type.rank; i++) bytes[i] = v->bytes[i];
    if (out)
        convert_gather(qb_buffer_data(out->buffer), first(v), item_size(v), v->type.rank,
                       v->type.dims, bytes);
    return (PyObject *)out;
}

/* ---- what it does by itself ---- */

static PyObject *ints(int n, const int64_t *x)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *v = PyLong_FromLongLong(x[i]);
        if (v)
            PyList_SET_ITEM(list, i, v);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *get_shape(PyObject *o, void *Py_UNUSED(c))
{
    return array_shape_list(&((View *)o)->type);
}
static PyObject *get_ndim(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLong(((View *)o)->type.rank);
}
static PyObject *get_size(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLongLong(qb_type_size(&((View *)o)->type));
}
static PyObject *get_dtype(PyObject *o, void *Py_UNUSED(c))
{
    return Py_NewRef(dtype_object(((View *)o)->type.dtype));
}
static PyObject *get_offset(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLongLong(((View *)o)->offset);
}
static PyObject *get_strides(PyObject *o, void *Py_UNUSED(c))
{
    return ints(((View *)o)->type.rank, ((View *)o)->strides);
}
static PyObject *get_priority(PyObject *Py_UNUSED(o), void *Py_UNUSED(c))
{
    return PyLong_FromLong(1000);
}

static PyObject *repr(PyObject *o)
{
    PyObject *shape = get_shape(o, NULL), *strides = shape ? get_strides(o, NULL) : NULL;
    PyObject *text =
        strides ? PyUnicode_FromFormat("TensorView(shape=%R, strides=%R)", shape, strides) : NULL;
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return text;
}

static int get_buffer(PyObject *o, Py_buffer *view, int flags)
{
    static char *const formats[QB_DTYPE_COUNT] = {[QB_F32] = "f", [QB_F64] = "d", [QB_BOOL] = "?"};
    View *v = (View *)o;
    int64_t packed = 1;
    bool rows = true;
    for (int i = v->type.rank - 1; i >= 0; i--) {
        rows &= v->type.dims[i] == 1 || v->strides[i] == packed;
        packed *= v->type.dims[i];
    }
    view->obj = NULL;
    if (flags & PyBUF_WRITABLE || (!rows && (flags & PyBUF_STRIDES) != PyBUF_STRIDES)) {
        PyErr_SetString(PyExc_BufferError, flags & PyBUF_WRITABLE ? "a TensorView is read-only"
                                                                  : "a TensorView has strides");
        return -1;
    }
    view->itemsize = (Py_ssize_t)item_size(v);
    view->buf = first(v);
    view->len = (Py_ssize_t)qb_type_bytes(&v->type);
    view->readonly = 1;
    view->ndim = flags & PyBUF_ND ? v->type.rank : 1;
    view->shape = flags & PyBUF_ND && v->type.rank ? (Py_ssize_t *)v->type.dims : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES && v->type.rank ? v->bytes : NULL;
    view->format = flags & PyBUF_FORMAT ? formats[v->type.dtype] : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    view->obj = Py_NewRef(o);
    return 0;
}

static void dealloc(PyObject *o)
{
    View *v = (View *)o;
    if (v->weakrefs) PyObject_ClearWeakRefs(o);
    qb_buffer_release(v->buffer);
    PyObject_Free(v);
    Py_DECREF(core.View);
}

/* ---- what its Tensor does ---- */

static PyObject *to_tensor(PyObject *o, PyObject *Py_UNUSED(none)) { return view_tensor(o); }

static PyObject *to_flat_list(PyObject *o, PyObject *Py_UNUSED(none))
{
    PyObject *t = view_tensor(o), *out = t ? convert_flat_list(t) : NULL;
    Py_XDECREF(t);
    return out;
}

static PyObject *tolist(PyObject *o, PyObject *Py_UNUSED(none))
{
    PyObject *t = view_tensor(o), *out = t ? convert_tolist(t) : NULL;
    Py_XDECREF(t);
    return out;
}

static PyObject *numpy(PyObject *o, PyObject *Py_UNUSED(none)) { return convert_numpy(o); }

static PyObject *itself(PyObject *o, PyObject *Py_UNUSED(any)) { return Py_NewRef(o); }

static PyObject *positive(PyObject *o) { return view_tensor(o); }

static Py_ssize_t length(PyObject *o)
{
    if (((View *)o)->type.rank) return (Py_ssize_t)((View *)o)->type.dims[0];
    PyErr_SetString(PyExc_TypeError, "a scalar array has no len()");
    return -1;
}

static PyObject *get_item(PyObject *o, PyObject *key)
{
    PyObject *t = view_tensor(o), *out = t ? index_get(t, key) : NULL;
    Py_XDECREF(t);
    return out;
}

static PyObject *iterate(PyObject *o)
{
    PyObject *t = view_tensor(o), *out = t ? PyObject_GetIter(t) : NULL;
    Py_XDECREF(t);
    return out;
}

static int to_bool(PyObject *o)
{
    PyObject *t = view_tensor(o);
    const int out = t ? PyObject_IsTrue(t) : -1;
    Py_XDECREF(t);
    return out;
}

static PyObject *to_float(PyObject *o)
{
    PyObject *t = view_tensor(o), *out = t ? PyNumber_Float(t) : NULL;
    Py_XDECREF(t);
    return out;
}

static PyObject *to_int(PyObject *o)
{
    PyObject *t = view_tensor(o), *out = t ? PyNumber_Long(t) : NULL;
    Py_XDECREF(t);
    return out;
}

static PyObject *format(PyObject *o, PyObject *spec)
{
    if (PyUnicode_Check(spec) && PyUnicode_GET_LENGTH(spec) == 0) return PyObject_Str(o);
    PyObject *t = view_tensor(o), *out = t ? PyObject_CallMethod(t, "__format__", "O", spec) : NULL;
    Py_XDECREF(t);
    return out;
}

static PyObject *rounded(PyObject *o, PyObject *args)
{
    PyObject *t = view_tensor(o), *method = t ? PyObject_GetAttrString(t, "__round__") : NULL,
             *out = method ? PyObject_Call(method, args, NULL) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(t);
    return out;
}

/* Methods and properties that a view has not are those of its Tensor. */
static PyObject *get_attribute(PyObject *o, PyObject *name)
{
    PyObject *out = PyObject_GenericGetAttr(o, name), *class, *value, *trace;
    if (out || !PyErr_ExceptionMatches(PyExc_AttributeError)) return out;
    PyErr_Fetch(&class, &value, &trace);
    if (!PyObject_HasAttr((PyObject *)core.Tensor, name)) {
        PyErr_Restore(class, value, trace);
        return NULL;
    }
    PyObject *t = view_tensor(o);
    out = t ? PyObject_GetAttr(t, name) : NULL;
    Py_XDECREF(t);
    Py_XDECREF(trace);
    Py_XDECREF(value);
    Py_XDECREF(class);
    return out;
}

/* A pickle is a Tensor. */
static PyObject *reduce(PyObject *o, PyObject *Py_UNUSED(none))
{
    PyObject *t = view_tensor(o), *out = t ? PyObject_CallMethod(t, "__reduce__", NULL) : NULL;
    Py_XDECREF(t);
    return out;
}

#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"slice", FAST(slice),
     "slice($self, axis, start, length, step=1)\n--\n\nA view of elements start + i * step along "
     "one "
     "axis."},
    {"to_tensor", to_tensor, METH_NOARGS,
     "to_tensor()\n--\n\nThe elements as a Tensor, row-major in memory of its own."},
    {"to_flat_list", to_flat_list, METH_NOARGS,
     "to_flat_list()\n--\n\nAll elements in row-major order."},
    {"tolist", tolist, METH_NOARGS,
     "tolist()\n--\n\nNested lists of Python floats or bools; of a scalar its value."},
    {"numpy", numpy, METH_NOARGS, "numpy()\n--\n\nA read-only NumPy array over the same memory."},
    {"__format__", format, METH_O, NULL},
    {"__round__", rounded, METH_VARARGS, NULL},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {"__copy__", itself, METH_NOARGS, NULL},
    {"__deepcopy__", itself, METH_O, NULL},
    {0},
};
static PyGetSetDef getset[] = {
    {"shape", get_shape, NULL, "lengths of the axes, a list", NULL},
    {"ndim", get_ndim, NULL, "number of axes", NULL},
    {"size", get_size, NULL, "number of elements", NULL},
    {"dtype", get_dtype, NULL, "quabla.float32, quabla.float64 or quabla.bool_", NULL},
    {"offset", get_offset, NULL, "place of the first element in the Tensor's memory", NULL},
    {"strides", get_strides, NULL, "elements between neighbours along each axis, a list", NULL},
    {"__array_priority__", get_priority, NULL, NULL, NULL},
    {0},
};
static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(View, weakrefs),
                                 READONLY, NULL},
                                {0}};
static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A read-only view of some elements of a Tensor, from Tensor.slice; nothing is copied."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_repr, repr},
    {Py_tp_getattro, get_attribute},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_bf_getbuffer, get_buffer},
    ARITHMETIC_SLOTS,
    {Py_nb_positive, positive},
    {Py_nb_bool, to_bool},
    {Py_nb_float, to_float},
    {Py_nb_int, to_int},
    {Py_tp_iter, iterate},
    {Py_mp_length, length},
    {Py_mp_subscript, get_item},
    {0},
};
static PyType_Spec spec = {"quabla.TensorView", sizeof(View), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

bool view_init(PyObject *m)
{
    core.View = (PyTypeObject *)PyType_FromSpec(&spec);
    return core.View && module_add(m, "TensorView", Py_NewRef(core.View));
}
