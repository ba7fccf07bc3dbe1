/* lines.c: the instructions of a region: kernels, fusion, last uses. */
#include "cpu/code.h"

int kernel_native(int op)
{
    static const int native[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = NATIVE_##name,
#include "cpu/native.h"
    };
    return native[op] ? native[op] : kernel_op(op, QB_F32);
}

/* A square is x * x in either dtype, a product that may be fused. */
static Line line_of(const Instr *n, bool native)
{
    bool square = n->op == OP_powi && n->i == 2;
    int kernel = kernel_op(square ? OP_mul : n->op, n->in);
    if (native && n->in == QB_F32 && !square) kernel = kernel_native(n->op);
    if (n->op == OP_cast) kernel = kernel_cast(n->in, n->out);
    Line l = {.kernel = (uint16_t)kernel, .in = n->in, .x = {n->a, n->b, n->c}, .i = n->i};
    if (square) l.x[1] = n->a;
    return l;
}

static void read_region(Compiler *k)
{
    const Region *r = k->r;
    for (int i = 0; i < r->n_loads + r->n_instrs; i++) {
        k->v[i] = (Value){.last = -1, .store = -1, .reg = -1};
        k->v[i].dtype = i < r->n_loads ? r->loads[i].dtype : r->instrs[i - r->n_loads].out;
    }
    for (int i = 0; i < r->n_instrs; i++) {
        Line *l = &k->lines[i];
        *l = line_of(&r->instrs[i], k->p->native);
        for (int j = 0; j < 3; j++)
            if (l->x[j] >= 0) k->v[l->x[j]].uses++;
    }
    for (int i = 0; i < r->n_stores; i++) k->v[r->stores[i].value].uses += 2;
    for (int i = 0; i < r->n_reduces; i++) {
        k->v[r->reduces[i].value].uses += 2;
        k->v[r->reduces[i].value].reduced = true;
    }
}

/* The line of a product that only this use needs; NULL otherwise. */
static Line *product(Compiler *k, int32_t v, uint8_t dtype)
{
    Line *l = v >= k->r->n_loads ? &k->lines[v - k->r->n_loads] : NULL;
    return l && k->v[v].uses == 1 && l->kernel == kernel_op(OP_mul, dtype) ? l : NULL;
}

/* A product that feeds one sum or difference becomes one line with it; both roundings stay. */
static void fuse(Compiler *k)
{
    for (int i = 0; i < k->r->n_instrs; i++) {
        Line *l = &k->lines[i];
        bool add = l->kernel == kernel_op(OP_add, l->in);
        if (!add && l->kernel != kernel_op(OP_sub, l->in)) continue;
        Line *left = product(k, l->x[0], l->in), *m = left ? left : product(k, l->x[1], l->in);
        if (!m) continue;
        int fused = add ? FUSED_MUL_ADD : left ? FUSED_MUL_SUB : FUSED_SUB_MUL;
        l->kernel = (uint16_t)kernel_fused(fused, l->in);
        l->x[2] = left ? l->x[1] : l->x[0];
        l->x[0] = m->x[0];
        l->x[1] = m->x[1];
        m->dead = true;
    }
}

bool lines_small(const Code *c)
{
    return c->shape == SHAPE_FLAT && c->units == 1 && c->blocks == 1;
}

/* The product that this sum adds up and nothing else needs, of numbers that no store lies over: the sum
   multiplies them itself. A small region is left as it is: bound.c and the emitter run it. */
static Line *added_up(Compiler *k, const Reduce *n)
{
    const Region *r = k->r;
    const Code *c = k->c;
    int32_t i = n->value - r->n_loads;
    bool sum = n->op == OP_sum || n->op == OP_mean;
    if (i < 0 || lines_small(c) || c->rows.pieces || !sum || r->form != REDUCE_TRAILING ||
        k->v[n->value].uses != 2)
        return NULL;
    Line *l = &k->lines[i];
    if (l->kernel != kernel_op(OP_mul, QB_F64)) return NULL;
    for (int j = 0; j < 2; j++)
        for (int s = 0; s < r->n_stores && l->x[j] < r->n_loads; s++)
            if (!r->loads[l->x[j]].splat &&
                code_overlap(k->p, r->loads[l->x[j]].at.slot, r->stores[s].at.slot))
                return NULL;
    return l;
}

/* Those products become no lines; their factors are read after the last one. */
static void fuse_sums(Compiler *k)
{
    for (int i = 0; i < k->r->n_reduces; i++) {
        Line *l = added_up(k, &k->r->reduces[i]);
        if (l) l->dead = l->summed = true;
    }
}

static void find_last_uses(Compiler *k)
{
    for (int i = 0; i < k->r->n_instrs; i++)
        for (int j = 0; j < 3 && !k->lines[i].dead; j++)
            if (k->lines[i].x[j] >= 0) k->v[k->lines[i].x[j]].last = i;
    for (int i = 0; i < k->r->n_stores; i++) k->v[k->r->stores[i].value].last = LAST;
    for (int i = 0; i < k->r->n_reduces; i++) k->v[k->r->reduces[i].value].last = LAST;
    for (int i = 0; i < k->r->n_instrs; i++)
        for (int j = 0; j < 2 && k->lines[i].summed; j++) k->v[k->lines[i].x[j]].last = LAST;
}

void lines_find(Compiler *k)
{
    read_region(k);
    fuse(k);
    fuse_sums(k);
    find_last_uses(k);
}
