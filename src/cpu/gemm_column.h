/* gemm_column.h: A times one column, for gemm.c. As a product of tiles it would be B^T A^T, whose panels
   are A transposed into memory and read back: more work than the product. Here vectors run down the rows
   of A and nothing is copied: where columns of A lie as they are (A is transposed) an element of B
   multiplies each vector; else LANES rows are transposed in registers, LANES k at a time. */
#ifndef GEMM_COLUMN_H
#define GEMM_COLUMN_H

enum { DOWN = 4, DOWN_LONG = REGISTERS / 2 }; /* vectors of rows: their chains hide the latency of fma */

/* Block k0 .. k0 + kc of nv vectors of rows from i0 on; `last` selects those of the last vector. */
INLINE void down_columns(const bool f32, const int nv, const Product *p, int64_t i0, M last, int64_t k0, int64_t kc,
                         V acc[DOWN_LONG])
{
    int64_t at = k0 * p->a_col + i0, b = k0 * p->b_row;
    for (int64_t k = 0; k < kc; k++, at += p->a_col, b += p->b_row) {
        const V x = splat(scalar(f32, p->b, b));
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            acc[j] = fma_v(j == nv - 1 ? load_any(f32, last, p->a, at + j * LANES) : load_all(f32, p->a, at + j * LANES), x, acc[j]);
    }
}

INLINE void down_rows(const bool f32, const int nv, const Product *p, int64_t i0, int64_t rows, int64_t k0, int64_t kc,
                      V acc[DOWN_LONG])
{
    for (int64_t k = 0; k < kc; k += LANES) {
        const int64_t few = min(kc - k, LANES), b = (k0 + k) * p->b_row;
        const M m = mask_of(few);
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            V r[LANES];
            const int64_t at = (i0 + j * LANES) * p->a_row + k0 + k, there = rows - j * LANES;
            if (!f32 && few == LANES && there >= LANES) {
                load_columns((const Real *)p->a + at, p->a_row, r);
            } else {
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++)
                    r[i] = i < there ? load_any(f32, m, p->a, at + i * p->a_row) : splat(0);
                transpose(r);
            }
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                if (i < few) acc[j] = fma_v(r[i], splat(scalar(f32, p->b, b + i * p->b_row)), acc[j]);
        }
    }
}

/* One vector of C, w elements: to `x`, or from there. */
INLINE V read_column(const Product *p, int64_t i, int64_t w)
{
    Real x[LANES] = {0};
    for (int64_t j = 0; j < w; j++) x[j] = ((const Real *)p->c)[(i + j) * p->c_row];
    return load(x);
}

INLINE void write_column(const Product *p, int64_t i, int64_t w, V v)
{
    Real x[LANES];
    if (p->c_row == 1 && !p->narrow) {
        store_m((Real *)p->c + i, mask_of(w), v);
        return;
    }
    store(x, v);
    for (int64_t j = 0; j < w; j++) {
        if (p->narrow)
            ((float *)p->c)[(i + j) * p->c_row] = (float)x[j];
        else
            ((Real *)p->c)[(i + j) * p->c_row] = x[j];
    }
}

/* nv vectors of rows, the last one perhaps shorter: all blocks of k. */
INLINE void column_piece(const bool f32, const int nv, const Product *p, int64_t i0, int64_t rows)
{
    V total[DOWN_LONG];
    const int64_t w = rows - (nv - 1) * LANES;
    const M last = mask_of(w);
#pragma GCC unroll 16
    for (int j = 0; j < nv; j++) total[j] = splat(0);
    for (int64_t k0 = 0; k0 == 0 || k0 < p->k; k0 += BLOCK) {
        const int64_t kc = min(p->k - k0, BLOCK);
        V acc[DOWN_LONG];
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++) acc[j] = splat(0);
        if (p->a_row == 1)
            down_columns(f32, nv, p, i0, last, k0, kc, acc);
        else
            down_rows(f32, nv, p, i0, rows, k0, kc, acc);
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++) {
            if (k0)
                acc[j] += total[j];
            else if (p->add)
                acc[j] += read_column(p, i0 + j * LANES, j == nv - 1 ? w : LANES);
            total[j] = acc[j];
        }
    }
#pragma GCC unroll 16
    for (int j = 0; j < nv; j++)
        write_column(p, i0 + j * LANES, j == nv - 1 ? w : LANES, total[j]);
}

INLINE void column(const bool f32, const Product *p)
{
    int64_t i = 0, left = p->m;
    if (p->a_row == 1)
        for (; left >= DOWN_LONG * LANES; i += DOWN_LONG * LANES, left -= DOWN_LONG * LANES)
            column_piece(f32, DOWN_LONG, p, i, DOWN_LONG * LANES);
    for (; left > 3 * LANES; i += DOWN * LANES, left -= DOWN * LANES)
        column_piece(f32, DOWN, p, i, min(left, DOWN * LANES));
    if (left > 2 * LANES)
        column_piece(f32, 3, p, i, left);
    else if (left > LANES)
        column_piece(f32, 2, p, i, left);
    else if (left > 0)
        column_piece(f32, 1, p, i, left);
}

#endif
