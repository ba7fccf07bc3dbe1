/* buffer.c: reference-counted memory, immutable once shared. The data of a new buffer follows its
   header in one allocation. */
#include "base/base.h"

enum { HEADER = 64 }; /* keeps the data aligned as mem_alloc aligns */
_Static_assert(sizeof(qb_buffer) <= HEADER, "the header of a buffer");

qb_buffer *qb_buffer_new(int64_t bytes, qb_error *err)
{
    qb_buffer *b =
        bytes < 0 || bytes > INT64_MAX - HEADER ? NULL : mem_alloc(HEADER + (size_t)bytes);
    if (!b) return error_memory(err, "an array", bytes), NULL;
    *b = (qb_buffer){.refs = 1, .bytes = bytes, .data = (char *)b + HEADER};
    return b;
}

qb_buffer *qb_buffer_wrap(void *data, int64_t bytes, void (*release)(void *), void *owner,
                          qb_error *err)
{
    qb_buffer *b = mem_alloc(sizeof *b);
    if (!b) return error_memory(err, "the header of an array", (int64_t)sizeof *b), NULL;
    *b = (qb_buffer){.refs = 1, .bytes = bytes, .data = data, .release = release, .owner = owner};
    return b;
}

qb_buffer *qb_buffer_retain(qb_buffer *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void qb_buffer_release(qb_buffer *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) > 1) return;
    if (b->release) b->release(b->owner);
    mem_free(b);
}

void *qb_buffer_data(qb_buffer *b) { return b->data; }
int64_t qb_buffer_bytes(const qb_buffer *b) { return b->bytes; }
