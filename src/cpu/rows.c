/* rows.c: accesses that are consecutive along a row of the iteration space, but not from one row to
   the next: the inner part of a grid, some columns of a matrix, a number per row. Where no tile
   crosses a row, such an access is read and written where it lies: each row sets a base of its own,
   and tiles go along it as they go through consecutive elements. Copies to and from registers, which
   other strided accesses need, took half of the time of a 5-point stencil.

   Elements are numbered through all rows. So the base of row h is h rows before the row's own start,
   and element e is found from it as from any other base.

   A sum over all elements has tiles that do cross rows, since its blocks of 128 do. Then a tile is
   made in pieces, one a row, and registers have bases, too, which follow the tile. */
#include "cpu/cpu.h"

enum {
    LEAST_ROW = 48,     /* elements: in a shorter row a tile pays too much for each instruction */
    MOST_COPIED = 4096, /* elements of a row that a thread may keep */
};
/* A byte of an access; an instruction; a number that becomes a row. */
static const double MOVED_NS = 0.02, DISPATCH_NS = 4, SPREAD_NS = 4;

RowForm rows_form(const Region *r, const Access *at, int split)
{
    bool same = true, one = true, dense = true;
    int64_t step = 1;
    if (split == 0) return ROW_OTHER;
    for (int d = r->rank - 1; d >= split; step *= r->dims[d--]) {
        one &= !at->stride[d];
        dense &= at->stride[d] == step;
    }
    for (int d = 0; d < split; d++) same &= !at->stride[d];
    if (dense || one) return dense ? ROW_DENSE : ROW_ONE;
    return same && step <= MOST_COPIED ? ROW_SAME : ROW_OTHER;
}

/* Does value v move in any case? What is summed is in a register where tiles cross rows; a load that is stored as it is goes there. */
static bool moves(const Region *r, int32_t v)
{
    for (int i = 0; i < r->n_reduces; i++)
        if (r->reduces[i].value == v) return true;
    for (int i = 0; i < r->n_stores; i++)
        if (v < r->n_loads && r->stores[i].value == v) return true;
    return false;
}

/* ns that rows of w elements save for each element of value v, which moves so. */
static double saves(const Region *r, const Access *at, int32_t v, int split, int64_t w)
{
    int64_t period, elem;
    Form form = shape_form(r, at, &period);
    RowForm along = rows_form(r, at, split);
    if (form != AT_STRIDED && (form != AT_ROW || period <= TILE)) return 0;
    if (along == ROW_OTHER || moves(r, v)) return 0;
    elem = type_elem(v < r->n_loads ? r->loads[v].dtype : r->instrs[v - r->n_loads].out);
    return MOVED_NS * (double)elem - (along == ROW_ONE ? SPREAD_NS / (double)w : 0);
}

/* Instructions; those on truth values, which only AVX-512 has in runs of machine code, take twice as long to begin. */
static int begins(const Region *r)
{
    int n = r->n_instrs;
    for (int i = 0; i < r->n_instrs; i++)
        n += r->instrs[i].out == QB_BOOL || r->instrs[i].op == OP_where;
    return n;
}

int rows_split(const Region *r, int from)
{
    int best = from;
    double most = 0, begin = DISPATCH_NS * begins(r);
    int64_t w = r->size;
    for (int s = 1; s < r->rank && r->size > 2 * TILE; s++) {
        w /= r->dims[s - 1];
        if (w < LEAST_ROW) break;
        if (s < from) continue;
        double tiles = (double)((w + TILE - 1) / TILE) / (double)w, saved = 0;
        for (int i = 0; i < r->n_loads; i++)
            if (!r->loads[i].splat) saved += saves(r, &r->loads[i].at, i, s, w);
        for (int i = 0; i < r->n_stores; i++)
            if (rows_form(r, &r->stores[i].at, s) == ROW_DENSE)
                saved += saves(r, &r->stores[i].at, r->stores[i].value, s, w);
        saved -= (tiles - 1.0 / TILE) * begin;
        if (saved > most) most = saved, best = s;
    }
    return best;
}

bool rows_open(Code *c, const qb_plan *p, const Region *r, Arena *keep)
{
    const size_t accesses = (size_t)(r->n_loads + r->n_stores);
    c->rows.first = BASE_ARRAYS + p->n_inputs + p->n_outputs + p->n_consts + p->n_cursors;
    if (c->rows.split == 0) return true;
    if (c->rows.pieces) c->rows.first += ROWS_REGISTERS;
    c->rows.bases = arena_alloc(keep, accesses * sizeof *c->rows.bases);
    c->rows.copies = arena_alloc(keep, accesses * sizeof *c->rows.copies);
    c->rows.spreads = arena_alloc(keep, accesses * sizeof *c->rows.spreads);
    return c->rows.bases && c->rows.copies && c->rows.spreads;
}

static bool same_move(const Move *a, const Move *b)
{
    size_t bytes = (size_t)a->rank * sizeof *a->dims;
    return a->rank == b->rank && !memcmp(a->dims, b->dims, bytes) &&
           !memcmp(a->stride, b->stride, bytes);
}

/* The base of accesses that go from row to row like this one. */
static int32_t base_of(Code *c, const Region *r, const int64_t *stride, int32_t from, int64_t elem,
                       int64_t back)
{
    RowBase b = {.from = from, .back = back};
    move_make(&b.rows, c->rows.split, r->dims, stride, elem);
    for (int i = 0; i < c->rows.n_bases; i++) {
        const RowBase *o = &c->rows.bases[i];
        if (o->from == from && o->back == back && same_move(&o->rows, &b.rows))
            return c->rows.first + i;
    }
    c->rows.bases[c->rows.n_bases] = b;
    return c->rows.first + c->rows.n_bases++;
}

Ref rows_dense(Code *c, const Region *r, const Access *at, Ref x, int64_t elem)
{
    return (Ref){base_of(c, r, at->stride, x.base, elem, c->rows.w * elem), (int32_t)elem,
                 x.offset};
}

Ref rows_one(Code *c, const Region *r, const Access *at, Ref x, int64_t elem, int64_t to)
{
    x.base = base_of(c, r, at->stride, x.base, elem, 0);
    c->rows.spreads[c->rows.n_spreads++] = (Repeat){x, to, 1, elem};
    return (Ref){BASE_THREAD, 0, to};
}

Ref rows_same(Code *c, const Region *r, const Access *at, Ref x, int64_t elem, int64_t to)
{
    RowCopy *copy = &c->rows.copies[c->rows.n_copies++];
    *copy = (RowCopy){.x = x, .to = to};
    const int s = c->rows.split;
    move_make(&copy->row, r->rank - s, r->dims + s, at->stride + s, elem);
    return (Ref){base_of(c, r, at->stride, BASE_THREAD, elem, c->rows.w * elem), (int32_t)elem, to};
}

void rows_begin(const Code *c, char *const *base)
{
    for (const RowCopy *r = c->rows.copies, *end = r + c->rows.n_copies; r < end; r++)
        move_load(&r->row, base[BASE_THREAD] + r->to, base[r->x.base] + r->x.offset, 0, c->rows.w);
}

void rows_enter(const Code *c, const Isa *isa, char **base, int64_t row)
{
    const int64_t n = c->rows.w < c->tile ? c->rows.w : c->tile;
    for (int i = 0; i < c->rows.n_bases; i++) {
        const RowBase *b = &c->rows.bases[i];
        int64_t offset = move_offset(&b->rows, row) - row * b->back;
        base[c->rows.first + i] = (char *)((uintptr_t)base[b->from] + (uintptr_t)offset);
    }
    for (int i = 0; i < c->rows.n_spreads; i++) vm_expand(&c->rows.spreads[i], isa, base, n);
}

static int32_t register_base(const Code *c, int64_t elem)
{
    return c->rows.first - (elem == 8 ? 1 : elem == 4 ? 2 : 3);
}

Ref rows_register(const Code *c, int64_t to, int64_t elem)
{
    if (!c->rows.pieces) return (Ref){BASE_THREAD, 0, to};
    return (Ref){register_base(c, elem), (int32_t)elem, to};
}

bool rows_is_register(const Code *c, const Ref *x)
{
    return x->base == BASE_THREAD ||
           (c->rows.pieces && x->base < c->rows.first && x->base >= c->rows.first - ROWS_REGISTERS);
}

int64_t rows_piece(const Code *c, const Isa *isa, char **base, int64_t e, int64_t end)
{
    const int64_t row = e / c->rows.w, next = (row + 1) * c->rows.w;
    rows_enter(c, isa, base, row);
    return end < next ? end : next;
}

void rows_tile(const Code *c, char **base, int64_t e)
{
    for (int64_t elem = 1; elem <= 8; elem += elem == 1 ? 3 : 4)
        base[register_base(c, elem)] =
            (char *)((uintptr_t)base[BASE_THREAD] - (uintptr_t)(e * elem));
}
