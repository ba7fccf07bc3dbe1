/* infer.c: the types of a node's results from those of its operands and its attributes. Emit and check both ask here. */
#include "ir/ir.h"

/* The type that an input or a constant carries in its attributes (ATTRIBUTES in ir.h). */
static Type read(const Attr *a)
{
    Type t = type_make((int)a->i, a->n, a->list);
    t.weak = a->start != 0;
    return t;
}

/* Rows of the table: operands of one dtype in the row's class and of one shape; weak when all operands are. */
static bool row(Graph *g, const Node *n, const Type *x, Type *out)
{
    const OpRow *r = &op_table[n->op];
    if (n->n == 2 && x[0].dtype != x[1].dtype)
        return fail(g, QB_EDTYPE, "%s: %s and %s; use astype", r->name, TYPE_TEXT(&x[0]),
                    TYPE_TEXT(&x[1]));
    if (n->n == 2 && !type_same_shape(&x[0], &x[1]))
        return fail(g, QB_ESHAPE, "%s: shapes differ: %s and %s", r->name, TYPE_TEXT(&x[0]),
                    TYPE_TEXT(&x[1]));
    if (r->in == IN_F && !type_floating(&x[0]))
        return fail(g, QB_EDTYPE, "%s: %s is not floating; use astype", r->name, TYPE_TEXT(&x[0]));
    if (r->in == IN_B && x[0].dtype != QB_BOOL)
        return fail(g, QB_EDTYPE, "%s: %s is not bool; use a comparison", r->name,
                    TYPE_TEXT(&x[0]));
    *out = x[0];
    if (n->n == 2) out->weak &= x[1].weak;
    if (r->to_bool) out->dtype = QB_BOOL, out->weak = 0;
    return true;
}

static bool constant(Graph *g, const Node *n, Type *out)
{
    *out = read(n->attr);
    const char *what;
    int code = type_problem(out, &what);
    if (code) return fail(g, code, "constant: %s: %s", TYPE_TEXT(out), what);
    if (n->attr->buffer && n->attr->buffer->bytes != type_bytes(out))
        return fail(g, QB_EVALUE, "constant: %lld bytes of data for %s",
                    (long long)n->attr->buffer->bytes, TYPE_TEXT(out));
    return true;
}

/* x: the operands' types. out: room for n->results types. */
bool infer_node(Graph *g, const Node *n, const Type *x, Type *out)
{
    const OpRow *r = &op_table[n->op];
    if (r->arity != 255 ? n->n != r->arity : n->n == 0 && !op_bodies(n->op))
        return fail(g, QB_EBUG, "%s: %u operands", r->name, (unsigned)n->n);
    int bodies = 0;
    while (n->sub && n->sub[bodies]) bodies++;
    if (bodies != op_bodies(n->op)) return fail(g, QB_EBUG, "%s: %d bodies", r->name, bodies);
    if (n->op == OP_input) {
        *out = read(n->attr);
    } else if (n->op == OP_constant) {
        if (!constant(g, n, out)) return false;
    } else if (r->cls != CLASS_STRUCT) {
        if (!row(g, n, x, out)) return false;
    } else {
        if (!op_rules[n->op] || !op_rules[n->op]->infer)
            return fail(g, QB_EBUG, "%s has no infer rule", r->name);
        if (!op_rules[n->op]->infer(g, n, x, out)) return false;
    }
    for (int i = 0; i < n->results; i++) {
        const char *what;
        int code = type_problem(&out[i], &what);
        if (code) return fail(g, code, "%s: result %s: %s", r->name, TYPE_TEXT(&out[i]), what);
    }
    return true;
}
