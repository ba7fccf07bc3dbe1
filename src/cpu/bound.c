/* bound.c: a small plan as a list of calls, for loops that run it again and again and are no machine
   code (emit.c). A step costs some 20 instructions to find its operands by base and offset, which is
   as much as the work itself on a few numbers. Between two iterations only the buffers of the
   carries change places, so a loop binds its body twice, once for each way, and then makes the calls
   alternately. Measured on a while loop over 16 numbers: 16 ns an iteration unbound, 11 bound. */
#include "cpu/cpu.h"

enum { MOST_CALLS = 256 }; /* two programs of 80 bytes a call stay in the first-level cache */

static bool plain(const Exe *e)
{
    const Code *c = &e->code;
    if (e->kind != STEP_REGION || !c->small || c->n_repeats) return false;
    for (int i = 0; i < c->n_ins; i++)
        if (c->ins[i].kernel >= KERNEL_COUNT) return false;
    for (int i = 0; i < c->n_folds; i++)
        if (!c->folds[i].direct) return false;
    return true;
}

int bound_count(const Exec *x)
{
    int n = 0;
    bool any = false;
    for (const Exe *e = x->exes; e < x->exes + x->n; e++) {
        any |= plain(e);
        n += plain(e) ? e->code.n_ins + e->code.n_folds : 1;
    }
    return any && n <= MOST_CALLS && !x->parallel && !x->n_sweeps ? n : 0;
}

static char *address(char *const *base, const Ref *x) { return base[x->base] + x->offset; }

void bound_make(const Exec *x, const Isa *isa, char *const *base, Bound *out)
{
    for (const Exe *e = x->exes; e < x->exes + x->n; e++) {
        const Code *c = &e->code;
        if (!plain(e)) {
            *out++ = (Bound){.step = e};
            continue;
        }
        for (const Ins *s = c->ins; s < c->ins + c->n_ins; s++)
            *out++ = (Bound){.kernel = isa->kernels[s->kernel],
                             .o = address(base, &s->o),
                             .a = address(base, &s->a),
                             .b = address(base, &s->b),
                             .c = address(base, &s->c),
                             .i = s->i,
                             .n = c->size};
        for (const Fold *f = c->folds; f < c->folds + c->n_folds; f++)
            *out++ = (Bound){.rows = isa->reducers[f->kind][f->dtype].rows,
                             .o = address(base, &f->at),
                             .a = address(base, &f->x),
                             .i = c->results,
                             .n = c->w};
    }
}

bool bound_run(const Bound *b, int n, const Exec *x, const Isa *isa, Workspace *w, qb_error *err)
{
    for (const Bound *end = b + n; b < end; b++) {
        if (b->kernel)
            b->kernel(b->o, b->a, b->b, b->c, b->i, b->n);
        else if (b->rows)
            b->rows((double *)b->o, b->a, b->i, b->n);
        else if (!cpu_step(x, b->step, w, isa, err))
            return false;
    }
    return true;
}
