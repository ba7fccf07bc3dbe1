/* dlpack.c: arrays exchanged with other libraries in memory, by the DLPack protocol (dmlc.github.io/dlpack, version 1).

   Export: to a consumer that knows version 1 the memory itself, marked read-only; to an older one, which could write to it, a
   copy. Import copies, since the producer may change its array later. */
#include "ext.h"

enum { CPU = 1, CODE_FLOAT = 2, CODE_BOOL = 6, READ_ONLY = 1, MAJOR = 1, MINOR = 0 };

typedef struct {
    int32_t device, index;
} Device;
typedef struct {
    void *data;
    Device device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* strides in elements, NULL: row-major */
    uint64_t offset;          /* in bytes */
} Array;
typedef struct Managed {
    Array array;
    void *context;
    void (*deleter)(struct Managed *);
} Managed;
typedef struct Versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct Versioned *);
    uint64_t flags;
    Array array;
} Versioned;

/* What an export holds besides the struct: shape and strides behind the buffer. */
typedef struct {
    qb_buffer *buffer;
    int64_t dims[QB_MAX_RANK], strides[QB_MAX_RANK];
} Held;

/* ---- export ---- */

static void drop(void *context)
{
    Held *h = context;
    qb_buffer_release(h->buffer);
    free(h);
}

/* Consumers may call these without the interpreter lock, so the C library's memory is used. */
static void delete_managed(Managed *m)
{
    drop(m->context);
    free(m);
}

static void delete_versioned(Versioned *v)
{
    drop(v->context);
    free(v);
}

/* A capsule that nobody has taken over. */
static void forget(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
    else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static bool describe(const qb_type *t, qb_buffer *buffer, Array *a, void **context)
{
    Held *h = calloc(1, sizeof *h);
    if (!h) return PyErr_NoMemory(), false;
    h->buffer = qb_buffer_retain(buffer);
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        h->dims[i] = t->dims[i];
        h->strides[i] = stride;
        stride *= t->dims[i];
    }
    const int64_t item = qb_dtype_size(t->dtype);
    *a = (Array){.data = qb_buffer_data(buffer),
                 .device = {CPU, 0},
                 .ndim = t->rank,
                 .shape = h->dims,
                 .strides = h->strides};
    a->dtype.code = t->dtype == QB_BOOL ? CODE_BOOL : CODE_FLOAT;
    a->dtype.bits = (uint8_t)(8 * item);
    a->dtype.lanes = 1;
    *context = h;
    return true;
}

static PyObject *capsule_of(void *p, const char *name, void (*give_up)(void *))
{
    PyObject *capsule = PyCapsule_New(p, name, forget);
    if (!capsule) give_up(p);
    return capsule;
}

static void give_up_managed(void *p) { delete_managed(p); }
static void give_up_versioned(void *p) { delete_versioned(p); }

static PyObject *export_old(const Tensor *t)
{
    qb_error err = {0};
    const int64_t bytes = qb_type_bytes(&t->type);
    qb_buffer *copy = qb_buffer_new(bytes, &err);
    if (!copy) return error_raise(&err);
    memcpy(qb_buffer_data(copy), qb_buffer_data(t->buffer), (size_t)bytes);
    Managed *m = calloc(1, sizeof *m);
    bool ok = m && describe(&t->type, copy, &m->array, &m->context);
    qb_buffer_release(copy);
    if (!ok) {
        free(m);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    m->deleter = delete_managed;
    return capsule_of(m, "dltensor", give_up_managed);
}

static PyObject *export_new(const Tensor *t)
{
    Versioned *v = calloc(1, sizeof *v);
    if (!v || !describe(&t->type, t->buffer, &v->array, &v->context)) {
        free(v);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    v->major = MAJOR;
    v->minor = MINOR;
    v->flags = READ_ONLY;
    v->deleter = delete_versioned;
    return capsule_of(v, "dltensor_versioned", give_up_versioned);
}

/* Is (device type, id) the CPU, or None? */
static bool on_cpu(PyObject *device)
{
    int type = CPU, index = 0;
    if (device == Py_None) return true;
    if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &index)) {
        PyErr_Clear();
        type = 0;
    }
    if (type == CPU) return true;
    PyErr_SetString(PyExc_BufferError,
                    "__dlpack__: a Tensor is exported on the CPU, dl_device (1, 0)");
    return false;
}

PyObject *dlpack_export(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copy) ||
        !on_cpu(device))
        return NULL;
    if (stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__: the CPU has no streams; stream is None");
        return NULL;
    }
    if (version != Py_None &&
        (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor)))
        return NULL;
    if (major >= MAJOR && copy != Py_True) return export_new((Tensor *)o);
    if (major < MAJOR && copy == Py_False) {
        PyErr_SetString(
            PyExc_BufferError,
            "__dlpack__: a read-only array needs max_version (1, 0) to go without a copy");
        return NULL;
    }
    return export_old((Tensor *)o);
}

PyObject *dlpack_device(PyObject *Py_UNUSED(o), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("ii", CPU, 0);
}

/* ---- import ---- */

static PyObject *array_of(const Array *a)
{
    qb_type t = {.rank = (uint8_t)a->ndim};
    const bool boolean = a->dtype.code == CODE_BOOL && a->dtype.bits == 8;
    const bool floating =
        a->dtype.code == CODE_FLOAT && (a->dtype.bits == 32 || a->dtype.bits == 64);
    if (a->device.device != CPU)
        return PyErr_Format(PyExc_BufferError,
                            "from_dlpack: the array is on device type %d, not on the CPU",
                            a->device.device);
    if ((!boolean && !floating) || a->dtype.lanes != 1)
        return PyErr_Format(PyExc_TypeError,
                            "from_dlpack: elements with code %d and %d bits; float32, float64 and "
                            "bool are supported",
                            a->dtype.code, a->dtype.bits);
    if (a->ndim < 0 || a->ndim > QB_MAX_RANK)
        return PyErr_Format(PyExc_ValueError, "from_dlpack: %d axes; at most %d", a->ndim,
                            QB_MAX_RANK);
    t.dtype = boolean ? QB_BOOL : a->dtype.bits == 32 ? QB_F32 : QB_F64;
    int64_t strides[QB_MAX_RANK], stride = qb_dtype_size(t.dtype);
    const int64_t item = stride;
    for (int i = a->ndim - 1; i >= 0; i--) {
        t.dims[i] = a->shape[i];
        strides[i] = a->strides ? a->strides[i] * item : stride;
        if (t.dims[i] < 1)
            return PyErr_Format(
                PyExc_ValueError,
                "from_dlpack: length 0 along axis %d; arrays without elements are not supported",
                i);
        stride *= t.dims[i];
    }
    Tensor *out = tensor_empty(&t);
    if (!out) return NULL;
    convert_gather(qb_buffer_data(out->buffer), (const char *)a->data + a->offset, item, t.rank,
                   t.dims, strides);
    if (boolean) { /* another library may have other bytes than 0 and 1 for true */
        unsigned char *p = qb_buffer_data(out->buffer);
        const int64_t n = qb_type_size(&t);
        for (int64_t i = 0; i < n; i++) p[i] = p[i] != 0;
    }
    return (PyObject *)out;
}

static PyObject *take(PyObject *capsule)
{
    PyObject *out;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        Versioned *v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (v->major > MAJOR)
            return PyErr_Format(PyExc_BufferError,
                                "from_dlpack: version %u of DLPack is not supported",
                                (unsigned)v->major);
        out = array_of(&v->array);
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        if (v->deleter) v->deleter(v);
        return out;
    }
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return PyErr_Format(PyExc_TypeError,
                            "from_dlpack: __dlpack__() returned %s, not a fresh DLPack capsule",
                            stage_kind(capsule));
    Managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    out = array_of(&m->array);
    PyCapsule_SetName(capsule, "used_dltensor");
    if (m->deleter) m->deleter(m);
    return out;
}

/* The newest form that the producer knows. */
static PyObject *request(PyObject *x)
{
    PyObject *method = PyObject_GetAttrString(x, "__dlpack__"), *kwargs = NULL, *none = NULL,
             *capsule = NULL;
    if (method && (none = PyTuple_New(0)) &&
        (kwargs = Py_BuildValue("{s(ii)}", "max_version", MAJOR, MINOR))) {
        capsule = PyObject_Call(method, none, kwargs);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            capsule = PyObject_CallNoArgs(method);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(kwargs);
    return capsule;
}

static PyObject *from_dlpack(PyObject *Py_UNUSED(m), PyObject *x)
{
    const int has = PyObject_HasAttrString(x, "__dlpack__");
    if (!has)
        return PyErr_Format(PyExc_TypeError, "from_dlpack: %s has no __dlpack__", stage_kind(x));
    PyObject *capsule = request(x), *out = capsule ? take(capsule) : NULL;
    Py_XDECREF(capsule);
    return out;
}

static PyMethodDef functions[] = {
    {"from_dlpack", from_dlpack, METH_O,
     "from_dlpack(x)\n--\n\nA Tensor with the elements of an array of another library, by its "
     "method __dlpack__; they are copied.\n\n"
     "x: an array on the CPU of float32, float64 or bool, with any strides. Raises TypeError for "
     "other objects and elements, BufferError\n"
     "for other devices.\n\n>>> qb.from_dlpack(qb.array([1.0, 2.0]))\nTensor([1., 2.], "
     "dtype=float64)\n"},
    {0},
};

bool dlpack_init(PyObject *m) { return !PyModule_AddFunctions(m, functions); }
