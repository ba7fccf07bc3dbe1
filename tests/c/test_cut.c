/* Programs on grids, with rolls, padded parts and stencils, against the reference evaluator: cutting keeps every bit. */
#include "random_graph.h"
#include "reference.h"

static const int64_t grids[][3] = {{36, 40, 1}, {500, 1, 1}, {12, 10, 9}, {1, 700, 1}, {2, 16, 33}};

/* Some value of this type, from the pool. */
static Val like(Random *r, const Type *t)
{
    for (int i = 0; i < 30; i++) {
        Val y = random_pick(r);
        if (type_same(type_of(y), t)) return y;
    }
    return random_constant(r, t);
}

static Val roll(Random *r, Val x)
{
    const Type *t = type_of(x);
    int axis = (int)random_below(r, t->rank);
    int64_t n = t->dims[axis], by = random_below(r, 4) ? 1 : random_below(r, n);
    if (by == 0 || by == n) return NONE;
    Val a = gslice(x, axis, n - by, by, 1), b = gslice(x, axis, 0, n - by, 1);
    return gconcat(r->g, (Val[]){a, b}, 2, axis);
}

/* The inner part, with work on it or none, back in zeros: along one axis or two. */
static Val inner(Random *r, Val x)
{
    const Type t = *type_of(x);
    int axes = 1 + (int)random_below(r, 2), axis[2];
    int64_t start[2];
    for (int i = 0; i < axes; i++) {
        axis[i] = (int)random_below(r, t.rank);
        start[i] = random_below(r, 3);
        int64_t left = type_of(x)->dims[axis[i]] - start[i] - random_below(r, 3);
        if (left < 1 || start[i] + left > type_of(x)->dims[axis[i]]) return NONE;
        x = gslice(x, axis[i], start[i], left, 1);
    }
    for (int64_t i = random_below(r, 3); i > 0; i--)
        x = random_below(r, 2) ? random_unary(r, x) : gmul(x, x);
    for (int i = axes - 1; i >= 0; i--) {
        int64_t more = i == 1 && axis[0] == axis[1] ? 0 : t.dims[axis[i]];
        if (more == 0) return NONE;
        x = gpad_slice(x, axis[i], start[i], more, 1);
    }
    return x;
}

static Val ends(Random *r, Val x)
{
    const Type *t = type_of(x);
    int axis = (int)random_below(r, t->rank);
    int64_t n = t->dims[axis];
    if (n < 3) return NONE;
    Val a = gslice(x, axis, 0, 1, 1), b = gneg(gslice(x, axis, 1, n - 2, 1)),
        c = gslice(x, axis, n - 1, 1, 1);
    return gconcat(r->g, (Val[]){a, b, c}, 3, axis);
}

static Val step(Random *r)
{
    Val x = random_pick(r);
    switch (random_below(r, 9)) {
    case 0:
    case 1: return roll(r, x);
    case 2:
    case 3: return inner(r, x);
    case 4: return ends(r, x);
    case 5: return random_unary(r, x);
    default: {
        static const Op ops[] = {OP_add, OP_sub, OP_mul, OP_add};
        Val y = like(r, type_of(x));
        return graph_emit(r->g, ops[random_below(r, 4)], (Val[]){x, y}, 2, NULL);
    }
    }
}

static Graph *grid_program(uint64_t seed, qb_error *err)
{
    Random r = {.g = graph_new(err), .state = seed};
    if (!r.g) return NULL;
    const int64_t *dims = grids[random_below(&r, 5)];
    Type t = type_make(random_below(&r, 3) ? QB_F64 : QB_F32, 3, dims);
    static const char *const names[] = {"x", "y"};
    for (int i = 0; i < 2; i++) r.pool[r.n++] = graph_input(r.g, names[i], &t);
    for (int i = 0; i < 12; i++) {
        Val v = step(&r);
        if (!val_none(v) && type_same(type_of(v), &t)) r.pool[r.n++] = v;
    }
    graph_output(r.g, r.pool[r.n - 1]);
    if (random_below(&r, 2)) graph_output(r.g, random_pick(&r));
    if (random_below(&r, 2)) graph_output(r.g, gsum(random_pick(&r), (int64_t[]){0, 1, 2}, 3));
    if (graph_freeze(r.g, err)) return r.g;
    graph_release(r.g);
    return NULL;
}

static void test_programs_on_grids_keep_their_bits(void)
{
    uint64_t first, last;
    const bool only = test_seeds(1500, &first, &last);
    int cut = 0;
    for (uint64_t seed = first; seed <= last && test_failures < 5; seed++) {
        qb_error err = {0};
        Graph *g = grid_program(seed, &err), *parts = g ? cut_run(g, &err) : NULL;
        if (!CHECK(parts != NULL))
            fprintf(stderr, "    seed %llu: %s\n", (unsigned long long)seed, err.message);
        cut += parts && parts != g;
        if (parts && !(CHECK(check_graph(parts, &err)) && CHECK(ref_check(g, seed))))
            fprintf(stderr, "    seed %llu: %s\n", (unsigned long long)seed, err.message);
        graph_release(parts);
        graph_release(g);
    }
    if (!only) CHECK(cut > 300);
}

/* Joins of joins: nothing here goes deeper than a few of them. */
static void test_a_long_chain_of_joins_compiles(void)
{
    qb_error err = {0};
    Graph *g = graph_new(&err);
    REQUIRE(g != NULL);
    Type t = type_make(QB_F64, 1, (int64_t[]){1000}), one = type_make(QB_F64, 1, (int64_t[]){1});
    Val x = graph_input(g, "x", &t), end = graph_input(g, "end", &one);
    for (int i = 0; i < 2000; i++) x = gconcat(g, (Val[]){x, end}, 2, 0);
    graph_output(g, gneg(x));
    REQUIRE(graph_freeze(g, &err));
    qb_plan *p = plan_compile(g, &reference_target, NULL, &err);
    CHECK(p != NULL);
    plan_release(p);
    graph_release(g);
}

/* A join that two others read: what is dear below it is computed once, what is cheap where it is read. */
static void test_what_is_dear_is_computed_once(void)
{
    static const struct {
        Op op;
        int64_t most;
    } cases[] = {{OP_tanh, 1000}, {OP_neg, 2004}};
    for (int i = 0; i < 2; i++) {
        qb_error err = {0};
        Graph *g = graph_new(&err);
        REQUIRE(g != NULL);
        Type t = type_make(QB_F64, 1, (int64_t[]){1000});
        Val x = graph_input(g, "x", &t);
        Val y = gpad_slice(graph_emit(g, cases[i].op, &x, 1, NULL), 0, 1, 1002, 1);
        Val a = gpad_slice(y, 0, 0, 1003, 1), b = gpad_slice(y, 0, 1, 1003, 1);
        graph_output(g, gsub(a, b));
        REQUIRE(graph_freeze(g, &err));
        Graph *parts = cut_run(g, &err);
        REQUIRE(parts != NULL);
        int64_t computed = 0;
        for (Id n = 0; n < parts->n_nodes; n++)
            if (parts->nodes[n].op == cases[i].op)
                computed += type_size(&parts->types[parts->nodes[n].first]);
        CHECK(parts != g && computed >= 1000 && computed <= cases[i].most);
        graph_release(parts);
        graph_release(g);
    }
}

/* Whatever allocation fails, it is an error and no crash. */
static void test_cutting_without_memory_is_an_error(void)
{
    int failures = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        qb_error err = {0};
        Graph *g = grid_program(seed, &err), *parts = NULL;
        REQUIRE(g != NULL);
        for (int64_t n = 1; !parts; n++) {
            qb_test_fail_alloc(n);
            parts = cut_run(g, &err);
            qb_test_fail_alloc(-1);
            failures += !parts;
            if (!parts && !CHECK(err.code == QB_EMEMORY)) break;
        }
        graph_release(parts);
        graph_release(g);
    }
    CHECK(failures > 100);
}

int main(void)
{
    RUN(test_programs_on_grids_keep_their_bits);
    RUN(test_a_long_chain_of_joins_compiles);
    RUN(test_what_is_dear_is_computed_once);
    RUN(test_cutting_without_memory_is_an_error);
    return test_report();
}
