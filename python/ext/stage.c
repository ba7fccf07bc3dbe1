/* stage.c: what every transform does around its own rule: trace the function into a frame,
   collect its outputs, hand back the results. */
#include "ext.h"

const char *stage_kind(PyObject *o)
{
    static _Thread_local char text[120];
    const char *name = strrchr(Py_TYPE(o)->tp_name, '.');
    name = name ? name + 1 : Py_TYPE(o)->tp_name;
    if (o == Py_None) return "None";
    snprintf(text, sizeof text, "%s %.100s", strchr("aeiouAEIOU", *name) ? "an" : "a", name);
    return text;
}

/* ---- outputs ---- */

static bool output(Frame *f, Tracer *t, int *index)
{
    qb_error err = {0};
    *index = -1;
    if (t->frame !=
        f) { /* a value of an enclosing trace is a constant here; a dead one is an error */
        qb_value v;
        return f->outer ? frame_capture(f->outer, t->frame, t->value, &v)
                        : frame_capture(f, t->frame, t->value, &v);
    }
    *index = qb_graph_output_count(f->graph);
    return qb_graph_output(f->graph, t->value, &err) || error_raise(&err);
}

bool stage_outputs(Frame *f, PyObject *result, Outputs *o)
{
    *o = (Outputs){0};
    o->tree = tree_flatten(result, &o->leaves);
    o->index = o->tree ? PyMem_New(int, o->leaves.n + 1) : NULL;
    bool ok = o->index || (PyErr_Occurred() ? false : (PyErr_NoMemory(), false));
    for (Py_ssize_t i = 0; ok && i < o->leaves.n; i++) {
        o->index[i] = -1;
        if (tracer_check(o->leaves.v[i])) ok = output(f, (Tracer *)o->leaves.v[i], &o->index[i]);
    }
    if (!ok) stage_free(o);
    return ok;
}

void stage_free(Outputs *o)
{
    Py_CLEAR(o->tree);
    leaves_free(&o->leaves);
    PyMem_Free(o->index);
    o->index = NULL;
}

PyObject *stage_result(Frame *outer, const Outputs *o, const qb_value *values)
{
    Leaves leaves = {0};
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < o->leaves.n; i++) {
        PyObject *x =
            o->index[i] < 0 ? Py_NewRef(o->leaves.v[i]) : tracer_new(outer, values[o->index[i]]);
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(o->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    return out;
}

bool stage_close(Frame *f, bool ok)
{
    qb_error err = {0};
    frame_pop(f);
    return ok && (qb_graph_freeze(f->graph, &err) || error_raise(&err));
}

/* ---- differentiated arguments ---- */

PyObject *stage_arrays(PyObject *x, const Leaves *like)
{
    Leaves leaves = {0};
    TreeDef *tree = tree_flatten(x, &leaves);
    bool ok = tree;
    for (Py_ssize_t i = 0; ok && i < leaves.n; i++) {
        PyObject *leaf = leaves.v[i];
        if (array_check(leaf) || PyBool_Check(leaf) || !ops_operand(leaf)) continue;
        const bool typed = like && i < like->n && array_check(like->v[i]) && !ops_foreign(leaf);
        PyObject *array =
            convert_array(leaf, typed ? array_type(like->v[i])->dtype : -1, false, NULL);
        ok = array != NULL;
        if (ok) Py_SETREF(leaves.v[i], array);
    }
    PyObject *out = ok ? tree_unflatten(tree, leaves.v) : NULL;
    leaves_free(&leaves);
    Py_XDECREF(tree);
    return out;
}

PyObject *stage_imported(PyObject *x)
{
    Leaves leaves = {0};
    TreeDef *tree = tree_flatten(x, &leaves);
    bool ok = tree, changed = false;
    for (Py_ssize_t i = 0; ok && i < leaves.n; i++) {
        PyObject *leaf = leaves.v[i];
        if (array_check(leaf) || PyFloat_CheckExact(leaf)) continue;
        if (!PyFloat_Check(leaf) && !ops_foreign(leaf)) continue;
        PyObject *array = convert_array(leaf, -1, true, NULL);
        ok = changed = array != NULL;
        if (ok) Py_SETREF(leaves.v[i], array);
    }
    PyObject *out = !ok ? NULL : changed ? tree_unflatten(tree, leaves.v) : Py_NewRef(x);
    leaves_free(&leaves);
    Py_XDECREF(tree);
    return out;
}

bool stage_zeros(Frame *f, const qb_type *t, double value, qb_value *out)
{
    qb_error err = {0};
    const qb_type copy = *t;
    *out = qb_constant(f->graph, &copy, value, &err);
    return out->graph || error_raise(&err);
}

/* The leaf as an array; a Python number is a float64 array here. NULL without exception: nothing
   to differentiate. */
static PyObject *floating(PyObject *x)
{
    if (array_check(x)) return array_type(x)->dtype == QB_BOOL ? NULL : Py_NewRef(x);
    if (PyBool_Check(x)) return NULL;
    PyObject *array = convert_array(x, -1, true, NULL);
    if (array && array_type(array)->dtype == QB_BOOL) Py_CLEAR(array);
    return array;
}

static bool differentiable(PyObject *x)
{
    return array_check(x) || PyFloat_Check(x) || PyLong_Check(x) || ops_foreign(x);
}

static void no_array(const Diff *d, Py_ssize_t i, const char *path)
{
    PyObject *where = tree_path_text(d->tree, i, 0);
    if (where && PyUnicode_GET_LENGTH(where))
        PyErr_Format(PyExc_TypeError, "%s: '%U' is %s, not an array or a number", path, where,
                     stage_kind(d->leaves.v[i]));
    else if (where)
        PyErr_Format(PyExc_TypeError, "%s is %s, not an array or a number", path,
                     stage_kind(d->leaves.v[i]));
    Py_XDECREF(where);
}

static bool make_input(Frame *outer, Frame *f, Diff *d, Py_ssize_t i)
{
    d->input[i] = -1;
    PyObject *x = floating(d->leaves.v[i]);
    if (!x) return !PyErr_Occurred();
    qb_value v;
    PyObject *tracer = frame_lift(outer, x, &v) ? frame_input(f, NULL, qb_type_of(v), v) : NULL;
    Py_DECREF(x);
    if (!tracer) return false;
    d->input[i] = f->n_inputs - 1;
    Py_SETREF(d->leaves.v[i], tracer);
    return true;
}

bool stage_argument(Frame *outer, Frame *f, PyObject *arg, const char *path, Diff *d)
{
    *d = (Diff){0};
    d->tree = tree_flatten(arg, &d->leaves);
    d->input = d->tree ? PyMem_New(int, d->leaves.n + 1) : NULL;
    bool ok = d->input != NULL;
    if (d->tree && !ok) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < d->leaves.n; i++) {
        ok = differentiable(d->leaves.v[i]);
        if (!ok) no_array(d, i, path);
        ok = ok && make_input(outer, f, d, i);
    }
    if (!ok) stage_free_argument(d);
    return ok;
}

void stage_free_argument(Diff *d)
{
    Py_CLEAR(d->tree);
    leaves_free(&d->leaves);
    PyMem_Free(d->input);
    d->input = NULL;
}
