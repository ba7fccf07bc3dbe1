/* Reducers against the order contract of plan.h written out as a plain loop, byte for byte, on
   every ISA level of this CPU. */
#include "cpu/cpu.h"
#include "scalar.h"
#include "test.h"

enum { MOST = 3000 };
static const char *const all_levels[] = {"v3", "v4", "neon"};
static uint64_t seed = 7;
static double random_value(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double u = (double)(seed >> 11) * 0x1p-53 - 0.5;
    return u * (seed & 0x30 ? 1 : 1e10) * (seed & 0x40 ? 1 : 1e-10);
}

static bool in_float32; /* lanes and tree of a native plan */
static double step_of(int kind, double a, double b)
{
    if (in_float32 && kind == REDUCE_SUM) return (float)a + (float)b;
    return kind == REDUCE_SUM ? a + b : kind == REDUCE_MAX ? q_max_step(a, b) : q_min_step(a, b);
}
static const double neutral[] = {
    [REDUCE_SUM] = -0.0, [REDUCE_MAX] = -__builtin_inf(), [REDUCE_MIN] = __builtin_inf()};

/* The result of one block: elements x[0], x[stride], ... */
static double block(int kind, const double *x, int64_t n, int64_t stride)
{
    double l[SUM_LANES];
    for (int i = 0; i < SUM_LANES; i++) l[i] = neutral[kind];
    for (int64_t k = 0; k < n; k++)
        l[k % SUM_LANES] = step_of(kind, l[k % SUM_LANES], x[k * stride]);
    for (int w = SUM_LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++) l[i] = step_of(kind, l[i], l[i + w]);
    return l[0];
}

typedef struct {
    double x[MOST];
    float f[MOST];
} Data;
static Data data;
static void fill(bool special)
{
    static const double odd[] = {
        0.0, -0.0, __builtin_inf(), -__builtin_inf(), __builtin_nan(""), -__builtin_nan("")};
    for (int k = 0; k < MOST; k++) {
        data.f[k] = (float)random_value();
        if (special) data.f[k] = (float)odd[seed % 977 < 900 ? seed % 2 : seed % 6];
        data.x[k] = data.f[k];
        if (!special) data.x[k] = random_value();
    }
}

/* The elements that the reducer of this dtype sees, as float64. */
static void as_double(int dtype, double *out)
{
    for (int k = 0; k < MOST; k++) out[k] = dtype == QB_F32 ? (double)data.f[k] : data.x[k];
}

static void check_bits(double got, double want, const char *what, int kind, int64_t n)
{
    bool some_nan =
        kind == REDUCE_SUM && got != got && want != want; /* which NaN is not promised for sums */
    if (!CHECK(some_nan || !memcmp(&got, &want, sizeof got)))
        fprintf(stderr, "    %s kind %d n %lld: %a, not %a\n", what, kind, (long long)n, got, want);
}

static void check_all(const Isa *isa, int kind, int form)
{
    const Reducer *r = &isa->reducers[kind][form];
    int dtype = form == QB_F64 ? QB_F64 : QB_F32;
    in_float32 = form == REDUCE_NATIVE;
    const void *x = dtype == QB_F32 ? (const void *)data.f : (const void *)data.x;
    static double wide[MOST], out[MOST], lanes[SUM_LANES * 200];
    as_double(dtype, wide);
    for (int64_t n = 1; n < 700; n += n < 20 ? 1 : 37) {
        r->blocks(out, x, n);
        for (int64_t b = 0; b * BLOCK < n; b++)
            check_bits(out[b],
                       block(kind, wide + b * BLOCK, n - b * BLOCK < BLOCK ? n - b * BLOCK : BLOCK,
                             1),
                       "blocks", kind, n);
    }
    for (int64_t w = 1; w <= BLOCK; w += w < 20 ? 1 : 9) {
        int64_t rows = MOST / w < 23 ? MOST / w : 23;
        r->rows(out, x, rows, w);
        for (int64_t k = 0; k < rows; k++)
            check_bits(out[k], block(kind, wide + k * w, w, 1), "rows", kind, w);
    }
    for (int64_t w = 1; w <= 60; w++) { /* a block of rows in pieces of 5, 12, 1, ... */
        int64_t apart = w + w % 3, rows = MOST / apart < 45 ? MOST / apart : 45;
        for (int64_t i = 0; i < SUM_LANES * w; i++) lanes[i] = r->neutral;
        for (int64_t first = 0, m = 5; first < rows; first += m, m = m * 7 % 13) {
            if (m > rows - first) m = rows - first;
            r->lanes(lanes, (const char *)x + first * apart * type_elem(dtype), first, m, w, apart);
        }
        r->tree(out, lanes, w);
        for (int64_t c = 0; c < w; c++)
            check_bits(out[c], block(kind, wide + c, rows, apart), "lanes", kind, w);
    }
    static double y[MOST], products[MOST];
    for (int k = 0; k < MOST && r->dot_blocks; k++) {
        y[k] = data.x[MOST - 1 - k];
        products[k] = data.x[k] * y[k];
    }
    for (int64_t n = 1; n < 700 && r->dot_blocks; n += n < 20 ? 1 : 37) {
        r->dot_blocks(out, data.x, y, n);
        for (int64_t b = 0; b * BLOCK < n; b++) {
            int64_t m = n - b * BLOCK < BLOCK ? n - b * BLOCK : BLOCK;
            check_bits(out[b], block(kind, products + b * BLOCK, m, 1), "dot_blocks", kind, n);
        }
        if (n > BLOCK) continue;
        r->dot_rows(out, data.x, y, 5, n);
        for (int64_t k = 0; k < 5; k++)
            check_bits(out[k], block(kind, products + k * n, n, 1), "dot_rows", kind, n);
    }
    in_float32 = false; /* block results are added in float64 */
    for (int64_t n = 1; n < 40; n++) {
        double total[40];
        memcpy(total, data.x, sizeof total);
        r->join(total, data.x + 100, n);
        for (int64_t k = 0; k < n; k++)
            check_bits(total[k], step_of(kind, data.x[k], data.x[100 + k]), "join", kind, n);
        CHECK_EQ_BITS(total + n, data.x + n, (size_t)(40 - n) * sizeof *total);
    }
}

static void check_levels(bool special)
{
    qb_error err = {0};
    fill(special);
    for (int l = 0; l < 3; l++) {
        if (!isa_set(all_levels[l], &err)) continue;
        for (int kind = 0; kind < REDUCER_COUNT; kind++)
            for (int form = 0; form < REDUCE_FORMS; form++) check_all(isa_now(), kind, form);
    }
    isa_set(NULL, &err);
}

static void test_reducers_follow_the_order_contract(void) { check_levels(false); }
static void test_zeros_infinities_and_nan(void) { check_levels(true); }

static void test_extremes_of_nan_are_the_canonical_one_and_zeros_are_ordered(void)
{
    double nan = -__builtin_nan("5"), x[] = {1, nan, 3}, zeros[] = {-0.0, 0.0, -0.0}, out,
           want = __builtin_nan("");
    const Isa *isa = isa_now();
    isa->reducers[REDUCE_MAX][QB_F64].rows(&out, x, 1, 3);
    CHECK_EQ_BITS(&out, &want, sizeof out);
    isa->reducers[REDUCE_MIN][QB_F64].rows(&out, x, 1, 3);
    CHECK_EQ_BITS(&out, &want, sizeof out);
    isa->reducers[REDUCE_MAX][QB_F64].rows(&out, zeros, 1, 3);
    CHECK(out == 0 && !__builtin_signbit(out));
    isa->reducers[REDUCE_MIN][QB_F64].rows(&out, zeros, 1, 3);
    CHECK(out == 0 && __builtin_signbit(out));
    isa->reducers[REDUCE_SUM][QB_F64].rows(&out, zeros, 1, 1);
    CHECK(out == 0 && __builtin_signbit(out)); /* the sum of one -0.0 is -0.0 */
}

int main(void)
{
    RUN(test_reducers_follow_the_order_contract);
    RUN(test_zeros_infinities_and_nan);
    RUN(test_extremes_of_nan_are_the_canonical_one_and_zeros_are_ordered);
    return test_report();
}
