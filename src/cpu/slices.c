/* slices.c: large float32 products on byte multipliers (AMX), with a proof for every element.

   By the order contract an element is a chain in float64, rounded once to float32. The rounding
   hides nearly all that the chain does: whoever knows the exact sum to 2^-37 of the size of its terms
   knows the rounded one as well, but for one element in a thousand. And that much is cheaper than
   float64: AMX adds 16,384 products of bytes to int32 sums in 16 cycles, without rounding.

   - Slices (Ozaki, Ogita, Oishi, Rump: Error-free transformations of matrix multiplication, Numer.
     Algorithms 59, 2012). A row of A and a column of B are scaled by a power of two and cut into
     signed digits to base 256. The product of digits i and j counts 256^-(i+j); products of one such
     level add up in one int32 sum, exactly. Five digits and levels 0 to 5 are 19 byte products.
   - The proof. x is the sum of the levels, error bounds what separates it from what the contract
     says: digits and levels that are left out, the rounding of x, and the rounding of the contract's
     own chain, all by the norms of the row and the column (Cauchy-Schwarz). Rounding is monotone:
     where x - error and x + error round to the same float32, every number between them does, and one
     of these is the contract's total. Zero is no such number, for its sign is not known.
   - Elements without a proof are computed by gemm.c. So every bit is what it would have been.

   Where many elements lack a proof (sums that cancel, rows of very uneven size, numbers that are not
   finite) the piece is refused: 512 of its elements are tried first. After that some pieces are not
   tried at all. Which way a piece takes changes its time alone. */
#include "cpu/slices.h"
#include <math.h>
#include <stdlib.h>
#ifdef QB_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Rows and columns of a piece, and the k of its part of B that is cut at a time: 1.3 MB, for L2. */
enum { ROWS = 1024, FEW_ROWS = 256, COLS = 256, PANEL_CHUNKS = 4 };
/* Longer sums have too wide bounds; shorter ones do not pay for their digits. */
enum { LEAST_K = 128, MOST_K = 8192 };
/* Many elements without a proof cost as much as 17 each in the common way, few of them as much as 40.
   A product is as good as 1.7 in the common way, so one in 50 may be without a proof where it is
   tried. */
enum { REPAIR = 17, REPAIR_TRIED = 50 };
enum { TRY_ROWS = LINES, TRY_COLS = 2 * LINES, DOUBT = 64 };

static atomic_llong proved, repaired, refused;

void slices_count(int64_t *p, int64_t *without, int64_t *pieces)
{
    *p = atomic_load(&proved), *without = atomic_load(&repaired), *pieces = atomic_load(&refused);
}

#ifdef QB_AMX
/* ---- may tiles be used? ---- */

/* The CPU has them, the system saves them, and it lets this process use them: such a process has
   larger signal frames, so it must ask. Valgrind shows a CPU that has none. */
static bool permitted(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, OSXSAVE = 1 << 27 };
    enum { VBMI = 1 << 1, TILES = 1 << 24, INT8 = 1 << 25, TILE_STATE = 3 << 17 };
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!(c & VBMI) || !(d & TILES) || !(d & INT8)) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILE_STATE) == TILE_STATE &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static bool here(const Isa *isa)
{
    static atomic_int known; /* 0: not yet, 1: no, 2: yes */
    if (strcmp(isa->name, "v4") != 0) return false;
    int k = atomic_load(&known);
    if (!k) atomic_store(&known, k = permitted() ? 2 : 1);
    return k == 2;
}

/* ---- plans ---- */

bool slices_wanted(const GemmJob *g)
{
    const char *s = getenv("QUABLA_AMX");
    if (s && strcmp(s, "0") == 0) return false;
    return g->dtype == QB_F32 && !g->native && !g->wide && g->k >= LEAST_K && g->k <= MOST_K &&
           here(isa_now());
}

int64_t slices_cols(const GemmJob *g) { return gemm_plan_even(g->n, COLS, LINES); }

/* Every piece cuts its part of B, and reads it once more for what is not proved: high ones, but two for
   every thread. */
int64_t slices_rows(const GemmJob *g)
{
    int64_t rows = g->k > CHUNK_K ? ROWS / 2 : ROWS, across = (g->n + COLS - 1) / COLS;
    while (rows > FEW_ROWS && (g->m + rows - 1) / rows * across < 2 * pool_threads()) rows /= 2;
    return gemm_plan_even(g->m, rows, LINES);
}

/* One piece, or the elements of it that are tried. */
typedef struct {
    const GemmJob *g;
    const float *a;
    float *c;
    int64_t rows, cols, strips, groups;
    int64_t chunks, chunk_k, chunk_bytes; /* of k; nearly equal ones */
    Group *row, *col;
    int8_t *left, *panel;
    int32_t *sums;
    double *x;
    uint16_t *failed;
    int64_t count; /* elements without a proof */
} Work;

static void *take(char *room, int64_t *used, int64_t bytes)
{
    char *p = room ? room + *used : NULL;
    *used += mem_lines(bytes);
    return p;
}

/* Where things are in the room, if there is one yet; returns the bytes of it. */
static int64_t lay(Work *w, char *room)
{
    int64_t used = 0;
    w->strips = (w->rows + LINES - 1) / LINES, w->groups = (w->cols + LINES - 1) / LINES;
    w->chunks = (w->g->k + CHUNK_K - 1) / CHUNK_K;
    w->chunk_k = gemm_plan_even(w->g->k, CHUNK_K, STEP_K);
    w->chunk_bytes = w->chunk_k / STEP_K * STEP_BYTES;
    int64_t sums = w->chunks > 1 ? w->strips * w->groups * ELEMS : 0;
    w->panel = take(room, &used, w->groups * w->chunk_bytes);
    w->x = take(room, &used, sums * (int64_t)sizeof *w->x);
    w->left = take(room, &used, w->chunk_bytes);
    w->sums = take(room, &used, SUMS * (int64_t)sizeof *w->sums);
    w->row = take(room, &used, w->strips * (int64_t)sizeof *w->row);
    w->col = take(room, &used, w->groups * (int64_t)sizeof *w->col);
    w->failed = take(room, &used, w->strips * w->groups * LINES * (int64_t)sizeof *w->failed);
    return used;
}

int64_t slices_room(const GemmJob *g, int64_t rows)
{
    Work w = {.g = g, .rows = rows, .cols = slices_cols(g)};
    int64_t own = lay(&w, NULL);
    int64_t common = (BLOCK + SLICES_COMMON) * w.cols * (int64_t)sizeof(double);
    return own > common ? own : common;
}

/* ---- scales and bounds ---- */

static bool usable(uint32_t exponent) { return exponent >= 27 && exponent <= 227; }

/* The power of two above 128/127 of the largest number: then the highest digit is one. A line of zeros
   has scale and unit 0; one without a scale too, and no bound. */
static void scale_lines(Group *g, const uint32_t *bits)
{
    *g = (Group){.zeros = 0};
    for (int i = 0; i < LINES; i++) {
        uint32_t exponent = (bits[i] + 0x20000) >> 23;
        if (bits[i] == 0) g->zeros |= 1u << i;
        if (!usable(exponent)) {
            g->bound[0][i] = g->bound[1][i] = g->bound[2][i] = bits[i] ? NAN : 0;
            continue;
        }
        g->scale[i] = ldexpf(1, 23 + 126 - (int)exponent);
        g->unit[i] = ldexp(1, (int)exponent - 126 - 27);
    }
}

/* Bounds in units of the sums, 2^-54 of the scaled lines a and b. With norms n of a line, s of its
   digits 3 and 4, f of its digit 4, r of what is left out, and w of any digit 2,
     |x - total| <= c n_a n_b + r_a n_b + n_a r_b + s_a s_b + w (f_a + f_b)
   c: roundings of the contract's chain and of x. s_a s_b <= (s_a^2 + s_b^2) / 2 makes a sum of it.
   n is that of the line and r together; 1.01 covers the rounding of the bounds themselves. */
static void bound_lines(Group *g, int64_t k, bool left)
{
    const bool nearest = (__builtin_ia32_stmxcsr() >> 13 & 3) == 0;
    const double root = sqrt((double)k), blocks = (double)(k / BLOCK + 1);
    const double c = (BLOCK + 2 * blocks + 6) * (nearest ? 0x1p-53 : 0x1p-52);
    for (int i = 0; i < LINES; i++) {
        if (g->scale[i] == 0) continue;
        double r = 1.01 * sqrt((double)g->rest[i]) * 0x1p-47 + root * 0x1p-140;
        double n = 1.01 * sqrt((double)g->square[i]) * 0x1p-23 + r;
        double s = 0x1p54 * 1.01 * (double)g->tail[i] * 0x1p-94;
        double f = 0x1p54 * 1.01 * sqrt((double)g->fine[i]) * 0x1p-32;
        g->bound[0][i] = left ? 0x1p54 * 1.01 * (c * n + r) : n;
        g->bound[1][i] = left ? 0x1p54 * 1.01 * n : r;
        g->bound[2][i] = s / 2 + root * 0x1p-16 * f;
    }
}

/* ---- the product ---- */

static int lesser(int64_t n, int most) { return n < most ? (int)n : most; }

static Lines rows_of(const Work *w, int64_t strip)
{
    const GemmJob *g = w->g;
    return (Lines){w->a + strip * LINES * g->a_row, g->a_row, g->a_col, g->k,
                   lesser(w->rows - strip * LINES, LINES)};
}

static Lines cols_of(const Work *w, int64_t group, int most)
{
    const GemmJob *g = w->g;
    return (Lines){(const float *)g->b + group * LINES * g->b_col, g->b_col, g->b_row, g->k,
                   lesser(w->cols - group * LINES, most)};
}

/* One chunk of all columns. Scales come from the first one, bounds are known after the last one. */
static void cut_columns(Work *w, int64_t k0, int64_t k1)
{
    const int64_t k = w->g->k;
    for (int64_t j = 0; j < w->groups; j++) {
        if (k0 == 0 && j % WIDE == 0) {
            uint32_t bits[WIDE * LINES] = {0};
            Lines wide = cols_of(w, j, WIDE * LINES);
            amx_largest(&wide, bits);
            for (int i = 0; i < WIDE && j + i < w->groups; i++)
                scale_lines(&w->col[j + i], bits + i * LINES);
        }
        Lines p = cols_of(w, j, LINES);
        amx_right(&p, &w->col[j], k0, k1, w->panel + j * w->chunk_bytes);
        if (k1 == k) bound_lines(&w->col[j], k, false);
    }
}

static void multiply_strip(Work *w, int64_t i, int64_t k0, int64_t k1)
{
    const int64_t k = w->g->k;
    Lines p = rows_of(w, i);
    Group *row = &w->row[i];
    if (k0 == 0) {
        uint32_t bits[LINES];
        amx_largest(&p, bits);
        scale_lines(row, bits);
    }
    amx_left(&p, row, k0, k1, w->left);
    if (k1 == k) bound_lines(row, k, true);
    bool near = p.step == 1 && (i + 2) * LINES <= w->rows;
    Strip s = {.a = w->left,
               .b = w->panel,
               .b_bytes = w->chunk_bytes,
               .steps = (int)((k1 - k0 + STEP_K - 1) / STEP_K),
               .cols = w->cols,
               .sums = w->sums,
               .x = w->chunks > 1 ? w->x + i * w->groups * ELEMS : NULL,
               .next = near ? p.at + k0 + LINES * p.line : NULL,
               .next_row = p.line,
               .row = row,
               .col = w->col,
               .c = w->c + i * LINES * w->g->c_row,
               .c_row = w->g->c_row,
               .rows = p.lines,
               .failed = w->failed + i * w->groups * LINES};
    amx_strip(&s, k0 == 0, k1 == k);
    w->count += s.count;
}

/* Everything, with a count of what is not proved. */
static void multiply(Work *w)
{
    const int64_t k = w->g->k;
    memset(w->failed, 0, (size_t)(w->strips * w->groups * LINES) * sizeof *w->failed);
    w->count = 0;
    for (int64_t k0 = 0, k1; k0 < k; k0 = k1) {
        k1 = k0 + w->chunk_k < k ? k0 + w->chunk_k : k;
        cut_columns(w, k0, k1);
        for (int64_t i = 0; i < w->strips; i++) multiply_strip(w, i, k0, k1);
    }
}

/* ---- what is not proved ---- */

/* Block of k by block of k, so that a line of B comes from memory once for all of them. */
static void run_chains(const GemmJob *g, Element *c, int n)
{
    const int full = (n + CHAINS - 1) / CHAINS * CHAINS;
    for (int i = n; i < full; i++) c[i] = c[0];
    for (int64_t k = 0; k < g->k; k += BLOCK)
        for (int i = 0; i < full; i += CHAINS)
            amx_chains(c + i, g->a_col, g->b_row, g->k - k < BLOCK ? g->k - k : BLOCK, k == 0);
    for (int i = 0; i < n; i++) *c[i].out = (float)c[i].total;
}

static void repair(const Work *w)
{
    enum { MOST = 32 * CHAINS };
    const GemmJob *g = w->g;
    Element list[MOST];
    int n = 0;
    for (int64_t group = 0; group < w->groups; group++)
        for (int64_t i = 0; i < w->rows; i++) {
            unsigned bits = w->failed[(i / LINES * w->groups + group) * LINES + i % LINES];
            for (; bits; bits &= bits - 1) {
                int64_t j = group * LINES + __builtin_ctz(bits);
                list[n++] = (Element){w->a + i * g->a_row, (const float *)g->b + j * g->b_col,
                                      w->c + i * g->c_row + j, 0};
                if (n == MOST) run_chains(g, list, n), n = 0;
            }
        }
    if (n) run_chains(g, list, n);
}

/* Are there so few without a proof that it was worth it? */
static bool worth(const Work *w, int repair_cost)
{
    return w->count * repair_cost <= w->rows * w->cols;
}

static bool doubted(atomic_int *doubt)
{
    int left = atomic_load_explicit(doubt, memory_order_relaxed);
    if (left > 0) atomic_store_explicit(doubt, left - 1, memory_order_relaxed);
    return left > 0;
}

bool slices_run(const GemmJob *g, const Isa *isa, int64_t m0, int64_t m1)
{
    if (g->add || !here(isa) || doubted(g->doubt)) return false;
    Work w = {.g = g,
              .a = (const float *)g->a + m0 * g->a_row,
              .c = (float *)g->c + m0 * g->c_row,
              .rows = m1 - m0,
              .cols = g->n};
    Work first = w;
    first.rows = w.rows < TRY_ROWS ? w.rows : TRY_ROWS;
    first.cols = w.cols < TRY_COLS ? w.cols : TRY_COLS;
    amx_open();
    lay(&first, g->room);
    multiply(&first);
    bool good = worth(&first, REPAIR_TRIED);
    if (good) lay(&w, g->room), multiply(&w), good = worth(&w, REPAIR);
    amx_close();
    if (!good) {
        atomic_store_explicit(g->doubt, DOUBT, memory_order_relaxed);
        atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
        return false;
    }
    if (w.count) repair(&w);
    atomic_fetch_add_explicit(&proved, w.rows * w.cols - w.count, memory_order_relaxed);
    atomic_fetch_add_explicit(&repaired, w.count, memory_order_relaxed);
    return true;
}
#else
bool slices_wanted(const GemmJob *g) { return g == NULL; }
int64_t slices_rows(const GemmJob *g) { return g->m; }
int64_t slices_cols(const GemmJob *g) { return g->n; }
int64_t slices_room(const GemmJob *g, int64_t rows) { return (void)g, (void)rows, 0; }
bool slices_run(const GemmJob *g, const Isa *isa, int64_t m0, int64_t m1)
{
    (void)g, (void)isa, (void)m0, (void)m1;
    return false;
}
#endif
