/* Runs a program in text form so many times: count_run FILE RUNS. tests/python/test_counts.py counts
   the instructions of a run with it. */
#include "cpu/cpu.h"
#include <stdio.h>
#include <stdlib.h>

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1, 1 << 22) : NULL;
    size_t n = text ? fread(text, 1, (1 << 22) - 1, f) : 0;
    if (f) fclose(f);
    if (n) return text;
    free(text);
    return NULL;
}

/* Numbers of both signs around 1, the same in every run. */
static void fill(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = (double)((i * 7 + 3) % 11 - 5) / 8;
}

int main(int argc, char **argv)
{
    qb_error err = {0};
    char *text = argc == 3 ? read_file(argv[1]) : NULL;
    Graph *g = text ? parse_graph(text, &err) : NULL;
    qb_plan *p = g ? plan_compile(g, &cpu_target, NULL, &err) : NULL;
    if (!p) return fprintf(stderr, "count_run FILE RUNS: %s\n", err.message), 1;
    void **in = calloc((size_t)p->n_inputs + 1, sizeof *in),
         **out = calloc((size_t)p->n_outputs + 1, sizeof *out);
    if (!in || !out || !pool_resize(1, &err)) return 1;
    for (int i = 0; i < p->n_inputs; i++) {
        if (!(in[i] = mem_zeroed((size_t)type_bytes(&p->in_types[i]), 1))) return 1;
        if (p->in_types[i].dtype == QB_F64) fill(in[i], type_size(&p->in_types[i]));
    }
    for (int i = 0; i < p->n_outputs; i++)
        if (!(out[i] = mem_zeroed((size_t)type_bytes(&p->out_types[i]), 1))) return 1;
    for (int i = 0; i < atoi(argv[2]); i++)
        if (!p->target->run(p, (const void *const *)in, out, &err)) return 1;
    for (int i = 0; i < p->n_inputs; i++) mem_free(in[i]);
    for (int i = 0; i < p->n_outputs; i++) mem_free(out[i]);
    free(in);
    free(out);
    free(text);
    plan_release(p);
    graph_release(g);
    return 0;
}
