/* x86.c: writes x86-64 instructions. Vector ones have the 3-byte VEX prefix or EVEX, memory is reached as base + 32-bit offset:
   one form each, so there is little to get wrong. */
#include "cpu/emit.h"

#if defined(__x86_64__)
enum { STORE = 0x11, COMPARE = 0xc2 };
enum { MAP_0F = 1, MAP_38 = 2, MAP_3A = 3, P00 = 0, P66 = 1, PF3 = 2, PF2 = 3 };
typedef struct {
    uint8_t map, prefix, w, code;
} Row;
/* The prefixes of ADD to CMP are x86_arith's. EXTRACT has its operand in the place of the result. */
static const Row rows[] = {
    [X_ADD] = {MAP_0F, P00, 0, 0x58},       [X_SUB] = {MAP_0F, P00, 0, 0x5c},
    [X_MUL] = {MAP_0F, P00, 0, 0x59},       [X_DIV] = {MAP_0F, P00, 0, 0x5e},
    [X_SQRT] = {MAP_0F, P00, 0, 0x51},      [X_CMP] = {MAP_0F, P00, 0, COMPARE},
    [X_AND] = {MAP_0F, P66, 0, 0x54},       [X_ANDN] = {MAP_0F, P66, 0, 0x55},
    [X_OR] = {MAP_0F, P66, 0, 0x56},        [X_XOR] = {MAP_0F, P66, 0, 0x57},
    [X_LOW_PD] = {MAP_0F, P66, 0, 0x14},    [X_HIGH_PD] = {MAP_0F, P66, 0, 0x15},
    [X_LOW_PS] = {MAP_0F, P00, 0, 0x14},    [X_HIGH_PS] = {MAP_0F, PF3, 0, 0x16},
    [X_BLEND] = {MAP_3A, P66, 0, 0x0d},     [X_PICK_PD] = {MAP_3A, P66, 0, 0x4b},
    [X_PICK_PS] = {MAP_3A, P66, 0, 0x4a},   [X_INSERT] = {MAP_3A, P66, 0, 0x18},
    [X_EXTRACT] = {MAP_3A, P66, 0, 0x19},   [X_PD_PS] = {MAP_0F, P66, 0, 0x5a},
    [X_PS_PD] = {MAP_0F, P00, 0, 0x5a},     [X_SD_SS] = {MAP_0F, PF2, 0, 0x5a},
    [X_SS_SD] = {MAP_0F, PF3, 0, 0x5a},     [X_BITS_PD] = {MAP_0F, P66, 0, 0x50},
    [X_BITS_PS] = {MAP_0F, P00, 0, 0x50},   [X_SPREAD_BQ] = {MAP_38, P66, 0, 0x32},
    [X_SPREAD_BD] = {MAP_38, P66, 0, 0x31}, [X_SUB_Q] = {MAP_0F, P66, 0, 0xfb},
    [X_SUB_D] = {MAP_0F, P66, 0, 0xfa},     [X_EQUAL_D] = {MAP_0F, P66, 0, 0x76},
    [X_FROM_GPR] = {MAP_0F, P66, 1, 0x6e},  [X_SPLAT_PD] = {MAP_38, P66, 0, 0x19},
    [X_PAIR_PD] = {MAP_0F, PF2, 0, 0x12},   [X_SPLAT_PS] = {MAP_38, P66, 0, 0x18},
    [X_DEPOSIT] = {MAP_38, PF2, 1, 0xf5},   [X_COPY] = {MAP_0F, P00, 0, 0x28},
    [X_MIDDLE] = {MAP_3A, P66, 0, 0x06},    [X_SHUFFLE] = {MAP_0F, P66, 0, 0xc6},
    [X_LOAD] = {MAP_0F, P00, 0, 0x10},      [X_STORE] = {MAP_0F, P00, 0, STORE},
};

void x86_byte(X86 *w, int value)
{
    if (w->n == w->room)
        w->failed = true;
    else
        w->code[w->n++] = (uint8_t)value;
}

static void word(X86 *w, int64_t value)
{
    if (value != (int32_t)value) w->failed = true;
    for (int i = 0; i < 4; i++) x86_byte(w, (int)((uint64_t)value >> (8 * i) & 255));
}

void x86_raw(X86 *w, const char *bytes, int n)
{
    for (int i = 0; i < n; i++) x86_byte(w, bytes[i]);
}

/* ---- vector instructions ---- */

/* VEX, or EVEX, which knows 32 registers and vectors of 64 bytes. Both hold the high bits of register numbers inverted; b is the
   second operand, or the base of one in memory. */
static void prefix(X86 *w, Row r, int bytes, int o, int a, int b)
{
    int length = bytes == 64 ? 2 : bytes == 32,
        first = (~o >> 3 & 1) << 7 | (~b >> 3 & 1) << 5 | r.map;
    if (w->evex) {
        x86_byte(w, 0x62);
        x86_byte(w, first | (~b >> 4 & 1) << 6 | (~o >> 4 & 1) << 4);
        x86_byte(w, r.w << 7 | (~a & 15) << 3 | 1 << 2 | r.prefix);
        bool keeps = r.code == STORE || r.code == COMPARE; /* they have no lanes to make 0 */
        int mask = w->choice ? w->choice : !w->masked ? 0 : keeps ? 1 : 1 | 1 << 7;
        x86_byte(w, mask | length << 5 | (~a >> 4 & 1) << 3);
    } else {
        x86_byte(w, 0xc4);
        x86_byte(w, first | 1 << 6);
        x86_byte(w, r.w << 7 | (~a & 15) << 3 | length << 2 | r.prefix);
    }
    x86_byte(w, r.code);
}

static void on_registers(X86 *w, Row r, int bytes, int o, int a, int b)
{
    prefix(w, r, bytes, o, a, b);
    x86_byte(w, 0xc0 | (o & 7) << 3 | (b & 7));
}

/* Mod, register and memory. */
static void memory(X86 *w, int reg, Gpr base, int64_t at)
{
    x86_byte(w, 0x80 | (reg & 7) << 3 | (base & 7));
    if ((base & 7) == RSP) x86_byte(w, 0x24);
    word(w, at);
}

void x86_op(X86 *w, X86Op op, bool wide, int o, int a, int b)
{
    if (op == X_EXTRACT)
        on_registers(w, rows[op], wide ? 32 : 16, b, a, o);
    else
        on_registers(w, rows[op], wide ? 32 : 16, o, a, b);
}

void x86_op_imm(X86 *w, X86Op op, bool wide, int o, int a, int b, int imm)
{
    x86_op(w, op, wide, o, a, b);
    x86_byte(w, imm);
}

/* Two float32 in 8 bytes are a packed vector whose other elements nobody reads. */
void x86_arith(X86 *w, X86Op op, int bytes, int elem, int o, int a, int b)
{
    Row r = rows[op];
    bool one = bytes == elem;
    r.prefix = (uint8_t)(elem == 8 ? (one ? PF2 : P66) : one ? PF3 : P00);
    on_registers(w, r, bytes, o, op == X_SQRT && !one ? 0 : a, b);
}

static Row access_row(int bytes, int code)
{
    return (Row){MAP_0F, (uint8_t)(bytes == 8 ? PF2 : bytes == 4 ? PF3 : P66), 0, (uint8_t)code};
}

void x86_load(X86 *w, int bytes, int o, Gpr base, int64_t at)
{
    prefix(w, access_row(bytes, 0x10), bytes, o, 0, (int)base);
    memory(w, o, base, at);
}

void x86_store(X86 *w, int bytes, Gpr base, int64_t at, int x)
{
    prefix(w, access_row(bytes, STORE), bytes, x, 0, (int)base);
    memory(w, x, base, at);
}

/* ---- whole tiles: the second operand may be memory, and with EVEX there are 32 registers of 64 bytes ---- */

static void on_any(X86 *w, Row r, int bytes, int o, int a, X86Operand b)
{
    if (b.reg >= 0) {
        on_registers(w, r, bytes, o, a, b.reg);
        return;
    }
    prefix(w, r, bytes, o, a, (int)b.base);
    x86_byte(w, 0x80 | (o & 7) << 3 | 4);
    x86_byte(w, (b.scale == 8 ? 3 : 2) << 6 | RAX << 3 | (b.base & 7));
    word(w, b.at);
}

/* Packed and scalar forms differ in the prefix, float64 and float32 in the prefix and in W. Logic has no scalar form. */
void x86_lanes(X86 *w, X86Op op, int bytes, int elem, int o, int a, X86Operand b)
{
    Row r = rows[op];
    bool logic = op == X_XOR || op == X_ANDN || op == X_COPY, cast = op >= X_PD_PS && op <= X_SS_SD;
    bool one = bytes == elem && !logic;
    r.w = w->evex && elem == 8; /* VEX ignores it */
    if (!cast) r.prefix = (uint8_t)(elem == 8 ? (one ? PF2 : P66) : one ? PF3 : P00);
    on_any(w, r, bytes == elem ? 16 : bytes, o, a, b);
}

void x86_choose(X86 *w, int bytes, int elem, int o, int k, int a, int b)
{
    w->choice = k;
    on_registers(w, (Row){MAP_38, P66, elem == 8, 0x65}, bytes, o, a, b);
    w->choice = 0;
}

void x86_mask(X86 *w, X86Mask op, int k, int a, int b)
{
    x86_byte(w, 0xc5);
    x86_byte(w, 1 << 7 | (op == MASK_NOT ? 15 : ~a & 15) << 3 | (op != MASK_NOT) << 2);
    x86_byte(w, (int)op);
    x86_byte(w, 0xc0 | k << 3 | b);
}

/* ---- constants ---- */

int32_t x86_constant(X86 *w, uint64_t bits, int elem)
{
    uint64_t value = elem == 8 ? bits : (bits & UINT32_MAX) | bits << 32;
    for (int32_t i = 0; i < w->n_pool; i++)
        if (w->pool[4 * i] == value) return i;
    if (w->n_pool == w->pool_room) return w->failed = true, 0;
    for (int k = 0; k < 4; k++) w->pool[4 * w->n_pool + k] = value;
    return w->n_pool++;
}

void x86_load_constant(X86 *w, bool wide, int o, int32_t number)
{
    prefix(w, access_row(32, 0x10), wide ? 32 : 16, o, 0, 0);
    x86_byte(w, (o & 7) << 3 | 5);
    word(w, -32 * ((int64_t)number + 1) - (w->n + 4));
}

/* ---- general registers ---- */

static void rex(X86 *w, bool wide, int reg, int rm)
{
    x86_byte(w, 0x40 | wide << 3 | (reg >> 3) << 2 | rm >> 3);
}

void x86_get(X86 *w, int bytes, Gpr o, Gpr base, int64_t at)
{
    rex(w, bytes == 8, (int)o, (int)base);
    if (bytes < 4) x86_byte(w, 0x0f);
    x86_byte(w, bytes >= 4 ? 0x8b : bytes == 2 ? 0xb7 : 0xb6);
    memory(w, (int)o, base, at);
}

void x86_put(X86 *w, int bytes, Gpr base, int64_t at, Gpr x)
{
    if (bytes == 2) x86_byte(w, 0x66);
    rex(w, bytes == 8, (int)x, (int)base);
    x86_byte(w, bytes == 1 ? 0x88 : 0x89);
    memory(w, (int)x, base, at);
}

void x86_set(X86 *w, Gpr o, uint64_t value)
{
    rex(w, true, 0, (int)o);
    x86_byte(w, 0xb8 | (o & 7));
    for (int i = 0; i < 8; i++) x86_byte(w, (int)(value >> (8 * i) & 255));
}

void x86_add(X86 *w, Gpr o, int64_t value)
{
    if (!value) return;
    rex(w, true, 0, (int)o);
    x86_byte(w, 0x81);
    x86_byte(w, 0xc0 | (o & 7));
    word(w, value);
}

void x86_add_memory(X86 *w, Gpr base, int64_t at, int64_t value)
{
    rex(w, true, 0, (int)base);
    x86_byte(w, 0x81);
    memory(w, 0, base, at);
    word(w, value);
}

void x86_lea(X86 *w, Gpr o, Gpr base, Gpr index, int scale)
{
    x86_byte(w, 0x48 | (o >> 3) << 2 | (index >> 3) << 1 | base >> 3);
    x86_byte(w, 0x8d);
    x86_byte(w, 0x80 | (o & 7) << 3 | 4);
    x86_byte(w, (scale == 8 ? 3 : 2) << 6 | (index & 7) << 3 | (base & 7));
    word(w, 0);
}

void x86_move(X86 *w, Gpr o, Gpr x)
{
    rex(w, true, (int)x, (int)o);
    x86_byte(w, 0x89);
    x86_byte(w, 0xc0 | (x & 7) << 3 | (o & 7));
}

void x86_call(X86 *w, Gpr x)
{
    rex(w, false, 0, (int)x);
    x86_byte(w, 0xff);
    x86_byte(w, 0xd0 | (x & 7));
}

/* ---- jumps ---- */

int32_t x86_jump_ahead(X86 *w, int condition)
{
    if (condition < 0) {
        x86_byte(w, 0xe9);
    } else {
        x86_byte(w, 0x0f);
        x86_byte(w, 0x80 | condition);
    }
    word(w, 0);
    return w->n;
}

static void set_distance(X86 *w, int32_t jump, int32_t to)
{
    int32_t distance = to - jump;
    if (!w->failed) memcpy(w->code + jump - 4, &distance, 4);
}

void x86_jump(X86 *w, int condition, int32_t to)
{
    set_distance(w, x86_jump_ahead(w, condition), to);
}

void x86_land(X86 *w, int32_t jump) { set_distance(w, jump, w->n); }
#endif
