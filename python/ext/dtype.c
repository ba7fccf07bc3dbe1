/* dtype.c: the three dtype objects, and what is accepted as a dtype argument. NumPy is recognised
   without importing it. */
#include "ext.h"

typedef struct {
    PyObject_HEAD int code;
} DType;

static const struct {
    const char *name, *text, *global;
} rows[QB_DTYPE_COUNT] = {
    [QB_F32] = {"float32", "f32", "float32"},
    [QB_F64] = {"float64", "f64", "float64"},
    [QB_BOOL] = {"bool", "bool", "bool_"},
};

const char *dtype_label(int dtype) { return rows[dtype].name; }
PyObject *dtype_object(int dtype) { return core.dtypes[dtype]; }

/* The dtype of this name, or -1. */
static int find(const char *name)
{
    for (int d = 0; d < QB_DTYPE_COUNT; d++)
        if (!strcmp(name, rows[d].name) || !strcmp(name, rows[d].text) ||
            !strcmp(name, rows[d].global))
            return d;
    return -1;
}

static int find_object(PyObject *name)
{
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text ? find(text) : -1;
}

/* numpy.float32 is a class of the module numpy; numpy.dtype('float32') has the name 'float32' and
   a byte order. */
static int find_numpy(PyObject *o)
{
    const bool cls = PyType_Check(o);
    PyObject *module = PyObject_GetAttrString(cls ? o : (PyObject *)Py_TYPE(o), "__module__");
    const char *text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    int found = -1;
    if (text && !strncmp(text, "numpy", 5)) {
        PyObject *name = PyObject_GetAttrString(o, cls ? "__name__" : "name");
        found = find_object(name);
        Py_XDECREF(name);
    }
    Py_XDECREF(module);
    PyErr_Clear();
    return found;
}

int dtype_of(PyObject *o)
{
    if (Py_TYPE(o) == core.DType) return ((DType *)o)->code;
    int found = PyUnicode_Check(o) ? find_object(o) : find_numpy(o);
    if (found < 0)
        PyErr_Format(PyExc_TypeError,
                     "%R is not a dtype; use quabla.float32, quabla.float64 or quabla.bool_", o);
    return found;
}

int dtype_or(PyObject *o, int otherwise) { return !o || o == Py_None ? otherwise : dtype_of(o); }

PyObject *dtype_text(const qb_type *t)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s[", dtype_label(t->dtype));
    for (int i = 0; i < t->rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, i ? ",%lld" : "%lld",
                      (long long)t->dims[i]);
    snprintf(text + n, sizeof text - (size_t)n, "]");
    return PyUnicode_FromString(text);
}

/* ---- the type ---- */

static PyObject *dtype_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", NULL};
    PyObject *o;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:dtype", names, &o)) return NULL;
    int code = dtype_of(o);
    return code < 0 ? NULL : Py_NewRef(core.dtypes[code]);
}

static PyObject *dtype_repr(PyObject *o)
{
    return PyUnicode_FromString(rows[((DType *)o)->code].name);
}
static PyObject *dtype_str(PyObject *o)
{
    return PyUnicode_FromString(rows[((DType *)o)->code].text);
}
static PyObject *get_name(PyObject *o, void *Py_UNUSED(c)) { return dtype_repr(o); }
static PyObject *get_itemsize(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLongLong(qb_dtype_size(((DType *)o)->code));
}
static PyObject *reduce(PyObject *o, PyObject *Py_UNUSED(none))
{
    return PyUnicode_FromString(rows[((DType *)o)->code].global);
}

static PyGetSetDef dtype_getset[] = {
    {"name", get_name, NULL, "'float32', 'float64' or 'bool'", NULL},
    {"itemsize", get_itemsize, NULL, "bytes of one element", NULL},
    {0},
};
static PyMethodDef dtype_methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL}, {0}};
static PyType_Slot dtype_slots[] = {
    {Py_tp_doc, "dtype(x): the dtype that x names: a dtype, 'float32', 'float64', 'bool', or a "
                "NumPy dtype of these kinds."},
    {Py_tp_new, dtype_new},
    {Py_tp_repr, dtype_repr},
    {Py_tp_str, dtype_str},
    {Py_tp_getset, dtype_getset},
    {Py_tp_methods, dtype_methods},
    {0},
};
static PyType_Spec dtype_spec = {"quabla.dtype", sizeof(DType), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, dtype_slots};

bool dtype_init(PyObject *m)
{
    core.DType = (PyTypeObject *)PyType_FromSpec(&dtype_spec);
    if (!core.DType || !module_add(m, "dtype", Py_NewRef(core.DType))) return false;
    for (int d = 0; d < QB_DTYPE_COUNT; d++) {
        DType *o = PyObject_New(DType, core.DType);
        if (!o) return false;
        o->code = d;
        core.dtypes[d] = (PyObject *)o;
        if (!module_add(m, rows[d].global, Py_NewRef(o))) return false;
    }
    return true;
}
