/* gemm.c: bit for bit the plain loop of the order contract, for any shape, strides, dtype, split of
   rows and ISA level. */
#include "cpu/cpu.h"
#include "test.h"
#include <stdlib.h>

static unsigned seed = 7;
static int64_t below(int64_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* ---- the contract, element by element ---- */
static double at(const void *p, int64_t i, int dtype)
{
    return dtype == QB_F32 ? ((const float *)p)[i] : ((const double *)p)[i];
}

/* What C holds before, where the job adds to it. */
static double before(int64_t i, int64_t j) { return (double)((i * 31 + j) % 97 - 48) / 8; }

/* Native float32: the same chains in float32. */
static float native_element(const GemmJob *g, int64_t i, int64_t j)
{
    const float *a = g->a, *b = g->b;
    float total = (float)before(i, j);
    for (int64_t k0 = 0; k0 < g->k; k0 += BLOCK) {
        float acc = 0;
        for (int64_t k = k0; k < g->k && k < k0 + BLOCK; k++)
            acc =
                __builtin_fmaf(a[i * g->a_row + k * g->a_col], b[k * g->b_row + j * g->b_col], acc);
        total = k0 || g->add ? total + acc : acc;
    }
    return g->k || g->add ? total : 0;
}

static void reference(const GemmJob *g, void *c)
{
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double total = before(i, j);
            for (int64_t k0 = 0; k0 < g->k; k0 += BLOCK) {
                double acc = 0;
                for (int64_t k = k0; k < g->k && k < k0 + BLOCK; k++)
                    acc = __builtin_fma(at(g->a, i * g->a_row + k * g->a_col, g->dtype),
                                        at(g->b, k * g->b_row + j * g->b_col, g->dtype), acc);
                total = k0 || g->add ? total + acc : acc;
            }
            if (g->k == 0 && !g->add) total = 0;
            if (g->native)
                ((float *)c)[i * g->c_row + j] = native_element(g, i, j);
            else if (g->dtype == QB_F32 && !g->wide)
                ((float *)c)[i * g->c_row + j] = (float)total;
            else
                ((double *)c)[i * g->c_row + j] = total;
        }
}

/* ---- random products ---- */
typedef struct {
    GemmJob job;
    void *a, *b, *c, *want;
    int64_t c_bytes;
    bool ok;
} Case;

/* A matrix in memory that ends where the matrix ends: reading past it is an error that ASan sees. */
static void *matrix(int64_t rows, int64_t cols, int dtype, int64_t *row, int64_t *col)
{
    int64_t pad = below(3), size = qb_dtype_size(dtype);
    switch (below(8)) {
    case 0: *row = 1, *col = rows + pad; break;
    case 1: *row = 1, *col = rows; break;
    case 2: *row = 2 * cols + pad, *col = 2; break;
    case 3: *row = 0, *col = 1; break;
    case 4: *row = cols + pad, *col = 1; break;
    default: *row = cols, *col = 1; break;
    }
    int64_t n = rows && cols ? (rows - 1) * *row + (cols - 1) * *col + 1 : 0;
    char *p = malloc((size_t)(n * size + 1));
    for (int64_t i = 0; p && i < n; i++) {
        double x = (double)(below(2000000) - 1000000) / 1e6;
        if (below(50) == 0) x = below(2) ? 0.0 : -0.0;
        if (dtype == QB_F32)
            ((float *)(void *)p)[i] = (float)x;
        else
            ((double *)(void *)p)[i] = x;
    }
    return p;
}

/* float32 has three forms: rounded, totals in float64, native. */
typedef enum { ROUNDED, WIDE, NATIVE } Form32;

static Case make(int64_t m, int64_t n, int64_t k, int dtype, Form32 form)
{
    Case t = {.job = {.m = m,
                      .n = n,
                      .k = k,
                      .dtype = (uint8_t)dtype,
                      .wide = form == WIDE,
                      .native = form == NATIVE}};
    if (k > 0 && (dtype == QB_F64 || form != ROUNDED)) t.job.add = below(2);
    GemmJob *g = &t.job;
    g->a = t.a = matrix(m, k, dtype, &g->a_row, &g->a_col);
    g->b = t.b = matrix(k, n, dtype, &g->b_row, &g->b_col);
    g->c_row = n + below(2) * below(5);
    t.c_bytes = (m && n ? (m - 1) * g->c_row + n : 0) * (form == WIDE ? 8 : qb_dtype_size(dtype));
    g->c = t.c = malloc((size_t)t.c_bytes + 1);
    t.want = malloc((size_t)t.c_bytes + 1);
    t.ok = t.a && t.b && t.c && t.want;
    if (!t.ok) return t;
    memset(t.want, 0x77, (size_t)t.c_bytes);
    reference(g, t.want);
    return t;
}

static void drop(Case *t)
{
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->want);
}

/* How B is used: as gemm_rows likes, packed before, or in pieces of rows and columns. */
typedef enum { PLAIN, PACKED, PIECES } Way;

/* Columns [j0, j1) of the job, in pieces of rows. */
static void run_columns(const GemmJob *job, int64_t j0, int64_t j1, Way way)
{
    const Isa *isa = isa_now();
    GemmJob g = *job;
    g.b = (const char *)g.b + j0 * g.b_col * qb_dtype_size(g.dtype);
    g.c = (char *)g.c + j0 * (g.wide ? 8 : qb_dtype_size(g.dtype));
    g.n = j1 - j0;
    g.swapped = gemm_plan_swapped(&g);
    int64_t most = way == PIECES && gemm_plan_rows(&g) < g.m ? gemm_plan_rows(&g) : g.m;
    for (int64_t m0 = 0, m1; m0 < g.m; m0 = m1) {
        m1 = m0 + (below(2) ? most : 1 + below(most));
        m1 = m1 < g.m ? m1 : g.m;
        (g.native ? isa->gemm_f32 : isa->gemm)(&g, m0, m1);
    }
}

/* Gaps between C's rows must stay as they were. */
static bool equal(Case *t, Way way)
{
    GemmJob g = t->job;
    int64_t lanes = g.native ? 16 : 8, bytes = (g.n + lanes - 1) / lanes * 64 * g.k;
    const Isa *isa = isa_now();
    CHECK(gemm_plan_bytes(&g) == 0 || gemm_plan_bytes(&g) == bytes);
    CHECK(gemm_plan_grain(&g) > 0);
    if (way == PIECES && !(g.room = mem_alloc((size_t)gemm_plan_room(&g)))) return false;
    if (way == PACKED) {
        g.packed = mem_alloc((size_t)bytes);
        if (!g.packed) return false;
        (g.native ? isa->pack_f32 : isa->pack)(&g);
    }
    memset(t->c, 0x77, (size_t)t->c_bytes);
    for (int64_t i = 0; g.add && i < g.m; i++)
        for (int64_t j = 0, at = i * g.c_row; j < g.n; j++)
            if (g.native)
                ((float *)t->c)[at + j] = (float)before(i, j);
            else
                ((double *)t->c)[at + j] = before(i, j);
    int64_t cols = way == PIECES && gemm_plan_cols(&g) < g.n ? gemm_plan_cols(&g) : g.n;
    for (int64_t j0 = 0, j1; j0 < g.n; j0 = j1) {
        j1 = j0 + (way == PIECES && below(2) ? 1 + below(cols) : cols);
        j1 = j1 < g.n ? j1 : g.n;
        run_columns(&g, j0, j1, way);
    }
    mem_free(g.packed);
    mem_free(g.room);
    bool same = memcmp(t->c, t->want, (size_t)t->c_bytes) == 0;
    if (!same)
        fprintf(stderr, "%s: m %lld n %lld k %lld dtype %d a %lld %lld b %lld %lld way %d\n",
                isa_now()->name, (long long)g.m, (long long)g.n, (long long)g.k, g.dtype,
                (long long)g.a_row, (long long)g.a_col, (long long)g.b_row, (long long)g.b_col,
                way);
    return same;
}

static void check_form(int64_t m, int64_t n, int64_t k, int dtype, Form32 form)
{
    static const char *const levels[] = {"v4", "v3", "neon"};
    qb_error err;
    Case t = make(m, n, k, dtype, form);
    REQUIRE(t.ok);
    for (int i = 0; i < 3; i++) {
        if (!isa_set(levels[i], &err)) continue;
        for (Way way = PLAIN; way <= PIECES; way++) CHECK(equal(&t, way));
    }
    isa_set(NULL, &err);
    drop(&t);
}

static void check(int64_t m, int64_t n, int64_t k, int dtype)
{
    check_form(m, n, k, dtype, ROUNDED);
    if (dtype != QB_F32) return;
    check_form(m, n, k, dtype, WIDE);
    check_form(m, n, k, dtype, NATIVE);
}

static void test_random_products_are_the_plain_loop(void)
{
    int count = getenv("QUABLA_EXHAUSTIVE") ? 30000 : MEM_CHECKED ? 150 : 500;
    for (int i = 0; i < count; i++) {
        int64_t most = i % 4 == 0 ? 8 : i % 4 == 1 ? 24 : i % 4 == 2 ? 50 : 140;
        if (MEM_CHECKED) most = most / 2 + 1;
        check(below(most) + 1, below(most) + 1, i % 8 == 0 ? below(400) + 1 : below(most) + 1,
              i % 3 ? QB_F64 : QB_F32);
    }
}

static void test_every_tile_shape(void)
{
    for (int64_t n = 1; n < 36; n++)
        for (int64_t m = 1; m < 14; m++) check(m, n, 3, QB_F64);
    for (int64_t n = 1; n < 70; n++)
        for (int64_t m = 1; m < 14; m += 3) check_form(m, n, 3, QB_F32, NATIVE);
}

static void test_blocks_of_k_are_added_in_order(void)
{
    static const int64_t ks[] = {1, 127, 128, 129, 255, 256, 257, 1000, 3000};
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
        for (int dtype = QB_F32; dtype <= QB_F64; dtype++) {
            check(13, 20, ks[i], dtype);
            check(20, 1 + (int64_t)i % 5, ks[i], dtype);
            check(1, 40, ks[i], dtype);
        }
}

static void test_large_products_cross_every_chunk(void)
{
    check(400, 70, 150, QB_F32);
    check(400, 140, 150, QB_F64);
    check(230, 130, 260, QB_F32);
    check(9, 301, 1100, QB_F64);
    check(270, MEM_CHECKED ? 100 : 530, 140, QB_F32);
    check(MEM_CHECKED ? 60 : 530, 530, 140, QB_F64);
    for (int i = 0; i < (MEM_CHECKED ? 1 : 6); i++) check(200, 130, 140, QB_F64);
    for (int i = 0; i < (MEM_CHECKED ? 1 : 4); i++) check(20, 130, 520, QB_F64);
}

static void test_an_empty_sum_is_plus_zero(void)
{
    check(3, 5, 0, QB_F64);
    check(3, 5, 0, QB_F32);
    check(0, 5, 3, QB_F64);
    check(3, 0, 5, QB_F64);
    double c[15];
    GemmJob g = {.m = 3, .n = 5, .k = 0, .b_col = 1, .c = c, .c_row = 5, .dtype = QB_F64};
    isa_now()->gemm(&g, 0, 3);
    CHECK_EQ_BITS(c, ((double[15]){0}), sizeof c);
}

static void test_sizes_that_overflow_are_reported(void)
{
    GemmJob g = {.m = 1000,
                 .n = INT64_MAX / 128,
                 .k = 1000,
                 .a_row = 1000,
                 .a_col = 1,
                 .b_row = INT64_MAX / 128,
                 .b_col = 1,
                 .dtype = QB_F64};
    CHECK_EQ_INT(gemm_plan_bytes(&g), -1);
}

int main(void)
{
    RUN(test_random_products_are_the_plain_loop);
    RUN(test_every_tile_shape);
    RUN(test_blocks_of_k_are_added_in_order);
    RUN(test_large_products_cross_every_chunk);
    RUN(test_an_empty_sum_is_plus_zero);
    RUN(test_sizes_that_overflow_are_reported);
    return test_report();
}
