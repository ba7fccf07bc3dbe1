/* plan.c: from a graph to a plan. compile() below is the pipeline; read it aloud.

     expand          expand.c  functions with rules of their own become their values
     simplify, dce   graph -> graph
     turn            turn.c    matrices that a loop multiplies columns by, transposed before it
     cut             cut.c     elementwise work on joined arrays, part by part
     absorb          view.c    which values are views, and the strides
     place           place.c   which values are made in the memory of an output or a concat
     depth           depth.c   when each value can be made, which ones are stored
     fuse            fuse.c    clusters of elementwise nodes, reductions, copies; then region.c
     merge           merge.c   matmul jobs
     call            call.c    jobs of ops that want their operands in memory
     loop            loop.c    jobs for cond, scan and while; their bodies are compiled
     finish          finish.c  stores of what others read; unused work goes; dims collapse
     order           order.c   jobs in the order in which they run
     tile            tile.c    jobs that run block of points by block of points; then sweep.c
     beside          beside.c  jobs that run at the same time as a sweep
     memory          memory.c  offsets in the workspace

   What the passes hand on is the Draft of plan.h. It lives in one scratch arena; the plan keeps
   nothing of it, and nothing of the graph but a reference for as_text(). */
#include "plan/plan.h"

/* ---- memory of the draft ---- */

static void *out_of_memory(Draft *d)
{
    error_memory(d->err, "a plan", -1);
    return NULL;
}

void *plan_alloc(Draft *d, int64_t n, size_t size)
{
    void *p = arena_zeroed(&d->scratch, (size_t)n, size);
    return p ? p : out_of_memory(d);
}

void *plan_keep(Draft *d, int64_t n, size_t size)
{
    void *p = arena_zeroed(&d->p->arena, (size_t)n, size);
    return p ? p : out_of_memory(d);
}

void *plan_grow(Draft *d, void *p, int used, int *cap, size_t size)
{
    if (used < *cap) return p;
    if (used > INT32_MAX / 4) return out_of_memory(d);
    int room = used < 4 ? 8 : 2 * used;
    void *q = arena_alloc(&d->scratch, (size_t)room * size);
    if (!q) return out_of_memory(d);
    if (used) memcpy(q, p, (size_t)used * size);
    memset((char *)q + (size_t)used * size, 0, (size_t)(room - used) * size);
    *cap = room;
    return q;
}

bool plan_note(Draft *d, List *set, int32_t x)
{
    for (int i = 0; i < set->n; i++)
        if (set->at[i] == x) return true;
    int32_t *at = plan_grow(d, set->at, set->n, &set->cap, sizeof *at);
    if (!at) return false;
    set->at = at;
    at[set->n++] = x;
    return true;
}

Job *plan_job(Draft *d, StepKind kind, int depth)
{
    Job *job = plan_alloc(d, 1, sizeof *job);
    Job **jobs = job ? plan_grow(d, d->jobs, d->n_jobs, &d->cap_jobs, sizeof *jobs) : NULL;
    if (!jobs) return NULL;
    job->step.kind = kind;
    job->depth = depth;
    d->jobs = jobs;
    return jobs[d->n_jobs++] = job;
}

bool plan_fail(Draft *d, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error_setv(d->err, code, format, args);
    va_end(args);
    return false;
}

/* ---- the end: what the plan keeps ---- */

static bool keep_types(Draft *d, const Graph *source)
{
    qb_plan *p = d->p;
    p->n_inputs = (int)source->n_inputs;
    p->n_outputs = (int)source->n_outputs;
    p->in_types = plan_keep(d, p->n_inputs, sizeof *p->in_types);
    p->out_types = plan_keep(d, p->n_outputs, sizeof *p->out_types);
    if (!p->in_types || !p->out_types) return false;
    for (int i = 0; i < p->n_inputs; i++) p->in_types[i] = source->types[source->inputs[i]];
    for (int i = 0; i < p->n_outputs; i++) p->out_types[i] = source->types[source->outputs[i]];
    return true;
}

/* Steps name the user's files; a program has few, often one. */
static bool keep_file(Draft *d, Step *step, const Step *before)
{
    if (!step->file) return true;
    for (const Step *s = step - 1; s >= before && s > step - 8; s--)
        if (s->file && strcmp(s->file, step->file) == 0) return step->file = s->file, true;
    step->file = arena_text(&d->p->arena, step->file);
    return step->file || out_of_memory(d);
}

static bool keep_steps(Draft *d)
{
    qb_plan *p = d->p;
    p->n_steps = d->n_jobs;
    p->steps = plan_keep(d, d->n_jobs, sizeof *p->steps);
    if (!p->steps) return false;
    for (int i = 0; i < d->n_jobs; i++) {
        p->steps[i] = d->jobs[i]->step;
        if (!keep_file(d, &p->steps[i], p->steps)) return false;
    }
    return true;
}

static bool keep(Draft *d, void *list, int n, size_t size)
{
    void *old, *to = plan_keep(d, n, size);
    if (!to) return false;
    memcpy(&old, list, sizeof old);
    if (n) memcpy(to, old, (size_t)n * size);
    memcpy(list, &to, sizeof to);
    return true;
}

/* What grew in scratch. */
static bool keep_slots(Draft *d)
{
    qb_plan *p = d->p;
    return keep(d, &p->slots, p->n_slots, sizeof *p->slots) &&
           keep(d, &p->consts, p->n_consts, sizeof *p->consts) &&
           keep(d, &p->bodies, p->n_bodies, sizeof *p->bodies) &&
           keep(d, &p->sweeps, p->n_sweeps, sizeof *p->sweeps) &&
           keep(d, &p->cursors, p->n_cursors, sizeof *p->cursors);
}

static void drop_parts(qb_plan *p)
{
    for (int i = 0; i < p->n_consts; i++) qb_buffer_release(p->consts[i]);
    for (int i = 0; i < p->n_bodies; i++) plan_release(p->bodies[i]);
    p->n_consts = p->n_bodies = 0;
}

/* ---- the pipeline ---- */

typedef Graph *Pass(const Graph *g, qb_error *err);

static Graph *run(Pass *pass, Graph *g, qb_error *err)
{
    Graph *to = g ? pass(g, err) : NULL;
    graph_release(g);
    return to;
}

/* Again where a predicate turned out to be constant: no pass has seen what the branch brought in. */
static Graph *optimize(const Graph *source, bool native, qb_error *err)
{
    Graph *g = graph_retain((Graph *)(uintptr_t)source);
    do {
        g = run(expand_run, g, err);
        g = run(native ? simplify_native : simplify_run, g, err);
        if (g) dump_graph("simplify", g);
        if (g && !g->spliced) g = run(dce_run, g, err);
    } while (g && g->spliced);
    if (g) dump_graph("dce", g);
    g = run(turn_run, g, err);
    if (g) dump_graph("turn", g);
    g = run(cut_run, g, err);
    if (g) dump_graph("cut", g);
    return g;
}

static bool compile(Draft *d, const Graph *source)
{
    if (!view_absorb(d) || !memory_open(d) || !place_run(d) || !loop_open(d) || !depth_run(d))
        return false;
    if (!fuse_run(d) || !merge_run(d) || !call_run(d) || !loop_run(d) || !finish_run(d))
        return false;
    dump_draft("fuse", d);
    if (!order_run(d) || !tile_run(d) || !beside_run(d) || !memory_run(d)) return false;
    if (!keep_types(d, source) || !keep_steps(d) || !keep_slots(d)) return false;
    dump_plan("memory", d->p);
    return true;
}

qb_plan *plan_compile(const Graph *g, const Target *t, const qb_options *options, qb_error *err)
{
    qb_plan *p = mem_zeroed(1, sizeof *p);
    if (!p) return error_memory(err, "a plan", -1), NULL;
    atomic_init(&p->refs, 1);
    p->native = options && options->precision && strcmp(options->precision, "float32") == 0;
    p->graph = optimize(g, p->native, err);
    bool ok = p->graph != NULL;
    if (ok) {
        Draft d = {.g = p->graph, .p = p, .err = err, .target = t, .options = options};
        ok = compile(&d, g);
        if (!ok) drop_parts(p); /* their lists are in scratch */
        arena_free(&d.scratch);
    }
    if (ok) {
        p->target = t;
        ok = t->prepare(p, options, err);
    }
    if (ok) return p;
    plan_release(p);
    return NULL;
}

/* The scratch of a loop holds the memory of its bodies; those that share work among threads have their own. A sweep has rows for each
   thread, and a total and two blocks a thread of sums. */
int64_t plan_workspace(const qb_plan *p)
{
    int64_t bytes = p->work_bytes;
    for (int i = 0; i < p->n_bodies; i++)
        if (p->target->room && p->target->room(p->bodies[i]) == 0)
            bytes += plan_workspace(p->bodies[i]);
    for (int i = 0; i < p->n_sweeps; i++) {
        const Sweep *w = &p->sweeps[i];
        int64_t threads = pool_threads();
        bytes += threads * w->rows_bytes + (2 * threads + 1) * w->part_bytes;
    }
    return bytes;
}

void plan_release(qb_plan *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    if (p->target) p->target->drop(p);
    drop_parts(p);
    graph_release(p->graph);
    arena_free(&p->arena);
    mem_free(p);
}
