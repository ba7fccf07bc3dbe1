/* jit.c: the caches of compiled traces, and the call of a Transform outside any trace.

   Traces belong to the root function (the innermost one, a plain callable) and to the chain of
   transforms around it, not to the object that jit returned: wrapping a function again finds
   them. They live as long as the function does. */
#include "ext.h"

/* id(root) -> (weak reference to root, {chain key: Cache}) */
static PyObject *roots;

/* ---- finding the cache ---- */

/* The root is gone: so are its traces. self is id(root). */
static PyObject *forget(PyObject *id, PyObject *Py_UNUSED(ref))
{
    if (PyDict_DelItem(roots, id)) PyErr_Clear();
    Py_RETURN_NONE;
}

static PyMethodDef forget_def = {"forget", forget, METH_O, NULL};

PyObject *jit_caches(PyObject *root)
{
    PyObject *id = PyLong_FromVoidPtr(root),
             *known = id ? PyDict_GetItemWithError(roots, id) : NULL;
    Py_XDECREF(id);
    return known ? PyTuple_GET_ITEM(known, 1) : NULL;
}

static PyObject *caches_of(PyObject *root)
{
    PyObject *id = PyLong_FromVoidPtr(root),
             *known = id ? PyDict_GetItemWithError(roots, id) : NULL, *out = NULL;
    if (known) {
        out = Py_NewRef(PyTuple_GET_ITEM(known, 1));
    } else if (id && !PyErr_Occurred()) {
        PyObject *callback = PyCFunction_New(&forget_def, id);
        PyObject *ref = callback ? PyWeakref_NewRef(root, callback) : NULL;
        out = ref ? PyDict_New() : NULL;
        PyObject *pair = out ? PyTuple_Pack(2, ref, out) : NULL;
        if (!pair || PyDict_SetItem(roots, id, pair)) Py_CLEAR(out);
        Py_XDECREF(callback);
        Py_XDECREF(ref);
        Py_XDECREF(pair);
    }
    Py_XDECREF(id);
    return out;
}

static PyObject *new_cache(Transform *t)
{
    PyObject *label = transform_repr((PyObject *)t);
    Cache *c = label ? PyObject_New(Cache, core.Cache) : NULL;
    if (!c) return Py_XDECREF(label), NULL;
    memset((char *)c + sizeof(PyObject), 0, sizeof *c - sizeof(PyObject));
    c->label = label;
    c->max = t->max_traces;
    return (PyObject *)c;
}

static Cache *cache_of(Transform *t)
{
    if (t->cache) return (Cache *)t->cache;
    PyObject *caches = caches_of(transform_root(t)), *cache = NULL;
    if (caches) {
        cache = Py_XNewRef(PyDict_GetItemWithError(caches, t->key));
        if (!cache && !PyErr_Occurred() && (cache = new_cache(t)) &&
            PyDict_SetItem(caches, t->key, cache))
            Py_CLEAR(cache);
    }
    if (!cache && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear(); /* no weak reference to this root: traces of its own */
        cache = new_cache(t);
    }
    Py_XDECREF(caches);
    return (Cache *)(t->cache = cache);
}

PyObject *jit_cache(Transform *t) { return (PyObject *)cache_of(t); }

/* ---- entries ---- */

static void to_front(Cache *c, Entry *e)
{
    for (Py_ssize_t i = 0; i < c->n; i++)
        if (c->entries[i] == e) {
            memmove(c->entries + 1, c->entries, sizeof *c->entries * (size_t)i);
            c->entries[0] = e;
            return;
        }
}

/* The trace that fits, with a reference, and its leaves. NULL without exception: none. */
static Entry *find(Cache *c, const Call *call, Leaves *leaves)
{
    for (Py_ssize_t i = 0; i < c->n;
         i++) { /* comparing may run code of the user that changes the cache */
        Entry *e = entry_retain(c->entries[i]);
        const int m = entry_match(e, call, leaves);
        if (m == 1) {
            if (i) to_front(c, e);
            return e;
        }
        entry_release(e);
        leaves_free(leaves);
        if (m < 0) return NULL;
    }
    return NULL;
}

static bool warn_evicted(Transform *t, const Entry *old, const Entry *new)
{
    PyObject *a = entry_signature(old), *b = a ? entry_signature(new) : NULL;
    const bool ok =
        b && !PyErr_WarnFormat(
                 core.RetraceWarning, 1,
                 "%R exceeded max_traces=%zd and evicted its least recently used trace:\n  %U\n"
                 "new signature:\n  %U\nKeep shapes fixed, pass changing numbers as arrays, or "
                 "raise max_traces.",
                 t, t->max_traces, a, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return ok;
}

/* Takes a reference of its own. */
static bool insert(Transform *t, Cache *c, Entry *e)
{
    if (c->n == c->cap) {
        const Py_ssize_t cap = c->cap ? 2 * c->cap : 4;
        Entry **v = PyMem_Realloc(c->entries, sizeof *v * (size_t)cap);
        if (!v) return PyErr_NoMemory(), false;
        c->entries = v;
        c->cap = cap;
    }
    if (c->n && !(e->reason = explain_reason(t, c->entries[0], e))) return false;
    memmove(c->entries + 1, c->entries, sizeof *c->entries * (size_t)c->n);
    c->entries[0] = entry_retain(e);
    c->traces++;
    if (++c->n <= t->max_traces) return true;
    Entry *old = c->entries[--c->n];
    c->evicted++;
    const bool ok = warn_evicted(t, old, e);
    entry_release(old);
    return ok;
}

/* ---- the call ---- */

/* A new trace, unless another thread has made one for this signature meanwhile: tracing and compiling give up the lock. */
static Entry *add(Transform *t, Cache *cache, const Call *c, Leaves *leaves)
{
    Entry *e = entry_trace(t, c, false, leaves);
    if (!e) return NULL;
    Leaves again = {0};
    Entry *known = cache->n ? find(cache, c, &again) : NULL;
    leaves_free(&again);
    const bool ok = !PyErr_Occurred() && (known || insert(t, cache, e));
    if (ok && !known) return e;
    entry_release(e);
    if (ok) return known;
    entry_release(known);
    return NULL;
}

static PyObject *dispatch(Transform *t, const Call *c)
{
    Cache *cache = cache_of(t);
    if (!cache) return NULL;
    Py_INCREF(cache);
    Leaves leaves = {0};
    Entry *e = find(cache, c, &leaves);
    if (!e && !PyErr_Occurred()) e = add(t, cache, c, &leaves);
    if (e) e->calls++;
    PyObject *out = e ? entry_run(e, leaves.v, NULL) : NULL;
    entry_release(e);
    leaves_free(&leaves);
    Py_DECREF(cache);
    return out;
}

PyObject *jit_call(Transform *t, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (call_plain(t, kwnames))
        return dispatch(t, &(Call){.args = (PyObject **)(uintptr_t)args, .n = n});
    Call c;
    if (!call_sort(t, args, n, kwnames, &c)) return NULL;
    PyObject *out = dispatch(t, &c);
    call_free(&c);
    return out;
}

/* ---- options ---- */

/* "cuda:3" names the target "cuda". */
static bool spelled(const char *text, const char *target)
{
    const size_t n = strlen(target);
    if (strncmp(text, target, n)) return false;
    if (!text[n]) return true;
    return !strcmp(target, "cuda") && text[n] == ':' && text[n + 1] &&
           strspn(text + n + 1, "0123456789") == strlen(text + n + 1);
}

static bool check_device(Transform *t)
{
    if (!t->device || t->device == Py_None) return true;
    const char *text = PyUnicode_Check(t->device) ? PyUnicode_AsUTF8(t->device) : NULL;
    PyErr_Clear();
    for (int i = 0; text && i < qb_target_count(); i++) {
        if (!spelled(text, qb_target_name(i))) continue;
        if (qb_target_built(qb_target_name(i))) return true;
        char message[200];
        snprintf(message, sizeof message, "device '%.80s' is not in this build; device='cpu' is",
                 text);
        return error_unsupported(text, message);
    }
    PyErr_Format(PyExc_ValueError, "%R: device %R is not one of 'cpu', 'cuda', 'cuda:0', 'mlx'", t,
                 t->device);
    return false;
}

bool jit_options(Transform *t, qb_options *options)
{
    *options = (qb_options){.target = "cpu"};
    if (!check_device(t)) return false;
    if (!t->precision || t->precision == Py_None) return true;
    const char *text = PyUnicode_Check(t->precision) ? PyUnicode_AsUTF8(t->precision) : NULL;
    if (text && (!strcmp(text, "float32") || !strcmp(text, "float64"))) {
        options->precision = text;
        return true;
    }
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%R: precision is None, 'float32' or 'float64', not %R", t,
                 t->precision);
    return false;
}

/* ---- the type ---- */

static void dealloc(PyObject *o)
{
    Cache *c = (Cache *)o;
    for (Py_ssize_t i = 0; i < c->n; i++) entry_release(c->entries[i]);
    PyMem_Free(c->entries);
    Py_XDECREF(c->label);
    PyObject_Free(o);
    Py_DECREF(core.Cache);
}

static PyType_Slot slots[] = {{Py_tp_dealloc, dealloc}, {0}};
static PyType_Spec spec = {"quabla._core.Cache", sizeof(Cache), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

bool jit_init(PyObject *Py_UNUSED(m))
{
    core.Cache = (PyTypeObject *)PyType_FromSpec(&spec);
    return core.Cache && (roots = PyDict_New());
}
