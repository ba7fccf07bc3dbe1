/* base.h: what every layer stands on. No layer below it but the public header's plain structs. */
#ifndef BASE_H
#define BASE_H

#include "quabla.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

/* ---- mem.c: every allocation of the library goes through here, so that tests can make one fail ---- */
/* 1 under AddressSanitizer: then no block is kept for later and every arena piece is a block, so that it sees each of them. */
#if defined(__SANITIZE_ADDRESS__)
#define MEM_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEM_CHECKED 1
#endif
#endif
#ifndef MEM_CHECKED
#define MEM_CHECKED 0
#endif
void *mem_alloc(size_t size);                  /* 64-byte aligned; NULL when it cannot; size 0 gives a valid pointer */
void *mem_zeroed(size_t n, size_t size);       /* n * size checked */
void *mem_grow(void *p, size_t old_size, size_t new_size); /* copies, frees p; on failure NULL and p stays valid */
void mem_free(void *p);                        /* NULL is fine */
/* Where size bytes begin that are used again and again, on large pages as far as the system has them; mem_free the block. */
void *mem_alloc_paged(size_t size, void **block);
bool mem_mul(int64_t a, int64_t b, int64_t *out); /* the one place where n * size is checked; false on overflow or a negative */
static inline int64_t mem_lines(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; } /* rounded up to cache lines */

/* ---- error.c: one idiom ---- */
void error_clear(qb_error *err);
void error_set(qb_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void error_setv(qb_error *err, int code, const char *format, va_list args);
void error_memory(qb_error *err, const char *what, int64_t bytes); /* QB_EMEMORY; bytes < 0: unknown or overflow */

/* ---- arena.c: memory that lives as long as its owner; nothing in it is freed alone ---- */
typedef struct ArenaBlock ArenaBlock;
typedef struct { ArenaBlock *top; size_t used, total; } Arena;
void *arena_alloc(Arena *a, size_t size);              /* 16-byte aligned; NULL when out of memory */
void *arena_zeroed(Arena *a, size_t n, size_t size);
void *arena_copy(Arena *a, const void *p, size_t size);
char *arena_text(Arena *a, const char *s);
void arena_free(Arena *a);                             /* all of it; the arena is empty and usable again */

/* ---- text.c: a growing string, for print.c and messages ---- */
typedef struct { char *data; size_t used, size; bool failed; } Text;
void text_add(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_number(Text *t, double x);                   /* shortest decimal that reads back as x: "0.1", "1e+300", "inf", "nan", "-0" */
char *text_take(Text *t, qb_error *err);               /* the string (mem_free it), or NULL and QB_EMEMORY */

/* ---- hash.c: 64-bit hash of bytes, and an open-addressing index of ids ---- */
uint64_t hash_bytes(uint64_t seed, const void *p, size_t n);
static inline uint64_t hash_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}
typedef struct { uint32_t *slot; uint32_t *hash; uint32_t size, used; } HashIndex; /* slot: id + 1, 0 when empty */
/* Candidates with this hash, one after the other: i = HASH_START; returns an id, or UINT32_MAX at the end. */
#define HASH_START UINT32_MAX
uint32_t hash_next(const HashIndex *h, uint64_t hash, uint32_t *i);
bool hash_add(HashIndex *h, uint64_t hash, uint32_t id); /* false: out of memory */
void hash_free(HashIndex *h);

/* ---- buffer.c ---- */
struct qb_buffer {
    atomic_long refs;
    int64_t bytes;
    void *data;
    void (*release)(void *); /* NULL: data follows this header in one allocation */
    void *owner;
};

/* ---- pulse.c: is the run to stop? ---- */
typedef struct { uint32_t left, step; int64_t last; } Pulse; /* of one run; starts as {1} */
void pulse_set(qb_interrupt_fn *fn, void *arg);
bool pulse_slow(Pulse *p);
static inline bool pulse(Pulse *p) { return --p->left || pulse_slow(p); } /* once in an iteration; false: stop */

/* ---- pool.c: one job at a time, its tiles claimed one by one ---- */
/* The caller works too and never waits for a tile that nobody claimed. Helpers take the caller's floating-point control word, so
   rounding and denormal modes are part of no thread. Nested calls, calls while another thread's job runs, and pools of one thread run
   the tiles here, in order. thread is < pool_threads(), 0 is the caller. */
typedef void PoolFn(void *arg, int64_t tile, int thread);
void pool_run(PoolFn *fn, void *arg, int64_t tiles);
void pool_run_on(PoolFn *fn, void *arg, int64_t tiles, int threads); /* thread < threads, whatever pool_resize does meanwhile */
void pool_wait(bool (*blocked)(void *), void *arg, int thread); /* in a tile, until another tile of the job lets it go on */
int pool_threads(void);                 /* starts the pool at first use; QUABLA_NUM_THREADS or the CPUs of this process */
bool pool_resize(int64_t n, qb_error *err); /* 0: the default */

#endif
