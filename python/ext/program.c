/* program.c: Program, a graph with named inputs, and Executable, its plan: the facade for tools that want one
   compiled artifact without pytrees.

   quabla._compiler checks specs and targets in Python; here a Program is traced, differentiated into
   another Program, printed and compiled. Inputs go by name. */
#include "ext.h"

typedef struct {
    PyObject_HEAD qb_graph *graph; /* frozen */
} Program;
typedef struct {
    PyObject_HEAD qb_plan *plan;
    qb_graph *graph; /* names and types of the inputs */
    PyObject *target;
} Executable;

PyObject *program_new(qb_graph *g)
{
    Program *p = PyObject_New(Program, core.Program);
    if (p) p->graph = qb_graph_retain(g);
    return (PyObject *)p;
}

static void program_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    qb_graph_release(((Program *)o)->graph);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* ---- tracing: _trace_program(fun, names, ShapeDtypes) ---- */

/* The one array that the function returned becomes the output. */
static bool take_output(Frame *f, PyObject *result)
{
    qb_error err = {0};
    qb_value v;
    if (!array_check(result)) {
        PyErr_Format(PyExc_TypeError, "Compiler.trace: the function returns one array, not %s",
                     stage_kind(result));
        return false;
    }
    return frame_lift(f, result, &v) && (qb_graph_output(f->graph, v, &err) || error_raise(&err));
}

static PyObject *inputs_of(Frame *f, PyObject *names, PyObject *types)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(names);
    PyObject *args = PyTuple_New(n);
    for (Py_ssize_t i = 0; args && i < n; i++) {
        qb_type t;
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
        PyObject *x = name && lower_shape(PyTuple_GET_ITEM(types, i), &t)
                          ? frame_input(f, name, &t, QB_NONE)
                          : NULL;
        if (x)
            PyTuple_SET_ITEM(args, i, x);
        else
            Py_CLEAR(args);
    }
    return args;
}

static PyObject *trace(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *fun, *names, *types;
    if (!PyArg_ParseTuple(args, "OO!O!:_trace_program", &fun, &PyTuple_Type, &names, &PyTuple_Type,
                          &types))
        return NULL;
    if (frame_top()) {
        PyErr_SetString(core.TracerError, "Compiler.trace is called inside a traced function");
        return NULL;
    }
    Frame *f = frame_push();
    if (!f) return NULL;
    PyObject *inputs = inputs_of(f, names, types),
             *result = inputs ? PyObject_CallObject(fun, inputs) : NULL;
    const bool ok = result && take_output(f, result);
    PyObject *out = stage_close(f, ok) ? program_new(f->graph) : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(result);
    frame_release(f);
    return out;
}

/* ---- derivatives ---- */

typedef struct {
    const qb_graph *src;
    qb_graph *dst;
    int n_in, n_out;
    qb_value *in, *seed, *outs,
        *result; /* seed, result: of inputs or outputs, as the mode has it */
} Rewrite;

/* A graph with the inputs of src. */
static bool rewrite_open(Rewrite *r, const qb_graph *src, qb_error *err)
{
    *r = (Rewrite){.src = src,
                   .n_in = qb_graph_input_count(src),
                   .n_out = qb_graph_output_count(src),
                   .dst = qb_graph_new(err)};
    const size_t n = (size_t)(r->n_in + r->n_out);
    r->in = PyMem_Calloc(4 * n + 1, sizeof *r->in);
    if (!r->dst || !r->in) return false;
    r->seed = r->in + n, r->outs = r->seed + n, r->result = r->outs + n;
    for (int i = 0; i < r->n_in; i++) {
        r->in[i] =
            qb_graph_input(r->dst, qb_graph_input_name(src, i), qb_graph_input_type(src, i), err);
        if (!r->in[i].graph) return false;
    }
    return true;
}

/* The Program whose output is v, zeros of type t where that is nothing. */
static PyObject *rewrite_close(Rewrite *r, bool ok, qb_value v, const qb_type *t, qb_error *err)
{
    if (ok && !v.graph) v = qb_constant(r->dst, t, 0, err);
    ok = ok && v.graph && qb_graph_output(r->dst, v, err) && qb_graph_freeze(r->dst, err);
    PyObject *out = ok ? program_new(r->dst) : NULL;
    if (!ok && !PyErr_Occurred()) {
        if (err->code)
            error_raise(err);
        else
            PyErr_NoMemory();
    }
    qb_graph_release(r->dst);
    PyMem_Free(r->in);
    return out;
}

static int input_number(const qb_graph *g, const char *name)
{
    for (int i = 0; i < qb_graph_input_count(g); i++)
        if (!strcmp(qb_graph_input_name(g, i), name)) return i;
    return -1;
}

static bool one_output(const Program *p, const char *what)
{
    if (qb_graph_output_count(p->graph) == 1) return true;
    qb_error err = {.code = QB_EUNSUPPORTED};
    snprintf(err.op, sizeof err.op, "%s", what);
    snprintf(err.message, sizeof err.message,
             "a Program with several outputs has no %s; transform the Python function before "
             "lowering it",
             what);
    return error_raise(&err);
}

static PyObject *jvp(PyObject *o, PyObject *name)
{
    const Program *p = (Program *)o;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (!one_output(p, "jvp")) return NULL;
    const int k = text ? input_number(p->graph, text) : -1;
    if (k < 0) {
        PyErr_Format(PyExc_ValueError, "jvp: the program has no input named %R", name);
        return NULL;
    }
    qb_error err = {0};
    Rewrite r;
    bool ok = rewrite_open(&r, p->graph, &err);
    const qb_type t = *qb_graph_input_type(p->graph, k);
    if (ok && t.dtype != QB_BOOL) ok = (r.seed[k] = qb_constant(r.dst, &t, 1, &err)).graph;
    ok = ok && qb_jvp(r.dst, r.src, r.in, r.seed, r.outs, r.result, &err);
    qb_type out = *qb_type_of(qb_graph_output_at(p->graph, 0));
    if (out.dtype == QB_BOOL) out.dtype = QB_F64;
    return rewrite_close(&r, ok, ok ? r.result[0] : QB_NONE, &out, &err);
}

/* The gradient program of input k. */
static PyObject *gradient(const Program *p, const char *cotangent, int k)
{
    qb_error err = {0};
    Rewrite r;
    bool ok = rewrite_open(&r, p->graph, &err), *wanted = PyMem_Calloc((size_t)r.n_in, 1);
    const qb_type out = *qb_type_of(qb_graph_output_at(p->graph, 0));
    if (ok && wanted) {
        qb_value ct = qb_graph_input(r.dst, cotangent, &out, &err);
        wanted[k] = true;
        if (out.dtype != QB_BOOL) r.seed[0] = ct;
        ok = ct.graph && qb_vjp(r.dst, r.src, r.in, r.seed, wanted, r.outs, r.result, &err);
    }
    PyMem_Free(wanted);
    return rewrite_close(&r, ok && wanted, ok ? r.result[k] : QB_NONE,
                         qb_graph_input_type(p->graph, k), &err);
}

static PyObject *vjp(PyObject *o, PyObject *name)
{
    const Program *p = (Program *)o;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (!one_output(p, "vjp")) return NULL;
    if (!text) {
        PyErr_Format(PyExc_TypeError, "vjp takes the name of a new input, the cotangent, not %s",
                     stage_kind(name));
        return NULL;
    }
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < qb_graph_input_count(p->graph); i++) {
        if (qb_graph_input_type(p->graph, i)->dtype == QB_BOOL) continue;
        PyObject *g = gradient(p, text, i);
        if (!g || PyDict_SetItemString(dict, qb_graph_input_name(p->graph, i), g)) Py_CLEAR(dict);
        Py_XDECREF(g);
    }
    return dict;
}

/* ---- text ---- */

PyObject *program_text(char *text, const qb_error *err)
{
    if (!text) return error_raise(err);
    PyObject *out = PyUnicode_FromString(text);
    qb_free(text);
    return out;
}

/* Lines joined by newlines, with none at the end, so that print() shows them alone. Of several outputs: as_text(). */
static PyObject *lower_text(PyObject *o, PyObject *Py_UNUSED(none))
{
    const qb_graph *g = ((Program *)o)->graph;
    qb_error err = {0};
    if (qb_graph_output_count(g) == 1) return program_text(qb_graph_listing(g, &err), &err);
    qb_plan *plan = qb_compile(g, NULL, &err);
    PyObject *out = program_text(plan ? qb_plan_text(plan, &err) : NULL, &err);
    qb_plan_release(plan);
    return out;
}

static PyObject *stablehlo_text(PyObject *o, PyObject *Py_UNUSED(none))
{
    qb_error err = {0};
    return program_text(qb_graph_stablehlo(((Program *)o)->graph, &err), &err);
}

static PyObject *get_output_shapes(PyObject *o, void *Py_UNUSED(c))
{
    const qb_graph *g = ((Program *)o)->graph;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < qb_graph_output_count(g); i++) {
        PyObject *shape = array_shape_list(qb_type_of(qb_graph_output_at(g, i)));
        if (!shape || PyList_Append(list, shape)) Py_CLEAR(list);
        Py_XDECREF(shape);
    }
    return list;
}

static PyObject *get_output_shape(PyObject *o, void *Py_UNUSED(c))
{
    const Program *p = (Program *)o;
    return one_output(p, "output_shape")
               ? array_shape_list(qb_type_of(qb_graph_output_at(p->graph, 0)))
               : NULL;
}

static PyObject *get_inputs(PyObject *o, void *Py_UNUSED(c))
{
    const qb_graph *g = ((Program *)o)->graph;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < qb_graph_input_count(g); i++) {
        PyObject *t = lower_shape_new(qb_graph_input_type(g, i));
        if (!t || PyDict_SetItemString(dict, qb_graph_input_name(g, i), t)) Py_CLEAR(dict);
        Py_XDECREF(t);
    }
    return dict;
}

static PyObject *program_repr(PyObject *o)
{
    PyObject *inputs = get_inputs(o, NULL), *shapes = inputs ? get_output_shapes(o, NULL) : NULL,
             *out = shapes ? PyUnicode_FromFormat("Program(inputs=%R, output_shapes=%R)", inputs,
                                                  shapes)
                           : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(shapes);
    return out;
}

/* ---- compiling and running ---- */

static bool known_target(const char *target)
{
    for (int i = 0; i < qb_target_count(); i++) {
        if (strcmp(target, qb_target_name(i))) continue;
        if (qb_target_built(target)) return true;
        char message[200];
        snprintf(message, sizeof message, "target '%.80s' is not in this build; 'cpu' is", target);
        return error_unsupported(target, message);
    }
    PyErr_Format(PyExc_ValueError, "compile: target '%s' is not one of 'cpu', 'cuda', 'mlx'",
                 target);
    return false;
}

/* compile(target="cpu", device_ordinal=0) */
static PyObject *compile(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"target", "device_ordinal", NULL};
    const char *target = "cpu";
    int ordinal = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|si:compile", names, &target, &ordinal))
        return NULL;
    if (ordinal < 0) {
        PyErr_Format(PyExc_ValueError, "compile: device_ordinal %d is negative", ordinal);
        return NULL;
    }
    if (!known_target(target)) return NULL;
    qb_error err = {0};
    qb_plan *plan;
    const qb_options options = {.target = target};
    const qb_graph *g = ((Program *)o)->graph;
    Py_BEGIN_ALLOW_THREADS plan = qb_compile(g, &options, &err);
    Py_END_ALLOW_THREADS if (!plan) return error_raise(&err);
    Executable *e = PyObject_New(Executable, core.Executable);
    if (!e) return qb_plan_release(plan), NULL;
    e->plan = plan;
    e->graph = qb_graph_retain(((Program *)o)->graph);
    e->target = PyUnicode_FromString(target);
    if (!e->target) Py_CLEAR(e);
    return (PyObject *)e;
}

/* The array for input i; a new reference. */
static PyObject *input_value(const qb_graph *g, int i, PyObject *inputs)
{
    const char *name = qb_graph_input_name(g, i);
    const qb_type *want = qb_graph_input_type(g, i);
    PyObject *given = PyMapping_GetItemString(inputs, name);
    if (!given) {
        if (!PyErr_ExceptionMatches(PyExc_KeyError)) return NULL;
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "evaluate: input '%s' is missing", name);
        return NULL;
    }
    PyObject *x = convert_array(given, array_check(given) || ops_foreign(given) ? -1 : want->dtype,
                                false, NULL);
    Py_DECREF(given);
    if (!x) return NULL;
    if (tracer_check(x)) {
        PyErr_Format(core.TracerError, "evaluate: input '%s' is a TraceTensor", name);
        Py_CLEAR(x);
        return NULL;
    }
    const qb_type *have = array_type(x);
    if (dtype_same(have, want)) return x;
    PyObject *a = dtype_text(want), *b = dtype_text(have);
    if (a && b)
        PyErr_Format(PyExc_ValueError, "evaluate: input '%s' is %U; the program takes %U", name, b,
                     a);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_DECREF(x);
    return NULL;
}

/* A Tensor, or a list of them for a program with several outputs. */
static PyObject *evaluate(PyObject *o, PyObject *inputs)
{
    Executable *e = (Executable *)o;
    if (!PyMapping_Check(inputs) || PySequence_Check(inputs)) {
        PyErr_Format(PyExc_TypeError, "evaluate takes a dict from input names to arrays, not %s",
                     stage_kind(inputs));
        return NULL;
    }
    const int n_in = qb_graph_input_count(e->graph), n_out = qb_plan_output_count(e->plan);
    PyObject *held = PyList_New(0), *list = PyList_New(n_out);
    const void **in = PyMem_New(const void *, n_in + 1);
    void **out = PyMem_New(void *, n_out + 1);
    bool ok = held && list && in && out;
    if (!ok) PyErr_NoMemory();
    for (int i = 0; ok && i < n_in; i++) {
        PyObject *x = input_value(e->graph, i, inputs);
        ok = x && !PyList_Append(held, x);
        if (ok) in[i] = tensor_data(x);
        Py_XDECREF(x);
    }
    for (int i = 0; ok && i < n_out; i++) {
        PyObject *x = (PyObject *)tensor_empty(qb_plan_output_type(e->plan, i));
        if ((ok = x)) out[i] = tensor_data(x), PyList_SET_ITEM(list, i, x);
    }
    qb_error err = {0};
    if (ok) {
        Py_BEGIN_ALLOW_THREADS ok = qb_plan_run(e->plan, in, out, &err);
        Py_END_ALLOW_THREADS if (!ok) error_raise(&err);
    }
    PyMem_Free(in);
    PyMem_Free(out);
    Py_XDECREF(held);
    PyObject *result = !ok ? NULL : Py_NewRef(n_out == 1 ? PyList_GET_ITEM(list, 0) : list);
    Py_XDECREF(list);
    return result;
}

static PyObject *call(PyObject *o, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"inputs", NULL};
    PyObject *inputs;
    return PyArg_ParseTupleAndKeywords(args, kwargs, "O:Executable", names, &inputs)
               ? evaluate(o, inputs)
               : NULL;
}

static PyObject *get_target(PyObject *o, void *Py_UNUSED(c))
{
    return Py_NewRef(((Executable *)o)->target);
}
static PyObject *get_node_count(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLong(qb_plan_node_count(((Executable *)o)->plan));
}
static PyObject *get_workspace(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLongLong(qb_plan_workspace(((Executable *)o)->plan));
}

static PyObject *executable_repr(PyObject *o)
{
    const Executable *e = (Executable *)o;
    return PyUnicode_FromFormat("Executable(target=%R, node_count=%d)", e->target,
                                qb_plan_node_count(e->plan));
}

static void executable_dealloc(PyObject *o)
{
    Executable *e = (Executable *)o;
    PyTypeObject *type = Py_TYPE(o);
    qb_plan_release(e->plan);
    qb_graph_release(e->graph);
    Py_XDECREF(e->target);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* ---- the types ---- */

static PyMethodDef program_methods[] = {
    {"vjp", vjp, METH_O,
     "vjp(cotangent_name)\n--\n\n{input name: Program of its gradient}, one for each floating "
     "input. The cotangent of the output is a further input of that name."},
    {"jvp", jvp, METH_O,
     "jvp(input_name)\n--\n\nThe Program of the derivative along an all-ones tangent of that "
     "input."},
    {"compile", (PyCFunction)(void (*)(void))compile, METH_VARARGS | METH_KEYWORDS,
     "compile(target=\"cpu\", device_ordinal=0)\n--\n\nAn Executable. ValueError for an unknown "
     "target, UnsupportedOperationError for one that is not in this build."},
    {"lower_text", lower_text, METH_NOARGS,
     "lower_text()\n--\n\nThe program as it was traced, one line per node."},
    {"stablehlo_text", stablehlo_text, METH_NOARGS,
     "stablehlo_text()\n--\n\nA StableHLO module with the function @main. "
     "UnsupportedOperationError, with .op, where StableHLO has no such op."},
    {0},
};
static PyGetSetDef program_getset[] = {
    {"output_shape", get_output_shape, NULL, "shape of the output, a list", NULL},
    {"output_shapes", get_output_shapes, NULL, "shapes of the outputs, a list of lists", NULL},
    {"inputs", get_inputs, NULL, "{name: ShapeDtype} in the order of the inputs", NULL},
    {0},
};
static PyMethodDef executable_methods[] = {
    {"evaluate", evaluate, METH_O,
     "evaluate(inputs)\n--\n\nThe output for a dict {input name: array}: a Tensor, or a list of "
     "them where there are several outputs. Entries that the program has no input for are "
     "ignored."},
    {0},
};
static PyGetSetDef executable_getset[] = {
    {"target", get_target, NULL, "name of the target", NULL},
    {"node_count", get_node_count, NULL, "nodes of the optimized program", NULL},
    {"workspace", get_workspace, NULL, "bytes of working memory of one run", NULL},
    {0},
};
static PyType_Slot program_slots[] = {
    {Py_tp_doc, "A traced program with named inputs, made by Compiler.trace or jit(f).lower(...)."},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_repr, program_repr},
    {Py_tp_methods, program_methods},
    {Py_tp_getset, program_getset},
    {0},
};
static PyType_Slot executable_slots[] = {
    {Py_tp_doc, "A compiled Program: call it with a dict from input names to arrays."},
    {Py_tp_dealloc, executable_dealloc},
    {Py_tp_repr, executable_repr},
    {Py_tp_call, call},
    {Py_tp_methods, executable_methods},
    {Py_tp_getset, executable_getset},
    {0},
};
enum { FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION };
static PyType_Spec program_spec = {"quabla.Program", sizeof(Program), 0, FLAGS, program_slots};
static PyType_Spec executable_spec = {"quabla.Executable", sizeof(Executable), 0, FLAGS,
                                      executable_slots};
static PyMethodDef functions[] = {
    {"_trace_program", trace, METH_VARARGS, NULL},
    {0},
};

bool program_init(PyObject *m)
{
    core.Program = (PyTypeObject *)PyType_FromSpec(&program_spec);
    core.Executable = (PyTypeObject *)PyType_FromSpec(&executable_spec);
    return core.Program && core.Executable && !PyModule_AddFunctions(m, functions) &&
           module_add(m, "Program", Py_NewRef(core.Program)) &&
           module_add(m, "Executable", Py_NewRef(core.Executable));
}
