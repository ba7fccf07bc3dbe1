/* ir.h: the IR. A graph is an append-only list of nodes; operands have smaller ids, so it is in topological order.

   Elementwise operands have equal shapes in a graph; `broadcast` is an op. Emit infers the type, folds, looks for the same
   node, then appends. The first failure sticks to the graph: after it every builder returns NONE, and graph_finish or the
   caller reports it. */
#ifndef IR_H
#define IR_H

#include "base/base.h"

typedef qb_type Type;
typedef qb_attr Attr;
typedef qb_value Val;
typedef qb_graph Graph;
typedef uint32_t Id;
#define NONE QB_NONE
#define NO_ID UINT32_MAX

typedef enum { /* in the order of ops.h */
#define UNARY(name, ...) OP_##name,
#define BINARY(name, ...) OP_##name,
#define STRUCT(name, ...) OP_##name,
#include "ops.h"
    OP_COUNT
} Op;
enum { /* composites: numbers for apply_op, no ops of a node */
    COMPOSE_BEFORE = OP_COUNT - 1,
#define COMPOSITE(name, ...) COMPOSE_##name,
#include "composites.h"
    APPLY_COUNT
};
_Static_assert(OP_COUNT <= 256, "Node.op is a byte");

typedef struct {
    uint8_t op;
    uint16_t results;  /* usually 1; results have consecutive value ids from `first` */
    uint16_t scope;    /* recompute scope, part of the CSE key: copies made by checkpoint are never merged back */
    uint32_t n;        /* operands */
    Id first;          /* first result */
    uint32_t line;     /* of the user's code, 0 unknown */
    const Id *x;       /* operands */
    const Attr *attr;  /* never NULL; a shared empty one when the op has none */
    Graph *const *sub; /* region ops: their bodies, NULL-terminated; else NULL */
    const char *file;  /* of the user's code, interned; NULL unknown */
} Node;

struct qb_graph {
    Arena arena;
    Node *nodes;   uint32_t n_nodes, cap_nodes;
    Type *types;   Id *def; uint32_t n_values, cap_values; /* type and node of each value */
    Id *inputs;    uint32_t n_inputs, cap_inputs;
    Id *outputs;   uint32_t n_outputs, cap_outputs;
    HashIndex index;        /* CSE */
    qb_error error;         /* the first failure sticks */
    const char *file; uint32_t line; /* of nodes emitted from now on */
    const char **files; uint32_t n_files, cap_files; /* interned names of the user's files */
    uint16_t scope;
    bool frozen;
    bool spliced;           /* a branch came in whole: its predicate was constant */
    uint64_t hash;          /* of a frozen graph: the same for graphs that graph_same calls the same */
    atomic_long refs;
};

/* ATTRIBUTES inside a graph. Every op uses the fields that quabla.h names beside qb_attr, normalised: axes are not negative,
   reduction axes ascend without repeats, a slice stays in its operand, unused fields are 0. Five ops hold their result type:
     input, constant      i: dtype, n and list: shape, start: 1 when weak. input: name. constant: buffer, or f in every element
                          (already rounded to the dtype; 0 or 1 for bool)
     reshape, broadcast   n and list: shape
     cast                 i: dtype, start: 1 when weak
   gather and scatter_add hold their indices, none of them negative, as int64 in buffer.
   Only graph_input, gconst, gdense, greshape, gbroadcast, gcast and gcast_like write them, and infer reads them.
   Region ops hold counts:
     scan                 i: carries, step: xs, length: iterations, start: 1 when from the last slice to the first
     while                i: carries, length: most iterations, 0 for any number

   REGION OPS. A body is a frozen graph whose inputs are bound to the node's operands, one by one; of the xs of a scan, to a
   slice without the first axis. Outputs of the body of a scan: the next carries, then one slice of each stacked result; a node has
   as many results. while holds two bodies, the test (one bool output) and the step, both of carries and captures. cond
   holds two, of the operands after pred. Results are strong unless the body's input (if it is a carry) and output are weak. */

/* ---- op.c: the table as data ---- */
typedef enum { CLASS_UNARY, CLASS_BINARY, CLASS_STRUCT, CLASS_COMPOSITE } OpClass;
typedef enum { IN_F, IN_B, IN_A } OpIn; /* operand class of elementwise rows */
typedef struct {
    const char *name, *doc, *attrs, *mlx;
    uint8_t cls, in, arity; /* arity 255: any number */
    bool to_bool;           /* out column is bool */
    double ulp;
} OpRow;
extern const OpRow op_table[APPLY_COUNT];      /* ops, then composites */
int op_find(const char *name);                 /* an op; -1 */
int op_find_any(const char *name);             /* an op or a composite; -1 */
bool op_commutes(int op);                      /* same bits with operands exchanged */
bool op_elementwise(int op);                   /* of ops: UNARY and BINARY rows, powi, cast, stop_gradient, where */
int op_bodies(int op);                         /* graphs that a node of this op holds; most hold none */
bool op_custom(int op);                        /* checkpoint, custom_jvp, custom_vjp: the value is that of the first body */

/* ---- type.c ---- */
Type type_make(int dtype, int rank, const int64_t *dims);
bool type_same(const Type *a, const Type *b);        /* dtype and shape; weak does not count */
bool type_same_shape(const Type *a, const Type *b);
int64_t type_size(const Type *t);                    /* elements; -1 on overflow */
int64_t type_bytes(const Type *t);                   /* -1 on overflow */
int64_t type_elem(int dtype);                        /* bytes of an element */
bool type_floating(const Type *t);
bool type_exact(const Type *a, const Type *b);       /* type_same, and the same weak flag */
int type_problem(const Type *t, const char **what);  /* QB_OK, or why no value can have this type (QB_ESHAPE, QB_EMEMORY, ...) */
const char *dtype_name(int dtype);                   /* "f64", "bool" */
const char *dtype_ir(int dtype);                     /* in IR text: "f64", "i1" */
int dtype_find(const char *ir, size_t length);       /* back from IR text; -1 */
const char *type_text(const Type *t, char *buf, size_t size); /* "f64[2,3]"; returns buf */
#define TYPE_TEXT(t) type_text(t, (char[160]){0}, 160)

/* ---- infer.c: result types of a node (not yet in the graph) from those of its operands ---- */
bool infer_node(Graph *g, const Node *n, const Type *x, Type *out);

/* ---- graph.c: nodes are appended, never changed. Pointers from type_of and node_of stay valid as long as the graph ---- */
Graph *graph_new(qb_error *err);
const char *graph_intern(Graph *g, const char *text); /* lives as long as g; the last text is remembered */
Graph *graph_retain(Graph *g);
void graph_release(Graph *g);
Val graph_input(Graph *g, const char *name, const Type *t);
Val graph_emit(Graph *g, Op op, const Val *x, int n, const Attr *attr);   /* one result: infer, fold, reuse, else append */
/* Several results or regions; *results is their number, out has room for them. Takes references to sub. */
bool graph_emit_many(Graph *g, Op op, const Val *x, int n, const Attr *attr, Graph *const *sub, Val *out, int *results);
Val graph_append(Graph *g, Op op, const Val *x, int n, const Attr *attr);  /* as graph_emit, with no fold and no reuse (parse.c) */
void graph_output(Graph *g, Val v);
const char *graph_intern(Graph *g, const char *file); /* the graph's own copy of a file name, for g->file; NULL for NULL */
bool graph_error(Graph *g, qb_error *err);           /* moves the failure, if any, to *err: the graph can go on; true if there was one */
bool graph_freeze(Graph *g, qb_error *err);          /* false and *err: the first failure of any emit; g stays the caller's */
bool graph_failed(const Graph *g);
bool graph_same(const Graph *a, const Graph *b);     /* frozen graphs that compute the same by the same nodes; names do not count */
static inline const Type *type_of(Val v) { return &v.graph->types[v.id]; }
static inline const Node *node_of(Val v) { return &v.graph->nodes[v.graph->def[v.id]]; }
static inline Val graph_val(const Graph *g, Id id) { return (Val){(Graph *)(uintptr_t)g, id}; }
static inline bool val_none(Val v) { return v.graph == NULL; }
static inline bool val_same(Val a, Val b) { return a.graph == b.graph && a.id == b.id; }
/* Record the first failure, with the user's file and line in front; returns false / NONE for `return fail(...)`. */
bool fail(Graph *g, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- fold.c: constants and identities, at emit. Never x*0 or x+0 (NaN, -0.0) ---- */
Val fold_emit(Graph *g, Op op, const Val *x, int n, const Attr *attr, const Type *out); /* NONE: nothing to fold */
bool const_splat(Val v, double *value);              /* is v a constant with one value in every element? */

bool const_node(Val v);                              /* is v a constant, splat or dense? */

/* ---- value.c: the reference: what an op means, element by element, in plain scalar code ---- */
/* out: room for the results' data. Same bits as every backend on the CPU. Structural ops included. */
bool value_node(const Graph *g, const Node *n, const void *const *x, void *const *out, qb_error *err);
/* The same for an op that is in no graph: types of operands (xt) and results (ot) given. */
bool value_op(Op op, const Attr *attr, int n, const Type *xt, const Type *ot, const void *const *x, void *const *out, qb_error *err);
bool value_run(const Graph *g, const void *const *inputs, void *const *outputs, qb_error *err);
bool value_region(const Graph *g, const Node *n, const void *const *x, void *const *out, qb_error *err); /* value_region.c */
double value_scalar(Op op, int dtype, double x, double y); /* one element of an elementwise row, rounded to dtype */

/* ---- apply.c: an op as a user writes it: promotion, broadcasting, axes (qb_apply) ---- */
Val apply_op(Graph *g, int op, const Val *x, int n, const Attr *attr);
bool apply_promote(Graph *g, int op, Val *x, int n, bool bools); /* give x one dtype. bools: may all of them be bool? */
bool apply_together(Graph *g, int op, Val *x, int n);        /* give x one shape, as NumPy broadcasts */
/* a's list as distinct axes of t, in the order given; all of them for n = -1. Their number, -1 on failure. */
int apply_axes(Graph *g, int op, const Type *t, const Attr *a, int64_t *axes);
Val apply_astype(Val x, int dtype);                          /* strong result; x itself when nothing changes */
Val apply_broadcast(Val x, int rank, const int64_t *dims);   /* NumPy's broadcast_to */

/* ---- compose.c: composites; x may be overwritten ---- */
Val compose_apply(Graph *g, int op, Val *x, int n, const Attr *a);

/* ---- print.c, parse.c, check.c ---- */
void print_graph(Text *t, const Graph *g);   /* the graph's own form, ends in `return %4`; parses back to the same graph */
void print_plan_text(Text *t, const Graph *g); /* as_text(): the seed's form, ends in `outputs: [[]]` */
void print_listing(Text *t, const Graph *g);   /* its lines without that one, joined by newlines */
bool stablehlo_print(Text *t, const Graph *g, qb_error *err); /* a StableHLO module; QB_EUNSUPPORTED names an op it has no word for */
Graph *parse_graph(const char *text, qb_error *err);
bool check_graph(const Graph *g, qb_error *err);

/* ---- build.h: the builders that rules use ---- */
#include "ir/build.h"

/* ---- Rules of structural ops (and where, powi, cast ...), in src/ops/. A NULL rule is reported by name ---- */
struct Kept { Graph *graph; struct Kept *next; }; /* the head of what a forward part keeps; the walk gives graph back */
typedef struct {
    bool (*infer)(Graph *g, const Node *n, const Type *x, Type *out); /* x: types of the operands */
    Val (*fold)(Graph *g, const Node *n, const Val *x);     /* NONE: nothing */
    /* The rules below write into g; n belongs to the source graph, x and z are its operands and results in g. */
    /* t: tangents, NONE is zero, at least one is not. tz: tangents of the results. Linear in t. */
    void (*jvp)(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz);
    /* ct: cotangents of the results, at least one not NONE. out: of the operands, preset to NONE. NULL where it can be derived from jvp. */
    void (*vjp)(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out);
    /* mapped operands have the batch axis (length size) first. The result always has it; at least one operand is mapped. */
    void (*vmap)(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size, Val *z);
    /* Region ops have these in place of jvp and vjp. Results and tangents come from one node: both are written. read: results whose
       tangent is asked for. */
    void (*jvp_both)(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read, Val *z, Val *tz);
    /* vmap of a region: which results are mapped is said per result. */
    void (*vmap_some)(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size, Val *z, bool *z_mapped);
    /* Reverse mode in two parts, so that the first run keeps what the second needs. forward writes z and returns what backward gets
       as kept (in a, NULL: nothing). seeded: results that will have a cotangent; wanted: operands that need one. */
    struct Kept *(*forward)(Graph *g, Arena *a, const Node *n, const Val *x, const bool *seeded, const bool *wanted, Val *z);
    void (*backward)(Graph *g, struct Kept *kept, const Node *n, const Val *x, const Val *z, const Val *ct, const bool *wanted,
                     Val *out);
    /* The values alone, as reverse mode leaves them (vjp_values), of a region with rules of users in its bodies. */
    void (*open)(Graph *g, const Node *n, const Val *x, const bool *seeded, const bool *wanted, Val *z);
    bool moves_mask; /* vjp only moves elements, so it may be used on the bool mask of a masked cotangent as well */
} Rules;
extern const Rules *const op_rules[OP_COUNT]; /* ops/rules.c; NULL for UNARY and BINARY rows, input and constant */
/* Partial derivative of an elementwise row with respect to operand k, from its d column; NONE is zero. ops/elementwise.c */
Val op_partial(Op op, int k, Val x, Val y, Val z);

#endif
