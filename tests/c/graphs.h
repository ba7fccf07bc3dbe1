/* graphs.h: what the tests of transforms share: programs as graphs, run by the reference evaluator
   (value.c), their derivatives and batches as graphs again, and arrays of the inputs' types.

   Everything here ends the program on a failure of the library: a test that cannot build its graph
   has nothing to compare. */
#ifndef QUABLA_TEST_GRAPHS_H
#define QUABLA_TEST_GRAPHS_H

#include "test.h"
#include "transform/transform.h"
#include <stdlib.h>

enum { MOST = 8 }; /* inputs, and outputs, of a test program */

static inline void must(bool ok, const qb_error *err)
{
    if (ok) return;
    fprintf(stderr, "%s: %s\n", test_name, err->message);
    exit(1);
}

static inline Graph *start(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    must(g, &err);
    return g;
}

static inline Graph *finish(Graph *g)
{
    qb_error err = {0};
    must(graph_freeze(g, &err), &err);
    return g;
}

/* f64[2,3] is shape(QB_F64, 2, 3), f64[] is shape(QB_F64). */
#define shape(...) shape_list((int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}))
static inline Type shape_list(const int64_t *list, size_t bytes)
{
    return type_make((int)list[0], (int)(bytes / sizeof *list) - 1, list + 1);
}

/* ---- arrays ---- */

typedef struct {
    Type type;
    void *data;
} Array;

static inline Array array_new(Type t)
{
    Array a = {t, calloc(1, (size_t)type_bytes(&t) + 1)};
    if (!a.data) exit(1);
    return a;
}

static inline void arrays_drop(Array *a, int n)
{
    for (int i = 0; i < n; i++) free(a[i].data);
}

static inline double array_get(Array a, int64_t i)
{
    if (a.type.dtype == QB_F64) return ((double *)a.data)[i];
    if (a.type.dtype == QB_F32) return (double)((float *)a.data)[i];
    return ((unsigned char *)a.data)[i];
}

static inline void array_set(Array a, int64_t i, double v)
{
    if (a.type.dtype == QB_F64) ((double *)a.data)[i] = v;
    else if (a.type.dtype == QB_F32) ((float *)a.data)[i] = (float)v;
    else ((unsigned char *)a.data)[i] = v != 0;
}

static inline Array array_copy(Array a)
{
    Array b = array_new(a.type);
    memcpy(b.data, a.data, (size_t)type_bytes(&a.type));
    return b;
}

/* Numbers in [0, 1) that depend on the seed alone. */
static inline double draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) * 0x1p-24;
}

/* Values in [lo, hi), of f32 precision in every dtype, so that f32 and f64 programs see the same
   numbers. */
static inline Array array_random(Type t, double lo, double hi, uint64_t *seed)
{
    Array a = array_new(t);
    for (int64_t i = 0; i < type_size(&t); i++) {
        double u = draw(seed);
        array_set(a, i, t.dtype == QB_BOOL ? u < 0.5 : (double)(float)(lo + (hi - lo) * u));
    }
    return a;
}

/* ---- programs ---- */

static inline Type input_type(const Graph *g, uint32_t i) { return g->types[g->inputs[i]]; }
static inline Type output_type(const Graph *g, uint32_t i) { return g->types[g->outputs[i]]; }

static inline void run(const Graph *g, const Array *in, Array *out)
{
    const void *inputs[4 * MOST];
    void *outputs[4 * MOST];
    qb_error err = {0};
    for (uint32_t i = 0; i < g->n_inputs; i++) inputs[i] = in[i].data;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        out[i] = array_new(output_type(g, i));
        outputs[i] = out[i].data;
    }
    must(value_run(g, inputs, outputs, &err), &err);
}

/* The one output of a program as a number, for scalar inputs x (as many as it has). */
static inline double run_scalar(const Graph *g, const double *x)
{
    Array in[4 * MOST], out[4 * MOST];
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        in[i] = array_new(input_type(g, i));
        array_set(in[i], 0, x[i]);
    }
    run(g, in, out);
    double v = array_get(out[0], 0);
    arrays_drop(in, (int)g->n_inputs);
    arrays_drop(out, (int)g->n_outputs);
    return v;
}

static inline Val input_of(Graph *g, const char *name, Type t) { return graph_input(g, name, &t); }

static inline Val scalar(Graph *g, const char *name) { return input_of(g, name, shape(QB_F64)); }
static inline Val const_of(Graph *g, Type t, double value) { return gconst(g, &t, value); }

/* A tangent or gradient, or zeros of its type where it is absent. */
static inline Val present(Graph *g, Val v, Type t) { return val_none(v) ? const_of(g, t, 0) : v; }

/* Inputs of f, then a tangent for each floating one; outputs the tangents of floating outputs. */
static inline Graph *jvp_of(const Graph *f)
{
    Graph *g = start();
    Val x[4 * MOST], t[4 * MOST], z[4 * MOST], tz[4 * MOST];
    for (uint32_t i = 0; i < f->n_inputs; i++) x[i] = input_of(g, NULL, input_type(f, i));
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        Type ty = input_type(f, i);
        t[i] = type_floating(&ty) ? graph_input(g, NULL, &ty) : NONE;
    }
    jvp_run(g, f, x, t, z, tz);
    for (uint32_t i = 0; i < f->n_outputs; i++) {
        Type ty = output_type(f, i);
        if (type_floating(&ty)) graph_output(g, present(g, tz[i], ty));
    }
    return finish(g);
}

/* Inputs of f, then a cotangent for each floating output; outputs the gradients of its floating
   inputs. */
static inline Graph *vjp_of(const Graph *f)
{
    Graph *g = start();
    Val x[4 * MOST], ct[4 * MOST], z[4 * MOST], grad[4 * MOST];
    for (uint32_t i = 0; i < f->n_inputs; i++) x[i] = input_of(g, NULL, input_type(f, i));
    for (uint32_t i = 0; i < f->n_outputs; i++) {
        Type ty = output_type(f, i);
        ct[i] = type_floating(&ty) ? graph_input(g, NULL, &ty) : NONE;
    }
    vjp_run(g, f, x, ct, NULL, z, grad);
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        Type ty = input_type(f, i);
        if (type_floating(&ty)) graph_output(g, present(g, grad[i], ty));
    }
    return finish(g);
}

/* For a program of one floating scalar input and output: its derivative, by forward or by reverse
   mode. */
static inline Graph *slope_of(const Graph *f, bool forward)
{
    Graph *g = start();
    Type t = input_type(f, 0);
    Val x = graph_input(g, "x", &t), one = gconst(g, &t, 1), z, d;
    if (forward) jvp_run(g, f, &x, &one, &z, &d);
    else vjp_run(g, f, &x, &one, NULL, &z, &d);
    graph_output(g, present(g, d, t));
    return finish(g);
}

static inline Type batched(Type t, int64_t size)
{
    memmove(t.dims + 1, t.dims, sizeof *t.dims * t.rank);
    t.dims[0] = size;
    t.rank++;
    return t;
}

static inline Graph *vmap_of(const Graph *f, const bool *mapped, int64_t size, bool *out_mapped)
{
    Graph *g = start();
    Val x[4 * MOST], z[4 * MOST];
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        Type t = input_type(f, i);
        if (mapped[i]) t = batched(t, size);
        x[i] = graph_input(g, NULL, &t);
    }
    vmap_run(g, f, x, mapped, size, z, out_mapped);
    for (uint32_t i = 0; i < f->n_outputs; i++) graph_output(g, z[i]);
    return finish(g);
}

static inline int count_op(const Graph *g, Op op)
{
    int n = 0;
    for (Id i = 0; i < g->n_nodes; i++) n += g->nodes[i].op == op;
    return n;
}

#endif
