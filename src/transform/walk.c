/* walk.c: the part that every transform shares: one pass over a frozen graph, node by node, writing
   into another.

   Only nodes that an output needs are visited. Whatever is emitted for a node carries its place:
   file and line of the user's code, and recompute scope. */
#include "transform/transform.h"

/* Operands have smaller ids than their node, so one backward pass finds what the outputs need. */
static void mark(Walk *w)
{
    const Graph *g = w->src;
    for (uint32_t i = 0; i < g->n_outputs; i++) w->live[g->def[g->outputs[i]]] = true;
    for (Id i = g->n_nodes; i-- > 0;)
        for (uint32_t k = 0; w->live[i] && k < g->nodes[i].n; k++)
            w->live[g->def[g->nodes[i].x[k]]] = true;
}

/* An argument as the input's type has it: the same dtype, but it may come from a Python scalar
   where the input does not. */
static Val bind(Graph *dst, Val arg, const Type *t)
{
    if (val_none(arg) || type_of(arg)->weak == t->weak) return arg;
    return graph_emit(dst, OP_cast, &arg, 1, &(Attr){.i = t->dtype, .start = t->weak});
}

bool walk_open(Walk *w, Graph *dst, const Graph *src, const Val *args, Val *map)
{
    *w = (Walk){.dst = dst,
                .src = src,
                .width = 1,
                .file = dst->file,
                .line = dst->line,
                .scope = dst->scope};
    for (Id i = 0; i < src->n_nodes; i++) {
        uint32_t n =
            src->nodes[i].n > src->nodes[i].results ? src->nodes[i].n : src->nodes[i].results;
        if (w->width < n) w->width = n;
    }
    w->map = map ? map : walk_alloc(w, src->n_values, sizeof *map);
    w->live = walk_alloc(w, src->n_nodes, sizeof *w->live);
    w->x = walk_alloc(w, w->width, sizeof *w->x);
    if (graph_failed(dst)) return walk_close(w);
    mark(w);
    for (uint32_t i = 0; i < src->n_inputs; i++)
        w->map[src->inputs[i]] = bind(dst, args[i], &src->types[src->inputs[i]]);
    return true;
}

void *walk_alloc(Walk *w, size_t n, size_t size)
{
    void *p = arena_zeroed(&w->arena, n, size);
    if (!p)
        fail(w->dst, QB_EMEMORY, "out of memory for a transform of %u nodes",
             (unsigned)w->src->n_nodes);
    return p;
}

void walk_visit(Walk *w, const Node *n)
{
    Graph *g = w->dst;
    g->file = n->file ? n->file : w->file; /* a new node makes its own copy of the name */
    g->line = n->file ? n->line : w->line;
    g->scope = n->scope ? n->scope : w->scope;
    for (uint32_t k = 0; k < n->n; k++) w->x[k] = w->map[n->x[k]];
}

void walk_copy(Walk *w, const Node *n)
{
    if (n->op == OP_input) return; /* bound at the start */
    if (n->results == 1 && !n->sub) {
        w->map[n->first] = graph_emit(w->dst, n->op, w->x, (int)n->n, n->attr);
        return;
    }
    int results = n->results;
    graph_emit_many(w->dst, n->op, w->x, (int)n->n, n->attr, n->sub, &w->map[n->first], &results);
}

bool walk_copy_all(Walk *w)
{
    for (Id i = 0; i < w->src->n_nodes && !graph_failed(w->dst); i++) {
        if (!w->live[i]) continue;
        walk_visit(w, &w->src->nodes[i]);
        walk_copy(w, &w->src->nodes[i]);
    }
    return !graph_failed(w->dst);
}

bool walk_close(Walk *w)
{
    w->dst->file = w->file;
    w->dst->line = w->line;
    w->dst->scope = w->scope;
    arena_free(&w->arena);
    return !graph_failed(w->dst);
}

Graph *walk_rewrite(const Graph *src, void (*rewrite)(Walk *w, void *arg), void *arg, qb_error *err)
{
    Graph *to = graph_new(err);
    Val *x = to ? mem_zeroed(src->n_inputs + (size_t)1, sizeof *x) : NULL;
    Walk w;
    if (to && !x) error_memory(err, "a copy of the program", -1);
    for (uint32_t i = 0; x && i < src->n_inputs; i++)
        x[i] = graph_input(to, src->nodes[src->def[src->inputs[i]]].attr->name,
                           &src->types[src->inputs[i]]);
    if (x && walk_open(&w, to, src, x, NULL)) {
        rewrite(&w, arg);
        for (uint32_t i = 0; i < src->n_outputs && !graph_failed(to); i++)
            graph_output(to, w.map[src->outputs[i]]);
        walk_close(&w);
    }
    bool ok = x && graph_freeze(to, err);
    mem_free(x);
    if (ok) return to;
    graph_release(to);
    return NULL;
}
