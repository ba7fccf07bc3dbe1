/* custom.c: functions that bring their own derivative. A node holds the value as a body and the rule as further bodies, all
   of them graphs, so a transform splices them and a plan keeps the first one alone (plan/expand.c).

     checkpoint   sub: value. Reverse mode runs the value again, in a recompute scope of its own, and so keeps nothing of it.
     custom_jvp   sub: value; rule of (operands, tangents of the floating ones) -> (results, their tangents), linear in the tangents.
                  Reverse mode is the rule's transpose.
     custom_vjp   sub: value; forward of operands -> (results, residuals); backward of (residuals, cotangents of the
                  results) -> cotangents of the floating operands. There is no forward mode.

   What a rule computes is plain graph: the next derivative goes through it, not through the value. The results of a
   custom_jvp keep the value of the first body even so: where the rule computes them otherwise, instead(x, y) has the
   value of the one and the derivative of the other. No rule is ever differentiated in a direction that was not asked
   for: reverse mode over reverse mode never takes the forward mode of anything. */
#include "ops/rules.h"

static bool floating(const Graph *g, Id v) { return type_floating(&g->types[v]); }

static uint32_t count_floating(const Graph *g, const Id *v, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) count += floating(g, v[i]);
    return count;
}

/* ---- infer: types of the results are those of the first body; rules must fit ---- */

static bool same_list(Graph *g, const Node *n, const char *what, const Graph *a, const Id *x,
                      const Graph *b, const Id *y, uint32_t m)
{
    for (uint32_t i = 0; i < m; i++)
        if (!type_same(&a->types[x[i]], &b->types[y[i]]))
            return fail(g, QB_ESHAPE, "%s: %s %u of the rule is %s, not %s", op_table[n->op].name,
                        what, (unsigned)i, TYPE_TEXT(&b->types[y[i]]), TYPE_TEXT(&a->types[x[i]]));
    return true;
}

static bool custom_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Graph *value = n->sub[0];
    const char *name = op_table[n->op].name;
    for (Graph *const *s = n->sub; *s; s++)
        if (!(*s)->frozen)
            return fail(g, QB_EVALUE, "%s: a body is not frozen; call qb_graph_freeze first", name);
    if (value->n_inputs != n->n || value->n_outputs != n->results)
        return fail(g, QB_EVALUE, "%s: %u operands and %u results, but the body has %u and %u",
                    name, (unsigned)n->n, (unsigned)n->results, (unsigned)value->n_inputs,
                    (unsigned)value->n_outputs);
    for (uint32_t k = 0; k < n->n; k++)
        if (!type_same(&value->types[value->inputs[k]], &x[k]))
            return fail(g, QB_ESHAPE, "%s: operand %u is %s, but the body takes %s", name,
                        (unsigned)k, TYPE_TEXT(&x[k]), TYPE_TEXT(&value->types[value->inputs[k]]));
    for (uint32_t r = 0; r < n->results; r++) {
        out[r] = value->types[value->outputs[r]];
        if (!type_floating(&out[r]))
            return fail(g, QB_EDTYPE, "%s: result %u is %s; results are floating", name,
                        (unsigned)r, TYPE_TEXT(&out[r]));
    }
    return true;
}

static bool jvp_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Graph *value = n->sub[0], *rule = n->sub[1];
    if (!custom_infer(g, n, x, out)) return false;
    uint32_t m = count_floating(value, value->inputs, n->n), r = n->results;
    if (rule->n_inputs != n->n + m || rule->n_outputs != 2 * r)
        return fail(
            g, QB_EVALUE,
            "custom_jvp: the rule takes %u values and gives %u; it should take %u and give %u",
            (unsigned)rule->n_inputs, (unsigned)rule->n_outputs, (unsigned)(n->n + m),
            2 * (unsigned)r);
    return same_list(g, n, "result", value, value->outputs, rule, rule->outputs, r) &&
           same_list(g, n, "tangent", value, value->outputs, rule, rule->outputs + r, r);
}

/* Residuals: the outputs of forward behind the results. */
static uint32_t residuals_of(const Node *n) { return n->sub[1]->n_outputs - n->results; }

static bool vjp_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Graph *value = n->sub[0], *fwd = n->sub[1], *bwd = n->sub[2];
    if (!custom_infer(g, n, x, out)) return false;
    uint32_t m = count_floating(value, value->inputs, n->n), r = n->results;
    if (fwd->n_inputs != n->n || fwd->n_outputs < r)
        return fail(g, QB_EVALUE, "custom_vjp: forward takes %u values and gives %u",
                    (unsigned)fwd->n_inputs, (unsigned)fwd->n_outputs);
    if (bwd->n_inputs != fwd->n_outputs || bwd->n_outputs != m)
        return fail(
            g, QB_EVALUE,
            "custom_vjp: backward takes %u values and gives %u; it should take %u and give %u",
            (unsigned)bwd->n_inputs, (unsigned)bwd->n_outputs, (unsigned)fwd->n_outputs,
            (unsigned)m);
    if (!same_list(g, n, "result", value, value->outputs, fwd, fwd->outputs, r) ||
        !same_list(g, n, "residual", fwd, fwd->outputs + r, bwd, bwd->inputs, residuals_of(n)) ||
        !same_list(g, n, "cotangent", value, value->outputs, bwd, bwd->inputs + residuals_of(n), r))
        return false;
    for (uint32_t k = 0, i = 0; k < n->n; k++)
        if (floating(value, value->inputs[k]) &&
            !same_list(g, n, "gradient", value, &value->inputs[k], bwd, &bwd->outputs[i++], 1))
            return false;
    return true;
}

/* ---- what the rules share ---- */

static bool emit(Graph *g, Op op, const Attr *attr, const Val *x, uint32_t n, Graph *const *bodies,
                 Val *z)
{
    int results = (int)bodies[0]->n_outputs;
    return graph_emit_many(g, op, x, (int)n, attr, bodies, z, &results);
}

/* Zero by construction is no node: v, or NONE for a constant 0. */
static Val unless_zero(Val v)
{
    double c;
    return !val_none(v) && const_splat(v, &c) && c == 0 ? NONE : v;
}

static Val or_zeros(Val v, Val like) { return val_none(v) ? gzeros(like) : v; }

static const Type *input_type(const Graph *body, uint32_t k)
{
    return &body->types[body->inputs[k]];
}

/* The body batched. mapped: of its inputs. outs get the batch axis where lift[r], or where they need it (om). */
static Graph *batched(Graph *g, const Graph *body, const bool *mapped, int64_t size, bool lift,
                      uint32_t n_lift, bool *om)
{
    Body b;
    Graph *out = NULL;
    if (!body_open(&b, g)) return NULL;
    Val *in = body_alloc(&b, body->n_inputs, sizeof *in),
        *z = body_alloc(&b, body->n_outputs, sizeof *z);
    for (uint32_t k = 0; in && z && k < body->n_inputs; k++) {
        Type t = *input_type(body, k);
        if (mapped[k]) t = region_stack(&t, size);
        in[k] = body_input(&b, NONE, &t);
    }
    if (in && z && vmap_run(b.body, body, in, mapped, size, z, om))
        for (uint32_t r = 0; r < body->n_outputs; r++) {
            if (lift && r < n_lift && !om[r]) {
                z[r] = vmap_lift(z[r], size);
                om[r] = true;
            }
            graph_output(b.body, z[r]);
        }
    if (body_close(&b)) out = graph_retain(b.body);
    body_drop(&b);
    return out;
}

static void release(Graph *const *bodies)
{
    for (; *bodies; bodies++) graph_release(*bodies);
}

/* ---- checkpoint ---- */

static void checkpoint_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read,
                           Val *z, Val *tz)
{
    Body b;
    uint32_t results = n->results;
    if (!body_open(&b, g)) return;
    Val *in = body_alloc(&b, 2 * (size_t)n->n + 1, sizeof *in),
        *out = body_alloc(&b, 4 * (size_t)results, sizeof *out);
    if (in && out) {
        Val *ti = in + n->n, *to = out + results, *all = to + results;
        for (uint32_t k = 0; k < n->n; k++) in[k] = body_input(&b, x[k], input_type(n->sub[0], k));
        for (uint32_t k = 0; k < n->n; k++) {
            Type strong = body_strong(input_type(n->sub[0], k));
            if (!val_none(t[k])) ti[k] = body_input(&b, t[k], &strong);
        }
        jvp_run_some(b.body, n->sub[0], in, ti, read, out, to);
        for (uint32_t r = 0; r < results; r++) graph_output(b.body, out[r]);
        for (uint32_t r = 0; r < results; r++)
            if (!val_none(to[r])) graph_output(b.body, to[r]);
        if (body_close(&b) &&
            emit(g, OP_checkpoint, n->attr, b.x, (uint32_t)b.n, (Graph *[]){b.body, NULL}, all)) {
            memcpy(z, all, results * sizeof *z);
            for (uint32_t r = 0, i = results; r < results; r++)
                tz[r] = val_none(to[r]) ? NONE : all[i++];
        }
    }
    body_drop(&b);
}

static struct Kept *checkpoint_forward(Graph *g, Arena *a, const Node *n, const Val *x,
                                       const bool *seeded, const bool *wanted, Val *z)
{
    (void)a;
    vjp_values(g, n->sub[0], x, wanted, seeded, z);
    return NULL;
}

/* One scope further in than what surrounds the node, so that nothing here is found among the values of the forward run; and after the
   cotangent is there, so that it is not held from the forward run on. */
static void checkpoint_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x,
                                const Val *z, const Val *ct, const bool *wanted, Val *out)
{
    (void)kept, (void)z;
    uint16_t scope = g->scope;
    if (scope < UINT16_MAX) g->scope++;
    Body b; /* for its arena */
    Val *outs = body_open(&b, g) ? body_alloc(&b, n->results + (size_t)n->n, sizeof *outs) : NULL,
        last = NONE;
    for (uint32_t r = 0; outs && r < n->results; r++)
        if (!val_none(ct[r])) last = ct[r];
    for (uint32_t k = 0; outs && k < n->n; k++) outs[n->results + k] = gafter(x[k], last);
    if (outs) vjp_run(g, n->sub[0], outs + n->results, ct, wanted, outs, out);
    body_drop(&b);
    g->scope = scope;
}

static void checkpoint_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                            Val *z, bool *z_mapped)
{
    Graph *body = batched(g, n->sub[0], mapped, size, false, 0, z_mapped);
    if (body) emit(g, OP_checkpoint, n->attr, x, n->n, (Graph *[]){body, NULL}, z);
    graph_release(body);
}

/* ---- custom_jvp ---- */

/* Results of the node once its rule is spliced, whose own results are p: the value of the first body with the derivative of p. */
static bool value_of(Graph *g, const Node *n, const Val *x, const Val *p, Val *z)
{
    if (!inline_run(g, n->sub[0], x, z)) return false;
    for (uint32_t r = 0; r < n->results; r++) z[r] = ginstead(z[r], p[r]);
    return !graph_failed(g);
}

/* Arguments of the rule: operands, then a value for the tangent of each floating one: t[k], or where that is NONE zeros, or (without t)
   the operand itself, for the rule is linear. */
static void rule_arguments(const Node *n, const Val *x, const Val *t, Val *args)
{
    memcpy(args, x, n->n * sizeof *args);
    for (uint32_t k = 0, i = n->n; k < n->n; k++)
        if (floating(n->sub[0], n->sub[0]->inputs[k])) args[i++] = t ? or_zeros(t[k], x[k]) : x[k];
}

static void custom_jvp_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read,
                           Val *z, Val *tz)
{
    (void)read;
    Body b; /* for its arena */
    if (!body_open(&b, g)) return;
    Val *args = body_alloc(&b, 2 * (size_t)n->n, sizeof *args),
        *out = body_alloc(&b, 2 * (size_t)n->results, sizeof *out);
    if (args && out) {
        rule_arguments(n, x, t, args);
        if (inline_run(g, n->sub[1], args, out) && value_of(g, n, x, out, z))
            for (uint32_t r = 0; r < n->results; r++) tz[r] = unless_zero(out[n->results + r]);
    }
    body_drop(&b);
}

static struct Kept *custom_jvp_forward(Graph *g, Arena *a, const Node *n, const Val *x,
                                       const bool *seeded, const bool *wanted, Val *z)
{
    (void)seeded, (void)wanted;
    Val *args = arena_zeroed(a, 2 * (size_t)n->n, sizeof *args),
        *out = arena_zeroed(a, 2 * (size_t)n->results, sizeof *out);
    if (!args || !out) return fail(g, QB_EMEMORY, "out of memory for a custom_jvp"), NULL;
    rule_arguments(n, x, NULL, args);
    if (inline_run(g, n->sub[1], args, out)) value_of(g, n, x, out, z);
    return NULL;
}

static void custom_jvp_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x,
                                const Val *z, const Val *ct, const bool *wanted, Val *out)
{
    (void)kept, (void)z;
    const Graph *value = n->sub[0], *rule = n->sub[1];
    uint32_t m = rule->n_inputs, results = n->results;
    Body b; /* for its arena */
    if (!body_open(&b, g)) return;
    Val *args = body_alloc(&b, 2 * (size_t)m, sizeof *args),
        *outs = body_alloc(&b, 4 * (size_t)results, sizeof *outs);
    bool *want = body_alloc(&b, m + (size_t)1, sizeof *want);
    if (args && outs && want) {
        Val *grads = args + m, *cts = outs + 2 * results;
        rule_arguments(n, x, NULL, args);
        memcpy(cts + results, ct, results * sizeof *cts);
        for (uint32_t k = 0, i = n->n; k < n->n; k++)
            if (floating(value, value->inputs[k])) want[i++] = wanted[k];
        if (vjp_run(g, rule, args, cts, want, outs, grads))
            for (uint32_t k = 0, i = n->n; k < n->n; k++)
                if (floating(value, value->inputs[k])) out[k] = grads[i++];
    }
    body_drop(&b);
}

static void custom_jvp_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                            Val *z, bool *z_mapped)
{
    const Graph *value = n->sub[0], *rule = n->sub[1];
    Body b; /* for its arena */
    if (!body_open(&b, g)) return;
    bool *m = body_alloc(&b, rule->n_inputs + (size_t)1, sizeof *m),
         *om = body_alloc(&b, 2 * (size_t)n->results, sizeof *om);
    if (m && om) {
        memcpy(m, mapped, n->n * sizeof *m);
        for (uint32_t k = 0, i = n->n; k < n->n; k++)
            if (floating(value, value->inputs[k])) m[i++] = mapped[k];
        Graph *bodies[3] = {batched(g, value, m, size, true, n->results, om), NULL};
        if (bodies[0]) bodies[1] = batched(g, rule, m, size, true, 2 * (uint32_t)n->results, om);
        if (bodies[1]) emit(g, OP_custom_jvp, n->attr, x, n->n, bodies, z);
        release(bodies);
        memset(z_mapped, true, n->results);
    }
    body_drop(&b);
}

/* ---- custom_vjp ---- */

static void custom_vjp_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read,
                           Val *z, Val *tz)
{
    (void)x, (void)t, (void)read, (void)z, (void)tz;
    fail(g, QB_EVALUE,
         "forward mode through the custom_vjp function '%s', which has a reverse rule only; take "
         "reverse mode (grad, vjp), or "
         "give it a custom_jvp rule, which serves both",
         n->attr->name ? n->attr->name : "?");
}

typedef struct {
    struct Kept head;
    Val *residuals;
} Residuals;

static struct Kept *custom_vjp_forward(Graph *g, Arena *a, const Node *n, const Val *x,
                                       const bool *seeded, const bool *wanted, Val *z)
{
    (void)seeded, (void)wanted;
    Residuals *r = arena_zeroed(a, 1, sizeof *r);
    Val *out = arena_zeroed(a, n->sub[1]->n_outputs + (size_t)1, sizeof *out);
    if (!r || !out) return fail(g, QB_EMEMORY, "out of memory for a custom_vjp"), NULL;
    if (!inline_run(g, n->sub[1], x, out)) return NULL;
    memcpy(z, out, n->results * sizeof *z);
    r->residuals = out + n->results;
    return &r->head;
}

static void custom_vjp_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x,
                                const Val *z, const Val *ct, const bool *wanted, Val *out)
{
    (void)x, (void)wanted;
    const Graph *value = n->sub[0], *bwd = n->sub[2];
    uint32_t res = residuals_of(n);
    Body b; /* for its arena */
    if (!kept || !body_open(&b, g)) return;
    Val *args = body_alloc(&b, bwd->n_inputs + (size_t)1, sizeof *args),
        *cts = body_alloc(&b, bwd->n_outputs + (size_t)1, sizeof *cts);
    if (args && cts) {
        if (res) memcpy(args, ((Residuals *)kept)->residuals, res * sizeof *args);
        for (uint32_t r = 0; r < n->results; r++) args[res + r] = or_zeros(ct[r], z[r]);
        if (inline_run(g, bwd, args, cts))
            for (uint32_t k = 0, i = 0; k < n->n; k++)
                if (floating(value, value->inputs[k])) out[k] = unless_zero(cts[i++]);
    }
    body_drop(&b);
}

/* backward batched: the cotangent of an operand that all examples share is the sum of theirs. */
static Graph *batched_backward(Graph *g, const Node *n, const bool *mapped, int64_t size,
                               const bool *res_mapped)
{
    const Graph *value = n->sub[0], *bwd = n->sub[2];
    uint32_t res = residuals_of(n);
    Body b;
    Graph *out = NULL;
    if (!body_open(&b, g)) return NULL;
    Val *in = body_alloc(&b, bwd->n_inputs + (size_t)1, sizeof *in),
        *z = body_alloc(&b, bwd->n_outputs + (size_t)1, sizeof *z);
    bool *m = body_alloc(&b, bwd->n_inputs + (size_t)1, sizeof *m),
         *om = body_alloc(&b, bwd->n_outputs + (size_t)1, sizeof *om);
    for (uint32_t k = 0; in && z && m && om && k < bwd->n_inputs; k++) {
        Type t = *input_type(bwd, k);
        m[k] = k >= res || res_mapped[k];
        if (m[k]) t = region_stack(&t, size);
        in[k] = body_input(&b, NONE, &t);
    }
    if (in && z && m && om && vmap_run(b.body, bwd, in, m, size, z, om))
        for (uint32_t k = 0, i = 0; k < n->n; k++) {
            if (!floating(value, value->inputs[k])) continue;
            Val v = om[i] ? z[i] : vmap_lift(z[i], size);
            graph_output(b.body, mapped[k] ? v : gsum(v, (int64_t[]){0}, 1));
            i++;
        }
    if (body_close(&b)) out = graph_retain(b.body);
    body_drop(&b);
    return out;
}

static void custom_vjp_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                            Val *z, bool *z_mapped)
{
    Body b; /* for its arena */
    if (!body_open(&b, g)) return;
    bool *om = body_alloc(&b, n->sub[1]->n_outputs + (size_t)1, sizeof *om);
    if (om) {
        Graph *bodies[4] = {batched(g, n->sub[0], mapped, size, true, n->results, om), NULL};
        if (bodies[0]) bodies[1] = batched(g, n->sub[1], mapped, size, true, n->results, om);
        if (bodies[1]) bodies[2] = batched_backward(g, n, mapped, size, om + n->results);
        if (bodies[2]) emit(g, OP_custom_vjp, n->attr, x, n->n, bodies, z);
        release(bodies);
        memset(z_mapped, true, n->results);
    }
    body_drop(&b);
}

const Rules checkpoint_rules = {.infer = custom_infer,
                                .jvp_both = checkpoint_jvp,
                                .forward = checkpoint_forward,
                                .backward = checkpoint_backward,
                                .vmap_some = checkpoint_vmap};
const Rules custom_jvp_rules = {.infer = jvp_infer,
                                .jvp_both = custom_jvp_jvp,
                                .forward = custom_jvp_forward,
                                .backward = custom_jvp_backward,
                                .vmap_some = custom_jvp_vmap};
const Rules custom_vjp_rules = {.infer = vjp_infer,
                                .jvp_both = custom_vjp_jvp,
                                .forward = custom_vjp_forward,
                                .backward = custom_vjp_backward,
                                .vmap_some = custom_vjp_vmap};

/* ---- nodes from outside ---- */

bool custom_emit(Graph *g, Op op, const char *name, const Val *x, int n, Graph *const *bodies,
                 Val *z)
{
    return emit(g, op, &(Attr){.name = name}, x, (uint32_t)n, bodies, z);
}

bool custom_forward_mode(const Graph *g)
{
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (n->op == OP_custom_vjp) return false;
        for (Graph *const *s = n->sub; s && *s && n->op != OP_custom_jvp; s++)
            if (!custom_forward_mode(*s)) return false;
    }
    return true;
}
