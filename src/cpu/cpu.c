/* cpu.c: the CPU target. prepare compiles every region and plans every product; run goes through
   the steps with one workspace.

   A plan keeps one workspace between runs. A run takes it with one atomic exchange; a second run
   at the same time makes its own and frees it. A plan that is small and has nothing to share
   runs on the stack: one eager op allocates nothing here. A step runs on several threads where
   it is worth several microseconds; what a thread does is then the same, only less of it. */
#include "cpu/cpu.h"
#include <time.h>

enum { STACK_BYTES = 16384, LINE = 64 };

/* ---- prepare ---- */
static bool compile_steps(qb_plan *p, Exec *x, TileSet *tiles, qb_error *err)
{
    for (int i = 0; i < p->n_steps; i++) {
        const Step *s = &p->steps[i];
        Exe *e = &x->exes[i];
        e->kind = s->kind;
        if (e->kind == STEP_LOOP) {
            if (!control_compile(&e->control, p, &s->loop, &x->arena, err)) return false;
        } else if (e->kind == STEP_CALL) {
            if (!call_compile(&e->call, p, &s->call, &x->arena, err)) return false;
            x->pack_bytes = cpu_larger(x->pack_bytes, mem_lines(e->call.scratch));
        } else if (e->kind == STEP_REGION) {
            if (!code_compile(&e->code, p, &s->region, tiles, &x->arena, err)) return false;
            x->thread_bytes = cpu_larger(x->thread_bytes, mem_lines(e->code.thread_bytes));
            x->parts_bytes = cpu_larger(x->parts_bytes, mem_lines(e->code.parts_bytes));
            x->parallel |= e->code.chunk < e->code.units;
            x->n_base = cpu_larger(x->n_base, e->code.rows.first + e->code.rows.n_bases);
        } else {
            bool sweep = s->along != ALONG_NONE;
            if (!product_compile(&e->product, p, &s->matmul, sweep, &x->arena, err)) return false;
            x->thread_bytes = cpu_larger(x->thread_bytes, mem_lines(e->product.thread_bytes));
            x->pack_bytes = cpu_larger(x->pack_bytes, mem_lines(e->product.pack_bytes));
            x->parallel |= e->product.tasks > 1;
        }
    }
    return true;
}

static bool compile_sweeps(qb_plan *p, Exec *x, qb_error *err)
{
    x->n_sweeps = p->n_sweeps;
    x->sweeps = arena_zeroed(&x->arena, (size_t)p->n_sweeps, sizeof *x->sweeps);
    if (!x->sweeps) return error_memory(err, "a compiled plan", -1), false;
    for (int i = 0; i < p->n_sweeps; i++)
        if (!blocks_compile(&x->sweeps[i], x, p, &p->sweeps[i], err)) return false;
    return true;
}

static bool prepare(qb_plan *p, const qb_options *options, qb_error *err)
{
    (void)options;
    if (!isa_supported(err)) return false;
    Exec *x = mem_zeroed(1, sizeof *x);
    if (!x) return error_memory(err, "a compiled plan", sizeof *x), false;
    p->exec = x;
    x->n = p->n_steps;
    x->exes = arena_zeroed(&x->arena, (size_t)x->n, sizeof *x->exes);
    if (!x->exes) return error_memory(err, "a compiled plan", -1), false;
    x->n_base = BASE_ARRAYS + p->n_inputs + p->n_outputs + p->n_consts + p->n_cursors;
    x->work_bytes = mem_lines(p->work_bytes);
    TileSet tiles = {.stride = 64};
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind != STEP_REGION) continue;
        Code c;
        shape_cut(&c, &p->steps[i].region);
        tiles.stride = cpu_larger(tiles.stride, mem_lines(c.tile * 8));
    }
    bool ok = compile_steps(p, x, &tiles, err);
    x->table_bytes = mem_lines(x->n_base * (int64_t)sizeof(char *));
    if (ok) emit_tiles(x, &tiles, isa_now());
    ok = ok && compile_sweeps(p, x, err) && tiles_fill(&tiles, &x->tiles, err);
    tiles_free(&tiles);
    x->n_bound = ok ? bound_count(x) : 0;
    return ok;
}

/* ---- workspaces ---- */

/* Two a thread: one that it works on, one that waits for an earlier block to be added. */
int cpu_slots(int threads) { return threads > 1 ? 2 * threads : 1; }

static int64_t helper_bytes(const Exec *x)
{
    return LINE + x->table_bytes + x->thread_bytes + x->block_bytes;
}

/* Bytes for so many threads; -1 when they overflow. */
static int64_t workspace_bytes(const Exec *x, int threads)
{
    int64_t helpers, sums, n = x->table_bytes,
                           parts[] = {x->work_bytes,   x->parts_bytes,  x->pack_bytes,
                                      x->packed_bytes, x->thread_bytes, x->block_bytes};
    if (!mem_mul(helper_bytes(x), threads - 1, &helpers) ||
        !mem_mul(x->slot_bytes, cpu_slots(threads) + 1, &sums))
        return -1;
    for (int i = 0; i < 6; i++)
        if (__builtin_add_overflow(n, parts[i], &n)) return -1;
    if (__builtin_add_overflow(n, helpers, &n) || __builtin_add_overflow(n, sums, &n)) return -1;
    return n;
}

void cpu_open(Workspace *w, const qb_plan *p, char *at, int threads)
{
    const Exec *x = p->exec;
    *w = (Workspace){.threads = threads,
                     .base = (char **)at,
                     .memory = at,
                     .stride = helper_bytes(x)};
    w->base[BASE_WORK] = at += x->table_bytes;
    w->base[BASE_PARTS] = at += x->work_bytes;
    w->pack = at += x->parts_bytes;
    w->packed = at += x->pack_bytes;
    w->sums = at += x->packed_bytes;
    w->base[BASE_THREAD] = at += x->slot_bytes * (cpu_slots(threads) + 1);
    w->base[BASE_TILES] = x->tiles;
    w->base[BASE_ROWS] = at += x->thread_bytes;
    w->helpers = at + x->block_bytes;
    char **consts = w->base + BASE_ARRAYS + p->n_inputs + p->n_outputs;
    for (int i = 0; i < p->n_consts; i++) consts[i] = p->consts[i]->data;
}

int64_t cpu_bytes(const Exec *x) { return workspace_bytes(x, 1); }

static Workspace *workspace_new(const qb_plan *p, const Exec *x, int threads, qb_error *err)
{
    int64_t bytes = workspace_bytes(x, threads);
    Workspace *w = mem_alloc(sizeof *w);
    void *block = NULL;
    char *memory = bytes >= 0 && w ? mem_alloc_paged((size_t)bytes, &block) : NULL;
    if (!memory) {
        error_memory(err, "the workspace of a plan", bytes);
        mem_free(w);
        return NULL;
    }
    cpu_open(w, p, memory, threads);
    w->memory = block;
    for (int i = 1; i < threads; i++) *(int64_t *)(w->helpers + (i - 1) * w->stride) = 0;
    return w;
}

static void workspace_free(Workspace *w)
{
    if (!w) return;
    mem_free(w->memory);
    mem_free(w);
}

Workspace *cpu_take(const qb_plan *p, qb_error *err)
{
    Exec *x = p->exec;
    int threads = x->parallel ? pool_threads() : 1;
    Workspace *w = atomic_exchange(&x->spare, NULL);
    if (w && w->threads >= threads) return w;
    workspace_free(w);
    return workspace_new(p, x, threads, err);
}

void cpu_give(const qb_plan *p, Workspace *w)
{
    Exec *x = p->exec;
    Workspace *none = NULL;
    if (!atomic_compare_exchange_strong(&x->spare, &none, w)) workspace_free(w);
}

/* ---- run ---- */
typedef struct { /* a step on several threads */
    const Exec *x;
    const Exe *e;
    const Isa *isa;
    Workspace *w;
    int64_t batch; /* of a product whose products run one after the other; else -1 */
} Shared;

char **cpu_bases(const Exec *x, Workspace *w, int thread, bool *fresh)
{
    *fresh = false;
    if (thread == 0) return w->base;
    char *line = w->helpers + (thread - 1) * w->stride;
    char **base = (char **)(line + LINE);
    if (*(int64_t *)line == w->epoch) return base;
    *(int64_t *)line = w->epoch;
    memcpy(base, w->base, (size_t)x->n_base * sizeof *base);
    base[BASE_THREAD] = line + LINE + x->table_bytes;
    base[BASE_ROWS] = base[BASE_THREAD] + x->thread_bytes;
    *fresh = true;
    return base;
}

/* Rows that a region expands are there when a helper first comes to it. */
static char **bases_of(const Shared *s, int thread)
{
    bool fresh;
    char **base = cpu_bases(s->x, s->w, thread, &fresh);
    if (fresh && s->e->kind == STEP_REGION) vm_begin(&s->e->code, s->isa, base);
    return base;
}

static void region_task(void *arg, int64_t task, int thread)
{
    const Shared *s = arg;
    const Code *c = &s->e->code;
    int64_t u = task * c->chunk, end = u + c->chunk < c->units ? u + c->chunk : c->units;
    vm_run(c, s->isa, bases_of(s, thread), u, end);
}

static void run_region(const Exec *x, const Exe *e, const Isa *isa, Workspace *w)
{
    const Code *c = &e->code;
    if (code_settled(c, w->base)) return;
    if (c->small || c->chunk >= c->units || w->threads == 1) {
        vm_alone(c, isa, w->base);
        return;
    }
    vm_begin(c, isa, w->base);
    w->epoch++;
    pool_run_on(region_task, &(Shared){x, e, isa, w, -1}, (c->units + c->chunk - 1) / c->chunk,
                w->threads);
    vm_finish(c, isa, w->base);
}

static void product_task(void *arg, int64_t task, int thread)
{
    const Shared *s = arg;
    product_run(&s->e->product, s->isa, bases_of(s, thread), s->w->pack, s->batch, task);
}

static void run_product(const Exec *x, const Exe *e, const Isa *isa, Workspace *w)
{
    const ProductCode *m = &e->product;
    if (m->tasks == 1 || w->threads == 1) {
        product_alone(m, isa, w->base, w->pack);
        return;
    }
    int64_t rounds = m->form == BATCH_SERIAL ? m->batch : 1;
    for (int64_t i = 0; i < rounds; i++) {
        if (m->form != BATCH_SPREAD) product_pack(m, isa, w->base, w->pack, i);
        w->epoch++;
        pool_run_on(product_task, &(Shared){x, e, isa, w, m->form == BATCH_SERIAL ? i : -1},
                    m->tasks, w->threads);
    }
}

bool cpu_step(const Exec *x, const Exe *e, Workspace *w, const Isa *isa, qb_error *err)
{
    if (e->kind == STEP_LOOP) return control_run(&e->control, isa, w, err);
    if (e->kind == STEP_CALL) return e->call.run(&e->call, w->base, w->pack, err);
    if (e->kind == STEP_REGION)
        run_region(x, e, isa, w);
    else
        run_product(x, e, isa, w);
    return true;
}

/* ---- time ---- */
int64_t cpu_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void cpu_spent(const Workspace *w, int64_t step, int64_t since)
{
    atomic_fetch_add_explicit(&w->ns[step], cpu_clock() - since, memory_order_relaxed);
}

bool cpu_steps(const qb_plan *p, Workspace *w, const Isa *isa, qb_error *err)
{
    const Exec *x = p->exec;
    for (int i = 0, sweep = 0; i < x->n; i++) {
        int64_t start = w->ns ? cpu_clock() : 0;
        const Sweep *s = sweep < x->n_sweeps ? &p->sweeps[sweep] : NULL;
        if (s && s->first - s->beside == i) {
            blocks_run(&x->sweeps[sweep++], x, p, isa, w);
            i += s->beside + s->n - 1;
            continue;
        }
        if (!cpu_step(x, &x->exes[i], w, isa, err)) return false;
        if (w->ns) cpu_spent(w, i, start);
    }
    return true;
}

static bool run_on(const qb_plan *p, Workspace *w, const void *const *in, void *const *out,
                   qb_error *err)
{
    char **arrays = w->base + BASE_ARRAYS;
    Pulse pulse = {1, 0, 0};
    w->pulse = &pulse;
    if (p->n_inputs) memcpy(arrays, in, (size_t)p->n_inputs * sizeof *arrays);
    if (p->n_outputs) memcpy(arrays + p->n_inputs, out, (size_t)p->n_outputs * sizeof *arrays);
    bool ok = cpu_steps(p, w, isa_now(), err);
    w->pulse = NULL;
    return ok;
}

static bool time_run(qb_plan *p, const void *const *in, void *const *out, atomic_llong *ns,
                     qb_error *err)
{
    Workspace *w = cpu_take(p, err);
    if (!w) return false;
    w->ns = ns;
    bool ok = run_on(p, w, in, out, err);
    w->ns = NULL;
    cpu_give(p, w);
    return ok;
}

static bool run(qb_plan *p, const void *const *in, void *const *out, qb_error *err)
{
    const Exec *x = p->exec;
    int64_t bytes = workspace_bytes(x, 1);
    if (!x->parallel && bytes >= 0 && bytes <= STACK_BYTES) {
        _Alignas(64) char memory[STACK_BYTES];
        Workspace w;
        cpu_open(&w, p, memory, 1);
        return run_on(p, &w, in, out, err);
    }
    Workspace *w = cpu_take(p, err);
    if (!w) return false;
    bool ok = run_on(p, w, in, out, err);
    cpu_give(p, w);
    return ok;
}

/* Inside a loop a plan without work for several threads runs in the loop's scratch; the others take a workspace of their own. */
static int64_t room(const qb_plan *p)
{
    const Exec *x = p->exec;
    int64_t bytes = cpu_bytes(x), bound = 2 * x->n_bound * (int64_t)sizeof(Bound);
    if (x->parallel) return 0;
    return bytes < 0 || __builtin_add_overflow(bytes, bound, &bytes) ? -1 : bytes;
}

static void drop(qb_plan *p)
{
    Exec *x = p->exec;
    if (!x) return;
    workspace_free(atomic_load(&x->spare));
    for (int i = 0; x->exes && i < x->n; i++)
        if (x->exes[i].kind == STEP_LOOP) emit_free(&x->exes[i].control.code);
    emit_free(&x->emitted);
    mem_free(x->tiles);
    arena_free(&x->arena);
    mem_free(x);
    p->exec = NULL;
}

const Target cpu_target = {.name = "cpu",
                           .prepare = prepare,
                           .run = run,
                           .drop = drop,
                           .room = room,
                           .sweeps = true,
                           .time = time_run};
