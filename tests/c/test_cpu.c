/* The CPU target as a whole: products in every batch form against the order contract written
   out, plans run by several threads at once, failing allocations, a plan on the stack, and the
   random streams. */
#include "cpu/cpu.h"
#include "scalar.h"
#include "random_graph.h"
#include "test.h"
#include <pthread.h>
#include <stdlib.h>

static const char *const levels[] = {"v3", "v4", "neon"};
static uint64_t seed = 11;
static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* ---- products ---- */
enum { MOST_PARTS = 3, SLOTS = 2 * MOST_PARTS + 1 };
typedef struct {
    qb_plan p;
    Slot slots[SLOTS];
    Step step;
    MatPart parts[MOST_PARTS];
    void *in[SLOTS], *out[SLOTS], *want[SLOTS];
    int64_t size[SLOTS]; /* elements of a slot */
} Case;

static void set(int dtype, void *p, int64_t i, double v)
{
    if (dtype == QB_F64)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}
static double get(int dtype, const void *p, int64_t i)
{
    return dtype == QB_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* A matrix of rows x cols for every product, or one for all; row-major or transposed; its memory
   is slot n. */
static Mat matrix(Case *c, bool output, int64_t rows, int64_t cols, bool transposed, bool shared)
{
    MatMul *m = &c->step.matmul;
    int32_t n = c->p.n_slots++;
    Mat x = {.slot = n,
             .offset = output ? 0 : below(3),
             .row = transposed ? 1 : cols,
             .col = transposed ? rows : 1};
    int64_t total = rows * cols;
    for (int d = m->rank - 1; d >= 0; d--) {
        x.batch[d] = shared ? 0 : total;
        if (!shared) total *= m->dims[d];
    }
    c->size[n] = total + x.offset;
    int64_t bytes = c->size[n] * type_elem(m->dtype);
    void *memory = malloc((size_t)bytes);
    int *count = output ? &c->p.n_outputs : &c->p.n_inputs;
    c->slots[n] = (Slot){output ? SLOT_OUTPUT : SLOT_INPUT, m->dtype, *count, 0, bytes};
    if (output) c->want[*count] = malloc((size_t)bytes);
    for (int64_t i = 0; i < c->size[n]; i++)
        set(m->dtype, memory, i, (double)(below(2001) - 1000) / 128);
    (output ? c->out : c->in)[(*count)++] = memory;
    return x;
}

static void make_product(Case *c, int dtype, int rank, const int64_t *batch, int64_t n, int64_t k,
                         int n_parts, const int64_t *m, bool shared_b)
{
    memset(c, 0, sizeof *c);
    c->p.slots = c->slots;
    c->p.steps = &c->step;
    c->p.n_steps = 1;
    c->step = (Step){
        .kind = STEP_MATMUL,
        .matmul = {.n = n, .k = k, .rank = rank, .dtype = (uint8_t)dtype, .n_parts = n_parts}};
    c->step.matmul.parts = c->parts;
    for (int d = 0; d < rank; d++) c->step.matmul.dims[d] = batch[d];
    c->step.matmul.b = matrix(c, false, k, n, below(2), shared_b);
    for (int i = 0; i < n_parts; i++)
        c->parts[i] = (MatPart){m[i], matrix(c, false, m[i], k, below(2), below(4) == 0),
                                matrix(c, true, m[i], n, false, false)};
}

static void drop_product(Case *c)
{
    for (int i = 0; i < c->p.n_inputs; i++) free(c->in[i]);
    for (int i = 0; i < c->p.n_outputs; i++) free(c->out[i]), free(c->want[i]);
}

/* One chain of fma per block of 128 k, block results added in order. */
static void multiply(Case *c)
{
    const MatMul *m = &c->step.matmul;
    int64_t batch = 1;
    for (int d = 0; d < m->rank; d++) batch *= m->dims[d];
    for (int64_t e = 0; e < batch * m->n_parts; e++) {
        const MatPart *t = &m->parts[e % m->n_parts];
        int64_t at[3] = {t->a.offset, m->b.offset, t->c.offset};
        for (int64_t d = m->rank - 1, rest = e / m->n_parts; d >= 0; rest /= m->dims[d--]) {
            int64_t i = rest % m->dims[d];
            at[0] += i * t->a.batch[d], at[1] += i * m->b.batch[d], at[2] += i * t->c.batch[d];
        }
        const void *a = c->in[c->slots[t->a.slot].index], *b = c->in[c->slots[m->b.slot].index];
        for (int64_t i = 0; i < t->m; i++)
            for (int64_t j = 0; j < m->n; j++) {
                double total = 0;
                for (int64_t k0 = 0; k0 < m->k; k0 += BLOCK) {
                    double acc = 0;
                    for (int64_t k = k0; k < m->k && k < k0 + BLOCK; k++)
                        acc = __builtin_fma(get(m->dtype, a, at[0] + i * t->a.row + k * t->a.col),
                                            get(m->dtype, b, at[1] + k * m->b.row + j * m->b.col),
                                            acc);
                    total = k0 ? total + acc : acc;
                }
                set(m->dtype, c->want[c->slots[t->c.slot].index], at[2] + i * t->c.row + j, total);
            }
    }
}

static void check_product(Case *c)
{
    qb_error err = {0};
    multiply(c);
    REQUIRE(cpu_target.prepare(&c->p, NULL, &err));
    for (int l = 0; l < 3; l++) {
        if (!isa_set(levels[l], &err)) continue;
        for (int threads = 1; threads <= 3; threads += 2) {
            CHECK(pool_resize(threads, &err));
            for (int i = 0; i < c->p.n_slots; i++)
                if (c->slots[i].kind == SLOT_OUTPUT)
                    memset(c->out[c->slots[i].index], 0x55, (size_t)c->slots[i].bytes);
            CHECK(cpu_target.run(&c->p, (const void *const *)c->in, c->out, &err));
            for (int i = 0; i < c->p.n_slots; i++)
                if (c->slots[i].kind == SLOT_OUTPUT)
                    CHECK_EQ_BITS(c->out[c->slots[i].index], c->want[c->slots[i].index],
                                  (size_t)c->slots[i].bytes);
        }
    }
    cpu_target.drop(&c->p);
}

static void test_products_in_every_batch_form_follow_the_order_contract(void)
{
    static const struct {
        int rank, parts;
        int64_t batch[2], n, k, m[MOST_PARTS];
    } shapes[] = {
        {0, 1, {0}, 16, 16, {32}},    {0, 3, {0}, 20, 20, {33, 7, 64}},
        {0, 1, {0}, 1, 64, {500}},    {0, 2, {0}, 64, 64, {300, 100}},
        {0, 1, {0}, 37, 300, {41}},   {1, 1, {50}, 8, 9, {11}},
        {1, 1, {200}, 16, 16, {40}},  {2, 2, {3, 5}, 12, 130, {9, 4}},
        {1, 1, {3}, 100, 128, {500}}, {1, 1, {2}, 120, 200, {320}},
        {2, 1, {40, 10}, 3, 3, {3}},  {0, 1, {0}, 200, 1, {400}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int dtype = 0; dtype <= QB_F64; dtype++)
            for (int shared = 0; shared <= (shapes[i].rank > 0); shared++) {
                Case c;
                make_product(&c, dtype, shapes[i].rank, shapes[i].batch, shapes[i].n, shapes[i].k,
                             shapes[i].parts, shapes[i].m, shared);
                check_product(&c);
                drop_product(&c);
            }
    qb_error err = {0};
    isa_set(NULL, &err);
}

/* ---- a plan of a product and a region: h = tanh(x W), y = sum over rows of h * c ---- */
enum { ROWS = 700, WIDE = 24, DEEP = 20 };
typedef struct {
    qb_plan p;
    Slot slots[6];
    Step steps[2];
    MatPart part;
    Load loads[3];
    Instr instrs[2];
    Store store;
    Reduce reduce;
    double x[ROWS * DEEP], w[DEEP * WIDE], c[WIDE];
} Net;

static void make_net(Net *t)
{
    memset(t, 0, sizeof *t);
    static const int64_t sizes[] = {ROWS * DEEP, DEEP * WIDE, WIDE, ROWS * WIDE, ROWS * WIDE, WIDE};
    for (int i = 0; i < 6; i++) {
        int kind = i < 3 ? SLOT_INPUT : i == 3 ? SLOT_WORK : SLOT_OUTPUT;
        t->slots[i] = (Slot){(uint8_t)kind, QB_F64, i < 3 ? i : i < 4 ? 0 : i - 4, 0, sizes[i] * 8};
    }
    t->p = (qb_plan){.slots = t->slots,
                     .n_slots = 6,
                     .steps = t->steps,
                     .n_steps = 2,
                     .n_inputs = 3,
                     .n_outputs = 2,
                     .work_bytes = (ROWS * WIDE * 8 + 63) / 64 * 64};
    t->part =
        (MatPart){ROWS, {.slot = 0, .row = DEEP, .col = 1}, {.slot = 3, .row = WIDE, .col = 1}};
    t->steps[0] = (Step){.kind = STEP_MATMUL};
    t->steps[0].matmul = (MatMul){.n = WIDE,
                                  .k = DEEP,
                                  .dtype = QB_F64,
                                  .b = {.slot = 1, .row = WIDE, .col = 1},
                                  .n_parts = 1,
                                  .parts = &t->part};
    t->steps[1] = (Step){.kind = STEP_REGION};
    t->steps[1].region = (Region){.rank = 2,
                                  .dims = {ROWS, WIDE},
                                  .size = ROWS * WIDE,
                                  .form = REDUCE_LEADING,
                                  .split = 1,
                                  .n_loads = 3,
                                  .n_instrs = 2,
                                  .n_stores = 1,
                                  .n_reduces = 1,
                                  .loads = t->loads,
                                  .instrs = t->instrs,
                                  .stores = &t->store,
                                  .reduces = &t->reduce};
    t->loads[0] = (Load){.dtype = QB_F64, .at = {.slot = 3, .stride = {WIDE, 1}}};
    t->loads[1] = (Load){.dtype = QB_F64, .at = {.slot = 2, .stride = {0, 1}}};
    t->loads[2] = (Load){.dtype = QB_F64, .splat = true, .value = 2};
    t->instrs[0] = (Instr){OP_tanh, QB_F64, QB_F64, 0, -1, -1, 0};
    t->instrs[1] = (Instr){OP_mul, QB_F64, QB_F64, 3, 1, -1, 0};
    t->store = (Store){3, {.slot = 4, .stride = {WIDE, 1}}};
    t->reduce = (Reduce){4, OP_sum, {.slot = 5, .stride = {0, 1}}};
    for (int i = 0; i < ROWS * DEEP; i++) t->x[i] = (double)(below(2000) - 1000) / 900;
    for (int i = 0; i < DEEP * WIDE; i++) t->w[i] = (double)(below(2000) - 1000) / 900;
    for (int i = 0; i < WIDE; i++) t->c[i] = (double)below(1000) / 300;
}

static bool run_net(Net *t, double *h, double *y)
{
    qb_error err = {0};
    return cpu_target.run(&t->p, (const void *const[]){t->x, t->w, t->c}, (void *const[]){h, y},
                          &err) &&
           err.code == QB_OK;
}

typedef struct {
    Net *net;
    const double *h, *y;
    int wrong;
} Runner;
static void *run_many(void *arg)
{
    Runner *r = arg;
    double *h = malloc(ROWS * WIDE * sizeof *h), y[WIDE];
    for (int i = 0; i < 200; i++) {
        r->wrong += !run_net(r->net, h, y);
        r->wrong += memcmp(h, r->h, ROWS * WIDE * sizeof *h) != 0 || memcmp(y, r->y, sizeof y) != 0;
    }
    free(h);
    return NULL;
}

static void test_threads_may_run_one_plan_at_the_same_time(void)
{
    static Net net;
    static double h[ROWS * WIDE], y[WIDE];
    qb_error err = {0};
    make_net(&net);
    REQUIRE(cpu_target.prepare(&net.p, NULL, &err));
    CHECK(pool_resize(3, &err));
    CHECK(run_net(&net, h, y));
    CHECK(h[5] >= -1 && h[5] <= 1 && y[0] != 0);
    enum { RUNNERS = 4 };
    pthread_t thread[RUNNERS];
    Runner runner[RUNNERS];
    for (int i = 0; i < RUNNERS; i++) {
        runner[i] = (Runner){&net, h, y, 0};
        REQUIRE(pthread_create(&thread[i], NULL, run_many, &runner[i]) == 0);
    }
    for (int i = 0; i < 20; i++)
        CHECK(pool_resize(1 + i % 4, &err)); /* whatever the pool does meanwhile */
    for (int i = 0; i < RUNNERS; i++) {
        pthread_join(thread[i], NULL);
        CHECK_EQ_INT(runner[i].wrong, 0);
    }
    cpu_target.drop(&net.p);
}

static void test_a_failed_allocation_is_an_error_and_leaks_nothing(void)
{
    static Net net;
    static double h[ROWS * WIDE], y[WIDE];
    qb_error err = {0};
    make_net(&net);
    CHECK(pool_resize(2, &err));
    int64_t before = qb_test_live_bytes(), n = 0;
    for (bool done = false; !done && n < 100; n++) {
        err = (qb_error){0};
        qb_test_fail_alloc(n);
        bool ready = cpu_target.prepare(&net.p, NULL, &err);
        done = ready && cpu_target.run(&net.p, (const void *const[]){net.x, net.w, net.c},
                                       (void *const[]){h, y}, &err);
        qb_test_fail_alloc(-1);
        CHECK(done || err.code == QB_EMEMORY);
        cpu_target.drop(&net.p);
        CHECK_EQ_INT(qb_test_live_bytes(), before);
    }
    CHECK(n > 4 && n < 100);
}

static void test_a_workspace_that_no_memory_can_hold_is_an_error(void)
{
    static Net net;
    static double h[ROWS * WIDE], y[WIDE];
    qb_error err = {0};
    make_net(&net);
    net.p.work_bytes = INT64_MAX / 64 * 64 - 64;
    REQUIRE(cpu_target.prepare(&net.p, NULL, &err));
    CHECK(!cpu_target.run(&net.p, (const void *const[]){net.x, net.w, net.c}, (void *const[]){h, y},
                          &err));
    CHECK_EQ_INT(err.code, QB_EMEMORY);
    cpu_target.drop(&net.p);
}

static void test_a_small_plan_allocates_nothing_when_it_runs(void)
{
    Slot slots[] = {{SLOT_INPUT, QB_F64, 0, 0, 8}, {SLOT_OUTPUT, QB_F64, 0, 0, 8}};
    Load load = {.dtype = QB_F64};
    Instr instr = {OP_sqrt, QB_F64, QB_F64, 0, -1, -1, 0};
    Store store = {1, {.slot = 1}};
    Step step = {.kind = STEP_REGION};
    step.region = (Region){.size = 1,
                           .n_loads = 1,
                           .n_instrs = 1,
                           .n_stores = 1,
                           .loads = &load,
                           .instrs = &instr,
                           .stores = &store};
    qb_plan p = {
        .slots = slots, .n_slots = 2, .steps = &step, .n_steps = 1, .n_inputs = 1, .n_outputs = 1};
    qb_error err = {0};
    double x = 2, y = 0;
    REQUIRE(cpu_target.prepare(&p, NULL, &err));
    qb_test_fail_alloc(0);
    CHECK(cpu_target.run(&p, (const void *const[]){&x}, (void *const[]){&y}, &err));
    qb_test_fail_alloc(-1);
    CHECK(y == __builtin_sqrt(2.0));
    cpu_target.drop(&p);
}

/* ---- whole programs: the plan's bits are those of the scalar reference ---- */
typedef struct {
    void *in[16], *want[16], *got[16];
    int64_t bytes[16];
    int dtype[16];
} Arrays;

static void make_arrays(Arrays *x, const Graph *g)
{
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const Type *t = &g->types[g->inputs[i]];
        x->in[i] = malloc((size_t)type_bytes(t));
        for (int64_t k = 0; k < type_size(t); k++) {
            double v = below(30)  ? (double)(below(4001) - 2000) / 700
                       : below(2) ? -0.0
                                  : __builtin_inf();
            if (t->dtype == QB_BOOL)
                ((unsigned char *)x->in[i])[k] = v > 0;
            else
                set(t->dtype, x->in[i], k, v);
        }
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const Type *t = &g->types[g->outputs[i]];
        x->bytes[i] = type_bytes(t);
        x->dtype[i] = t->dtype;
        x->want[i] = malloc((size_t)x->bytes[i]);
        x->got[i] = malloc((size_t)x->bytes[i]);
    }
}

static void drop_arrays(Arrays *x, const Graph *g)
{
    for (uint32_t i = 0; i < g->n_inputs; i++) free(x->in[i]);
    for (uint32_t i = 0; i < g->n_outputs; i++) free(x->want[i]), free(x->got[i]);
}

/* Which NaN comes out is the machine's; all else is promised. */
static bool same_bytes(int dtype, const void *a, const void *b, int64_t bytes)
{
    int64_t elem = type_elem(dtype), wrong = 0;
    for (int64_t k = 0; k < bytes / elem; k++) {
        bool nan = dtype != QB_BOOL && get(dtype, a, k) != get(dtype, a, k) &&
                   get(dtype, b, k) != get(dtype, b, k);
        wrong +=
            !nan && memcmp((const char *)a + k * elem, (const char *)b + k * elem, (size_t)elem);
    }
    return wrong == 0;
}

static void check_program(uint64_t number)
{
    qb_error err = {0};
    Arrays x;
    Graph *g = random_graph(number, 4 + (int)below(60), &err);
    REQUIRE(g != NULL);
    qb_plan *p = plan_compile(g, &cpu_target, NULL, &err);
    if (!CHECK(p != NULL)) {
        graph_release(g);
        return;
    }
    make_arrays(&x, g);
    CHECK(value_run(g, (const void *const *)x.in, x.want, &err));
    for (int l = 0; l < 3; l++) {
        if (!isa_set(levels[l], &err)) continue;
        bool ok = cpu_target.run(p, (const void *const *)x.in, x.got, &err);
        for (uint32_t i = 0; i < g->n_outputs; i++)
            ok = ok && same_bytes(x.dtype[i], x.want[i], x.got[i], x.bytes[i]);
        if (!CHECK(ok))
            fprintf(stderr, "    program %llu on %s\n", (unsigned long long)number, levels[l]);
    }
    drop_arrays(&x, g);
    plan_release(p);
    graph_release(g);
}

static void test_chance_programs_equal_the_scalar_reference(void)
{
    uint64_t programs = getenv("QUABLA_EXHAUSTIVE") ? 100000 : 1500;
    for (uint64_t i = 0; i < programs && test_failures < 20; i++) check_program(i);
    qb_error err = {0};
    isa_set(NULL, &err);
}

/* ---- random streams ---- */
static double unit(uint64_t key, uint64_t i)
{
    return (double)(qb_random_bits(key, i) >> 11) * 0x1p-53;
}

static void test_random_bits_are_splitmix64(void)
{
    CHECK(qb_random_bits(0, 0) == 0xe220a8397b1dcdafu); /* the published outputs of seed 0 */
    CHECK(qb_random_bits(0, 1) == 0x6e789e6aa1b965f4u);
    CHECK(qb_random_bits(0, 2) == 0x06c45d188009454fu);
}

static void test_samples_are_those_of_the_formula_on_every_level(void)
{
    enum { N = 40001 };
    static double u[N], z[N];
    static float f[N];
    qb_error err = {0};
    for (int l = 0; l < 3; l++) {
        if (!isa_set(levels[l], &err)) continue;
        for (int threads = 1; threads <= 2; threads++) {
            int64_t wrong = 0;
            CHECK(pool_resize(threads, &err));
            qb_random_uniform(42, N, -1, 3, QB_F64, u);
            qb_random_normal(42, N, 0.5, 2, QB_F64, z);
            qb_random_normal(42, N, 0.5, 2, QB_F32, f);
            for (uint64_t i = 0; i < N; i++) {
                double want = 0.5 + 2 * (q_sqrt(-2.0 * q_log(unit(42, 2 * i))) *
                                         q_cos(6.283185307179586 * unit(42, 2 * i + 1)));
                wrong += u[i] != -1 + 4 * unit(42, i) || z[i] != want || f[i] != (float)want;
            }
            CHECK_EQ_INT(wrong, 0);
        }
    }
    isa_set(NULL, &err);
}

static void test_samples_have_the_moments_of_their_distribution(void)
{
    enum { N = 200000 };
    double *x = malloc(N * sizeof *x), mean = 0, square = 0, fourth = 0;
    qb_random_normal(7, N, 0, 1, QB_F64, x);
    for (int i = 0; i < N; i++)
        mean += x[i] / N, square += x[i] * x[i] / N, fourth += x[i] * x[i] * x[i] * x[i] / N;
    CHECK_NEAR(mean, 0, 0.01);
    CHECK_NEAR(square, 1, 0.02);
    CHECK_NEAR(fourth, 3, 0.12);
    free(x);
}

static void test_uniform_samples_stay_below_the_upper_end(void)
{
    enum { N = 100000 };
    float *f = malloc(N * sizeof *f);
    double *x = malloc(N * sizeof *x), one_up = 1 + 0x1p-52;
    qb_random_uniform(3, N, 1, 1 + 0x1p-23, QB_F32,
                      f); /* two floats: half of the samples round to the upper one */
    qb_random_uniform(3, N, 1, one_up, QB_F64, x);
    int out = 0;
    for (int i = 0; i < N; i++) out += f[i] != 1 || x[i] != 1;
    CHECK_EQ_INT(out, 0);
    qb_random_uniform(3, N, -1e-30, 0, QB_F32, f);
    for (int i = 0; i < N; i++) out += f[i] >= 0;
    qb_random_uniform(3, 10, 2, 2, QB_F64, x);
    CHECK(out == 0 && x[0] == 2);
    free(f);
    free(x);
}

int main(void)
{
    RUN(test_products_in_every_batch_form_follow_the_order_contract);
    RUN(test_threads_may_run_one_plan_at_the_same_time);
    RUN(test_a_failed_allocation_is_an_error_and_leaks_nothing);
    RUN(test_a_workspace_that_no_memory_can_hold_is_an_error);
    RUN(test_a_small_plan_allocates_nothing_when_it_runs);
    RUN(test_chance_programs_equal_the_scalar_reference);
    RUN(test_random_bits_are_splitmix64);
    RUN(test_samples_are_those_of_the_formula_on_every_level);
    RUN(test_samples_have_the_moments_of_their_distribution);
    RUN(test_uniform_samples_stay_below_the_upper_end);
    return test_report();
}
