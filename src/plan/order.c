/* order.c: the order in which jobs run. Among the jobs whose operands are there, the one that
   frees most memory (less what it newly needs) runs next: results are consumed while they are in
   cache, and the workspace stays small. Ties go to the smaller depth, then to the earlier job,
   so the order is a function of the program. Where a checkpoint computes something again, which
   must not happen early whatever it frees, depth comes first. */
#include "plan/plan.h"

typedef struct {
    int32_t late; /* 0, or the depth of a job that is not to run before those of smaller depths */
    int64_t score;
    int32_t depth, job;
} Entry;
typedef struct {
    Draft *d;
    int32_t *first, *reader; /* jobs that read slot s: reader[first[s]] .. reader[first[s + 1]] */
    int32_t *readers, *writers; /* per slot: how many have yet to run */
    bool *started;              /* per slot: somebody has written to it */
    int32_t *waits;             /* per job: slots that it reads and that are not complete */
    bool *done;
    Entry *heap;
    int n_heap, cap_heap;
    Job **order;
    int n_order;
} Order;

static bool idle(const Job *j)
{
    return j->step.kind == STEP_REGION && j->step.region.n_stores == 0 &&
           j->step.region.n_reduces == 0;
}

/* ---- a heap of ready jobs; an entry may be out of date, then the job has a better one or is
   done ---- */

static bool before(const Entry *a, const Entry *b)
{
    if (a->late != b->late) return a->late < b->late;
    if (a->score != b->score) return a->score > b->score;
    if (a->depth != b->depth) return a->depth < b->depth;
    return a->job < b->job;
}

static bool push(Order *o, Entry e)
{
    Entry *heap = plan_grow(o->d, o->heap, o->n_heap, &o->cap_heap, sizeof *heap);
    if (!heap) return false;
    o->heap = heap;
    int i = o->n_heap++;
    for (int up; i > 0 && before(&e, &heap[up = (i - 1) / 2]); i = up) heap[i] = heap[up];
    heap[i] = e;
    return true;
}

static Entry pop(Order *o)
{
    Entry top = o->heap[0], e = o->heap[--o->n_heap];
    int i = 0;
    for (int down = 1; down < o->n_heap; down = 2 * i + 1) {
        if (down + 1 < o->n_heap && before(&o->heap[down + 1], &o->heap[down])) down++;
        if (!before(&o->heap[down], &e)) break;
        o->heap[i] = o->heap[down];
        i = down;
    }
    o->heap[i] = e;
    return top;
}

/* ---- readiness ---- */

static int64_t score(const Order *o, const Job *j)
{
    const Slot *slots = o->d->p->slots;
    int64_t bytes = 0;
    for (int i = 0; i < j->reads.n; i++) {
        int32_t s = j->reads.at[i];
        if (slots[s].kind == SLOT_WORK && o->readers[s] == 1) bytes += slots[s].bytes;
    }
    for (int i = 0; i < j->writes.n; i++) {
        int32_t s = j->writes.at[i];
        if (slots[s].kind == SLOT_WORK && !o->started[s]) bytes -= slots[s].bytes;
    }
    return bytes;
}

static bool offer(Order *o, int32_t job)
{
    const Job *j = o->d->jobs[job];
    if (o->waits[job] > 0 || o->done[job] || j->fill || idle(j)) return true;
    return push(o, (Entry){.late = j->depth >= o->d->late ? j->depth : 0,
                           .score = score(o, j),
                           .depth = j->depth,
                           .job = job});
}

/* One reader fewer; when one is left it would free the slot, which makes it more attractive. */
static bool was_read(Order *o, int32_t slot)
{
    if (--o->readers[slot] != 1) return true;
    for (int32_t i = o->first[slot]; i < o->first[slot + 1]; i++)
        if (!o->done[o->reader[i]]) return offer(o, o->reader[i]);
    return true;
}

static bool was_written(Order *o, int32_t slot)
{
    o->started[slot] = true;
    if (--o->writers[slot] > 0) return true;
    for (int32_t i = o->first[slot]; i < o->first[slot + 1]; i++)
        if (--o->waits[o->reader[i]] == 0 && !offer(o, o->reader[i])) return false;
    return true;
}

static bool take(Order *o, int32_t job)
{
    Job *j = o->d->jobs[job];
    o->done[job] = true;
    for (int i = 0; i < j->fills.n; i++) {
        int32_t fill = j->fills.at[i];
        if (o->done[fill]) continue;
        o->done[fill] = true;
        o->order[o->n_order++] = o->d->jobs[fill];
    }
    o->order[o->n_order++] = j;
    for (int i = 0; i < j->reads.n; i++)
        if (!was_read(o, j->reads.at[i])) return false;
    for (int i = 0; i < j->writes.n; i++)
        if (!was_written(o, j->writes.at[i])) return false;
    return true;
}

/* ---- set-up: who reads and writes what ---- */

static bool count(Order *o)
{
    Draft *d = o->d;
    int n = d->p->n_slots;
    o->first = plan_alloc(d, n + 1, sizeof *o->first);
    o->readers = plan_alloc(d, n, sizeof *o->readers);
    o->writers = plan_alloc(d, n, sizeof *o->writers);
    o->started = plan_alloc(d, n, sizeof *o->started);
    o->waits = plan_alloc(d, d->n_jobs, sizeof *o->waits);
    o->done = plan_alloc(d, d->n_jobs, sizeof *o->done);
    o->order = plan_alloc(d, d->n_jobs, sizeof *o->order);
    if (!o->first || !o->readers || !o->writers || !o->started || !o->waits || !o->done ||
        !o->order)
        return false;
    for (int j = 0; j < d->n_jobs; j++) {
        const Job *job = d->jobs[j];
        if (job->fill || idle(job)) continue;
        for (int i = 0; i < job->reads.n; i++) o->readers[job->reads.at[i]]++;
        for (int i = 0; i < job->writes.n; i++) o->writers[job->writes.at[i]]++;
    }
    for (int s = 0; s < n; s++) o->first[s + 1] = o->first[s] + o->readers[s];
    o->reader = plan_alloc(d, o->first[n], sizeof *o->reader);
    return o->reader != NULL;
}

static bool list(Order *o)
{
    Draft *d = o->d;
    int32_t *at = plan_alloc(d, d->p->n_slots, sizeof *at);
    if (!at) return false;
    memcpy(at, o->first, (size_t)d->p->n_slots * sizeof *at);
    for (int j = 0; j < d->n_jobs; j++) {
        const Job *job = d->jobs[j];
        if (job->fill || idle(job)) continue;
        for (int i = 0; i < job->reads.n; i++) {
            int32_t s = job->reads.at[i];
            o->reader[at[s]++] = j;
            o->waits[j] += o->writers[s] > 0;
        }
    }
    return true;
}

bool order_run(Draft *d)
{
    Order o = {.d = d};
    if (!count(&o) || !list(&o)) return false;
    int wanted = 0;
    for (int j = 0; j < d->n_jobs; j++) {
        wanted += !d->jobs[j]->fill && !idle(d->jobs[j]);
        if (!offer(&o, j)) return false;
    }
    while (o.n_heap > 0) {
        Entry e = pop(&o);
        if (o.done[e.job]) continue;
        if (!take(&o, e.job)) return false;
        wanted--;
    }
    if (wanted > 0) return plan_fail(d, QB_EBUG, "%d steps of a plan wait for each other", wanted);
    d->jobs = o.order;
    d->n_jobs = o.n_order;
    return true;
}
