/* linear.c: is a rule of custom_jvp linear in its tangents? Reverse mode is its transpose, which is asked two things: does it read the
   tangents (then the rule is not linear, as t * t), and is there a part of the rule that is free of them (t + 1, whose transpose does not
   show it)? */
#include "ops/rules.h"

/* Does an output of g need one of its inputs [first, end)? What goes through the bodies of a loop is not followed: a loop carries
   more than its results need. */
static bool reads_inputs(const Graph *g, uint32_t first, uint32_t end, bool *live)
{
    for (uint32_t i = 0; i < g->n_outputs; i++) live[g->outputs[i]] = true;
    for (Id i = g->n_nodes; i-- > 0;) {
        const Node *n = &g->nodes[i];
        bool any = false;
        for (Id r = n->first; r < n->first + n->results; r++) any |= live[r];
        for (uint32_t k = 0; any && !n->sub && k < n->n; k++) live[n->x[k]] = true;
    }
    for (uint32_t k = first; k < end; k++)
        if (live[g->inputs[k]]) return true;
    return false;
}

/* What is a value of a rule in the tangents? The sum of a part that is linear in them and of one that is free of them (t + 1) has a
   linear derivative and is not linear. What an op with bodies gives is not known, nor what comes of that. */
enum { NOUGHT, FREE, LINEAR, MIXED, UNKNOWN };
enum { OTHER, SUM, PRODUCT, QUOTIENT, MOVED };

static const uint8_t part_of[OP_COUNT] = {
    [OP_add] = SUM,
    [OP_sub] = SUM,
    [OP_where] = SUM,
    [OP_concat] = SUM,
    [OP_scatter_add] = SUM,
    [OP_mul] = PRODUCT,
    [OP_matmul] = PRODUCT,
    [OP_div] = QUOTIENT,
    [OP_neg] = MOVED,
    [OP_cast] = MOVED,
    [OP_stop_gradient] = MOVED,
    [OP_broadcast] = MOVED,
    [OP_reshape] = MOVED,
    [OP_transpose] = MOVED,
    [OP_slice] = MOVED,
    [OP_pad_slice] = MOVED,
    [OP_sum] = MOVED,
    [OP_mean] = MOVED,
    [OP_gather] = MOVED,
    [OP_cumsum] = MOVED,
    [OP_after] = MOVED,
    [OP_instead] = MOVED,
};

static uint8_t part(const Node *n, const uint8_t *known)
{
    const uint8_t how = part_of[n->op];
    if (n->op == OP_constant && !n->attr->buffer && n->attr->f == 0) return NOUGHT;
    if (n->sub) return UNKNOWN;
    if (how == MOVED) return known[n->x[0]];
    uint8_t all = how == SUM ? NOUGHT : FREE;
    for (uint32_t k = n->op == OP_where; k < n->n; k++) {
        const uint8_t one = known[n->x[k]];
        if (one == NOUGHT && (how == PRODUCT || (how == QUOTIENT && !k))) return NOUGHT;
        const bool apart = how == SUM && one && all && one != all; /* one free, one linear */
        const uint8_t most = one > all ? one : all;
        all = apart && most < MIXED ? MIXED : most;
    }
    return all;
}

/* Is every tangent of a result without a part that is free of the tangents of the operands? */
static bool homogeneous(const Graph *rule, uint32_t operands, uint8_t *known)
{
    for (Id i = 0; i < rule->n_nodes; i++) {
        const Node *n = &rule->nodes[i];
        const uint8_t p = part(n, known);
        for (Id r = n->first; r < n->first + n->results; r++) known[r] = p;
        for (uint32_t k = operands; n->op == OP_input && k < rule->n_inputs; k++)
            if (rule->inputs[k] == n->first) known[n->first] = LINEAR;
    }
    for (uint32_t r = rule->n_outputs / 2; r < rule->n_outputs; r++)
        if (known[rule->outputs[r]] == FREE || known[rule->outputs[r]] == MIXED) return false;
    return true;
}

/* Is there a loop without a bound, at any depth? It has no transpose, and may serve forward mode all the same. */
static bool unbounded(const Graph *g)
{
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (n->op == OP_while && !n->attr->length) return true;
        for (Graph *const *s = n->sub; s && *s; s++)
            if (unbounded(*s)) return true;
    }
    return false;
}

/* Do the tangents of the results depend on those of the operands linearly? Then their transpose does not know them. */
bool linear_rule(Graph *g, const Graph *rule, int operands)
{
    uint32_t m = rule->n_inputs, results = rule->n_outputs / 2;
    Body b;
    bool linear = true, *live;
    if (!body_open(&b, g)) return false;
    uint8_t *known = body_alloc(&b, rule->n_values + (size_t)1, 1);
    if (known) linear = homogeneous(rule, (uint32_t)operands, known);
    if (!linear || unbounded(rule)) return body_drop(&b), linear;
    Val *in = body_alloc(&b, 2 * (size_t)m + 1, sizeof *in),
        *outs = body_alloc(&b, 4 * (size_t)results + 1, sizeof *outs);
    bool *want = body_alloc(&b, m + (size_t)1, sizeof *want);
    if (in && outs && want) {
        Val *cts = outs + 2 * results;
        for (uint32_t k = 0; k < m; k++) {
            in[k] = body_input(&b, NONE, &rule->types[rule->inputs[k]]);
            want[k] = (int)k >= operands;
        }
        for (uint32_t r = results; r < 2 * results; r++) {
            Type t = body_strong(&rule->types[rule->outputs[r]]);
            cts[r] = body_input(&b, NONE, &t);
        }
        if (vjp_run(b.body, rule, in, cts, want, outs, in + m))
            for (uint32_t k = 0; k < m; k++) graph_output(b.body, in[m + k]);
        live = body_close(&b) ? body_alloc(&b, b.body->n_values + (size_t)1, sizeof *live) : NULL;
        linear = !live || !reads_inputs(b.body, (uint32_t)operands, m, live);
    }
    body_drop(&b);
    return linear;
}
