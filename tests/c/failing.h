/* failing.h: programs through transforms, a plan and a run while allocations fail. */
#ifndef FAILING_H
#define FAILING_H

#include "cpu/cpu.h"
#include "graphs.h"
#include "ops/rules.h"

static inline Type pair(void) { return shape(QB_F64, 2); }

/* in and out: arrays of the inputs and outputs. */
static inline void run_plan(const Graph *g, const Array *in, Array *out)
{
    const void *inputs[4 * MOST];
    void *outputs[4 * MOST];
    qb_error err = {0};
    qb_plan *p = plan_compile(g, &cpu_target, NULL, &err);
    must(p != NULL, &err);
    for (uint32_t i = 0; i < g->n_inputs; i++) inputs[i] = in[i].data;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        out[i] = array_new(output_type(g, i));
        outputs[i] = out[i].data;
    }
    must(p->target->run(p, inputs, outputs, &err), &err);
    plan_release(p);
}

/* f by jvp (j), vjp (v) or vmap over 3 examples of every input (b), with all that these take as inputs; NULL and *err when that fails. */
static inline Graph *transformed(const Graph *f, char kind, qb_error *err)
{
    Val x[4 * MOST], t[4 * MOST] = {{0}}, z[4 * MOST], tz[4 * MOST] = {{0}};
    bool mapped[4 * MOST], out[4 * MOST];
    Graph *g = graph_new(err);
    if (!g) return NULL;
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        Type ty = input_type(f, i);
        x[i] = input_of(g, NULL, kind == 'b' ? batched(ty, 3) : ty);
        mapped[i] = true;
    }
    uint32_t n = kind == 'j' ? f->n_inputs : kind == 'v' ? f->n_outputs : 0;
    for (uint32_t i = 0; i < n; i++) {
        Type ty = kind == 'j' ? input_type(f, i) : output_type(f, i);
        t[i] = type_floating(&ty) ? input_of(g, NULL, ty) : NONE;
    }
    bool ok = kind == 'j'   ? jvp_run(g, f, x, t, z, tz)
              : kind == 'v' ? vjp_run(g, f, x, t, NULL, z, tz)
                            : vmap_run(g, f, x, mapped, 3, z, out);
    uint32_t outs = kind == 'v' ? f->n_inputs : f->n_outputs;
    for (uint32_t i = 0; i < outs && ok; i++) {
        Val v = kind == 'b' ? z[i] : tz[i];
        if (!val_none(v)) graph_output(g, v);
    }
    if (graph_freeze(g, err) && ok) return g;
    graph_release(g);
    return NULL;
}

static inline bool compiled_and_run(const Graph *g, qb_error *err)
{
    const void *in[4 * MOST];
    void *out[4 * MOST];
    qb_plan *p = plan_compile(g, &cpu_target, NULL, err);
    if (!p) return false;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        Type t = input_type(g, i);
        double *data = calloc(1, (size_t)type_bytes(&t));
        for (int64_t k = 0; t.dtype == QB_F64 && k < type_size(&t); k++)
            data[k] = 0.1 + (double)(k % 7) * 0.3;
        in[i] = data;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        Type t = output_type(g, i);
        out[i] = malloc((size_t)type_bytes(&t));
    }
    bool ok = p->target->run(p, in, out, err);
    for (uint32_t i = 0; i < g->n_inputs; i++) free((void *)(uintptr_t)in[i]);
    for (uint32_t i = 0; i < g->n_outputs; i++) free(out[i]);
    plan_release(p);
    return ok;
}

static inline bool use(const Graph *f, const char *chain, qb_error *err)
{
    Graph *g = graph_retain((Graph *)(uintptr_t)f);
    for (const char *kind = chain; g && *kind; kind++) {
        Graph *next = transformed(g, *kind, err);
        graph_release(g);
        g = next;
    }
    bool ok = g && compiled_and_run(g, err);
    graph_release(g);
    return ok;
}

/* Each allocation of that fails in turn (beyond the first hundred with growing steps between them). */
static inline void no_failure_leaks(const Graph *f, const char *chain)
{
    int64_t before = qb_test_live_bytes();
    bool done = false;
    for (int64_t n = 0; n < 1000000 && !done; n += 1 + n / 100) {
        qb_error err = {0};
        qb_test_fail_alloc(n);
        done = use(f, chain, &err);
        qb_test_fail_alloc(-1);
        if (!done && !CHECK_EQ_INT(err.code, QB_EMEMORY))
            fprintf(stderr, "    chain %s, allocation %lld: %s\n", chain, (long long)n, err.message);
    }
    CHECK(done);
    CHECK_EQ_INT(qb_test_live_bytes(), before);
}

#endif
