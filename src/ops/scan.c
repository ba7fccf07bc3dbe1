/* scan.c: the counted loop. Forward mode and vmap write one new scan, whose carries are those of
   the old one and whatever grows from them: a carry has a tangent, or is mapped, when its first
   value is or when the body makes it so. Which ones that are is found by writing the body until
   nothing is added. Reverse mode is scan_vjp.c. */
#include "ops/scan.h"

static bool scan_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Graph *b = n->sub[0];
    ScanForm s = region_form_of(n);
    if (!b->frozen)
        return fail(g, QB_EVALUE, "scan: the body is not frozen; call qb_graph_freeze first");
    if (s.length < 1)
        return fail(g, QB_EVALUE, "scan: length %lld; it must be at least 1", (long long)s.length);
    if (s.carries < 0 || s.xs < 0 || (int64_t)s.carries + s.xs > (int64_t)n->n ||
        b->n_inputs != n->n)
        return fail(g, QB_EVALUE,
                    "scan: %u operands, of which %d carries and %d xs; the body takes %u",
                    (unsigned)n->n, s.carries, s.xs, (unsigned)b->n_inputs);
    if (b->n_outputs < (uint32_t)s.carries || b->n_outputs != n->results)
        return fail(g, QB_EVALUE, "scan: the body returns %u values for %d carries",
                    (unsigned)b->n_outputs, s.carries);
    for (int k = 0; k < (int)n->n; k++) {
        const Type *in = &b->types[b->inputs[k]];
        bool slice = k >= s.carries && k < s.carries + s.xs;
        if (slice && (x[k].rank < 1 || x[k].dims[0] != s.length))
            return fail(g, QB_ESHAPE, "scan: xs %d is %s; its first axis must have the length %lld",
                        k - s.carries, TYPE_TEXT(&x[k]), (long long)s.length);
        Type t = slice ? region_slice(&x[k]) : x[k];
        if (!type_same(in, &t))
            return fail(g, QB_ESHAPE, "scan: operand %d gives the body %s, but it takes %s", k,
                        TYPE_TEXT(&t), TYPE_TEXT(in));
    }
    for (int r = 0; r < n->results; r++) {
        const Type *o = &b->types[b->outputs[r]];
        out[r] = r < s.carries ? *o : region_stack(o, s.length);
        if (r >= s.carries) {
            out[r].weak = 0;
            continue;
        }
        const Type *in = &b->types[b->inputs[r]];
        if (!type_same(in, o))
            return fail(g, in->dtype == o->dtype ? QB_ESHAPE : QB_EDTYPE,
                        "scan: carry %d is %s, but the body returns %s", r, TYPE_TEXT(in),
                        TYPE_TEXT(o));
        out[r].weak &= in->weak;
    }
    return true;
}

/* ---- forward mode ---- */

typedef struct {
    Val *in, *t, *z, *tz, *out;
} Notes;

static bool notes_open(Notes *w, Body *f, const Node *n)
{
    w->in = body_alloc(f, n->n, sizeof(Val));
    w->t = body_alloc(f, n->n, sizeof(Val));
    w->z = body_alloc(f, n->results, sizeof(Val));
    w->tz = body_alloc(f, n->results, sizeof(Val));
    w->out = body_alloc(f, 2 * (size_t)n->results, sizeof(Val));
    return !graph_failed(f->g);
}

/* Inputs from..to of the body, then tangents of those that have one. */
static void inputs_with_tangents(Body *f, Notes *w, const Node *n, const Val *x, const Val *t,
                                 const bool *has, int from, int to, bool slice)
{
    for (int k = from; k < to; k++)
        w->in[k] = body_input(f, x[k], &n->sub[0]->types[n->sub[0]->inputs[k]]);
    for (int k = from; k < to; k++) {
        if (!has[k] || graph_failed(f->g)) continue;
        Type tt = body_strong(type_of(x[k])), one = slice ? region_slice(&tt) : tt;
        w->t[k] = body_input(f, val_none(t[k]) ? gconst(f->g, &tt, 0) : t[k], &one);
    }
}

static int count(const bool *flags, int from, int to)
{
    int n = 0;
    for (int k = from; k < to; k++) n += flags[k];
    return n;
}

/* A carry whose next value has a tangent has one itself. True when some are new. */
static bool spread(const ScanForm *s, const Val *tz, bool *has)
{
    bool more = false;
    for (int k = 0; k < s->carries; k++)
        if (!val_none(tz[k]) && !has[k]) has[k] = more = true;
    return more;
}

static void jvp_outputs(Body *f, const Notes *w, const Node *n, const bool *has, int from, int to)
{
    for (int r = from; r < to; r++) graph_output(f->body, w->z[r]);
    for (int r = from; r < to; r++) {
        Type t = r < (int)n->attr->i ? body_strong(type_of(w->z[r])) : (Type){0};
        if (!val_none(w->tz[r]))
            graph_output(f->body, w->tz[r]);
        else if (r < (int)n->attr->i && has[r])
            graph_output(f->body, gconst(f->body, &t, 0));
    }
}

static void jvp_emit(Body *f, Notes *w, const Node *n, const bool *has, Val *z, Val *tz)
{
    ScanForm s = region_form_of(n);
    int m = s.carries, results = n->results, i = 0;
    jvp_outputs(f, w, n, has, 0, m);
    jvp_outputs(f, w, n, has, m, results);
    s.carries += count(has, 0, m);
    s.xs += count(has, m, m + s.xs);
    if (!body_close(f) || !region_scan(f->g, f->body, s, f->x, f->n, w->out)) return;
    for (int r = 0; r < m; r++) z[r] = w->out[i++];
    for (int r = 0; r < m; r++) tz[r] = has[r] ? w->out[i++] : NONE;
    for (int r = m; r < results; r++) z[r] = w->out[i++];
    for (int r = m; r < results; r++) tz[r] = val_none(w->tz[r]) ? NONE : w->out[i++];
}

/* One attempt; true when it has to be made again with more tangents. */
static bool jvp_try(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read,
                    bool *has, Val *z, Val *tz)
{
    Body f;
    Notes w;
    ScanForm s = region_form_of(n);
    int m = s.carries, e = m + s.xs;
    bool more = false;
    if (body_open(&f, g) && notes_open(&w, &f, n)) {
        inputs_with_tangents(&f, &w, n, x, t, has, 0, m, false);
        inputs_with_tangents(&f, &w, n, x, t, has, m, e, true);
        inputs_with_tangents(&f, &w, n, x, t, has, e, (int)n->n, false);
        if (jvp_run_some(f.body, n->sub[0], w.in, w.t, read, w.z, w.tz)) {
            more = spread(&s, w.tz, has);
            if (!more) jvp_emit(&f, &w, n, has, z, tz);
        }
    }
    body_drop(&f);
    return more;
}

static void scan_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read, Val *z,
                     Val *tz)
{
    Arena a = {0};
    bool *has = scan_vjp_room(g, &a, n->n, sizeof *has);
    bool *all = has ? scan_vjp_read(g, &a, n->sub[0], (int)n->attr->i, read) : NULL;
    for (uint32_t k = 0; all && k < n->n; k++)
        has[k] = !val_none(t[k]) && ((int64_t)k >= n->attr->i || all[k]);
    while (all && jvp_try(g, n, x, t, all, has, z, tz)) {}
    arena_free(&a);
}

/* ---- vmap: xs and stacked results have the batch axis second, so that an iteration's slice has it
   first ---- */

static void vmap_inputs(Body *f, Val *in, const Node *n, const Val *x, const bool *given,
                        const bool *mapped, int64_t size)
{
    ScanForm s = region_form_of(n);
    for (int k = 0; k < (int)n->n; k++) {
        Type t = n->sub[0]->types[n->sub[0]->inputs[k]];
        bool slice = k >= s.carries && k < s.carries + s.xs;
        Val v = x[k];
        if (mapped[k]) t = region_stack(&t, size);
        if (mapped[k] && !given[k]) v = vmap_lift(v, size);
        if (mapped[k] && slice) v = gmove_axis(v, 0, 1);
        in[k] = body_input(f, v, &t);
    }
}

static void vmap_emit(Body *f, const Node *n, Val *outs, const bool *om, const bool *mapped,
                      int64_t size, Val *z, bool *z_mapped)
{
    ScanForm s = region_form_of(n);
    for (int r = 0; r < n->results; r++) {
        z_mapped[r] = om[r] || (r < s.carries && mapped[r]);
        graph_output(f->body, z_mapped[r] && !om[r] ? vmap_lift(outs[r], size) : outs[r]);
    }
    if (!body_close(f) || !region_scan(f->g, f->body, s, f->x, f->n, z)) return;
    for (int r = s.carries; r < n->results; r++)
        if (z_mapped[r]) z[r] = gmove_axis(z[r], 1, 0);
}

static bool vmap_try(Graph *g, const Node *n, const Val *x, const bool *given, bool *mapped,
                     int64_t size, Val *z, bool *z_mapped)
{
    Body f;
    bool more = false;
    Val *in = NULL, *outs = NULL;
    bool *om = NULL;
    if (body_open(&f, g)) {
        in = body_alloc(&f, n->n, sizeof *in);
        outs = body_alloc(&f, n->results, sizeof *outs);
        om = body_alloc(&f, n->results, sizeof *om);
    }
    if (in && outs && om) {
        vmap_inputs(&f, in, n, x, given, mapped, size);
        if (vmap_run(f.body, n->sub[0], in, mapped, size, outs, om)) {
            for (int k = 0; k < (int)n->attr->i; k++)
                if (om[k] && !mapped[k]) mapped[k] = more = true;
            if (!more) vmap_emit(&f, n, outs, om, mapped, size, z, z_mapped);
        }
    }
    body_drop(&f);
    return more;
}

static void scan_vmap(Graph *g, const Node *n, const Val *x, const bool *given, int64_t size,
                      Val *z, bool *z_mapped)
{
    bool *mapped = mem_zeroed((size_t)n->n + 1, sizeof *mapped);
    if (!mapped) {
        fail(g, QB_EMEMORY, "out of memory for a loop of %u operands", (unsigned)n->n);
        return;
    }
    memcpy(mapped, given, n->n * sizeof *mapped);
    while (vmap_try(g, n, x, given, mapped, size, z, z_mapped)) {}
    mem_free(mapped);
}

/* ---- reverse mode ---- */

static struct Kept *scan_forward(Graph *g, Arena *a, const Node *n, const Val *x,
                                 const bool *seeded, const bool *wanted, Val *z)
{
    return scan_vjp_forward(g, a, n->sub[0], region_form_of(n), x, seeded, wanted, z);
}

static void scan_open(Graph *g, const Node *n, const Val *x, const bool *seeded, const bool *wanted,
                      Val *z)
{
    ScanForm form = region_form_of(n);
    Graph *body = scan_vjp_opened(g, n->sub[0], form, seeded, wanted);
    if (body) region_scan(g, body, form, x, (int)n->n, z);
    graph_release(body);
}

static void scan_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x, const Val *z,
                          const Val *ct, const bool *wanted, Val *out)
{
    (void)n, (void)z, (void)wanted;
    scan_vjp_backward(g, kept, x, ct, out);
}

const Rules scan_rules = {.infer = scan_infer,
                          .jvp_both = scan_jvp,
                          .forward = scan_forward,
                          .backward = scan_backward,
                          .open = scan_open,
                          .vmap_some = scan_vmap};
