/* finish.c: the last touches to regions, once it is known which values are read from memory:
   their stores are added, what nobody uses is dropped, dims that every access walks as one
   become one, and the arrays move to the plan. */
#include "plan/plan.h"

/* Stores of the values that somebody reads from memory, after those that were asked for. */
static bool add_stores(Draft *d, Job *job)
{
    Region *r = &job->step.region;
    for (int i = 0; i < r->n_instrs; i++) {
        Id v = job->values[i];
        Spot spot;
        if (v == NO_ID || !d->stored[v]) continue;
        Store *stores = plan_grow(d, r->stores, r->n_stores, &job->room, sizeof *stores);
        if (!stores || !place_spot(d, v, &spot)) return false;
        r->stores = stores;
        stores[r->n_stores].value = r->n_loads + i;
        place_access(&d->g->types[v], &spot, &stores[r->n_stores++].at);
        if (d->place[v] && !place_fills(d, d->place[v]->parent, job)) return false;
    }
    return true;
}

/* Values that are only computed again elsewhere leave instructions here that nobody uses: drop
   them and their loads. */
static bool prune(Draft *d, Region *r)
{
    int n = r->n_loads + r->n_instrs, loads = 0, instrs = 0;
    int32_t *id = plan_alloc(d, n + 1, sizeof *id) /* 0: unused; then the new id */, next = 0;
    if (!id) return false;
    id++; /* so that id[-1] is the unused operand's */
    for (int i = 0; i < r->n_stores; i++) id[r->stores[i].value] = 1;
    for (int i = 0; i < r->n_reduces; i++) id[r->reduces[i].value] = 1;
    for (int i = r->n_instrs - 1; i >= 0; i--) {
        const Instr *in = &r->instrs[i];
        if (id[r->n_loads + i]) id[in->a] = id[in->b] = id[in->c] = 1;
    }
    id[-1] = -1;
    for (int i = 0; i < n; i++) {
        if (!id[i]) continue;
        id[i] = next++;
        if (i < r->n_loads)
            r->loads[loads++] = r->loads[i];
        else
            r->instrs[instrs++] = r->instrs[i - r->n_loads];
    }
    r->n_loads = loads;
    r->n_instrs = instrs;
    for (int i = 0; i < instrs; i++) {
        r->instrs[i].a = id[r->instrs[i].a];
        r->instrs[i].b = id[r->instrs[i].b];
        r->instrs[i].c = id[r->instrs[i].c];
    }
    for (int i = 0; i < r->n_stores; i++) r->stores[i].value = id[r->stores[i].value];
    for (int i = 0; i < r->n_reduces; i++) r->reduces[i].value = id[r->reduces[i].value];
    return true;
}

static bool one_run(const Access *a, int i, int64_t length)
{
    return a->stride[i] == a->stride[i + 1] * length;
}

/* Can dims i and i + 1 be walked as one by every access? */
static bool joinable(const Region *r, int i)
{
    int64_t length = r->dims[i + 1];
    if (r->form != REDUCE_NONE && i + 1 == r->split) return false;
    for (int k = 0; k < r->n_loads; k++)
        if (!r->loads[k].splat && !one_run(&r->loads[k].at, i, length)) return false;
    for (int k = 0; k < r->n_stores; k++)
        if (!one_run(&r->stores[k].at, i, length)) return false;
    for (int k = 0; k < r->n_reduces; k++)
        if (!one_run(&r->reduces[k].at, i, length)) return false;
    return true;
}

static void drop_stride(Access *a, int i, int rank)
{
    memmove(&a->stride[i], &a->stride[i + 1], (size_t)(rank - i - 1) * sizeof *a->stride);
    a->stride[rank - 1] = 0;
}

static void collapse(Region *r)
{
    for (int i = r->rank - 2; i >= 0; i--) {
        if (!joinable(r, i)) continue;
        for (int k = 0; k < r->n_loads; k++) drop_stride(&r->loads[k].at, i, r->rank);
        for (int k = 0; k < r->n_stores; k++) drop_stride(&r->stores[k].at, i, r->rank);
        for (int k = 0; k < r->n_reduces; k++) drop_stride(&r->reduces[k].at, i, r->rank);
        r->dims[i] *= r->dims[i + 1];
        memmove(&r->dims[i + 1], &r->dims[i + 2], (size_t)(r->rank - i - 2) * sizeof *r->dims);
        if (r->form != REDUCE_NONE && r->split > i) r->split--;
        r->rank--;
    }
}

static bool note_region(Draft *d, Job *job)
{
    const Region *r = &job->step.region;
    for (int i = 0; i < r->n_loads; i++)
        if (!r->loads[i].splat && !plan_note(d, &job->reads, r->loads[i].at.slot)) return false;
    for (int i = 0; i < r->n_stores; i++)
        if (!plan_note(d, &job->writes, r->stores[i].at.slot)) return false;
    for (int i = 0; i < r->n_reduces; i++)
        if (!plan_note(d, &job->writes, r->reduces[i].at.slot)) return false;
    return true;
}

static bool note_product(Draft *d, Job *job)
{
    const MatMul *m = &job->step.matmul;
    for (int i = 0; i < m->n_parts; i++)
        if (!plan_note(d, &job->reads, m->parts[i].a.slot) ||
            !plan_note(d, &job->writes, m->parts[i].c.slot))
            return false;
    return plan_note(d, &job->reads, m->b.slot);
}

bool finish_memory(Draft *d, Job *job)
{
    job->reads.n = job->writes.n = 0;
    return job->step.kind == STEP_REGION ? note_region(d, job) : note_product(d, job);
}

static bool keep_arrays(Draft *d, Region *r)
{
    Load *loads = plan_keep(d, r->n_loads, sizeof *loads);
    Instr *instrs = plan_keep(d, r->n_instrs, sizeof *instrs);
    Store *stores = plan_keep(d, r->n_stores, sizeof *stores);
    Reduce *reduces = plan_keep(d, r->n_reduces, sizeof *reduces);
    if (!loads || !instrs || !stores || !reduces) return false;
    if (r->n_loads) memcpy(loads, r->loads, (size_t)r->n_loads * sizeof *loads);
    if (r->n_instrs) memcpy(instrs, r->instrs, (size_t)r->n_instrs * sizeof *instrs);
    if (r->n_stores) memcpy(stores, r->stores, (size_t)r->n_stores * sizeof *stores);
    if (r->n_reduces) memcpy(reduces, r->reduces, (size_t)r->n_reduces * sizeof *reduces);
    r->loads = loads;
    r->instrs = instrs;
    r->stores = stores;
    r->reduces = reduces;
    return true;
}

bool finish_run(Draft *d)
{
    for (int i = 0; i < d->n_jobs; i++) {
        Job *job = d->jobs[i];
        if (job->step.kind != STEP_REGION) continue;
        if (!add_stores(d, job) || !prune(d, &job->step.region)) return false;
        collapse(&job->step.region);
        if (!finish_memory(d, job) || !keep_arrays(d, &job->step.region)) return false;
    }
    return true;
}
