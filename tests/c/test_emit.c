/* test_emit.c: loops as machine code against the same loops in the VM, byte for byte.

   Bodies are drawn: every elementwise op, every dtype, arrays of 1 to 40 elements, broadcasts,
   slices, concats and reductions, special numbers among the operands, as scans and as whiles. Each is compiled
   with QUABLA_EMIT=0 and without, and runs on every level of this CPU. */
#include "cpu/cpu.h"
#include "graphs.h"
#include "ops/rules.h"
#include "random_graph.h"
#if defined(__linux__)
#include <sys/prctl.h>
#endif

enum { CARRIES = 3, CAPTURES = 2, INPUTS = CARRIES + 1 + CAPTURES };

/* ---- drawing ---- */

static const double special[] = {0.0,
                                 -0.0,
                                 1.0,
                                 -1.0,
                                 0.5,
                                 3.0,
                                 1e-3,
                                 1e300,
                                 -1e300,
                                 0x1p-1074,
                                 0x1p-149,
                                 3e38,
                                 2.5,
                                 -7.25,
                                 __builtin_inf(),
                                 -__builtin_inf(),
                                 __builtin_nan(""),
                                 0.1,
                                 100.0,
                                 -0.3,
                                 1e-310};

static Type chance_type(Random *r, int64_t n)
{
    int dtype = random_below(r, 3) ? QB_F64 : random_below(r, 3) ? QB_F32 : QB_BOOL;
    switch (random_below(r, 5)) {
    case 0: return shape(dtype);
    case 1: return n > 0 && n <= 20 ? shape(dtype, 2, n) : shape(dtype, n);
    default: return shape(dtype, n);
    }
}

/* Any row of ops.h, so that all that the emitter knows and all that it calls take part. */
static Val chance_row(Random *r, Val x)
{
    int dtype = type_of(x)->dtype;
    for (int i = 0; i < 100; i++) {
        Op op = (Op)random_below(r, OP_COUNT);
        const OpRow *o = &op_table[op];
        if (o->cls != CLASS_UNARY && o->cls != CLASS_BINARY) continue;
        bool fits = o->in == IN_A || (o->in == IN_B) == (dtype == QB_BOOL);
        if (!fits || (o->ulp > 0 && random_below(r, 4))) continue; /* mostly cheap ones */
        Val xs[] = {x, o->cls == CLASS_BINARY ? random_like(r, x, dtype) : x};
        return graph_emit(r->g, op, xs, o->cls == CLASS_BINARY ? 2 : 1, NULL);
    }
    return NONE;
}

static Val chance_value(Random *r)
{
    static Val (*const draw_one[])(Random *, Val) = {chance_row,    chance_row,      chance_row,
                                                     chance_row,    random_binary,   random_binary,
                                                     random_binary, random_where,    random_powi,
                                                     random_cast,   random_slice,    random_concat,
                                                     random_reduce, random_pad,      random_reshape,
                                                     random_matmul, random_broadcast};
    int n = sizeof draw_one / sizeof *draw_one;
    Val x =
        r->n > 4 && random_below(r, 2) ? r->pool[r->n - 1 - random_below(r, 3)] : random_pick(r);
    Val v = draw_one[random_below(r, n)](r, x);
    return val_none(v) || type_size(type_of(v)) > 80 ? NONE : v;
}

/* A value of the type of a carry, made of the pool. */
static Val next_of(Random *r, Val carry)
{
    int dtype = type_of(carry)->dtype;
    for (int i = r->n - 1; i >= INPUTS && random_below(r, 4); i--)
        if (type_exact(type_of(r->pool[i]), type_of(carry))) return r->pool[i];
    Val y = random_like(r, carry, dtype);
    if (random_below(r, 3) == 0 || dtype == QB_BOOL) return y;
    return graph_emit(r->g, random_below(r, 2) ? OP_mul : OP_sub,
                      (Val[]){y, random_like(r, carry, dtype)}, 2, NULL);
}

typedef struct {
    Type in[INPUTS]; /* carries, a slice, captures */
    bool loops_while;
    int64_t length;
    Graph *body, *test, *whole;
} Drawn;

/* carries..., slice, captures... -> carries..., a result to be stacked. A while has no slice; carry 0 counts. */
static Graph *chance_body(Random *r, const Drawn *o)
{
    Graph *g = r->g = start();
    r->n = 0;
    for (int i = 0; i < INPUTS; i++)
        if (!(o->loops_while && i == CARRIES)) r->pool[r->n++] = input_of(g, NULL, o->in[i]);
    for (int64_t left = 1 + random_below(r, 25), tries = 0; left > 0 && tries < 200; tries++) {
        Val v = chance_value(r);
        if (val_none(v)) continue;
        r->pool[r->n++] = v;
        left--;
    }
    for (int k = 0; k < CARRIES; k++) {
        Val c = r->pool[k];
        graph_output(g, o->loops_while && k == 0 ? gadd(c, glike(c, 1)) : next_of(r, c));
    }
    if (!o->loops_while) graph_output(g, r->pool[r->n - 1]);
    return finish(g);
}

static Graph *count_below(const Drawn *o)
{
    Graph *g = start();
    Val c = NONE;
    for (int i = 0; i < INPUTS; i++)
        if (i != CARRIES) {
            Val x = input_of(g, NULL, o->in[i]);
            if (i == 0) c = x;
        }
    graph_output(g, gless(c, glike(c, (double)o->length)));
    return finish(g);
}

static Drawn chance_loop(Random *r)
{
    Drawn o = {.loops_while = random_below(r, 2), .length = 1 + random_below(r, 9)};
    int64_t n = 1 + random_below(r, 40), few = 1 + random_below(r, 4);
    for (int i = 0; i < INPUTS; i++) o.in[i] = chance_type(r, random_below(r, 4) ? n : few);
    if (o.loops_while) o.in[0] = shape(QB_F64);
    o.body = chance_body(r, &o);
    Graph *g = start();
    Val x[INPUTS], z[CARRIES + 1];
    int inputs = 0, results = CARRIES + !o.loops_while;
    for (int i = 0; i < INPUTS; i++) {
        if (o.loops_while && i == CARRIES) continue;
        x[inputs++] = input_of(g, NULL, i == CARRIES ? batched(o.in[i], o.length) : o.in[i]);
    }
    if (o.loops_while) {
        o.test = count_below(&o);
        region_while(g, o.test, o.body, random_below(r, 2) ? 0 : 5, CARRIES, x, inputs, z);
    } else {
        region_scan(g, o.body, (ScanForm){o.length, random_below(r, 2), CARRIES, 1}, x, inputs, z);
    }
    for (int k = 0; k < results; k++) graph_output(g, z[k]);
    o.whole = finish(g);
    return o;
}

static void drop_loop(Drawn *o)
{
    graph_release(o->body);
    graph_release(o->test);
    graph_release(o->whole);
}

/* ---- running ---- */

static qb_plan *compiled(const Graph *g, bool emitted, bool native)
{
    qb_error err = {0};
    qb_options options = {.precision = native ? "float32" : NULL};
    setenv("QUABLA_EMIT", emitted ? "1" : "0", 1);
    qb_plan *p = plan_compile(g, &cpu_target, &options, &err);
    must(p != NULL, &err);
    return p;
}

static int with_code(const qb_plan *p)
{
    int n = 0;
    const Exec *x = p->exec;
    for (int i = 0; i < x->n; i++) n += x->exes[i].kind == STEP_LOOP && x->exes[i].control.code.run;
    return n;
}

static void run_on(qb_plan *p, const Array *in, Array *out)
{
    const void *inputs[INPUTS];
    void *outputs[CARRIES + 1];
    qb_error err = {0};
    for (int i = 0; i < p->n_inputs; i++) inputs[i] = in[i].data;
    for (int i = 0; i < p->n_outputs; i++) outputs[i] = out[i].data;
    must(p->target->run(p, inputs, outputs, &err), &err);
}

/* The same bytes; two NaNs are the same. */
static bool same(Array a, Array b)
{
    int64_t size = type_elem(a.type.dtype);
    for (int64_t i = 0; i < type_size(&a.type); i++) {
        double x = array_get(a, i), y = array_get(b, i);
        bool nan = x != x && y != y;
        if (!nan && memcmp((char *)a.data + i * size, (char *)b.data + i * size, (size_t)size))
            return false;
    }
    return true;
}

static void fill(Random *r, const Graph *g, bool while_, Array *in)
{
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        in[i] = array_new(input_type(g, i));
        bool tame = random_below(r, 2);
        for (int64_t k = 0; k < type_size(&in[i].type); k++) {
            double v = special[random_below(r, sizeof special / sizeof *special)];
            if (tame) v = (double)random_below(r, 4001) / 1000 - 2;
            array_set(in[i], k, while_ && i == 0 ? 0 : v);
        }
    }
}

/* Levels of this CPU on which the two plans differ. */
static int differences(qb_plan *const p[2], const Array *in)
{
    static const char *const levels[] = {"v3", "v4", "neon"};
    int wrong = 0;
    qb_error err = {0};
    for (int l = 0; l < 3; l++) {
        if (!isa_set(levels[l], &err)) continue;
        Array out[2][CARRIES + 1];
        for (int e = 0; e < 2; e++) {
            for (int k = 0; k < p[e]->n_outputs; k++) out[e][k] = array_new(p[e]->out_types[k]);
            run_on(p[e], in, out[e]);
        }
        for (int k = 0; k < p[0]->n_outputs; k++) wrong += !same(out[0][k], out[1][k]);
        for (int e = 0; e < 2; e++) arrays_drop(out[e], p[e]->n_outputs);
    }
    isa_set(NULL, &err);
    return wrong;
}

static int loops, emitted;

static bool agrees(uint64_t seed)
{
    Random r = {.state = seed * 0x9e3779b97f4a7c15u + 7};
    Drawn o = chance_loop(&r);
    bool native = random_below(&r, 3) == 0;
    qb_plan *p[2] = {compiled(o.whole, false, native), compiled(o.whole, true, native)};
    Array in[INPUTS];
    int wrong = with_code(p[0]);
    loops++;
    emitted += with_code(p[1]) > 0;
    for (int i = 0; i < 3; i++) {
        fill(&r, o.whole, o.loops_while, in);
        wrong += differences(p, in);
        arrays_drop(in, (int)o.whole->n_inputs);
    }
    plan_release(p[0]);
    plan_release(p[1]);
    drop_loop(&o);
    return wrong == 0;
}

static void test_machine_code_has_the_bytes_of_the_vm(void)
{
    const char *first = getenv("SEED"), *many = getenv("LOOPS");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1,
             n = many ? strtoull(many, NULL, 10) : 400;
    for (uint64_t seed = from; seed < from + n; seed++)
        if (!CHECK(agrees(seed))) fprintf(stderr, "    seed %llu\n", (unsigned long long)seed);
#if defined(__x86_64__)
    CHECK(2 * emitted > loops);
#endif
    printf("%d of %d loops as machine code\n", emitted, loops);
}

/* Seven carries go round: each becomes the next one, and the last one the first. */
static Graph *carousel(int64_t length)
{
    enum { N = 7 };
    Val x[N], z[N];
    Graph *body = start(), *g = start();
    for (int i = 0; i < N; i++) x[i] = input_of(body, NULL, shape(QB_F64, 4));
    for (int i = 0; i < N; i++) graph_output(body, gneg(x[(i + 1) % N]));
    finish(body);
    for (int i = 0; i < N; i++) x[i] = input_of(g, NULL, shape(QB_F64, 4));
    region_scan(g, body, (ScanForm){length, false, N, 0}, x, N, z);
    graph_output(g, z[0]);
    graph_release(body);
    return finish(g);
}

static void test_carries_may_change_places_in_registers(void)
{
    double in[7][4], out[4];
    const void *inputs[7];
    qb_error err = {0};
    for (int i = 0; i < 7; i++) {
        inputs[i] = in[i];
        for (int k = 0; k < 4; k++) in[i][k] = 10 * i + k;
    }
    for (int64_t length = 1; length <= 15; length++) {
        Graph *g = carousel(length);
        qb_plan *p = compiled(g, true, false);
        must(p->target->run(p, inputs, (void *[]){out}, &err), &err);
        for (int k = 0; k < 4; k++) CHECK(out[k] == (length % 2 ? -1 : 1) * in[length % 7][k]);
        plan_release(p);
        graph_release(g);
    }
}

/* c + 0.1 (c shifted by so many places - c), round a ring of n. */
static Graph *stencil(int dtype, int64_t n, int64_t by)
{
    Graph *body = start(), *g = start();
    Type t = shape(dtype, n);
    Val c = input_of(body, NULL, t), z;
    Val parts[] = {gslice(c, 0, by, n - by, 1), gslice(c, 0, 0, by, 1)};
    Val moved = gconcat(body, parts, 2, 0);
    graph_output(body, gadd(c, gmul(glike(c, 0.1), gsub(moved, c))));
    finish(body);
    c = input_of(g, NULL, t);
    region_scan(g, body, (ScanForm){5, false, 1, 0}, &c, 1, &z);
    graph_output(g, z);
    graph_release(body);
    return finish(g);
}

static void test_a_stencil_reads_across_registers(void)
{
    uint64_t seed = 3;
    for (int64_t i = 0; i < 2 * 36 * 4; i++) {
        int dtype = i % 2 ? QB_F64 : QB_F32;
        int64_t by = 1 + i / 2 % 4, n = 5 + i / 8;
        Graph *g = stencil(dtype, n, by);
        qb_plan *p[2] = {compiled(g, false, false), compiled(g, true, false)};
        Array in = array_random(shape(dtype, n), -2, 2, &seed);
        CHECK_EQ_INT(differences(p, &in), 0);
        CHECK_EQ_INT(with_code(p[0]), 0);
        plan_release(p[0]);
        plan_release(p[1]);
        arrays_drop(&in, 1);
        graph_release(g);
    }
}

/* A system that makes no memory executable. It stays so to the end of the process. */
static bool forbid_code(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 }; /* of linux/prctl.h, since Linux 6.3 */
    return prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) == 0;
#else
    return false;
#endif
}

static void test_loops_run_in_the_vm_where_memory_cannot_be_made_executable(void)
{
    double in[7][4] = {{1, 2, 3, 4}}, out[4];
    const void *inputs[7];
    qb_error err = {0};
    for (int i = 0; i < 7; i++) inputs[i] = in[i];
    bool forbidden = forbid_code();
    Graph *g = carousel(7);
    qb_plan *p = compiled(g, true, false);
    CHECK(!forbidden || !with_code(p));
    CHECK(p->target->run(p, inputs, (void *[]){out}, &err) && out[0] == -1 && out[3] == -4);
    plan_release(p);
    graph_release(g);
}

int main(void)
{
    RUN(test_machine_code_has_the_bytes_of_the_vm);
    RUN(test_carries_may_change_places_in_registers);
    RUN(test_a_stencil_reads_across_registers);
    RUN(test_loops_run_in_the_vm_where_memory_cannot_be_made_executable); /* the last one */
    return test_report();
}
