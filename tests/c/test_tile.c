/* Sweeps: programs over points give the same bits block by block, in any number of threads and at
   every ISA level, as step by step and as the reference evaluator. */
#include "cpu/cpu.h"
#include "random_graph.h"
#include "reference.h"
#include "test.h"

static const char *const levels[] = {"v3", "v4", "neon"};

/* ---- programs ---- */

/* The mean square of the products of all pairs of rows: no point can do without the others. */
static Val pairs(Val y, int64_t n)
{
    Val rows = greshape(y, 2, (int64_t[]){n, type_size(type_of(y)) / n}), all = gtanh(rows);
    Val gram = gmatmul(all, gswap_last(all));
    return greduce(OP_mean, gmul(gram, gram), (int64_t[]){0, 1}, 2);
}

/* f, a program of one point, on n points: inputs in `mapped` have one row a point. The outputs are
   the mean of the squares of f's, and its gradient with respect to the other floating inputs. */
static Graph *over_points(const Graph *f, const bool *mapped, int64_t n, bool mixing, qb_error *err)
{
    Graph *batch = graph_new(err), *g = graph_new(err);
    Val x[64], out[16], grad[64];
    bool out_mapped[16], wanted[64];
    if (!batch || !g) return NULL;
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        Type t = f->types[f->inputs[i]];
        wanted[i] = !mapped[i] && type_floating(&t);
        if (mapped[i]) {
            memmove(t.dims + 1, t.dims, t.rank * sizeof *t.dims);
            t.dims[0] = n;
            t.rank++;
        }
        x[i] = graph_input(batch, NULL, &t);
    }
    Val total = NONE;
    if (!vmap_run(batch, f, x, mapped, n, out, out_mapped)) goto bad;
    for (uint32_t i = 0; i < f->n_outputs; i++) {
        if (!random_floating(out[i])) continue;
        int64_t axes[QB_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
        Val y = gcast(out[i], QB_F64), square = gmul(y, y);
        int rank = type_of(y)->rank;
        Val mean = rank ? greduce(i % 2 ? OP_sum : OP_mean, square, axes, rank) : square;
        total = gaccumulate(total, mean);
        if (mixing && out_mapped[i] && type_size(type_of(y)) <= 8 * n)
            total = gaccumulate(total, pairs(y, n));
    }
    if (val_none(total)) goto bad;
    graph_output(batch, total);
    if (!graph_freeze(batch, err)) goto bad;
    for (uint32_t i = 0; i < batch->n_inputs; i++)
        x[i] = graph_input(g, NULL, &batch->types[batch->inputs[i]]);
    Type scalar = type_make(QB_F64, 0, NULL);
    Val one = gconst(g, &scalar, 1);
    if (!vjp_run(g, batch, x, &one, wanted, out, grad)) goto bad;
    graph_output(g, out[0]);
    for (uint32_t i = 0; i < batch->n_inputs; i++)
        if (wanted[i] && !val_none(grad[i])) graph_output(g, grad[i]);
    if (!graph_freeze(g, err)) goto bad;
    graph_release(batch);
    return g;
bad:
    graph_release(batch);
    graph_release(g);
    return NULL;
}

/* A layer of tanh with three streams, as derivatives of a network have them. */
static Graph *network(int dtype, int64_t in, int64_t wide, int64_t n, int64_t others, qb_error *err)
{
    Graph *g = graph_new(err);
    if (!g) return NULL;
    Type tx = type_make(dtype, 2, (int64_t[]){n, in}),
         tw = type_make(dtype, 2, (int64_t[]){in, wide}),
         tb = type_make(dtype, 1, (int64_t[]){wide}),
         tv = type_make(dtype, 2, (int64_t[]){wide, wide}),
         to = type_make(dtype, 2, (int64_t[]){others, in});
    Val x = graph_input(g, "x", &tx), w = graph_input(g, "w", &tw), b = graph_input(g, "b", &tb),
        v = graph_input(g, "v", &tv), o = graph_input(g, "o", &to);
    Val z = gmatmul(x, w), h = gtanh(gadd(z, gexpand(b, z)));
    Val s = gsub(glike(h, 1), gmul(h, h)), hx = gmul(s, gexpand(gslice(w, 0, 0, 1, 1), s));
    Val u = gmatmul(h, v), ux = gmatmul(hx, v), q = gmatmul(o, w), p = gmatmul(gtanh(q), v);
    Val r = gadd(gmul(gtanh(u), ux), gexpand(b, ux));
    graph_output(g, gsum(gmul(r, r), (int64_t[]){0, 1}, 2));
    graph_output(g, gmatmul(gswap_last(h), r));
    graph_output(g, greduce(OP_mean, r, (int64_t[]){0}, 1));
    graph_output(g, greduce(OP_max, r, (int64_t[]){0}, 1));
    graph_output(g, greduce(OP_mean, r, (int64_t[]){1}, 1));
    graph_output(g, gmatmul(gswap_last(p), p));
    graph_output(g, gmatmul(gmatmul(gswap_last(hx), r), v));
    if (graph_freeze(g, err)) return g;
    graph_release(g);
    return NULL;
}

/* ---- runs ---- */
typedef struct {
    const Graph *g;
    void *in[64], *want[64], *got[64];
} Bench;

static bool run(const Bench *b, qb_plan *p, void *const *out)
{
    qb_error err = {0};
    for (uint32_t i = 0; i < b->g->n_outputs; i++)
        memset(out[i], 0x55, (size_t)type_bytes(&b->g->types[b->g->outputs[i]]));
    return p->target->run(p, (const void *const *)b->in, out, &err);
}

static bool same(const Bench *b, void *const *x, void *const *y)
{
    for (uint32_t i = 0; i < b->g->n_outputs; i++) {
        const Type *t = &b->g->types[b->g->outputs[i]];
        if (!ref_same(t->dtype, x[i], y[i], type_bytes(t))) {
            fprintf(stderr, "    output %u differs\n", (unsigned)i);
            return false;
        }
    }
    return true;
}

static void open_bench(Bench *b, const Graph *g, uint64_t seed)
{
    *b = (Bench){.g = g};
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const Type *t = &g->types[g->inputs[i]];
        b->in[i] = malloc((size_t)type_bytes(t) + 1);
        for (int64_t k = 0; k < type_size(t); k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            double v = (double)(int64_t)(seed >> 20) / 0x1p42 - 2;
            element_set(t->dtype, b->in[i], k, t->dtype == QB_BOOL ? v > 0 : v);
        }
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        size_t bytes = (size_t)type_bytes(&g->types[g->outputs[i]]) + 1;
        b->want[i] = malloc(bytes);
        b->got[i] = malloc(bytes);
    }
}

static void close_bench(Bench *b)
{
    for (uint32_t i = 0; i < b->g->n_inputs; i++) free(b->in[i]);
    for (uint32_t i = 0; i < b->g->n_outputs; i++) free(b->want[i]), free(b->got[i]);
}

static qb_plan *plan_of(const Graph *g, TilePolicy policy, bool native)
{
    qb_error err = {0};
    qb_options options = {.precision = native ? "float32" : NULL};
    tile_set(policy);
    qb_plan *p = plan_compile(g, &cpu_target, &options, &err);
    tile_set(TILE_AUTO);
    if (!CHECK(p != NULL)) fprintf(stderr, "    %s\n", err.message);
    return p;
}

/* The number of sweeps of the plan; -1: some bits differ. Native float32 has bits of its own. */
static int check_precision(const Graph *g, uint64_t seed, bool evaluate, bool native)
{
    Bench b;
    qb_error err = {0};
    bool ok = true;
    qb_plan *plain = plan_of(g, TILE_NEVER, native), *tiled = plan_of(g, TILE_ALWAYS, native);
    int sweeps = tiled ? tiled->n_sweeps : -1;
    open_bench(&b, g, seed);
    ok = plain && tiled && run(&b, plain, b.want);
    CHECK_EQ_INT(plain ? plain->n_sweeps : 0, 0);
    for (int l = 0; ok && l < 3; l++) {
        if (!isa_set(levels[l], &err)) continue;
        for (int threads = 1; ok && threads <= 4; threads += threads == 1 ? 1 : 2) {
            ok = pool_resize(threads, &err) && run(&b, tiled, b.got) && same(&b, b.want, b.got);
        }
    }
    isa_set(NULL, &err);
    if (ok && evaluate)
        ok = value_run(g, (const void *const *)b.in, b.got, &err) && same(&b, b.want, b.got);
    close_bench(&b);
    plan_release(plain);
    plan_release(tiled);
    return ok ? sweeps : -1;
}

static int check_program(const Graph *g, uint64_t seed, bool evaluate)
{
    int sweeps = check_precision(g, seed, evaluate, false);
    return check_precision(g, seed, false, true) == sweeps ? sweeps : -1;
}

/* ---- tests ---- */

static void test_random_programs_over_points_keep_their_bits(void)
{
    static const int64_t counts[] = {130, 300, 129, 256, 70};
    int done = 0, tiled = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        qb_error err = {0};
        Graph *f = random_graph(seed, 8 + (int)(seed % 12), &err);
        bool mapped[64], any = false;
        REQUIRE(f != NULL);
        for (uint32_t i = 0; i < f->n_inputs; i++)
            any |= mapped[i] = (seed * 2654435761u >> (i + 7)) % 3 != 0;
        Graph *g = any ? over_points(f, mapped, counts[seed % 5], seed % 3 == 0, &err) : NULL;
        graph_release(f);
        if (!g) continue;
        int sweeps = check_program(g, seed, seed % 8 == 0);
        if (!CHECK(sweeps >= 0)) fprintf(stderr, "    seed %llu\n", (unsigned long long)seed);
        done++;
        tiled += sweeps > 0;
        graph_release(g);
        if (test_failures > 5) break;
    }
    CHECK(done > 150);
    CHECK(tiled > 100);
}

static void test_networks_of_every_size_and_dtype_keep_their_bits(void)
{
    static const struct {
        int64_t in, wide, n, others;
    } sizes[] = {
        {2, 20, 1000, 100}, {3, 64, 256, 256},   {2, 300, 260, 7},     {1, 1, 500, 1},
        {2, 32, 4000, 33},  {256, 256, 256, 10}, {128, 128, 385, 128},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int dtype = QB_F32; dtype <= QB_F64; dtype++) {
            qb_error err = {0};
            Graph *g =
                network(dtype, sizes[i].in, sizes[i].wide, sizes[i].n, sizes[i].others, &err);
            REQUIRE(g != NULL);
            int sweeps = check_program(g, i, false);
            if (!CHECK(sweeps > 0))
                fprintf(stderr, "    size %d dtype %d: %d\n", (int)i, dtype, sweeps);
            graph_release(g);
        }
}

/* c is read by the first step of the sweep only; z, which has its size, is written by its
   last one and read whole later. Block 1 still reads c when block 0 has written z. */
static void test_what_a_sweep_reads_stays_until_its_last_block(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    REQUIRE(g != NULL);
    Type ty = type_make(QB_F64, 2, (int64_t[]){300, 300}),
         tw = type_make(QB_F64, 2, (int64_t[]){5, 300});
    Val y = graph_input(g, "y", &ty), w = graph_input(g, "w", &tw);
    Val c = gtanh(greduce(OP_mean, gtanh(y), (int64_t[]){0}, 1));
    Val q = gmatmul(gtanh(gmul(y, gexpand(c, y))), gswap_last(w));
    Val z = greduce(OP_mean, gmul(q, q), (int64_t[]){1}, 1);
    Val column = greshape(z, 2, (int64_t[]){300, 1});
    graph_output(g, gmatmul(column, gswap_last(column)));
    REQUIRE(graph_freeze(g, &err));
    CHECK_EQ_INT(check_program(g, 1, true), 1);
    graph_release(g);
}

static void test_the_memory_of_a_sweep_does_not_grow_with_the_points(void)
{
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        qb_error err = {0};
        Graph *g = network(QB_F64, 2, 64, i ? 64000 : 4000, 10, &err);
        REQUIRE(g != NULL);
        qb_plan *p = plan_of(g, TILE_AUTO, false);
        REQUIRE(p && p->n_sweeps == 1);
        bytes[i] = p->work_bytes + p->sweeps[0].rows_bytes + p->sweeps[0].part_bytes;
        plan_release(p);
        graph_release(g);
    }
    CHECK_EQ_INT(bytes[0], bytes[1]);
}

static void test_few_points_are_not_worth_a_sweep(void)
{
    qb_error err = {0};
    Graph *g = network(QB_F64, 2, 64, 200, 10, &err);
    REQUIRE(g != NULL);
    qb_plan *p = plan_of(g, TILE_AUTO, false);
    CHECK_EQ_INT(p->n_sweeps, 0);
    plan_release(p);
    graph_release(g);
}

/* What the sweep neither reads nor feeds runs at the same time, where that is little work. */
static void test_little_work_of_its_own_runs_beside_the_sweep(void)
{
    static const struct {
        int64_t others;
        int beside;
    } cases[] = {{20, 1}, {200, 0}};
    for (int i = 0; i < 2; i++) {
        qb_error err = {0};
        Graph *g = graph_new(&err);
        REQUIRE(g != NULL);
        Type ty = type_make(QB_F64, 2, (int64_t[]){4000, 64}),
             tw = type_make(QB_F64, 2, (int64_t[]){64, 64}),
             to = type_make(QB_F64, 2, (int64_t[]){cases[i].others, cases[i].others});
        Val y = graph_input(g, "y", &ty), w = graph_input(g, "w", &tw),
            o = graph_input(g, "o", &to);
        Val c = gtanh(w), r = gtanh(gmatmul(gtanh(y), c));
        graph_output(g, gsum(r, (int64_t[]){0, 1}, 2));
        graph_output(g, gmatmul(o, o));
        REQUIRE(graph_freeze(g, &err));
        qb_plan *p = plan_of(g, TILE_AUTO, false);
        REQUIRE(p && p->n_sweeps == 1);
        CHECK_EQ_INT(p->sweeps[0].beside, cases[i].beside);
        plan_release(p);
        CHECK_EQ_INT(check_program(g, 1, false), 1);
        graph_release(g);
    }
}

int main(void)
{
    RUN(test_random_programs_over_points_keep_their_bits);
    RUN(test_networks_of_every_size_and_dtype_keep_their_bits);
    RUN(test_what_a_sweep_reads_stays_until_its_last_block);
    RUN(test_the_memory_of_a_sweep_does_not_grow_with_the_points);
    RUN(test_few_points_are_not_worth_a_sweep);
    RUN(test_little_work_of_its_own_runs_beside_the_sweep);
    return test_report();
}
