/* transform.h: graph-to-graph rewrites. Each walks a frozen src and emits into dst, with src's
   inputs bound to `args`.

   dst may be a fresh graph or one under construction, so nesting is just calling one after the
   other. Failures stick to dst. */
#ifndef TRANSFORM_H
#define TRANSFORM_H

#include "ir/ir.h"

/* ---- walk.c: what the transforms share: one pass over src, from bound inputs to outputs ---- */
typedef struct {
    Graph *dst;
    const Graph *src;
    Val *map;      /* the value in dst of every value of src; NONE before its node is copied */
    bool *live;    /* per node of src: does an output need it? */
    Val *x;        /* operands of the node at hand, in dst */
    uint32_t width; /* room of x: the most operands or results of a node */
    Arena arena;   /* for the transform's own arrays as well; gone at walk_close */
    const char *file; /* where dst stood: restored at walk_close */
    uint32_t line;
    uint16_t scope;
} Walk;
/* map: n_values entries of the caller, NULL: in the arena. After false there is nothing to close. */
bool walk_open(Walk *w, Graph *dst, const Graph *src, const Val *args, Val *map);
void *walk_alloc(Walk *w, size_t n, size_t size);  /* zeroed; NULL: the failure sticks to dst */
void walk_visit(Walk *w, const Node *n); /* operands to w->x; what is emitted next comes from n */
void walk_copy(Walk *w, const Node *n);            /* n itself, after walk_visit */
bool walk_copy_all(Walk *w);                       /* both, for every live node */
bool walk_close(Walk *w);                          /* false when dst has failed */
/* A new graph with the inputs of src, and its outputs as `rewrite` has left them in w->map. NULL: *err. */
Graph *walk_rewrite(const Graph *src, void (*rewrite)(Walk *w, void *arg), void *arg, qb_error *err);

/* ---- inline.c: copy src into dst; CSE makes a repeated copy free ---- */
bool inline_run(Graph *dst, const Graph *src, const Val *args, Val *outs);
/* map (n_values entries, the caller's) gets the value in dst of every value of src. */
bool inline_map(Graph *dst, const Graph *src, const Val *args, Val *map);

/* ---- jvp.c: forward mode; a zero tangent is NONE, never a constant ---- */
bool jvp_run(Graph *dst, const Graph *src, const Val *args, const Val *tangents, Val *outs,
             Val *out_tangents);
/* wanted: outputs whose tangent is asked for, the others get NONE; NULL: all. */
bool jvp_run_some(Graph *dst, const Graph *src, const Val *args, const Val *tangents, const bool *wanted, Val *outs, Val *out_tangents);
/* Tangents of one node's results from those of its operands, by its rule or its row. */
void jvp_node(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz);

/* ---- vjp.c: reverse mode, with masked cotangents ---- */
bool vjp_run(Graph *dst, const Graph *src, const Val *args, const Val *cts, const bool *wanted,
             Val *outs, Val *grads);
/* The same with more at hand, for the reverse of loops. known: values of the outputs (NONE: compute it) that take the place of what
   is computed. seeds: cotangents of the inputs to which contributions are added (NONE: none). Either may be NULL. */
bool vjp_run_with(Graph *dst, const Graph *src, const Val *args, const Val *known, const Val *cts, const bool *wanted,
                  const Val *seeds, Val *outs, Val *grads);
/* The values of vjp_run, and no derivative: src, with every custom_jvp and custom_vjp between a wanted input and a seeded output
   spliced as reverse mode splices it, at any depth. Either may be NULL: all. */
bool vjp_values(Graph *dst, const Graph *src, const Val *args, const bool *wanted, const bool *seeded, Val *outs);
bool vjp_has_rules(const Graph *src); /* is there one at any depth? Else vjp_values is inline_run */
/* Structure alone: reached: which outputs depend on a wanted input through floating values. touched: which wanted inputs get a
   cotangent from the seeded outputs; both may claim too much, never too little. seeded and touched may be NULL. */
bool vjp_flow(Graph *g, const Graph *src, const bool *wanted, const bool *seeded, bool *reached, bool *touched);
/* Cotangents of one node's operands from its jvp rule; for ops without a vjp rule. */
void vjp_derived(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out);

/* ---- vmap.c: batch axis first on every mapped value; unmapped nodes are copied once ---- */
bool vmap_run(Graph *dst, const Graph *src, const Val *args, const bool *mapped, int64_t size,
              Val *outs, bool *out_mapped);
Val vmap_lift(Val x, int64_t size); /* an unmapped x repeated along a new first axis */

#endif
