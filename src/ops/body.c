/* body.c: a body under construction. Rules of region ops write new bodies input by input; each
   input stands for an operand of the region, so both lists grow together and cannot disagree. */
#include "ops/rules.h"

bool body_open(Body *f, Graph *g)
{
    qb_error err = {0};
    *f = (Body){.g = g};
    if (graph_failed(g)) return false;
    f->body = graph_new(&err);
    return f->body || fail(g, err.code, "%s", err.message);
}

void *body_alloc(Body *f, size_t n, size_t size)
{
    void *p = arena_zeroed(&f->arena, n, size);
    if (!p) fail(f->g, QB_EMEMORY, "out of memory for the body of a loop");
    return p;
}

Val body_input(Body *f, Val x, const Type *t)
{
    if (!f->body || graph_failed(f->g)) return NONE;
    if (f->n == f->room) {
        int room = 2 * f->room + 8;
        Val *more = body_alloc(f, (size_t)room, sizeof *more);
        if (!more) return NONE;
        if (f->n) memcpy(more, f->x, (size_t)f->n * sizeof *more);
        f->x = more;
        f->room = room;
    }
    f->x[f->n++] = x;
    return graph_input(f->body, NULL, t);
}

/* A failure of the body is one of the graph. Its message names the user's line already. */
static void fail_both(Body *f)
{
    if (f->body && graph_failed(f->body) && !graph_failed(f->g)) f->g->error = f->body->error;
}

bool body_close(Body *f)
{
    qb_error err = {0};
    fail_both(f);
    return f->body && !graph_failed(f->g) && graph_freeze(f->body, &err);
}

void body_drop(Body *f)
{
    fail_both(f);
    graph_release(f->body);
    arena_free(&f->arena);
    f->body = NULL;
}

Graph *body_opened(Graph *g, const Graph *body, const bool *wanted, const bool *seeded)
{
    Body f;
    Graph *out = NULL;
    if (!vjp_has_rules(body)) return graph_retain((Graph *)(uintptr_t)body);
    if (body_open(&f, g)) {
        Val *in = body_alloc(&f, body->n_inputs + (size_t)1, sizeof *in),
            *z = body_alloc(&f, body->n_outputs + (size_t)1, sizeof *z);
        for (uint32_t k = 0; in && z && k < body->n_inputs; k++)
            in[k] = body_input(&f, NONE, &body->types[body->inputs[k]]);
        if (in && z && vjp_values(f.body, body, in, wanted, seeded, z))
            for (uint32_t r = 0; r < body->n_outputs; r++) graph_output(f.body, z[r]);
        if (body_close(&f)) out = graph_retain(f.body);
    }
    body_drop(&f);
    return out;
}

Type body_strong(const Type *t)
{
    Type s = *t;
    s.weak = 0;
    return s;
}
