/* quabla.h: the whole public C API of libquabla.

   A program is a graph of values. Build one (qb_graph_new, qb_graph_input, qb_apply), transform it (qb_jvp, qb_vjp, qb_vmap,
   qb_inline write into another graph), compile it to a frozen plan (qb_compile) and run the plan (qb_plan_run).
   examples/c/ has complete programs.

   Errors: a function that can fail takes `qb_error *err` (not NULL), returns false, NULL or QB_NONE on failure and then has set
   err->code and err->message. Nothing aborts on bad input. Ownership: a returned pointer belongs to the caller, who gives it
   back with the matching release or free. Graphs under construction belong to one thread; frozen graphs, buffers and plans
   are immutable or locked inside and may be used by any number of threads. */
#ifndef QUABLA_H
#define QUABLA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QB_API __attribute__((visibility("default")))
#else
#define QB_API
#endif

/* ---- errors ---- */

/* In the order of src/errors.h; qb_error_exception names the Python exception of each. */
typedef enum {
    QB_OK, QB_EVALUE, QB_ESHAPE, QB_EDTYPE, QB_ETYPE, QB_EINDEX, QB_EMEMORY, QB_EUNSUPPORTED, QB_ETARGET, QB_ETRACER,
    QB_EPARSE, QB_EINTERRUPT, QB_EBUG
} qb_code;

typedef struct qb_error {
    int code;           /* a qb_code; QB_OK when nothing failed */
    char op[32];        /* the op of a QB_EUNSUPPORTED error, else empty */
    char message[1024]; /* one or more sentences for the user */
} qb_error;

QB_API const char *qb_error_exception(int code); /* "ValueError", "MemoryError", ... */
QB_API const char *qb_version(void);             /* "0.1.0" */

/* ---- types ---- */

enum { QB_MAX_RANK = 16, QB_MAX_THREADS = 256 };

typedef enum { QB_F32, QB_F64, QB_BOOL, QB_DTYPE_COUNT } qb_dtype; /* storage: float, double, one byte 0 or 1 */

/* dtype and static shape of a value. weak: came from a Python scalar, takes the dtype of the array it meets. */
typedef struct qb_type {
    uint8_t dtype, weak, rank;
    int64_t dims[QB_MAX_RANK]; /* only the first `rank` entries mean anything */
} qb_type;

QB_API qb_type qb_type_make(qb_dtype dtype, int rank, const int64_t *dims);
QB_API int64_t qb_type_size(const qb_type *t);           /* number of elements; -1 when it overflows */
QB_API int64_t qb_type_bytes(const qb_type *t);          /* bytes; -1 when it overflows */
QB_API const char *qb_dtype_name(int dtype);             /* "f64" */
QB_API int64_t qb_dtype_size(int dtype);                 /* bytes of one element */
QB_API void qb_type_text(const qb_type *t, char *out, size_t size); /* "f64[2,3]" */

/* ---- buffers: immutable once shared, reference counted ---- */

typedef struct qb_buffer qb_buffer;

QB_API qb_buffer *qb_buffer_new(int64_t bytes, qb_error *err); /* 64-byte aligned, not cleared */
/* A buffer over memory of somebody else; release(owner) is called when the last reference goes. */
QB_API qb_buffer *qb_buffer_wrap(void *data, int64_t bytes, void (*release)(void *), void *owner, qb_error *err);
QB_API qb_buffer *qb_buffer_retain(qb_buffer *b);
QB_API void qb_buffer_release(qb_buffer *b); /* NULL is fine */
QB_API void *qb_buffer_data(qb_buffer *b);
QB_API int64_t qb_buffer_bytes(const qb_buffer *b);

/* ---- ops ---- */

/* An op is a number, looked up by name ("add", "tanh", "sum", "matmul": the rows of src/ops.h). So is a composite ("softplus",
   "norm": the rows of src/composites.h): qb_apply and qb_eager take both, and a program holds the ops that it is made of. */
typedef struct {
    const char *name, *doc;
    int arity;        /* operands; -1 any number */
    bool elementwise; /* a UNARY or BINARY row, where, powi, cast, stop_gradient */
    double ulp;       /* bound in float64, 0 for exact ops */
    int result;       /* dtype of the result, or -1: as the operands */
    const char *form; /* "op"; or how a composite (a function of several ops, no op of a program) is applied: "element", "test",
                         "reduce" (attr list, n, keepdims), "axis" (attr i) */
} qb_op_info;

QB_API int qb_op_count(void);
QB_API int qb_op_find(const char *name); /* -1 when there is none */
QB_API qb_op_info qb_op_at(int op);

/* What an op needs besides its operands. Start from {0}; set what the op uses. */
typedef struct qb_attr {
    int64_t i;                    /* powi: exponent. gelu: 1: approximate. slice, pad_slice, concat, gather, scatter_add, cumsum: axis. cast: dtype */
    int64_t start, length, step;  /* slice: start, length, step. pad_slice: start, length = total, step. cumsum: start 1: from the end */
    int n;                        /* entries of list; -1 in qb_apply: all axes (reductions), reversed (transpose) */
    int64_t list[QB_MAX_RANK];    /* sum, mean, max, min: axes. transpose: permutation. reshape, broadcast: shape */
    bool keepdims;                /* reductions, in qb_apply only: keep reduced axes with length 1 */
    double f;                     /* constant: the value of every element. var, std: ddof */
    qb_buffer *buffer;            /* constant: dense data, row-major. gather, scatter_add: int64 indices, negative ones count from
                                     the end in qb_apply. The graph takes its own reference */
    const char *name;             /* input: its name */
} qb_attr;

/* ---- graphs ---- */

typedef struct qb_graph qb_graph;

typedef struct qb_value {
    qb_graph *graph; /* NULL: no value */
    uint32_t id;
} qb_value;
#define QB_NONE ((qb_value){NULL, 0})

QB_API qb_graph *qb_graph_new(qb_error *err);
QB_API qb_graph *qb_graph_retain(qb_graph *g);
QB_API void qb_graph_release(qb_graph *g); /* NULL is fine */
/* Next input; names are unique in a graph, a repeated one is QB_EVALUE. name may be NULL ("in0", "in1", ...). */
QB_API qb_value qb_graph_input(qb_graph *g, const char *name, const qb_type *type, qb_error *err);
QB_API qb_value qb_constant(qb_graph *g, const qb_type *type, double value, qb_error *err);
QB_API qb_value qb_constant_dense(qb_graph *g, const qb_type *type, qb_buffer *data, qb_error *err);
QB_API bool qb_graph_output(qb_graph *g, qb_value v, qb_error *err); /* appends one output */
QB_API bool qb_graph_freeze(qb_graph *g, qb_error *err);             /* from here on read-only and shareable */
QB_API void qb_graph_at(qb_graph *g, const char *file, int line);    /* the user's line of the nodes that follow */
QB_API int qb_graph_input_count(const qb_graph *g);
QB_API int qb_graph_output_count(const qb_graph *g);
QB_API int qb_graph_node_count(const qb_graph *g);
QB_API const qb_type *qb_graph_input_type(const qb_graph *g, int i);
QB_API const char *qb_graph_input_name(const qb_graph *g, int i);
QB_API qb_value qb_graph_output_at(const qb_graph *g, int i);
QB_API const qb_type *qb_type_of(qb_value v);

/* Add an op the way a user writes it: operands are promoted (weak scalars adopt a dtype, bool meets float as 0/1, float32 with
   float64 is QB_EDTYPE) and broadcast; axes may be negative; reshape takes one -1; matmul takes rank 1 and batches as
   NumPy does. A failed call leaves the graph usable. */
QB_API qb_value qb_apply(qb_graph *g, int op, const qb_value *x, int n, const qb_attr *attr, qb_error *err);
/* Shorthand for C programs: qb_op1("tanh", x, err), qb_op2("add", x, y, err). */
QB_API qb_value qb_op1(const char *op, qb_value x, qb_error *err);
QB_API qb_value qb_op2(const char *op, qb_value x, qb_value y, qb_error *err);

/* Control flow. Bodies are frozen graphs whose inputs stand for the operands x, one by one (of dtype and shape alike); the graph keeps
   references to them. outs gets a value for each output of the body. A body sees nothing of the graph around it: what it uses
   is among its operands. */
/* The outputs of on_true where pred (bool[]), else of on_false. Only that branch runs. */
QB_API bool qb_cond(qb_graph *g, qb_value pred, const qb_graph *on_true, const qb_graph *on_false, const qb_value *x, int n,
                    qb_value *outs, qb_error *err);
/* The body `length` (> 0) times. x: first `carries` values that go from one iteration to the next, then `xs` arrays of which iteration
   i gets x[i] (first axis of that length; with reverse from the last to the first), then whatever is the same in all of them. The
   body gives the next carries, then values that are stacked. outs: the last carries, then the stacks. */
QB_API bool qb_scan(qb_graph *g, const qb_graph *body, int64_t length, bool reverse, int carries, int xs, const qb_value *x, int n,
                    qb_value *outs, qb_error *err);
/* body gives the next carries while test gives true (bool[]). x: `carries` values, then what is the same in all iterations. max_steps:
   0, or a bound, at which the loop ends whatever test says; qb_vjp needs one. */
QB_API bool qb_while(qb_graph *g, const qb_graph *test, const qb_graph *body, int64_t max_steps, int carries, const qb_value *x, int n,
                     qb_value *outs, qb_error *err);

/* Functions with a derivative of their own. Bodies are frozen graphs; `value` takes the operands x and gives floating results, one outs each.
   A plan computes the value; transforms splice the rules. name is for messages. */
/* Reverse mode computes the value again in place of keeping what it needs of it. */
QB_API bool qb_checkpoint(qb_graph *g, const qb_graph *value, const qb_value *x, int n, qb_value *outs, qb_error *err);
/* rule: of the operands and a tangent for each floating one, the results and their tangents, linear in the tangents. */
QB_API bool qb_custom_jvp(qb_graph *g, const char *name, const qb_graph *value, const qb_graph *rule, const qb_value *x, int n,
                          qb_value *outs, qb_error *err);
/* forward: of the operands, the results and then residuals. backward: of the residuals and a cotangent for each result, a cotangent
   for each floating operand. Such a function has no forward mode: qb_forward_mode tells. */
QB_API bool qb_custom_vjp(qb_graph *g, const char *name, const qb_graph *value, const qb_graph *forward, const qb_graph *backward,
                          const qb_value *x, int n, qb_value *outs, qb_error *err);
QB_API bool qb_forward_mode(const qb_graph *g); /* may qb_jvp be asked? False where a custom_vjp is in the program */

QB_API char *qb_graph_text(const qb_graph *g, qb_error *err); /* the graph's own text; parses back. qb_free it */
QB_API char *qb_graph_listing(const qb_graph *g, qb_error *err); /* one line a node, for people; no final newline. qb_free it */
QB_API char *qb_graph_stablehlo(const qb_graph *g, qb_error *err); /* a StableHLO module; QB_EUNSUPPORTED with err->op. qb_free it */
QB_API qb_graph *qb_parse(const char *text, qb_error *err);   /* frozen */
QB_API bool qb_check(const qb_graph *g, qb_error *err);       /* is the graph legal? */
QB_API void qb_free(void *text);

/* ---- transforms: src is frozen; its inputs are bound to `args` in dst; results are values of dst ---- */

QB_API bool qb_inline(qb_graph *dst, const qb_graph *src, const qb_value *args, qb_value *outs, qb_error *err);
/* tangents[i] may be QB_NONE (zero); out_tangents[i] is QB_NONE where it is zero. */
QB_API bool qb_jvp(qb_graph *dst, const qb_graph *src, const qb_value *args, const qb_value *tangents, qb_value *outs,
                   qb_value *out_tangents, qb_error *err);
/* cotangents, one per output, may be QB_NONE; grads, one per input, QB_NONE where zero. wanted (may be NULL: all) says
   which inputs need a gradient. */
QB_API bool qb_vjp(qb_graph *dst, const qb_graph *src, const qb_value *args, const qb_value *cotangents,
                   const bool *wanted, qb_value *outs, qb_value *grads, qb_error *err);
/* outs as qb_vjp would write them, before cotangents are known: the program with the rules of custom_jvp and custom_vjp between wanted inputs
   and seeded outputs (either may be NULL: all) in place. What differentiates outs goes through them. */
QB_API bool qb_vjp_values(qb_graph *dst, const qb_graph *src, const qb_value *args, const bool *wanted, const bool *seeded,
                          qb_value *outs, qb_error *err);
/* mapped[i]: args[i] has the batch axis first, of length size. out_mapped[i] says the same of outs[i]. */
QB_API bool qb_vmap(qb_graph *dst, const qb_graph *src, const qb_value *args, const bool *mapped, int64_t size,
                    qb_value *outs, bool *out_mapped, qb_error *err);

/* ---- plans ---- */

typedef struct qb_plan qb_plan;
typedef struct {
    const char *target;    /* NULL or "cpu" */
    /* NULL: as the program says. "float32", on the CPU: what is float32 is computed in float32, not in float64 and rounded, within 1e-5
       of it. "float64", on the CPU: NULL */
    const char *precision;
} qb_options;

QB_API qb_plan *qb_compile(const qb_graph *g, const qb_options *options, qb_error *err);
QB_API qb_plan *qb_plan_retain(qb_plan *p);
QB_API void qb_plan_release(qb_plan *p); /* NULL is fine */
/* inputs: one pointer per graph input, row-major data of its type. outputs: one pointer per output, room for it, which overlaps no
   input. Any number of threads may run one plan. */
QB_API bool qb_plan_run(qb_plan *p, const void *const *inputs, void *const *outputs, qb_error *err);
QB_API int qb_plan_input_count(const qb_plan *p);
QB_API int qb_plan_output_count(const qb_plan *p);
QB_API const qb_type *qb_plan_output_type(const qb_plan *p, int i);
QB_API char *qb_plan_text(const qb_plan *p, qb_error *err);  /* as_text(): the optimized program. qb_free it */
QB_API char *qb_plan_steps(const qb_plan *p, qb_error *err); /* the steps with their memory, for people. qb_free it */
/* One run, with the time that each step takes. steps has room for qb_plan_step_count(p). Bytes are those of operands and results; an
   elementwise operation is one flop. Texts live as long as the plan. The seconds of a step of a sweep (steps that run block of points by
   block of points, numbered from 1) are summed over the threads that share its blocks. A loop is one step with the counts of its body: of all
   iterations of a scan, of one of a while, of a cond's larger branch. */
typedef struct {
    char what[120];        /* "matmul 1000x64x64", "elementwise 1000x64: tanh, 3 mul; sum" */
    const char *file;      /* of the user's code; NULL unknown */
    uint32_t line;
    int sweep;             /* 0: of none */
    double seconds, flops, bytes;
    double functions;      /* those of the flops that are exp, tanh and the like */
} qb_step_profile;
QB_API int qb_plan_step_count(const qb_plan *p);
QB_API bool qb_plan_profile(qb_plan *p, const void *const *inputs, void *const *outputs, qb_step_profile *steps, qb_error *err);
QB_API int64_t qb_plan_workspace(const qb_plan *p);          /* bytes of working memory of one run */
QB_API int qb_plan_node_count(const qb_plan *p);

/* One op on host data: compiled once per op, attributes and operand types, then a table look-up and a run. data[i] is
   row-major. *out is a new buffer. */
QB_API bool qb_eager(int op, const qb_attr *attr, int n, const qb_type *const *types, const void *const *data,
                     qb_buffer **out, qb_type *out_type, qb_error *err);

/* Called every few milliseconds, from the thread that runs the plan, while a loop runs; true ends the run with QB_EINTERRUPT. One
   function for the process; NULL: none. The plan stays usable. */
typedef bool qb_interrupt_fn(void *arg);
QB_API void qb_set_interrupt(qb_interrupt_fn *fn, void *arg);

/* ---- targets and threads ---- */

QB_API int qb_target_count(void);
QB_API const char *qb_target_name(int i); /* "cpu" */
QB_API bool qb_target_built(const char *name);
/* Threads of the pool, the caller included, at most QB_MAX_THREADS. n = 0: QUABLA_NUM_THREADS or the CPUs this process may use. */
QB_API bool qb_set_num_threads(int64_t n, qb_error *err);
QB_API int qb_get_num_threads(void);
QB_API const char *qb_isa(void);                            /* ISA level in use: "v4", "v3", "neon" */
QB_API bool qb_set_isa(const char *name, qb_error *err);    /* for tests; NULL: the best this CPU has */
QB_API void qb_set_tiling(int policy);                      /* for tests, plans made from now on: 0 where it pays, 1 never, 2 wherever it can */
QB_API bool qb_cpu_supported(qb_error *err);                /* false on an x86 CPU without AVX2 and FMA */

/* ---- random numbers: SplitMix64 streams (Steele, Lea, Flood 2014), the same on every platform ---- */

QB_API uint64_t qb_random_bits(uint64_t key, uint64_t i);   /* output i of the stream with state `key` */
QB_API void qb_random_uniform(uint64_t key, int64_t n, double lo, double hi, int dtype, void *out); /* in [lo, hi) */
QB_API void qb_random_normal(uint64_t key, int64_t n, double mean, double stddev, int dtype, void *out); /* Box-Muller */
QB_API void qb_random_truncated(uint64_t key, int64_t n, double lo, double hi, int dtype, void *out); /* standard normal in [lo, hi] */
/* index[0..n) is 0..n-1 with its first k entries drawn at random without replacement; a whole permutation for k = n. */
QB_API void qb_random_permutation(uint64_t key, int64_t n, int64_t k, double *index);
QB_API void qb_random_integers(uint64_t key, int64_t n, int64_t k, double *out); /* k numbers of 0..n-1 */

/* ---- tests ---- */

/* The n-th allocation of the library from now on fails, and all after it; n < 0 turns this off. For tests of the library. */
QB_API void qb_test_fail_alloc(int64_t n);
QB_API int64_t qb_test_live_bytes(void); /* bytes that the library holds now */

#ifdef __cplusplus
}
#endif
#endif
