/* grad.c: grad, value_and_grad and jvp inside a trace: the function is traced into a graph of its
   own, and its derivative written into the enclosing one.

   Only differentiated leaves are inputs of the inner graph; everything else the function meets is
   captured, and so constant to it. The gradient of a function of one scalar is taken forward: u,
   u_x and u_xx then share their work, since equal nodes are one node. All other gradients are
   taken backward. */
#include "ext.h"

typedef struct {
    Transform *t;
    Frame *outer, *f;
    Py_ssize_t n_diff, *position; /* which arguments */
    Diff *diff;
    Outputs out, aux;
    qb_value *outs, *grads;
} Grad;

/* argnums as positions among n arguments. */
static bool positions(Transform *t, Py_ssize_t n, Py_ssize_t *out)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t->argnums); i++) {
        const Py_ssize_t given = PyLong_AsSsize_t(PyTuple_GET_ITEM(t->argnums, i)),
                         p = given < 0 ? given + n : given;
        if (p < 0 || p >= n) {
            PyErr_Format(PyExc_ValueError,
                         "%R: argnums %zd is out of range; it was called with %zd argument%s", t,
                         given, n, n == 1 ? "" : "s");
            return false;
        }
        for (Py_ssize_t j = 0; j < i; j++)
            if (out[j] == p) {
                PyErr_Format(PyExc_ValueError, "%R: argnums names argument %zd twice", t, p);
                return false;
            }
        out[i] = p;
    }
    return true;
}

static void *not_scalar(Transform *t, PyObject *x)
{
    PyObject *text = array_check(x) ? dtype_text(array_type(x)) : NULL;
    if (text)
        PyErr_Format(PyExc_ValueError,
                     "%R: the function must return a floating scalar (shape []), not %U; take its "
                     "quabla.sum or mean, or its jacobian",
                     t, text);
    else if (!PyErr_Occurred() && (PyFloat_Check(x) || PyLong_Check(x)))
        PyErr_Format(PyExc_ValueError,
                     "%R: the function returned the Python number %R, which depends on no argument",
                     t, x);
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError,
                     "%R: the function must return a floating scalar array, not %s%s", t,
                     stage_kind(x),
                     PyTuple_Check(x) && !t->has_aux ? "; for (value, aux) use has_aux=True" : "");
    Py_XDECREF(text);
    return NULL;
}

/* The function's result: its scalar and, with has_aux, the rest, as outputs of the inner graph. */
static bool take_result(Grad *g, PyObject *result)
{
    PyObject *value = result, *aux = NULL;
    if (g->t->has_aux) {
        if (!PyTuple_CheckExact(result) || PyTuple_GET_SIZE(result) != 2) {
            PyErr_Format(PyExc_TypeError,
                         "%R: with has_aux=True the function returns (value, aux), not %s", g->t,
                         stage_kind(result));
            return false;
        }
        value = PyTuple_GET_ITEM(result, 0);
        aux = PyTuple_GET_ITEM(result, 1);
    }
    const bool number = PyFloat_Check(value) || (PyLong_Check(value) && !PyBool_Check(value));
    if (array_check(value) ? array_type(value)->rank || array_type(value)->dtype == QB_BOOL
                           : !number || g->n_diff) /* a number has a gradient in no argument */
        return not_scalar(g->t, value);
    return stage_outputs(g->f, value, &g->out) && (!aux || stage_outputs(g->f, aux, &g->aux));
}

static bool trace(Grad *g, PyObject *const *args, Py_ssize_t n)
{
    PyObject **call = PyMem_New(PyObject *, n + 1);
    if (!call) return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < n; i++) call[i] = Py_NewRef(args[i]);
    PyObject *who = transform_repr((PyObject *)g->t);
    bool ok = who;
    for (Py_ssize_t i = 0; ok && i < g->n_diff; i++) {
        char path[256];
        const Py_ssize_t p = g->position[i];
        snprintf(path, sizeof path, "%.200s: argument %zd", PyUnicode_AsUTF8(who), p);
        ok = stage_argument(g->outer, g->f, args[p], path, &g->diff[i]);
        PyObject *x = ok ? tree_unflatten(g->diff[i].tree, g->diff[i].leaves.v) : NULL;
        if (x) Py_SETREF(call[p], x);
        ok = x != NULL;
    }
    PyObject *result = ok ? PyObject_Vectorcall(g->t->fun, call, (size_t)n, NULL) : NULL;
    ok = result && take_result(g, result);
    Py_XDECREF(result);
    Py_XDECREF(who);
    for (Py_ssize_t i = 0; i < n; i++) Py_DECREF(call[i]);
    PyMem_Free(call);
    return ok;
}

/* Write value and derivative into the outer graph. */
static bool differentiate(Grad *g, int n_explicit)
{
    qb_error err = {0};
    Frame *f = g->f;
    qb_graph *dst = g->outer->graph;
    const int n_in = qb_graph_input_count(f->graph), n_out = qb_graph_output_count(f->graph);
    g->outs = PyMem_Calloc((size_t)n_out + 1, sizeof *g->outs);
    g->grads = PyMem_Calloc((size_t)n_in + 1, sizeof *g->grads);
    qb_value *seed = PyMem_Calloc((size_t)(n_in > n_out ? n_in : n_out) + 1, sizeof *seed);
    qb_value *tangent = PyMem_Calloc((size_t)n_out + 1, sizeof *tangent);
    bool *wanted = PyMem_Calloc((size_t)n_in + 1, sizeof *wanted),
         ok = g->outs && g->grads && seed && tangent && wanted;
    if (!ok) PyErr_NoMemory();
    const bool constant =
        ok && g->out.index[0] < 0; /* the value does not depend on the arguments */
    if (ok && constant) {
        ok = qb_inline(dst, f->graph, f->bound, g->outs, &err) || error_raise(&err);
    } else if (ok && n_explicit == 1 && !qb_graph_input_type(f->graph, 0)->rank &&
               qb_forward_mode(f->graph)) {
        ok = stage_zeros(g->outer, qb_graph_input_type(f->graph, 0), 1, &seed[0]) &&
             (qb_jvp(dst, f->graph, f->bound, seed, g->outs, tangent, &err) || error_raise(&err));
        g->grads[0] = tangent[g->out.index[0]];
    } else if (ok) {
        for (int i = 0; i < n_explicit; i++) wanted[i] = true;
        const qb_type type = *qb_type_of(qb_graph_output_at(f->graph, g->out.index[0]));
        ok = stage_zeros(g->outer, &type, 1, &seed[g->out.index[0]]) &&
             (qb_vjp(dst, f->graph, f->bound, seed, wanted, g->outs, g->grads, &err) ||
              error_raise(&err));
    }
    PyMem_Free(seed);
    PyMem_Free(tangent);
    PyMem_Free(wanted);
    return ok;
}

/* The gradient of one argument, in its structure. */
static PyObject *gradient(Grad *g, const Diff *d)
{
    Leaves leaves = {0};
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < d->leaves.n; i++) {
        PyObject *x = NULL;
        if (d->input[i] < 0) {
            x = Py_NewRef(Py_None);
        } else {
            qb_value v = g->grads[d->input[i]];
            if (v.graph ||
                stage_zeros(g->outer, qb_graph_input_type(g->f->graph, d->input[i]), 0, &v))
                x = tracer_new(g->outer, v);
        }
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(d->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    return out;
}

static PyObject *gradients(Grad *g)
{
    if (g->t->one) return gradient(g, &g->diff[0]);
    PyObject *out = PyTuple_New(g->n_diff);
    for (Py_ssize_t i = 0; out && i < g->n_diff; i++) {
        PyObject *x = gradient(g, &g->diff[i]);
        if (x)
            PyTuple_SET_ITEM(out, i, x);
        else
            Py_CLEAR(out);
    }
    return out;
}

/* grads, (grads, aux), (value, grads) or ((value, aux), grads). */
static PyObject *answer(Grad *g)
{
    const bool with_value = g->t->kind == DO_VALUE_AND_GRAD;
    PyObject *grads = gradients(g), *value = NULL, *aux = NULL, *out = NULL;
    if (grads && with_value) value = stage_result(g->outer, &g->out, g->outs);
    if (grads && g->t->has_aux) aux = stage_result(g->outer, &g->aux, g->outs);
    if (!grads || (with_value && !value) || (g->t->has_aux && !aux))
        out = NULL;
    else if (!with_value)
        out = aux ? PyTuple_Pack(2, grads, aux) : Py_NewRef(grads);
    else if (!aux)
        out = PyTuple_Pack(2, value, grads);
    else
        out = Py_BuildValue("((OO)O)", value, aux, grads);
    Py_XDECREF(grads);
    Py_XDECREF(value);
    Py_XDECREF(aux);
    return out;
}

PyObject *grad_traced(Transform *t, PyObject *const *args, Py_ssize_t n)
{
    Grad g = {.t = t, .outer = frame_top(), .n_diff = PyTuple_GET_SIZE(t->argnums)};
    PyObject *out = NULL;
    g.position = PyMem_New(Py_ssize_t, g.n_diff + 1);
    g.diff = PyMem_Calloc((size_t)g.n_diff + 1, sizeof *g.diff);
    if (!g.position || !g.diff)
        PyErr_NoMemory();
    else if (positions(t, n, g.position) && (g.f = frame_push())) {
        bool ok = trace(&g, args, n);
        int n_explicit = 0;
        for (Py_ssize_t i = 0; ok && i < g.n_diff; i++)
            for (Py_ssize_t k = 0; k < g.diff[i].leaves.n; k++)
                n_explicit += g.diff[i].input[k] >= 0;
        if (stage_close(g.f, ok) && differentiate(&g, n_explicit)) out = answer(&g);
    }
    for (Py_ssize_t i = 0; g.diff && i < g.n_diff; i++) stage_free_argument(&g.diff[i]);
    stage_free(&g.out);
    stage_free(&g.aux);
    PyMem_Free(g.position);
    PyMem_Free(g.diff);
    PyMem_Free(g.outs);
    PyMem_Free(g.grads);
    frame_release(g.f);
    return out;
}

/* ---- jvp ---- */

/* The tangent of a primal leaf as a value of `outer`: of its type. A number stands for a scalar. */
static bool tangent_of(Frame *outer, const Diff *d, Py_ssize_t i, const qb_type *want,
                       PyObject *tangent, qb_value *out)
{
    PyObject *x =
        ops_operand(tangent)
            ? convert_array(tangent, array_check(tangent) ? -1 : (int)want->dtype, false, NULL)
            : NULL;
    bool ok = x != NULL;
    if (!x && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "jvp: a tangent is %s, not an array", stage_kind(tangent));
    const qb_type *have = ok ? array_type(x) : NULL;
    if (ok && !dtype_same(have, want)) {
        PyObject *a = dtype_text(want), *b = dtype_text(have),
                 *path = tree_path_text(d->tree, i, 0);
        if (a && b && path)
            PyErr_Format(PyExc_TypeError,
                         "jvp: primal '%U' is %U and its tangent %U; they must agree", path, a, b);
        Py_XDECREF(a);
        Py_XDECREF(b);
        Py_XDECREF(path);
        ok = false;
    }
    ok = ok && frame_lift(outer, x, out);
    Py_XDECREF(x);
    return ok;
}

static bool tangents_of(Frame *outer, Frame *f, const Diff *d, PyObject *tangents, qb_value *out)
{
    Leaves leaves = {0};
    TreeDef *tree = tree_flatten(tangents, &leaves);
    bool ok = tree && tree_same(tree, d->tree);
    if (tree && !ok)
        PyErr_Format(PyExc_ValueError, "jvp: primals have the structure %R, tangents %R", d->tree,
                     tree);
    for (Py_ssize_t i = 0; ok && i < d->leaves.n; i++) {
        qb_value ignored;
        const bool given = d->input[i] >= 0;
        const qb_type bool_type = {
            .dtype = QB_BOOL}; /* a bool input has a bool tangent that says nothing */
        const qb_type want = given ? *qb_graph_input_type(f->graph, d->input[i])
                             : array_check(d->leaves.v[i]) ? *array_type(d->leaves.v[i])
                                                           : bool_type;
        ok = tangent_of(outer, d, i, &want, leaves.v[i], given ? &out[d->input[i]] : &ignored);
    }
    leaves_free(&leaves);
    Py_XDECREF(tree);
    return ok;
}

/* Where an output has no tangent: zeros of its type; of a bool or a number, float64 zeros. */
static PyObject *zero_tangent(Frame *outer, PyObject *like, const qb_type *type)
{
    qb_type t = type ? *type : array_check(like) ? *array_type(like) : (qb_type){.dtype = QB_F64};
    qb_value v;
    if (t.dtype == QB_BOOL) t.dtype = QB_F64;
    return stage_zeros(outer, &t, 0, &v) ? tracer_new(outer, v) : NULL;
}

static PyObject *out_tangents(Frame *outer, const Outputs *o, const qb_value *outs,
                              const qb_value *tangents)
{
    Leaves leaves = {0};
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < o->leaves.n; i++) {
        const int k = o->index[i];
        PyObject *x =
            k >= 0 && tangents[k].graph && qb_type_of(tangents[k])->dtype != QB_BOOL
                ? tracer_new(outer, tangents[k])
                : zero_tangent(outer, o->leaves.v[i], k >= 0 ? qb_type_of(outs[k]) : NULL);
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(o->tree, leaves.v) : NULL;
    leaves_free(&leaves);
    return out;
}

static PyObject *forward(Frame *outer, Frame *f, const Diff *d, const Outputs *o,
                         PyObject *tangents)
{
    qb_error err = {0};
    const size_t n_in = (size_t)qb_graph_input_count(f->graph),
                 n_out = (size_t)qb_graph_output_count(f->graph);
    qb_value *in = PyMem_Calloc(n_in + 1, sizeof *in),
             *outs = PyMem_Calloc(2 * n_out + 1, sizeof *outs);
    PyObject *value = NULL, *tangent = NULL, *out = NULL;
    if (!in || !outs)
        PyErr_NoMemory();
    else if (tangents_of(outer, f, d, tangents, in)) {
        if (!qb_jvp(outer->graph, f->graph, f->bound, in, outs, outs + n_out, &err))
            error_raise(&err);
        else {
            value = stage_result(outer, o, outs);
            tangent = value ? out_tangents(outer, o, outs, outs + n_out) : NULL;
            out = tangent ? PyTuple_Pack(2, value, tangent) : NULL;
        }
    }
    Py_XDECREF(value);
    Py_XDECREF(tangent);
    PyMem_Free(in);
    PyMem_Free(outs);
    return out;
}

PyObject *jvp_traced(PyObject *fun, PyObject *primals, PyObject *tangents)
{
    Frame *outer = frame_top(), *f = frame_push();
    if (!f) return NULL;
    Diff d = {0};
    Outputs o = {0};
    PyObject *call = stage_argument(outer, f, primals, "jvp: primals", &d)
                         ? tree_unflatten(d.tree, d.leaves.v)
                         : NULL;
    PyObject *result = call ? PyObject_CallObject(fun, call) : NULL;
    const bool ok = result && stage_outputs(f, result, &o);
    PyObject *out = stage_close(f, ok) ? forward(outer, f, &d, &o, tangents) : NULL;
    Py_XDECREF(call);
    Py_XDECREF(result);
    stage_free(&o);
    stage_free_argument(&d);
    frame_release(f);
    return out;
}
