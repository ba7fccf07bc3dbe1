/* print.c: a graph as text, in two forms.

   print_graph writes the graph's own form: every node with its value numbers, exact numbers and all attributes, so that parse.c
   reads the same graph back. print_plan_text writes what as_text() shows: the live part, renumbered, inputs first, with
   broadcasting left to the reader: a broadcast, or a reshape that only adds leading axes, is not shown where elementwise
   ops alone read it, and one splat constant is one scalar line. */
#include "ir/ir.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- shared pieces ---- */

static void type_out(Text *t, const Type *type, bool weak)
{
    text_add(t, "tensor<");
    for (int i = 0; i < type->rank; i++) text_add(t, "%lldx", (long long)type->dims[i]);
    text_add(t, weak && type->weak ? "%s weak>" : "%s>", dtype_ir(type->dtype));
}

static void list_out(Text *t, const int64_t *list, int n)
{
    text_add(t, "[");
    for (int i = 0; i < n; i++) text_add(t, i ? ", %lld" : "%lld", (long long)list[i]);
    text_add(t, "]");
}

/* The double with the shortest decimal that still reads as this float32. */
static double shortest(double x)
{
    char s[40];
    double d = x;
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        d = strtod(s, NULL);
        if ((float)d == (float)x) return d;
    }
    return x;
}

/* NaNs other than the plain quiet one are written with their bits. */
static void number_out(Text *t, double x, int dtype)
{
    uint64_t bits, plain;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&plain, &(double){(double)NAN}, sizeof plain);
    if (isnan(x) && bits != plain)
        text_add(t, "nan(0x%llx)", (unsigned long long)bits);
    else
        text_number(t, dtype == QB_F32 && isfinite(x) ? shortest(x) : x);
}

static double element(const Type *type, const void *data, int64_t i)
{
    if (type->dtype == QB_F64) return ((const double *)data)[i];
    if (type->dtype == QB_F32) return ((const float *)data)[i];
    return ((const unsigned char *)data)[i] != 0;
}

/* ---- the graph's own form ---- */

/* Names of plain characters stand bare; others in quotes, with \" \\ and \xHH. */
static void name_out(Text *t, const char *name)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
    if (*name && name[strspn(name, plain)] == 0) {
        text_add(t, "name=%s", name);
        return;
    }
    text_add(t, "name=\"");
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\')
            text_add(t, "\\%c", c);
        else if (c < ' ' || c == 127)
            text_add(t, "\\x%02x", c);
        else
            text_add(t, "%c", c);
    }
    text_add(t, "\"");
}

static void value_out(Text *t, const Attr *a, const Type *type)
{
    if (!a->buffer) {
        number_out(t, a->f, type->dtype);
        return;
    }
    int64_t n = type_size(type);
    text_add(t, "dense=[");
    for (int64_t i = 0; i < n; i++) {
        if (i) text_add(t, ", ");
        number_out(t, element(type, a->buffer->data, i), type->dtype);
    }
    text_add(t, "]");
}

/* gather and scatter_add: the list of their indices */
static void indices_out(Text *t, const Attr *a)
{
    const int64_t *at = a->buffer ? a->buffer->data : NULL;
    int64_t n = at ? a->buffer->bytes / (int64_t)sizeof *at : 0;
    text_add(t, "[");
    for (int64_t i = 0; i < n; i++) text_add(t, i ? ", %lld" : "%lld", (long long)at[i]);
    text_add(t, "]");
}

static bool is_key(const char *key, int length, const char *name)
{
    return strlen(name) == (size_t)length && strncmp(key, name, (size_t)length) == 0;
}

/* The attributes that the op's row names, in its order: "axis start length step". */
static void attrs_out(Text *t, const Node *n, const Type *type)
{
    const Attr *a = n->attr;
    const char *key = op_table[n->op].attrs;
    if (!*key) return;
    text_add(t, "[");
    while (*key) {
        int length = (int)strcspn(key, " ");
        const struct {
            const char *key;
            int64_t value;
        } ints[] = {{"i", a->i},           {"axis", a->i},
                    {"start", a->start},   {"length", a->length},
                    {"total", a->length},  {"step", a->step},
                    {"carries", a->i},     {"xs", a->step},
                    {"reverse", a->start}, {"max_steps", a->length}};
        if (is_key(key, length, "name"))
            name_out(t, a->name);
        else if (is_key(key, length, "value"))
            value_out(t, a, type);
        else if (is_key(key, length, "axes"))
            text_add(t, "axes="), list_out(t, a->list, a->n);
        else if (is_key(key, length, "indices"))
            text_add(t, "indices="), indices_out(t, a);
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
            if (is_key(key, length, ints[i].key))
                text_add(t, "%s=%lld", ints[i].key, (long long)ints[i].value);
        key += length;
        if (*key == ' ') key++, text_add(t, ", ");
    }
    text_add(t, "]");
}

static void ids_out(Text *t, const Id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) text_add(t, i ? ", %%%u" : "%%%u", (unsigned)ids[i]);
}

/* A body stands in braces behind its node, each line four spaces further in. */
static void graph_out(Text *t, const Graph *g, int indent)
{
    for (const Node *n = g->nodes; n < g->nodes + g->n_nodes; n++) {
        text_add(t, "%*s", indent, "");
        for (int i = 0; i < n->results; i++)
            text_add(t, i ? ", %%%u" : "%%%u", (unsigned)n->first + (unsigned)i);
        text_add(t, " = %s", n->op == OP_constant ? "const" : op_table[n->op].name);
        attrs_out(t, n, &g->types[n->first]);
        if (op_table[n->op].arity) {
            text_add(t, "(");
            ids_out(t, n->x, n->n);
            text_add(t, ")");
        }
        text_add(t, " : ");
        for (int i = 0; i < n->results; i++) {
            if (i) text_add(t, ", ");
            type_out(t, &g->types[n->first + (Id)i], true);
        }
        for (Graph *const *s = n->sub; s && *s; s++) {
            text_add(t, " {\n");
            graph_out(t, *s, indent + 4);
            text_add(t, "%*s}", indent, "");
        }
        text_add(t, "\n");
    }
    text_add(t, g->n_outputs ? "%*sreturn " : "%*sreturn", indent, "");
    ids_out(t, g->outputs, g->n_outputs);
    text_add(t, "\n");
}

void print_graph(Text *t, const Graph *g) { graph_out(t, g, 0); }

/* ---- as_text() ---- */

/* Digits without an exponent, as text_number uses for the very small and the very large: 1e+20 is 100000000000000000000. */
static void plain_out(Text *t, double x, int dtype)
{
    Text s = {0};
    char digits[64];
    int n = 0, point = 0;
    qb_error err;
    text_number(&s, dtype == QB_F32 && isfinite(x) ? shortest(x) : x);
    char *text = text_take(&s, &err), *e = text ? strchr(text, 'e') : NULL;
    if (!text) {
        t->failed = true;
    } else if (!e) {
        text_add(t, "%s", text);
    } else {
        for (char *p = text; p < e; p++)
            if (*p >= '0' && *p <= '9') digits[n++] = *p;
        point =
            1 +
            atoi(
                e +
                1); /* digits before the decimal point: below -3 or above 16, so never among the digits */
        text_add(t, "%s%s", *text == '-' ? "-" : "", point < 0 ? "0." : "");
        for (int i = point; i < 0; i++) text_add(t, "0");
        text_add(t, "%.*s", n, digits);
        for (int i = n; i < point; i++) text_add(t, "0");
    }
    mem_free(text);
}

typedef struct {
    const Graph *g;
    Id *number;       /* of each value in the text; NO_ID: not shown (yet) */
    HashIndex splats; /* splat constants that have a scalar line, by dtype and value */
    Id *scalar;       /* and the number of that line */
    uint8_t *live;    /* of each node */
    uint8_t *exact;   /* of each value: some reader needs it in its own shape */
    Id next;
} Plan;

/* Do only the elements of its operand, with more leading axes of length 1 or repeated, make up this value? */
static bool spreads(const Graph *g, const Node *n)
{
    if (n->op == OP_broadcast) return true;
    if (n->op != OP_reshape) return false;
    const Type *x = &g->types[n->x[0]], *z = &g->types[n->first];
    int more = z->rank - x->rank;
    for (int i = 0; i < z->rank; i++)
        if (more < 0 || z->dims[i] != (i < more ? 1 : x->dims[i - more])) return false;
    return true;
}

static bool hidden(const Plan *p, const Node *n) { return spreads(p->g, n) && !p->exact[n->first]; }
static bool splat(const Node *n) { return n->op == OP_constant && !n->attr->buffer; }

/* Readers come after what they read, so one backward walk finds both what is live and what must keep its shape. */
static void mark(Plan *p)
{
    const Graph *g = p->g;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        p->live[g->def[g->outputs[i]]] = 1;
        p->exact[g->outputs[i]] = 1;
    }
    for (Id i = g->n_nodes; i-- > 0;) {
        const Node *n = &g->nodes[i];
        if (!p->live[i]) continue;
        bool loose = op_elementwise(n->op) || hidden(p, n);
        for (uint32_t k = 0; k < n->n; k++) {
            p->live[g->def[n->x[k]]] = 1;
            p->exact[n->x[k]] |= !loose;
        }
    }
}

/* The number of a value, seen through what is hidden. */
static Id shown(const Plan *p, Id v)
{
    const Node *n = &p->g->nodes[p->g->def[v]];
    while (hidden(p, n)) {
        v = n->x[0];
        n = &p->g->nodes[p->g->def[v]];
    }
    return p->number[v];
}

/* "name=%1" for one value, "name=[%1, %2]" for a list; captures are always a list. */
static void group(const Plan *p, Text *t, const char *name, const Id *x, int64_t n, bool list)
{
    text_add(t, "%s=%s", name, list || n != 1 ? "[" : "");
    for (int64_t i = 0; i < n; i++) text_add(t, i ? ", %%%u" : "%%%u", (unsigned)shown(p, x[i]));
    text_add(t, list || n != 1 ? "], " : ", ");
}

static unsigned ops_of(const Graph *g) { return (unsigned)(g->n_nodes - g->n_inputs); }

/* Control flow: who carries what, and how many ops the bodies have. */
static void region_line(Plan *p, Text *t, const Node *n)
{
    const Attr *a = n->attr;
    for (int i = 0; i < n->results; i++) {
        text_add(t, i ? ", %%%u" : "%%%u", (unsigned)p->next);
        p->number[n->first + (Id)i] = p->next++;
    }
    text_add(t, " = %s(", op_table[n->op].name);
    if (n->op == OP_cond) {
        text_add(t, "%%%u, ", (unsigned)shown(p, n->x[0]));
        group(p, t, "captures", n->x + 1, n->n - 1, true);
        text_add(t, "true_nodes=%u, false_nodes=%u) : ", ops_of(n->sub[0]), ops_of(n->sub[1]));
    } else if (op_custom(n->op)) {
        for (uint32_t k = 0; k < n->n; k++) text_add(t, "%%%u, ", (unsigned)shown(p, n->x[k]));
        text_add(t, "body_nodes=%u) : ", ops_of(n->sub[0]));
    } else {
        int64_t xs = n->op == OP_scan ? a->step : 0, used = a->i + xs;
        group(p, t, "carry", n->x, a->i, false);
        if (xs) group(p, t, "xs", n->x + a->i, xs, false);
        if (n->op == OP_scan)
            text_add(t, "length=%lld, %s", (long long)a->length, a->start ? "reverse=true, " : "");
        else if (a->length)
            text_add(t, "max_steps=%lld, ", (long long)a->length);
        group(p, t, "captures", n->x + used, (int64_t)n->n - used, true);
        if (n->op == OP_while) text_add(t, "cond_nodes=%u, ", ops_of(n->sub[0]));
        text_add(t, "body_nodes=%u) : ", ops_of(n->sub[n->op == OP_while]));
    }
    for (int i = 0; i < n->results; i++) {
        if (i) text_add(t, ", ");
        type_out(t, &p->g->types[n->first + (Id)i], false);
    }
    text_add(t, "\n");
}

static Id begin(Plan *p, Text *t, Id v)
{
    text_add(t, "%%%u = ", (unsigned)p->next);
    return p->number[v] = p->next++;
}

static void end(Text *t, const Type *type)
{
    text_add(t, " : ");
    type_out(t, type, false);
    text_add(t, "\n");
}

/* The scalar line of a splat with this dtype and value, or NO_ID. */
static Id find(const Plan *p, const Node *n, uint64_t hash)
{
    const Graph *g = p->g;
    uint32_t at = HASH_START;
    for (Id v = hash_next(&p->splats, hash, &at); v != UINT32_MAX;
         v = hash_next(&p->splats, hash, &at)) {
        double value = g->nodes[g->def[v]].attr->f;
        if (g->types[v].dtype == g->types[n->first].dtype &&
            memcmp(&value, &n->attr->f, sizeof value) == 0)
            return p->scalar[v];
    }
    return NO_ID;
}

/* A splat is one scalar line for all its shapes; where its shape matters, a broadcast of that line. */
static void splat_line(Plan *p, Text *t, const Node *n)
{
    const Graph *g = p->g;
    const Type *type = &g->types[n->first];
    uint64_t hash = hash_bytes(type->dtype, &n->attr->f, sizeof n->attr->f);
    Id line = find(p, n, hash);
    if (line == NO_ID) {
        line = begin(p, t, n->first);
        text_add(t, "constant[value=");
        plain_out(t, n->attr->f, type->dtype);
        text_add(t, "]");
        end(t, &(Type){.dtype = type->dtype});
        t->failed |= !hash_add(&p->splats, hash, n->first);
    }
    p->scalar[n->first] = p->number[n->first] = line;
    if (!p->exact[n->first] || type->rank == 0) return;
    begin(p, t, n->first);
    text_add(t, "broadcast(%%%u)", (unsigned)line);
    end(t, type);
}

static bool compares(int op) { return op_table[op].cls == CLASS_BINARY && op_table[op].to_bool; }

/* What follows the operands: ", axis=0". A reduction of all axes names none. */
static void arguments(Plan *p, Text *t, const Node *n)
{
    const Attr *a = n->attr;
    bool slices = n->op == OP_slice || n->op == OP_pad_slice;
    bool axes = strcmp(op_table[n->op].attrs, "axes") == 0;
    bool all = n->op != OP_transpose && a->n == p->g->types[n->x[0]].rank;
    if (compares(n->op)) text_add(t, ", kind=%s", op_table[n->op].name);
    if (n->op == OP_powi) text_add(t, ", %lld", (long long)a->i);
    if (slices)
        text_add(t, ", axis=%lld, start=%lld, %s=%lld", (long long)a->i, (long long)a->start,
                 n->op == OP_slice ? "length" : "total", (long long)a->length);
    if (slices && a->step != 1) text_add(t, ", step=%lld", (long long)a->step);
    if (n->op == OP_gather || n->op == OP_scatter_add) {
        text_add(t, ", axis=%lld, indices=", (long long)a->i);
        indices_out(t, a);
    }
    if (n->op == OP_cumsum)
        text_add(t, ", axis=%lld, reverse=%s", (long long)a->i, a->start ? "true" : "false");
    if (!axes || all) return;
    if (a->n == 1 && n->op != OP_transpose) {
        text_add(t, ", axis=%lld", (long long)a->list[0]);
    } else {
        text_add(t, ", axes=");
        list_out(t, a->list, a->n);
    }
}

static void line(Plan *p, Text *t, const Node *n)
{
    if (splat(n)) {
        splat_line(p, t, n);
        return;
    }
    if (n->sub) {
        region_line(p, t, n);
        return;
    }
    begin(p, t, n->first);
    if (n->op == OP_input) {
        text_add(t, "input[name=%s]", n->attr->name);
    } else if (n->op == OP_constant) {
        text_add(t, "constant[dense]");
    } else {
        text_add(t, "%s(", compares(n->op) ? "compare" : op_table[n->op].name);
        for (uint32_t k = 0; k < n->n; k++)
            text_add(t, k ? ", %%%u" : "%%%u", (unsigned)shown(p, n->x[k]));
        arguments(p, t, n);
        text_add(t, ")");
        if (n->op == OP_concat) text_add(t, " axis=%lld", (long long)n->attr->i);
    }
    end(t, &p->g->types[n->first]);
}

void print_listing(Text *t, const Graph *g)
{
    Arena arena = {0};
    Plan p = {.g = g};
    size_t values = g->n_values + (size_t)1;
    p.number = arena_alloc(&arena, values * sizeof *p.number);
    p.scalar = arena_alloc(&arena, values * sizeof *p.scalar);
    p.live = arena_zeroed(&arena, g->n_nodes + (size_t)1, 1);
    p.exact = arena_zeroed(&arena, values, 1);
    if (!p.number || !p.scalar || !p.live || !p.exact) {
        t->failed = true;
        arena_free(&arena);
        return;
    }
    memset(p.number, 0xff, values * sizeof *p.number);
    memset(p.scalar, 0xff, values * sizeof *p.scalar);
    mark(&p);
    for (uint32_t i = 0; i < g->n_inputs; i++) line(&p, t, &g->nodes[g->def[g->inputs[i]]]);
    for (Id i = 0; i < g->n_nodes; i++) {
        const Node *n = &g->nodes[i];
        if (p.live[i] && n->op != OP_input && !hidden(&p, n)) line(&p, t, n);
    }
    if (!t->failed && t->used && t->data[t->used - 1] == '\n') t->data[--t->used] = 0;
    hash_free(&p.splats);
    arena_free(&arena);
}

void print_plan_text(Text *t, const Graph *g)
{
    print_listing(t, g);
    if (t->used) text_add(t, "\n");
    text_add(t, "outputs: [");
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const Type *type = &g->types[g->outputs[i]];
        if (i) text_add(t, ", ");
        list_out(t, type->dims, type->rank);
    }
    text_add(t, "]\n");
}
