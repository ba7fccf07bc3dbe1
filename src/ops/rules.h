/* rules.h: what the files of structural ops share. */
#ifndef RULES_H
#define RULES_H

#include "transform/transform.h"

/* ---- rules.c ---- */
bool rules_floating(Graph *g, const Node *n, const Type *x); /* else QB_EDTYPE, with the way out */
bool rules_axis(Graph *g, const Node *n, const Type *x);     /* is attr.i an axis? else QB_ESHAPE */
/* The jvp of a linear op of one operand: the op itself, applied to the tangent. */
void rules_linear_jvp(Graph *g, const Node *n, const Val *x, const Val *z, const Val *t, Val *tz);

#endif
