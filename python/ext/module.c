/* module.c: quabla._core, put together. */
#include "ext.h"

Core core;

bool module_add(PyObject *m, const char *name, PyObject *value)
{
    const bool ok = value && !PyModule_AddObjectRef(m, name, value);
    Py_XDECREF(value);
    return ok;
}

/* ---- arguments ---- */

static int find_name(const char *const *names, int total, PyObject *keyword)
{
    for (int i = 0; i < total; i++)
        if (PyUnicode_CompareWithASCIIString(keyword, names[i]) == 0) return i;
    return -1;
}

bool module_args(const char *who, const char *const *names, int required, int total,
                 PyObject *const *args, Py_ssize_t n, PyObject *kwnames, PyObject **out)
{
    if (n > total) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d argument%s, %zd given", who, total,
                     total == 1 ? "" : "s", n);
        return false;
    }
    for (int i = 0; i < total; i++) out[i] = i < n ? args[i] : NULL;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, k);
        const int i = find_name(names, total, keyword);
        if (i < 0 || out[i]) {
            PyErr_Format(PyExc_TypeError,
                         i < 0 ? "%s() has no parameter '%U'" : "%s() got parameter '%U' twice",
                         who, keyword);
            return false;
        }
        out[i] = args[n + k];
    }
    for (int i = 0; i < required; i++) {
        if (out[i]) continue;
        PyErr_Format(PyExc_TypeError, "%s() lacks argument '%s'", who, names[i]);
        return false;
    }
    return true;
}

/* ---- for the package's own Python files ---- */

/* _add_method(name, value, tracer=True): an attribute of Tensor and, with tracer, of TraceTensor;
   only while the package is set up. A view asks its Tensor, but for what is looked up on the type. */
static PyObject *add_method(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *name, *value;
    int tracer = 1;
    if (!PyArg_ParseTuple(args, "UO|p:_add_method", &name, &value, &tracer)) return NULL;
    const bool special = PyUnicode_ReadChar(name, 0) == '_';
    PyTypeObject *types[] = {core.Tensor, tracer ? core.Tracer : NULL, special ? core.View : NULL};
    for (int i = 0; i < 3; i++) {
        if (!types[i]) continue;
        if (PyDict_SetItem(types[i]->tp_dict, name, value)) return NULL;
        PyType_Modified(types[i]);
    }
    Py_RETURN_NONE;
}

/* _integer(who, what, value), _flag(who, what, value): value, or a TypeError that begins "who: what is". */
static PyObject *integer(PyObject *Py_UNUSED(m), PyObject *args)
{
    const char *who, *what;
    PyObject *o;
    if (!PyArg_ParseTuple(args, "ssO:_integer", &who, &what, &o)) return NULL;
    return read_index(who, what, o);
}

static PyObject *flag(PyObject *Py_UNUSED(m), PyObject *args)
{
    const char *who, *what;
    PyObject *o;
    bool out;
    if (!PyArg_ParseTuple(args, "ssO:_flag", &who, &what, &o)) return NULL;
    return read_flag(who, what, o, &out) ? PyBool_FromLong(out) : NULL;
}

static PyObject *set_num_threads(PyObject *Py_UNUSED(m), PyObject *count)
{
    qb_error err = {0};
    int64_t n;
    if (!read_int("set_num_threads", "n", count, &n)) return NULL;
    return qb_set_num_threads(n, &err) ? Py_NewRef(Py_None) : error_raise(&err);
}

static PyObject *get_num_threads(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(qb_get_num_threads());
}
static PyObject *isa(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(none))
{
    return PyUnicode_FromString(qb_isa());
}

static PyObject *set_tiling(PyObject *Py_UNUSED(m), PyObject *policy)
{
    static const char *const names[] = {"auto", "never", "always"};
    const char *text = PyUnicode_AsUTF8(policy);
    if (!text) return NULL;
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) return qb_set_tiling(i), Py_NewRef(Py_None);
    PyErr_Format(PyExc_ValueError, "tiling is 'auto', 'never' or 'always', not %R", policy);
    return NULL;
}

static PyObject *set_isa(PyObject *Py_UNUSED(m), PyObject *name)
{
    qb_error err = {0};
    const char *text = name == Py_None ? NULL : PyUnicode_AsUTF8(name);
    if (!text && name != Py_None) return NULL;
    return qb_set_isa(text, &err) ? Py_NewRef(Py_None) : error_raise(&err);
}

/* targets() -> {name: built} */
static PyObject *targets(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(none))
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < qb_target_count(); i++)
        if (PyDict_SetItemString(dict, qb_target_name(i),
                                 qb_target_built(qb_target_name(i)) ? Py_True : Py_False))
            Py_CLEAR(dict);
    return dict;
}

/* ops() -> a list of dicts, the rows of the op table, for tests and documentation */
static PyObject *ops(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0);
    for (int op = 0; list && op < qb_op_count(); op++) {
        const qb_op_info i = qb_op_at(op);
        PyObject *row = Py_BuildValue("{sssssisNsdsi}", "name", i.name, "doc", i.doc, "arity",
                                      i.arity, "elementwise", PyBool_FromLong(i.elementwise), "ulp",
                                      i.ulp, "result", i.result);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *fail_alloc(PyObject *Py_UNUSED(m), PyObject *count)
{
    const long long n = PyLong_AsLongLong(count);
    if (n == -1 && PyErr_Occurred()) return NULL;
    qb_test_fail_alloc(n);
    Py_RETURN_NONE;
}

static PyObject *live_bytes(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(none))
{
    return PyLong_FromLongLong(qb_test_live_bytes());
}

static PyMethodDef functions[] = {
    {"_add_method", add_method, METH_VARARGS, NULL},
    {"_integer", integer, METH_VARARGS, NULL},
    {"_flag", flag, METH_VARARGS, NULL},
    {"_fail_alloc", fail_alloc, METH_O,
     "_fail_alloc(n)\n--\n\nThe n-th allocation of the core from now on fails, and all after it; "
     "-1: none."},
    {"_live_bytes", live_bytes, METH_NOARGS, "_live_bytes()\n--\n\nBytes that the core holds now."},
    {"_ops", ops, METH_NOARGS, "_ops()\n--\n\nThe rows of the op table."},
    {"targets", targets, METH_NOARGS, "targets()\n--\n\n{target: whether this build holds it}."},
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(n)\n--\n\nThreads that plans run on, the caller included; 0 for the "
     "default."},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\nThreads that plans run on."},
    {"isa", isa, METH_NOARGS, "isa()\n--\n\nThe instruction set level of the kernels in use."},
    {"_set_tiling", set_tiling, METH_O,
     "_set_tiling(policy)\n--\n\n'auto', 'never' or 'always', for plans made from now on; for "
     "tests."},
    {"_set_isa", set_isa, METH_O,
     "_set_isa(name)\n--\n\nChoose a level by name, None for the best one."},
    {0},
};

/* ---- set-up ---- */

static bool find_ops(void)
{
    static const struct {
        const char *name;
        int *op;
    } known[] = {
#define X(name) {#name, &core.op.name},
        KNOWN_OPS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *known[i].op = qb_op_find(known[i].name);
        if (*known[i].op >= 0) continue;
        PyErr_Format(PyExc_ImportError, "quabla: the core has no op called '%s'", known[i].name);
        return false;
    }
    return true;
}

static bool check_cpu(void)
{
    qb_error err = {0};
    if (qb_cpu_supported(&err)) return true;
    PyErr_SetString(PyExc_ImportError, err.message);
    return false;
}

static PyModuleDef module_def = {PyModuleDef_HEAD_INIT, .m_name = "quabla._core",
                                 .m_doc = "The core of quabla.", .m_size = -1,
                                 .m_methods = functions};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    bool (*const parts[])(PyObject *) = {error_init,  dtype_init,   tensor_init,    view_init,
                                         dlpack_init, tracer_init,  ops_init,       shape_init,
                                         join_init,   compose_init, create_init,    tree_init,
                                         vjp_init,    lower_init,   transform_init, wrap_init,
                                         jit_init,    program_init, loop_init,      custom_init,
                                         region_init, explain_init};
    PyObject *m = check_cpu() && find_ops() ? PyModule_Create(&module_def) : NULL;
    bool ok = m && !PyModule_AddStringConstant(m, "__version__", qb_version()) &&
              !PyModule_AddIntConstant(m, "MAX_THREADS", QB_MAX_THREADS);
    for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++) ok = parts[i](m);
    if (!ok) Py_CLEAR(m);
    return m;
}
