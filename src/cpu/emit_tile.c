/* emit_tile.c: runs of instructions on tiles as machine code. The VM calls a kernel per instruction,
   and every value goes through the first-level cache: two loads, a store and one operation, while a
   core could do two operations a cycle. Here instructions that follow each other become one loop,
   whose values stay in vector registers; what is read once comes straight from memory, and what
   nobody reads later is never stored. Measured on the backward step of a tanh layer, 22 products and
   sums of 10 arrays in L2: 17 ns for 8 elements in the VM, 10 to 12 here, the rate of L2.

   Only what is one machine instruction or two belongs to a run; tanh and the like stay kernels. Truth
   values are mask registers on AVX-512, where nothing outside of the run needs them; else they end it.
   Operations are those of the kernels, one rounding each, operands in their order, so
   bits are the VM's. Elements are independent, and all accesses of a run are consecutive (code.c), so
   it does not matter that here a chunk goes through all instructions before the next one begins.

   A function is called as f(base, e, n): elements e .. e + n. It holds the address of each pair of
   base and scale in a general register, goes through whole vectors, then through the rest: as one
   vector with a mask, or one by one with AVX2.
   It is written for the level of the CPU when the plan is made, with the 32 registers of AVX-512 or
   the 16 of AVX2, and runs on no other one. QUABLA_EMIT=0 turns it off. */
#include "cpu/emit_tile.h"

#if defined(__x86_64__)
enum { LEAST_SIZE = 64, LEAST_WORK = 1 << 12, MOST_INS = 1 << 15 };

/* ---- registers ---- */

static const Gpr holders[MOST_POINTERS] = {RCX, R8, R9, R10, R11, RBX, RBP, R12, R13, R14, R15};
enum { FREE_HOLDERS = 5 }; /* a call may change them; the others are saved */

static X86Operand in_register(int reg) { return (X86Operand){.reg = reg}; }

static X86Operand in_place(const Run *r, const Datum *d)
{
    return (X86Operand){-1, holders[emit_run_pointer(r, &d->ref)], d->elem, d->ref.offset};
}

static int bytes_of(const Run *r, const Datum *d) { return r->lanes * d->elem; }

static void put(Run *r, Datum *d)
{
    x86_lanes(r->w, X_STORE, bytes_of(r, d), d->elem, d->reg, 0, in_place(r, d));
    d->in_memory = true;
}

static int next_use(const Run *r, int d)
{
    for (int i = r->at; i < r->n_ops; i++)
        for (int j = 0; j < 3; j++)
            if (r->ops[i].x[j] == d) return i;
    return r->n_ops;
}

/* A register, pinned: a free one, or that of the value which is needed last. */
static int take(Run *r)
{
    int best = -1, far = -1;
    for (int i = 0; i < r->registers; i++) {
        if (r->pinned >> i & 1) continue;
        int use = r->owner[i] < 0 ? INT32_MAX : next_use(r, r->owner[i]);
        if (use > far) far = use, best = i;
    }
    if (r->owner[best] >= 0) {
        Datum *d = &r->data[r->owner[best]];
        if (!d->in_memory) put(r, d);
        d->reg = -1;
        r->owner[best] = -1;
    }
    r->pinned |= 1u << best;
    return best;
}

static void hold(Run *r, int d, int reg)
{
    r->data[d].reg = reg;
    r->owner[reg] = d;
}

static int value(Run *r, int i)
{
    Datum *d = &r->data[i];
    if (d->reg < 0) {
        int reg = take(r);
        x86_lanes(r->w, X_LOAD, bytes_of(r, d), d->elem, reg, 0, in_place(r, d));
        hold(r, i, reg);
    }
    r->pinned |= 1u << d->reg;
    return d->reg;
}

/* What is read once, or is a constant, needs no register. */
static X86Operand operand(Run *r, int i)
{
    Datum *d = &r->data[i];
    if (d->reg < 0 && (d->last == r->at || d->ref.base == BASE_TILES)) return in_place(r, d);
    return in_register(value(r, i));
}

static void release(Run *r, int i)
{
    Datum *d = &r->data[i];
    if (d->reg < 0 || d->last > r->at) return;
    r->owner[d->reg] = -1;
    d->reg = -1;
}

/* ---- operations ---- */

static int compute(Run *r, const Operation *op)
{
    X86 *w = r->w;
    const int *x = op->x;
    const bool one = r->lanes == 1;
    const int elem = (int)type_elem(op->f.in), bytes = r->lanes * elem;
    X86Op sum = op->f.way == MUL_ADD ? X_ADD : X_SUB;
    X86Operand b;
    int a, o, p;
    switch (op->f.way) {
    case ARITHMETIC:
        a = value(r, x[0]), b = operand(r, x[1]), o = take(r);
        x86_lanes(w, (X86Op)op->f.x86, bytes, elem, o, a, b);
        return o;
    case NEG:
        a = value(r, x[0]), b = operand(r, x[1]), o = take(r);
        x86_lanes(w, X_XOR, bytes, elem, o, a, b);
        return o;
    case ABS:
        a = value(r, x[1]), b = operand(r, x[0]), o = take(r);
        x86_lanes(w, X_ANDN, bytes, elem, o, a, b);
        return o;
    case SQRT:
        b = operand(r, x[0]), o = take(r);
        x86_lanes(w, X_SQRT, bytes, elem, o, one ? o : 0, b);
        return o;
    case CUBE:
        a = value(r, x[0]), o = take(r);
        x86_lanes(w, X_MUL, bytes, elem, o, a, in_register(a));
        x86_lanes(w, X_MUL, bytes, elem, o, a, in_register(o));
        return o;
    case COPY:
        b = operand(r, x[0]), o = take(r);
        x86_lanes(w, b.reg < 0 ? X_LOAD : X_COPY, bytes, elem, o, 0, b);
        return o;
    case CAST:
        b = operand(r, x[0]), o = take(r);
        if (one)
            x86_lanes(w, elem == 8 ? X_SD_SS : X_SS_SD, elem, elem, o, o, b);
        else
            x86_lanes(w, elem == 8 ? X_PD_PS : X_PS_PD, r->lanes * 8, elem, o, 0, b);
        return o;
    case WHERE:
        a = value(r, x[2]), p = value(r, x[1]), o = take(r);
        x86_choose(w, bytes, elem, o, r->data[x[0]].mask, a, p);
        return o;
    default: /* a product, then a sum: both roundings stay */
        a = value(r, x[0]), b = operand(r, x[1]), p = take(r);
        x86_lanes(w, X_MUL, bytes, elem, p, a, b);
        if (op->f.way == SUB_MUL)
            x86_lanes(w, X_SUB, bytes, elem, p, value(r, x[2]), in_register(p));
        else
            x86_lanes(w, sum, bytes, elem, p, p, operand(r, x[2]));
        return p;
    }
}

/* A truth value. */
static void judge(Run *r, const Operation *op)
{
    const int *x = op->x, k = r->data[op->z].mask, elem = (int)type_elem(op->f.in);
    if (op->f.way == NOT) {
        x86_mask(r->w, MASK_NOT, k, 0, r->data[x[0]].mask);
    } else if (op->f.way == LOGIC) {
        X86Mask how = op->f.op == OP_logical_and ? MASK_AND : MASK_OR;
        x86_mask(r->w, how, k, r->data[x[0]].mask, r->data[x[1]].mask);
    } else {
        int a = value(r, x[0]);
        x86_lanes(r->w, X_CMP, r->lanes * elem, elem, k, a, operand(r, x[1]));
        x86_byte(r->w, emit_ins_predicate(op->f.op));
    }
}

/* All operations on one vector. */
static void body(Run *r, int lanes)
{
    r->lanes = lanes;
    for (int i = 0; i < r->registers; i++) r->owner[i] = -1;
    for (int i = 0; i < r->n_data; i++) {
        r->data[i].reg = -1;
        r->data[i].in_memory = r->data[i].given;
    }
    for (r->at = 0; r->at < r->n_ops; r->at++) {
        const Operation *op = &r->ops[r->at];
        r->pinned = 0;
        if (r->data[op->z].mask)
            judge(r, op);
        else
            hold(r, op->z, compute(r, op));
        if (r->data[op->z].kept) put(r, &r->data[op->z]);
        for (int j = 0; j < 3; j++)
            if (op->x[j] >= 0) release(r, op->x[j]);
        release(r, op->z);
    }
}

/* ---- a function ---- */

static void save(X86 *w, Gpr g, bool back)
{
    if (g >= R8) x86_byte(w, 0x41);
    x86_byte(w, (back ? 0x58 : 0x50) | (g & 7));
}

/* RDI: bases, RSI: e, RDX: n; RAX counts, RSI is where the loop ends. */
static void write_run(Run *r)
{
    X86 *w = r->w;
    int lanes = r->bytes / (r->wide ? 8 : 4);
    x86_raw(w, "\xf3\x0f\x1e\xfa", 4); /* endbr64 */
    for (int i = FREE_HOLDERS; i < r->n_pointers; i++) save(w, holders[i], false);
    for (int i = 0; i < r->n_pointers; i++) {
        const Ref *x = &r->pointers[i];
        x86_get(w, 8, holders[i], RDI, x->base * (int64_t)sizeof(char *));
        if (x->scale) x86_lea(w, holders[i], holders[i], RSI, x->scale);
    }
    x86_raw(w, "\x31\xc0\x48\x89\xd6\x48\x83\xe6",
            8); /* xor eax, eax; mov rsi, rdx; and rsi, -lanes */
    x86_byte(w, -lanes & 255);
    int32_t none = x86_jump_ahead(w, 4), again = w->n;
    body(r, lanes);
    x86_add(w, RAX, lanes);
    x86_raw(w, "\x48\x39\xf0", 3); /* cmp rax, rsi */
    x86_jump(w, 2, again);
    x86_land(w, none);
    x86_raw(w, "\x48\x39\xd0", 3); /* cmp rax, rdx */
    int32_t done = x86_jump_ahead(w, 3);
    if (w->evex) {                         /* the lanes that are left, as bits of mask register 1 */
        x86_raw(w, "\x89\xd6\x29\xc6", 4); /* mov esi, edx; sub esi, eax */
        x86_raw(w, "\xbf\xff\xff\xff\xff", 5); /* mov edi, -1 */
        x86_raw(w, "\xc4\xe2\x48\xf5\xff", 5); /* bzhi edi, edi, esi */
        x86_raw(w, "\xc5\xf8\x92\xcf", 4);     /* kmovw k1, edi */
        w->masked = true;
        body(r, lanes);
        w->masked = false;
    } else {
        again = w->n;
        body(r, 1);
        x86_add(w, RAX, 1);
        x86_raw(w, "\x48\x39\xd0", 3);
        x86_jump(w, 2, again);
    }
    x86_land(w, done);
    x86_raw(w, "\xc5\xf8\x77", 3); /* vzeroupper */
    for (int i = r->n_pointers - 1; i >= FREE_HOLDERS; i--) save(w, holders[i], true);
    x86_byte(w, 0xc3);
}

/* ---- a plan ---- */

static bool has_masks(const Isa *isa) { return strcmp(isa->name, "v4") == 0; }

/* Elements times instructions that may join others. */
static int64_t work_of(const Exe *e, EmitWish wish, bool masks)
{
    const Code *c = &e->code;
    int64_t n = 0;
    if (e->kind != STEP_REGION || (c->size < LEAST_SIZE && wish != EMIT_ALL)) return 0;
    for (int i = 1; i < c->n_ins; i++)
        n += emit_run_suits(&c->ins[i - 1], masks) && emit_run_suits(&c->ins[i], masks);
    return n * c->size;
}

typedef struct {
    Ins *first;
    int32_t n, offset;
} Site;

static int write_region(Run *r, Site *sites)
{
    const Code *c = r->c;
    int n = 0;
    for (int i = 0, end; i < c->n_ins && !r->w->failed; i = end > i ? end : i + 1) {
        end = emit_run_collect(r, i, c->n_ins);
        if (end - i < 2) continue;
        while (r->w->n % 32) x86_byte(r->w, 0x90); /* nop */
        sites[n++] = (Site){&c->ins[i], end - i, r->w->n};
        write_run(r);
    }
    return n;
}

static void write_all(Exec *x, TileSet *tiles, const Isa *isa, EmitWish wish, int64_t n_ins,
                      Arena *notes)
{
    const int64_t room = 1024 + 512 * n_ins;
    X86 w = {.evex = has_masks(isa), .room = (int32_t)room};
    w.code = arena_alloc(notes, (size_t)room);
    Run *r = arena_alloc(notes, sizeof *r);
    Site *sites = arena_alloc(notes, (size_t)n_ins * sizeof *sites);
    if (!w.code || !r || !sites) return;
    *r = (Run){.w = &w, .bytes = w.evex ? 64 : 32, .registers = w.evex ? 32 : 16};
    qb_error ignored = {0}; /* without the tile there are fewer runs */
    r->signs[QB_F64] = tiles_offset(tiles, -0.0, QB_F64, &ignored);
    r->signs[QB_F32] = tiles_offset(tiles, -0.0, QB_F32, &ignored);
    int n = 0;
    for (int i = 0; i < x->n; i++) {
        Exe *e = &x->exes[i];
        if (!work_of(e, wish, w.evex)) continue;
        e->code.emitted = isa;
        r->c = &e->code;
        n += write_region(r, sites + n);
    }
    if (w.failed) return;
    x->emitted = emit_memory(&w);
    char *start = (char *)(uintptr_t)x->emitted.run;
    for (int i = 0; start && i < n; i++) {
        sites[i].first->code = (RunFn *)(uintptr_t)(start + sites[i].offset);
        sites[i].first->run = sites[i].n;
    }
}

void emit_tiles(Exec *x, TileSet *tiles, const Isa *isa)
{
    const EmitWish wish = emit_wish();
    int64_t work = 0, n_ins = 0;
    for (const Exe *e = x->exes; e < x->exes + x->n; e++) {
        int64_t n = work_of(e, wish, has_masks(isa));
        work += n;
        if (n) n_ins += e->code.n_ins;
    }
    if (wish == EMIT_NOTHING || !work || n_ins > MOST_INS) return;
    if (work < LEAST_WORK && wish != EMIT_ALL) return;
    Arena notes = {0};
    write_all(x, tiles, isa, wish, n_ins, &notes);
    arena_free(&notes);
}
#else
void emit_tiles(Exec *x, TileSet *tiles, const Isa *isa) { (void)x, (void)tiles, (void)isa; }
#endif
