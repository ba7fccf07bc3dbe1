/* test_region.c: cond, scan, while and functions with rules of their own against the same programs without them: loops unrolled,
   branches selected, functions inlined.

   Programs are drawn: a region whose body holds arithmetic and smaller regions, three deep. Each is
   built twice from one seed, with region nodes and without, then both go through the same drawn
   chain of jvp, vjp and vmap, and run on the same numbers: by the reference evaluator and, with
   regions, as a compiled plan, which must give the reference's bits. */
#include "failing.h"
#include <math.h>

/* ---- drawing ---- */

typedef struct {
    uint64_t state;
    bool flat;    /* without region nodes */
    bool reverse; /* with custom_vjp nodes, which have no forward mode */
} Draw;

static int below(Draw *d, int n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((d->state >> 33) % (uint64_t)n);
}

enum { VALUES = 12 };
typedef struct {
    Val v[VALUES]; /* all f64[2] */
    int n;
} Pool;

static Val any_of(Draw *d, const Pool *p) { return p->v[below(d, p->n)]; }
static void add_to(Pool *p, Val v) { p->v[p->n < VALUES ? p->n++ : VALUES - 1] = v; }

/* Smooth, of moderate size, so that derivatives of any order can be compared. */
static Val arithmetic(Draw *d, const Pool *p)
{
    Val x = any_of(d, p), y = any_of(d, p);
    switch (below(d, 7)) {
    case 0: return gtanh(gadd(x, y));
    case 1: return gmul(gsin(x), y);
    case 2: return gsub(gmul(glike(x, 0.5), x), gmul(glike(x, 0.25), y));
    case 3: return gcos(gmul(x, glike(x, 0.7)));
    case 4: { /* an outer product and a matmul */
        Val a = greshape(x, 2, (int64_t[]){2, 1}), b = greshape(y, 2, (int64_t[]){1, 2});
        Val z = gmatmul(gtanh(gmatmul(a, b)), greshape(y, 2, (int64_t[]){2, 1}));
        return greshape(z, 1, (int64_t[]){2});
    }
    case 5: { /* a sum, seen by every element */
        Val s = gsum(gmul(x, y), (int64_t[]){0}, 1);
        return gadd(gexpand(gtanh(s), x), x);
    }
    default: return gwhere(ggreater(x, y), gsin(x), gmul(y, glike(y, 0.9)));
    }
}

static Val test_of(Draw *d, const Pool *p)
{
    Val s = gsum(gsin(any_of(d, p)), (int64_t[]){0}, 1);
    return ggreater(s, glike(s, below(d, 5) * 0.3 - 0.6));
}

static void fill_body(Draw *d, Pool *p, int depth);

/* A body: inputs of type f64[2], n of them, then `outs` results. */
static Graph *body_of(Draw *d, int n, int outs, int depth, bool test)
{
    Graph *g = start();
    Pool p = {.n = 0};
    for (int i = 0; i < n; i++) add_to(&p, input_of(g, NULL, pair()));
    fill_body(d, &p, depth);
    if (test) graph_output(g, test_of(d, &p));
    for (int i = 0; i < outs && !test; i++)
        graph_output(g, i + 1 == outs && below(d, 4) == 0 ? any_of(d, &p) : arithmetic(d, &p));
    return finish(g);
}

/* ---- regions, and the same without ---- */

static void select_each(Val go, const Val *yes, const Val *no, int n, Val *z)
{
    for (int i = 0; i < n; i++) z[i] = gwhere(gexpand(go, yes[i]), yes[i], no[i]);
}

static void a_cond(Draw *d, Pool *p, int depth)
{
    Graph *g = p->v[0].graph;
    int outs = 1 + below(d, 2);
    Val x[3], z[2], yes[2], no[2], go = test_of(d, p);
    for (int i = 0; i < 3; i++) x[i] = any_of(d, p);
    Graph *a = body_of(d, 3, outs, depth - 1, false), *b = body_of(d, 3, outs, depth - 1, false);
    if (!d->flat) {
        region_cond(g, go, a, b, x, 3, z);
    } else {
        inline_run(g, a, x, yes);
        inline_run(g, b, x, no);
        select_each(go, yes, no, outs, z);
    }
    for (int i = 0; i < outs && !graph_failed(g); i++) add_to(p, z[i]);
    graph_release(a);
    graph_release(b);
}

static Val stacked(const Val *slices, int n)
{
    Val rows[8];
    for (int i = 0; i < n; i++) rows[i] = greshape(slices[i], 2, (int64_t[]){1, 2});
    return gconcat(rows[0].graph, rows, n, 0);
}

/* Two carries, one array of slices, one capture, one stacked result. */
static void a_scan(Draw *d, Pool *p, int depth)
{
    Graph *g = p->v[0].graph;
    int length = 1 + below(d, 4);
    bool reverse = below(d, 2);
    Val slices[8], ys[8], x[4], z[3];
    for (int i = 0; i < length; i++) slices[i] = any_of(d, p);
    x[0] = any_of(d, p), x[1] = any_of(d, p), x[3] = any_of(d, p);
    Graph *body = body_of(d, 4, 3, depth - 1, false);
    if (!d->flat) {
        x[2] = stacked(slices, length);
        region_scan(g, body, (ScanForm){length, reverse, 2, 1}, x, 4, z);
    } else {
        for (int k = 0; k < length; k++) {
            int i = reverse ? length - 1 - k : k;
            x[2] = slices[i];
            inline_run(g, body, x, z);
            x[0] = z[0], x[1] = z[1], ys[i] = z[2];
        }
        z[2] = stacked(ys, length);
    }
    if (!graph_failed(g)) {
        add_to(p, z[0]);
        add_to(p, z[1]);
        add_to(p, gsum(z[2], (int64_t[]){0}, 1));
    }
    graph_release(body);
}

/* Carries and a capture alone, and enough iterations that a plan binds the body (bound.c). */
static void a_long_scan(Draw *d, Pool *p, int depth)
{
    Graph *g = p->v[0].graph;
    int length = 7 + below(d, 4);
    Val x[3], z[2];
    for (int i = 0; i < 3; i++) x[i] = any_of(d, p);
    Graph *body = body_of(d, 3, 2, depth - 1, false);
    if (!d->flat) {
        region_scan(g, body, (ScanForm){length, false, 2, 0}, x, 3, z);
    } else {
        for (int k = 0; k < length; k++) {
            inline_run(g, body, x, z);
            x[0] = z[0], x[1] = z[1];
        }
    }
    for (int i = 0; i < 2 && !graph_failed(g); i++) add_to(p, z[i]);
    graph_release(body);
}

/* At most three iterations. */
static void a_while(Draw *d, Pool *p, int depth)
{
    Graph *g = p->v[0].graph;
    Val x[3], z[2], next[2], go;
    for (int i = 0; i < 3; i++) x[i] = any_of(d, p);
    Graph *test = body_of(d, 3, 0, 0, true), *body = body_of(d, 3, 2, depth - 1, false);
    if (!d->flat) {
        region_while(g, test, body, 3, 2, x, 3, z);
    } else {
        z[0] = x[0], z[1] = x[1];
        Val on = gconst(g, &(Type){.dtype = QB_BOOL}, 1);
        for (int k = 0; k < 3; k++) {
            x[0] = z[0], x[1] = z[1];
            inline_run(g, test, x, &go);
            on = glogical_and(on, go);
            inline_run(g, body, x, next);
            select_each(on, next, z, 2, z);
        }
    }
    for (int i = 0; i < 2 && !graph_failed(g); i++) add_to(p, z[i]);
    graph_release(test);
    graph_release(body);
}

/* A rule that says what the body itself would: (x, t) -> (z, tz). */
static Graph *jvp_rule(const Graph *body)
{
    Graph *g = start();
    Val x[8], t[8], z[4], tz[4];
    for (uint32_t k = 0; k < body->n_inputs; k++) x[k] = input_of(g, NULL, pair());
    for (uint32_t k = 0; k < body->n_inputs; k++) t[k] = input_of(g, NULL, pair());
    jvp_run(g, body, x, t, z, tz);
    for (uint32_t r = 0; r < body->n_outputs; r++) graph_output(g, z[r]);
    for (uint32_t r = 0; r < body->n_outputs; r++)
        graph_output(g, val_none(tz[r]) ? gzeros(z[r]) : tz[r]);
    return finish(g);
}

/* Residuals: the operands, and one value more. */
static Graph *forward_rule(const Graph *body)
{
    Graph *g = start();
    Val x[8], z[4];
    for (uint32_t k = 0; k < body->n_inputs; k++) x[k] = input_of(g, NULL, pair());
    inline_run(g, body, x, z);
    for (uint32_t r = 0; r < body->n_outputs; r++) graph_output(g, z[r]);
    for (uint32_t k = 0; k < body->n_inputs; k++) graph_output(g, x[k]);
    graph_output(g, gsin(x[0]));
    return finish(g);
}

static Graph *backward_rule(const Graph *body)
{
    Graph *g = start();
    Val x[8], ct[4], z[4], grads[8];
    for (uint32_t k = 0; k < body->n_inputs; k++) x[k] = input_of(g, NULL, pair());
    input_of(g, NULL, pair());
    for (uint32_t r = 0; r < body->n_outputs; r++) ct[r] = input_of(g, NULL, pair());
    vjp_run(g, body, x, ct, NULL, z, grads);
    for (uint32_t k = 0; k < body->n_inputs; k++)
        graph_output(g, val_none(grads[k]) ? gzeros(x[k]) : grads[k]);
    return finish(g);
}

static void a_custom(Draw *d, Pool *p, int depth, Op op)
{
    Graph *g = p->v[0].graph;
    int outs = 1 + below(d, 2);
    bool reverse = d->reverse;
    Val x[3], z[2];
    for (int i = 0; i < 3; i++) x[i] = any_of(d, p);
    if (op == OP_custom_jvp) d->reverse = false; /* its rule is the body in forward mode */
    Graph *body = body_of(d, 3, outs, depth - 1, false), *rules[4] = {body, NULL};
    d->reverse = reverse;
    if (op == OP_custom_jvp) rules[1] = jvp_rule(body);
    if (op == OP_custom_vjp) rules[1] = forward_rule(body), rules[2] = backward_rule(body);
    if (op == OP_custom_jvp) CHECK(linear_rule(g, rules[1], 3));
    if (!d->flat)
        custom_emit(g, op, "drawn", x, 3, rules, z);
    else
        inline_run(g, body, x, z);
    for (int i = 0; i < outs && !graph_failed(g); i++) add_to(p, z[i]);
    for (int i = 0; i < 3; i++) graph_release(rules[i]);
}

static void fill_body(Draw *d, Pool *p, int depth)
{
    for (int i = 1 + below(d, 3); i > 0; i--) add_to(p, arithmetic(d, p));
    if (depth > 0) {
        int kind = below(d, 7);
        if (kind == 3) a_custom(d, p, depth, OP_checkpoint);
        if (kind == 4) a_custom(d, p, depth, OP_custom_jvp);
        if (kind == 5) a_custom(d, p, depth, d->reverse ? OP_custom_vjp : OP_checkpoint);
        if (kind == 0) a_cond(d, p, depth);
        if (kind == 1) a_scan(d, p, depth);
        if (kind == 2) a_while(d, p, depth);
        if (kind == 6) a_long_scan(d, p, depth);
    }
}

static Graph *program(uint64_t seed, bool flat, bool reverse, int depth)
{
    Draw d = {seed * 0x9e3779b97f4a7c15u + 12345, flat, reverse};
    Graph *g = start();
    Pool p = {.n = 0};
    for (int i = 0; i < 2; i++) add_to(&p, input_of(g, NULL, pair()));
    fill_body(&d, &p, depth);
    graph_output(g, p.v[p.n - 1]);
    return finish(g);
}

/* ---- chains of transforms ---- */

/* As vmap_of, but every output is mapped: a region may call a result mapped that happens not to
   depend on a mapped input. */
static Graph *vmap_all(const Graph *f, const bool *mapped, int64_t size)
{
    Graph *g = start();
    Val x[4 * MOST], z[4 * MOST];
    bool out[4 * MOST];
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        Type t = input_type(f, i);
        x[i] = input_of(g, NULL, mapped[i] ? batched(t, size) : t);
    }
    vmap_run(g, f, x, mapped, size, z, out);
    for (uint32_t i = 0; i < f->n_outputs && !graph_failed(g); i++)
        graph_output(g, out[i] ? z[i] : vmap_lift(z[i], size));
    return finish(g);
}

static Graph *chained(Graph *g, uint64_t seed, bool reverse, int *length)
{
    Draw d = {seed * 0xda942042e4dd58b5u + 99, false, reverse};
    *length = below(&d, 4);
    for (int i = 0; i < *length; i++) {
        bool mapped[4 * MOST];
        int kind = reverse ? 1 + below(&d, 2) : below(&d, 3);
        reverse &= kind != 1; /* a reverse rule has taken the place of the function */
        uint32_t some = (uint32_t)below(&d, 3);
        for (uint32_t k = 0; k < g->n_inputs; k++) mapped[k] = some == 2 || k % 2 == some;
        Graph *next = kind == 0 ? jvp_of(g) : kind == 1 ? vjp_of(g) : vmap_all(g, mapped, 3);
        graph_release(g);
        g = next;
    }
    return g;
}

/* ---- comparing ---- */

static bool near(Array a, Array b, double tolerance)
{
    for (int64_t i = 0; i < type_size(&a.type); i++) {
        double x = array_get(a, i), y = array_get(b, i);
        if (!(fabs(x - y) <= tolerance * (1 + fabs(x))) && !(isnan(x) && isnan(y))) return false;
    }
    return true;
}

static bool same_text(const Graph *g)
{
    qb_error err = {0};
    Text a = {0}, b = {0};
    print_graph(&a, g);
    char *text = text_take(&a, &err);
    Graph *again = parse_graph(text, &err);
    if (!again) return fprintf(stderr, "    %s\n%s", err.message, text), false;
    print_graph(&b, again);
    char *other = text_take(&b, &err);
    bool same = strcmp(text, other) == 0;
    mem_free(text);
    mem_free(other);
    graph_release(again);
    return same;
}

static bool agree(uint64_t seed, int depth)
{
    int steps;
    qb_error err = {0};
    bool reverse = seed % 4 == 0;
    Graph *with = chained(program(seed, false, reverse, depth), seed, reverse, &steps),
          *flat = chained(program(seed, true, reverse, depth), seed, reverse, &steps);
    Array in[4 * MOST], a[4 * MOST], b[4 * MOST], c[4 * MOST];
    uint64_t s = seed;
    bool ok = CHECK(with->n_inputs == flat->n_inputs && with->n_outputs == flat->n_outputs) &&
              CHECK(check_graph(with, &err)) && CHECK(same_text(with));
    if (ok) {
        for (uint32_t i = 0; i < with->n_inputs; i++)
            in[i] = array_random(input_type(with, i), -1, 1, &s);
        run(with, in, a);
        run(flat, in, b);
        run_plan(with, in, c);
        for (uint32_t i = 0; i < with->n_outputs; i++) {
            if (!CHECK(near(a[i], b[i], 1e-11))) {
                ok = false;
                for (int64_t q = 0; q < type_size(&a[i].type); q++)
                    fprintf(stderr, "    %u[%d] %.17g %.17g\n", i, (int)q, array_get(a[i], q),
                            array_get(b[i], q));
            }
            ok &= CHECK(memcmp(a[i].data, c[i].data, (size_t)type_bytes(&a[i].type)) == 0 ||
                        near(a[i], c[i], 0));
        }
        arrays_drop(in, (int)with->n_inputs);
        arrays_drop(a, (int)with->n_outputs);
        arrays_drop(b, (int)with->n_outputs);
        arrays_drop(c, (int)with->n_outputs);
    }
    if (!ok)
        fprintf(stderr, "    seed %llu depth %d, %d transforms %s\n", (unsigned long long)seed,
                depth, steps, err.message);
    graph_release(with);
    graph_release(flat);
    return ok;
}

static void test_drawn_programs_agree_with_their_unrolled_form(void)
{
    uint64_t first, last;
    test_seeds(300, &first, &last);
    for (uint64_t seed = first; seed <= last; seed++)
        if (!agree(seed, 1 + (int)(seed % 3)) && test_failures > 5) return;
}

static void test_no_failed_allocation_leaks_or_crashes(void)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        Graph *f = program(seed, false, false, 2);
        no_failure_leaks(f, (const char *[]){"j", "v", "b"}[seed % 3]);
        graph_release(f);
    }
}

int main(void)
{
    RUN(test_no_failed_allocation_leaks_or_crashes);
    RUN(test_drawn_programs_agree_with_their_unrolled_form);
    return test_report();
}
