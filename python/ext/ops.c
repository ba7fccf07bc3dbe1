/* ops.c: an op applied to anything that can be an operand, and the functions and methods that the
   op table gives.

   One traced operand makes the op a node of the innermost trace; otherwise it runs at once. Both
   go through the same table of the core, so they give the same bits. */
#include "ext.h"

/* Below this many bytes an eager op is not worth giving up the interpreter lock. */
enum { LONG_BYTES = 1 << 18, FEW = 4 };

typedef struct {
    const qb_type *type;
    const void *data;
    PyObject *hold; /* a converted operand; a reference */
    double value;
    unsigned char flag;
} Operand;

static const qb_type weak_scalar = {.dtype = QB_F64, .weak = 1}, bool_scalar = {.dtype = QB_BOOL};

/* ---- operands ---- */

/* An array of another library: it exports a buffer, or says how to become a NumPy array. Byte
   strings are neither. */
bool ops_foreign(PyObject *o)
{
    if (array_check(o) || PyFloat_Check(o) || PyLong_Check(o) || PyUnicode_Check(o) ||
        PyBytes_Check(o) || PyByteArray_Check(o) || PyList_Check(o) || PyTuple_Check(o) ||
        PyType_Check(o))
        return false;
    return PyObject_CheckBuffer(o) || PyObject_HasAttrString(o, "__array__");
}

bool ops_operand(PyObject *o)
{
    return array_check(o) || PyFloat_Check(o) || PyLong_Check(o) || PyList_Check(o) ||
           PyTuple_Check(o) || ops_foreign(o);
}

PyObject *ops_array(PyObject *o)
{
    return array_check(o) ? Py_NewRef(o) : convert_array(o, -1, false, NULL);
}

/* Says of which op, since the conversion does not know. */
static bool usable(int op, PyObject *x)
{
    if (ops_operand(x) || PyRange_Check(x)) return true;
    PyErr_Format(PyExc_TypeError,
                 "%s: cannot take %s; operands are numbers, lists, NumPy arrays and Tensors",
                 qb_op_at(op).name, stage_kind(x));
    return false;
}

static bool fill(int op, Operand *p, PyObject *x)
{
    p->hold = NULL;
    if (tensor_check(x)) {
        p->type = &((Tensor *)x)->type;
        p->data = tensor_data(x);
        return true;
    }
    if (PyFloat_Check(x)) {
        p->value = PyFloat_AS_DOUBLE(x);
        p->type = &weak_scalar;
        p->data = &p->value;
        return true;
    }
    if (PyBool_Check(x)) {
        p->flag = x == Py_True;
        p->type = &bool_scalar;
        p->data = &p->flag;
        return true;
    }
    if (PyLong_Check(x)) {
        p->type = &weak_scalar;
        p->data = &p->value;
        return convert_int(x, &p->value) || error_says("array", qb_op_at(op).name);
    }
    bool weak = false;
    if (!usable(op, x)) return false;
    p->hold = convert_array(x, -1, false, &weak);
    if (!p->hold) return error_says("array", qb_op_at(op).name);
    p->type = weak ? &weak_scalar : &((Tensor *)p->hold)->type;
    p->data = tensor_data(p->hold);
    return true;
}

/* ---- apply ---- */

static PyObject *eager(int op, const qb_attr *attr, PyObject *const *x, Py_ssize_t n, Operand *p,
                       const qb_type **types, const void **data)
{
    qb_error err = {0};
    qb_buffer *buffer = NULL;
    qb_type type;
    Py_ssize_t ready = 0;
    int64_t bytes = 0;
    bool ok = true;
    for (; ok && ready < n; ready++) {
        ok = fill(op, &p[ready], x[ready]);
        if (!ok) break;
        types[ready] = p[ready].type;
        data[ready] = p[ready].data;
        if (types[ready]->rank) bytes += qb_type_bytes(types[ready]);
    }
    if (ok && bytes < LONG_BYTES) {
        ok = qb_eager(op, attr, (int)n, types, data, &buffer, &type, &err);
        if (!ok) error_raise(&err);
    } else if (ok) {
        PyObject *hold = PyTuple_New(n); /* other threads may drop the operands meanwhile */
        for (Py_ssize_t i = 0; hold && i < n; i++) PyTuple_SET_ITEM(hold, i, Py_NewRef(x[i]));
        if ((ok = hold)) {
            Py_BEGIN_ALLOW_THREADS ok =
                qb_eager(op, attr, (int)n, types, data, &buffer, &type, &err);
            Py_END_ALLOW_THREADS if (!ok) error_raise(&err);
        }
        Py_XDECREF(hold);
    }
    for (Py_ssize_t i = 0; i < ready; i++) Py_XDECREF(p[i].hold);
    return ok ? tensor_new(buffer, &type) : NULL;
}

static PyObject *traced(int op, const qb_attr *attr, PyObject *const *x, Py_ssize_t n, qb_value *v)
{
    Frame *f = frame_top();
    qb_error err = {0};
    if (!f) { /* no trace is running here: say so about the first tracer */
        for (Py_ssize_t i = 0; i < n; i++)
            if (tracer_check(x[i]))
                return frame_capture(NULL, ((Tracer *)x[i])->frame, ((Tracer *)x[i])->value, v),
                       NULL;
        return NULL;
    }
    frame_locate(f);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!usable(op, x[i]) || !frame_lift(f, x[i], &v[i]))
            return error_says("array", qb_op_at(op).name);
    const qb_value out = qb_apply(f->graph, op, v, (int)n, attr, &err);
    return out.graph ? tracer_new(f, out) : error_raise(&err);
}

PyObject *ops_apply(int op, const qb_attr *attr, PyObject *const *x, Py_ssize_t n)
{
    static const qb_attr none;
    if (!attr) attr = &none;
    bool trace = false;
    for (Py_ssize_t i = 0; i < n; i++) trace |= tracer_check(x[i]);
    if (n <= FEW) {
        if (trace) {
            qb_value v[FEW];
            return traced(op, attr, x, n, v);
        }
        Operand p[FEW];
        const qb_type *types[FEW];
        const void *data[FEW];
        return eager(op, attr, x, n, p, types, data);
    }
    PyObject *out;
    if (trace) {
        qb_value *v = PyMem_New(qb_value, n);
        out = v ? traced(op, attr, x, n, v) : PyErr_NoMemory();
        PyMem_Free(v);
        return out;
    }
    Operand *p = PyMem_New(Operand, n);
    const qb_type **types = PyMem_New(const qb_type *, n);
    const void **data = PyMem_New(const void *, n);
    out = p && types && data ? eager(op, attr, x, n, p, types, data) : PyErr_NoMemory();
    PyMem_Free(p);
    PyMem_Free(types);
    PyMem_Free(data);
    return out;
}

PyObject *ops_unary(int op, PyObject *x) { return ops_apply(op, NULL, &x, 1); }
PyObject *ops_binary(int op, PyObject *x, PyObject *y)
{
    return ops_apply(op, NULL, (PyObject *[]){x, y}, 2);
}

/* An int, also one of NumPy's, as the power it is; false for anything else. */
static bool int_power(PyObject *y, qb_attr *attr, int *overflow)
{
    if (PyBool_Check(y) || array_check(y) || !PyIndex_Check(y)) return false;
    PyObject *n = PyNumber_Index(y);
    if (n) attr->i = PyLong_AsLongLongAndOverflow(n, overflow);
    Py_XDECREF(n);
    if (n && (attr->i != -1 || !PyErr_Occurred())) return true;
    PyErr_Clear(); /* an array of many */
    return false;
}

/* x ** 3 multiplies, exactly; any other exponent is pow. A mask is a number beside one. */
PyObject *ops_power(PyObject *x, PyObject *y)
{
    int overflow = 0;
    qb_attr attr = {0};
    if (!int_power(y, &attr, &overflow)) return ops_binary(core.op.pow, x, y);
    if (!usable(core.op.pow, x)) return NULL;
    if (attr.i < 0 || overflow || PyBool_Check(x)) return ops_binary(core.op.pow, x, y);
    if (PyFloat_Check(x) || PyLong_Check(x)) return ops_apply(core.op.powi, &attr, &x, 1);
    PyObject *array = ops_array(x), *out = NULL;
    if (array)
        out = array_type(array)->dtype == QB_BOOL ? ops_binary(core.op.pow, array, y)
                                                  : ops_apply(core.op.powi, &attr, &array, 1);
    Py_XDECREF(array);
    return out;
}

/* ---- functions and methods ---- */

/* A method of both array types that is the function of the same name. It behaves as a method of a
   built-in type: x.sin() makes no bound method. */
typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    const OpRow *row;
    PyObject *op;
} Method;

static PyObject *method_call(PyObject *o, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    const Method *m = (Method *)o;
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (n && array_check(args[0])) return m->row->call(m->op, args, n, kwnames);
    PyErr_Format(PyExc_TypeError, "%s() is a method of Tensor and TraceTensor", m->row->name);
    return NULL;
}

static PyObject *method_bind(PyObject *o, PyObject *self, PyObject *Py_UNUSED(cls))
{
    return self && self != Py_None ? PyMethod_New(o, self) : Py_NewRef(o);
}

static void method_dealloc(PyObject *o)
{
    Py_DECREF(((Method *)o)->op);
    PyObject_Free(o);
    Py_DECREF(core.Method);
}

static PyObject *method_repr(PyObject *o)
{
    return PyUnicode_FromFormat("<method '%s' of quabla arrays>", ((Method *)o)->row->name);
}

static PyObject *get_name(PyObject *o, void *Py_UNUSED(c))
{
    return PyUnicode_FromString(((Method *)o)->row->name);
}

/* doc is "name(x, axis=None)\n--\n\nText": the text signature, then the text. */
static PyObject *get_doc(PyObject *o, void *Py_UNUSED(c))
{
    const char *end = strstr(((Method *)o)->row->doc, "\n--\n\n");
    return PyUnicode_FromString(end ? end + 5 : "");
}

/* "(x, axis=None)" of the function is "($self, axis=None)" of the method. */
static PyObject *get_signature(PyObject *o, void *Py_UNUSED(c))
{
    const char *start = strchr(((Method *)o)->row->doc, '('), *end = strstr(start, "\n--\n\n");
    start += strcspn(start, ",)");
    PyObject *rest = PyUnicode_FromStringAndSize(start, end - start);
    PyObject *out = rest ? PyUnicode_FromFormat("($self%U", rest) : NULL;
    Py_XDECREF(rest);
    return out;
}

static PyGetSetDef method_getset[] = {
    {"__name__", get_name, NULL, NULL, NULL},
    {"__qualname__", get_name, NULL, NULL, NULL},
    {"__doc__", get_doc, NULL, NULL, NULL},
    {"__text_signature__", get_signature, NULL, NULL, NULL},
    {0},
};
static PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, vectorcall), READONLY, NULL},
    {0},
};
static PyType_Slot method_slots[] = {
    {Py_tp_dealloc, method_dealloc},
    {Py_tp_repr, method_repr},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_getset, method_getset},
    {Py_tp_members, method_members},
    {Py_tp_descr_get, method_bind},
    {0},
};
static PyType_Spec method_spec = {"quabla.method", sizeof(Method), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                      Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_IMMUTABLETYPE |
                                      Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  method_slots};

static bool add_method(const OpRow *row, PyObject *op)
{
    Method *m = PyObject_New(Method, core.Method);
    if (!m) return false;
    m->vectorcall = method_call;
    m->row = row;
    m->op = Py_NewRef(op);
    const bool ok = !PyDict_SetItemString(core.Tensor->tp_dict, row->name, (PyObject *)m) &&
                    !PyDict_SetItemString(core.Tracer->tp_dict, row->name, (PyObject *)m);
    Py_DECREF(m);
    return ok;
}

/* What functions of an op are bound to: a module object of its own, whose state is the op's
   number. Python sees functions of a module, so their text, pickling, help and signature are
   those of any built-in function. */
static PyObject *bound_op(int op)
{
    static PyModuleDef def = {PyModuleDef_HEAD_INIT, .m_name = "quabla", .m_size = sizeof(int)};
    PyObject *self = PyModule_Create(&def);
    if (self) *(int *)PyModule_GetState(self) = op;
    return self;
}

int ops_number(PyObject *self) { return *(const int *)PyModule_GetState(self); }

static bool add_function(PyObject *module, const OpRow *row, PyObject *op)
{
    PyMethodDef *def =
        PyMem_Calloc(1, sizeof *def); /* lives as long as the process, like the module */
    PyObject *name = PyUnicode_FromString("quabla");
    if (!def || !name) return PyMem_Free(def), Py_XDECREF(name), false;
    *def = (PyMethodDef){row->name, (PyCFunction)(void (*)(void))row->call,
                         METH_FASTCALL | METH_KEYWORDS, row->doc};
    PyObject *f = PyCFunction_NewEx(def, op, name);
    Py_DECREF(name);
    return module_add(module, row->name, f);
}

/* The example of a function, as a line of a Python session and what it prints. */
static const struct {
    const char *name, *call, *result;
} examples[] = {
#define EXAMPLE(name, call, result) {#name, call, result},
#include "examples.h"
};

static const struct {
    const char *name, *text;
} points[] = {
#define POINTS(name, text) {#name, "Special points: " text ".\n"},
#include "examples.h"
};

/* doc, special points and the function's example; for the life of the process. NULL when out of memory. */
static char *documented(const OpRow *row)
{
    const char *call = "", *result = "", *special = "";
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        if (!strcmp(points[i].name, row->name)) special = points[i].text;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (!strcmp(examples[i].name, row->name))
            call = examples[i].call, result = examples[i].result;
    const size_t size = strlen(row->doc) + strlen(special) + strlen(call) + strlen(result) + 16;
    char *doc = PyMem_Malloc(size);
    if (doc)
        snprintf(doc, size, *call ? "%s%s\n>>> %s\n%s\n" : "%s%s", row->doc, special, call, result);
    return doc;
}

bool ops_add(PyObject *module, const OpRow *given)
{
    OpRow *row = PyMem_Malloc(sizeof *row); /* for the life of the process too */
    char *doc = row ? documented(given) : NULL;
    PyObject *op = doc ? bound_op(given->op) : NULL;
    if (!op) return PyMem_Free(row), PyMem_Free(doc), PyErr_NoMemory(), false;
    *row = *given;
    row->doc = doc;
    const bool ok = (!(row->as & AS_FUNCTION) || add_function(module, row, op)) &&
                    (!(row->as & AS_METHOD) || add_method(row, op));
    Py_DECREF(op);
    return ok;
}

/* ---- the elementwise rows ---- */

static const char *const x_name[] = {"x"}, *const value_name[] = {"value"};
static const char *const x12_names[] = {"x1", "x2"}, *const sides_names[] = {"lhs", "rhs"};

static PyObject *call_unary(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (n == 1 && !kwnames) return ops_apply(ops_number(op), NULL, args, 1);
    const qb_op_info info = qb_op_at(ops_number(op));
    PyObject *x;
    const bool test =
        (info.result == QB_BOOL && strcmp(info.name, "isinf")) || !strcmp(info.name, "logical_not");
    return module_args(info.name, test ? value_name : x_name, 1, 1, args, n, kwnames, &x)
               ? ops_unary(ops_number(op), x)
               : NULL;
}

static PyObject *call_binary(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    const int number = ops_number(op);
    PyObject *x[2];
    if (n != 2 || kwnames) {
        const qb_op_info info = qb_op_at(number);
        const bool test = info.result == QB_BOOL || !strncmp(info.name, "logical", 7);
        if (!module_args(info.name, test ? sides_names : x12_names, 2, 2, args, n, kwnames, x))
            return NULL;
        args = x;
    }
    return number == core.op.pow ? ops_power(args[0], args[1]) : ops_apply(number, NULL, args, 2);
}

/* A method's operand has a name of its own: x.add(rhs=y). */
static const char *operand_name(const char *op)
{
    return !strcmp(op, "atan2") ? "x" : !strcmp(op, "fmod") ? "y" : "rhs";
}

static PyObject *method_binary(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (n == 2 && !kwnames) return call_binary(op, args, n, kwnames);
    const char *who = qb_op_at(ops_number(op)).name, *names[] = {"self", operand_name(who)};
    PyObject *x[2];
    return module_args(who, names, 2, 2, args, n, kwnames, x) ? call_binary(op, x, 2, NULL) : NULL;
}

/* What the parameters may be, and what comes out. */
static int row_doc(char *out, size_t size, const qb_op_info *info, const char *name,
                   const char *params)
{
    const bool test = info->result == QB_BOOL, logic = !strncmp(info->name, "logical", 7),
               pair = info->arity == 2;
    int n = snprintf(out, size, "%s(%s)\n--\n\nElementwise: %s.\n\n%s: %s%s.\n", name, params,
                     info->doc, params,
                     pair ? "arrays, numbers or lists that broadcast, "
                          : "array, number or list of any shape, ",
                     logic          ? "bool"
                     : test && pair ? "of one dtype; numbers adopt it"
                     : pair ? "float32 or float64, of one dtype; numbers adopt it, bool beside a "
                              "float counts as 0 and 1"
                            : "float32 or float64");
    n += snprintf(out + n, size - (size_t)n, "Returns %s%s. Raises ValueError for %s.\n",
                  test || logic ? "a bool array of " : "an array of ",
                  pair            ? "the common shape"
                  : test || logic ? "its shape"
                                  : "its shape and dtype",
                  logic  ? "floating operands; compare them first"
                  : pair ? "float32 with float64 and for shapes that do not broadcast"
                         : "bool; use astype");
    if (info->ulp > 0)
        n += snprintf(out + n, size - (size_t)n,
                      "The error is at most %g units in the last place in float64; float32 is "
                      "that, rounded.\n",
                      info->ulp);
    return n;
}

static bool add_row(PyObject *m, int op, const char *name)
{
    const qb_op_info info = qb_op_at(op);
    const bool test =
        (info.result == QB_BOOL && strcmp(name, "isinf")) || !strncmp(info.name, "logical", 7);
    const char *params = info.arity == 1 ? test ? "value" : "x" : test ? "lhs, rhs" : "x1, x2";
    char doc[1200];
    row_doc(doc, sizeof doc, &info, name, params);
    if (info.arity == 1)
        return ops_add(m, &(OpRow){name, doc, call_unary, op, AS_FUNCTION | AS_METHOD});
    if (!ops_add(m, &(OpRow){name, doc, call_binary, op, AS_FUNCTION})) return false;
    char both[16];
    snprintf(both, sizeof both, "self, %s", operand_name(name));
    row_doc(doc, sizeof doc, &info, name, both);
    return ops_add(m, &(OpRow){name, doc, method_binary, op, AS_METHOD});
}

bool ops_init(PyObject *m)
{
    core.Method = (PyTypeObject *)PyType_FromSpec(&method_spec);
    if (!core.Method) return false;
    for (int op = 0; op < qb_op_count(); op++) {
        const qb_op_info info = qb_op_at(op);
        const bool composite = !strcmp(info.form, "element") || !strcmp(info.form, "test");
        const bool more = op == core.op.powi || op == core.op.cast || op == core.op.stop_gradient ||
                          !strcmp(info.name, "gelu");
        const bool row = (info.elementwise || composite) && info.arity <= 2 && !more;
        if (row && !add_row(m, op, info.name)) return false;
    }
    return add_row(m, core.op.pow, "power");
}
