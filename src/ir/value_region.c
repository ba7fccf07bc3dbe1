/* value_region.c: the reference for cond, scan and while: their bodies by value_run, iteration by
   iteration. */
#include "ir/ir.h"

/* What a region works on. Carries are held twice: a body reads `now` and writes `next`. */
typedef struct {
    const Graph *g;
    const Node *n;
    const Graph *body;
    const void *const *x;
    void *const *out;
    uint32_t carries, xs;
    void **now, **next;
    const void **in;
    void **to;
    qb_error *err;
} Region;

static size_t bytes_of(const Region *r, Id v) { return (size_t)type_bytes(&r->g->types[v]); }
static size_t result_bytes(const Region *r, uint32_t k) { return bytes_of(r, r->n->first + k); }

static bool open(Region *r, Arena *a)
{
    size_t results = r->n->results;
    r->now = arena_zeroed(a, 2 * (size_t)r->carries + 1, sizeof *r->now);
    r->in = arena_zeroed(a, (size_t)r->n->n + 1, sizeof *r->in);
    r->to = arena_zeroed(a, results + 1, sizeof *r->to);
    if (!r->now || !r->in || !r->to) return false;
    r->next = r->now + r->carries;
    for (uint32_t k = 0; k < 2 * r->carries; k++)
        if (!(r->now[k] = arena_alloc(a, result_bytes(r, k % r->carries)))) return false;
    for (uint32_t k = 0; k < r->carries; k++) memcpy(r->now[k], r->x[k], result_bytes(r, k));
    for (uint32_t k = 0; k < r->n->n; k++) r->in[k] = r->x[k];
    return true;
}

static bool step(Region *r)
{
    for (uint32_t k = 0; k < r->carries; k++) r->in[k] = r->now[k], r->to[k] = r->next[k];
    if (!value_run(r->body, r->in, r->to, r->err)) return false;
    void **t = r->now;
    r->now = r->next;
    r->next = t;
    return true;
}

static bool close(Region *r)
{
    for (uint32_t k = 0; k < r->carries; k++) memcpy(r->out[k], r->now[k], result_bytes(r, k));
    return true;
}

static bool scan(Region *r)
{
    const Attr *a = r->n->attr;
    for (int64_t k = 0; k < a->length; k++) {
        size_t i = (size_t)(a->start ? a->length - 1 - k : k), length = (size_t)a->length;
        for (uint32_t j = r->carries; j < r->carries + r->xs; j++)
            r->in[j] = (const char *)r->x[j] + i * (bytes_of(r, r->n->x[j]) / length);
        for (uint32_t j = r->carries; j < r->n->results; j++)
            r->to[j] = (char *)r->out[j] + i * (result_bytes(r, j) / length);
        if (!step(r)) return false;
    }
    return close(r);
}

static bool loop(Region *r)
{
    const Attr *a = r->n->attr;
    unsigned char go = 0;
    void *test = &go;
    for (int64_t k = 0; !a->length || k < a->length; k++) {
        for (uint32_t j = 0; j < r->carries; j++) r->in[j] = r->now[j];
        if (!value_run(r->n->sub[0], r->in, &test, r->err)) return false;
        if (!go) break;
        if (!step(r)) return false;
    }
    return close(r);
}

bool value_region(const Graph *g, const Node *n, const void *const *x, void *const *out,
                  qb_error *err)
{
    if (op_custom(n->op)) return value_run(n->sub[0], x, out, err);
    if (n->op == OP_cond)
        return value_run(n->sub[*(const unsigned char *)x[0] ? 0 : 1], x + 1, out, err);
    Arena arena = {0};
    Region r = {.g = g, .n = n, .x = x, .out = out, .err = err, .carries = (uint32_t)n->attr->i};
    r.xs = n->op == OP_scan ? (uint32_t)n->attr->step : 0;
    r.body = n->sub[n->op == OP_while];
    bool ok = open(&r, &arena);
    if (!ok) error_memory(err, "the values of a loop", -1);
    ok = ok && (n->op == OP_scan ? scan(&r) : loop(&r));
    arena_free(&arena);
    return ok;
}
