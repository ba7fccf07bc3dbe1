/* trim.c: what of a region somebody needs. Transforms write every result that might be wanted: a
   gradient alone leaves the values of the forward loop unread, a tape that nobody reads, sums for
   parameters that are fixed. A result that is not read goes, and with it the carries that only feed
   it, and the operands that only they read. */
#include "plan/plan.h"

/* Results and operands that the live results of a scan or while need: a carry that is read makes
   its next value live. */
static bool mark_carries(const Graph *body, int carries, bool *live, bool *needs)
{
    for (bool more = true; more;) {
        if (!region_used(body, live, needs)) return false;
        more = false;
        for (int k = 0; k < carries; k++)
            if (needs[k] && !live[k]) live[k] = more = true;
    }
    return true;
}

/* Operands that body reads for its live outputs, added to needs. */
static bool add_reads(const Graph *body, const bool *live, bool *needs)
{
    bool *used = mem_zeroed(body->n_inputs + (size_t)1, 1);
    bool ok = used && region_used(body, live, used);
    for (uint32_t k = 0; ok && k < body->n_inputs; k++) needs[k] |= used[k];
    mem_free(used);
    return ok;
}

bool trim_mark(const Node *n, bool *live, bool *needs)
{
    int carries = (int)n->attr->i;
    if (n->op == OP_cond) {
        needs[0] = true;
        return add_reads(n->sub[0], live, needs + 1) && add_reads(n->sub[1], live, needs + 1);
    }
    if (n->op == OP_while) {
        if (!region_used(n->sub[0], NULL, needs)) return false;
        for (int k = 0; k < carries; k++) live[k] |= needs[k];
    }
    if (!mark_carries(n->sub[n->op == OP_while], carries, live, needs)) return false;
    if (n->op == OP_while && !add_reads(n->sub[0], NULL, needs)) return false;
    for (int k = 0; k < carries; k++)
        needs[k] |= live[k]; /* the first value of a carry, be it that no iteration reads it */
    return true;
}

typedef struct {
    int *slot;
    Val *x, *none;
    uint32_t *outs;
    Val *z;
    int n, n_outs;
} Trim;

static bool notes_open(Trim *t, Arena *a, Graph *to, const Node *n)
{
    t->slot = arena_zeroed(a, n->n + (size_t)1, sizeof *t->slot);
    t->x = arena_zeroed(a, n->n + (size_t)1, sizeof *t->x);
    t->none = arena_zeroed(a, n->n + (size_t)1, sizeof *t->none);
    t->outs = arena_zeroed(a, n->results + (size_t)1, sizeof *t->outs);
    t->z = arena_zeroed(a, n->results + (size_t)1, sizeof *t->z);
    return (t->slot && t->x && t->none && t->outs && t->z) ||
           fail(to, QB_EMEMORY, "out of memory for a loop");
}

static bool emit(Graph *to, const Node *n, const Trim *t, const ScanForm *form, Val pred,
                 Graph *const *bodies)
{
    if (n->op == OP_cond) return region_cond(to, pred, bodies[0], bodies[1], t->x, t->n, t->z);
    if (n->op == OP_scan) return region_scan(to, bodies[0], *form, t->x, t->n, t->z);
    return region_while(to, bodies[0], bodies[1], n->attr->length, form->carries, t->x, t->n, t->z);
}

/* x: operands in `to`, those that are needed. z: results, those that are live. */
bool trim_copy(Graph *to, const Node *n, const Val *x, const bool *live, const bool *needs, Val *z)
{
    Arena arena = {0};
    Trim t = {0};
    Graph *bodies[2] = {NULL};
    int first = n->op == OP_cond; /* operands of the bodies start here */
    ScanForm form = region_form_of(n);
    int carries = first ? 0 : form.carries, xs = n->op == OP_scan ? form.xs : 0;
    bool ok = notes_open(&t, &arena, to, n);
    form.carries = form.xs = 0;
    for (int k = first; k < (int)n->n && ok; k++) {
        t.slot[k - first] = needs[k] ? t.n : -1;
        if (!needs[k]) continue;
        form.carries += k < carries;
        form.xs += k >= carries && k < carries + xs;
        t.x[t.n++] = x[k];
    }
    for (int r = 0; r < n->results && ok; r++)
        if (live[r]) t.outs[t.n_outs++] = (uint32_t)r;
    for (int b = 0; b < op_bodies(n->op) && ok; b++) {
        bool test = n->op == OP_while && b == 0;
        uint32_t only = 0;
        bodies[b] = region_rebind(to, n->sub[b], t.slot, t.none, t.n, test ? &only : t.outs,
                                  test ? 1 : t.n_outs);
        ok = bodies[b] != NULL;
    }
    ok = ok && emit(to, n, &t, &form, first ? x[0] : NONE, bodies);
    for (int i = 0; i < t.n_outs && ok; i++) z[t.outs[i]] = t.z[i];
    for (int b = 0; b < 2; b++) graph_release(bodies[b]);
    arena_free(&arena);
    return ok;
}
