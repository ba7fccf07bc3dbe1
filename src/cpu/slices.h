/* slices.h: what slices.c and its kernels on tiles of bytes (slices_amx.c) share. */
#ifndef SLICES_H
#define SLICES_H

#include "cpu/cpu.h"

/* A chunk: 16 lines (rows of A or columns of B) and up to 1,024 of their k, as digits. The digits of
   64 k are DIGITS tiles of 16 rows of 64 bytes, the highest digit first. Of A a row of a tile is a
   line; of B it is 4 k of each of the 16 lines. */
enum { DIGITS = 5, LEVELS = 6, LINES = 16, STEP_K = 64, CHUNK_K = 1024 };
enum { DIGIT_BYTES = LINES * STEP_K, STEP_BYTES = DIGITS * DIGIT_BYTES };
enum { ELEMS = LINES * LINES, SUMS = 3 * LEVELS * ELEMS }; /* of a tile of C; sums of three of them */

/* Lines of a matrix, 16 at most, of amx_largest WIDE times as many. Strides in elements: from line
   to line, from k to k. */
enum { WIDE = 16 };
typedef struct {
    const float *at;
    int64_t line, step, k;
    int lines;
} Lines;

/* What is known of 16 lines. A line times 2^-e is below 127/128. */
typedef struct {
    float scale[LINES];               /* 2^(23 - e) */
    float square[LINES];              /* sum of squares of the scaled line, times 2^46 */
    float tail[LINES], rest[LINES];   /* of its digits 3 and 4, of what is left out; times 2^94 */
    float fine[LINES];                /* how many numbers may have a digit 4 */
    double unit[LINES];               /* 2^(e - 27): two of them are what a sum counts in */
    double bound[3][LINES];           /* of the error: slices.c */
    unsigned zeros;                   /* lines that are zero */
} Group;

/* A chunk of 16 rows against the same k of all columns of a piece. */
typedef struct {
    const int8_t *a, *b; /* b: a chunk for every group of columns */
    int64_t b_bytes;     /* from group to group */
    int steps;           /* of 64 k */
    int64_t cols;
    int32_t *sums;       /* SUMS of them: of the tile that is computed and of two before it */
    double *x;           /* ELEMS for every group: the sum over the chunks so far, of several */
    const float *next;   /* rows of A that come next, so that they are near by then; NULL: not told */
    int64_t next_row;
    const Group *row, *col; /* from here on for the last chunk only */
    float *c;
    int64_t c_row;
    int rows;
    uint16_t *failed;    /* [groups][16] rows: bits of the columns without a proof */
    int64_t count;       /* of these bits, added up */
} Strip;

enum { CHAINS = 8 };
typedef struct { /* an element that is computed in the contract's order; a and b are where it stands */
    const float *a, *b;
    float *out;
    double total;
} Element;

/* Between amx_open and amx_close a thread may call the others. */
void amx_open(void);
void amx_close(void);
void amx_largest(const Lines *p, uint32_t *bits); /* of each line; bits of |x| without sign */
/* The digits of k0 .. k1, zeros up to a multiple of 64; adds to the sums in g. */
void amx_left(const Lines *p, Group *g, int64_t k0, int64_t k1, int8_t *out);
void amx_right(const Lines *p, Group *g, int64_t k0, int64_t k1, int8_t *out);
void amx_strip(Strip *s, bool first, bool last);
void amx_chains(Element *c, int64_t a_step, int64_t b_step, int64_t k, bool first); /* a block of k */

#endif
