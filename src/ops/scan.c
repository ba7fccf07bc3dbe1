/* scan.c: the counted loop. Under vmap it is one new scan, of which a carry is mapped when its
   first value is or when the body makes it so: the body is written until nothing is added. Forward
   mode is loop_jvp.c, reverse mode scan_vjp.c. */
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
    bool *mapped = region_flags(g, n);
    if (!mapped) return;
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

const Rules scan_rules = {.infer = scan_infer,
                          .jvp_both = loop_jvp,
                          .forward = scan_forward,
                          .backward = scan_vjp_backward,
                          .open = scan_open,
                          .vmap_some = scan_vmap};
