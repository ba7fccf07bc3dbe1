/* plan.h: from a frozen graph to a frozen plan. plan.c is the pipeline, a list of calls that can be read aloud.

   A plan has three kinds of steps. A REGION runs elementwise instructions over one iteration space: it loads through strides
   (so broadcasts, transposes, slices and reshapes cost no step of their own), stores through strides (so concat, pad and
   copies are regions too), and may end in reductions. A MATMUL multiplies strided matrices. A CALL is one op whose operands and
   results lie row-major in memory (gather, cumsum, ...): a backend has a kernel for it. A LOOP is control flow (cond, scan, while);
   its bodies are plans of their own. Backends run the same steps.

   THE ORDER CONTRACT. Written once; every reduction, matmul, tile, thread, backend tier, eager op and src/ir/value.c follow it.
   Per output element, over the index k = 0, 1, ... of the flattened reduced axes (row-major order of the operand's own axes):
     sum, mean   k is cut in blocks of 128 (the last may be shorter). In a block, element k goes to lane k mod 8; each lane adds its elements
                 in k order, starting from -0.0 (the neutral element of addition). The 8 lanes are added as a fixed tree:
                 l[i] += l[i+4] (i < 4), l[i] += l[i+2] (i < 2), l[0] += l[1]. The total starts as the first block's sum; the others
                 are added to it in order. float32: lanes, tree and total are float64, rounded once at the end. mean: the total is divided by
                 the number of elements (float64 division) before that rounding.
     matmul      k is cut in blocks of 128. A block is one chain acc = fma(a[i,k], b[k,j], acc) in k order from acc = +0.0. The total starts
                 as the first block's acc; the others are added to it in order. float32: operands are widened to float64, all
                 this happens in float64, and the total is rounded once. No other variant exists for thin or batched shapes.
                 Of two NaNs an addition, product or fma keeps either.
     max, min    exact, so any order: NaN if any element is NaN (the canonical quiet NaN), and -0 < +0.
   A NATIVE plan (precision "float32") computes what is float32 in float32, in the same order: products with chain and total, sums with
   lanes and tree (totals of their blocks stay float64, rounded once), and functions of their own. float64 values are as ever.
   So a value never depends on layout, transposes, batching (vmap equals the loop bit for bit), tiles, threads or ISA. */
#ifndef PLAN_H
#define PLAN_H

#include "ops/rules.h"

enum { BLOCK = 128, SUM_LANES = 8 };

/* ---- the plan ---- */
/* The last three belong to a sweep (below): rows of one block of points; what a step sees of another slot from the block's first
   point on; the block's part of a sum. */
typedef enum { SLOT_INPUT, SLOT_OUTPUT, SLOT_WORK, SLOT_CONST, SLOT_ROWS, SLOT_CURSOR, SLOT_PART } SlotKind;
typedef struct {         /* a piece of memory that steps read or write */
    uint8_t kind, dtype;
    int32_t index;       /* of the input, output, constant or cursor */
    int64_t offset;      /* SLOT_WORK: byte offset in the workspace, a multiple of 64. ROWS, PART: in the memory of a thread, of a block */
    int64_t bytes;
} Slot;

typedef struct {         /* where element (i0, i1, ...) of a step's iteration space lives: offset + sum of i * stride */
    int32_t slot;
    int64_t offset;      /* in elements of the slot's dtype */
    int64_t stride[QB_MAX_RANK]; /* in elements, over the iteration dims; 0 repeats */
} Access;

/* Values of a region: loads first (0 .. n_loads-1), then one per instruction. Loads may be stored and reduced as they are.
   An access is CANONICAL when its offset is 0, its strides are row-major over the dims and it covers the whole slot. A store shares
   memory with a load of its region only if both, and all accesses of the region to either slot, are canonical and of one element size:
   equal index, equal address. A backend that reads loads from memory must have read such a load before it overwrites it (or keep
   the stored value aside until the load's last use). Else no store overlaps a load, and no two stores overlap.
   Elements are independent, so rows [lo, hi) of dims[0] are the same region with every offset moved by lo * stride[0] and
   dims[0] = hi - lo: batch tiling (Sweep, below) stands on that. */
typedef struct { uint8_t dtype; bool splat; double value; Access at; } Load; /* splat: a constant, no memory */
typedef struct {
    uint8_t op;          /* an elementwise op: a row, powi, cast, where */
    uint8_t in, out;     /* dtype of the operands (of a and b for where: mask is bool) and of the result */
    int32_t a, b, c;     /* value ids in the order of the op's operands (where: mask, a, b); -1 unused */
    int64_t i;           /* powi: exponent */
} Instr;
typedef struct { int32_t value; Access at; } Store;
typedef struct {
    int32_t value;
    uint8_t op;          /* OP_sum, OP_mean, OP_max, OP_min */
    Access at;           /* over the iteration dims; strides of reduced dims are 0 */
} Reduce;

/* Reductions of a region all reduce the same dims: the trailing ones [split, rank) or the leading ones [0, split). */
typedef enum { REDUCE_NONE, REDUCE_TRAILING, REDUCE_LEADING } ReduceForm;
typedef struct {
    int rank;            /* after collapsing; no dim of length 1; rank 0 is one element */
    int64_t dims[QB_MAX_RANK];
    int64_t size;        /* product of dims */
    ReduceForm form;
    int split;           /* a full reduction is REDUCE_TRAILING with split 0 */
    int n_loads, n_instrs, n_stores, n_reduces;
    Load *loads; Instr *instrs; Store *stores; Reduce *reduces;
} Region;

typedef struct { int32_t slot; int64_t offset, row, col; int64_t batch[QB_MAX_RANK]; } Mat; /* strides in elements */
typedef struct { int64_t m; Mat a, c; } MatPart;
/* C = A B for every part and every batch index. Parts (merged matmuls) share B, n, k, dtype; each has its own m, A and C. C is row-major:
   c.col == 1. batch strides of 0 repeat an operand. */
typedef struct {
    int64_t n, k;
    int rank;            /* batch dims after collapsing; 0 is one product */
    int64_t dims[QB_MAX_RANK];
    uint8_t dtype;       /* F32 or F64, of all three */
    Mat b;
    int n_parts;
    MatPart *parts;
} MatMul;

/* One op. Results overlap no operand. Operand and result i: row-major, from element `offset` of the slot on. */
typedef struct { int32_t slot; int64_t offset; Type type; } CallArg;
typedef struct {
    uint8_t op;
    const Attr *attr;    /* the plan's own copy; a buffer in it is among the plan's constants */
    int n, results;
    CallArg *x, *z;
} Call;

/* Control flow. Operands and results are row-major pieces of slots. A body is a plan: its inputs are the operands (of xs and of stacked
   results, one iteration's slice: `bytes` of it, one after the other), its outputs the results. cond: operand 0 is the predicate, the
   bodies take the others. while: body 0 is the test before the first iteration; body 1 gives the next carries and the test of
   these. scratch is memory for one run: a second buffer for every carry (the first one is the result's), a byte for the test, the
   workspaces of the bodies. Iterations allocate nothing.
   A carry SLIDES when the body makes it of itself without some rows at one end, with new ones at the other, as a history does. Where the
   next one is written shift[k] bytes from this one (0: it does not slide), the rows that stay are in their place. room[k]: bytes of its
   second buffer, in which two of it fit and a step between. */
typedef struct { int32_t slot; int64_t offset, bytes; } Span; /* in bytes */
typedef struct {
    uint8_t op;
    bool reverse;
    int64_t length;      /* scan: iterations. while: the most there may be, 0: any number */
    int carries, xs, n_in, n_out;
    Span *in, *out;
    int64_t *shift, *room; /* per carry, in bytes */
    bool slides;         /* one of them does */
    qb_plan *body[2];    /* the plan owns them (qb_plan.bodies) */
    int32_t scratch;
    int64_t work[2];     /* where the workspaces are in it, after the carries; go: the byte */
    int64_t go;
} Loop;

typedef enum { STEP_REGION, STEP_MATMUL, STEP_CALL, STEP_LOOP } StepKind;
/* Where a step of a sweep has the points. REGION: dims[0]. ROWS, BATCH, INNER: m of every part, dims[0] of the batch, k. */
typedef enum { ALONG_NONE, ALONG_REGION, ALONG_ROWS, ALONG_BATCH, ALONG_INNER } Along;
typedef struct {
    StepKind kind;
    uint8_t along;
    union { Region region; MatMul matmul; Call call; Loop loop; };
    const char *file; uint32_t line; /* of the user's code, for the profiler */
} Step;

/* A SWEEP: steps [first, first + n) run block by block of BLOCK points, each block by one thread, all steps of a block in order. The
   steps are written for one block: their extent along the points is a multiple of BLOCK, for the last block less in proportion.
   What only they use is a SLOT_ROWS, which holds one block. What they use beside it is whole before the sweep, or is read by nobody
   before its end; they walk through it: a SLOT_CURSOR starts at the block's first point.
   A sum over points (a reduction of points, a product with k = points) is a SLOT_PART of each block, [per][width] numbers of
   float64, or of float32 where a native plan adds in it: the results of its blocks of 128 k, which are added to the total block after block. After the last one the total, divided by count
   where that is not 0, goes to `at`, over dims, rounded to the dtype of its slot.
   The `beside` steps right before the sweep run while it runs, one after the other on one thread: it touches nothing that they write,
   and they nothing that it writes (beside.c). */
typedef struct {
    uint8_t op;          /* OP_sum, OP_max, OP_min */
    int32_t step;        /* of the sweep, from 0 on */
    int32_t part;        /* slot */
    int64_t width, per, count;
    int rank;
    int64_t dims[QB_MAX_RANK];
    Access at;
} SweepSum;
typedef struct { int32_t slot; int64_t step; } Cursor; /* bytes from one point to the next */
typedef struct {
    int first, n, beside;
    int64_t points;
    int first_cursor, n_cursors;
    int n_sums;
    SweepSum *sums;
    int64_t rows_bytes, part_bytes; /* memory of a thread; of a block's parts */
} Sweep;

typedef struct Target Target;
struct qb_plan {
    Arena arena;         /* slots, steps and all that hangs on them */
    Slot *slots; int n_slots;
    Step *steps; int n_steps;
    Sweep *sweeps; int n_sweeps; /* in order of their steps */
    Cursor *cursors; int n_cursors;
    Type *in_types, *out_types; int n_inputs, n_outputs;
    qb_buffer **consts; int n_consts;
    qb_plan **bodies; int n_bodies; /* of loops */
    bool native;         /* precision "float32": float32 is computed in float32 */
    int64_t work_bytes;
    Graph *graph;        /* the optimized program, for as_text() only */
    const Target *target;
    void *exec;          /* the target's compiled form */
    atomic_long refs;
};

/* ---- targets: what a backend implements ---- */
struct Target {
    const char *name;
    bool (*prepare)(qb_plan *p, const qb_options *options, qb_error *err); /* fills p->exec */
    bool (*run)(qb_plan *p, const void *const *in, void *const *out, qb_error *err);
    void (*drop)(qb_plan *p);                                             /* frees p->exec; it may be NULL */
    int64_t (*room)(const qb_plan *p);      /* bytes of memory that one run of p inside a loop takes from that loop's scratch */
    bool sweeps;         /* it runs sweeps; else plans have none */
    /* A run that adds to ns[i] the time of step i; NULL: not told. */
    bool (*time)(qb_plan *p, const void *const *in, void *const *out, atomic_llong *ns, qb_error *err);
};

/* ---- plan.c ---- */
qb_plan *plan_compile(const Graph *g, const Target *t, const qb_options *options, qb_error *err);
void plan_release(qb_plan *p);
int64_t plan_workspace(const qb_plan *p);             /* bytes of working memory of one run, loops included */

/* ---- dce.c, simplify.c: graph passes; each returns a frozen graph, or NULL and *err ---- */
/* Copies one node of `from` into `to`; map gives the value in `to` of every value of `from` that came before. */
typedef Val RewriteNode(Graph *to, const Graph *from, const Node *n, const Val *map);
Graph *dce_run(const Graph *g, qb_error *err);
Val dce_copy(Graph *to, const Graph *from, const Node *n, const Val *map);
Graph *dce_rewrite(const Graph *g, RewriteNode *rewrite, qb_error *err); /* all inputs, and every node that an output needs */
Graph *expand_run(const Graph *g, qb_error *err);   /* custom nodes become their value; g itself where there are none */
Graph *simplify_run(const Graph *g, qb_error *err), *simplify_native(const Graph *g, qb_error *err); /* native: of such a plan */
Graph *turn_run(const Graph *g, qb_error *err);     /* turn.c: matrices of loops, as their products read them best; g itself where there are none */
Graph *cut_run(const Graph *g, qb_error *err);      /* cut.c: elementwise work on joined arrays; g itself where nothing is cut */
Val short_reduce(Val x, const Node *n, bool native); /* short.c: of simplify; NONE where the reduction is to stay */

/* ---- trim.c: what of a region somebody needs ---- */
/* live: results that are read; those that the bodies need for them are added. needs: operands. False: out of memory. */
bool trim_mark(const Node *n, bool *live, bool *needs);
bool trim_copy(Graph *to, const Node *n, const Val *x, const bool *live, const bool *needs, Val *z);

/* ---- the draft: what the passes below hand on. It dies with plan_compile; ids are values of the simplified graph ---- */
/* How a value comes to be. LEAF: an input or a dense constant. COPY: a reshape that strides cannot express. */
typedef enum {
    MADE_LEAF, MADE_SPLAT, MADE_VIEW, MADE_ELEM, MADE_REDUCE, MADE_MATMUL, MADE_COPY, MADE_CONCAT, MADE_PAD, MADE_CALL,
    MADE_LOOP
} Made;

/* Where the elements of a value are in another: over the value's own dims, in elements of base; 0 for dims of length 1. */
typedef struct { Id base; int64_t offset; int64_t stride[QB_MAX_RANK]; } View;
typedef struct { View at; Id parent; } Place; /* a value that is stored inside the memory of a concat or pad_slice */
typedef struct { int slot; int64_t offset; int64_t stride[QB_MAX_RANK]; } Spot; /* memory of a value, over its own dims */

/* What a region is asked to do. INSTR and REDUCE: make the value. STORE: write the value to `to`, a part of `parent`. */
typedef enum { ITEM_INSTR, ITEM_REDUCE, ITEM_STORE } ItemKind;
typedef struct { uint8_t kind; int32_t depth; Id value, parent; int32_t next; Spot *to; } Item; /* next: in its cluster, -1 */

typedef struct { int32_t *at; int n, cap; } List; /* a set of small numbers, in order of arrival */
typedef struct {         /* a step on its way */
    Step step;
    int32_t depth;       /* every step that this one reads from has a smaller depth, or is earlier at the same one */
    bool fill;           /* zeros of a pad_slice: runs right before the first job that has it in `fills` */
    int sweep;           /* tile.c: the number of its sweep, from 1 on; 0: none */
    List reads, writes;  /* slots */
    List fills;          /* jobs */
    Id *values;          /* region: the value that instr i makes for all; NO_ID for a recomputed one */
    int room;            /* of its stores or parts, while it grows */
} Job;

typedef struct RegionDraft RegionDraft;
typedef struct {
    const Graph *g;
    qb_plan *p;
    qb_error *err;
    Arena scratch;
    /* per value */
    uint8_t *made;       /* view.c */
    View **view;         /* view.c: of MADE_VIEW values, else NULL */
    uint32_t *uses;      /* place.c: operands and outputs that name the value */
    Place **place;       /* place.c: NULL: memory of its own, row-major */
    int32_t *slot;       /* memory.c: -1 until somebody needs its memory */
    int32_t *depth;      /* depth.c, as the next five */
    int32_t *floor;      /* per view: the least depth of what reads it, where `after` is on the way */
    int32_t late;        /* from this depth on steps run in the order of their depths: the least floor there is; else INT32_MAX */
    Id *same;            /* the elementwise value that this one is, but for dims of length 1; else NO_ID */
    bool *stored;        /* somebody reads it from memory; region.c adds to it */
    bool *again;         /* cheap to compute again from what is in memory anyway */
    int32_t *fill;       /* fuse.c: job that fills a pad_slice with zeros */
    int32_t **temp;      /* loop.c: per first result of a loop or call: slots of operands that are copied first, -1 for the others */
    RegionDraft *open;   /* region.c */
    Job **jobs; int n_jobs, cap_jobs;
    int cap_slots, cap_consts, cap_bodies, cap_sweeps, cap_cursors;
    const Target *target;
    const qb_options *options;
} Draft;

/* ---- plan.c: memory of the draft; NULL (false) and *err when there is none ---- */
void *plan_alloc(Draft *d, int64_t n, size_t size);                        /* zeroed, from scratch */
void *plan_keep(Draft *d, int64_t n, size_t size);                         /* zeroed, from the plan's arena */
void *plan_grow(Draft *d, void *p, int used, int *cap, size_t size);       /* room for one more entry, in scratch */
bool plan_note(Draft *d, List *set, int32_t x);                            /* adds x, once */
Job *plan_job(Draft *d, StepKind kind, int depth);
bool plan_fail(Draft *d, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- view.c (absorb): which values are views of another, and the strides ---- */
bool view_absorb(Draft *d);
void view_of(const Draft *d, Id v, View *out);
bool view_whole(const Draft *d, Id v, Id *base);      /* is v all of base in row-major order? */
Id view_base(const Draft *d, Id v);
int view_strip(const Type *t, int64_t *dims);         /* dims that are not 1; returns how many */
void view_squeeze(const Type *t, const int64_t *stride, int64_t *out); /* strides of those dims */
void view_rows(const Type *t, int64_t *stride);       /* row-major strides; 0 for dims of length 1 */
bool view_reshape(const Type *from, const int64_t *stride, const Type *to, int64_t *out); /* false: no strides say it */

/* ---- place.c: which values are made in the memory of an output, a concat or a pad_slice ---- */
bool place_run(Draft *d);
bool place_spot(Draft *d, Id v, Spot *out);           /* where v is stored, over its own dims */
void place_access(const Type *t, const Spot *spot, Access *out); /* the same over the dims that are not 1 */
int64_t place_start(const Node *n);                   /* where the first operand of a concat or pad_slice goes, along its axis */
bool place_part(Draft *d, const Node *n, Id x, int64_t start, Spot *out); /* where operand x, which starts there, goes */
bool place_fills(Draft *d, Id parent, Job *job);      /* job writes a part of parent (NO_ID: of nothing): the fills that come first */

/* ---- depth.c: the depth at which each value is made, and which values are stored ---- */
bool depth_run(Draft *d);
int depth_ready(const Draft *d, Id base);             /* of a step that reads base from memory */

/* ---- fuse.c: elementwise nodes, reductions and copies become clusters; region.c: a cluster becomes regions ---- */
bool fuse_run(Draft *d);
bool region_open(Draft *d);
bool region_cluster(Draft *d, Item *items, int first);            /* items are linked by next, in order of ids */
bool region_permuted(Draft *d, Id reduce, int depth);             /* a reduction over dims in the middle: a region of its own */
int region_fill(Draft *d, Id pad);                                /* the job that zeroes it; -1 */
ReduceForm region_form(const Type *t, const Attr *attr, int *split); /* REDUCE_NONE: neither leading nor trailing */

/* ---- call.c: ops that want their operands in memory ---- */
bool call_op(int op);                                              /* is it made by a call? */
bool call_run(Draft *d);

/* ---- merge.c: matmul steps; finish.c: stores of what others read, dims collapsed; order.c: the order in which jobs run;
        memory.c: slots and their offsets ---- */
bool merge_run(Draft *d);
bool finish_run(Draft *d);
bool finish_memory(Draft *d, Job *job);                           /* reads and writes anew, from the accesses */
bool order_run(Draft *d);
bool memory_open(Draft *d);                                        /* slots of inputs and outputs */
int memory_slot(Draft *d, Id v);                                  /* -1 when out of memory */
int memory_add(Draft *d, Slot slot);                               /* a new slot; -1 when out of memory */
int memory_work(Draft *d, int dtype, int64_t bytes);              /* a new slot in the workspace; -1 when out of memory */
bool memory_keep(Draft *d, qb_buffer *b);                         /* the plan holds b from now on */
bool memory_run(Draft *d);

/* ---- loop.c: steps for cond, scan and while ---- */
bool loop_open(Draft *d);
bool loop_copies(const Draft *d, Id x);               /* operand x must be copied to be row-major in memory */
bool loop_temps(Draft *d, const Node *n);             /* slots for such copies of n's operands */
bool loop_run(Draft *d);

/* ---- tile.c: which jobs become a sweep; sweep.c: their steps are rewritten for a block ---- */
typedef enum { TILE_AUTO, TILE_NEVER, TILE_ALWAYS } TilePolicy;
void tile_set(TilePolicy policy);                                  /* for tests; plans made from now on */
bool tile_run(Draft *d);
int64_t tile_extent(const Step *s, Along along);                   /* the extent that would have the points */
/* The jobs of one more sweep, number p->n_sweeps + 1, have their points along step.along; local: slots that only they use. */
bool sweep_make(Draft *d, int64_t points, const bool *local);
bool sweep_order(Draft *d);                                        /* p->sweeps as the jobs are ordered now */

/* ---- beside.c: which jobs run beside a sweep ---- */
bool beside_run(Draft *d);

/* ---- profile.c: what a step does, in numbers; all but its time ---- */
void profile_step(const qb_plan *p, int i, qb_step_profile *out);

/* ---- cache.c: eager ops, compiled once per op, attributes and operand types ---- */
bool cache_eager(const Target *t, int op, const Attr *attr, int n, const Type *const *types, const void *const *data,
                 qb_buffer **out, Type *out_type, qb_error *err);
void cache_clear(void);                               /* forget all compiled ops, as after a change of ISA */

/* ---- dump.c: plan steps as text; QUABLA_DUMP=simplify,fuse,... prints the IR or the steps after a pass ---- */
void dump_steps(Text *t, const qb_plan *p);
bool dump_wanted(const char *pass);
void dump_graph(const char *pass, const Graph *g);    /* to stderr when wanted */
void dump_draft(const char *pass, const Draft *d);
void dump_plan(const char *pass, const qb_plan *p);

#endif
