/* tracer.c: traces under construction, and their values.

   A trace runs the user's function once with TraceTensors in place of arrays; each op adds a node
   to the graph of the innermost frame of this thread. A value of an enclosing frame becomes a
   hidden input of each frame further in, so that a closure over a traced value needs nothing from
   the user: an inner transform sees a constant there, the outer one differentiates through it. */
#include "ext.h"

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#endif

static _Thread_local Frame *top;

Frame *frame_top(void) { return top; }

/* ---- what a frame has seen: a hash table from (owner, id) to a value of the frame ---- */

struct Seen {
    const void *owner;
    uint32_t id;
    qb_value value;
}; /* a Tensor and 0, or the graph of a value and its id */

static size_t spot(const Frame *f, const void *owner, uint32_t id)
{
    uint64_t h =
        ((uint64_t)(uintptr_t)owner >> 4) * 0x9E3779B97F4A7C15u ^ (id + 1) * 0xD6E8FEB86659FD93u;
    size_t i = (size_t)(h ^ h >> 29) & (f->cap_seen - 1);
    while (f->seen[i].owner && (f->seen[i].owner != owner || f->seen[i].id != id))
        i = (i + 1) & (f->cap_seen - 1);
    return i;
}

static bool recall(const Frame *f, const void *owner, uint32_t id, qb_value *out)
{
    if (!f->n_seen) return false;
    const struct Seen *s = &f->seen[spot(f, owner, id)];
    if (s->owner) *out = s->value;
    return s->owner != NULL;
}

static bool grow(Frame *f)
{
    const size_t old_cap = f->cap_seen;
    struct Seen *old = f->seen, *seen = PyMem_Calloc(old_cap ? 2 * old_cap : 16, sizeof *seen);
    if (!seen) return PyErr_NoMemory(), false;
    f->seen = seen;
    f->cap_seen = old_cap ? 2 * old_cap : 16;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].owner) f->seen[spot(f, old[i].owner, old[i].id)] = old[i];
    PyMem_Free(old);
    return true;
}

static bool remember(Frame *f, const void *owner, uint32_t id, qb_value v)
{
    if (2 * f->n_seen >= f->cap_seen && !grow(f)) return false;
    f->seen[spot(f, owner, id)] = (struct Seen){owner, id, v};
    f->n_seen++;
    return true;
}

/* ---- frames ---- */

Frame *frame_retain(Frame *f)
{
    f->refs++;
    return f;
}

void frame_release(Frame *f)
{
    if (!f || --f->refs) return;
    qb_graph_release(f->graph);
    PyMem_Free(f->bound);
    PyMem_Free(f->seen);
    Py_XDECREF(f->keep);
    Py_XDECREF(f->file);
    PyMem_Free(f);
}

Frame *frame_push(void)
{
    qb_error err = {0};
    Frame *f = PyMem_Calloc(1, sizeof *f);
    if (!f) return (Frame *)PyErr_NoMemory();
    f->refs = 1;
    f->keep = PyList_New(0);
    f->graph = f->keep ? qb_graph_new(&err) : NULL;
    if (!f->graph) {
        if (f->keep) error_raise(&err);
        frame_release(f);
        return NULL;
    }
    f->outer = top;
    f->live = true;
    return top = f;
}

/* What only a running trace needs goes now; bound and graph stay for the transform that follows. */
void frame_pop(Frame *f)
{
    top = f->outer;
    f->outer = NULL;
    f->live = false;
    f->n_seen = f->cap_seen = 0;
    PyMem_Free(f->seen);
    f->seen = NULL;
    Py_CLEAR(f->keep);
}

static bool bind(Frame *f, qb_value outer)
{
    if (f->n_inputs == f->cap_inputs) {
        const int cap = f->cap_inputs ? 2 * f->cap_inputs : 8;
        qb_value *bound = PyMem_Realloc(f->bound, sizeof *bound * (size_t)cap);
        if (!bound) return PyErr_NoMemory(), false;
        f->bound = bound;
        f->cap_inputs = cap;
    }
    f->bound[f->n_inputs++] = outer;
    return true;
}

static bool input(Frame *f, const char *name, const qb_type *t, qb_value bound, qb_value *out)
{
    qb_error err = {0};
    const qb_type copy = *t; /* it may lie in a graph that grows */
    *out = qb_graph_input(f->graph, name, &copy, &err);
    if (!out->graph) return error_raise(&err), false;
    return bind(f, bound);
}

PyObject *frame_input(Frame *f, const char *name, const qb_type *t, qb_value bound)
{
    qb_value v;
    return input(f, name, t, bound, &v) ? tracer_new(f, v) : NULL;
}

bool frame_capture(Frame *f, Frame *owner, qb_value v, qb_value *out)
{
    if (f == owner) return *out = v, true;
    if (!f || !f->outer || !owner->live) {
        PyErr_SetString(core.TracerError,
                        owner->live ? "a TraceTensor is used outside the trace that it belongs to"
                                    : "a TraceTensor is used after its trace has ended; return it "
                                      "from the traced function instead of "
                                      "storing it elsewhere");
        return false;
    }
    qb_value outer;
    if (!frame_capture(f->outer, owner, v, &outer)) return false;
    if (recall(f, outer.graph, outer.id, out)) return true;
    return input(f, NULL, qb_type_of(outer), outer, out) &&
           remember(f, outer.graph, outer.id, *out);
}

/* ---- operands ---- */

/* Do all elements have the bits of the first? Stops at the first that does not. */
static bool uniform(const Tensor *t)
{
    const char *data = qb_buffer_data(t->buffer);
    const size_t item = (size_t)qb_dtype_size(t->type.dtype),
                 bytes = (size_t)qb_type_bytes(&t->type);
    return bytes == item || !memcmp(data, data + item, bytes - item);
}

/* An eager array is a constant of the trace, fixed here. */
static bool constant(Frame *f, Tensor *t, qb_value *out)
{
    if (recall(f, t, 0, out)) return true;
    qb_error err = {0};
    if (uniform(t))
        *out = qb_constant(f->graph, &t->type, tensor_element(t, 0), &err);
    else
        *out = qb_constant_dense(f->graph, &t->type, t->buffer, &err);
    if (!out->graph) return error_raise(&err), false;
    return !PyList_Append(f->keep, (PyObject *)t) && remember(f, t, 0, *out);
}

static bool scalar(Frame *f, double value, int dtype, bool weak, qb_value *out)
{
    qb_error err = {0};
    const qb_type t = {.dtype = (uint8_t)dtype, .weak = weak};
    *out = qb_constant(f->graph, &t, value, &err);
    return out->graph ? true : (error_raise(&err), false);
}

bool frame_lift(Frame *f, PyObject *x, qb_value *out)
{
    if (tracer_check(x)) return frame_capture(f, ((Tracer *)x)->frame, ((Tracer *)x)->value, out);
    if (tensor_check(x)) return constant(f, (Tensor *)x, out);
    if (PyFloat_Check(x)) return scalar(f, PyFloat_AS_DOUBLE(x), QB_F64, true, out);
    if (PyBool_Check(x)) return scalar(f, x == Py_True, QB_BOOL, false, out);
    if (PyLong_Check(x)) {
        double value;
        return convert_int(x, &value) && scalar(f, value, QB_F64, true, out);
    }
    bool weak = false;
    PyObject *t = convert_array(x, -1, false, &weak);
    if (!t) return false;
    const bool ok = weak ? scalar(f, tensor_element((Tensor *)t, 0), QB_F64, true, out)
                         : constant(f, (Tensor *)t, out);
    Py_DECREF(t);
    return ok;
}

/* ---- the user's line ---- */

/* Is this the code of the package itself? Judged by the module's name, which is the same wherever
   the package lies. */
static bool ours(PyFrameObject *p)
{
#if PY_VERSION_HEX < 0x030B0000
    PyObject *globals = Py_NewRef(p->f_globals);
#else
    PyObject *globals = PyFrame_GetGlobals(p);
#endif
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    const bool own = text && !strncmp(text, "quabla", 6) && (!text[6] || text[6] == '.');
    Py_DECREF(globals);
    return own;
}

void frame_locate(Frame *f)
{
    PyFrameObject *p = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    while (p && ours(p)) {
        PyFrameObject *back = PyFrame_GetBack(p);
        Py_DECREF(p);
        p = back;
    }
    if (!p) return;
    PyCodeObject *code = PyFrame_GetCode(p);
    const int line = PyFrame_GetLineNumber(p);
    Py_DECREF(p);
    if (code->co_filename != f->file || line != f->line) {
        const char *file = PyUnicode_AsUTF8(code->co_filename);
        if (file)
            qb_graph_at(f->graph, file, line);
        else
            PyErr_Clear();
        Py_XSETREF(f->file, Py_NewRef(code->co_filename));
        f->line = line;
    }
    Py_DECREF(code);
}

/* ---- the type ---- */

PyObject *tracer_new(Frame *f, qb_value v)
{
    Tracer *t = PyObject_New(Tracer, core.Tracer);
    if (!t) return NULL;
    t->frame = frame_retain(f);
    t->weakrefs = NULL;
    t->value = v;
    return (PyObject *)t;
}

static void dealloc(PyObject *o)
{
    Tracer *t = (Tracer *)o;
    if (t->weakrefs) PyObject_ClearWeakRefs(o);
    frame_release(t->frame);
    PyObject_Free(t);
    Py_DECREF(core.Tracer);
}

static PyObject *tracer_repr(PyObject *o)
{
    const qb_type *t = tracer_type(o);
    PyObject *shape = array_shape_list(t);
    if (!shape) return NULL;
    PyObject *text = PyUnicode_FromFormat("TraceTensor(node_id=%u, shape=%R, dtype=%s)",
                                          ((Tracer *)o)->value.id, shape, dtype_label(t->dtype));
    Py_DECREF(shape);
    return text;
}

static PyObject *no_value(const char *what)
{
    PyErr_Format(
        core.TracerError,
        "%s needs data, and a TraceTensor has none while its function is traced; do this outside "
        "the traced function, or return the value from it",
        what);
    return NULL;
}

static int to_bool(PyObject *Py_UNUSED(o))
{
    PyErr_SetString(
        core.TracerError,
        "a TraceTensor cannot decide an `if` or `while`: its value is not known while the function "
        "is traced; use quabla.where to select elements, or a control-flow function such as "
        "quabla.cond");
    return -1;
}

static PyObject *to_float(PyObject *Py_UNUSED(o)) { return no_value("float()"); }
static PyObject *to_int(PyObject *Py_UNUSED(o)) { return no_value("int()"); }
static PyObject *item(PyObject *Py_UNUSED(o), PyObject *Py_UNUSED(none))
{
    return no_value("item()");
}
static PyObject *format(PyObject *o, PyObject *spec)
{
    bool plain = PyUnicode_Check(spec) && PyUnicode_GET_LENGTH(spec) == 0;
    return plain ? PyObject_Str(o) : no_value("a format other than \"{}\"");
}
static PyObject *tolist(PyObject *Py_UNUSED(o), PyObject *Py_UNUSED(none))
{
    return no_value("tolist()");
}
static PyObject *numpy(PyObject *Py_UNUSED(o), PyObject *Py_UNUSED(none))
{
    return no_value("numpy()");
}
static PyObject *as_array(PyObject *Py_UNUSED(o), PyObject *Py_UNUSED(a), PyObject *Py_UNUSED(k))
{
    return no_value("conversion to a NumPy array");
}
static PyObject *reduce(PyObject *Py_UNUSED(o), PyObject *Py_UNUSED(none))
{
    return no_value("pickling");
}
static PyObject *itself(PyObject *o, PyObject *Py_UNUSED(any)) { return Py_NewRef(o); }
static PyObject *get_node_id(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromUnsignedLong(((Tracer *)o)->value.id);
}

static PyMethodDef methods[] = {
    {"item", item, METH_NOARGS, "item()\n--\n\nRaises TracerError: a traced value has no data."},
    {"__format__", format, METH_O, NULL},
    {"tolist", tolist, METH_NOARGS,
     "tolist()\n--\n\nRaises TracerError: a traced value has no data."},
    {"numpy", numpy, METH_NOARGS, "numpy()\n--\n\nRaises TracerError: a traced value has no data."},
    {"__array__", (PyCFunction)(void (*)(void))as_array, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {"__copy__", itself, METH_NOARGS, NULL},
    {"__deepcopy__", itself, METH_O, NULL},
    {0},
};
static PyGetSetDef node_id[] = {{"node_id", get_node_id, NULL, "number of the value in its graph",
                                 NULL},
                                {0}};
static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tracer, weakrefs), READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "A value of a trace: shape and dtype, no data. Traced functions get these in place "
                "of arrays."},
    {Py_tp_dealloc, dealloc},
    {Py_tp_repr, tracer_repr},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, array_getset},
    {Py_nb_bool, to_bool},
    {Py_nb_float, to_float},
    {Py_nb_int, to_int},
    ARRAY_SLOTS,
    {0},
};
static PyType_Spec spec = {"quabla.TraceTensor", sizeof(Tracer), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

bool tracer_init(PyObject *m)
{
    core.Tracer = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!core.Tracer) return false;
    PyObject *get = PyDescr_NewGetSet(core.Tracer, node_id);
    const bool ok = get && !PyDict_SetItemString(core.Tracer->tp_dict, "node_id", get);
    Py_XDECREF(get);
    return ok && module_add(m, "TraceTensor", Py_NewRef(core.Tracer));
}
