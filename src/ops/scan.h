/* scan.h: reverse mode of a counted loop, for scan.c and for the bounded while.c. */
#ifndef SCAN_H
#define SCAN_H

#include "ops/rules.h"

/* ---- scan_vjp.c ---- */
/* The loop run forward, z its results; what it returns lives in a. seeded: results that will have a cotangent; wanted: operands that
   need one. */
struct Kept *scan_vjp_forward(Graph *g, Arena *a, const Graph *body, ScanForm form, const Val *x, const bool *seeded, const bool *wanted,
                              Val *z);
void scan_vjp_backward(Graph *g, struct Kept *kept, const Val *x, const Val *ct, Val *out);

#endif
