/* matmul.c: [..., m, k] x [..., k, n] -> [..., m, n], equal batch axes.

   Every element is a chain over k, whatever its neighbours are (plan.h), so rows of a batch may be
   stacked to one taller product without changing a bit. vmap does that wherever one operand is the
   same for the whole batch: one product, and in reverse one product too, instead of a batch of them
   and a sum. */
#include "ops/rules.h"

static bool matmul_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Type *a = &x[0], *b = &x[1];
    int r = a->rank;
    if (!rules_floating(g, n, a)) return false;
    if (a->dtype != b->dtype)
        return fail(g, QB_EDTYPE, "matmul: %s and %s; use astype", TYPE_TEXT(a), TYPE_TEXT(b));
    bool fits = r >= 2 && r == b->rank && a->dims[r - 1] == b->dims[r - 2];
    for (int i = 0; fits && i < r - 2; i++) fits = a->dims[i] == b->dims[i];
    if (!fits)
        return fail(g, QB_ESHAPE, "matmul: %s and %s do not fit; [..., m, k] and [..., k, n] do",
                    TYPE_TEXT(a), TYPE_TEXT(b));
    *out = *a;
    out->weak = a->weak && b->weak;
    out->dims[r - 1] = b->dims[r - 1];
    return true;
}

static void matmul_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)g, (void)n, (void)z;
    Val left = val_none(t[0]) ? NONE : gmatmul(t[0], x[1]);
    Val right = val_none(t[1]) ? NONE : gmatmul(x[0], t[1]);
    tz[0] = gaccumulate(left, right);
}

static void matmul_vjp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    (void)g, (void)n, (void)z;
    out[0] = gmatmul(ct[0], gswap_last(x[1]));
    out[1] = gmatmul(gswap_last(x[0]), ct[0]);
}

/* x [B, ..., m, k] times y [..., k, n]: the batch becomes rows, [..., B m, k] x [..., k, n]. */
static Val fold_rows(Val x, Val y)
{
    if (val_none(x) || val_none(y)) return NONE;
    Type tx = *type_of(x), ty = *type_of(y);
    int r = ty.rank;
    int64_t batch = tx.dims[0], m = tx.dims[r - 1], dims[QB_MAX_RANK];
    memcpy(dims, ty.dims, sizeof dims);
    dims[r - 2] = batch * m;
    dims[r - 1] = tx.dims[r];
    Val product = gmatmul(greshape(gmove_axis(x, 0, r - 2), r, dims), y);
    dims[r - 2] = batch;
    dims[r - 1] = m;
    dims[r] = ty.dims[r - 1];
    return gmove_axis(greshape(product, r + 1, dims), r - 2, 0);
}

/* An unmapped left operand: A Y = (Y^T A^T)^T, and Y^T is a mapped left operand. */
static void matmul_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                        Val *z)
{
    (void)g, (void)n, (void)size;
    if (mapped[0]) {
        z[0] = mapped[1] ? gmatmul(x[0], x[1]) : fold_rows(x[0], x[1]);
        return;
    }
    Val left = gswap_last(x[0]);
    z[0] = gswap_last(fold_rows(gswap_last(x[1]), left));
}

const Rules matmul_rules = {.infer = matmul_infer,
                            .jvp = matmul_jvp,
                            .vjp = matmul_vjp,
                            .vmap = matmul_vmap};
