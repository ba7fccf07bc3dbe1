/* code.c: from a region to a program for the VM. Everything that can be decided before the run
   is decided here.

   Operands. A load of consecutive elements is read where it lies, a store of consecutive
   elements is computed where it goes, and later instructions read it there. One element, or a
   row that fits, is expanded to a tile once per run; constants are tiles made with the plan; any
   other access is an instruction that gathers or scatters a tile.

   Aliasing. A store may lie over a load of the same region (plan.h: both consecutive, from the
   same element on). It is computed in place only if nothing reads the load after that
   instruction; otherwise it is copied out after the last instruction. */
#include "cpu/cpu.h"

enum { LAST = INT32_MAX };

/* ---- references ---- */
int32_t code_base(const qb_plan *p, int32_t slot, int64_t *offset)
{
    const Slot *s = &p->slots[slot];
    int32_t first = BASE_ARRAYS + s->index;
    switch (s->kind) {
    case SLOT_WORK: return *offset += s->offset, BASE_WORK;
    case SLOT_ROWS: return *offset += s->offset, BASE_ROWS;
    case SLOT_PART: return *offset += s->offset, BASE_SUMS;
    case SLOT_INPUT: return first;
    case SLOT_OUTPUT: return first + p->n_inputs;
    case SLOT_CONST: return first + p->n_inputs + p->n_outputs;
    default: return first + p->n_inputs + p->n_outputs + p->n_consts;
    }
}

static Ref ref_memory(const qb_plan *p, const Access *at, int64_t elem, bool flat)
{
    int64_t offset = at->offset * elem;
    int32_t base = code_base(p, at->slot, &offset);
    return (Ref){base, flat ? (int32_t)elem : 0, offset};
}

/* An operand that a kernel does not have. */
static const Ref none = {BASE_THREAD, 0, -1};

/* Do two slots share memory? */
static bool overlap(const qb_plan *p, int32_t s, int32_t t)
{
    const Slot *a = &p->slots[s], *b = &p->slots[t];
    if (a->kind == SLOT_CURSOR) a = &p->slots[p->cursors[a->index].slot];
    if (b->kind == SLOT_CURSOR) b = &p->slots[p->cursors[b->index].slot];
    if (a->kind != b->kind) return false;
    if (a->kind != SLOT_WORK && a->kind != SLOT_ROWS) return a->index == b->index;
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* ---- the compiler's notes, dropped at its end ---- */
typedef struct { /* an instruction, after fusion */
    uint16_t kernel;
    bool dead;
    bool summed;  /* dead: the sum that reads it multiplies */
    uint8_t in;   /* dtype of the operands */
    int32_t x[3]; /* values, -1 unused */
    int64_t i;
} Line;
/* A value. A store or a reduction counts as two uses, so that its operand is not fused away. A
   load is early when it must be copied before the first line: a store will overwrite its memory,
   and another store or a reduction reads the load after that. */
typedef struct {
    int32_t uses;
    int32_t last;  /* line that reads it last; LAST: a store or a reduction, after all lines */
    int32_t store; /* computed where this store goes; -1 */
    int32_t reg;   /* -1: none */
    uint8_t dtype;
    bool early;
    bool reduced;
    bool ready; /* ref is valid */
    Ref ref;
} Value;
typedef struct {
    Code *c;
    const qb_plan *p;
    const Region *r;
    TileSet *tiles;
    qb_error *err;
    Value *v;
    Line *lines;
    int32_t *free_regs, n_free, n_regs;
    uint8_t *reg_elem; /* of each register: bytes of the elements that it has held last */
    int32_t n_moves;
    int64_t kept,
        next; /* bytes of rows and elements that stay, before the registers; of those placed */
    int64_t stride; /* bytes of a register */
    double cost;    /* ns per element */
} Compiler;

/* ---- lines: kernels, fusion, last uses ---- */

int kernel_native(int op)
{
    static const int native[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = NATIVE_##name,
#include "cpu/native.h"
    };
    return native[op] ? native[op] : kernel_op(op, QB_F32);
}

/* A square is x * x in either dtype, a product that may be fused. */
static Line line_of(const Instr *n, bool native)
{
    bool square = n->op == OP_powi && n->i == 2;
    int kernel = kernel_op(square ? OP_mul : n->op, n->in);
    if (native && n->in == QB_F32 && !square) kernel = kernel_native(n->op);
    if (n->op == OP_cast) kernel = kernel_cast(n->in, n->out);
    Line l = {.kernel = (uint16_t)kernel, .in = n->in, .x = {n->a, n->b, n->c}, .i = n->i};
    if (square) l.x[1] = n->a;
    return l;
}

static void read_region(Compiler *k)
{
    const Region *r = k->r;
    for (int i = 0; i < r->n_loads + r->n_instrs; i++) {
        k->v[i] = (Value){.last = -1, .store = -1, .reg = -1};
        k->v[i].dtype = i < r->n_loads ? r->loads[i].dtype : r->instrs[i - r->n_loads].out;
    }
    for (int i = 0; i < r->n_instrs; i++) {
        Line *l = &k->lines[i];
        *l = line_of(&r->instrs[i], k->p->native);
        for (int j = 0; j < 3; j++)
            if (l->x[j] >= 0) k->v[l->x[j]].uses++;
    }
    for (int i = 0; i < r->n_stores; i++) k->v[r->stores[i].value].uses += 2;
    for (int i = 0; i < r->n_reduces; i++) {
        k->v[r->reduces[i].value].uses += 2;
        k->v[r->reduces[i].value].reduced = true;
    }
}

/* The line of a product that only this use needs; NULL otherwise. */
static Line *product(Compiler *k, int32_t v, uint8_t dtype)
{
    Line *l = v >= k->r->n_loads ? &k->lines[v - k->r->n_loads] : NULL;
    return l && k->v[v].uses == 1 && l->kernel == kernel_op(OP_mul, dtype) ? l : NULL;
}

/* A product that feeds one sum or difference becomes one line with it; both roundings stay. */
static void fuse(Compiler *k)
{
    for (int i = 0; i < k->r->n_instrs; i++) {
        Line *l = &k->lines[i];
        bool add = l->kernel == kernel_op(OP_add, l->in);
        if (!add && l->kernel != kernel_op(OP_sub, l->in)) continue;
        Line *left = product(k, l->x[0], l->in), *m = left ? left : product(k, l->x[1], l->in);
        if (!m) continue;
        int fused = add ? FUSED_MUL_ADD : left ? FUSED_MUL_SUB : FUSED_SUB_MUL;
        l->kernel = (uint16_t)kernel_fused(fused, l->in);
        l->x[2] = left ? l->x[1] : l->x[0];
        l->x[0] = m->x[0];
        l->x[1] = m->x[1];
        m->dead = true;
    }
}

static bool small(const Code *c)
{
    return c->shape == SHAPE_FLAT && c->units == 1 && c->blocks == 1;
}

/* The product that this sum adds up and nothing else needs, of numbers that no store lies over: the sum
   multiplies them itself. A small region is left as it is: bound.c and the emitter run it. */
static Line *added_up(Compiler *k, const Reduce *n)
{
    const Region *r = k->r;
    const Code *c = k->c;
    int32_t i = n->value - r->n_loads;
    bool sum = n->op == OP_sum || n->op == OP_mean;
    if (i < 0 || small(c) || c->rows.pieces || !sum || r->form != REDUCE_TRAILING ||
        k->v[n->value].uses != 2)
        return NULL;
    Line *l = &k->lines[i];
    if (l->kernel != kernel_op(OP_mul, QB_F64)) return NULL;
    for (int j = 0; j < 2; j++)
        for (int s = 0; s < r->n_stores && l->x[j] < r->n_loads; s++)
            if (!r->loads[l->x[j]].splat &&
                overlap(k->p, r->loads[l->x[j]].at.slot, r->stores[s].at.slot))
                return NULL;
    return l;
}

/* Those products become no lines; their factors are read after the last one. */
static void fuse_sums(Compiler *k)
{
    for (int i = 0; i < k->r->n_reduces; i++) {
        Line *l = added_up(k, &k->r->reduces[i]);
        if (l) l->dead = l->summed = true;
    }
}

static void find_last_uses(Compiler *k)
{
    for (int i = 0; i < k->r->n_instrs; i++)
        for (int j = 0; j < 3 && !k->lines[i].dead; j++)
            if (k->lines[i].x[j] >= 0) k->v[k->lines[i].x[j]].last = i;
    for (int i = 0; i < k->r->n_stores; i++) k->v[k->r->stores[i].value].last = LAST;
    for (int i = 0; i < k->r->n_reduces; i++) k->v[k->r->reduces[i].value].last = LAST;
    for (int i = 0; i < k->r->n_instrs; i++)
        for (int j = 0; j < 2 && k->lines[i].summed; j++) k->v[k->lines[i].x[j]].last = LAST;
}

/* ---- where values live ---- */

/* How load i is read: where it lies, element by element or the same tile again and again; from the thread's memory, expanded once, at
   each row or as a row; or moved to a register. */
typedef enum {
    READ_FLAT,
    READ_DENSE,
    READ_TILE,
    READ_REPEAT,
    READ_ONE,
    READ_SAME,
    READ_MOVE
} Reading;

static RowForm row_form(const Compiler *k, const Access *at)
{
    bool rows = k->c->shape == SHAPE_LONG_ROWS || k->c->shape == SHAPE_PANELS;
    return rows ? rows_form(k->r, at, k->c->rows.split) : ROW_OTHER;
}

/* Is this value reduced over tiles that cross rows? Then it must be in a register, or consecutive through all rows. */
static bool across(const Compiler *k, int32_t v) { return k->c->rows.pieces && k->v[v].reduced; }

static Reading reading(const Compiler *k, int i, int64_t *period)
{
    static const Reading along[] = {READ_MOVE, READ_DENSE, READ_ONE, READ_SAME};
    const Access *at = &k->r->loads[i].at;
    Form form = shape_form(k->r, at, period);
    if (k->c->straight) return READ_TILE;
    if (k->v[i].early) return READ_MOVE;
    if (form == AT_FLAT) return READ_FLAT;
    if (form != AT_STRIDED && shape_repeats(k->c, *period))
        return *period == k->c->tile ? READ_TILE : READ_REPEAT;
    if (across(k, i)) return READ_MOVE;
    return along[row_form(k, at)];
}

static bool consecutive(const Compiler *k, const Access *at)
{
    int64_t period;
    return shape_form(k->r, at, &period) == AT_FLAT || row_form(k, at) == ROW_DENSE;
}

/* Can the value of store s be computed where it goes, given the loads that it overwrites? */
static bool in_place(const Compiler *k, const Store *s)
{
    const Region *r = k->r;
    int32_t line = s->value - r->n_loads;
    int64_t period;
    if (!consecutive(k, &s->at) || k->v[s->value].store >= 0) return false;
    if (across(k, s->value) && shape_form(r, &s->at, &period) != AT_FLAT) return false;
    if (line < 0 && (r->loads[s->value].splat || k->v[s->value].early ||
                     reading(k, s->value, &period) != READ_MOVE))
        return false;
    for (int i = 0; i < r->n_loads; i++) {
        if (r->loads[i].splat || k->v[i].early || !overlap(k->p, r->loads[i].at.slot, s->at.slot))
            continue;
        bool same = type_elem(r->loads[i].dtype) == type_elem(k->v[s->value].dtype);
        if (line < 0 || k->v[i].last > line || !same) return false;
    }
    return true;
}

static void place_stores(Compiler *k)
{
    const Region *r = k->r;
    for (int i = 0; i < r->n_loads; i++)
        for (int s = 0; s < r->n_stores && !r->loads[i].splat && k->v[i].last == LAST; s++)
            if (overlap(k->p, r->loads[i].at.slot, r->stores[s].at.slot)) k->v[i].early = true;
    for (int s = 0; s < r->n_stores; s++)
        if (in_place(k, &r->stores[s])) k->v[r->stores[s].value].store = s;
}

/* A register has elements of one size only: machine code (emit.h) goes through a region chunk by chunk,
   and chunks of another size would lie over those of the value before. */
static int32_t free_register(Compiler *k, uint8_t elem)
{
    int32_t i = k->n_free - 1, reg;
    while (i >= 0 && k->reg_elem[k->free_regs[i]] != elem) i--;
    if (i < 0) {
        reg = k->n_regs++;
    } else {
        reg = k->free_regs[i];
        memmove(k->free_regs + i, k->free_regs + i + 1,
                (size_t)(--k->n_free - i) * sizeof *k->free_regs);
    }
    k->reg_elem[reg] = elem;
    return reg;
}

/* Consecutive elements, all or those of each row. */
static Ref ref_along(Compiler *k, const Access *at, int64_t elem)
{
    int64_t period;
    bool flat = shape_form(k->r, at, &period) == AT_FLAT;
    Ref x = ref_memory(k->p, at, elem, flat);
    return flat ? x : rows_dense(k->c, k->r, at, x, elem);
}

static void take_register(Compiler *k, Value *v)
{
    if (v->store >= 0) {
        v->ref = ref_along(k, &k->r->stores[v->store].at, type_elem(v->dtype));
    } else {
        v->reg = free_register(k, (uint8_t)type_elem(v->dtype));
        v->ref = rows_register(k->c, k->kept + v->reg * k->stride, type_elem(v->dtype));
    }
    v->ready = true;
}

static void release(Compiler *k, int32_t id, int32_t line)
{
    Value *v = &k->v[id];
    if (v->reg < 0 || v->last > line) return;
    k->free_regs[k->n_free++] = v->reg;
    v->reg = -1;
}

static void emit(Compiler *k, uint16_t kernel, int64_t i, Ref o, Ref a, Ref b, Ref c)
{
    k->c->ins[k->c->n_ins++] = (Ins){.kernel = kernel, .i = i, .o = o, .a = a, .b = b, .c = c};
}

static int64_t move_for(Compiler *k, const Access *at, int d0, int d1, int64_t elem)
{
    move_make(&k->c->moves[k->n_moves], d1 - d0, k->r->dims + d0, at->stride + d0, elem);
    return k->n_moves++;
}

/* Memory of the thread for load i; the address is the last one's end. */
static int64_t keep(Compiler *k, int i, int64_t *at)
{
    int64_t period, to = *at;
    Reading how = k->r->loads[i].splat ? READ_FLAT : reading(k, i, &period);
    if (how == READ_REPEAT || how == READ_ONE) *at += k->stride;
    if (how == READ_SAME) *at += mem_lines(k->c->rows.w * type_elem(k->r->loads[i].dtype));
    return to;
}

/* Make load i readable; the instruction, if it takes one, comes here. False: out of memory. */
static bool fetch(Compiler *k, int32_t i)
{
    Value *v = &k->v[i];
    if (v->ready) return true;
    const Load *l = &k->r->loads[i];
    int64_t elem = type_elem(l->dtype), period;
    v->ready = true;
    if (l->splat) {
        int64_t offset = tiles_offset(k->tiles, l->value, l->dtype, k->err);
        v->ref = (Ref){BASE_TILES, 0, offset};
        return offset >= 0;
    }
    Reading how = reading(k, i, &period);
    const Ref first = ref_memory(k->p, &l->at, elem, false);
    switch (how) {
    case READ_FLAT:
    case READ_DENSE: v->ref = ref_along(k, &l->at, elem); break;
    case READ_TILE: v->ref = first; break;
    case READ_REPEAT:
        v->ref = (Ref){BASE_THREAD, 0, keep(k, i, &k->next)};
        k->c->repeats[k->c->n_repeats++] = (Repeat){first, v->ref.offset, period, elem};
        break;
    case READ_ONE: v->ref = rows_one(k->c, k->r, &l->at, first, elem, keep(k, i, &k->next)); break;
    case READ_SAME:
        v->ref = rows_same(k->c, k->r, &l->at, first, elem, keep(k, i, &k->next));
        break;
    case READ_MOVE:
        take_register(k, v);
        emit(k, INS_LOAD, move_for(k, &l->at, 0, k->r->rank, elem), v->ref, first, none, none);
        k->cost += 0.3;
        break;
    }
    return true;
}

static bool fetch_any(Compiler *k, int32_t v) { return v >= k->r->n_loads || fetch(k, v); }

/* ---- lines, stores and reductions become instructions ---- */

/* ns an element, measured on x86-64-v4 */
static double cost_of(const Line *l)
{
    int op = l->kernel / QB_DTYPE_COUNT;
    if (l->kernel >= NATIVE_FIRST) return 0.35;
    if (l->kernel >= CAST_FIRST) return 0.1;
    if (op == OP_pow) return 3.5;
    if (op == OP_div || op == OP_sqrt || op == OP_powi) return 0.7;
    return op_table[op].ulp > 0 || op == OP_fmod ? 1.0 : 0.1;
}

/* Does line i choose all elements of a tile alike? Then the mask is read where it lies. */
static bool picks(const Compiler *k, const Line *l)
{
    int64_t period;
    if (l->kernel >= CAST_FIRST || l->kernel / QB_DTYPE_COUNT != OP_where || small(k->c))
        return false;
    int32_t m = l->x[0];
    return m < k->r->n_loads && !k->r->loads[m].splat && !k->v[m].early &&
           shape_form(k->r, &k->r->loads[m].at, &period) == AT_ONE;
}

/* A result may take the register of an operand that is read here for the last time: kernels go
   element by element. That holds for elements of one size only. */
static bool compile_line(Compiler *k, int32_t i)
{
    Line *l = &k->lines[i];
    Value *z = &k->v[k->r->n_loads + i];
    Ref ref[3] = {none, none, none};
    bool one_size = type_elem(z->dtype) == type_elem(l->in), pick = picks(k, l);
    if (pick) ref[0] = ref_memory(k->p, &k->r->loads[l->x[0]].at, sizeof(bool), false);
    for (int j = pick; j < 3; j++) {
        if (l->x[j] < 0) continue;
        if (!fetch_any(k, l->x[j])) return false;
        ref[j] = k->v[l->x[j]].ref;
        one_size &= type_elem(k->v[l->x[j]].dtype) == type_elem(z->dtype);
    }
    if (!one_size) take_register(k, z);
    for (int j = 0; j < 3; j++)
        if (l->x[j] >= 0) release(k, l->x[j], i);
    if (one_size) take_register(k, z);
    int copy = kernel_op(OP_stop_gradient, z->dtype);
    emit(k, pick ? INS_PICK : l->kernel, pick ? copy : l->i, z->ref, ref[0], ref[1], ref[2]);
    release(k, k->r->n_loads + i, i);
    k->cost += cost_of(l);
    return true;
}

static bool compile_stores(Compiler *k)
{
    for (int s = 0; s < k->r->n_stores; s++) {
        const Store *t = &k->r->stores[s];
        Value *v = &k->v[t->value];
        int64_t elem = type_elem(v->dtype);
        bool direct = consecutive(k, &t->at);
        if (!fetch_any(k, t->value)) return false;
        if (v->store == s) continue;
        if (direct)
            emit(k, (uint16_t)kernel_op(OP_stop_gradient, v->dtype), 0, ref_along(k, &t->at, elem),
                 v->ref, none, none);
        else
            emit(k, INS_STORE, move_for(k, &t->at, 0, k->r->rank, elem),
                 ref_memory(k->p, &t->at, elem, false), v->ref, none, none);
        k->cost += direct ? 0.1 : 0.3;
    }
    return true;
}

static bool compile_reduces(Compiler *k)
{
    Code *c = k->c;
    const Region *r = k->r;
    const bool leading = r->form == REDUCE_LEADING, lanes = leading || c->turned;
    const int d0 = leading ? r->split : 0, d1 = leading ? r->rank : r->split; /* of the results */
    int64_t columns = c->w < c->panel ? c->w : c->panel;
    for (int i = 0; i < r->n_reduces; i++) {
        const Reduce *n = &r->reduces[i];
        const Value *v = &k->v[n->value];
        const Line *l = n->value < r->n_loads ? NULL : &k->lines[n->value - r->n_loads];
        bool dot = l && l->summed;
        for (int j = 0; j < (dot ? 2 : 1); j++)
            if (!fetch_any(k, dot ? l->x[j] : n->value)) return false;
        Fold *f = &c->folds[c->n_folds++];
        bool native = k->p->native && v->dtype == QB_F32;
        *f = (Fold){.dtype = v->dtype, .form = native ? REDUCE_NATIVE : v->dtype, .dot = dot};
        f->x = dot ? k->v[l->x[0]].ref : v->ref;
        if (dot) f->y = k->v[l->x[1]].ref;
        f->at = ref_memory(k->p, &n->at, type_elem(v->dtype), false);
        f->kind = n->op == OP_max ? REDUCE_MAX : n->op == OP_min ? REDUCE_MIN : REDUCE_SUM;
        f->count = n->op != OP_mean ? 0 : lanes ? c->height : c->w;
        move_make(&f->move, d1 - d0, r->dims + d0, n->at.stride + d0, type_elem(v->dtype));
        if (c->straight) {
            const int64_t *stride = r->loads[n->value].at.stride;
            move_make(&f->columns, d1 - d0, r->dims + d0, stride + d0, type_elem(v->dtype));
            f->apart = stride[leading ? r->split - 1 : r->rank - 1];
        }
        f->direct = v->dtype == QB_F64 && !f->count &&
                    (c->width == 1 || (f->move.rank == 1 && f->move.stride[0] == f->move.elem));
        f->parts = (Ref){BASE_PARTS, 0, c->parts_bytes};
        c->partial = k->p->slots[n->at.slot].kind == SLOT_PART;
        if (c->partial)
            f->parts = f->at;
        else if (c->shape != SHAPE_FLAT && c->blocks > 1)
            c->parts_bytes += mem_lines(c->blocks * c->width * (int64_t)sizeof(double));
        f->lanes = c->thread_bytes; /* after the registers, which are counted at the end */
        if (lanes)
            c->thread_bytes += mem_lines((SUM_LANES + 1) * columns * (int64_t)sizeof(double));
        k->cost += 0.15;
    }
    return true;
}

static bool compile(Compiler *k)
{
    Code *c = k->c;
    const Region *r = k->r;
    read_region(k);
    fuse(k);
    fuse_sums(k);
    find_last_uses(k);
    place_stores(k);
    for (int i = 0; i < r->n_loads; i++) keep(k, i, &k->kept);
    for (int i = 0; i < r->n_loads; i++)
        if (k->v[i].early && !fetch(k, i)) return false;
    for (int i = 0; i < r->n_instrs; i++)
        if (!k->lines[i].dead && !compile_line(k, i)) return false;
    if (!compile_stores(k) || !compile_reduces(k)) return false;
    for (int i = 0; i < c->n_folds; i++) c->folds[i].lanes += k->kept + k->n_regs * k->stride;
    c->thread_bytes += k->kept + k->n_regs * k->stride;
    c->small = small(c) && !c->partial;
    c->results = c->size / c->w;
    code_finish(c, k->cost);
    return true;
}

bool code_compile(Code *c, const qb_plan *p, const Region *r, TileSet *tiles, Arena *keep,
                  qb_error *err)
{
    Arena notes = {0};
    size_t values = (size_t)(r->n_loads + r->n_instrs), moves = (size_t)(r->n_loads + r->n_stores);
    *c = (Code){0};
    shape_cut(c, r);
    Compiler k = {
        .c = c, .p = p, .r = r, .tiles = tiles, .err = err, .stride = mem_lines(c->tile * 8)};
    c->ins = arena_alloc(keep, (moves + (size_t)r->n_instrs) * sizeof *c->ins);
    c->repeats = arena_alloc(keep, (size_t)r->n_loads * sizeof *c->repeats);
    c->folds = arena_alloc(keep, (size_t)r->n_reduces * sizeof *c->folds);
    c->moves = arena_alloc(keep, moves * sizeof *c->moves);
    k.v = arena_alloc(&notes, values * sizeof *k.v);
    k.lines = arena_alloc(&notes, (size_t)r->n_instrs * sizeof *k.lines);
    k.free_regs = arena_alloc(&notes, values * sizeof *k.free_regs);
    k.reg_elem = arena_alloc(&notes, values * sizeof *k.reg_elem);
    bool ok = rows_open(c, p, r, keep) && c->ins && c->repeats && c->folds && c->moves && k.v &&
              k.lines && k.free_regs && k.reg_elem;
    if (!ok) error_memory(err, "a compiled region", -1);
    ok = ok && compile(&k);
    arena_free(&notes);
    return ok;
}
