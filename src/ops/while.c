/* while.c: the loop without a count. Forward mode is loop_jvp.c. Under vmap the loop runs while any
   example goes on: each example's test is a carry, and one that is over keeps its other carries bit
   for bit.

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

static const Type *input_type(const Node *n, uint32_t k)
{
    return &n->sub[1]->types[n->sub[1]->inputs[k]];
}

/* ---- vmap ---- */

typedef struct {
    const Node *n;
    const Val *given; /* operands */
    const bool *given_mapped;
    bool *mapped; /* operands of the new loop; carries become mapped */
    bool each;    /* the test differs between examples */
    int64_t size;
    Val *x, *in[2]; /* operands of the new loop, but for go; inputs of the test and of the step */
    Val go[2];      /* where each: the input of both that says which examples go on */
    Val *outs;      /* of the step */
} Batch;

static bool notes_open(Batch *m, Body *f)
{
    m->x = body_alloc(f, m->n->n, sizeof(Val));
    for (int i = 0; i < 2; i++) m->in[i] = body_alloc(f, m->n->n, sizeof(Val));
    m->outs = body_alloc(f, m->n->results, sizeof(Val));
    return !graph_failed(f->g);
}

static Val lifted(Val v, bool mapped, bool wanted, int64_t size)
{
    return wanted && !mapped ? vmap_lift(v, size) : v;
}

static bool batch_test(const Batch *m, Graph *to, const Val *in, Val *go, bool *mapped)
{
    return vmap_run(to, m->n->sub[0], in, m->mapped, m->size, go, mapped);
}

static void batch_inputs(Batch *m, Body *f)
{
    Graph *g = f->g;
    if (m->each) memset(m->mapped, true, m->n->results);
    for (uint32_t k = 0; k < m->n->n; k++)
        m->x[k] = lifted(m->given[k], m->given_mapped[k], m->mapped[k], m->size);
    if (m->each) {
        bool mapped;
        Val start, *const at[2] = {&m->go[0], &m->go[1]};
        Type t = type_make(QB_BOOL, 1, &m->size);
        if (!batch_test(m, g, m->x, &start, &mapped)) return;
        body_input_all(f, 2, lifted(start, mapped, true, m->size), &t, at, 0);
    }
    for (uint32_t k = 0; k < m->n->n; k++) {
        Type t = *input_type(m->n, k);
        if (m->mapped[k]) t = region_stack(&t, m->size);
        body_input_all(f, 2, m->x[k], &t, m->in, (int)k);
    }
}

/* What the step reads. Where it runs for examples that are over, and there may be reverse mode,
   they enter cut off. */
static void step_reads(const Batch *m, Val *x, bool *mapped)
{
    memcpy(x, m->in[1], m->n->n * sizeof *x);
    memcpy(mapped, m->mapped, m->n->n * sizeof *mapped);
    for (uint32_t k = 0; k < m->n->n && m->each && m->n->attr->length; k++) {
        if (!type_floating(input_type(m->n, k))) continue;
        x[k] = examples_enter(m->go[1], lifted(x[k], mapped[k], true, m->size), true);
        mapped[k] = true;
    }
}

/* The step's results, mapped as the carries are. False when more carries must be mapped first. */
static bool batch_step(Batch *m, Body *f)
{
    uint32_t results = m->n->results;
    bool more = false, *mapped = body_alloc(f, m->n->n, 1), *om = body_alloc(f, results, 1);
    Val *x = body_alloc(f, m->n->n, sizeof *x);
    if (!mapped || !om || !x) return false;
    step_reads(m, x, mapped);
    if (!vmap_run(f->body, m->n->sub[1], x, mapped, m->size, m->outs, om)) return false;
    for (uint32_t r = 0; r < results; r++)
        if (om[r] && !m->mapped[r]) m->mapped[r] = more = true;
    for (uint32_t r = 0; r < results && !more; r++)
        m->outs[r] = lifted(m->outs[r], om[r], m->mapped[r], m->size);
    return !more;
}

static bool emit(const Batch *m, Body *f, int carries, Val *z)
{
    return body_close_all(f, 2) &&
           region_while(f->g, f[0].body, f[1].body, m->n->attr->length, carries, f->x, f->n, z);
}

/* The examples agree: one test for all. */
static bool emit_shared(Batch *m, Body *f, Val *z)
{
    Val go;
    if (!batch_test(m, f[0].body, m->in[0], &go, &m->each) || m->each) return false;
    graph_output(f[0].body, go);
    for (uint32_t r = 0; r < m->n->results; r++) graph_output(f[1].body, m->outs[r]);
    return emit(m, f, m->n->results, z);
}

/* Does any element of a bool [size] hold? */
static Val any(Val mask)
{
    Val most = greduce(OP_max, gcast(mask, QB_F64), (int64_t[]){0}, 1);
    return ggreater(most, gzeros(most));
}

/* The first carry is each example's test; the others move only where it holds. */
static bool emit_each(Batch *m, Body *f, Val *z)
{
    bool mapped;
    Graph *to = f[1].body;
    uint32_t results = m->n->results;
    Val go = m->go[1], next;
    Val *all = body_alloc(f, m->n->n, sizeof *all), *out = body_alloc(f, results + 1u, sizeof *out);
    if (!all || !out) return false;
    graph_output(f[0].body, any(m->go[0]));
    memcpy(all, m->in[1], m->n->n * sizeof *all);
    for (uint32_t r = 0; r < results; r++) all[r] = examples_select(go, m->outs[r], all[r]);
    if (!batch_test(m, to, all, &next, &mapped)) return false;
    graph_output(to, glogical_and(go, lifted(next, mapped, true, m->size)));
    for (uint32_t r = 0; r < results; r++) graph_output(to, all[r]);
    if (!emit(m, f, (int)results + 1, out)) return false;
    memcpy(z, out + 1, results * sizeof *z);
    return true;
}

/* One attempt with the carries that are known to be mapped; true: make another one. */
static bool attempt(Graph *g, Batch *m, Val *z)
{
    Body f[2];
    bool was = m->each, done = false, known = true;
    if (body_open_all(f, 2, g) && notes_open(m, f)) {
        batch_inputs(m, f);
        known = batch_step(m, &f[1]);
        if (known) done = m->each ? emit_each(m, f, z) : emit_shared(m, f, z);
    }
    body_drop_all(f, 2);
    return !done && !graph_failed(g) && (!known || m->each != was);
}

static void while_vmap(Graph *g, const Node *n, const Val *x, const bool *mapped, int64_t size,
                       Val *z, bool *z_mapped)
{
    Batch m = {n, x, mapped, region_flags(g, n), .size = size};
    if (!m.mapped) return;
    memcpy(m.mapped, mapped, n->n);
    while (attempt(g, &m, z)) {}
    memcpy(z_mapped, m.mapped, n->results);
    mem_free(m.mapped);
}

/* ---- reverse mode of a bounded loop ---- */

/* One iteration of the scan: cond(test, body, the carries as they are). */
static bool bounded_step(Graph *g, const Node *n, Graph **out)
{
    Body f[2]; /* the iteration; what is done where the test fails */
    Val *in[2] = {NULL}, *z = NULL, go;
    bool ok = body_open_all(f, 2, g);
    for (int i = 0; i < 2 && ok; i++) ok = (in[i] = body_alloc(f, n->n, sizeof(Val))) != NULL;
    ok = ok && (z = body_alloc(f, n->results, sizeof *z)) != NULL;
    for (uint32_t k = 0; k < n->n && ok; k++)
        body_input_all(f, 2, NONE, input_type(n, k), in, (int)k);
    for (uint32_t r = 0; r < n->results && ok; r++) graph_output(f[1].body, in[1][r]);
    ok = ok && body_close(&f[1]) && inline_run(f->body, n->sub[0], in[0], &go) &&
         region_cond(f->body, go, n->sub[1], f[1].body, in[0], (int)n->n, z);
    for (uint32_t r = 0; r < n->results && ok; r++) graph_output(f->body, z[r]);
    ok = ok && body_close(f);
    if (ok) *out = graph_retain(f->body);
    body_drop_all(f, 2);
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

const Rules while_rules = {.infer = while_infer,
                           .jvp_both = loop_jvp,
                           .forward = while_forward,
                           .backward = scan_vjp_backward,
                           .open = while_open,
                           .vmap_some = while_vmap};
