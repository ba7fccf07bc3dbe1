/* stablehlo_region.c: ops with bodies in StableHLO: if, and while for scan and while alike. A scan counts its iterations, slices its
   xs and writes its stacks row by row. Bodies see the names around them, so operands that no iteration changes are not passed. */
#include "ir/stablehlo.h"

static void names_out(Out *o, uint32_t first, uint32_t n)
{
    text_add(o->t, "%*s", o->indent, "");
    for (uint32_t i = 0; i < n; i++) text_add(o->t, i ? ", %%%u" : "%%%u", (unsigned)(first + i));
    text_add(o->t, " = ");
}

static uint32_t take_names(Out *o, uint32_t n)
{
    o->next += n;
    return o->next - n;
}

static void return_line(Out *o, const uint32_t *v, const Type *const *types, uint32_t n)
{
    text_add(o->t, "%*s  stablehlo.return", o->indent, "");
    for (uint32_t i = 0; i < n; i++) {
        text_add(o->t, i ? ", " : " ");
        stablehlo_name(o, v[i]);
    }
    text_add(o->t, " : ");
    for (uint32_t i = 0; i < n; i++) {
        if (i) text_add(o->t, ", ");
        stablehlo_type(o->t, types[i]);
    }
    text_add(o->t, "\n");
}

static uint32_t integer_line(Out *o, int64_t value)
{
    uint32_t z = take_names(o, 1);
    text_add(o->t, "%*s  %%%u = stablehlo.constant dense<%lld> : tensor<i64>\n", o->indent, "",
             (unsigned)z, (long long)value);
    return z;
}

/* The number of iterations before the first: outside the loop. */
static uint32_t first_count(Out *o)
{
    o->indent -= 2;
    uint32_t z = integer_line(o, 0);
    o->indent += 2;
    return z;
}

static uint32_t integer_op(Out *o, const char *word, uint32_t x, uint32_t y)
{
    uint32_t z = take_names(o, 1);
    text_add(o->t, "%*s  %%%u = stablehlo.%s %%%u, %%%u : tensor<i64>\n", o->indent, "",
             (unsigned)z, word, (unsigned)x, (unsigned)y);
    return z;
}

static uint32_t integer_less(Out *o, uint32_t x, uint32_t y)
{
    uint32_t z = take_names(o, 1);
    text_add(o->t,
             "%*s  %%%u = stablehlo.compare LT, %%%u, %%%u, SIGNED : (tensor<i64>, tensor<i64>) -> "
             "tensor<i1>\n",
             o->indent, "", (unsigned)z, (unsigned)x, (unsigned)y);
    return z;
}

/* x[i] along the first axis, without that axis; of type t. */
static uint32_t row_line(Out *o, uint32_t x, uint32_t i, uint32_t zero, const Type *from,
                         const Type *t)
{
    Type row = *from;
    row.dims[0] = 1;
    uint32_t z = take_names(o, 2);
    text_add(o->t, "%*s  %%%u = stablehlo.dynamic_slice ", o->indent, "", (unsigned)z);
    stablehlo_name(o, x);
    text_add(o->t, ", %%%u", (unsigned)i);
    for (int k = 1; k < row.rank; k++) text_add(o->t, ", %%%u", (unsigned)zero);
    text_add(o->t, ", sizes = ");
    stablehlo_list(o->t, row.dims, row.rank);
    text_add(o->t, " : (");
    stablehlo_type(o->t, from);
    for (int k = 0; k < row.rank; k++) text_add(o->t, ", tensor<i64>");
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, &row);
    text_add(o->t, "\n%*s  %%%u = stablehlo.reshape %%%u : (", o->indent, "", (unsigned)z + 1,
             (unsigned)z);
    stablehlo_type(o->t, &row);
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, t);
    text_add(o->t, "\n");
    return z + 1;
}

/* x with v, of type t, at [i] of the first axis. */
static uint32_t put_row(Out *o, uint32_t x, uint32_t v, uint32_t i, uint32_t zero, const Type *to,
                        const Type *t)
{
    Type row = *to;
    row.dims[0] = 1;
    uint32_t z = take_names(o, 2);
    text_add(o->t, "%*s  %%%u = stablehlo.reshape ", o->indent, "", (unsigned)z);
    stablehlo_name(o, v);
    text_add(o->t, " : (");
    stablehlo_type(o->t, t);
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, &row);
    text_add(o->t, "\n%*s  %%%u = stablehlo.dynamic_update_slice %%%u, %%%u, %%%u", o->indent, "",
             (unsigned)z + 1, (unsigned)x, (unsigned)z, (unsigned)i);
    for (int k = 1; k < row.rank; k++) text_add(o->t, ", %%%u", (unsigned)zero);
    text_add(o->t, " : (");
    stablehlo_type(o->t, to);
    text_add(o->t, ", ");
    stablehlo_type(o->t, &row);
    for (int k = 0; k < row.rank; k++) text_add(o->t, ", tensor<i64>");
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, to);
    text_add(o->t, "\n");
    return z + 1;
}

typedef struct {
    uint32_t *in, *out; /* names of a body's inputs and outputs */
    const Type **types;
} Names;

static bool names_open(Names *n, Arena *a, const Node *node, uint32_t more)
{
    size_t room = node->n + node->results + (size_t)more + 1;
    n->in = arena_zeroed(a, 2 * room, sizeof *n->in);
    n->types = arena_zeroed(a, room, sizeof *n->types);
    n->out = n->in ? n->in + room : NULL;
    return n->in && n->types;
}

static void cond_lines(Out *o, const Node *n, Names *m)
{
    const uint32_t first = take_names(o, n->results);
    for (uint32_t k = 1; k < n->n; k++) m->in[k - 1] = o->name[n->x[k]];
    for (uint32_t r = 0; r < n->results; r++) {
        m->types[r] = &o->src->types[n->first + r];
        o->name[n->first + r] = first + r;
    }
    names_out(o, first, n->results);
    text_add(o->t, "\"stablehlo.if\"(");
    stablehlo_name(o, o->name[n->x[0]]);
    for (int b = 0; b < 2; b++) {
        if (b)
            text_add(o->t, "%*s}, {\n", o->indent, "");
        else
            text_add(o->t, ") ({\n");
        if (!stablehlo_body(o, n->sub[b], m->in, m->out)) return;
        return_line(o, m->out, m->types, n->results);
    }
    text_add(o->t, "%*s}) : (tensor<i1>) -> ", o->indent, "");
    if (n->results != 1) text_add(o->t, "(");
    for (uint32_t r = 0; r < n->results; r++) {
        if (r) text_add(o->t, ", ");
        stablehlo_type(o->t, m->types[r]);
    }
    text_add(o->t, n->results != 1 ? ")\n" : "\n");
}

/* "%9, %10 = stablehlo.while(%4 = %0, %5 = %1) : types" with i64 first; returns the name of the first iteration value. */
static uint32_t while_head(Out *o, const Node *n, const Names *m, uint32_t count, uint32_t start)
{
    uint32_t first = take_names(o, count + 1), iter = take_names(o, count + 1);
    for (uint32_t r = 0; r < n->results; r++) o->name[n->first + r] = first + 1 + r;
    names_out(o, first, count + 1);
    text_add(o->t, "stablehlo.while(%%%u = %%%u", (unsigned)iter, (unsigned)start);
    for (uint32_t i = 0; i < count; i++) {
        text_add(o->t, ", %%%u = ", (unsigned)(iter + 1 + i));
        stablehlo_name(o, m->in[i]);
    }
    text_add(o->t, ") : tensor<i64>");
    for (uint32_t i = 0; i < count; i++) {
        text_add(o->t, ", ");
        stablehlo_type(o->t, m->types[i + 1]);
    }
    text_add(o->t, "\n%*s cond {\n", o->indent, "");
    return iter;
}

/* The body's last line: the next count and the values in m->out. */
static void end_loop(Out *o, const Names *m, uint32_t count)
{
    text_add(o->t, "%*s  stablehlo.return", o->indent, "");
    for (uint32_t i = 0; i <= count; i++) {
        text_add(o->t, i ? ", " : " ");
        stablehlo_name(o, m->out[i]);
    }
    text_add(o->t, " : tensor<i64>");
    for (uint32_t i = 0; i < count; i++) {
        text_add(o->t, ", ");
        stablehlo_type(o->t, m->types[i + 1]);
    }
    text_add(o->t, "\n%*s }\n", o->indent, "");
}

static void while_lines(Out *o, const Node *n, Names *m)
{
    const Type count = {.dtype = QB_BOOL};
    const uint32_t carries = (uint32_t)n->attr->i, start = first_count(o);
    for (uint32_t k = 0; k < n->n; k++) m->in[k] = o->name[n->x[k]];
    for (uint32_t k = 0; k < carries; k++) m->types[k + 1] = &o->src->types[n->first + k];
    const uint32_t iter = while_head(o, n, m, carries, start);
    for (uint32_t k = 0; k < carries; k++) m->in[k] = iter + 1 + k;
    if (!stablehlo_body(o, n->sub[0], m->in, m->out)) return;
    if (n->attr->length) {
        uint32_t less = integer_less(o, iter, integer_line(o, n->attr->length)),
                 both = take_names(o, 1);
        text_add(o->t, "%*s  %%%u = stablehlo.and ", o->indent, "", (unsigned)both);
        stablehlo_name(o, m->out[0]);
        text_add(o->t, ", %%%u : tensor<i1>\n", (unsigned)less);
        m->out[0] = both;
    }
    return_line(o, m->out, (const Type *const[]){&count}, 1);
    text_add(o->t, "%*s } do {\n", o->indent, "");
    if (!stablehlo_body(o, n->sub[1], m->in, m->out + 1)) return;
    m->out[0] = integer_op(o, "add", iter, integer_line(o, 1));
    end_loop(o, m, carries);
}

static void scan_lines(Out *o, const Node *n, Names *m)
{
    const Type count = {.dtype = QB_BOOL};
    const Graph *g = o->src, *body = n->sub[0];
    const uint32_t carries = (uint32_t)n->attr->i, xs = (uint32_t)n->attr->step, all = n->results;
    const uint32_t start = first_count(o);
    for (uint32_t r = 0; r < all; r++) {
        m->types[r + 1] = &g->types[n->first + r];
        m->in[r] = r < carries ? o->name[n->x[r]] : stablehlo_splat(o, m->types[r + 1], 0);
    }
    const uint32_t iter = while_head(o, n, m, all, start);
    m->out[0] = integer_less(o, iter, integer_line(o, n->attr->length));
    return_line(o, m->out, (const Type *const[]){&count}, 1);
    text_add(o->t, "%*s } do {\n", o->indent, "");
    uint32_t zero = integer_line(o, 0), i = iter;
    if (n->attr->start) i = integer_op(o, "subtract", integer_line(o, n->attr->length - 1), iter);
    for (uint32_t k = 0; k < n->n; k++) {
        const Type *t = &body->types[body->inputs[k]];
        m->in[k] = k < carries ? iter + 1 + k
                   : k < carries + xs
                       ? row_line(o, o->name[n->x[k]], i, zero, &g->types[n->x[k]], t)
                       : o->name[n->x[k]];
    }
    if (!stablehlo_body(o, body, m->in, m->out + 1)) return;
    for (uint32_t r = carries; r < all; r++)
        m->out[r + 1] = put_row(o, iter + 1 + r, m->out[r + 1], i, zero, m->types[r + 1],
                                &body->types[body->outputs[r]]);
    m->out[0] = integer_op(o, "add", iter, integer_line(o, 1));
    end_loop(o, m, all);
}

/* A function with a rule of its own is its value, line by line. */
static void value_lines(Out *o, const Node *n, Names *m)
{
    for (uint32_t k = 0; k < n->n; k++) m->in[k] = o->name[n->x[k]];
    o->indent -= 2;
    if (stablehlo_body(o, n->sub[0], m->in, m->out))
        for (uint32_t r = 0; r < n->results; r++) o->name[n->first + r] = m->out[r];
    o->indent += 2;
}

void stablehlo_region(Out *o, const Node *n)
{
    Arena arena = {0};
    Names m;
    if (!names_open(&m, &arena, n, 2))
        fail(o->g, QB_EMEMORY, "out of memory for the text of a program");
    else if (n->op == OP_cond)
        cond_lines(o, n, &m);
    else if (n->op == OP_scan)
        scan_lines(o, n, &m);
    else if (n->op == OP_while)
        while_lines(o, n, &m);
    else if (op_custom(n->op))
        value_lines(o, n, &m);
    else
        fail(o->g, QB_EBUG, "StableHLO text of %s", op_table[n->op].name);
    arena_free(&arena);
}
