/* rules.h: what the files of structural ops share. */
#ifndef RULES_H
#define RULES_H

#include "transform/transform.h"

/* ---- rules.c ---- */
bool rules_floating(Graph *g, const Node *n, const Type *x); /* else QB_EDTYPE, with the way out */
bool rules_axis(Graph *g, const Node *n, const Type *x);     /* is attr.i an axis? else QB_ESHAPE */
/* The jvp of a linear op of one operand: the op itself, applied to the tangent. */
void rules_linear_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz);

/* ---- region.c: cond, scan and while as rules and the C API write them ---- */
typedef struct { int64_t length; bool reverse; int carries, xs; } ScanForm;
/* Bodies are frozen, x has an operand for each input of the body (cond: pred apart), z gets a value for each output. What a body
   does not use, what no iteration changes and what is constant leaves the operands. */
bool region_cond(Graph *g, Val pred, const Graph *yes, const Graph *no, const Val *x, int n, Val *z);
bool region_scan(Graph *g, const Graph *body, ScanForm form, const Val *x, int n, Val *z);
bool region_while(Graph *g, const Graph *test, const Graph *step, int64_t max_steps, int carries, const Val *x, int n, Val *z);
ScanForm region_form_of(const Node *n);                      /* of a scan node */
bool *region_flags(Graph *g, const Node *n);                 /* one per operand, false; the caller's. NULL: the failure is in g */
/* Inputs that some output needs, of those with outs (NULL: all); false: out of memory. */
bool region_used(const Graph *body, const bool *outs, bool *used);
/* The same body with inputs of its own: input k becomes input slot[k], or is bound to the constant x[k] (slot -1, x[k] a value of g),
   or to nothing (x[k] NONE). Of its outputs the n listed ones stay. NULL: the failure is in g. */
Graph *region_rebind(Graph *g, const Graph *body, const int *slot, const Val *x, int inputs, const uint32_t *outs, int n);
Type region_slice(const Type *t);                            /* of an array's elements along axis 0 */
Type region_stack(const Type *t, int64_t length);            /* with a new first axis */

/* ---- examples.c: batches whose examples part ways; mask: bool[size] ---- */
Val examples_select(Val mask, Val yes, Val no);        /* each example's own, of two values with the batch axis first */
Val examples_enter(Val mask, Val x, bool taken);       /* x, cut off for derivatives where the mask is not `taken` */

/* ---- loop_jvp.c: forward mode of scan and while ---- */
void loop_jvp(Graph *g, const Node *n, const Val *x, const Val *t, const bool *read, Val *z, Val *tz);

/* ---- custom.c: functions with a rule of their own ---- */
bool custom_emit(Graph *g, Op op, const char *name, const Val *x, int n, Graph *const *bodies, Val *z);
bool custom_forward_mode(const Graph *g);                      /* false where a custom_vjp is on the way */

/* ---- linear.c ---- */
bool linear_rule(Graph *g, const Graph *rule, int operands);   /* is a custom_jvp rule linear in what follows the operands? */

/* ---- body.c: a body under construction, and the operands that its inputs stand for ---- */
typedef struct {
    Graph *g, *body;       /* where the region goes; the body. A failure in one is a failure of the other */
    Arena arena;           /* for arrays of the rule; gone at body_drop */
    Val *x; int n, room;   /* operands */
} Body;
bool body_open(Body *f, Graph *g);
void *body_alloc(Body *f, size_t n, size_t size);          /* zeroed; NULL: the failure is in g */
Val body_input(Body *f, Val x, const Type *t);             /* the next input of the body, of type t, for operand x of g */
bool body_close(Body *f);                                  /* freezes the body */
Graph *body_opened(Graph *g, const Graph *body, const bool *wanted, const bool *seeded); /* by vjp_values; NULL: the failure is in g */
void body_drop(Body *f);                                   /* the end, after body_open whatever came of it */
Type body_strong(const Type *t);
/* n bodies with the same operands: branches of a cond, test and step of a while. v[i][k] gets the input of body i. */
bool body_open_all(Body *f, int n, Graph *g);
void body_input_all(Body *f, int n, Val x, const Type *t, Val *const *v, int k);
bool body_close_all(Body *f, int n);
void body_drop_all(Body *f, int n);

#endif
