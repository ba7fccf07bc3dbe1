/* expand.c: a plan computes values, so of a function with a rule of its own only the value stays: custom nodes become their first body,
   at any depth. Bodies of loops pass here too, when they are compiled. */
#include "plan/plan.h"

static bool expand(Graph *to, const Graph *from, const Val *args, Val *outs);

static void copy_nodes(Walk *w, void *arg)
{
    (void)arg;
    for (Id i = 0; i < w->src->n_nodes && !graph_failed(w->dst); i++) {
        const Node *n = &w->src->nodes[i];
        if (!w->live[i]) continue;
        walk_visit(w, n);
        if (op_custom(n->op))
            expand(w->dst, n->sub[0], w->x, &w->map[n->first]);
        else
            walk_copy(w, n);
    }
}

static bool expand(Graph *to, const Graph *from, const Val *args, Val *outs)
{
    Walk w;
    if (!walk_open(&w, to, from, args, NULL)) return false;
    copy_nodes(&w, NULL);
    for (uint32_t i = 0; i < from->n_outputs && !graph_failed(to); i++)
        outs[i] = w.map[from->outputs[i]];
    return walk_close(&w);
}

static bool has_custom(const Graph *g)
{
    for (Id i = 0; i < g->n_nodes; i++)
        if (op_custom(g->nodes[i].op)) return true;
    return false;
}

Graph *expand_run(const Graph *g, qb_error *err)
{
    if (!has_custom(g)) return graph_retain((Graph *)(uintptr_t)g);
    return walk_rewrite(g, copy_nodes, NULL, err);
}
