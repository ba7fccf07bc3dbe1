/* random_graph.h: random programs of every op, with small shapes, for tests that compare two
   ways to run a program. */
#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H

#include "../../src/ir/ir.h"

enum { RANDOM_LIMIT = 600 }; /* elements of a value */

typedef struct {
    Graph *g;
    uint64_t state;
    Val pool[256];
    int n;
} Random;

/* A number in [0, n). */
static inline int64_t random_below(Random *r, int64_t n)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((r->state >> 33) % (uint64_t)n);
}

static inline Val random_pick(Random *r) { return r->pool[random_below(r, r->n)]; }
static inline bool random_floating(Val v) { return type_floating(type_of(v)); }

static inline Type random_type(Random *r)
{
    static const int64_t lengths[] = {1, 1, 2, 3, 4, 5, 8, 130};
    Type t = {.dtype = (uint8_t)(random_below(r, 4) ? QB_F64 : QB_F32),
              .rank = (uint8_t)random_below(r, 4)};
    int64_t size = 1;
    for (int i = 0; i < t.rank; i++) {
        t.dims[i] = lengths[random_below(r, 8)];
        if (size * t.dims[i] > RANDOM_LIMIT) t.dims[i] = 1;
        size *= t.dims[i];
    }
    return t;
}

static inline Val random_constant(Random *r, const Type *t)
{
    static const double values[] = {0.0, -0.0, 1.0, -1.0, 0.5, 3.0};
    if (random_below(r, 2)) return gconst(r->g, t, values[random_below(r, 6)]);
    qb_error err = {0};
    qb_buffer *b = qb_buffer_new(type_bytes(t), &err);
    int64_t n = b ? type_size(t) : 0;
    for (int64_t i = 0; i < n; i++) {
        double v = values[random_below(r, 6)] + (double)i;
        if (t->dtype == QB_F64)
            ((double *)b->data)[i] = v;
        else if (t->dtype == QB_F32)
            ((float *)b->data)[i] = (float)v;
        else
            ((unsigned char *)b->data)[i] = v > 0;
    }
    Val v = b ? gdense(r->g, t, b) : NONE;
    qb_buffer_release(b);
    return v;
}

/* Some value of x's shape and of this dtype: from the pool, broadcast from the pool, or a
   constant. */
static inline Val random_like(Random *r, Val x, int dtype)
{
    Type t = *type_of(x);
    for (int i = 0; i < 12; i++) {
        Val y = random_pick(r);
        const Type *u = type_of(y);
        if (u->dtype != dtype || u->rank > t.rank) continue;
        bool fits = true;
        for (int k = 0; k < u->rank; k++)
            fits &= u->dims[k] == 1 || u->dims[k] == t.dims[t.rank - u->rank + k];
        if (fits) return gexpand(y, x);
    }
    t.dtype = (uint8_t)dtype;
    t.weak = 0;
    return random_constant(r, &t);
}

static inline Val random_unary(Random *r, Val x)
{
    static const Op ops[] = {OP_neg, OP_abs, OP_tanh, OP_exp, OP_sqrt, OP_sin};
    Op op = random_floating(x) ? ops[random_below(r, 6)] : OP_logical_not;
    return graph_emit(r->g, op, &x, 1, NULL);
}

static inline Val random_binary(Random *r, Val x)
{
    static const Op floats[] = {OP_add, OP_sub,     OP_mul,        OP_mul,
                                OP_div, OP_greater, OP_less_equal, OP_equal};
    static const Op bools[] = {OP_logical_and, OP_logical_or, OP_not_equal};
    Op op = random_floating(x) ? floats[random_below(r, 8)] : bools[random_below(r, 3)];
    return graph_emit(r->g, op, (Val[]){x, random_like(r, x, type_of(x)->dtype)}, 2, NULL);
}

static inline Val random_where(Random *r, Val x)
{
    return gwhere(random_like(r, x, QB_BOOL), x, random_like(r, x, type_of(x)->dtype));
}

static inline Val random_powi(Random *r, Val x)
{
    return random_floating(x) ? gpowi(x, random_below(r, 5)) : NONE;
}
static inline Val random_cast(Random *r, Val x)
{
    return gcast(x, (int)random_below(r, QB_DTYPE_COUNT));
}

/* Another shape of the same size: prime by prime, with a dim of length 1 here and there. */
static inline Val random_reshape(Random *r, Val x)
{
    int64_t dims[QB_MAX_RANK], left = type_size(type_of(x));
    int rank = 0;
    while (left > 1 && rank < 4) {
        int64_t f = 1;
        for (int64_t p = 2; p <= left; p++) {
            if (left % p) continue;
            f = p;
            if (random_below(r, 2)) break;
        }
        dims[rank++] = f;
        left /= f;
        if (random_below(r, 4) == 0) dims[rank++] = 1;
    }
    if (left > 1) dims[rank++] = left;
    return greshape(x, rank, dims);
}

static inline Val random_transpose(Random *r, Val x)
{
    int64_t axes[QB_MAX_RANK];
    int rank = type_of(x)->rank;
    for (int i = 0; i < rank; i++) axes[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int64_t j = random_below(r, i + 1), t = axes[i];
        axes[i] = axes[j];
        axes[j] = t;
    }
    return gtranspose(x, axes);
}

static inline Val random_slice(Random *r, Val x)
{
    const Type *t = type_of(x);
    if (t->rank == 0) return NONE;
    int axis = (int)random_below(r, t->rank);
    int64_t n = t->dims[axis], start = random_below(r, n), back = random_below(r, 2),
            step = 1 + random_below(r, 2);
    int64_t room = back ? start : n - 1 - start;
    return gslice(x, axis, start, 1 + random_below(r, room / step + 1), back ? -step : step);
}

static inline Val random_pad(Random *r, Val x)
{
    const Type *t = type_of(x);
    if (t->rank == 0) return NONE;
    int axis = (int)random_below(r, t->rank);
    int64_t step = 1 + random_below(r, 2), span = (t->dims[axis] - 1) * step,
            before = random_below(r, 3);
    bool back = random_below(r, 3) == 0;
    return gpad_slice(x, axis, back ? before + span : before,
                      before + span + 1 + random_below(r, 3), back ? -step : step);
}

static inline Val random_concat(Random *r, Val x)
{
    const Type *t = type_of(x);
    if (t->rank == 0) return NONE;
    Val parts[3] = {x, random_like(r, x, t->dtype),
                    random_below(r, 2) ? random_like(r, x, t->dtype) : x};
    if (random_below(r, 2))
        parts[1] = random_floating(x) ? gtanh(parts[1]) : glogical_not(parts[1]);
    return gconcat(r->g, parts, 1 + (int)random_below(r, 3), (int)random_below(r, t->rank));
}

static inline Val random_reduce(Random *r, Val x)
{
    static const Op ops[] = {OP_sum, OP_mean, OP_max, OP_min};
    const Type *t = type_of(x);
    int64_t axes[QB_MAX_RANK];
    int n = 0;
    if (!random_floating(x)) return NONE;
    for (int i = 0; i < t->rank; i++)
        if (random_below(r, 2)) axes[n++] = i;
    return n ? greduce(ops[random_below(r, 4)], x, axes, n) : NONE;
}

/* x times its own transpose, or times a value or its transpose that fits. */
static inline Val random_matmul(Random *r, Val x)
{
    if (!random_floating(x) || type_of(x)->rank < 2) return NONE;
    for (int i = 0; i < 8; i++) {
        Val y = random_pick(r);
        Type t = *type_of(x);
        if (type_of(y)->dtype != t.dtype || type_of(y)->rank < 2) continue;
        if (random_below(r, 2)) y = gswap_last(y);
        const Type *u = type_of(y);
        if (u->dims[u->rank - 2] != t.dims[t.rank - 1]) continue;
        if (u->rank == 2 && t.rank > 2) {
            t.dims[t.rank - 2] = u->dims[0];
            t.dims[t.rank - 1] = u->dims[1];
            y = gexpand(y, gconst(r->g, &t, 0));
        }
        if (type_of(y)->rank != t.rank ||
            memcmp(type_of(y)->dims, t.dims, (size_t)(t.rank - 2) * sizeof *t.dims))
            continue;
        return gmatmul(x, y);
    }
    return gmatmul(x, gswap_last(x));
}

static inline qb_buffer *random_indices(Random *r, int64_t length)
{
    qb_error err = {0};
    int64_t n = 1 + random_below(r, 5);
    qb_buffer *b = qb_buffer_new(n * (int64_t)sizeof n, &err);
    for (int64_t i = 0; b && i < n; i++) ((int64_t *)b->data)[i] = random_below(r, length);
    return b;
}

static inline Val random_gather(Random *r, Val x)
{
    if (type_of(x)->rank == 0) return NONE;
    int axis = (int)random_below(r, type_of(x)->rank);
    qb_buffer *indices = random_indices(r, type_of(x)->dims[axis]);
    Val v = ggather(x, axis, indices);
    qb_buffer_release(indices);
    return v;
}

static inline Val random_scatter(Random *r, Val x)
{
    if (type_of(x)->rank == 0 || !random_floating(x)) return NONE;
    int axis = (int)random_below(r, type_of(x)->rank);
    qb_buffer *indices = random_indices(r, type_of(x)->dims[axis]);
    Type t = *type_of(x);
    t.dims[axis] = indices->bytes / (int64_t)sizeof(int64_t);
    Val v = gscatter_add(x, random_like(r, gconst(r->g, &t, 0), t.dtype), axis, indices);
    qb_buffer_release(indices);
    return v;
}

static inline Val random_cumsum(Random *r, Val x)
{
    if (type_of(x)->rank == 0 || !random_floating(x)) return NONE;
    return gcumsum(x, (int)random_below(r, type_of(x)->rank), random_below(r, 2));
}

static inline Val random_broadcast(Random *r, Val x)
{
    Type t = *type_of(x);
    for (int i = 0; i < t.rank; i++)
        if (t.dims[i] == 1) t.dims[i] = 1 + random_below(r, 4);
    return gbroadcast(x, t.rank, t.dims);
}

/* A frozen program of about `nodes` nodes and a few outputs, some of them inputs, constants,
   views or repeated. */
static inline Graph *random_graph(uint64_t seed, int nodes, qb_error *err)
{
    static Val (*const makers[])(Random *, Val) = {
        random_unary,   random_unary,     random_binary, random_binary, random_binary,
        random_binary,  random_where,     random_powi,   random_cast,   random_reshape,
        random_reshape, random_transpose, random_slice,  random_pad,    random_concat,
        random_reduce,  random_reduce,    random_matmul, random_matmul, random_broadcast,
        random_gather,  random_scatter,   random_cumsum,
    };
    enum { MAKERS = sizeof makers / sizeof *makers };
    Random r = {.g = graph_new(err), .state = seed * 0x9e3779b97f4a7c15u + 1};
    if (!r.g) return NULL;
    int64_t inputs = 2 + random_below(&r, 4);
    for (int64_t i = 0; i < inputs; i++) {
        Type t = random_type(&r);
        r.pool[r.n++] = graph_input(r.g, NULL, &t);
    }
    Type t = random_type(&r);
    r.pool[r.n++] = random_constant(&r, &t);
    t.dtype = QB_BOOL;
    r.pool[r.n++] = graph_input(r.g, NULL, &t);
    while (nodes-- > 0 && r.n < 250) {
        Val x = random_below(&r, 3) ? r.pool[r.n - 1 - random_below(&r, r.n < 6 ? r.n : 6)]
                                    : random_pick(&r);
        Val v = makers[random_below(&r, MAKERS)](&r, x);
        if (val_none(v)) continue;
        if (type_size(type_of(v)) <= RANDOM_LIMIT) r.pool[r.n++] = v;
    }
    int64_t outputs = 1 + random_below(&r, 5);
    for (int64_t i = 0; i < outputs; i++)
        graph_output(r.g, i < 2 ? r.pool[r.n - 1 - i] : random_pick(&r));
    if (graph_freeze(r.g, err)) return r.g;
    graph_release(r.g);
    return NULL;
}

#endif
