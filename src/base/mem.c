/* mem.c: every allocation of the library. Each block has a header of 64 bytes that remembers its
   size, so live bytes can be counted and data stays aligned to a cache line.

   The room to align comes from malloc, not from posix_memalign: that one asks for more than it
   gives, so with glibc a freed array does not fit the next one of its size, and each stands twice.

   Blocks of up to 1 KiB that are freed wait in lists of their thread: an eager result of 8 bytes
   costs 20 ns in place of 80. Under AddressSanitizer the lists are off, so that it sees every block
   come and go. */
#include "base/base.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGN = 64, CLASSES = 16, KEPT = 32, LARGE_PAGE = 2 << 20 };
#if MEM_CHECKED
#define CACHE_MAX 0
#define MEM_MAX ((size_t)1 << 39) /* AddressSanitizer ends the program above this */
#else
#define CACHE_MAX ((size_t)CLASSES * ALIGN)
#define MEM_MAX ((size_t)1 << 47) /* no address space of today is larger */
#endif

typedef union {
    struct {
        size_t size;
        void *block; /* what malloc gave */
    };
    char pad[ALIGN];
} Header;
typedef struct Free {
    struct Free *next;
} Free;
typedef struct {
    Free *list[CLASSES];
    uint8_t count[CLASSES];
    bool registered;
} Cache;

static _Thread_local Cache cache;
static pthread_key_t cache_key;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static bool cache_keyed;
static atomic_llong fail_after = -1; /* allocations that still succeed; -1: all */
static atomic_llong live;

void qb_test_fail_alloc(int64_t n) { atomic_store(&fail_after, n > 0 ? n - 1 : n < 0 ? -1 : 0); }
int64_t qb_test_live_bytes(void) { return atomic_load(&live); }

static bool must_fail(void)
{
    long long n = atomic_load_explicit(&fail_after, memory_order_relaxed);
    while (n > 0)
        if (atomic_compare_exchange_weak(&fail_after, &n, n - 1)) return false;
    return n == 0;
}

/* The end of a thread: its lists go back to the system. */
static void drain(void *v)
{
    Cache *c = v;
    c->registered = false;
    for (int i = 0; i < CLASSES; i++) {
        for (Free *f = c->list[i], *next; f; f = next) {
            next = f->next;
            free(((Header *)(void *)f - 1)->block);
        }
        c->list[i] = NULL;
        c->count[i] = 0;
    }
}

static void make_key(void) { cache_keyed = pthread_key_create(&cache_key, drain) == 0; }

/* False: this thread keeps nothing, because nobody would free it at the end. */
static bool enroll(void)
{
    if (cache.registered) return true;
    pthread_once(&cache_once, make_key);
    cache.registered = cache_keyed && pthread_setspecific(cache_key, &cache) == 0;
    return cache.registered;
}

static int class_of(size_t size) { return size ? (int)((size - 1) / ALIGN) : 0; }

static Header *take(size_t size)
{
    size_t room = size;
    if (size <= CACHE_MAX) {
        int i = class_of(size);
        Free *f = cache.list[i];
        if (f) {
            cache.list[i] = f->next;
            cache.count[i]--;
            return (Header *)(void *)f - 1;
        }
        room = (size_t)(i + 1) * ALIGN;
    }
    char *block = malloc(ALIGN - 1 + sizeof(Header) + room);
    if (!block) return NULL;
    Header *h = (Header *)(void *)(block + (ALIGN - (uintptr_t)block % ALIGN) % ALIGN);
    h->block = block;
    return h;
}

void *mem_alloc(size_t size)
{
    if (size > MEM_MAX || must_fail()) return NULL;
    Header *h = take(size);
    if (!h) return NULL;
    h->size = size;
    atomic_fetch_add_explicit(&live, (long long)size, memory_order_relaxed);
    return h + 1;
}

void mem_free(void *p)
{
    if (!p) return;
    Header *h = (Header *)p - 1;
    int i = h->size <= CACHE_MAX ? class_of(h->size) : -1;
    atomic_fetch_sub_explicit(&live, (long long)h->size, memory_order_relaxed);
    if (CACHE_MAX == 0 || i < 0 || cache.count[i] == KEPT || !enroll()) {
        free(h->block);
        return;
    }
    Free *f = p;
    f->next = cache.list[i];
    cache.list[i] = f;
    cache.count[i]++;
}

void *mem_zeroed(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    void *p = mem_alloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *mem_grow(void *p, size_t old_size, size_t new_size)
{
    void *q = mem_alloc(new_size);
    if (!q) return NULL;
    if (p) memcpy(q, p, old_size < new_size ? old_size : new_size);
    mem_free(p);
    return q;
}

/* A large page is asked for where at least half of it will be used. */
void *mem_alloc_paged(size_t size, void **block)
{
    const size_t pages = size > MEM_MAX / 2 ? 0 : (size + LARGE_PAGE / 2) / LARGE_PAGE;
    const size_t paged = pages * LARGE_PAGE;
    *block = mem_alloc(pages ? (size > paged ? size : paged) + LARGE_PAGE : size);
    if (!*block || !pages) return *block;
    char *start = (char *)*block + (LARGE_PAGE - (uintptr_t)*block % LARGE_PAGE) % LARGE_PAGE;
#ifdef MADV_HUGEPAGE
    madvise(start, paged, MADV_HUGEPAGE); /* a wish */
#endif
    return start;
}

bool mem_mul(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}
