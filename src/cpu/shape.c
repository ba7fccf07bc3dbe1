/* shape.c: how a region's accesses lie in memory, and how its iteration space is cut in tiles.

   Elements go through registers of up to TILE elements. How the space is cut is the Shape:
     FLAT        tile after tile of consecutive elements; whole rows where something repeats per
                 row, or short rows are reduced
     LONG_ROWS   rows longer than a tile are reduced, or rows.c wants tiles that cross none: a unit
                 is a tile of one row, two blocks of 128
     ROWS        leading dims are reduced: a unit is a block of 128 rows, its tiles whole rows
     PANELS      the same when a row is longer than a tile: a unit is 128 rows of a panel of
                 columns, row by row
     PANELS, straight    arrays are reduced as they lie in memory, along an axis that is not their
                 last: panels are wide, so that much of a row is read in one go
   A unit never shares a block of 128 reduced elements with another one, so units may run in any
   order on any thread. */
#include "cpu/cpu.h"

enum {
    WIDE = 4 * TILE,   /* columns of a panel of arrays that are reduced as they lie in memory */
    LEAST_COLUMNS = 16 /* that follow each other */
};

Form shape_form(const Region *r, const Access *at, int64_t *period)
{
    int64_t dense = 1;
    int d = r->rank - 1;
    for (; d >= 0 && at->stride[d] == dense; d--) dense *= r->dims[d];
    *period = dense;
    if (d < 0) return AT_FLAT;
    for (; d >= 0; d--)
        if (at->stride[d]) return AT_STRIDED;
    return dense == 1 ? AT_ONE : AT_ROW;
}

/* Elements of the trailing dims from d on. */
static int64_t tail_size(const Region *r, int d)
{
    int64_t n = 1;
    for (; d < r->rank; d++) n *= r->dims[d];
    return n;
}

/* Longest repeated row that fits a tile; 1 when there is none. */
static int64_t longest_row(const Region *r)
{
    int64_t longest = 1, period;
    for (int i = 0; i < r->n_loads; i++)
        if (!r->loads[i].splat && shape_form(r, &r->loads[i].at, &period) == AT_ROW &&
            period <= TILE && period > longest)
            longest = period;
    return longest;
}

/* The iteration space as a matrix, and what is reduced of it. */
static void measure(Code *c, const Region *r)
{
    bool leading = r->form == REDUCE_LEADING || c->turned;
    c->size = r->size;
    c->w = tail_size(r, c->split);
    if (c->turned) c->w = c->size / c->w;
    c->height = c->size / c->w;
    c->width = c->blocks = 1;
    if (r->form == REDUCE_NONE) return;
    c->width = leading ? c->w : c->height;
    c->blocks = ((leading ? c->height : c->w) + BLOCK - 1) / BLOCK;
}

static void count_units(Code *c)
{
    int64_t step = c->shape == SHAPE_PANELS ? c->panel : c->tile;
    c->per_row = 1;
    if (c->shape == SHAPE_LONG_ROWS || c->shape == SHAPE_PANELS)
        c->per_row = (c->w + step - 1) / step;
    switch (c->shape) {
    case SHAPE_FLAT: c->units = (c->size + c->tile - 1) / c->tile; break;
    case SHAPE_ROWS: c->units = c->blocks; break;
    case SHAPE_LONG_ROWS: c->units = c->height * c->per_row; break;
    case SHAPE_PANELS: c->units = c->blocks * c->per_row; break;
    }
}

/* Consecutive elements of a load along the dims [d0, d1), counted from the last one; 0 where rows, the other dims, are not equally far
   apart. */
static int64_t columns_of(const Region *r, const Load *l, int d0, int d1)
{
    const int64_t *stride = l->at.stride;
    int64_t dense = 1;
    int first = d0 ? 0 : d1, end = d0 ? d0 : r->rank;
    if (l->splat) return 0;
    for (int d = first; d + 1 < end; d++)
        if (stride[d] != stride[d + 1] * r->dims[d + 1]) return 0;
    for (int d = d1 - 1; d >= d0 && stride[d] == dense; d--) dense *= r->dims[d];
    return dense;
}

/* Columns of a panel where a region is straight, with columns along [d0, d1); 0: it is not. */
static int64_t straight(const Region *r, int d0, int d1)
{
    int64_t w = d0 ? tail_size(r, d0) : r->size / tail_size(r, d1), dense = r->size;
    if (r->n_instrs || r->n_stores || d0 == d1 || r->size <= 4 * TILE) return 0;
    for (int i = 0; i < r->n_loads; i++) {
        int64_t n = columns_of(r, &r->loads[i], d0, d1);
        if (n < dense) dense = n;
    }
    if (dense == w && w >= LEAST_COLUMNS) return gemm_plan_even(w, WIDE, TILE);
    return dense >= LEAST_COLUMNS && dense <= 4 * WIDE ? dense : 0;
}

/* A tile is a multiple of `row` elements where one fits. Rows nest (each is a product of trailing
   dims), so the longest is a multiple of the others. */
void shape_cut(Code *c, const Region *r)
{
    int64_t row = longest_row(r), last = r->rank ? r->dims[r->rank - 1] : 1;
    c->split = r->form == REDUCE_NONE ? rows_split(r, 0) : r->split;
    c->panel = r->form == REDUCE_LEADING    ? straight(r, r->split, r->rank)
               : r->form == REDUCE_TRAILING ? straight(r, 0, r->split)
                                            : 0;
    c->straight = c->panel > 0;
    c->turned = c->straight && r->form == REDUCE_TRAILING;
    measure(c, r);
    c->shape = SHAPE_FLAT;
    if (c->straight) {
        c->shape = SHAPE_PANELS;
    } else if (r->form == REDUCE_NONE && c->split) {
        c->shape = SHAPE_LONG_ROWS;
    } else if (r->form == REDUCE_NONE) {
        if (r->rank > 1 && last <= TILE / 2 && last > row) row = last;
    } else {
        bool fits = c->w <= TILE;
        if (r->form == REDUCE_TRAILING)
            c->shape = fits ? SHAPE_FLAT : SHAPE_LONG_ROWS;
        else
            c->shape = fits ? SHAPE_ROWS : SHAPE_PANELS;
        if (c->shape == SHAPE_ROWS && BLOCK * c->w % row) row = c->w;
        if (fits && c->w > row) row = c->w;
    }
    bool blocks = r->form != REDUCE_NONE && c->shape == SHAPE_LONG_ROWS;
    bool along = (c->shape == SHAPE_LONG_ROWS || c->shape == SHAPE_PANELS) && !c->straight;
    c->rows.split = blocks ? rows_split(r, c->split) : along ? c->split : 0;
    c->rows.pieces = c->rows.split > c->split;
    c->rows.w = tail_size(r, c->rows.split);
    c->tile = blocks ? TILE : TILE / row * row;
    if (c->tile > c->size) c->tile = c->size;
    if (!c->straight) c->panel = c->tile;
    count_units(c);
}

/* The tiles stay as they are. */
void shape_shorten(Code *c, const Region *r, int64_t rows)
{
    Region few = *r;
    few.size = r->size / r->dims[0] * rows;
    few.dims[0] = rows;
    measure(c, &few);
    count_units(c);
    c->results = c->size / c->w;
}

/* May a row of this period be expanded once? Every tile must start where the row starts. */
bool shape_repeats(const Code *c, int64_t period)
{
    if (c->shape == SHAPE_ROWS && BLOCK * c->w % period) return false;
    if (c->shape == SHAPE_LONG_ROWS && c->w % period) return false;
    if (c->rows.pieces && period > 1) return false;
    return c->tile % period == 0;
}
