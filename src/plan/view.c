/* view.c: the absorb pass. Broadcasts, transposes, slices and reshapes are no work: they are
   another way to step through the memory of a base value. A reshape that no strides can express
   (of a transposed matrix, say) is a copy.

   Strides of dims of length 1 are 0 throughout, so that two ways to reach the same elements
   compare equal. */
#include "plan/plan.h"

void view_rows(const Type *t, int64_t *stride)
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = t->dims[i] == 1 ? 0 : step;
        step *= t->dims[i];
    }
}

int view_strip(const Type *t, int64_t *dims)
{
    int rank = 0;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1) dims[rank++] = t->dims[i];
    return rank;
}

void view_squeeze(const Type *t, const int64_t *stride, int64_t *out)
{
    int rank = 0;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1) out[rank++] = stride[i];
}

/* Both shapes are cut into the shortest groups of equal size. A group can be re-cut when its old
   dims are one run of memory: each stride is the next one's stride times length. */
bool view_reshape(const Type *from, const int64_t *stride, const Type *to, int64_t *out)
{
    int64_t od[QB_MAX_RANK] = {0}, os[QB_MAX_RANK] = {0}, nd[QB_MAX_RANK] = {0},
            ns[QB_MAX_RANK] = {0};
    int no = view_strip(from, od), nn = view_strip(to, nd), i = 0, j = 0;
    view_squeeze(from, stride, os);
    while (i < no && j < nn) {
        int i0 = i, j0 = j;
        int64_t a = od[i], b = nd[j];
        while (a != b) {
            if (a < b)
                a *= od[++i];
            else
                b *= nd[++j];
        }
        for (int k = i0; k < i; k++)
            if (os[k] != od[k + 1] * os[k + 1]) return false;
        ns[j] = os[i];
        for (int k = j - 1; k >= j0; k--) ns[k] = ns[k + 1] * nd[k + 1];
        i++;
        j++;
    }
    for (int k = 0, l = 0; k < to->rank; k++) out[k] = to->dims[k] == 1 ? 0 : ns[l++];
    return true;
}

Id view_base(const Draft *d, Id v) { return d->view[v] ? d->view[v]->base : v; }

void view_of(const Draft *d, Id v, View *out)
{
    if (d->view[v]) {
        *out = *d->view[v];
        return;
    }
    out->base = v;
    out->offset = 0;
    if (d->made[v] == MADE_SPLAT)
        memset(out->stride, 0, sizeof out->stride);
    else
        view_rows(&d->g->types[v], out->stride);
}

bool view_whole(const Draft *d, Id v, Id *base)
{
    const View *w = d->view[v];
    *base = v;
    if (!w) return true;
    *base = w->base;
    const Type *t = &d->g->types[v];
    int64_t rows[QB_MAX_RANK];
    view_rows(t, rows);
    return w->offset == 0 && type_size(t) == type_size(&d->g->types[w->base]) &&
           memcmp(rows, w->stride, t->rank * sizeof *rows) == 0;
}

/* The view of node n's result through the view `x` of its operand; false when there is none. */
static bool step_through(const Draft *d, const Node *n, const View *x, View *out)
{
    const Type *from = &d->g->types[n->x[0]], *to = &d->g->types[n->first];
    *out = *x;
    switch (n->op) {
    case OP_broadcast:
        for (int i = 0; i < to->rank; i++)
            if (from->dims[i] == 1) out->stride[i] = 0;
        return true;
    case OP_transpose:
        for (int i = 0; i < to->rank; i++) out->stride[i] = x->stride[n->attr->list[i]];
        return true;
    case OP_slice:
        out->offset += n->attr->start * x->stride[n->attr->i];
        out->stride[n->attr->i] =
            to->dims[n->attr->i] == 1 ? 0 : n->attr->step * x->stride[n->attr->i];
        return true;
    default: return view_reshape(from, x->stride, to, out->stride);
    }
}

static bool absorb(Draft *d, const Node *n)
{
    View x, out;
    view_of(d, n->x[0], &x);
    if (!step_through(d, n, &x, &out)) {
        d->made[n->first] = MADE_COPY;
        return true;
    }
    View *keep = plan_alloc(d, 1, sizeof *keep);
    if (!keep) return false;
    *keep = out;
    d->view[n->first] = keep;
    d->made[n->first] = MADE_VIEW;
    return true;
}

/* How the structural ops are made; -1: the plan has no lowering. Elementwise ops are
   instructions. */
static int made_by(const Graph *g, const Node *n)
{
    double value;
    switch (n->op) {
    case OP_input: return MADE_LEAF;
    case OP_constant: return const_splat(graph_val(g, n->first), &value) ? MADE_SPLAT : MADE_LEAF;
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice: return MADE_VIEW;
    case OP_sum:
    case OP_mean:
    case OP_max:
    case OP_min: return MADE_REDUCE;
    case OP_matmul: return MADE_MATMUL;
    case OP_concat: return MADE_CONCAT;
    case OP_pad_slice: return MADE_PAD;
    case OP_cond:
    case OP_scan:
    case OP_while: return MADE_LOOP;
    default: return op_elementwise(n->op) && n->results == 1 ? MADE_ELEM : -1;
    }
}

bool view_absorb(Draft *d)
{
    const Graph *g = d->g;
    d->made = plan_alloc(d, g->n_values, sizeof *d->made);
    d->view = plan_alloc(d, g->n_values, sizeof *d->view);
    if (!d->made || !d->view) return false;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        int made = made_by(g, n);
        if (made < 0)
            return plan_fail(d, QB_EUNSUPPORTED, "%s: plans have no such operation yet",
                             op_table[n->op].name);
        for (Id r = n->first; r < n->first + n->results; r++) d->made[r] = (uint8_t)made;
        if (made == MADE_VIEW && !absorb(d, n)) return false;
    }
    return true;
}
