/* jvp.c: forward mode. One walk that copies each node and emits, beside it, the tangents of its
   results.

   A tangent that is zero for all inputs is NONE: no node is emitted for it, and what depends on it
   alone is a plain copy. So is what no floating output depends on through floating values: nobody
   reads its tangent, and a custom_vjp that only decides a mask needs no forward mode. */
#include "transform/transform.h"

/* A row: the sum of tangent times partial derivative over the operands that have a tangent. A term
   whose partial is -1 is subtracted, so that the tangent of a difference is one node. */
static Val row(const Node *n, const Val *x, Val z, const Val *t)
{
    Val sum = NONE, y = n->n > 1 ? x[1] : NONE;
    for (uint32_t k = 0; k < n->n; k++) {
        double c;
        Val partial = val_none(t[k]) ? NONE : op_partial(n->op, (int)k, x[0], y, z);
        if (val_none(partial)) continue;
        if (!val_none(sum) && const_splat(partial, &c) && c == -1)
            sum = gsub(sum, t[k]);
        else
            sum = gaccumulate(sum, gmul(t[k], partial));
    }
    return sum;
}

void jvp_node(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz)
{
    const OpRow *r = &op_table[n->op];
    if (r->cls != CLASS_STRUCT)
        tz[0] = row(n, x, z[0], t);
    else if (op_rules[n->op] && op_rules[n->op]->jvp)
        op_rules[n->op]->jvp(g, n, x, z, t, tz);
    else
        fail(g, QB_EUNSUPPORTED, "%s has no jvp rule", r->name);
}

/* Which values a tangent of the outputs comes from. */
static void mark_read(const Graph *src, const bool *wanted, bool *read)
{
    for (uint32_t i = 0; i < src->n_outputs; i++)
        read[src->outputs[i]] |=
            (!wanted || wanted[i]) && type_floating(&src->types[src->outputs[i]]);
    for (Id i = src->n_nodes; i-- > 0;) {
        const Node *n = &src->nodes[i];
        bool any = false;
        for (Id r = n->first; r < n->first + n->results; r++) any |= read[r];
        for (uint32_t k = 0; any && n->op != OP_stop_gradient && k < n->n; k++)
            read[n->x[k]] |= type_floating(&src->types[n->x[k]]);
    }
}

bool jvp_run_some(Graph *dst, const Graph *src, const Val *args, const Val *tangents,
                  const bool *wanted, Val *outs, Val *out_tangents)
{
    Walk w;
    if (!walk_open(&w, dst, src, args, NULL)) return false;
    Val *tangent = walk_alloc(&w, src->n_values, sizeof *tangent);
    Val *t = walk_alloc(&w, w.width, sizeof *t);
    bool *read = walk_alloc(&w, src->n_values, sizeof *read);
    if (!graph_failed(dst)) mark_read(src, wanted, read);
    for (uint32_t i = 0; i < src->n_inputs && !graph_failed(dst); i++)
        if (type_floating(&src->types[src->inputs[i]])) tangent[src->inputs[i]] = tangents[i];
    for (Id i = 0; i < src->n_nodes && !graph_failed(dst); i++) {
        const Node *n = &src->nodes[i];
        if (!w.live[i]) continue;
        walk_visit(&w, n);
        bool any = false, followed = false;
        for (Id r = n->first; r < n->first + n->results; r++) followed |= read[r];
        for (uint32_t k = 0; followed && k < n->n; k++) {
            t[k] = tangent[n->x[k]];
            any |= !val_none(t[k]);
        }
        if (any && n->sub) {
            op_rules[n->op]->jvp_both(dst, n, w.x, t, &read[n->first], &w.map[n->first],
                                      &tangent[n->first]);
            continue;
        }
        walk_copy(&w, n);
        if (any && !graph_failed(dst))
            jvp_node(dst, n, w.x, &w.map[n->first], t, &tangent[n->first]);
    }
    for (uint32_t i = 0; i < src->n_outputs && !graph_failed(dst); i++) {
        outs[i] = w.map[src->outputs[i]];
        out_tangents[i] = wanted && !wanted[i] ? NONE : tangent[src->outputs[i]];
    }
    return walk_close(&w);
}

bool jvp_run(Graph *dst, const Graph *src, const Val *args, const Val *tangents, Val *outs,
             Val *out_tangents)
{
    return jvp_run_some(dst, src, args, tangents, NULL, outs, out_tangents);
}
