/* vmap.c: vmap inside a trace. Mapped leaves become inputs without their mapped axis; what is not
   mapped is captured, and so shared by all examples. Mapped axes go to the front on the way in,
   and to where out_axes says on the way out. */
#include "ext.h"

enum { UNMAPPED = INT32_MIN };
typedef struct {
    int *v;
    Py_ssize_t n, cap;
} Axes; /* one per leaf */

static bool push(Axes *a, int axis)
{
    if (a->n == a->cap) {
        const Py_ssize_t cap = a->cap ? 2 * a->cap : 8;
        int *v = PyMem_Realloc(a->v, sizeof *v * (size_t)cap);
        if (!v) return PyErr_NoMemory(), false;
        a->v = v;
        a->cap = cap;
    }
    a->v[a->n++] = axis;
    return true;
}

/* ---- in_axes and out_axes: an int or None stands for a whole subtree ---- */

static bool all_leaves(PyObject *x, int axis, Axes *out)
{
    Leaves leaves = {0};
    TreeDef *t = tree_flatten(x, &leaves);
    bool ok = t;
    for (Py_ssize_t i = 0; ok && i < leaves.n; i++) ok = push(out, axis);
    leaves_free(&leaves);
    Py_XDECREF(t);
    return ok;
}

/* axes do not fit x, which is at the end of the path of `names`. */
static void misfit(const char *which, PyObject *axes, PyObject *x, PyObject *names)
{
    PyObject *text = PyUnicode_FromString(""), *form = NULL;
    Leaves leaves = {0};
    for (Py_ssize_t i = 0; text && i < PyList_GET_SIZE(names); i++)
        Py_SETREF(text,
                  PyUnicode_FromFormat(i ? "%U/%S" : "%U%S", text, PyList_GET_ITEM(names, i)));
    form = text ? (PyObject *)tree_flatten(x, &leaves) : NULL;
    const bool in = which[0] == 'i', whole = text && !PyUnicode_GET_LENGTH(text);
    const char *what = whole ? in ? "the arguments" : "the result" : in ? "argument " : "part ";
    if (form)
        PyErr_Format(
            PyExc_ValueError,
            "vmap: %s %R does not fit %s%U, which %s the structure %R; it is an int, None, "
            "or has that structure from the top",
            which, axes, what, text, in && whole ? "have" : "has", form);
    leaves_free(&leaves);
    Py_XDECREF(text);
    Py_XDECREF(form);
}

/* The axis of every leaf of x. names: the way to x; a list of axes may stand for the tuple of arguments. */
static bool spread(const char *which, PyObject *axes, PyObject *x, PyObject *names, Axes *out)
{
    if (axes == Py_None) return all_leaves(x, UNMAPPED, out);
    if (PyLong_Check(axes) && !PyBool_Check(axes)) {
        const long axis = PyLong_AsLong(axes);
        if (axis == -1 && PyErr_Occurred()) return false;
        if (axis < -QB_MAX_RANK || axis >= QB_MAX_RANK) {
            PyErr_Format(PyExc_ValueError, "vmap: %s has the axis %ld; arrays have at most %d axes",
                         which, axis, QB_MAX_RANK);
            return false;
        }
        return all_leaves(x, (int)axis, out);
    }
    TreeNode a, b = {0};
    PyObject *parts = tree_children(axes, &a), *children = parts ? tree_children(x, &b) : NULL;
    if (!parts && a.kind == NODE_LEAF && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "vmap: %s holds ints, None, or pytrees of them, not %s",
                     which, stage_kind(axes));
        return false;
    }
    const bool kinds = a.kind == b.kind ||
                       (!PyList_GET_SIZE(names) && a.kind == NODE_LIST && b.kind == NODE_TUPLE);
    bool ok = parts && children && kinds && a.n == b.n && a.cls == b.cls;
    if (ok && a.aux != b.aux) ok = PyObject_RichCompareBool(a.aux, b.aux, Py_EQ) == 1;
    if (!ok && !PyErr_Occurred()) misfit(which, axes, x, names);
    for (int32_t i = 0; ok && i < a.n; i++) {
        PyObject *name = tree_step_name(&b, i);
        ok = name && !PyList_Append(names, name) &&
             spread(which, PyTuple_GET_ITEM(parts, i), PyTuple_GET_ITEM(children, i), names, out) &&
             !PyList_SetSlice(names, PyList_GET_SIZE(names) - 1, PyList_GET_SIZE(names), NULL);
        Py_XDECREF(name);
    }
    tree_node_clear(&a);
    tree_node_clear(&b);
    Py_XDECREF(parts);
    Py_XDECREF(children);
    return ok;
}

static bool spread_all(const char *which, PyObject *axes, PyObject *x, Axes *out)
{
    PyObject *names = PyList_New(0);
    const bool ok = names && spread(which, axes, x, names, out);
    Py_XDECREF(names);
    return ok;
}

/* ---- in ---- */

typedef struct {
    Frame *outer, *f;
    TreeDef *tree;
    Leaves leaves;
    Axes axes;
    int64_t size;        /* of the mapped axes */
    Py_ssize_t sized_by; /* leaf that said so */
} Map;

/* "argument 0 'p/b'" */
static PyObject *place(const Map *m, Py_ssize_t leaf)
{
    PyObject *path = tree_path(m->tree, leaf),
             *inner = path ? tree_path_text(m->tree, leaf, 1) : NULL, *out = NULL;
    if (inner)
        out = PyUnicode_GET_LENGTH(inner)
                  ? PyUnicode_FromFormat("argument %S '%U'", PyTuple_GET_ITEM(path, 0), inner)
                  : PyUnicode_FromFormat("argument %S", PyTuple_GET_ITEM(path, 0));
    Py_XDECREF(path);
    Py_XDECREF(inner);
    return out;
}

static void *bad_leaf(const Map *m, Py_ssize_t i, PyObject *class, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *what = PyUnicode_FromFormatV(format, args), *where = what ? place(m, i) : NULL;
    va_end(args);
    if (where) PyErr_Format(class, "vmap: %U %U", where, what);
    Py_XDECREF(what);
    Py_XDECREF(where);
    return NULL;
}

/* The leaf with its mapped axis first, as a value of the outer graph. */
static bool lift_front(Map *m, Py_ssize_t i, qb_value *out)
{
    PyObject *leaf = m->leaves.v[i];
    if (!array_check(leaf) && !ops_foreign(leaf)) {
        if (PyFloat_Check(leaf) || PyLong_Check(leaf))
            bad_leaf(m, i, PyExc_ValueError,
                     "is a Python number, which has no axis; give it None in in_axes");
        else
            bad_leaf(m, i, PyExc_TypeError, "is %s, not an array", stage_kind(leaf));
        return false;
    }
    PyObject *x = ops_array(leaf), *front = NULL;
    if (!x) return false;
    const qb_type *t = array_type(x);
    const int rank = t->rank, axis = m->axes.v[i] < 0 ? m->axes.v[i] + rank : m->axes.v[i];
    const int64_t size = axis >= 0 && axis < rank ? t->dims[axis] : 0;
    if (!size) {
        PyObject *text = dtype_text(t);
        if (text)
            bad_leaf(m, i, PyExc_ValueError, "is %U, so in_axes cannot be %d there; give it %s",
                     text, m->axes.v[i], rank ? "one of its axes, or None" : "None");
        Py_XDECREF(text);
    } else if (m->sized_by >= 0 && size != m->size) {
        PyObject *other = place(m, m->sized_by);
        if (other)
            bad_leaf(m, i, PyExc_ValueError, "has %lld along axis %d, but %U has %lld",
                     (long long)size, axis, other, (long long)m->size);
        Py_XDECREF(other);
    } else {
        int64_t order[QB_MAX_RANK];
        for (int k = 0; k < rank; k++) order[k] = k == 0 ? axis : k <= axis ? k - 1 : k;
        if (m->sized_by < 0) m->sized_by = i;
        m->size = size;
        front = axis ? shape_transpose(x, rank, order) : Py_NewRef(x);
    }
    const bool ok = front && frame_lift(m->outer, front, out);
    Py_XDECREF(front);
    Py_DECREF(x);
    return ok;
}

/* First every mapped leaf as a value of the outer graph (their ops belong there), then the inputs
   of the inner one. */
static bool enter(Map *m)
{
    qb_value *front = PyMem_Calloc((size_t)m->leaves.n + 1, sizeof *front);
    if (!front) return PyErr_NoMemory(), false;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < m->leaves.n; i++)
        if (m->axes.v[i] != UNMAPPED) ok = lift_front(m, i, &front[i]);
    if (ok && m->sized_by < 0) {
        PyErr_SetString(PyExc_ValueError,
                        "vmap: nothing is mapped; at least one entry of in_axes must be an int");
        ok = false;
    }
    ok = ok && (m->f = frame_push());
    for (Py_ssize_t i = 0; ok && i < m->leaves.n; i++) {
        if (m->axes.v[i] == UNMAPPED) continue;
        qb_type t = *qb_type_of(front[i]);
        memmove(t.dims, t.dims + 1, sizeof *t.dims * --t.rank);
        PyObject *x = frame_input(m->f, NULL, &t, front[i]);
        ok = x;
        if (ok) Py_SETREF(m->leaves.v[i], x);
    }
    PyMem_Free(front);
    return ok;
}

/* ---- out ---- */

/* The result as a whole, or "result 'p/b'". */
static void *bad_result(PyObject *path, PyObject *class, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *what = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (what && PyUnicode_GET_LENGTH(path))
        PyErr_Format(class, "vmap: result '%U' %U", path, what);
    else if (what)
        PyErr_Format(class, "vmap: the result %U", what);
    Py_XDECREF(what);
    return NULL;
}

/* An array whose mapped axis, if it has one, is first: with the axis where `axis` says, made by
   repetition where there is none. */
static PyObject *place_axis(const Map *m, PyObject *x, bool mapped, int axis, PyObject *path)
{
    if (axis == UNMAPPED) {
        if (!mapped) return Py_NewRef(x);
        return bad_result(
            path, PyExc_ValueError,
            "depends on a mapped argument, so out_axes cannot be None there; give the "
            "axis where the batch should stand");
    }
    qb_type t = *array_type(x);
    const int rank = t.rank + !mapped, at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank || rank > QB_MAX_RANK) {
        if (rank > QB_MAX_RANK)
            return bad_result(path, PyExc_ValueError, "would have %d axes; at most %d are possible",
                              rank, QB_MAX_RANK);
        return bad_result(path, PyExc_ValueError,
                          "has %d %s with the batch's, so out_axes cannot be %d there", rank,
                          rank == 1 ? "axis" : "axes", axis);
    }
    PyObject *y = Py_NewRef(x);
    if (!mapped) {
        memmove(t.dims + 1, t.dims, sizeof *t.dims * t.rank);
        t.dims[0] = m->size;
        t.rank++;
        Py_SETREF(y, shape_broadcast("vmap", y, &t));
    }
    int64_t order[QB_MAX_RANK];
    for (int k = 0; k < rank; k++) order[k] = k == at ? 0 : k < at ? k + 1 : k;
    if (y && at) Py_SETREF(y, shape_transpose(y, rank, order));
    return y;
}

static PyObject *leave_with(Map *m, PyObject *out_axes, const Outputs *o, const qb_value *outs,
                            const bool *mapped)
{
    Axes axes = {0};
    Leaves leaves = {0};
    PyObject *whole = tree_unflatten(o->tree, o->leaves.v);
    bool ok = whole && spread_all("out_axes", out_axes, whole, &axes);
    for (Py_ssize_t i = 0; ok && i < o->leaves.n; i++) {
        const int k = o->index[i];
        PyObject *path = tree_path_text(o->tree, i, 0), *x = NULL, *y = NULL;
        if (k >= 0)
            x = tracer_new(m->outer, outs[k]);
        else if (axes.v[i] == UNMAPPED)
            x = Py_NewRef(o->leaves.v[i]);
        else if (ops_operand(o->leaves.v[i]))
            x = ops_array(o->leaves.v[i]);
        else
            bad_result(path, PyExc_TypeError, "is %s, not an array; give it None in out_axes",
                       stage_kind(o->leaves.v[i]));
        if (x && path)
            y = array_check(x) ? place_axis(m, x, k >= 0 && mapped[k], axes.v[i], path)
                               : Py_NewRef(x);
        Py_XDECREF(x);
        Py_XDECREF(path);
        ok = y && leaves_push(&leaves, y);
    }
    PyObject *out = ok ? tree_unflatten(o->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    PyMem_Free(axes.v);
    Py_XDECREF(whole);
    return out;
}

static PyObject *batch(Map *m, PyObject *out_axes, const Outputs *o, int n_mapped)
{
    qb_error err = {0};
    const size_t n_in = (size_t)qb_graph_input_count(m->f->graph),
                 n_out = (size_t)qb_graph_output_count(m->f->graph);
    qb_value *outs = PyMem_Calloc(n_out + 1, sizeof *outs);
    bool *in_mapped = PyMem_Calloc(n_in + n_out + 1, sizeof *in_mapped),
         *out_mapped = in_mapped + n_in;
    PyObject *out = NULL;
    if (!outs || !in_mapped) {
        PyErr_NoMemory();
    } else {
        for (int i = 0; i < n_mapped; i++) in_mapped[i] = true;
        if (!qb_vmap(m->outer->graph, m->f->graph, m->f->bound, in_mapped, m->size, outs,
                     out_mapped, &err))
            error_raise(&err);
        else
            out = leave_with(m, out_axes, o, outs, out_mapped);
    }
    PyMem_Free(outs);
    PyMem_Free(in_mapped);
    return out;
}

static PyObject *run(Map *m, Transform *t)
{
    const int n_mapped = m->f->n_inputs;
    Outputs o = {0};
    PyObject *args = tree_unflatten(m->tree, m->leaves.v),
             *result = args ? PyObject_CallObject(t->fun, args) : NULL;
    const bool ok = result && stage_outputs(m->f, result, &o);
    PyObject *out = stage_close(m->f, ok) ? batch(m, t->out_axes, &o, n_mapped) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(result);
    stage_free(&o);
    return out;
}

PyObject *vmap_traced(Transform *t, PyObject *const *args, Py_ssize_t n)
{
    Map m = {.outer = frame_top(), .sized_by = -1};
    PyObject *tuple = PyTuple_New(n), *out = NULL;
    for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    if (tuple && spread_all("in_axes", t->in_axes, tuple, &m.axes)) {
        m.tree = tree_flatten(tuple, &m.leaves);
        const bool ok = m.tree && enter(&m);
        if (ok)
            out = run(&m, t);
        else if (m.f)
            frame_pop(m.f);
    }
    Py_XDECREF(tuple);
    Py_XDECREF(m.tree);
    leaves_free(&m.leaves);
    PyMem_Free(m.axes.v);
    frame_release(m.f);
    return out;
}
