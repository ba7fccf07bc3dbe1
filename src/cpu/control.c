/* control.c: runs cond, scan and while. A body is a plan whose steps run on one workspace, opened
   once per loop; from one iteration to the next only pointers change. A carry has two buffers, the
   memory of its result and one in scratch: a body reads one and writes the other, then they change
   places. The first iteration reads the operand itself, and the last one writes the result where it
   can. A carry that slides (plan.h) has one buffer for two of it in scratch. It is written ever
   farther from one end, where all rows but the new ones already are, so the copies of those are to
   themselves and are left out (code_settled). At the other end it begins again, with a copy. */
#include "cpu/cpu.h"

bool control_compile(ControlCode *o, const qb_plan *p, const Loop *l, Arena *keep, qb_error *err)
{
    int64_t zero = 0;
    *o = (ControlCode){.l = l};
    o->in = arena_zeroed(keep, (size_t)l->n_in + 1, sizeof *o->in);
    o->out = arena_zeroed(keep, (size_t)l->n_out + 1, sizeof *o->out);
    if (!o->in || !o->out) return error_memory(err, "a compiled loop", -1), false;
    for (int k = 0; k < l->n_in; k++) {
        o->in[k].offset = l->in[k].offset;
        o->in[k].base = code_base(p, l->in[k].slot, &o->in[k].offset);
    }
    for (int k = 0; k < l->n_out; k++) {
        o->out[k].offset = l->out[k].offset;
        o->out[k].base = code_base(p, l->out[k].slot, &o->out[k].offset);
    }
    o->scratch.base = code_base(p, l->scratch, &zero);
    o->scratch.offset = zero;
    if (l->op != OP_cond && !l->slides) o->code = emit_loop(l, l->body[l->op == OP_while]);
    return true;
}

static inline char *place(char *const *base, const Ref *r) { return base[r->base] + r->offset; }

/* ---- the workspace of a body ---- */

enum { BIND_FROM = 2, WORTH_BINDING = 8 }; /* iterations */

typedef struct {
    Workspace own, *w;
    Bound *bound; /* two programs of the body, one for each way that its carries lie; NULL: none */
} Entered;

static bool enter(Entered *e, const qb_plan *body, char *memory, Workspace *outer, qb_error *err)
{
    const Exec *x = body->exec;
    *e = (Entered){.w = &e->own};
    if (x->parallel)
        e->w = cpu_take(body, err);
    else
        cpu_open(e->w, body, memory, 1);
    if (!e->w) return false;
    e->w->pulse = outer->pulse;
    return true;
}

static void leave(Entered *e, const qb_plan *body)
{
    if (e->w && e->w != &e->own) cpu_give(body, e->w);
}

/* May iterations run bound? Only where nothing moves but the carries. */
static void allow_binding(Entered *e, const Loop *l, const qb_plan *body, char *memory)
{
    const Exec *x = body->exec;
    bool moves = l->xs || l->slides || l->n_out > l->carries,
         few = l->length && l->length < WORTH_BINDING;
    if (x->n_bound && !moves && !few) e->bound = (Bound *)(memory + cpu_bytes(x));
}

static bool iterate(const Entered *e, const qb_plan *body, int64_t i, const Isa *isa, qb_error *err)
{
    const Exec *x = body->exec;
    if (!e->bound || i < BIND_FROM) return cpu_steps(body, e->w, isa, err);
    Bound *b = e->bound + (i % 2) * x->n_bound;
    if (i < BIND_FROM + 2) bound_make(x, isa, e->w->base, b);
    return bound_run(b, x->n_bound, x, isa, e->w, err);
}

static bool interrupted(qb_error *err)
{
    return error_set(err, QB_EINTERRUPT, "interrupted"), false;
}

/* ---- cond ---- */

static bool run_cond(const ControlCode *o, const Isa *isa, Workspace *outer, qb_error *err)
{
    const Loop *l = o->l;
    char *const *base = outer->base;
    int b = *(const unsigned char *)place(base, &o->in[0]) ? 0 : 1;
    const qb_plan *body = l->body[b];
    Entered e;
    if (!enter(&e, body, place(base, &o->scratch) + l->work[b], outer, err)) return false;
    char **in = e.w->base + BASE_ARRAYS, **out = in + l->n_in - 1;
    for (int k = 1; k < l->n_in; k++) in[k - 1] = place(base, &o->in[k]);
    for (int k = 0; k < l->n_out; k++) out[k] = place(base, &o->out[k]);
    bool ok = cpu_steps(body, e.w, isa, err);
    leave(&e, body);
    return ok;
}

/* ---- carries ---- */

/* Where in its buffer a carry that slides begins. */
static char *first_place(const Loop *l, int k, char *second)
{
    return l->shift[k] > 0 ? second : second + (l->room[k] - mem_lines(l->out[k].bytes));
}

/* Buffer i of each carry (0: the result, 1: scratch), written to by the next iteration. */
static void write_to(const ControlCode *o, char *const *base, int i, char **out)
{
    char *second = place(base, &o->scratch) + 64;
    for (int k = 0; k < o->l->carries; k++) {
        if (o->l->shift[k])
            out[k] = first_place(o->l, k, second);
        else
            out[k] = i ? second : place(base, &o->out[k]);
        second += o->l->room[k];
    }
}

/* The carries that slide are written next to where they are; at the end of the buffer from its
   beginning on. */
static void slide(const ControlCode *o, char *const *base, char *const *in, char **out)
{
    char *second = place(base, &o->scratch) + 64;
    for (int k = 0; k < o->l->carries; k++) {
        int64_t room = o->l->room[k], shift = o->l->shift[k];
        char *last = second + (room - o->l->out[k].bytes), *next = in[k] + shift;
        if (shift) out[k] = next >= second && next <= last ? next : first_place(o->l, k, second);
        second += room;
    }
}

/* What was written is read next, and what was read may be overwritten. */
static inline void exchange(int n, char **in, char **out)
{
    for (int k = 0; k < n; k++) {
        char *t = in[k];
        in[k] = out[k];
        out[k] = t;
    }
}

/* Where the last iteration wrote to scratch, the results are copied. */
static void finish(const ControlCode *o, char *const *base, char *const *in)
{
    for (int k = 0; k < o->l->carries; k++) {
        char *to = place(base, &o->out[k]);
        if (in[k] != to) memcpy(to, in[k], (size_t)o->l->out[k].bytes);
    }
}

/* ---- loops as machine code ---- */

/* The iterations, n of them or, with 0, any number, by the code. It writes over carries, so it
   begins with copies. */
static bool run_code(const ControlCode *o, const Isa *isa, const Entered *e, Workspace *outer,
                     int64_t n, qb_error *err)
{
    char **in = e->w->base + BASE_ARRAYS;
    finish(o, outer->base, in);
    write_to(o, outer->base, 0, in);
    write_to(o, outer->base, 1, in + o->l->n_in);
    EmitRun r = {e->w->base, isa->kernels, isa, e->w, err, 0};
    Pulse *p = outer->pulse;
    for (int64_t done = 0; !n || done < n;) {
        int64_t some = n && n - done < p->left ? n - done : p->left;
        r.left = some;
        int end = o->code.run(&r);
        some -= r.left;
        done += some;
        if (end == EMIT_FAILED) return false;
        p->left = some < p->left ? p->left - (uint32_t)some : 0;
        if (!p->left && !pulse_slow(p)) return interrupted(err);
        if (end == EMIT_STOPPED) break;
    }
    return true;
}

/* ---- scan ---- */

static bool run_scan(const ControlCode *o, const Isa *isa, Workspace *outer, qb_error *err)
{
    const Loop *l = o->l;
    const qb_plan *body = l->body[0];
    char *const *base = outer->base;
    Entered e;
    if (!enter(&e, body, place(base, &o->scratch) + l->work[0], outer, err)) return false;
    char **in = e.w->base + BASE_ARRAYS, **out = in + l->n_in;
    int64_t first = l->reverse ? l->length - 1 : 0, step = l->reverse ? -1 : 1;
    int first_x = l->carries, end_x = first_x + l->xs;
    for (int k = 0; k < l->n_in; k++) in[k] = place(base, &o->in[k]);
    for (int k = first_x; k < end_x; k++) in[k] += first * l->in[k].bytes;
    for (int k = l->carries; k < l->n_out; k++)
        out[k] = place(base, &o->out[k]) + first * l->out[k].bytes;
    allow_binding(&e, l, body, place(base, &o->scratch) + l->work[0]);
    int start = l->length % 2 == 0; /* so that the last iteration writes the result */
    bool ok = true;
    if (o->code.run) {
        ok = run_code(o, isa, &e, outer, l->length, err);
        if (ok) finish(o, base, in);
        leave(&e, body);
        return ok;
    }
    write_to(o, base, start, out);
    for (int64_t i = 0; ok && i < l->length; i++) {
        if (!iterate(&e, body, i, isa, err))
            ok = false;
        else if (!pulse(outer->pulse))
            ok = interrupted(err);
        exchange(l->carries, in, out);
        if (i == 0) write_to(o, base, !start, out);
        if (l->slides) slide(o, base, in, out);
        for (int k = first_x; k < end_x; k++) in[k] += step * l->in[k].bytes;
        for (int k = l->carries; k < l->n_out; k++) out[k] += step * l->out[k].bytes;
    }
    if (l->slides) finish(o, base, in);
    leave(&e, body);
    return ok;
}

/* ---- while ---- */

/* The test of the first carries. */
static bool first_test(const ControlCode *o, const Isa *isa, Workspace *outer, char *go,
                       qb_error *err)
{
    const Loop *l = o->l;
    const qb_plan *test = l->body[0];
    char *const *base = outer->base;
    Entered e;
    if (!enter(&e, test, place(base, &o->scratch) + l->work[0], outer, err)) return false;
    char **in = e.w->base + BASE_ARRAYS;
    for (int k = 0; k < l->n_in; k++) in[k] = place(base, &o->in[k]);
    in[l->n_in] = go;
    bool ok = cpu_steps(test, e.w, isa, err);
    leave(&e, test);
    return ok;
}

static bool run_while(const ControlCode *o, const Isa *isa, Workspace *outer, qb_error *err)
{
    const Loop *l = o->l;
    const qb_plan *body = l->body[1];
    char *const *base = outer->base, *go = place(base, &o->scratch) + l->go;
    Entered e;
    if (!first_test(o, isa, outer, go, err)) return false;
    if (!enter(&e, body, place(base, &o->scratch) + l->work[1], outer, err)) return false;
    char **in = e.w->base + BASE_ARRAYS, **out = in + l->n_in;
    for (int k = 0; k < l->n_in; k++) in[k] = place(base, &o->in[k]);
    out[l->carries] = go;
    allow_binding(&e, l, body, place(base, &o->scratch) + l->work[1]);
    write_to(o, base, 0, out);
    bool ok = true, code = o->code.run && *go;
    if (code) ok = run_code(o, isa, &e, outer, l->length, err);
    for (int64_t i = 0; !code && ok && *go && (!l->length || i < l->length); i++) {
        if (!iterate(&e, body, i, isa, err))
            ok = false;
        else if (!pulse(outer->pulse))
            ok = interrupted(err);
        exchange(l->carries, in, out);
        if (i == 0) write_to(o, base, 1, out);
        if (l->slides) slide(o, base, in, out);
    }
    finish(o, base, in);
    leave(&e, body);
    return ok;
}

bool control_run(const ControlCode *o, const Isa *isa, Workspace *w, qb_error *err)
{
    if (o->l->op == OP_cond) return run_cond(o, isa, w, err);
    return o->l->op == OP_scan ? run_scan(o, isa, w, err) : run_while(o, isa, w, err);
}
