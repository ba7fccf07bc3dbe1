/* op.c: the op table (ops.h) as data. */
#include "ir/ir.h"

/* The out column pasted to a flag; `bool` is no macro here because ## does not expand it. */
#define OUT_same false
#define OUT_bool true

#define TO_ELEMENT false
#define TO_TEST true
#define TO_REDUCE false
#define TO_AXIS false

const OpRow op_table[APPLY_COUNT] = {
#define UNARY(name, in, out, value, rare, slow, d, mlx, ulp, doc) \
    {#name, doc, "", #mlx, CLASS_UNARY, IN_##in, 1, OUT_##out, ulp},
#define BINARY(name, in, out, value, rare, slow, dx, dy, mlx, ulp, doc) \
    {#name, doc, "", #mlx, CLASS_BINARY, IN_##in, 2, OUT_##out, ulp},
#define STRUCT(name, arity, attrs, doc) \
    {#name, doc, attrs, "", CLASS_STRUCT, IN_A, (uint8_t)(arity), false, 0},
#include "ops.h"
#define COMPOSITE(name, form, arity, doc) \
    {#name, doc, "", "", CLASS_COMPOSITE, IN_A, arity, TO_##form, 0},
#include "composites.h"
};

static int find(const char *name, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(op_table[i].name, name) == 0) return i;
    return -1;
}

int op_find(const char *name) { return find(name, OP_COUNT); }
int op_find_any(const char *name) { return find(name, APPLY_COUNT); }

bool op_elementwise(int op)
{
    if (op < 0 || op >= OP_COUNT) return false;
    return op_table[op].cls != CLASS_STRUCT || op == OP_powi || op == OP_cast ||
           op == OP_stop_gradient || op == OP_where;
}

int op_bodies(int op)
{
    static const uint8_t bodies[OP_COUNT] = {
        [OP_cond] = 2,       [OP_scan] = 1,       [OP_while] = 2,
        [OP_checkpoint] = 1, [OP_custom_jvp] = 2, [OP_custom_vjp] = 3};
    return op >= 0 && op < OP_COUNT ? bodies[op] : 0;
}

bool op_custom(int op) { return op == OP_checkpoint || op == OP_custom_jvp || op == OP_custom_vjp; }

/* Ops whose operands may be exchanged: x and y give the same bits as y and x. (Where both are NaN the payload is whichever
   the machine keeps; compilers exchange operands of + and * as well.) */
bool op_commutes(int op)
{
    return op == OP_add || op == OP_mul || op == OP_equal || op == OP_not_equal ||
           op == OP_logical_and || op == OP_logical_or;
}
