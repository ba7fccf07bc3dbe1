/* gemm_plan.c: how a product is computed, for all ISA levels alike: transposed or not, B packed or not, in what pieces. No choice
   here changes a bit of the result. */
#include "cpu/cpu.h"

/* B^T A^T in place of A B, by half cycles per k. A B takes m * n/8 vector fma, but a broadcast of A for each of its rows, so few columns
   cost as much as 14. B^T A^T takes n * m/8. The right operand costs about half a fma an element to transpose into panels. */
bool gemm_plan_swapped(const GemmJob *g)
{
    double m = (double)g->m, n = (double)g->n; /* any size, no overflow */
    double down = (double)((g->m + 7) / 8), across = (double)((g->n + 7) / 8);
    double wide = g->dtype == QB_F32 ? 1.25 : 0;
    double as_is = m * ((across > 1.75 ? across : 1.75) + wide) + (g->b_col == 1 ? 0 : 1.4 * n);
    double swapped = n * ((down > 1.75 ? down : 1.75) + wide) + (g->a_row == 1 ? 0 : 1.4 * m);
    return swapped < as_is;
}

/* Packing pays when more rows read B than it costs: B is read through strides, or widened, or is wider than a panel. A long B with
   few rows is packed by gemm_rows in chunks, or read where it lies. */
int64_t gemm_plan_bytes(const GemmJob *g)
{
    bool ready = g->b_col == 1 && g->dtype == QB_F64;
    if (gemm_plan_swapped(g) || g->m < 8 || (ready && g->n <= 32)) return 0;
    if (g->m < 256 && (g->k > 1024 || (ready && g->k > 512))) return 0;
    if (ready && (g->m < 128 || (double)g->n * (double)g->k <= 8192)) return 0;
    int64_t bytes;
    return mem_mul((g->n + 7) / 8 * 64, g->k, &bytes) ? bytes : -1;
}

/* Rows of one piece of work are best a multiple of this: tiles have up to 12 rows; of a transposed product rows are lanes. */
int64_t gemm_plan_grain(const GemmJob *g) { return gemm_plan_swapped(g) ? 64 : 12; }
