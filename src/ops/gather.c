/* gather.c: gather and scatter_add along one axis at constant indices. Each is the other's derivative: gather reads rows that
   may repeat, scatter_add adds to them, in index order, and every sum is rounded to the dtype. */
#include "ops/rules.h"

static int64_t count_of(const Attr *a) { return a->buffer->bytes / (int64_t)sizeof(int64_t); }

/* Are there indices, all within the axis? */
static bool indices_fit(Graph *g, const Node *n, const Type *x)
{
    const Attr *a = n->attr;
    const char *name = op_table[n->op].name;
    if (!rules_axis(g, n, x)) return false;
    if (!a->buffer || count_of(a) < 1) return fail(g, QB_EVALUE, "%s: no indices", name);
    const int64_t *at = a->buffer->data;
    for (int64_t k = 0; k < count_of(a); k++)
        if (at[k] < 0 || at[k] >= x->dims[a->i])
            return fail(g, QB_EINDEX, "%s: index %lld along axis %lld of %s", name,
                        (long long)at[k], (long long)a->i, TYPE_TEXT(x));
    return true;
}

static Val take(const Node *n, Val x) { return ggather(x, (int)n->attr->i, n->attr->buffer); }

static Val put(const Node *n, Val x, Val updates)
{
    return gscatter_add(x, updates, (int)n->attr->i, n->attr->buffer);
}

/* ---- gather ---- */

static bool gather_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    if (!indices_fit(g, n, x)) return false;
    *out = *x;
    out->dims[n->attr->i] = count_of(n->attr);
    return true;
}

/* Of a mask: is any of the elements that were read set? */
static void gather_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g;
    bool mask = type_of(ct[0])->dtype == QB_BOOL;
    Val from = mask ? gcast_like(ct[0], z[0]) : ct[0], v = put(n, gzeros(x[0]), from);
    out[0] = mask ? gcast(v, QB_BOOL) : v;
}

static void gather_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                        Val *z)
{
    (void)g, (void)mapped, (void)size;
    z[0] = ggather(x[0], (int)n->attr->i + 1, n->attr->buffer);
}

const Rules gather_rules = {.infer = gather_infer,
                            .jvp = rules_linear_jvp,
                            .vjp = gather_vjp,
                            .vmap = gather_vmap,
                            .moves_mask = true};

/* ---- scatter_add ---- */

static bool scatter_add_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    if (!rules_floating(g, n, x) || !indices_fit(g, n, x)) return false;
    Type updates = *x;
    updates.dims[n->attr->i] = count_of(n->attr);
    if (!type_same(&updates, &x[1]))
        return fail(g, x[0].dtype == x[1].dtype ? QB_ESHAPE : QB_EDTYPE,
                    "scatter_add: updates of %s for %lld indices along axis %lld of %s",
                    TYPE_TEXT(&x[1]), (long long)count_of(n->attr), (long long)n->attr->i,
                    TYPE_TEXT(x));
    *out = *x;
    out->weak = x[0].weak && x[1].weak;
    return true;
}

static void scatter_add_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t,
                            Val *tz)
{
    (void)g, (void)z;
    if (val_none(t[1]))
        tz[0] = t[0];
    else
        tz[0] = put(n, val_none(t[0]) ? gzeros(x[0]) : t[0], t[1]);
}

static void scatter_add_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct,
                            Val *out)
{
    (void)g, (void)x, (void)z;
    out[0] = ct[0];
    out[1] = take(n, ct[0]);
}

static void scatter_add_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped,
                             int64_t size, Val *z)
{
    (void)g;
    Val base = mapped[0] ? x[0] : vmap_lift(x[0], size);
    Val updates = mapped[1] ? x[1] : vmap_lift(x[1], size);
    z[0] = gscatter_add(base, updates, (int)n->attr->i + 1, n->attr->buffer);
}

const Rules scatter_add_rules = {.infer = scatter_add_infer,
                                 .jvp = scatter_add_jvp,
                                 .vjp = scatter_add_vjp,
                                 .vmap = scatter_add_vmap,
                                 .moves_mask = true};
