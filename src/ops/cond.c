/* cond.c: one of two bodies. Both have the same inputs and results, and only the chosen one runs,
   so nothing of the other can reach a value or a gradient.

   Reverse mode is a cond too: each branch computes its own vjp from the operands, the results that
   are known already, and the cotangents. Under vmap with a mapped pred both branches run and their
   results are selected. There each operand enters a branch as where(chosen, x, stop_gradient(x)):
   the same value, and a plan drops it, but a derivative of the batch program is then cut where the
   branch was not chosen, so 0 * inf in the other branch stays there. */
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

typedef struct {
    Body f[2];
} Branches;

static bool open(Branches *b, Graph *g)
{
    bool first = body_open(&b->f[0], g);
    return body_open(&b->f[1], g) && first;
}

static void drop(Branches *b)
{
    for (int i = 0; i < 2; i++) body_drop(&b->f[i]);
}

/* An input of both branches for operand x. */
static void input(Branches *b, Val x, const Type *t, Val *yes, Val *no)
{
    *yes = body_input(&b->f[0], x, t);
    *no = body_input(&b->f[1], x, t);
}

/* The cond of both bodies; z has a value for each output. */
static bool emit(Branches *b, Val pred, Val *z)
{
    if (!body_close(&b->f[0]) || !body_close(&b->f[1])) return false;
    return region_cond(b->f[0].g, pred, b->f[0].body, b->f[1].body, b->f[0].x, b->f[0].n, z);
}

/* Output r of both, if one of them has it; the other one gives zeros. False: neither has. */
static bool either(Branches *b, Val yes, Val no)
{
    if (val_none(yes) && val_none(no)) return false;
    Type t = body_strong(type_of(val_none(yes) ? no : yes));
    graph_output(b->f[0].body, val_none(yes) ? gconst(b->f[0].body, &t, 0) : yes);
    graph_output(b->f[1].body, val_none(no) ? gconst(b->f[1].body, &t, 0) : no);
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

static void jvp_branches(Branches *b, JvpNotes *w, const Node *n, const Val *x, const Val *t,
                         const bool *read, Val *z, Val *tz)
{
    for (uint32_t k = 0; k + 1 < n->n; k++) {
        input(b, x[k + 1], input_type(n, k), &w->in[0][k], &w->in[1][k]);
        Type tt = body_strong(input_type(n, k));
        if (!val_none(t[k + 1])) input(b, t[k + 1], &tt, &w->t[0][k], &w->t[1][k]);
    }
    for (int i = 0; i < 2; i++)
        if (!jvp_run_some(b->f[i].body, n->sub[i], w->in[i], w->t[i], read, w->z[i], w->tz[i]))
            return;
    for (uint32_t r = 0; r < n->results; r++) either(b, w->z[0][r], w->z[1][r]);
    for (uint32_t r = 0; r < n->results; r++) w->has[r] = either(b, w->tz[0][r], w->tz[1][r]);
    if (!emit(b, x[0], w->out)) return;
    memcpy(z, w->out, n->results * sizeof *z);
    for (uint32_t r = 0, i = n->results; r < n->results; r++)
        tz[r] = w->has[r] ? w->out[i++] : NONE;
}

static void cond_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read, Val *z,
                     Val *tz)
{
    Branches b;
    JvpNotes w;
    if (open(&b, g) && jvp_notes(&w, &b.f[0], n->n, n->results))
        jvp_branches(&b, &w, n, x, t, read, z, tz);
    drop(&b);
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
    bool *wanted;
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
    return !graph_failed(f->g);
}

static void vjp_branches(Branches *b, VjpNotes *w, const Node *n, const Val *x, const Val *z,
                         const Val *ct, const bool *wanted, Val *out)
{
    uint32_t m = n->n - 1;
    for (uint32_t k = 0; k < m; k++)
        input(b, x[k + 1], input_type(n, k), &w->in[0][k], &w->in[1][k]);
    for (uint32_t r = 0; r < n->results; r++) {
        Type t = body_strong(type_of(z[r]));
        input(b, z[r], type_of(z[r]), &w->known[0][r], &w->known[1][r]);
        if (!val_none(ct[r])) input(b, ct[r], &t, &w->ct[0][r], &w->ct[1][r]);
    }
    for (int i = 0; i < 2; i++)
        if (!vjp_run_with(b->f[i].body, n->sub[i], w->in[i], w->known[i], w->ct[i], wanted + 1,
                          NULL, w->outs, w->grads[i]))
            return;
    uint32_t used = 0;
    for (uint32_t k = 0; k < m; k++)
        if (wanted[k + 1] && either(b, w->grads[0][k], w->grads[1][k])) used++;
    if (!used || !emit(b, x[0], w->out)) return;
    for (uint32_t k = 0, i = 0; k < m; k++)
        if (wanted[k + 1] && !(val_none(w->grads[0][k]) && val_none(w->grads[1][k])))
            out[k + 1] = w->out[i++];
}

static void cond_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x, const Val *z,
                          const Val *ct, const bool *wanted, Val *out)
{
    Branches b;
    VjpNotes w;
    (void)kept;
    if (open(&b, g) && vjp_notes(&w, &b.f[0], n->n, n->results))
        vjp_branches(&b, &w, n, x, z, ct, wanted, out);
    drop(&b);
}

/* ---- vmap ---- */

/* A bool of shape [size] along the first axis of v. */
static Val along(Val mask, Val v)
{
    if (val_none(v)) return NONE;
    Type t = *type_of(v);
    int64_t dims[QB_MAX_RANK] = {t.dims[0], 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return gbroadcast(greshape(mask, t.rank, dims), t.rank, t.dims);
}

/* x, cut off for derivatives where the branch is not chosen. */
static Val enter(Val mask, Val x, bool yes)
{
    if (val_none(x) || !type_floating(type_of(x))) return x;
    Val m = along(mask, x), cut = gstop_gradient(x);
    return yes ? gwhere(m, x, cut) : gwhere(m, cut, x);
}

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
            in[k] = enter(x[0], mapped[k + 1] ? x[k + 1] : vmap_lift(x[k + 1], size), i == 0);
        if (!vmap_run(g, n->sub[i], in, all, size, out[i], om)) return;
        for (uint32_t r = 0; r < n->results; r++)
            if (!om[r]) out[i][r] = vmap_lift(out[i][r], size);
    }
    for (uint32_t r = 0; r < n->results; r++)
        z[r] = gwhere(along(x[0], out[0][r]), out[0][r], out[1][r]);
}

static void vmap_branches(Branches *b, const Node *n, const Val *x, const bool *mapped,
                          int64_t size, Val *z, bool *z_mapped)
{
    Body *f = &b->f[0];
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
        input(b, x[k + 1], &t, &in[0][k], &in[1][k]);
    }
    for (int i = 0; i < 2; i++)
        if (!vmap_run(b->f[i].body, n->sub[i], in[i], mapped + 1, size, out[i], om[i])) return;
    for (uint32_t r = 0; r < n->results; r++) {
        z_mapped[r] = om[0][r] || om[1][r];
        for (int i = 0; i < 2; i++)
            graph_output(b->f[i].body,
                         z_mapped[r] && !om[i][r] ? vmap_lift(out[i][r], size) : out[i][r]);
    }
    emit(b, x[0], z);
}

static void cond_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                      Val *z, bool *z_mapped)
{
    Branches b;
    if (open(&b, g)) {
        if (!mapped[0])
            vmap_branches(&b, n, x, mapped, size, z, z_mapped);
        else
            select_both(&b.f[0], n, x, mapped, size, z);
        if (mapped[0]) memset(z_mapped, true, n->results);
    }
    drop(&b);
}

const Rules cond_rules = {.infer = cond_infer,
                          .jvp_both = cond_jvp,
                          .backward = cond_backward,
                          .open = cond_open,
                          .vmap_some = cond_vmap};
