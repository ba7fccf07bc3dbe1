/* gemm_plan.c: how a product is computed, for all ISA levels alike: transposed or not, B packed or
   not, in what pieces. No choice here changes a bit of the result. */
#include "cpu/cpu.h"

static bool widens(const GemmJob *g) { return g->dtype == QB_F32 && !g->native; }

/* Half cycles per k, measured on AVX-512: a copy of the right operand takes 1.6 an element where it
   is transposed into panels, 0.6 where it is only widened. */
static double copying(const GemmJob *g, bool by_rows)
{
    return !by_rows ? 1.6 : widens(g) ? 0.6 : 0;
}

/* B^T A^T in place of A B? A B takes m * n/8 vector fma, but a broadcast of A for each of its rows,
   so few columns cost as much as 14. B^T A^T takes n * m/8, and stores one by one. Left operands of
   float32 are widened. */
bool gemm_plan_swapped(const GemmJob *g)
{
    double m = (double)g->m, n = (double)g->n, k = (double)g->k; /* any size, no overflow */
    int64_t lanes = g->native ? 16 : 8;
    double down = (double)((g->m + lanes - 1) / lanes);
    double across = (double)((g->n + lanes - 1) / lanes);
    double widen = widens(g) ? 1.25 : 0, stores = n == 1 && g->c_row == 1 ? 0 : 8 * m * n / k;
    double as_is = m * ((across > 1.75 ? across : 1.75) + widen) + n * copying(g, g->b_col == 1);
    double swapped =
        n * ((down > 1.75 ? down : 1.75) + widen) + m * copying(g, g->a_row == 1) + stores;
    return swapped < as_is;
}

/* A B that fills L2 would be read from memory again for every few rows. Such a product falls into
   pieces of rows and columns. A piece packs 128 k of its B into the thread's memory, which stays in
   L2 while all its rows pass; there are its float64 totals, too, where C is float32. */
bool gemm_plan_large(const GemmJob *g)
{
    double bytes = (double)g->n * (double)g->k * (g->native ? 4 : 8);
    return bytes >= 1 << 20 && g->m >= 256 && g->n > 64 && !gemm_plan_swapped(g);
}

/* Pieces of nearly equal size, at most `most`. */
int64_t gemm_plan_even(int64_t n, int64_t most, int64_t step)
{
    int64_t pieces = n > most ? (n + most - 1) / most : 1;
    return ((n + pieces - 1) / pieces + step - 1) / step * step;
}

/* Packing B costs as much as 20 rows of the product, copying A as much as 30 columns. */
int64_t gemm_plan_rows(const GemmJob *g)
{
    return gemm_plan_even(g->m, g->m < 1024 ? 256 : g->m < 2048 ? g->m / 4 : 512, 12);
}
int64_t gemm_plan_cols(const GemmJob *g) { return gemm_plan_even(g->n, 512, 64); }

int64_t gemm_plan_room(const GemmJob *g)
{
    int64_t rows = widens(g) && !g->wide && g->k > BLOCK ? gemm_plan_rows(g) : 0;
    return (BLOCK + rows) * gemm_plan_cols(g) * (g->native ? 4 : 8);
}

/* Packing pays when more rows read B than it costs: B is read through strides, or widened, or is
   wider than a panel. A long B with few rows is packed by gemm_rows in chunks, or read where it
   lies. */
int64_t gemm_plan_bytes(const GemmJob *g)
{
    bool ready = g->b_col == 1 && !widens(g);
    int64_t bytes, lanes = g->native ? 16 : 8; /* elements of 64 bytes */
    if (gemm_plan_swapped(g) || g->m < 8 || (ready && g->n <= 4 * lanes)) return 0;
    if (g->m < 256 && (g->k > 1024 || (ready && g->k > 512))) return 0;
    if (ready && (g->m < 128 || (double)g->n * (double)g->k <= 1024.0 * (double)lanes)) return 0;
    return mem_mul((g->n + lanes - 1) / lanes * 64, g->k, &bytes) ? bytes : -1;
}

/* Tiles have up to 12 rows; of a transposed product rows are lanes. Where gemm_rows copies B for
   itself, every piece pays for a copy: then few pieces. */
int64_t gemm_plan_grain(const GemmJob *g)
{
    if (gemm_plan_swapped(g)) return 64; /* rows are lanes */
    bool copies = (g->b_col != 1 || widens(g)) && gemm_plan_bytes(g) == 0;
    int64_t half = (g->m / 2 + 11) / 12 * 12;
    return !copies || half < 12 ? 12 : half < 96 ? half : 96;
}
