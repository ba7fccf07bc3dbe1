/* emit_region.c: the program of a small region as machine instructions. Elements go through
   registers in chunks of 32 bytes, then 16, then one by one; a chunk takes all instructions before
   the next one begins. What the tables of emit_ins.c do not know is a call of its kernel on all
   elements, other reductions than sums are calls too, and a step that is no small region is a call
   of cpu_step: so every body can be emitted, and bits are those of the VM everywhere. */
#include "cpu/emit.h"

#if defined(__x86_64__)
enum { MOST_ELEMENTS = 64, MOST_WORK = 600, ENOUGH_BYTES = 1 << 15 };

/* ---- sums: eight lanes as two registers of float64, then the tree ---- */

static int widened(Emitter *e, int n, int x)
{
    int o = keep_take(e);
    if (n == 1)
        x86_op(&e->w, X_SS_SD, false, o, x, x);
    else
        x86_op(&e->w, X_PS_PD, n == 4, o, 0, x);
    keep_unpin(e, x);
    return o;
}

static int piece(Emitter *e, const Fold *f, int64_t k, int n)
{
    int elem = (int)type_elem(f->dtype),
        x = keep_read(e, emit_ins_stretch(e, &f->x, f->dtype, k, n, elem));
    return elem == 4 ? widened(e, n, x) : x;
}

/* Elements k .. k + n in the first of four lanes, -0.0 in the others. */
static int lanes(Emitter *e, const Fold *f, int64_t k, int n)
{
    int x = piece(e, f, k, n >= 4 ? 4 : n >= 2 ? 2 : 1);
    if (n >= 4) return x;
    int none = emit_ins_constant(e, UINT64_C(1) << 63, 32, 8), o = keep_take(e);
    if (n == 3) {
        int last = piece(e, f, k + 2, 1);
        x86_op_imm(&e->w, X_BLEND, false, o, none, last, 1);
        x86_op_imm(&e->w, X_INSERT, true, o, x, o, 1);
        keep_unpin(e, last);
    } else {
        x86_op_imm(&e->w, X_BLEND, true, o, none, x, n == 2 ? 3 : 1);
    }
    keep_unpin(e, x);
    keep_unpin(e, none);
    return o;
}

/* Adds to lanes `sum`, -1: all of them -0.0, to which a first addition is no change. */
static int add_lanes(Emitter *e, int sum, int x)
{
    if (sum < 0) return x;
    int o = keep_take(e);
    x86_arith(&e->w, X_ADD, 32, 8, o, sum, x);
    keep_unpin(e, sum);
    keep_unpin(e, x);
    return o;
}

static int tree(Emitter *e, int low, int high, int64_t w)
{
    int x = high < 0 ? low : add_lanes(e, low, high), o = keep_take(e);
    if (w > 2) {
        x86_op_imm(&e->w, X_EXTRACT, true, o, 0, x, 1);
        x86_arith(&e->w, X_ADD, 16, 8, o, x, o);
        keep_unpin(e, x);
        x = o;
        o = keep_take(e);
    }
    x86_op(&e->w, X_HIGH_PD, false, o, x, x);
    x86_arith(&e->w, X_ADD, 8, 8, o, x, o);
    return o;
}

static void sum_row(Emitter *e, const Fold *f, int64_t row)
{
    int64_t w = e->c->w, start = row * w;
    int low = -1, high = -1, elem = (int)type_elem(f->dtype);
    for (int64_t k = 0; k < w; k += SUM_LANES) {
        int n = (int)(w - k < SUM_LANES ? w - k : SUM_LANES);
        low = add_lanes(e, low, lanes(e, f, start + k, n < 4 ? n : 4));
        if (n > 4) high = add_lanes(e, high, lanes(e, f, start + k + 4, n - 4));
    }
    int o = tree(e, low, high, w);
    if (f->count) {
        double count = (double)f->count;
        uint64_t bits;
        memcpy(&bits, &count, sizeof bits);
        x86_arith(&e->w, X_DIV, 8, 8, o, o, emit_ins_constant(e, bits, 8, 8));
    }
    if (elem == 4) x86_op(&e->w, X_SD_SS, false, o, o, o);
    keep_write(e,
               (Stretch){f->at.base, f->at.offset + move_offset(&f->move, row), elem, elem, false,
                         false},
               o);
    keep_unpin_all(e);
}

/* ---- calls ---- */

static void call_kernel(Emitter *e, const Ins *s)
{
    keep_before_call(e);
    keep_address(e, RDI, s->o.base, s->o.offset);
    keep_address(e, RSI, s->a.base, s->a.offset);
    keep_address(e, RDX, s->b.base, s->b.offset);
    keep_address(e, RCX, s->c.base, s->c.offset);
    x86_set(&e->w, R8, (uint64_t)s->i);
    x86_set(&e->w, R9, (uint64_t)e->c->size);
    x86_get(&e->w, 8, RAX, R12, offsetof(EmitRun, kernels));
    x86_get(&e->w, 8, RAX, RAX, s->kernel * (int64_t)sizeof(KernelFn *));
    x86_call(&e->w, RAX);
}

static void touch_all(Emitter *e)
{
    for (int k = 0; k < e->l->carries; k++) e->touched[k] = true;
}

static void call_fold(Emitter *e, const Fold *f)
{
    keep_before_call(e);
    touch_all(e);
    x86_set(&e->w, RDI, (uint64_t)(uintptr_t)e->c);
    x86_set(&e->w, RSI, (uint64_t)(uintptr_t)f);
    x86_get(&e->w, 8, RDX, R12, offsetof(EmitRun, isa));
    x86_move(&e->w, RCX, RBX);
    x86_set(&e->w, RAX, (uint64_t)(uintptr_t)vm_small_fold);
    x86_call(&e->w, RAX);
}

static void call_step(Emitter *e, const Exe *exe)
{
    keep_before_call(e);
    touch_all(e);
    x86_set(&e->w, RDI, (uint64_t)(uintptr_t)e->x);
    x86_set(&e->w, RSI, (uint64_t)(uintptr_t)exe);
    x86_get(&e->w, 8, RDX, R12, offsetof(EmitRun, w));
    x86_get(&e->w, 8, RCX, R12, offsetof(EmitRun, isa));
    x86_get(&e->w, 8, R8, R12, offsetof(EmitRun, err));
    x86_set(&e->w, RAX, (uint64_t)(uintptr_t)cpu_step);
    x86_call(&e->w, RAX);
    x86_raw(&e->w, "\x84\xc0", 2); /* test al, al */
    x86_jump(&e->w, 4, e->failed_at);
}

/* ---- regions ---- */

/* Bytes of the widest numbers in it, so that a chunk of them fits a register. */
static int unit_of(const Code *c)
{
    for (int i = 0; i < c->n_ins; i++)
        if (emit_ins_unit(c, &c->ins[i]) == 8) return 8;
    for (int i = 0; i < c->n_folds; i++)
        if (c->folds[i].dtype == QB_F64) return 8;
    return 4;
}

/* Elements of the next chunk. */
static int chunk_at(const Code *c, int64_t k, int unit)
{
    int n = 32 / unit;
    while (k + n > c->size) n /= 2;
    return n;
}

static bool can_inline(const Code *c, int unit)
{
    if (!c->small || c->size > MOST_ELEMENTS || c->size * (c->n_ins + c->n_folds) > MOST_WORK)
        return false;
    for (int i = 0; i < c->n_ins; i++)
        if (c->ins[i].kernel >= INS_LOAD && c->moves[c->ins[i].i].elem == 1) return false;
    for (int64_t k = 0; k < c->size; k += chunk_at(c, k, unit))
        for (int i = 0; i < c->n_repeats; i++) {
            int64_t period = c->repeats[i].period;
            if (period > 1 && k % period + chunk_at(c, k, unit) > period) return false;
        }
    return true;
}

/* Instructions first .. end, none of which is a call, chunk by chunk. */
static void run_of(Emitter *e, int first, int end)
{
    const Code *c = e->c;
    e->first = first;
    e->end = end;
    for (int64_t k = 0; k < c->size; k += chunk_at(c, k, e->unit)) {
        e->chunk++;
        for (int i = first; i < end; i++) {
            e->next = i + (c->ins[i].kernel == INS_LOAD); /* it writes its result piece by piece */
            emit_ins(e, &c->ins[i], k, chunk_at(c, k, e->unit));
        }
    }
    e->chunk++;
}

/* Does a call read a row that the VM would expand? Here nobody does. */
static bool repeats_are_called(const Code *c)
{
    for (int i = 0; i < c->n_ins; i++)
        if (emit_ins_called(&c->ins[i]) &&
            (emit_ins_repeat(c, &c->ins[i].a) || emit_ins_repeat(c, &c->ins[i].b) ||
             emit_ins_repeat(c, &c->ins[i].c)))
            return true;
    for (int i = 0; i < c->n_folds; i++)
        if (emit_ins_repeat(c, &c->folds[i].x)) return true;
    return false;
}

/* Kernels of many elements read them in longer pieces than the code here writes, which memory does
   not like: such a region is all calls. */
static bool all_called(const Code *c)
{
    for (int i = 0; i < c->n_ins && c->size > SUM_LANES; i++)
        if (emit_ins_called(&c->ins[i])) return true;
    return false;
}

static bool only_kernels(const Code *c)
{
    for (int i = 0; i < c->n_ins; i++)
        if (c->ins[i].kernel >= INS_LOAD) return false;
    return !c->n_repeats;
}

static void inline_region(Emitter *e, const Code *c)
{
    bool all = all_called(c);
    e->inlined |= !all;
    for (int i = 0; i < c->n_ins; i++) {
        int end = i;
        while (end < c->n_ins && !all && !emit_ins_called(&c->ins[end])) end++;
        if (end > i) run_of(e, i, end);
        e->first = e->end = e->next = i = end;
        if (end < c->n_ins) call_kernel(e, &c->ins[end]);
    }
    e->first = e->end = e->next = c->n_ins;
    for (int i = 0; i < c->n_folds; i++) {
        const Fold *f = &c->folds[i];
        bool called = f->kind != REDUCE_SUM || f->form == REDUCE_NATIVE;
        if (called) call_fold(e, f);
        for (int64_t row = 0; row < c->results && !called; row++) sum_row(e, f, row);
    }
}

void emit_region(Emitter *e, const Exe *exe)
{
    const Code *c = exe->kind == STEP_REGION ? &exe->code : NULL;
    e->unit = c && c->small ? unit_of(c) : 0;
    bool small = c && e->w.n <= ENOUGH_BYTES && can_inline(c, e->unit) && !repeats_are_called(c);
    if (!small || (all_called(c) && !only_kernels(c))) {
        call_step(e, exe);
        return;
    }
    e->c = c;
    inline_region(e, c);
    keep_end_region(e);
}
#endif
