/* call.c: the arguments of a jitted call: keywords that are positions, static arguments, static
   keywords. */
#include "ext.h"

enum { VARARGS = 4, VARKEYWORDS = 8 }; /* co_flags */

/* Names of the positional parameters. Anything but a plain function is asked through inspect. */
PyObject *call_params(PyObject *fun)
{
    while (Py_TYPE(fun) == core.Transform) fun = ((Transform *)fun)->fun;
    PyObject *out = NULL;
    if (PyFunction_Check(fun)) {
        PyObject *code = PyFunction_GET_CODE(fun),
                 *names = PyObject_GetAttrString(code, "co_varnames");
        if (names) out = PyTuple_GetSlice(names, 0, ((PyCodeObject *)code)->co_argcount);
        Py_XDECREF(names);
        return out;
    }
    PyObject *inspect = PyImport_ImportModule("inspect");
    PyObject *signature = inspect ? PyObject_CallMethod(inspect, "signature", "O", fun) : NULL;
    PyObject *params = signature ? PyObject_GetAttrString(signature, "parameters") : NULL;
    PyObject *values = params ? PyMapping_Values(params) : NULL,
             *list = values ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(values); i++) {
        PyObject *p = PySequence_Fast_GET_ITEM(values, i),
                 *kind = PyObject_GetAttrString(p, "kind");
        PyObject *name = kind ? PyObject_GetAttrString(p, "name") : NULL;
        const long k = kind ? PyLong_AsLong(kind)
                            : -1; /* 0, 1: positional; 2: *args; 3: keyword only; 4: **kwargs */
        if (!name || (k < 2 && PyList_Append(list, name))) Py_CLEAR(list);
        Py_XDECREF(kind);
        Py_XDECREF(name);
    }
    if (list)
        out = PyList_AsTuple(list);
    else if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_ValueError) ||
             PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear(); /* built-in functions may have no signature */
        out = PyTuple_New(0);
    }
    Py_XDECREF(inspect);
    Py_XDECREF(signature);
    Py_XDECREF(params);
    Py_XDECREF(values);
    Py_XDECREF(list);
    return out;
}

/* Does fun take more than its named positional parameters? Unknown for anything but plain
   functions: then yes. */
static bool open_ended(PyObject *fun, int flag)
{
    while (Py_TYPE(fun) == core.Transform) fun = ((Transform *)fun)->fun;
    return !PyFunction_Check(fun) || ((PyCodeObject *)PyFunction_GET_CODE(fun))->co_flags & flag;
}

static Py_ssize_t find(PyObject *names, PyObject *name)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) return i;
    return -1;
}

static bool keyword_only(PyObject *fun, PyObject *name)
{
    while (Py_TYPE(fun) == core.Transform) fun = ((Transform *)fun)->fun;
    if (!PyFunction_Check(fun)) return true;
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(fun);
    PyObject *names = PyObject_GetAttrString((PyObject *)code, "co_varnames");
    PyObject *own = names ? PyTuple_GetSlice(names, code->co_argcount,
                                             code->co_argcount + code->co_kwonlyargcount)
                          : NULL;
    const bool found = own && find(own, name) >= 0;
    Py_XDECREF(names);
    Py_XDECREF(own);
    PyErr_Clear();
    return found;
}

/* ---- static arguments ---- */

/* static_argnums and static_argnames must name parameters of the function. */
static bool check_static(Transform *t)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(t->params);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t->static_argnums); i++) {
        const Py_ssize_t p = PyLong_AsSsize_t(PyTuple_GET_ITEM(t->static_argnums, i));
        if (p >= -n && (p < n || open_ended(t->fun, VARARGS))) continue;
        PyErr_Format(
            PyExc_ValueError,
            "%R: static_argnums %zd is out of range; the function has %zd positional parameters", t,
            p, n);
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t->static_argnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(t->static_argnames, i);
        if (find(t->params, name) >= 0 || keyword_only(t->fun, name) ||
            open_ended(t->fun, VARKEYWORDS))
            continue;
        PyErr_Format(PyExc_ValueError, "%R: static_argnames %R is no parameter of the function", t,
                     name);
        return false;
    }
    return true;
}

static bool static_position(Transform *t, Py_ssize_t i)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(t->params);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(t->static_argnums); k++) {
        const Py_ssize_t p = PyLong_AsSsize_t(PyTuple_GET_ITEM(t->static_argnums, k));
        if (p == i || (p < 0 && p + n == i)) return true;
    }
    return i < n && find(t->static_argnames, PyTuple_GET_ITEM(t->params, i)) >= 0;
}

static bool static_name(Transform *t, PyObject *name)
{
    const Py_ssize_t p = find(t->params, name);
    return find(t->static_argnames, name) >= 0 || (p >= 0 && static_position(t, p));
}

/* name: the parameter's, or its number where it has none. */
static bool hashable(Transform *t, PyObject *x, PyObject *name)
{
    if (array_check(x)) {
        PyErr_Format(PyExc_TypeError,
                     "%R: static argument %R is an array; static arguments are values such as ints "
                     "and strings, so leave it out of static_argnums and static_argnames",
                     t, name);
        return false;
    }
    if (PyObject_Hash(x) != -1) return true;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError,
                 "%R: static argument %R is %s, which is not hashable; use a tuple or a frozen "
                 "dataclass, or pass it as an ordinary argument",
                 t, name, stage_kind(x));
    return false;
}

/* ---- sorting a call ---- */

void call_free(Call *c)
{
    for (Py_ssize_t i = 0; c->args && i < c->n; i++) Py_DECREF(c->args[i]);
    for (Py_ssize_t i = 0; c->kwvalues && i < PyTuple_GET_SIZE(c->kwnames); i++)
        Py_DECREF(c->kwvalues[i]);
    PyMem_Free(c->args);
    PyMem_Free(c->opaque);
    PyMem_Free(c->kwvalues);
    Py_XDECREF(c->kwnames);
    *c = (Call){0};
}

/* The keywords in `left` (pairs), sorted by name, as static ones. */
static bool keep_keywords(Transform *t, PyObject *left, Call *c)
{
    if (PyList_Sort(left)) return false;
    const Py_ssize_t n = PyList_GET_SIZE(left);
    c->kwnames = PyTuple_New(n);
    c->kwvalues = c->kwnames ? PyMem_Calloc((size_t)n + 1, sizeof *c->kwvalues) : NULL;
    if (!c->kwvalues) {
        Py_CLEAR(c->kwnames);
        return PyErr_NoMemory(), false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GET_ITEM(PyList_GET_ITEM(left, i), 0);
        PyTuple_SET_ITEM(c->kwnames, i, Py_NewRef(name));
        c->kwvalues[i] =
            Py_NewRef(PyTuple_GET_ITEM(PyTuple_GET_ITEM(PyList_GET_ITEM(left, i), 1), 0));
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GET_ITEM(c->kwnames, i);
        if (!static_name(t, name)) {
            PyErr_Format(PyExc_TypeError,
                         "%R: keyword '%U' must be static: pass it by position, or name it in "
                         "static_argnames",
                         t, name);
            return false;
        }
        if (!hashable(t, c->kwvalues[i], name)) return false;
    }
    return true;
}

/* Keywords that name the next positional parameter are that position, again and again; the others
   are left as (name, (value,)). */
static bool place_keywords(Transform *t, PyObject *const *values, PyObject *kwnames, Call *c)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(kwnames);
    PyObject *left = PyList_New(0);
    bool *used = PyMem_Calloc((size_t)n + 1, 1), ok = left && used, moved = true;
    while (ok && moved && c->n < PyTuple_GET_SIZE(t->params)) {
        moved = false;
        for (Py_ssize_t i = 0; i < n && !moved; i++) {
            if (used[i] ||
                PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, i), PyTuple_GET_ITEM(t->params, c->n)))
                continue;
            c->args[c->n++] = Py_NewRef(values[i]);
            used[i] = moved = true;
        }
    }
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        if (used[i]) continue;
        PyObject *pair = Py_BuildValue("(O(O))", PyTuple_GET_ITEM(kwnames, i), values[i]);
        ok = pair && !PyList_Append(left, pair);
        Py_XDECREF(pair);
    }
    ok = ok && (!PyList_GET_SIZE(left) || keep_keywords(t, left, c));
    Py_XDECREF(left);
    PyMem_Free(used);
    return ok;
}

static bool has_static(const Transform *t)
{
    return t->static_argnums &&
           (PyTuple_GET_SIZE(t->static_argnums) || PyTuple_GET_SIZE(t->static_argnames));
}

bool call_plain(const Transform *t, PyObject *kwnames)
{
    return !(kwnames && PyTuple_GET_SIZE(kwnames)) && !has_static(t);
}

bool call_sort(Transform *t, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, Call *c)
{
    const Py_ssize_t n_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    *c = (Call){.args = PyMem_New(PyObject *, n + n_keywords + 1)};
    if (!c->args) return PyErr_NoMemory(), false;
    for (; c->n < n; c->n++) c->args[c->n] = Py_NewRef(args[c->n]);
    if (call_plain(t, kwnames)) return true;
    bool ok = true;
    if (t->kind != DO_JIT) {
        PyErr_Format(PyExc_TypeError, "%R takes positional arguments only; keywords are for jit",
                     t);
        ok = false;
    } else if (!t->params) {
        ok = (t->params = call_params(t->fun)) && check_static(t);
        if (!ok) Py_CLEAR(t->params);
    }
    ok = ok && (!n_keywords || place_keywords(t, args + n, kwnames, c));
    if (ok && has_static(t)) {
        c->opaque = PyMem_Calloc((size_t)c->n + 1, 1);
        if (!c->opaque) ok = (PyErr_NoMemory(), false);
        for (Py_ssize_t i = 0; ok && i < c->n; i++) {
            if (!(c->opaque[i] = static_position(t, i))) continue;
            PyObject *name = i < PyTuple_GET_SIZE(t->params)
                                 ? Py_NewRef(PyTuple_GET_ITEM(t->params, i))
                                 : PyLong_FromSsize_t(i);
            ok = name && hashable(t, c->args[i], name);
            Py_XDECREF(name);
        }
    }
    if (!ok) call_free(c);
    return ok;
}
