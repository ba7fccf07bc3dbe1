/* emit_run.c: which instructions on tiles are a run, one loop of machine code (emit_tile.c): values that they read and make, where these
   are, what somebody needs after it. */
#include "cpu/emit_tile.h"

#if defined(__x86_64__)
bool emit_run_suits(const Ins *s, bool masks)
{
    if (s->kernel >= INS_LOAD) return false;
    What f = emit_ins_what(s);
    if (f.way == COMPARISON) return masks && f.in != QB_BOOL;
    if (f.way == LOGIC || f.way == NOT) return masks;
    if (f.way == WHERE) return masks && f.in != QB_BOOL;
    return emit_ins_arity(f) && f.in != QB_BOOL && f.out != QB_BOOL;
}

/* Is the value that instruction i leaves at x read by one from `next` on, or after all of them? */
static bool read_later(const Code *c, const Ref *x, int next)
{
    if (!rows_is_register(c, x)) return true;
    for (int i = next; i < c->n_ins; i++) {
        if (code_reads(&c->ins[i], x)) return true;
        if (code_same(&c->ins[i].o, x)) return false;
    }
    for (int i = 0; i < c->n_folds; i++) {
        const Fold *f = &c->folds[i];
        if (code_same(&f->x, x) || (f->dot && code_same(&f->y, x)) ||
            (f->chain && code_reads(f->chain, x)))
            return true;
    }
    return false;
}

int emit_run_pointer(const Run *r, const Ref *x)
{
    for (int i = 0; i < r->n_pointers; i++)
        if (r->pointers[i].base == x->base && r->pointers[i].scale == x->scale) return i;
    return -1;
}

static bool add_pointer(Run *r, Ref x)
{
    if (emit_run_pointer(r, &x) >= 0) return true;
    if (r->n_pointers == MOST_POINTERS) return false;
    r->pointers[r->n_pointers++] = x;
    return true;
}

/* Newest first: a place may have held several values. -1: a truth value that the run has not made. */
static int datum_at(Run *r, const Ref *x, int dtype)
{
    for (int i = r->n_data - 1; i >= 0; i--)
        if (code_same(&r->data[i].ref, x))
            return (dtype == QB_BOOL) == (r->data[i].mask > 0) ? i : -1;
    if (dtype == QB_BOOL) return -1;
    r->data[r->n_data] =
        (Datum){.ref = *x, .elem = (int)type_elem(dtype), .last = -1, .given = true};
    return r->n_data++;
}

static bool add(Run *r, const Ins *s)
{
    What f = emit_ins_what(s);
    const Ref *refs[3] = {&s->a, &s->b, &s->c};
    Ref sign = {BASE_TILES, 0, r->signs[f.in]};
    bool flips = f.way == NEG || f.way == ABS, truth = f.out == QB_BOOL,
         ok = truth || add_pointer(r, s->o);
    int n = emit_ins_arity(f), dtypes[3] = {f.way == WHERE ? QB_BOOL : f.in, f.in, f.in};
    if (flips) refs[n++] = &sign;
    for (int j = 0; j < n; j++) ok = ok && (dtypes[j] == QB_BOOL || add_pointer(r, *refs[j]));
    if (!ok || (flips && sign.offset < 0) || (truth && r->n_masks == MOST_MASKS)) return false;
    Operation *op = &r->ops[r->n_ops];
    *op = (Operation){f, {-1, -1, -1}, 0};
    for (int j = 0; j < n; j++)
        if ((op->x[j] = datum_at(r, refs[j], dtypes[j])) < 0) return false;
    for (int j = 0; j < n; j++) r->data[op->x[j]].last = r->n_ops;
    op->z = r->n_data;
    r->data[r->n_data++] = (Datum){.ref = s->o, .elem = (int)type_elem(f.out), .last = -1};
    if (truth) r->data[op->z].mask = FIRST_MASK + r->n_masks++;
    r->wide |= f.in == QB_F64 || f.out == QB_F64;
    r->n_ops++;
    return true;
}

int emit_run_collect(Run *r, int first, int limit)
{
    const Code *c = r->c;
    int end = first;
    r->n_ops = r->n_data = r->n_pointers = r->n_masks = 0;
    r->wide = false;
    while (end < limit && r->n_ops < MOST_OPS && emit_run_suits(&c->ins[end], r->w->evex) &&
           add(r, &c->ins[end]))
        end++;
    for (int i = 0; i < r->n_ops; i++) {
        Datum *z = &r->data[r->ops[i].z];
        bool newest = true;
        for (int j = i + 1; j < r->n_ops; j++)
            newest &= !code_same(&z->ref, &r->data[r->ops[j].z].ref);
        z->kept = newest && read_later(c, &z->ref, end);
        if (z->kept && z->mask) return emit_run_collect(r, first, first + i);
    }
    return end;
}
#endif
