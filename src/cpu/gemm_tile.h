/* gemm_tile.h: the register tiles of gemm.c. The includer has included the header of its ISA level. */
#ifndef GEMM_TILE_H
#define GEMM_TILE_H

/* What the tiles of one block of k have in common. Strides are in elements. */
typedef struct {
    int64_t k, a_row, a_col, b_row, c_row, out_row;
    M last;       /* of the last vector of the panel */
    bool add;     /* to the totals in c; else this is the first block */
    bool rounded; /* the sum goes to `out` as float32; else to c */
} Block;

/* The chains over k of A[mr, k] B[k, nv vectors], and where they go. Inlined with constant mr and
   nv, so that acc is a set of registers. */
INLINE void tile(const int mr, const int nv, const Block *s, const Real *a, const Real *b, Real *c,
                 float *out)
{
    V acc[12][4];
    const int64_t a_row = s->a_row * (int64_t)sizeof *a,
                  a_col = s->a_col * (int64_t)sizeof *a; /* bytes */
    const int64_t b_row = s->b_row;
    const M last = s->last;
    /* One pointer for three rows. gcc would keep an offset for each row, more than there are
       registers; the empty assembler text hides from it that the pointers are related. */
    const char *p[4];
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) acc[i][j] = splat(0);
#pragma GCC unroll 4
    for (int i = 0; i < (mr + 2) / 3; i++) {
        p[i] = (const char *)a + 3 * i * a_row;
        __asm__("" : "+r"(p[i]));
    }
    if (s->add) /* totals of a large product lie in L2 */
#pragma GCC unroll 12
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) __builtin_prefetch(c + i * s->c_row + j * LANES, 1);
    for (int64_t k = s->k; k > 0; k--, b += b_row) {
        V x[4];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            x[j] = j == nv - 1 ? load_m(last, b + j * LANES) : load(b + j * LANES);
#pragma GCC unroll 12
        for (int i = 0; i < mr; i++) {
            V y = splat(*(const Real *)(const void *)(p[i / 3] + i % 3 * a_row));
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) acc[i][j] = fma_v(y, x[j], acc[i][j]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < (mr + 2) / 3; i++) p[i] += a_col;
    }
    if (s->add)
#pragma GCC unroll 12
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] +=
                    load_m(j == nv - 1 ? last : mask_of(LANES), c + i * s->c_row + j * LANES);
    if (s->rounded) {
#pragma GCC unroll 12
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                store_f32_m(out + i * s->out_row + j * LANES, j == nv - 1 ? last : mask_of(LANES),
                            acc[i][j]);
        return;
    }
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            store_m(c + i * s->c_row + j * LANES, j == nv - 1 ? last : mask_of(LANES), acc[i][j]);
}

typedef void TileFn(const Block *s, const Real *a, const Real *b, Real *c, float *out);
#define TILE(MR, NV)                                                                    \
    static void tile_##MR##x##NV(const Block *s, const Real *a, const Real *b, Real *c, \
                                 float *out)                                            \
    {                                                                                   \
        tile(MR, NV, s, a, b, c, out);                                                  \
    }
#define UP_TO_4(NV) TILE(1, NV) TILE(2, NV) TILE(3, NV) TILE(4, NV)
#define UP_TO_6(NV) UP_TO_4(NV) TILE(5, NV) TILE(6, NV)
#define UP_TO_8(NV) UP_TO_6(NV) TILE(7, NV) TILE(8, NV)
#define UP_TO_12(NV) UP_TO_8(NV) TILE(9, NV) TILE(10, NV) TILE(11, NV) TILE(12, NV)
#define ROW_4(NV) NULL, tile_1x##NV, tile_2x##NV, tile_3x##NV, tile_4x##NV
#define ROW_6(NV) ROW_4(NV), tile_5x##NV, tile_6x##NV
#define ROW_8(NV) ROW_6(NV), tile_7x##NV, tile_8x##NV
#define ROW_12(NV) ROW_8(NV), tile_9x##NV, tile_10x##NV, tile_11x##NV, tile_12x##NV

/* clang-format off */
/* tiles[vectors][rows]: accumulators, vectors of B and one of A fit the registers. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { VECTORS = 3 };
UP_TO_12(1) UP_TO_6(2) UP_TO_4(3)
static const int tallest[] = {0, 12, 6, 4};
static TileFn *const tiles[][13] = {{NULL}, {ROW_12(1)}, {ROW_6(2)}, {ROW_4(3)}};
#else
enum { VECTORS = 4 };
UP_TO_12(1) UP_TO_12(2) UP_TO_8(3) UP_TO_6(4)
static const int tallest[] = {0, 12, 12, 8, 6};
static TileFn *const tiles[][13] = {{NULL}, {ROW_12(1)}, {ROW_12(2)}, {ROW_8(3)}, {ROW_6(4)}};
#endif
/* clang-format on */
#undef TILE
#undef UP_TO_4
#undef UP_TO_6
#undef UP_TO_8
#undef UP_TO_12
#undef ROW_4
#undef ROW_6
#undef ROW_8
#undef ROW_12

/* All rows of one panel, in tiles of nearly equal height: the higher ones first. Divisions of short
   numbers, one a tile: with two of long ones a product of 32 rows spent a tenth of its time here. */
static void tile_rows(const Block *s, int64_t m, int nv, const Real *a, const Real *b, Real *c,
                      float *out)
{
    const unsigned most = (unsigned)tallest[nv];
    unsigned left = (unsigned)m, count = (left + most - 1) / most;
    for (unsigned h; left > 0; left -= h, count--) {
        h = count == 1 ? left : (left + count - 1) / count;
        tiles[nv][h](s, a, b, c, out);
        a += h * s->a_row;
        c += h * s->c_row;
        out += h * s->out_row;
    }
}

#endif
