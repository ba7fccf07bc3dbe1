/* while.c: the loop without a count. Forward mode runs on carries and tangents together; the test
   reads the carries alone. Under vmap the loop runs while any example goes on: each example's test
   is a carry, and one that is over keeps its other carries bit for bit.

   Nothing bounds the tape of reverse mode, so it needs max_steps: then the loop is a scan of that
   many conds, each of which runs the body or passes the carries on. */
#include "ops/scan.h"

static bool while_infer(Graph *g, const Node *n, const Type *x, Type *out)
{
    const Graph *test = n->sub[0], *step = n->sub[1];
    int64_t carries = n->attr->i;
    if (!test->frozen || !step->frozen)
        return fail(g, QB_EVALUE, "while: a body is not frozen; call qb_graph_freeze first");
    if (n->attr->length < 0)
        return fail(g, QB_EVALUE, "while: max_steps is %lld; it must be positive, or 0 for none",
                    (long long)n->attr->length);
    if (carries < 0 || carries > (int64_t)n->n || test->n_inputs != n->n || step->n_inputs != n->n)
        return fail(g, QB_EVALUE,
                    "while: %u operands, of which %lld carries; the bodies take %u and %u",
                    (unsigned)n->n, (long long)carries, (unsigned)test->n_inputs,
                    (unsigned)step->n_inputs);
    if (step->n_outputs != (uint32_t)carries || step->n_outputs != n->results)
        return fail(g, QB_EVALUE, "while: the body returns %u values for %lld carries",
                    (unsigned)step->n_outputs, (long long)carries);
    const Type *p = test->n_outputs == 1 ? &test->types[test->outputs[0]] : NULL;
    if (!p || p->dtype != QB_BOOL || p->rank)
        return fail(g, QB_ETYPE, "while: the test returns %s; a bool[] is needed",
                    p ? TYPE_TEXT(p) : "no single value");
    for (uint32_t k = 0; k < n->n; k++)
        for (int b = 0; b < 2; b++) {
            const Type *t = &n->sub[b]->types[n->sub[b]->inputs[k]];
            if (!type_same(t, &x[k]))
                return fail(g, QB_ESHAPE, "while: operand %u is %s, but a body takes %s",
                            (unsigned)k, TYPE_TEXT(&x[k]), TYPE_TEXT(t));
        }
    for (uint32_t r = 0; r < n->results; r++) {
        const Type *in = &step->types[step->inputs[r]], *o = &step->types[step->outputs[r]];
        if (!type_same(in, o))
            return fail(g, in->dtype == o->dtype ? QB_ESHAPE : QB_EDTYPE,
                        "while: carry %u is %s, but the body returns %s", (unsigned)r,
                        TYPE_TEXT(in), TYPE_TEXT(o));
        out[r] = *o;
        out[r].weak &= in->weak;
    }
    return true;
}

/* ---- the test and the step, with the same operands ---- */

typedef struct {
    Body f[2];
} Bodies;

static bool open(Bodies *b, Graph *g)
{
    bool first = body_open(&b->f[0], g);
    return body_open(&b->f[1], g) && first;
}

static void drop(Bodies *b)
{
    for (int i = 0; i < 2; i++) body_drop(&b->f[i]);
}

static void input(Bodies *b, Val x, const Type *t, Val *test, Val *step)
{
    *test = body_input(&b->f[0], x, t);
    *step = body_input(&b->f[1], x, t);
}

static bool emit(Bodies *b, int64_t max_steps, int carries, Val *z)
{
    if (!body_close(&b->f[0]) || !body_close(&b->f[1])) return false;
    return region_while(b->f[0].g, b->f[0].body, b->f[1].body, max_steps, carries, b->f[0].x,
                        b->f[0].n, z);
}

static const Type *input_type(const Node *n, uint32_t k)
{
    return &n->sub[1]->types[n->sub[1]->inputs[k]];
}

/* ---- forward mode ---- */

typedef struct {
    Val *test, *in, *t, *z, *tz, *out;
} Notes;

static bool notes_open(Notes *w, Body *f, const Node *n)
{
    w->test = body_alloc(f, n->n, sizeof(Val));
    w->in = body_alloc(f, n->n, sizeof(Val));
    w->t = body_alloc(f, n->n, sizeof(Val));
    w->z = body_alloc(f, n->results, sizeof(Val));
    w->tz = body_alloc(f, n->results, sizeof(Val));
    w->out = body_alloc(f, 2 * (size_t)n->results, sizeof(Val));
    return !graph_failed(f->g);
}

static void inputs_with_tangents(Bodies *b, Notes *w, const Node *n, const Val *x, const Val *t,
                                 const bool *has, uint32_t from, uint32_t to)
{
    Val ignored;
    for (uint32_t k = from; k < to; k++) input(b, x[k], input_type(n, k), &w->test[k], &w->in[k]);
    for (uint32_t k = from; k < to; k++) {
        Type tt = body_strong(input_type(n, k));
        if (has[k])
            input(b, val_none(t[k]) ? gconst(b->f[0].g, &tt, 0) : t[k], &tt, &ignored, &w->t[k]);
    }
}

static void jvp_emit(Bodies *b, Notes *w, const Node *n, const bool *has, Val *z, Val *tz)
{
    int carries = n->results, i = n->results;
    Val go;
    if (!inline_run(b->f[0].body, n->sub[0], w->test, &go)) return;
    graph_output(b->f[0].body, go);
    for (int r = 0; r < n->results; r++) graph_output(b->f[1].body, w->z[r]);
    for (int r = 0; r < n->results; r++) {
        Type t = body_strong(input_type(n, (uint32_t)r));
        carries += has[r];
        if (has[r])
            graph_output(b->f[1].body, val_none(w->tz[r]) ? gconst(b->f[1].body, &t, 0) : w->tz[r]);
    }
    if (!emit(b, n->attr->length, carries, w->out)) return;
    memcpy(z, w->out, n->results * sizeof *z);
    for (int r = 0; r < n->results; r++) tz[r] = has[r] ? w->out[i++] : NONE;
}

/* One attempt; true when it has to be made again with more tangents. */
static bool jvp_try(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read,
                    bool *has, Val *z, Val *tz)
{
    Bodies b;
    Notes w;
    bool more = false;
    if (open(&b, g) && notes_open(&w, &b.f[0], n)) {
        inputs_with_tangents(&b, &w, n, x, t, has, 0, n->results);
        inputs_with_tangents(&b, &w, n, x, t, has, n->results, n->n);
        if (jvp_run_some(b.f[1].body, n->sub[1], w.in, w.t, read, w.z, w.tz)) {
            for (uint32_t r = 0; r < n->results; r++)
                if (!val_none(w.tz[r]) && !has[r]) has[r] = more = true;
            if (!more) jvp_emit(&b, &w, n, has, z, tz);
        }
    }
    drop(&b);
    return more;
}

static void while_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read, Val *z,
                      Val *tz)
{
    Arena a = {0};
    bool *has = scan_vjp_room(g, &a, n->n, sizeof *has);
    bool *all = has ? scan_vjp_read(g, &a, n->sub[1], n->results, read) : NULL;
    for (uint32_t k = 0; all && k < n->n; k++)
        has[k] = !val_none(t[k]) && (k >= n->results || all[k]);
    while (all && jvp_try(g, n, x, t, all, has, z, tz)) {}
    arena_free(&a);
}

/* ---- vmap ---- */

typedef struct {
    const Node *n;
    const Val *x;
    const bool *given;
    bool *mapped; /* operands; carries become mapped */
    bool each;    /* the test differs between examples */
    int64_t size;
} Batch;

/* Operand k as the loop has it: with a batch axis if it is mapped. */
static Val batch_operand(const Batch *m, uint32_t k)
{
    return m->mapped[k] && !m->given[k] ? vmap_lift(m->x[k], m->size) : m->x[k];
}

static Type batch_type(const Batch *m, uint32_t k)
{
    Type t = *input_type(m->n, k);
    return m->mapped[k] ? region_stack(&t, m->size) : t;
}

static Val lifted(Val v, bool mapped, bool wanted, int64_t size)
{
    return wanted && !mapped ? vmap_lift(v, size) : v;
}

static Val along(Val mask, Val v)
{
    if (val_none(v)) return NONE;
    Type t = *type_of(v);
    int64_t dims[QB_MAX_RANK] = {t.dims[0], 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return gbroadcast(greshape(mask, t.rank, dims), t.rank, t.dims);
}

/* Does any element of a bool [size] hold? */
static Val any(Val mask)
{
    Val most = greduce(OP_max, gcast(mask, QB_F64), (int64_t[]){0}, 1);
    return ggreater(most, gzeros(most));
}

/* The body's results, mapped as the carries are. False when more carries must be mapped first. */
static bool batch_step(Batch *m, Graph *to, const Val *in, Val *outs, bool *om)
{
    bool more = false;
    if (!vmap_run(to, m->n->sub[1], in, m->mapped, m->size, outs, om)) return false;
    for (uint32_t r = 0; r < m->n->results; r++)
        if (om[r] && !m->mapped[r]) m->mapped[r] = more = true;
    for (uint32_t r = 0; r < m->n->results && !more; r++)
        outs[r] = lifted(outs[r], om[r], m->mapped[r], m->size);
    return !more;
}

static bool batch_test(const Batch *m, Graph *to, const Val *in, Val *go, bool *mapped)
{
    return vmap_run(to, m->n->sub[0], in, m->mapped, m->size, go, mapped);
}

/* The examples agree: one test for all. */
static bool emit_shared(Batch *m, Bodies *b, const Val *outs, Val *in, Val *z)
{
    bool mapped;
    Val go;
    if (!batch_test(m, b->f[0].body, in, &go, &mapped)) return false;
    if (mapped) return m->each = true, false;
    graph_output(b->f[0].body, go);
    for (uint32_t r = 0; r < m->n->results; r++) graph_output(b->f[1].body, outs[r]);
    return emit(b, m->n->attr->length, m->n->results, z);
}

/* The first carry is each example's test; the others move only where it holds. */
static bool emit_each(Batch *m, Bodies *b, Val go, Val any_in, Val *outs, const Val *in, Val *z)
{
    bool mapped;
    Graph *to = b->f[1].body;
    Val next;
    graph_output(b->f[0].body, any(any_in));
    for (uint32_t r = 0; r < m->n->results; r++)
        outs[r] = gwhere(along(go, outs[r]), outs[r], in[r]);
    Val *all = body_alloc(&b->f[1], m->n->n, sizeof *all);
    if (!all) return false;
    memcpy(all, in, m->n->n * sizeof *all);
    memcpy(all, outs, m->n->results * sizeof *all);
    if (!batch_test(m, to, all, &next, &mapped)) return false;
    graph_output(to, glogical_and(go, lifted(next, mapped, true, m->size)));
    for (uint32_t r = 0; r < m->n->results; r++) graph_output(to, outs[r]);
    Val *out = body_alloc(&b->f[1], (size_t)m->n->results + 1, sizeof *out);
    if (!out || !emit(b, m->n->attr->length, m->n->results + 1, out)) return false;
    memcpy(z, out + 1, m->n->results * sizeof *z);
    return true;
}

/* One attempt with the carries that are known to be mapped; true: make another one. */
static bool vmap_try(Graph *g, Batch *m, Val *z)
{
    const Node *n = m->n;
    Bodies b;
    bool was = m->each, done = false, known = true, mapped = false;
    Val *test = NULL, *step = NULL, *x = NULL, *outs = NULL, start = NONE, go[2] = {NONE, NONE};
    bool *om = NULL;
    if (open(&b, g)) {
        test = body_alloc(&b.f[0], n->n, sizeof *test);
        step = body_alloc(&b.f[0], n->n, sizeof *step);
        x = body_alloc(&b.f[0], n->n, sizeof *x);
        outs = body_alloc(&b.f[0], n->results, sizeof *outs);
        om = body_alloc(&b.f[0], n->results, sizeof *om);
    }
    if (test && step && x && outs && om) {
        if (m->each) memset(m->mapped, true, n->results);
        for (uint32_t k = 0; k < n->n; k++) x[k] = batch_operand(m, k);
        if (m->each) {
            Type t = type_make(QB_BOOL, 1, &m->size);
            batch_test(m, g, x, &start, &mapped);
            if (!graph_failed(g))
                input(&b, lifted(start, mapped, true, m->size), &t, &go[0], &go[1]);
        }
        for (uint32_t k = 0; k < n->n; k++) {
            Type t = batch_type(m, k);
            input(&b, x[k], &t, &test[k], &step[k]);
        }
        known = batch_step(m, b.f[1].body, step, outs, om);
        if (known)
            done = m->each ? emit_each(m, &b, go[1], go[0], outs, step, z)
                           : emit_shared(m, &b, outs, test, z);
    }
    drop(&b);
    return !done && !graph_failed(g) && (!known || m->each != was);
}

static void while_vmap(Graph *g, const Node *n, const Val *x, const bool *given, int64_t size,
                       Val *z, bool *z_mapped)
{
    Batch m = {n, x, given, mem_zeroed((size_t)n->n + 1, 1), false, size};
    if (!m.mapped) {
        fail(g, QB_EMEMORY, "out of memory for a loop of %u operands", (unsigned)n->n);
        return;
    }
    memcpy(m.mapped, given, n->n);
    while (vmap_try(g, &m, z)) {}
    memcpy(z_mapped, m.mapped, n->results);
    mem_free(m.mapped);
}

/* ---- reverse mode of a bounded loop ---- */

/* One iteration of the scan: cond(test, body, the carries as they are). */
static bool bounded_step(Graph *g, const Node *n, Graph **out)
{
    Body f, skip;
    Val *in = NULL, *z = NULL, go;
    bool ok = body_open(&f, g);
    ok = body_open(&skip, g) && ok;
    if (ok) {
        in = body_alloc(&f, n->n, sizeof *in);
        z = body_alloc(&f, n->results, sizeof *z);
    }
    for (uint32_t k = 0; k < n->n && z && in; k++) {
        in[k] = body_input(&f, NONE, input_type(n, k));
        Val same = body_input(&skip, NONE, input_type(n, k));
        if (k < n->results) graph_output(skip.body, same);
    }
    ok = in && z && body_close(&skip) && inline_run(f.body, n->sub[0], in, &go) &&
         region_cond(f.body, go, n->sub[1], skip.body, in, (int)n->n, z);
    for (uint32_t r = 0; r < n->results && ok; r++) graph_output(f.body, z[r]);
    ok = ok && body_close(&f);
    if (ok) *out = graph_retain(f.body);
    body_drop(&skip);
    body_drop(&f);
    return ok;
}

static struct Kept *while_forward(Graph *g, Arena *a, const Node *n, const Val *x,
                                  const bool *seeded, const bool *wanted, Val *z)
{
    if (!n->attr->length) {
        fail(g, QB_EVALUE,
             "while_loop has no reverse mode without a bound: pass max_steps=n, or use fori_loop "
             "with static bounds");
        return NULL;
    }
    struct Kept *body = arena_zeroed(a, 1, sizeof *body);
    if (!body) return fail(g, QB_EMEMORY, "out of memory for a loop"), NULL;
    if (!bounded_step(g, n, &body->graph)) return NULL;
    ScanForm form = {.length = n->attr->length, .carries = n->results};
    struct Kept *kept = scan_vjp_forward(g, a, body->graph, form, x, seeded, wanted, z);
    if (!kept) return body;
    body->next = kept->next;
    kept->next = body;
    return kept;
}

static void while_open(Graph *g, const Node *n, const Val *x, const bool *seeded,
                       const bool *wanted, Val *z)
{
    Graph *step = scan_vjp_opened(g, n->sub[1], (ScanForm){.carries = n->results}, seeded, wanted);
    if (step) region_while(g, n->sub[0], step, n->attr->length, n->results, x, (int)n->n, z);
    graph_release(step);
}

static void while_backward(Graph *g, struct Kept *kept, const Node *n, const Val *x, const Val *z,
                           const Val *ct, const bool *wanted, Val *out)
{
    (void)n, (void)z, (void)wanted;
    scan_vjp_backward(g, kept, x, ct, out);
}

const Rules while_rules = {.infer = while_infer,
                           .jvp_both = while_jvp,
                           .forward = while_forward,
                           .backward = while_backward,
                           .open = while_open,
                           .vmap_some = while_vmap};
