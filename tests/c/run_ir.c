/* run_ir.c: runs the programs of tests/ir. Arguments: .ir files; none: all of tests/ir.

   A file holds one case or several; each begins with its passes and ends with what they must give:
       # run: fold                 pass names from the table below, applied one after the other: vjp(x) | dce
       # more comment
       %0 = input[name=x] : tensor<2xf64>
       return %0
       # expect:                   the program that must come out (numbers of values and the order of independent nodes do
                                 not matter, because C leaves the order of arguments open), or the lines of `text`;
       ...                         or `# error: part of the message` and no program

   Names of the inputs that transforms need:
       jvp, jvp(x y)      a tangent t_x for each floating input x, or for those listed; results: the outputs, then their tangents
       vjp, vjp(x y)      a cotangent ct_0, ct_1, ... for each floating output; results: gradients of the floating inputs, or of those listed
       vmap(4), vmap(4 x) the inputs, or those listed, are mapped with 4 elements; an output that is not mapped stays so
   A tangent or gradient that is zero by structure is a constant 0. A pass that keeps the meaning of a program is also checked by
   value: both programs run on the same numbers, NaN, -0.0 and infinity among them, and must give the same bits. */
#include "plan/plan.h"
#include "test.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 64, LINE = 256 };

/* ---- passes: args is the text in parentheses, "" without ---- */

static Graph *end(Graph *g, bool ok, qb_error *err)
{
    if (ok && g && graph_freeze(g, err)) return g;
    if (g && graph_failed(g)) *err = g->error;
    graph_release(g);
    return NULL;
}

/* Is this name among the words of args? All are when there are none. */
static bool listed(const char *args, const char *name)
{
    size_t n = strlen(name);
    if (!*args) return true;
    for (const char *s = strstr(args, name); s; s = strstr(s + 1, name))
        if ((s == args || s[-1] == ' ') && (s[n] == 0 || s[n] == ' ')) return true;
    return false;
}

static const char *input_name(const Graph *g, uint32_t i)
{
    return g->nodes[g->def[g->inputs[i]]].attr->name;
}
static const Type *input_type(const Graph *g, uint32_t i) { return &g->types[g->inputs[i]]; }
static const Type *output_type(const Graph *g, uint32_t i) { return &g->types[g->outputs[i]]; }

static bool fits(const Graph *g, qb_error *err)
{
    if (g->n_inputs <= MOST && g->n_outputs <= MOST) return true;
    return error_set(err, QB_EVALUE, "a test program has at most %d inputs and outputs", MOST),
           false;
}

static void copy_inputs(Graph *g, const Graph *src, Val *x)
{
    for (uint32_t i = 0; i < src->n_inputs; i++)
        x[i] = graph_input(g, input_name(src, i), input_type(src, i));
}

static Graph *parse_pass(const Graph *g, const char *args, qb_error *err)
{
    (void)args, (void)err;
    return graph_retain((Graph *)(uintptr_t)g);
}

static Graph *check_pass(const Graph *g, const char *args, qb_error *err)
{
    return check_graph(g, err) ? parse_pass(g, args, err) : NULL;
}

/* The live nodes through emit. */
static Graph *emit_live(const Graph *src, qb_error *err)
{
    Graph *g = graph_new(err);
    if (!g) return NULL;
    bool *live = calloc(src->n_nodes + 1, 1);
    Val *map = calloc(src->n_values + 1, sizeof *map), *x = calloc(src->n_values + 1, sizeof *x);
    bool ok = live && map && x;
    for (uint32_t i = 0; ok && i < src->n_outputs; i++) live[src->def[src->outputs[i]]] = true;
    for (Id i = src->n_nodes; ok && i-- > 0;)
        for (uint32_t k = 0; live[i] && k < src->nodes[i].n; k++)
            live[src->def[src->nodes[i].x[k]]] = true;
    for (Id i = 0; ok && i < src->n_nodes; i++) {
        const Node *n = &src->nodes[i];
        if (n->op == OP_input) map[n->first] = graph_input(g, n->attr->name, &src->types[n->first]);
        if (n->op == OP_input || !live[i]) continue;
        for (uint32_t k = 0; k < n->n; k++) x[k] = map[n->x[k]];
        int results = n->results;
        if (n->sub || results > 1)
            graph_emit_many(g, n->op, x, (int)n->n, n->attr, n->sub, &map[n->first], &results);
        else
            map[n->first] = graph_emit(g, n->op, x, (int)n->n, n->attr);
    }
    for (uint32_t i = 0; ok && i < src->n_outputs; i++) graph_output(g, map[src->outputs[i]]);
    free(live), free(map), free(x);
    return end(g, ok, err);
}

/* Twice: what the first pass folds away leaves operands behind. */
static Graph *fold_pass(const Graph *src, const char *args, qb_error *err)
{
    (void)args;
    Graph *once = emit_live(src, err), *twice = once ? emit_live(once, err) : NULL;
    graph_release(once);
    return twice;
}

static Graph *dce_pass(const Graph *g, const char *args, qb_error *err)
{
    return (void)args, dce_run(g, err);
}
static Graph *simplify_pass(const Graph *g, const char *args, qb_error *err)
{
    return (void)args, simplify_run(g, err);
}

static Graph *cut_pass(const Graph *g, const char *args, qb_error *err)
{
    return (void)args, cut_run(g, err);
}

static Graph *turn_pass(const Graph *g, const char *args, qb_error *err)
{
    return (void)args, turn_run(g, err);
}

static Graph *inline_pass(const Graph *src, const char *args, qb_error *err)
{
    (void)args;
    Val x[MOST], z[MOST];
    Graph *g = graph_new(err);
    if (!g) return NULL;
    copy_inputs(g, src, x);
    bool ok = inline_run(g, src, x, z);
    for (uint32_t i = 0; ok && i < src->n_outputs; i++) graph_output(g, z[i]);
    return end(g, ok, err);
}

static Graph *jvp_pass(const Graph *src, const char *args, qb_error *err)
{
    Val x[MOST], t[MOST], z[MOST], tz[MOST];
    Graph *g = graph_new(err);
    if (!g) return NULL;
    copy_inputs(g, src, x);
    for (uint32_t i = 0; i < src->n_inputs; i++) {
        char name[LINE];
        snprintf(name, sizeof name, "t_%s", input_name(src, i));
        bool wanted = type_floating(input_type(src, i)) && listed(args, input_name(src, i));
        t[i] = wanted ? graph_input(g, name, input_type(src, i)) : NONE;
    }
    bool ok = jvp_run(g, src, x, t, z, tz);
    for (uint32_t i = 0; ok && i < src->n_outputs; i++) graph_output(g, z[i]);
    for (uint32_t i = 0; ok && i < src->n_outputs; i++)
        if (type_floating(output_type(src, i)))
            graph_output(g, val_none(tz[i]) ? gzeros(z[i]) : tz[i]);
    return end(g, ok, err);
}

static Graph *vjp_pass(const Graph *src, const char *args, qb_error *err)
{
    Val x[MOST], ct[MOST], z[MOST], grads[MOST] = {0};
    bool wanted[MOST];
    Graph *g = graph_new(err);
    if (!g) return NULL;
    copy_inputs(g, src, x);
    for (uint32_t i = 0; i < src->n_inputs; i++)
        wanted[i] = type_floating(input_type(src, i)) && listed(args, input_name(src, i));
    for (uint32_t i = 0; i < src->n_outputs; i++) {
        char name[LINE];
        snprintf(name, sizeof name, "ct_%u", (unsigned)i);
        ct[i] =
            type_floating(output_type(src, i)) ? graph_input(g, name, output_type(src, i)) : NONE;
    }
    bool ok = vjp_run(g, src, x, ct, wanted, z, grads);
    for (uint32_t i = 0; ok && i < src->n_inputs; i++)
        if (wanted[i]) graph_output(g, val_none(grads[i]) ? gzeros(x[i]) : grads[i]);
    return end(g, ok, err);
}

static Graph *vmap_pass(const Graph *src, const char *args, qb_error *err)
{
    Val x[MOST], z[MOST];
    bool mapped[MOST], out_mapped[MOST];
    char *names;
    int64_t size = strtoll(args, &names, 10);
    while (*names == ' ') names++;
    Graph *g = graph_new(err);
    if (!g) return NULL;
    for (uint32_t i = 0; i < src->n_inputs; i++) {
        Type t = *input_type(src, i);
        mapped[i] = listed(names, input_name(src, i));
        for (int k = t.rank; mapped[i] && k > 0; k--) t.dims[k] = t.dims[k - 1];
        if (mapped[i]) t.dims[0] = size, t.rank++;
        x[i] = graph_input(g, input_name(src, i), &t);
    }
    bool ok = vmap_run(g, src, x, mapped, size, z, out_mapped);
    for (uint32_t i = 0; ok && i < src->n_outputs; i++) graph_output(g, z[i]);
    return end(g, ok, err);
}

/* tidy: what comes out is copied without its dead nodes. same: it must compute what the given program does, bit for bit. */
static const struct {
    const char *name;
    Graph *(*run)(const Graph *g, const char *args, qb_error *err);
    bool tidy, same;
} passes[] = {
    {"parse", parse_pass, false, false},
    {"text", parse_pass, false, false}, /* must be the last pass: what is expected is as_text() */
    {"check", check_pass, false, false},
    {"fold", fold_pass, false, true},
    {"inline", inline_pass, true, true},
    {"dce", dce_pass, false, true},
    {"simplify", simplify_pass, false, true},
    {"cut", cut_pass, false, true},
    {"turn", turn_pass, false, true},
    {"jvp", jvp_pass, true, false},
    {"vjp", vjp_pass, true, false},
    {"vmap", vmap_pass, true, false},
};

/* ---- values ---- */

/* The NaN among the values is the one that operations make: which of two different ones an addition keeps is up to the CPU's
   and the compiler's order of operands (plan.h). */
static void fill(const Type *t, void *data, uint64_t *seed)
{
    volatile double inf = INFINITY;
    const double special[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, inf - inf, 1e300, 5e-324};
    for (int64_t i = 0; i < type_size(t); i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t r = *seed >> 33;
        double v = r % 4 == 0 ? special[r / 4 % 9] : ((double)(r % 4001) - 2000) / 512;
        if (t->dtype == QB_F64)
            ((double *)data)[i] = v;
        else if (t->dtype == QB_F32)
            ((float *)data)[i] = (float)v;
        else
            ((unsigned char *)data)[i] = r & 1;
    }
}

static bool same_values(const Graph *a, const Graph *b, qb_error *err)
{
    void *in[MOST] = {0}, *out[2][MOST] = {{0}};
    bool ok = true;
    if (a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs)
        return error_set(err, QB_EBUG, "other inputs or outputs than before"), false;
    for (uint64_t seed = 1; ok && seed <= 8; seed++) {
        uint64_t s = seed;
        for (uint32_t i = 0; i < a->n_inputs; i++) {
            in[i] = realloc(in[i], (size_t)type_bytes(input_type(a, i)));
            fill(input_type(a, i), in[i], &s);
        }
        for (uint32_t i = 0; i < a->n_outputs; i++)
            for (int k = 0; k < 2; k++)
                out[k][i] = realloc(out[k][i], (size_t)type_bytes(output_type(a, i)));
        ok = value_run(a, (const void *const *)in, out[0], err) &&
             value_run(b, (const void *const *)in, out[1], err);
        for (uint32_t i = 0; ok && i < a->n_outputs; i++) {
            ok = type_same(output_type(a, i), output_type(b, i)) &&
                 memcmp(out[0][i], out[1][i], (size_t)type_bytes(output_type(a, i))) == 0;
            if (!ok) error_set(err, QB_EBUG, "output %u has other values than before", (unsigned)i);
        }
    }
    for (int i = 0; i < MOST; i++) free(in[i]), free(out[0][i]), free(out[1][i]);
    return ok;
}

/* ---- a case ---- */

/* The passes of a "# run:" line applied to g, which is released. NULL and *err when one fails. */
static Graph *transform(Graph *g, const char *list, bool *text, qb_error *err)
{
    while (g && *list) {
        char name[LINE] = "", args[LINE] = "";
        int used = 0;
        sscanf(list, " %200[a-z]%n", name, &used);
        list += used;
        if (*list == '(' && sscanf(list, "(%200[^)])%n", args, &used) == 1) list += used;
        list += strspn(list, " |");
        size_t k = 0;
        while (k < sizeof passes / sizeof *passes && strcmp(passes[k].name, name) != 0) k++;
        Graph *out = NULL;
        if (k == sizeof passes / sizeof *passes || !used) {
            error_set(err, QB_EVALUE, "no pass '%s'", name);
        } else if (fits(g, err)) {
            *text = strcmp(name, "text") == 0;
            out = passes[k].run(g, args, err);
            if (out && passes[k].tidy) {
                Graph *all = out;
                out = fold_pass(all, "", err);
                graph_release(all);
            }
            if (out && (!check_graph(out, err) || (passes[k].same && !same_values(g, out, err)))) {
                graph_release(out);
                out = NULL;
            }
        }
        graph_release(g);
        if (!out) return NULL;
        g = out;
    }
    return g;
}

static Graph *ordered(const Graph *src, qb_error *err);

/* A region: its bodies are ordered as well. */
static void append_region(Graph *g, const Node *n, const Val *x, Val *map)
{
    qb_error err = {0};
    Graph *bodies[3] = {NULL};
    int results = n->results;
    for (int b = 0; b < op_bodies(n->op); b++) bodies[b] = ordered(n->sub[b], &err);
    if (!err.code)
        graph_emit_many(g, n->op, x, (int)n->n, n->attr, bodies, &map[n->first], &results);
    for (int b = 0; b < 2; b++) graph_release(bodies[b]);
}

/* Node i after its operands, each once. */
static void visit(Graph *g, const Graph *src, Id i, Val *map)
{
    const Node *n = &src->nodes[i];
    if (!val_none(map[n->first])) return;
    for (uint32_t k = 0; k < n->n; k++) visit(g, src, src->def[n->x[k]], map);
    Val *x = calloc(n->n + 1, sizeof *x);
    for (uint32_t k = 0; x && k < n->n; k++) x[k] = map[n->x[k]];
    if (x && n->sub)
        append_region(g, n, x, map);
    else
        map[n->first] = n->op == OP_input ? graph_input(g, n->attr->name, &src->types[n->first])
                                          : graph_append(g, n->op, x, x ? (int)n->n : 0, n->attr);
    free(x);
}

/* The same nodes in the one order that follows from the program: inputs, what each output needs, what nothing needs. */
static Graph *ordered(const Graph *src, qb_error *err)
{
    Graph *g = graph_new(err);
    Val *map = calloc(src->n_values + 1, sizeof *map);
    if (g && map) {
        for (uint32_t i = 0; i < src->n_inputs; i++) visit(g, src, src->def[src->inputs[i]], map);
        for (uint32_t i = 0; i < src->n_outputs; i++) visit(g, src, src->def[src->outputs[i]], map);
        for (Id i = 0; i < src->n_nodes; i++) visit(g, src, i, map);
        for (uint32_t i = 0; i < src->n_outputs; i++) graph_output(g, map[src->outputs[i]]);
    }
    free(map);
    return end(g, g != NULL, err);
}

static char *printed(const Graph *g, bool plan_text, qb_error *err)
{
    Text t = {0};
    Graph *same = plan_text ? NULL : ordered(g, err);
    if (plan_text)
        print_plan_text(&t, g);
    else if (same)
        print_graph(&t, same);
    graph_release(same);
    return text_take(&t, err);
}

/* The same program with numbers in order, or the text itself. */
static char *normal(const char *text, bool plan_text, qb_error *err)
{
    if (plan_text) {
        Text t = {0};
        text_add(&t, "%s", text);
        return text_take(&t, err);
    }
    Graph *g = parse_graph(text, err);
    char *s = g ? printed(g, false, err) : NULL;
    graph_release(g);
    return s;
}

/* Both texts, line by line; lines that differ are marked. */
static void show(const char *want, const char *got)
{
    while (*want || *got) {
        int w = (int)strcspn(want, "\n"), n = (int)strcspn(got, "\n");
        bool same = w == n && strncmp(want, got, (size_t)w) == 0;
        if (same) fprintf(stderr, "      %.*s\n", w, want);
        if (!same && *want) fprintf(stderr, "    - %.*s\n", w, want);
        if (!same && *got) fprintf(stderr, "    + %.*s\n", n, got);
        want += w + (want[w] == '\n');
        got += n + (got[n] == '\n');
    }
}

typedef struct {
    char run[LINE], error[LINE];
    char *program, *expect; /* expect NULL: an error is expected */
    const char *file;
    int line;
} Case;

static bool run_case(const Case *c)
{
    qb_error err = {0}, other = {0};
    bool text = false;
    Graph *g = parse_graph(c->program, &err);
    g = g ? transform(g, c->run, &text, &err) : NULL;
    char *got = g ? printed(g, text, &err) : NULL,
         *want = c->expect ? normal(c->expect, text, &other) : NULL;
    graph_release(g);
    bool ok =
        c->expect ? got && want && strcmp(got, want) == 0 : !got && strstr(err.message, c->error);
    if (!ok) fprintf(stderr, "%s:%d: run: %s\n", c->file, c->line, c->run);
    if (!ok && other.code) fprintf(stderr, "    the expectation: %s\n", other.message);
    if (!ok && !got) fprintf(stderr, "    %s\n", err.message);
    if (!ok && !c->expect) fprintf(stderr, "    expected was the error '%s'\n", c->error);
    if (!ok && got) show(want ? want : "", got);
    mem_free(got);
    mem_free(want);
    return ok;
}

/* ---- files ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (f && text) text[fread(text, 1, (1 << 20) - 1, f)] = 0;
    if (f)
        fclose(f);
    else
        free(text), text = NULL;
    return text;
}

/* Appends a line (with its newline) to a text of the case; all texts of a file fit in its size. */
static void add_line(char *text, const char *line, size_t n) { strncat(text, line, n); }

static void finish(Case *c)
{
    if (c->run[0]) CHECK(run_case(c));
    c->program[0] = c->run[0] = c->error[0] = 0;
    c->expect = NULL;
}

static void run_file(const char *path)
{
    char *text = read_file(path);
    if (!CHECK(text != NULL)) {
        fprintf(stderr, "    %s cannot be read\n", path);
        return;
    }
    size_t size = strlen(text) + 2;
    char *program = calloc(1, size), *expect = calloc(1, size);
    Case c = {.file = path, .program = program};
    int line = 1, cases = 0;
    for (const char *s = text; program && expect && *s; line++) {
        size_t n = strcspn(s, "\n") + (s[strcspn(s, "\n")] == '\n');
        char head[LINE];
        snprintf(head, sizeof head, "%.*s",
                 (int)(strcspn(s, "\n") < LINE ? strcspn(s, "\n") : LINE - 1), s);
        if (strncmp(head, "# run: ", 7) == 0) {
            finish(&c);
            memcpy(c.run, head + 7, strlen(head + 7) + 1);
            c.line = line;
            cases++;
        } else if (strcmp(head, "# expect:") == 0) {
            c.expect = expect;
            expect[0] = 0;
        } else if (strncmp(head, "# error: ", 9) == 0) {
            memcpy(c.error, head + 9, strlen(head + 9) + 1);
        } else if (s[0] != '#' && s[0] != '\n') {
            add_line(c.expect ? expect : program, s, n);
        }
        s += n;
    }
    finish(&c);
    if (!CHECK(cases > 0)) fprintf(stderr, "    %s has no '# run:' line\n", path);
    free(text), free(program), free(expect);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int main(int argc, char **argv)
{
    struct dirent **found = NULL;
    for (int i = 1; i < argc; i++) run_file(argv[i]);
    int n = argc > 1 ? 0 : scandir("tests/ir", &found, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char path[LINE + 300];
        snprintf(path, sizeof path, "tests/ir/%s", found[i]->d_name);
        if (strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".ir") == 0) run_file(path);
        free(found[i]);
    }
    free(found);
    return test_report();
}
