/* loop.c: steps for cond, scan and while. A body is compiled as a plan of its own, which runs on
   pointers: carries move between two buffers, slices of xs and of stacked results by their strides.
   So operands and results are row-major in memory; an operand that is a transposed or repeated view
   is copied first, by a region. */
#include "plan/plan.h"

enum { ALIGN = 64 };

static int64_t round_up(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

bool loop_open(Draft *d)
{
    d->temp = plan_alloc(d, d->g->n_values, sizeof *d->temp);
    return d->temp != NULL;
}

bool loop_copies(const Draft *d, Id x)
{
    const Type *t = &d->g->types[x];
    View v;
    int64_t rows[QB_MAX_RANK];
    if (type_size(t) == 1) return false;
    view_of(d, x, &v);
    view_rows(t, rows);
    return memcmp(rows, v.stride, t->rank * sizeof *rows) != 0;
}

bool loop_temps(Draft *d, const Node *n)
{
    int32_t *slots = d->temp[n->first] = plan_alloc(d, n->n, sizeof *slots);
    if (!slots) return false;
    for (uint32_t k = 0; k < n->n; k++) {
        const Type *t = &d->g->types[n->x[k]];
        slots[k] = -1;
        if (loop_copies(d, n->x[k]) && (slots[k] = memory_work(d, t->dtype, type_bytes(t))) < 0)
            return false;
    }
    return true;
}

/* ---- bodies ---- */

/* The step of a while with the test of the next carries as one more output, so that an iteration is
   one plan. */
static Graph *step_and_test(const Node *n, qb_error *err)
{
    const Graph *test = n->sub[0], *step = n->sub[1];
    Graph *g = graph_new(err);
    if (!g) return NULL;
    Arena arena = {0};
    Val *x = arena_zeroed(&arena, n->n + (size_t)1, sizeof *x),
        *z = arena_zeroed(&arena, n->results + (size_t)1, sizeof *z), go;
    bool ok = x && z;
    if (!ok) fail(g, QB_EMEMORY, "out of memory for a loop");
    for (uint32_t k = 0; k < n->n && ok; k++)
        x[k] = graph_input(g, NULL, &step->types[step->inputs[k]]);
    ok = ok && inline_run(g, step, x, z);
    for (int r = 0; r < n->results && ok; r++) graph_output(g, x[r] = z[r]);
    if (ok && inline_run(g, test, x, &go)) graph_output(g, go);
    arena_free(&arena);
    if (graph_freeze(g, err)) return g;
    graph_release(g);
    return NULL;
}

static bool add_body(Draft *d, Loop *l, int b, const Graph *g)
{
    qb_plan *p = d->p;
    qb_plan **bodies = plan_grow(d, p->bodies, p->n_bodies, &d->cap_bodies, sizeof *bodies);
    qb_plan *body = bodies ? plan_compile(g, d->target, d->options, d->err) : NULL;
    if (!body) return false;
    p->bodies = bodies;
    l->body[b] = p->bodies[p->n_bodies++] = body;
    return true;
}

static bool add_bodies(Draft *d, Loop *l, const Node *n)
{
    if (!add_body(d, l, 0, n->sub[0])) return false;
    if (n->op == OP_scan) return true;
    if (n->op == OP_cond) return add_body(d, l, 1, n->sub[1]);
    Graph *g = step_and_test(n, d->err);
    bool ok = g && add_body(d, l, 1, g);
    graph_release(g);
    return ok;
}

/* ---- carries that slide ---- */

enum { WORTH_SLIDING = 2048 }; /* bytes */

static bool flat(const Region *r, const Access *at)
{
    int64_t dense = 1;
    for (int d = r->rank - 1; d >= 0; dense *= r->dims[d--])
        if (at->stride[d] != dense) return false;
    return true;
}

/* What this store copies of carry k to another place in it: the bytes that it leaves out at one end,
   negative ones at the other; else 0. */
static int64_t moved(const qb_plan *body, const Region *r, const Store *s, int k, int64_t bytes)
{
    const Slot *to = &body->slots[s->at.slot];
    if (to->kind != SLOT_OUTPUT || to->index != k || s->value >= r->n_loads) return 0;
    const Load *x = &r->loads[s->value];
    if (x->splat || !flat(r, &x->at) || !flat(r, &s->at)) return 0;
    const Slot *from = &body->slots[x->at.slot];
    if (from->kind != SLOT_INPUT || from->index != k) return 0;
    int64_t elem = type_elem(x->dtype), shift = (x->at.offset - s->at.offset) * elem;
    if (x->at.offset && s->at.offset) return 0;
    return r->size * elem + (shift < 0 ? -shift : shift) == bytes ? shift : 0;
}

static void find_shifts(Loop *l, const qb_plan *body)
{
    for (int k = 0; k < l->carries; k++) {
        const Span *o = &l->out[k];
        for (int i = 0; i < body->n_steps && o->bytes >= WORTH_SLIDING && !l->shift[k]; i++) {
            const Region *r = &body->steps[i].region;
            if (body->steps[i].kind != STEP_REGION) continue;
            for (int s = 0; s < r->n_stores && !l->shift[k]; s++)
                l->shift[k] = moved(body, r, &r->stores[s], k, o->bytes);
        }
        l->slides |= l->shift[k] != 0;
    }
}

/* What slides begins again at the end where it began, beside the place where it is. */
static int64_t room(int64_t bytes, int64_t shift)
{
    if (!shift) return round_up(bytes);
    return 2 * round_up(bytes) + round_up(shift < 0 ? -shift : shift);
}

/* ---- operands, results, memory ---- */

static bool operand(Draft *d, Job *job, Id x, int32_t temp, Span *out)
{
    const Type *t = &d->g->types[x];
    View v;
    view_of(d, x, &v);
    *out = (Span){.slot = temp, .bytes = type_bytes(t)};
    if (temp < 0) {
        if (d->place[v.base]) return plan_fail(d, QB_EBUG, "a part of a concat is read alone");
        out->slot = memory_slot(d, v.base);
        out->offset = v.offset * type_elem(t->dtype);
    }
    return out->slot >= 0 && plan_note(d, &job->reads, out->slot);
}

static bool result(Draft *d, Job *job, Id v, Span *out)
{
    const Type *t = &d->g->types[v];
    Spot spot;
    if (!place_spot(d, v, &spot)) return false;
    *out = (Span){.slot = spot.slot,
                  .offset = spot.offset * type_elem(t->dtype),
                  .bytes = type_bytes(t)};
    return plan_note(d, &job->writes, out->slot) &&
           (!d->place[v] || place_fills(d, d->place[v]->parent, job));
}

/* The second buffers of the carries, the test's byte, the workspaces. */
static bool scratch(Draft *d, Job *job, Loop *l)
{
    int64_t bytes = ALIGN;
    bool fits = true;
    for (int k = 0; k < l->carries; k++) {
        l->room[k] = room(l->out[k].bytes, l->shift[k]);
        fits &= !__builtin_add_overflow(bytes, l->room[k], &bytes);
    }
    l->go = 0;
    for (int b = 0; b < 2 && fits; b++) {
        int64_t work = l->body[b] && d->target->room ? d->target->room(l->body[b]) : 0;
        l->work[b] = bytes;
        fits = work >= 0 && !__builtin_add_overflow(bytes, round_up(work), &bytes);
    }
    if (!fits) return plan_fail(d, QB_EMEMORY, "the working memory of a loop exceeds 2^63 bytes");
    l->scratch = memory_work(d, QB_BOOL, bytes);
    return l->scratch >= 0 && plan_note(d, &job->writes, l->scratch);
}

static bool add_loop(Draft *d, const Node *n)
{
    Job *job = plan_job(d, STEP_LOOP, d->depth[n->first]);
    if (!job) return false;
    Loop *l = &job->step.loop;
    *l = (Loop){.op = n->op, .n_in = (int)n->n, .n_out = n->results};
    if (n->op != OP_cond) l->carries = (int)n->attr->i, l->length = n->attr->length;
    if (n->op == OP_scan) l->xs = (int)n->attr->step, l->reverse = n->attr->start != 0;
    job->step.file = n->file;
    job->step.line = n->line;
    l->in = plan_keep(d, l->n_in, sizeof *l->in);
    l->out = plan_keep(d, l->n_out, sizeof *l->out);
    l->shift = plan_keep(d, l->carries, sizeof *l->shift);
    l->room = plan_keep(d, l->carries, sizeof *l->room);
    if (!l->in || !l->out || !l->shift || !l->room || !add_bodies(d, l, n)) return false;
    for (int k = 0; k < l->n_in; k++)
        if (!operand(d, job, n->x[k], d->temp[n->first][k], &l->in[k])) return false;
    for (int r = 0; r < l->n_out; r++)
        if (!result(d, job, n->first + (Id)r, &l->out[r])) return false;
    if (n->op == OP_scan) {
        for (int k = l->carries; k < l->carries + l->xs; k++) l->in[k].bytes /= l->length;
        for (int r = l->carries; r < l->n_out; r++) l->out[r].bytes /= l->length;
    }
    find_shifts(l, l->body[n->op == OP_while]);
    return scratch(d, job, l);
}

bool loop_run(Draft *d)
{
    for (uint32_t i = 0; i < d->g->n_nodes; i++)
        if (d->made[d->g->nodes[i].first] == MADE_LOOP && !add_loop(d, &d->g->nodes[i]))
            return false;
    return true;
}
