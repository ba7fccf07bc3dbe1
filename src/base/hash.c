/* hash.c: a 64-bit hash of bytes, and an index that finds ids by hash. Open addressing with linear
   probing, at most half full; the caller keeps the things and compares them. */
#include "base/base.h"

uint64_t hash_bytes(uint64_t seed, const void *p, size_t n)
{
    const unsigned char *s = p;
    uint64_t h = hash_mix(seed ^ 0x2545f4914f6cdd1du, n), x;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&x, s, 8);
        h = hash_mix(h, x);
    }
    if (n) {
        x = 0;
        memcpy(&x, s, n);
        h = hash_mix(h, x);
    }
    return hash_mix(h, h >> 29);
}

static uint32_t short_of(uint64_t hash) { return (uint32_t)(hash ^ hash >> 32); }

uint32_t hash_next(const HashIndex *h, uint64_t hash, uint32_t *i)
{
    if (h->size == 0) return UINT32_MAX;
    uint32_t key = short_of(hash), mask = h->size - 1;
    uint32_t at = *i == HASH_START ? key & mask : (*i + 1) & mask;
    while (h->slot[at] && h->hash[at] != key) at = (at + 1) & mask;
    *i = at;
    return h->slot[at] ? h->slot[at] - 1 : UINT32_MAX;
}

static void put(HashIndex *h, uint32_t key, uint32_t slot)
{
    uint32_t mask = h->size - 1, at = key & mask;
    while (h->slot[at]) at = (at + 1) & mask;
    h->slot[at] = slot;
    h->hash[at] = key;
    h->used++;
}

static bool grow(HashIndex *h)
{
    if (h->size > UINT32_MAX / 4) return false;
    HashIndex n = {.size = h->size ? 2 * h->size : 16};
    n.slot = mem_zeroed(n.size, 2 * sizeof *n.slot); /* the hashes follow the slots */
    if (!n.slot) return false;
    n.hash = n.slot + n.size;
    for (uint32_t i = 0; i < h->size; i++)
        if (h->slot[i]) put(&n, h->hash[i], h->slot[i]);
    hash_free(h);
    *h = n;
    return true;
}

bool hash_add(HashIndex *h, uint64_t hash, uint32_t id)
{
    if (h->used >= h->size / 2 && !grow(h)) return false;
    put(h, short_of(hash), id + 1);
    return true;
}

void hash_free(HashIndex *h)
{
    mem_free(h->slot);
    *h = (HashIndex){0};
}
