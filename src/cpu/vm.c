/* vm.c: runs compiled regions. A tile at a time, each instruction is one call of a vector
   kernel: 3-4 ns of dispatch for about 256 elements of work. Registers and expanded rows stay in
   the L1 cache of the thread.

   Reductions follow the order contract of plan.h whatever the tiles and threads: a unit never
   shares a block of 128 with another one, so block results are those of a serial run; they are
   kept in `parts` and added in order by vm_finish. An output of one block is written at once. */
#include "cpu/cpu.h"
#include "scalar.h"

static inline char *address(char *const *base, const Ref *x, int64_t e)
{
    return (char *)((uintptr_t)base[x->base] + (uintptr_t)(x->offset + e * x->scale));
}

/* ---- one tile: elements e .. e + n ---- */
static inline void pick(KernelFn *copy, char *o, const char *x, int64_t n)
{
    if (o != x) copy(o, x, NULL, NULL, 0, n);
}

static inline void run_tile(const Code *c, const Isa *isa, char *const *base, int64_t e, int64_t n)
{
    KernelFn *const *kernels = isa->kernels;
    const bool emitted = c->emitted == isa;
    for (const Ins *s = c->ins, *end = s + c->n_ins; s < end; s++) {
        if (emitted && s->code) {
            s->code(base, e, n);
            s += s->run - 1;
            continue;
        }
        char *o = address(base, &s->o, e), *a = address(base, &s->a, e);
        if (s->kernel < KERNEL_COUNT)
            kernels[s->kernel](o, a, address(base, &s->b, e), address(base, &s->c, e), s->i, n);
        else if (s->kernel == INS_PICK)
            pick(kernels[s->i], o, address(base, *a ? &s->b : &s->c, e), n);
        else if (s->kernel == INS_LOAD)
            move_load(&c->moves[s->i], o, a, e, n);
        else
            move_store(&c->moves[s->i], o, a, e, n);
    }
}

/* ---- results of reductions ---- */
static double step_of(int kind, double a, double b)
{
    return kind == REDUCE_SUM ? a + b : kind == REDUCE_MAX ? q_max_step(a, b) : q_min_step(a, b);
}

/* Results first .. first + n of a reduction, from totals in float64, which are overwritten. */
void vm_put(const Fold *f, char *const *base, double *x, int64_t first, int64_t n)
{
    char *o = address(base, &f->at, 0);
    if (f->count)
        for (int64_t i = 0; i < n; i++) x[i] /= (double)f->count;
    if (f->dtype == QB_F64) {
        if (f->move.rank == 1 && f->move.stride[0] == sizeof *x)
            memcpy(o + first * (int64_t)sizeof *x, x, (size_t)n * sizeof *x);
        else
            move_store(&f->move, o, x, first, n);
        return;
    }
    for (int64_t start = 0; start < n; start += TILE) {
        float narrow[TILE];
        int64_t m = n - start < TILE ? n - start : TILE;
        for (int64_t i = 0; i < m; i++) narrow[i] = (float)x[start + i];
        move_store(&f->move, o, narrow, first + start, m);
    }
}

static double *parts_of(const Fold *f, char *const *base)
{
    return (double *)address(base, &f->parts, 0);
}
static double *lanes_of(const Fold *f, char *const *base)
{
    return (double *)(base[BASE_THREAD] + f->lanes);
}
static const Reducer *reducer_of(const Isa *isa, const Fold *f)
{
    return &isa->reducers[f->kind][f->form];
}

/* Of elements e .. e + n a result per block, or per row of w <= BLOCK elements. */
static void fold_blocks(const Fold *f, const Isa *isa, char *const *base, int64_t e, int64_t n,
                        double *out)
{
    const Reducer *r = reducer_of(isa, f);
    const Ins *s = f->chain;
    if (s)
        isa->chains[(s->kernel - FUSED_FIRST) / QB_DTYPE_COUNT][f->one](
            out,
            &(Chain){(double *)address(base, &s->o, e),
                     (const double *)address(base, f->one ? &f->a : &s->a, e),
                     (const double *)address(base, &s->b, e),
                     (const double *)address(base, &s->c, e),
                     (const double *)address(base, &f->x, e)},
            n);
    else if (f->dot)
        r->dot_blocks(out, address(base, &f->x, e), address(base, &f->y, e), n);
    else
        r->blocks(out, address(base, &f->x, e), n);
}

static void fold_each(const Fold *f, const Isa *isa, char *const *base, int64_t e, int64_t rows,
                      int64_t w, double *out)
{
    const Reducer *r = reducer_of(isa, f);
    if (f->dot)
        r->dot_rows(out, address(base, &f->x, e), address(base, &f->y, e), rows, w);
    else
        r->rows(out, address(base, &f->x, e), rows, w);
}

/* ---- FLAT: tiles of consecutive elements; rows that fit a tile may be reduced ---- */
static void fold_rows(const Code *c, const Isa *isa, char *const *base, int64_t e, int64_t n,
                      int64_t first)
{
    int64_t rows = n / c->w;
    for (int i = 0; i < c->n_folds; i++) {
        const Fold *f = &c->folds[i];
        double out[TILE];
        if (c->partial) {
            fold_blocks(f, isa, base, e, c->w, parts_of(f, base));
            continue;
        }
        if (c->blocks == 1) {
            fold_each(f, isa, base, e, rows, c->w, out);
        } else {
            double two[2]; /* a tile of one row: two would not fit */
            fold_blocks(f, isa, base, e, c->w, two);
            out[0] = step_of(f->kind, two[0], two[1]);
        }
        vm_put(f, base, out, first, rows);
    }
}

static void run_flat(const Code *c, const Isa *isa, char **base, int64_t u0, int64_t u1)
{
    int64_t rows = c->n_folds ? c->tile / c->w : 0;
    for (int64_t u = u0; u < u1; u++) {
        int64_t e = u * c->tile, n = c->size - e < c->tile ? c->size - e : c->tile;
        run_tile(c, isa, base, e, n);
        if (c->n_folds) fold_rows(c, isa, base, e, n, u * rows);
    }
}

/* A tile, piece by piece. */
static void run_pieces(const Code *c, const Isa *isa, char **base, int64_t e, int64_t end)
{
    rows_tile(c, base, e);
    for (int64_t next; e < end; e = next) {
        next = rows_piece(c, isa, base, e, end);
        run_tile(c, isa, base, e, next - e);
    }
}

/* ---- LONG_ROWS: a unit is one tile of one row, two blocks ---- */
static void run_long_rows(const Code *c, const Isa *isa, char **base, int64_t u0, int64_t u1)
{
    if (c->whole) {
        int64_t e = u0 * c->tile, end = u1 == c->units ? c->w : u1 * c->tile;
        fold_blocks(c->folds, isa, base, e, end - e, parts_of(c->folds, base) + e / BLOCK);
        return;
    }
    int64_t row = u0 / c->per_row, start = (u0 - row * c->per_row) * c->tile;
    if (!c->rows.pieces) rows_enter(c, isa, base, row);
    for (int64_t u = u0; u < u1; u++, start += c->tile) {
        if (start >= c->w) {
            row++, start = 0;
            if (!c->rows.pieces) rows_enter(c, isa, base, row);
        }
        int64_t e = row * c->w + start, n = c->w - start < c->tile ? c->w - start : c->tile;
        if (c->rows.pieces)
            run_pieces(c, isa, base, e, e + n);
        else
            run_tile(c, isa, base, e, n);
        for (int i = 0; i < c->n_folds; i++) {
            const Fold *f = &c->folds[i];
            double two[2], *out = parts_of(f, base) + start / BLOCK * c->width + row;
            fold_blocks(f, isa, base, e, n, two);
            out[0] = two[0];
            if (n > BLOCK) out[c->width] = two[1];
        }
    }
}

/* ---- ROWS and PANELS: a unit is a block of 128 rows, or of a panel of columns ---- */
static void open_lanes(const Code *c, const Isa *isa, char *const *base, int64_t columns)
{
    for (int i = 0; i < c->n_folds; i++) {
        double *l = lanes_of(&c->folds[i], base), neutral = reducer_of(isa, &c->folds[i])->neutral;
        for (int64_t k = 0; k < SUM_LANES * columns; k++) l[k] = neutral;
    }
}

static void add_lanes(const Code *c, const Isa *isa, char *const *base, int64_t e, int64_t first,
                      int64_t rows, int64_t columns)
{
    for (int i = 0; i < c->n_folds; i++) {
        const Fold *f = &c->folds[i];
        reducer_of(isa, f)->lanes(lanes_of(f, base), address(base, &f->x, e), first, rows, columns,
                                  columns);
    }
}

/* From memory, all rows of a block. */
static void add_straight(const Code *c, const Isa *isa, char *const *base, int64_t row,
                         int64_t rows, int64_t j, int64_t columns)
{
    for (int i = 0; i < c->n_folds; i++) {
        const Fold *f = &c->folds[i];
        const char *x = address(base, &f->x, 0) + row * f->apart * f->columns.elem;
        reducer_of(isa, f)->lanes(lanes_of(f, base), x + move_offset(&f->columns, j), 0, rows,
                                  columns, f->apart);
    }
}

/* The result of block b in columns j .. j + columns. */
static void close_lanes(const Code *c, const Isa *isa, char *const *base, int64_t b, int64_t j,
                        int64_t columns)
{
    for (int i = 0; i < c->n_folds; i++) {
        const Fold *f = &c->folds[i];
        bool parts = c->partial || c->blocks > 1;
        double *lanes = lanes_of(f, base), *out = lanes + SUM_LANES * columns;
        double *to = parts ? parts_of(f, base) + b * c->width + j : out;
        reducer_of(isa, f)->tree(to, lanes, columns);
        if (!parts) vm_put(f, base, out, j, columns);
    }
}

static void run_rows(const Code *c, const Isa *isa, char **base, int64_t u0, int64_t u1)
{
    int64_t step = c->tile / c->w;
    for (int64_t b = u0; b < u1; b++) {
        int64_t row = b * BLOCK, end = row + BLOCK < c->height ? row + BLOCK : c->height;
        open_lanes(c, isa, base, c->w);
        for (int64_t first = 0; row < end; row += step, first += step) {
            int64_t rows = end - row < step ? end - row : step, e = row * c->w;
            run_tile(c, isa, base, e, rows * c->w);
            add_lanes(c, isa, base, e, first, rows, c->w);
        }
        close_lanes(c, isa, base, b, 0, c->w);
    }
}

static void run_panels(const Code *c, const Isa *isa, char **base, int64_t u0, int64_t u1)
{
    for (int64_t u = u0; u < u1; u++) {
        int64_t b = u / c->per_row, j = (u - b * c->per_row) * c->panel,
                columns = c->w - j < c->panel ? c->w - j : c->panel;
        int64_t row = b * BLOCK, end = row + BLOCK < c->height ? row + BLOCK : c->height;
        open_lanes(c, isa, base, columns);
        if (c->straight) add_straight(c, isa, base, row, end - row, j, columns);
        for (int64_t first = 0; !c->straight && row < end; row++, first++) {
            rows_enter(c, isa, base, row);
            run_tile(c, isa, base, row * c->w + j, columns);
            add_lanes(c, isa, base, row * c->w + j, first, 1, columns);
        }
        close_lanes(c, isa, base, b, j, columns);
    }
}

/* ---- a region ---- */
void vm_expand(const Repeat *r, const Isa *isa, char *const *base, int64_t n)
{
    char *o = base[BASE_THREAD] + r->to;
    if (r->period == 1 && r->elem == sizeof(double))
        isa->spread(o, address(base, &r->x, 0), n);
    else
        move_repeat(o, address(base, &r->x, 0), r->period, n, r->elem);
}

void vm_begin(const Code *c, const Isa *isa, char **base)
{
    rows_begin(c, base);
    for (int i = 0; i < c->n_repeats; i++) vm_expand(&c->repeats[i], isa, base, c->tile);
}

void vm_small_fold(const Code *c, const Fold *f, const Isa *isa, char *const *base)
{
    const Reducer *r = reducer_of(isa, f);
    const char *x = address(base, &f->x, 0);
    double out[TILE];
    if (f->direct) {
        r->rows((double *)address(base, &f->at, 0), x, c->results, c->w);
    } else {
        r->rows(out, x, c->results, c->w);
        vm_put(f, base, out, 0, c->results);
    }
}

/* Loops over a few numbers spend their time here: no divisions, no way through buffers. */
static void run_small(const Code *c, const Isa *isa, char **base)
{
    if (c->n_repeats) vm_begin(c, isa, base);
    run_tile(c, isa, base, 0, c->size);
    for (int i = 0; i < c->n_folds; i++) vm_small_fold(c, &c->folds[i], isa, base);
}

void vm_run(const Code *c, const Isa *isa, char **base, int64_t u0, int64_t u1)
{
    static void (*const run[])(const Code *, const Isa *, char **, int64_t, int64_t) = {
        [SHAPE_FLAT] = run_flat,
        [SHAPE_LONG_ROWS] = run_long_rows,
        [SHAPE_ROWS] = run_rows,
        [SHAPE_PANELS] = run_panels,
    };
    run[c->shape](c, isa, base, u0, u1);
}

/* Block results are added in block order. */
void vm_finish(const Code *c, const Isa *isa, char *const *base)
{
    if (c->shape == SHAPE_FLAT || c->blocks == 1 || c->partial) return;
    for (int i = 0; i < c->n_folds; i++) {
        const Fold *f = &c->folds[i];
        double *total = parts_of(f, base);
        for (int64_t b = 1; b < c->blocks; b++) {
            if (c->width == 1)
                total[0] = step_of(f->kind, total[0], total[b]);
            else
                reducer_of(isa, f)->join(total, total + b * c->width, c->width);
        }
        vm_put(f, base, total, 0, c->width);
    }
}

void vm_alone(const Code *c, const Isa *isa, char **base)
{
    if (c->small) {
        run_small(c, isa, base);
        return;
    }
    vm_begin(c, isa, base);
    vm_run(c, isa, base, 0, c->units);
    vm_finish(c, isa, base);
}
