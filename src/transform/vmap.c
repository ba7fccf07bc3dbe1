/* vmap.c: one program for a batch. Every mapped value has the batch axis first; values that no
   mapped input reaches are copied once and shared. Elementwise ops meet an unmapped operand by
   repeating it; structural ops have rules. */
#include "transform/transform.h"

Val vmap_lift(Val x, int64_t size)
{
    if (val_none(x)) return NONE;
    Type t = *type_of(x);
    int64_t dims[QB_MAX_RANK + 1];
    memcpy(dims + 1, t.dims, sizeof t.dims);
    dims[0] = 1;
    x = greshape(x, t.rank + 1, dims);
    dims[0] = size;
    return gbroadcast(x, t.rank + 1, dims);
}

/* Room for one more axis in everything that n touches. */
static bool fits(Graph *g, const Graph *src, const Node *n)
{
    int rank = 0;
    for (uint32_t k = 0; k < n->n; k++)
        if (rank < src->types[n->x[k]].rank) rank = src->types[n->x[k]].rank;
    for (Id r = n->first; r < n->first + n->results; r++)
        if (rank < src->types[r].rank) rank = src->types[r].rank;
    return rank < QB_MAX_RANK ||
           fail(g, QB_ESHAPE, "vmap: %s already has %d axes, and no array has more than %d",
                op_table[n->op].name, rank, QB_MAX_RANK);
}

/* out: which results are mapped; all of them, unless the rule says so for each. */
static void map_node(Walk *w, const Node *n, const bool *mapped, int64_t size, bool *out)
{
    Graph *g = w->dst;
    const Rules *r = op_rules[n->op];
    Val *z = &w->map[n->first];
    if (!fits(g, w->src, n)) return;
    if (r && r->vmap_some) {
        r->vmap_some(g, n, w->x, mapped, size, z, out);
        return;
    }
    memset(out, true, n->results);
    if (op_elementwise(n->op)) {
        for (uint32_t k = 0; k < n->n; k++)
            if (!mapped[k]) w->x[k] = vmap_lift(w->x[k], size);
        z[0] = graph_emit(g, n->op, w->x, (int)n->n, n->attr);
    } else if (r && r->vmap) {
        r->vmap(g, n, w->x, mapped, size, z);
    } else {
        fail(g, QB_EUNSUPPORTED, "%s has no vmap rule", op_table[n->op].name);
    }
}

bool vmap_run(Graph *dst, const Graph *src, const Val *args, const bool *mapped, int64_t size,
              Val *outs, bool *out_mapped)
{
    Walk w;
    if (!walk_open(&w, dst, src, args, NULL)) return false;
    bool *is_mapped = walk_alloc(&w, src->n_values, sizeof *is_mapped);
    bool *m = walk_alloc(&w, w.width, sizeof *m);
    for (uint32_t i = 0; i < src->n_inputs && !graph_failed(dst); i++)
        is_mapped[src->inputs[i]] = mapped[i];
    for (Id i = 0; i < src->n_nodes && !graph_failed(dst); i++) {
        const Node *n = &src->nodes[i];
        bool any = false;
        if (!w.live[i]) continue;
        for (uint32_t k = 0; k < n->n; k++) any |= m[k] = is_mapped[n->x[k]];
        walk_visit(&w, n);
        if (any)
            map_node(&w, n, m, size, &is_mapped[n->first]);
        else
            walk_copy(&w, n);
    }
    for (uint32_t i = 0; i < src->n_outputs && !graph_failed(dst); i++) {
        outs[i] = w.map[src->outputs[i]];
        out_mapped[i] = is_mapped[src->outputs[i]];
    }
    return walk_close(&w);
}
