/* code_finish.c: what a region's program allows when it is complete: an instruction and a sum in one pass, one pass without
   tiles, no pass at all, and how much of it a thread takes at a time. */
#include "cpu/cpu.h"

enum { CHUNK_NS = 5000, LONG_CHUNK_NS = 40000 };

/* Does an instruction or a sum read this? */
static bool is_read(const Code *c, const Ref *x)
{
    for (const Ins *s = c->ins; s < c->ins + c->n_ins; s++)
        if (code_reads(s, x)) return true;
    return code_same(&c->folds[0].x, x);
}

/* A chain whose factor is one number reads it where it lies; no tile of it is made then. */
static void take_one(Code *c, Fold *f, Ins *chain)
{
    for (int i = 0; i < c->n_repeats; i++) {
        Repeat *r = &c->repeats[i];
        const Ref tile = {BASE_THREAD, 0, r->to};
        if (r->period != 1) continue;
        if (code_same(&chain->b, &tile)) {
            const Ref a = chain->a;
            chain->a = chain->b;
            chain->b = a;
        }
        if (!code_same(&chain->a, &tile) || code_same(&chain->b, &tile)) continue;
        f->one = true;
        f->a = r->x;
        if (!is_read(c, &tile) && !code_same(&chain->c, &tile)) *r = c->repeats[--c->n_repeats];
        return;
    }
}

/* Where the last instruction makes a factor of the only sum, they run in one pass. */
static void chain_last(Code *c)
{
    Fold *f = c->folds;
    if (c->shape != SHAPE_LONG_ROWS || c->n_folds != 1 || !f->dot || !c->n_ins) return;
    Ins *last = &c->ins[c->n_ins - 1];
    if (last->kernel < FUSED_FIRST || last->kernel >= NATIVE_FIRST) return;
    if (code_same(&last->o, &f->x)) {
        const Ref x = f->x;
        f->x = f->y;
        f->y = x;
    }
    if (!code_same(&last->o, &f->y)) return;
    f->chain = last;
    c->n_ins--;
    take_one(c, f, last);
}

static bool whole(const Code *c)
{
    const Fold *f = c->folds;
    if (c->shape != SHAPE_LONG_ROWS || c->height != 1 || c->n_ins || c->n_folds != 1) return false;
    if (c->rows.pieces) return false;
    const Ins *s = f->chain;
    bool chain = !s || (s->o.scale && (f->one || s->a.scale) && s->b.scale && s->c.scale);
    return chain && f->x.scale && (!f->dot || s || f->y.scale);
}

/* Units a thread takes at a time: several microseconds of work, and all of it below twice that. */
static void set_chunk(Code *c, double cost)
{
    double tiles = (double)((c->size + c->tile - 1) / c->tile);
    double total = cost * (double)c->size + 4.0 * c->n_ins * tiles;
    double chunk = total / 64;
    if (chunk < CHUNK_NS) chunk = CHUNK_NS;
    if (chunk > LONG_CHUNK_NS) chunk = LONG_CHUNK_NS;
    c->chunk = total < 2 * CHUNK_NS ? c->units : (int64_t)((double)c->units * (chunk / total)) + 1;
}

static bool copies_alone(const Code *c)
{
    bool alone = c->n_ins > 0 && !c->n_folds && !c->n_repeats && !c->rows.n_bases;
    for (const Ins *s = c->ins; s < c->ins + c->n_ins && alone; s++)
        alone = s->kernel < CAST_FIRST && s->kernel / QB_DTYPE_COUNT == OP_stop_gradient;
    return alone;
}

bool code_settled(const Code *c, char *const *base)
{
    for (const Ins *s = c->ins; s < c->ins + c->n_ins && c->copies; s++)
        if (base[s->o.base] + s->o.offset != base[s->a.base] + s->a.offset) return false;
    return c->copies;
}

void code_finish(Code *c, double cost)
{
    c->copies = copies_alone(c);
    set_chunk(c, cost);
    chain_last(c);
    c->whole = whole(c);
}
