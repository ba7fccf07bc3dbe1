/* emit.h: inside the emitter, which turns the body of a loop over small arrays into machine code (emit.c is its front).
   Layers, lowest first: x86.c writes instructions; keep.c knows which values the registers hold; emit_ins.c turns one
   instruction of a region's program (code.c) into machine instructions, emit_region.c all of it; emit.c makes a loop of regions.
   emit_tile.c turns runs of instructions on whole tiles into loops; it has registers of its own kind. */
#ifndef CPU_EMIT_H
#define CPU_EMIT_H

#include "cpu/cpu.h"

/* ---- x86.c: instructions. Vector registers are numbers 0 to 15; lengths are bytes: 32, 16, or a scalar's 8 or 4 ---- */
typedef enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 } Gpr;
typedef enum { /* the rows of x86.c */
    X_ADD = 1, X_SUB, X_MUL, X_DIV, X_SQRT, X_CMP, X_AND, X_ANDN, X_OR, X_XOR, X_LOW_PD, X_HIGH_PD, X_LOW_PS, X_HIGH_PS, X_BLEND,
    X_PICK_PD, X_PICK_PS, X_INSERT, X_EXTRACT, X_PD_PS, X_PS_PD, X_SD_SS, X_SS_SD, X_BITS_PD, X_BITS_PS, X_SPREAD_BQ, X_SPREAD_BD,
    X_SUB_Q, X_SUB_D, X_EQUAL_D, X_FROM_GPR, X_SPLAT_PD, X_PAIR_PD, X_SPLAT_PS, X_DEPOSIT, X_COPY, X_MIDDLE, X_SHUFFLE, X_LOAD, X_STORE
} X86Op;
typedef struct {
    uint8_t *code;
    int32_t n, room, start; /* start: of the function */
    bool evex;        /* x86_lanes: AVX-512 */
    bool masked;      /* with it: only the lanes of mask register 1, the others become 0 and stay as they are in memory */
    int choice;       /* and the mask register that a choice reads; 0 else */
    bool failed;      /* the code is longer than the room, or an offset than 31 bits */
    uint64_t *pool;   /* constants, four words each; they lie before the code, the first one next to it */
    int32_t n_pool, pool_room;
} X86;
void x86_op(X86 *w, X86Op op, bool wide, int o, int a, int b);             /* wide: 256 bits */
void x86_op_imm(X86 *w, X86Op op, bool wide, int o, int a, int b, int imm);
void x86_arith(X86 *w, X86Op op, int bytes, int elem, int o, int a, int b); /* ADD to CMP: packed, or one element */
typedef struct { int reg; Gpr base; int scale; int64_t at; } X86Operand; /* a register, or -1 and memory at base + RAX * scale + at; scale: 4, 8 */
void x86_lanes(X86 *w, X86Op op, int bytes, int elem, int o, int a, X86Operand b); /* bytes: of the wider side; registers 0 to 31 where evex */
/* AVX-512, masks in registers 1 to 7 (x86_lanes compares into one): o = k ? b : a; k = a AND b, a OR b, NOT b. */
void x86_choose(X86 *w, int bytes, int elem, int o, int k, int a, int b);
typedef enum { MASK_AND = 0x41, MASK_OR = 0x45, MASK_NOT = 0x44 } X86Mask;
void x86_mask(X86 *w, X86Mask op, int k, int a, int b);
void x86_lea(X86 *w, Gpr o, Gpr base, Gpr index, int scale);               /* scale: 4 or 8 */
void x86_load(X86 *w, int bytes, int o, Gpr base, int64_t at);
void x86_store(X86 *w, int bytes, Gpr base, int64_t at, int x);
int32_t x86_constant(X86 *w, uint64_t bits, int elem);                     /* its number; the same bits have the same one */
void x86_load_constant(X86 *w, bool wide, int o, int32_t number);
void x86_get(X86 *w, int bytes, Gpr o, Gpr base, int64_t at);              /* 8, 4, 2 or 1, zero-extended */
void x86_put(X86 *w, int bytes, Gpr base, int64_t at, Gpr x);
void x86_set(X86 *w, Gpr o, uint64_t value);
void x86_add(X86 *w, Gpr o, int64_t value);
void x86_add_memory(X86 *w, Gpr base, int64_t at, int64_t value);
void x86_move(X86 *w, Gpr o, Gpr x);
void x86_call(X86 *w, Gpr x);
void x86_byte(X86 *w, int value);
void x86_raw(X86 *w, const char *bytes, int n);
void x86_jump(X86 *w, int condition, int32_t to);                          /* condition: 4 zero, 5 not zero, -1 none */
int32_t x86_jump_ahead(X86 *w, int condition);                             /* where x86_land writes the distance */
void x86_land(X86 *w, int32_t jump);

/* ---- keep.c: what the registers hold ---- */
enum { REGISTERS = 16, MOST_HEADS = 7, BASE_POOL = -1 };
/* A piece of memory, base and offset as in Ref. mask: truth values, a byte each in memory, a lane of ones in a register.
   splat: one element of memory is every element of the register. */
typedef struct {
    int32_t base;
    int64_t offset;
    int bytes, elem; /* of the register: its length, and of an element or lane */
    bool mask, splat;
} Stretch;
typedef struct {
    Stretch at;
    bool used, dirty; /* dirty: newer than memory */
    int64_t chunk;    /* in which it came */
    uint32_t stamp;   /* of its last use */
} Kept;
typedef struct {
    X86 w;
    Kept kept[REGISTERS];
    uint32_t stamp;
    uint8_t pins[REGISTERS]; /* how often the instruction at hand uses each: an operand may be a part of another one */
    int32_t held[16];       /* base whose address a general register holds; -2 none */
    int next_gpr;
    /* the loop */
    const Loop *l;
    const Exec *x;
    bool *touched;          /* carries whose memory is read or written in an iteration */
    bool calls, inlined;    /* it has calls, regions as instructions */
    int32_t failed_at;      /* code that ends a run in which a step has failed */
    Stretch heads[MOST_HEADS]; /* of carries: in registers 0, 1, ... where an iteration begins */
    int n_heads;
    Stretch found[MOST_HEADS]; /* carries that were loaded, first ones first */
    int n_found;
    /* the region */
    const Code *c;
    int first, end, next;   /* the run of instructions at hand; the next one on this chunk */
    int64_t chunk;
    int unit;               /* bytes of its widest elements */
} Emitter;
int keep_read(Emitter *e, Stretch at);              /* its register, which is pinned */
int keep_take(Emitter *e);                         /* a free register, pinned */
void keep_write(Emitter *e, Stretch at, int x);     /* x, taken before, is the value there from now on */
void keep_copy(Emitter *e, Stretch to, Stretch from);
void keep_unpin(Emitter *e, int x);                 /* one pin less */
void keep_unpin_all(Emitter *e);
void keep_flush(Emitter *e, int i);                /* register i to memory, if dirty */
void keep_before_call(Emitter *e);                 /* all to memory; nothing is kept */
void keep_address(Emitter *e, Gpr o, int32_t base, int64_t offset);
void keep_end_region(Emitter *e);                  /* temporaries are dead */
bool keep_inside(const Stretch *a, const Stretch *b); /* is all memory of a part of b? */

/* ---- emit_ins.c ---- */
typedef enum { CALLED, ARITHMETIC, SQRT, COMPARISON, LOGIC, NOT, NEG, ABS, CUBE, WHERE, COPY, CAST, MUL_ADD, MUL_SUB, SUB_MUL } Way;
typedef struct {
    Way way;
    int op, in, out; /* op of the graph; dtypes of operands (of where: the last two) and result */
    uint8_t x86;     /* X86Op of ARITHMETIC */
} What;
What emit_ins_what(const Ins *s);                  /* of a kernel */
int emit_ins_predicate(int op);                    /* of a comparison */
int emit_ins_arity(What f);                        /* operands; 0: it must be called */
void emit_ins(Emitter *e, const Ins *s, int64_t k, int n);                 /* on elements k .. k + n */
bool emit_ins_called(const Ins *s);                                        /* unknown: its kernel must be called */
int emit_ins_unit(const Code *c, const Ins *s);                            /* bytes of the widest elements in it: 8 or 4 */
Stretch emit_ins_stretch(Emitter *e, const Ref *x, int dtype, int64_t k, int n, int lane); /* elements k .. k + n of an operand */
int emit_ins_constant(Emitter *e, uint64_t bits, int bytes, int elem);     /* in every element of a register */
const Repeat *emit_ins_repeat(const Code *c, const Ref *x);                /* the repeat that an operand is; NULL */

/* ---- emit_region.c ---- */
void emit_region(Emitter *e, const Exe *exe);

/* ---- emit.c ---- */
typedef enum { EMIT_NOTHING, EMIT_WORTHY, EMIT_ALL } EmitWish;
EmitWish emit_wish(void);                          /* QUABLA_EMIT: 0, not set, or "all": also what is too small to be worth it, for tests */
EmitCode emit_memory(const X86 *w);                /* executable */

#endif
