/* keep.c: which pieces of memory the vector registers hold. Registers are a cache of memory
   with late writes: code asks for a stretch and gets a register; a result becomes the newest value
   of its stretch and goes to memory only when its register is needed, before a call, or never,
   when it is dead by then. A stretch may be asked for in another length than it was written:
   halves are put together and taken apart in registers. No two dirty registers overlap. */
#include "cpu/emit.h"

#if defined(__x86_64__)
enum { NOBODY = -2 }; /* a general register without a base */

static int64_t end_of(const Stretch *a)
{
    int64_t n = a->splat ? 1 : a->bytes / a->elem;
    return a->offset + n * (a->mask ? 1 : a->elem);
}

static bool overlaps(const Stretch *a, const Stretch *b)
{
    return a->base == b->base && a->offset < end_of(b) && b->offset < end_of(a);
}

bool keep_inside(const Stretch *a, const Stretch *b)
{
    return a->base == b->base && a->offset >= b->offset && end_of(a) <= end_of(b);
}

/* ---- general registers: addresses of bases ---- */

/* RAX, RCX and RDX are for the moment, RBX, RBP and R12 for the loop. The last three outlive calls. */
static const Gpr holders[] = {RSI, RDI, R8, R9, R10, R11, R13, R14, R15};
enum { HOLDERS = sizeof holders / sizeof *holders, OUTLIVE = 3 };

static void touch(Emitter *e, int32_t base)
{
    int32_t i = base - BASE_ARRAYS;
    if (i >= e->l->n_in) i -= e->l->n_in;
    if (i >= 0 && i < e->l->carries) e->touched[i] = true;
}

static Gpr address(Emitter *e, int32_t base)
{
    touch(e, base);
    for (int i = 0; i < HOLDERS; i++)
        if (e->held[holders[i]] == base) return holders[i];
    Gpr g = holders[e->next_gpr];
    e->next_gpr = (e->next_gpr + 1) % HOLDERS;
    e->held[g] = base;
    x86_get(&e->w, 8, g, RBX, base * (int64_t)sizeof(char *));
    return g;
}

void keep_address(Emitter *e, Gpr o, int32_t base, int64_t offset)
{
    touch(e, base);
    x86_get(&e->w, 8, o, RBX, base * (int64_t)sizeof(char *));
    x86_add(&e->w, o, offset);
}

/* ---- is a temporary read again? ---- */

static bool reads(const Ref *x, const Stretch *at, int64_t n)
{
    return x->base == at->base && at->offset >= x->offset && at->offset < x->offset + n * 8;
}

/* Of another chunk than the one at hand, the instructions of the run may have been done or not. */
static bool read_later(const Emitter *e, const Kept *k)
{
    const Code *c = e->c;
    if (k->at.base != BASE_THREAD || !c) return true;
    bool here = k->chunk == e->chunk;
    for (int i = here ? e->next : e->first; i < c->n_ins; i++) {
        const Ins *s = &c->ins[i];
        if (reads(&s->a, &k->at, c->size) || reads(&s->b, &k->at, c->size) ||
            reads(&s->c, &k->at, c->size))
            return true;
        if (reads(&s->o, &k->at, c->size) && (here || i >= e->end)) return false;
    }
    for (int i = 0; i < c->n_folds; i++)
        if (reads(&c->folds[i].x, &k->at, c->size)) return true;
    return false;
}

/* ---- to memory ---- */

/* A lane's ones become a bit, and a bit a byte. */
static void store_mask(Emitter *e, const Stretch *at, int x)
{
    int n = at->bytes / at->elem;
    x86_op(&e->w, at->elem == 8 ? X_BITS_PD : X_BITS_PS, at->bytes == 32, RAX, 0, x);
    x86_set(&e->w, RCX, 0x0101010101010101);
    x86_op(&e->w, X_DEPOSIT, false, RAX, RAX, RCX);
    x86_put(&e->w, n, address(e, at->base), at->offset, RAX);
}

void keep_flush(Emitter *e, int i)
{
    Kept *k = &e->kept[i];
    if (!k->used || !k->dirty) return;
    k->dirty = false;
    if (k->at.mask)
        store_mask(e, &k->at, i);
    else
        x86_store(&e->w, k->at.bytes, address(e, k->at.base), k->at.offset, i);
}

static void flush_overlapping(Emitter *e, const Stretch *at)
{
    for (int i = 0; i < REGISTERS; i++)
        if (e->kept[i].used && overlaps(&e->kept[i].at, at)) keep_flush(e, i);
}

/* Upper halves are cleared: SSE code that is called would wait for them at each instruction, which
   made a scan of 16 x 16 products three times slower. */
void keep_before_call(Emitter *e)
{
    e->calls = true;
    for (int i = 0; i < REGISTERS; i++) {
        if (read_later(e, &e->kept[i])) keep_flush(e, i);
        e->kept[i].used = false;
    }
    for (int i = 0; i < HOLDERS - OUTLIVE; i++) e->held[holders[i]] = NOBODY;
    x86_raw(&e->w, "\xc5\xf8\x77", 3); /* vzeroupper */
}

void keep_end_region(Emitter *e)
{
    e->c = NULL;
    for (int i = 0; i < REGISTERS; i++)
        if (e->kept[i].at.base == BASE_THREAD) e->kept[i].used = false;
}

/* ---- registers ---- */

static int pin(Emitter *e, int x)
{
    e->pins[x]++;
    e->kept[x].stamp = ++e->stamp;
    return x;
}

void keep_unpin(Emitter *e, int x) { e->pins[x]--; }
void keep_unpin_all(Emitter *e) { memset(e->pins, 0, sizeof e->pins); }

/* The register that was used longest ago, of those that need not be written if there is one. */
int keep_take(Emitter *e)
{
    int best = -1;
    bool best_clean = false;
    for (int i = 0; i < REGISTERS; i++) {
        const Kept *k = &e->kept[i];
        if (e->pins[i]) continue;
        if (!k->used) return pin(e, i);
        bool older = best < 0 || k->stamp < e->kept[best].stamp;
        if (best_clean && !older) continue;
        bool clean = !k->dirty || !read_later(e, k);
        if (clean > best_clean || (clean == best_clean && older)) best = i, best_clean = clean;
    }
    if (best < 0) return e->w.failed = true, 0;
    if (!best_clean) keep_flush(e, best);
    e->kept[best].used = false;
    return pin(e, best);
}

static int hold(Emitter *e, int x, Stretch at, bool dirty)
{
    e->kept[x] = (Kept){at, true, dirty, e->chunk, ++e->stamp};
    return x;
}

void keep_write(Emitter *e, Stretch at, int x)
{
    for (int i = 0; i < REGISTERS; i++) {
        Kept *k = &e->kept[i];
        if (i == x || !k->used || !overlaps(&k->at, &at)) continue;
        if (!keep_inside(&k->at, &at)) keep_flush(e, i);
        k->used = false;
    }
    hold(e, x, at, true);
}

/* ---- reading ---- */

static int find(const Emitter *e, const Stretch *at)
{
    for (int i = 0; i < REGISTERS; i++) {
        const Stretch *k = &e->kept[i].at;
        bool scalar = at->bytes == at->elem, splat = k->splat && k->bytes >= at->bytes;
        if (!e->kept[i].used || k->base != at->base || k->offset != at->offset ||
            k->elem != at->elem || k->mask != at->mask)
            continue;
        if (splat ? at->splat || scalar : !at->splat && k->bytes == at->bytes) return i;
    }
    return -1;
}

/* The shortest longer stretch that has this one in a half, in a half of a half, and so on. */
static int find_longer(const Emitter *e, const Stretch *at)
{
    int best = -1;
    for (int i = 0; i < REGISTERS; i++) {
        const Stretch *k = &e->kept[i].at;
        if (!e->kept[i].used || k->mask || k->splat || k->bytes <= at->bytes) continue;
        if (k->elem != at->elem || !keep_inside(at, k)) continue;
        if ((at->offset - k->offset) % at->bytes) continue;
        if (best < 0 || k->bytes < e->kept[best].at.bytes) best = i;
    }
    return best;
}

/* The half of a register that has the stretch, and so on. */
static int take_apart(Emitter *e, int from, const Stretch *at)
{
    Stretch half = e->kept[from].at;
    half.bytes /= 2;
    bool high = at->offset >= half.offset + half.bytes;
    if (high) half.offset += half.bytes;
    pin(e, from);
    int o = keep_take(e);
    if (!high)
        x86_op(&e->w, X_COPY, false, o, 0, from);
    else if (half.bytes == 16)
        x86_op_imm(&e->w, X_EXTRACT, true, o, 0, from, 1);
    else if (half.bytes == 8)
        x86_op(&e->w, X_HIGH_PD, false, o, from, from);
    else
        x86_op(&e->w, X_HIGH_PS, false, o, 0, from);
    keep_unpin(e, from);
    hold(e, o, half, false);
    if (half.bytes == at->bytes) return o;
    keep_unpin(e, o);
    return keep_read(e, *at);
}

static bool some_dirty(const Emitter *e, const Stretch *at)
{
    for (int i = 0; i < REGISTERS; i++)
        if (e->kept[i].used && e->kept[i].dirty && overlaps(&e->kept[i].at, at)) return true;
    return false;
}

/* Four float64 that lie across two registers, as in a stencil: two shuffles, where by halves it
   would be ten. -1: they do not. */
static int shift(Emitter *e, Stretch at)
{
    if (at.bytes != 32 || at.elem != 8) return -1;
    for (int64_t by = 1; by < 4; by++) {
        Stretch first = at, second = at;
        first.offset -= 8 * by;
        second.offset += 32 - 8 * by;
        int a = find(e, &first), b = find(e, &second);
        if (a < 0 || b < 0) continue;
        pin(e, a);
        pin(e, b);
        int middle = keep_take(e), o = by == 2 ? middle : keep_take(e);
        x86_op_imm(&e->w, X_MIDDLE, true, middle, a, b, 0x21);
        if (by == 1) x86_op_imm(&e->w, X_SHUFFLE, true, o, a, middle, 5);
        if (by == 3) x86_op_imm(&e->w, X_SHUFFLE, true, o, middle, b, 5);
        keep_unpin(e, a);
        keep_unpin(e, b);
        if (o != middle) keep_unpin(e, middle);
        return hold(e, o, at, false);
    }
    return -1;
}

static int put_together(Emitter *e, Stretch at)
{
    Stretch half = at;
    half.bytes /= 2;
    int low = keep_read(e, half);
    half.offset += half.bytes;
    int high = keep_read(e, half), o = keep_take(e);
    if (half.bytes == 16)
        x86_op_imm(&e->w, X_INSERT, true, o, low, high, 1);
    else
        x86_op(&e->w, half.bytes == 8 ? X_LOW_PD : X_LOW_PS, false, o, low, high);
    bool dirty = e->kept[low].dirty && e->kept[high].dirty;
    if (dirty) e->kept[low].dirty = e->kept[high].dirty = false;
    keep_unpin(e, low);
    keep_unpin(e, high);
    return hold(e, o, at, dirty);
}

/* Bytes of 0 and 1 become lanes of zeros and ones. */
static int load_mask(Emitter *e, Stretch at)
{
    bool wide = at.bytes == 32;
    int o = keep_take(e), zero = keep_take(e);
    x86_get(&e->w, at.bytes / at.elem, RAX, address(e, at.base), at.offset);
    x86_op(&e->w, X_FROM_GPR, false, o, 0, RAX);
    x86_op(&e->w, at.elem == 8 ? X_SPREAD_BQ : X_SPREAD_BD, wide, o, 0, o);
    x86_op(&e->w, X_XOR, wide, zero, zero, zero);
    x86_op(&e->w, at.elem == 8 ? X_SUB_Q : X_SUB_D, wide, o, zero, o);
    keep_unpin(e, zero);
    return hold(e, o, at, false);
}

/* What is worth a register from the start. */
static void note_carry(Emitter *e, const Stretch *at)
{
    bool carry = at->base >= BASE_ARRAYS && at->base < BASE_ARRAYS + e->l->carries;
    if (!carry || at->mask || e->n_found == MOST_HEADS) return;
    for (int i = 0; i < e->n_found; i++)
        if (overlaps(&e->found[i], at)) return;
    e->found[e->n_found++] = *at;
}

static int load(Emitter *e, Stretch at)
{
    note_carry(e, &at);
    if (at.mask) return load_mask(e, at);
    int o = keep_take(e);
    x86_load(&e->w, at.bytes, o, address(e, at.base), at.offset);
    return hold(e, o, at, false);
}

static int read_splat(Emitter *e, Stretch at)
{
    Stretch one = at;
    one.bytes = at.elem;
    one.splat = false;
    int x = keep_read(e, one), o = keep_take(e);
    if (at.elem == 4)
        x86_op(&e->w, X_SPLAT_PS, at.bytes == 32, o, 0, x);
    else if (at.bytes == 32)
        x86_op(&e->w, X_SPLAT_PD, true, o, 0, x);
    else
        x86_op(&e->w, X_PAIR_PD, false, o, 0, x);
    keep_unpin(e, x);
    return hold(e, o, at, false);
}

static int read_constant(Emitter *e, Stretch at)
{
    int o = keep_take(e);
    x86_load_constant(&e->w, at.bytes == 32, o, (int32_t)at.offset);
    return hold(e, o, at, false);
}

int keep_read(Emitter *e, Stretch at)
{
    int i = find(e, &at);
    if (i >= 0) return pin(e, i);
    if (at.base == BASE_POOL) return read_constant(e, at);
    if (at.splat && at.bytes > at.elem) return read_splat(e, at);
    at.splat = false;
    if (!at.mask && (i = find_longer(e, &at)) >= 0) return pin(e, take_apart(e, i, &at));
    if (some_dirty(e, &at)) {
        if (!at.mask && (i = shift(e, at)) >= 0) return i;
        if (!at.mask && at.bytes > at.elem) return put_together(e, at);
        flush_overlapping(e, &at);
    }
    return load(e, at);
}

void keep_copy(Emitter *e, Stretch to, Stretch from)
{
    int x = keep_read(e, from), o = keep_take(e);
    x86_op(&e->w, X_COPY, to.bytes == 32, o, 0, x);
    keep_write(e, to, o);
    keep_unpin(e, x);
    keep_unpin(e, o);
}
#endif
