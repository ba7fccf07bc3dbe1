/* api.c: quabla.h implemented. Every function unwraps, checks its arguments and makes one call inside. */
#include "cpu/cpu.h"
#include <stdio.h>

/* ---- tables ---- */

#define ERROR(code, exception, doc) {code, exception},
static const struct {
    int code;
    const char *exception;
} error_rows[] = {
#include "errors.h"
};

const char *qb_error_exception(int code)
{
    for (size_t i = 0; i < sizeof error_rows / sizeof *error_rows; i++)
        if (error_rows[i].code == code) return error_rows[i].exception;
    return "SystemError";
}

const char *qb_version(void) { return QB_VERSION; }

qb_type qb_type_make(qb_dtype dtype, int rank, const int64_t *dims)
{
    return type_make(dtype, rank, dims);
}
int64_t qb_type_size(const qb_type *t) { return type_size(t); }
int64_t qb_type_bytes(const qb_type *t) { return type_bytes(t); }
int64_t qb_dtype_size(int dtype) { return type_elem(dtype); }
void qb_type_text(const qb_type *t, char *out, size_t size) { type_text(t, out, size); }

const char *qb_dtype_name(int dtype)
{
#define DTYPE(name, ...) #name,
    static const char *const names[] = {
#include "dtypes.h"
    };
    return dtype >= 0 && dtype < QB_DTYPE_COUNT ? names[dtype] : "?";
}

int qb_op_count(void) { return APPLY_COUNT; }
int qb_op_find(const char *name) { return op_find_any(name); }

#define COMPOSITE(name, form, ...) FORM_##form,
#define FORM_ELEMENT "element"
#define FORM_TEST "test"
#define FORM_REDUCE "reduce"
#define FORM_AXIS "axis"
static const char *const forms[] = {
#include "composites.h"
};

qb_op_info qb_op_at(int op)
{
    if (op < 0 || op >= APPLY_COUNT) return (qb_op_info){0};
    const OpRow *r = &op_table[op];
    return (qb_op_info){
        .name = r->name,
        .doc = r->doc,
        .arity = r->arity == 255 ? -1 : r->arity,
        .elementwise = op_elementwise(op),
        .ulp = r->ulp,
        .result = r->to_bool ? QB_BOOL : -1,
        .form = op < OP_COUNT ? "op" : forms[op - OP_COUNT],
    };
}

/* ---- graphs ---- */

/* A failed call must leave the graph usable: the failure moves from the graph to the caller. True when there was none. */
static bool settle(Graph *g, qb_error *err)
{
    if (!graph_failed(g)) return true;
    *err = g->error;
    error_clear(&g->error);
    return false;
}

static bool usable(const Graph *g, qb_error *err)
{
    if (g && !g->frozen) return true;
    error_set(err, QB_EVALUE, g ? "the graph is frozen" : "no graph");
    return false;
}

static bool frozen(const Graph *g, qb_error *err)
{
    if (g && g->frozen) return true;
    error_set(err, QB_EVALUE,
              g ? "the graph is not frozen; call qb_graph_freeze first" : "no graph");
    return false;
}

static bool type_valid(const Type *t, qb_error *err)
{
    if (t->dtype >= QB_DTYPE_COUNT)
        return error_set(err, QB_EDTYPE, "no such dtype: %d", t->dtype), false;
    if (t->rank > QB_MAX_RANK)
        return error_set(err, QB_ESHAPE, "rank %d; at most %d axes", t->rank, QB_MAX_RANK), false;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] < 1)
            return error_set(err, QB_ESHAPE, "axis %d has length %lld; lengths are at least 1", i,
                             (long long)t->dims[i]),
                   false;
    if (type_bytes(t) < 0)
        return error_set(err, QB_EMEMORY, "%s is larger than any memory", TYPE_TEXT(t)), false;
    return true;
}

/* Are these values of g (or NONE where that is allowed)? */
static bool owned(const Graph *g, const Val *x, int n, bool none, const char *what, qb_error *err)
{
    for (int i = 0; i < n; i++) {
        if (val_none(x[i]) && none) continue;
        if (val_none(x[i]) || x[i].graph != g || x[i].id >= g->n_values)
            return error_set(err, QB_EVALUE, "%s %d is not a value of this graph", what, i), false;
    }
    return true;
}

qb_graph *qb_graph_new(qb_error *err) { return graph_new(err); }
qb_graph *qb_graph_retain(qb_graph *g) { return graph_retain(g); }

void qb_graph_release(qb_graph *g)
{
    if (g) graph_release(g);
}

qb_value qb_graph_input(qb_graph *g, const char *name, const qb_type *type, qb_error *err)
{
    if (!usable(g, err) || !type_valid(type, err)) return NONE;
    char number[16];
    if (!name) name = (snprintf(number, sizeof number, "in%u", g->n_inputs), number);
    Val v = graph_input(g, name, type);
    return settle(g, err) ? v : NONE;
}

qb_value qb_constant(qb_graph *g, const qb_type *type, double value, qb_error *err)
{
    if (!usable(g, err) || !type_valid(type, err)) return NONE;
    Val v = gconst(g, type, value);
    return settle(g, err) ? v : NONE;
}

qb_value qb_constant_dense(qb_graph *g, const qb_type *type, qb_buffer *data, qb_error *err)
{
    if (!usable(g, err) || !type_valid(type, err)) return NONE;
    if (qb_buffer_bytes(data) < type_bytes(type))
        return error_set(err, QB_EVALUE, "%s needs %lld bytes; the buffer has %lld",
                         TYPE_TEXT(type), (long long)type_bytes(type),
                         (long long)qb_buffer_bytes(data)),
               NONE;
    Val v = gdense(g, type, data);
    return settle(g, err) ? v : NONE;
}

bool qb_graph_output(qb_graph *g, qb_value v, qb_error *err)
{
    if (!usable(g, err) || !owned(g, &v, 1, false, "output", err)) return false;
    graph_output(g, v);
    return settle(g, err);
}

bool qb_graph_freeze(qb_graph *g, qb_error *err) { return usable(g, err) && graph_freeze(g, err); }

void qb_graph_at(qb_graph *g, const char *file, int line)
{
    g->file = file ? graph_intern(g, file) : NULL;
    g->line = (uint32_t)line;
}

int qb_graph_input_count(const qb_graph *g) { return (int)g->n_inputs; }
int qb_graph_output_count(const qb_graph *g) { return (int)g->n_outputs; }
int qb_graph_node_count(const qb_graph *g) { return (int)g->n_nodes; }
const qb_type *qb_graph_input_type(const qb_graph *g, int i) { return &g->types[g->inputs[i]]; }
const char *qb_graph_input_name(const qb_graph *g, int i)
{
    return g->nodes[g->def[g->inputs[i]]].attr->name;
}
qb_value qb_graph_output_at(const qb_graph *g, int i) { return graph_val(g, g->outputs[i]); }
const qb_type *qb_type_of(qb_value v) { return type_of(v); }

qb_value qb_apply(qb_graph *g, int op, const qb_value *x, int n, const qb_attr *attr, qb_error *err)
{
    if (!usable(g, err) || !owned(g, x, n, false, "operand", err)) return NONE;
    if (op < 0 || op >= APPLY_COUNT)
        return error_set(err, QB_EVALUE, "no op has the number %d", op), NONE;
    Val v = apply_op(g, op, x, n, attr ? attr : &(Attr){0});
    return settle(g, err) ? v : NONE;
}

static qb_value by_name(const char *op, const qb_value *x, int n, qb_error *err)
{
    int number = op_find_any(op);
    if (number < 0) return error_set(err, QB_EVALUE, "no op is called '%s'", op), NONE;
    for (int i = 0; i < n; i++) /* an earlier call failed: its error stays */
        if (val_none(x[i])) return NONE;
    return qb_apply(x[0].graph, number, x, n, NULL, err);
}

qb_value qb_op1(const char *op, qb_value x, qb_error *err) { return by_name(op, &x, 1, err); }
qb_value qb_op2(const char *op, qb_value x, qb_value y, qb_error *err)
{
    return by_name(op, (Val[]){x, y}, 2, err);
}

/* Operands of a region: each one there, the bodies frozen and with as many inputs. */
static bool region_ready(Graph *g, const Graph *body, const Graph *other, const Val *x, int n,
                         qb_error *err)
{
    if (!usable(g, err) || !frozen(body, err) || !frozen(other, err) ||
        !owned(g, x, n, false, "operand", err))
        return false;
    if ((int)body->n_inputs == n && (int)other->n_inputs == n) return true;
    return error_set(err, QB_EVALUE, "a body takes %u operands, not %d",
                     (unsigned)((int)body->n_inputs == n ? other : body)->n_inputs, n),
           false;
}

bool qb_cond(qb_graph *g, qb_value pred, const qb_graph *on_true, const qb_graph *on_false,
             const qb_value *x, int n, qb_value *outs, qb_error *err)
{
    if (!region_ready(g, on_true, on_false, x, n, err) ||
        !owned(g, &pred, 1, false, "predicate", err))
        return false;
    region_cond(g, pred, on_true, on_false, x, n, outs);
    return settle(g, err);
}

bool qb_scan(qb_graph *g, const qb_graph *body, int64_t length, bool reverse, int carries, int xs,
             const qb_value *x, int n, qb_value *outs, qb_error *err)
{
    if (!region_ready(g, body, body, x, n, err)) return false;
    region_scan(g, body, (ScanForm){length, reverse, carries, xs}, x, n, outs);
    return settle(g, err);
}

bool qb_while(qb_graph *g, const qb_graph *test, const qb_graph *body, int64_t max_steps,
              int carries, const qb_value *x, int n, qb_value *outs, qb_error *err)
{
    if (!region_ready(g, test, body, x, n, err)) return false;
    region_while(g, test, body, max_steps, carries, x, n, outs);
    return settle(g, err);
}

static bool custom_node(Graph *g, Op op, const char *name, Graph *const *bodies, const Val *x,
                        int n, Val *outs, qb_error *err)
{
    if (!usable(g, err) || !owned(g, x, n, false, "operand", err)) return false;
    for (Graph *const *b = bodies; *b; b++)
        if (!frozen(*b, err)) return false;
    custom_emit(g, op, name, x, n, bodies, outs);
    return settle(g, err);
}

#define UNCONST(g) ((Graph *)(uintptr_t)(g))

bool qb_checkpoint(qb_graph *g, const qb_graph *value, const qb_value *x, int n, qb_value *outs,
                   qb_error *err)
{
    return custom_node(g, OP_checkpoint, NULL, (Graph *[]){UNCONST(value), NULL}, x, n, outs, err);
}

bool qb_custom_jvp(qb_graph *g, const char *name, const qb_graph *value, const qb_graph *rule,
                   const qb_value *x, int n, qb_value *outs, qb_error *err)
{
    if (!custom_node(g, OP_custom_jvp, name, (Graph *[]){UNCONST(value), UNCONST(rule), NULL}, x, n,
                     outs, err))
        return false;
    if (linear_rule(g, rule, n)) return true;
    if (settle(g, err))
        error_set(err, QB_EVALUE,
                  "custom_jvp of '%s': the tangents that the rule returns are not linear in those "
                  "it gets",
                  name ? name : "?");
    return false;
}

bool qb_custom_vjp(qb_graph *g, const char *name, const qb_graph *value, const qb_graph *forward,
                   const qb_graph *backward, const qb_value *x, int n, qb_value *outs,
                   qb_error *err)
{
    return custom_node(g, OP_custom_vjp, name,
                       (Graph *[]){UNCONST(value), UNCONST(forward), UNCONST(backward), NULL}, x, n,
                       outs, err);
}
#undef UNCONST

bool qb_forward_mode(const qb_graph *g) { return custom_forward_mode(g); }

char *qb_graph_text(const qb_graph *g, qb_error *err)
{
    Text t = {0};
    print_graph(&t, g);
    return text_take(&t, err);
}

char *qb_graph_listing(const qb_graph *g, qb_error *err)
{
    Text t = {0};
    print_listing(&t, g);
    return text_take(&t, err);
}

char *qb_graph_stablehlo(const qb_graph *g, qb_error *err)
{
    Text t = {0};
    Graph *plain = expand_run(g, err);
    bool ok = plain && stablehlo_print(&t, plain, err);
    graph_release(plain);
    if (ok) return text_take(&t, err);
    mem_free(t.data);
    return NULL;
}

qb_graph *qb_parse(const char *text, qb_error *err) { return parse_graph(text, err); }
bool qb_check(const qb_graph *g, qb_error *err) { return check_graph(g, err); }
void qb_free(void *text) { mem_free(text); }

/* ---- transforms ---- */

static bool bindable(Graph *dst, const Graph *src, const Val *args, qb_error *err)
{
    if (!usable(dst, err) || !frozen(src, err) ||
        !owned(dst, args, (int)src->n_inputs, false, "argument", err))
        return false;
    return true;
}

static bool same_types(const Graph *src, const Val *v, const Id *like, int n, const char *what,
                       qb_error *err)
{
    for (int i = 0; i < n; i++)
        if (!val_none(v[i]) && !type_same(type_of(v[i]), &src->types[like[i]]))
            return error_set(err, QB_ESHAPE, "%s %d is %s; the program has %s", what, i,
                             TYPE_TEXT(type_of(v[i])), TYPE_TEXT(&src->types[like[i]])),
                   false;
    return true;
}

bool qb_inline(qb_graph *dst, const qb_graph *src, const qb_value *args, qb_value *outs,
               qb_error *err)
{
    if (!bindable(dst, src, args, err) ||
        !same_types(src, args, src->inputs, (int)src->n_inputs, "argument", err))
        return false;
    inline_run(dst, src, args, outs);
    return settle(dst, err);
}

bool qb_jvp(qb_graph *dst, const qb_graph *src, const qb_value *args, const qb_value *tangents,
            qb_value *outs, qb_value *out_tangents, qb_error *err)
{
    int n = src ? (int)src->n_inputs : 0;
    if (!bindable(dst, src, args, err) || !same_types(src, args, src->inputs, n, "argument", err))
        return false;
    if (!owned(dst, tangents, n, true, "tangent", err) ||
        !same_types(src, tangents, src->inputs, n, "tangent", err))
        return false;
    jvp_run(dst, src, args, tangents, outs, out_tangents);
    return settle(dst, err);
}

bool qb_vjp(qb_graph *dst, const qb_graph *src, const qb_value *args, const qb_value *cotangents,
            const bool *wanted, qb_value *outs, qb_value *grads, qb_error *err)
{
    int n = src ? (int)src->n_outputs : 0;
    if (!bindable(dst, src, args, err) ||
        !same_types(src, args, src->inputs, (int)src->n_inputs, "argument", err))
        return false;
    if (!owned(dst, cotangents, n, true, "cotangent", err) ||
        !same_types(src, cotangents, src->outputs, n, "cotangent", err))
        return false;
    vjp_run(dst, src, args, cotangents, wanted, outs, grads);
    return settle(dst, err);
}

bool qb_vjp_values(qb_graph *dst, const qb_graph *src, const qb_value *args, const bool *wanted,
                   const bool *seeded, qb_value *outs, qb_error *err)
{
    if (!bindable(dst, src, args, err) ||
        !same_types(src, args, src->inputs, (int)src->n_inputs, "argument", err))
        return false;
    vjp_values(dst, src, args, wanted, seeded, outs);
    return settle(dst, err);
}

bool qb_vmap(qb_graph *dst, const qb_graph *src, const qb_value *args, const bool *mapped,
             int64_t size, qb_value *outs, bool *out_mapped, qb_error *err)
{
    if (!bindable(dst, src, args, err)) return false;
    if (size < 1)
        return error_set(err, QB_ESHAPE, "vmap over an axis of length %lld", (long long)size),
               false;
    for (uint32_t i = 0; i < src->n_inputs; i++) {
        Type want = src->types[src->inputs[i]];
        if (mapped[i]) {
            if (want.rank == QB_MAX_RANK)
                return error_set(err, QB_ESHAPE, "vmap of rank %d; at most %d axes", want.rank,
                                 QB_MAX_RANK),
                       false;
            memmove(want.dims + 1, want.dims, sizeof *want.dims * want.rank);
            want.dims[0] = size;
            want.rank++;
        }
        if (!type_same(type_of(args[i]), &want))
            return error_set(err, QB_ESHAPE, "vmap: argument %u is %s; expected %s", i,
                             TYPE_TEXT(type_of(args[i])), TYPE_TEXT(&want)),
                   false;
    }
    vmap_run(dst, src, args, mapped, size, outs, out_mapped);
    return settle(dst, err);
}

/* ---- plans ---- */

static const Target *const built[] = {
#define TARGET(name, is_built) TARGET_##is_built(name)
#define TARGET_1(name) &name##_target,
#define TARGET_0(name)
#include "targets.h"
#undef TARGET_1
#undef TARGET_0
};
static const char *const target_names[] = {
#define TARGET(name, is_built) #name,
#include "targets.h"
};

int qb_target_count(void) { return (int)(sizeof target_names / sizeof *target_names); }
const char *qb_target_name(int i)
{
    return i >= 0 && i < qb_target_count() ? target_names[i] : NULL;
}

static const Target *target_find(const char *name)
{
    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        if (!strcmp(built[i]->name, name)) return built[i];
    return NULL;
}

bool qb_target_built(const char *name) { return name && target_find(name); }

qb_plan *qb_compile(const qb_graph *g, const qb_options *options, qb_error *err)
{
    if (!frozen(g, err)) return NULL;
    const char *name = options && options->target ? options->target : "cpu";
    const char *precision = options ? options->precision : NULL;
    if (precision && strcmp(precision, "float32") && strcmp(precision, "float64"))
        return error_set(err, QB_EVALUE,
                         "precision is NULL, \"float32\" or \"float64\", not \"%s\"", precision),
               NULL;
    const Target *t = target_find(name);
    if (t) return plan_compile(g, t, options, err);
    for (int i = 0; i < qb_target_count(); i++)
        if (!strcmp(target_names[i], name))
            return error_set(err, QB_EUNSUPPORTED, "target '%s' is not in this build; it has: cpu",
                             name),
                   NULL;
    return error_set(err, QB_ETARGET, "no target is called '%s'; this build has: cpu", name), NULL;
}

qb_plan *qb_plan_retain(qb_plan *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void qb_plan_release(qb_plan *p)
{
    if (p) plan_release(p);
}

bool qb_plan_run(qb_plan *p, const void *const *inputs, void *const *outputs, qb_error *err)
{
    return p->target->run(p, inputs, outputs, err);
}

int qb_plan_input_count(const qb_plan *p) { return p->n_inputs; }
int qb_plan_output_count(const qb_plan *p) { return p->n_outputs; }
const qb_type *qb_plan_output_type(const qb_plan *p, int i) { return &p->out_types[i]; }
int qb_plan_step_count(const qb_plan *p) { return p->n_steps; }

bool qb_plan_profile(qb_plan *p, const void *const *inputs, void *const *outputs,
                     qb_step_profile *steps, qb_error *err)
{
    if (!p->target->time)
        return error_set(err, QB_EUNSUPPORTED, "target '%s' does not tell times", p->target->name),
               false;
    atomic_llong *ns = mem_zeroed((size_t)p->n_steps + 1, sizeof *ns);
    if (!ns) return error_memory(err, "a profile", -1), false;
    bool ok = p->target->time(p, inputs, outputs, ns, err);
    for (int i = 0; ok && i < p->n_steps; i++) {
        profile_step(p, i, &steps[i]);
        steps[i].seconds = 1e-9 * (double)atomic_load(&ns[i]);
    }
    mem_free(ns);
    return ok;
}

int64_t qb_plan_workspace(const qb_plan *p) { return plan_workspace(p); }
void qb_set_interrupt(qb_interrupt_fn *fn, void *arg) { pulse_set(fn, arg); }
int qb_plan_node_count(const qb_plan *p) { return (int)p->graph->n_nodes; }

char *qb_plan_text(const qb_plan *p, qb_error *err)
{
    Text t = {0};
    print_plan_text(&t, p->graph);
    return text_take(&t, err);
}

char *qb_plan_steps(const qb_plan *p, qb_error *err)
{
    Text t = {0};
    dump_steps(&t, p);
    return text_take(&t, err);
}

bool qb_eager(int op, const qb_attr *attr, int n, const qb_type *const *types,
              const void *const *data, qb_buffer **out, qb_type *out_type, qb_error *err)
{
    return cache_eager(&cpu_target, op, attr, n, types, data, out, out_type, err);
}

/* ---- threads, ISA, tests ---- */

bool qb_set_num_threads(int64_t n, qb_error *err) { return pool_resize(n, err); }
int qb_get_num_threads(void) { return pool_threads(); }
const char *qb_isa(void) { return isa_now()->name; }

bool qb_set_isa(const char *name, qb_error *err)
{
    if (!isa_set(name, err)) return false;
    cache_clear(); /* compiled eager ops hold kernels of the old level */
    return true;
}

void qb_set_tiling(int policy) { tile_set((TilePolicy)policy); }
bool qb_cpu_supported(qb_error *err) { return isa_supported(err); }
