/* check.c: is a graph legal? Operands come before their use, result types are what infer says, inputs and outputs exist. Passes
   are checked with it in debug builds; the message names the node. */
#include "ir/ir.h"

static bool illegal(qb_error *err, const Graph *g, Id i, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool illegal(qb_error *err, const Graph *g, Id i, const char *format, ...)
{
    qb_error what = {0};
    va_list args;
    va_start(args, format);
    error_setv(&what, QB_EBUG, format, args);
    va_end(args);
    const Node *n = &g->nodes[i];
    error_set(err, QB_EBUG, "node %u (%%%u = %s): %.900s", (unsigned)i, (unsigned)n->first,
              n->op < OP_COUNT ? op_table[n->op].name : "no op", what.message);
    return false;
}

/* The parts of a node fit the graph's arrays, so that reading them is safe. */
static bool sound(const Graph *g, Id i, Id first, qb_error *err)
{
    const Node *n = &g->nodes[i];
    if (n->op >= OP_COUNT) return illegal(err, g, i, "its op is %d", n->op);
    if (!n->attr || n->results == 0)
        return illegal(err, g, i, "it has no attributes or no results");
    if (n->first != first || (uint64_t)first + n->results > g->n_values)
        return illegal(err, g, i, "its first result is %%%u, not %%%u", (unsigned)n->first,
                       (unsigned)first);
    for (Id v = first; v < first + n->results; v++)
        if (g->def[v] != i)
            return illegal(err, g, i, "%%%u is said to come from node %u", (unsigned)v,
                           (unsigned)g->def[v]);
    for (uint32_t k = 0; k < n->n; k++)
        if (n->x[k] >= first)
            return illegal(err, g, i, "operand %%%u is not before it", (unsigned)n->x[k]);
    return true;
}

/* scratch holds the failure of an infer rule. */
static bool typed(const Graph *g, Id i, Graph *scratch, qb_error *err)
{
    const Node *n = &g->nodes[i];
    Type *x = mem_zeroed((size_t)n->n + n->results, sizeof *x), *z = x + n->n;
    if (!x) return error_memory(err, "a check", -1), false;
    for (uint32_t k = 0; k < n->n; k++) x[k] = g->types[n->x[k]];
    bool ok = infer_node(scratch, n, x, z);
    if (!ok) illegal(err, g, i, "%.800s", scratch->error.message);
    for (int k = 0; ok && k < n->results; k++) {
        const Type *t = &g->types[n->first + (Id)k];
        ok = type_exact(t, &z[k]);
        if (!ok)
            illegal(err, g, i, "its type is %s%s, infer says %s%s", TYPE_TEXT(t),
                    t->weak ? " weak" : "", TYPE_TEXT(&z[k]), z[k].weak ? " weak" : "");
    }
    mem_free(x);
    return ok;
}

static bool ends(const Graph *g, qb_error *err)
{
    uint32_t inputs = 0;
    for (Id i = 0; i < g->n_nodes; i++) inputs += g->nodes[i].op == OP_input;
    if (inputs != g->n_inputs)
        return error_set(err, QB_EBUG, "%u input nodes, but %u inputs", (unsigned)inputs,
                         (unsigned)g->n_inputs),
               false;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        Id v = g->inputs[i];
        if (v >= g->n_values || g->nodes[g->def[v]].op != OP_input || (i && v <= g->inputs[i - 1]))
            return error_set(err, QB_EBUG,
                             "input %u is %%%u, which is no input node or not in order",
                             (unsigned)i, (unsigned)v),
                   false;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] >= g->n_values)
            return error_set(err, QB_EBUG, "output %u is %%%u, which does not exist", (unsigned)i,
                             (unsigned)g->outputs[i]),
                   false;
    return true;
}

static bool bodies(const Graph *g, Id i, qb_error *err)
{
    for (Graph *const *s = g->nodes[i].sub; s && *s; s++) {
        qb_error inner = {0};
        if (!(*s)->frozen) return illegal(err, g, i, "a body is not frozen");
        if (!check_graph(*s, &inner)) return illegal(err, g, i, "in a body: %.800s", inner.message);
    }
    return true;
}

bool check_graph(const Graph *g, qb_error *err)
{
    if (graph_failed(g)) return *err = g->error, false;
    Graph *scratch = graph_new(err);
    bool ok = scratch != NULL;
    Id first = 0;
    for (Id i = 0; ok && i < g->n_nodes; i++) {
        ok = sound(g, i, first, err) && bodies(g, i, err) && typed(g, i, scratch, err);
        first += g->nodes[i].results;
    }
    if (ok && first != g->n_values)
        ok = (error_set(err, QB_EBUG, "%u values, but nodes have %u results", (unsigned)g->n_values,
                        (unsigned)first),
              false);
    ok = ok && ends(g, err);
    graph_release(scratch);
    return ok;
}
