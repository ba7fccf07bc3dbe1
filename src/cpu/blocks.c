/* blocks.c: a sweep (plan.h), block by block. A thread takes a block of points and runs all steps
   on it, with the rows in memory of its own; the next block reuses that.

   A right operand that is the same for all points is packed once, before the first block. The steps
   that run beside the sweep are a task of the pool before all blocks: a small network at the
   boundary points, whose steps are too short to share, took a tenth of a step of 64x4 on two
   threads, while one of them waited.

   Sums over points are added in the order of the blocks, whoever ran them: a block leaves its
   parts in slot b mod S, and whoever finds the next one ready adds it. A product goes straight to
   its total where all earlier blocks are in it already: threads run the same steps one shortly
   after the other, so most do. That saves writing, reading and adding all weight gradients of a
   block, 5 % of a step of 128x6. Block b waits until block b - S has left that slot. With "any
   free slot" a thread that was held up between claiming a block and taking a slot stopped
   everything: later blocks had all slots. */
#include "cpu/cpu.h"
#include "scalar.h"

enum { MOST_SLOTS = 512 };

/* ---- compile ---- */

/* The product on the points of the last block. */
static bool shorten_product(Exe *e, const qb_plan *p, const Step *s, int64_t rest, Arena *keep,
                            qb_error *err)
{
    const MatMul *m = &s->matmul;
    bool packs = e->product.packs;
    MatMul *few = arena_copy(keep, m, sizeof *few);
    MatPart *parts = few ? arena_copy(keep, m->parts, (size_t)m->n_parts * sizeof *parts) : NULL;
    if (!parts) return error_memory(err, "a compiled product", -1), false;
    few->parts = parts;
    for (int i = 0; s->along == ALONG_ROWS && i < m->n_parts; i++)
        parts[i].m = m->parts[i].m / BLOCK * rest;
    if (s->along == ALONG_BATCH) few->dims[0] = m->dims[0] / BLOCK * rest;
    if (s->along == ALONG_INNER) few->k = rest;
    if (!product_compile(&e->product, p, few, true, keep, err)) return false;
    e->product.packs = packs; /* B is packed already, or for the whole block there is room */
    return true;
}

static bool shorten(Exe *e, const qb_plan *p, const Step *s, int64_t rest, Arena *keep,
                    qb_error *err)
{
    if (e->kind != STEP_REGION) return shorten_product(e, p, s, rest, keep, err);
    shape_shorten(&e->code, &s->region, s->region.dims[0] / BLOCK * rest);
    return true;
}

/* Is B the same for every block? */
static bool same_b(const qb_plan *p, const MatMul *m)
{
    uint8_t kind = p->slots[m->b.slot].kind;
    return kind != SLOT_ROWS && kind != SLOT_CURSOR;
}

/* Where the totals of a sum go. */
static void make_put(Fold *f, const qb_plan *p, const SweepSum *s)
{
    const Access *at = &s->at;
    uint8_t dtype = p->slots[at->slot].dtype;
    int64_t elem = type_elem(dtype), offset = at->offset * elem;
    int32_t base = code_base(p, at->slot, &offset);
    *f = (Fold){.dtype = dtype, .count = s->count, .at = {base, 0, offset}};
    f->kind = s->op == OP_max ? REDUCE_MAX : s->op == OP_min ? REDUCE_MIN : REDUCE_SUM;
    move_make(&f->move, s->rank, s->dims, at->stride, elem);
}

bool blocks_compile(BlocksCode *b, Exec *x, const qb_plan *p, const Sweep *s, qb_error *err)
{
    int64_t rest = s->points % BLOCK, parts = 0, pack = 0, packed = 0;
    *b =
        (BlocksCode){.s = s, .full = x->exes + s->first, .blocks = (s->points + BLOCK - 1) / BLOCK};
    b->last = arena_copy(&x->arena, b->full, (size_t)s->n * sizeof *b->last);
    b->packed = arena_alloc(&x->arena, (size_t)s->n * sizeof *b->packed);
    b->puts = arena_zeroed(&x->arena, (size_t)s->n_sums, sizeof *b->puts);
    if (!b->last || !b->packed || !b->puts) return error_memory(err, "a compiled plan", -1), false;
    for (int i = 0; i < s->n; i++) {
        const Step *step = &p->steps[s->first + i];
        const Exe *e = &b->full[i];
        b->packed[i] = -1;
        if (e->kind == STEP_REGION) {
            parts = cpu_larger(parts, mem_lines(e->code.parts_bytes));
        } else if (e->product.packs && e->product.form == BATCH_SHARED && same_b(p, e->product.m)) {
            b->packed[i] = packed;
            packed += mem_lines(e->product.pack_bytes);
        } else {
            pack = cpu_larger(pack, mem_lines(e->product.pack_bytes));
        }
        if (rest && !shorten(&b->last[i], p, step, rest, &x->arena, err)) return false;
    }
    for (int i = 0; i < s->n_sums; i++) make_put(&b->puts[i], p, &s->sums[i]);
    b->parts_at = mem_lines(s->rows_bytes);
    b->pack_at = b->parts_at + parts;
    x->block_bytes = cpu_larger(x->block_bytes, b->pack_at + pack);
    x->packed_bytes = cpu_larger(x->packed_bytes, packed);
    x->slot_bytes = cpu_larger(x->slot_bytes, mem_lines(s->part_bytes) +
                                                  mem_lines(s->n * (int64_t)sizeof(atomic_llong)));
    x->parallel |= b->blocks > 1;
    return true;
}

/* ---- run ---- */
typedef struct {
    const BlocksCode *b;
    const Exec *x;
    const qb_plan *p;
    const Isa *isa;
    Workspace *w;
    char *parts; /* block results of regions outside of blocks */
    int n_slots;
    atomic_llong
        next; /* the block to be added next; what its thread adds is visible with the one after */
    atomic_bool adding;             /* somebody adds */
    atomic_llong ready[MOST_SLOTS]; /* per slot: its block + 1, once that is done */
} Run;

static char *slot_of(const Run *r, int64_t block)
{
    return r->w->sums + r->x->slot_bytes * (1 + block % r->n_slots);
}

/* Per step: did the product go straight to the total? After the parts of the slot. */
static bool *direct_of(const Run *r, int64_t block)
{
    return (bool *)(slot_of(r, block) + mem_lines(r->b->s->part_bytes));
}

/* Per step, the block whose product is the next of its total; behind the totals. */
static atomic_llong *turns_of(const Run *r)
{
    return (atomic_llong *)(void *)(r->w->sums + mem_lines(r->b->s->part_bytes));
}

static char *part_of(const Run *r, const SweepSum *s, char *memory)
{
    return memory + r->p->slots[s->part].offset;
}

/* A block has as many results of 128 k as the points that it has take. */
static int64_t results_of(const Run *r, const SweepSum *s, int64_t block)
{
    int64_t points = r->b->s->points - block * BLOCK;
    return points >= BLOCK ? s->per : (points * s->per + BLOCK - 1) / BLOCK;
}

static void add_part(const Run *r, int i, char *total, const char *part)
{
    const SweepSum *s = &r->b->s->sums[i];
    if (r->p->slots[s->part].dtype == QB_F64)
        r->isa->reducers[r->b->puts[i].kind][QB_F64].join((double *)total, (const double *)part,
                                                          s->width);
    else
        r->isa->kernels[kernel_op(OP_add, QB_F32)](total, total, part, NULL, 0, s->width);
}

static void add_block(const Run *r, int64_t block)
{
    const Sweep *sweep = r->b->s;
    const bool *direct = direct_of(r, block);
    for (int i = 0; i < sweep->n_sums; i++) {
        const SweepSum *s = &sweep->sums[i];
        if (direct[s->step]) continue;
        int64_t bytes = s->width * type_elem(r->p->slots[s->part].dtype);
        char *total = part_of(r, s, r->w->sums), *part = part_of(r, s, slot_of(r, block));
        for (int64_t k = 0, n = results_of(r, s, block); k < n; k++, part += bytes) {
            if (block == 0 && k == 0)
                memcpy(total, part, (size_t)bytes);
            else
                add_part(r, i, total, part);
        }
    }
    /* Only now: a merged product has several sums, and the next block adds to all of them at once. */
    for (int i = 0; i < sweep->n_sums; i++)
        if (!direct[sweep->sums[i].step])
            atomic_store(&turns_of(r)[sweep->sums[i].step], block + 1);
}

/* Adds what is ready. After the lock is given back the next block is looked at again: its thread
   may have come in between and gone. */
static void add_ready(Run *r)
{
    for (;;) {
        int64_t next = atomic_load(&r->next);
        if (atomic_load(&r->ready[next % r->n_slots]) != next + 1) return;
        if (atomic_exchange(&r->adding, true)) return;
        next = atomic_load(&r->next);
        for (; atomic_load(&r->ready[next % r->n_slots]) == next + 1; next++) {
            add_block(r, next);
            atomic_store(&r->next, next + 1);
        }
        atomic_store(&r->adding, false);
    }
}

static void run_product(Run *r, int i, const ProductCode *m, char *const *base, int64_t block)
{
    const BlocksCode *b = r->b;
    bool sum = r->p->steps[b->s->first + i].along == ALONG_INNER, packed = b->packed[i] >= 0;
    bool direct = sum && atomic_load(&turns_of(r)[i]) == block;
    char *pack = packed ? r->w->packed + b->packed[i] : base[BASE_ROWS] + b->pack_at;
    direct_of(r, block)[i] = direct;
    product_block(m, r->isa, base, pack, packed, direct ? r->w->sums - base[BASE_SUMS] : 0,
                  direct && block > 0);
    if (direct) atomic_store(&turns_of(r)[i], block + 1);
}

static void run_steps(Run *r, const Exe *exes, char **base, int64_t block)
{
    for (int i = 0; i < r->b->s->n; i++) {
        const Exe *e = &exes[i];
        int64_t start = r->w->ns ? cpu_clock() : 0;
        direct_of(r, block)[i] = false;
        if (e->kind == STEP_REGION)
            vm_alone(&e->code, r->isa, base);
        else
            run_product(r, i, &e->product, base, block);
        if (r->w->ns) cpu_spent(r->w, r->b->s->first + i, start);
    }
}

static void set_cursors(const Run *r, char **base, int64_t block)
{
    const qb_plan *p = r->p;
    const Sweep *s = r->b->s;
    for (int i = s->first_cursor; i < s->first_cursor + s->n_cursors; i++) {
        int64_t offset = p->cursors[i].step * block * BLOCK;
        int32_t of = code_base(p, p->cursors[i].slot, &offset);
        base[BASE_ARRAYS + p->n_inputs + p->n_outputs + p->n_consts + i] = base[of] + offset;
    }
}

/* No block uses the memory for block results of regions and for packed operands: it is theirs. */
static void run_beside(const Run *r, char **base)
{
    const Sweep *s = r->b->s;
    for (int i = s->first - s->beside; i < s->first; i++) {
        const Exe *e = &r->x->exes[i];
        int64_t start = r->w->ns ? cpu_clock() : 0;
        if (e->kind == STEP_REGION)
            vm_alone(&e->code, r->isa, base);
        else
            product_alone(&e->product, r->isa, base, r->w->pack);
        if (r->w->ns) cpu_spent(r->w, i, start);
    }
}

typedef struct {
    Run *r;
    int64_t block;
} Wait;

/* Its slot belongs to a block that has not been added yet. */
static bool blocked(void *arg)
{
    const Wait *w = arg;
    add_ready(w->r);
    return atomic_load(&w->r->next) <= w->block - w->r->n_slots;
}

static void sweep_task(void *arg, int64_t task, int thread)
{
    Run *r = arg;
    const BlocksCode *b = r->b;
    bool fresh;
    char **base = cpu_bases(r->x, r->w, thread, &fresh);
    int64_t block = b->s->beside ? task - 1 : task;
    if (block < 0) {
        base[BASE_PARTS] = r->parts; /* a helper's copy may be what thread 0 had for a block */
        run_beside(r, base);
        return;
    }
    Wait wait = {r, block};
    pool_wait(blocked, &wait, thread);
    base[BASE_PARTS] = base[BASE_ROWS] + b->parts_at;
    base[BASE_SUMS] = slot_of(r, block);
    set_cursors(r, base, block);
    run_steps(r, block == b->blocks - 1 ? b->last : b->full, base, block);
    base[BASE_PARTS] = r->parts;
    atomic_store(&r->ready[block % r->n_slots], block + 1);
    add_ready(r);
}

static void put_total(const Run *r, int i)
{
    const SweepSum *s = &r->b->s->sums[i];
    const Fold *f = &r->b->puts[i];
    char *total = part_of(r, s, r->w->sums);
    if (r->p->slots[s->part].dtype == QB_F64)
        vm_put(f, r->w->base, (double *)total, 0, s->width);
    else
        move_store(&f->move, r->w->base[f->at.base] + f->at.offset, total, 0, s->width);
}

void blocks_run(const BlocksCode *b, const Exec *x, const qb_plan *p, const Isa *isa, Workspace *w)
{
    int slots = cpu_slots(w->threads);
    Run r = {
        .b = b, .x = x, .p = p, .isa = isa, .w = w, .parts = w->base[BASE_PARTS], .n_slots = slots};
    for (int i = 0; i < b->s->n; i++)
        if (b->packed[i] >= 0)
            product_pack(&b->full[i].product, isa, w->base, w->packed + b->packed[i], 0);
    for (int i = 0; i < b->s->n; i++) atomic_init(&turns_of(&r)[i], 0);
    w->epoch++;
    pool_run_on(sweep_task, &r, b->blocks + (b->s->beside > 0), w->threads);
    for (int i = 0; i < b->s->n_sums; i++) put_total(&r, i);
}
