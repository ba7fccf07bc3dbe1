/* shape.c: ops that move elements: broadcast, reshape, transpose, slice, pad_slice, concat. All are
   linear; each jvp is the op itself, each vjp its transpose; a mask moves as a cotangent does. */
#include "ops/rules.h"

/* attr.list as a shape; infer.c checks its lengths and its size */
static bool shape_of(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Attr *a = n->attr;
    if (a->n < 0 || a->n > QB_MAX_RANK)
        return fail(g, QB_ESHAPE, "%s: rank %d; at most %d axes", op_table[n->op].name, a->n,
                    QB_MAX_RANK);
    *out = (Type){.dtype = x->dtype, .weak = x->weak, .rank = (uint8_t)a->n};
    memcpy(out->dims, a->list, sizeof *out->dims * (size_t)a->n);
    return true;
}

/* attr.list with the batch axis in front */
static Attr batched_list(const Node *n, int64_t size)
{
    Attr a = *n->attr;
    memmove(a.list + 1, a.list, sizeof *a.list * (size_t)a.n);
    a.list[0] = size;
    a.n++;
    return a;
}

static void list_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                      Val *z)
{
    (void)mapped;
    Attr a = batched_list(n, size);
    z[0] = graph_emit(g, n->op, x, 1, &a);
}

static void axis_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                      Val *z)
{
    (void)mapped, (void)size;
    Attr a = *n->attr;
    a.i++;
    z[0] = graph_emit(g, n->op, x, 1, &a);
}

/* ---- broadcast: the transpose is the sum over the repeated axes; of a mask, is any set? ---- */

static bool broadcast_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    if (!shape_of(g, n, x, out)) return false;
    bool fits = x->rank == out->rank;
    for (int i = 0; fits && i < x->rank; i++) fits = x->dims[i] == 1 || x->dims[i] == out->dims[i];
    return fits || fail(g, QB_ESHAPE, "broadcast: %s to %s; only axes of length 1 are repeated",
                        TYPE_TEXT(x), TYPE_TEXT(out));
}

static void broadcast_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct,
                          Val *out)
{
    (void)g, (void)n;
    const Type *tx = type_of(x[0]), *tz = type_of(z[0]);
    int64_t axes[QB_MAX_RANK], dims[QB_MAX_RANK];
    int repeated = 0, rank = tx->rank;
    for (int i = 0; i < rank; i++)
        if (tx->dims[i] != tz->dims[i]) axes[repeated++] = i;
    memcpy(dims, tx->dims, sizeof dims);
    bool mask = type_of(ct[0])->dtype == QB_BOOL;
    Val v = mask ? greduce(OP_max, gcast_like(ct[0], z[0]), axes, repeated)
                 : gsum(ct[0], axes, repeated);
    if (mask) v = gcast(v, QB_BOOL);
    out[0] = greshape(v, rank, dims);
}

const Rules broadcast_rules = {.infer = broadcast_infer,
                               .jvp = rules_linear_jvp,
                               .vjp = broadcast_vjp,
                               .vmap = list_vmap,
                               .moves_mask = true};

/* ---- reshape ---- */

static bool reshape_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    if (!shape_of(g, n, x, out)) return false;
    return type_size(x) == type_size(out) ||
           fail(g, QB_ESHAPE, "reshape: %s has not as many elements as %s", TYPE_TEXT(x),
                TYPE_TEXT(out));
}

static void reshape_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct,
                        Val *out)
{
    (void)g, (void)n, (void)z;
    Type t = *type_of(x[0]);
    out[0] = greshape(ct[0], t.rank, t.dims);
}

const Rules reshape_rules = {.infer = reshape_infer,
                             .jvp = rules_linear_jvp,
                             .vjp = reshape_vjp,
                             .vmap = list_vmap,
                             .moves_mask = true};

/* ---- transpose: the transpose is the inverse permutation ---- */

static bool transpose_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Attr *a = n->attr;
    uint32_t seen = 0;
    bool permutation = a->n == x->rank;
    *out = *x;
    for (int i = 0; permutation && i < a->n; i++) {
        permutation = a->list[i] >= 0 && a->list[i] < x->rank && !(seen >> a->list[i] & 1);
        if (!permutation) break;
        seen |= 1u << a->list[i];
        out->dims[i] = x->dims[a->list[i]];
    }
    return permutation ||
           fail(g, QB_ESHAPE, "transpose: axes of %s: each one must be named once", TYPE_TEXT(x));
}

static void transpose_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct,
                          Val *out)
{
    (void)g, (void)x, (void)z;
    int64_t inverse[QB_MAX_RANK];
    for (int i = 0; i < n->attr->n; i++) inverse[n->attr->list[i]] = i;
    out[0] = gtranspose(ct[0], inverse);
}

static void transpose_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                           Val *z)
{
    (void)mapped, (void)size;
    Attr a = batched_list(n, -1);
    for (int i = 0; i < a.n; i++) a.list[i]++;
    z[0] = graph_emit(g, OP_transpose, x, 1, &a);
}

const Rules transpose_rules = {.infer = transpose_infer,
                               .jvp = rules_linear_jvp,
                               .vjp = transpose_vjp,
                               .vmap = transpose_vmap,
                               .moves_mask = true};

/* ---- slice and pad_slice: each is the transpose of the other ---- */

/* Are the elements start + i step, i < length, all within an axis of `total` elements? */
static bool within(const Attr *a, int64_t length, int64_t total)
{
    int64_t span, last;
    return length >= 1 && a->step != 0 && a->start >= 0 && a->start < total &&
           !__builtin_mul_overflow(length - 1, a->step, &span) &&
           !__builtin_add_overflow(a->start, span, &last) && last >= 0 && last < total;
}

static bool slice_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Attr *a = n->attr;
    if (!rules_axis(g, n, x)) return false;
    if (!within(a, a->length, x->dims[a->i]))
        return fail(g, QB_EINDEX,
                    "slice: %lld elements from %lld by steps of %lld along axis %lld of %s",
                    (long long)a->length, (long long)a->start, (long long)a->step, (long long)a->i,
                    TYPE_TEXT(x));
    *out = *x;
    out->dims[a->i] = a->length;
    return true;
}

static void slice_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)z;
    const Attr *a = n->attr;
    out[0] = gpad_slice(ct[0], (int)a->i, a->start, type_of(x[0])->dims[a->i], a->step);
}

const Rules slice_rules = {.infer = slice_infer,
                           .jvp = rules_linear_jvp,
                           .vjp = slice_vjp,
                           .vmap = axis_vmap,
                           .moves_mask = true};

static bool pad_slice_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Attr *a = n->attr; /* length is the total */
    if (!rules_axis(g, n, x)) return false;
    if (!within(a, x->dims[a->i], a->length))
        return fail(g, QB_EINDEX,
                    "pad_slice: axis %lld of %s from %lld by steps of %lld in %lld elements",
                    (long long)a->i, TYPE_TEXT(x), (long long)a->start, (long long)a->step,
                    (long long)a->length);
    *out = *x;
    out->dims[a->i] = a->length;
    return true;
}

static void pad_slice_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct,
                          Val *out)
{
    (void)g, (void)z;
    const Attr *a = n->attr;
    out[0] = gslice(ct[0], (int)a->i, a->start, type_of(x[0])->dims[a->i], a->step);
}

const Rules pad_slice_rules = {.infer = pad_slice_infer,
                               .jvp = rules_linear_jvp,
                               .vjp = pad_slice_vjp,
                               .vmap = axis_vmap,
                               .moves_mask = true};

/* ---- concat: the transpose is one slice per operand ---- */

static bool concat_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    if (!rules_axis(g, n, x)) return false;
    int64_t axis = n->attr->i, total = 0;
    *out = x[0];
    for (uint32_t k = 0; k < n->n; k++) {
        Type other = x[k]; /* as x[0], but for the length along axis */
        other.dims[axis] = x[0].dims[axis];
        if (!type_same(&other, &x[0]))
            return fail(g, x[k].dtype == x[0].dtype ? QB_ESHAPE : QB_EDTYPE,
                        "concat: %s and %s along axis %lld", TYPE_TEXT(&x[0]), TYPE_TEXT(&x[k]),
                        (long long)axis);
        if (__builtin_add_overflow(total, x[k].dims[axis], &total))
            return fail(g, QB_EMEMORY, "concat: too long along axis %lld", (long long)axis);
        out->weak = out->weak && x[k].weak;
    }
    out->dims[axis] = total;
    return true;
}

static void concat_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)z;
    Val *all = mem_zeroed(n->n, sizeof *all);
    if (!all) {
        fail(g, QB_EMEMORY, "concat: out of memory for its tangents");
        return;
    }
    for (uint32_t k = 0; k < n->n; k++) all[k] = val_none(t[k]) ? gzeros(x[k]) : t[k];
    tz[0] = gconcat(g, all, (int)n->n, (int)n->attr->i);
    mem_free(all);
}

static void concat_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)z;
    int64_t axis = n->attr->i, start = 0;
    for (uint32_t k = 0; k < n->n; k++) {
        int64_t length = type_of(x[k])->dims[axis];
        out[k] = gslice(ct[0], (int)axis, start, length, 1);
        start += length;
    }
}

static void concat_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                        Val *z)
{
    Val *all = mem_zeroed(n->n, sizeof *all);
    if (!all) {
        fail(g, QB_EMEMORY, "concat: out of memory for its operands");
        return;
    }
    for (uint32_t k = 0; k < n->n; k++) all[k] = mapped[k] ? x[k] : vmap_lift(x[k], size);
    z[0] = gconcat(g, all, (int)n->n, (int)n->attr->i + 1);
    mem_free(all);
}

const Rules concat_rules = {.infer = concat_infer,
                            .jvp = concat_jvp,
                            .vjp = concat_vjp,
                            .vmap = concat_vmap,
                            .moves_mask = true};
