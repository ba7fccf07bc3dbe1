/* tiles.c: the constants of a plan, each expanded to a register's length, so that a kernel reads
   a constant like any other operand. Reading a tile from the L1 cache costs nothing beside the
   store of the result, and there is one kernel instead of three. */
#include "cpu/cpu.h"

/* Offset of the tile of `value`, or -1. */
int64_t tiles_offset(TileSet *t, double value, uint8_t dtype, qb_error *err)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t hash = hash_mix(hash_mix(dtype, bits), 0);
    for (uint32_t i = HASH_START, id; (id = hash_next(&t->index, hash, &i)) != UINT32_MAX;)
        if (t->bits[id] == bits && t->dtypes[id] == dtype) return id * t->stride;
    if (t->n == t->room) {
        size_t room = t->room ? 2 * (size_t)t->room : 16, old = (size_t)t->room;
        void *b = mem_grow(t->bits, old * sizeof *t->bits, room * sizeof *t->bits);
        if (b) t->bits = b;
        void *d = b ? mem_grow(t->dtypes, old, room) : NULL;
        if (d) t->dtypes = d;
        if (!d) return error_memory(err, "constants of a plan", (int64_t)room), -1;
        t->room = (int)room;
    }
    if (!hash_add(&t->index, hash, (uint32_t)t->n))
        return error_memory(err, "constants of a plan", -1), -1;
    t->bits[t->n] = bits;
    t->dtypes[t->n] = dtype;
    return t->n++ * t->stride;
}

bool tiles_fill(const TileSet *t, char **out, qb_error *err)
{
    char *memory = *out = mem_alloc((size_t)(t->n * t->stride));
    if (!memory) return error_memory(err, "constants of a plan", t->n * t->stride), false;
    for (int i = 0; i < t->n; i++) {
        double value;
        memcpy(&value, &t->bits[i], sizeof value);
        float narrow = (float)value;
        unsigned char truth = value != 0;
        const void *x = t->dtypes[i] == QB_F64   ? (const void *)&value
                        : t->dtypes[i] == QB_F32 ? (const void *)&narrow
                                                 : &truth;
        int64_t elem = type_elem(t->dtypes[i]);
        move_repeat(memory + i * t->stride, x, 1, t->stride / 8, elem);
    }
    return true;
}

void tiles_free(TileSet *t)
{
    hash_free(&t->index);
    mem_free(t->bits);
    mem_free(t->dtypes);
    *t = (TileSet){0};
}
