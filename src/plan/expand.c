/* expand.c: a plan computes values, so of a function with a rule of its own only the value stays: custom nodes become their first body,
   at any depth. Bodies of loops pass here too, when they are compiled. */
#include "plan/plan.h"

static bool expand(Graph *to, const Graph *from, const Val *args, Val *outs)
{
    Walk w;
    if (!walk_open(&w, to, from, args, NULL)) return false;
    for (Id i = 0; i < from->n_nodes && !graph_failed(to); i++) {
        const Node *n = &from->nodes[i];
        if (!w.live[i]) continue;
        walk_visit(&w, n);
        if (op_custom(n->op))
            expand(to, n->sub[0], w.x, &w.map[n->first]);
        else
            walk_copy(&w, n);
    }
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
    Graph *to = graph_new(err);
    Val *v = mem_zeroed((size_t)g->n_inputs + g->n_outputs + 1, sizeof *v);
    bool ok = to && v;
    if (to && !v) error_memory(err, "a copy of the program", -1);
    for (uint32_t i = 0; ok && i < g->n_inputs; i++)
        v[i] = graph_input(to, g->nodes[g->def[g->inputs[i]]].attr->name, &g->types[g->inputs[i]]);
    if (ok) expand(to, g, v, v + g->n_inputs);
    for (uint32_t i = 0; ok && i < g->n_outputs; i++) graph_output(to, v[g->n_inputs + i]);
    ok = ok && graph_freeze(to, err);
    mem_free(v);
    if (ok) return to;
    graph_release(to);
    return NULL;
}
