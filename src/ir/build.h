/* build.h: short builders for rules and passes. They take and return values and need no error check: on a failed graph, or on a
   NONE operand, each returns NONE. Operands have equal shapes and dtypes here; users' manners are in apply.c.

   C leaves the order of arguments open, and with it that of nodes: of the operands of one call at most one is built in it, so that a
   graph is the same by any compiler. The others are names (tests/python/test_layers.py). */
#ifndef BUILD_H
#define BUILD_H

/* g<name>(x) and g<name>(x, y) for every elementwise row: gadd, gmul, gtanh, ... */
#define UNARY(name, ...) \
    static inline Val g##name(Val x) { return val_none(x) ? NONE : graph_emit(x.graph, OP_##name, &x, 1, NULL); }
#define BINARY(name, ...)                                                                     \
    static inline Val g##name(Val x, Val y)                                                   \
    {                                                                                         \
        if (val_none(x) || val_none(y)) return NONE;                                          \
        return graph_emit(x.graph, OP_##name, (Val[]){x, y}, 2, NULL);                        \
    }
#include "ops.h"

/* build.c */
Val gconst(Graph *g, const Type *t, double value);           /* a splat constant */
Val gdense(Graph *g, const Type *t, qb_buffer *data);        /* a dense constant; takes a reference */
Val glike(Val x, double value);                              /* value in x's type */
Val gzeros(Val x);
Val gplus(double c, Val x);                                  /* c + x, c - x, c * x: one operand is built, so their order is given */
Val gminus(double c, Val x);
Val gtimes(double c, Val x);
Val grecip(Val x);                                           /* 1 / x */
Val gtrunc(Val x);                                           /* towards zero */
Val gpowi(Val x, int64_t n);
Val gcast(Val x, int dtype);                                 /* strong; x itself when it has that dtype */
Val gcast_like(Val x, Val like);                             /* to like's dtype and weakness */
Val gstop_gradient(Val x);
Val ginstead(Val x, Val y);                                  /* the value of x, the derivative of y */
Val gafter(Val x, Val y);                                    /* x, to be read when y is there; x itself where one of them is constant */
Val gwhere(Val mask, Val a, Val b);
Val gselect0(Val mask, Val a);                               /* where(mask, a, 0) */
Val gbroadcast(Val x, int rank, const int64_t *dims);        /* same rank: length 1 -> n; x itself when nothing changes */
Val gexpand(Val x, Val like);                                /* broadcast to like's shape, leading axes added */
Val greshape(Val x, int rank, const int64_t *dims);          /* x itself when nothing changes */
Val gtranspose(Val x, const int64_t *axes);                  /* x itself for the identity */
Val gmove_axis(Val x, int from, int to);
Val gslice(Val x, int axis, int64_t start, int64_t length, int64_t step);
Val gpad_slice(Val x, int axis, int64_t start, int64_t total, int64_t step);
Val gconcat(Graph *g, const Val *x, int n, int axis);
Val ggather(Val x, int axis, qb_buffer *indices);            /* indices: int64, within the axis; a reference is taken */
Val gscatter_add(Val x, Val updates, int axis, qb_buffer *indices);
Val gcumsum(Val x, int axis, bool reverse);
Val greduce(Op op, Val x, const int64_t *axes, int n);       /* sum, mean, max, min; axes sorted; x itself for none */
Val gsum(Val x, const int64_t *axes, int n);
Val gmatmul(Val x, Val y);                                   /* equal batch axes */
Val gswap_last(Val x);                                       /* transpose of the last two axes */
Val gaccumulate(Val a, Val b);                               /* a + b where either may be NONE (zero) */
Val gmax2(Val x, Val y);                                     /* elementwise maximum; NaN wins, ties give y */

#endif
