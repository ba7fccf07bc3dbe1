/* code.c: from a region to a program for the VM. Everything that can be decided before the run is decided here: instructions by
   lines.c, operands by live.c. */
#include "cpu/code.h"

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

Ref code_memory(const qb_plan *p, const Access *at, int64_t elem, bool flat)
{
    int64_t offset = at->offset * elem;
    int32_t base = code_base(p, at->slot, &offset);
    return (Ref){base, flat ? (int32_t)elem : 0, offset};
}

bool code_overlap(const qb_plan *p, int32_t s, int32_t t)
{
    const Slot *a = &p->slots[s], *b = &p->slots[t];
    if (a->kind == SLOT_CURSOR) a = &p->slots[p->cursors[a->index].slot];
    if (b->kind == SLOT_CURSOR) b = &p->slots[p->cursors[b->index].slot];
    if (a->kind != b->kind) return false;
    if (a->kind != SLOT_WORK && a->kind != SLOT_ROWS) return a->index == b->index;
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

void code_emit(Compiler *k, uint16_t kernel, int64_t i, Ref o, Ref a, Ref b, Ref c)
{
    k->c->ins[k->c->n_ins++] = (Ins){.kernel = kernel, .i = i, .o = o, .a = a, .b = b, .c = c};
}

int64_t code_move(Compiler *k, const Access *at, int64_t elem)
{
    move_make(&k->c->moves[k->n_moves], k->r->rank, k->r->dims, at->stride, elem);
    return k->n_moves++;
}

/* ---- lines, stores and reductions become instructions ---- */

static bool fetch_any(Compiler *k, int32_t v) { return v >= k->r->n_loads || live_fetch(k, v); }

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
    if (l->kernel >= CAST_FIRST || l->kernel / QB_DTYPE_COUNT != OP_where || lines_small(k->c))
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
    Ref ref[3] = {code_none, code_none, code_none};
    bool one_size = type_elem(z->dtype) == type_elem(l->in), pick = picks(k, l);
    if (pick) ref[0] = code_memory(k->p, &k->r->loads[l->x[0]].at, sizeof(bool), false);
    for (int j = pick; j < 3; j++) {
        if (l->x[j] < 0) continue;
        if (!fetch_any(k, l->x[j])) return false;
        ref[j] = k->v[l->x[j]].ref;
        one_size &= type_elem(k->v[l->x[j]].dtype) == type_elem(z->dtype);
    }
    if (!one_size) live_take(k, z);
    for (int j = 0; j < 3; j++)
        if (l->x[j] >= 0) live_release(k, l->x[j], i);
    if (one_size) live_take(k, z);
    int copy = kernel_op(OP_stop_gradient, z->dtype);
    code_emit(k, pick ? INS_PICK : l->kernel, pick ? copy : l->i, z->ref, ref[0], ref[1], ref[2]);
    live_release(k, k->r->n_loads + i, i);
    k->cost += cost_of(l);
    return true;
}

static bool compile_stores(Compiler *k)
{
    for (int s = 0; s < k->r->n_stores; s++) {
        const Store *t = &k->r->stores[s];
        Value *v = &k->v[t->value];
        int64_t elem = type_elem(v->dtype);
        bool direct = live_consecutive(k, &t->at);
        if (!fetch_any(k, t->value)) return false;
        if (v->store == s) continue;
        if (direct)
            code_emit(k, (uint16_t)kernel_op(OP_stop_gradient, v->dtype), 0,
                      live_along(k, &t->at, elem), v->ref, code_none, code_none);
        else
            code_emit(k, INS_STORE, code_move(k, &t->at, elem),
                      code_memory(k->p, &t->at, elem, false), v->ref, code_none, code_none);
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
        f->at = code_memory(k->p, &n->at, type_elem(v->dtype), false);
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
    lines_find(k);
    live_open(k);
    for (int i = 0; i < r->n_loads; i++)
        if (k->v[i].early && !live_fetch(k, i)) return false;
    for (int i = 0; i < r->n_instrs; i++)
        if (!k->lines[i].dead && !compile_line(k, i)) return false;
    if (!compile_stores(k) || !compile_reduces(k)) return false;
    for (int i = 0; i < c->n_folds; i++) c->folds[i].lanes += k->kept + k->n_regs * k->stride;
    c->thread_bytes += k->kept + k->n_regs * k->stride;
    c->small = lines_small(c) && !c->partial;
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
