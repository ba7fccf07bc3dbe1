/* emit_ins.c: one instruction of a region's program (code.c) on one chunk of elements, as machine
   instructions. The tables say which are known; what they do not know is called (emit_region.c).
   Operations are those of the kernels, one rounding each, operands in their order. */
#include "cpu/emit.h"

#if defined(__x86_64__)

/* ---- what an instruction is ---- */

static const uint8_t arithmetic[OP_COUNT] = {
    [OP_add] = X_ADD, [OP_sub] = X_SUB, [OP_mul] = X_MUL, [OP_div] = X_DIV, [OP_sqrt] = X_SQRT,
};
/* Predicates that are quiet; NaN compares as C says. 0: none, so one more than the predicate. */
static const uint8_t comparison[OP_COUNT] = {
    [OP_greater] = 0x1e + 1,    [OP_greater_equal] = 0x1d + 1, [OP_less] = 0x11 + 1,
    [OP_less_equal] = 0x12 + 1, [OP_equal] = 0x00 + 1,         [OP_not_equal] = 0x04 + 1,
};

static Way way_of(const Ins *s, int op, int in)
{
    static const uint8_t logic[OP_COUNT] = {
        [OP_logical_and] = LOGIC, [OP_logical_or] = LOGIC, [OP_logical_not] = NOT};
    static const uint8_t other[OP_COUNT] = {
        [OP_sqrt] = SQRT, [OP_neg] = NEG, [OP_abs] = ABS, [OP_powi] = CUBE};
    if (op == OP_where) return WHERE;
    if (op == OP_stop_gradient) return COPY;
    if (in == QB_BOOL) return logic[op];
    if (comparison[op]) return COMPARISON;
    if (op == OP_powi && (s->i != 3 || in != QB_F64)) return CALLED;
    return other[op] ? other[op] : arithmetic[op] ? ARITHMETIC : CALLED;
}

What emit_ins_what(const Ins *s)
{
    static const uint8_t fused[] = {
        [FUSED_MUL_ADD] = MUL_ADD, [FUSED_MUL_SUB] = MUL_SUB, [FUSED_SUB_MUL] = SUB_MUL};
    int k = s->kernel, first = k < CAST_FIRST ? 0 : k < FUSED_FIRST ? CAST_FIRST : FUSED_FIRST;
    int high = (k - first) / QB_DTYPE_COUNT, low = (k - first) % QB_DTYPE_COUNT;
    if (k >= NATIVE_FIRST) return (What){CALLED, 0, QB_F32, QB_F32, 0};
    if (first == FUSED_FIRST) return (What){fused[high], 0, low, low, 0};
    if (first == CAST_FIRST) return (What){high == low ? COPY : CAST, OP_cast, high, low, 0};
    int out = op_table[high].to_bool ? QB_BOOL : low;
    return (What){way_of(s, high, low), high, low, out, arithmetic[high]};
}

bool emit_ins_called(const Ins *s)
{
    return s->kernel < INS_LOAD && emit_ins_what(s).way == CALLED;
}

int emit_ins_unit(const Code *c, const Ins *s)
{
    if (s->kernel >= INS_LOAD) return c->moves[s->i].elem == 8 ? 8 : 4;
    What f = emit_ins_what(s);
    return f.in == QB_F64 || f.out == QB_F64 ? 8 : 4;
}

/* ---- operands ---- */

const Repeat *emit_ins_repeat(const Code *c, const Ref *x)
{
    for (int i = 0; i < c->n_repeats; i++)
        if (x->base == BASE_THREAD && c->repeats[i].to == x->offset) return &c->repeats[i];
    return NULL;
}

Stretch emit_ins_stretch(Emitter *e, const Ref *x, int dtype, int64_t k, int n, int lane)
{
    Stretch at = {x->base, x->offset, n * lane, lane, dtype == QB_BOOL, false};
    int64_t elem = type_elem(dtype);
    const Repeat *r = emit_ins_repeat(e->c, x);
    if (x->base == BASE_TILES) {
        uint64_t bits = 0;
        memcpy(&bits, e->x->tiles + x->offset, (size_t)elem);
        if (at.mask) bits = bits ? UINT64_MAX : 0;
        at.base = BASE_POOL;
        at.offset = x86_constant(&e->w, bits, lane);
        at.mask = false;
        at.splat = true;
    } else if (r) {
        at.base = r->x.base;
        at.offset = r->x.offset + k % r->period * elem;
        at.splat = r->period == 1;
    } else {
        at.offset += k * elem;
    }
    return at;
}

int emit_ins_constant(Emitter *e, uint64_t bits, int bytes, int elem)
{
    int32_t number = x86_constant(&e->w, bits, elem);
    return keep_read(e, (Stretch){BASE_POOL, number, bytes, elem, false, true});
}

/* ---- the ways ---- */

typedef struct { /* an instruction on a chunk */
    What f;
    int n, elem, bytes; /* elements; bytes of an operand's element or lane, and of an operand */
    bool wide;
    int x[3];
} Chunk;

static int by_arithmetic(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    x86_arith(&e->w, (X86Op)c->f.x86, c->bytes, c->elem, o, c->x[0], c->x[1]);
    return o;
}

static int by_sqrt(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    x86_arith(&e->w, X_SQRT, c->bytes, c->elem, o, c->x[0], c->x[0]);
    return o;
}

static int by_comparison(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    x86_arith(&e->w, X_CMP, c->bytes, c->elem, o, c->x[0], c->x[1]);
    x86_byte(&e->w, emit_ins_predicate(c->f.op));
    return o;
}

static int by_logic(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    x86_op(&e->w, c->f.op == OP_logical_and ? X_AND : X_OR, c->wide, o, c->x[0], c->x[1]);
    return o;
}

static int by_not(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    x86_op(&e->w, X_EQUAL_D, c->wide, o, o, o);
    x86_op(&e->w, X_XOR, c->wide, o, o, c->x[0]);
    return o;
}

/* The sign bit is changed, or taken away. */
static int by_sign(Emitter *e, const Chunk *c)
{
    uint64_t bit = c->elem == 8 ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    int sign = emit_ins_constant(e, bit, c->bytes, c->elem), o = keep_take(e);
    x86_op(&e->w, c->f.way == NEG ? X_XOR : X_ANDN, c->wide, o, sign, c->x[0]);
    return o;
}

static int by_cube(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    x86_arith(&e->w, X_MUL, c->bytes, c->elem, o, c->x[0], c->x[0]);
    x86_arith(&e->w, X_MUL, c->bytes, c->elem, o, c->x[0], o);
    return o;
}

static int by_where(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    X86Op op = c->elem == 8 ? X_PICK_PD : X_PICK_PS;
    x86_op_imm(&e->w, op, c->wide, o, c->x[2], c->x[1], c->x[0] << 4);
    return o;
}

static int by_copy(Emitter *e, const Chunk *c)
{
    int o = keep_take(e);
    x86_op(&e->w, X_COPY, c->wide, o, 0, c->x[0]);
    return o;
}

/* Both roundings stay. */
static int by_fused(Emitter *e, const Chunk *c)
{
    int p = keep_take(e), o = keep_take(e), left = p, right = c->x[2];
    if (c->f.way == SUB_MUL) left = c->x[2], right = p;
    x86_arith(&e->w, X_MUL, c->bytes, c->elem, p, c->x[0], c->x[1]);
    x86_arith(&e->w, c->f.way == MUL_ADD ? X_ADD : X_SUB, c->bytes, c->elem, o, left, right);
    return o;
}

static int by_cast(Emitter *e, const Chunk *c)
{
    int o = keep_take(e), x = c->x[0], in = c->f.in, out = c->f.out;
    if (in == QB_BOOL) {
        uint64_t one = out == QB_F64 ? UINT64_C(0x3ff) << 52 : 0x7f << 23;
        x86_op(&e->w, X_AND, c->wide, o, x, emit_ins_constant(e, one, c->bytes, c->elem));
    } else if (out == QB_BOOL) {
        int zero = keep_take(e);
        x86_op(&e->w, X_XOR, false, zero, zero, zero);
        x86_arith(&e->w, X_CMP, c->bytes, c->elem, o, x, zero);
        x86_byte(&e->w, emit_ins_predicate(OP_not_equal));
    } else if (c->n == 1) {
        x86_op(&e->w, in == QB_F64 ? X_SD_SS : X_SS_SD, false, o, x, x);
    } else {
        x86_op(&e->w, in == QB_F64 ? X_PD_PS : X_PS_PD, c->n == 4, o, 0, x);
    }
    return o;
}

static const struct {
    int arity;
    int (*emit)(Emitter *e, const Chunk *c);
} ways[] = {
    [ARITHMETIC] = {2, by_arithmetic},
    [SQRT] = {1, by_sqrt},
    [COMPARISON] = {2, by_comparison},
    [LOGIC] = {2, by_logic},
    [NOT] = {1, by_not},
    [NEG] = {1, by_sign},
    [ABS] = {1, by_sign},
    [CUBE] = {1, by_cube},
    [WHERE] = {3, by_where},
    [COPY] = {1, by_copy},
    [CAST] = {1, by_cast},
    [MUL_ADD] = {3, by_fused},
    [MUL_SUB] = {3, by_fused},
    [SUB_MUL] = {3, by_fused},
};

int emit_ins_predicate(int op) { return comparison[op] - 1; }
int emit_ins_arity(What f) { return ways[f.way].arity; }

/* ---- loads and stores through strides ---- */

static bool is_run(const Move *m, int64_t k, int n)
{
    int64_t first = move_offset(m, k);
    for (int i = 1; i < n; i++)
        if (move_offset(m, k + i) != first + i * m->elem) return false;
    return true;
}

static void move(Emitter *e, const Ins *s, int64_t k, int n)
{
    const Move *m = &e->c->moves[s->i];
    bool load = s->kernel == INS_LOAD;
    const Ref *near = load ? &s->o : &s->a, *far = load ? &s->a : &s->o;
    int elem = (int)m->elem, dtype = elem == 8 ? QB_F64 : QB_F32, step = is_run(m, k, n) ? n : 1;
    for (int i = 0; i < n; i += step) {
        int64_t offset = far->offset + move_offset(m, k + i);
        Stretch in_register = emit_ins_stretch(e, near, dtype, k + i, step, elem),
                in_memory = {far->base, offset, step * elem, elem, false, false};
        keep_copy(e, load ? in_register : in_memory, load ? in_memory : in_register);
    }
}

/* A mask has the lanes of what it is compared from, chooses, becomes or comes from. */
void emit_ins(Emitter *e, const Ins *s, int64_t k, int n)
{
    if (s->kernel >= INS_LOAD) {
        move(e, s, k, n);
        return;
    }
    What f = emit_ins_what(s);
    const Ref *refs[3] = {&s->a, &s->b, &s->c};
    bool in_mask = f.in == QB_BOOL, out_mask = f.out == QB_BOOL;
    int in = in_mask ? f.way == CAST ? (int)type_elem(f.out) : e->unit : (int)type_elem(f.in);
    int out = out_mask ? in : (int)type_elem(f.out);
    Chunk c = {.f = f, .n = n, .elem = in, .bytes = n * in, .wide = n * in == 32};
    for (int j = 0; j < ways[f.way].arity; j++) {
        int dtype = f.way == WHERE && j == 0 ? QB_BOOL : f.in;
        c.x[j] = keep_read(e, emit_ins_stretch(e, refs[j], dtype, k, n, in));
    }
    int o = ways[f.way].emit(e, &c);
    keep_write(e, emit_ins_stretch(e, &s->o, f.out, k, n, out), o);
    keep_unpin_all(e);
}
#endif
