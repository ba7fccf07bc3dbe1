/* scan_pieces.c: `length` iterations of a loop in any graph, forward and backward: the whole loop,
   its rest, or a block of it inside a body. Forward with a tape the carries that the reverse step
   reads are stacked; backward the reverse step runs over them. scan_vjp.c says how the pieces go
   together. */
#include "ops/scan.h"

static const Type *input_type(const Graph *g, int k) { return &g->types[g->inputs[k]]; }

/* ---- forward ---- */

bool scan_pieces_in(Graph *g, Arena *a, const Loop *l, In *in)
{
    in->carry = scan_vjp_room(g, a, l->carries, sizeof(Val));
    in->x = scan_vjp_room(g, a, l->xs, sizeof(Val));
    in->k = scan_vjp_room(g, a, l->captures, sizeof(Val));
    return !graph_failed(g);
}

bool scan_pieces_out(Graph *g, Arena *a, const Loop *l, Out *o)
{
    o->carry = scan_vjp_room(g, a, l->carries, sizeof(Val));
    o->prev = scan_vjp_room(g, a, l->carries, sizeof(Val));
    o->next = scan_vjp_room(g, a, l->carries, sizeof(Val));
    o->y = scan_vjp_room(g, a, l->ys, sizeof(Val));
    return !graph_failed(g);
}

/* The output of the body that stacks the next value of carry k, or -1. */
static int stacked(const Loop *l, int k)
{
    for (int r = 0; r < l->ys; r++)
        if (l->body->outputs[l->carries + r] == l->body->outputs[k]) return l->carries + r;
    return -1;
}

bool scan_pieces_tapes(const Reverse *r, int k) { return r->before[k] || r->after[k]; }

/* The body, with the next values of the carries that are taped among the stacked results. at:
   result of each. */
static Graph *taping_body(Graph *g, const Reverse *r, int *at)
{
    const Loop *l = &r->loop;
    Graph *out = NULL;
    Body f;
    Val *args = NULL, *z = NULL;
    if (body_open(&f, g)) {
        args = body_alloc(&f, l->body->n_inputs, sizeof *args);
        z = body_alloc(&f, l->body->n_outputs, sizeof *z);
    }
    for (int k = 0; args && z && k < (int)l->body->n_inputs; k++)
        args[k] = body_input(&f, NONE, input_type(l->body, k));
    if (args && z && inline_run(f.body, l->body, args, z)) {
        int n = (int)l->body->n_outputs;
        for (int i = 0; i < n; i++) graph_output(f.body, z[i]);
        for (int k = 0; k < l->carries; k++) {
            if (!scan_pieces_tapes(r, k) || (at[k] = stacked(l, k)) >= 0) continue;
            graph_output(f.body, z[k]);
            at[k] = n++;
        }
        if (body_close(&f)) out = graph_retain(f.body);
    }
    body_drop(&f);
    return out;
}

/* The carry before and after each iteration, from the first and the stacked next ones: two windows
   on one array. */
static void history(const Reverse *r, int k, Val first, Val next, int64_t length, Out *o)
{
    if (val_none(first) || val_none(next)) return; /* the graph has failed */
    if (!r->before[k]) {
        o->next[k] = next;
        return;
    }
    Type t = region_stack(type_of(first), 1);
    Val one = greshape(first, t.rank, t.dims);
    bool down = r->loop.form.reverse;
    Val all = gconcat(first.graph, down ? (Val[]){next, one} : (Val[]){one, next}, 2, 0);
    o->prev[k] = gslice(all, 0, down, length, 1);
    o->next[k] = r->after[k] ? gslice(all, 0, !down, length, 1) : NONE;
}

static Val *operands(Graph *g, Arena *a, const Loop *l, const In *in, int *n)
{
    Val *x = scan_vjp_room(g, a, l->carries + l->xs + l->captures, sizeof *x);
    *n = l->carries + l->xs + l->captures;
    if (!x) return NULL;
    if (l->carries) memcpy(x, in->carry, (size_t)l->carries * sizeof *x);
    if (l->xs) memcpy(x + l->carries, in->x, (size_t)l->xs * sizeof *x);
    if (l->captures) memcpy(x + l->carries + l->xs, in->k, (size_t)l->captures * sizeof *x);
    return x;
}

bool scan_pieces_ahead(Graph *g, Arena *a, const Reverse *r, int64_t length, const In *in,
                       bool tape, Out *o)
{
    const Loop *l = &r->loop;
    ScanForm form = l->form;
    form.length = length;
    int n, *at = scan_vjp_room(g, a, l->carries, sizeof *at);
    Val *x = operands(g, a, l, in, &n);
    if (!scan_pieces_out(g, a, l, o) || !at || !x) return false;
    Graph *body = tape ? taping_body(g, r, at) : graph_retain((Graph *)(uintptr_t)l->body);
    Val *z = body ? scan_vjp_room(g, a, body->n_outputs, sizeof *z) : NULL;
    bool ok = z && region_scan(g, body, form, x, n, z);
    graph_release(body);
    if (!ok) return false;
    memcpy(o->carry, z, (size_t)l->carries * sizeof *z);
    if (l->ys) memcpy(o->y, z + l->carries, (size_t)l->ys * sizeof *z);
    for (int k = 0; k < l->carries && tape; k++)
        if (scan_pieces_tapes(r, k)) history(r, k, in->carry[k], z[at[k]], length, o);
    return !graph_failed(g);
}

/* ---- backward ---- */

void scan_pieces_results(const Reverse *r, const Val *z, Cots *c, Val *dx)
{
    const Loop *l = &r->loop;
    for (int k = 0; k < l->carries; k++)
        if (r->live[k]) c->live[k] = *z++;
    for (int k = 0; k < l->captures; k++)
        if (r->sums[k]) c->sums[k] = *z++;
    for (int k = 0; k < l->xs; k++) dx[k] = r->dx[k] ? *z++ : NONE;
}

/* dy: stacked cotangents of the stacked results; dx: gets those of xs. */
bool scan_pieces_back(Graph *g, Arena *a, const Reverse *r, int64_t length, const In *in,
                      const Out *tape, const Val *dy, Cots *c, Val *dx)
{
    const Loop *l = &r->loop;
    const Graph *step = r->kept.graph;
    int m = l->carries, n = 0;
    Val *x = scan_vjp_room(g, a, step->n_inputs, sizeof *x),
        *z = scan_vjp_room(g, a, step->n_outputs, sizeof *z);
    if (!x || !z) return false;
    for (int k = 0; k < m; k++)
        if (r->live[k]) x[n++] = c->live[k];
    for (int k = 0; k < l->captures; k++)
        if (r->sums[k]) x[n++] = c->sums[k];
    ScanForm form = {.length = length, .reverse = !l->form.reverse, .carries = n};
    const Val *groups[] = {tape->prev, tape->next, in->x, tape->y, dy};
    const int counts[] = {m, m, l->xs, l->ys, l->ys};
    for (int q = 0; q < 5; q++)
        for (int k = 0; k < counts[q]; k++) {
            if (q == 4 && !r->dy[k]) continue;
            Type t = region_stack(input_type(step, n), length);
            x[n++] = val_none(groups[q][k])
                         ? gconst(g, &t, 0)
                         : groups[q][k]; /* a constant where the step reads nothing */
        }
    form.xs = n - form.carries;
    for (int k = 0; k < l->captures; k++) x[n++] = in->k[k];
    if (!region_scan(g, step, form, x, n, z)) return false;
    scan_pieces_results(r, z, c, dx);
    return true;
}
