/* stablehlo.h: what the files that write StableHLO share. */
#ifndef STABLEHLO_H
#define STABLEHLO_H

#include "ir/ir.h"

/* The name of each value in the text: %arg0 of an input, %0 of anything else. Ids count values, not nodes. */
typedef struct {
    Text *t;
    Graph *g; /* failures stick to this scratch graph */
    const Graph *src;
    uint32_t *name; /* number, with INPUT for inputs */
    bool *live;
    uint32_t next;
    int indent;
} Out;

/* ---- stablehlo.c ---- */
void stablehlo_type(Text *t, const Type *type);
void stablehlo_name(Out *o, uint32_t name);
void stablehlo_list(Text *t, const int64_t *list, int n);
uint32_t stablehlo_splat(Out *o, const Type *type, double value);
/* The lines of a body, its inputs named as args; outs gets the names of its outputs. False when o->g has failed. */
bool stablehlo_body(Out *o, const Graph *body, const uint32_t *args, uint32_t *outs);

/* ---- stablehlo_region.c: cond, scan and while ---- */
void stablehlo_region(Out *o, const Node *n);

#endif
