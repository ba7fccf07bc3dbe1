/* graph.c: the append-only list of nodes, and emit.

   Arrays grow by doubling inside the graph's arena and the old copies stay there, so a pointer from type_of or node_of is
   good for the life of the graph, whatever is emitted meanwhile; this costs at most twice the memory. A node is found again
   through `index` by op, scope, operands and attributes: result types follow from these. Inputs are in the index under their
   names, which keeps names unique and merges no input. */
#include "ir/ir.h"
#include <stdio.h>

enum { FIRST_CAP = 16, FEW = 4, SMALL_DATA = 4096 };
static const Attr no_attr;

bool graph_failed(const Graph *g) { return g->error.code != QB_OK; }

bool fail(Graph *g, int code, const char *format, ...)
{
    if (!g || graph_failed(g)) return false;
    char text[sizeof g->error.message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (g->file)
        error_set(&g->error, code, "%s:%u: %s", g->file, (unsigned)g->line, text);
    else
        error_set(&g->error, code, "%s", text);
    return false;
}

static bool out_of_memory(Graph *g)
{
    return fail(g, QB_EMEMORY, "out of memory for a graph of %u nodes", (unsigned)g->n_nodes);
}

Graph *graph_new(qb_error *err)
{
    Graph *g = mem_zeroed(1, sizeof *g);
    if (!g) return error_memory(err, "a graph", sizeof *g), NULL;
    atomic_init(&g->refs, 1);
    return g;
}

Graph *graph_retain(Graph *g)
{
    if (g) atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void graph_release(Graph *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) return;
    for (Id i = 0; i < g->n_nodes; i++) {
        qb_buffer_release(g->nodes[i].attr->buffer);
        for (Graph *const *s = g->nodes[i].sub; s && *s; s++) graph_release(*s);
    }
    hash_free(&g->index);
    arena_free(&g->arena);
    mem_free(g);
}

/* Room for `need` entries: the array itself, or a copy of twice the capacity; NULL when there is no memory. */
static void *grow(Graph *g, void *old, uint32_t used, uint32_t *cap, uint64_t need, size_t size)
{
    if (need <= *cap) return old;
    if (need >= NO_ID) return NULL;
    uint64_t wanted = *cap ? 2 * (uint64_t)*cap : FIRST_CAP;
    if (wanted < need) wanted = need;
    if (wanted > NO_ID) wanted = NO_ID;
    void *p = arena_alloc(&g->arena, wanted * size);
    if (!p) return NULL;
    if (used) memcpy(p, old, used * size);
    *cap = (uint32_t)wanted;
    return p;
}

/* Room for one more node with `results` values. */
static bool reserve(Graph *g, uint32_t results)
{
    Node *nodes =
        grow(g, g->nodes, g->n_nodes, &g->cap_nodes, (uint64_t)g->n_nodes + 1, sizeof *nodes);
    if (!nodes) return out_of_memory(g);
    g->nodes = nodes;
    uint64_t need = (uint64_t)g->n_values + results;
    uint32_t cap = g->cap_values; /* def and types share one capacity, which types sets last */
    Id *def = grow(g, g->def, g->n_values, &cap, need, sizeof *def);
    if (!def) return out_of_memory(g);
    g->def = def;
    Type *types = grow(g, g->types, g->n_values, &g->cap_values, need, sizeof *types);
    if (!types) return out_of_memory(g);
    g->types = types;
    return true;
}

static bool push(Graph *g, Id **list, uint32_t *used, uint32_t *cap, Id id)
{
    Id *p = grow(g, *list, *used, cap, (uint64_t)*used + 1, sizeof *p);
    if (!p) return out_of_memory(g);
    *list = p;
    p[(*used)++] = id;
    return true;
}

/* The graph's own copy of a file name. The text is compared, not the pointer: it may come from a graph that goes away. */
const char *graph_intern(Graph *g, const char *file)
{
    if (!file) return NULL;
    for (uint32_t i = g->n_files; i > 0; i--)
        if (strcmp(g->files[i - 1], file) == 0) return g->files[i - 1];
    const char **files =
        grow(g, g->files, g->n_files, &g->cap_files, (uint64_t)g->n_files + 1, sizeof *files);
    const char *copy = files ? arena_text(&g->arena, file) : NULL;
    if (!copy) return NULL; /* a node without its file is no failure */
    g->files = files;
    return g->files[g->n_files++] = copy;
}

/* ---- reuse ---- */

/* Dense constants are the same by content where that is cheap to see, else by buffer. */
static bool small(const qb_buffer *b) { return b->bytes <= SMALL_DATA; }

static bool same_data(const qb_buffer *a, const qb_buffer *b)
{
    if (a == b) return true;
    return a && b && small(a) && a->bytes == b->bytes &&
           memcmp(a->data, b->data, (size_t)a->bytes) == 0;
}

static bool same_attr(const Attr *a, const Attr *b)
{
    if (a == b) return true;
    if (a->i != b->i || a->start != b->start || a->length != b->length || a->step != b->step ||
        a->n != b->n)
        return false;
    if (memcmp(&a->f, &b->f, sizeof a->f) != 0) return false;
    for (int i = 0; i < a->n; i++)
        if (a->list[i] != b->list[i]) return false;
    return same_data(a->buffer, b->buffer);
}

static uint64_t hash_attr(uint64_t h, const Attr *a)
{
    uint64_t f;
    memcpy(&f, &a->f, sizeof f);
    h = hash_mix(hash_mix(hash_mix(h, (uint64_t)a->i), (uint64_t)a->start), (uint64_t)a->length);
    h = hash_mix(hash_mix(hash_mix(h, (uint64_t)a->step), f), (uint64_t)a->n);
    for (int i = 0; i < a->n; i++) h = hash_mix(h, (uint64_t)a->list[i]);
    if (a->buffer)
        h = small(a->buffer) ? hash_bytes(h, a->buffer->data, (size_t)a->buffer->bytes)
                             : hash_mix(h, (uintptr_t)a->buffer);
    return h;
}

static bool swapped(const Node *n) { return n->n == 2 && op_commutes(n->op) && n->x[0] > n->x[1]; }

static uint64_t hash_node(const Node *n)
{
    uint64_t h = hash_mix(hash_mix(0x51ab1a, n->op), n->scope);
    if (swapped(n))
        h = hash_mix(hash_mix(h, n->x[1]), n->x[0]);
    else
        for (uint32_t i = 0; i < n->n; i++) h = hash_mix(h, n->x[i]);
    for (Graph *const *s = n->sub; s && *s; s++) h = hash_mix(h, (*s)->hash);
    return n->attr == &no_attr ? h : hash_attr(h, n->attr);
}

static bool same_node(const Node *a, const Node *b)
{
    if (a->op != b->op || a->scope != b->scope || a->n != b->n) return false;
    for (int i = 0; i < op_bodies(a->op); i++)
        if (!graph_same(a->sub[i], b->sub[i])) return false;
    bool cross = swapped(a) != swapped(b);
    for (uint32_t i = 0; i < a->n; i++)
        if (a->x[i] != b->x[cross ? 1 - i : i]) return false;
    return same_attr(a->attr, b->attr);
}

/* Nodes and outputs one by one: graphs that were built in the same way. */
bool graph_same(const Graph *a, const Graph *b)
{
    if (a == b) return true;
    if (a->hash != b->hash || a->n_nodes != b->n_nodes || a->n_inputs != b->n_inputs ||
        a->n_outputs != b->n_outputs)
        return false;
    for (Id i = 0; i < a->n_nodes; i++)
        if (!same_node(&a->nodes[i], &b->nodes[i]) || a->nodes[i].results != b->nodes[i].results)
            return false;
    return a->n_outputs == 0 ||
           memcmp(a->outputs, b->outputs, a->n_outputs * sizeof *a->outputs) == 0;
}

static uint64_t hash_graph(const Graph *g)
{
    uint64_t h = g->n_inputs;
    for (Id i = 0; i < g->n_nodes; i++) h = hash_mix(h, hash_node(&g->nodes[i]));
    for (uint32_t i = 0; i < g->n_outputs; i++) h = hash_mix(h, g->outputs[i]);
    return h;
}

/* The node that computes the same, or NO_ID. */
static Id find(const Graph *g, const Node *n, uint64_t hash)
{
    uint32_t at = HASH_START;
    for (Id id = hash_next(&g->index, hash, &at); id != UINT32_MAX;
         id = hash_next(&g->index, hash, &at))
        if (same_node(&g->nodes[id], n)) return id;
    return NO_ID;
}

/* ---- append ---- */

/* Copy what n points to and add it. Nothing in the graph changes before all memory is there. */
static Id append(Graph *g, Node n, const Type *types)
{
    if (!reserve(g, n.results)) return NO_ID;
    if (n.n)
        n.x = arena_copy(&g->arena, n.x, n.n * sizeof *n.x);
    else
        n.x = NULL;
    if (n.n && !n.x) return out_of_memory(g), NO_ID;
    if (n.attr != &no_attr) {
        Attr *a = arena_copy(&g->arena, n.attr, sizeof *a);
        if (!a) return out_of_memory(g), NO_ID;
        if (a->name && !(a->name = arena_text(&g->arena, a->name))) return out_of_memory(g), NO_ID;
        n.attr = a;
    }
    n.file = graph_intern(g, g->file);
    n.line = g->line;
    n.first = g->n_values;
    if (n.attr->buffer) qb_buffer_retain(n.attr->buffer);
    for (Graph *const *s = n.sub; s && *s; s++) graph_retain(*s);
    for (int i = 0; i < n.results; i++) {
        g->types[g->n_values] = types[i];
        g->def[g->n_values++] = g->n_nodes;
    }
    g->nodes[g->n_nodes] = n;
    return g->n_nodes++;
}

/* Is g open, and are these its values? A missing operand says nothing: its failure is known already. */
static bool ready(Graph *g, Op op, const Val *x, int n)
{
    if (graph_failed(g)) return false;
    if (g->frozen) return fail(g, QB_EBUG, "%s: the graph is frozen", op_table[op].name);
    for (int i = 0; i < n; i++) {
        if (val_none(x[i])) return false;
        if (x[i].graph != g || x[i].id >= g->n_values)
            return fail(g, QB_EBUG, "%s: operand %d belongs to another graph", op_table[op].name,
                        i);
    }
    return true;
}

typedef struct {
    Id few_x[FEW];
    Type few[FEW];
    Id *x;
    Type *types;
} Operands;

/* Ids and types of the operands, side by side, as rules want them. */
static bool gather(Graph *g, const Val *x, int n, Operands *o)
{
    o->x = o->few_x;
    o->types = o->few;
    if (n > FEW) {
        o->types = mem_zeroed((size_t)n, sizeof *o->types + sizeof *o->x);
        if (!o->types) return out_of_memory(g);
        o->x = (Id *)(o->types + n);
    }
    for (int i = 0; i < n; i++) {
        o->x[i] = x[i].id;
        o->types[i] = g->types[x[i].id];
    }
    return true;
}

static void drop(Operands *o)
{
    if (o->types != o->few) mem_free(o->types);
}

static Val emit(Graph *g, Op op, const Val *x, int n, const Attr *attr, bool reuse)
{
    Operands o;
    if (!ready(g, op, x, n) || !gather(g, x, n, &o)) return NONE;
    Node node = {.op = (uint8_t)op,
                 .results = 1,
                 .scope = g->scope,
                 .n = (uint32_t)n,
                 .x = o.x,
                 .attr = attr ? attr : &no_attr};
    Type out;
    Val v = NONE;
    if (!infer_node(g, &node, o.types, &out)) goto end;
    if (!reuse) {
        Id id = append(g, node, &out);
        if (id != NO_ID) v = graph_val(g, g->nodes[id].first);
        goto end;
    }
    v = fold_emit(g, op, x, n, node.attr, &out);
    if (!val_none(v) || graph_failed(g)) goto end;
    uint64_t hash = hash_node(&node);
    Id id = find(g, &node, hash);
    if (id == NO_ID && (id = append(g, node, &out)) != NO_ID)
        hash_add(&g->index, hash, id); /* without it: no reuse, no harm */
    if (id != NO_ID) v = graph_val(g, g->nodes[id].first);
end:
    drop(&o);
    return v;
}

Val graph_emit(Graph *g, Op op, const Val *x, int n, const Attr *attr)
{
    return emit(g, op, x, n, attr, true);
}

Val graph_append(Graph *g, Op op, const Val *x, int n, const Attr *attr)
{
    return emit(g, op, x, n, attr, false);
}

bool graph_emit_many(Graph *g, Op op, const Val *x, int n, const Attr *attr, Graph *const *sub,
                     Val *out, int *results)
{
    if (*results < 1 || *results > UINT16_MAX)
        return fail(g, QB_EBUG, "%s: %d results", op_table[op].name, *results);
    Operands o;
    if (!ready(g, op, x, n) || !gather(g, x, n, &o)) return false;
    Node node = {.op = (uint8_t)op,
                 .results = (uint16_t)*results,
                 .scope = g->scope,
                 .n = (uint32_t)n,
                 .x = o.x,
                 .attr = attr ? attr : &no_attr};
    int bodies = 0;
    while (sub && sub[bodies]) bodies++;
    Type *types = mem_zeroed((size_t)*results, sizeof *types);
    if (sub) node.sub = arena_copy(&g->arena, sub, (size_t)(bodies + 1) * sizeof *sub);
    Id id = NO_ID;
    if (!types || (sub && !node.sub))
        out_of_memory(g);
    else if (infer_node(g, &node, o.types, types)) {
        uint64_t hash = hash_node(&node);
        id = find(g, &node, hash);
        if (id == NO_ID && (id = append(g, node, types)) != NO_ID) hash_add(&g->index, hash, id);
    }
    for (int i = 0; id != NO_ID && i < *results; i++)
        out[i] = graph_val(g, g->nodes[id].first + (Id)i);
    mem_free(types);
    drop(&o);
    return id != NO_ID;
}

/* ---- inputs, outputs, the end ---- */

static bool named(const Graph *g, const char *name, uint64_t hash)
{
    uint32_t at = HASH_START;
    for (Id id = hash_next(&g->index, hash, &at); id != UINT32_MAX;
         id = hash_next(&g->index, hash, &at))
        if (g->nodes[id].op == OP_input && strcmp(g->nodes[id].attr->name, name) == 0) return true;
    return false;
}

Val graph_input(Graph *g, const char *name, const Type *t)
{
    if (!ready(g, OP_input, NULL, 0)) return NONE;
    char given[24];
    uint64_t hash;
    unsigned number = g->n_inputs;
    const bool free_name = !name;
    do {
        if (free_name) snprintf(given, sizeof given, "in%u", number++), name = given;
        hash = hash_bytes(OP_input, name, strlen(name));
    } while (free_name && named(g, name, hash));
    if (named(g, name, hash)) return fail(g, QB_EVALUE, "two inputs are named '%s'", name), NONE;
    if (t->rank > QB_MAX_RANK)
        return fail(g, QB_ESHAPE, "input '%s': more than %d axes", name, QB_MAX_RANK), NONE;
    Attr a = {.i = t->dtype, .n = t->rank, .start = t->weak != 0, .name = name};
    for (int i = 0; i < t->rank; i++) a.list[i] = t->dims[i];
    Val v = graph_append(g, OP_input, NULL, 0, &a);
    if (val_none(v) || !push(g, &g->inputs, &g->n_inputs, &g->cap_inputs, v.id)) return NONE;
    return hash_add(&g->index, hash, g->def[v.id]) ? v : (out_of_memory(g), NONE);
}

void graph_output(Graph *g, Val v)
{
    if (graph_failed(g) || val_none(v)) return;
    if (g->frozen)
        fail(g, QB_EBUG, "output: the graph is frozen");
    else if (v.graph != g || v.id >= g->n_values)
        fail(g, QB_EBUG, "output: the value belongs to another graph");
    else
        push(g, &g->outputs, &g->n_outputs, &g->cap_outputs, v.id);
}

bool graph_error(Graph *g, qb_error *err)
{
    if (!graph_failed(g)) return false;
    *err = g->error;
    error_clear(&g->error);
    return true;
}

bool graph_freeze(Graph *g, qb_error *err)
{
    if (graph_failed(g)) return *err = g->error, false;
    if (g->frozen) return true;
    g->frozen = true;
    g->hash = hash_graph(g);
    hash_free(&g->index); /* only emit needs it */
    return true;
}
