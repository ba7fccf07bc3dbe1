/* tensor.c: the eager array: a reference to an immutable buffer, with a dtype and a shape. It is
   never changed once others see it. */
#include "ext.h"

/* Objects of dead Tensors, for the next ones: an eager op makes one each time. */
enum { MAX_SPARE = 256 };
static Tensor *spare[MAX_SPARE];
static int n_spare;

PyObject *tensor_new(qb_buffer *buffer, const qb_type *type)
{
    Tensor *t;
    if (n_spare)
        t = (Tensor *)PyObject_Init((PyObject *)spare[--n_spare], core.Tensor);
    else
        t = PyObject_New(Tensor, core.Tensor);
    if (!t) {
        qb_buffer_release(buffer);
        return NULL;
    }
    t->buffer = buffer;
    t->weakrefs = NULL;
    t->type = *type;
    return (PyObject *)t;
}

Tensor *tensor_empty(const qb_type *type)
{
    qb_error err = {0};
    const int64_t bytes = qb_type_bytes(type);
    if (bytes < 0) {
        char text[400];
        qb_type_text(type, text, sizeof text);
        PyErr_Format(PyExc_MemoryError, "%s is larger than any memory", text);
        return NULL;
    }
    qb_buffer *buffer = qb_buffer_new(bytes, &err);
    return buffer ? (Tensor *)tensor_new(buffer, type) : error_raise(&err);
}

PyObject *tensor_scalar(double value, int dtype)
{
    const qb_type type = {.dtype = (uint8_t)dtype};
    Tensor *t = tensor_empty(&type);
    if (!t) return NULL;
    void *data = qb_buffer_data(t->buffer);
    if (dtype == QB_F32)
        *(float *)data = (float)value;
    else if (dtype == QB_F64)
        *(double *)data = value;
    else
        *(unsigned char *)data = value != 0;
    return (PyObject *)t;
}

double tensor_element(const Tensor *t, int64_t i)
{
    const void *data = qb_buffer_data(t->buffer);
    if (t->type.dtype == QB_F32) return ((const float *)data)[i];
    if (t->type.dtype == QB_F64) return ((const double *)data)[i];
    return ((const unsigned char *)data)[i];
}

static void dealloc(PyObject *o)
{
    Tensor *t = (Tensor *)o;
    if (t->weakrefs) PyObject_ClearWeakRefs(o);
    qb_buffer_release(t->buffer);
    if (n_spare < MAX_SPARE)
        spare[n_spare++] = t;
    else
        PyObject_Free(t);
    Py_DECREF(core.Tensor);
}

/* ---- to Python values ---- */

static bool one_element(PyObject *o, const char *what)
{
    const qb_type *t = &((Tensor *)o)->type;
    if (qb_type_size(t) == 1) return true;
    PyObject *text = dtype_text(t);
    if (text) PyErr_Format(PyExc_ValueError, "%s needs one element; this is a %U", what, text);
    Py_XDECREF(text);
    return false;
}

static int to_bool(PyObject *o)
{
    if (qb_type_size(&((Tensor *)o)->type) == 1) return tensor_element((Tensor *)o, 0) != 0;
    PyErr_SetString(
        PyExc_ValueError,
        "the truth value of an array with more than one element is ambiguous; reduce it first, "
        "or select elements with quabla.where");
    return -1;
}

static PyObject *to_float(PyObject *o)
{
    return one_element(o, "float()") ? PyFloat_FromDouble(tensor_element((Tensor *)o, 0)) : NULL;
}

static PyObject *to_int(PyObject *o)
{
    return one_element(o, "int()") ? PyLong_FromDouble(tensor_element((Tensor *)o, 0)) : NULL;
}

static PyObject *item(PyObject *o, PyObject *Py_UNUSED(none))
{
    if (!one_element(o, "item()")) return NULL;
    const double value = tensor_element((Tensor *)o, 0);
    return ((Tensor *)o)->type.dtype == QB_BOOL ? PyBool_FromLong(value != 0)
                                                : PyFloat_FromDouble(value);
}

/* "{:.3f}" writes the only element. */
static PyObject *format(PyObject *o, PyObject *spec)
{
    if (PyUnicode_Check(spec) && PyUnicode_GET_LENGTH(spec) == 0) return PyObject_Str(o);
    if (!one_element(o, "a format other than \"{}\"")) return NULL;
    PyObject *value = item(o, NULL),
             *text = value ? PyObject_CallMethod(value, "__format__", "O", spec) : NULL;
    Py_XDECREF(value);
    return text;
}

static PyObject *tolist(PyObject *o, PyObject *Py_UNUSED(none)) { return convert_tolist(o); }
static PyObject *to_flat_list(PyObject *o, PyObject *Py_UNUSED(none))
{
    return convert_flat_list(o);
}
static PyObject *numpy(PyObject *o, PyObject *Py_UNUSED(none)) { return convert_numpy(o); }

/* __array__(dtype=None, copy=None), NumPy's own protocol. */
static PyObject *as_array(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    PyObject *view = convert_numpy(o);
    if (!view) return NULL;
    PyObject *out = dtype == Py_None ? Py_NewRef(view)
                                     : PyObject_CallMethod(view, "astype", "OssOi", dtype, "K",
                                                           "unsafe", Py_True, 0);
    if (out && copy == Py_False && dtype != Py_None && out != view) {
        PyErr_SetString(PyExc_ValueError,
                        "a Tensor of another dtype cannot be exported without a copy");
        Py_CLEAR(out);
    }
    if (out && copy == Py_True && out == view)
        Py_SETREF(out, PyObject_CallMethod(view, "copy", NULL));
    Py_DECREF(view);
    return out;
}

/* ---- buffer protocol: read-only, no copy ---- */

static int get_buffer(PyObject *o, Py_buffer *view, int flags)
{
    static char *const formats[QB_DTYPE_COUNT] = {[QB_F32] = "f", [QB_F64] = "d", [QB_BOOL] = "?"};
    Tensor *t = (Tensor *)o;
    view->obj = NULL;
    if (flags & PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "a Tensor is read-only");
        return -1;
    }
    view->itemsize = (Py_ssize_t)qb_dtype_size(t->type.dtype);
    view->strides = NULL;
    view->internal = NULL;
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES && t->type.rank) {
        view->internal = PyMem_Malloc(sizeof *view->strides * t->type.rank);
        if (!view->internal) {
            PyErr_NoMemory();
            return -1;
        }
        view->strides = view->internal;
        Py_ssize_t stride = view->itemsize;
        for (int i = t->type.rank - 1; i >= 0; i--) {
            view->strides[i] = stride;
            stride *= (Py_ssize_t)t->type.dims[i];
        }
    }
    view->buf = qb_buffer_data(t->buffer);
    view->len = (Py_ssize_t)qb_type_bytes(&t->type);
    view->readonly = 1;
    view->ndim = flags & PyBUF_ND ? t->type.rank : 1;
    view->shape = flags & PyBUF_ND && t->type.rank ? (Py_ssize_t *)t->type.dims : NULL;
    view->format = flags & PyBUF_FORMAT ? formats[t->type.dtype] : NULL;
    view->suboffsets = NULL;
    view->obj = Py_NewRef(o);
    return 0;
}

static void release_buffer(PyObject *Py_UNUSED(o), Py_buffer *view) { PyMem_Free(view->internal); }

/* ---- making, copying, pickling ---- */

/* Tensor(shape, data, dtype=None): the elements of data, in row-major order. */
static PyObject *construct(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "data", "dtype", NULL};
    PyObject *shape, *data, *dtype = Py_None;
    qb_type t;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O:Tensor", names, &shape, &data, &dtype))
        return NULL;
    const int code = dtype_or(dtype, -1);
    if ((code < 0 && PyErr_Occurred()) || !read_shape("Tensor", shape, &t)) return NULL;
    return convert_flat(&t, data, code);
}

static PyObject *reduce(PyObject *o, PyObject *Py_UNUSED(none))
{
    const Tensor *t = (Tensor *)o;
    PyObject *shape = array_shape_list(&t->type);
    PyObject *data = PyBytes_FromStringAndSize(tensor_data(o), (Py_ssize_t)qb_type_bytes(&t->type));
    PyObject *module = PyImport_ImportModule("quabla._core");
    PyObject *rebuild = module ? PyObject_GetAttrString(module, "_from_bytes") : NULL;
    PyObject *out = shape && data && rebuild
                        ? Py_BuildValue("O(OOO)", rebuild, shape, data, dtype_object(t->type.dtype))
                        : NULL;
    Py_XDECREF(shape);
    Py_XDECREF(data);
    Py_XDECREF(module);
    Py_XDECREF(rebuild);
    return out;
}

/* _from_bytes(shape, data, dtype): what a pickle calls. */
static PyObject *from_bytes(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *shape, *dtype;
    const char *data;
    Py_ssize_t n;
    qb_type t;
    if (!PyArg_ParseTuple(args, "Oy#O:_from_bytes", &shape, &data, &n, &dtype) ||
        !read_shape("Tensor", shape, &t))
        return NULL;
    const int code = dtype_of(dtype);
    if (code < 0) return NULL;
    t.dtype = (uint8_t)code;
    if (qb_type_bytes(&t) != n) {
        PyErr_Format(PyExc_ValueError, "Tensor: %zd bytes of data do not fit the shape", n);
        return NULL;
    }
    Tensor *out = tensor_empty(&t);
    if (out) memcpy(qb_buffer_data(out->buffer), data, (size_t)n);
    return (PyObject *)out;
}

static PyObject *itself(PyObject *o, PyObject *Py_UNUSED(any)) { return Py_NewRef(o); }

/* __array_namespace__(*, api_version=None): where the functions of these arrays are. */
static PyObject *namespace(PyObject *Py_UNUSED(o), PyObject *Py_UNUSED(args),
                           PyObject *Py_UNUSED(kwargs))
{
    return PyImport_ImportModule("quabla");
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))dlpack_export, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, NULL},
    {"__array_namespace__", (PyCFunction)(void (*)(void)) namespace, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {"item", item, METH_NOARGS, "item()\n--\n\nThe only element, as a Python float or bool."},
    {"tolist", tolist, METH_NOARGS,
     "tolist()\n--\n\nNested lists of Python floats or bools; of a scalar its value."},
    {"to_flat_list", to_flat_list, METH_NOARGS,
     "to_flat_list()\n--\n\nAll elements in row-major order."},
    {"numpy", numpy, METH_NOARGS, "numpy()\n--\n\nA read-only NumPy array over the same memory."},
    {"__array__", (PyCFunction)(void (*)(void))as_array, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__format__", format, METH_O, NULL},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {"__copy__", itself, METH_NOARGS, NULL},
    {"__deepcopy__", itself, METH_O, NULL},
    {0},
};
static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weakrefs), READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Tensor(shape, data, dtype=None)\n--\n\nAn immutable array on the host, in row-major order."},
    {Py_tp_new, construct},
    {Py_tp_dealloc, dealloc},
    {Py_tp_repr, repr_tensor},
    {Py_tp_str, repr_tensor},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, array_getset},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {Py_nb_bool, to_bool},
    {Py_nb_float, to_float},
    {Py_nb_int, to_int},
    ARRAY_SLOTS,
    {0},
};
static PyType_Spec spec = {"quabla.Tensor", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
static PyMethodDef from_bytes_def = {"_from_bytes", from_bytes, METH_VARARGS, NULL};

bool tensor_init(PyObject *m)
{
    core.Tensor = (PyTypeObject *)PyType_FromSpec(&spec);
    PyObject *name = PyUnicode_FromString("quabla._core");
    PyObject *rebuild = name ? PyCFunction_NewEx(&from_bytes_def, NULL, name) : NULL;
    Py_XDECREF(name);
    return core.Tensor && module_add(m, "Tensor", Py_NewRef(core.Tensor)) &&
           module_add(m, "_from_bytes", rebuild);
}
