/* Regions, made by chance, on the CPU target against an interpreter that goes element by
   element: every access form, tile shape, reduction form, fusion and aliasing. Byte for byte, on
   every ISA level and with one thread and several. */
#include "cpu/cpu.h"
#include "scalar.h"
#include "element.h"
#include "test.h"
#include <stdlib.h>

enum { MOST_LOADS = 6, MOST_INSTRS = 14, MOST_STORES = 4, MOST_REDUCES = 3, MOST_SLOTS = 40 };

static uint64_t seed = 5;
static int emitted;  /* plans with machine code */
static int in_rows;  /* plans with accesses along rows */
static int straight; /* plans that reduce arrays as they lie in memory */
static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* ---- a plan with one chance region in the middle ---- */
typedef struct {
    qb_plan p;
    Slot slots[MOST_SLOTS];
    Step steps[3];
    Load loads[3][MOST_LOADS];
    Instr instrs[MOST_INSTRS];
    Store stores[3][MOST_STORES];
    Reduce reduces[MOST_REDUCES];
    void *in[MOST_SLOTS], *out[MOST_SLOTS], *expected[MOST_SLOTS];
    int64_t in_bytes[MOST_SLOTS], out_bytes[MOST_SLOTS];
    void *work; /* the interpreter's */
} Case;

static int32_t new_slot(Case *c, int kind, int dtype, int64_t elements)
{
    Slot *s = &c->slots[c->p.n_slots];
    *s = (Slot){(uint8_t)kind, (uint8_t)dtype, 0, 0, elements * type_elem(dtype)};
    if (kind == SLOT_WORK) {
        s->offset = c->p.work_bytes;
        c->p.work_bytes += (s->bytes + 63) / 64 * 64;
    } else {
        int *n = kind == SLOT_INPUT ? &c->p.n_inputs : &c->p.n_outputs;
        s->index = *n;
        (kind == SLOT_INPUT ? c->in_bytes : c->out_bytes)[*n] = s->bytes;
        ++*n;
    }
    return c->p.n_slots++;
}

static void row_major(const Region *r, int64_t *stride)
{
    int64_t n = 1;
    for (int d = r->rank - 1; d >= 0; d--) stride[d] = n, n *= r->dims[d];
}

/* The array that has the reduced dims first. */
static void row_major_kept(const Region *r, int64_t *stride)
{
    int64_t n = 1;
    for (int d = r->split - 1; d >= 0; d--) stride[d] = n, n *= r->dims[d];
    for (int d = r->rank - 1; d >= r->split; d--) stride[d] = n, n *= r->dims[d];
}

/* Part of an array whose dims are longer. */
static void part_of(const Region *r, int64_t *stride)
{
    int64_t n = 1;
    for (int d = r->rank - 1; d >= 0; d--) stride[d] = n, n *= r->dims[d] + below(3);
}

/* Elements that an access with these strides spans; moves the offset so that negative strides
   stay inside. */
static int64_t span(const Region *r, Access *at)
{
    int64_t low = 0, high = 0;
    for (int d = 0; d < r->rank; d++)
        *(at->stride[d] < 0 ? &low : &high) += (r->dims[d] - 1) * at->stride[d];
    at->offset -= low;
    return high - low + 1 + at->offset;
}

static Access chance_load(Case *c, const Region *r, int dtype)
{
    Access at = {0};
    row_major(r, at.stride);
    switch (below(10)) {
    case 0:
    case 1: break;                                         /* consecutive */
    case 2: memset(at.stride, 0, sizeof at.stride); break; /* one element */
    case 3:
        for (int d = 0; d < r->rank && below(3); d++) at.stride[d] = 0;
        break; /* rows, perhaps */
    case 4:
        if (r->rank) at.stride[r->rank - 1] = 0;
        at.offset = 2;
        break; /* columns */
    case 5:
        for (int d = 0; d < r->rank; d++)
            if (below(2)) at.stride[d] = 0;
        break;
    case 6:
        for (int d = 0; d < r->rank; d++)
            if (below(2)) at.stride[d] *= -1;
        break; /* reversed */
    case 7:
    case 8: part_of(r, at.stride); break;
    default: /* transposed, spread */
        for (int64_t d = 0, n = 1 + below(2); d < r->rank; d++) at.stride[d] = n, n *= r->dims[d];
        at.offset = below(3);
    }
    at.slot = new_slot(c, SLOT_INPUT, dtype, span(r, &at));
    return at;
}

static Access chance_store(Case *c, const Region *r, int dtype, int64_t *stride)
{
    Access at = {0};
    if (stride)
        memcpy(at.stride, stride, sizeof at.stride);
    else
        row_major(r, at.stride);
    if (!stride && below(4) == 0) {
        part_of(r, at.stride);
        at.offset = below(5);
    } else if (!stride && below(3) == 0) {
        int64_t n = 1 + below(2); /* transposed, into a part of a larger array */
        for (int d = 0; d < r->rank; d++) at.stride[d] = n, n *= r->dims[d] + below(2);
        at.offset = below(5);
    }
    at.slot = new_slot(c, SLOT_OUTPUT, dtype, span(r, &at));
    return at;
}

static int dtype_of(const Region *r, int32_t v)
{
    return v < r->n_loads ? r->loads[v].dtype : r->instrs[v - r->n_loads].out;
}

/* A value of this dtype among the first n, or -1. */
static int32_t pick(const Region *r, int32_t n, int dtype)
{
    for (int tries = 0; tries < 20; tries++) {
        int32_t v = (int32_t)below(n);
        if (dtype_of(r, v) == dtype) return v;
    }
    return -1;
}

static bool chance_instr(Region *r, int32_t n, Instr *o)
{
    static const uint8_t unary[] = {OP_neg, OP_abs, OP_tanh, OP_sin, OP_exp, OP_sqrt, OP_floor};
    static const uint8_t binary[] = {OP_add, OP_sub, OP_mul,     OP_mul,  OP_add,
                                     OP_sub, OP_div, OP_greater, OP_equal};
    int dtype = below(3) ? QB_F64 : below(3) ? QB_F32 : QB_BOOL;
    *o = (Instr){
        .in = (uint8_t)dtype, .out = (uint8_t)dtype, .a = pick(r, n, dtype), .b = -1, .c = -1};
    if (o->a < 0) return false;
    int64_t kind = below(10);
    if (kind == 0) {
        o->op = OP_cast;
        o->out = (uint8_t)below(QB_DTYPE_COUNT);
    } else if (kind == 1) {
        o->op = OP_where;
        o->b = o->a, o->c = pick(r, n, dtype), o->a = pick(r, n, QB_BOOL);
        return o->a >= 0 && o->c >= 0;
    } else if (dtype == QB_BOOL) {
        o->op = below(2) ? OP_logical_and : OP_logical_not;
        if (o->op == OP_logical_and) o->b = pick(r, n, dtype);
    } else if (kind == 2) {
        o->op = OP_powi;
        o->i = below(5);
    } else if (kind < 5) {
        o->op = unary[below(sizeof unary)];
    } else {
        o->op = binary[below(sizeof binary)];
        o->b = pick(r, n, dtype);
        if (op_table[o->op].to_bool) o->out = QB_BOOL;
    }
    return op_table[o->op].cls != CLASS_BINARY || o->b >= 0;
}

static void chance_dims(Region *r)
{
    static const int64_t sizes[] = {2,   3,   5,   7,   8,   16,  20,  33,  64,
                                    100, 127, 128, 129, 256, 257, 300, 700, 1500};
    r->rank = (int)below(5);
    r->size = 1;
    for (int d = 0; d < r->rank; d++) {
        r->dims[d] = sizes[below(sizeof sizes / sizeof *sizes)];
        if (r->size * r->dims[d] > 60000) r->dims[d] = 2;
        r->size *= r->dims[d];
    }
}

/* Step 0 copies an input to the workspace, step 1 is the region, step 2 copies the workspace
   out: so a store may overwrite a load. */
static void make_copy(Case *c, int step, int64_t size, int dtype, int32_t from, int32_t to)
{
    Region *r = &c->steps[step].region;
    *r = (Region){.rank = 1,
                  .dims = {size},
                  .size = size,
                  .n_loads = 1,
                  .n_stores = 1,
                  .loads = c->loads[step],
                  .stores = c->stores[step]};
    if (size == 1) r->rank = 0;
    r->loads[0] = (Load){.dtype = (uint8_t)dtype, .at = {.slot = from, .stride = {1}}};
    r->stores[0] = (Store){.value = 0, .at = {.slot = to, .stride = {1}}};
}

static void make_case(Case *c)
{
    memset(c, 0, sizeof *c);
    c->p.slots = c->slots;
    c->p.steps = c->steps;
    c->p.n_steps = 3;
    Region *r = &c->steps[1].region;
    *r = (Region){.loads = c->loads[1],
                  .instrs = c->instrs,
                  .stores = c->stores[1],
                  .reduces = c->reduces};
    chance_dims(r);
    /* load 0 lies in the workspace, consecutive */
    int dtype = below(4) ? QB_F64 : QB_F32;
    int32_t in = new_slot(c, SLOT_INPUT, dtype, r->size),
            work = new_slot(c, SLOT_WORK, dtype, r->size);
    make_copy(c, 0, r->size, dtype, in, work);
    r->loads[0] = (Load){.dtype = (uint8_t)dtype, .at = {.slot = work}};
    row_major(r, r->loads[0].at.stride);
    const bool plain = below(4) == 0; /* reductions of an array, and nothing else */
    r->n_loads = plain ? 1 : 2 + (int)below(MOST_LOADS - 1);
    for (int i = 1; i < r->n_loads; i++) {
        int t = i == 1 ? QB_F64 : below(5) < 3 ? QB_F64 : below(2) ? QB_F32 : QB_BOOL;
        r->loads[i] = (Load){.dtype = (uint8_t)t};
        if (below(5) == 0)
            r->loads[i].splat = true, r->loads[i].value = t == QB_BOOL ? 1 : -0.5;
        else
            r->loads[i].at = chance_load(c, r, t);
    }
    for (int64_t i = plain ? 0 : below(MOST_INSTRS + 1); i > 0; i--)
        if (chance_instr(r, r->n_loads + r->n_instrs, &r->instrs[r->n_instrs])) r->n_instrs++;
    int32_t values = r->n_loads + r->n_instrs;
    for (int64_t i = plain ? 0 : below(MOST_STORES); i > 0; i--) {
        int32_t v = values - 1 - (int32_t)below(values < 4 ? values : 4);
        r->stores[r->n_stores++] = (Store){v, chance_store(c, r, dtype_of(r, v), NULL)};
    }
    if (!plain && below(2)) { /* over load 0 */
        int32_t v = pick(r, values, dtype);
        if (v >= 0) {
            Slot *s = &c->slots[c->p.n_slots];
            *s = c->slots[work];
            r->stores[r->n_stores] = (Store){v, r->loads[0].at};
            r->stores[r->n_stores++].at.slot = c->p.n_slots++;
        }
    }
    if (r->rank && (plain || below(3))) {
        r->form = below(2) ? REDUCE_TRAILING : REDUCE_LEADING;
        r->split = r->form == REDUCE_TRAILING ? (int)below(r->rank)
                                              : 1 + (int)below(r->rank - (r->rank > 1));
        if (r->split == r->rank) r->form = REDUCE_TRAILING, r->split = 0;
        if (plain && r->form == REDUCE_TRAILING) row_major_kept(r, r->loads[0].at.stride);
        for (int64_t i = 1 + below(MOST_REDUCES); i > 0; i--) {
            static const uint8_t ops[] = {OP_sum, OP_mean, OP_max, OP_min};
            int32_t v = pick(r, values, below(3) ? QB_F64 : QB_F32);
            if (v < 0) continue;
            int64_t stride[QB_MAX_RANK] = {0}, n = 1 + below(2);
            bool transposed = below(4) == 0, trailing = r->form == REDUCE_TRAILING;
            int d0 = trailing ? 0 : r->split, d1 = trailing ? r->split : r->rank;
            if (transposed)
                for (int d = d0; d < d1; d++) stride[d] = n, n *= r->dims[d];
            else
                for (int d = d1 - 1; d >= d0; d--) stride[d] = n, n *= r->dims[d];
            r->reduces[r->n_reduces++] =
                (Reduce){v, ops[below(4)], chance_store(c, r, dtype_of(r, v), stride)};
        }
        if (!r->n_reduces) r->form = REDUCE_NONE;
    }
    make_copy(c, 2, r->size, dtype, work, new_slot(c, SLOT_OUTPUT, dtype, r->size));
}

/* ---- memory ---- */
static void fill_inputs(Case *c)
{
    for (int i = 0; i < c->p.n_slots; i++) {
        const Slot *s = &c->slots[i];
        if (s->kind != SLOT_INPUT) continue;
        c->in[s->index] = malloc((size_t)s->bytes);
        for (int64_t k = 0; k < s->bytes / type_elem(s->dtype); k++)
            element_set(s->dtype, c->in[s->index], k,
                        s->dtype == QB_BOOL ? (double)below(2)
                                            : (double)(below(4001) - 2000) / 512);
    }
    for (int i = 0; i < c->p.n_outputs; i++) {
        c->out[i] = malloc((size_t)c->out_bytes[i]);
        c->expected[i] = malloc((size_t)c->out_bytes[i]);
        memset(c->expected[i], 0x55, (size_t)c->out_bytes[i]);
    }
    c->work = malloc((size_t)c->p.work_bytes);
}

static void drop_case(Case *c)
{
    for (int i = 0; i < c->p.n_inputs; i++) free(c->in[i]);
    for (int i = 0; i < c->p.n_outputs; i++) free(c->out[i]), free(c->expected[i]);
    free(c->work);
}

/* ---- the interpreter ---- */
static char *memory(Case *c, int32_t slot)
{
    const Slot *s = &c->slots[slot];
    return s->kind == SLOT_WORK    ? (char *)c->work + s->offset
           : s->kind == SLOT_INPUT ? c->in[s->index]
                                   : c->expected[s->index];
}

static int64_t place(const Region *r, const Access *at, int64_t e)
{
    int64_t k = at->offset;
    for (int d = r->rank - 1; d >= 0; d--) k += e % r->dims[d] * at->stride[d], e /= r->dims[d];
    return k;
}

static double evaluate(const Instr *n, double a, double b, double c)
{
    if (n->op == OP_cast)
        return n->out == QB_BOOL ? a != 0 : n->out == QB_F32 ? (double)(float)a : a;
    if (n->op == OP_where) return a != 0 ? b : c;
    if (n->op == OP_powi) return n->in == QB_F32 ? (double)(float)q_powi(a, n->i) : q_powi(a, n->i);
    return value_scalar((Op)n->op, n->in, a, b);
}

static double step_of(int op, double a, double b)
{
    return op == OP_max ? q_max_step(a, b) : op == OP_min ? q_min_step(a, b) : a + b;
}

/* The contract, literally. Element k of an output is x[k * stride]. */
static double reduce(int op, const double *x, int64_t n, int64_t stride)
{
    double total = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        double l[SUM_LANES];
        for (int i = 0; i < SUM_LANES; i++)
            l[i] = op == OP_max ? -Q_INF : op == OP_min ? Q_INF : -0.0;
        for (int64_t k = b; k < n && k < b + BLOCK; k++)
            l[(k - b) % SUM_LANES] = step_of(op, l[(k - b) % SUM_LANES], x[k * stride]);
        for (int w = SUM_LANES / 2; w; w /= 2)
            for (int i = 0; i < w; i++) l[i] = step_of(op, l[i], l[i + w]);
        total = b ? step_of(op, total, l[0]) : l[0];
    }
    return op == OP_mean ? total / (double)n : total;
}

static void interpret(Case *c, const Region *r)
{
    int values = r->n_loads + r->n_instrs;
    double **v = calloc((size_t)values, sizeof *v);
    for (int i = 0; i < values; i++) {
        v[i] = malloc((size_t)r->size * sizeof **v);
        for (int64_t e = 0; e < r->size; e++) {
            if (i < r->n_loads) {
                const Load *l = &r->loads[i];
                v[i][e] = l->splat
                              ? l->value
                              : element_get(l->dtype, memory(c, l->at.slot), place(r, &l->at, e));
            } else {
                const Instr *n = &r->instrs[i - r->n_loads];
                v[i][e] =
                    evaluate(n, v[n->a][e], n->b < 0 ? 0 : v[n->b][e], n->c < 0 ? 0 : v[n->c][e]);
            }
        }
    }
    for (int i = 0; i < r->n_stores; i++) {
        const Store *s = &r->stores[i];
        for (int64_t e = 0; e < r->size; e++)
            element_set(dtype_of(r, s->value), memory(c, s->at.slot), place(r, &s->at, e),
                        v[s->value][e]);
    }
    int64_t w = 1;
    for (int d = r->split; d < r->rank; d++) w *= r->dims[d];
    bool trailing = r->form == REDUCE_TRAILING;
    for (int i = 0; i < r->n_reduces; i++) {
        const Reduce *n = &r->reduces[i];
        int64_t outputs = trailing ? r->size / w : w;
        for (int64_t k = 0; k < outputs; k++) {
            double x = trailing ? reduce(n->op, v[n->value] + k * w, w, 1)
                                : reduce(n->op, v[n->value] + k, r->size / w, w);
            element_set(dtype_of(r, n->value), memory(c, n->at.slot),
                        place(r, &n->at, trailing ? k * w : k), x);
        }
    }
    for (int i = 0; i < values; i++) free(v[i]);
    free(v);
}

/* ---- the comparison ---- */
static int64_t differences(const Case *c)
{
    int64_t wrong = 0;
    for (int i = 0; i < c->p.n_slots; i++) {
        const Slot *s = &c->slots[i];
        if (s->kind != SLOT_OUTPUT) continue;
        int64_t size = type_elem(s->dtype);
        for (int64_t k = 0; k < s->bytes / size; k++) {
            double a = element_get(s->dtype, c->out[s->index], k),
                   b = element_get(s->dtype, c->expected[s->index], k);
            bool nan = a != a && b != b;
            wrong += !nan && memcmp((char *)c->out[s->index] + k * size,
                                    (char *)c->expected[s->index] + k * size, (size_t)size);
        }
    }
    return wrong;
}

static void run_on(Case *c, int number, const char *level, const char *emit)
{
    qb_error err = {0};
    setenv("QUABLA_EMIT", emit, 1);
    REQUIRE(cpu_target.prepare(&c->p, NULL, &err));
    const Exec *x = c->p.exec;
    emitted += x->emitted.run != NULL;
    in_rows += x->exes[1].code.rows.n_bases > 0;
    straight += x->exes[1].code.straight;
    for (int threads = 1; threads <= 3; threads++) {
        pool_resize(threads, &err);
        for (int i = 0; i < c->p.n_outputs; i++) memset(c->out[i], 0x55, (size_t)c->out_bytes[i]);
        CHECK(cpu_target.run(&c->p, (const void *const *)c->in, c->out, &err));
        int64_t wrong = differences(c);
        const Region *r = &c->steps[1].region;
        if (!CHECK(wrong == 0))
            fprintf(stderr,
                    "    case %d on %s with %d threads, QUABLA_EMIT=%s: %lld elements differ; rank "
                    "%d of %lld, "
                    "form %d\n",
                    number, level, threads, emit, (long long)wrong, r->rank, (long long)r->size,
                    r->form);
    }
    cpu_target.drop(&c->p);
}

static void run_everywhere(Case *c, int number)
{
    static const char *const levels[] = {"v3", "v4", "neon"};
    qb_error err = {0};
    for (int l = 0; l < 3; l++) {
        if (!isa_set(levels[l], &err)) continue;
        run_on(c, number, levels[l], "0");
        run_on(c, number, levels[l], "all");
    }
}

static void test_chance_regions_equal_the_interpreter(void)
{
    const char *more = getenv("QUABLA_EXHAUSTIVE");
    int cases = more ? 20000 : 400;
    static Case c;
    for (int i = 0; i < cases && test_failures < 20; i++) {
        make_case(&c);
        fill_inputs(&c);
        interpret(&c, &c.steps[0].region);
        interpret(&c, &c.steps[1].region);
        interpret(&c, &c.steps[2].region);
        run_everywhere(&c, i);
        drop_case(&c);
    }
#if defined(__x86_64__)
    CHECK(emitted > 100);
#endif
    CHECK(in_rows > 40 && straight > 10);
    printf("%d plans with machine code, %d with accesses along rows, %d straight\n", emitted,
           in_rows, straight);
}

/* 1,000 rows of w elements: does a load of columns, or of a number per row, make the tiles go along rows? */
static void test_rows_are_taken_where_they_save_time(void)
{
    static const struct {
        uint8_t dtype, op; /* 0: the load is stored as it is */
        int64_t w, row, column;
        int split;
    } cases[] = {
        {QB_F64, OP_mul, 128, 130, 1, 1}, {QB_F32, OP_mul, 128, 130, 1, 1},
        {QB_F64, OP_mul, 47, 130, 1, 0},  {QB_F64, OP_mul, 64, 1, 0, 1},
        {QB_F32, OP_mul, 64, 1, 0, 0},    {QB_F32, OP_mul, 128, 1, 0, 1},
        {QB_F64, OP_less, 64, 130, 1, 1}, {QB_F64, OP_less, 48, 1, 0, 0},
        {QB_F64, 0, 128, 130, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t w = cases[i].w;
        const uint8_t dtype = cases[i].dtype, out = cases[i].op == OP_less ? QB_BOOL : dtype;
        Load loads[] = {{.dtype = dtype, .at.stride = {cases[i].row, cases[i].column}},
                        {.dtype = dtype, .at.stride = {w, 1}}};
        Instr instr = {.op = cases[i].op, .in = dtype, .out = out, .a = 0, .b = 1, .c = -1};
        Store store = {.value = cases[i].op ? 2 : 0, .at.stride = {w, 1}};
        const Region r = {.rank = 2,
                          .dims = {1000, w},
                          .size = 1000 * w,
                          .n_loads = 2,
                          .n_instrs = cases[i].op ? 1 : 0,
                          .n_stores = 1,
                          .loads = loads,
                          .instrs = &instr,
                          .stores = &store};
        if (!CHECK_EQ_INT(rows_split(&r, 0), cases[i].split)) printf("    case %zu\n", i);
    }
}

int main(void)
{
    RUN(test_rows_are_taken_where_they_save_time);
    RUN(test_chance_regions_equal_the_interpreter);
    return test_report();
}
