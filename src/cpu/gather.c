/* gather.c: rows read at, or added at, constant indices along one axis. An array is seen as `outer` blocks of n rows of `inner`
   elements, so each index moves one run of memory. */
#include "cpu/cpu.h"

enum { PIECE_BYTES = 1 << 17 }; /* of a task */

/* ---- gather: row k of the result is row at[k] ---- */
typedef struct {
    const char *x;
    char *z;
    const int64_t *at;
    int64_t from, to, row; /* rows of a block of x and of z; bytes of a row */
    int64_t rows, piece;   /* rows of the result; rows a task */
} Take;

typedef uint64_t __attribute__((may_alias)) Word8;
typedef uint32_t __attribute__((may_alias)) Word4;

static void take(const Take *t, int64_t r0, int64_t r1)
{
    int64_t block = r0 / t->to, k = r0 % t->to;
    for (int64_t r = r0; r < r1; block++, k = 0) {
        const char *x = t->x + block * t->from * t->row;
        char *z = t->z + block * t->to * t->row;
        int64_t end = t->to - k < r1 - r ? t->to : k + (r1 - r);
        r += end - k;
        if (t->row == 8)
            for (; k < end; k++) ((Word8 *)z)[k] = ((const Word8 *)x)[t->at[k]];
        else if (t->row == 4)
            for (; k < end; k++) ((Word4 *)z)[k] = ((const Word4 *)x)[t->at[k]];
        else
            for (; k < end; k++) memcpy(z + k * t->row, x + t->at[k] * t->row, (size_t)t->row);
    }
}

static void take_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const Take *t = arg;
    int64_t r0 = task * t->piece, r1 = r0 + t->piece;
    take(t, r0, r1 < t->rows ? r1 : t->rows);
}

bool gather_run(const CallCode *o, char *const *base, char *scratch, qb_error *err)
{
    (void)scratch, (void)err;
    const Call *c = o->call;
    CallRows x = call_rows(&c->x[0].type, c->attr->i), z = call_rows(&c->z[0].type, c->attr->i);
    Take t = {.x = call_operand(o, base, 0),
              .z = call_result(o, base, 0),
              .at = c->attr->buffer->data,
              .from = x.n,
              .to = z.n,
              .row = z.inner * type_elem(c->z[0].type.dtype),
              .rows = z.outer * z.n};
    t.piece = PIECE_BYTES / t.row + 1;
    int64_t tasks = (t.rows + t.piece - 1) / t.piece;
    if (tasks < 3)
        take(&t, 0, t.rows);
    else
        pool_run(take_task, &t, tasks);
    return true;
}

/* ---- scatter_add: row k of the updates is added to row at[k], in order of k ---- */
#define ADD_ROWS(T)                                                                    \
    static void add_##T(T *z, const T *u, const int64_t *at, CallRows zr, CallRows ur) \
    {                                                                                  \
        for (int64_t o = 0; o < ur.outer; o++, z += zr.n * zr.inner)                   \
            for (int64_t k = 0; k < ur.n; k++, u += ur.inner) {                        \
                T *to = z + at[k] * zr.inner;                                          \
                for (int64_t i = 0; i < ur.inner; i++) to[i] += u[i];                  \
            }                                                                          \
    }
ADD_ROWS(double)
ADD_ROWS(float)
#undef ADD_ROWS

bool gather_add(const CallCode *o, char *const *base, char *scratch, qb_error *err)
{
    (void)scratch, (void)err;
    const Call *c = o->call;
    const Type *t = &c->z[0].type;
    CallRows z = call_rows(t, c->attr->i), u = call_rows(&c->x[1].type, c->attr->i);
    void *out = call_result(o, base, 0);
    const void *updates = call_operand(o, base, 1);
    memcpy(out, call_operand(o, base, 0), (size_t)type_bytes(t));
    if (t->dtype == QB_F64)
        add_double(out, updates, c->attr->buffer->data, z, u);
    else
        add_float(out, updates, c->attr->buffer->data, z, u);
    return true;
}
