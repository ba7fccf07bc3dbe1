/* stablehlo_line.c: what lines of StableHLO are made of: types, names, numbers, and the shapes of lines that many ops share. */
#include "ir/stablehlo.h"
#include <math.h>

enum { HEX_SIZE = 64 /* elements of a dense float constant that are written one by one */ };

/* ---- pieces ---- */

void stablehlo_type(Text *t, const Type *type)
{
    text_add(t, "tensor<");
    for (int i = 0; i < type->rank; i++) text_add(t, "%lldx", (long long)type->dims[i]);
    text_add(t, "%s>", dtype_ir(type->dtype));
}

void stablehlo_name(Out *o, uint32_t name)
{
    if (name & STABLEHLO_INPUT)
        text_add(o->t, "%%arg%u", (unsigned)(name ^ STABLEHLO_INPUT));
    else
        text_add(o->t, "%%%u", (unsigned)name);
}

void stablehlo_list(Text *t, const int64_t *list, int n)
{
    text_add(t, "[");
    for (int i = 0; i < n; i++) text_add(t, i ? ", %lld" : "%lld", (long long)list[i]);
    text_add(t, "]");
}

/* A float literal has a point; what is not finite is its bits. */
static void number_out(Text *t, double x, int dtype)
{
    if (dtype == QB_BOOL) {
        text_add(t, x != 0 ? "true" : "false");
        return;
    }
    if (!isfinite(x) && dtype == QB_F32) {
        text_add(t, isnan(x) ? "0x7FC00000" : x > 0 ? "0x7F800000" : "0xFF800000");
        return;
    }
    if (!isfinite(x)) {
        text_add(t, isnan(x) ? "0x7FF8000000000000"
                    : x > 0  ? "0x7FF0000000000000"
                             : "0xFFF0000000000000");
        return;
    }
    Text part = {0};
    text_number(&part, x);
    if (part.failed) {
        t->failed = true;
        mem_free(part.data);
        return;
    }
    int whole = (int)strcspn(part.data, ".e");
    bool point = part.data[whole] == '.';
    text_add(t, "%.*s%s%s", whole, part.data, point ? "" : ".0", part.data + whole);
    mem_free(part.data);
}

static double element(const Type *type, const void *data, int64_t i)
{
    if (type->dtype == QB_F64) return ((const double *)data)[i];
    if (type->dtype == QB_F32) return ((const float *)data)[i];
    return ((const unsigned char *)data)[i] != 0;
}

/* "[[1.0, 2.0], [3.0, 4.0]]" from element *at on. */
static void nested_out(Text *t, const Type *type, const void *data, int axis, int64_t *at)
{
    if (axis == type->rank) {
        number_out(t, element(type, data, (*at)++), type->dtype);
        return;
    }
    text_add(t, "[");
    for (int64_t i = 0; i < type->dims[axis]; i++) {
        if (i) text_add(t, ", ");
        nested_out(t, type, data, axis + 1, at);
    }
    text_add(t, "]");
}

/* ---- lines ---- */

/* "    %3 = " of a new value; returns its name. */
uint32_t stablehlo_begin(Out *o)
{
    text_add(o->t, "%*s%%%u = ", o->indent, "", (unsigned)o->next);
    return o->next++;
}

uint32_t stablehlo_splat(Out *o, const Type *type, double value)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.constant dense<");
    number_out(o->t, value, type->dtype);
    text_add(o->t, "> : ");
    stablehlo_type(o->t, type);
    text_add(o->t, "\n");
    return z;
}

uint32_t stablehlo_dense(Out *o, const Type *type, const qb_buffer *b)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.constant dense<");
    int64_t at = 0;
    if (type->dtype == QB_BOOL || type_size(type) <= HEX_SIZE) {
        nested_out(o->t, type, b->data, 0, &at);
    } else {
        text_add(o->t, "\"0x");
        for (int64_t i = 0; i < type_bytes(type); i++)
            text_add(o->t, "%02X", ((const unsigned char *)b->data)[i]);
        text_add(o->t, "\"");
    }
    text_add(o->t, "> : ");
    stablehlo_type(o->t, type);
    text_add(o->t, "\n");
    return z;
}

/* word x, y : type, for operands and a result of one type. */
uint32_t stablehlo_same(Out *o, const char *word, const uint32_t *x, int n, const Type *type)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "%s", word);
    for (int i = 0; i < n; i++) {
        text_add(o->t, i ? ", " : " ");
        stablehlo_name(o, x[i]);
    }
    text_add(o->t, " : ");
    stablehlo_type(o->t, type);
    if (strncmp(word, "chlo.", 5) == 0) {
        text_add(o->t, " -> ");
        stablehlo_type(o->t, type);
    }
    text_add(o->t, "\n");
    return z;
}

uint32_t stablehlo_two(Out *o, const char *word, uint32_t x, uint32_t y, const Type *type)
{
    return stablehlo_same(o, word, (uint32_t[]){x, y}, 2, type);
}

/* " : (tensor<..>, tensor<..>) -> tensor<..>" and the end of the line. */
void stablehlo_signature(Out *o, const Type *const *x, int n, const Type *z)
{
    text_add(o->t, " : (");
    for (int i = 0; i < n; i++) {
        if (i) text_add(o->t, ", ");
        stablehlo_type(o->t, x[i]);
    }
    text_add(o->t, ") -> ");
    stablehlo_type(o->t, z);
    text_add(o->t, "\n");
}

uint32_t stablehlo_compare(Out *o, const char *kind, uint32_t x, uint32_t y, const Type *tx,
                           const Type *tz)
{
    uint32_t z = stablehlo_begin(o);
    text_add(o->t, "stablehlo.compare %s, ", kind);
    stablehlo_name(o, x);
    text_add(o->t, ", ");
    stablehlo_name(o, y);
    text_add(o->t, ", %s", tx->dtype == QB_BOOL ? "UNSIGNED" : "FLOAT");
    stablehlo_signature(o, (const Type *const[]){tx, tx}, 2, tz);
    return z;
}
