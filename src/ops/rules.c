/* rules.c: the rules of every structural op, one entry each, and what the rule files share.

   UNARY and BINARY rows need none: inference, jvp, vjp and vmap follow from the row (jvp.c, vjp.c,
   vmap.c, op_partial). The leaves input and constant have no operands, so nothing passes through
   them. */
#include "ops/rules.h"

#define STRUCT(name, ...) extern const Rules name##_rules;
#include "ops.h"

/* clang-format off */
#define RULES(name) [OP_##name] = &name##_rules
const Rules *const op_rules[OP_COUNT] = {
    /* elementwise.c */ RULES(powi), RULES(cast), RULES(stop_gradient), RULES(where),
    /* shape.c */       RULES(broadcast), RULES(reshape), RULES(transpose), RULES(slice), RULES(pad_slice), RULES(concat),
    /* reduce.c */      RULES(sum), RULES(mean), RULES(max), RULES(min),
    /* gather.c */      RULES(gather), RULES(scatter_add),
    /* cumsum.c */      RULES(cumsum),
    /* matmul.c */      RULES(matmul),
    /* cond.c */        RULES(cond),
    /* scan.c */        RULES(scan),
    /* while.c */       RULES(while),
    /* custom.c */      RULES(after), RULES(instead), RULES(checkpoint), RULES(custom_jvp), RULES(custom_vjp),
};
#undef RULES
/* clang-format on */

bool rules_floating(Graph *g, const Node *n, const Type *x)
{
    if (type_floating(x)) return true;
    return fail(g, QB_EDTYPE, "%s: %s is not floating; use astype", op_table[n->op].name,
                TYPE_TEXT(x));
}

bool rules_axis(Graph *g, const Node *n, const Type *x)
{
    if (n->attr->i >= 0 && n->attr->i < x->rank) return true;
    return fail(g, QB_ESHAPE, "%s: %s has no axis %lld", op_table[n->op].name, TYPE_TEXT(x),
                (long long)n->attr->i);
}

void rules_linear_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    (void)x, (void)z;
    tz[0] = graph_emit(g, n->op, t, 1, n->attr);
}
