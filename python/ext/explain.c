/* explain.c: why a function was traced again, and what its caches hold.

   The reason is written down when the trace is made, against the trace that was used last: later that one
   may be gone. */
#include "ext.h"

enum { SHOWN = 3 }; /* arguments that one reason names */

static PyObject *signatures(const Entry *old, const Entry *new)
{
    PyObject *a = entry_signature(old), *b = a ? entry_signature(new) : NULL;
    PyObject *out = b ? PyUnicode_FromFormat("the arguments were %U and are %U", a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return out;
}

static PyObject *change(Transform *t, const Entry *old, const Entry *new, Py_ssize_t i)
{
    PyObject *name = entry_leaf_name(t, new, i), *a = name ? entry_leaf_text(old, i) : NULL,
             *b = a ? entry_leaf_text(new, i) : NULL;
    PyObject *out = b ? PyUnicode_FromFormat("%U was %U and is %U", name, a, b) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return out;
}

static bool same_form(const Entry *a, const Entry *b)
{
    if (a->n_specs != b->n_specs || !a->kwnames != !b->kwnames || !tree_same(a->in, b->in))
        return false;
    const int same = a->kwnames ? PyObject_RichCompareBool(a->kwnames, b->kwnames, Py_EQ) : 1;
    if (same < 0) PyErr_Clear();
    return same == 1;
}

PyObject *explain_reason(Transform *t, const Entry *old, const Entry *new)
{
    if (!same_form(old, new)) return signatures(old, new);
    PyObject *out = NULL;
    Py_ssize_t changed = 0;
    for (Py_ssize_t i = 0; i < new->n_specs; i++) {
        if (entry_same_leaf(old, new, i) || changed++ >= SHOWN) continue;
        PyObject *one = change(t, old, new, i);
        if (!one) return Py_XDECREF(out), NULL;
        if (out)
            Py_SETREF(out, PyUnicode_FromFormat("%U, %U", out, one));
        else
            out = Py_NewRef(one);
        Py_DECREF(one);
        if (!out) return NULL;
    }
    if (!out) return signatures(old, new);
    if (changed > SHOWN)
        Py_SETREF(out, PyUnicode_FromFormat("%U and %zd more", out, changed - SHOWN));
    return out;
}

/* ---- what a cache holds ---- */

static PyObject *entry_info(const Entry *e)
{
    PyObject *signature = entry_signature(e);
    if (!signature) return NULL;
    return Py_BuildValue("{sNsLsdsdsisLsO}", "signature", signature, "calls", e->calls,
                         "trace_seconds", e->traced, "compile_seconds", e->compiled, "nodes",
                         qb_plan_node_count(e->plan), "workspace",
                         (long long)qb_plan_workspace(e->plan), "reason",
                         e->reason ? e->reason : Py_None);
}

static PyObject *cache_info(const Cache *c)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < c->n; i++) {
        PyObject *one = entry_info(c->entries[i]);
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    if (!list) return NULL;
    return Py_BuildValue("{sOsLsLsnsN}", "name", c->label, "traces", c->traces, "evicted",
                         c->evicted, "max_traces", c->max, "entries", list);
}

/* _cache_info(f): a list with the cache of a Transform, or those of every chain around a plain function. */
static PyObject *info(PyObject *Py_UNUSED(m), PyObject *f)
{
    PyObject *caches = NULL;
    if (Py_TYPE(f) == core.Transform) {
        PyObject *cache = jit_cache((Transform *)f);
        caches = cache ? Py_BuildValue("[O]", cache) : NULL;
    } else {
        PyObject *known = jit_caches(f);
        caches = known ? PyDict_Values(known) : PyErr_Occurred() ? NULL : PyList_New(0);
    }
    PyObject *list = caches ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(caches); i++) {
        PyObject *one = cache_info((Cache *)PyList_GET_ITEM(caches, i));
        if (!one || PyList_Append(list, one)) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    Py_XDECREF(caches);
    return list;
}

static PyMethodDef functions[] = {
    {"_cache_info", info, METH_O, NULL},
    {0},
};

bool explain_init(PyObject *m) { return !PyModule_AddFunctions(m, functions); }
