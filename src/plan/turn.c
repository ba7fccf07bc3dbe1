/* turn.c: matrices that a loop multiplies columns by are given to it turned. Vectors run down the rows of A y (gemm_column.h): where
   A is row-major, its elements are transposed in registers on the way, which is two thirds of the work; where its columns lie as they
   are, nothing is. A loop with the same A in all its iterations gets a copy that was transposed before it began. So do rows times a
   transposed matrix, as reverse mode has them. Elements are sums of the same products in the same order: no bit changes. */
#include "ops/rules.h"
#include "plan/plan.h"
#include "transform/transform.h"

enum {
    LEAST_READS = 8, /* that a copy pays for */
    WHILE = 2,       /* iterations that a while is taken to have: line searches have few */
    LEAST_DIM = 8,
    MOST_SIZE = 1 << 16 /* elements; a larger matrix is bound by memory */
};

typedef struct {
    const bool *wanted; /* per input */
    Val *turned;        /* its transpose */
} Turn;

static bool is_transpose(const Graph *g, Id v)
{
    const Node *n = &g->nodes[g->def[v]];
    return n->op == OP_transpose && g->types[v].rank == 2 && n->attr->list[0] == 1;
}

/* The input of g that operand k of n would better read turned; NO_ID: there is none. */
static Id badly_read(const Graph *g, const Node *n, uint32_t k)
{
    Id v = n->x[k];
    if (g->types[v].rank != 2) return NO_ID;
    if (n->op == OP_matmul && k == 0) return g->types[n->x[1]].dims[1] == 1 ? v : NO_ID;
    if (!is_transpose(g, v)) return NO_ID;
    bool row = n->op == OP_matmul && g->types[n->x[0]].dims[0] == 1;
    return row || n->op == OP_scan || n->op == OP_while ? g->nodes[g->def[v]].x[0] : NO_ID;
}

static int input_number(const Graph *g, Id v)
{
    for (uint32_t i = 0; i < g->n_inputs; i++)
        if (g->inputs[i] == v) return (int)i;
    return -1;
}

static bool is_loop(const Node *n) { return n->op == OP_while || n->op == OP_scan; }

/* Would the loop n, with these bodies, better have operand k turned? */
static bool wants(const Node *n, Graph *const *bodies, uint32_t k)
{
    const Type *t = &bodies[0]->types[bodies[0]->inputs[k]];
    const int64_t captures = n->attr->i + (n->op == OP_scan ? n->attr->step : 0);
    int64_t reads = 0, turns = n->op == OP_scan ? n->attr->length : WHILE;
    if (k < captures || t->rank != 2 || !type_floating(t) || t->dims[0] < LEAST_DIM ||
        t->dims[1] < LEAST_DIM || type_size(t) > MOST_SIZE)
        return false;
    for (int b = 0; b < op_bodies(n->op); b++)
        for (Id i = 0; i < bodies[b]->n_nodes; i++) {
            const Node *m = &bodies[b]->nodes[i];
            for (uint32_t j = 0; j < m->n; j++)
                if (badly_read(bodies[b], m, j) == bodies[b]->inputs[k])
                    reads += is_loop(m) ? LEAST_READS : 1;
        }
    return reads > 0 && turns >= (LEAST_READS + reads - 1) / reads;
}

/* ---- a body with turned inputs ---- */

static void copy_node(const Turn *t, Walk *w, const Node *n)
{
    const Graph *g = w->src;
    walk_visit(w, n);
    for (uint32_t k = 0; k < n->n; k++) {
        Id v = badly_read(g, n, k);
        int at = v == NO_ID ? -1 : input_number(g, v);
        if (at < 0 || !t->wanted[at]) continue;
        const bool left = n->op == OP_matmul && k == 0;
        w->x[k] = left ? gtranspose(t->turned[at], (int64_t[]){1, 0}) : t->turned[at];
    }
    walk_copy(w, n);
}

static void copy_nodes(Walk *w, void *arg)
{
    Turn *t = arg;
    for (Id i = 0; i < w->src->n_nodes && !graph_failed(w->dst); i++)
        if (w->live[i]) copy_node(t, w, &w->src->nodes[i]);
}

/* The body with an input more for each that is wanted turned, in that order. */
static void add_inputs(Walk *w, void *arg)
{
    Turn *t = arg;
    const Graph *g = w->src;
    t->turned = walk_alloc(w, g->n_inputs, sizeof *t->turned);
    for (uint32_t k = 0; k < g->n_inputs && !graph_failed(w->dst); k++) {
        if (!t->wanted[k]) continue;
        const Type *own = &g->types[g->inputs[k]];
        Type other = type_make(own->dtype, 2, (int64_t[]){own->dims[1], own->dims[0]});
        other.weak = own->weak;
        t->turned[k] = graph_input(w->dst, NULL, &other);
    }
    copy_nodes(w, t);
}

/* ---- a loop ---- */

typedef struct { /* a loop that is rewritten */
    Graph *bodies[2];
    bool *wanted; /* per operand */
    Val *x;
} Held;

static bool failed(Graph *g, const qb_error *err) { return fail(g, err->code, "%s", err->message); }

/* Its bodies, with the loops in them done, and the operands that they want turned. False: an error. */
static bool look(Walk *w, const Node *n, Held *l)
{
    qb_error err = {0};
    l->wanted = walk_alloc(w, n->n, sizeof(bool));
    l->x = walk_alloc(w, 2 * (size_t)n->n, sizeof(Val));
    for (int b = 0; b < op_bodies(n->op) && !graph_failed(w->dst); b++) {
        l->bodies[b] = turn_run(n->sub[b], &err);
        if (!l->bodies[b]) return failed(w->dst, &err);
    }
    for (uint32_t k = 0; k < n->n && !graph_failed(w->dst); k++)
        l->wanted[k] = wants(n, l->bodies, k);
    return !graph_failed(w->dst);
}

static bool emit(Walk *w, const Node *n, Held *l)
{
    qb_error err = {0};
    int operands = (int)n->n;
    memcpy(l->x, w->x, n->n * sizeof *l->x);
    for (uint32_t k = 0; k < n->n; k++)
        if (l->wanted[k]) l->x[operands++] = gtranspose(w->x[k], (int64_t[]){1, 0});
    for (int b = 0; b < op_bodies(n->op); b++) {
        Graph *body = walk_rewrite(l->bodies[b], add_inputs, &(Turn){.wanted = l->wanted}, &err);
        if (!body) return failed(w->dst, &err);
        graph_release(l->bodies[b]);
        l->bodies[b] = body;
    }
    Val *z = &w->map[n->first];
    if (n->op == OP_scan)
        return region_scan(w->dst, l->bodies[0], region_form_of(n), l->x, operands, z);
    return region_while(w->dst, l->bodies[0], l->bodies[1], n->attr->length, (int)n->attr->i, l->x,
                        operands, z);
}

static void rewrite(Walk *w, void *arg)
{
    (void)arg;
    for (Id i = 0; i < w->src->n_nodes && !graph_failed(w->dst); i++) {
        const Node *n = &w->src->nodes[i];
        Held l = {0};
        if (!w->live[i]) continue;
        walk_visit(w, n);
        if (!is_loop(n))
            walk_copy(w, n);
        else if (look(w, n, &l))
            emit(w, n, &l);
        for (int b = 0; b < 2; b++) graph_release(l.bodies[b]);
    }
}

/* Is there something to do? */
static bool any(const Graph *g)
{
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        for (int b = 0; n->sub && b < op_bodies(n->op); b++)
            if (any(n->sub[b])) return true;
        for (uint32_t k = 0; k < n->n && is_loop(n); k++)
            if (wants(n, n->sub, k)) return true;
    }
    return false;
}

/* g itself where nothing is to be done. */
Graph *turn_run(const Graph *g, qb_error *err)
{
    if (!any(g)) return graph_retain((Graph *)(uintptr_t)g);
    return walk_rewrite(g, rewrite, NULL, err);
}
