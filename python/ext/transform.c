/* transform.c: a function under jit, grad, value_and_grad, vmap, jvp or vjp, as a callable. wrap.c makes them.

   A Transform called inside a trace adds its graph to that trace. Called outside, the whole chain
   of transforms is traced into one graph, compiled, and kept: see jit.c. So grad(grad(f))(x) is
   one plan, with or without jit around it. */
#include "ext.h"

/* A call inside a trace. The function meets what it would meet outside: sorted keywords, and arrays in place of NumPy's. */
static PyObject *nested(Transform *t, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    qb_options options;
    Call c;
    if (t->kind == DO_JIT && !jit_options(t, &options)) return NULL;
    if (!call_sort(t, args, n, kwnames, &c)) return NULL;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < c.n; i++) {
        PyObject *x = c.opaque && c.opaque[i] ? Py_NewRef(c.args[i]) : stage_imported(c.args[i]);
        ok = x != NULL;
        if (ok) Py_SETREF(c.args[i], x);
    }
    const Py_ssize_t n_keywords = c.kwnames ? PyTuple_GET_SIZE(c.kwnames) : 0;
    for (Py_ssize_t i = 0; i < n_keywords; i++) c.args[c.n + i] = c.kwvalues[i];
    PyObject *out = ok ? transform_traced(t, c.args, c.n, c.kwnames) : NULL;
    call_free(&c);
    return out;
}

static PyObject *call(PyObject *o, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Transform *t = (Transform *)o;
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    return frame_top() ? nested(t, args, n, kwnames) : jit_call(t, args, nargsf, kwnames);
}

PyObject *transform_traced(Transform *t, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (t->kind == DO_JIT) return PyObject_Vectorcall(t->fun, args, (size_t)n, kwnames);
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        PyErr_Format(PyExc_TypeError, "%R takes positional arguments only; keywords are for jit",
                     t);
        return NULL;
    }
    if (Py_EnterRecursiveCall(" in a quabla transform")) return NULL;
    PyObject *out = NULL;
    switch ((TransformKind)t->kind) {
    case DO_GRAD:
    case DO_VALUE_AND_GRAD: out = grad_traced(t, args, n); break;
    case DO_VMAP: out = vmap_traced(t, args, n); break;
    case DO_JVP: out = jvp_traced(t->fun, args[0], args[1]); break;
    case DO_VJP: out = vjp_traced(t->fun, t->has_aux, args[0], args[1]); break;
    case DO_CUSTOM: {
        PyObject **all = PyMem_New(PyObject *, n + 1);
        if (!all) {
            PyErr_NoMemory();
            break;
        }
        all[0] = t->fun;
        memcpy(all + 1, args, sizeof *args * (size_t)n);
        out = PyObject_Vectorcall(t->impl, all, (size_t)n + 1, NULL);
        PyMem_Free(all);
        break;
    }
    case DO_JIT: break;
    }
    Py_LeaveRecursiveCall();
    return out;
}

/* Is argument `arg` of n differentiated, so that a Python number there is a float64 array? */
bool transform_differentiates(Transform *t, Py_ssize_t arg, Py_ssize_t n)
{
    if (t->kind == DO_JVP || t->kind == DO_VJP) return true;
    for (Py_ssize_t i = 0; t->argnums && i < PyTuple_GET_SIZE(t->argnums); i++) {
        const Py_ssize_t p = PyLong_AsSsize_t(PyTuple_GET_ITEM(t->argnums, i));
        if (p == arg || p + n == arg) return true;
    }
    return false;
}

PyObject *transform_root(Transform *t)
{
    PyObject *fun = t->fun;
    while (Py_TYPE(fun) == core.Transform) fun = ((Transform *)fun)->fun;
    return fun;
}

/* ---- making one ---- */

static const char *const labels[] = {"jit", "grad", "value_and_grad", "vmap", "jvp", "vjp"};

/* The function's name, docstring and module become those of the Transform. */
static bool adopt(Transform *t)
{
    static const char *const names[] = {"__name__", "__qualname__", "__doc__", "__module__"};
    if (!(t->dict = PyDict_New()) || PyDict_SetItemString(t->dict, "__wrapped__", t->fun))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        PyObject *value = PyObject_GetAttrString(t->fun, names[i]);
        const bool failed = value && PyDict_SetItemString(t->dict, names[i], value);
        Py_XDECREF(value);
        if (failed) return false;
        PyErr_Clear();
    }
    return true;
}

Transform *transform_new(TransformKind kind, PyObject *fun)
{
    if (!PyCallable_Check(fun)) {
        PyErr_Format(PyExc_TypeError, "%s takes a function, not %s",
                     kind == DO_CUSTOM ? "a transform" : labels[kind], stage_kind(fun));
        return NULL;
    }
    Transform *t = PyObject_GC_New(Transform, core.Transform);
    if (!t) return NULL;
    memset((char *)t + sizeof(PyObject), 0, sizeof *t - sizeof(PyObject));
    t->vectorcall = call;
    t->kind = (uint8_t)kind;
    t->fun = Py_NewRef(fun);
    t->max_traces = 8;
    PyObject_GC_Track(t);
    if (!adopt(t)) Py_CLEAR(t);
    return t;
}

/* The key of the chain: what this transform does, and the key of the one inside. Takes the
   reference to own. */
PyObject *transform_keyed(Transform *t, PyObject *own)
{
    PyObject *inner = Py_TYPE(t->fun) == core.Transform ? ((Transform *)t->fun)->key : Py_None;
    if (t && own) t->key = PyTuple_Pack(2, own, inner);
    Py_XDECREF(own);
    if (!t->key) Py_CLEAR(t);
    return (PyObject *)t;
}

PyObject *transform_simple(TransformKind kind, PyObject *fun, bool has_aux)
{
    Transform *t = transform_new(kind, fun);
    if (!t) return NULL;
    t->has_aux = has_aux;
    return transform_keyed(t, Py_BuildValue("(ii)", kind, has_aux));
}

/* ---- the type ---- */

PyObject *transform_repr(PyObject *o)
{
    Transform *t = (Transform *)o;
    PyObject *inner = NULL;
    if (Py_TYPE(t->fun) == core.Transform)
        inner = transform_repr(t->fun);
    else if (!(inner = PyObject_GetAttrString(t->fun, "__qualname__"))) {
        PyErr_Clear();
        inner = PyObject_Repr(t->fun);
    }
    PyObject *out = !inner     ? NULL
                    : t->label ? PyUnicode_FromFormat("%U(%U)", t->label, inner)
                               : PyUnicode_FromFormat("%s(%U)", labels[t->kind], inner);
    Py_XDECREF(inner);
    return out;
}

static PyObject *lower(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    return lower_make((Transform *)o, args, n, kwnames);
}

static PyObject *bind(PyObject *o, PyObject *self, PyObject *Py_UNUSED(cls))
{
    return self && self != Py_None ? PyMethod_New(o, self) : Py_NewRef(o);
}

static int traverse(PyObject *o, visitproc visit, void *arg)
{
    Transform *t = (Transform *)o;
    Py_VISIT(t->fun);
    Py_VISIT(t->dict);
    Py_VISIT(t->argnums);
    Py_VISIT(t->in_axes);
    Py_VISIT(t->out_axes);
    Py_VISIT(t->impl);
    Py_VISIT(t->static_argnums);
    Py_VISIT(t->static_argnames);
    Py_VISIT(t->key);
    Py_VISIT(t->cache);
    Py_VISIT(Py_TYPE(o));
    return 0;
}

static int clear(PyObject *o)
{
    Transform *t = (Transform *)o;
    PyObject **fields[] = {&t->dict,
                           &t->argnums,
                           &t->in_axes,
                           &t->out_axes,
                           &t->impl,
                           &t->label,
                           &t->cache,
                           &t->static_argnums,
                           &t->static_argnames,
                           &t->device,
                           &t->precision,
                           &t->params,
                           &t->key,
                           &t->fun};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) Py_CLEAR(*fields[i]);
    return 0;
}

static void dealloc(PyObject *o)
{
    PyObject_GC_UnTrack(o);
    if (((Transform *)o)->weakrefs) PyObject_ClearWeakRefs(o);
    clear(o);
    PyObject_GC_Del(o);
    Py_DECREF(core.Transform);
}

static PyMethodDef methods[] = {
    {"lower", (PyCFunction)(void (*)(void))lower, METH_FASTCALL | METH_KEYWORDS,
     "lower(*args, **kwargs)\n--\n\nTrace and compile for arguments like these: arrays or "
     "ShapeDtypes. Nothing is run."},
    {0},
};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Transform, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Transform, weakrefs), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Transform, dict), READONLY, NULL},
    {0},
};
static PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL,
                                NULL},
                               {0}};
static PyType_Slot slots[] = {
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, transform_repr},
    {Py_tp_descr_get, bind},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {0},
};
static PyType_Spec spec = {"quabla.Transform", sizeof(Transform), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                               Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

bool transform_init(PyObject *m)
{
    core.Transform = (PyTypeObject *)PyType_FromSpec(&spec);
    return core.Transform && module_add(m, "Transform", Py_NewRef(core.Transform));
}
