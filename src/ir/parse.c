/* parse.c: the graph's own text back to a graph. One line is one node; nodes are appended as they stand, without folding or
   reuse, so what print_graph wrote is read as the same graph, and tests can write programs that emit would simplify.

       %2, %3 = op[key=value, key=[1, 2]](%0, %1) : tensor<2x3xf64>, tensor<f64 weak>
       return %2

   Numbers of values may be any; each is defined once, before its use. A # starts a comment. The bodies of a region op stand in
   braces behind its types, with numbers of their own:

       %1 = scan[length=3, reverse=0, carries=1, xs=0](%0) : tensor<f64> {
           ...
           return %4
       } */
#include "ir/ir.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MAX_NUMBER = 1 << 24,
    MAX_NAME = 1024,
    MAX_RESULTS = UINT16_MAX,
    MAX_DEPTH = 64,
    MAX_BODIES = 3
};

typedef struct {
    int64_t number;
    Type type;
    Val v;
} Result;

/* What a line holds, before it becomes a node. */
typedef struct {
    Result *result; /* this and x grow to the longest line */
    int results, room;
    Val *x;
    size_t n, size;
    Attr attr;
    Graph *bodies[MAX_BODIES + 1];
} Line;

typedef struct {
    const char *s; /* what is left */
    int line;
    int depth; /* of the body that this is; 0 the program */
    Graph *g;
    Id *value;      /* by number in the text; NO_ID undefined */
    size_t numbers; /* entries of value */
    qb_error *err;
    char name[MAX_NAME];
    Line now;
} Parser;

/* ---- pieces ---- */

static bool wrong(Parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(Parser *p, const char *format, ...)
{
    char text[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_set(p->err, QB_EPARSE, "line %d: %s", p->line, text);
    return false;
}

static void space(Parser *p)
{
    while (*p->s == ' ' || *p->s == '\t' || *p->s == '\r') p->s++;
}

static bool peek(Parser *p, const char *what)
{
    space(p);
    return strncmp(p->s, what, strlen(what)) == 0;
}

static bool accept(Parser *p, const char *what)
{
    if (!peek(p, what)) return false;
    p->s += strlen(what);
    return true;
}

static bool expect(Parser *p, const char *what)
{
    return accept(p, what) || wrong(p, "'%s' expected before '%.20s'", what, p->s);
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_./-", c));
}

/* A word of plain characters into p->name. */
static bool word(Parser *p, const char *what)
{
    size_t n = 0;
    space(p);
    while (word_char(*p->s) && n < MAX_NAME - 1) p->name[n++] = *p->s++;
    p->name[n] = 0;
    return n > 0 || wrong(p, "%s expected before '%.20s'", what, p->s);
}

static bool integer(Parser *p, int64_t *out)
{
    space(p);
    bool minus = *p->s == '-';
    const char *s = p->s + minus;
    int64_t v = 0;
    if (*s < '0' || *s > '9') return wrong(p, "an integer expected before '%.20s'", p->s);
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, minus ? '0' - *s : *s - '0', &v))
            return wrong(p, "the integer '%.20s' is too large", p->s);
    p->s = s;
    *out = v;
    return true;
}

/* strtod reads the locale's decimal point, so it is put in where the text has a point. */
static bool number(Parser *p, double *out)
{
    char text[80];
    size_t n = 0;
    space(p);
    if (strncmp(p->s, "nan(", 4) == 0) {
        char *end;
        uint64_t bits = strtoull(p->s + 4, &end, 16);
        memcpy(out, &bits, sizeof bits);
        p->s = end;
        return expect(p, ")");
    }
    const char *s = p->s, *point = localeconv()->decimal_point;
    for (; (word_char(*s) || *s == '+') && n < sizeof text - 8; s++) {
        if (*s != '.')
            text[n++] = *s;
        else
            for (const char *c = point; *c && n < sizeof text - 8; c++) text[n++] = *c;
    }
    text[n] = 0;
    char *end = text;
    if (n) *out = strtod(text, &end);
    if (n == 0 || *end) return wrong(p, "a number expected before '%.20s'", p->s);
    p->s = s;
    return true;
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The name of an input, bare or in quotes, into p->name. */
static bool name(Parser *p)
{
    size_t n = 0;
    if (!accept(p, "\"")) return word(p, "a name");
    for (; *p->s && *p->s != '"' && *p->s != '\n' && n < MAX_NAME - 1; p->s++) {
        if (*p->s == '\\' && p->s[1] == 'x' && hex(p->s[2]) >= 0 && hex(p->s[3]) >= 0) {
            p->name[n++] = (char)(hex(p->s[2]) * 16 + hex(p->s[3]));
            p->s += 3;
            continue;
        }
        if (*p->s == '\\' && p->s[1]) p->s++;
        p->name[n++] = *p->s;
    }
    p->name[n] = 0;
    return expect(p, "\"");
}

static bool list(Parser *p, int64_t *out, int *n)
{
    if (!expect(p, "[")) return false;
    for (*n = 0; !accept(p, "]"); ++*n) {
        if (*n == QB_MAX_RANK) return wrong(p, "a list of more than %d integers", QB_MAX_RANK);
        if ((*n && !expect(p, ",")) || !integer(p, &out[*n])) return false;
    }
    return true;
}

/* gather and scatter_add: integers of any number, into a buffer of a. */
static bool indices(Parser *p, Attr *a)
{
    const char *from;
    int64_t n = 0, skipped;
    if (!expect(p, "[")) return false;
    for (from = p->s; !accept(p, "]"); n++)
        if ((n && !expect(p, ",")) || !integer(p, &skipped)) return false;
    const char *rest = p->s;
    qb_buffer_release(a->buffer);
    a->buffer = qb_buffer_new(n * (int64_t)sizeof skipped, p->err);
    if (!a->buffer) return false;
    p->s = from;
    for (int64_t i = 0; i < n; i++) {
        if (i) accept(p, ",");
        integer(p, (int64_t *)a->buffer->data + i);
    }
    p->s = rest;
    return true;
}

static bool type(Parser *p, Type *t)
{
    *t = (Type){0};
    if (!expect(p, "tensor<")) return false;
    for (; *p->s >= '0' && *p->s <= '9'; t->rank++) {
        if (t->rank == QB_MAX_RANK) return wrong(p, "more than %d axes", QB_MAX_RANK);
        if (!integer(p, &t->dims[t->rank]) || !expect(p, "x")) return false;
    }
    if (!word(p, "a dtype")) return false;
    int dtype = dtype_find(p->name, strlen(p->name));
    if (dtype < 0) return wrong(p, "no dtype '%s'", p->name);
    t->dtype = (uint8_t)dtype;
    t->weak = accept(p, "weak");
    const char *what;
    if (type_problem(t, &what)) return wrong(p, "%s: %s", TYPE_TEXT(t), what);
    return expect(p, ">");
}

/* The number of a value: "%12". */
static bool percent(Parser *p, int64_t *out)
{
    if (!expect(p, "%") || !integer(p, out)) return false;
    return (*out >= 0 && *out < MAX_NUMBER) || wrong(p, "no value can be %%%lld", (long long)*out);
}

static bool operand(Parser *p, Val *v)
{
    int64_t k;
    if (!percent(p, &k)) return false;
    if ((size_t)k >= p->numbers || p->value[k] == NO_ID)
        return wrong(p, "%%%lld is used before it is defined", (long long)k);
    *v = graph_val(p->g, p->value[k]);
    return true;
}

static bool define(Parser *p, int64_t k, Id id)
{
    if ((size_t)k >= p->numbers) {
        size_t size = 2 * (size_t)k + 64;
        Id *more = mem_grow(p->value, p->numbers * sizeof *more, size * sizeof *more);
        if (!more) return error_memory(p->err, "a program", (int64_t)(size * sizeof *more)), false;
        memset(more + p->numbers, 0xff, (size - p->numbers) * sizeof *more);
        p->value = more;
        p->numbers = size;
    }
    if (p->value[k] != NO_ID) return wrong(p, "%%%lld is defined twice", (long long)k);
    p->value[k] = id;
    return true;
}

/* ---- a node ---- */

/* Row-major numbers of a dense constant. Its size is known only from the type at the line's end, so they are counted first. */
static bool dense(Parser *p, Attr *a, const char **from)
{
    if (!expect(p, "[")) return false;
    *from = p->s;
    for (a->length = 0; !accept(p, "]"); a->length++) {
        double skipped;
        if ((a->length && !expect(p, ",")) || !number(p, &skipped)) return false;
    }
    return true;
}

static bool attributes(Parser *p, Op op, Attr *a, const char **data)
{
    if (!accept(p, "[")) return true;
    if (op == OP_constant) {
        if (accept(p, "dense=")) return dense(p, a, data) && expect(p, "]");
        return number(p, &a->f) && expect(p, "]");
    }
    do {
        if (!word(p, "an attribute") || !expect(p, "=")) return false;
        char key[16];
        snprintf(key, sizeof key, "%.15s", p->name);
        const struct {
            const char *key;
            int64_t *at;
        } ints[] = {{"i", &a->i},           {"axis", &a->i},
                    {"start", &a->start},   {"length", &a->length},
                    {"total", &a->length},  {"step", &a->step},
                    {"carries", &a->i},     {"xs", &a->step},
                    {"reverse", &a->start}, {"max_steps", &a->length}};
        int64_t *at = NULL;
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
            if (strcmp(ints[i].key, key) == 0) at = ints[i].at;
        if (at) {
            if (!integer(p, at)) return false;
        } else if (strcmp(key, "axes") == 0) {
            if (!list(p, a->list, &a->n)) return false;
        } else if (strcmp(key, "indices") == 0 && (op == OP_gather || op == OP_scatter_add)) {
            if (!indices(p, a)) return false;
        } else if (strcmp(key, "name") == 0 && op == OP_input) {
            if (!name(p)) return false;
            a->name = arena_text(&p->g->arena, p->name);
            if (!a->name) return error_memory(p->err, "a name", -1), false;
        } else {
            return wrong(p, "%s has no attribute '%s'", op_table[op].name, key);
        }
    } while (accept(p, ","));
    return expect(p, "]");
}

/* Five ops hold their result type among their attributes (ATTRIBUTES in ir.h). */
static void typed(Op op, const Type *t, Attr *a)
{
    bool shaped = op == OP_input || op == OP_constant || op == OP_reshape || op == OP_broadcast;
    for (int i = 0; shaped && i < t->rank; i++) a->list[i] = t->dims[i];
    if (shaped) a->n = t->rank;
    if (op == OP_input || op == OP_constant || op == OP_cast) a->i = t->dtype, a->start = t->weak;
}

static bool fill(Parser *p, const Type *t, Attr *a, const char *data)
{
    if (!data) {
        if (t->dtype == QB_F32) a->f = (double)(float)a->f;
        if (t->dtype == QB_BOOL) a->f = a->f != 0;
        return true;
    }
    int64_t n = type_size(t);
    if (n != a->length) return wrong(p, "%lld numbers for %s", (long long)a->length, TYPE_TEXT(t));
    a->length = 0;
    a->buffer = qb_buffer_new(type_bytes(t), p->err);
    if (!a->buffer) return false;
    const char *rest = p->s;
    p->s = data;
    for (int64_t i = 0; i < n; i++) {
        double v = 0;
        if (i) accept(p, ",");
        number(p, &v);
        if (t->dtype == QB_F64)
            ((double *)a->buffer->data)[i] = v;
        else if (t->dtype == QB_F32)
            ((float *)a->buffer->data)[i] = (float)v;
        else
            ((unsigned char *)a->buffer->data)[i] = v != 0;
    }
    p->s = rest;
    return true;
}

/* The graph's own failure, with the line in front. */
static bool failed(Parser *p)
{
    qb_error e;
    if (!graph_error(p->g, &e)) return false;
    if (e.code == QB_EMEMORY)
        *p->err = e;
    else
        wrong(p, "%s", e.message);
    return true;
}

static bool append_many(Parser *p, Op op, const Line *l, Val *first)
{
    int results = l->results;
    Val *z = mem_zeroed((size_t)results, sizeof *z);
    if (!z) return error_memory(p->err, "a program", -1), false;
    graph_emit_many(p->g, op, l->x, (int)l->n, &l->attr, l->bodies[0] ? l->bodies : NULL, z,
                    &results);
    *first = z[0];
    mem_free(z);
    return true;
}

static bool append(Parser *p, Op op, const Line *l)
{
    Val first = NONE;
    if (op == OP_input)
        first = graph_input(p->g, l->attr.name, &l->result[0].type);
    else if (l->results == 1 && !l->bodies[0])
        first = graph_append(p->g, op, l->x, (int)l->n, &l->attr);
    else if (!append_many(p, op, l, &first))
        return false;
    if (failed(p)) return false;
    for (int i = 0; i < l->results; i++) {
        const Result *r = &l->result[i];
        const Type *t = &p->g->types[first.id + (Id)i], *said = &r->type;
        if (!type_exact(t, said))
            return wrong(p, "%%%lld is %s%s, not %s%s", (long long)r->number, TYPE_TEXT(t),
                         t->weak ? " weak" : "", TYPE_TEXT(said), said->weak ? " weak" : "");
        if (!define(p, r->number, first.id + (Id)i)) return false;
    }
    return true;
}

static bool operands(Parser *p, Line *l)
{
    l->n = 0;
    if (!accept(p, "(")) return true;
    while (!accept(p, ")")) {
        if (l->n == l->size) {
            size_t size = 2 * l->size + 8;
            Val *x = mem_grow(l->x, l->n * sizeof *x, size * sizeof *x);
            if (!x) return error_memory(p->err, "a program", -1), false;
            l->x = x;
            l->size = size;
        }
        if ((l->n && !expect(p, ",")) || !operand(p, &l->x[l->n])) return false;
        l->n++;
    }
    return true;
}

static bool new_result(Parser *p, Line *l)
{
    if (l->results == MAX_RESULTS) return wrong(p, "more than %d results", MAX_RESULTS);
    if (l->results == l->room) {
        int room = 2 * l->room + 4;
        Result *more =
            mem_grow(l->result, (size_t)l->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return error_memory(p->err, "a program", -1), false;
        l->result = more;
        l->room = room;
    }
    return percent(p, &l->result[l->results++].number);
}

static bool bodies(Parser *p, Op op, Line *l);

/* The rest of a line, after the op's name. */
static bool node_rest(Parser *p, Op op, Line *l)
{
    const char *data = NULL;
    if (!attributes(p, op, &l->attr, &data) || !operands(p, l) || !expect(p, ":")) return false;
    if (op == OP_input && !l->attr.name) return wrong(p, "an input without a name");
    int arity = op_table[op].arity;
    if (arity == 255 ? l->n == 0 && !op_bodies(op) : l->n != (size_t)arity)
        return wrong(p, "%s has %zu operands", op_table[op].name, l->n);
    for (int i = 0; i < l->results; i++)
        if ((i && !expect(p, ",")) || !type(p, &l->result[i].type)) return false;
    if (op == OP_constant && !fill(p, &l->result[0].type, &l->attr, data)) return false;
    typed(op, &l->result[0].type, &l->attr);
    return bodies(p, op, l) && append(p, op, l);
}

static bool node(Parser *p)
{
    Line *l = &p->now;
    l->results = 0;
    l->attr = (Attr){0};
    memset(l->bodies, 0, sizeof l->bodies);
    do {
        if (!new_result(p, l)) return false;
    } while (accept(p, ","));
    if (!expect(p, "=") || !word(p, "an op")) return false;
    int op = strcmp(p->name, "const") == 0 ? OP_constant : op_find(p->name);
    if (op < 0) return wrong(p, "no op '%s'", p->name);
    bool ok = node_rest(p, (Op)op, l);
    qb_buffer_release(l->attr.buffer);
    for (int i = 0; i < MAX_BODIES; i++) graph_release(l->bodies[i]);
    return ok;
}

static bool outputs(Parser *p)
{
    while (peek(p, "%") || p->g->n_outputs) {
        Val v;
        if (p->g->n_outputs && !accept(p, ",")) return true;
        if (!operand(p, &v)) return false;
        graph_output(p->g, v);
        if (failed(p)) return false;
    }
    return true;
}

/* Skip the rest of the line, which may be a comment; false when something else is there. */
static bool line_end(Parser *p)
{
    space(p);
    if (*p->s == '#') p->s += strcspn(p->s, "\n");
    if (*p->s && *p->s != '\n') return wrong(p, "the line should end before '%.20s'", p->s);
    if (*p->s) p->s++, p->line++;
    return true;
}

/* Lines up to the one with return. */
static bool program(Parser *p)
{
    while (*p->s) {
        space(p);
        if (*p->s == '#' || *p->s == '\n') {
            line_end(p);
            continue;
        }
        if (accept(p, "return")) return outputs(p) && line_end(p);
        if (!node(p) || !line_end(p)) return false;
    }
    return wrong(p, "the program ends without return");
}

/* A program from p->s on, frozen; the parser of what is around it goes on behind it. NULL: an error. */
static Graph *read(Parser *outer, const char *text, int line, int depth, qb_error *err)
{
    Graph *g = graph_new(err);
    Parser *p = g ? mem_zeroed(1, sizeof *p) : NULL;
    if (!p) return error_memory(err, "a program", sizeof *p), graph_release(g), NULL;
    *p = (Parser){.s = text, .line = line, .depth = depth, .g = g, .err = err};
    bool ok = program(p);
    if (ok && outer) outer->s = p->s, outer->line = p->line;
    while (ok && !outer && *p->s) ok = line_end(p);
    ok = ok && graph_freeze(g, err);
    mem_free(p->value);
    mem_free(p->now.x);
    mem_free(p->now.result);
    mem_free(p);
    if (ok) return g;
    graph_release(g);
    return NULL;
}

static bool bodies(Parser *p, Op op, Line *l)
{
    for (int i = 0; i < op_bodies(op); i++) {
        if (!expect(p, "{") || !line_end(p)) return false;
        if (p->depth == MAX_DEPTH)
            return wrong(p, "more than %d bodies inside each other", MAX_DEPTH);
        l->bodies[i] = read(p, p->s, p->line, p->depth + 1, p->err);
        if (!l->bodies[i] || !expect(p, "}")) return false;
    }
    return true;
}

Graph *parse_graph(const char *text, qb_error *err) { return read(NULL, text, 1, 0, err); }
