/* emit_tile.h: a run of instructions on tiles: emit_run.c finds it, emit_tile.c writes it. */
#ifndef EMIT_TILE_H
#define EMIT_TILE_H

#include "cpu/emit.h"

enum {
    MOST_OPS = 96,
    MOST_POINTERS = 11,
    MOST_REGISTERS = 32,
    FIRST_MASK = 2, /* 1 has the lanes of a rest */
    MOST_MASKS = 6
};

typedef struct { /* a value of a run, or an operand from before */
    Ref ref;
    int elem;
    int last;       /* operation that reads it last; -1 none */
    int reg;        /* that holds it; -1 none */
    bool given;     /* it is in memory when the run begins */
    bool in_memory; /* it is there now */
    bool kept;      /* it must be there at the end */
    int mask;       /* the mask register that holds it, a truth value; else 0 */
} Datum;
typedef struct {
    What f;
    int x[3], z; /* data; -1: no operand */
} Operation;
typedef struct {
    X86 *w;
    const Code *c;
    int64_t signs[QB_DTYPE_COUNT]; /* offset of the tile of -0.0 */
    int bytes, registers;          /* of a vector; how many there are */
    Operation ops[MOST_OPS];
    Datum data[4 * MOST_OPS];
    Ref pointers[MOST_POINTERS];
    int n_ops, n_data, n_pointers, n_masks;
    bool wide; /* some value has 8 bytes */
    /* the loop at hand */
    int lanes, at;
    int owner[MOST_REGISTERS]; /* datum that a register holds; -1 */
    uint32_t pinned;
} Run;

/* ---- emit_run.c ---- */
bool emit_run_suits(const Ins *s, bool masks);         /* may it be in a run? masks: there are mask registers */
int emit_run_collect(Run *r, int first, int limit);    /* the run of instructions from `first` on, before `limit`; its end */
int emit_run_pointer(const Run *r, const Ref *x);      /* the pair of base and scale; -1: the run has no such one */

#endif
