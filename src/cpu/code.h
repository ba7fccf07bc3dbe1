/* code.h: what the compiler of regions notes down: code.c goes from a region to a program, lines.c says which instructions there
   are, live.c where values are. All of it is dropped at the end of code_compile. */
#ifndef CODE_H
#define CODE_H

#include "cpu/cpu.h"

enum { LAST = INT32_MAX };
typedef struct { /* an instruction, after fusion */
    uint16_t kernel;
    bool dead;
    bool summed;  /* dead: the sum that reads it multiplies */
    uint8_t in;   /* dtype of the operands */
    int32_t x[3]; /* values, -1 unused */
    int64_t i;
} Line;
/* A value. A store or a reduction counts as two uses, so that its operand is not fused away. A load is early when it must be copied
   before the first line: a store will overwrite its memory, and another store or a reduction reads the load after that. */
typedef struct {
    int32_t uses;
    int32_t last;  /* line that reads it last; LAST: a store or a reduction, after all lines */
    int32_t store; /* computed where this store goes; -1 */
    int32_t reg;   /* -1: none */
    uint8_t dtype;
    bool early;
    bool reduced;
    bool ready;    /* ref is valid */
    Ref ref;
} Value;
typedef struct {
    Code *c;
    const qb_plan *p;
    const Region *r;
    TileSet *tiles;
    qb_error *err;
    Value *v;
    Line *lines;
    int32_t *free_regs, n_free, n_regs;
    uint8_t *reg_elem; /* of each register: bytes of the elements that it has held last */
    int32_t n_moves;
    int64_t kept;      /* bytes of rows and elements that stay in the thread's memory, before the registers */
    int64_t next;      /* of those that have their place */
    int64_t stride;    /* bytes of a register */
    double cost;       /* ns per element */
} Compiler;

/* ---- code.c ---- */
Ref code_memory(const qb_plan *p, const Access *at, int64_t elem, bool flat); /* scale elem where flat, else 0 */
bool code_overlap(const qb_plan *p, int32_t s, int32_t t);                    /* do two slots share memory? */
void code_emit(Compiler *k, uint16_t kernel, int64_t i, Ref o, Ref a, Ref b, Ref c);
int64_t code_move(Compiler *k, const Access *at, int64_t elem);               /* a new move; its number */
static const Ref code_none = {BASE_THREAD, 0, -1};                            /* an operand that a kernel does not have */

/* ---- lines.c ---- */
void lines_find(Compiler *k);
bool lines_small(const Code *c); /* one tile, without reductions of several blocks */

/* ---- live.c ---- */
void live_open(Compiler *k);                            /* where stores are computed, and what stays in the thread's memory */
bool live_fetch(Compiler *k, int32_t i);                /* makes load i readable; the instruction, if it takes one, comes here. False: out of memory */
void live_take(Compiler *k, Value *v);                  /* a place for what comes next */
void live_release(Compiler *k, int32_t v, int32_t line); /* its register, where line was the last to read it */
bool live_consecutive(const Compiler *k, const Access *at); /* all elements, or those of each row */
Ref live_along(Compiler *k, const Access *at, int64_t elem); /* of such an access */

#endif
