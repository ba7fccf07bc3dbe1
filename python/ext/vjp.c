/* vjp.c: vjp(fun, *primals) and the function of cotangents that it returns.

   Inside a trace the function is traced once, and each call of the VjpFunction writes its
   transposed graph where it is called. Outside, a call runs one compiled plan that holds the
   forward pass too, cached like any other transform of the function. */
#include "ext.h"

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *weakrefs;
    PyObject *pull, *primals,
        *out;         /* outside a trace: transform of (primals, cotangent), arguments, value */
    Frame *f, *outer; /* inside: the traced function, and the trace it was called in */
    Diff d;
    Outputs o;
    Py_ssize_t n; /* primals */
} Vjp;

static PyObject *call(PyObject *o, PyObject *const *args, size_t nargsf, PyObject *kwnames);

static Vjp *make(Py_ssize_t n)
{
    Vjp *v = PyObject_GC_New(Vjp, core.Vjp);
    if (!v) return NULL;
    memset((char *)v + sizeof(PyObject), 0, sizeof *v - sizeof(PyObject));
    v->vectorcall = call;
    v->n = n;
    PyObject_GC_Track(v);
    return v;
}

/* Inputs of the traced function that are primals; the others are what it closes over. */
static bool *wanted_inputs(const Vjp *v)
{
    bool *wanted = PyMem_Calloc((size_t)qb_graph_input_count(v->f->graph) + 1, sizeof *wanted);
    if (!wanted) return (bool *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < v->d.leaves.n; i++)
        if (v->d.input[i] >= 0) wanted[v->d.input[i]] = true;
    return wanted;
}

/* The value, which reverse mode will have gone through: what differentiates it must find the rules of users in place. */
static bool evaluate(Vjp *v, qb_value *outs)
{
    qb_error err = {0};
    bool *wanted = wanted_inputs(v),
         *seeded = PyMem_Calloc((size_t)qb_graph_output_count(v->f->graph) + 1, sizeof *seeded);
    bool ok = wanted && seeded;
    if (wanted && !seeded) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < v->o.leaves.n; i++)
        if (v->o.index[i] >= 0) seeded[v->o.index[i]] = true;
    ok = ok &&
         (qb_vjp_values(v->outer->graph, v->f->graph, v->f->bound, wanted, seeded, outs, &err) ||
          error_raise(&err));
    PyMem_Free(wanted);
    PyMem_Free(seeded);
    return ok;
}

/* Trace fun(*primals). With has_aux, *aux gets what the function returned beside its value. */
static Vjp *stage(PyObject *fun, bool has_aux, PyObject *primals, PyObject **aux)
{
    Vjp *v = make(PyTuple_GET_SIZE(primals));
    if (!v) return NULL;
    v->outer = frame_retain(frame_top());
    v->f = frame_push();
    if (!v->f) return Py_DECREF(v), NULL;
    PyObject *args = stage_argument(v->outer, v->f, primals, "vjp: primals", &v->d)
                         ? tree_unflatten(v->d.tree, v->d.leaves.v)
                         : NULL;
    PyObject *result = args ? PyObject_CallObject(fun, args) : NULL, *value = result;
    bool ok = result;
    if (ok && has_aux) {
        ok = PyTuple_CheckExact(result) && PyTuple_GET_SIZE(result) == 2;
        if (!ok)
            PyErr_Format(PyExc_TypeError,
                         "vjp: with has_aux=True the function returns (value, aux), not %s",
                         stage_kind(result));
        else
            value = PyTuple_GET_ITEM(result, 0);
    }
    Outputs more = {0};
    ok = ok && stage_outputs(v->f, value, &v->o) &&
         (!has_aux || stage_outputs(v->f, PyTuple_GET_ITEM(result, 1), &more));
    ok = stage_close(v->f, ok);
    qb_value *outs =
        ok ? PyMem_Calloc((size_t)qb_graph_output_count(v->f->graph) + 1, sizeof *outs) : NULL;
    if (ok && !outs) ok = (PyErr_NoMemory(), false);
    ok = ok && evaluate(v, outs);
    if (ok) ok = (v->out = stage_result(v->outer, &v->o, outs)) != NULL;
    if (ok && has_aux) ok = (*aux = stage_result(v->outer, &more, outs)) != NULL;
    PyMem_Free(outs);
    stage_free(&more);
    Py_XDECREF(args);
    Py_XDECREF(result);
    if (!ok) Py_CLEAR(v);
    return v;
}

/* ---- cotangents ---- */

static TreeDef *flatten_like(const TreeDef *want, PyObject *ct, Leaves *leaves)
{
    TreeDef *tree = tree_flatten(ct, leaves);
    if (tree && !tree_same(tree, want)) {
        PyErr_Format(PyExc_ValueError, "vjp: the output has the structure %R, the cotangent %R",
                     want, tree);
        Py_CLEAR(tree);
    }
    return tree;
}

static bool cotangent(Frame *f, const Outputs *o, Py_ssize_t leaf, PyObject *ct,
                      const qb_type *want, qb_value *out)
{
    PyObject *x = ops_operand(ct)
                      ? convert_array(ct, array_check(ct) ? -1 : (int)want->dtype, false, NULL)
                      : NULL;
    const qb_type *have = x ? array_type(x) : NULL;
    bool ok = x && dtype_same(have, want);
    if (x && !ok) {
        PyObject *a = dtype_text(want), *b = dtype_text(have),
                 *path = tree_path_text(o->tree, leaf, 0);
        if (a && b && path)
            PyErr_Format(PyExc_TypeError,
                         PyUnicode_GET_LENGTH(path)
                             ? "vjp: the output '%U' is %U, its cotangent %U; they must agree"
                             : "vjp: the output%U is %U, its cotangent %U; they must agree",
                         path, a, b);
        Py_XDECREF(a);
        Py_XDECREF(b);
        Py_XDECREF(path);
    } else if (!x && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "vjp: the cotangent is %s, not an array", stage_kind(ct));
    }
    ok = ok && frame_lift(f, x, out);
    Py_XDECREF(x);
    return ok;
}

/* ---- pulling back inside a trace ---- */

static PyObject *gradients(Vjp *v, Frame *f, const qb_value *grads)
{
    Leaves leaves = {0};
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < v->d.leaves.n; i++) {
        const int k = v->d.input[i];
        PyObject *x = NULL;
        qb_value g = k < 0 ? QB_NONE : grads[k];
        if (k < 0)
            x = Py_NewRef(Py_None);
        else if (g.graph || stage_zeros(f, qb_graph_input_type(v->f->graph, k), 0, &g))
            x = tracer_new(f, g);
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(v->d.tree, leaves.v) : NULL;
    leaves_free(&leaves);
    return out;
}

/* What the inputs of the traced function stand for, as values of f. */
static bool capture_inputs(Vjp *v, Frame *f, qb_value *in)
{
    const int n = qb_graph_input_count(v->f->graph);
    bool ok = true;
    for (int i = 0; ok && i < n; i++) ok = frame_capture(f, v->outer, v->f->bound[i], &in[i]);
    return ok;
}

static bool backward(Vjp *v, Frame *f, const qb_value *in, const qb_value *cts, qb_value *outs,
                     qb_value *grads)
{
    qb_error err = {0};
    bool *wanted = wanted_inputs(v);
    if (!wanted) return false;
    const bool ok = qb_vjp(f->graph, v->f->graph, in, cts, wanted, outs, grads, &err);
    PyMem_Free(wanted);
    return ok || error_raise(&err);
}

static PyObject *pull_back(Vjp *v, PyObject *ct)
{
    Frame *f = frame_top();
    if (!f) {
        PyErr_SetString(core.TracerError,
                        "a VjpFunction made inside a trace is used after its trace has ended");
        return NULL;
    }
    const size_t n_in = (size_t)qb_graph_input_count(v->f->graph),
                 n_out = (size_t)qb_graph_output_count(v->f->graph);
    qb_value *in = PyMem_Calloc(2 * n_in + 2 * n_out + 1, sizeof *in);
    if (!in) return PyErr_NoMemory();
    Leaves leaves = {0};
    TreeDef *tree = flatten_like(v->o.tree, ct, &leaves);
    PyObject *out = NULL;
    bool ok = tree && capture_inputs(v, f, in);
    qb_value *grads = in + n_in, *cts = grads + n_in, *outs = cts + n_out;
    for (Py_ssize_t i = 0; ok && i < v->o.leaves.n; i++) {
        const int k = v->o.index[i];
        const qb_type type =
            k < 0 ? (qb_type){.dtype = QB_BOOL} : *qb_type_of(qb_graph_output_at(v->f->graph, k));
        if (type.dtype != QB_BOOL) ok = cotangent(f, &v->o, i, leaves.v[i], &type, &cts[k]);
    }
    if (ok && backward(v, f, in, cts, outs, grads)) out = gradients(v, f, grads);
    leaves_free(&leaves);
    Py_XDECREF(tree);
    PyMem_Free(in);
    return out;
}

/* ---- one leaf at a time, for jacobian: leaves in, leaves out, None is a zero that is no node ---- */

static bool forward(Vjp *v, Frame *f, const qb_value *in, const qb_value *tangents, qb_value *outs,
                    qb_value *result)
{
    qb_error err = {0};
    return qb_jvp(f->graph, v->f->graph, in, tangents, outs, result, &err) || error_raise(&err);
}

/* place[i]: number in `values` of leaf i, -1 for one that takes no part. */
static bool lift_leaves(Frame *f, PyObject *const *args, const int *place, Py_ssize_t n,
                        qb_value *values)
{
    for (Py_ssize_t i = 0; i < n; i++)
        if (place[i] >= 0 && args[i] != Py_None && !frame_lift(f, args[i], &values[place[i]]))
            return false;
    return true;
}

static PyObject *leaf_tuple(Frame *f, const int *place, Py_ssize_t n, const qb_value *values)
{
    PyObject *out = PyTuple_New(n);
    for (Py_ssize_t i = 0; out && i < n; i++) {
        const bool some = place[i] >= 0 && values[place[i]].graph &&
                          qb_type_of(values[place[i]])->dtype != QB_BOOL;
        PyObject *x = some ? tracer_new(f, values[place[i]]) : Py_NewRef(Py_None);
        if (x)
            PyTuple_SET_ITEM(out, i, x);
        else
            Py_CLEAR(out);
    }
    return out;
}

static PyObject *by_leaf(Vjp *v, PyObject *const *args, Py_ssize_t n, bool reverse)
{
    Frame *f = frame_top();
    const int *from = reverse ? v->o.index : v->d.input, *to = reverse ? v->d.input : v->o.index;
    const Py_ssize_t n_from = reverse ? v->o.leaves.n : v->d.leaves.n,
                     n_to = reverse ? v->d.leaves.n : v->o.leaves.n;
    if (!f || !v->f || n != n_from) {
        PyErr_SetString(PyExc_TypeError, "one value per leaf, inside the trace");
        return NULL;
    }
    const size_t n_in = (size_t)qb_graph_input_count(v->f->graph),
                 n_out = (size_t)qb_graph_output_count(v->f->graph);
    qb_value *in = PyMem_Calloc(2 * (n_in + n_out) + 1, sizeof *in);
    if (!in) return PyErr_NoMemory();
    qb_value *of_in = in + n_in, *outs = of_in + n_in, *of_out = outs + n_out;
    bool ok = capture_inputs(v, f, in) && lift_leaves(f, args, from, n, reverse ? of_out : of_in) &&
              (reverse ? backward : forward)(v, f, in, reverse ? of_out : of_in, outs,
                                             reverse ? of_in : of_out);
    PyObject *out = ok ? leaf_tuple(f, to, n_to, reverse ? of_in : of_out) : NULL;
    PyMem_Free(in);
    return out;
}

static PyObject *pull_leaves(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    return by_leaf((Vjp *)o, args, n, true);
}
static PyObject *push_leaves(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    return by_leaf((Vjp *)o, args, n, false);
}

PyObject *vjp_traced(PyObject *fun, bool has_aux, PyObject *primals, PyObject *ct)
{
    PyObject *aux = NULL;
    Vjp *v = stage(fun, has_aux, primals, &aux);
    PyObject *out = v ? pull_back(v, ct) : NULL;
    Py_XDECREF(aux);
    Py_XDECREF(v);
    return out;
}

/* ---- outside a trace ---- */

static PyObject *pull_eager(Vjp *v, PyObject *ct)
{
    Leaves like = {0}, leaves = {0};
    TreeDef *want = tree_flatten(v->out, &like),
            *tree = want ? flatten_like(want, ct, &leaves) : NULL;
    PyObject *arrays = tree ? stage_arrays(ct, &like) : NULL, *out = NULL;
    if (arrays) out = PyObject_CallFunctionObjArgs(v->pull, v->primals, arrays, NULL);
    leaves_free(&like);
    leaves_free(&leaves);
    Py_XDECREF(want);
    Py_XDECREF(tree);
    Py_XDECREF(arrays);
    return out;
}

static PyObject *call(PyObject *o, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Vjp *v = (Vjp *)o;
    if (PyVectorcall_NARGS(nargsf) == 1 && !kwnames)
        return v->f ? pull_back(v, args[0]) : pull_eager(v, args[0]);
    PyErr_SetString(PyExc_TypeError,
                    "a VjpFunction takes one argument, the cotangent of the output");
    return NULL;
}

static Vjp *eager(PyObject *fun, bool has_aux, PyObject *primals, PyObject **aux)
{
    Vjp *v = make(PyTuple_GET_SIZE(primals));
    if (!v) return NULL;
    v->primals = stage_arrays(primals, NULL);
    v->pull = v->primals ? transform_simple(DO_VJP, fun, has_aux) : NULL;
    PyObject *run = v->pull ? transform_simple(DO_JIT, fun, false) : NULL;
    PyObject *result = run ? PyObject_CallObject(run, v->primals) : NULL;
    Py_XDECREF(run);
    if (result && has_aux && (!PyTuple_CheckExact(result) || PyTuple_GET_SIZE(result) != 2)) {
        PyErr_Format(PyExc_TypeError,
                     "vjp: with has_aux=True the function returns (value, aux), not %s",
                     stage_kind(result));
        Py_CLEAR(result);
    }
    if (!result) return Py_DECREF(v), NULL;
    v->out = Py_NewRef(has_aux ? PyTuple_GET_ITEM(result, 0) : result);
    if (has_aux) *aux = Py_NewRef(PyTuple_GET_ITEM(result, 1));
    Py_DECREF(result);
    return v;
}

/* vjp(fun, *primals, has_aux=False) */
static PyObject *vjp(PyObject *Py_UNUSED(m), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"has_aux", NULL};
    int has_aux = 0;
    PyObject *empty = PyTuple_New(0), *aux = NULL, *out = NULL;
    const bool ok = empty && PyArg_ParseTupleAndKeywords(empty, kwargs, "|p:vjp", names, &has_aux);
    Py_XDECREF(empty);
    if (!ok) return NULL;
    if (PyTuple_GET_SIZE(args) < 2 || !PyCallable_Check(PyTuple_GET_ITEM(args, 0))) {
        PyErr_SetString(PyExc_TypeError,
                        "vjp(fun, *primals) takes a function and at least one argument for it");
        return NULL;
    }
    PyObject *fun = PyTuple_GET_ITEM(args, 0),
             *primals = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
    Vjp *v = !primals      ? NULL
             : frame_top() ? stage(fun, has_aux, primals, &aux)
                           : eager(fun, has_aux, primals, &aux);
    if (v) out = aux ? PyTuple_Pack(3, v->out, v, aux) : PyTuple_Pack(2, v->out, v);
    if (v && v->f) Py_CLEAR(v->out); /* the traced value is the caller's */
    Py_XDECREF(primals);
    Py_XDECREF(aux);
    Py_XDECREF(v);
    return out;
}

/* ---- the type ---- */

static int traverse(PyObject *o, visitproc visit, void *arg)
{
    Vjp *v = (Vjp *)o;
    Py_VISIT(v->pull);
    Py_VISIT(v->primals);
    Py_VISIT(v->out);
    Py_VISIT(Py_TYPE(o));
    return 0;
}

static int clear(PyObject *o)
{
    Vjp *v = (Vjp *)o;
    Py_CLEAR(v->pull);
    Py_CLEAR(v->primals);
    Py_CLEAR(v->out);
    return 0;
}

static void dealloc(PyObject *o)
{
    Vjp *v = (Vjp *)o;
    PyObject_GC_UnTrack(o);
    if (v->weakrefs) PyObject_ClearWeakRefs(o);
    clear(o);
    stage_free(&v->o);
    stage_free_argument(&v->d);
    frame_release(v->f);
    frame_release(v->outer);
    PyObject_GC_Del(o);
    Py_DECREF(core.Vjp);
}

static PyObject *repr(PyObject *o)
{
    return PyUnicode_FromFormat("VjpFunction(primals=%zd)", ((Vjp *)o)->n);
}

/* The primals, numbers that are differentiated as arrays. */
static PyObject *get_primals(PyObject *o, void *Py_UNUSED(c))
{
    Vjp *v = (Vjp *)o;
    Leaves leaves = {0};
    bool ok = v->f;
    for (Py_ssize_t i = 0; ok && i < v->d.leaves.n; i++) {
        const int k = v->d.input[i];
        PyObject *x = k < 0 ? Py_NewRef(v->d.leaves.v[i]) : tracer_new(v->outer, v->f->bound[k]);
        ok = x && leaves_push(&leaves, x);
    }
    PyObject *out = ok ? tree_unflatten(v->d.tree, leaves.v) : NULL;
    leaves_free(&leaves);
    if (!v->f) PyErr_SetString(PyExc_AttributeError, "_primals is for use inside a trace");
    return out;
}

/* May _push be asked? Not where a function inside has a reverse rule only. */
static PyObject *get_can_push(PyObject *o, void *Py_UNUSED(c))
{
    const Vjp *v = (Vjp *)o;
    return PyBool_FromLong(v->f && qb_forward_mode(v->f->graph));
}

static PyGetSetDef getset[] = {{"_primals", get_primals, NULL, NULL, NULL},
                               {"_can_push", get_can_push, NULL, NULL, NULL},
                               {0}};
static PyMethodDef methods[] = {
    {"_pull", (PyCFunction)(void (*)(void))pull_leaves, METH_FASTCALL,
     "_pull(*cotangents)\n--\n\nCotangents of the primals' leaves from those of the output's."},
    {"_push", (PyCFunction)(void (*)(void))push_leaves, METH_FASTCALL,
     "_push(*tangents)\n--\n\nTangents of the output's leaves from those of the primals'."},
    {0},
};
static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Vjp, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Vjp, weakrefs), READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "From a cotangent of the output to the cotangents of the primals, a tuple with one "
                "entry each."},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, repr},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {0},
};
static PyType_Spec spec = {"quabla.VjpFunction", sizeof(Vjp), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                               Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};
static PyMethodDef functions[] = {
    {"vjp", (PyCFunction)(void (*)(void))vjp, METH_VARARGS | METH_KEYWORDS,
     "vjp(fun, *primals, has_aux=False)\n"
     "--\n"
     "\n"
     "fun(*primals), and a function from a cotangent of it to those of the primals.\n"
     "\n"
     "Returns (out, vjp_fun), or (out, vjp_fun, aux) where has_aux says that fun returns (out, "
     "aux). vjp_fun takes a cotangent of out's\n"
     "structure, shapes and dtypes (a Python number stands for a scalar) and returns a tuple with "
     "one entry for each primal, None for bool\n"
     "leaves; it can be jitted and vmapped. Raises TypeError for a cotangent of another shape or "
     "dtype, ValueError for another structure.\n"
     "\n"
     ">>> out, pull = qb.vjp(lambda x, y: x * y, qb.array([1.0, 2.0]), qb.array(3.0))\n"
     ">>> pull(qb.array([1.0, 1.0]))\n"
     "(Tensor([3., 3.], dtype=float64), Tensor(3., dtype=float64))"},
    {0},
};

bool vjp_init(PyObject *m)
{
    core.Vjp = (PyTypeObject *)PyType_FromSpec(&spec);
    return core.Vjp && module_add(m, "VjpFunction", Py_NewRef(core.Vjp)) &&
           !PyModule_AddFunctions(m, functions);
}
