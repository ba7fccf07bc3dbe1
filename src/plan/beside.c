/* beside.c: which jobs run beside a sweep.

   What runs before a sweep and hands nothing to it, such as the loss at the boundary points, can run
   while it runs. Often its steps are too short to be shared by threads; then all but one of them
   would wait. As one more task of the sweep it fills a gap at its end. It is one task, so it is
   worth it only while it is no more work than a block of points. */
#include "plan/plan.h"

static double work(const Step *s)
{
    if (s->kind == STEP_REGION) return (double)s->region.size * (s->region.n_instrs + 1);
    const MatMul *m = &s->matmul;
    double rows = 0;
    for (int i = 0; i < m->n_parts; i++) rows += (double)m->parts[i].m;
    for (int i = 0; i < m->rank; i++) rows *= (double)m->dims[i];
    return 2 * rows * (double)m->n * (double)m->k;
}

static void mark(bool *slots, const Job *j)
{
    for (int i = 0; i < j->reads.n; i++) slots[j->reads.at[i]] = true;
    for (int i = 0; i < j->writes.n; i++) slots[j->writes.at[i]] = true;
}

static bool touches(const bool *slots, const List *list)
{
    for (int i = 0; i < list->n; i++)
        if (slots[list->at[i]]) return true;
    return false;
}

/* Of the jobs begin .. first of which none is in a sweep, those that the sweep can do without go to
   the end. used: slots that the sweep touches, and the jobs before it that it cannot do without. */
static bool choose(Draft *d, Sweep *s, int begin)
{
    int n = s->first - begin, n_beside = 0;
    bool *used = plan_alloc(d, d->p->n_slots, sizeof *used);
    bool *beside = plan_alloc(d, n, sizeof *beside);
    Job **jobs = plan_alloc(d, n, sizeof *jobs);
    double block = 0, all = 0;
    if (!used || !beside || !jobs) return false;
    for (int j = s->first; j < s->first + s->n; j++) {
        mark(used, d->jobs[j]);
        block += work(&d->jobs[j]->step);
    }
    for (int j = n - 1; j >= 0; j--) {
        const Job *job = d->jobs[begin + j];
        bool own = job->step.kind == STEP_REGION || job->step.kind == STEP_MATMUL;
        beside[j] = own && !touches(used, &job->writes);
        if (beside[j])
            all += work(&job->step), n_beside++;
        else
            mark(used, job);
    }
    if (all > block) return true;
    for (int j = 0, at[] = {0, n - n_beside}; j < n; j++)
        jobs[at[beside[j]]++] = d->jobs[begin + j];
    memcpy(d->jobs + begin, jobs, (size_t)n * sizeof *jobs);
    s->beside = n_beside;
    return true;
}

bool beside_run(Draft *d)
{
    for (int i = 0, begin = 0; i < d->p->n_sweeps; i++) {
        Sweep *s = &d->p->sweeps[i];
        if (!choose(d, s, begin)) return false;
        begin = s->first + s->n;
    }
    return true;
}
