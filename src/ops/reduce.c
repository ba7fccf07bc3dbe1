/* reduce.c: sum, mean, max, min over axes, which are sorted and removed.

   In reverse every one of them spreads its cotangent over the reduced axes, and a mask spreads the
   same way. */
#include "ops/rules.h"

static bool reduce_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Attr *a = n->attr;
    const char *name = op_table[n->op].name;
    if (!rules_floating(g, n, x)) return false;
    if (a->n < 1 || a->n > x->rank)
        return fail(g, QB_ESHAPE, "%s: %d axes of %s", name, a->n, TYPE_TEXT(x));
    for (int k = 0; k < a->n; k++)
        if (a->list[k] < (k ? a->list[k - 1] + 1 : 0) || a->list[k] >= x->rank)
            return fail(g, QB_ESHAPE, "%s: axis %lld of %s; axes are sorted and each is named once",
                        name, (long long)a->list[k], TYPE_TEXT(x));
    *out = (Type){.dtype = x->dtype, .weak = x->weak};
    for (int i = 0, k = 0; i < x->rank; i++) {
        if (k < a->n && a->list[k] == i)
            k++;
        else
            out->dims[out->rank++] = x->dims[i];
    }
    return true;
}

/* v, which lacks the reduced axes, repeated along them to x's shape */
static Val spread(const Node *n, Val x, Val v)
{
    Type t = *type_of(x);
    int64_t kept[QB_MAX_RANK];
    memcpy(kept, t.dims, sizeof kept);
    for (int k = 0; k < n->attr->n; k++) kept[n->attr->list[k]] = 1;
    return gbroadcast(greshape(v, t.rank, kept), t.rank, t.dims);
}

/* elements that one result is made of */
static double count(const Node *n, Val x)
{
    double c = 1;
    for (int k = 0; k < n->attr->n; k++) c *= (double)type_of(x)->dims[n->attr->list[k]];
    return c;
}

static void reduce_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                        Val *z)
{
    (void)mapped, (void)size;
    Attr a = *n->attr;
    for (int k = 0; k < a.n; k++) a.list[k]++;
    z[0] = graph_emit(g, n->op, x, 1, &a);
}

/* ---- sum, mean: linear ---- */

static void sum_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)z;
    out[0] = spread(n, x[0], ct[0]);
}

/* The division comes first: it is over the smaller array. */
static void mean_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)z;
    bool mask = type_of(ct[0])->dtype == QB_BOOL;
    out[0] = spread(n, x[0], mask ? ct[0] : gdiv(ct[0], glike(ct[0], count(n, x[0]))));
}

const Rules sum_rules = {.infer = reduce_infer,
                         .jvp = rules_linear_jvp,
                         .vjp = sum_vjp,
                         .vmap = reduce_vmap,
                         .moves_mask = true};
const Rules mean_rules = {.infer = reduce_infer,
                          .jvp = rules_linear_jvp,
                          .vjp = mean_vjp,
                          .vmap = reduce_vmap,
                          .moves_mask = true};

/* ---- max, min: elements equal to the result share its derivative equally ---- */

/* Where the result is NaN no element is equal, and 0 / 0 makes the derivative NaN in both modes. */

static Val ties(const Node *n, Val x, Val z) { return gequal(x, spread(n, x, z)); }

static Val how_many(const Node *n, Val tied, Val z)
{
    return gsum(gcast_like(tied, z), n->attr->list, n->attr->n);
}

static void extreme_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)g;
    Val tied = ties(n, x[0], z[0]);
    Val count = how_many(n, tied, z[0]);
    tz[0] = gdiv(gsum(gselect0(tied, t[0]), n->attr->list, n->attr->n), count);
}

static void extreme_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct,
                        Val *out)
{
    (void)g;
    Val wide = spread(n, x[0], ct[0]);
    if (type_of(ct[0])->dtype != QB_BOOL) {
        Val tied = ties(n, x[0], z[0]), count = spread(n, x[0], how_many(n, tied, z[0]));
        wide = gdiv(gselect0(tied, wide), count);
    }
    out[0] = wide;
}

const Rules max_rules = {.infer = reduce_infer,
                         .jvp = extreme_jvp,
                         .vjp = extreme_vjp,
                         .vmap = reduce_vmap,
                         .moves_mask = true};
const Rules min_rules = {.infer = reduce_infer,
                         .jvp = extreme_jvp,
                         .vjp = extreme_vjp,
                         .vmap = reduce_vmap,
                         .moves_mask = true};
