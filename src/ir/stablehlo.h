/* stablehlo.h: what the files that write StableHLO share. */
#ifndef STABLEHLO_H
#define STABLEHLO_H

#include "ir/ir.h"

/* The name of each value in the text: %arg0 of an input, %0 of anything else. Ids count values, not nodes. */
typedef struct {
    Text *t;
    Graph *g; /* failures stick to this scratch graph */
    const Graph *src;
    uint32_t *name; /* number, with STABLEHLO_INPUT for inputs */
    bool *live;
    uint32_t next;
    int indent;
} Out;
enum { STABLEHLO_INPUT = 1 << 30 };

/* ---- stablehlo_line.c ---- */
void stablehlo_type(Text *t, const Type *type);
void stablehlo_name(Out *o, uint32_t name);
void stablehlo_list(Text *t, const int64_t *list, int n);
/* "    %3 = " of a new value; returns its name. */
uint32_t stablehlo_begin(Out *o);
uint32_t stablehlo_splat(Out *o, const Type *type, double value);
uint32_t stablehlo_dense(Out *o, const Type *type, const qb_buffer *b);
/* word x, y : type, for operands and a result of one type */
uint32_t stablehlo_same(Out *o, const char *word, const uint32_t *x, int n, const Type *type);
uint32_t stablehlo_two(Out *o, const char *word, uint32_t x, uint32_t y, const Type *type);
/* " : (tensor<..>, tensor<..>) -> tensor<..>" and the end of the line */
void stablehlo_signature(Out *o, const Type *const *x, int n, const Type *z);
uint32_t stablehlo_compare(Out *o, const char *kind, uint32_t x, uint32_t y, const Type *tx, const Type *tz);

/* ---- stablehlo_shape.c: false where the op is none of its own ---- */
bool stablehlo_shape(Out *o, const Node *n, const uint32_t *x, uint32_t *z);

/* ---- stablehlo.c ---- */
/* The lines of a body, its inputs named as args; outs gets the names of its outputs. False when o->g has failed. */
bool stablehlo_body(Out *o, const Graph *body, const uint32_t *args, uint32_t *outs);

/* ---- stablehlo_region.c: cond, scan and while ---- */
void stablehlo_region(Out *o, const Node *n);

#endif
