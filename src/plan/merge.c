/* merge.c: matmul steps. Products of one depth that share their right operand become one step
   with several parts, so that W is packed once for the value, its derivatives and their reverse.
   Never along k, which would change bits. Batch axes that can be walked as rows become rows:
   [B,m,k] x [k,n] is one product of B*m rows, and so are B columns times one matrix. */
#include "plan/plan.h"

/* Strides of the last two dims and of the batch. A dim of length 1 gets the stride that a
   row-major matrix has there. */
static void mat_of(const Type *t, int slot, int64_t offset, const int64_t *stride, Mat *out)
{
    int rank = t->rank;
    *out = (Mat){.slot = slot, .offset = offset, .row = stride[rank - 2], .col = stride[rank - 1]};
    memcpy(out->batch, stride, (size_t)(rank - 2) * sizeof *stride);
    if (t->dims[rank - 1] == 1) out->col = 1;
    if (t->dims[rank - 2] == 1) out->row = t->dims[rank - 1];
}

static bool operand(Draft *d, Id x, Mat *out)
{
    View w;
    view_of(d, x, &w);
    bool splat = d->made[w.base] == MADE_SPLAT;
    if (d->place[w.base]) return plan_fail(d, QB_EBUG, "a part of a concat is read alone");
    mat_of(&d->g->types[x], memory_slot(d, w.base), w.offset, w.stride, out);
    if (splat) *out = (Mat){.slot = out->slot}; /* one element in memory */
    return out->slot >= 0;
}

static void drop_batch(MatMul *m, int i)
{
    size_t bytes = (size_t)(m->rank - i - 1) * sizeof *m->dims;
    Mat *mats[] = {&m->b, &m->parts[0].a, &m->parts[0].c};
    memmove(&m->dims[i], &m->dims[i + 1], bytes);
    for (int k = 0; k < 3; k++) {
        memmove(&mats[k]->batch[i], &mats[k]->batch[i + 1], bytes);
        mats[k]->batch[m->rank - 1] = 0;
    }
    m->rank--;
}

/* Columns b times one matrix A for all of them: as rows, b^T A^T. The factors of every product
   change sides, which changes no bit. */
static void columns_to_rows(MatMul *m)
{
    MatPart *p = &m->parts[0];
    int last = m->rank - 1;
    if (last < 0 || m->n != 1 || p->m == 1 || p->c.row != 1) return;
    for (int i = 0; i <= last; i++)
        if (p->a.batch[i] != 0) return;
    Mat a = p->a;
    p->a = m->b;
    p->a.col = m->b.row;
    p->a.row = m->b.batch[last];
    m->b = a;
    m->b.row = a.col;
    m->b.col = a.row;
    p->c.row = p->c.batch[last];
    p->c.col = 1;
    m->n = p->m;
    p->m = m->dims[last];
    p->a.batch[last] = p->c.batch[last] = 0;
    m->rank--;
}

/* Batch dims go away where they are 1, where they are more rows, or where two can be walked as
   one. */
static void collapse(MatMul *m)
{
    MatPart *p = &m->parts[0];
    for (int i = m->rank - 1; i >= 0; i--)
        if (m->dims[i] == 1) drop_batch(m, i);
    columns_to_rows(m);
    for (int i = m->rank - 1; i >= 0 && m->b.batch[i] == 0; i--) {
        if (p->m == 1)
            p->a.row = p->a.batch[i], p->c.row = p->c.batch[i];
        else if (p->a.batch[i] != p->m * p->a.row || p->c.batch[i] != p->m * p->c.row)
            break;
        p->m *= m->dims[i];
        drop_batch(m, i);
    }
    for (int i = m->rank - 2; i >= 0; i--) {
        int64_t n = m->dims[i + 1];
        if (m->b.batch[i] != n * m->b.batch[i + 1] || p->a.batch[i] != n * p->a.batch[i + 1] ||
            p->c.batch[i] != n * p->c.batch[i + 1])
            continue;
        m->dims[i + 1] *= m->dims[i];
        drop_batch(m, i);
    }
}

static bool matmul_of(Draft *d, const Node *n, MatMul *m)
{
    const Type *a = &d->g->types[n->x[0]], *c = &d->g->types[n->first];
    Spot spot;
    *m = (MatMul){.n = c->dims[c->rank - 1],
                  .k = a->dims[a->rank - 1],
                  .rank = c->rank - 2,
                  .dtype = c->dtype,
                  .n_parts = 1};
    m->parts = plan_keep(d, 1, sizeof *m->parts);
    if (!m->parts || !place_spot(d, n->first, &spot)) return false;
    m->parts[0].m = c->dims[c->rank - 2];
    memcpy(m->dims, c->dims, (size_t)m->rank * sizeof *m->dims);
    mat_of(c, spot.slot, spot.offset, spot.stride, &m->parts[0].c);
    if (!operand(d, n->x[0], &m->parts[0].a) || !operand(d, n->x[1], &m->b)) return false;
    collapse(m);
    return true;
}

static bool same_right(const MatMul *a, const MatMul *b)
{
    return a->rank == 0 && b->rank == 0 && a->n == b->n && a->k == b->k && a->dtype == b->dtype &&
           a->b.slot == b->b.slot && a->b.offset == b->b.offset && a->b.row == b->b.row &&
           a->b.col == b->b.col;
}

/* An earlier job of this depth that has the same right operand. */
static Job *find(const Draft *d, const HashIndex *index, uint64_t hash, const MatMul *m, int depth)
{
    uint32_t at = HASH_START;
    for (uint32_t id = hash_next(index, hash, &at); id != UINT32_MAX;
         id = hash_next(index, hash, &at))
        if (d->jobs[id]->depth == depth && same_right(&d->jobs[id]->step.matmul, m))
            return d->jobs[id];
    return NULL;
}

static bool add_part(Draft *d, Job *job, const MatMul *m)
{
    MatMul *all = &job->step.matmul;
    if (all->n_parts == job->room) {
        MatPart *parts = plan_keep(d, 2 * (int64_t)all->n_parts, sizeof *parts);
        if (!parts) return false;
        memcpy(parts, all->parts, (size_t)all->n_parts * sizeof *parts);
        job->room = 2 * all->n_parts;
        all->parts = parts;
    }
    all->parts[all->n_parts++] = m->parts[0];
    return true;
}

static bool add_product(Draft *d, const Node *n, HashIndex *index)
{
    MatMul m;
    int depth = d->depth[n->first];
    if (!matmul_of(d, n, &m)) return false;
    uint64_t hash =
        hash_mix(hash_mix(hash_mix((uint64_t)depth, (uint64_t)m.b.slot), (uint64_t)m.b.offset),
                 (uint64_t)m.b.row);
    Job *job = m.rank == 0 ? find(d, index, hash, &m, depth) : NULL;
    if (job) {
        if (!add_part(d, job, &m)) return false;
    } else {
        job = plan_job(d, STEP_MATMUL, depth);
        if (!job) return false;
        job->step.matmul = m;
        job->room = 1;
        job->step.file = n->file;
        job->step.line = n->line;
        if (!hash_add(index, hash, (uint32_t)d->n_jobs - 1))
            return error_memory(d->err, "a plan", -1), false;
    }
    const Place *place = d->place[n->first];
    return plan_note(d, &job->reads, m.b.slot) && plan_note(d, &job->reads, m.parts[0].a.slot) &&
           plan_note(d, &job->writes, m.parts[0].c.slot) &&
           (!place || place_fills(d, place->parent, job));
}

bool merge_run(Draft *d)
{
    HashIndex index = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < d->g->n_nodes; i++)
        if (d->made[d->g->nodes[i].first] == MADE_MATMUL)
            ok = add_product(d, &d->g->nodes[i], &index);
    hash_free(&index);
    return ok;
}
