/* markers.c: after(x, y) and instead(x, y), which say something about x and compute nothing. */
#include "ops/rules.h"

/* ---- after(x, y): x, once y is there ---- */

static bool after_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    (void)g, (void)n;
    *out = x[0];
    return true;
}

static void after_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)g, (void)n, (void)x, (void)z;
    tz[0] = t[0];
}

static void after_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)n, (void)x, (void)z;
    out[0] = ct[0];
}

static void after_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                       Val *z, bool *z_mapped)
{
    (void)g, (void)n, (void)size;
    z[0] = gafter(x[0], x[1]);
    z_mapped[0] = mapped[0];
}

const Rules after_rules = {.infer = after_infer,
                           .jvp = after_jvp,
                           .vjp = after_vjp,
                           .vmap_some = after_vmap,
                           .moves_mask = true};

/* ---- instead(x, y): the value of x, the derivative of y ---- */

static bool instead_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    if (!type_same(&x[0], &x[1]))
        return fail(g, x[0].dtype == x[1].dtype ? QB_ESHAPE : QB_EDTYPE,
                    "%s: the value is %s and what stands for its derivative %s",
                    op_table[n->op].name, TYPE_TEXT(&x[0]), TYPE_TEXT(&x[1]));
    *out = x[0];
    return true;
}

static void instead_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)g, (void)n, (void)x, (void)z;
    tz[0] = t[1];
}

static void instead_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct,
                        Val *out)
{
    (void)g, (void)n, (void)x, (void)z;
    out[1] = ct[0];
}

static void instead_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                         Val *z)
{
    (void)g, (void)n;
    Val v[2];
    for (int k = 0; k < 2; k++) v[k] = mapped[k] ? x[k] : vmap_lift(x[k], size);
    z[0] = ginstead(v[0], v[1]);
}

const Rules instead_rules = {.infer = instead_infer,
                             .jvp = instead_jvp,
                             .vjp = instead_vjp,
                             .vmap = instead_vmap,
                             .moves_mask = true};
