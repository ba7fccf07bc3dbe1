/* dce.c: keep what some output needs. Operands have smaller ids than their node, so one backward
   walk marks and one forward walk copies. Inputs stay, used or not: they are the program's
   signature. dce_rewrite is the same walk for passes that copy a node in their own way. */
#include "plan/plan.h"

/* Marks the nodes that an output needs; returns how many there are, inputs included. */
static uint32_t mark(const Graph *g, bool *live)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->n_inputs; i++) live[g->def[g->inputs[i]]] = true;
    for (uint32_t i = 0; i < g->n_outputs; i++) live[g->def[g->outputs[i]]] = true;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        if (!live[i]) continue;
        count++;
        for (uint32_t k = 0; k < g->nodes[i].n; k++) live[g->def[g->nodes[i].x[k]]] = true;
    }
    return count;
}

/* An input or constant, in `to`. */
static Val copy_leaf(Graph *to, const Graph *from, const Node *n)
{
    const Type *t = &from->types[n->first];
    if (n->op == OP_input) return graph_input(to, n->attr->name, t);
    if (n->attr->buffer) return gdense(to, t, n->attr->buffer);
    return gconst(to, t, n->attr->f);
}

Val dce_copy(Graph *to, const Graph *from, const Node *n, const Val *map)
{
    enum { FEW = 8 };
    if (n->op == OP_input || n->op == OP_constant) return copy_leaf(to, from, n);
    Val few[FEW], *x = n->n <= FEW ? few : arena_alloc(&to->arena, n->n * sizeof *x);
    if (!x) return fail(to, QB_EMEMORY, "out of memory"), NONE;
    for (uint32_t k = 0; k < n->n; k++) x[k] = map[n->x[k]];
    return graph_emit(to, n->op, x, (int)n->n, n->attr);
}

/* Nodes with several results are copied as they are; the others are rewritten. */
static bool copy_many(Graph *to, const Node *n, Val *map)
{
    int results = n->results;
    Val *x = arena_alloc(&to->arena, (n->n + 1) * sizeof *x);
    if (!x) return fail(to, QB_EMEMORY, "out of memory");
    for (uint32_t k = 0; k < n->n; k++) x[k] = map[n->x[k]];
    return graph_emit_many(to, n->op, x, (int)n->n, n->attr, n->sub, &map[n->first], &results);
}

static void copy(Graph *to, const Graph *g, const bool *live, RewriteNode *rewrite, Val *map)
{
    for (uint32_t i = 0; i < g->n_nodes && !graph_failed(to); i++) {
        const Node *n = &g->nodes[i];
        if (!live[i]) continue;
        to->file = n->file;
        to->line = n->line;
        to->scope = n->scope;
        if (n->results > 1 || n->sub)
            copy_many(to, n, map);
        else
            map[n->first] = rewrite(to, g, n, map);
    }
    for (uint32_t i = 0; i < g->n_outputs && !graph_failed(to); i++)
        graph_output(to, map[g->outputs[i]]);
}

Graph *dce_rewrite(const Graph *g, RewriteNode *rewrite, qb_error *err)
{
    Graph *to = graph_new(err);
    if (!to) return NULL;
    bool *live = mem_zeroed(g->n_nodes, sizeof *live);
    Val *map = mem_zeroed(g->n_values, sizeof *map);
    bool ok = live && map;
    if (ok) {
        mark(g, live);
        copy(to, g, live, rewrite, map);
        ok = graph_freeze(to, err);
    } else {
        error_memory(err, "a copy of the program", -1);
    }
    mem_free(live);
    mem_free(map);
    if (ok) return to;
    graph_release(to);
    return NULL;
}

/* The graph itself when every node is needed. */
Graph *dce_run(const Graph *g, qb_error *err)
{
    bool *live = mem_zeroed(g->n_nodes, sizeof *live);
    if (!live) return error_memory(err, "a copy of the program", -1), NULL;
    bool all = g->frozen && mark(g, live) == g->n_nodes;
    mem_free(live);
    return all ? graph_retain((Graph *)(uintptr_t)g) : dce_rewrite(g, dce_copy, err);
}
