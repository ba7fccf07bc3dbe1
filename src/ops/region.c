/* region.c: the region ops cond, scan and while, as rules and the C API write them.

   Transforms are naive: they hand over every carry, every capture and every zero. What is written
   to the graph is smaller, by rules that change no bit:
   - An input that no output needs is no operand.
   - A carry that the body gives back as it is becomes a capture, and its result is its first value.
   - A constant operand is a constant of the body, where emit can fold with it.
   - The same capture twice is one input; the same stacked result twice is one result.
   - A scan of one iteration, and a cond whose pred is constant, are their body.

   Results that nobody reads go later, when the program is whole (plan/trim.c). */
#include "ops/rules.h"

Type region_slice(const Type *t)
{
    Type s = *t;
    s.rank--;
    memmove(s.dims, s.dims + 1, s.rank * sizeof *s.dims);
    return s;
}

Type region_stack(const Type *t, int64_t length)
{
    Type s = *t;
    if (s.rank < QB_MAX_RANK) memmove(s.dims + 1, s.dims, s.rank * sizeof *s.dims);
    s.dims[0] = length;
    s.rank++; /* beyond the limit, type_problem says so */
    return s;
}

ScanForm region_form_of(const Node *n)
{
    return (ScanForm){n->attr->length, n->attr->start != 0, (int)n->attr->i, (int)n->attr->step};
}

bool *region_flags(Graph *g, const Node *n)
{
    bool *flags = mem_zeroed((size_t)n->n + 1, sizeof *flags);
    if (!flags) fail(g, QB_EMEMORY, "out of memory for a loop of %u operands", (unsigned)n->n);
    return flags;
}

bool region_used(const Graph *body, const bool *outs, bool *used)
{
    bool *live = mem_zeroed(body->n_values + (size_t)1, 1);
    if (!live) return false;
    for (uint32_t i = 0; i < body->n_outputs; i++) live[body->outputs[i]] |= !outs || outs[i];
    for (Id i = body->n_nodes; i-- > 0;) {
        const Node *n = &body->nodes[i];
        bool any = false;
        for (Id r = n->first; r < n->first + n->results; r++) any |= live[r];
        for (uint32_t k = 0; any && k < n->n; k++) live[n->x[k]] = true;
    }
    for (uint32_t i = 0; i < body->n_inputs; i++) used[i] = live[body->inputs[i]];
    mem_free(live);
    return true;
}

/* ---- a smaller body ---- */

/* The constant x of another graph, as an input's type has it. */
static Val constant(Graph *g, Val x, const Type *t)
{
    const Attr *a = node_of(x)->attr;
    return a->buffer ? gdense(g, t, a->buffer) : gconst(g, t, a->f);
}

static const Type *input_type(const Graph *body, int k) { return &body->types[body->inputs[k]]; }

static bool bind_inputs(Graph *to, const Graph *body, const int *slot, const Val *x, int inputs,
                        Val *args)
{
    for (int i = 0; i < inputs; i++) {
        int k = 0;
        while (k < (int)body->n_inputs && slot[k] != i) k++;
        Val v = graph_input(to, NULL, input_type(body, k));
        for (; k < (int)body->n_inputs; k++)
            if (slot[k] == i) args[k] = v;
    }
    for (int k = 0; k < (int)body->n_inputs; k++)
        if (slot[k] < 0 && !val_none(x[k])) args[k] = constant(to, x[k], input_type(body, k));
    return !graph_failed(to);
}

Graph *region_rebind(Graph *g, const Graph *body, const int *slot, const Val *x, int inputs,
                     const uint32_t *outs, int n)
{
    Body f;
    Graph *out = NULL;
    Val *args = NULL, *z = NULL;
    if (!body_open(&f, g)) return NULL;
    args = body_alloc(&f, body->n_inputs, sizeof *args);
    z = body_alloc(&f, body->n_outputs, sizeof *z);
    if (args && z && bind_inputs(f.body, body, slot, x, inputs, args) &&
        inline_run(f.body, body, args, z))
        for (int i = 0; i < n; i++) graph_output(f.body, z[outs[i]]);
    if (body_close(&f)) out = graph_retain(f.body);
    body_drop(&f);
    return out;
}

/* ---- what becomes of the operands and results ---- */

/* Groups of inputs in their order: carries, xs, captures. to[k]: the operand (of n) that input k
   is; -1: constant or unused. */
typedef struct {
    Graph *g;
    Arena arena;
    const Graph *bodies[2];
    int n_bodies, inputs, results;
    int carries, xs;  /* those that stay */
    const Val *given; /* operand of every input */
    bool *used;
    int *to;
    Val *bound, *x; /* bound: constants of inputs with to -1; x: operands that stay */
    int n;
    uint32_t *outs;
    int n_outs; /* outputs that stay */
    int *from;  /* per output: its result, or -1: it is `is` */
    Val *is;
} Shape;

static void *room(Shape *s, size_t n, size_t size)
{
    void *p = arena_zeroed(&s->arena, n, size);
    if (!p) fail(s->g, QB_EMEMORY, "out of memory for a loop of %d operands", s->inputs);
    return p;
}

static bool shape_open(Shape *s)
{
    size_t in = (size_t)s->inputs, out = (size_t)s->results;
    bool *used = room(s, in, sizeof *used);
    s->used = room(s, in, sizeof *s->used);
    s->to = room(s, in, sizeof *s->to);
    s->bound = room(s, in, sizeof *s->bound);
    s->x = room(s, in + 1, sizeof *s->x);
    s->outs = room(s, out, sizeof *s->outs);
    s->from = room(s, out, sizeof *s->from);
    s->is = room(s, out, sizeof *s->is);
    if (graph_failed(s->g)) return false;
    for (int b = 0; b < s->n_bodies; b++) {
        if (!region_used(s->bodies[b], NULL, used))
            return fail(s->g, QB_EMEMORY, "out of memory for a loop");
        for (int k = 0; k < s->inputs; k++) s->used[k] |= used[k];
    }
    for (int k = 0; k < s->inputs; k++) s->to[k] = -1;
    return true;
}

static void shape_drop(Shape *s) { arena_free(&s->arena); }

static void keep_input(Shape *s, int k)
{
    s->x[s->n] = s->given[k];
    s->to[k] = s->n++;
}

/* An input that is the same in every iteration: a constant, an operand that is there already, or a
   new one. first: of the captures. */
static void capture(Shape *s, int k, int first)
{
    if (!s->used[k]) return;
    if (const_node(s->given[k])) {
        s->bound[k] = s->given[k];
        return;
    }
    for (int i = first; i < s->n; i++)
        if (val_same(s->x[i], s->given[k])) {
            for (int j = 0; j < s->inputs; j++)
                if (s->to[j] == i &&
                    type_exact(input_type(s->bodies[0], j), input_type(s->bodies[0], k))) {
                    s->to[k] = i;
                    return;
                }
        }
    keep_input(s, k);
}

static void keep_output(Shape *s, int r)
{
    s->from[r] = s->n_outs;
    s->outs[s->n_outs++] = (uint32_t)r;
}

/* An output that is no result: it has the value v. */
static void settle_output(Shape *s, int r, Val v)
{
    s->from[r] = -1;
    s->is[r] = v;
}

/* Writes the node and hands out its results. outs of body b stay as `outs` says where cut[b], else
   all of them do. */
static bool shape_emit(Shape *s, Op op, const Val *x, int n, const Attr *attr, const bool *cut,
                       Val *z)
{
    Graph *bodies[3] = {NULL};
    bool ok = true, same = s->n == s->inputs && s->n_outs == s->results;
    for (int k = 0; k < s->inputs; k++) same &= s->to[k] == k;
    for (int b = 0; b < s->n_bodies && ok; b++) {
        const Graph *body = s->bodies[b];
        uint32_t all = 0;
        bodies[b] = same     ? graph_retain((Graph *)(uintptr_t)body)
                    : cut[b] ? region_rebind(s->g, body, s->to, s->bound, s->n, s->outs, s->n_outs)
                             : region_rebind(s->g, body, s->to, s->bound, s->n, &all, 1);
        ok = bodies[b] != NULL;
    }
    int results = s->n_outs;
    Val *out = ok && results ? room(s, (size_t)results, sizeof *out) : NULL;
    ok = ok &&
         (results == 0 || (out && graph_emit_many(s->g, op, x, n, attr, bodies, out, &results)));
    for (int b = 0; b < s->n_bodies; b++) graph_release(bodies[b]);
    for (int r = 0; r < s->results && ok; r++) z[r] = s->from[r] < 0 ? s->is[r] : out[s->from[r]];
    return ok;
}

/* Is the region as it was given legal? The message of a bad one names the operands that the caller
   knows. */
static bool legal(Graph *g, Op op, const Val *pred, const Val *x, int n, const Attr *attr,
                  const Graph *const *bodies)
{
    int results = (int)bodies[op == OP_while]->n_outputs, m = n + (pred != NULL);
    Arena arena = {0};
    Type *types = arena_zeroed(&arena, (size_t)(m + results) + 1, sizeof *types);
    Id *ids = arena_zeroed(&arena, (size_t)m + 1, sizeof *ids);
    bool ok = types && ids;
    if (!ok) fail(g, QB_EMEMORY, "out of memory for a loop of %d operands", n);
    for (int k = 0; k < m && ok; k++) {
        Val v = !pred ? x[k] : k ? x[k - 1] : *pred;
        ok = !val_none(v);
        if (!ok) break;
        types[k] = *type_of(v);
        ids[k] = v.id;
    }
    Graph *sub[3] = {(Graph *)(uintptr_t)bodies[0],
                     op == OP_scan ? NULL : (Graph *)(uintptr_t)bodies[1]};
    Node node = {.op = (uint8_t)op,
                 .results = (uint16_t)results,
                 .n = (uint32_t)m,
                 .x = ids,
                 .attr = attr,
                 .sub = sub};
    ok = ok && infer_node(g, &node, types, types + m);
    arena_free(&arena);
    return ok;
}

/* ---- cond ---- */

static bool cond_shape(Shape *s, const Val *x)
{
    const Graph *yes = s->bodies[0], *no = s->bodies[1];
    if (!shape_open(s)) return false;
    for (int k = 0; k < s->inputs; k++) capture(s, k, 0);
    for (int r = 0; r < s->results; r++) {
        int k = 0, q = 0;
        while (k < s->inputs &&
               !(yes->outputs[r] == yes->inputs[k] && no->outputs[r] == no->inputs[k]))
            k++;
        while (q < r && !(s->from[q] >= 0 && yes->outputs[q] == yes->outputs[r] &&
                          no->outputs[q] == no->outputs[r]))
            q++;
        if (k < s->inputs)
            settle_output(s, r, x[k]);
        else if (q < r)
            s->from[r] = s->from[q];
        else
            keep_output(s, r);
    }
    return true;
}

bool region_cond(Graph *g, Val pred, const Graph *yes, const Graph *no, const Val *x, int n, Val *z)
{
    double p;
    Shape s = {.g = g,
               .bodies = {yes, no},
               .n_bodies = 2,
               .inputs = n,
               .results = (int)yes->n_outputs,
               .given = x};
    if (graph_failed(g) || val_none(pred) || !legal(g, OP_cond, &pred, x, n, &(Attr){0}, s.bodies))
        return false;
    if (const_splat(pred, &p)) {
        g->spliced = true;
        return inline_run(g, p != 0 ? yes : no, x, z);
    }
    bool ok = cond_shape(&s, x);
    if (ok) {
        memmove(s.x + 1, s.x, (size_t)s.n * sizeof *s.x);
        s.x[0] = pred;
        ok = shape_emit(&s, OP_cond, s.x, s.n + 1, NULL, (bool[]){true, true}, z);
    }
    shape_drop(&s);
    return ok;
}

/* ---- scan ---- */

static bool invariant(const Graph *body, int k) { return body->outputs[k] == body->inputs[k]; }

static bool scan_shape(Shape *s, const Graph *body, const ScanForm *form, const Val *x)
{
    if (!shape_open(s)) return false;
    for (int k = 0; k < form->carries; k++)
        if (!invariant(body, k)) keep_input(s, k);
    s->carries = s->n;
    for (int k = form->carries; k < form->carries + form->xs; k++) {
        double value;
        if (!s->used[k]) continue;
        if (const_splat(x[k], &value))
            s->bound[k] = x[k];
        else
            keep_input(s, k);
    }
    s->xs = s->n - s->carries;
    for (int k = 0; k < form->carries; k++)
        if (invariant(body, k)) capture(s, k, s->carries + s->xs);
    for (int k = form->carries + form->xs; k < s->inputs; k++) capture(s, k, s->carries + s->xs);
    for (int r = 0; r < s->results; r++) {
        int q = form->carries;
        while (r >= form->carries && q < r && body->outputs[q] != body->outputs[r]) q++;
        if (r < form->carries && invariant(body, r))
            settle_output(s, r, x[r]);
        else if (r >= form->carries && q < r)
            s->from[r] = s->from[q];
        else
            keep_output(s, r);
    }
    return true;
}

/* One iteration: the body itself. */
static bool scan_once(Graph *g, const Graph *body, const ScanForm *form, const Val *x, Val *z)
{
    Body f; /* for its arena */
    Val *args = body_open(&f, g) ? body_alloc(&f, body->n_inputs, sizeof *args) : NULL;
    for (int k = 0; k < (int)body->n_inputs && args; k++) {
        bool slice = k >= form->carries && k < form->carries + form->xs;
        const Type *t = input_type(body, k);
        args[k] = slice ? greshape(x[k], t->rank, t->dims) : x[k];
    }
    bool ok = args && inline_run(g, body, args, z);
    body_drop(&f);
    for (int r = form->carries; r < (int)body->n_outputs && ok; r++) {
        Type t = region_stack(type_of(z[r]), 1);
        z[r] = greshape(z[r], t.rank, t.dims);
    }
    return ok && !graph_failed(g);
}

bool region_scan(Graph *g, const Graph *body, ScanForm form, const Val *x, int n, Val *z)
{
    Attr a = {.i = form.carries, .step = form.xs, .length = form.length, .start = form.reverse};
    Shape s = {.g = g,
               .bodies = {body},
               .n_bodies = 1,
               .inputs = n,
               .results = (int)body->n_outputs,
               .given = x};
    if (graph_failed(g) || !legal(g, OP_scan, NULL, x, n, &a, s.bodies)) return false;
    if (form.length == 1) return scan_once(g, body, &form, x, z);
    bool ok = scan_shape(&s, body, &form, x);
    a.i = s.carries;
    a.step = s.xs;
    ok = ok && shape_emit(&s, OP_scan, s.x, s.n, &a, (bool[]){true}, z);
    shape_drop(&s);
    return ok;
}

/* ---- while ---- */

static bool while_shape(Shape *s, const Graph *step, int carries, const Val *x)
{
    if (!shape_open(s)) return false;
    for (int k = 0; k < carries; k++)
        if (!invariant(step, k)) keep_input(s, k);
    s->carries = s->n;
    for (int k = 0; k < s->inputs; k++)
        if (k >= carries || invariant(step, k)) capture(s, k, s->carries);
    for (int r = 0; r < s->results; r++)
        if (invariant(step, r))
            settle_output(s, r, x[r]);
        else
            keep_output(s, r);
    return true;
}

bool region_while(Graph *g, const Graph *test, const Graph *step, int64_t max_steps, int carries,
                  const Val *x, int n, Val *z)
{
    Attr a = {.i = carries, .length = max_steps};
    Shape s = {.g = g,
               .bodies = {test, step},
               .n_bodies = 2,
               .inputs = n,
               .results = (int)step->n_outputs,
               .given = x};
    if (graph_failed(g) || !legal(g, OP_while, NULL, x, n, &a, s.bodies)) return false;
    bool ok = while_shape(&s, step, carries, x);
    a.i = s.carries;
    ok = ok && shape_emit(&s, OP_while, s.x, s.n, &a, (bool[]){false, true}, z);
    shape_drop(&s);
    return ok;
}
