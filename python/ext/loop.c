/* loop.c: StepLoop(fn, state, data, made): one compiled step, (state, *data) -> (state, aux), whose
   state stays inside; `made` steps came before.

   The state lives in two sets of buffers; a step reads one and writes the other. A set that was
   handed out, by `state`, is never written again. run(n) makes n steps with no Python between
   them, and looks for signals every few milliseconds. With a list as log a step, or the steps
   since the last look, first append what they returned beside the state, in run one array per
   leaf with the steps along its first axis: so what the log tells and the state that was reached
   agree, whenever an interrupt comes. */
#include "ext.h"
#include <time.h>

typedef struct {
    PyObject **v; /* a Tensor per state leaf, or NULL */
    bool shared;  /* others may hold these: never write to them */
} Set;
typedef struct {
    PyObject_HEAD Transform *fn;
    PyObject *data; /* tuple of trees */
    TreeDef *tree;  /* of the state */
    Set now, next;
    Entry *entry, *other; /* the trace in use, NULL until the first step; the one used before */
    Leaves data_leaves;
    int64_t made; /* steps since the beginning */
    bool busy;
} Loop;

/* ---- sets ---- */

static void set_clear(Set *s, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; s->v && i < n; i++) Py_CLEAR(s->v[i]);
}

/* The set to write to, with memory of its own. */
static bool prepare(Loop *l)
{
    Set *s = &l->next;
    if (s->v && !s->shared) return true;
    const Py_ssize_t n = l->tree->n_leaves;
    if (!s->v && !(s->v = PyMem_Calloc((size_t)n + 1, sizeof *s->v)))
        return PyErr_NoMemory(), false;
    set_clear(s, n);
    s->shared = true; /* until complete */
    for (Py_ssize_t i = 0; i < n; i++) {
        const qb_type *t = qb_plan_output_type(l->entry->plan, l->entry->out.index[i]);
        if (!(s->v[i] = (PyObject *)tensor_empty(t))) return false;
    }
    s->shared = false;
    return true;
}

static void swap(Loop *l)
{
    const Set now = l->now;
    l->now = l->next;
    l->next = now;
}

/* ---- compiling ---- */

/* The step must return (state, aux), its state of the structure and types that it got. */
static bool check(Loop *l, const Entry *e)
{
    PyObject *whole = tree_unflatten(e->out.tree, e->out.leaves.v), *names = NULL;
    Leaves leaves = {0};
    TreeDef *tree = NULL;
    bool ok = whole && PyTuple_CheckExact(whole) && PyTuple_GET_SIZE(whole) == 2;
    if (whole && !ok)
        PyErr_Format(PyExc_TypeError, "StepLoop: the step returns (state, aux), not %s",
                     stage_kind(whole));
    if (ok) ok = (tree = tree_flatten(PyTuple_GET_ITEM(whole, 0), &leaves)) != NULL;
    if (ok && !tree_same(tree, l->tree)) {
        PyErr_Format(PyExc_TypeError,
                     "StepLoop: the step got a state of structure %R and returned %R", l->tree,
                     tree);
        ok = false;
    }
    for (Py_ssize_t i = 0; ok && i < l->tree->n_leaves; i++) {
        const qb_type *in = &((Tensor *)l->now.v[i])->type;
        const int k = e->out.index[i];
        const qb_type *out = k < 0 ? NULL : qb_plan_output_type(e->plan, k);
        if (out && dtype_same(in, out)) continue;
        ok = false;
        PyObject *a = dtype_text(in),
                 *b = out ? dtype_text(out) : PyUnicode_FromString("a constant");
        if (a && b && (names = tree_path_text(l->tree, i, 0)))
            PyErr_Format(PyExc_TypeError, "StepLoop: state '%U' goes in as %U and comes out as %U",
                         names, a, b);
        Py_XDECREF(a);
        Py_XDECREF(b);
    }
    Py_XDECREF(names);
    Py_XDECREF(whole);
    Py_XDECREF(tree);
    leaves_free(&leaves);
    return ok;
}

static PyObject *state_tree(Loop *l) { return tree_unflatten(l->tree, l->now.v); }

static bool compile(Loop *l)
{
    if (l->entry) return true;
    const Py_ssize_t n = PyTuple_GET_SIZE(l->data);
    PyObject *state = state_tree(l), **args = state ? PyMem_New(PyObject *, n + 1) : NULL;
    Leaves leaves = {0};
    Entry *e = NULL;
    if (args) {
        args[0] = state;
        for (Py_ssize_t i = 0; i < n; i++) args[i + 1] = PyTuple_GET_ITEM(l->data, i);
        e = entry_trace(l->fn, &(Call){.args = args, .n = n + 1}, false, &leaves);
    } else if (state) {
        PyErr_NoMemory();
    }
    bool ok = e && check(l, e);
    leaves_free(&l->data_leaves);
    for (Py_ssize_t i = l->tree->n_leaves; ok && i < leaves.n; i++)
        ok = leaves_push(&l->data_leaves, Py_NewRef(leaves.v[i]));
    if (ok)
        l->entry = e;
    else
        entry_release(e);
    PyMem_Free(args);
    Py_XDECREF(state);
    leaves_free(&leaves);
    return ok;
}

/* ---- stepping ---- */

typedef struct {
    int sides; /* 1 where no second step follows */
    const void **in[2];
    void **out[2];
} Pointers; /* for even and odd steps */

/* Input and output memory for each direction, in one piece. aux: memory of the outputs behind the
   state. */
static bool point(Loop *l, PyObject *const *aux, Pointers *p)
{
    const Entry *e = l->entry;
    const Py_ssize_t n_state = l->tree->n_leaves, n_out = e->out.leaves.n;
    const size_t n_side = (size_t)e->n_arrays + (size_t)n_out + 1;
    void **room = PyMem_Calloc((size_t)p->sides * n_side, sizeof *room);
    if (!room) return PyErr_NoMemory(), false;
    for (int k = 0; k < p->sides; k++, room += n_side) {
        const Set *from = k ? &l->next : &l->now, *to = k ? &l->now : &l->next;
        Py_ssize_t n = 0;
        p->out[k] = room;
        p->in[k] = (const void **)(room + n_out);
        for (Py_ssize_t i = 0; i < n_state; i++) {
            p->in[k][n++] = tensor_data(from->v[i]);
            p->out[k][e->out.index[i]] = tensor_data(to->v[i]);
        }
        for (Py_ssize_t i = n_state; i < e->in->n_leaves; i++)
            if (e->specs[i].kind == LEAF_ARRAY)
                p->in[k][n++] = tensor_data(l->data_leaves.v[i - n_state]);
        for (Py_ssize_t i = n_state; i < n_out; i++)
            if (e->out.index[i] >= 0) p->out[k][e->out.index[i]] = tensor_data(aux[i - n_state]);
    }
    return true;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How far the memory of output k moves from one step to the next. */
typedef struct {
    int k;
    int64_t bytes;
} Move;

/* Up to `steps` steps, for about 10 ms. Returns the number made; *ok false with *err where one
   failed. */
static int64_t burst(qb_plan *plan, const Pointers *p, const Move *moves, Py_ssize_t n_moves,
                     int64_t steps, bool *ok, qb_error *err)
{
    const double start = steps > 1 ? seconds() : 0;
    int64_t done = 0;
    *ok = true;
    while (done < steps && *ok) {
        *ok = qb_plan_run(plan, p->in[done & 1], p->out[done & 1], err);
        done += *ok;
        for (Py_ssize_t i = 0; i < n_moves; i++)
            for (int side = 0; side < p->sides; side++)
                p->out[side][moves[i].k] = (char *)p->out[side][moves[i].k] + moves[i].bytes;
        if (done < steps && seconds() - start > 0.01) break;
    }
    return done;
}

/* One burst of at most `most` steps. Returns the number made; *ok false with an exception. */
static int64_t stretch(Loop *l, int64_t most, PyObject *const *aux, const Move *moves,
                       Py_ssize_t n_moves, bool *ok)
{
    Pointers p = {.sides = most > 1 ? 2 : 1};
    qb_error err = {0};
    int64_t done = 0;
    *ok = prepare(l) && point(l, aux, &p);
    if (*ok) {
        Py_BEGIN_ALLOW_THREADS;
        done = burst(l->entry->plan, &p, moves, n_moves, most, ok, &err);
        Py_END_ALLOW_THREADS;
        if (!*ok) error_raise(&err);
    }
    PyMem_Free(p.out[0]);
    if (done & 1) swap(l);
    l->made += done;
    return done;
}

/* Steps that may follow each other without new memory: the first leaves a shared set for good. */
static int64_t in_one_go(const Loop *l, int64_t steps) { return l->now.shared ? 1 : steps; }

static bool advance(Loop *l, int64_t steps, PyObject *const *aux)
{
    bool ok = true;
    while (ok && steps > 0) {
        steps -= stretch(l, in_one_go(l, steps), aux, NULL, 0, &ok);
        ok = ok && !PyErr_CheckSignals();
    }
    return ok;
}

/* What the step returned beside the state: the part of its tree after the root and the state. */
static PyObject *aux_tree(const Loop *l, PyObject *const *aux)
{
    return tree_unflatten_part(l->entry->out.tree, 1 + Py_SIZE(l->tree), aux);
}

/* Memory for `rows` results of the leaves behind the state (0: one, without a leading axis), and
   how it moves from row to row. The constants among them stay as they are. */
static bool new_aux(const Loop *l, int64_t rows, PyObject **aux, Move *moves, Py_ssize_t *n_moves)
{
    const Entry *e = l->entry;
    const Py_ssize_t n_state = l->tree->n_leaves;
    *n_moves = 0;
    for (Py_ssize_t i = n_state; i < e->out.leaves.n; i++) {
        const int k = e->out.index[i];
        PyObject *leaf;
        if (k < 0) {
            leaf = Py_NewRef(e->out.leaves.v[i]);
        } else {
            qb_type t = *qb_plan_output_type(e->plan, k);
            if (rows) moves[(*n_moves)++] = (Move){k, qb_type_bytes(&t)};
            if (rows && t.rank == QB_MAX_RANK) {
                PyErr_SetString(PyExc_ValueError, "StepLoop: a logged result has too many axes");
                return false;
            }
            if (rows) {
                memmove(t.dims + 1, t.dims, sizeof *t.dims * t.rank);
                t.dims[0] = rows;
                t.rank++;
            }
            leaf = (PyObject *)tensor_empty(&t);
        }
        if (!leaf) return false;
        Py_XSETREF(aux[i - n_state], leaf);
    }
    return true;
}

/* The first `rows` rows of a logged array. */
static PyObject *head(PyObject *x, int64_t rows)
{
    qb_type t = *array_type(x);
    if (t.dims[0] == rows) return Py_NewRef(x);
    t.dims[0] = rows;
    PyObject *out = (PyObject *)tensor_empty(&t);
    if (out) memcpy(tensor_data(out), tensor_data(x), (size_t)qb_type_bytes(&t));
    return out;
}

/* (first step, number of steps, tree of arrays) goes to the log. Steals tree, which may be NULL. */
static bool write_log(const Loop *l, int64_t done, PyObject *tree, PyObject *log)
{
    PyObject *entry =
        tree ? Py_BuildValue("(LLN)", (long long)(l->made - done), (long long)done, tree) : NULL;
    const bool ok = entry && !PyList_Append(log, entry);
    Py_XDECREF(entry);
    return ok;
}

static bool record(Loop *l, int64_t done, PyObject **aux, PyObject *log)
{
    const Entry *e = l->entry;
    const Py_ssize_t n_state = l->tree->n_leaves;
    for (Py_ssize_t i = n_state; i < e->out.leaves.n; i++) {
        if (e->out.index[i] < 0) continue;
        PyObject *x = head(aux[i - n_state], done);
        if (!x) return false;
        Py_SETREF(aux[i - n_state], x);
    }
    return write_log(l, done, aux_tree(l, aux), log);
}

enum { LOG_ROWS = 4096 }; /* steps in one burst of a logged run, at most */

static bool advance_logged(Loop *l, int64_t steps, PyObject **aux, Move *moves, PyObject *log)
{
    bool ok = true;
    while (ok && steps > 0) {
        const int64_t most = in_one_go(l, steps < LOG_ROWS ? steps : LOG_ROWS);
        Py_ssize_t n_moves;
        if (!new_aux(l, most, aux, moves, &n_moves)) return false;
        const int64_t done = stretch(l, most, aux, moves, n_moves, &ok);
        PyObject *type = NULL, *value = NULL, *trace = NULL; /* of the step that failed */
        PyErr_Fetch(&type, &value, &trace);
        if (done && !record(l, done, aux, log)) ok = false;
        if (type) PyErr_Restore(type, value, trace);
        steps -= done;
        ok = ok && !PyErr_CheckSignals();
    }
    return ok;
}

/* rows: the log gets arrays with a row per step, and the result is None. */
static PyObject *steps_made(Loop *l, int64_t steps, PyObject *log, bool rows)
{
    if (l->busy) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "this StepLoop is running already, in another thread or in the step itself");
        return NULL;
    }
    if (frame_top()) {
        PyErr_SetString(core.TracerError, "a StepLoop cannot run inside a traced function");
        return NULL;
    }
    l->busy = true;
    PyObject *out = NULL, **aux = NULL;
    Move *moves = NULL;
    Py_ssize_t n = 0, n_moves;
    bool ok = compile(l);
    if (ok) {
        n = l->entry->out.leaves.n - l->tree->n_leaves;
        aux = PyMem_Calloc((size_t)n + 1, sizeof *aux);
        moves = PyMem_Calloc((size_t)n + 1, sizeof *moves);
        ok = (aux && moves) || (PyErr_NoMemory(), false);
    }
    if (ok && rows) {
        if (advance_logged(l, steps, aux, moves, log)) out = Py_NewRef(Py_None);
    } else if (ok && new_aux(l, 0, aux, moves, &n_moves)) {
        const int64_t before = l->made;
        ok = advance(l, steps, aux);
        PyObject *type = NULL, *value = NULL, *trace = NULL; /* of an interrupt after the step */
        PyErr_Fetch(&type, &value, &trace);
        if (l->made > before) out = aux_tree(l, aux);
        if (out && log) ok &= write_log(l, l->made - before, Py_NewRef(out), log);
        if (type) PyErr_Restore(type, value, trace);
        if (!ok) Py_CLEAR(out);
    }
    for (Py_ssize_t i = 0; aux && i < n; i++) Py_XDECREF(aux[i]);
    PyMem_Free(aux);
    PyMem_Free(moves);
    l->busy = false;
    return out;
}

static PyObject *step(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    if (n <= 1 && (!n || PyList_Check(args[0])))
        return steps_made((Loop *)o, 1, n ? args[0] : NULL, false);
    PyErr_SetString(PyExc_TypeError, "step takes a list as log, or nothing");
    return NULL;
}

static PyObject *run(PyObject *o, PyObject *args)
{
    PyObject *count, *log = NULL;
    if (!PyArg_ParseTuple(args, "O|O!:run", &count, &PyList_Type, &log)) return NULL;
    const long long n = PyLong_Check(count) ? PyLong_AsLongLong(count) : -1;
    if (n >= 1) return steps_made((Loop *)o, n, log, log != NULL);
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "run: the number of steps is an int >= 1, not %R", count);
    return NULL;
}

/* ---- state and data ---- */

static PyObject *get_state(PyObject *o, void *Py_UNUSED(c))
{
    Loop *l = (Loop *)o;
    if (l->busy) {
        PyErr_SetString(PyExc_RuntimeError, "this StepLoop is running, so its state is changing");
        return NULL;
    }
    l->now.shared = true;
    return state_tree(l);
}

/* Does the data fit this trace? 1, 0, or -1 with an exception. */
static int data_fits(const Loop *l, const Entry *e, PyObject *data, Leaves *leaves)
{
    leaves_free(leaves);
    if (!e || PyTuple_GET_SIZE(data) + 1 != e->in->nodes[0].n) return 0;
    return entry_match_part(e, 1 + Py_SIZE(l->tree), l->tree->n_leaves, PySequence_Fast_ITEMS(data),
                            PyTuple_GET_SIZE(data), leaves);
}

static PyObject *set_data(PyObject *o, PyObject *data)
{
    Loop *l = (Loop *)o;
    if (l->busy || !PyTuple_Check(data)) {
        PyErr_SetString(l->busy ? PyExc_RuntimeError : PyExc_TypeError,
                        l->busy ? "this StepLoop is running"
                                : "set_data takes a tuple, one tree per data argument");
        return NULL;
    }
    Leaves leaves = {0};
    int m = data_fits(l, l->entry, data, &leaves);
    if (!m) { /* the last batch of an epoch may be smaller: two traces take turns */
        Entry *e = l->entry;
        l->entry = l->other;
        l->other = e;
        m = data_fits(l, l->entry, data, &leaves);
    }
    bool ok = m >= 0;
    if (!m) { /* traced at the next step */
        entry_release(l->entry);
        l->entry = NULL;
    } else if (ok) {
        leaves_free(&l->data_leaves);
        for (Py_ssize_t i = 0; ok && i < leaves.n; i++)
            ok = leaves_push(&l->data_leaves, Py_NewRef(leaves.v[i]));
    }
    if (ok) Py_SETREF(l->data, Py_NewRef(data));
    leaves_free(&leaves);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- the type ---- */

static PyObject *construct(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fn", "state", "data", "device", "precision", "made", NULL};
    PyObject *fn, *state, *data = NULL, *device = Py_None, *precision = Py_None;
    long long made = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|O!OOL:StepLoop", names, &fn, &state,
                                     &PyTuple_Type, &data, &device, &precision, &made))
        return NULL;
    Loop *l = PyObject_GC_New(Loop, core.StepLoop);
    if (!l) return NULL;
    memset((char *)l + sizeof(PyObject), 0, sizeof *l - sizeof(PyObject));
    l->made = made;
    PyObject_GC_Track(l);
    PyObject *arrays = stage_arrays(state, NULL);
    Leaves leaves = {0};
    qb_options options;
    bool ok = arrays && (l->tree = tree_flatten(arrays, &leaves)) &&
              (l->fn = (Transform *)transform_simple(DO_JIT, fn, false));
    if (ok) {
        l->fn->device = Py_NewRef(device);
        l->fn->precision = Py_NewRef(precision);
        l->data = data ? Py_NewRef(data) : PyTuple_New(0);
        l->now = (Set){PyMem_Calloc((size_t)leaves.n + 1, sizeof *l->now.v), true};
        ok = l->data && jit_options(l->fn, &options);
        if (ok && !l->now.v) ok = (PyErr_NoMemory(), false);
    }
    for (Py_ssize_t i = 0; ok && i < leaves.n; i++) {
        ok = tensor_check(leaves.v[i]);
        if (ok)
            l->now.v[i] = Py_NewRef(leaves.v[i]);
        else
            PyErr_Format(PyExc_TypeError, "StepLoop: the state holds %s; it is made of arrays",
                         stage_kind(leaves.v[i]));
    }
    Py_XDECREF(arrays);
    leaves_free(&leaves);
    if (!ok) Py_CLEAR(l);
    return (PyObject *)l;
}

static int traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(((Loop *)o)->fn);
    Py_VISIT(((Loop *)o)->data);
    Py_VISIT(Py_TYPE(o));
    return 0;
}

static int clear(PyObject *o)
{
    Py_CLEAR(((Loop *)o)->fn);
    Py_CLEAR(((Loop *)o)->data);
    return 0;
}

static void dealloc(PyObject *o)
{
    Loop *l = (Loop *)o;
    PyObject_GC_UnTrack(o);
    clear(o);
    const Py_ssize_t n = l->tree ? l->tree->n_leaves : 0;
    set_clear(&l->now, n);
    set_clear(&l->next, n);
    PyMem_Free(l->now.v);
    PyMem_Free(l->next.v);
    entry_release(l->entry);
    entry_release(l->other);
    leaves_free(&l->data_leaves);
    Py_XDECREF(l->tree);
    PyObject_GC_Del(o);
    Py_DECREF(core.StepLoop);
}

static PyMethodDef methods[] = {
    {"step", (PyCFunction)(void (*)(void))step, METH_FASTCALL,
     "step(log=None)\n--\n\nOne step; what the function returned beside the state. With a list as "
     "log, (number of the step, 1, that) is appended to it."},
    {"run", run, METH_VARARGS,
     "run(n, log=None)\n--\n\nn steps; what the last one returned beside the state. Ctrl-C stops "
     "between two steps. With a list as log: None, and (first step, steps, tree of what they "
     "returned) are appended to it, the steps along the first axis."},
    {"set_data", set_data, METH_O,
     "set_data(data)\n--\n\nThe data of the steps from now on: a tuple, one tree per argument."},
    {0},
};
static PyObject *get_made(PyObject *o, void *Py_UNUSED(c))
{
    return PyLong_FromLongLong(((Loop *)o)->made);
}

static PyGetSetDef getset[] = {
    {"state", get_state, NULL, "the state now", NULL},
    {"made", get_made, NULL, "steps made, those before this loop included", NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "StepLoop(fn, state, data=(), device=None, precision=None, made=0)\n--\n\n"
                "fn(state, *data) -> (state, aux), compiled once, with the state kept inside."},
    {Py_tp_new, construct},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {0},
};
static PyType_Spec spec = {"quabla._core.StepLoop", sizeof(Loop), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
                           slots};

bool loop_init(PyObject *m)
{
    core.StepLoop = (PyTypeObject *)PyType_FromSpec(&spec);
    return core.StepLoop && module_add(m, "StepLoop", Py_NewRef(core.StepLoop));
}
