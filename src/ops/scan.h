/* scan.h: reverse mode of a counted loop, for scan.c and for the bounded while.c. scan_vjp.c says how it works. */
#ifndef SCAN_H
#define SCAN_H

#include "ops/rules.h"

typedef struct { /* groups of the body's inputs and outputs */
    const Graph *body;
    ScanForm form;
    int carries, xs, captures, ys;
} Loop;

typedef struct {
    struct Kept kept, opened; /* .graph: the reverse step; the body that runs forward */
    Loop loop;
    bool *live;           /* per carry: it has a cotangent */
    bool *sums;           /* per capture */
    bool *dx;             /* per xs */
    bool *dy;             /* per stacked result: its cotangent comes in */
    bool *before, *after; /* per carry: the reverse step reads it */
    bool *seen;           /* per stacked result */
    int64_t block;        /* iterations of a block; 0: every carry is kept */
    int64_t blocks, rest; /* full blocks, and iterations after them */
    /* values in the graph of the forward run */
    Val *prev, *next; /* per carry, of the whole loop or of the rest: stacked; NONE: not kept */
    Val *y;           /* the same of stacked results */
    Val *start;       /* per carry: stacked, before each block */
} Reverse;

typedef struct {
    Val *carry, *x, *k;
} In; /* operands of a piece of the loop */
typedef struct {
    Val *carry, *y, *prev, *next;
} Out; /* its results; the tape, NONE where the step does not read it */
typedef struct {
    Val *live, *sums;
} Cots; /* cotangents of the carries, sums for the captures; NONE where there is none */

/* ---- scan_vjp.c: the loop forward, then backward ---- */
/* z gets the results; what it returns lives in a. seeded: results that will have a cotangent; wanted: operands that need one. */
struct Kept *scan_vjp_forward(Graph *g, Arena *a, const Graph *body, ScanForm form, const Val *x, const bool *seeded, const bool *wanted,
                              Val *z);
/* The body of a loop as reverse mode leaves it (body_opened). */
Graph *scan_vjp_opened(Graph *g, const Graph *body, ScanForm form, const bool *seeded, const bool *wanted);
void scan_vjp_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x, const Val *z, const Val *ct, const bool *wanted,
                       Val *out); /* the rule of both loops */

/* Outputs of the body whose tangents the results `read` come from: those, and next carries that they depend on. */
bool *scan_vjp_read(Graph *g, Arena *a, const Graph *body, int carries, const bool *read);
void *scan_vjp_room(Graph *g, Arena *a, int64_t n, size_t size);    /* zeroed; NULL: the failure is in g */

/* ---- scan_pieces.c: `length` iterations in any graph. ahead: with tape, o gets what the reverse step reads. back: dy are stacked
   cotangents of stacked results; c goes in and comes out; dx gets the stacked cotangents of xs. ---- */
bool scan_pieces_ahead(Graph *g, Arena *a, const Reverse *r, int64_t length, const In *in, bool tape, Out *o);
bool scan_pieces_back(Graph *g, Arena *a, const Reverse *r, int64_t length, const In *in, const Out *tape, const Val *dy, Cots *c, Val *dx);
void scan_pieces_results(const Reverse *r, const Val *z, Cots *c, Val *dx); /* of a scan backward: cotangents of carries, sums, dx */
bool scan_pieces_in(Graph *g, Arena *a, const Loop *l, In *in);     /* room for the operands */
bool scan_pieces_out(Graph *g, Arena *a, const Loop *l, Out *o);
bool scan_pieces_tapes(const Reverse *r, int k);                    /* does the reverse step read carry k? */

/* ---- scan_blocks.c: long loops ---- */
void scan_blocks_choose(Reverse *r);
Val scan_blocks_of(const Reverse *r, Val x);                        /* [T, ...] -> [blocks, block, ...], without the rest */
Val scan_blocks_rest(const Reverse *r, Val x);                      /* [T, ...] -> [rest, ...] */
Val scan_blocks_join(const Reverse *r, Val blocks, Val rest);       /* and back; NONE where there is none */
bool scan_blocks_ahead(Graph *g, Arena *a, Reverse *r, const In *in, Out *o);
bool scan_blocks_back(Graph *g, const Reverse *r, const In *in, const Val *dy, Cots *c, Val *dx);

#endif
