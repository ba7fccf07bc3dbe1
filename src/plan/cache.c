/* cache.c: eager ops. An op on host data is a program of one op, compiled once per op,
   attributes and operand types, and kept.

   Two levels. Each thread has a small table of its own, which it reads without a lock or an
   atomic: a hit costs the hash of a few words and one comparison. Behind it is one table for all
   threads, under a lock, of bounded size. Entries are immutable and counted, so one that is
   evicted lives on in the tables of threads that use it. */
#include "plan/plan.h"
#include <pthread.h>

enum {
    FRONT = 128,    /* entries of a thread */
    SETS = 1024,    /* of the table for all: an entry is in the set of its hash */
    WAYS = 4,       /* entries of a set; the oldest of a full one goes */
    KEY_WORDS = 48, /* a key this long needs no memory */
    LONG_KEY = 4096 /* words: ops with more indices are compiled for each call, not kept */
};

typedef struct {
    uint64_t hash;
    int n;
    uint64_t few[KEY_WORDS], *words;
} Key;

typedef struct {
    atomic_long refs;
    uint64_t hash;
    qb_plan *plan;
    int64_t bytes; /* of the result */
    int n;
    uint64_t words[];
} Entry;

typedef struct {
    Entry *at[FRONT];
    long epoch;
} Front;

static struct {
    pthread_mutex_t lock;
    Entry *at[SETS][WAYS];
    uint8_t oldest[SETS];
    pthread_once_t once;
    pthread_key_t key; /* drops the front of a thread that ends */
    bool has_key;
    atomic_long epoch; /* counts cache_clear; fronts of older epochs are stale */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
static _Thread_local Front *front;

/* ---- keys ---- */

/* A buffer among the attributes (the indices of a gather) is part of the key, all of it. */
static int64_t buffer_words(const Attr *a)
{
    return a && a->buffer ? (a->buffer->bytes + 7) / 8 : 0;
}

static bool key_room(Key *k, int n, const Type *const *types, const Attr *attr, qb_error *err)
{
    int64_t words = 10 + (attr ? QB_MAX_RANK + 1 : 0) + buffer_words(attr);
    for (int i = 0; i < n; i++) words += 1 + types[i]->rank;
    k->words = words <= KEY_WORDS ? k->few : mem_zeroed((size_t)words, sizeof *k->words);
    if (!k->words) return error_memory(err, "an operation", -1), false;
    return true;
}

static void key_attr(Key *k, const Attr *a)
{
    uint64_t f;
    memcpy(&f, &a->f, sizeof f);
    uint64_t words[] = {(uint64_t)a->i,
                        (uint64_t)a->start,
                        (uint64_t)a->length,
                        (uint64_t)a->step,
                        (uint64_t)a->n,
                        a->keepdims,
                        f};
    memcpy(&k->words[k->n], words, sizeof words);
    k->n += (int)(sizeof words / sizeof *words);
    for (int i = 0; i < a->n && i < QB_MAX_RANK; i++) k->words[k->n++] = (uint64_t)a->list[i];
    int64_t more = buffer_words(a);
    if (more) {
        k->words[k->n + more - 1] = 0;
        memcpy(&k->words[k->n], a->buffer->data, (size_t)a->buffer->bytes);
        k->n += (int)more;
    }
    k->words[k->n++] = (uint64_t)more;
}

/* Everything that the compiled op depends on. */
static void key_write(Key *k, const Target *t, int op, const Attr *attr, int n,
                      const Type *const *types)
{
    k->n = 0;
    k->words[k->n++] = (uint64_t)(uintptr_t)t;
    k->words[k->n++] = (uint64_t)op | (uint64_t)n << 16 | (uint64_t)(attr != NULL) << 8;
    for (int i = 0; i < n; i++) {
        const Type *x = types[i];
        k->words[k->n++] = x->dtype | (uint64_t)x->weak << 8 | (uint64_t)x->rank << 16;
        for (int d = 0; d < x->rank; d++) k->words[k->n++] = (uint64_t)x->dims[d];
    }
    if (attr) key_attr(k, attr);
    k->hash = (uint64_t)k->n;
    for (int i = 0; i < k->n; i++) k->hash = hash_mix(k->hash, k->words[i]);
}

static void key_drop(Key *k)
{
    if (k->words != k->few) mem_free(k->words);
}

/* ---- entries ---- */

static bool matches(const Entry *e, const Key *k)
{
    return e && e->hash == k->hash && e->n == k->n &&
           memcmp(e->words, k->words, (size_t)k->n * sizeof *k->words) == 0;
}

static Entry *retain(Entry *e)
{
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

static void release(Entry *e)
{
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
    plan_release(e->plan);
    mem_free(e);
}

/* ---- compiling an op ---- */

static Graph *graph_of(int op, const Attr *attr, int n, const Type *const *types, qb_error *err)
{
    Graph *g = graph_new(err);
    if (!g) return NULL;
    enum { FEW = 4 };
    Val few[FEW], *x = n <= FEW ? few : mem_zeroed((size_t)n, sizeof *x);
    if (!x) fail(g, QB_EMEMORY, "out of memory for an operation on %d arrays", n);
    for (int i = 0; x && i < n; i++) x[i] = graph_input(g, NULL, types[i]);
    if (x && !graph_failed(g)) graph_output(g, apply_op(g, op, x, n, attr));
    if (x != few) mem_free(x);
    if (graph_freeze(g, err)) return g;
    graph_release(g);
    return NULL;
}

static Entry *compile(const Key *k, const Target *t, int op, const Attr *attr, int n,
                      const Type *const *types, qb_error *err)
{
    size_t bytes = sizeof(Entry) + (size_t)k->n * sizeof *k->words;
    Graph *g = graph_of(op, attr, n, types, err);
    qb_plan *p = g ? plan_compile(g, t, NULL, err) : NULL;
    graph_release(g);
    if (!p) return NULL;
    Entry *e = mem_zeroed(1, bytes);
    if (!e) {
        plan_release(p);
        return error_memory(err, "an operation", (int64_t)bytes), NULL;
    }
    e->refs = 1;
    e->hash = k->hash;
    e->plan = p;
    e->bytes = type_bytes(&p->out_types[0]);
    e->n = k->n;
    if (k->n)
        memcpy(e->words, k->words, (size_t)k->n * sizeof *k->words); /* none when nobody keeps it */
    return e;
}

/* ---- the table for all ---- */

static Entry *table_find(const Key *k)
{
    Entry **set = cache.at[k->hash / FRONT % SETS], *found = NULL;
    pthread_mutex_lock(&cache.lock);
    for (int i = 0; i < WAYS && !found; i++)
        if (matches(set[i], k)) found = retain(set[i]);
    pthread_mutex_unlock(&cache.lock);
    return found;
}

static void table_add(const Key *k, Entry *e)
{
    uint64_t set = k->hash / FRONT % SETS;
    pthread_mutex_lock(&cache.lock);
    Entry **place = &cache.at[set][cache.oldest[set]++ % WAYS], *old = *place;
    *place = retain(e);
    pthread_mutex_unlock(&cache.lock);
    release(old);
}

/* ---- the table of a thread ---- */

static void front_empty(Front *f)
{
    for (int i = 0; i < FRONT; i++) {
        release(f->at[i]);
        f->at[i] = NULL;
    }
}

static void front_drop(void *f)
{
    front_empty(f);
    mem_free(f);
}

static void make_key(void) { cache.has_key = pthread_key_create(&cache.key, front_drop) == 0; }

/* This thread's table, empty after a cache_clear; NULL where there is no memory for it. */
static Front *front_now(void)
{
    long epoch = atomic_load_explicit(&cache.epoch, memory_order_acquire);
    if (front && front->epoch == epoch) return front;
    if (!front) {
        pthread_once(&cache.once, make_key);
        Front *f = cache.has_key ? mem_zeroed(1, sizeof *f) : NULL;
        if (!f || pthread_setspecific(cache.key, f) != 0) return mem_free(f), NULL;
        front = f;
    }
    front_empty(front);
    front->epoch = epoch;
    return front;
}

static Entry *fetch(const Key *k, const Target *t, int op, const Attr *attr, int n,
                    const Type *const *types, qb_error *err)
{
    Entry *e = table_find(k);
    if (e) return e;
    e = compile(k, t, op, attr, n, types, err);
    if (e) table_add(k, e);
    return e;
}

static bool run(const Entry *e, const void *const *data, qb_buffer **out, Type *out_type,
                qb_error *err)
{
    qb_buffer *b = qb_buffer_new(e->bytes, err);
    if (!b) return false;
    void *to = b->data;
    if (!e->plan->target->run(e->plan, data, &to, err)) return qb_buffer_release(b), false;
    *out = b;
    *out_type = e->plan->out_types[0];
    return true;
}

/* Without the tables. */
static bool run_once(const Target *t, int op, const Attr *attr, int n, const Type *const *types,
                     const void *const *data, qb_buffer **out, Type *out_type, qb_error *err)
{
    Entry *e = compile(&(Key){0}, t, op, attr, n, types, err);
    bool ok = e && run(e, data, out, out_type, err);
    release(e);
    return ok;
}

bool cache_eager(const Target *t, int op, const Attr *attr, int n, const Type *const *types,
                 const void *const *data, qb_buffer **out, Type *out_type, qb_error *err)
{
    Key k;
    if (op < 0 || op >= APPLY_COUNT)
        return error_set(err, QB_EVALUE, "there is no operation %d", op), false;
    if (op_table[op].cls < CLASS_STRUCT) attr = NULL; /* a row needs none */
    if (buffer_words(attr) > LONG_KEY)
        return run_once(t, op, attr, n, types, data, out, out_type, err);
    if (!key_room(&k, n, types, attr, err)) return false;
    key_write(&k, t, op, attr, n, types);
    Front *f = front_now();
    Entry **place = f ? &f->at[k.hash % FRONT] : NULL;
    if (place && matches(*place, &k)) {
        key_drop(&k);
        return run(*place, data, out, out_type, err);
    }
    Entry *e = fetch(&k, t, op, attr, n, types, err);
    key_drop(&k);
    if (!e) return false;
    bool ok = run(e, data, out, out_type, err);
    if (place) {
        release(*place);
        *place = e;
    } else {
        release(e);
    }
    return ok;
}

void cache_clear(void)
{
    Entry *old[WAYS];
    atomic_fetch_add_explicit(&cache.epoch, 1, memory_order_acq_rel);
    for (int s = 0; s < SETS; s++) {
        pthread_mutex_lock(&cache.lock);
        memcpy(old, cache.at[s], sizeof old);
        memset(cache.at[s], 0, sizeof old);
        pthread_mutex_unlock(&cache.lock);
        for (int i = 0; i < WAYS; i++) release(old[i]);
    }
    if (!front) return;
    pthread_setspecific(cache.key, NULL);
    front_drop(front);
    front = NULL;
}
