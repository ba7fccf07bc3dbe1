/* region.c: bodies of control flow, traced, and the regions made of them. quabla/_control.py gives
   this its manners.

   A body is traced into a frame of its own with a tracer for each leaf of its carry; whatever else
   it meets of the traces around it becomes a hidden input (tracer.c), and so an operand of the
   region. The two bodies of cond and while get the same inputs: those of both. */
#include "ext.h"

typedef struct {
    PyObject_HEAD Frame *frame; /* closed: its graph is frozen */
    Frame *around;              /* the one that it was made in */
    int given;                  /* inputs that are not hidden */
} Body;

static PyTypeObject *body_type;

/* ---- types as Python sees them: (dtype, shape, weak) ---- */

static PyObject *type_tuple(const qb_type *t)
{
    PyObject *list = array_shape_list(t), *shape = list ? PyList_AsTuple(list) : NULL;
    PyObject *out =
        shape ? PyTuple_Pack(3, dtype_object(t->dtype), shape, t->weak ? Py_True : Py_False) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(shape);
    return out;
}

/* _leaf_type(x): of an array or a number; None for anything else. */
static PyObject *leaf_type(PyObject *Py_UNUSED(m), PyObject *x)
{
    if (array_check(x)) return type_tuple(array_type(x));
    if (PyBool_Check(x)) return type_tuple(&(qb_type){.dtype = QB_BOOL});
    if (PyFloat_Check(x) || PyLong_Check(x))
        return type_tuple(&(qb_type){.dtype = QB_F64, .weak = 1});
    if (!ops_foreign(x)) Py_RETURN_NONE;
    bool weak = false;
    PyObject *array = convert_array(x, -1, false, &weak);
    if (!array) return NULL;
    qb_type t = *array_type(array);
    t.weak = weak;
    Py_DECREF(array);
    return type_tuple(&t);
}

static bool parse_type(PyObject *o, qb_type *t)
{
    PyObject *dtype, *shape;
    int weak;
    if (!PyArg_ParseTuple(o, "OO!p", &dtype, &PyTuple_Type, &shape, &weak)) return false;
    const int d = dtype_of(dtype);
    if (d < 0 || PyTuple_GET_SIZE(shape) > QB_MAX_RANK) return false;
    *t =
        (qb_type){.dtype = (uint8_t)d, .weak = weak != 0, .rank = (uint8_t)PyTuple_GET_SIZE(shape)};
    for (int i = 0; i < t->rank; i++) t->dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    return !PyErr_Occurred();
}

/* ---- tracing a body ---- */

static PyObject *inputs(Frame *f, PyObject *types)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(types); i++) {
        qb_type t;
        PyObject *x =
            parse_type(PyList_GET_ITEM(types, i), &t) ? frame_input(f, NULL, &t, QB_NONE) : NULL;
        if (!x || PyList_Append(list, x)) Py_CLEAR(list);
        Py_XDECREF(x);
    }
    return list;
}

static bool outputs(Frame *f, PyObject *result)
{
    qb_error err = {0};
    if (!PyList_Check(result))
        return PyErr_SetString(PyExc_SystemError, "a body returns a list of leaves"), false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result); i++) {
        qb_value v;
        if (!frame_lift(f, PyList_GET_ITEM(result, i), &v)) return false;
        if (!qb_graph_output(f->graph, v, &err)) return error_raise(&err), false;
    }
    return true;
}

/* _trace_body(fun, types): fun takes a list of tracers and returns a list of leaves. */
static PyObject *trace_body(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *fun, *types;
    if (!PyArg_ParseTuple(args, "OO!:_trace_body", &fun, &PyList_Type, &types)) return NULL;
    Frame *around = frame_top(), *f = around ? frame_push() : NULL;
    if (!around) PyErr_SetString(PyExc_SystemError, "a body is traced inside another trace");
    if (!f) return NULL;
    PyObject *in = inputs(f, types), *result = in ? PyObject_CallOneArg(fun, in) : NULL;
    const bool ok = result && outputs(f, result);
    Py_XDECREF(in);
    Py_XDECREF(result);
    Body *b = stage_close(f, ok) ? PyObject_New(Body, body_type) : NULL;
    if (!b) return frame_release(f), NULL;
    b->frame = f;
    b->around = frame_retain(around);
    b->given = (int)PyList_GET_SIZE(types);
    return (PyObject *)b;
}

static void dealloc(PyObject *o)
{
    frame_release(((Body *)o)->frame);
    frame_release(((Body *)o)->around);
    PyObject_Free(o);
    Py_DECREF(body_type);
}

/* types: of the results. */
static PyObject *body_types(PyObject *o, void *Py_UNUSED(c))
{
    const qb_graph *g = ((Body *)o)->frame->graph;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < qb_graph_output_count(g); i++) {
        PyObject *t = type_tuple(qb_type_of(qb_graph_output_at(g, i)));
        if (!t || PyList_Append(list, t)) Py_CLEAR(list);
        Py_XDECREF(t);
    }
    return list;
}

/* ---- operands ---- */

typedef struct {
    qb_value *v;
    int n, cap;
} Values;

static bool push(Values *x, qb_value v)
{
    if (x->n == x->cap) {
        const int cap = x->cap ? 2 * x->cap : 16;
        qb_value *more = PyMem_Realloc(x->v, sizeof *more * (size_t)cap);
        if (!more) return PyErr_NoMemory(), false;
        x->v = more;
        x->cap = cap;
    }
    x->v[x->n++] = v;
    return true;
}

static bool push_leaves(Values *x, Frame *f, PyObject *leaves)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); i++) {
        qb_value v;
        if (!frame_lift(f, PyList_GET_ITEM(leaves, i), &v) || !push(x, v)) return false;
    }
    return true;
}

/* The hidden operands of a body, each once. They begin at `from`. */
static bool push_hidden(Values *x, int from, const Body *b)
{
    for (int i = b->given; i < b->frame->n_inputs; i++) {
        int k = from;
        while (k < x->n && x->v[k].id != b->frame->bound[i].id) k++;
        if (k == x->n && !push(x, b->frame->bound[i])) return false;
    }
    return true;
}

/* The graph of b with an input for each of x. Hidden inputs are those with the same operand, which
   begin at `from`. */
static qb_graph *widened(const Body *b, const Values *x, int from)
{
    qb_error err = {0};
    const qb_graph *src = b->frame->graph;
    qb_graph *g = qb_graph_new(&err);
    qb_value *in = PyMem_Calloc((size_t)x->n + 1, sizeof *in),
             *args = PyMem_Calloc((size_t)b->frame->n_inputs + 1, sizeof *args),
             *out = PyMem_Calloc((size_t)qb_graph_output_count(src) + 1, sizeof *out);
    bool ok = g && in && args && out;
    if (g && !ok) err.code = QB_EMEMORY;
    for (int k = 0; ok && k < x->n; k++) {
        const qb_type t = k < b->given ? *qb_graph_input_type(src, k) : *qb_type_of(x->v[k]);
        in[k] = qb_graph_input(g, NULL, &t, &err);
        ok = in[k].graph != NULL;
    }
    for (int i = 0; ok && i < b->frame->n_inputs; i++) {
        int k = i < b->given ? i : from;
        while (i >= b->given && x->v[k].id != b->frame->bound[i].id) k++;
        args[i] = in[k];
    }
    ok = ok && qb_inline(g, src, args, out, &err);
    for (int i = 0; ok && i < qb_graph_output_count(src); i++)
        ok = qb_graph_output(g, out[i], &err);
    ok = ok && qb_graph_freeze(g, &err);
    PyMem_Free(in);
    PyMem_Free(args);
    PyMem_Free(out);
    if (ok) return g;
    error_raise(&err);
    qb_graph_release(g);
    return NULL;
}

static PyObject *results(Frame *f, const qb_value *z, int n)
{
    PyObject *list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *x = tracer_new(f, z[i]);
        if (x)
            PyList_SET_ITEM(list, i, x);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* The trace that a region goes to: the one around its bodies. */
static Frame *place_of(const Body *b)
{
    Frame *f = frame_top();
    if (f && b->around == f) {
        frame_locate(f);
        return f;
    }
    PyErr_SetString(PyExc_SystemError, "a body is used outside the trace that it was made in");
    return NULL;
}

/* ---- the regions ---- */

typedef enum { COND, SCAN, WHILE } Kind;

/* body: the second one of two; z has room for its results. */
static bool emit(Kind kind, Frame *f, const Body *first, const Body *second, const Values *x,
                 int from, qb_value pred, long long length, bool reverse, int carries, int xs,
                 qb_value *z)
{
    qb_error err = {0};
    qb_graph *a = widened(first, x, from), *b = a && second ? widened(second, x, from) : NULL;
    bool ok = a && (b || !second);
    if (ok) {
        ok = kind == COND ? qb_cond(f->graph, pred, a, b, x->v, x->n, z, &err)
             : kind == SCAN
                 ? qb_scan(f->graph, a, length, reverse, carries, xs, x->v, x->n, z, &err)
                 : qb_while(f->graph, a, b, length, carries, x->v, x->n, z, &err);
        if (!ok) error_raise(&err);
    }
    qb_graph_release(a);
    qb_graph_release(b);
    return ok;
}

static PyObject *make(Kind kind, PyObject *pred, Body *first, Body *second, PyObject *carries,
                      PyObject *xs, long long length, int reverse)
{
    Frame *f = place_of(first);
    Values x = {0};
    qb_value p = QB_NONE;
    if (!f) return NULL;
    const Body *last = second ? second : first;
    const int n = qb_graph_output_count(last->frame->graph);
    qb_value *z = PyMem_Calloc((size_t)n + 1, sizeof *z);
    bool ok = z != NULL;
    if (!ok) PyErr_NoMemory();
    ok = ok && (!pred || frame_lift(f, pred, &p)) && (!carries || push_leaves(&x, f, carries)) &&
         (!xs || push_leaves(&x, f, xs));
    const int from = x.n;
    ok = ok && push_hidden(&x, from, first) && (!second || push_hidden(&x, from, second)) &&
         emit(kind, f, first, second, &x, from, p, length, reverse != 0,
              carries ? (int)PyList_GET_SIZE(carries) : 0, xs ? (int)PyList_GET_SIZE(xs) : 0, z);
    PyObject *out = ok ? results(f, z, n) : NULL;
    PyMem_Free(z);
    PyMem_Free(x.v);
    return out;
}

/* _cond(pred, on_true, on_false), _scan(body, length, reverse, carries, xs), _while(test, body,
   max_steps, carries) -> list of tracers */
static PyObject *make_cond(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *pred, *a, *b;
    if (!PyArg_ParseTuple(args, "OO!O!:_cond", &pred, body_type, &a, body_type, &b)) return NULL;
    return make(COND, pred, (Body *)a, (Body *)b, NULL, NULL, 0, 0);
}

static PyObject *make_scan(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *body, *carries, *xs;
    long long length;
    int reverse;
    if (!PyArg_ParseTuple(args, "O!LpO!O!:_scan", body_type, &body, &length, &reverse, &PyList_Type,
                          &carries, &PyList_Type, &xs))
        return NULL;
    return make(SCAN, NULL, (Body *)body, NULL, carries, xs, length, reverse);
}

static PyObject *make_while(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *test, *body, *carries;
    long long max_steps;
    if (!PyArg_ParseTuple(args, "O!O!LO!:_while", body_type, &test, body_type, &body, &max_steps,
                          &PyList_Type, &carries))
        return NULL;
    return make(WHILE, NULL, (Body *)test, (Body *)body, carries, NULL, max_steps, 0);
}

static PyObject *tracing(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(frame_top() != NULL);
}

/* ---- Ctrl-C ---- */

/* A run has given up the GIL; the exception stays with this thread until the run returns. */
static bool interrupt(void *Py_UNUSED(arg))
{
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool stop = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return stop;
}

/* _imported(x): x with Tensors in place of NumPy's arrays. */
static PyObject *imported(PyObject *Py_UNUSED(m), PyObject *x) { return stage_imported(x); }

static PyMethodDef functions[] = {
    {"_imported", imported, METH_O, NULL},      {"_tracing", tracing, METH_NOARGS, NULL},
    {"_leaf_type", leaf_type, METH_O, NULL},    {"_trace_body", trace_body, METH_VARARGS, NULL},
    {"_cond", make_cond, METH_VARARGS, NULL},   {"_scan", make_scan, METH_VARARGS, NULL},
    {"_while", make_while, METH_VARARGS, NULL}, {0},
};
static PyGetSetDef getset[] = {{"types", body_types, NULL, NULL, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, dealloc}, {Py_tp_getset, getset}, {0}};
static PyType_Spec spec = {"quabla._core.Body", sizeof(Body), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

bool region_init(PyObject *m)
{
    body_type = (PyTypeObject *)PyType_FromSpec(&spec);
    qb_set_interrupt(interrupt, NULL);
    return body_type && !PyModule_AddFunctions(m, functions);
}
