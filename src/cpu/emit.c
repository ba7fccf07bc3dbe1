/* emit.c: loops over a few numbers as machine code. The VM needs 2-3 ns to come to an instruction,
   which on 16 numbers is several times the work. Here the body of a scan or while becomes one
   function that runs many iterations: values pass from one region to the next in registers, and so
   do carries from one iteration to the next (keep.c). Where a body needs more than small regions
   have, the code calls the kernels and steps that the VM would run (emit_region.c).

   An iteration. Carries are read at their inputs and written at their outputs; at the end both
   change places in the table of bases, as control.c does it, but only those whose memory was touched:
   a carry that stays in registers needs no place. Heads are the stretches of carries that are in
   registers 0, 1, ... where an iteration begins. They are found by writing the body once without
   any. The code ends after a number of iterations, so that control.c may ask for interrupts.

   Memory is written first and made executable after, never both at once. Where that fails, or the
   CPU is another one, or QUABLA_EMIT is 0, there is no code and the VM runs the loop, with the same
   bits. Measured on a while loop over 16 numbers: 11 ns an iteration in the VM, 2.3 here, which is
   the latency of its product and sum. */
#include "cpu/emit.h"
#include <stdlib.h>

#if defined(__x86_64__)
#include <sys/mman.h>

enum { MOST_BYTES = 1 << 16, MOST_CONSTANTS = 512, MOST_STEPS = 200, MOST_CARRIED = 1 << 16 };
static const int32_t nobody = -2;

/* ---- where a call begins and ends ---- */

/* Ends of the run, in front of all else so that jumps know where they are: RAX is the result. */
static int32_t write_end(Emitter *e)
{
    X86 *w = &e->w;
    int32_t end = w->n;
    x86_put(w, 8, R12, offsetof(EmitRun, left), RBP);
    /* vzeroupper; add rsp, 8; pop r15, r14, r13, r12, rbp, rbx; ret */
    x86_raw(w, "\xc5\xf8\x77\x48\x83\xc4\x08\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3", 18);
    e->failed_at = w->n;
    x86_set(w, RAX, EMIT_FAILED);
    x86_jump(w, -1, end);
    return end;
}

static void write_start(Emitter *e)
{
    X86 *w = &e->w;
    /* endbr64; push rbx, rbp, r12, r13, r14, r15; sub rsp, 8 */
    x86_raw(w, "\xf3\x0f\x1e\xfa\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57\x48\x83\xec\x08", 18);
    x86_move(w, R12, RDI);
    x86_get(w, 8, RBX, R12, offsetof(EmitRun, base));
    x86_get(w, 8, RBP, R12, offsetof(EmitRun, left));
}

/* ---- from one iteration to the next ---- */

static void forget_bases(Emitter *e)
{
    for (int i = 0; i < 16; i++) e->held[i] = nobody;
}

static int unused(const int *from, int n)
{
    for (int r = n;; r++) {
        bool read = false;
        for (int j = 0; j < n; j++) read |= from[j] == r;
        if (!read) return r;
    }
}

/* Registers `from` become heads 0 .. n. They and the heads are at most 14, so one is unused. */
static void move_heads(Emitter *e, int *from, int n)
{
    for (int left = n; left > 0;) {
        bool moved = false;
        for (int i = 0; i < n; i++) {
            bool read = false;
            for (int j = 0; j < n; j++) read |= j != i && from[j] == i;
            if (from[i] < 0 || read) continue;
            if (from[i] != i) x86_op(&e->w, X_COPY, true, i, 0, from[i]);
            from[i] = -1;
            moved = true;
            left--;
        }
        if (moved) continue;
        int i = 0; /* a circle: one of its registers goes aside */
        while (from[i] < 0) i++;
        int aside = unused(from, n);
        x86_op(&e->w, X_COPY, true, aside, 0, i);
        for (int j = 0; j < n; j++)
            if (from[j] == i) from[j] = aside;
    }
}

static bool is_head(const Emitter *e, Stretch at)
{
    at.base -= e->l->n_in;
    for (int i = 0; i < e->n_heads; i++)
        if (keep_inside(&at, &e->heads[i])) return true;
    return false;
}

/* What was written is in registers as heads, or in memory. */
static void settle(Emitter *e, int *from)
{
    int32_t first = BASE_ARRAYS + e->l->n_in;
    for (int i = 0; i < e->n_heads; i++) {
        Stretch at = e->heads[i];
        at.base += e->l->n_in;
        from[i] = keep_read(e, at);
    }
    for (int i = 0; i < REGISTERS; i++) {
        const Kept *k = &e->kept[i];
        bool go = e->l->op == OP_while && k->at.base == first + e->l->carries;
        if (k->used && k->at.base >= first && !go && !is_head(e, k->at)) keep_flush(e, i);
    }
    keep_unpin_all(e);
}

static void exchange(Emitter *e, int32_t a, int32_t b)
{
    int64_t at = a * (int64_t)sizeof(char *), bt = b * (int64_t)sizeof(char *);
    x86_get(&e->w, 8, RCX, RBX, at);
    x86_get(&e->w, 8, RDX, RBX, bt);
    x86_put(&e->w, 8, RBX, at, RDX);
    x86_put(&e->w, 8, RBX, bt, RCX);
}

static void next_places(Emitter *e)
{
    const Loop *l = e->l;
    int32_t in = BASE_ARRAYS, out = BASE_ARRAYS + l->n_in, sign = l->reverse ? -1 : 1;
    for (int k = 0; k < l->carries; k++)
        if (e->touched[k]) exchange(e, in + k, out + k);
    for (int k = l->carries; k < l->carries + l->xs; k++)
        x86_add_memory(&e->w, RBX, (in + k) * (int64_t)sizeof(char *), sign * l->in[k].bytes);
    for (int k = l->carries; l->op == OP_scan && k < l->n_out; k++)
        x86_add_memory(&e->w, RBX, (out + k) * (int64_t)sizeof(char *), sign * l->out[k].bytes);
}

/* RAX becomes the test of the next carries. */
static void read_test(Emitter *e)
{
    int32_t base = BASE_ARRAYS + e->l->n_in + e->l->carries;
    for (int i = 0; i < REGISTERS; i++) {
        const Kept *k = &e->kept[i];
        if (!k->used || k->at.base != base) continue;
        x86_op(&e->w, k->at.elem == 8 ? X_BITS_PD : X_BITS_PS, false, RAX, 0, i);
        x86_raw(&e->w, "\x83\xe0\x01", 3); /* and eax, 1 */
        return;
    }
    keep_address(e, RAX, base, 0);
    x86_get(&e->w, 1, RAX, RAX, 0);
}

static void hold_heads(Emitter *e)
{
    for (int i = 0; i < REGISTERS; i++) e->kept[i].used = false;
    for (int i = 0; i < e->n_heads; i++)
        e->kept[i] = (Kept){.at = e->heads[i], .used = true, .dirty = true};
    forget_bases(e);
}

/* ---- the function ---- */

static void write_loop(Emitter *e)
{
    X86 *w = &e->w;
    int from[REGISTERS];
    int32_t end = write_end(e);
    w->start = w->n;
    write_start(e);
    forget_bases(e);
    for (int i = 0; i < e->n_heads; i++) {
        Stretch at = e->heads[i];
        keep_address(e, RAX, at.base, at.offset);
        x86_load(w, at.bytes, i, RAX, 0);
    }
    memset(e->touched, 0, (size_t)e->l->carries);
    hold_heads(e);
    int32_t again = w->n;
    for (int i = 0; i < e->x->n && !w->failed; i++) emit_region(e, &e->x->exes[i]);
    settle(e, from);
    if (e->l->op == OP_while) read_test(e);
    next_places(e);
    move_heads(e, from, e->n_heads);
    hold_heads(e);
    x86_add(w, RBP, -1);
    int32_t stopped = 0;
    if (e->l->op == OP_while) {
        x86_raw(w, "\x84\xc0", 2); /* test al, al */
        stopped = x86_jump_ahead(w, 4);
    } else {
        x86_set(w, RAX, EMIT_MORE);
    }
    x86_raw(w, "\x48\x85\xed", 3); /* test rbp, rbp */
    x86_jump(w, 5, again);
    if (e->l->op == OP_while) x86_land(w, stopped);
    for (int i = 0; i < e->n_heads; i++) keep_flush(e, i);
    x86_jump(w, -1, end);
}

/* ---- memory ---- */

EmitCode emit_memory(const X86 *w)
{
    int64_t before = 32 * (int64_t)w->n_pool, bytes = before + w->n;
    char *memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return (EmitCode){0};
    for (int32_t i = 0; i < w->n_pool; i++)
        memcpy(memory + before - 32 * (i + 1), w->pool + 4 * i, 32);
    memcpy(memory + before, w->code, (size_t)w->n);
    if (mprotect(memory, (size_t)bytes, PROT_READ | PROT_EXEC)) {
        munmap(memory, (size_t)bytes);
        return (EmitCode){0};
    }
    return (EmitCode){(EmitFn *)(uintptr_t)(memory + before + w->start), memory, bytes};
}

void emit_free(EmitCode *c)
{
    if (c->memory) munmap(c->memory, (size_t)c->bytes);
    *c = (EmitCode){0};
}

/* ---- which loops ---- */

EmitWish emit_wish(void)
{
    const char *s = getenv("QUABLA_EMIT");
    if (s && strcmp(s, "0") == 0) return EMIT_NOTHING;
    return s && strcmp(s, "all") == 0 ? EMIT_ALL : EMIT_WORTHY;
}

static bool suits(const Loop *l, const Exec *x)
{
    int64_t bytes = 0;
    for (int k = 0; k < l->carries; k++)
        if (l->out[k].bytes > MOST_CARRIED || (bytes += l->out[k].bytes) > MOST_CARRIED)
            return false;
    return !x->parallel && !x->n_sweeps && x->n <= MOST_STEPS;
}

EmitCode emit_loop(const Loop *l, const qb_plan *body)
{
    EmitCode code = {0};
    Arena arena = {0};
    if (emit_wish() == EMIT_NOTHING || !suits(l, body->exec)) return code;
    Emitter e = {.l = l, .x = body->exec};
    e.w.room = MOST_BYTES;
    e.w.pool_room = MOST_CONSTANTS;
    e.w.code = arena_alloc(&arena, MOST_BYTES);
    e.w.pool = arena_alloc(&arena, MOST_CONSTANTS * 32);
    e.touched = arena_zeroed(&arena, (size_t)l->carries + 1, sizeof *e.touched);
    if (e.w.code && e.w.pool && e.touched) {
        write_loop(&e);
        if (!e.calls && e.n_found) { /* a call keeps no vector register */
            memcpy(e.heads, e.found, sizeof e.heads);
            e.n_heads = e.n_found;
            e.w.n = 0;
            write_loop(&e);
        }
        if (e.inlined && !e.w.failed) code = emit_memory(&e.w);
    }
    arena_free(&arena);
    return code;
}
#else
EmitCode emit_loop(const Loop *l, const qb_plan *body)
{
    (void)l, (void)body;
    return (EmitCode){0};
}

void emit_free(EmitCode *c) { (void)c; }
#endif
