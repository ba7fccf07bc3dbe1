/* scan_blocks.c: the reverse of a long loop. It is cut in blocks of about sqrt(T) iterations, one
   carry is kept before each, and going back runs a block again, with a full tape, before the
   reverse step goes through it. Both are scans over blocks, whose bodies hold scans over the
   iterations of a block. What does not fill the last block (the rest) runs after the blocks, as a
   loop of its own. */
#include "ops/scan.h"
#include <math.h>

enum {
    SHORT_LOOP = 64,     /* iterations that always keep every carry */
    MEDIUM_LOOP = 1024,  /* iterations that do if the tape is small */
    SMALL_TAPE = 1 << 18 /* bytes: it stays in the second-level cache */
};

static const Type *input_type(const Graph *g, int k) { return &g->types[g->inputs[k]]; }
static const Type *output_type(const Graph *g, int k) { return &g->types[g->outputs[k]]; }

static int64_t tape_bytes(const Reverse *r)
{
    int64_t bytes = 0;
    for (int k = 0; k < r->loop.carries; k++) {
        int64_t one = type_bytes(input_type(r->loop.body, k));
        if (scan_pieces_tapes(r, k) && __builtin_add_overflow(bytes, one, &bytes)) return INT64_MAX;
    }
    return mem_mul(bytes, r->loop.form.length, &bytes) ? bytes : INT64_MAX;
}

/* About sqrt(T), and a divisor of T if there is one near. */
void scan_blocks_choose(Reverse *r)
{
    int64_t n = r->loop.form.length;
    if (n <= SHORT_LOOP || (n <= MEDIUM_LOOP && tape_bytes(r) <= SMALL_TAPE)) return;
    int64_t root = (int64_t)sqrt((double)n), best = root;
    for (int64_t d = 0; d <= root / 3; d++) {
        if (n % (root + d) == 0) {
            best = root + d;
            break;
        }
        if (n % (root - d) == 0) {
            best = root - d;
            break;
        }
    }
    r->block = best;
    r->blocks = n / best;
    r->rest = n % best;
}

/* Iterations of the blocks, or of the rest, out of a stacked array. The rest is what runs last. */
Val scan_blocks_of(const Reverse *r, Val x)
{
    if (val_none(x)) return NONE;
    Type t = *type_of(x);
    int64_t n = r->block * r->blocks, start = r->loop.form.reverse ? r->rest : 0;
    x = gslice(x, 0, start, n, 1);
    if (t.rank < QB_MAX_RANK) memmove(t.dims + 2, t.dims + 1, (t.rank - 1u) * sizeof *t.dims);
    t.dims[0] = r->blocks;
    t.dims[1] = r->block;
    return greshape(x, t.rank + 1, t.dims);
}

Val scan_blocks_rest(const Reverse *r, Val x)
{
    return gslice(x, 0, r->loop.form.reverse ? 0 : r->block * r->blocks, r->rest, 1);
}

/* The stacked array of all iterations, from [blocks, block, ...] and the rest (NONE: there is
   none). */
Val scan_blocks_join(const Reverse *r, Val blocks, Val rest)
{
    if (val_none(blocks)) return NONE;
    Type t = *type_of(blocks);
    t.dims[1] *= t.dims[0];
    Val all = greshape(blocks, t.rank - 1, t.dims + 1);
    if (val_none(rest)) return all;
    return gconcat(blocks.graph, r->loop.form.reverse ? (Val[]){rest, all} : (Val[]){all, rest}, 2,
                   0);
}

/* Inputs of a body over blocks: slices of xs, and the captures. */
static void block_inputs(Body *f, const Reverse *r, const In *in, In *inside, bool captures)
{
    const Loop *l = &r->loop;
    for (int k = 0; k < l->xs && !captures; k++) {
        Type t = region_stack(input_type(l->body, l->carries + k), r->block);
        inside->x[k] = body_input(f, scan_blocks_of(r, in->x[k]), &t);
    }
    for (int k = 0; k < l->captures && captures; k++)
        inside->k[k] = body_input(f, in->k[k], input_type(l->body, l->carries + l->xs + k));
}

/* The blocks forward: start[k] is kept for each carry. */
bool scan_blocks_ahead(Graph *g, Arena *a, Reverse *r, const In *in, Out *o)
{
    const Loop *l = &r->loop;
    int m = l->carries;
    Body f;
    In inside;
    Out once;
    bool ok =
        body_open(&f, g) && scan_pieces_in(g, &f.arena, l, &inside) && scan_pieces_out(g, a, l, o);
    Val *z = ok ? body_alloc(&f, 2 * (size_t)m + (size_t)l->ys, sizeof *z) : NULL;
    if (z) {
        for (int k = 0; k < m; k++)
            inside.carry[k] = body_input(&f, in->carry[k], input_type(l->body, k));
        block_inputs(&f, r, in, &inside, false);
        block_inputs(&f, r, in, &inside, true);
        ok = scan_pieces_ahead(f.body, &f.arena, r, r->block, &inside, false, &once);
    }
    if (z && ok) {
        for (int k = 0; k < m; k++) graph_output(f.body, once.carry[k]);
        for (int k = 0; k < m; k++) graph_output(f.body, inside.carry[k]);
        for (int k = 0; k < l->ys; k++) graph_output(f.body, once.y[k]);
        ScanForm form = {r->blocks, l->form.reverse, m, l->xs};
        ok = body_close(&f) && region_scan(g, f.body, form, f.x, f.n, z);
    }
    if (z && ok) {
        memcpy(o->carry, z, (size_t)m * sizeof *z);
        memcpy(r->start, z + m, (size_t)m * sizeof *z);
        if (l->ys) memcpy(o->y, z + 2 * m, (size_t)l->ys * sizeof *z);
    }
    body_drop(&f);
    return z && ok;
}

/* One block: forward again with a tape, then backward. */
static bool block_back(Body *f, const Reverse *r, const In *inside, const Val *dy, Cots *c, Val *dx)
{
    Out tape;
    return scan_pieces_ahead(f->body, &f->arena, r, r->block, inside, true, &tape) &&
           scan_pieces_back(f->body, &f->arena, r, r->block, inside, &tape, dy, c, dx);
}

bool scan_blocks_back(Graph *g, const Reverse *r, const In *in, const Val *dy, Cots *c, Val *dx)
{
    const Loop *l = &r->loop;
    Body f;
    In inside;
    Cots cots = {0};
    Val *slices = NULL, *out = NULL, *z = NULL;
    bool ok = body_open(&f, g) && scan_pieces_in(g, &f.arena, l, &inside);
    if (ok) {
        cots.live = body_alloc(&f, (size_t)l->carries, sizeof(Val));
        cots.sums = body_alloc(&f, (size_t)l->captures, sizeof(Val));
        slices = body_alloc(&f, (size_t)l->ys, sizeof(Val));
        out = body_alloc(&f, (size_t)l->xs, sizeof(Val));
        z = body_alloc(&f, (size_t)l->carries + (size_t)l->captures + (size_t)l->xs, sizeof(Val));
        ok = !graph_failed(g);
    }
    ScanForm form = {.length = r->blocks, .reverse = !l->form.reverse};
    for (int k = 0; k < l->carries && ok; k++) {
        Type t = body_strong(input_type(l->body, k));
        if (r->live[k]) cots.live[k] = body_input(&f, c->live[k], &t);
    }
    for (int k = 0; k < l->captures && ok; k++) {
        Type t = body_strong(input_type(l->body, l->carries + l->xs + k));
        if (r->sums[k]) cots.sums[k] = body_input(&f, c->sums[k], &t);
    }
    form.carries = f.n;
    for (int k = 0; k < l->carries && ok; k++)
        inside.carry[k] = body_input(&f, r->start[k], input_type(l->body, k));
    if (ok) block_inputs(&f, r, in, &inside, false);
    for (int k = 0; k < l->ys && ok; k++) {
        Type t = region_stack(output_type(l->body, l->carries + k), r->block);
        if (r->dy[k]) slices[k] = body_input(&f, dy[k], &t);
    }
    form.xs = f.n - form.carries;
    if (ok) block_inputs(&f, r, in, &inside, true);
    ok = ok && block_back(&f, r, &inside, slices, &cots, out);
    for (int k = 0; k < l->carries && ok; k++)
        if (r->live[k]) graph_output(f.body, cots.live[k]);
    for (int k = 0; k < l->captures && ok; k++)
        if (r->sums[k]) graph_output(f.body, cots.sums[k]);
    for (int k = 0; k < l->xs && ok; k++)
        if (r->dx[k]) graph_output(f.body, out[k]);
    ok = ok && body_close(&f) && region_scan(g, f.body, form, f.x, f.n, z);
    if (ok) scan_pieces_results(r, z, c, dx);
    body_drop(&f);
    return ok;
}
