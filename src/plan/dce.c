/* dce.c: keep what some output needs. Operands have smaller ids than their node, so one backward
   walk marks and one forward walk copies. Inputs stay, used or not: they are the program's
   signature. dce_rewrite is the same walk for passes that copy a node in their own way. */
#include "plan/plan.h"

/* What is needed: nodes, and of region nodes (which may drop some) results and operands. */
typedef struct {
    Arena arena;
    bool *live;   /* per node */
    bool *read;   /* per value */
    bool **needs; /* per node: operands of a region; NULL for the others */
    bool all;     /* nothing can go */
} Marks;

static bool mark_region(Marks *m, const Graph *g, Id i)
{
    const Node *n = &g->nodes[i];
    bool *needs = m->needs[i] = arena_zeroed(&m->arena, n->n + (size_t)1, 1);
    if (!needs || !trim_mark(n, &m->read[n->first], needs)) return false;
    for (int r = 0; r < n->results; r++) m->all &= m->read[n->first + (Id)r];
    for (uint32_t k = 0; k < n->n; k++) {
        m->read[n->x[k]] |= needs[k];
        m->all &= needs[k];
    }
    return true;
}

static bool mark(Marks *m, const Graph *g)
{
    *m = (Marks){.all = g->frozen};
    m->live = arena_zeroed(&m->arena, g->n_nodes + (size_t)1, 1);
    m->read = arena_zeroed(&m->arena, g->n_values + (size_t)1, 1);
    m->needs = arena_zeroed(&m->arena, g->n_nodes + (size_t)1, sizeof *m->needs);
    if (!m->live || !m->read || !m->needs) return false;
    for (uint32_t i = 0; i < g->n_inputs; i++) m->live[g->def[g->inputs[i]]] = true;
    for (uint32_t i = 0; i < g->n_outputs; i++) m->read[g->outputs[i]] = true;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const Node *n = &g->nodes[i];
        for (Id r = n->first; r < n->first + n->results; r++) m->live[i] |= m->read[r];
        m->all &= m->live[i];
        if (!m->live[i]) continue;
        if (n->sub && !mark_region(m, g, i)) return false;
        for (uint32_t k = 0; k < n->n && !n->sub; k++) m->read[n->x[k]] = true;
    }
    return true;
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

/* A region keeps what somebody reads; other nodes with several results are copied as they are. */
static bool copy_many(Graph *to, const Marks *m, Id i, const Node *n, Val *map)
{
    int results = n->results;
    Val *x = arena_alloc(&to->arena, (n->n + 1) * sizeof *x);
    if (!x) return fail(to, QB_EMEMORY, "out of memory");
    for (uint32_t k = 0; k < n->n; k++) x[k] = map[n->x[k]];
    if (n->sub) return trim_copy(to, n, x, &m->read[n->first], m->needs[i], &map[n->first]);
    return graph_emit_many(to, n->op, x, (int)n->n, n->attr, n->sub, &map[n->first], &results);
}

static void copy(Graph *to, const Graph *g, const Marks *m, RewriteNode *rewrite, Val *map)
{
    for (uint32_t i = 0; i < g->n_nodes && !graph_failed(to); i++) {
        const Node *n = &g->nodes[i];
        if (!m->live[i]) continue;
        to->file = n->file;
        to->line = n->line;
        to->scope = n->scope;
        if (n->results > 1 || n->sub)
            copy_many(to, m, i, n, map);
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
    Marks m;
    bool ok = mark(&m, g);
    Val *map = ok ? arena_zeroed(&m.arena, g->n_values + (size_t)1, sizeof *map) : NULL;
    if (map) {
        copy(to, g, &m, rewrite, map);
        ok = graph_freeze(to, err);
    } else {
        ok = false;
        error_memory(err, "a copy of the program", -1);
    }
    arena_free(&m.arena);
    if (ok) return to;
    graph_release(to);
    return NULL;
}

/* The graph itself when everything is needed. */
Graph *dce_run(const Graph *g, qb_error *err)
{
    Marks m;
    bool ok = mark(&m, g), all = m.all;
    arena_free(&m.arena);
    if (!ok) return error_memory(err, "a copy of the program", -1), NULL;
    return all ? graph_retain((Graph *)(uintptr_t)g) : dce_rewrite(g, dce_copy, err);
}
