/* tile.c: which jobs run block of points by block of points.

   Most of a training step is a sum over independent points: every value has the points as its
   leading dim, and only sums over them end it. Such jobs run for 128 points, all of them, before
   the next 128: what they hand on stays in the cache of the thread that made it, and threads meet
   once for all of it. By hand this was 1.4 to 2.8 times as fast as an excellent untiled step.

   The jobs fall into three: before, in and after the sweep. A job is in when its iteration space
   begins with the points and of what others in the sweep make it reads the rows of its own points
   only. Whoever needs more (a product with all of a value, the total of a sum) is after, with all
   that follows from it. That is decided from strides alone, in one walk through the jobs, so it
   cannot be wrong, only useless; whether it is worth it is a rule at the end.

   How many points there are is not said anywhere: the extents that carry most work are tried. A
   merged product may hold parts of other extents; it is split for the trial. */
#include "plan/plan.h"
#include <stdlib.h>

enum {
    LEAST_POINTS = 2 * BLOCK, /* fewer are one block or little more */
    LEAST_BYTES = 1 << 19, /* rows of all points that would stay in cache; less does so untiled */
    STEP_BYTES = 4096,     /* in the time that it takes to begin a step on a block */
    SUM_PASSES = 4,        /* a block's part of a sum is written, read, and added to the total */
    EXTENTS = 16,          /* that are counted, and the heaviest of them that are tried */
    CANDIDATES = 4,
    SWEEPS = 4, /* of a plan */
    ROUNDS = 8  /* of a trial, each with more jobs left out */
};

typedef enum { BEFORE, IN, AFTER } When;
/* What a job touches of a slot: elements low .. high, and for each point that many further. */
typedef struct {
    int32_t slot;
    bool write, sum; /* sum: the result of a reduction of points */
    int64_t step, low, high;
} Touch;
typedef struct {
    Draft *d;
    int64_t points;
    uint8_t *when;   /* per job */
    bool *out;       /* per job: it stays out of the sweep */
    uint8_t *made;   /* per slot: when the last of its writers so far runs */
    int32_t *writer; /* per slot: that writer; -1 */
    bool *local;     /* per slot: only jobs of the sweep touch it, point by point */
    Touch *touches;  /* of the job in hand */
    int n_touches, cap_touches;
} Tile;

static TilePolicy policy = TILE_AUTO;
void tile_set(TilePolicy p) { policy = p; }

/* ---- what a job touches ---- */

static bool touch(Tile *t, Touch x)
{
    Touch *all = plan_grow(t->d, t->touches, t->n_touches, &t->cap_touches, sizeof *all);
    if (!all) return false;
    t->touches = all;
    all[t->n_touches++] = x;
    return true;
}

/* Walking n elements by stride widens what is touched. */
static void widen(Touch *x, int64_t n, int64_t stride)
{
    if (stride > 0) x->high += (n - 1) * stride;
    if (stride < 0) x->low += (n - 1) * stride;
}

static bool touch_access(Tile *t, const Region *r, const Access *at, bool write)
{
    int64_t rows = r->dims[0] / t->points;
    Touch x = {at->slot, write, false, rows * at->stride[0], at->offset, at->offset};
    widen(&x, rows, at->stride[0]);
    for (int i = 1; i < r->rank; i++) widen(&x, r->dims[i], at->stride[i]);
    return touch(t, x);
}

static bool sums_points(const Region *r)
{
    return r->form == REDUCE_LEADING || (r->form == REDUCE_TRAILING && r->split == 0);
}

static bool touch_region(Tile *t, const Region *r)
{
    for (int i = 0; i < r->n_loads; i++)
        if (!r->loads[i].splat && !touch_access(t, r, &r->loads[i].at, false)) return false;
    for (int i = 0; i < r->n_stores; i++)
        if (!touch_access(t, r, &r->stores[i].at, true)) return false;
    for (int i = 0; i < r->n_reduces; i++) {
        const Access *at = &r->reduces[i].at;
        if (!(sums_points(r) ? touch(t, (Touch){.slot = at->slot, .write = true, .sum = true})
                             : touch_access(t, r, at, true)))
            return false;
    }
    return true;
}

/* A matrix of rows x cols for every product of the batch. */
static bool touch_mat(Tile *t, const MatMul *m, const Mat *x, int64_t rows, int64_t cols,
                      Along along, bool points_in_rows, bool points_in_cols, bool write)
{
    Touch y = {x->slot, write, false, 0, x->offset, x->offset};
    int64_t n = t->points, first = m->rank ? m->dims[0] : 1;
    if (along == ALONG_BATCH) y.step = (first /= n) * x->batch[0];
    if (points_in_rows) y.step = (rows /= n) * x->row;
    if (points_in_cols) y.step = (cols /= n) * x->col;
    widen(&y, rows, x->row);
    widen(&y, cols, x->col);
    if (m->rank) widen(&y, first, x->batch[0]);
    for (int i = 1; i < m->rank; i++) widen(&y, m->dims[i], x->batch[i]);
    return touch(t, y);
}

static bool touch_product(Tile *t, const MatMul *m, Along along)
{
    bool rows = along == ALONG_ROWS, inner = along == ALONG_INNER;
    for (int i = 0; i < m->n_parts; i++) {
        const MatPart *p = &m->parts[i];
        if (!touch_mat(t, m, &p->a, p->m, m->k, along, rows, inner, false)) return false;
        if (!(inner ? touch(t, (Touch){.slot = p->c.slot, .write = true, .sum = true})
                    : touch_mat(t, m, &p->c, p->m, m->n, along, rows, false, true)))
            return false;
    }
    return touch_mat(t, m, &m->b, m->k, m->n, along, inner, false, false);
}

static bool touch_job(Tile *t, const Step *s, Along along)
{
    t->n_touches = 0;
    return s->kind == STEP_REGION ? touch_region(t, &s->region)
                                  : touch_product(t, &s->matmul, along);
}

/* ---- before, in, after ---- */

/* The extent of s that would have the points; 0: there is none. */
int64_t tile_extent(const Step *s, Along along)
{
    const MatMul *m = &s->matmul;
    if (s->kind == STEP_REGION)
        return along == ALONG_REGION && s->region.rank > 0 ? s->region.dims[0] : 0;
    if (s->kind != STEP_MATMUL || along == ALONG_REGION) return 0;
    if (along == ALONG_BATCH) return m->rank > 0 ? m->dims[0] : 0;
    if (m->rank > 0) return 0;
    return along == ALONG_INNER ? m->k : m->parts[0].m;
}

static bool has_points(const Tile *t, const Step *s, Along along)
{
    int64_t n = tile_extent(s, along);
    if (n == 0 || n % t->points) return false;
    for (int i = 1; along == ALONG_ROWS && i < s->matmul.n_parts; i++)
        if (s->matmul.parts[i].m % t->points) return false;
    return along != ALONG_INNER || n == t->points;
}

/* Does every point have a piece of the slot to itself, and does x stay in it? */
static bool own_piece(const Tile *t, const Touch *x)
{
    const Slot *s = &t->d->p->slots[x->slot];
    int64_t size = s->bytes / type_elem(s->dtype);
    return size % t->points == 0 && x->step == size / t->points && x->low >= 0 && x->high < x->step;
}

/* May the job in hand, whose touches are known, be in the sweep? */
static bool may_be_in(const Tile *t)
{
    for (int i = 0; i < t->n_touches; i++) {
        const Touch *x = &t->touches[i];
        uint8_t made = t->made[x->slot];
        if (made == AFTER || (x->sum && made != BEFORE)) return false;
        if (made == IN && !own_piece(t, x)) return false;
        if (x->write && !x->sum && x->step == 0) return false;
    }
    return true;
}

/* A job that could as well be before, and whose result somebody needs whole: leave it out. True:
   there was one. */
static bool leave_out(Tile *t)
{
    bool found = false;
    for (int i = 0; i < t->n_touches; i++) {
        const Touch *x = &t->touches[i];
        int32_t w = t->writer[x->slot];
        if (x->write || t->made[x->slot] != IN || own_piece(t, x) || w < 0 || t->out[w]) continue;
        const Job *j = t->d->jobs[w];
        bool loose = true;
        for (int k = 0; k < j->reads.n; k++) loose &= t->made[j->reads.at[k]] == BEFORE;
        t->out[w] = loose;
        found |= loose;
    }
    return found;
}

static void note_writes(Tile *t, int job)
{
    for (int i = 0; i < t->n_touches; i++) {
        const Touch *x = &t->touches[i];
        if (!x->write) continue;
        uint8_t when = t->when[job];
        if (when == IN && (x->sum || !own_piece(t, x))) when = AFTER; /* whole at the end only */
        if (when > t->made[x->slot]) t->made[x->slot] = when;
        t->writer[x->slot] = job;
    }
}

/* Does the job need what the sweep or a later job makes? */
static bool waits(const Tile *t, const Job *j)
{
    for (int i = 0; i < j->reads.n; i++)
        if (t->made[j->reads.at[i]] != BEFORE) return true;
    for (int i = 0; i < j->writes.n; i++)
        if (t->made[j->writes.at[i]] != BEFORE) return true;
    return false;
}

/* The job stays out of the sweep. */
static void settle(Tile *t, int job, uint8_t when)
{
    const List *writes = &t->d->jobs[job]->writes;
    t->when[job] = when;
    for (int i = 0; i < writes->n; i++) {
        t->made[writes->at[i]] = when;
        t->writer[writes->at[i]] = job;
    }
}

/* Sets when, and along where the job is in. False: out of memory. */
static bool classify(Tile *t, int job, bool *again)
{
    static const Along forms[] = {ALONG_REGION, ALONG_ROWS, ALONG_BATCH, ALONG_INNER};
    Job *j = t->d->jobs[job];
    j->step.along = ALONG_NONE;
    for (int i = 0; i < 4 && !t->out[job]; i++) {
        if (!has_points(t, &j->step, forms[i])) continue;
        if (!touch_job(t, &j->step, forms[i])) return false;
        if (may_be_in(t)) {
            j->step.along = (uint8_t)forms[i];
            t->when[job] = IN;
            note_writes(t, job);
            return true;
        }
    }
    for (int i = 0; i < 4 && !t->out[job]; i++) {
        if (!has_points(t, &j->step, forms[i])) continue;
        if (!touch_job(t, &j->step, forms[i])) return false;
        *again |= leave_out(t);
    }
    settle(t, job, waits(t, j) ? AFTER : BEFORE);
    return true;
}

/* Slots of the workspace that live in the sweep alone. */
static void find_local(Tile *t)
{
    Draft *d = t->d;
    for (int s = 0; s < d->p->n_slots; s++)
        t->local[s] = d->p->slots[s].kind == SLOT_WORK && t->made[s] == IN;
    for (int j = 0; j < d->n_jobs; j++) {
        if (t->when[j] == IN) continue;
        for (int i = 0; i < d->jobs[j]->reads.n; i++) t->local[d->jobs[j]->reads.at[i]] = false;
        for (int i = 0; i < d->jobs[j]->writes.n; i++) t->local[d->jobs[j]->writes.at[i]] = false;
    }
}

/* A job that shares nothing with the others gains nothing. True: there was one. */
static bool leave_out_lonely(Tile *t)
{
    bool found = false;
    for (int j = 0; j < t->d->n_jobs; j++) {
        const Job *job = t->d->jobs[j];
        bool shares = t->when[j] != IN;
        for (int i = 0; i < job->reads.n; i++) shares |= t->local[job->reads.at[i]];
        for (int i = 0; i < job->writes.n; i++) shares |= t->local[job->writes.at[i]];
        if (!shares) t->out[j] = found = true;
    }
    return found;
}

/* The jobs of an earlier sweep stay together. Returns the job after them. */
static int classify_sweep(Tile *t, int first)
{
    Draft *d = t->d;
    int end = first, sweep = d->jobs[first]->sweep;
    uint8_t when = BEFORE;
    for (; end < d->n_jobs && d->jobs[end]->sweep == sweep; end++)
        if (waits(t, d->jobs[end])) when = AFTER;
    for (int j = first; j < end; j++) settle(t, j, when);
    return end;
}

static bool classify_all(Tile *t)
{
    Draft *d = t->d;
    bool again = true;
    memset(t->out, 0, (size_t)d->n_jobs);
    for (int round = 0; again && round < ROUNDS; round++) {
        again = false;
        memset(t->made, BEFORE, (size_t)d->p->n_slots);
        for (int s = 0; s < d->p->n_slots; s++) t->writer[s] = -1;
        for (int j = 0; j < d->n_jobs;)
            if (d->jobs[j]->sweep)
                j = classify_sweep(t, j);
            else if (!classify(t, j++, &again))
                return false;
        find_local(t);
        again |= leave_out_lonely(t);
    }
    if (again) memset(t->local, 0, (size_t)d->p->n_slots); /* it did not settle: no gain */
    return true;
}

/* ---- worth it? ---- */

/* Bytes that need not go through memory: rows that stay in cache, each time that they are touched,
   less what it takes to carry the sums and to begin steps. 0: not worth it. */
static int64_t gain(const Tile *t)
{
    const Draft *d = t->d;
    const Slot *slots = d->p->slots;
    int64_t rows = 0, saved = 0, sums = 0, begins = 0, blocks = (t->points + BLOCK - 1) / BLOCK;
    for (int s = 0; s < d->p->n_slots; s++)
        if (t->local[s]) rows += slots[s].bytes;
    for (int j = 0; j < d->n_jobs; j++) {
        const Job *job = d->jobs[j];
        if (t->when[j] != IN) continue;
        begins += blocks * STEP_BYTES;
        for (int i = 0; i < job->reads.n; i++)
            if (t->local[job->reads.at[i]]) saved += slots[job->reads.at[i]].bytes;
        for (int i = 0; i < job->writes.n; i++) {
            int32_t s = job->writes.at[i];
            if (t->local[s])
                saved += slots[s].bytes;
            else if (job->step.along == ALONG_INNER)
                sums += SUM_PASSES * blocks * slots[s].bytes;
        }
    }
    if (policy == TILE_ALWAYS) return saved;
    return rows < LEAST_BYTES || saved < sums + begins ? 0 : saved - sums - begins;
}

/* ---- a trial ---- */

/* Has a merged product parts whose rows are a multiple of the points, and others? */
static bool mixed(const Tile *t, const Job *job)
{
    const MatMul *m = &job->step.matmul;
    int in = 0;
    if (job->sweep || job->step.kind != STEP_MATMUL || m->rank > 0) return false;
    for (int i = 0; i < m->n_parts; i++) in += m->parts[i].m % t->points == 0;
    return in > 0 && in < m->n_parts;
}

static Job *part_of(Tile *t, const Job *job, bool in)
{
    Draft *d = t->d;
    const MatMul *m = &job->step.matmul;
    Job *to = plan_alloc(d, 1, sizeof *to);
    MatPart *parts = to ? plan_keep(d, m->n_parts, sizeof *parts) : NULL;
    if (!parts) return NULL;
    *to = *job;
    to->reads = to->writes = (List){0};
    to->step.matmul.parts = parts;
    to->step.matmul.n_parts = 0;
    for (int i = 0; i < m->n_parts; i++)
        if ((m->parts[i].m % t->points == 0) == in) parts[to->step.matmul.n_parts++] = m->parts[i];
    return finish_memory(d, to) ? to : NULL;
}

static bool split(Tile *t, Job **old, int n)
{
    Draft *d = t->d;
    d->jobs = plan_alloc(d, 2 * (int64_t)n, sizeof *d->jobs);
    d->n_jobs = 0;
    for (int j = 0; d->jobs && j < n; j++) {
        if (!mixed(t, old[j])) {
            d->jobs[d->n_jobs++] = old[j];
            continue;
        }
        for (int in = 1; in >= 0; in--)
            if (!(d->jobs[d->n_jobs++] = part_of(t, old[j], in))) return false;
    }
    return d->jobs != NULL;
}

static bool attempt(Tile *t, Job **old, int n, int64_t points)
{
    Draft *d = t->d;
    *t = (Tile){.d = d, .points = points, .touches = t->touches, .cap_touches = t->cap_touches};
    if (!split(t, old, n)) return false;
    t->when = plan_alloc(d, d->n_jobs, sizeof *t->when);
    t->out = plan_alloc(d, d->n_jobs, sizeof *t->out);
    t->made = plan_alloc(d, d->p->n_slots, sizeof *t->made);
    t->writer = plan_alloc(d, d->p->n_slots, sizeof *t->writer);
    t->local = plan_alloc(d, d->p->n_slots, sizeof *t->local);
    return t->when && t->out && t->made && t->writer && t->local && classify_all(t);
}

/* ---- candidates ---- */

typedef struct {
    int64_t points;
    double work;
} Candidate;

static void count(Candidate *c, int *n, int64_t points, double work)
{
    int64_t least = policy == TILE_ALWAYS ? 2 : LEAST_POINTS;
    if (points < least) return;
    for (int i = 0; i < *n; i++)
        if (c[i].points == points) {
            c[i].work += work;
            return;
        }
    if (*n < EXTENTS) c[(*n)++] = (Candidate){points, work};
}

static int heavier(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->work != y->work) return x->work > y->work ? -1 : 1;
    return x->points > y->points ? -1 : x->points < y->points;
}

/* The extents that may be the points, those with most work first. */
static int find_candidates(const Draft *d, Candidate *c)
{
    int n = 0;
    for (int j = 0; j < d->n_jobs; j++) {
        const Step *s = &d->jobs[j]->step;
        const MatMul *m = &s->matmul;
        if (d->jobs[j]->sweep) continue;
        if (s->kind == STEP_REGION) {
            int64_t points = tile_extent(s, ALONG_REGION);
            count(c, &n, points, (double)s->region.size * (s->region.n_instrs + 1));
        } else if (s->kind == STEP_MATMUL) {
            for (int i = 0; i < m->n_parts; i++)
                count(c, &n, m->rank ? m->dims[0] : m->parts[i].m,
                      2.0 * (double)m->parts[i].m * (double)m->n * (double)m->k);
        }
    }
    qsort(c, (size_t)n, sizeof *c, heavier);
    return n < CANDIDATES ? n : CANDIDATES;
}

/* ---- the sweep ---- */

/* Jobs in the order before, in, after. */
static bool arrange(Tile *t)
{
    Draft *d = t->d;
    Job **jobs = plan_alloc(d, d->n_jobs, sizeof *jobs);
    int n = 0;
    if (!jobs) return false;
    for (int when = BEFORE; when <= AFTER; when++)
        for (int j = 0; j < d->n_jobs; j++) {
            if (t->when[j] != when) continue;
            jobs[n++] = d->jobs[j];
            if (when == IN) d->jobs[j]->sweep = d->p->n_sweeps + 1;
        }
    d->jobs = jobs;
    return true;
}

/* One more sweep, if there is one. False: out of memory. */
static bool add_sweep(Tile *t, bool *found)
{
    Draft *d = t->d;
    Job **old = d->jobs;
    Candidate c[EXTENTS];
    int n_old = d->n_jobs, n = find_candidates(d, c), best = -1;
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        if (!attempt(t, old, n_old, c[i].points)) return false;
        int64_t g = gain(t);
        if (g > most) most = g, best = i;
    }
    *found = best >= 0;
    if (*found)
        return attempt(t, old, n_old, c[best].points) && arrange(t) &&
               sweep_make(d, t->points, t->local);
    d->jobs = old;
    d->n_jobs = n_old;
    for (int j = 0; j < n_old; j++)
        if (!old[j]->sweep) old[j]->step.along = ALONG_NONE;
    return true;
}

bool tile_run(Draft *d)
{
    Tile t = {.d = d};
    bool found = d->target->sweeps && policy != TILE_NEVER;
    for (int i = 0; found && i < SWEEPS; i++)
        if (!add_sweep(&t, &found)) return false;
    return sweep_order(d);
}
