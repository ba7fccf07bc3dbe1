/* wrap.c: jit, grad, value_and_grad, vmap and jvp: from their parameters to a Transform. */
#include "ext.h"

/* Ints as a tuple: an int, a list or a tuple of ints. `one` (may be NULL) says that it was an
   int. */
static PyObject *int_tuple(const char *what, PyObject *o, bool *one)
{
    const bool single = PyLong_Check(o) && !PyBool_Check(o);
    if (one) *one = single;
    if (single) return PyTuple_Pack(1, o);
    PyObject *tuple = PyList_Check(o) || PyTuple_Check(o) ? PySequence_Tuple(o) : NULL;
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
        if (!PyLong_Check(PyTuple_GET_ITEM(tuple, i)) || PyBool_Check(PyTuple_GET_ITEM(tuple, i)))
            Py_CLEAR(tuple);
    if (!tuple && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s is an int or a tuple of ints, not %R", what, o);
    return tuple;
}

/* Called with keywords only: a decorator, the same function with those keywords. */
static PyObject *decorator(PyObject *m, const char *name, PyObject *kwargs)
{
    PyObject *functools = PyImport_ImportModule("functools"),
             *self = PyObject_GetAttrString(m, name);
    PyObject *partial = functools && self ? PyObject_GetAttrString(functools, "partial") : NULL;
    PyObject *args = partial ? PyTuple_Pack(1, self) : NULL,
             *out = args ? PyObject_Call(partial, args, kwargs) : NULL;
    Py_XDECREF(functools);
    Py_XDECREF(self);
    Py_XDECREF(partial);
    Py_XDECREF(args);
    return out;
}

static PyObject *make_grad(PyObject *m, TransformKind kind, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fun", "argnums", "has_aux", NULL};
    PyObject *fun = NULL, *argnums = NULL;
    int has_aux = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs,
                                     kind == DO_GRAD ? "|OOp:grad" : "|OOp:value_and_grad", names,
                                     &fun, &argnums, &has_aux))
        return NULL;
    if (!fun) return decorator(m, kind == DO_GRAD ? "grad" : "value_and_grad", kwargs);
    PyObject *zero = argnums ? NULL : PyLong_FromLong(0);
    bool one;
    PyObject *tuple = argnums || zero ? int_tuple("argnums", argnums ? argnums : zero, &one) : NULL;
    Py_XDECREF(zero);
    Transform *t = tuple ? transform_new(kind, fun) : NULL;
    if (!t) return Py_XDECREF(tuple), NULL;
    t->argnums = tuple;
    t->one = one;
    t->has_aux = has_aux;
    return transform_keyed(t, Py_BuildValue("(iOii)", kind, tuple, one, has_aux));
}

static PyObject *grad(PyObject *m, PyObject *args, PyObject *kwargs)
{
    return make_grad(m, DO_GRAD, args, kwargs);
}
static PyObject *value_and_grad(PyObject *m, PyObject *args, PyObject *kwargs)
{
    return make_grad(m, DO_VALUE_AND_GRAD, args, kwargs);
}

/* in_axes as part of a key: its structure and its ints. */
static PyObject *axes_key(PyObject *axes)
{
    Leaves leaves = {0};
    TreeDef *tree = tree_flatten(axes, &leaves);
    PyObject *values = tree ? PyTuple_New(leaves.n) : NULL;
    for (Py_ssize_t i = 0; values && i < leaves.n; i++)
        PyTuple_SET_ITEM(values, i, Py_NewRef(leaves.v[i]));
    PyObject *key = values ? PyTuple_Pack(2, tree, values) : NULL;
    leaves_free(&leaves);
    Py_XDECREF(tree);
    Py_XDECREF(values);
    return key;
}

static PyObject *vmap(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fun", "in_axes", "out_axes", NULL};
    PyObject *fun = NULL, *in_axes = NULL, *out_axes = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOO:vmap", names, &fun, &in_axes, &out_axes))
        return NULL;
    if (!fun) return decorator(m, "vmap", kwargs);
    Transform *t = transform_new(DO_VMAP, fun);
    if (!t) return NULL;
    t->in_axes = in_axes ? Py_NewRef(in_axes) : PyLong_FromLong(0);
    t->out_axes = out_axes ? Py_NewRef(out_axes) : PyLong_FromLong(0);
    PyObject *in = t->in_axes ? axes_key(t->in_axes) : NULL,
             *out = t->out_axes ? axes_key(t->out_axes) : NULL;
    PyObject *own = in && out ? Py_BuildValue("(iOO)", DO_VMAP, in, out) : NULL;
    Py_XDECREF(in);
    Py_XDECREF(out);
    return transform_keyed(t, own);
}

static PyObject *name_tuple(PyObject *o)
{
    if (!o) return PyTuple_New(0);
    if (PyUnicode_Check(o)) return PyTuple_Pack(1, o);
    PyObject *tuple = PyList_Check(o) || PyTuple_Check(o) ? PySequence_Tuple(o) : NULL;
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(tuple, i))) Py_CLEAR(tuple);
    if (!tuple && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "static_argnames is a name or a tuple of names, not %R", o);
    return tuple;
}

/* An int of at least 1; -1 with an exception. One too large for any list is the largest. */
static Py_ssize_t count(const char *what, PyObject *o)
{
    if (PyBool_Check(o) || !PyIndex_Check(o)) {
        PyErr_Format(PyExc_TypeError, "jit: %s is an int, not %R", what, o);
        return -1;
    }
    const Py_ssize_t n = PyNumber_AsSsize_t(o, NULL);
    if (n >= 1 || PyErr_Occurred()) return n;
    PyErr_Format(PyExc_ValueError, "jit: %s must be at least 1, not %R", what, o);
    return -1;
}

static PyObject *jit(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fun",        "device",          "static_argnums",
                            "max_traces", "static_argnames", "precision",
                            NULL};
    PyObject *fun = NULL, *device = Py_None, *argnums = NULL, *argnames = NULL,
             *precision = Py_None, *most = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOOOO:jit", names, &fun, &device, &argnums,
                                     &most, &argnames, &precision))
        return NULL;
    if (!fun) return decorator(m, "jit", kwargs);
    const Py_ssize_t max_traces = most ? count("max_traces", most) : 8;
    if (max_traces < 0) return NULL;
    const bool cpu = device == Py_None || (PyUnicode_Check(device) &&
                                           PyUnicode_CompareWithASCIIString(device, "cpu") == 0);
    Transform *t = transform_new(DO_JIT, fun);
    if (!t) return NULL;
    t->static_argnums = argnums ? int_tuple("static_argnums", argnums, NULL) : PyTuple_New(0);
    t->static_argnames = t->static_argnums ? name_tuple(argnames) : NULL;
    t->device = Py_NewRef(cpu ? Py_None : device);
    t->precision = Py_NewRef(precision);
    t->max_traces = max_traces;
    PyObject *own = t->static_argnames
                        ? Py_BuildValue("(iOOOOn)", DO_JIT, t->static_argnums, t->static_argnames,
                                        t->device, precision, max_traces)
                        : NULL;
    return transform_keyed(t, own);
}

static PyObject *as_tuple(const char *what, PyObject *o)
{
    if (PyTuple_Check(o) || PyList_Check(o)) return PySequence_Tuple(o);
    PyErr_Format(PyExc_TypeError, "jvp: %s is a tuple or list with one entry per argument, not %s",
                 what, stage_kind(o));
    return NULL;
}

/* Tangents with numbers as arrays of their primal's dtype, so that one trace serves all numbers. */
static PyObject *typed_tangents(PyObject *primals, PyObject *tangents)
{
    Leaves p = {0}, x = {0};
    TreeDef *a = tree_flatten(primals, &p), *b = a ? tree_flatten(tangents, &x) : NULL;
    PyObject *out = NULL;
    bool ok = a && b && tree_same(a, b);
    if (a && b && !ok)
        PyErr_Format(PyExc_ValueError, "jvp: primals have the structure %R, tangents %R", a, b);
    for (Py_ssize_t i = 0; ok && i < x.n; i++) {
        if (array_check(x.v[i]) || (!PyFloat_Check(x.v[i]) && !PyLong_Check(x.v[i]))) continue;
        PyObject *y = convert_array(x.v[i],
                                    array_check(p.v[i])    ? array_type(p.v[i])->dtype
                                    : PyBool_Check(p.v[i]) ? QB_BOOL
                                                           : QB_F64,
                                    false, NULL);
        ok = y;
        if (ok) Py_SETREF(x.v[i], y);
    }
    if (ok) out = tree_unflatten(b, x.v);
    leaves_free(&p);
    leaves_free(&x);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return out;
}

static PyObject *jvp(PyObject *Py_UNUSED(m), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fun", "primals", "tangents", NULL};
    PyObject *fun, *primals, *tangents;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:jvp", names, &fun, &primals, &tangents))
        return NULL;
    PyObject *p = as_tuple("primals", primals), *x = p ? as_tuple("tangents", tangents) : NULL,
             *y = NULL, *out = NULL;
    if (x && PyTuple_GET_SIZE(p) != PyTuple_GET_SIZE(x))
        PyErr_Format(PyExc_ValueError, "jvp: %zd primals and %zd tangents", PyTuple_GET_SIZE(p),
                     PyTuple_GET_SIZE(x));
    else if (x)
        y = typed_tangents(p, x);
    PyObject *t = y ? transform_simple(DO_JVP, fun, false) : NULL;
    if (t) out = PyObject_CallFunctionObjArgs(t, p, y, NULL);
    Py_XDECREF(p);
    Py_XDECREF(x);
    Py_XDECREF(y);
    Py_XDECREF(t);
    return out;
}

/* _transform(label, fun, impl, params, argnums=()): a transform written in Python. Inside a trace
   it is impl(fun, *args); outside, that is traced, compiled and cached. params: whatever hashable
   else the result depends on. argnums: the differentiated arguments. */
static PyObject *custom(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *label, *fun, *impl, *params, *argnums = NULL;
    if (!PyArg_ParseTuple(args, "UOOO|O!:_transform", &label, &fun, &impl, &params, &PyTuple_Type,
                          &argnums))
        return NULL;
    Transform *t = transform_new(DO_CUSTOM, fun);
    if (!t) return NULL;
    t->label = Py_NewRef(label);
    t->impl = Py_NewRef(impl);
    t->argnums = Py_XNewRef(argnums);
    return transform_keyed(t, Py_BuildValue("(iOO)", DO_CUSTOM, label, params));
}

#define KEYWORDS(f) (PyCFunction)(void (*)(void)) f, METH_VARARGS | METH_KEYWORDS
static PyMethodDef functions[] = {
    {"jit", KEYWORDS(jit),
     "jit(fun, device=None, static_argnums=(), max_traces=8, static_argnames=(), precision=None)\n"
     "--\n"
     "\n"
     "fun, traced once per signature and compiled.\n"
     "\n"
     "The signature is the structure of the arguments, shapes and dtypes of their arrays, and all "
     "else by value: Python numbers and static\n"
     "arguments, which are numbered or named and may be any hashable. At most max_traces traces "
     "are kept; another one evicts the one used least\n"
     "recently, with a RetraceWarning. device: None or \"cpu\", \"cuda\", \"cuda:N\", \"mlx\". "
     "precision: None: a float32\n"
     "result is the float64 result of each op, rounded. \"float32\": on the CPU, what is float32 "
     "is "
     "computed in float32, at about twice the speed and\n"
     "within 1e-5 of that, and float64 as ever. \"float64\": on the CPU, None.\n"
     "\n"
     "A keyword that names the next positional parameter is that argument; other keywords must be "
     "static. With keywords only, a decorator.\n"
     ".lower(*args) traces without running. Raises TypeError for arguments that are no arrays, "
     "numbers or pytrees, TracerError where traced code\n"
     "asks for a value, UnsupportedOperationError for a device that is not there.\n"
     "\n"
     ">>> f = qb.jit(lambda x, n: qb.sin(x) * n, static_argnums=1)\n"
     ">>> f(qb.array([0.0, 1.0]), 2)\n"
     "Tensor([0.        , 1.68294197], dtype=float64)"},
    {"grad", KEYWORDS(grad),
     "grad(fun, argnums=0, has_aux=False)\n"
     "--\n"
     "\n"
     "The gradient of a function that returns a floating scalar.\n"
     "\n"
     "It has the structure and dtypes of the argument numbered in argnums, a tuple of them where "
     "argnums is a tuple; a bool leaf gives None, a\n"
     "Python number is a float64 array. With has_aux, fun returns (value, aux) and the result is "
     "(gradient, aux). With keywords only, a\n"
     "decorator. Raises ValueError for a result that is no floating scalar or for argnums out of "
     "range, TypeError for one that is no array.\n"
     "\n"
     ">>> qb.grad(lambda p, x: qb.sum(p[\"w\"] * x) + p[\"b\"])({\"w\": qb.ones((2,)), \"b\": "
     "1.0}, qb.array([3.0, 4.0]))\n"
     "{'b': Tensor(1., dtype=float64), 'w': Tensor([3., 4.], dtype=float64)}"},
    {"value_and_grad", KEYWORDS(value_and_grad),
     "value_and_grad(fun=None, argnums=0, has_aux=False)\n"
     "--\n"
     "\n"
     "(value, gradient) of a function that returns a floating scalar; with has_aux ((value, aux), "
     "gradient). See grad.\n"
     "\n"
     ">>> qb.value_and_grad(lambda x: x**3)(2.0)\n"
     "(Tensor(8., dtype=float64), Tensor(12., dtype=float64))"},
    {"vmap", KEYWORDS(vmap),
     "vmap(fun, in_axes=0, out_axes=0)\n"
     "--\n"
     "\n"
     "fun for every example along an axis of its arguments, all at once.\n"
     "\n"
     "in_axes, out_axes: an int, negative from the end; None, not mapped; or a pytree of them that "
     "matches the arguments or the result from the\n"
     "top. All mapped axes have one length. A result that depends on nothing mapped is repeated, "
     "or returned as it is for None. The values are\n"
     "those of a loop over the examples, bit for bit. Raises ValueError for axes that do not fit, "
     "with the path of the leaf.\n"
     "\n"
     ">>> qb.vmap(lambda x, w: qb.sum(x * w), in_axes=(0, None))(qb.array([[1.0, 2.0], [3.0, "
     "4.0]]), qb.array([1.0, 10.0]))\n"
     "Tensor([21., 43.], dtype=float64)"},
    {"jvp", KEYWORDS(jvp),
     "jvp(fun, primals, tangents)\n"
     "--\n"
     "\n"
     "(fun(*primals), its derivative in the direction of tangents), by forward mode.\n"
     "\n"
     "primals and tangents are tuples or lists of equal structure, shapes and dtypes. The tangent "
     "of a bool input is a bool array that says\n"
     "nothing, that of a bool output is float zeros. Raises TypeError for another shape or dtype, "
     "ValueError for another structure.\n"
     "\n"
     ">>> qb.jvp(lambda x: qb.sin(x) * x, (qb.array(1.0),), (qb.array(1.0),))\n"
     "(Tensor(0.84147098, dtype=float64), Tensor(1.38177329, dtype=float64))"},
    {"_transform", custom, METH_VARARGS, NULL},
    {0},
};
#undef KEYWORDS

bool wrap_init(PyObject *m) { return !PyModule_AddFunctions(m, functions); }
