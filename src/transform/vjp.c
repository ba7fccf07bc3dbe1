/* vjp.c: reverse mode. The graph is copied, then walked backward: every node turns the cotangents
   of its results into contributions to those of its operands. Only nodes between a wanted input and
   a seeded output take part.

   MASKED COTANGENTS. `where(mask, a, b)` gives a the cotangent where(mask, ct, 0). If a = log(x) at
   x = 0, the unselected zero times the partial 1/0 would be NaN: 0 * inf, the classical trap of
   reverse mode. So a cotangent may carry a mask, a bool value of its shape, and outside it the
   cotangent is zero whatever a partial says:
     where         sets the mask of each branch (and keeps the mask that was there)
     elementwise   out = where(mask, ct * partial, 0), which is linear in ct, so differentiating
                   this graph again sets the same masks and the promise holds at every order; the
                   mask goes on to the operand
     moves_mask    ops that move or spread elements apply their own vjp to the mask
     joins         the sum of two contributions lies in the union of their masks; no mask is the
                   whole array
     other ops     (matmul, derived rules) use ct, which is zero outside the mask, and drop it
   Programs without `where` pay nothing; masks that no partial uses are dead nodes.

   RULES OF USERS. Where reverse mode meets custom_vjp or custom_jvp, it splices the rule into what
   it writes, and the next derivative goes through the rule, not the function. The forward part of a
   region does the same to its bodies (vjp_values): else the value of a cond or a loop would be
   differentiated by the rule once more, and forward mode over reverse mode would meet a custom_vjp
   that has none. */
#include "transform/transform.h"

typedef struct {
    Val ct;   /* NONE: zero */
    Val mask; /* NONE: all true */
} Cot;

/* What the backward walk holds, in the walk's arena. */
typedef struct {
    Walk w;
    Cot *cot;           /* of every value of src */
    bool *needs;        /* per value of src: does it depend on a wanted input? */
    bool *seeded;       /* per value of src: may it have a cotangent? */
    Val *known;         /* per value of src: what takes the place of its result; NONE: nothing */
    struct Kept **kept; /* per node of src: what the forward part of a region kept */
    bool values;        /* no backward walk follows */
    bool *want;         /* of the node at hand: operands that need a cotangent */
    Val *ct,
        *out; /* of the node at hand: cotangents of its results, contributions to its operands */
    Val *mask_out; /* masks of the contributions */
} Back;

static Val both(Val a, Val b) { return val_none(a) ? b : val_none(b) ? a : glogical_and(a, b); }

static Val either(Val a, Val b) { return val_none(a) || val_none(b) ? NONE : glogical_or(a, b); }

static void join(Cot *c, Val ct, Val mask)
{
    if (val_none(ct)) return;
    c->mask = val_none(c->ct) ? mask : either(c->mask, mask);
    c->ct = gaccumulate(c->ct, ct);
}

/* ct * partial under the mask. A finite constant partial keeps the zeros outside it by itself. */
static Val scaled(Val ct, Val mask, Val partial)
{
    double c;
    Val v = gmul(ct, partial);
    if (val_none(mask) || (const_splat(partial, &c) && __builtin_isfinite(c))) return v;
    return gselect0(mask, v);
}

static void row(Back *b, const Node *n, Val mask)
{
    Val *x = b->w.x, y = n->n > 1 ? x[1] : NONE, z = b->w.map[n->first];
    for (uint32_t k = 0; k < n->n; k++) {
        Val partial = b->needs[n->x[k]] ? op_partial(n->op, (int)k, x[0], y, z) : NONE;
        if (val_none(partial)) continue;
        b->out[k] = scaled(b->ct[0], mask, partial);
        b->mask_out[k] = mask;
    }
}

/* A structural op: its rule, then the masks of the contributions. */
static void structural(Back *b, const Node *n, Val mask)
{
    Graph *g = b->w.dst;
    const Rules *r = op_rules[n->op];
    const Val *x = b->w.x, *z = &b->w.map[n->first];
    if (n->sub) {
        for (uint32_t k = 0; k < n->n; k++) b->want[k] = b->needs[n->x[k]];
        r->backward(g, b->kept[n - b->w.src->nodes], n, x, z, b->ct, b->want, b->out);
        return;
    }
    if (!r || !(r->vjp || r->jvp)) {
        fail(g, QB_EUNSUPPORTED, "%s has no vjp rule", op_table[n->op].name);
        return;
    }
    (r->vjp ? r->vjp : vjp_derived)(g, n, x, z, b->ct, b->out);
    if (graph_failed(g)) return;
    if (n->op == OP_where) {
        b->mask_out[1] = both(mask, x[0]);
        b->mask_out[2] = both(mask, glogical_not(x[0]));
    } else if (val_none(mask)) {
        return;
    } else if (r->moves_mask && r->vjp) {
        r->vjp(g, n, x, z, &mask, b->mask_out);
    } else if (op_elementwise(n->op)) {
        if (!val_none(b->out[0])) b->out[0] = gselect0(mask, b->out[0]);
        b->mask_out[0] = mask;
    }
}

/* The contributions of one node to the cotangents of its operands. */
static void step(Back *b, const Node *n)
{
    bool any = false;
    for (int i = 0; i < n->results; i++) {
        b->ct[i] = b->cot[n->first + (Id)i].ct;
        any |= !val_none(b->ct[i]);
    }
    if (!any) return;
    for (uint32_t k = 0; k < n->n; k++) b->out[k] = b->mask_out[k] = NONE;
    walk_visit(&b->w, n);
    Val mask = n->results == 1 ? b->cot[n->first].mask : NONE;
    if (op_table[n->op].cls != CLASS_STRUCT)
        row(b, n, mask);
    else
        structural(b, n, mask);
    for (uint32_t k = 0; k < n->n && !graph_failed(b->w.dst); k++)
        if (b->needs[n->x[k]]) join(&b->cot[n->x[k]], b->out[k], b->mask_out[k]);
}

/* Which values depend on a wanted input through floating values. stop_gradient ends that. */
static void mark_needs(const Graph *src, const bool *wanted, bool *needs)
{
    for (uint32_t i = 0; i < src->n_inputs; i++)
        needs[src->inputs[i]] =
            (!wanted || wanted[i]) && type_floating(&src->types[src->inputs[i]]);
    for (Id i = 0; i < src->n_nodes; i++) {
        const Node *n = &src->nodes[i];
        bool any = false;
        for (uint32_t k = 0; k < n->n && n->op != OP_stop_gradient; k++) any |= needs[n->x[k]];
        for (Id r = n->first; any && r < n->first + n->results; r++)
            needs[r] = type_floating(&src->types[r]);
    }
}

/* Which of them a cotangent of the seeded outputs may come to: the seeds are set, the rest follows. */
static void mark_seeded(const Graph *src, const bool *needs, bool *seeded)
{
    for (Id i = src->n_nodes; i-- > 0;) {
        const Node *n = &src->nodes[i];
        bool any = false;
        for (Id r = n->first; r < n->first + n->results; r++) any |= seeded[r];
        for (uint32_t k = 0; any && k < n->n; k++) seeded[n->x[k]] |= needs[n->x[k]];
    }
}

bool vjp_flow(Graph *g, const Graph *src, const bool *wanted, const bool *seeded, bool *reached,
              bool *touched)
{
    bool *needs = mem_zeroed(2 * (size_t)src->n_values + 1, 1), *seeds = needs + src->n_values;
    if (!needs)
        return fail(g, QB_EMEMORY, "out of memory for a transform of %u nodes",
                    (unsigned)src->n_nodes);
    mark_needs(src, wanted, needs);
    for (uint32_t i = 0; i < src->n_outputs; i++) {
        reached[i] = needs[src->outputs[i]];
        if (seeded) seeds[src->outputs[i]] |= seeded[i] && reached[i];
    }
    if (touched) mark_seeded(src, needs, seeds);
    for (uint32_t i = 0; touched && i < src->n_inputs; i++) touched[i] = seeds[src->inputs[i]];
    mem_free(needs);
    return true;
}

static bool begin(Back *b, Graph *dst, const Graph *src, const Val *args)
{
    b->values = false;
    if (!walk_open(&b->w, dst, src, args, NULL)) return false;
    b->cot = walk_alloc(&b->w, src->n_values, sizeof *b->cot);
    b->needs = walk_alloc(&b->w, src->n_values, sizeof *b->needs);
    b->seeded = walk_alloc(&b->w, src->n_values, sizeof *b->seeded);
    b->known = walk_alloc(&b->w, src->n_values, sizeof *b->known);
    b->kept = walk_alloc(&b->w, src->n_nodes, sizeof *b->kept);
    b->ct = walk_alloc(&b->w, b->w.width, sizeof *b->ct);
    b->out = walk_alloc(&b->w, b->w.width, sizeof *b->out);
    b->mask_out = walk_alloc(&b->w, b->w.width, sizeof *b->mask_out);
    b->want = walk_alloc(&b->w, b->w.width, sizeof *b->want);
    return !graph_failed(dst) || walk_close(&b->w);
}

static bool bodies_have_rules(const Node *n)
{
    for (Graph *const *s = n->sub; *s; s++)
        if (vjp_has_rules(*s)) return true;
    return false;
}

bool vjp_has_rules(const Graph *src)
{
    for (Id i = 0; i < src->n_nodes; i++) {
        const Node *n = &src->nodes[i];
        if (n->op == OP_custom_jvp || n->op == OP_custom_vjp) return true;
        if (n->sub && bodies_have_rules(n)) return true;
    }
    return false;
}

/* A region that will be run backward keeps what that takes. False: it is a plain copy. */
static bool forward(Back *b, Id i)
{
    const Node *n = &b->w.src->nodes[i];
    const Rules *r = op_rules[n->op];
    Val *z = &b->w.map[n->first];
    const bool *seeded = &b->seeded[n->first];
    bool any = false, open = n->sub && r->open && (b->values || !r->forward);
    if (!n->sub || (open && !bodies_have_rules(n))) return false;
    for (Id v = n->first; v < n->first + n->results; v++) any |= b->seeded[v] && b->needs[v];
    if (!any) return false;
    for (uint32_t k = 0; k < n->n; k++) b->want[k] = b->needs[n->x[k]];
    if (open)
        r->open(b->w.dst, n, b->w.x, seeded, b->want, z);
    else
        b->kept[i] = r->forward(b->w.dst, &b->w.arena, n, b->w.x, seeded, b->want, z);
    return true;
}

static bool copy_all(Back *b)
{
    Walk *w = &b->w;
    for (Id i = 0; i < w->src->n_nodes && !graph_failed(w->dst); i++) {
        const Node *n = &w->src->nodes[i];
        if (!w->live[i]) continue;
        walk_visit(w, n);
        if (!forward(b, i)) walk_copy(w, n);
        for (Id r = n->first; r < n->first + n->results; r++)
            if (!val_none(b->known[r])) w->map[r] = b->known[r];
    }
    return !graph_failed(w->dst);
}

static bool end(Back *b)
{
    for (Id i = 0; i < b->w.src->n_nodes; i++)
        for (struct Kept *k = b->kept[i]; k; k = k->next) graph_release(k->graph);
    return walk_close(&b->w);
}

bool vjp_run_with(Graph *dst, const Graph *src, const Val *args, const Val *known, const Val *cts,
                  const bool *wanted, const Val *seeds, Val *outs, Val *grads)
{
    Back b;
    if (!begin(&b, dst, src, args)) return false;
    mark_needs(src, wanted, b.needs);
    for (uint32_t i = 0; i < src->n_outputs; i++) {
        Id v = src->outputs[i];
        b.seeded[v] |= b.needs[v] && !val_none(cts[i]);
        if (known && val_none(b.known[v]) && src->nodes[src->def[v]].n) b.known[v] = known[i];
    }
    mark_seeded(src, b.needs, b.seeded);
    bool copied = copy_all(&b);
    for (uint32_t i = 0; i < src->n_inputs && seeds && copied; i++)
        join(&b.cot[src->inputs[i]], seeds[i], NONE);
    for (uint32_t i = 0; i < src->n_outputs && copied; i++) {
        outs[i] = b.w.map[src->outputs[i]];
        if (b.needs[src->outputs[i]]) join(&b.cot[src->outputs[i]], cts[i], NONE);
    }
    for (Id i = src->n_nodes; i-- > 0 && !graph_failed(dst);)
        if (b.w.live[i] && src->nodes[i].n > 0) step(&b, &src->nodes[i]);
    for (uint32_t i = 0; i < src->n_inputs && !graph_failed(dst); i++)
        grads[i] = b.cot[src->inputs[i]].ct;
    return end(&b);
}

bool vjp_values(Graph *dst, const Graph *src, const Val *args, const bool *wanted,
                const bool *seeded, Val *outs)
{
    Back b;
    if (!vjp_has_rules(src)) return inline_run(dst, src, args, outs);
    if (!begin(&b, dst, src, args)) return false;
    b.values = true;
    mark_needs(src, wanted, b.needs);
    for (uint32_t i = 0; i < src->n_outputs; i++)
        b.seeded[src->outputs[i]] |= (!seeded || seeded[i]) && b.needs[src->outputs[i]];
    mark_seeded(src, b.needs, b.seeded);
    bool copied = copy_all(&b);
    for (uint32_t i = 0; i < src->n_outputs && copied; i++) outs[i] = b.w.map[src->outputs[i]];
    return end(&b);
}

bool vjp_run(Graph *dst, const Graph *src, const Val *args, const Val *cts, const bool *wanted,
             Val *outs, Val *grads)
{
    return vjp_run_with(dst, src, args, NULL, cts, wanted, NULL, outs, grads);
}

/* ---- derived rules: the jvp as a small graph, and the vjp of that for its tangents ---- */

typedef struct {
    Graph *h;     /* inputs: operands x, results z, then a tangent for each floating operand */
    Val *in;      /* those inputs */
    Val *args;    /* what they are bound to: a tangent to any value, for the jvp is linear in it */
    Val *tz, *ct; /* outputs: the tangents of the results that have one, and their cotangents */
    Val *outs, *grads;
    bool *wanted; /* the tangents */
} Derived;

static Val bound_input(Derived *d, Val v, bool tangent)
{
    uint32_t i = d->h->n_inputs;
    d->args[i] = v;
    d->wanted[i] = tangent;
    return graph_input(d->h, NULL, type_of(v));
}

static bool build(Derived *d, const Node *n, const Val *x, const Val *z, const Val *ct)
{
    uint32_t m = n->n, used = 0;
    Val *hx = d->in, *hz = hx + m, *ht = hz + n->results;
    for (uint32_t k = 0; k < m; k++) hx[k] = bound_input(d, x[k], false);
    for (uint32_t r = 0; r < n->results; r++) hz[r] = bound_input(d, z[r], false);
    for (uint32_t k = 0; k < m; k++)
        ht[k] = type_floating(type_of(x[k])) ? bound_input(d, x[k], true) : NONE;
    if (graph_failed(d->h)) return false;
    jvp_node(d->h, n, hx, hz, ht, d->tz);
    for (uint32_t r = 0; r < n->results; r++) {
        if (val_none(d->tz[r])) continue;
        graph_output(d->h, d->tz[r]);
        d->ct[used++] = ct[r];
    }
    return !graph_failed(d->h);
}

void vjp_derived(Graph *g, const Node *n, const Val *x, const Val *z, const Val *ct, Val *out)
{
    uint32_t m = n->n, results = n->results, inputs = 2 * m + results;
    Arena arena = {0};
    qb_error err = {.code = QB_EMEMORY, .message = "out of memory"};
    Val *v = arena_zeroed(&arena, 3 * (size_t)(inputs + results), sizeof *v);
    Derived d = {.wanted = arena_zeroed(&arena, inputs, sizeof *d.wanted),
                 .h = v ? graph_new(&err) : NULL};
    bool ok = d.h && d.wanted;
    if (ok) {
        d.in = v, d.args = d.in + inputs, d.grads = d.args + inputs;
        d.tz = d.grads + inputs, d.ct = d.tz + results, d.outs = d.ct + results;
        ok = build(&d, n, x, z, ct);
        ok = graph_freeze(d.h, &err) && ok;
    }
    if (!ok)
        fail(g, err.code, "%s: vjp derived from the jvp rule: %s", op_table[n->op].name,
             err.message);
    else if (vjp_run(g, d.h, d.args, d.ct, d.wanted, d.outs, d.grads))
        for (uint32_t k = 0, i = m + results; k < m; k++)
            if (type_floating(type_of(x[k]))) out[k] = d.grads[i++];
    graph_release(d.h);
    arena_free(&arena);
}
