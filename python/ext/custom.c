/* custom.c: custom_vjp, custom_jvp and checkpoint inside a trace: the function and its rules are traced, each into a graph of its
   own, and become one node of the trace that they are called in.

   The classes are in quabla/_custom.py, which hands over functions of the differentiable arguments alone. Arrays among these are
   operands; Python numbers and other values stay what they are. */
#include "ext.h"

typedef struct {
    const char *kind, *name;
    Frame *outer;
    TreeDef *tree; /* of the tuple of arguments */
    Leaves leaves; /* as they were given */
    int *input;    /* operand of a leaf, -1: none */
    qb_value *x;   /* operands in the outer trace */
    int n;
    Frame *value, *rule, *back; /* the function; its rule, or fwd; bwd */
    Outputs out;                /* of the function */
} Custom;

/* ---- arguments ---- */

static bool take_arguments(Custom *c, PyObject *args)
{
    c->tree = tree_flatten(args, &c->leaves);
    c->input = c->tree ? PyMem_New(int, c->leaves.n + 1) : NULL;
    c->x = c->input ? PyMem_New(qb_value, c->leaves.n + 1) : NULL;
    if (!c->x) return PyErr_Occurred() ? false : (PyErr_NoMemory(), false);
    for (Py_ssize_t i = 0; i < c->leaves.n; i++) {
        PyObject *x = c->leaves.v[i];
        c->input[i] = -1;
        if (!array_check(x) && !ops_foreign(x)) continue;
        if (!frame_lift(c->outer, x, &c->x[c->n])) return false;
        c->input[i] = c->n++;
    }
    return true;
}

static bool floating(const Custom *c, Py_ssize_t leaf)
{
    return c->input[leaf] >= 0 && qb_type_of(c->x[c->input[leaf]])->dtype != QB_BOOL;
}

/* A new input of f for every operand: the arguments with tracers in their place. */
static PyObject *argument_tree(const Custom *c, Frame *f)
{
    Leaves leaves = {0};
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < c->leaves.n; i++) {
        const int k = c->input[i];
        PyObject *x =
            k < 0 ? Py_NewRef(c->leaves.v[i]) : frame_input(f, NULL, qb_type_of(c->x[k]), c->x[k]);
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(c->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    return out;
}

/* The tangents of those arguments: further inputs for the floating ones, 0.0 for numbers, bools as they are. */
static PyObject *tangent_tree(const Custom *c, Frame *f, PyObject *primals)
{
    Leaves leaves = {0}, given = {0};
    TreeDef *tree = tree_flatten(primals, &given);
    bool ok = tree;
    for (Py_ssize_t i = 0; ok && i < c->leaves.n; i++) {
        PyObject *x = NULL;
        if (floating(c, i)) {
            qb_type t = *qb_type_of(c->x[c->input[i]]);
            t.weak = 0;
            x = frame_input(f, NULL, &t, c->x[c->input[i]]);
        } else {
            x = PyFloat_Check(given.v[i]) ? PyFloat_FromDouble(0) : Py_NewRef(given.v[i]);
        }
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(c->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    leaves_free(&given);
    Py_XDECREF(tree);
    return out;
}

/* ---- results ---- */

static bool complain(const Custom *c, PyObject *class, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (text) PyErr_Format(class, "%s(%s): %U", c->kind, c->name, text);
    Py_XDECREF(text);
    return false;
}

/* " 'p/b'": where a leaf is; nothing for a tree that is a leaf. */
static PyObject *place(TreeDef *tree, Py_ssize_t leaf)
{
    PyObject *path = tree_path_text(tree, leaf, 0);
    if (path && PyUnicode_GET_LENGTH(path)) Py_SETREF(path, PyUnicode_FromFormat(" '%U'", path));
    return path;
}

/* x becomes the next output of f. want: its type, NULL: any floating one. */
static bool put_output(const Custom *c, Frame *f, PyObject *x, const qb_type *want,
                       const char *what, PyObject *path)
{
    qb_error err = {0};
    qb_value v;
    if (!array_check(x) && !ops_foreign(x) && !(want && PyFloat_Check(x)))
        return complain(c, PyExc_TypeError, "%s%U is %s, not an array", what, path, stage_kind(x));
    if (!frame_lift(f, x, &v)) return false;
    const qb_type *t = qb_type_of(v);
    const bool same = !want || dtype_same(t, want);
    if (!same || t->dtype == QB_BOOL) {
        PyObject *a = dtype_text(t), *b = want ? dtype_text(want) : NULL;
        if (a && b)
            complain(c, PyExc_TypeError, "%s%U is %U; it should be %U", what, path, a, b);
        else if (a && !want)
            complain(c, PyExc_TypeError, "%s%U is %U; results are floating", what, path, a);
        Py_XDECREF(a);
        Py_XDECREF(b);
        return false;
    }
    return qb_graph_output(f->graph, v, &err) || error_raise(&err);
}

/* The results of the value: every array is an output, other leaves are constants. */
static bool put_results(Custom *c, PyObject *result)
{
    Outputs *o = &c->out;
    o->tree = tree_flatten(result, &o->leaves);
    o->index = o->tree ? PyMem_New(int, o->leaves.n + 1) : NULL;
    if (!o->index) return PyErr_Occurred() ? false : (PyErr_NoMemory(), false);
    int used = 0;
    for (Py_ssize_t i = 0; i < o->leaves.n; i++) {
        o->index[i] = -1;
        if (!array_check(o->leaves.v[i])) continue;
        PyObject *path = place(o->tree, i);
        const bool ok = path && put_output(c, c->value, o->leaves.v[i], NULL, "result", path);
        Py_XDECREF(path);
        if (!ok) return false;
        o->index[i] = used++;
    }
    return true;
}

/* What a rule gives in place of the results: the same structure and types. */
static bool put_like(const Custom *c, Frame *f, PyObject *x, const char *what)
{
    const Outputs *o = &c->out;
    Leaves leaves = {0};
    TreeDef *tree = tree_flatten(x, &leaves);
    bool ok =
        tree && (tree_same(tree, o->tree) ||
                 complain(c, PyExc_ValueError, "%s has the structure %R; the function returns %R",
                          what, tree, o->tree));
    for (Py_ssize_t i = 0; ok && i < o->leaves.n; i++) {
        if (o->index[i] < 0) continue;
        const qb_type t = *qb_type_of(qb_graph_output_at(c->value->graph, o->index[i]));
        PyObject *path = place(o->tree, i);
        ok = path && put_output(c, f, leaves.v[i], &t, what, path);
        Py_XDECREF(path);
    }
    leaves_free(&leaves);
    Py_XDECREF(tree);
    return ok;
}

/* A rule returned two things. */
static bool pair(const Custom *c, PyObject *result, const char *rule, const char *wanted,
                 PyObject **a, PyObject **b)
{
    if ((!PyTuple_CheckExact(result) && !PyList_CheckExact(result)) ||
        PySequence_Fast_GET_SIZE(result) != 2)
        return complain(c, PyExc_TypeError, "%s returns %s, not %s", rule, wanted,
                        stage_kind(result));
    *a = PySequence_Fast_GET_ITEM(result, 0);
    *b = PySequence_Fast_GET_ITEM(result, 1);
    return true;
}

/* Rules are graphs of their inputs alone. */
static bool no_captures(const Custom *c, const Frame *f, int given, const char *what)
{
    return f->n_inputs == given ||
           complain(c, PyExc_TypeError,
                    "%s closes over a value of an enclosing trace; pass it as an argument", what);
}

/* ---- the three parts ---- */

static bool trace_value(Custom *c, PyObject *fun, bool captures)
{
    if (!(c->value = frame_push())) return false;
    PyObject *args = argument_tree(c, c->value),
             *result = args ? PyObject_CallObject(fun, args) : NULL;
    const bool ok = result && put_results(c, result) &&
                    (captures || no_captures(c, c->value, c->n, "the function"));
    Py_XDECREF(args);
    Py_XDECREF(result);
    return stage_close(c->value, ok);
}

static int count_floating(const Custom *c)
{
    int n = 0;
    for (Py_ssize_t i = 0; i < c->leaves.n; i++) n += floating(c, i);
    return n;
}

static bool trace_jvp(Custom *c, PyObject *rule)
{
    Frame *f = c->rule = frame_push();
    if (!f) return false;
    PyObject *primals = argument_tree(c, f),
             *tangents = primals ? tangent_tree(c, f, primals) : NULL,
             *result =
                 tangents ? PyObject_CallFunctionObjArgs(rule, primals, tangents, NULL) : NULL,
             *out = NULL, *tangent = NULL;
    const bool ok = result &&
                    pair(c, result, "the rule", "(primal_out, tangent_out)", &out, &tangent) &&
                    put_like(c, f, out, "primal_out") && put_like(c, f, tangent, "tangent_out") &&
                    no_captures(c, f, c->n + count_floating(c), "the rule");
    Py_XDECREF(primals);
    Py_XDECREF(tangents);
    Py_XDECREF(result);
    return stage_close(c->rule, ok);
}

/* forward: results, then residuals; those that are no traced values stay in the tree. */
static bool trace_forward(Custom *c, PyObject *fwd, Outputs *residuals)
{
    Frame *f = c->rule = frame_push();
    if (!f) return false;
    PyObject *args = argument_tree(c, f), *result = args ? PyObject_CallObject(fwd, args) : NULL,
             *out = NULL, *res = NULL;
    const bool ok = result && pair(c, result, "fwd", "(out, residuals)", &out, &res) &&
                    put_like(c, f, out, "fwd's out") && stage_outputs(f, res, residuals) &&
                    no_captures(c, f, c->n, "fwd");
    Py_XDECREF(args);
    Py_XDECREF(result);
    return stage_close(c->rule, ok);
}

/* Residuals as new inputs of f. */
static PyObject *residual_tree(const Custom *c, Frame *f, const Outputs *o)
{
    Leaves leaves = {0};
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < o->leaves.n; i++) {
        const int k = o->index[i];
        PyObject *x =
            k < 0
                ? Py_NewRef(o->leaves.v[i])
                : frame_input(f, NULL, qb_type_of(qb_graph_output_at(c->rule->graph, k)), QB_NONE);
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(o->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    return out;
}

static PyObject *cotangent_tree(const Custom *c, Frame *f)
{
    const Outputs *o = &c->out;
    Leaves leaves = {0};
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < o->leaves.n; i++) {
        PyObject *x = NULL;
        if (o->index[i] < 0) {
            x = PyFloat_FromDouble(0);
        } else {
            qb_type t = *qb_type_of(qb_graph_output_at(c->value->graph, o->index[i]));
            t.weak = 0;
            x = frame_input(f, NULL, &t, QB_NONE);
        }
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(o->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    return out;
}

static bool put_zeros(const Custom *c, Frame *f, Py_ssize_t leaf)
{
    qb_error err = {0};
    qb_type t = *qb_type_of(c->x[c->input[leaf]]);
    qb_value v;
    t.weak = 0;
    return stage_zeros(f, &t, 0, &v) && (qb_graph_output(f->graph, v, &err) || error_raise(&err));
}

/* The cotangent of one leaf of the arguments. */
static bool put_gradient(const Custom *c, Frame *f, Py_ssize_t leaf, PyObject *ct)
{
    if (!floating(c, leaf)) return true;
    if (ct == Py_None) return put_zeros(c, f, leaf);
    PyObject *path = place(c->tree, leaf);
    qb_type t = *qb_type_of(c->x[c->input[leaf]]);
    bool ok = path;
    if (ok && !array_check(ct) && !ops_foreign(ct))
        ok = complain(c, PyExc_TypeError,
                      "the cotangent of bwd%U is %s; it is an array, or None for zeros", path,
                      stage_kind(ct));
    ok = ok && put_output(c, f, ct, &t, "the cotangent of bwd", path);
    Py_XDECREF(path);
    return ok;
}

/* The cotangents of a subtree of the arguments; None stands for zeros in all of it. */
static bool put_gradients(const Custom *c, Frame *f, PyObject *arg, PyObject *ct, Py_ssize_t *leaf)
{
    TreeNode a, b = {0};
    PyObject *parts = tree_children(arg, &a);
    if (!parts) return !PyErr_Occurred() && put_gradient(c, f, (*leaf)++, ct);
    PyObject *given = ct == Py_None ? Py_NewRef(Py_None) : tree_children(ct, &b);
    bool ok = given && (ct == Py_None || (a.kind == b.kind && a.n == b.n && a.cls == b.cls));
    if (ok && ct != Py_None && a.aux != b.aux)
        ok = PyObject_RichCompareBool(a.aux, b.aux, Py_EQ) == 1;
    if (!ok && !PyErr_Occurred())
        complain(c, PyExc_ValueError,
                 "bwd returns %R for an argument %R; it should have its structure, or be None", ct,
                 arg);
    for (int32_t i = 0; ok && i < a.n; i++)
        ok = put_gradients(c, f, PyTuple_GET_ITEM(parts, i),
                           ct == Py_None ? Py_None : PyTuple_GET_ITEM(given, i), leaf);
    tree_node_clear(&a);
    tree_node_clear(&b);
    Py_DECREF(parts);
    Py_XDECREF(given);
    return ok;
}

static bool trace_backward(Custom *c, PyObject *bwd, const Outputs *residuals, PyObject *args)
{
    Frame *f = c->back = frame_push();
    if (!f) return false;
    PyObject *res = residual_tree(c, f, residuals), *ct = res ? cotangent_tree(c, f) : NULL;
    const int given = f->n_inputs;
    PyObject *result = ct ? PyObject_CallFunctionObjArgs(bwd, res, ct, NULL) : NULL;
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    bool ok = result;
    if (ok && !PyTuple_CheckExact(result) && !PyList_CheckExact(result))
        ok = complain(
            c, PyExc_TypeError,
            "bwd returns a tuple with one cotangent for each differentiable argument, not %s",
            stage_kind(result));
    else if (ok && PySequence_Fast_GET_SIZE(result) != n)
        ok = complain(c, PyExc_TypeError,
                      "bwd returns %zd cotangents for %zd differentiable arguments",
                      PySequence_Fast_GET_SIZE(result), n);
    Py_ssize_t leaf = 0;
    for (Py_ssize_t i = 0; ok && i < n; i++)
        ok = put_gradients(c, f, PyTuple_GET_ITEM(args, i), PySequence_Fast_GET_ITEM(result, i),
                           &leaf);
    ok = ok && no_captures(c, f, given, "bwd");
    Py_XDECREF(res);
    Py_XDECREF(ct);
    Py_XDECREF(result);
    return stage_close(c->back, ok);
}

/* ---- the node ---- */

static bool begin(Custom *c, const char *kind, const char *name, PyObject *args)
{
    *c = (Custom){.kind = kind, .name = name, .outer = frame_top()};
    if (c->outer) return take_arguments(c, args);
    PyErr_SetString(PyExc_SystemError, "called outside a trace");
    return false;
}

typedef enum { CHECKPOINT, JVP, VJP } Kind;

static PyObject *emit(Custom *c, Kind kind)
{
    qb_error err = {0};
    qb_graph *g = c->outer->graph;
    const Frame *f = c->value;
    qb_value *z = PyMem_Calloc((size_t)qb_graph_output_count(f->graph) + 1, sizeof *z);
    if (!z) return PyErr_NoMemory();
    frame_locate(c->outer);
    const bool ok =
        !qb_graph_output_count(f->graph) ? true /* nothing that is traced comes out */
        : kind == CHECKPOINT ? qb_checkpoint(g, f->graph, f->bound, f->n_inputs, z, &err)
        : kind == JVP ? qb_custom_jvp(g, c->name, f->graph, c->rule->graph, c->x, c->n, z, &err)
                      : qb_custom_vjp(g, c->name, f->graph, c->rule->graph, c->back->graph, c->x,
                                      c->n, z, &err);
    PyObject *out = ok ? stage_result(c->outer, &c->out, z) : error_raise(&err);
    PyMem_Free(z);
    return out;
}

static PyObject *end(Custom *c, PyObject *out)
{
    Py_XDECREF(c->tree);
    leaves_free(&c->leaves);
    PyMem_Free(c->input);
    PyMem_Free(c->x);
    stage_free(&c->out);
    frame_release(c->value);
    frame_release(c->rule);
    frame_release(c->back);
    return out;
}

/* _checkpoint(name, fun, args), _custom_jvp(name, fun, rule, args), _custom_vjp(name, fun, fwd, bwd, args) */
static PyObject *checkpoint(PyObject *Py_UNUSED(m), PyObject *arguments)
{
    Custom c;
    const char *name;
    PyObject *fun, *args;
    if (!PyArg_ParseTuple(arguments, "sOO!:_checkpoint", &name, &fun, &PyTuple_Type, &args))
        return NULL;
    const bool ok = begin(&c, "checkpoint", name, args) && trace_value(&c, fun, true);
    return end(&c, ok ? emit(&c, CHECKPOINT) : NULL);
}

static PyObject *custom_jvp(PyObject *Py_UNUSED(m), PyObject *arguments)
{
    Custom c;
    const char *name;
    PyObject *fun, *rule, *args;
    if (!PyArg_ParseTuple(arguments, "sOOO!:_custom_jvp", &name, &fun, &rule, &PyTuple_Type, &args))
        return NULL;
    const bool ok =
        begin(&c, "custom_jvp", name, args) && trace_value(&c, fun, false) && trace_jvp(&c, rule);
    return end(&c, ok ? emit(&c, JVP) : NULL);
}

static PyObject *custom_vjp(PyObject *Py_UNUSED(m), PyObject *arguments)
{
    Custom c;
    const char *name;
    PyObject *fun, *fwd, *bwd, *args;
    Outputs residuals = {0};
    if (!PyArg_ParseTuple(arguments, "sOOOO!:_custom_vjp", &name, &fun, &fwd, &bwd, &PyTuple_Type,
                          &args))
        return NULL;
    const bool ok = begin(&c, "custom_vjp", name, args) && trace_value(&c, fun, false) &&
                    trace_forward(&c, fwd, &residuals) && trace_backward(&c, bwd, &residuals, args);
    PyObject *out = end(&c, ok ? emit(&c, VJP) : NULL);
    stage_free(&residuals);
    return out;
}

static PyMethodDef functions[] = {
    {"_checkpoint", checkpoint, METH_VARARGS, NULL},
    {"_custom_jvp", custom_jvp, METH_VARARGS, NULL},
    {"_custom_vjp", custom_vjp, METH_VARARGS, NULL},
    {0},
};

bool custom_init(PyObject *m) { return !PyModule_AddFunctions(m, functions); }
