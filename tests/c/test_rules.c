/* test_rules.c: the rules of structural ops as a table: none is missing, and each infer refuses
   what its op cannot mean. */
#include "graphs.h"

static void test_every_structural_op_has_its_rules(void)
{
    for (int op = 0; op < OP_COUNT; op++) {
        const Rules *r = op_rules[op];
        bool leaf = op == OP_input || op == OP_constant;
        CHECK((r != NULL) == (op_table[op].cls == CLASS_STRUCT && !leaf));
        if (!r) continue;
        if (op_bodies(op)) { /* cond, scan, while, checkpoint, custom_jvp, custom_vjp */
            CHECK(r->infer && r->jvp_both && r->backward && r->vmap_some && !r->jvp && !r->vjp &&
                  !r->vmap);
            continue;
        }
        CHECK(r->infer && r->jvp);
        CHECK((r->vmap || r->vmap_some) ==
              !op_elementwise(op)); /* elementwise ops are batched alike, by vmap.c */
        CHECK(!r->moves_mask || r->vjp);
    }
}

static void test_a_partial_exists_for_every_row_and_operand(void)
{
    Graph *g = start();
    Val x = scalar(g, "x"), y = scalar(g, "y"), z = scalar(g, "z");
    for (int op = 0; op < OP_COUNT; op++) {
        const OpRow *r = &op_table[op];
        for (int k = 0; k < 2; k++) {
            Val p = op_partial((Op)op, k, x, y, z);
            bool none = r->cls == CLASS_STRUCT || k >= r->arity || r->to_bool || r->in == IN_B ||
                        op == OP_sign || op == OP_floor || op == OP_ceil || op == OP_round;
            if (!CHECK(val_none(p) == none)) fprintf(stderr, "    %s, operand %d\n", r->name, k);
        }
    }
    CHECK(!graph_failed(g));
    graph_release(g);
}

#define F(...) shape(QB_F64, __VA_ARGS__)
#define F32(...) shape(QB_F32, __VA_ARGS__)
#define B(...) shape(QB_BOOL, __VA_ARGS__)

static void test_infer_refuses_what_an_op_cannot_mean(void)
{
    /* clang-format off */
const struct { Op op; int n; Type in[3]; Attr attr; int code; const char *says; } bad[] = {
        {OP_powi, 1, {F(2)}, {.i = -1}, QB_EVALUE, "powi: exponent -1"},
        {OP_powi, 1, {B(2)}, {.i = 2}, QB_EDTYPE, "powi: bool[2]"},
        {OP_cast, 1, {F(2)}, {.i = QB_DTYPE_COUNT}, QB_EDTYPE, "cast"},
        {OP_cast, 1, {F(2)}, {.i = -1}, QB_EDTYPE, "cast"},
        {OP_where, 3, {F(2), F(2), F(2)}, {0}, QB_EDTYPE, "the mask is f64[2]"},
        {OP_where, 3, {B(3), F(2), F(2)}, {0}, QB_ESHAPE, "bool[3], f64[2] and f64[2]"},
        {OP_where, 3, {B(2), F(2), F32(2)}, {0}, QB_EDTYPE, "f32[2]"},
        {OP_broadcast, 1, {F(2, 3)}, {.n = 2, .list = {4, 3}}, QB_ESHAPE, "f64[2,3] to f64[4,3]"},
        {OP_broadcast, 1, {F(3)}, {.n = 2, .list = {4, 3}}, QB_ESHAPE, "broadcast"},
        {OP_broadcast, 1, {F(1)}, {.n = 17}, QB_ESHAPE, "rank 17"},
        {OP_broadcast, 1, {F(1, 1)}, {.n = 2, .list = {INT64_MAX, 3}}, QB_EMEMORY, "broadcast"},
        {OP_broadcast, 1, {F(1)}, {.n = 1, .list = {0}}, QB_ESHAPE, "length 0"},
        {OP_reshape, 1, {F(2, 3)}, {.n = 1, .list = {5}}, QB_ESHAPE, "reshape: f64[2,3]"},
        {OP_reshape, 1, {F(2, 3)}, {.n = 2, .list = {-2, -3}}, QB_ESHAPE, "reshape"},
        {OP_transpose, 1, {F(2, 3)}, {.n = 2, .list = {0, 0}}, QB_ESHAPE, "transpose"},
        {OP_transpose, 1, {F(2, 3)}, {.n = 1, .list = {0}}, QB_ESHAPE, "transpose"},
        {OP_transpose, 1, {F(2, 3)}, {.n = 2, .list = {0, 40}}, QB_ESHAPE, "transpose"},
        {OP_slice, 1, {F(4)}, {.i = 1, .length = 1, .step = 1}, QB_ESHAPE, "no axis 1"},
        {OP_slice, 1, {F(4)}, {.start = 2, .length = 2, .step = 2}, QB_EINDEX, "slice"},
        {OP_slice, 1, {F(4)}, {.start = 1, .length = 3, .step = -1}, QB_EINDEX, "slice"},
        {OP_slice, 1, {F(4)}, {.start = -1, .length = 1, .step = 1}, QB_EINDEX, "slice"},
        {OP_slice, 1, {F(4)}, {.length = 0, .step = 1}, QB_EINDEX, "slice"},
        {OP_slice, 1, {F(4)}, {.length = 2, .step = 0}, QB_EINDEX, "slice"},
        {OP_slice, 1, {F(4)}, {.length = INT64_MAX, .step = INT64_MAX}, QB_EINDEX, "slice"},
        {OP_pad_slice, 1, {F(4)}, {.length = 6, .start = 3, .step = 1}, QB_EINDEX, "pad_slice"},
        {OP_pad_slice, 1, {F(4)}, {.length = 6, .start = 2, .step = -1}, QB_EINDEX, "pad_slice"},
        {OP_pad_slice, 1, {F(2, 2)}, {.length = INT64_MAX, .step = 1}, QB_EMEMORY, "pad_slice"},
        {OP_concat, 2, {F(2, 3), F(3, 3)}, {.i = 1}, QB_ESHAPE, "f64[2,3] and f64[3,3]"},
        {OP_concat, 2, {F(2), F32(2)}, {.i = 0}, QB_EDTYPE, "f32[2]"},
        {OP_concat, 2, {F(2), F(2, 1)}, {.i = 0}, QB_ESHAPE, "concat"},
        {OP_sum, 1, {B(2)}, {.n = 1}, QB_EDTYPE, "astype"},
        {OP_sum, 1, {F(2)}, {.n = 0}, QB_ESHAPE, "sum: 0 axes"},
        {OP_sum, 1, {F(2, 2)}, {.n = 2, .list = {1, 0}}, QB_ESHAPE, "sum: axis 0"},
        {OP_mean, 1, {F(2, 2)}, {.n = 2, .list = {1, 1}}, QB_ESHAPE, "mean: axis 1"},
        {OP_max, 1, {F(2)}, {.n = 1, .list = {1}}, QB_ESHAPE, "max: axis 1"},
        {OP_min, 1, {F(2)}, {.n = 1, .list = {-1}}, QB_ESHAPE, "min: axis -1"},
        {OP_matmul, 2, {F(2, 3), F(2, 3)}, {0}, QB_ESHAPE, "f64[2,3] and f64[2,3]"},
        {OP_matmul, 2, {F(3), F(3, 2)}, {0}, QB_ESHAPE, "matmul"},
        {OP_matmul, 2, {F(2, 2, 3), F(3, 3, 2)}, {0}, QB_ESHAPE, "matmul"},
        {OP_matmul, 2, {F(2, 3), F32(3, 2)}, {0}, QB_EDTYPE, "astype"},
        {OP_matmul, 2, {B(2, 3), B(3, 2)}, {0}, QB_EDTYPE, "matmul"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Graph *g = start();
        Val x[3];
        for (int k = 0; k < bad[i].n; k++) x[k] = input_of(g, NULL, bad[i].in[k]);
        CHECK(val_none(graph_emit(g, bad[i].op, x, bad[i].n, &bad[i].attr)));
        bool ok = CHECK_EQ_INT(g->error.code, bad[i].code);
        ok &= CHECK(strstr(g->error.message, bad[i].says) != NULL);
        if (!ok)
            fprintf(stderr, "    case %zu: %s: \"%s\"\n", i, op_table[bad[i].op].name,
                    g->error.message);
        graph_release(g);
    }
}

/* A result is weak when all that it is made of is weak. */
static void test_weak_flags_pass_through(void)
{
    Graph *g = start();
    Type weak = F(2, 2);
    weak.weak = 1;
    Val w = input_of(g, "w", weak), s = input_of(g, "s", F(2, 2)), m = ggreater(s, s);
    CHECK(type_of(gmatmul(w, w))->weak && !type_of(gmatmul(w, s))->weak);
    CHECK(type_of(gwhere(m, w, w))->weak && !type_of(gwhere(m, s, w))->weak);
    CHECK(type_of(gconcat(g, (Val[]){w, w}, 2, 0))->weak &&
          !type_of(gconcat(g, (Val[]){w, s}, 2, 0))->weak);
    CHECK(type_of(gsum(w, (int64_t[]){0}, 1))->weak && type_of(gslice(w, 0, 0, 1, 1))->weak);
    CHECK(!type_of(gcast(w, QB_F32))->weak && type_of(gcast_like(s, w))->weak);
    CHECK(!type_of(m)->weak);
    graph_release(g);
}

/* An argument made from a Python scalar does not make a program's results weak, nor the other way
   round. */
static void test_a_bound_argument_has_the_type_of_the_input(void)
{
    Type types[2] = {F(2), F(2)};
    types[1].weak = 1;
    for (int i = 0; i < 2; i++) {
        Graph *f = start(), *g = start();
        graph_output(f, gsin(input_of(f, "x", types[i])));
        finish(f);
        Val arg = input_of(g, "x", types[1 - i]), z = NONE;
        CHECK(inline_run(g, f, &arg, &z));
        CHECK_EQ_INT(type_of(z)->weak, i);
        graph_release(f);
        graph_release(g);
    }
}

int main(void)
{
    RUN(test_every_structural_op_has_its_rules);
    RUN(test_a_partial_exists_for_every_row_and_operand);
    RUN(test_infer_refuses_what_an_op_cannot_mean);
    RUN(test_weak_flags_pass_through);
    RUN(test_a_bound_argument_has_the_type_of_the_input);
    return test_report();
}
