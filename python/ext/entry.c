/* entry.c: one trace of a function, compiled: what arguments it fits, and running it.

   Arguments fit when their structure is that of the trace, arrays have its shapes and dtypes, and
   all else is equal. This is the call path: for a match it allocates nothing but the outputs, and
   it holds a reference to every array while the plan runs without the interpreter lock. */
#include "ext.h"
#include <time.h>

/* ---- does a leaf fit? ---- */

static bool same_type(const qb_type *a, const qb_type *b)
{
    return a->weak == b->weak && dtype_same(a, b);
}

/* Equal for a signature: of one type, NaN equals NaN, 0.0 and -0.0 differ. */
static int same_value(PyObject *a, PyObject *b)
{
    if (a == b) return 1;
    if (Py_TYPE(a) != Py_TYPE(b)) return 0;
    if (PyFloat_CheckExact(a)) {
        const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return (x != x && y != y) || (x == y && signbit(x) == signbit(y));
    }
    return PyObject_RichCompareBool(a, b, Py_EQ);
}

static bool is_number(PyObject *x)
{
    return (PyFloat_Check(x) || PyLong_Check(x)) && !PyBool_Check(x);
}

/* Python numbers that are values of the signature; NumPy's own float64 scalars are arrays. */
static bool is_scalar(PyObject *x)
{
    return PyFloat_CheckExact(x) || PyLong_CheckExact(x) || PyBool_Check(x);
}

/* *leaf may be replaced by the Tensor that it stands for. */
static int fits(const LeafSpec *s, PyObject **leaf)
{
    if (s->kind != LEAF_ARRAY) return same_value(s->value, *leaf);
    if (!tensor_check(*leaf)) {
        const bool number = s->promote && is_number(*leaf);
        if (!number && (is_scalar(*leaf) || (!PyFloat_Check(*leaf) && !ops_foreign(*leaf))))
            return 0;
        PyObject *x = convert_array(*leaf, -1, true, NULL);
        if (!x && PyErr_ExceptionMatches(PyExc_MemoryError)) return -1;
        if (!x) return PyErr_Clear(), 0; /* describe names its place */
        Py_SETREF(*leaf, x);
    }
    return same_type(&((Tensor *)*leaf)->type, &s->type);
}

static int same_names(PyObject *a, PyObject *b)
{
    return a == b ? 1 : a && b ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
}

int entry_match_part(const Entry *e, Py_ssize_t node, Py_ssize_t leaf, PyObject *const *args,
                     Py_ssize_t n, Leaves *leaves)
{
    int m = tree_match_all(e->in, &node, args, n, leaves);
    for (Py_ssize_t i = 0; m == 1 && i < leaves->n; i++)
        m = fits(&e->specs[leaf + i], &leaves->v[i]);
    return m;
}

int entry_match(const Entry *e, const Call *c, Leaves *leaves)
{
    if (e->in->nodes[0].n != c->n) return 0;
    int m = same_names(e->kwnames, c->kwnames);
    if (m == 1) m = entry_match_part(e, 1, 0, c->args, c->n, leaves);
    const Py_ssize_t n = e->in->n_leaves;
    for (Py_ssize_t i = n; m == 1 && i < e->n_specs; i++)
        m = same_value(e->specs[i].value, c->kwvalues[i - n]);
    return m;
}

/* ---- running ---- */

static bool execute(Entry *e, PyObject *const *leaves, void **out, qb_step_profile *steps)
{
    enum { FEW = 32 };
    const void *few[FEW], **in = e->n_arrays <= FEW ? few : PyMem_New(const void *, e->n_arrays);
    if (!in) return PyErr_NoMemory(), false;
    Py_ssize_t n = 0;
    for (Py_ssize_t i = 0; i < e->in->n_leaves; i++)
        if (e->specs[i].kind == LEAF_ARRAY) in[n++] = tensor_data(leaves[i]);
    qb_error err = {0};
    bool ok;
    Py_BEGIN_ALLOW_THREADS ok = steps ? qb_plan_profile(e->plan, in, out, steps, &err)
                                      : qb_plan_run(e->plan, in, out, &err);
    Py_END_ALLOW_THREADS if (in != few) PyMem_Free(in);
    return ok || error_raise(&err);
}

PyObject *entry_run(Entry *e, PyObject *const *leaves, qb_step_profile *steps)
{
    enum { FEW = 32 };
    const Py_ssize_t n = e->out.leaves.n;
    PyObject *few_results[FEW], **results = n <= FEW ? few_results : PyMem_New(PyObject *, n);
    void *few_out[FEW], **out = n <= FEW ? few_out : PyMem_New(void *, n);
    Py_ssize_t made = 0;
    bool ok = results && out;
    if (!ok) PyErr_NoMemory();
    for (; ok && made < n; made++) {
        const int k = e->out.index[made];
        if (k < 0) {
            results[made] = Py_NewRef(e->out.leaves.v[made]);
            continue;
        }
        results[made] = (PyObject *)tensor_empty(qb_plan_output_type(e->plan, k));
        if (!results[made]) break;
        out[k] = tensor_data(results[made]);
    }
    PyObject *answer = NULL;
    if (ok && made == n && execute(e, leaves, out, steps))
        answer = tree_unflatten(e->out.tree, results);
    for (Py_ssize_t i = 0; i < made; i++) Py_DECREF(results[i]);
    if (results != few_results) PyMem_Free(results);
    if (out != few_out) PyMem_Free(out);
    return answer;
}

/* ---- making ---- */

Entry *entry_retain(Entry *e)
{
    e->refs++;
    return e;
}

void entry_release(Entry *e)
{
    if (!e || --e->refs) return;
    for (Py_ssize_t i = 0; i < e->n_specs; i++) Py_XDECREF(e->specs[i].value);
    PyMem_Free(e->specs);
    Py_XDECREF(e->in);
    Py_XDECREF(e->kwnames);
    Py_XDECREF(e->reason);
    qb_plan_release(e->plan);
    qb_graph_release(e->graph);
    stage_free(&e->out);
    PyMem_Free(e);
}

/* "argument 0 'p/b'", for messages. */
static PyObject *place(const Entry *e, Py_ssize_t leaf)
{
    PyObject *path = tree_path(e->in, leaf), *inner = path ? tree_path_text(e->in, leaf, 1) : NULL,
             *out = NULL;
    if (inner)
        out =
            PyUnicode_FromFormat(PyUnicode_GET_LENGTH(inner) ? "argument %S '%U'" : "argument %S%U",
                                 PyTuple_GET_ITEM(path, 0), inner);
    Py_XDECREF(path);
    Py_XDECREF(inner);
    return out;
}

static bool no_argument(Transform *t, const Entry *e, Py_ssize_t leaf, PyObject *x)
{
    PyObject *where = place(e, leaf);
    if (where && tracer_check(x))
        PyErr_Format(core.TracerError,
                     "%R: %U is a TraceTensor whose trace has ended; return it from the traced "
                     "function instead of storing it elsewhere",
                     t, where);
    else if (where)
        PyErr_Format(PyExc_TypeError,
                     "%R: %U is %s; arguments are arrays, numbers, and dicts, lists, tuples, "
                     "NamedTuples and registered classes (quabla.tree) of them%s",
                     t, where, stage_kind(x),
                     t->kind == DO_JIT ? "; other values go into static_argnums" : "");
    Py_XDECREF(where);
    return false;
}

/* The exception that is set, with the argument in front. */
static bool no_array(Transform *t, const Entry *e, Py_ssize_t leaf)
{
    PyObject *class, *value, *trace, *where = NULL;
    PyErr_Fetch(&class, &value, &trace);
    if (class != PyExc_MemoryError && (where = place(e, leaf)))
        PyErr_Format(class, "%R: %U: %S", t, where, value ? value : Py_None);
    else
        PyErr_Restore(Py_XNewRef(class), Py_XNewRef(value), Py_XNewRef(trace));
    Py_XDECREF(where);
    Py_XDECREF(class);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return false;
}

/* The spec of leaf i; *leaf may be replaced by the Tensor that it stands for. */
static bool describe(Transform *t, Entry *e, Py_ssize_t i, bool promote, bool lowering,
                     PyObject **leaf)
{
    LeafSpec *s = &e->specs[i];
    s->promote = promote;
    s->kind = LEAF_ARRAY;
    if (lowering && lower_shape(*leaf, &s->type)) return true;
    if (tracer_check(*leaf)) return no_argument(t, e, i, *leaf);
    if (is_scalar(*leaf) && !(promote && is_number(*leaf))) {
        s->kind = LEAF_SCALAR;
        s->value = Py_NewRef(*leaf);
        return true;
    }
    if (!tensor_check(*leaf)) {
        if (!is_number(*leaf) && !ops_foreign(*leaf)) return no_argument(t, e, i, *leaf);
        PyObject *x = convert_array(*leaf, -1, true, NULL);
        if (!x) return no_array(t, e, i);
        Py_SETREF(*leaf, x);
    }
    s->type = ((Tensor *)*leaf)->type;
    return true;
}

/* Nodes and leaves of the subtree at `at`; returns where the next one starts. */
static Py_ssize_t skip(const TreeDef *t, Py_ssize_t at, Py_ssize_t *leaves)
{
    const TreeNode *node = &t->nodes[at++];
    if (node->kind == NODE_LEAF) ++*leaves;
    for (int32_t i = 0; i < node->n; i++) at = skip(t, at, leaves);
    return at;
}

/* Specs of all leaves. */
static bool describe_all(Transform *t, Entry *e, const Call *c, bool lowering, Leaves *leaves)
{
    Py_ssize_t at = 1, leaf = 0;
    for (Py_ssize_t a = 0; a < c->n; a++) {
        const bool promote = transform_differentiates(t, a, c->n);
        Py_ssize_t end = leaf;
        at = skip(e->in, at, &end);
        for (; leaf < end; leaf++) {
            if (c->opaque && c->opaque[a]) {
                e->specs[leaf].kind = LEAF_STATIC;
                e->specs[leaf].value = Py_NewRef(leaves->v[leaf]);
            } else if (!describe(t, e, leaf, promote, lowering, &leaves->v[leaf])) {
                return false;
            }
        }
    }
    for (Py_ssize_t k = 0; e->kwnames && k < PyTuple_GET_SIZE(e->kwnames); k++) {
        e->specs[leaf + k].kind = LEAF_STATIC;
        e->specs[leaf + k].value = Py_NewRef(c->kwvalues[k]);
    }
    return true;
}

/* "params/b": the parameter's name and the path in it. Only lowered programs are read by people. */
static PyObject *input_name(PyObject *params, const TreeDef *t, Py_ssize_t leaf)
{
    PyObject *path = tree_path(t, leaf), *rest = path ? tree_path_text(t, leaf, 1) : NULL,
             *out = NULL;
    const Py_ssize_t arg = rest ? PyLong_AsSsize_t(PyTuple_GET_ITEM(path, 0)) : -1;
    PyObject *first = !rest                            ? NULL
                      : arg < PyTuple_GET_SIZE(params) ? Py_NewRef(PyTuple_GET_ITEM(params, arg))
                                                       : PyUnicode_FromFormat("arg%zd", arg);
    if (first)
        out = PyUnicode_GET_LENGTH(rest) ? PyUnicode_FromFormat("%U/%U", first, rest)
                                         : Py_NewRef(first);
    Py_XDECREF(path);
    Py_XDECREF(rest);
    Py_XDECREF(first);
    return out;
}

/* Arrays become inputs of f: their leaves in `traced` are tracers. */
static bool make_inputs(Transform *t, Entry *e, Frame *f, bool lowering, const Leaves *leaves,
                        Leaves *traced)
{
    PyObject *params = lowering ? call_params(t->fun) : NULL;
    bool ok = !lowering || params;
    for (Py_ssize_t i = 0; ok && i < leaves->n; i++) {
        PyObject *x = NULL, *name = NULL;
        if (e->specs[i].kind != LEAF_ARRAY) {
            x = Py_NewRef(leaves->v[i]);
        } else if (!lowering || (name = input_name(params, e->in, i))) {
            const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
            if (!name || text) x = frame_input(f, text, &e->specs[i].type, QB_NONE);
            e->n_arrays++;
        }
        Py_XDECREF(name);
        ok = x && leaves_push(traced, x);
    }
    Py_XDECREF(params);
    return ok;
}

static PyObject *call_traced(Transform *t, const Entry *e, const Call *c, const Leaves *traced)
{
    const Py_ssize_t n_kw = e->kwnames ? PyTuple_GET_SIZE(e->kwnames) : 0;
    PyObject *tuple = tree_unflatten(e->in, traced->v), *out = NULL;
    PyObject **args = tuple ? PyMem_New(PyObject *, c->n + n_kw + 1) : NULL;
    if (args) {
        memcpy(args, PySequence_Fast_ITEMS(tuple), sizeof *args * (size_t)c->n);
        for (Py_ssize_t k = 0; k < n_kw; k++) args[c->n + k] = c->kwvalues[k];
        out = transform_traced(t, args, c->n, e->kwnames);
    } else if (tuple) {
        PyErr_NoMemory();
    }
    PyMem_Free(args);
    Py_XDECREF(tuple);
    return out;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool compile(Transform *t, Entry *e, const Frame *f)
{
    qb_error err = {0};
    qb_options options;
    if (!jit_options(t, &options)) return false;
    const double start = seconds();
    Py_BEGIN_ALLOW_THREADS e->plan = qb_compile(f->graph, &options, &err);
    Py_END_ALLOW_THREADS e->compiled = seconds() - start;
    return e->plan || error_raise(&err);
}

Entry *entry_describe(Transform *t, const Call *c, bool lowering, Leaves *leaves)
{
    Entry *e = PyMem_Calloc(1, sizeof *e);
    if (!e) return (Entry *)PyErr_NoMemory();
    e->refs = 1;
    e->kwnames = Py_XNewRef(c->kwnames);
    e->in = tree_flatten_args(c->args, c->n, c->opaque, leaves);
    const Py_ssize_t n = leaves->n + (c->kwnames ? PyTuple_GET_SIZE(c->kwnames) : 0);
    e->specs = e->in ? PyMem_Calloc((size_t)n + 1, sizeof *e->specs) : NULL;
    if (e->specs)
        e->n_specs = n;
    else if (e->in)
        PyErr_NoMemory();
    if (e->specs && describe_all(t, e, c, lowering, leaves)) return e;
    entry_release(e);
    return NULL;
}

Entry *entry_trace(Transform *t, const Call *c, bool lowering, Leaves *leaves)
{
    qb_options options;
    if (!jit_options(t, &options)) return NULL; /* before the function runs */
    Entry *e = entry_describe(t, c, lowering, leaves);
    if (!e) return NULL;
    Frame *f = frame_push();
    bool ok = f;
    if (f) {
        Leaves traced = {0};
        const double start = seconds();
        PyObject *result =
            make_inputs(t, e, f, lowering, leaves, &traced) ? call_traced(t, e, c, &traced) : NULL;
        ok = result && stage_outputs(f, result, &e->out);
        e->traced = seconds() - start;
        ok = stage_close(f, ok) && compile(t, e, f);
        if (ok && lowering) e->graph = qb_graph_retain(f->graph);
        Py_XDECREF(result);
        leaves_free(&traced);
        frame_release(f);
    }
    if (ok) return e;
    entry_release(e);
    return NULL;
}

/* ---- signature ---- */

PyObject *entry_leaf_name(Transform *t, const Entry *e, Py_ssize_t i)
{
    if (i >= e->in->n_leaves) return Py_NewRef(PyTuple_GET_ITEM(e->kwnames, i - e->in->n_leaves));
    PyObject *params = call_params(t->fun), *name = params ? input_name(params, e->in, i) : NULL;
    Py_XDECREF(params);
    return name;
}

bool entry_same_leaf(const Entry *a, const Entry *b, Py_ssize_t i)
{
    const LeafSpec *x = &a->specs[i], *y = &b->specs[i];
    if (x->kind != y->kind) return false;
    if (x->kind == LEAF_ARRAY) return same_type(&x->type, &y->type);
    const int same = same_value(x->value, y->value);
    if (same < 0) PyErr_Clear();
    return same == 1;
}

PyObject *entry_leaf_text(const Entry *e, Py_ssize_t i)
{
    const LeafSpec *s = &e->specs[i];
    if (s->kind == LEAF_ARRAY) return dtype_text(&s->type);
    return s->kind == LEAF_SCALAR ? PyObject_Repr(s->value)
                                  : PyUnicode_FromFormat("static %R", s->value);
}

static PyObject *leaf_text(Py_ssize_t i, void *context) { return entry_leaf_text(context, i); }

PyObject *entry_signature(const Entry *e)
{
    PyObject *text = tree_text(e->in, leaf_text, (void *)(uintptr_t)e);
    for (Py_ssize_t i = 0; text && e->kwnames && i < PyTuple_GET_SIZE(e->kwnames); i++)
        Py_SETREF(text, PyUnicode_FromFormat(i ? "%U, %U=static %R" : "%U with %U=static %R", text,
                                             PyTuple_GET_ITEM(e->kwnames, i),
                                             e->specs[e->in->n_leaves + i].value));
    return text;
}
