/* loop_jvp.c: forward mode of scan and while. One new loop runs on values and tangents together;
   the test of a while reads the values alone. A carry has a tangent when its first value has one,
   or when the body makes it so, and when somebody reads it. Which ones that are is found by writing
   the body until nothing is added. */
#include "ops/scan.h"

typedef struct {
    const Node *n;
    const Graph *step, *test; /* test: of a while */
    ScanForm form;            /* of a while: its carries */
    int bodies;               /* the step is the last */
    bool *read;               /* outputs of the step whose tangents are read */
    bool *has;                /* operands with a tangent */
    Val *in[2], *t[2];        /* of each body: its inputs, and those for tangents */
    Val *z, *tz, *out;        /* results of the step; of the new loop */
} Forward;

static Forward loop_of(const Node *n)
{
    if (n->op == OP_scan)
        return (Forward){.n = n, .step = n->sub[0], .form = region_form_of(n), .bodies = 1};
    return (Forward){
        .n = n, .test = n->sub[0], .step = n->sub[1], .form = {.carries = n->results}, .bodies = 2};
}

static bool notes_open(Forward *w, Body *f)
{
    for (int b = 0; b < w->bodies; b++) {
        w->in[b] = body_alloc(f, w->n->n, sizeof(Val));
        w->t[b] = body_alloc(f, w->n->n, sizeof(Val));
    }
    w->z = body_alloc(f, w->n->results, sizeof(Val));
    w->tz = body_alloc(f, w->n->results, sizeof(Val));
    w->out = body_alloc(f, 2 * (size_t)w->n->results, sizeof(Val));
    return !graph_failed(f->g);
}

/* Inputs from..to of the bodies, then tangents of those that have one. */
static void inputs(Body *f, Forward *w, const Val *x, const Val *t, int from, int to)
{
    bool slice = from == w->form.carries && to == from + w->form.xs;
    for (int k = from; k < to; k++)
        body_input_all(f, w->bodies, x[k], &w->step->types[w->step->inputs[k]], w->in, k);
    for (int k = from; k < to; k++) {
        if (!w->has[k] || graph_failed(f->g)) continue;
        Type tt = body_strong(type_of(x[k])), one = slice ? region_slice(&tt) : tt;
        body_input_all(f, w->bodies, val_none(t[k]) ? gconst(f->g, &tt, 0) : t[k], &one, w->t, k);
    }
}

static int count(const bool *flags, int from, int to)
{
    int n = 0;
    for (int k = from; k < to; k++) n += flags[k];
    return n;
}

/* A carry whose next value has a tangent has one itself. True when some are new. */
static bool spread(Forward *w)
{
    bool more = false;
    for (int k = 0; k < w->form.carries; k++)
        if (!val_none(w->tz[k]) && !w->has[k]) w->has[k] = more = true;
    return more;
}

/* Results from..to of the step, then their tangents; a carry that has one must get one. */
static void outputs(Graph *to, const Forward *w, int first, int end)
{
    for (int r = first; r < end; r++) graph_output(to, w->z[r]);
    for (int r = first; r < end && !graph_failed(to); r++) {
        Type t = body_strong(type_of(w->z[r]));
        if (!val_none(w->tz[r]))
            graph_output(to, w->tz[r]);
        else if (r < w->form.carries && w->has[r])
            graph_output(to, gconst(to, &t, 0));
    }
}

static bool emit(Body *f, const Forward *w)
{
    const Body *step = &f[w->bodies - 1];
    ScanForm s = w->form;
    s.carries += count(w->has, 0, w->form.carries);
    s.xs += count(w->has, w->form.carries, w->form.carries + w->form.xs);
    if (!body_close_all(f, w->bodies)) return false;
    if (!w->test) return region_scan(f->g, step->body, s, step->x, step->n, w->out);
    return region_while(f->g, f->body, step->body, w->n->attr->length, s.carries, f->x, f->n,
                        w->out);
}

static void write(Body *f, Forward *w, Val *z, Val *tz)
{
    Graph *to = f[w->bodies - 1].body;
    int m = w->form.carries, results = w->n->results, i = 0;
    Val go;
    if (w->test && !inline_run(f->body, w->test, w->in[0], &go)) return;
    if (w->test) graph_output(f->body, go);
    outputs(to, w, 0, m);
    outputs(to, w, m, results);
    if (!emit(f, w)) return;
    for (int r = 0; r < m; r++) z[r] = w->out[i++];
    for (int r = 0; r < m; r++) tz[r] = w->has[r] ? w->out[i++] : NONE;
    for (int r = m; r < results; r++) z[r] = w->out[i++];
    for (int r = m; r < results; r++) tz[r] = val_none(w->tz[r]) ? NONE : w->out[i++];
}

/* One attempt; true when it has to be made again with more tangents. */
static bool attempt(Graph *g, Forward *w, const Val *x, const Val *t, Val *z, Val *tz)
{
    Body f[2];
    int m = w->form.carries, e = m + w->form.xs;
    bool more = false;
    if (body_open_all(f, w->bodies, g) && notes_open(w, f)) {
        inputs(f, w, x, t, 0, m);
        if (e > m) inputs(f, w, x, t, m, e);
        inputs(f, w, x, t, e, (int)w->n->n);
        int step = w->bodies - 1;
        if (jvp_run_some(f[step].body, w->step, w->in[step], w->t[step], w->read, w->z, w->tz)) {
            more = spread(w);
            if (!more) write(f, w, z, tz);
        }
    }
    body_drop_all(f, w->bodies);
    return more;
}

void loop_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read, Val *z,
              Val *tz)
{
    Arena a = {0};
    Forward w = loop_of(n);
    w.has = scan_vjp_room(g, &a, n->n, sizeof *w.has);
    w.read = w.has ? scan_vjp_read(g, &a, w.step, w.form.carries, read) : NULL;
    for (int k = 0; w.read && k < (int)n->n; k++)
        w.has[k] = !val_none(t[k]) && (k >= w.form.carries || w.read[k]);
    while (w.read && attempt(g, &w, x, t, z, tz)) {}
    arena_free(&a);
}
