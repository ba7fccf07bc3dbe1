/* stablehlo.c: a graph as a StableHLO module, text that other compilers read.

   Most elementwise ops are one word of a table. Where StableHLO has no such op the table says how to spell it with
   what it has, or names the op of CHLO, the dialect beside it. Promises about bits end here: the text says what to compute, and the
   reader of it rounds as it likes. */
#include "ir/stablehlo.h"
#include <stdio.h>

/* ---- elementwise ops ---- */

/* How an op is spelled: a word, or a word of x times `scale` (PRE), or the result times it (POST). */
typedef enum { PLAIN, COMPARE, PRE, POST } Form;
static const struct {
    const char *word;
    Form form;
    double scale;
} words[OP_COUNT] = {
    [OP_add] = {"stablehlo.add", PLAIN, 0},
    [OP_sub] = {"stablehlo.subtract", PLAIN, 0},
    [OP_mul] = {"stablehlo.multiply", PLAIN, 0},
    [OP_div] = {"stablehlo.divide", PLAIN, 0},
    [OP_pow] = {"stablehlo.power", PLAIN, 0},
    [OP_atan2] = {"stablehlo.atan2", PLAIN, 0},
    [OP_fmod] = {"stablehlo.remainder", PLAIN, 0},
    [OP_greater] = {"GT", COMPARE, 0},
    [OP_greater_equal] = {"GE", COMPARE, 0},
    [OP_less] = {"LT", COMPARE, 0},
    [OP_less_equal] = {"LE", COMPARE, 0},
    [OP_equal] = {"EQ", COMPARE, 0},
    [OP_not_equal] = {"NE", COMPARE, 0},
    [OP_logical_and] = {"stablehlo.and", PLAIN, 0},
    [OP_logical_or] = {"stablehlo.or", PLAIN, 0},
    [OP_logical_not] = {"stablehlo.not", PLAIN, 0},
    [OP_neg] = {"stablehlo.negate", PLAIN, 0},
    [OP_abs] = {"stablehlo.abs", PLAIN, 0},
    [OP_sign] = {"stablehlo.sign", PLAIN, 0},
    [OP_floor] = {"stablehlo.floor", PLAIN, 0},
    [OP_ceil] = {"stablehlo.ceil", PLAIN, 0},
    [OP_round] = {"stablehlo.round_nearest_even", PLAIN, 0},
    [OP_sqrt] = {"stablehlo.sqrt", PLAIN, 0},
    [OP_cbrt] = {"stablehlo.cbrt", PLAIN, 0},
    [OP_exp] = {"stablehlo.exponential", PLAIN, 0},
    [OP_exp2] = {"stablehlo.exponential", PRE, 0.693147180559945309417232},
    [OP_expm1] = {"stablehlo.exponential_minus_one", PLAIN, 0},
    [OP_log] = {"stablehlo.log", PLAIN, 0},
    [OP_log1p] = {"stablehlo.log_plus_one", PLAIN, 0},
    [OP_log2] = {"stablehlo.log", POST, 1.442695040888963407359925},
    [OP_log10] = {"stablehlo.log", POST, 0.434294481903251827651129},
    [OP_sin] = {"stablehlo.sine", PLAIN, 0},
    [OP_cos] = {"stablehlo.cosine", PLAIN, 0},
    [OP_tan] = {"stablehlo.tan", PLAIN, 0},
    [OP_arcsin] = {"chlo.asin", PLAIN, 0},
    [OP_arccos] = {"chlo.acos", PLAIN, 0},
    [OP_arctan] = {"chlo.atan", PLAIN, 0},
    [OP_sinh] = {"chlo.sinh", PLAIN, 0},
    [OP_cosh] = {"chlo.cosh", PLAIN, 0},
    [OP_tanh] = {"stablehlo.tanh", PLAIN, 0},
    [OP_sigmoid] = {"stablehlo.logistic", PLAIN, 0},
    [OP_arcsinh] = {"chlo.asinh", PLAIN, 0},
    [OP_arccosh] = {"chlo.acosh", PLAIN, 0},
    [OP_arctanh] = {"chlo.atanh", PLAIN, 0},
    [OP_erf] = {"chlo.erf", PLAIN, 0},
    [OP_erfc] = {"chlo.erfc", PLAIN, 0},
};

static uint32_t word_line(Out *o, const Node *n, const uint32_t *x, const Type *tx, const Type *tz)
{
    const char *word = words[n->op].word;
    const Form form = words[n->op].form;
    if (form == COMPARE) return stablehlo_compare(o, word, x[0], x[1], tx, tz);
    if (form == PLAIN) return stablehlo_same(o, word, x, (int)n->n, tz);
    uint32_t scale = stablehlo_splat(o, tz, words[n->op].scale), v = x[0];
    if (form == PRE) v = stablehlo_two(o, "stablehlo.multiply", v, scale, tz);
    v = stablehlo_same(o, word, &v, 1, tz);
    return form == POST ? stablehlo_two(o, "stablehlo.multiply", v, scale, tz) : v;
}

/* sqrt(x^2 + y^2), scaled by the larger one so that it does not overflow. */
static uint32_t hypot_lines(Out *o, const uint32_t *x, const Type *t)
{
    uint32_t a = stablehlo_same(o, "stablehlo.abs", x, 1, t),
             b = stablehlo_same(o, "stablehlo.abs", x + 1, 1, t);
    uint32_t big = stablehlo_two(o, "stablehlo.maximum", a, b, t), zero = stablehlo_splat(o, t, 0),
             one = stablehlo_splat(o, t, 1);
    Type mask = *t;
    mask.dtype = QB_BOOL;
    uint32_t empty = stablehlo_compare(o, "EQ", big, zero, t, &mask), scale = stablehlo_begin(o);
    text_add(o->t, "stablehlo.select %%%u, %%%u, %%%u : ", (unsigned)empty, (unsigned)one,
             (unsigned)big);
    stablehlo_type(o->t, &mask);
    text_add(o->t, ", ");
    stablehlo_type(o->t, t);
    text_add(o->t, "\n");
    a = stablehlo_two(o, "stablehlo.divide", a, scale, t);
    b = stablehlo_two(o, "stablehlo.divide", b, scale, t);
    a = stablehlo_two(o, "stablehlo.add", stablehlo_two(o, "stablehlo.multiply", a, a, t),
                      stablehlo_two(o, "stablehlo.multiply", b, b, t), t);
    return stablehlo_two(o, "stablehlo.multiply", stablehlo_same(o, "stablehlo.sqrt", &a, 1, t),
                         scale, t);
}

/* max(x, 0) + log1p(exp(-|x|)) */
static uint32_t softplus_lines(Out *o, const uint32_t *x, const Type *t)
{
    uint32_t zero = stablehlo_splat(o, t, 0), rest = stablehlo_same(o, "stablehlo.abs", x, 1, t);
    static const char *const rest_of[] = {"stablehlo.negate", "stablehlo.exponential",
                                          "stablehlo.log_plus_one"};
    for (int i = 0; i < 3; i++) rest = stablehlo_same(o, rest_of[i], &rest, 1, t);
    return stablehlo_two(o, "stablehlo.add", stablehlo_two(o, "stablehlo.maximum", x[0], zero, t),
                         rest, t);
}

/* By repeated squaring. */
static uint32_t powi_lines(Out *o, uint32_t x, int64_t n, const Type *t)
{
    if (n == 0) return stablehlo_splat(o, t, 1);
    uint32_t power = x, product = 0;
    bool some = false;
    for (; n; n >>= 1) {
        if (n & 1)
            product = some ? stablehlo_two(o, "stablehlo.multiply", product, power, t) : power;
        some |= n & 1;
        if (n > 1) power = stablehlo_two(o, "stablehlo.multiply", power, power, t);
    }
    return product;
}

static uint32_t cast_line(Out *o, uint32_t x, const Type *from, const Type *to)
{
    if (from->dtype == to->dtype) return x;
    if (to->dtype == QB_BOOL)
        return stablehlo_compare(o, "NE", x, stablehlo_splat(o, from, 0), from, to);
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.convert ");
    stablehlo_name(o, x);
    stablehlo_signature(o, (const Type *const[]){from}, 1, to);
    return z;
}

static uint32_t where_line(Out *o, const uint32_t *x, const Type *mask, const Type *t)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.select ");
    for (int i = 0; i < 3; i++) {
        if (i) text_add(o->t, ", ");
        stablehlo_name(o, x[i]);
    }
    text_add(o->t, " : ");
    stablehlo_type(o->t, mask);
    text_add(o->t, ", ");
    stablehlo_type(o->t, t);
    text_add(o->t, "\n");
    return z;
}

/* ---- a node ---- */

static uint32_t lines(Out *o, const Node *n)
{
    const Graph *g = o->src;
    const Type *tz = &g->types[n->first], *tx = n->n ? &g->types[n->x[0]] : tz;
    const Attr *a = n->attr;
    uint32_t x[3] = {0};
    for (uint32_t k = 0; k < n->n && k < 3; k++) x[k] = o->name[n->x[k]];
    if (words[n->op].word) return word_line(o, n, x, tx, tz);
    switch ((Op)n->op) {
    case OP_constant:
        return a->buffer ? stablehlo_dense(o, tz, a->buffer) : stablehlo_splat(o, tz, a->f);
    case OP_hypot: return hypot_lines(o, x, tz);
    case OP_softplus: return softplus_lines(o, x, tz);
    case OP_powi: return powi_lines(o, x[0], a->i, tz);
    case OP_cast: return cast_line(o, x[0], tx, tz);
    case OP_after:
    case OP_instead:
    case OP_stop_gradient: return x[0];
    case OP_where: return where_line(o, x, tx, tz);
    default: break;
    }
    uint32_t z;
    if (stablehlo_shape(o, n, x, &z)) return z;
    fail(o->g, QB_EUNSUPPORTED, "StableHLO has no op for %s", op_table[n->op].name);
    snprintf(o->g->error.op, sizeof o->g->error.op, "%s", op_table[n->op].name);
    return 0;
}

/* ---- a graph ---- */

static void mark(Out *o)
{
    const Graph *g = o->src;
    for (uint32_t i = 0; i < g->n_outputs; i++) o->live[g->def[g->outputs[i]]] = true;
    for (Id i = g->n_nodes; i-- > 0;)
        for (uint32_t k = 0; o->live[i] && k < g->nodes[i].n; k++)
            o->live[g->def[g->nodes[i].x[k]]] = true;
}

static void node_lines(Out *o)
{
    const Graph *g = o->src;
    for (Id i = 0; i < g->n_nodes && !graph_failed(o->g); i++) {
        const Node *n = &g->nodes[i];
        if (!o->live[i] || n->op == OP_input) continue;
        if (n->sub)
            stablehlo_region(o, n);
        else
            o->name[n->first] = lines(o, n);
    }
}

static bool notes_open(Out *o)
{
    o->name = mem_zeroed(o->src->n_values + (size_t)1, sizeof *o->name);
    o->live = mem_zeroed(o->src->n_nodes + (size_t)1, 1);
    if (!o->name || !o->live)
        return fail(o->g, QB_EMEMORY, "out of memory for the text of a program");
    mark(o);
    return true;
}

static void notes_drop(Out *o)
{
    mem_free(o->name);
    mem_free(o->live);
}

/* The lines of a body, its inputs named as args. */
bool stablehlo_body(Out *o, const Graph *body, const uint32_t *args, uint32_t *outs)
{
    Out b = {.t = o->t, .g = o->g, .src = body, .next = o->next, .indent = o->indent + 2};
    if (notes_open(&b)) {
        for (uint32_t i = 0; i < body->n_inputs; i++) b.name[body->inputs[i]] = args[i];
        node_lines(&b);
        for (uint32_t i = 0; i < body->n_outputs; i++) outs[i] = b.name[body->outputs[i]];
    }
    o->next = b.next;
    notes_drop(&b);
    return !graph_failed(o->g);
}

static void types_out(Out *o, const Id *v, uint32_t n, bool parens)
{
    if (parens) text_add(o->t, "(");
    for (uint32_t i = 0; i < n; i++) {
        if (i) text_add(o->t, ", ");
        stablehlo_type(o->t, &o->src->types[v[i]]);
    }
    if (parens) text_add(o->t, ")");
}

static void module(Out *o)
{
    const Graph *g = o->src;
    text_add(o->t, "module @quabla {\n  func.func @main(");
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        o->name[g->inputs[i]] = i | STABLEHLO_INPUT;
        text_add(o->t, i ? ", %%arg%u: " : "%%arg%u: ", (unsigned)i);
        stablehlo_type(o->t, &g->types[g->inputs[i]]);
    }
    text_add(o->t, ") -> ");
    types_out(o, g->outputs, g->n_outputs, g->n_outputs != 1);
    text_add(o->t, " {\n");
    node_lines(o);
    text_add(o->t, "    return");
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        text_add(o->t, i ? ", " : " ");
        stablehlo_name(o, o->name[g->outputs[i]]);
    }
    if (g->n_outputs) text_add(o->t, " : ");
    types_out(o, g->outputs, g->n_outputs, false);
    text_add(o->t, "\n  }\n}\n");
}

bool stablehlo_print(Text *t, const Graph *g, qb_error *err)
{
    Out o = {.t = t, .src = g, .indent = 4, .g = graph_new(err)};
    if (!o.g) return false;
    if (notes_open(&o)) module(&o);
    notes_drop(&o);
    const bool failed = graph_error(o.g, err);
    graph_release(o.g);
    return !failed;
}
