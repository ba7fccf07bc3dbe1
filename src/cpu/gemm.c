/* gemm.c: C = A B on register tiles, compiled once per ISA level (ISA is v3, v4 or neon).

   Every element is what the order contract of plan.h says: per block of 128 k one chain of fma in k
   order from +0.0, block results added in order, all in float64. What is free is which elements are
   computed together, and that is chosen for speed alone: it changes no bit.

   A tile (gemm_tile.h) keeps up to 24 accumulators of vectors in registers. It reads A as scalars
   through two strides, so a transposed A costs nothing, and B as rows of 1 to 4 vectors. Both are
   read where they lie or from copies:
   - B in panels, packed once per product (gemm_pack), or block by block on the stack. A block of
     128 k of one panel is 32 KB: it stays in L1 while the rows pass. Without a copy, B must be
     row-major float64.
   - A in chunks of 48 rows and 128 k on the stack: to widen float32, and where its stride is bad
     for L1 (a transposed A of 128 columns is 1.25 times as fast so). Chunks of 128 rows fell out of
     L1: widening took 16 % of a product of 64 columns, not 9 %. Rows of a copy are an odd number of
     cache lines apart, so that they share no sets.
   float64 totals are kept in C between blocks of k; float32 ones on the stack, rounded once at the
   end.

   A product whose B fills L2 comes in pieces of about 256 rows and 512 columns (gemm_plan.c), with
   memory of the thread: 128 k of B go there, 512 KB that stay in L2, and chunks of 96 rows of A pass
   over them. With B packed whole and read again for every 12 rows, the product of 1,024 ran at 38
   GFLOP/s a core, half of what the pieces reach. B is packed a row through all panels, since rows of
   a large matrix are pages apart: 1.4 times as fast as panel by panel.

   gemm_f32.c compiles this text once more, for native float32: Real is float, nothing is widened or
   rounded, and chains and totals are float32.

   A tile needs at least 8 accumulators to hide the latency of fma (4 cycles, 2 a cycle), so rows
   are cut in tiles of nearly equal height: 32 rows are 6 6 5 5 5 5, not 5 x 6 and a tile of 2.

   A product with few columns is computed as B^T A^T: its vectors run down A's rows, which the
   panels transpose in registers. One column, or one row, has a way of its own (gemm_column.h). */
#include "cpu/cpu.h"
#if defined(__AVX512F__)
#include "cpu/isa_v4.h"
#elif defined(__AVX2__)
#include "cpu/isa_v3.h"
#else
#include "cpu/isa_neon.h"
#endif
#include "cpu/gemm_tile.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#ifdef NATIVE
#define ENTRY(name) PASTE(name##_f32_, ISA)
#else
#define ENTRY(name) PASTE(name##_, ISA)
#endif

/* Rows and columns that are worked on together: chunks of 128 k of A and B stay in L2. Rows are
   multiples of 12, which all tiles divide well. Fewer where A is copied; with totals on the stack,
   or with B packed again for every chunk of rows, COPY_ROWS. */
enum { ROWS = 192, COLS = 128, FEW_ROWS = 48, COPY_ROWS = 120, COPY_COLS = 64, STEP = 12 };
/* LEAST_ROWS, where a copy of A and all of B fit L1 together: 1.03 times as fast. */
enum { LEAST_ROWS = 24, LEAST_B = 64 * 64 };
enum { LARGE_ROWS = 96 }; /* of a piece of a large product, where A is copied */

/* What is computed: the job's product or its transpose. C has two strides here. */
typedef struct {
    int64_t m, n, k;
    const void *a;
    int64_t a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    void *c;
    int64_t c_row, c_col;
    bool f32;
    bool narrow;        /* C is float32 */
    bool add;           /* C holds totals of earlier blocks of k */
    const Real *packed; /* all panels, or NULL */
} Product;

/* Copies, NULL: read or kept in place. `tall` rows and `cols` columns of C are worked on together, all
   k of them; in these, `few` rows for each pass over the panels. */
typedef struct {
    Real *a, *panels, *totals;
    int64_t tall, few, cols;
} Copies;

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- copies ---- */

/* Vectors of the panel that begins n columns before the end. The rest after the last full panels is
   halved. */
static int panel_of(int64_t n)
{
    int64_t v = (n + LANES - 1) / LANES;
    if (v <= VECTORS) return (int)v;
    return v < 2 * VECTORS - 1 ? (int)(v + 1) / 2 : VECTORS;
}

INLINE Real scalar(bool f32, const void *p, int64_t at)
{
    return f32 ? ((const float *)p)[at] : ((const Real *)p)[at];
}

INLINE V load_any(bool f32, M m, const void *p, int64_t at)
{
    return f32 ? load_f32_m(m, (const float *)p + at) : load_m(m, (const Real *)p + at);
}

INLINE V load_all(bool f32, const void *p, int64_t at)
{
    return f32 ? load_f32((const float *)p + at) : load((const Real *)p + at);
}

/* Whole vectors of columns as they lie, row by row: 1.2 times as fast as column by column with a mask. */
INLINE void pack_rows(const bool f32, const void *b, int64_t row, int64_t kc, int nv, Real *out)
{
    for (int64_t k = 0; k < kc; k++)
        for (int v = 0; v < nv; v++, out += LANES)
            store(out, load_all(f32, b, k * row + v * LANES));
}

/* Columns of one vector, w <= LANES of them, to out[k * step + j], zeros at the end: as they lie,
   or transposed in registers where B's columns are contiguous. */
INLINE void pack_vector(const bool f32, const void *b, int64_t row, int64_t col, int64_t w,
                        int64_t kc, Real *out, int64_t step)
{
    const M all = mask_of(LANES), m = mask_of(w);
    if (col == 1) {
        for (int64_t k = 0; k < kc; k++) store(out + k * step, load_any(f32, m, b, k * row));
    } else if (row == 1) {
        for (int64_t k = 0; k < kc; k += LANES) {
            V r[LANES];
            const bool whole = k + LANES <= kc;
            if (whole && !f32 && w == LANES) {
                load_columns((const Real *)b + k, col, r);
            } else {
                const M some = whole ? all : mask_of(kc - k);
#pragma GCC unroll 16
                for (int j = 0; j < LANES; j++)
                    r[j] = j < w ? load_any(f32, some, b, k + j * col) : splat(0);
                transpose(r);
            }
#pragma GCC unroll 16
            for (int j = 0; j < LANES; j++)
                if (whole || k + j < kc) store(out + (k + j) * step, r[j]);
        }
    } else {
        for (int64_t k = 0; k < kc; k++)
            for (int64_t j = 0; j < LANES; j++) {
                int64_t at = k * row + j * col;
                out[k * step + j] = j < w ? scalar(f32, b, at) : 0;
            }
    }
}

/* Rows k0 .. k0 + kc of the panel of nv vectors at column j0. */
static void pack_panel(const Product *p, int64_t k0, int64_t kc, int64_t j0, int nv, Real *out)
{
    const int64_t row = p->b_row, col = p->b_col, at = k0 * row + j0 * col;
    if (col == 1 && j0 + nv * LANES <= p->n) {
        if (p->f32)
            pack_rows(true, (const float *)p->b + at, row, kc, nv, out);
        else
            pack_rows(false, (const Real *)p->b + at, row, kc, nv, out);
        return;
    }
    for (int v = 0; v < nv; v++) {
        int64_t w = min(p->n - j0 - v * LANES, LANES), i = at + v * LANES * col;
        if (p->f32)
            pack_vector(true, (const float *)p->b + i, row, col, w, kc, out + v * LANES,
                        nv * LANES);
        else
            pack_vector(false, (const Real *)p->b + i, row, col, w, kc, out + v * LANES,
                        nv * LANES);
    }
}

/* `lines` lines of n numbers, in float64. The room of a line is a multiple of LANES. */
INLINE void copy_lines(const bool f32, const void *p, int64_t stride, int64_t step, int64_t lines,
                       int64_t n, Real *out, int64_t room)
{
    for (int64_t i = 0; i < lines; i++, out += room) {
        int64_t j = 0, at = i * stride;
        if (step == 1) {
#pragma GCC unroll 4
            for (; j + LANES <= n; j += LANES) store(out + j, load_all(f32, p, at + j));
            if (j < n) store(out + j, load_any(f32, mask_of(n - j), p, at + j));
            continue;
        }
        for (; j < n; j++) out[j] = scalar(f32, p, at + j * step);
    }
}

/* mc rows and kc columns of A, in the order in which they lie; s gets the new strides. */
static void copy_a(const Product *p, int64_t i0, int64_t mc, int64_t k0, int64_t kc, Real *out,
                   Block *s)
{
    const int64_t row = p->a_row, col = p->a_col, at = i0 * row + k0 * col;
    bool by_columns = row == 1 && col != 1;
    int64_t stride = by_columns ? col : row, step = by_columns ? row : col;
    int64_t lines = by_columns ? kc : mc, n = by_columns ? mc : kc;
    int64_t room = ((n + LANES - 1) / LANES | 1) * LANES;
    s->a_row = by_columns ? 1 : room;
    s->a_col = by_columns ? room : 1;
    if (p->f32)
        copy_lines(true, (const float *)p->a + at, stride, step, lines, n, out, room);
    else
        copy_lines(false, (const Real *)p->a + at, stride, step, lines, n, out, room);
}

/* ---- the product on tiles ---- */

/* The end of the chunk of columns that begins at j0: whole panels, at most `most` columns. */
static int64_t chunk_end(int64_t n, int64_t j0, int64_t most)
{
    int64_t j1 = j0;
    while (j1 < n && j1 + panel_of(n - j1) * LANES - j0 <= most) j1 += panel_of(n - j1) * LANES;
    return min(j1, n);
}

/* `panels` whole ones of columns as they lie, a row through all of them: rows of a large B lie in
   pages of their own. */
INLINE void pack_wide(const bool f32, const void *b, int64_t row, int64_t kc, int64_t panels,
                      Real *out)
{
    for (int64_t k = 0, at = 0; k < kc; k++, at = k * row, out += VECTORS * LANES)
        for (int64_t j = 0; j < panels; j++, at += VECTORS * LANES)
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                store(out + j * kc * VECTORS * LANES + v * LANES, load_all(f32, b, at + v * LANES));
}

/* Rows of the next of the nearly equal pieces in which `left` rows are cut, at most `most` each. */
static int64_t piece(int64_t left, int64_t most)
{
    if (left <= most) return left;
    int64_t pieces = (left + most - 1) / most;
    return ((left + pieces - 1) / pieces + STEP - 1) / STEP * STEP;
}

/* All panels of a chunk, of one block of k. */
static void pack_chunk(const Product *p, int64_t k0, int64_t kc, int64_t j0, int64_t j1, Real *out)
{
    const int64_t wide = VECTORS * LANES;
    int64_t j = j0, whole = 0;
    while (p->b_col == 1 && j + (whole + 1) * wide <= j1 &&
           panel_of(p->n - j - whole * wide) == VECTORS)
        whole++;
    if (whole > 1) {
        const int64_t at = k0 * p->b_row + j0;
        if (p->f32)
            pack_wide(true, (const float *)p->b + at, p->b_row, kc, whole, out);
        else
            pack_wide(false, (const Real *)p->b + at, p->b_row, kc, whole, out);
        out += whole * wide * kc;
        j += whole * wide;
    }
    while (j < j1) {
        int nv = panel_of(p->n - j);
        pack_panel(p, k0, kc, j, nv, out);
        out += nv * LANES * kc;
        j += nv * LANES;
    }
}

/* One block of k of a chunk; s has the strides of A and of the totals. */
INLINE void run_block(const Product *p, Block *s, int64_t mc, int64_t k0, int64_t j0, int64_t j1,
                      const Real *a, Real *c, float *out, const Real *panels)
{
    for (int64_t j = j0; j < j1;) {
        int nv = panel_of(p->n - j);
        int64_t width = min(j1 - j, nv * LANES);
        const Real *b;
        s->b_row = nv * LANES;
        if (p->packed) {
            b = p->packed + j * p->k + k0 * s->b_row;
        } else if (panels) {
            b = panels + (j - j0) * s->k;
        } else {
            s->b_row = p->b_row;
            b = (const Real *)p->b + k0 * p->b_row + j;
        }
        s->last = mask_of(width - (nv - 1) * LANES);
        tile_rows(s, mc, nv, a, b, c + (j - j0), out + (j - j0));
        j += width;
    }
}

/* A C that is not row-major: the totals of a chunk, from there when there are some, and back. */
static void gather(const Product *p, Real *totals, int64_t row, int64_t i0, int64_t mc, int64_t j0,
                   int64_t j1)
{
    for (int64_t i = 0; i < mc; i++, totals += row)
        for (int64_t j = j0; j < j1; j++)
            totals[j - j0] = ((Real *)p->c)[(i0 + i) * p->c_row + j * p->c_col];
}

static void scatter(const Product *p, const Real *totals, int64_t row, int64_t i0, int64_t mc,
                    int64_t j0, int64_t j1)
{
    for (int64_t i = 0; i < mc; i++, totals += row)
        for (int64_t j = j0, at; j < j1; j++) {
            at = (i0 + i) * p->c_row + j * p->c_col;
            if (p->narrow)
                ((float *)p->c)[at] = (float)totals[j - j0];
            else
                ((Real *)p->c)[at] = totals[j - j0];
        }
}

INLINE void run(const Product *p, const Copies *copy)
{
    bool once = p->k <= BLOCK; /* a chunk of B is packed once, for all rows */
    bool rounded = p->narrow && p->c_col == 1;
    Block s = {.a_row = p->a_row,
               .a_col = p->a_col,
               .c_row = copy->totals ? copy->cols : p->c_row,
               .out_row = p->c_row};
    for (int64_t j0 = 0, j1; j0 < p->n; j0 = j1) {
        j1 = chunk_end(p->n, j0, copy->cols);
        if (copy->panels && once) pack_chunk(p, 0, p->k, j0, j1, copy->panels);
        for (int64_t i0 = 0, i1; i0 < p->m; i0 = i1) {
            i1 = i0 + piece(p->m - i0, copy->tall);
            if (copy->totals && p->add) gather(p, copy->totals, copy->cols, i0, i1 - i0, j0, j1);
            for (int64_t k0 = 0; k0 == 0 || k0 < p->k; k0 += BLOCK) {
                s.k = min(p->k - k0, BLOCK);
                s.add = p->add || k0 > 0;
                s.rounded = rounded && k0 + BLOCK >= p->k;
                if (copy->panels && !once) pack_chunk(p, k0, s.k, j0, j1, copy->panels);
                for (int64_t i = i0, mc; i < i1; i += mc) {
                    mc = piece(i1 - i, copy->few);
                    const Real *a = (const Real *)p->a + i * p->a_row + k0 * p->a_col;
                    if (copy->a) copy_a(p, i, mc, k0, s.k, copy->a, &s), a = copy->a;
                    int64_t at = i * p->c_row + j0;
                    run_block(p, &s, mc, k0, j0, j1, a,
                              copy->totals ? copy->totals + (i - i0) * copy->cols
                                           : (Real *)p->c + at,
                              (float *)p->c + at, copy->panels);
                }
            }
            if (copy->totals && !rounded) scatter(p, copy->totals, copy->cols, i0, i1 - i0, j0, j1);
        }
    }
}

static void run_in_place(const Product *p)
{
    run(p, &(Copies){.tall = ROWS, .few = ROWS, .cols = COLS});
}

static void run_on_copies(const Product *p, bool a, bool b, bool c, Real *room)
{
    Real rows[BLOCK * (BLOCK + LANES)], panels[BLOCK * COLS], totals[COPY_ROWS * COPY_COLS];
    int64_t few = p->k <= BLOCK && p->n * p->k <= LEAST_B ? LEAST_ROWS : FEW_ROWS;
    int64_t tall = b && p->k > BLOCK ? COPY_ROWS : a ? few : c ? COPY_ROWS : ROWS;
    Copies copy = {a ? rows : NULL,     b ? panels : NULL, c ? totals : NULL, tall, tall,
                   c ? COPY_COLS : COLS};
    if (room) { /* one piece of a large product: all of it at once */
        int64_t cols = (p->n + LANES - 1) / LANES * LANES;
        few = a ? LARGE_ROWS : ROWS;
        copy = (Copies){copy.a, room, c ? room + BLOCK * cols : NULL, p->m, few, cols};
    }
    run(p, &copy);
}

#include "cpu/gemm_column.h"

/* ---- the entries ---- */

/* Strides of a large power of two put a tile's elements of A into few sets of L1: rows 4 KB apart,
   or columns 1 KB apart, of which it reads one per k. A copy pays when enough columns read it. */
static bool far_apart(const Product *p)
{
    const int64_t lines = (p->a_row == 1 ? p->a_col * 4 : p->a_row) * (int64_t)sizeof(Real);
    return lines >= 4096 && p->n >= 128 && p->m >= 8;
}

static Product transposed(const Product *p)
{
    return (Product){p->n,     p->m, p->k,     p->b,     p->b_col, p->b_row,  p->a,   p->a_col,
                     p->a_row, p->c, p->c_col, p->c_row, p->f32,   p->narrow, p->add, NULL};
}

void ENTRY(gemm_rows)(const GemmJob *g, int64_t m0, int64_t m1)
{
    const bool f32 = sizeof(Real) == 8 && g->dtype == QB_F32, narrow = f32 && !g->wide;
    const int64_t size = f32 ? 4 : sizeof(Real);
    Product p = {m1 - m0,  g->n,
                 g->k,     (const char *)g->a + m0 * g->a_row * size,
                 g->a_row, g->a_col,
                 g->b,     g->b_row,
                 g->b_col, (char *)g->c + m0 * g->c_row * (narrow ? 4 : (int64_t)sizeof(Real)),
                 g->c_row, 1,
                 f32,      narrow,
                 g->add,   g->packed};
    const bool free = !p.packed && !g->room;
    if (free && p.m == 1 && p.n > 1 && (p.b_row == 1 || p.b_col == 1)) p = transposed(&p);
    if (free && p.n == 1 && (p.a_row == 1 || p.a_col == 1)) {
        if (f32)
            column(true, &p);
        else
            column(false, &p);
        return;
    }
    if (free && g->swapped) p = transposed(&p);
    bool a = p.f32 || far_apart(&p), b = !p.packed && (p.f32 || p.b_col != 1);
    bool c = p.c_col != 1 || (narrow && p.k > BLOCK);
    if (a || b || c || g->room)
        run_on_copies(&p, a, b, c, g->room);
    else
        run_in_place(&p);
}

void ENTRY(gemm_pack)(const GemmJob *g)
{
    Product p = {.n = g->n,
                 .k = g->k,
                 .b = g->b,
                 .b_row = g->b_row,
                 .b_col = g->b_col,
                 .f32 = sizeof(Real) == 8 && g->dtype == QB_F32};
    pack_chunk(&p, 0, p.k, 0, p.n, g->packed);
}
