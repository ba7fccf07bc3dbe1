/* cpu.h: the CPU backend. It runs plan steps on vector kernels that are compiled once per ISA level from one text. */
#ifndef CPU_H
#define CPU_H

#include "plan/plan.h"

extern const Target cpu_target; /* cpu.c */
static inline int64_t cpu_larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- kernels.c, compiled per ISA: elementwise loops ---- */
/* n elements of o from a, b, c (arrays of n elements; unused ones NULL); o may equal an operand of the same element size.
   i: powi's exponent. */
typedef void KernelFn(void *o, const void *a, const void *b, const void *c, int64_t i, int64_t n);
/* Superinstructions: a * b + c, a * b - c, c - a * b, each with both roundings. */
typedef enum { FUSED_MUL_ADD, FUSED_MUL_SUB, FUSED_SUB_MUL, FUSED_COUNT } Fused;
enum { /* kernels are numbered, and a program holds numbers, so it runs on any level */
    CAST_FIRST = OP_COUNT * QB_DTYPE_COUNT,
    FUSED_FIRST = CAST_FIRST + QB_DTYPE_COUNT * QB_DTYPE_COUNT,
    NATIVE_FIRST = FUSED_FIRST + FUSED_COUNT * QB_DTYPE_COUNT,
    NATIVE_BEFORE = NATIVE_FIRST - 1,
#define UNARY(name, ...) NATIVE_##name,
#include "cpu/native.h"
    KERNEL_COUNT
};
/* Rows, powi, where (by the dtype of its last two operands), stop_gradient (a copy). dtype: of the operands. */
static inline int kernel_op(int op, int dtype) { return op * QB_DTYPE_COUNT + dtype; }
int kernel_native(int op); /* the float32 kernel of a plan with precision "float32"; code.c */
static inline int kernel_cast(int from, int to) { return CAST_FIRST + from * QB_DTYPE_COUNT + to; }
static inline int kernel_fused(int fused, int dtype) { return FUSED_FIRST + fused * QB_DTYPE_COUNT + dtype; }

/* ---- reduce.c, compiled per ISA: sums, maxima and minima in the order contract. Accumulators are float64 ---- */
typedef enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCER_COUNT } ReducerKind;
enum { REDUCE_NATIVE = QB_F64 + 1, REDUCE_FORMS }; /* forms: float32, float64, and float32 of a native plan, whose lanes are float32 */
typedef struct { /* for one operation and one operand dtype */
    /* one result per block of 128 of the n elements of x; the last block may be shorter */
    void (*blocks)(double *out, const void *x, int64_t n);
    /* one result per row of w <= 128 elements */
    void (*rows)(double *out, const void *x, int64_t rows, int64_t w);
    /* rows of w elements, `apart` elements from one to the next, go to lanes[8][w]: row r to lane (first + r) mod 8 */
    void (*lanes)(double *lanes, const void *x, int64_t first, int64_t rows, int64_t w, int64_t apart);
    /* the 8 lanes of each of w columns, added as the fixed tree */
    void (*tree)(double *out, const double *lanes, int64_t w);
    /* total[i] = total[i] + next[i] */
    void (*join)(double *total, const double *next, int64_t n);
    double neutral; /* lanes start with its bytes */
    /* as blocks and rows, of the products x[k] y[k], each rounded; NULL where there is none */
    void (*dot_blocks)(double *out, const void *x, const void *y, int64_t n);
    void (*dot_rows)(double *out, const void *x, const void *y, int64_t rows, int64_t w);
} Reducer;

/* A step and a product in one pass, as in CG or L-BFGS: o = a b + c, a b - c or c - a b (a Fused), and the sums of the blocks of o w. */
typedef struct { double *o; const double *a, *b, *c, *w; } Chain;
typedef void ChainFn(double *out, const Chain *x, int64_t n);

/* ---- isa.c: the levels of this CPU, best first ---- */
typedef struct GemmJob GemmJob;
typedef struct {
    const char *name; /* "v4" */
    KernelFn *const *kernels;                    /* [KERNEL_COUNT]; NULL where no such op exists for the dtype */
    const Reducer (*reducers)[REDUCE_FORMS];     /* [REDUCER_COUNT][QB_F32, QB_F64 or REDUCE_NATIVE] */
    ChainFn *const (*chains)[2];                 /* [FUSED_COUNT][is a one number for all elements?] */
    void (*spread)(void *o, const void *x, int64_t n); /* one float64, n times */
    void (*gemm)(const GemmJob *job, int64_t m0, int64_t m1);
    void (*pack)(const GemmJob *job);
    void (*gemm_f32)(const GemmJob *job, int64_t m0, int64_t m1); /* of native jobs */
    void (*pack_f32)(const GemmJob *job);
} Isa;
const Isa *isa_now(void);
bool isa_set(const char *name, qb_error *err);   /* NULL: the best */
bool isa_supported(qb_error *err);

/* ---- move.c: strided memory and contiguous registers ---- */
typedef struct { /* one access, its dims merged where the strides allow */
    int rank;
    int64_t elem; /* bytes of an element */
    int64_t dims[QB_MAX_RANK], stride[QB_MAX_RANK]; /* stride in bytes */
} Move;
void move_make(Move *k, int rank, const int64_t *dims, const int64_t *stride, int64_t elem); /* stride in elements */
/* Elements e .. e + n of the access, in row-major order, to or from the contiguous reg. */
void move_load(const Move *k, void *reg, const void *memory, int64_t e, int64_t n);
void move_store(const Move *k, void *memory, const void *reg, int64_t e, int64_t n);
int64_t move_offset(const Move *k, int64_t e); /* of element e, in bytes */
void move_repeat(void *o, const void *x, int64_t period, int64_t total, int64_t elem);

/* ---- tiles.c: constants of a plan, one tile per value and dtype ---- */
typedef struct {
    HashIndex index;
    uint64_t *bits; uint8_t *dtypes;
    int n, room;
    int64_t stride; /* bytes of a tile; every region of the plan fits */
} TileSet;
int64_t tiles_offset(TileSet *t, double value, uint8_t dtype, qb_error *err); /* of its tile; -1 when out of memory */
bool tiles_fill(const TileSet *t, char **out, qb_error *err);                 /* all tiles; mem_free them */
void tiles_free(TileSet *t);

/* ---- code.c: a region compiled. No pointers: an operand is a base, an offset and a scale ---- */
enum { TILE = 256 }; /* elements of a register; more of them leave the L1 cache, fewer pay for dispatch */
/* base addresses of a run: registers of the thread, block results, workspace, constants as tiles, in a sweep the rows of the thread's
   block and the parts of its sums, then the arrays: inputs, outputs, constants of the plan, cursors of its sweeps; last those that a
   region moves from row to row (rows.c) */
enum { BASE_THREAD, BASE_PARTS, BASE_WORK, BASE_TILES, BASE_ROWS, BASE_SUMS, BASE_ARRAYS };
typedef struct { int32_t base, scale; int64_t offset; } Ref; /* element e is at base + offset + e * scale, in bytes */
typedef void RunFn(char *const *base, int64_t e, int64_t n); /* elements e .. e + n */
typedef struct {
    uint16_t kernel; /* a kernel number, INS_LOAD or INS_STORE */
    int32_t run;     /* instructions that code does, this one and the next ones */
    int64_t i;       /* powi: exponent. load, store: its move */
    Ref o, a, b, c;
    RunFn *code;    /* on the level `emitted`; NULL: none */
} Ins;
/* INS_PICK: where with one truth value for all elements: a points to it, i is the kernel that copies b or c. Not in small regions. */
enum { INS_LOAD = KERNEL_COUNT, INS_STORE, INS_PICK };
static inline bool code_same(const Ref *a, const Ref *b) { return a->base == b->base && a->scale == b->scale && a->offset == b->offset; }
static inline bool code_reads(const Ins *s, const Ref *x) { return code_same(&s->a, x) || code_same(&s->b, x) || code_same(&s->c, x); }
typedef struct { Ref x; int64_t to, period, elem; } Repeat; /* a row or one element, expanded to a tile of the thread's memory */
/* Of rows.c: a base that starts at base `from` + where a row is - `back` bytes for each row before it; a row, copied for all of them. */
typedef struct { int32_t from; int64_t back; Move rows; } RowBase;
typedef struct { Ref x; int64_t to; Move row; } RowCopy;
typedef struct {
    uint8_t kind, dtype, form;
    int64_t count;  /* mean: number of elements; 0 for the others */
    Ref x, y, at;   /* operand; the other factor where products are added up; result at index 0 */
    bool dot;       /* products are */
    const Ins *chain; /* then: the last instruction, which makes y and runs with the sum; NULL: no such one */
    bool one;       /* a of chain is one number, at `a` */
    Ref a;
    Move move;      /* of the results */
    Move columns;   /* of x, where a region is straight */
    int64_t apart;  /* then: elements from row to row */
    int64_t lanes;  /* of the thread: accumulators of a block, when leading dims are reduced; then its results */
    Ref parts;      /* block results [blocks][width], where an output has several blocks */
    bool direct;    /* a kernel may write the results where they go: float64, consecutive, no mean */
} Fold;
typedef enum { SHAPE_FLAT, SHAPE_ROWS, SHAPE_LONG_ROWS, SHAPE_PANELS } Shape; /* shape.c explains them */
typedef struct {
    int n_ins, n_repeats, n_folds;
    Ins *ins; Repeat *repeats; Fold *folds; Move *moves;
    struct { /* rows.c */
        int split;          /* dims from here on are a row, 0: no access goes along rows; */
        int64_t w;          /* of so many elements */
        bool pieces;        /* tiles cross rows */
        int n_bases, n_copies, n_spreads;
        int32_t first;      /* of bases, among the bases of the plan */
        RowBase *bases;
        RowCopy *copies;    /* once */
        Repeat *spreads;    /* one element, for each row */
    } rows;
    Shape shape;
    int split;              /* w counts the dims from here on */
    int64_t size, tile;     /* elements in all, and of a tile */
    int64_t panel;          /* SHAPE_PANELS: columns of a panel */
    bool straight;          /* PANELS of nothing but arrays in memory: no tiles are made. Columns are the dims whose elements follow */
    bool turned;            /* each other, which may be the leading ones: then it is the trailing ones that are reduced */
    int64_t w, height;      /* row length and number of rows, of the iteration space seen as a matrix */
    int64_t per_row;        /* SHAPE_LONG_ROWS: tiles of a row. SHAPE_PANELS: panels of a row */
    int64_t width, blocks;  /* outputs of a reduction, and blocks of each */
    bool whole;             /* one long row of consecutive elements that is reduced, and nothing else: no need of tiles */
    bool copies;            /* nothing but copies of consecutive elements */
    bool small;             /* one tile, and its reductions have one block: vm_alone takes a shorter way */
    int64_t results;        /* of a small one: of a reduction */
    int64_t units, chunk;   /* work in pieces that touch no common result, and how many a thread takes at a time */
    int64_t thread_bytes, parts_bytes;
    const Isa *emitted;     /* the level for which instructions have code */
    bool partial;           /* the block results are the result: they are added elsewhere (blocks.c) */
} Code;
bool code_compile(Code *c, const qb_plan *p, const Region *r, TileSet *tiles, Arena *keep, qb_error *err);
void code_finish(Code *c, double cost); /* code_finish.c: the last of code_compile; ns an element */
bool code_settled(const Code *c, char *const *base); /* are its copies, where it is nothing else, copies of memory to itself? */
int32_t code_base(const qb_plan *p, int32_t slot, int64_t *offset); /* base of a slot; adds its place to *offset, in bytes */

/* ---- shape.c: how accesses lie, how the iteration space is cut ---- */
typedef enum { AT_FLAT, AT_ONE, AT_ROW, AT_STRIDED } Form; /* consecutive; one element; a row again and again; all else */
Form shape_form(const Region *r, const Access *at, int64_t *period); /* period: elements of the row */
void shape_cut(Code *c, const Region *r);                            /* fills in shape, split, tile, w, height, units, ... */
bool shape_repeats(const Code *c, int64_t period);                   /* may a row of this period be expanded once? */
void shape_shorten(Code *c, const Region *r, int64_t rows);          /* c, compiled for r, runs on the first rows of dims[0] only */

/* ---- rows.c: accesses that are consecutive along rows, in shapes whose tiles cross none ---- */
typedef enum { ROW_OTHER, ROW_DENSE, ROW_ONE, ROW_SAME } RowForm; /* along a row: consecutive; one element; a short row, the same for all */
RowForm rows_form(const Region *r, const Access *at, int split);
int rows_split(const Region *r, int from);    /* which dims are best a row; from: more than from here on would be of no use */
bool rows_open(Code *c, const qb_plan *p, const Region *r, Arena *keep); /* room for what goes along rows; false: out of memory */
Ref rows_dense(Code *c, const Region *r, const Access *at, Ref x, int64_t elem);            /* how x, the first element, is read along rows */
Ref rows_one(Code *c, const Region *r, const Access *at, Ref x, int64_t elem, int64_t to);  /* with a tile at `to` of the thread's memory */
Ref rows_same(Code *c, const Region *r, const Access *at, Ref x, int64_t elem, int64_t to); /* with a row there */
void rows_begin(const Code *c, char *const *base);                                          /* once per thread */
void rows_enter(const Code *c, const Isa *isa, char **base, int64_t row);
enum { ROWS_REGISTERS = 3 };                  /* bases of registers, by the size of an element, where tiles are made in pieces */
Ref rows_register(const Code *c, int64_t to, int64_t elem);
bool rows_is_register(const Code *c, const Ref *x);
void rows_tile(const Code *c, char **base, int64_t e);                                      /* a tile begins at element e */
int64_t rows_piece(const Code *c, const Isa *isa, char **base, int64_t e, int64_t end);     /* the end of the piece that begins there */

/* ---- vm.c: runs the units of a region ---- */
void vm_begin(const Code *c, const Isa *isa, char **base);                       /* once per thread */
void vm_expand(const Repeat *r, const Isa *isa, char *const *base, int64_t n);   /* to n elements */
void vm_run(const Code *c, const Isa *isa, char **base, int64_t u0, int64_t u1);
void vm_finish(const Code *c, const Isa *isa, char *const *base);                /* once, after all units */
void vm_alone(const Code *c, const Isa *isa, char **base);                       /* the three, here */
void vm_small_fold(const Code *c, const Fold *f, const Isa *isa, char *const *base); /* one reduction of a small region */
void vm_put(const Fold *f, char *const *base, double *x, int64_t first, int64_t n); /* results first .. first + n; x is overwritten */

/* ---- product.c: matmul steps on gemm.c ---- */
typedef enum { BATCH_SHARED, BATCH_SERIAL, BATCH_SPREAD } BatchForm; /* B for all; product by product; products over threads */
typedef struct { Ref a, c; int64_t rows, pieces; } Piece; /* of a part: rows of a piece of work, and how many pieces */
typedef struct {
    const MatMul *m;
    BatchForm form;
    bool packs, wide, native;         /* wide, native: GemmJob */
    int64_t batch, elem;
    Ref b;
    Piece *parts;
    GemmJob *jobs;                    /* per part, but for where its matrices are */
    int64_t cols;                     /* of a piece; n where only rows are cut */
    int64_t across;                   /* pieces next to each other */
    bool large, sliced;               /* gemm_plan_large; slices_wanted, of a large one */
    int64_t pieces;                   /* of all parts of one product */
    int64_t tasks, spread;            /* for the pool, 1: not worth it; BATCH_SPREAD: products a task */
    int64_t pack_bytes, thread_bytes;
} ProductCode;
bool product_compile(ProductCode *o, const qb_plan *p, const MatMul *m, bool sweep, Arena *keep, qb_error *err); /* sweep: it is in one */
void product_pack(const ProductCode *o, const Isa *isa, char *const *base, char *pack, int64_t i);
void product_alone(const ProductCode *o, const Isa *isa, char *const *base, char *pack); /* all of it, here */
void product_run(const ProductCode *o, const Isa *isa, char *const *base, char *pack, int64_t batch, int64_t task);
/* All of it, here, in a sweep. packed: B is packed. C is shift bytes after its place; add: to what it holds. */
void product_block(const ProductCode *o, const Isa *isa, char *const *base, char *pack, bool packed, int64_t shift, bool add);

/* ---- call.c: one op on row-major arrays. gather.c, cumsum.c: kernels ---- */
typedef struct CallCode CallCode;
/* A kernel. It may run tasks on the pool, and fail for what it finds in the data (a singular matrix). */
typedef bool CallFn(const CallCode *o, char *const *base, char *scratch, qb_error *err);
typedef struct {
    CallFn *run;
    int64_t (*scratch)(const Call *c); /* bytes of working memory, -1 on overflow; NULL: none */
} CallKernel;
struct CallCode { const Call *call; CallFn *run; Ref *x, *z; int64_t scratch; };
typedef struct { int64_t outer, n, inner; } CallRows; /* an array seen from one axis */
bool call_compile(CallCode *o, const qb_plan *p, const Call *c, Arena *keep, qb_error *err);
const void *call_operand(const CallCode *o, char *const *base, int i);
void *call_result(const CallCode *o, char *const *base, int i);
CallRows call_rows(const Type *t, int64_t axis);
CallFn gather_run, gather_add, cumsum_run;

/* ---- bound.c: the calls that the steps of a small plan come to, with addresses in place of bases ---- */
typedef struct Workspace Workspace;
typedef struct Exec Exec;
typedef struct Exe Exe;
typedef struct {
    KernelFn *kernel;                                                /* kernel(o, a, b, c, i, n), or */
    void (*rows)(double *out, const void *x, int64_t rows, int64_t w); /* rows(o, a, i, n), or */
    const Exe *step;                                                 /* a step that is run in the common way */
    char *o, *a, *b, *c;
    int64_t i, n;
} Bound;
int bound_count(const Exec *x);                                      /* calls; 0 where binding is not worth it */
void bound_make(const Exec *x, const Isa *isa, char *const *base, Bound *out);
bool bound_run(const Bound *b, int n, const Exec *x, const Isa *isa, Workspace *w, qb_error *err);

/* ---- emit.c: the body of a loop as machine code ---- */
typedef struct { /* what the code reads and writes */
    char **base;                 /* of the body; carries change places in it */
    KernelFn *const *kernels;
    const Isa *isa;
    Workspace *w;
    qb_error *err;
    int64_t left;                /* iterations that may be run; the code counts down */
} EmitRun;
typedef int EmitFn(EmitRun *r);
typedef struct { EmitFn *run; void *memory; int64_t bytes; } EmitCode; /* run: NULL where there is none */
typedef enum { EMIT_STOPPED, EMIT_MORE, EMIT_FAILED } EmitEnd; /* the test was false; left is 0; a step has failed */
EmitCode emit_loop(const Loop *l, const qb_plan *body);
void emit_tiles(Exec *x, TileSet *tiles, const Isa *isa); /* emit_tile.c: runs of instructions of x's regions; fills in x->emitted */
void emit_free(EmitCode *c);

/* ---- control.c: cond, scan and while ---- */
typedef struct { const Loop *l; Ref *in, *out; Ref scratch; EmitCode code; } ControlCode;
bool control_compile(ControlCode *o, const qb_plan *p, const Loop *l, Arena *keep, qb_error *err);
bool control_run(const ControlCode *o, const Isa *isa, Workspace *w, qb_error *err); /* false: interrupted, or no memory */

/* ---- cpu.c: a compiled plan, and the memory of a run ---- */
struct Exe {
    uint8_t kind; /* a StepKind */
    union { Code code; ProductCode product; ControlCode control; CallCode call; };
};
typedef struct BlocksCode BlocksCode;
struct Exec {
    Arena arena;
    int n, n_sweeps;
    Exe *exes;
    BlocksCode *sweeps;
    char *tiles;
    int64_t n_base;
    int64_t table_bytes, work_bytes, parts_bytes, pack_bytes, thread_bytes; /* multiples of 64 */
    int64_t block_bytes, slot_bytes, packed_bytes; /* of sweeps: of a thread; of a block's parts; of what is packed before */
    bool parallel; /* some step has work for several threads */
    EmitCode emitted; /* code of regions */
    int n_bound;   /* calls of the bound program (bound.c); 0: none is made */
    _Atomic(Workspace *) spare;
};
struct Workspace {
    int threads;
    int64_t epoch;  /* counts shared steps, so that a thread knows whether it has begun this one */
    char **base;    /* of thread 0 */
    char *pack;     /* packed B of a product, working memory of a call */
    char *packed;   /* of a sweep: each B that stays the same */
    char *sums;     /* of a sweep: totals, then the parts of 2 blocks a thread */
    char *helpers;  /* of each thread from 1 on: a line with the epoch it has begun, its bases, its memory */
    int64_t stride; /* bytes of a helper */
    void *memory;
    Pulse *pulse;   /* of the run */
    atomic_llong *ns; /* per step: time that it has taken; NULL: nobody asks */
};
void cpu_open(Workspace *w, const qb_plan *p, char *at, int threads); /* over memory that has room for it */
Workspace *cpu_take(const qb_plan *p, qb_error *err);
void cpu_give(const qb_plan *p, Workspace *w);
bool cpu_step(const Exec *x, const Exe *e, Workspace *w, const Isa *isa, qb_error *err);
int64_t cpu_bytes(const Exec *x);               /* of the memory of a run on one thread; -1 when they overflow */
bool cpu_steps(const qb_plan *p, Workspace *w, const Isa *isa, qb_error *err); /* inputs and outputs are in w->base */
/* The bases of a thread. Helpers copy those of thread 0 when they first come to a step; then *fresh. */
char **cpu_bases(const Exec *x, Workspace *w, int thread, bool *fresh);
int64_t cpu_clock(void);                                             /* ns */
void cpu_spent(const Workspace *w, int64_t step, int64_t since);     /* time since then goes to a step; where w->ns is not NULL */
int cpu_slots(int threads); /* blocks of a sweep that may be on the way at once */

/* ---- blocks.c: sweeps, block by block ---- */
struct BlocksCode {
    const Sweep *s;
    const Exe *full;   /* the steps on a whole block */
    Exe *last;         /* and on the last one; the same where that is whole */
    int64_t blocks;
    int64_t *packed;   /* per step: where its B is packed before the sweep; -1: it is not */
    Fold *puts;        /* per sum: where the total goes */
    int64_t parts_at, pack_at; /* in the memory of a thread, after the rows */
};
bool blocks_compile(BlocksCode *b, Exec *x, const qb_plan *p, const Sweep *s, qb_error *err);
void blocks_run(const BlocksCode *b, const Exec *x, const qb_plan *p, const Isa *isa, Workspace *w);

/* ---- gemm.c: compiled per ISA. C[m,n] = A[m,k] B[k,n], any strides of A and B, C row-major with row stride c_row ---- */
/* float32 operands are widened when packed or read; results rounded once. C overlaps neither A nor B.
   Isa.pack fills `packed`, once per product; then any thread may compute any rows [m0, m1) by Isa.gemm. Without `packed` (NULL) no
   pack is needed. Parts that share B may share `packed` too: only B, n, k, dtype and `packed` itself are read by pack. */
struct GemmJob {
    int64_t m, n, k;
    const void *a; int64_t a_row, a_col;
    const void *b; int64_t b_row, b_col;
    void *c; int64_t c_row;
    uint8_t dtype;
    bool wide;      /* c is float64 whatever the dtype: totals that are not rounded */
    bool swapped;   /* gemm_plan_swapped */
    bool native;    /* dtype is F32; chains and totals are float32 */
    bool add;       /* c holds the totals of earlier blocks of k, which are not rounded: the blocks here are added to them */
    void *packed;   /* float64; float32 of a native job */
    void *room;     /* of a piece of a large product, else NULL */
    atomic_int *doubt; /* of a sliced product: pieces that slices_run does not try, 0 at first */
};

/* ---- gemm_plan.c: how to compute a product; reads sizes, strides and dtype, no pointers ---- */
int64_t gemm_plan_bytes(const GemmJob *job); /* bytes that `packed` wants, 64-byte aligned; 0: leave it NULL; -1: overflow. Give the m of all parts */
/* A large product is computed in pieces of rows and columns, each a job of its own, with `room` for all that one thread does, one after
   the other: bytes of it. */
bool gemm_plan_large(const GemmJob *job);
int64_t gemm_plan_even(int64_t n, int64_t most, int64_t step); /* size of nearly equal pieces of n, at most `most`; a multiple of step */
int64_t gemm_plan_rows(const GemmJob *job), gemm_plan_cols(const GemmJob *job), gemm_plan_room(const GemmJob *job);
int64_t gemm_plan_grain(const GemmJob *job); /* rows of one piece of work are best a multiple of this */
bool gemm_plan_swapped(const GemmJob *job);  /* computed as the transpose of B^T A^T */

/* ---- slices.c: large float32 products on byte multipliers, proved to be what gemm.c gives ---- */
bool slices_wanted(const GemmJob *job);      /* of a large job: by its sizes, on this CPU, unless QUABLA_AMX is 0 */
int64_t slices_rows(const GemmJob *job), slices_cols(const GemmJob *job); /* of a piece */
int64_t slices_room(const GemmJob *job, int64_t rows);                    /* bytes, for pieces of so many rows */
bool slices_run(const GemmJob *job, const Isa *isa, int64_t m0, int64_t m1); /* false: isa->gemm is to do it, */
enum { SLICES_COMMON = 256 };                                                /* in the same room so many rows at a time */
void slices_count(int64_t *proved, int64_t *repaired, int64_t *refused); /* elements so far; pieces. For tests */

#endif
