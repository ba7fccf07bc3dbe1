/* arena.c: memory that lives as long as its owner. A chain of blocks, each as large as all before
   it together (up to a limit), so that small graphs are small and large ones need few blocks. Under
   AddressSanitizer every piece has a block of its own. */
#include "base/base.h"

enum { ALIGN = 16, FIRST = 2048, LARGEST = 1 << 20 };

struct ArenaBlock {
    ArenaBlock *below;
    size_t size; /* bytes of data */
};
_Static_assert(sizeof(ArenaBlock) <= ALIGN, "data follows the header at its alignment");

static char *data_of(ArenaBlock *b) { return (char *)b + ALIGN; }

void *arena_alloc(Arena *a, size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    size_t need = size ? (size + ALIGN - 1) / ALIGN * ALIGN : ALIGN,
           left = a->top ? a->top->size - a->used : 0;
    if (need <= left) {
        a->used += need;
        return data_of(a->top) + a->used - need;
    }
    size_t next = a->total < FIRST ? FIRST : a->total < LARGEST ? a->total : LARGEST;
    size_t room = MEM_CHECKED || need > next ? need : next;
    ArenaBlock *b = mem_alloc(ALIGN + (MEM_CHECKED ? size : room));
    if (!b) return NULL;
    b->size = room;
    a->total += room;
    if (room - need < left) { /* a large piece goes below the block that has more room left */
        b->below = a->top->below;
        a->top->below = b;
    } else {
        b->below = a->top;
        a->top = b;
        a->used = need;
    }
    return data_of(b);
}

void *arena_zeroed(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    void *p = arena_alloc(a, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *arena_copy(Arena *a, const void *p, size_t size)
{
    void *q = arena_alloc(a, size);
    if (q && size) memcpy(q, p, size);
    return q;
}

char *arena_text(Arena *a, const char *s) { return arena_copy(a, s, strlen(s) + 1); }

void arena_free(Arena *a)
{
    for (ArenaBlock *b = a->top, *below; b; b = below) {
        below = b->below;
        mem_free(b);
    }
    *a = (Arena){0};
}
