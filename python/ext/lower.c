/* lower.c: jit(f).lower(...): the compiled program of a function as text, or as a callable for
   one signature only. */
#include "ext.h"

/* ---- ShapeDtype(shape, dtype=float64): stands for an array where only its type counts ---- */

typedef struct {
    PyObject_HEAD qb_type type;
} ShapeDtype;

static PyObject *shape_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "dtype", NULL};
    PyObject *shape, *dtype = Py_None;
    qb_type t;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:ShapeDtype", names, &shape, &dtype))
        return NULL;
    const int code = dtype_or(dtype, QB_F64);
    if (code < 0 || !read_shape("ShapeDtype", shape, &t)) return NULL;
    t.dtype = (uint8_t)code;
    return lower_shape_new(&t);
}

PyObject *lower_shape_new(const qb_type *t)
{
    ShapeDtype *s = PyObject_New(ShapeDtype, core.ShapeDtype);
    if (s) s->type = *t;
    return (PyObject *)s;
}

static void plain_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_Free(o);
    Py_DECREF(type);
}

static PyObject *get_shape(PyObject *o, void *Py_UNUSED(c))
{
    return array_shape_list(&((ShapeDtype *)o)->type);
}
static PyObject *get_dtype(PyObject *o, void *Py_UNUSED(c))
{
    return Py_NewRef(dtype_object(((ShapeDtype *)o)->type.dtype));
}

static PyObject *shape_repr(PyObject *o)
{
    PyObject *shape = get_shape(o, NULL);
    PyObject *out = shape ? PyUnicode_FromFormat("ShapeDtype(shape=%R, dtype=%s)", shape,
                                                 dtype_label(((ShapeDtype *)o)->type.dtype))
                          : NULL;
    Py_XDECREF(shape);
    return out;
}

static PyObject *shape_compare(PyObject *a, PyObject *b, int how)
{
    if (Py_TYPE(a) != Py_TYPE(b) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(dtype_same(&((ShapeDtype *)a)->type, &((ShapeDtype *)b)->type) ==
                           (how == Py_EQ));
}

static Py_hash_t shape_hash(PyObject *o)
{
    const qb_type *t = &((ShapeDtype *)o)->type;
    Py_uhash_t h = t->dtype + 17u;
    for (int i = 0; i < t->rank; i++) h = h * 1000003u + (Py_uhash_t)t->dims[i];
    return (Py_hash_t)h == -1 ? -2 : (Py_hash_t)h;
}

bool lower_shape(PyObject *o, qb_type *t)
{
    if (Py_TYPE(o) != core.ShapeDtype) return false;
    *t = ((ShapeDtype *)o)->type;
    return true;
}

static PyGetSetDef shape_getset[] = {
    {"shape", get_shape, NULL, "lengths of the axes, a list", NULL},
    {"dtype", get_dtype, NULL, "quabla.float32, quabla.float64 or quabla.bool_", NULL},
    {0},
};
static PyType_Slot shape_slots[] = {
    {Py_tp_doc,
     "ShapeDtype(shape, dtype=None)\n--\n\nStands for an array in jit(f).lower(...), anywhere "
     "in "
     "its pytrees. Compares by shape and dtype.\n\n"
     ">>> qb.jit(qb.sum).lower(qb.ShapeDtype((2, 3), qb.float32)).program.output_shapes\n[[]]"},
    {Py_tp_new, shape_new},
    {Py_tp_richcompare, shape_compare},
    {Py_tp_hash, shape_hash},
    {Py_tp_dealloc, plain_dealloc},
    {Py_tp_repr, shape_repr},
    {Py_tp_getset, shape_getset},
    {0},
};
static PyType_Spec shape_spec = {"quabla.ShapeDtype", sizeof(ShapeDtype), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, shape_slots};

/* ---- Lowered and Compiled: both hold one trace ---- */

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall; /* of Compiled */
    Entry *entry;
    PyObject *fun; /* the Transform: it sorts keywords, and is named in messages */
} Program;

static PyObject *compiled_call(PyObject *o, PyObject *const *args, size_t nargsf,
                               PyObject *kwnames);

static PyObject *program(PyTypeObject *type, Entry *e, PyObject *fun)
{
    Program *p = PyObject_New(Program, type);
    if (!p) return NULL;
    p->vectorcall = compiled_call;
    p->entry = entry_retain(e);
    p->fun = Py_NewRef(fun);
    return (PyObject *)p;
}

static void program_dealloc(PyObject *o)
{
    entry_release(((Program *)o)->entry);
    Py_DECREF(((Program *)o)->fun);
    plain_dealloc(o);
}

PyObject *lower_make(Transform *t, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Call c;
    Leaves leaves = {0};
    if (frame_top()) {
        PyErr_SetString(core.TracerError, "lower() is called inside a traced function");
        return NULL;
    }
    if (!call_sort(t, args, n, kwnames, &c)) return NULL;
    Entry *e = entry_trace(t, &c, true, &leaves);
    PyObject *out = e ? program(core.Lowered, e, (PyObject *)t) : NULL;
    entry_release(e);
    leaves_free(&leaves);
    call_free(&c);
    return out;
}

static PyObject *as_text(PyObject *o, PyObject *Py_UNUSED(none))
{
    qb_error err = {0};
    return program_text(qb_plan_text(((Program *)o)->entry->plan, &err), &err);
}

static PyObject *as_steps(PyObject *o, PyObject *Py_UNUSED(none))
{
    qb_error err = {0};
    return program_text(qb_plan_steps(((Program *)o)->entry->plan, &err), &err);
}

static PyObject *compile(PyObject *o, PyObject *Py_UNUSED(none))
{
    return program(core.Compiled, ((Program *)o)->entry, ((Program *)o)->fun);
}

static void mismatch(Program *p, const Call *c)
{
    Leaves leaves = {0};
    Transform *t = (Transform *)p->fun;
    Entry *e = entry_describe(t, c, false, &leaves);
    PyObject *signature = e ? entry_signature(p->entry) : NULL,
             *why = signature ? explain_reason(t, p->entry, e) : NULL;
    if (why)
        PyErr_Format(PyExc_ValueError,
                     "%R was compiled for the signature\n  %U\nand is called with another one: "
                     "%U; lower it for this one, or call the jitted function",
                     t, signature, why);
    Py_XDECREF(signature);
    Py_XDECREF(why);
    entry_release(e);
    leaves_free(&leaves);
}

/* With steps, also the profile of one run. */
static PyObject *call_with(Program *p, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                           qb_step_profile *steps)
{
    Call c;
    Leaves leaves = {0};
    if (!call_sort((Transform *)p->fun, args, n, kwnames, &c)) return NULL;
    const int m = entry_match(p->entry, &c, &leaves);
    PyObject *out = m == 1 ? entry_run(p->entry, leaves.v, steps) : NULL;
    if (!m) mismatch(p, &c);
    leaves_free(&leaves);
    call_free(&c);
    return out;
}

static PyObject *compiled_call(PyObject *o, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    return call_with((Program *)o, args, PyVectorcall_NARGS(nargsf), kwnames, NULL);
}

/* (what, file or None, line, sweep, seconds, flops, functions, bytes) */
static PyObject *profile_row(const qb_step_profile *s)
{
    return Py_BuildValue("(sziidddd)", s->what, s->file, (int)s->line, s->sweep, s->seconds,
                         s->flops, s->functions, s->bytes);
}

static PyObject *compiled_profile(PyObject *o, PyObject *const *args, Py_ssize_t n_args,
                                  PyObject *kwnames)
{
    Program *p = (Program *)o;
    const int n = qb_plan_step_count(p->entry->plan);
    qb_step_profile *steps = PyMem_Calloc((size_t)n + 1, sizeof *steps);
    if (!steps) return PyErr_NoMemory();
    PyObject *out = call_with(p, args, n_args, kwnames, steps), *rows = out ? PyList_New(n) : NULL;
    for (int i = 0; rows && i < n; i++) {
        PyObject *row = profile_row(&steps[i]);
        if (!row)
            Py_CLEAR(rows);
        else
            PyList_SET_ITEM(rows, i, row);
    }
    PyMem_Free(steps);
    PyObject *both = rows ? PyTuple_Pack(2, out, rows) : NULL;
    Py_XDECREF(out);
    Py_XDECREF(rows);
    return both;
}

static PyObject *program_repr(PyObject *o)
{
    PyObject *signature = entry_signature(((Program *)o)->entry);
    const char *kind = Py_TYPE(o) == core.Lowered ? "Lowered" : "Compiled";
    PyObject *out =
        signature ? PyUnicode_FromFormat("%s(%R, %U)", kind, ((Program *)o)->fun, signature) : NULL;
    Py_XDECREF(signature);
    return out;
}

static PyObject *get_node_count(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLong(qb_plan_node_count(((Program *)o)->entry->plan));
}

static PyObject *get_workspace(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLongLong(qb_plan_workspace(((Program *)o)->entry->plan));
}

static PyMethodDef lowered_methods[] = {
    {"as_text", as_text, METH_NOARGS, "as_text()\n--\n\nThe optimized program, one line per node."},
    {"as_steps", as_steps, METH_NOARGS,
     "as_steps()\n--\n\nThe steps of the plan and their memory."},
    {"compile", compile, METH_NOARGS,
     "compile()\n--\n\nA function for this signature; any other is a ValueError."},
    {0},
};
static PyMethodDef compiled_methods[] = {
    {"profile", (PyCFunction)(void (*)(void))compiled_profile, METH_FASTCALL | METH_KEYWORDS,
     "profile(*args, **kwargs)\n--\n\nThe result and what each step of the plan took: a list of "
     "(what, file, line, sweep, seconds, flops, functions, bytes)."},
    {0},
};
static PyObject *get_program(PyObject *o, void *Py_UNUSED(c))
{
    return program_new(((Program *)o)->entry->graph);
}

static PyGetSetDef lowered_getset[] = {
    {"program", get_program, NULL, "the Program: inputs by their paths, outputs in order", NULL},
    {"node_count", get_node_count, NULL, "nodes of the optimized program", NULL},
    {"workspace", get_workspace, NULL, "bytes of working memory of one run", NULL},
    {0},
};
static PyGetSetDef program_getset[] = {
    {"node_count", get_node_count, NULL, "nodes of the optimized program", NULL},
    {"workspace", get_workspace, NULL, "bytes of working memory of one run", NULL},
    {0},
};
static PyMemberDef compiled_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Program, vectorcall), READONLY, NULL},
    {0},
};
static PyType_Slot lowered_slots[] = {
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_repr, program_repr},
    {Py_tp_methods, lowered_methods},
    {Py_tp_getset, lowered_getset},
    {0},
};
static PyType_Slot compiled_slots[] = {
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_repr, program_repr},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_methods, compiled_methods},
    {Py_tp_getset, program_getset},
    {Py_tp_members, compiled_members},
    {0},
};
enum { FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION };
static PyType_Spec lowered_spec = {"quabla.Lowered", sizeof(Program), 0, FLAGS, lowered_slots};
static PyType_Spec compiled_spec = {"quabla.Compiled", sizeof(Program), 0,
                                    FLAGS | Py_TPFLAGS_HAVE_VECTORCALL, compiled_slots};

bool lower_init(PyObject *m)
{
    core.ShapeDtype = (PyTypeObject *)PyType_FromSpec(&shape_spec);
    core.Lowered = (PyTypeObject *)PyType_FromSpec(&lowered_spec);
    core.Compiled = (PyTypeObject *)PyType_FromSpec(&compiled_spec);
    return core.ShapeDtype && core.Lowered && core.Compiled &&
           module_add(m, "ShapeDtype", Py_NewRef(core.ShapeDtype));
}
