/* move.c: tiles between strided memory and contiguous registers: broadcasts, transposes and
   slices on the way in, parts of a larger array on the way out. A Move is the access of one load
   or store with the dims merged that its strides allow, so the inner run is as long as can be:
   one memcpy for a run of stride 1, one value repeated for stride 0, a loop otherwise. */
#include "cpu/cpu.h"

void move_make(Move *k, int rank, const int64_t *dims, const int64_t *stride, int64_t elem)
{
    *k = (Move){.elem = elem};
    for (int d = 0; d < rank; d++) {
        int64_t step = stride[d] * elem;
        if (k->rank && k->stride[k->rank - 1] == step * dims[d]) {
            k->dims[k->rank - 1] *= dims[d];
            k->stride[k->rank - 1] = step;
        } else {
            k->dims[k->rank] = dims[d];
            k->stride[k->rank++] = step;
        }
    }
    if (!k->rank) k->dims[0] = k->rank = 1;
}

typedef uint64_t __attribute__((may_alias)) Word8;
typedef uint32_t __attribute__((may_alias)) Word4;
typedef uint8_t Word1;

/* ---- runs of n elements: `step` bytes apart in memory, side by side in a register ---- */
/* clang-format off */
#define RUNS(T)                                                                                                                 \
    static void load_##T(char *o, const char *x, int64_t step, int64_t n)                                                       \
    {                                                                                                                           \
        T *out = (T *)o;                                                                                                        \
        for (int64_t i = 0; i < n; i++) out[i] = *(const T *)(x + i * step);                                                    \
    }                                                                                                                           \
    static void store_##T(char *o, const char *x, int64_t step, int64_t n)                                                      \
    {                                                                                                                           \
        const T *in = (const T *)x;                                                                                             \
        for (int64_t i = 0; i < n; i++) *(T *)(o + i * step) = in[i];                                                           \
    }                                                                                                                           \
    static void spread_##T(char *o, const char *x, int64_t step, int64_t rows, int64_t w)                                       \
    {                                                                                                                           \
        T *out = (T *)o;                                                                                                        \
        for (int64_t r = 0; r < rows; r++, x += step, out += w) {                                                               \
            T v = *(const T *)x;                                                                                                \
            for (int64_t i = 0; i < w; i++) out[i] = v;                                                                         \
        }                                                                                                                       \
    }
/* clang-format on */
RUNS(Word8)
RUNS(Word4)
RUNS(Word1)
#undef RUNS

typedef void Run(char *o, const char *x, int64_t step, int64_t n);
typedef void Spread(char *o, const char *x, int64_t step, int64_t rows,
                    int64_t w); /* rows of w times one value */
static Run *loader(int64_t elem)
{
    return elem == 8 ? load_Word8 : elem == 4 ? load_Word4 : load_Word1;
}
static Run *storer(int64_t elem)
{
    return elem == 8 ? store_Word8 : elem == 4 ? store_Word4 : store_Word1;
}
static Spread *spreader(int64_t elem)
{
    return elem == 8 ? spread_Word8 : elem == 4 ? spread_Word4 : spread_Word1;
}

/* ---- the position ---- */
typedef struct {
    int64_t at[QB_MAX_RANK]; /* index in each dim */
    int64_t offset;          /* bytes from element 0 */
} Position;

static void seek(Position *p, const Move *k, int64_t e)
{
    p->offset = 0;
    for (int d = k->rank - 1; d >= 0; d--) {
        p->at[d] = e ? e % k->dims[d] : 0;
        if (e) e /= k->dims[d];
        p->offset += p->at[d] * k->stride[d];
    }
}

/* Past a run of n elements of the last dim. */
static void advance(Position *p, const Move *k, int64_t n)
{
    int d = k->rank - 1;
    p->at[d] += n;
    p->offset += n * k->stride[d];
    for (; d > 0 && p->at[d] == k->dims[d]; d--) {
        p->offset += k->stride[d - 1] - k->dims[d] * k->stride[d];
        p->at[d] = 0;
        p->at[d - 1]++;
    }
}

/* One value per run, repeated: whole runs of a column go together, since a call for each took as
   long as its stores. */
static void load_repeated(const Move *k, char *o, const char *x, int64_t e, int64_t n)
{
    int last = k->rank - 1;
    int64_t w = k->dims[last];
    Spread *spread = spreader(k->elem);
    Position p;
    seek(&p, k, e);
    while (n > 0) {
        int64_t rows = 1, m = w - p.at[last];
        if (m > n) m = n;
        if (m == w && last > 0) {
            rows = k->dims[last - 1] - p.at[last - 1];
            if (rows > n / w) rows = n / w;
        }
        spread(o, x + p.offset, last > 0 ? k->stride[last - 1] : 0, rows, m);
        o += rows * m * k->elem;
        n -= rows * m;
        if (rows > 1) { /* all but the last run, which may be the end of the column */
            p.at[last - 1] += rows - 1;
            p.offset += (rows - 1) * k->stride[last - 1];
        }
        advance(&p, k, m);
    }
}

void move_load(const Move *k, void *reg, const void *memory, int64_t e, int64_t n)
{
    char *o = reg;
    const char *x = memory;
    int64_t last = k->dims[k->rank - 1], step = k->stride[k->rank - 1];
    if (step == 0) {
        load_repeated(k, o, x, e, n);
        return;
    }
    Run *run = loader(k->elem);
    Position p;
    seek(&p, k, e);
    while (n > 0) {
        int64_t m = last - p.at[k->rank - 1];
        if (m > n) m = n;
        if (step == k->elem)
            memcpy(o, x + p.offset, (size_t)(m * k->elem));
        else
            run(o, x + p.offset, step, m);
        advance(&p, k, m);
        o += m * k->elem;
        n -= m;
    }
}

void move_store(const Move *k, void *memory, const void *reg, int64_t e, int64_t n)
{
    char *o = memory;
    const char *x = reg;
    int64_t last = k->dims[k->rank - 1], step = k->stride[k->rank - 1];
    Run *run = storer(k->elem);
    Position p;
    seek(&p, k, e);
    while (n > 0) {
        int64_t m = last - p.at[k->rank - 1];
        if (m > n) m = n;
        if (step == k->elem)
            memcpy(o + p.offset, x, (size_t)(m * k->elem));
        else
            run(o + p.offset, x, step, m);
        advance(&p, k, m);
        x += m * k->elem;
        n -= m;
    }
}

/* total elements of o: the period elements of x, again and again. x may be any memory; o is
   written once. */
void move_repeat(void *o, const void *x, int64_t period, int64_t total, int64_t elem)
{
    char *out = o;
    if (period == 1) {
        spreader(elem)(out, x, 0, 1, total);
        return;
    }
    int64_t have = period < total ? period : total;
    memcpy(out, x, (size_t)(have * elem));
    for (; have < total; have *= 2)
        memcpy(out + have * elem, out,
               (size_t)((have < total - have ? have : total - have) * elem));
}
