/* product.c: matmul steps: which pieces of work they fall into, and where the matrices of a
   piece are.

   A piece is some rows of one part of one product of the batch; of a large product (gemm_plan.c)
   some rows and columns. All products share one packed B where the batch repeats B; else B is
   packed per product, and either the rows of one product are shared by the threads (large products)
   or the products are (many small ones, each thread packing for itself). A piece of a large product
   packs for itself. No choice changes a bit: an element is one chain whatever is around it. */
#include "cpu/cpu.h"

enum { PIECE_NS = 10000, LARGE_NS = 100000 };

static Ref ref_matrix(const qb_plan *p, const Mat *m, int64_t elem)
{
    int64_t offset = m->offset * elem;
    int32_t base = code_base(p, m->slot, &offset);
    return (Ref){base, 0, offset};
}

static void job_sizes(GemmJob *g, const MatMul *m, const MatPart *part, bool native)
{
    *g = (GemmJob){.m = part->m,
                   .n = m->n,
                   .k = m->k,
                   .a_row = part->a.row,
                   .a_col = part->a.col,
                   .b_row = m->b.row,
                   .b_col = m->b.col,
                   .c_row = part->c.row,
                   .dtype = m->dtype,
                   .native = native};
}

/* Is B the same in every product? */
static bool same_b(const MatMul *m)
{
    for (int d = 0; d < m->rank; d++)
        if (m->b.batch[d]) return false;
    return true;
}

/* Products or rows a task: about PIECE_NS of work. */
static int64_t per_task(double ns) { return ns >= PIECE_NS ? 1 : (int64_t)(PIECE_NS / ns) + 1; }

/* ns of one row of the result: 60 flops a ns, twice that in native float32, or where there are few
   columns the reading of A. */
static double row_cost(const MatMul *m, bool native)
{
    double flops = 2.0 * (double)m->n / (native ? 120 : 60);
    return (double)m->k * (flops < 0.2 ? 0.2 : flops);
}

bool product_compile(ProductCode *o, const qb_plan *p, const MatMul *m, bool sweep, Arena *keep,
                     qb_error *err)
{
    int64_t elem = type_elem(m->dtype), rows = 0;
    *o = (ProductCode){.m = m, .batch = 1, .elem = elem, .b = ref_matrix(p, &m->b, elem)};
    o->parts = arena_alloc(keep, (size_t)m->n_parts * sizeof *o->parts);
    o->jobs = arena_alloc(keep, (size_t)m->n_parts * sizeof *o->jobs);
    atomic_int *doubt = arena_zeroed(keep, 1, sizeof *doubt);
    if (!o->parts || !o->jobs || !doubt) return error_memory(err, "a compiled product", -1), false;
    o->native = p->native && m->dtype == QB_F32;
    o->wide = p->slots[m->parts[0].c.slot].dtype != m->dtype;
    for (int d = 0; d < m->rank; d++) o->batch *= m->dims[d];
    for (int i = 0; i < m->n_parts; i++) rows += m->parts[i].m;
    double row_ns = row_cost(m, o->native), one_ns = row_ns * (double)rows;
    o->form = same_b(m) ? BATCH_SHARED : one_ns >= LARGE_NS ? BATCH_SERIAL : BATCH_SPREAD;
    GemmJob g;
    o->large = !sweep; /* there B is packed once for all blocks */
    for (int i = m->n_parts; i-- > 0;) {
        job_sizes(&g, m, &m->parts[i], o->native);
        o->large &= gemm_plan_large(&g);
    }
    g.m = o->form == BATCH_SHARED ? rows * o->batch : rows;
    int64_t packed = o->large ? 0 : gemm_plan_bytes(&g), thread = 0;
    g.wide = o->wide;
    o->sliced = o->large && slices_wanted(&g);
    o->cols = o->sliced ? slices_cols(&g) : o->large ? gemm_plan_cols(&g) : m->n;
    o->across = o->large ? (m->n + o->cols - 1) / o->cols : 1;
    if (packed < 0) return error_memory(err, "a packed matrix", -1), false;
    o->packs = packed > 0;
    o->pack_bytes = packed;
    for (int i = 0; i < m->n_parts; i++) {
        const MatPart *part = &m->parts[i];
        job_sizes(&g, m, part, o->native);
        int64_t grain = gemm_plan_grain(&g), step = (per_task(row_ns) + grain - 1) / grain * grain;
        g.wide = o->wide;
        g.swapped = gemm_plan_swapped(&g);
        g.doubt = doubt;
        o->jobs[i] = g;
        if (o->sliced)
            step = slices_rows(&g), thread = cpu_larger(thread, slices_room(&g, step));
        else if (o->large)
            step = gemm_plan_rows(&g), thread = cpu_larger(thread, gemm_plan_room(&g));
        o->parts[i] = (Piece){ref_matrix(p, &part->a, elem), ref_matrix(p, &part->c, elem), step,
                              (part->m + step - 1) / step * o->across};
        o->pieces += o->parts[i].pieces;
    }
    o->thread_bytes = thread;
    if (one_ns * (double)o->batch < 2 * PIECE_NS) return o->tasks = 1, true;
    o->spread = per_task(one_ns);
    if (o->form == BATCH_SHARED)
        o->tasks = o->batch * o->pieces;
    else if (o->form == BATCH_SERIAL)
        o->tasks = o->pieces;
    else
        o->tasks = (o->batch + o->spread - 1) / o->spread, o->thread_bytes = packed;
    return true;
}

/* ---- where the matrices of product i of the batch are ---- */
static char *at(const ProductCode *o, char *const *base, const Ref *x, const int64_t *batch,
                int64_t i)
{
    int64_t offset = 0;
    for (int d = o->m->rank - 1; d >= 0 && i; d--) {
        int64_t next = i / o->m->dims[d];
        offset += (i - next * o->m->dims[d]) * batch[d];
        i = next;
    }
    return base[x->base] + x->offset + offset * o->elem;
}

static void open_job(GemmJob *g, const ProductCode *o, char *const *base, char *pack, int64_t part,
                     int64_t i)
{
    const MatMul *m = o->m;
    const Piece *s = &o->parts[part];
    *g = o->jobs[part];
    g->a = at(o, base, &s->a, m->parts[part].a.batch, i);
    g->b = at(o, base, &o->b, m->b.batch, i);
    g->c = at(o, base, &s->c, m->parts[part].c.batch, i);
    g->packed = o->packs ? pack : NULL;
}

void product_pack(const ProductCode *o, const Isa *isa, char *const *base, char *pack, int64_t i)
{
    if (!o->packs) return;
    GemmJob g;
    open_job(&g, o, base, pack, 0, i);
    (o->native ? isa->pack_f32 : isa->pack)(&g);
}

/* One piece of work of a part: some of its rows; of a large product some of its columns. */
static void run_piece(const ProductCode *o, const Isa *isa, char *const *base, GemmJob g,
                      int64_t rows, int64_t piece)
{
    int64_t m0 = piece / o->across * rows, m1 = m0 + rows, j = piece % o->across * o->cols;
    if (o->large) {
        g.room = base[BASE_THREAD];
        g.b = (const char *)g.b + j * g.b_col * o->elem;
        g.c = (char *)g.c + j * (o->wide ? (int64_t)sizeof(double) : o->elem);
        g.n = o->cols < g.n - j ? o->cols : g.n - j;
    }
    if (m1 > g.m) m1 = g.m;
    if (o->sliced && slices_run(&g, isa, m0, m1)) return;
    const int64_t step = o->sliced ? SLICES_COMMON : m1 - m0;
    for (int64_t i = m0; i < m1; i += step)
        (o->native ? isa->gemm_f32 : isa->gemm)(&g, i, i + step < m1 ? i + step : m1);
}

/* All parts of product i; `shift` bytes after their places; add: to what is there. */
static void run_one(const ProductCode *o, const Isa *isa, char *const *base, char *pack, int64_t i,
                    int64_t shift, bool add)
{
    for (int64_t part = 0; part < o->m->n_parts; part++) {
        GemmJob g;
        open_job(&g, o, base, pack, part, i);
        g.c = (char *)g.c + shift;
        g.add = add;
        if (!o->large) {
            (o->native ? isa->gemm_f32 : isa->gemm)(&g, 0, g.m);
            continue;
        }
        for (int64_t piece = 0; piece < o->parts[part].pieces; piece++)
            run_piece(o, isa, base, g, o->parts[part].rows, piece);
    }
}

void product_alone(const ProductCode *o, const Isa *isa, char *const *base, char *pack)
{
    for (int64_t i = 0; i < o->batch; i++) {
        if (i == 0 || o->form != BATCH_SHARED) product_pack(o, isa, base, pack, i);
        run_one(o, isa, base, pack, i, 0, false);
    }
}

void product_block(const ProductCode *o, const Isa *isa, char *const *base, char *pack, bool packed,
                   int64_t shift, bool add)
{
    for (int64_t i = 0; i < o->batch; i++) {
        if (!packed && (i == 0 || o->form != BATCH_SHARED)) product_pack(o, isa, base, pack, i);
        run_one(o, isa, base, pack, i, shift, add);
    }
}

/* A task of the pool. batch: the product that is running, of BATCH_SERIAL. */
void product_run(const ProductCode *o, const Isa *isa, char *const *base, char *pack, int64_t batch,
                 int64_t task)
{
    if (o->form == BATCH_SPREAD) {
        int64_t i = task * o->spread, end = i + o->spread < o->batch ? i + o->spread : o->batch;
        for (; i < end; i++) {
            product_pack(o, isa, base, base[BASE_THREAD], i);
            run_one(o, isa, base, base[BASE_THREAD], i, 0, false);
        }
        return;
    }
    int64_t i = batch >= 0 ? batch : task / o->pieces, piece = batch >= 0 ? task : task % o->pieces,
            part = 0;
    for (; piece >= o->parts[part].pieces; part++) piece -= o->parts[part].pieces;
    GemmJob g;
    open_job(&g, o, base, pack, part, i);
    run_piece(o, isa, base, g, o->parts[part].rows, piece);
}
