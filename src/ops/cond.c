/* cond.c: one of two bodies. Both have the same inputs and results, and only the chosen one runs,
   so nothing of the other can reach a value or a gradient.

   Reverse mode is a cond too: each branch computes its own vjp from the operands, the results that
   are known already, and the cotangents. Under vmap with a mapped pred both branches run and their
   results are selected (examples.c). */
#include "ops/rules.h"

static bool cond_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Graph *yes = n->sub[0], *no = n->sub[1];
    if (!yes->frozen || !no->frozen)
        return fail(g, QB_EVALUE, "cond: a body is not frozen; call qb_graph_freeze first");
    if (n->n == 0 || x[0].dtype != QB_BOOL || x[0].rank != 0)
        return fail(g, QB_ETYPE, "cond: the predicate is %s; a bool[] is needed, such as x > 0",
                    n->n ? TYPE_TEXT(&x[0]) : "missing");
    if (yes->n_inputs != n->n - 1 || no->n_inputs != n->n - 1)
        return fail(g, QB_EVALUE, "cond: %u operands, but the branches take %u and %u",
                    (unsigned)n->n - 1, (unsigned)yes->n_inputs, (unsigned)no->n_inputs);
    if (yes->n_outputs != no->n_outputs || yes->n_outputs != n->results)
        return fail(g, QB_EVALUE, "cond: the branches return %u and %u values",
                    (unsigned)yes->n_outputs, (unsigned)no->n_outputs);
    for (uint32_t k = 0; k + 1 < n->n; k++)
        for (int b = 0; b < 2; b++) {
            const Type *t = &n->sub[b]->types[n->sub[b]->inputs[k]];
            if (!type_same(t, &x[k + 1]))
                return fail(g, QB_ESHAPE, "cond: operand %u is %s, but a branch takes %s",
                            (unsigned)k, TYPE_TEXT(&x[k + 1]), TYPE_TEXT(t));
        }
    for (uint32_t r = 0; r < yes->n_outputs; r++) {
        const Type *a = &yes->types[yes->outputs[r]], *b = &no->types[no->outputs[r]];
        if (!type_same(a, b))
            return fail(g, a->dtype == b->dtype ? QB_ESHAPE : QB_EDTYPE,
                        "cond: result %u is %s of the true branch and %s of the other", (unsigned)r,
                        TYPE_TEXT(a), TYPE_TEXT(b));
        out[r] = *a;
        out[r].weak &= b->weak;
    }
    return true;
}

/* ---- two branches with the same operands ---- */

/* The cond of both bodies; z has a value for each output. */
static bool emit(Body *f, Val pred, Val *z)
{
    return body_close_all(f, 2) && region_cond(f->g, pred, f[0].body, f[1].body, f->x, f->n, z);
}

/* Output r of both, if one of them has it; the other one gives zeros. False: neither has. */
static bool either(Body *f, Val *const *v, uint32_t r)
{
    Val yes = v[0][r], no = v[1][r];
    if (val_none(yes) && val_none(no)) return false;
    Type t = body_strong(type_of(val_none(yes) ? no : yes));
    for (int i = 0; i < 2; i++)
        graph_output(f[i].body, val_none(v[i][r]) ? gconst(f[i].body, &t, 0) : v[i][r]);
    return true;
}

static const Type *input_type(const Node *n, uint32_t k)
{
    return &n->sub[0]->types[n->sub[0]->inputs[k]];
}

/* ---- forward mode: one cond for results and tangents ---- */

typedef struct {
    Val *in[2], *t[2], *z[2], *tz[2];
    Val *out;
    bool *has;
} JvpNotes;

static bool jvp_notes(JvpNotes *w, Body *f, uint32_t m, uint32_t results)
{
    for (int b = 0; b < 2; b++) {
        w->in[b] = body_alloc(f, m, sizeof(Val));
        w->t[b] = body_alloc(f, m, sizeof(Val));
        w->z[b] = body_alloc(f, results, sizeof(Val));
        w->tz[b] = body_alloc(f, results, sizeof(Val));
    }
    w->out = body_alloc(f, 2 * (size_t)results, sizeof(Val));
    w->has = body_alloc(f, results, sizeof(bool));
    return !graph_failed(f->g);
}

static void jvp_branches(Body *f, JvpNotes *w, const Node *n, const Val *x, const Val *t,
                         const bool *read, Val *z, Val *tz)
{
    for (uint32_t k = 0; k + 1 < n->n; k++) {
        Type tt = body_strong(input_type(n, k));
        body_input_all(f, 2, x[k + 1], input_type(n, k), w->in, (int)k);
        if (!val_none(t[k + 1])) body_input_all(f, 2, t[k + 1], &tt, w->t, (int)k);
    }
    for (int i = 0; i < 2; i++)
        if (!jvp_run_some(f[i].body, n->sub[i], w->in[i], w->t[i], read, w->z[i], w->tz[i])) return;
    for (uint32_t r = 0; r < n->results; r++) either(f, w->z, r);
    for (uint32_t r = 0; r < n->results; r++) w->has[r] = either(f, w->tz, r);
    if (!emit(f, x[0], w->out)) return;
    memcpy(z, w->out, n->results * sizeof *z);
    for (uint32_t r = 0, i = n->results; r < n->results; r++)
        tz[r] = w->has[r] ? w->out[i++] : NONE;
}

static void cond_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read, Val *z,
                     Val *tz)
{
    Body f[2];
    JvpNotes w;
    if (body_open_all(f, 2, g) && jvp_notes(&w, f, n->n, n->results))
        jvp_branches(f, &w, n, x, t, read, z, tz);
    body_drop_all(f, 2);
}

/* ---- reverse mode ---- */

static void cond_open(Graph *g, const Node *n, const Val *x, const bool *seeded, const bool *wanted,
                      Val *z)
{
    Graph *yes = body_opened(g, n->sub[0], wanted + 1, seeded),
          *no = body_opened(g, n->sub[1], wanted + 1, seeded);
    if (yes && no) region_cond(g, x[0], yes, no, x + 1, (int)n->n - 1, z);
    graph_release(yes);
    graph_release(no);
}

typedef struct {
    Val *in[2], *ct[2], *known[2], *outs, *grads[2], *out;
    bool *has;
} VjpNotes;

static bool vjp_notes(VjpNotes *w, Body *f, uint32_t m, uint32_t results)
{
    for (int b = 0; b < 2; b++) {
        w->in[b] = body_alloc(f, m, sizeof(Val));
        w->ct[b] = body_alloc(f, results, sizeof(Val));
        w->known[b] = body_alloc(f, results, sizeof(Val));
        w->grads[b] = body_alloc(f, m, sizeof(Val));
    }
    w->outs = body_alloc(f, results, sizeof(Val));
    w->out = body_alloc(f, m, sizeof(Val));
    w->has = body_alloc(f, m, sizeof(bool));
    return !graph_failed(f->g);
}

static void vjp_branches(Body *f, VjpNotes *w, const Node *n, const Val *x, const Val *z,
                         const Val *ct, const bool *wanted, Val *out)
{
    uint32_t m = n->n - 1, used = 0;
    for (uint32_t k = 0; k < m; k++)
        body_input_all(f, 2, x[k + 1], input_type(n, k), w->in, (int)k);
    for (uint32_t r = 0; r < n->results; r++) {
        Type t = body_strong(type_of(z[r]));
        body_input_all(f, 2, z[r], type_of(z[r]), w->known, (int)r);
        if (!val_none(ct[r])) body_input_all(f, 2, ct[r], &t, w->ct, (int)r);
    }
    for (int i = 0; i < 2; i++)
        if (!vjp_run_with(f[i].body, n->sub[i], w->in[i], w->known[i], w->ct[i], wanted + 1, NULL,
                          w->outs, w->grads[i]))
            return;
    for (uint32_t k = 0; k < m; k++) used += w->has[k] = wanted[k + 1] && either(f, w->grads, k);
    if (!used || !emit(f, x[0], w->out)) return;
    for (uint32_t k = 0, i = 0; k < m; k++)
        if (w->has[k]) out[k + 1] = w->out[i++];
}

static void cond_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x, const Val *z,
                          const Val *ct, const bool *wanted, Val *out)
{
    Body f[2];
    VjpNotes w;
    (void)kept;
    if (body_open_all(f, 2, g) && vjp_notes(&w, f, n->n, n->results))
        vjp_branches(f, &w, n, x, z, ct, wanted, out);
    body_drop_all(f, 2);
}

/* ---- vmap ---- */

/* Both branches run in g. */
static void select_both(Body *f, const Node *n, const Val *x, const bool *mapped, int64_t size,
                        Val *z)
{
    Graph *g = f->g;
    uint32_t m = n->n - 1;
    Val *in = body_alloc(f, m, sizeof *in), *out[2];
    bool *all = body_alloc(f, m, sizeof *all), *om = body_alloc(f, n->results, sizeof *om);
    for (int i = 0; i < 2; i++) out[i] = body_alloc(f, n->results, sizeof *out[i]);
    if (graph_failed(g)) return;
    memset(all, true, m);
    for (int i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < m; k++)
            in[k] =
                examples_enter(x[0], mapped[k + 1] ? x[k + 1] : vmap_lift(x[k + 1], size), i == 0);
        if (!vmap_run(g, n->sub[i], in, all, size, out[i], om)) return;
        for (uint32_t r = 0; r < n->results; r++)
            if (!om[r]) out[i][r] = vmap_lift(out[i][r], size);
    }
    for (uint32_t r = 0; r < n->results; r++) z[r] = examples_select(x[0], out[0][r], out[1][r]);
}

static void vmap_branches(Body *f, const Node *n, const Val *x, const bool *mapped, int64_t size,
                          Val *z, bool *z_mapped)
{
    uint32_t m = n->n - 1;
    Val *in[2], *out[2];
    bool *om[2];
    for (int i = 0; i < 2; i++) {
        in[i] = body_alloc(f, m, sizeof *in[i]);
        out[i] = body_alloc(f, n->results, sizeof *out[i]);
        om[i] = body_alloc(f, n->results, sizeof *om[i]);
    }
    if (graph_failed(f->g)) return;
    for (uint32_t k = 0; k < m; k++) {
        Type t = *input_type(n, k);
        if (mapped[k + 1]) t = region_stack(&t, size);
        body_input_all(f, 2, x[k + 1], &t, in, (int)k);
    }
    for (int i = 0; i < 2; i++)
        if (!vmap_run(f[i].body, n->sub[i], in[i], mapped + 1, size, out[i], om[i])) return;
    for (uint32_t r = 0; r < n->results; r++) {
        z_mapped[r] = om[0][r] || om[1][r];
        for (int i = 0; i < 2; i++)
            graph_output(f[i].body,
                         z_mapped[r] && !om[i][r] ? vmap_lift(out[i][r], size) : out[i][r]);
    }
    emit(f, x[0], z);
}

static void cond_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                      Val *z, bool *z_mapped)
{
    Body f[2];
    if (body_open_all(f, 2, g)) {
        if (!mapped[0])
            vmap_branches(f, n, x, mapped, size, z, z_mapped);
        else
            select_both(f, n, x, mapped, size, z);
        if (mapped[0]) memset(z_mapped, true, n->results);
    }
    body_drop_all(f, 2);
}

const Rules cond_rules = {.infer = cond_infer,
                          .jvp_both = cond_jvp,
                          .backward = cond_backward,
                          .open = cond_open,
                          .vmap_some = cond_vmap};
