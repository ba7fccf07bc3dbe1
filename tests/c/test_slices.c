/* slices.c: the bits of gemm.c, whatever the numbers are; by proof where that is to be expected, and
   not where it cannot be. On a CPU without AMX nothing is computed by slices, and only that is seen. */
#include "cpu/cpu.h"
#include "test.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

static uint64_t state = 1;
static double uniform(void) /* [0, 1) */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / 0x1p24;
}
static int64_t below(int64_t n) { return (int64_t)(uniform() * (double)n); }
static double normal(void)
{
    double s = -6;
    for (int i = 0; i < 12; i++) s += uniform();
    return s;
}

/* ---- what is in a matrix: number k of a row of A or a column of B ---- */
typedef double Fill(int64_t line, int64_t k);
static double normals(int64_t line, int64_t k) { return (void)line, (void)k, normal(); }
static double positive(int64_t line, int64_t k) { return (void)line, (void)k, uniform(); }
static double integers(int64_t line, int64_t k) { return (void)line, (void)k, (double)below(99); }
/* Sums are 2^26 + 4 + a multiple of 16: halfway between two float32. */
static double halfway(int64_t line, int64_t k)
{
    return (void)line, k == 0 ? 8192 : k == 1 ? 2 : (double)(4 * below(3) - 4);
}
/* And these a little above or below. */
static double near_halfway(int64_t line, int64_t k)
{
    return k == 2 ? (line % 2 ? -0.0625 : 0.0625) : halfway(line, k);
}
static double graded(int64_t line, int64_t k)
{
    return (void)k, ldexp(normal(), (int)(line * 37 % 121) - 60);
}
static double graded_along(int64_t line, int64_t k)
{
    return (void)line, ldexp(normal(), (int)(k * 37 % 121) - 60);
}
static double wide(int64_t line, int64_t k) { return (void)line, (void)k, exp(4 * normal()); }
/* k and k + 1 cancel: what is left is the rounding of the contract's chain, and here zero. */
static double plus_minus(int64_t line, int64_t k)
{
    double x = (double)((line * 7 + k / 2 * 13) % 101) / 7;
    return k % 2 ? -x : x;
}
static double pairs(int64_t line, int64_t k) { return (double)((line * 3 + k / 2 * 5) % 89) / 11; }
/* What is left is 2^-30 of the terms, with one that is rounded away in float64. */
static double nearly(int64_t line, int64_t k)
{
    return plus_minus(line, k) * 1e6 + (k % 97 == 0 ? ldexp(normal(), -20) : 0);
}
/* As these, so small that results are zeros of either sign. */
static double nearly_faint(int64_t line, int64_t k) { return ldexp(nearly(line, k), -70); }
static double pairs_faint(int64_t line, int64_t k) { return ldexp(pairs(line, k), -70); }
static double sparse(int64_t line, int64_t k)
{
    if (line % 5 == 2) return line % 2 ? -0.0 : 0.0;
    return (void)k, below(3) ? (below(2) ? 0.0 : -0.0) : normal();
}
static double subnormal(int64_t line, int64_t k)
{
    return (void)line, (void)k, ldexp(normal(), -145 + (int)below(12));
}
static double large(int64_t line, int64_t k) { return (void)line, (void)k, ldexp(normal(), 64); }
/* Rows in which no power of two helps; none among the first ones. */
static double special(int64_t line, int64_t k)
{
    switch (line % 128) {
    case 40: return k == 5 ? INFINITY : normal();
    case 41: return k == 77 ? NAN : normal();
    case 42: return ldexp(1, -149);
    case 43: return FLT_MAX;
    default: return normal();
    }
}

/* ---- a product, both ways ---- */
typedef enum { ROWS, TRANSPOSED, STRIDED } Layout;
typedef struct {
    int64_t m, n, k;
    Fill *a, *b;
    Layout a_lies, b_lies;
} Case;

/* `lines` lines of k numbers; memory ends where the matrix ends. by_line: numbers of a line lie together. */
static float *matrix(int64_t lines, int64_t k, Fill *fill, bool by_line, bool strided,
                     int64_t *line, int64_t *step)
{
    int64_t gap = strided ? 3 : 1;
    *line = by_line ? k * gap : gap, *step = by_line ? gap : lines * gap;
    float *p = calloc((size_t)((lines - 1) * *line + (k - 1) * *step + 1), sizeof *p);
    for (int64_t i = 0; p && i < lines; i++)
        for (int64_t j = 0; j < k; j++) p[i * *line + j * *step] = (float)fill(i, j);
    return p;
}

typedef struct {
    bool ran, same;
    int64_t proved, repaired;
} Outcome;

static Outcome both(const Case *t)
{
    Outcome o = {false, false, 0, 0};
    atomic_int doubt = 0;
    GemmJob g = {.m = t->m, .n = t->n, .k = t->k, .dtype = QB_F32, .c_row = t->n + 3};
    g.doubt = &doubt;
    float *a =
        matrix(t->m, t->k, t->a, t->a_lies != TRANSPOSED, t->a_lies == STRIDED, &g.a_row, &g.a_col);
    float *b =
        matrix(t->n, t->k, t->b, t->b_lies == TRANSPOSED, t->b_lies == STRIDED, &g.b_col, &g.b_row);
    size_t bytes = (size_t)((t->m - 1) * g.c_row + t->n) * sizeof(float);
    char *c = malloc(bytes), *want = malloc(bytes);
    if (!a || !b || !c || !want) return o;
    g.a = a, g.b = b;
    memset(c, 0x77, bytes), memset(want, 0x77, bytes);
    g.c = want, g.swapped = gemm_plan_swapped(&g);
    isa_now()->gemm(&g, 0, g.m);
    int64_t p[2], r[2], refused;
    slices_count(&p[0], &r[0], &refused);
    o.ran = slices_wanted(&g);
    int64_t rows = o.ran ? slices_rows(&g) : g.m, cols = o.ran ? slices_cols(&g) : g.n;
    for (int64_t j = 0; o.ran && j < t->n; j += cols)
        for (int64_t i = 0; o.ran && i < t->m; i += rows) {
            GemmJob piece = g;
            piece.n = t->n - j < cols ? t->n - j : cols;
            piece.b = b + j * g.b_col, piece.c = (float *)c + j;
            piece.room = mem_alloc((size_t)slices_room(&g, rows));
            o.ran =
                piece.room && slices_run(&piece, isa_now(), i, i + rows < t->m ? i + rows : t->m);
            mem_free(piece.room);
        }
    slices_count(&p[1], &r[1], &refused);
    o.proved = p[1] - p[0], o.repaired = r[1] - r[0];
    o.same = memcmp(c, want, bytes) == 0;
    free(a), free(b), free(c), free(want);
    return o;
}

static bool here(void)
{
    GemmJob g = {.m = 512, .n = 512, .k = 512, .dtype = QB_F32};
    return slices_wanted(&g);
}

/* Every element is proved or repaired, and at least so many are proved. */
static void check(Case t, double proved)
{
    if (!here()) return;
    Outcome o = both(&t);
    CHECK(o.ran);
    CHECK(o.same);
    CHECK_EQ_INT(o.proved + o.repaired, t.m * t.n);
    if (!CHECK((double)o.proved >= proved * (double)(t.m * t.n)))
        fprintf(stderr, "m %lld n %lld k %lld: proved %lld, repaired %lld\n", (long long)t.m,
                (long long)t.n, (long long)t.k, (long long)o.proved, (long long)o.repaired);
}

static void test_elements_of_common_matrices_are_proved(void)
{
    check((Case){256, 256, 512, normals, normals, 0, 0}, 0.998);
    check((Case){256, 256, 512, positive, positive, 0, 0}, 0.9999);
    check((Case){256, 256, 512, normals, positive, 0, 0}, 0.998);
    check((Case){256, 256, 512, integers, integers, 0, 0}, 0.9999);
    check((Case){256, 256, 512, near_halfway, near_halfway, 0, 0}, 0.9999);
    check((Case){256, 256, 512, graded, graded, 0, 0}, 0.998);
    check((Case){256, 256, 512, sparse, normals, 0, 0}, 0.99);
    check((Case){256, 256, 512, normals, sparse, 0, 0}, 0.99);
    check((Case){256, 256, 512, large, large, 0, 0}, 0.99); /* they are infinite */
}

static void test_shapes_and_layouts(void)
{
    static const int64_t sizes[][3] = {{256, 257, 256},  {263, 90, 300},    {270, 301, 1030},
                                       {17, 65, 2100},   {300, 66, 319},    {256, 80, 1024},
                                       {1100, 270, 257}, {33, 31, 4096 + 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int l = 0; l < 9; l++)
            if (!MEM_CHECKED || (i + (size_t)l) % 8 == 0)
                check((Case){sizes[i][0], sizes[i][1], sizes[i][2], normals, normals, l % 3, l / 3},
                      0.98);
}

static void test_the_shortest_and_the_longest_sums(void)
{
    if (!here()) return;
    GemmJob g = {.m = 512, .n = 512, .k = 127, .dtype = QB_F32};
    CHECK(!slices_wanted(&g));
    g.k = 8193;
    CHECK(!slices_wanted(&g));
    check((Case){32, 40, 128, normals, normals, 0, 0}, 0.99);
    check((Case){32, 40, 8192, positive, positive, 0, 0}, 0.9);
}

static void test_rows_without_a_scale_are_repaired(void)
{
    check((Case){256, 256, 512, special, normals, 0, 0}, 0.95);
    check((Case){256, 256, 512, normals, special, 0, 0}, 0.95);
    check((Case){256, 256, 1500, special, positive, TRANSPOSED, TRANSPOSED}, 0.95);
}

/* Ties have no proof: both neighbours are within the bound. */
static void test_what_has_no_proof_is_refused(void)
{
    static const Case cases[] = {
        {256, 256, 512, plus_minus, pairs, 0, 0},         {256, 256, 512, nearly, pairs, 0, 0},
        {256, 256, 512, nearly_faint, pairs_faint, 0, 0}, {256, 256, 512, halfway, halfway, 0, 0},
        {256, 256, 512, subnormal, normals, 0, 0},
    };
    if (!here()) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Outcome o = both(&cases[i]);
        CHECK(!o.ran);
        CHECK_EQ_INT(o.proved + o.repaired, 0);
    }
}

/* Whether these are refused is not said; the bits are. */
static void test_uneven_matrices(void)
{
    static const Case cases[] = {{256, 256, 512, wide, wide, 0, 0},
                                 {256, 256, 512, wide, normals, 0, 0},
                                 {256, 256, 512, sparse, sparse, 0, 0},
                                 {256, 256, 512, graded_along, normals, 0, 0},
                                 {256, 256, 512, graded, special, 0, 0}};
    if (!here()) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Outcome o = both(&cases[i]);
        CHECK(o.same || !o.ran);
    }
}

static void test_a_refused_piece_spares_the_next_ones_the_try(void)
{
    if (!here()) return;
    atomic_int doubt = 0;
    static float zero[256 * 256 * 2];
    for (int i = 0; i < 256 * 512; i++) zero[i] = i % 2 ? -1.0f : 1.0f;
    static float ones[512 * 64], c[256 * 64];
    for (int i = 0; i < 512 * 64; i++) ones[i] = 1;
    GemmJob g = {.m = 256, .n = 64, .k = 512, .a = zero, .a_row = 512, .a_col = 1};
    g.b = ones, g.b_row = 64, g.b_col = 1, g.c = c, g.c_row = 64, g.dtype = QB_F32;
    g.doubt = &doubt, g.room = mem_alloc((size_t)slices_room(&g, 256));
    int64_t proved, repaired, before, after;
    slices_count(&proved, &repaired, &before);
    for (int i = 0; i < 10; i++) CHECK(!slices_run(&g, isa_now(), 0, 256));
    slices_count(&proved, &repaired, &after);
    CHECK_EQ_INT(after - before, 1);
    mem_free(g.room);
}

static void test_the_switch_and_other_levels_leave_it_alone(void)
{
    qb_error err;
    GemmJob g = {.m = 512, .n = 512, .k = 512, .dtype = QB_F32};
    const char *s = getenv("QUABLA_AMX");
    char was[8];
    snprintf(was, sizeof was, "%s", s ? s : "1");
    setenv("QUABLA_AMX", "0", 1);
    CHECK(!slices_wanted(&g));
    setenv("QUABLA_AMX", was, 1);
    if (isa_set("v3", &err)) CHECK(!slices_wanted(&g));
    isa_set(NULL, &err);
    g.dtype = QB_F64;
    CHECK(!slices_wanted(&g));
    g.dtype = QB_F32, g.native = true;
    CHECK(!slices_wanted(&g));
}

int main(void)
{
    if (!here()) printf("no AMX here: products are not sliced\n");
    RUN(test_elements_of_common_matrices_are_proved);
    RUN(test_shapes_and_layouts);
    RUN(test_the_shortest_and_the_longest_sums);
    RUN(test_rows_without_a_scale_are_repaired);
    RUN(test_what_has_no_proof_is_refused);
    RUN(test_uneven_matrices);
    RUN(test_a_refused_piece_spares_the_next_ones_the_try);
    RUN(test_the_switch_and_other_levels_leave_it_alone);
    return test_report();
}
