/* inline.c: a graph copied into another one, its inputs bound to values there. CSE makes a repeated
   copy free. */
#include "transform/transform.h"

bool inline_map(Graph *dst, const Graph *src, const Val *args, Val *map)
{
    Walk w;
    if (!walk_open(&w, dst, src, args, map)) return false;
    memset(w.live, true, src->n_nodes); /* also what no output needs */
    walk_copy_all(&w);
    return walk_close(&w);
}

bool inline_run(Graph *dst, const Graph *src, const Val *args, Val *outs)
{
    Walk w;
    if (!walk_open(&w, dst, src, args, NULL)) return false;
    if (walk_copy_all(&w))
        for (uint32_t i = 0; i < src->n_outputs; i++) outs[i] = w.map[src->outputs[i]];
    return walk_close(&w);
}
