/* type.c: what a type says about memory and how it reads in a message. Sizes are checked for overflow here. */
#include "ir/ir.h"
#include <stdio.h>

static const struct {
    const char *name, *ir, *python;
    uint8_t size;
    bool floating;
} dtypes[] = {
#define DTYPE(name, ctype, ir, python, py, floating) {#name, #ir, #python, sizeof(ctype), floating},
#include "dtypes.h"
};
_Static_assert(sizeof dtypes / sizeof *dtypes == QB_DTYPE_COUNT, "dtypes.h and qb_dtype differ");

const char *dtype_name(int dtype)
{
    return dtype >= 0 && dtype < QB_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

const char *dtype_ir(int dtype)
{
    return dtype >= 0 && dtype < QB_DTYPE_COUNT ? dtypes[dtype].ir : "?";
}

/* The dtype's number from its name in IR text ("f64", "i1"); -1 when there is none. */
int dtype_find(const char *ir, size_t length)
{
    for (int i = 0; i < QB_DTYPE_COUNT; i++)
        if (strlen(dtypes[i].ir) == length && memcmp(dtypes[i].ir, ir, length) == 0) return i;
    return -1;
}

/* A rank outside 0..16 is kept in the type for the caller's check (type_problem), with no dims. */
Type type_make(int dtype, int rank, const int64_t *dims)
{
    Type t = {0};
    t.dtype = (uint8_t)(dtype >= 0 && dtype < QB_DTYPE_COUNT ? dtype : 255);
    t.rank = (uint8_t)(rank >= 0 && rank <= QB_MAX_RANK ? rank : 255);
    for (int i = 0; i < rank && rank <= QB_MAX_RANK; i++) t.dims[i] = dims[i];
    return t;
}

bool type_same_shape(const Type *a, const Type *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

bool type_same(const Type *a, const Type *b)
{
    return a->dtype == b->dtype && type_same_shape(a, b);
}

bool type_exact(const Type *a, const Type *b) { return a->weak == b->weak && type_same(a, b); }

int64_t type_size(const Type *t)
{
    int64_t size = 1;
    for (int i = 0; i < t->rank; i++)
        if (!mem_mul(size, t->dims[i], &size)) return -1;
    return size;
}

int64_t type_elem(int dtype)
{
    return dtype >= 0 && dtype < QB_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

int64_t type_bytes(const Type *t)
{
    int64_t bytes = type_size(t);
    return bytes >= 0 && mem_mul(bytes, type_elem(t->dtype), &bytes) ? bytes : -1;
}

bool type_floating(const Type *t) { return t->dtype < QB_DTYPE_COUNT && dtypes[t->dtype].floating; }

/* What makes t no type of a value: an error code and its text, or QB_OK. Every result of an emit passes here. */
int type_problem(const Type *t, const char **what)
{
    if (t->dtype >= QB_DTYPE_COUNT) return *what = "no such dtype", QB_EDTYPE;
    if (t->rank > QB_MAX_RANK) return *what = "more than 16 axes", QB_ESHAPE;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] < 0) return *what = "a negative length", QB_ESHAPE;
        if (t->dims[i] == 0)
            return *what = "an axis of length 0; arrays have at least one element", QB_ESHAPE;
    }
    if (type_bytes(t) < 0) return *what = "more bytes than memory can address", QB_EMEMORY;
    return QB_OK;
}

/* Cut short with "..." where the buffer is too small. */
const char *type_text(const Type *t, char *buf, size_t size)
{
    if (!size) return buf;
    size_t used = (size_t)snprintf(buf, size, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank && t->rank <= QB_MAX_RANK && used < size; i++)
        used +=
            (size_t)snprintf(buf + used, size - used, i ? ",%lld" : "%lld", (long long)t->dims[i]);
    if (used < size) used += (size_t)snprintf(buf + used, size - used, "]");
    if (used >= size && size > 4) memcpy(buf + size - 4, "...", 4);
    return buf;
}
