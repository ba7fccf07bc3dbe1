/* scan_vjp.c: reverse mode of a counted loop: a scan that keeps its carries, then a scan in the
   other direction.

   THE REVERSE STEP is one graph, built once. It undoes one iteration: from the cotangents of the
   next carries (and of what the iteration put into the stacked results) it makes those of the
   carries, of the slices of xs, and adds to those of the captures:
     carries    cotangents of carries, sums of the captures' cotangents
     xs         the carries before the iteration, the carries after it, slices of xs, of the stacked
                results and of their cotangents
     captures   those of the loop
   It may compute the iteration again from the carries before it. But the carries after it and the
   stacked results are at hand, so they stand in for what the body would compute (vjp_run_with,
   `known`): of tanh(W c + b) nothing is left to compute again.

   THE TAPE. A short loop keeps every carry. A long one keeps one per block of about sqrt(T)
   iterations, and the reverse scan over the blocks runs each block again, with a full tape, before
   it goes back through it: O(sqrt(T)) carries, one more forward run. What does not fill the last
   block is a loop of its own after the others. All these are scans, so every order of derivative
   exists.

   BITS. A block computes what the loop computed, in the same order, so gradients do not depend on
   the blocks. The sum of a capture's cotangents starts from -0.0, which adds to nothing, and goes
   on through the reverse step as the seed of its cotangent: the order of additions is that of the
   unrolled program. */
#include "ops/scan.h"

static const Type *input_type(const Graph *g, int k) { return &g->types[g->inputs[k]]; }
static const Type *output_type(const Graph *g, int k) { return &g->types[g->outputs[k]]; }

void *scan_vjp_room(Graph *g, Arena *a, int64_t n, size_t size)
{
    void *p = arena_zeroed(a, (size_t)n + 1, size);
    if (!p) fail(g, QB_EMEMORY, "out of memory for the reverse of a loop");
    return p;
}

/* ---- which cotangents there are ---- */

/* Forward: which carries depend on what is wanted; those that do make their next values depend on
   it. */
static bool find_needs(Graph *g, const Loop *l, bool *need, bool *reached)
{
    for (bool more = true; more;) {
        if (!vjp_flow(g, l->body, need, NULL, reached, NULL)) return false;
        more = false;
        for (int k = 0; k < l->carries; k++)
            if (reached[k] && !need[k]) need[k] = more = true;
    }
    return true;
}

/* Backward: a carry that gets a cotangent from the next values has one. seeds: per output of the
   body. */
static bool find_live(Graph *g, const Loop *l, const bool *need, const bool *reached, bool *seeds,
                      bool *touched)
{
    bool *ignored = mem_zeroed(l->body->n_outputs + (size_t)1, 1);
    if (!ignored) return fail(g, QB_EMEMORY, "out of memory for the reverse of a loop");
    for (int r = 0; r < l->carries + l->ys; r++) seeds[r] &= r < l->carries ? need[r] : reached[r];
    bool ok = true;
    for (bool more = true; more && ok;) {
        ok = vjp_flow(g, l->body, need, seeds, ignored, touched);
        more = false;
        for (int k = 0; k < l->carries && ok; k++)
            if (touched[k] && !seeds[k]) seeds[k] = more = true;
    }
    mem_free(ignored);
    return ok;
}

bool *scan_vjp_read(Graph *g, Arena *a, const Graph *body, int carries, const bool *read)
{
    bool *all = scan_vjp_room(g, a, body->n_outputs, 1),
         *reached = scan_vjp_room(g, a, body->n_outputs, 1),
         *touched = scan_vjp_room(g, a, body->n_inputs, 1);
    if (graph_failed(g)) return NULL;
    memcpy(all, read, body->n_outputs);
    for (bool more = true; more;) {
        if (!vjp_flow(g, body, NULL, all, reached, touched)) return NULL;
        more = false;
        for (int k = 0; k < carries; k++)
            if (touched[k] && !all[k]) all[k] = more = true;
    }
    return all;
}

/* need: inputs of the body that depend on what is wanted; seeds: outputs that may have a cotangent. */
typedef struct {
    bool *need, *reached, *seeds, *touched;
} Flow;

static bool find_flow(Graph *g, Arena *a, const Loop *l, const bool *seeded, const bool *wanted,
                      Flow *f)
{
    int inputs = (int)l->body->n_inputs, outputs = (int)l->body->n_outputs;
    f->need = scan_vjp_room(g, a, inputs, 1);
    f->reached = scan_vjp_room(g, a, outputs, 1);
    f->seeds = scan_vjp_room(g, a, outputs, 1);
    f->touched = scan_vjp_room(g, a, inputs, 1);
    if (graph_failed(g)) return false;
    for (int k = 0; k < inputs; k++)
        f->need[k] = wanted[k] && type_floating(input_type(l->body, k));
    memcpy(f->seeds, seeded, (size_t)outputs);
    return find_needs(g, l, f->need, f->reached) &&
           find_live(g, l, f->need, f->reached, f->seeds, f->touched);
}

static bool find_cotangents(Graph *g, Arena *a, Reverse *r, const Flow *f, const bool *wanted)
{
    const Loop *l = &r->loop;
    int m = l->carries, e = m + l->xs;
    r->live = scan_vjp_room(g, a, m, 1);
    r->sums = scan_vjp_room(g, a, l->captures, 1);
    r->dx = scan_vjp_room(g, a, l->xs, 1);
    r->dy = scan_vjp_room(g, a, l->ys, 1);
    if (graph_failed(g)) return false;
    for (int k = 0; k < m; k++) r->live[k] = f->seeds[k] || f->touched[k];
    for (int k = 0; k < l->ys; k++) r->dy[k] = f->seeds[m + k];
    for (int k = 0; k < l->xs; k++) r->dx[k] = wanted[m + k] && f->touched[m + k];
    for (int k = 0; k < l->captures; k++) r->sums[k] = wanted[e + k] && f->touched[e + k];
    return true;
}

/* ---- the reverse step ---- */

typedef struct {
    Val *args, *known, *ct, *seeds, *outs, *grads;
    bool *wanted;
} StepNotes;

static bool step_notes(StepNotes *w, Body *f, const Loop *l)
{
    size_t in = l->body->n_inputs, out = l->body->n_outputs;
    w->args = body_alloc(f, in, sizeof(Val));
    w->seeds = body_alloc(f, in, sizeof(Val));
    w->grads = body_alloc(f, in, sizeof(Val));
    w->known = body_alloc(f, out, sizeof(Val));
    w->ct = body_alloc(f, out, sizeof(Val));
    w->outs = body_alloc(f, out, sizeof(Val));
    w->wanted = body_alloc(f, in, sizeof(bool));
    return !graph_failed(f->g);
}

static Val strong_input(Body *f, const Type *t)
{
    Type s = body_strong(t);
    return body_input(f, NONE, &s);
}

static void step_inputs(Body *f, StepNotes *w, const Reverse *r)
{
    const Loop *l = &r->loop;
    const Graph *b = l->body;
    int m = l->carries, e = m + l->xs;
    for (int k = 0; k < m; k++) w->ct[k] = r->live[k] ? strong_input(f, input_type(b, k)) : NONE;
    for (int k = 0; k < l->captures; k++)
        w->seeds[e + k] = r->sums[k] ? strong_input(f, input_type(b, e + k)) : NONE;
    for (int k = 0; k < m; k++) w->args[k] = body_input(f, NONE, input_type(b, k));
    for (int k = 0; k < m; k++) w->known[k] = body_input(f, NONE, output_type(b, k));
    for (int k = m; k < e; k++) w->args[k] = body_input(f, NONE, input_type(b, k));
    for (int k = 0; k < l->ys; k++) w->known[m + k] = body_input(f, NONE, output_type(b, m + k));
    for (int k = 0; k < l->ys; k++)
        w->ct[m + k] = r->dy[k] ? strong_input(f, output_type(b, m + k)) : NONE;
    for (int k = e; k < (int)b->n_inputs; k++) w->args[k] = body_input(f, NONE, input_type(b, k));
    for (int k = 0; k < m; k++) w->wanted[k] = r->live[k];
    for (int k = 0; k < l->xs; k++) w->wanted[m + k] = r->dx[k];
    for (int k = 0; k < l->captures; k++) w->wanted[e + k] = r->sums[k];
}

/* The cotangent of input k, or zeros where there turns out to be none. */
static void step_output(Body *f, const StepNotes *w, const Reverse *r, int k)
{
    Type t = body_strong(input_type(r->loop.body, k));
    graph_output(f->body, val_none(w->grads[k]) ? gconst(f->body, &t, 0) : w->grads[k]);
}

static bool build_step(Graph *g, Reverse *r)
{
    const Loop *l = &r->loop;
    int m = l->carries, e = m + l->xs;
    Body f;
    StepNotes w;
    if (body_open(&f, g) && step_notes(&w, &f, l)) {
        step_inputs(&f, &w, r);
        if (vjp_run_with(f.body, l->body, w.args, w.known, w.ct, w.wanted, w.seeds, w.outs,
                         w.grads)) {
            for (int k = 0; k < m; k++)
                if (r->live[k]) step_output(&f, &w, r, k);
            for (int k = 0; k < l->captures; k++)
                if (r->sums[k]) step_output(&f, &w, r, e + k);
            for (int k = 0; k < l->xs; k++)
                if (r->dx[k]) step_output(&f, &w, r, m + k);
        }
        if (body_close(&f)) r->kept.graph = graph_retain(f.body);
    }
    body_drop(&f);
    return r->kept.graph != NULL;
}

/* What the step reads of the tape. */
static bool find_reads(Graph *g, Arena *a, Reverse *r)
{
    const Loop *l = &r->loop;
    bool *used = scan_vjp_room(g, a, r->kept.graph->n_inputs, 1);
    r->before = scan_vjp_room(g, a, l->carries, 1);
    r->after = scan_vjp_room(g, a, l->carries, 1);
    r->seen = scan_vjp_room(g, a, l->ys, 1);
    if (graph_failed(g)) return false;
    if (!region_used(r->kept.graph, NULL, used))
        return fail(g, QB_EMEMORY, "out of memory for the reverse of a loop");
    for (int k = 0; k < l->carries; k++) used += r->live[k];
    for (int k = 0; k < l->captures; k++) used += r->sums[k];
    for (int k = 0; k < l->carries; k++) r->before[k] = *used++;
    for (int k = 0; k < l->carries; k++) r->after[k] = *used++;
    used += l->xs;
    for (int k = 0; k < l->ys; k++) r->seen[k] = *used++;
    return true;
}

/* ---- the whole ---- */

static In split(const Loop *l, const Val *x)
{
    Val *v = (Val *)(uintptr_t)x;
    return (In){v, v + l->carries, v + l->carries + l->xs};
}

static bool forward_all(Graph *g, Arena *a, Reverse *r, const Val *x, Val *z)
{
    const Loop *l = &r->loop;
    In in = split(l, x), last = in;
    Out o, main = {0};
    int64_t length = r->block ? r->rest : l->form.length;
    if (r->block && !scan_blocks_ahead(g, a, r, &in, &main)) return false;
    if (r->block && r->rest) {
        last.carry = main.carry;
        last.x = scan_vjp_room(g, a, l->xs, sizeof(Val));
        if (!last.x) return false;
        for (int k = 0; k < l->xs; k++) last.x[k] = scan_blocks_rest(r, in.x[k]);
    }
    if (length && !scan_pieces_ahead(g, a, r, length, &last, true, &o)) return false;
    if (!length && !scan_pieces_out(g, a, l, &o)) return false;
    r->prev = o.prev, r->next = o.next, r->y = o.y;
    for (int k = 0; k < l->carries; k++) z[k] = length ? o.carry[k] : main.carry[k];
    for (int k = 0; k < l->ys; k++)
        z[l->carries + k] = r->block ? scan_blocks_join(r, main.y[k], o.y[k]) : o.y[k];
    return !graph_failed(g);
}

static Loop loop_of(const Graph *body, ScanForm form)
{
    return (Loop){body,
                  form,
                  form.carries,
                  form.xs,
                  (int)body->n_inputs - form.carries - form.xs,
                  (int)body->n_outputs - form.carries};
}

Graph *scan_vjp_opened(Graph *g, const Graph *body, ScanForm form, const bool *seeded,
                       const bool *wanted)
{
    Arena a = {0};
    Flow flow;
    Loop l = loop_of(body, form);
    Graph *out = NULL;
    if (find_flow(g, &a, &l, seeded, wanted, &flow))
        out = body_opened(g, body, flow.need, flow.seeds);
    arena_free(&a);
    return out;
}

struct Kept *scan_vjp_forward(Graph *g, Arena *a, const Graph *body, ScanForm form, const Val *x,
                              const bool *seeded, const bool *wanted, Val *z)
{
    Reverse *r = scan_vjp_room(g, a, 1, sizeof *r);
    if (!r) return NULL;
    Flow flow;
    r->loop = loop_of(body, form);
    r->start = scan_vjp_room(g, a, form.carries, sizeof *r->start);
    if (!r->start || !find_flow(g, a, &r->loop, seeded, wanted, &flow) ||
        !find_cotangents(g, a, r, &flow, wanted) || !build_step(g, r))
        return &r->kept;
    r->opened.graph = body_opened(g, body, flow.need, flow.seeds);
    r->kept.next = &r->opened;
    if (r->opened.graph && find_reads(g, a, r)) {
        r->loop.body =
            r->opened.graph; /* what runs forward; the step is that of the body as it was */
        scan_blocks_choose(r);
        forward_all(g, a, r, x, z);
    }
    return &r->kept;
}

/* Cotangents that come in, zero where there is none, and sums that have nothing in them yet. */
static void seed(Graph *g, const Reverse *r, const Val *ct, Cots *c, Val *dy)
{
    const Loop *l = &r->loop;
    for (int k = 0; k < l->carries; k++) {
        Type t = body_strong(input_type(l->body, k));
        if (r->live[k]) c->live[k] = val_none(ct[k]) ? gconst(g, &t, 0) : ct[k];
    }
    for (int k = 0; k < l->captures; k++) {
        Type t = body_strong(input_type(l->body, l->carries + l->xs + k));
        if (r->sums[k]) c->sums[k] = gconst(g, &t, -0.0);
    }
    for (int k = 0; k < l->ys; k++) {
        Type t = body_strong(output_type(l->body, l->carries + k));
        t = region_stack(&t, l->form.length);
        if (r->dy[k]) dy[k] = val_none(ct[l->carries + k]) ? gconst(g, &t, 0) : ct[l->carries + k];
    }
}

static bool backward_all(Graph *g, Arena *a, Reverse *r, const Val *x, Val *dy, Cots *c, Val *dx)
{
    const Loop *l = &r->loop;
    In in = split(l, x);
    Out tape = {.y = r->y, .prev = r->prev, .next = r->next};
    if (!r->block) return scan_pieces_back(g, a, r, l->form.length, &in, &tape, dy, c, dx);
    Val *rest_dx = scan_vjp_room(g, a, l->xs, sizeof(Val)),
        *rest_dy = scan_vjp_room(g, a, l->ys, sizeof(Val));
    In last = in;
    last.x = scan_vjp_room(g, a, l->xs, sizeof(Val));
    if (!rest_dx || !rest_dy || !last.x) return false;
    for (int k = 0; k < l->xs && r->rest; k++) last.x[k] = scan_blocks_rest(r, in.x[k]);
    for (int k = 0; k < l->ys; k++) {
        if (!r->dy[k]) continue;
        if (r->rest) rest_dy[k] = scan_blocks_rest(r, dy[k]);
        dy[k] = scan_blocks_of(r, dy[k]);
    }
    if (r->rest && !scan_pieces_back(g, a, r, r->rest, &last, &tape, rest_dy, c, rest_dx))
        return false;
    if (!scan_blocks_back(g, r, &in, dy, c, dx)) return false;
    for (int k = 0; k < l->xs; k++) dx[k] = scan_blocks_join(r, dx[k], rest_dx[k]);
    return !graph_failed(g);
}

void scan_vjp_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x, const Val *z,
                       const Val *ct, const bool *wanted, Val *out)
{
    (void)n, (void)z, (void)wanted;
    Reverse *r = (Reverse *)kept;
    Arena a = {0};
    if (!r || !r->kept.graph || graph_failed(g)) return;
    const Loop *l = &r->loop;
    Cots c = {scan_vjp_room(g, &a, l->carries, sizeof(Val)),
              scan_vjp_room(g, &a, l->captures, sizeof(Val))};
    Val *dy = scan_vjp_room(g, &a, l->ys, sizeof *dy),
        *dx = scan_vjp_room(g, &a, l->xs, sizeof *dx);
    if (!graph_failed(g)) {
        seed(g, r, ct, &c, dy);
        if (backward_all(g, &a, r, x, dy, &c, dx)) {
            for (int k = 0; k < l->carries; k++) out[k] = r->live[k] ? c.live[k] : NONE;
            for (int k = 0; k < l->xs; k++) out[l->carries + k] = dx[k];
            for (int k = 0; k < l->captures; k++)
                out[l->carries + l->xs + k] = r->sums[k] ? c.sums[k] : NONE;
        }
    }
    arena_free(&a);
}
