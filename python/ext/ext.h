/* ext.h: the index of the extension quabla._core, in sections named by .c file.

   The extension sees the core through quabla.h alone. Its types are heap types, kept with its
   other objects in one `core`: the package is for one interpreter, whose lock (the GIL) guards
   every list and cache here. It is given up while plans compile and run, so whatever a run reads
   is held by a reference of its own. */
#ifndef EXT_H
#define EXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "quabla.h"

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t),
               "shapes are handed to the buffer protocol as they are");

/* ---- module.c: what the module holds, and the ops that the extension itself needs by number
   ---- */
/* clang-format off */
#define KNOWN_OPS(X) \
    X(add) X(sub) X(mul) X(div) X(pow) X(powi) X(neg) X(abs) X(floor) X(round) X(less) X(less_equal) \
    X(greater) X(greater_equal) X(logical_and) X(logical_or) X(logical_not) X(matmul) X(where) X(cast) \
    X(stop_gradient) X(broadcast) X(reshape) X(transpose) X(slice) X(concat) X(sum) X(mean) X(max) X(min) \
    X(maximum) X(minimum) X(mod) X(floor_divide) X(equal) X(any)
/* clang-format on */

typedef struct {
    PyTypeObject *Tensor, *View, *Tracer, *DType, *Method, *TreeDef, *Transform, *Cache, *Vjp, *StepLoop,
        *Lowered, *Compiled, *ShapeDtype, *Program, *Executable;
    PyObject *QuablaError, *TracerError, *RetraceLimitError, *RetraceWarning,
        *UnsupportedOperationError;
    PyObject *dtypes[QB_DTYPE_COUNT];
    struct {
#define X(name) int name;
        KNOWN_OPS(X)
#undef X
    } op;
} Core;
extern Core core;

bool module_add(PyObject *m, const char *name, PyObject *value); /* takes the reference to value */
/* Parameters by position or keyword into out (NULL where absent), which has `total` entries. */
bool module_args(const char *who, const char *const *names, int required, int total,
                 PyObject *const *args, Py_ssize_t n, PyObject *kwnames, PyObject **out);

/* ---- error.c: the exception classes ---- */
bool error_init(PyObject *m);
void *error_raise(const qb_error *err); /* always NULL */
/* The exception that is set names `inner`, which `who` is made of: now it names `who`. */
void *error_says(const char *inner, const char *who); /* always NULL */
void *error_unsupported(const char *device,
                        const char *text); /* UnsupportedOperationError with its .device */

/* ---- dtype.c: float32, float64, bool_ ---- */
bool dtype_init(PyObject *m);
int dtype_of(PyObject *o); /* a dtype argument: dtype, name or NumPy dtype; -1 and TypeError */
int dtype_or(PyObject *o, int otherwise); /* the same; `otherwise` for NULL and None */
PyObject *dtype_object(int dtype);        /* borrowed */
const char *dtype_label(int dtype);       /* "float64" */
PyObject *dtype_text(const qb_type *t);   /* "float64[2,3]" */
/* The dtype and the shape; weak does not count. */
static inline bool dtype_same(const qb_type *a, const qb_type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

/* ---- tensor.c: eager arrays ---- */
typedef struct {
    PyObject_HEAD qb_buffer *buffer;
    PyObject *weakrefs;
    qb_type type;
} Tensor;
bool tensor_init(PyObject *m);
PyObject *tensor_new(qb_buffer *buffer,
                     const qb_type *type); /* takes the reference to buffer, also when it fails */
Tensor *tensor_empty(const qb_type *type); /* new memory, to be filled before anybody sees it */
PyObject *tensor_scalar(double value, int dtype);
static inline bool tensor_check(PyObject *o) { return Py_TYPE(o) == core.Tensor; }
static inline void *tensor_data(PyObject *o) { return qb_buffer_data(((Tensor *)o)->buffer); }
double tensor_element(const Tensor *t, int64_t i);

/* ---- array.c: operators and properties that Tensor and TraceTensor share ---- */
extern PyGetSetDef array_getset[];
PyObject *array_shape_list(const qb_type *t);
PyObject *array_add(PyObject *, PyObject *), *array_sub(PyObject *, PyObject *),
    *array_mul(PyObject *, PyObject *), *array_div(PyObject *, PyObject *),
    *array_mod(PyObject *, PyObject *), *array_floordiv(PyObject *, PyObject *),
    *array_divmod(PyObject *, PyObject *),
    *array_pow(PyObject *, PyObject *, PyObject *), *array_matmul(PyObject *, PyObject *),
    *array_and(PyObject *, PyObject *), *array_or(PyObject *, PyObject *), *array_neg(PyObject *),
    *array_pos(PyObject *), *array_abs(PyObject *), *array_invert(PyObject *),
    *array_compare(PyObject *, PyObject *, int), *array_iter(PyObject *);
int array_contains(PyObject *, PyObject *), array_assign(PyObject *, PyObject *, PyObject *);
Py_hash_t array_hash(PyObject *);
/* clang-format off */
#define ARITHMETIC_SLOTS \
    {Py_nb_add, array_add}, {Py_nb_subtract, array_sub}, {Py_nb_multiply, array_mul}, {Py_nb_true_divide, array_div}, \
    {Py_nb_remainder, array_mod}, {Py_nb_floor_divide, array_floordiv}, {Py_nb_divmod, array_divmod}, {Py_nb_power, array_pow}, \
    {Py_nb_matrix_multiply, array_matmul}, {Py_nb_and, array_and}, {Py_nb_or, array_or}, \
    {Py_nb_negative, array_neg}, {Py_nb_absolute, array_abs}, {Py_nb_invert, array_invert}, \
    {Py_tp_richcompare, array_compare}, {Py_tp_hash, array_hash}, {Py_sq_contains, array_contains}, \
    {Py_mp_ass_subscript, array_assign}
#define ARRAY_SLOTS ARITHMETIC_SLOTS, \
    {Py_nb_positive, array_pos}, {Py_tp_iter, array_iter}, \
    {Py_mp_length, index_length}, {Py_mp_subscript, index_get}, {Py_sq_item, index_item}, {Py_sq_length, index_length}
/* clang-format on */

/* ---- view.c: TensorView ---- */
bool view_init(PyObject *m);
bool view_check(PyObject *o);
PyObject *view_slice(PyObject *tensor, const qb_attr *a); /* a: of the op slice */
PyObject *view_tensor(PyObject *view);

/* ---- dlpack.c ---- */
bool dlpack_init(PyObject *m);
PyObject *dlpack_export(PyObject *tensor, PyObject *args, PyObject *kwargs); /* __dlpack__ */
PyObject *dlpack_device(PyObject *tensor, PyObject *none);                  /* __dlpack_device__ */

/* ---- tracer.c: traces and their values ---- */
/* One trace under construction. Frames of a thread form a stack; a value of an enclosing frame
   that an inner one meets becomes a hidden input of each frame in between. bound[i] is the value
   of the outer graph that stands for input i. */
typedef struct Frame {
    Py_ssize_t refs;
    qb_graph *graph;
    struct Frame *outer; /* NULL for the outermost; valid while live */
    bool live;           /* on the stack */
    qb_value *bound;
    int n_inputs, cap_inputs;
    struct Seen *seen; /* constants and captured values that this frame has already */
    size_t n_seen, cap_seen;
    PyObject *keep; /* list: keeps the Tensors in `seen` alive */
    PyObject *file; /* where the last op was written; a reference */
    int line;
} Frame;
typedef struct {
    PyObject_HEAD Frame *frame;
    PyObject *weakrefs;
    qb_value value;
} Tracer;
bool tracer_init(PyObject *m);
Frame *frame_top(void);   /* innermost frame of this thread, or NULL */
Frame *frame_push(void);  /* a new innermost frame; NULL and an exception */
void frame_pop(Frame *f); /* it was the innermost; its tracers are dead from here on */
Frame *frame_retain(Frame *f);
void frame_release(Frame *f); /* NULL is fine */
PyObject *frame_input(Frame *f, const char *name, const qb_type *t, qb_value bound); /* a tracer */
bool frame_capture(Frame *f, Frame *owner, qb_value v,
                   qb_value *out); /* v of an enclosing frame, as a value of f */
bool frame_lift(Frame *f, PyObject *x, qb_value *out); /* any operand as a value of f */
void frame_locate(Frame *f); /* nodes from here on belong to the user's current line */
PyObject *tracer_new(Frame *f, qb_value v);
static inline bool tracer_check(PyObject *o) { return Py_TYPE(o) == core.Tracer; }
static inline const qb_type *tracer_type(PyObject *o) { return qb_type_of(((Tracer *)o)->value); }

static inline bool array_check(PyObject *o) { return tensor_check(o) || tracer_check(o); }
static inline const qb_type *array_type(PyObject *o) /* of a Tensor or a tracer */
{
    return tensor_check(o) ? &((Tensor *)o)->type : tracer_type(o);
}

/* ---- ops.c: an op applied to anything; functions and methods of the op table ---- */
bool ops_init(PyObject *m);
PyObject *ops_apply(int op, const qb_attr *attr, PyObject *const *x, Py_ssize_t n);
PyObject *ops_unary(int op, PyObject *x);
PyObject *ops_binary(int op, PyObject *x, PyObject *y);
PyObject *ops_power(PyObject *x, PyObject *y);
bool ops_foreign(PyObject *o);    /* an array of another library */
bool ops_operand(PyObject *o);    /* may it stand in an operator beside an array? */
PyObject *ops_array(PyObject *o); /* o itself when it is a Tensor or tracer, else asarray(o) */
/* A function of the module that is a method as well: called with the array first. `op` is what its
   op is bound to. */
int ops_number(PyObject *op);
typedef PyObject *(*OpCall)(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
enum { AS_FUNCTION = 1, AS_METHOD = 2 };
typedef struct {
    const char *name, *doc; /* doc starts with the text signature */
    OpCall call;
    int op, as;
} OpRow;
bool ops_add(PyObject *m, const OpRow *row); /* with its example of examples.h at the end of doc */
/* Sentences that many docs share. */
#define FLOATS "\n\nx: array, number or list, float32 or float64, any shape; bool raises ValueError, use astype.\n"
#define OVER                                                                                                           \
    "axis: None for all axes, an int or ints, negative ones from the end. keepdims: keep the reduced axes with length 1.\n" \
    "Raises ValueError for an axis that x has not or that is named twice.\n"

/* ---- read.c: parameters; each names `who` and `what` in its exception ---- */
/* An int, or a list, tuple or NumPy array of ints, at most QB_MAX_RANK of them. Returns their number, -1 with an exception. */
int read_ints(const char *who, const char *what, PyObject *o, int64_t *out);
bool read_int(const char *who, const char *what, PyObject *o, int64_t *out);
PyObject *read_index(const char *who, const char *what, PyObject *o); /* as a Python int, of any size */
/* A parameter that is True or False, also as an int or NumPy's; NULL leaves *out as it is. */
bool read_flag(const char *who, const char *what, PyObject *o, bool *out);
/* Axes of a reduction, None, an int or ints, into list and n. */
bool read_axes(const char *who, PyObject *o, qb_attr *attr);
bool read_shape(const char *who, PyObject *o, qb_type *t); /* an int or ints >= 1 */

/* ---- shape.c: reductions and structural functions ---- */
bool shape_init(PyObject *m);
/* Arguments (axis, start, length, step=1) of a method slice, into the attributes of the op. */
bool shape_slice_args(PyObject *const *args, Py_ssize_t n, PyObject *kwnames, qb_attr *attr);
PyObject *shape_reshape(PyObject *x, int rank, const int64_t *dims);
PyObject *shape_transpose(PyObject *x, int rank, const int64_t *axes);
PyObject *shape_astype(PyObject *x, int dtype);
PyObject *shape_broadcast(const char *who, PyObject *x, const qb_type *shape);

/* ---- join.c: concat and stack ---- */
bool join_init(PyObject *m);

/* ---- compose.c: functions that take more than arrays and axes ---- */
bool compose_init(PyObject *m);

/* ---- index.c: basic indexing ---- */
Py_ssize_t index_length(PyObject *x);
PyObject *index_item(PyObject *x, Py_ssize_t i);
PyObject *index_get(PyObject *x, PyObject *key);

/* ---- convert.c: other objects become Tensors, and back ---- */
/* dtype -1: as the data says. copy: a new object also for a Tensor. *weak (may be NULL): a scalar
   that takes the dtype it meets. */
PyObject *convert_array(PyObject *o, int dtype, bool copy, bool *weak);
bool convert_int(PyObject *o, double *out); /* a Python int; OverflowError beyond float64 */
PyObject *convert_flat(const qb_type *shape, PyObject *data, int dtype); /* Tensor(shape, data) */
PyObject *convert_tolist(PyObject *tensor);
PyObject *convert_flat_list(PyObject *tensor);
PyObject *convert_numpy(PyObject *tensor);
/* Elements of `item` bytes at src + sum of i * strides (bytes), row-major into dst. */
void convert_gather(char *dst, const char *src, int64_t item, int rank, const int64_t *dims,
                    const int64_t *strides);

/* ---- create.c: zeros, arange, random numbers, ... ---- */
bool create_init(PyObject *m);

/* ---- repr.c ---- */
PyObject *repr_tensor(PyObject *tensor);

/* ---- tree.c: pytrees ---- */
typedef enum {
    NODE_LEAF,
    NODE_NONE,
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT,
    NODE_NAMED,
    NODE_CUSTOM
} NodeKind;
typedef struct {
    uint8_t kind;
    int32_t n;     /* children */
    PyObject *cls; /* NAMED, CUSTOM: the class */
    PyObject *aux; /* DICT: tuple of the sorted keys. CUSTOM: what flatten gave */
} TreeNode;
typedef struct { /* nodes in preorder */
    PyObject_VAR_HEAD Py_ssize_t n_leaves;
    TreeNode nodes[];
} TreeDef;
typedef struct { /* owned references. It points into itself while they are few: never copy one */
    PyObject **v;
    Py_ssize_t n, cap;
    PyObject *few[8];
} Leaves;
bool tree_init(PyObject *m);
void leaves_free(Leaves *l);
bool leaves_push(Leaves *l, PyObject *o); /* takes the reference, also when it fails */
TreeDef *tree_flatten(PyObject *o, Leaves *leaves);
/* The arguments of a call: a tuple node; bit i of `opaque` says that argument i is a leaf
   whatever it is. */
TreeDef *tree_flatten_args(PyObject *const *args, Py_ssize_t n, const bool *opaque, Leaves *leaves);
/* Has o (have the n objects v) the structure of t from node *at on? 1 yes, and its leaves go to
   `leaves`; 0 no; -1 exception. */
int tree_match(const TreeDef *t, Py_ssize_t *at, PyObject *o, Leaves *leaves);
int tree_match_all(const TreeDef *t, Py_ssize_t *at, PyObject *const *v, Py_ssize_t n,
                   Leaves *leaves);
PyObject *tree_unflatten(const TreeDef *t,
                         PyObject *const *leaves); /* new references to the leaves are taken */
PyObject *tree_unflatten_part(const TreeDef *t, Py_ssize_t node,
                              PyObject *const *leaves); /* the subtree at that node */
bool tree_same(const TreeDef *a, const TreeDef *b);
/* One level: the children of o as a new tuple, or NULL without exception when o is a leaf. node
   gets kind, cls, aux (new refs). */
PyObject *tree_children(PyObject *o, TreeNode *node);
void tree_node_clear(TreeNode *node);
PyObject *tree_step_name(const TreeNode *node, int32_t i); /* what child i is called: a key, field, position */
PyObject *tree_path(const TreeDef *t, Py_ssize_t leaf); /* tuple of keys, names, positions */
PyObject *tree_path_text(const TreeDef *t, Py_ssize_t leaf,
                         Py_ssize_t skip); /* "p/b", without the first `skip` entries */
/* Its text, with leaf i written by text(i, context) (new reference). */
PyObject *tree_text(const TreeDef *t, PyObject *(*text)(Py_ssize_t, void *), void *context);
PyObject *tree_names(PyObject *cls); /* field names of a registered class, borrowed, or NULL */

/* ---- treedef.c: TreeDef as a Python type, quabla._core.tree ---- */
bool treedef_init(PyObject *m);

/* ---- transform.c: jit, grad, value_and_grad, jvp, vjp, vmap as callables ---- */
typedef enum {
    DO_JIT,
    DO_GRAD,
    DO_VALUE_AND_GRAD,
    DO_VMAP,
    DO_JVP,
    DO_VJP,
    DO_CUSTOM
} TransformKind;
typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *fun, *dict, *weakrefs;
    uint8_t kind;
    bool has_aux, one; /* one: argnums was an int */
    PyObject *argnums; /* GRAD, CUSTOM: tuple of ints */
    PyObject *in_axes, *out_axes;
    PyObject *impl, *label; /* CUSTOM: impl(fun, *args), and its name */
    PyObject *static_argnums, *static_argnames, *device, *precision;
    Py_ssize_t max_traces;
    PyObject *key;    /* the chain of transforms below and including this one, hashable */
    PyObject *cache;  /* of the root function and the key; NULL until the first call */
    PyObject *params; /* JIT: names of the parameters, a tuple; NULL until needed */
} Transform;
bool transform_init(PyObject *m);
Transform *transform_new(TransformKind kind, PyObject *fun);
/* t, with the key of its chain: own, what it does itself, and the key of what is inside. Takes the reference to own; NULL where that
   is NULL. */
PyObject *transform_keyed(Transform *t, PyObject *own);
PyObject *transform_simple(TransformKind kind, PyObject *fun, bool has_aux);
PyObject *transform_root(Transform *t); /* borrowed */
PyObject *transform_traced(Transform *t, PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames); /* inside a trace */
bool transform_differentiates(Transform *t, Py_ssize_t arg, Py_ssize_t n);
PyObject *transform_repr(PyObject *t);

/* ---- wrap.c: jit, grad, ... ---- */
bool wrap_init(PyObject *m);

/* ---- stage.c: a function traced into a frame of its own ---- */
typedef struct {
    TreeDef *tree;
    Leaves leaves;
    /* Output number of a leaf that the trace computes, else -1: a constant, or an outer value. */
    int *index;
} Outputs;
bool stage_outputs(Frame *f, PyObject *result,
                   Outputs *o); /* result's traced leaves become further outputs of f */
void stage_free(Outputs *o);
PyObject *stage_result(Frame *outer, const Outputs *o,
                       const qb_value *values); /* the tree, around values of `outer` */
bool stage_close(Frame *f, bool ok);            /* pop, and freeze when all went well */
typedef struct {                                /* an argument that is differentiated */
    TreeDef *tree;
    Leaves leaves; /* what the function gets: tracers in place of floating arrays and numbers */
    int *input;    /* input number of a leaf, -1 for one that is not differentiated */
} Diff;
/* `path` leads the message about a leaf: "grad(f): argument 0". */
bool stage_argument(Frame *outer, Frame *f, PyObject *arg, const char *path, Diff *d);
void stage_free_argument(Diff *d);
/* x with numbers and foreign arrays as Tensors: numbers in the dtype of the leaf of `like` there,
   float64 without it (NULL). */
PyObject *stage_arrays(PyObject *x, const Leaves *like);
PyObject *stage_imported(PyObject *x); /* x with foreign arrays alone as Tensors: what a function gets from a call */
bool stage_zeros(Frame *f, const qb_type *t, double value,
                 qb_value *out);     /* a constant in every element */
const char *stage_kind(PyObject *o); /* "a str": for messages */

/* ---- grad.c, vjp.c, vmap.c: transforms inside a trace ---- */
PyObject *grad_traced(Transform *t, PyObject *const *args, Py_ssize_t n);
PyObject *jvp_traced(PyObject *fun, PyObject *primals, PyObject *tangents);
bool vjp_init(PyObject *m);
PyObject *vjp_traced(PyObject *fun, bool has_aux, PyObject *primals, PyObject *cotangent);
PyObject *vmap_traced(Transform *t, PyObject *const *args, Py_ssize_t n);

/* ---- call.c: keywords and static arguments ---- */
typedef struct
{ /* a call, sorted into positional arguments and static keywords; references are its own */
    PyObject **args;
    Py_ssize_t n;
    bool *opaque;      /* static positions; NULL for none */
    PyObject *kwnames; /* sorted; NULL for none */
    PyObject **kwvalues;
} Call;
bool call_plain(const Transform *t, PyObject *kwnames); /* nothing to sort */
bool call_sort(Transform *t, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, Call *c);
void call_free(Call *c);
PyObject *call_params(PyObject *fun); /* names of the positional parameters, a new tuple */

/* ---- entry.c: one trace, compiled, and what it fits ---- */
typedef enum { LEAF_ARRAY, LEAF_SCALAR, LEAF_STATIC } LeafKind;
typedef struct {
    uint8_t kind;
    bool promote;    /* ARRAY: a Python number is fine and becomes a float64 array */
    qb_type type;    /* ARRAY */
    PyObject *value; /* SCALAR, STATIC: owned */
} LeafSpec;
typedef struct {
    Py_ssize_t refs;
    TreeDef *in;
    LeafSpec *specs; /* leaves of in, then static keywords */
    Py_ssize_t n_specs, n_arrays;
    PyObject *kwnames; /* names of the static keywords, sorted; NULL for none */
    qb_plan *plan;
    qb_graph *graph; /* as it was traced; only of a lowered program */
    long long calls;
    double traced, compiled; /* seconds that these took */
    PyObject *reason;        /* why it was traced: explain.c; NULL for the first one */
    Outputs out;
} Entry;
Entry *entry_describe(Transform *t, const Call *c, bool lowering,
                      Leaves *leaves); /* what a call's arguments are; no trace */
Entry *entry_trace(Transform *t, const Call *c, bool lowering,
                   Leaves *leaves); /* leaves: what to run it with */
Entry *entry_retain(Entry *e);
void entry_release(Entry *e);                                   /* NULL is fine */
int entry_match(const Entry *e, const Call *c, Leaves *leaves); /* 1 yes, 0 no, -1 exception */
/* Do these arguments fit where the tree has node `node` and leaf `leaf`? */
int entry_match_part(const Entry *e, Py_ssize_t node, Py_ssize_t leaf, PyObject *const *args,
                     Py_ssize_t n, Leaves *leaves);
PyObject *entry_run(Entry *e, PyObject *const *leaves, qb_step_profile *steps); /* steps: room for a profile, or NULL */
PyObject *entry_signature(const Entry *e);
PyObject *entry_leaf_text(const Entry *e, Py_ssize_t i); /* "float64[2,3]", "2.0", "static 2" */
PyObject *entry_leaf_name(Transform *t, const Entry *e, Py_ssize_t i); /* "params/b" */
bool entry_same_leaf(const Entry *a, const Entry *b, Py_ssize_t i);

/* ---- explain.c: why a function was traced, and what its caches hold ---- */
bool explain_init(PyObject *m);
PyObject *explain_reason(Transform *t, const Entry *old, const Entry *new);

/* ---- jit.c: caches and the call path ---- */
typedef struct {
    PyObject_HEAD Entry **entries; /* most recently used first */
    Py_ssize_t n, cap, max;
    long long traces, evicted;
    PyObject *label; /* "jit(grad(f))" */
} Cache;
/* {chain key: Cache} of a root function, borrowed; NULL without exception when there is none. */
PyObject *jit_caches(PyObject *root);
PyObject *jit_cache(Transform *t); /* borrowed */
bool jit_init(PyObject *m);
PyObject *jit_call(Transform *t, PyObject *const *args, size_t nargsf,
                   PyObject *kwnames);               /* outside any trace */
bool jit_options(Transform *t, qb_options *options); /* device and precision, checked */

/* ---- lower.c: ShapeDtype, jit(f).lower(...) ---- */
bool lower_init(PyObject *m);
bool lower_shape(PyObject *o, qb_type *t); /* is o a ShapeDtype? */
PyObject *lower_shape_new(const qb_type *t);
PyObject *lower_make(Transform *t, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* ---- region.c: bodies of cond, scan and while; Ctrl-C in a long run ---- */
bool region_init(PyObject *m);

/* ---- custom.c: functions with rules of their own, inside a trace ---- */
bool custom_init(PyObject *m);

/* ---- program.c: the compiler facade: Program, Executable ---- */
bool program_init(PyObject *m);
PyObject *program_new(qb_graph *g); /* of a frozen graph */
PyObject *program_text(char *text, const qb_error *err); /* as a str; NULL is err */

/* ---- loop.c: StepLoop, a step with its state inside ---- */
bool loop_init(PyObject *m);

#endif
