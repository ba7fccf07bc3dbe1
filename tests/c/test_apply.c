/* test_apply.c: ops as users write them. Two tables: what comes out, and what is refused with which words. Values of products that
   apply rearranges are compared with one product per batch. */
#include "ir/ir.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>

/* "f64[2,3]", "bool[]", "f64[] weak" */
static Type read_type(const char *s)
{
    Type t = {.dtype = *s == 'b'     ? QB_BOOL
                       : s[1] == '3' ? QB_F32
                                     : QB_F64,
              .weak = strstr(s, "weak") != NULL};
    for (s = strchr(s, '[') + 1; *s && *s != ']'; s += *s == ',')
        t.dims[t.rank++] = strtoll(s, (char **)(uintptr_t)&s, 10);
    return t;
}

typedef struct {
    const char *op, *x, *y, *z,
        *want; /* operands; want: the result's type, or "!CODE words" of the error */
    Attr attr;
    bool none; /* no attributes at all */
} Case;

/* Rows end where the rest is zero. */
/* clang-format off */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const Case cases[] = {
    /* dtypes */
    {"add", "f64[3]", "f64[3]", 0, "f64[3]"},
    {"add", "f32[3]", "f64[] weak", 0, "f32[3]"},
    {"add", "f64[] weak", "f64[] weak", 0, "f64[] weak"},
    {"mul", "bool[3]", "f32[3]", 0, "f32[3]"},
    {"mul", "bool[3]", "f64[] weak", 0, "f64[3] weak"},
    {"add", "f64[3] weak", "f32[3]", 0, "f32[3]"},
    {"add", "f32[3]", "f64[3]", 0, "!3 add: f32 and f64 do not mix (f32[3] with f64[3]); convert one with astype"},
    {"add", "bool[3]", "bool[3]", 0, "!3 add: bool[3] and bool[3] are not floating; convert one with astype"},
    {"tanh", "bool[3]", 0, 0, "!3 tanh: bool[3] is not floating; convert it with astype"},
    {"neg", "f64[] weak", 0, 0, "f64[] weak"},
    {"less", "f32[3]", "f64[] weak", 0, "bool[3]"},
    {"less", "bool[3]", "f64[3]", 0, "bool[3]"},
    {"equal", "bool[3]", "bool[3]", 0, "bool[3]"},
    {"less", "f32[3]", "f64[3]", 0, "!3 less: f32 and f64 do not mix"},
    {"logical_and", "bool[3]", "bool[2,1]", 0, "bool[2,3]"},
    {"logical_and", "bool[3]", "f64[3]", 0, "!3 logical_and: f64[3] is not bool; compare it or convert it with astype"},
    {"where", "bool[3]", "f32[3]", "f64[] weak", "f32[3]"},
    {"where", "bool[3]", "f64[] weak", "f64[] weak", "f64[3] weak"},
    {"where", "f64[3]", "f32[3]", "f32[]", "f32[3]"},
    {"where", "bool[3]", "bool[3]", "bool[]", "bool[3]"},
    {"where", "bool[3]", "bool[3]", "f32[3]", "f32[3]"},
    {"where", "bool[3]", "f64[3]", "f32[3]", "!3 where: f64 and f32 do not mix"},
    {"where", "bool[2]", "f64[3]", "f64[4]", "!2 where: shapes [2], [3] and [4] do not broadcast together"},
    {"cast", "f64[3]", 0, 0, "f32[3]", {.i = QB_F32}},
    {"cast", "f64[3] weak", 0, 0, "f64[3]", {.i = QB_F64}},
    {"cast", "f64[3]", 0, 0, "!3 cast: no dtype", {.i = 7}},
    {"powi", "f64[] weak", 0, 0, "f64[] weak", {.i = 2}},
    {"powi", "f64[3]", 0, 0, "!1 powi: exponent -1 is negative; use pow, or 1 / x", {.i = -1}},
    {"powi", "bool[3]", 0, 0, "!3 powi: bool[3] is not floating", {.i = 2}},
    {"stop_gradient", "f64[3]", 0, 0, "f64[3]"},
    /* broadcasting */
    {"add", "f64[2,1]", "f64[3]", 0, "f64[2,3]"},
    {"add", "f64[]", "f64[2,3,4]", 0, "f64[2,3,4]"},
    {"add", "f64[5,1,4]", "f64[3,1]", 0, "f64[5,3,4]"},
    {"add", "f64[3]", "f64[4]", 0, "!2 add: shapes [3] and [4] do not broadcast together"},
    {"add", "f64[2,3]", "f64[2]", 0, "!2 add: shapes [2,3] and [2] do not broadcast together"},
    {"broadcast", "f64[3]", 0, 0, "f64[2,3]", {.n = 2, .list = {2, 3}}},
    {"broadcast", "f64[]", 0, 0, "f64[2,3]", {.n = 2, .list = {2, 3}}},
    {"broadcast", "f64[3]", 0, 0, "!2 broadcast: shape [3] does not broadcast to [4]", {.n = 1, .list = {4}}},
    {"broadcast", "f64[2,3]", 0, 0, "!2 broadcast: shape [2,3] does not broadcast to [3]", {.n = 1, .list = {3}}},
    {"broadcast", "f64[1]", 0, 0, "!2 broadcast", {.n = 1, .list = {0}}},
    {"broadcast", "f64[1]", 0, 0, "!6 memory", {.n = 2, .list = {INT64_C(1) << 40, INT64_C(1) << 40}}},
    {"broadcast", "f64[1]", 0, 0, "!2 at most|more than 16 axes", {.n = 17}},
    /* shapes */
    {"reshape", "f64[2,3]", 0, 0, "f64[3,2]", {.n = 2, .list = {3, 2}}},
    {"reshape", "f64[2,3]", 0, 0, "f64[2,1,3]", {.n = 3, .list = {2, 1, -1}}},
    {"reshape", "f64[1]", 0, 0, "f64[]", {.n = 0}},
    {"reshape", "f64[2,3]", 0, 0, "!2 reshape: shape [2,3] has 6 elements, which do not fill [4,-1]", {.n = 2, .list = {4, -1}}},
    {"reshape", "f64[2,3]", 0, 0, "!2 do not fill [-1,-1]", {.n = 2, .list = {-1, -1}}},
    {"reshape", "f64[2,3]", 0, 0, "!2 do not fill [0,6]", {.n = 2, .list = {0, 6}}},
    {"reshape", "f64[2,3]", 0, 0, "!2 do not fill", {.n = 3, .list = {INT64_MAX, 4, 4}}},
    {"transpose", "f64[2,3,4]", 0, 0, "f64[4,3,2]", {.n = -1}},
    {"transpose", "f64[2,3,4]", 0, 0, "f64[4,3,2]", {.n = 0}, true},
    {"transpose", "f64[2,3,4]", 0, 0, "f64[4,2,3]", {.n = 3, .list = {-1, 0, -2}}},
    {"transpose", "f64[2,3,4]", 0, 0, "!2 transpose: axis -3 is named twice", {.n = 3, .list = {0, 1, -3}}},
    {"transpose", "f64[2,3,4]", 0, 0, "!2 transpose: axis 3 of shape [2,3,4]; axes go from -3 to 2", {.n = 3, .list = {0, 1, 3}}},
    {"transpose", "f64[2,3,4]", 0, 0, "!2 transpose: 2 axes for shape [2,3,4]", {.n = 2, .list = {0, 1}}},
    {"slice", "f64[2,5]", 0, 0, "f64[2,2]", {.i = -1, .start = 4, .length = 2, .step = -4}},
    {"slice", "f64[5]", 0, 0, "!5 slice: 3 elements from 4 by -4 leave axis 0 of shape [5]", {.start = 4, .length = 3, .step = -4}},
    {"slice", "f64[5]", 0, 0, "!5 slice", {.start = 5, .length = 1, .step = 1}},
    {"slice", "f64[5]", 0, 0, "!5 slice", {.start = 1, .length = INT64_MAX, .step = INT64_MAX}},
    {"slice", "f64[5]", 0, 0, "!2 at least one", {.start = 1, .length = 0, .step = 1}},
    {"slice", "f64[5]", 0, 0, "!1 step 0", {.start = 1, .length = 1, .step = 0}},
    {"slice", "f64[5]", 0, 0, "!2 slice: axis 1 of shape [5]", {.i = 1, .start = 1, .length = 1, .step = 1}},
    {"pad_slice", "f64[2]", 0, 0, "f64[9]", {.start = 7, .length = 9, .step = -3}},
    {"pad_slice", "f64[2]", 0, 0, "!5 pad_slice", {.start = 2, .length = 9, .step = -3}},
    {"concat", "f32[2,3]", "f32[2,4]", 0, "f32[2,7]", {.i = -1}},
    {"concat", "f32[2,3]", "bool[1,3]", "f64[4,3] weak", "f32[7,3]", {.i = 0}},
    {"concat", "bool[2]", "bool[2]", 0, "bool[4]", {.i = 0}},
    {"concat", "f64[2,3]", "f64[2,4]", 0, "!2 concat: shapes [2,3] and [2,4] differ outside axis 0", {.i = 0}},
    {"concat", "f64[]", "f64[]", 0, "!2 concat: an operand of shape []; use stack", {.i = 0}},
    {"concat", "f64[3]", "f64[3]", 0, "!2 concat: axis 1 of shape [3]", {.i = 1}},
    /* reductions */
    {"sum", "f64[2,3,4]", 0, 0, "f64[]", {.n = -1}},
    {"sum", "f64[2,3,4]", 0, 0, "f64[]", {.n = 0}, true},
    {"sum", "f64[2,3,4]", 0, 0, "f64[3]", {.n = 2, .list = {-1, 0}}},
    {"mean", "f64[2,3,4]", 0, 0, "f64[1,3,1]", {.n = 2, .list = {2, 0}, .keepdims = true}},
    {"max", "f64[2,3]", 0, 0, "f64[1,1]", {.n = -1, .keepdims = true}},
    {"min", "f32[2,3] weak", 0, 0, "f32[2] weak", {.n = 1, .list = {1}}},
    {"sum", "f64[2,3]", 0, 0, "f64[2,3]", {.n = 0}},
    {"sum", "f64[]", 0, 0, "f64[]", {.n = -1}},
    {"sum", "bool[3]", 0, 0, "!3 sum: bool[3] is not floating; convert it with astype", {.n = -1}},
    {"sum", "f64[2,3]", 0, 0, "!2 sum: axis 2 of shape [2,3]; axes go from -2 to 1", {.n = 1, .list = {2}}},
    {"sum", "f64[2,3]", 0, 0, "!2 sum: axis -1 is named twice", {.n = 2, .list = {1, -1}}},
    {"sum", "f64[2,3]", 0, 0, "!2 sum: 3 axes for shape [2,3]", {.n = 3, .list = {0, 1, 0}}},
    /* products */
    {"matmul", "f64[2,3]", "f64[3,4]", 0, "f64[2,4]"},
    {"matmul", "f64[3]", "f64[3]", 0, "f64[]"},
    {"matmul", "f64[3]", "f64[3,4]", 0, "f64[4]"},
    {"matmul", "f64[2,3]", "f64[3]", 0, "f64[2]"},
    {"matmul", "f64[5,2,3]", "f64[3,4]", 0, "f64[5,2,4]"},
    {"matmul", "f64[5,2,3]", "f64[3]", 0, "f64[5,2]"},
    {"matmul", "f64[2,3]", "f64[5,3,4]", 0, "f64[5,2,4]"},
    {"matmul", "f64[3]", "f64[5,3,4]", 0, "f64[5,4]"},
    {"matmul", "f64[6,1,2,3]", "f64[5,3,4]", 0, "f64[6,5,2,4]"},
    {"matmul", "f32[2,3]", "f64[3,4] weak", 0, "f32[2,4]"},
    {"matmul", "f64[2,3]", "f64[4,5]", 0, "!2 matmul: shapes [2,3] and [4,5] do not fit: 3 columns, 4 rows"},
    {"matmul", "f64[]", "f64[3]", 0, "!2 matmul: shapes [] and [3]; a scalar needs mul"},
    {"matmul", "f64[5,2,3]", "f64[4,3,4]", 0, "!2 matmul: shapes [5,2,3] and [4,3,4] do not broadcast together"},
    {"matmul", "bool[2,3]", "bool[3,4]", 0, "!3 matmul"},
    /* calls */
    {"add", "f64[3]", 0, 0, "!4 add takes 2 operands, not 1"},
    {"tanh", "f64[3]", "f64[3]", 0, "!4 tanh takes 1 operand, not 2"},
    {"input", 0, 0, 0, "!1 input is not applied to values"},
};
/* clang-format on */

static void test_each_op_as_a_user_writes_it(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        qb_error err = {0};
        Graph *g = graph_new(&err);
        Val x[3];
        const char *texts[] = {c->x, c->y, c->z};
        int n = 0;
        for (; n < 3 && texts[n]; n++) {
            Type t = read_type(texts[n]);
            x[n] = graph_input(g, NULL, &t);
        }
        Val v = apply_op(g, op_find(c->op), x, n, c->none ? NULL : &c->attr);
        if (*c->want == '!') {
            const char *words = strchr(c->want, ' ') + 1, *bar = strchr(words, '|');
            bool said = strstr(g->error.message, bar ? bar + 1 : words) != NULL;
            if (!CHECK(val_none(v) && g->error.code == atoi(c->want + 1) && said))
                fprintf(stderr, "    %s %s %s: %d %s\n    expected %s\n", c->op, c->x ? c->x : "",
                        c->y ? c->y : "", g->error.code, g->error.message, c->want);
        } else {
            Type want = read_type(c->want);
            if (!CHECK(!val_none(v) && type_exact(type_of(v), &want)))
                fprintf(stderr, "    %s %s %s: %s%s %s\n    expected %s\n", c->op, c->x,
                        c->y ? c->y : "", val_none(v) ? "" : TYPE_TEXT(type_of(v)),
                        !val_none(v) && type_of(v)->weak ? " weak" : "", g->error.message, c->want);
            CHECK(graph_freeze(g, &err) && check_graph(g, &err));
        }
        graph_release(g);
    }
}

static void test_a_failed_call_leaves_the_graph_usable(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    Type t = read_type("f64[3]"), u = read_type("f64[4]");
    Val x = graph_input(g, "x", &t), y = graph_input(g, "y", &u);
    CHECK(val_none(apply_op(g, OP_add, (Val[]){x, y}, 2, NULL)));
    CHECK(val_none(apply_op(g, OP_add, (Val[]){x, x}, 2, NULL)));
    CHECK(graph_error(g, &err));
    CHECK(!val_none(apply_op(g, OP_add, (Val[]){x, x}, 2, NULL)));
    CHECK(val_none(apply_op(g, 1000, &x, 1, NULL)));
    CHECK(graph_error(g, &err) && err.code == QB_EVALUE);
    CHECK(val_none(apply_op(g, OP_tanh, &NONE, 1, NULL)));
    CHECK(graph_error(g, &err) && err.code == QB_EBUG);
    graph_release(g);
}

/* A weak constant is the same node as a strong one, so that 2 * x and a captured 2.0 * x are one. */
static void test_weak_constants_become_the_operands_dtype(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    Type t = read_type("f32[3]"), w = read_type("f64[] weak"), s = read_type("f32[]");
    Val x = graph_input(g, "x", &t);
    Val a = apply_op(g, OP_mul, (Val[]){x, gconst(g, &w, 0.1)}, 2, NULL),
        b = apply_op(g, OP_mul, (Val[]){x, gconst(g, &s, 0.1)}, 2, NULL);
    CHECK(val_same(a, b));
    double v = 0;
    CHECK(const_splat(graph_val(g, node_of(a)->x[1]), &v) && v == (double)0.1f);
    graph_release(g);
}

/* ---- values ---- */

static void fill(double *p, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = (double)(int64_t)seed / 9e18;
    }
}

static void product(const char *a, const char *b, const double *x, const double *y, double *z)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    Type t = read_type(a), u = read_type(b);
    Val v[] = {graph_input(g, "a", &t), graph_input(g, "b", &u)};
    graph_output(g, apply_op(g, OP_matmul, v, 2, NULL));
    const void *in[] = {x, y};
    void *out[] = {z};
    CHECK(graph_freeze(g, &err) && value_run(g, in, out, &err));
    graph_release(g);
}

static void test_batched_products_are_the_single_products(void)
{
    double a[6 * 2 * 150], b[5 * 150 * 4], got[240], want[8];
    fill(a, 6 * 2 * 150, 1);
    fill(b, 5 * 150 * 4, 2);
    product("f64[6,2,150]", "f64[150,4]", a, b, got); /* the batch becomes rows */
    for (int i = 0; i < 6; i++) {
        product("f64[2,150]", "f64[150,4]", a + i * 300, b, want);
        CHECK_EQ_BITS(got + i * 8, want, sizeof want);
    }
    product("f64[6,1,2,150]", "f64[5,150,4]", a, b, got); /* both batches broadcast */
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++) {
            product("f64[2,150]", "f64[150,4]", a + i * 300, b + j * 600, want);
            CHECK_EQ_BITS(got + (i * 5 + j) * 8, want, sizeof want);
        }
    product("f64[2,150]", "f64[5,150,4]", a, b, got);
    product("f64[2,150]", "f64[150,4]", a, b + 4 * 600, want);
    CHECK_EQ_BITS(got + 4 * 8, want, sizeof want);
    product("f64[150]", "f64[150,4]", a, b, got);
    CHECK_EQ_BITS(got, (product("f64[1,150]", "f64[150,4]", a, b, want), want), 4 * sizeof *want);
}

static void test_a_float_mask_is_true_where_not_zero(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    Type t = read_type("f64[4]"), s = read_type("f64[] weak");
    Val v[] = {graph_input(g, "m", &t), gconst(g, &s, 1), gconst(g, &s, 2)};
    graph_output(g, apply_op(g, OP_where, v, 3, NULL));
    double m[] = {0.0, -0.0, NAN, -3}, got[4], want[] = {2, 2, 1, 1};
    const void *in[] = {m};
    void *out[] = {got};
    CHECK(graph_freeze(g, &err) && value_run(g, in, out, &err));
    CHECK_EQ_BITS(got, want, sizeof want);
    graph_release(g);
}

/* NumPy: mask * r counts the mask as 0 and 1. */
static void test_bool_beside_a_float_is_zero_or_one(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    Type t = read_type("bool[3]"), f = read_type("f32[3]"), s = read_type("f64[] weak");
    Val m = graph_input(g, "m", &t), r = graph_input(g, "r", &f);
    Val twice = apply_op(g, OP_mul, (Val[]){m, gconst(g, &s, 2)}, 2, NULL);
    graph_output(g, apply_op(g, OP_add, (Val[]){twice, r}, 2, NULL));
    unsigned char mask[] = {1, 0, 1};
    float x[] = {0.5f, 0.25f, -1}, got[3], want[] = {2.5f, 0.25f, 1};
    const void *in[] = {mask, x};
    void *out[] = {got};
    CHECK(graph_freeze(g, &err) && value_run(g, in, out, &err));
    CHECK_EQ_BITS(got, want, sizeof want);
    graph_release(g);
}

int main(void)
{
    RUN(test_each_op_as_a_user_writes_it);
    RUN(test_a_failed_call_leaves_the_graph_usable);
    RUN(test_weak_constants_become_the_operands_dtype);
    RUN(test_batched_products_are_the_single_products);
    RUN(test_a_float_mask_is_true_where_not_zero);
    RUN(test_bool_beside_a_float_is_zero_or_one);
    return test_report();
}
