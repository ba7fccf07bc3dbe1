/* error.c: the exception classes, and qb_error as one of them. */
#include "ext.h"

enum { MAX_CODES = 32 };
static PyObject *of_code[MAX_CODES];

/* UnsupportedOperationError(message, *, op=None, device=None) */
static PyObject *unsupported_init(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"self", "message", "op", "device", NULL};
    PyObject *self, *message, *op = Py_None, *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$OO:UnsupportedOperationError", names, &self,
                                     &message, &op, &device))
        return NULL;
    PyObject *one = PyTuple_Pack(1, message);
    if (!one) return NULL;
    int failed = ((PyTypeObject *)PyExc_Exception)->tp_init(self, one, NULL);
    Py_DECREF(one);
    if (failed || PyObject_SetAttrString(self, "op", op) ||
        PyObject_SetAttrString(self, "device", device))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef unsupported_def = {"__init__", (PyCFunction)(void (*)(void))unsupported_init,
                                      METH_VARARGS | METH_KEYWORDS, NULL};

static PyObject *make(PyObject *m, const char *name, const char *doc, PyObject *bases,
                      PyObject *dict)
{
    PyObject *cls = bases ? PyErr_NewExceptionWithDoc(name, doc, bases, dict) : NULL;
    Py_XDECREF(bases);
    if (!cls || !module_add(m, strchr(name, '.') + 1, Py_NewRef(cls))) Py_CLEAR(cls);
    return cls;
}

static PyObject *unsupported_dict(void)
{
    PyObject *function = PyCFunction_New(&unsupported_def, NULL);
    PyObject *init = function ? PyInstanceMethod_New(function) : NULL;
    PyObject *dict =
        init ? Py_BuildValue("{sOsOsO}", "__init__", init, "op", Py_None, "device", Py_None) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(init);
    return dict;
}

static PyObject *class_named(const char *name)
{
    if (!strcmp(name, "TracerError")) return core.TracerError;
    if (!strcmp(name, "UnsupportedOperationError")) return core.UnsupportedOperationError;
    PyObject *cls = PyDict_GetItemString(PyEval_GetBuiltins(), name);
    return cls ? cls : PyExc_SystemError;
}

bool error_init(PyObject *m)
{
    core.QuablaError = make(m, "quabla.QuablaError", "Base of the errors that are Quabla's own.",
                            PyTuple_Pack(1, PyExc_Exception), NULL);
    if (!core.QuablaError) return false;
    core.TracerError =
        make(m, "quabla.TracerError",
             "A traced value was used where only data will do, or outside its trace.",
             PyTuple_Pack(2, core.QuablaError, PyExc_TypeError), NULL);
    core.RetraceLimitError =
        make(m, "quabla.RetraceLimitError", "A function was traced more often than allowed.",
             PyTuple_Pack(2, core.QuablaError, PyExc_ValueError), NULL);
    core.RetraceWarning = make(m, "quabla.RetraceWarning",
                               "A compiled trace was evicted to make room for another signature.",
                               PyTuple_Pack(1, PyExc_UserWarning), NULL);
    PyObject *dict = unsupported_dict();
    if (!dict) return false;
    core.UnsupportedOperationError = make(
        m, "quabla.UnsupportedOperationError",
        "A device cannot do what was asked: .op and .device say what and where, as far as known.",
        PyTuple_Pack(3, core.QuablaError, PyExc_ValueError, PyExc_NotImplementedError), dict);
    Py_DECREF(dict);
    for (int code = 0; code < MAX_CODES; code++)
        of_code[code] = class_named(qb_error_exception(code));
    return core.TracerError && core.RetraceLimitError && core.RetraceWarning &&
           core.UnsupportedOperationError;
}

static void *raise_unsupported(PyObject *message, const char *op, const char *device)
{
    PyObject *args = PyTuple_Pack(1, message),
             *kwargs = Py_BuildValue("{szsz}", "op", op, "device", device);
    PyObject *e =
        args && kwargs ? PyObject_Call(core.UnsupportedOperationError, args, kwargs) : NULL;
    if (e) PyErr_SetObject(core.UnsupportedOperationError, e);
    Py_XDECREF(e);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return NULL;
}

void *error_unsupported(const char *device, const char *text)
{
    PyObject *message = PyUnicode_FromString(text);
    if (message) raise_unsupported(message, NULL, device);
    Py_XDECREF(message);
    return NULL;
}

void *error_says(const char *inner, const char *who)
{
    PyObject *class, *value, *trace;
    PyErr_Fetch(&class, &value, &trace);
    PyErr_NormalizeException(&class, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL,
             *from = PyUnicode_FromFormat("%s: ", inner), *to = PyUnicode_FromFormat("%s: ", who);
    PyObject *said = text && from && to ? PyUnicode_Replace(text, from, to, 1) : NULL;
    if (said && PyUnicode_Compare(said, text))
        PyErr_SetObject(class, said);
    else
        PyErr_Restore(Py_XNewRef(class), Py_XNewRef(value), Py_XNewRef(trace));
    Py_XDECREF(said);
    Py_XDECREF(to);
    Py_XDECREF(from);
    Py_XDECREF(text);
    Py_XDECREF(trace);
    Py_XDECREF(value);
    Py_XDECREF(class);
    return NULL;
}

void *error_raise(const qb_error *err)
{
    if (err->code == QB_EINTERRUPT && PyErr_Occurred())
        return NULL; /* raised by the signal's handler */
    PyObject *message =
        PyUnicode_DecodeUTF8(err->message, (Py_ssize_t)strlen(err->message), "replace");
    if (!message) return NULL;
    if (err->code == QB_EUNSUPPORTED)
        raise_unsupported(message, err->op[0] ? err->op : NULL, NULL);
    else
        PyErr_SetObject(err->code >= 0 && err->code < MAX_CODES ? of_code[err->code]
                                                                : PyExc_SystemError,
                        message);
    Py_DECREF(message);
    return NULL;
}
