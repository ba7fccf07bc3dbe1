/* programs.h: random programs for the tests of fold and parse. Nodes are appended raw, with many constants and inverse pairs of
   shape ops, so that there is something to fold. */
#ifndef QUABLA_TEST_PROGRAMS_H
#define QUABLA_TEST_PROGRAMS_H

#include "ir/ir.h"
#include <math.h>

static uint64_t program_seed;

static inline int pick(int n)
{
    program_seed = program_seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((program_seed >> 33) % (uint64_t)n);
}

static inline double pick_number(void)
{
    static const double special[] = {0.0, -0.0, 1, -1, 2, 0.1, INFINITY, NAN};
    return pick(2) ? special[pick(8)] : (pick(4001) - 2000) / 512.0;
}

/* Any value so far; of the given type when t is not NULL: NONE if there is no such value. */
static inline Val pick_value(Graph *g, const Type *t)
{
    for (int tries = 0; tries < 40; tries++) {
        Val v = graph_val(g, (Id)pick((int)g->n_values));
        if (!t || type_exact(type_of(v), t)) return v;
    }
    return NONE;
}

static inline Val pick_constant(Graph *g, const Type *t)
{
    Attr a = {.i = t->dtype, .n = t->rank};
    for (int i = 0; i < t->rank; i++) a.list[i] = t->dims[i];
    a.f = t->dtype == QB_BOOL  ? pick(2)
          : t->dtype == QB_F32 ? (double)(float)pick_number()
                               : pick_number();
    if (pick(3)) return graph_append(g, OP_constant, NULL, 0, &a);
    qb_error err;
    a.f = 0;
    a.buffer = qb_buffer_new(type_bytes(t), &err);
    if (!a.buffer) return NONE;
    for (int64_t i = 0; i < type_size(t); i++) {
        if (t->dtype == QB_F64)
            ((double *)a.buffer->data)[i] = pick_number();
        else if (t->dtype == QB_F32)
            ((float *)a.buffer->data)[i] = (float)pick_number();
        else
            ((unsigned char *)a.buffer->data)[i] = (unsigned char)pick(2);
    }
    Val v = graph_append(g, OP_constant, NULL, 0, &a);
    qb_buffer_release(a.buffer);
    return v;
}

/* One more node over x, or NONE where the choice does not fit. */
static inline Val pick_node(Graph *g, Val x)
{
    static const Op exact[] = {OP_add, OP_sub, OP_mul, OP_div, OP_greater, OP_equal, OP_less};
    static const Op one[] = {OP_neg, OP_abs, OP_sqrt, OP_tanh, OP_exp, OP_sign};
    Type t = *type_of(x);
    Attr a = {0};
    bool real = type_floating(&t);
    int axis = t.rank ? pick(t.rank) : 0;
    switch (pick(11)) {
    case 0:
    case 1: {
        Op op = real ? exact[pick(7)] : pick(2) ? OP_logical_and : OP_logical_or;
        Val y = pick(2) ? pick_constant(g, &t) : pick_value(g, &t);
        if (val_none(y)) return NONE;
        return pick(2) ? graph_append(g, op, (Val[]){x, y}, 2, NULL)
                       : graph_append(g, op, (Val[]){y, x}, 2, NULL);
    }
    case 2: return graph_append(g, real ? one[pick(6)] : OP_logical_not, &x, 1, NULL);
    case 3: return real ? graph_append(g, OP_powi, &x, 1, &(Attr){.i = pick(4)}) : NONE;
    case 4: return graph_append(g, OP_cast, &x, 1, &(Attr){.i = pick(QB_DTYPE_COUNT)});
    case 5: {
        Type m = t;
        m.dtype = QB_BOOL;
        Val mask = pick(3) ? pick_value(g, &m) : pick_constant(g, &m), y = pick_value(g, &t);
        return val_none(mask) ? NONE : graph_append(g, OP_where, (Val[]){mask, x, y}, 3, NULL);
    }
    case 6: /* the axes in another order, flattened, or with a new axis in front */
        a.n = t.rank;
        for (int i = 0; i < t.rank; i++) a.list[i] = t.dims[(i + axis) % t.rank];
        if (pick(2))
            a.n = 1, a.list[0] = type_size(&t);
        else if (t.rank < 4) {
            for (int i = t.rank; i > 0; i--) a.list[i] = t.dims[i - 1];
            a.list[0] = 1;
            a.n = t.rank + 1;
        }
        return graph_append(g, OP_reshape, &x, 1, &a);
    case 7:
        a.n = t.rank;
        for (int i = 0; i < t.rank; i++) a.list[i] = t.dims[i] == 1 ? 1 + pick(3) : t.dims[i];
        return graph_append(g, OP_broadcast, &x, 1, &a);
    case 8:
        a.n = t.rank;
        for (int i = 0; i < t.rank; i++) a.list[i] = (i + axis) % t.rank;
        return graph_append(g, OP_transpose, &x, 1, &a);
    case 9:
        if (t.rank == 0) return NONE;
        if (pick(3) == 0) return graph_append(g, OP_concat, (Val[]){x, x}, 2, &(Attr){.i = axis});
        if (pick(3) == 0)
            return graph_append(
                g, OP_pad_slice, &x, 1,
                &(Attr){.i = axis, .start = pick(2), .length = t.dims[axis] + 1, .step = 1});
        a = (Attr){.i = axis, .step = 1, .start = pick((int)t.dims[axis])};
        a.length = 1 + pick((int)(t.dims[axis] - a.start));
        if (pick(3) == 0) a.step = -1, a.length = 1 + pick((int)a.start + 1);
        return graph_append(g, OP_slice, &x, 1, &a);
    default:
        if (!real || t.rank == 0) return NONE;
        return graph_append(g,
                            pick(2)   ? OP_sum
                            : pick(2) ? OP_mean
                                      : OP_max,
                            &x, 1, &(Attr){.n = 1, .list = {axis}});
    }
}

/* A program of about n nodes, unfrozen, in which every value without a reader is an output (at most `most`). */
static inline Graph *pick_program(uint64_t seed, int n, int most)
{
    qb_error err;
    Graph *g = graph_new(&err);
    if (!g) return NULL;
    program_seed = seed * 2654435761u + 12345;
    Type types[] = {type_make(QB_F64, 2, (int64_t[]){2, 3}), type_make(QB_F32, 1, (int64_t[]){4}),
                    type_make(QB_BOOL, 2, (int64_t[]){2, 3}),
                    type_make(QB_F64, 2, (int64_t[]){3, 1})};
    for (int i = 0; i < 4; i++) graph_input(g, NULL, &types[i]);
    graph_input(g, "again", &types[0]);
    for (int i = 0; i < n && !graph_failed(g); i++) {
        Val x = pick(8) ? pick_value(g, NULL) : pick_constant(g, &types[pick(4)]);
        if (type_size(type_of(x)) < 100) pick_node(g, x);
    }
    for (Id v = g->n_values; v-- > 0 && (int)g->n_outputs < most;) graph_output(g, graph_val(g, v));
    return g;
}

#endif
