/* call.c: call steps: one op on row-major arrays, by a kernel of its own. The table below holds them all; a new op is one line
   there and one function. */
#include "cpu/cpu.h"

static const CallKernel kernels[OP_COUNT] = {
    [OP_gather] = {.run = gather_run},
    [OP_scatter_add] = {.run = gather_add},
    [OP_cumsum] = {.run = cumsum_run},
};

static bool refs_of(const qb_plan *p, const CallArg *x, int n, Ref **out, Arena *keep,
                    qb_error *err)
{
    Ref *refs = arena_alloc(keep, (size_t)(n + 1) * sizeof *refs);
    if (!refs) return error_memory(err, "a compiled call", -1), false;
    for (int i = 0; i < n; i++) {
        int64_t offset = x[i].offset * type_elem(x[i].type.dtype);
        int32_t base = code_base(p, x[i].slot, &offset);
        refs[i] = (Ref){base, 0, offset};
    }
    *out = refs;
    return true;
}

bool call_compile(CallCode *o, const qb_plan *p, const Call *c, Arena *keep, qb_error *err)
{
    const CallKernel *k = &kernels[c->op];
    if (!k->run) {
        error_set(err, QB_EUNSUPPORTED, "%s has no kernel on the CPU", op_table[c->op].name);
        return false;
    }
    *o = (CallCode){.call = c, .run = k->run};
    o->scratch = k->scratch ? k->scratch(c) : 0;
    if (o->scratch < 0) return error_memory(err, op_table[c->op].name, -1), false;
    return refs_of(p, c->x, c->n, &o->x, keep, err) &&
           refs_of(p, c->z, c->results, &o->z, keep, err);
}

const void *call_operand(const CallCode *o, char *const *base, int i)
{
    return base[o->x[i].base] + o->x[i].offset;
}
void *call_result(const CallCode *o, char *const *base, int i)
{
    return base[o->z[i].base] + o->z[i].offset;
}

CallRows call_rows(const Type *t, int64_t axis)
{
    CallRows r = {1, t->dims[axis], 1};
    for (int64_t k = 0; k < axis; k++) r.outer *= t->dims[k];
    for (int64_t k = axis + 1; k < t->rank; k++) r.inner *= t->dims[k];
    return r;
}
