/* slices_amx.c: the kernels of slices.c on AMX, tiles of 16 rows of 64 bytes. One instruction adds
   16 x 64 by 64 x 16 products of bytes to 16 x 16 sums.

   Eight tile registers: a tile of C has six sums, one a level, so one register is left for A and one
   for B. The digits come from L2, and from L1 when they are loaded again within their 64 k. What
   becomes of the sums of a tile, the proof, is computed row by row between the products of the tile
   after the next one; right after its own products it waited for them, with all that came behind.
   Chunks of 256 k, of which A's stay in L1, were slower (9.8 ns a product, not 8.3): sums left the
   registers four times as often. Prefetching the next 64 k is slower, too. */
#define NATIVE /* vectors of float32 */
#include "cpu/isa_v4.h"
#include "cpu/slices.h"

/* ---- the tile registers ---- */
#define ALL8(x)                \
    {                          \
        x, x, x, x, x, x, x, x \
    }
void amx_open(void)
{
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1, .bytes = ALL8(STEP_K), .rows = ALL8(LINES)};
    _tile_loadconfig(&tiles);
}
#undef ALL8

void amx_close(void) { _tile_release(); }

/* ---- lines ---- */

/* Rows of `inner` numbers, in a block of rows of `room` that ends in zeros. `outer` rows. */
static void gather(const float *p, int64_t row, int64_t col, int64_t outer, int64_t inner,
                   float *out, int64_t height, int64_t room)
{
    memset(out, 0, (size_t)(height * room) * sizeof *out);
    for (int64_t i = 0; i < outer; i++)
        if (col == 1)
            memcpy(out + i * room, p + i * row, (size_t)inner * sizeof *p);
        else if (row != 1 || outer % 16 || inner % 16)
            for (int64_t j = 0; j < inner; j++) out[i * room + j] = p[i * row + j * col];
    if (col == 1 || row != 1 || outer % 16 || inner % 16) return;
    for (int64_t i = 0; i < outer; i += 16)
        for (int64_t j = 0; j < inner; j += 16) {
            V r[16];
#pragma GCC unroll 16
            for (int l = 0; l < 16; l++) r[l] = load(p + i + (j + l) * col);
            transpose(r);
#pragma GCC unroll 16
            for (int l = 0; l < 16; l++) store(out + (i + l) * room + j, r[l]);
        }
}

INLINE __m512i magnitude(M m, const float *p)
{
    return _mm512_and_si512(_mm512_maskz_loadu_epi32(m, p), _mm512_set1_epi32(INT32_MAX));
}

/* Of more than 16 columns as they lie, all at once: a row of a large B is a page of its own. */
INLINE void largest_wide(const Lines *p, int groups, uint32_t *bits)
{
    __m512i most[WIDE];
    M m[WIDE];
    for (int j = 0; j < groups; j++)
        most[j] = _mm512_setzero_si512(), m[j] = mask_of(p->lines - j * LINES);
    for (int64_t k = 0; k < p->k; k++)
        for (int j = 0; j < groups; j++)
            most[j] = _mm512_max_epu32(most[j], magnitude(m[j], p->at + k * p->step + j * LINES));
    for (int j = 0; j < groups; j++) _mm512_storeu_si512(bits + j * LINES, most[j]);
}

void amx_largest(const Lines *p, uint32_t *bits)
{
    int groups = (p->lines + LINES - 1) / LINES;
    if (p->line == 1) {
        groups == WIDE ? largest_wide(p, WIDE, bits) : largest_wide(p, groups, bits);
        return;
    }
    memset(bits, 0, (size_t)(groups * LINES) * sizeof *bits);
    for (int i = 0; i < p->lines; i++) {
        const float *x = p->at + i * p->line;
        __m512i most = _mm512_setzero_si512();
        if (p->step == 1) {
            for (int64_t k = 0; k < p->k; k += 16)
                most = _mm512_max_epu32(most, magnitude(mask_of(p->k - k), x + k));
            bits[i] = _mm512_reduce_max_epu32(most);
            continue;
        }
        for (int64_t k = 0; k < p->k; k++) {
            uint32_t b;
            memcpy(&b, x + k * p->step, sizeof b);
            b &= INT32_MAX;
            bits[i] = b > bits[i] ? b : bits[i];
        }
    }
}

/* ---- digits ---- */

typedef struct {
    __m512i high, low; /* a digit in each of the lower bytes: 0 1 2 and 3 4, 5 is left out */
} Digits;
typedef struct { /* as in Group */
    V square, tail, rest, fine;
} Sizes;

/* t is a scaled line times 2^23, so t * 2^24 without its fraction has six digits in [-128, 127] to
   base 256: those of two's complement after 128 was added at every place, less 128. Every step is
   exact, what is left out as well. tail may hold a 1 that is carried to digit 2: then it is the larger
   for it. */
INLINE Digits cut(V t, Sizes *z)
{
    const __m512i half = _mm512_set1_epi32(0x808080), keep = _mm512_set1_epi32(~0xff);
    __m512i high = _mm512_cvt_roundps_epi32(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    V left = _mm512_mul_ps(_mm512_sub_ps(t, _mm512_cvtepi32_ps(high)), splat(0x1p24f));
    __m512i low = _mm512_add_epi32(_mm512_cvttps_epi32(left), half);
    high = _mm512_add_epi32(_mm512_add_epi32(high, half), _mm512_srai_epi32(low, 24));
    __m512i kept = _mm512_sub_epi32(_mm512_and_si512(low, keep), _mm512_set1_epi32(0x808000));
    V tail = _mm512_cvtepi32_ps(kept), rest = _mm512_sub_ps(left, tail);
    __mmask16 fine = _mm512_cmp_ps_mask(_mm512_abs_ps(t), splat(0x1p15f), _CMP_LT_OQ);
    z->square = fma_v(t, t, z->square);
    z->tail = fma_v(tail, tail, z->tail);
    z->rest = fma_v(rest, rest, z->rest);
    z->fine = _mm512_mask_add_ps(z->fine, fine, z->fine, splat(1));
    return (Digits){_mm512_xor_si512(high, half), _mm512_xor_si512(low, half)};
}

/* Four vectors of bytes abcd: all a, all b, all c. */
INLINE void by_digit(const __m512i x[4], int n, int8_t *out)
{
    const __m512i order =
        _mm512_set_epi8(63, 59, 55, 51, 47, 43, 39, 35, 31, 27, 23, 19, 15, 11, 7, 3, 60, 56, 52,
                        48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0, 61, 57, 53, 49, 45, 41, 37,
                        33, 29, 25, 21, 17, 13, 9, 5, 1, 62, 58, 54, 50, 46, 42, 38, 34, 30, 26, 22,
                        18, 14, 10, 6, 2);
    __m512i r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) r[i] = _mm512_permutexvar_epi8(order, x[i]);
    __m512i a = _mm512_shuffle_i32x4(r[0], r[1], 0x44), b = _mm512_shuffle_i32x4(r[2], r[3], 0x44);
    _mm512_store_si512(out, _mm512_shuffle_i32x4(a, b, 0x88));
    _mm512_store_si512(out + DIGIT_BYTES, _mm512_shuffle_i32x4(a, b, 0xdd));
    if (n == 2) return;
    a = _mm512_shuffle_i32x4(r[0], r[1], 0xee), b = _mm512_shuffle_i32x4(r[2], r[3], 0xee);
    _mm512_store_si512(out + 2 * DIGIT_BYTES, _mm512_shuffle_i32x4(a, b, 0x88));
}

/* Byte d of each of four vectors, which are turned by 0 1 2 3 bytes, side by side. */
INLINE __m512i side_by_side(const __m512i x[4], const int d)
{
    const __mmask64 first = 0x1111111111111111;
    __m512i r = _mm512_mask_blend_epi8(first << (d + 1) % 4, x[0], x[1]);
    r = _mm512_mask_blend_epi8(first << (d + 2) % 4, r, x[2]);
    r = _mm512_mask_blend_epi8(first << (d + 3) % 4, r, x[3]);
    return d == 2 ? _mm512_ror_epi32(r, 16) : d == 1 ? _mm512_ror_epi32(r, 8) : r;
}

/* Where 16 lines of 64 k do not lie as they are needed, a copy is cut. */
void amx_left(const Lines *p, Group *g, int64_t k0, int64_t k1, int8_t *out)
{
    _Alignas(64) float copy[LINES * STEP_K];
    Sizes z[LINES];
    for (int i = 0; i < LINES; i++) z[i] = (Sizes){splat(0), splat(0), splat(0), splat(0)};
    for (int64_t k = k0; k < k1; k += STEP_K, out += STEP_BYTES) {
        int64_t left = k1 - k, row = p->line;
        const float *x = p->at + k * p->step;
        if (p->step != 1 || left < STEP_K || p->lines < LINES) {
            gather(x, p->line, p->step, p->lines, left < STEP_K ? left : STEP_K, copy, LINES,
                   STEP_K);
            x = copy, row = STEP_K;
        }
        for (int i = 0; i < LINES; i++) {
            __m512i high[4], low[4];
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) {
                V t = load(x + i * row + v * LANES) * splat(g->scale[i]);
                Digits d = cut(t, &z[i]);
                high[v] = d.high, low[v] = d.low;
            }
            by_digit(high, 3, out + i * STEP_K);
            by_digit(low, 2, out + i * STEP_K + 3 * DIGIT_BYTES);
        }
    }
    for (int i = 0; i < LINES; i++) {
        g->square[i] += _mm512_reduce_add_ps(z[i].square);
        g->tail[i] += _mm512_reduce_add_ps(z[i].tail);
        g->rest[i] += _mm512_reduce_add_ps(z[i].rest);
        g->fine[i] += _mm512_reduce_add_ps(z[i].fine);
    }
}

void amx_right(const Lines *p, Group *g, int64_t k0, int64_t k1, int8_t *out)
{
    _Alignas(64) float copy[STEP_K * LINES];
    Sizes z = {load(g->square), load(g->tail), load(g->rest), load(g->fine)};
    const V scale = load(g->scale);
    for (int64_t k = k0; k < k1; k += STEP_K, out += STEP_BYTES) {
        int64_t left = k1 - k, row = p->step;
        const float *x = p->at + k * p->step;
        if (p->line != 1 || left < STEP_K || p->lines < LINES) {
            gather(x, p->step, p->line, left < STEP_K ? left : STEP_K, p->lines, copy, STEP_K,
                   LINES);
            x = copy, row = LINES;
        }
        for (int i = 0; i < STEP_K; i += 4) {
            __m512i high[4], low[4];
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) {
                Digits d = cut(load(x + (i + v) * row) * scale, &z);
                const __m512i turn = _mm512_set1_epi32(8 * v);
                high[v] = _mm512_rolv_epi32(d.high, turn), low[v] = _mm512_rolv_epi32(d.low, turn);
            }
            int8_t *o = out + i * LINES;
            _mm512_store_si512(o, side_by_side(high, 2));
            _mm512_store_si512(o + DIGIT_BYTES, side_by_side(high, 1));
            _mm512_store_si512(o + 2 * DIGIT_BYTES, side_by_side(high, 0));
            _mm512_store_si512(o + 3 * DIGIT_BYTES, side_by_side(low, 2));
            _mm512_store_si512(o + 4 * DIGIT_BYTES, side_by_side(low, 1));
        }
    }
    store(g->square, z.square);
    store(g->tail, z.tail);
    store(g->rest, z.rest);
    store(g->fine, z.fine);
}

/* ---- a tile of C ---- */

/* Eight sums of a row: the levels, weighted. The two halves are whole numbers below 2^53, so one
   rounding. */
INLINE __m512d weighted(const int32_t *sums)
{
    __m512d v[LEVELS];
    const __m512d base = _mm512_set1_pd(256);
#pragma GCC unroll 6
    for (int l = 0; l < LEVELS; l++)
        v[l] = _mm512_cvtepi32_pd(_mm256_load_si256((const __m256i *)(sums + l * ELEMS)));
    __m512d high = _mm512_fmadd_pd(_mm512_fmadd_pd(v[0], base, v[1]), base, v[2]);
    __m512d low = _mm512_fmadd_pd(_mm512_fmadd_pd(v[3], base, v[4]), base, v[5]);
    return _mm512_fmadd_pd(high, _mm512_set1_pd(0x1p24), low);
}

/* Eight results from column h of the group on, where the proof holds: both ends of what the sum may be
   round to one number, and that is not zero, or a line is zero. Returns where it does not. */
INLINE unsigned prove(const Strip *s, int64_t group, int row, int h, __m512d x)
{
    const Group *r = s->row, *c = s->col + group;
    int64_t at = group * LINES + h;
    __m512d error =
        _mm512_fmadd_pd(_mm512_set1_pd(r->bound[0][row]), _mm512_loadu_pd(c->bound[0] + h),
                        _mm512_fmadd_pd(_mm512_set1_pd(r->bound[1][row]),
                                        _mm512_loadu_pd(c->bound[1] + h),
                                        _mm512_add_pd(_mm512_set1_pd(r->bound[2][row]),
                                                      _mm512_loadu_pd(c->bound[2] + h))));
    __m512d unit = _mm512_mul_pd(_mm512_set1_pd(r->unit[row]), _mm512_loadu_pd(c->unit + h));
    __m256 low = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_sub_pd(x, error), unit));
    __m256 high = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_add_pd(x, error), unit));
    unsigned zero = r->zeros >> row & 1 ? 0xff : c->zeros >> h & 0xff;
    unsigned sure = _mm256_cmp_ps_mask(high, _mm256_setzero_ps(), _CMP_NEQ_OQ) | zero;
    sure &= _mm256_cmp_ps_mask(low, high, _CMP_EQ_OQ);
    unsigned there = s->cols - at >= 8 ? 0xff : s->cols > at ? (1u << (s->cols - at)) - 1 : 0;
    _mm256_mask_storeu_ps(s->c + row * s->c_row + at, (__mmask8)there, high);
    return there & ~sure;
}

INLINE void finish_row(Strip *s, const int32_t *sums, int64_t group, int row, bool first, bool last)
{
    unsigned failed = 0;
    if (last && row >= s->rows) return;
#pragma GCC unroll 2
    for (int h = 0; h < LINES; h += 8) {
        double *at = s->x + group * ELEMS + row * LINES + h;
        __m512d x = weighted(sums + row * LINES + h);
        if (!first) x = _mm512_add_pd(x, _mm512_loadu_pd(at));
        if (last)
            failed |= prove(s, group, row, h, x) << h;
        else
            _mm512_storeu_pd(at, x);
    }
    if (!last) return;
    s->failed[group * LINES + row] = (uint16_t)failed;
    s->count += __builtin_popcount(failed);
}

/* clang-format off */
#define A(i) _tile_loadd(6, a + (i) * DIGIT_BYTES, STEP_K)
#define B(j) _tile_loadd(7, b + (j) * DIGIT_BYTES, STEP_K)
#define ADD(level) _tile_dpbssd(level, 6, 7)
#define KEEP(level) _tile_stored(level, sums + (level) * ELEMS, STEP_K)
/* Digit i of A times digit j of B goes to level i + j. The levels from 6 on are left out. */
INLINE void multiply(Strip *s, int64_t group, int32_t *sums, const int32_t *before,
                     const bool first, const bool last)
{
    const int8_t *a = s->a, *b = s->b + group * s->b_bytes;
    const int rows = (LINES + s->steps - 1) / s->steps;
    const float *next = s->next ? s->next + group * s->next_row : NULL;
    int row = before ? 0 : LINES;
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); _tile_zero(4); _tile_zero(5);
    for (int i = s->steps; i > 0; i--, a += STEP_BYTES, b += STEP_BYTES) {
        A(2); B(1); ADD(3); A(1); ADD(2); A(4); ADD(5); B(0); ADD(4); A(2); ADD(2);
        B(3); ADD(5); A(1); ADD(4); B(4); ADD(5); B(0); ADD(1); A(3); ADD(3);
        for (int n = rows; n > 0 && row < LINES; n--, row++)
            finish_row(s, before, group - 2, row, first, last);
        for (int n = 0; next && n < 4; n++, next += 16) __builtin_prefetch(next, 0, 2);
        B(1); ADD(4); B(2); ADD(5); A(2); ADD(4); A(1); ADD(3); A(0); ADD(2);
        B(0); ADD(0); B(1); ADD(1); B(3); ADD(3); B(4); ADD(4);
    }
    KEEP(1); KEEP(2); KEEP(0); KEEP(3); KEEP(4); KEEP(5);
}
#undef A
#undef B
#undef ADD
#undef KEEP
/* clang-format on */

INLINE void strip(Strip *s, const bool first, const bool last)
{
    int64_t groups = (s->cols + LINES - 1) / LINES;
    int32_t *now = s->sums, *before = now + LEVELS * ELEMS, *next = before + LEVELS * ELEMS, *t;
    for (int64_t j = 0; j < groups; j++, t = next, next = before, before = now, now = t)
        multiply(s, j, now, j < 2 ? NULL : next, first, last);
    for (int row = 0; row < LINES; row++) {
        if (groups > 1) finish_row(s, next, groups - 2, row, first, last);
        finish_row(s, before, groups - 1, row, first, last);
    }
}

void amx_strip(Strip *s, bool first, bool last)
{
    __asm__ volatile("" ::: "memory"); /* gcc does not know that tiles are loaded from memory */
    if (first && last)
        strip(s, true, true);
    else if (first)
        strip(s, true, false);
    else if (last)
        strip(s, false, true);
    else
        strip(s, false, false);
}

/* ---- elements without a proof ---- */
void amx_chains(Element *c, int64_t a_step, int64_t b_step, int64_t k, bool first)
{
    double acc[CHAINS] = {0};
    for (int64_t l = 0; l < k; l++)
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++)
            acc[i] = __builtin_fma((double)c[i].a[l * a_step], (double)c[i].b[l * b_step], acc[i]);
    for (int i = 0; i < CHAINS; i++) {
        c[i].total = first ? acc[i] : c[i].total + acc[i];
        c[i].a += k * a_step, c[i].b += k * b_step;
    }
}
