/* reference.h: a target that runs plan steps element by element, in plain scalar code and the
   order contract of plan.h, so that plans are tested apart from vector kernels. It is strict: an
   access outside its slot, a step that reads what no step has written, or an output that is not
   written whole is a failed check. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "../../src/plan/plan.h"
#include "../../src/scalar.h"
#include "element.h"
#include "test.h"
#include <stdlib.h>

typedef struct {
    const qb_plan *p;
    char **base;    /* memory of each slot */
    char **written; /* per byte; NULL: inputs and constants, which always are */
    bool ok;
} RefRun;

static inline double ref_round(int dtype, double v)
{
    if (dtype == QB_F32) return (double)(float)v;
    return dtype == QB_BOOL ? v != 0 : v;
}

/* The address of element `at` of a slot; write says that it is written. */
static inline char *ref_at(RefRun *r, int slot, int64_t at, bool write)
{
    int64_t elem = type_elem(r->p->slots[slot].dtype);
    if (at < 0 || (at + 1) * elem > r->p->slots[slot].bytes) {
        r->ok = false;
        return NULL;
    }
    char *w = r->written[slot] ? r->written[slot] + at * elem : NULL;
    for (int i = 0; w && i < elem; i++) {
        if (write)
            w[i] = 1;
        else if (!w[i])
            r->ok = false;
    }
    return r->base[slot] + at * elem;
}

static inline double ref_load(RefRun *r, int slot, int64_t at)
{
    const char *p = ref_at(r, slot, at, false);
    return p ? element_get(r->p->slots[slot].dtype, p, 0) : 0;
}

static inline void ref_store(RefRun *r, int slot, int64_t at, double v)
{
    char *p = ref_at(r, slot, at, true);
    if (p) element_set(r->p->slots[slot].dtype, p, 0, v);
}

static inline int64_t ref_index(const Region *g, const Access *a, int64_t i)
{
    int64_t at = a->offset;
    for (int k = g->rank - 1; k >= 0; k--) {
        at += i % g->dims[k] * a->stride[k];
        i /= g->dims[k];
    }
    return at;
}

static inline double ref_instr(const Instr *in, const double *v)
{
    double a = v[in->a], z = a;
    if (in->op == OP_where)
        z = a != 0 ? v[in->b] : v[in->c];
    else if (in->op == OP_powi)
        z = q_powi(a, in->i);
    else if (in->op != OP_cast)
        z = value_scalar(in->op, in->in, a, in->b >= 0 ? v[in->b] : 0);
    return ref_round(in->out, z);
}

/* count elements at x, stride apart, in the order contract. */
static inline double ref_reduce(int op, const double *x, int64_t stride, int64_t count)
{
    double total = 0;
    if (op == OP_max || op == OP_min) {
        total = x[0];
        for (int64_t k = 0; k < count; k++)
            total =
                op == OP_max ? q_max_step(total, x[k * stride]) : q_min_step(total, x[k * stride]);
        return total;
    }
    for (int64_t block = 0; block < count; block += BLOCK) {
        double lane[SUM_LANES];
        for (int i = 0; i < SUM_LANES; i++) lane[i] = -0.0;
        for (int64_t k = block; k < count && k < block + BLOCK; k++)
            lane[k % SUM_LANES] += x[k * stride];
        for (int w = SUM_LANES / 2; w > 0; w /= 2)
            for (int i = 0; i < w; i++) lane[i] += lane[i + w];
        total = block ? total + lane[0] : lane[0];
    }
    return op == OP_mean ? total / (double)count : total;
}

static inline void ref_reductions(RefRun *r, const Region *g, const double *kept)
{
    int64_t count = 1;
    bool leading = g->form == REDUCE_LEADING;
    for (int i = leading ? 0 : g->split; i < (leading ? g->split : g->rank); i++)
        count *= g->dims[i];
    int64_t results = g->size / count;
    for (int k = 0; k < g->n_reduces; k++) {
        const Reduce *red = &g->reduces[k];
        const double *x = kept + k * g->size;
        for (int64_t i = 0; i < results; i++) {
            int64_t first = leading ? i : i * count;
            double v = ref_reduce(red->op, x + first, leading ? results : 1, count);
            ref_store(r, red->at.slot, ref_index(g, &red->at, first), v);
        }
    }
}

/* No dim of length 1, no dims that could be one, every id in range: what plan.h promises of a
   region. */
static inline bool ref_well_formed(const Region *g)
{
    int64_t size = 1;
    for (int i = 0; i < g->rank; i++) {
        if (g->dims[i] < 2) return false;
        size *= g->dims[i];
    }
    if (size != g->size || g->n_stores + g->n_reduces == 0 ||
        (g->form != REDUCE_NONE) != (g->n_reduces > 0))
        return false;
    if (g->form == REDUCE_LEADING && (g->split < 1 || g->split >= g->rank)) return false;
    if (g->form == REDUCE_TRAILING && g->split >= g->rank) return false;
    for (int i = 0; i < g->n_instrs; i++) {
        const Instr *in = &g->instrs[i];
        int32_t end = g->n_loads + i;
        if (in->a < 0 || in->a >= end || in->b >= end || in->c >= end) return false;
        if (in->b < 0 && (in->c >= 0 || op_table[in->op].arity > 1)) return false;
    }
    return true;
}

static inline void ref_region(RefRun *r, const Region *g)
{
    int values = g->n_loads + g->n_instrs;
    double *v = calloc((size_t)values + 1, sizeof *v),
           *kept = calloc((size_t)(g->n_reduces * g->size) + 1, sizeof *kept);
    if (!ref_well_formed(g)) r->ok = false;
    for (int64_t i = 0; r->ok && i < g->size; i++) {
        for (int k = 0; k < g->n_loads; k++) {
            const Load *l = &g->loads[k];
            v[k] = l->splat ? l->value : ref_load(r, l->at.slot, ref_index(g, &l->at, i));
        }
        for (int k = 0; k < g->n_instrs; k++) v[g->n_loads + k] = ref_instr(&g->instrs[k], v);
        for (int k = 0; k < g->n_stores; k++)
            ref_store(r, g->stores[k].at.slot, ref_index(g, &g->stores[k].at, i),
                      v[g->stores[k].value]);
        for (int k = 0; k < g->n_reduces; k++) kept[k * g->size + i] = v[g->reduces[k].value];
    }
    if (r->ok && g->n_reduces) ref_reductions(r, g, kept);
    free(v);
    free(kept);
}

static inline void ref_product(RefRun *r, const MatMul *m, const MatPart *p, int64_t a0, int64_t b0,
                               int64_t c0)
{
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < m->n; j++) {
            double total = 0;
            for (int64_t block = 0; block < m->k; block += BLOCK) {
                double acc = 0;
                for (int64_t k = block; k < m->k && k < block + BLOCK; k++)
                    acc = __builtin_fma(ref_load(r, p->a.slot, a0 + i * p->a.row + k * p->a.col),
                                        ref_load(r, m->b.slot, b0 + k * m->b.row + j * m->b.col),
                                        acc);
                total = block ? total + acc : acc;
            }
            ref_store(r, p->c.slot, c0 + i * p->c.row + j, total);
        }
    }
}

static inline void ref_matmul(RefRun *r, const MatMul *m)
{
    int64_t batches = 1;
    for (int i = 0; i < m->rank; i++) batches *= m->dims[i];
    for (int k = 0; k < m->n_parts; k++) {
        const MatPart *p = &m->parts[k];
        if (p->c.col != 1) r->ok = false;
        for (int64_t batch = 0; batch < batches; batch++) {
            int64_t a = p->a.offset, b = m->b.offset, c = p->c.offset, rest = batch;
            for (int i = m->rank - 1; i >= 0; i--) {
                int64_t at = rest % m->dims[i];
                rest /= m->dims[i];
                a += at * p->a.batch[i];
                b += at * m->b.batch[i];
                c += at * p->c.batch[i];
            }
            ref_product(r, m, p, a, b, c);
        }
    }
}

/* Every byte of an operand must be written, every byte of a result is, and no result overlaps an operand. */
static inline void ref_call(RefRun *r, const Call *c, qb_error *err)
{
    const void *x[8];
    void *z[8];
    Type xt[8], zt[8];
    if (c->n > 8 || c->results > 8) r->ok = false;
    for (int i = 0; r->ok && i < c->n; i++) {
        xt[i] = c->x[i].type;
        int64_t size = type_size(&xt[i]);
        for (int64_t k = 0; k < size; k++) x[i] = ref_at(r, c->x[i].slot, c->x[i].offset + size - 1 - k, false);
    }
    for (int i = 0; r->ok && i < c->results; i++) {
        zt[i] = c->z[i].type;
        int64_t size = type_size(&zt[i]);
        for (int64_t k = 0; k < size; k++) z[i] = ref_at(r, c->z[i].slot, c->z[i].offset + size - 1 - k, true);
        for (int k = 0; r->ok && k < c->n; k++) {
            const char *a = x[k], *b = z[i];
            if (a < b + type_bytes(&zt[i]) && b < a + type_bytes(&xt[k])) r->ok = false;
        }
    }
    if (r->ok) r->ok = value_op(c->op, c->attr, c->n, xt, zt, x, z, err);
}

/* Workspace and outputs start as garbage. */
static inline bool ref_run(qb_plan *p, const void *const *in, void *const *out, qb_error *err)
{
    RefRun r = {.p = p, .ok = true};
    size_t n = (size_t)p->n_slots + 1;
    char *work = malloc((size_t)p->work_bytes + 1), *written = calloc((size_t)p->work_bytes + 1, 1);
    r.base = calloc(n, sizeof *r.base);
    r.written = calloc(n, sizeof *r.written);
    memset(work, 0xfb, (size_t)p->work_bytes + 1);
    for (int i = 0; i < p->n_slots; i++) {
        const Slot *s = &p->slots[i];
        if (s->kind == SLOT_INPUT)
            r.base[i] = (char *)(uintptr_t)in[s->index];
        else if (s->kind == SLOT_CONST)
            r.base[i] = p->consts[s->index]->data;
        else if (s->kind == SLOT_OUTPUT) {
            r.base[i] = out[s->index];
            memset(r.base[i], 0xfb, (size_t)s->bytes);
            r.written[i] = calloc((size_t)s->bytes + 1, 1);
        } else {
            r.base[i] = work + s->offset;
            r.written[i] = written + s->offset;
            if (s->offset % 64 || s->offset + s->bytes > p->work_bytes) r.ok = false;
        }
    }
    for (int i = 0; r.ok && i < p->n_steps; i++) {
        if (p->steps[i].kind == STEP_REGION)
            ref_region(&r, &p->steps[i].region);
        else if (p->steps[i].kind == STEP_MATMUL)
            ref_matmul(&r, &p->steps[i].matmul);
        else
            ref_call(&r, &p->steps[i].call, err);
    }
    for (int i = 0; i < p->n_slots; i++) {
        if (p->slots[i].kind != SLOT_OUTPUT) continue;
        for (int64_t b = 0; b < p->slots[i].bytes; b++)
            if (!r.written[i][b]) r.ok = false;
        free(r.written[i]);
    }
    free(r.base);
    free(r.written);
    free(work);
    free(written);
    return r.ok;
}

static inline bool ref_prepare(qb_plan *p, const qb_options *options, qb_error *err)
{
    (void)p, (void)options, (void)err;
    return true;
}

static inline void ref_drop(qb_plan *p) { (void)p; }

static const Target reference_target = {
    .name = "reference", .prepare = ref_prepare, .run = ref_run, .drop = ref_drop};

/* ---- graph against plan ---- */

/* The payload and sign of a NaN are the machine's. */
static inline bool ref_same(int dtype, const char *a, const char *b, int64_t bytes)
{
    int64_t elem = type_elem(dtype);
    for (int64_t i = 0; i < bytes; i += elem) {
        double x = element_get(dtype, a + i, 0), y = element_get(dtype, b + i, 0);
        if (x != x && y != y) continue;
        if (memcmp(a + i, b + i, (size_t)elem) != 0) return false;
    }
    return true;
}

/* Does the plan of g give the bits that value_run gives? Inputs are pseudo-random from `seed`. */
static inline bool ref_check(const Graph *g, uint64_t seed)
{
    static const double special[] = {
        0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e300, -1e-310, __builtin_inf(), __builtin_nan("")};
    qb_error err = {0};
    qb_plan *p = plan_compile(g, &reference_target, NULL, &err);
    if (!p) return fprintf(stderr, "    %s\n", err.message), false;
    void *in[64], *want[64], *got[64];
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const Type *t = &g->types[g->inputs[i]];
        int64_t n = type_size(t);
        in[i] = malloc((size_t)type_bytes(t));
        for (int64_t k = 0; k < n; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            double v = (double)(int64_t)(seed >> 20) / 0x1p42 - 2;
            if (seed >> 59 == 0) v = special[(seed >> 40) % 10];
            element_set(t->dtype, in[i], k, t->dtype == QB_BOOL ? v > 0 : v);
        }
    }
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        want[i] = malloc((size_t)type_bytes(&g->types[g->outputs[i]]));
        got[i] = malloc((size_t)type_bytes(&g->types[g->outputs[i]]));
    }
    bool ok = value_run(g, (const void *const *)in, want, &err) &&
              p->target->run(p, (const void *const *)in, got, &err);
    for (uint32_t i = 0; ok && i < g->n_outputs; i++) {
        const Type *t = &g->types[g->outputs[i]];
        ok = ref_same(t->dtype, want[i], got[i], type_bytes(t));
        if (!ok) fprintf(stderr, "    output %u differs\n", (unsigned)i);
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) free(in[i]);
    for (uint32_t i = 0; i < g->n_outputs; i++) free(want[i]), free(got[i]);
    plan_release(p);
    return ok;
}

#endif
