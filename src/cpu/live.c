/* live.c: where the values of a region live.

   Operands. A load of consecutive elements is read where it lies, a store of consecutive elements is computed where it goes, and later
   instructions read it there; so are those that are consecutive along rows (rows.c). One element, or a row that fits, is expanded to
   a tile once per run; constants are tiles made with the plan; any other access is an instruction that gathers or scatters a tile.

   Aliasing. A store may lie over a load of the same region (plan.h: both consecutive, from the same element on). It is computed in
   place only if nothing reads the load after that instruction; otherwise it is copied out after the last instruction. */
#include "cpu/code.h"

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
    return rows_form(k->r, at, k->c->rows.split);
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

bool live_consecutive(const Compiler *k, const Access *at)
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
    if (!live_consecutive(k, &s->at) || k->v[s->value].store >= 0) return false;
    if (across(k, s->value) && shape_form(r, &s->at, &period) != AT_FLAT) return false;
    if (line < 0 && (r->loads[s->value].splat || k->v[s->value].early ||
                     reading(k, s->value, &period) != READ_MOVE))
        return false;
    for (int i = 0; i < r->n_loads; i++) {
        if (r->loads[i].splat || k->v[i].early ||
            !code_overlap(k->p, r->loads[i].at.slot, s->at.slot))
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
            if (code_overlap(k->p, r->loads[i].at.slot, r->stores[s].at.slot)) k->v[i].early = true;
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

Ref live_along(Compiler *k, const Access *at, int64_t elem)
{
    int64_t period;
    bool flat = shape_form(k->r, at, &period) == AT_FLAT;
    Ref x = code_memory(k->p, at, elem, flat);
    return flat ? x : rows_dense(k->c, k->r, at, x, elem);
}

void live_take(Compiler *k, Value *v)
{
    if (v->store >= 0) {
        v->ref = live_along(k, &k->r->stores[v->store].at, type_elem(v->dtype));
    } else {
        v->reg = free_register(k, (uint8_t)type_elem(v->dtype));
        v->ref = rows_register(k->c, k->kept + v->reg * k->stride, type_elem(v->dtype));
    }
    v->ready = true;
}

void live_release(Compiler *k, int32_t id, int32_t line)
{
    Value *v = &k->v[id];
    if (v->reg < 0 || v->last > line) return;
    k->free_regs[k->n_free++] = v->reg;
    v->reg = -1;
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

bool live_fetch(Compiler *k, int32_t i)
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
    const Ref first = code_memory(k->p, &l->at, elem, false);
    switch (how) {
    case READ_FLAT:
    case READ_DENSE: v->ref = live_along(k, &l->at, elem); break;
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
        live_take(k, v);
        code_emit(k, INS_LOAD, code_move(k, &l->at, elem), v->ref, first, code_none, code_none);
        k->cost += 0.3;
        break;
    }
    return true;
}

void live_open(Compiler *k)
{
    place_stores(k);
    for (int i = 0; i < k->r->n_loads; i++) keep(k, i, &k->kept);
}
