/* dump.c: plans as text, for people. QUABLA_DUMP=simplify,dce,fuse,memory,steps prints the IR or
   the steps after a pass:

     3: region 32x16  net.py:12
        v0 = load in0[16,1] : f64
        v1 = load work+2048[0,1] : f64
        v2 = add v0, v1
        store v2 to work+0[16,1]
     4: matmul f64 n=16 k=16  net.py:13
        m=32: work+4096[16,1] = work+0[16,1] x in1[16,1]

   A store to work+0[16,1] writes element (i, j) at work + 0 bytes + (16 i + j) elements; ...@3
   starts at element 3. */
#include "plan/plan.h"
#include <stdio.h>
#include <stdlib.h>

bool dump_wanted(const char *pass)
{
    const char *list = getenv("QUABLA_DUMP");
    size_t n = strlen(pass);
    for (const char *s = list; s && *s;) {
        size_t word = strcspn(s, ",");
        if (word == n && strncmp(s, pass, n) == 0) return true;
        s += word + (s[word] == ',');
    }
    return false;
}

static void numbers(Text *t, int n, const int64_t *x, const char *between)
{
    for (int i = 0; i < n; i++) text_add(t, "%s%lld", i ? between : "", (long long)x[i]);
}

static void memory(Text *t, const Slot *slots, int slot)
{
    static const char *const kinds[] = {
        [SLOT_INPUT] = "in",      [SLOT_OUTPUT] = "out", [SLOT_CONST] = "const",
        [SLOT_CURSOR] = "cursor", [SLOT_WORK] = "work",  [SLOT_ROWS] = "rows",
        [SLOT_PART] = "part"};
    const Slot *s = &slots[slot];
    if (s->kind == SLOT_WORK || s->kind == SLOT_ROWS || s->kind == SLOT_PART)
        text_add(t, "%s+%lld", kinds[s->kind], (long long)s->offset);
    else
        text_add(t, "%s%d", kinds[s->kind], (int)s->index);
}

static void access(Text *t, const Slot *slots, const Access *a, int rank)
{
    memory(t, slots, a->slot);
    if (a->offset) text_add(t, "@%lld", (long long)a->offset);
    text_add(t, "[");
    numbers(t, rank, a->stride, ",");
    text_add(t, "]");
}

static void instr(Text *t, const Region *r, int i)
{
    const Instr *in = &r->instrs[i];
    text_add(t, "     v%d = %s v%d", r->n_loads + i, op_table[in->op].name, (int)in->a);
    if (in->b >= 0) text_add(t, ", v%d", (int)in->b);
    if (in->c >= 0) text_add(t, ", v%d", (int)in->c);
    if (in->op == OP_powi) text_add(t, ", %lld", (long long)in->i);
    if (in->in != in->out) text_add(t, " : %s", dtype_name(in->out));
    text_add(t, "\n");
}

static void region(Text *t, const Region *r)
{
    text_add(t, "region ");
    numbers(t, r->rank, r->dims, "x");
    if (r->rank == 0) text_add(t, "scalar");
    if (r->form != REDUCE_NONE)
        text_add(t, ", reduces %s dims, split %d",
                 r->form == REDUCE_LEADING ? "leading" : "trailing", r->split);
}

static void region_body(Text *t, const Slot *slots, const Region *r)
{
    for (int i = 0; i < r->n_loads; i++) {
        text_add(t, "     v%d = ", i);
        if (r->loads[i].splat)
            text_number(t, r->loads[i].value);
        else {
            text_add(t, "load ");
            access(t, slots, &r->loads[i].at, r->rank);
        }
        text_add(t, " : %s\n", dtype_name(r->loads[i].dtype));
    }
    for (int i = 0; i < r->n_instrs; i++) instr(t, r, i);
    for (int i = 0; i < r->n_stores; i++) {
        text_add(t, "     store v%d to ", (int)r->stores[i].value);
        access(t, slots, &r->stores[i].at, r->rank);
        text_add(t, "\n");
    }
    for (int i = 0; i < r->n_reduces; i++) {
        text_add(t, "     %s v%d to ", op_table[r->reduces[i].op].name, (int)r->reduces[i].value);
        access(t, slots, &r->reduces[i].at, r->rank);
        text_add(t, "\n");
    }
}

static void mat(Text *t, const Slot *slots, const Mat *m, int rank)
{
    memory(t, slots, m->slot);
    if (m->offset) text_add(t, "@%lld", (long long)m->offset);
    text_add(t, "[");
    numbers(t, rank, m->batch, ",");
    text_add(t, "%s%lld,%lld]", rank ? "," : "", (long long)m->row, (long long)m->col);
}

static void matmul(Text *t, const MatMul *m)
{
    text_add(t, "matmul %s n=%lld k=%lld", dtype_name(m->dtype), (long long)m->n, (long long)m->k);
    if (m->rank) text_add(t, " batch ");
    numbers(t, m->rank, m->dims, "x");
}

static void matmul_body(Text *t, const Slot *slots, const MatMul *m)
{
    for (int i = 0; i < m->n_parts; i++) {
        text_add(t, "     m=%lld: ", (long long)m->parts[i].m);
        mat(t, slots, &m->parts[i].c, m->rank);
        text_add(t, " = ");
        mat(t, slots, &m->parts[i].a, m->rank);
        text_add(t, " x ");
        mat(t, slots, &m->b, m->rank);
        text_add(t, "\n");
    }
}

static void spans(Text *t, const Slot *slots, const Span *x, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (i > from) text_add(t, ", ");
        memory(t, slots, x[i].slot);
        if (x[i].offset) text_add(t, "@%lld", (long long)x[i].offset);
    }
}

static void loop(Text *t, const Loop *l)
{
    text_add(t, "%s", op_table[l->op].name);
    if (l->length)
        text_add(t, l->op == OP_while ? " at most %lld times" : " %lld times",
                 (long long)l->length);
    if (l->reverse) text_add(t, ", backward");
}

/* The steps of a body, four spaces further in. */
static void nested(Text *t, const qb_plan *p)
{
    Text inner = {0};
    qb_error err = {0};
    dump_steps(&inner, p);
    char *text = text_take(&inner, &err);
    t->failed |= !text;
    for (char *s = text; s && *s;) {
        int n = (int)strcspn(s, "\n");
        text_add(t, "    %.*s\n", n, s);
        s += n + (s[n] == '\n');
    }
    mem_free(text);
}

/* Operands and results by group, then the bodies. */
static void loop_body(Text *t, const Slot *slots, const Loop *l)
{
    int x = l->carries + l->xs;
    const struct {
        const char *name;
        const Span *at;
        int from, to;
    } groups[] = {
        {"carries", l->in, 0, l->carries},
        {"xs", l->in, l->carries, x},
        {l->op == OP_cond ? "operands" : "captures", l->in, x, l->n_in},
        {"to", l->out, 0, l->n_out},
    };
    for (int i = 0; i < 4; i++) {
        if (groups[i].from == groups[i].to) continue;
        text_add(t, "     %s ", groups[i].name);
        spans(t, slots, groups[i].at, groups[i].from, groups[i].to);
        text_add(t, "\n");
    }
    for (int k = 0; k < l->carries; k++)
        if (l->shift[k])
            text_add(t, "     carry %d slides by %lld bytes\n", k, (long long)l->shift[k]);
    for (int b = 0; b < 2; b++)
        if (l->body[b]) nested(t, l->body[b]);
}

static void call_args(Text *t, const Slot *slots, const CallArg *x, int n, const char *before)
{
    for (int i = 0; i < n; i++) {
        text_add(t, "%s%s ", i ? ", " : before, TYPE_TEXT(&x[i].type));
        memory(t, slots, x[i].slot);
        if (x[i].offset) text_add(t, "@%lld", (long long)x[i].offset);
    }
}

static void call(Text *t, const Call *c) { text_add(t, "call %s", op_table[c->op].name); }

static void call_body(Text *t, const Slot *slots, const Call *c)
{
    call_args(t, slots, c->z, c->results, "     ");
    call_args(t, slots, c->x, c->n, " = of ");
    text_add(t, "\n");
}

static void step_text(Text *t, const Slot *slots, int number, const Step *s)
{
    text_add(t, "%3d: ", number);
    if (s->kind == STEP_REGION)
        region(t, &s->region);
    else if (s->kind == STEP_MATMUL)
        matmul(t, &s->matmul);
    else if (s->kind == STEP_CALL)
        call(t, &s->call);
    else
        loop(t, &s->loop);
    if (s->file) text_add(t, "  %s:%u", s->file, (unsigned)s->line);
    text_add(t, "\n");
    if (s->kind == STEP_REGION)
        region_body(t, slots, &s->region);
    else if (s->kind == STEP_MATMUL)
        matmul_body(t, slots, &s->matmul);
    else if (s->kind == STEP_CALL)
        call_body(t, slots, &s->call);
    else
        loop_body(t, slots, &s->loop);
}

/* Which steps run block by block, and through what they walk. */
static void sweep_text(Text *t, const qb_plan *p, const Sweep *s)
{
    text_add(t, "sweep of %lld points, steps %d to %d, ", (long long)s->points, s->first,
             s->first + s->n - 1);
    if (s->beside) text_add(t, "beside it %d to %d, ", s->first - s->beside, s->first - 1);
    text_add(t, "%lld bytes a thread, %lld bytes of sums\n", (long long)s->rows_bytes,
             (long long)s->part_bytes);
    for (int i = s->first_cursor; i < s->first_cursor + s->n_cursors; i++) {
        text_add(t, "     cursor%d = ", i);
        memory(t, p->slots, p->cursors[i].slot);
        text_add(t, " by %lld bytes\n", (long long)p->cursors[i].step);
    }
    for (int i = 0; i < s->n_sums; i++) {
        text_add(t, "     ");
        memory(t, p->slots, s->sums[i].at.slot);
        text_add(t, " = %s of ", op_table[s->sums[i].op].name);
        memory(t, p->slots, s->sums[i].part);
        text_add(t, "\n");
    }
}

void dump_steps(Text *t, const qb_plan *p)
{
    text_add(t, "%d steps, %lld bytes of work\n", p->n_steps, (long long)p->work_bytes);
    for (int i = 0, sweep = 0; i < p->n_steps; i++) {
        if (sweep < p->n_sweeps && p->sweeps[sweep].first == i)
            sweep_text(t, p, &p->sweeps[sweep++]);
        step_text(t, p->slots, i, &p->steps[i]);
    }
}

/* ---- QUABLA_DUMP ---- */

static void print(const char *pass, Text *t)
{
    qb_error err = {0};
    char *s = text_take(t, &err);
    fprintf(stderr, "---- after %s\n%s", pass, s ? s : err.message);
    mem_free(s);
}

void dump_graph(const char *pass, const Graph *g)
{
    if (!dump_wanted(pass)) return;
    Text t = {0};
    print_graph(&t, g);
    print(pass, &t);
}

void dump_draft(const char *pass, const Draft *d)
{
    if (!dump_wanted(pass)) return;
    Text t = {0};
    for (int i = 0; i < d->n_jobs; i++) step_text(&t, d->p->slots, i, &d->jobs[i]->step);
    print(pass, &t);
}

void dump_plan(const char *pass, const qb_plan *p)
{
    if (!dump_wanted(pass) && !(strcmp(pass, "memory") == 0 && dump_wanted("steps"))) return;
    Text t = {0};
    dump_steps(&t, p);
    print(pass, &t);
}
