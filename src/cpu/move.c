/* move.c: tiles between strided memory and contiguous registers: broadcasts, transposes and
   slices on the way in, parts of a larger array on the way out. A Move is the access of one load
   or store with the dims merged that its strides allow, so the inner run is as long as can be:
   one memcpy for a run of stride 1, one value repeated for stride 0, a loop otherwise. */
#include "cpu/cpu.h"

enum { SHORT = 16 }; /* elements: a longer run is worth a memcpy */

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

/* ---- blocks: `rows` runs of w elements, in memory `outer` and `inner` bytes apart, side by side in a register ---- */
/* A call for each run would take as long as a run of a few elements. The kinds of runs are loops of their own, and so are runs of two
   to four elements (points in space), where a loop with a counter takes twice as long. */
typedef enum {
    SPREAD, /* one value repeated */
    COPY,   /* consecutive elements */
    LOAD,   /* any others */
    KINDS
} Kind;
#define ALWAYS static inline __attribute__((always_inline))
/* clang-format off */
#define BLOCKS(T)                                                                                                               \
    typedef T Wide##T __attribute__((vector_size(32), aligned(1), may_alias));                                                  \
    ALWAYS void run_##T(Kind kind, T *out, const char *x, int64_t inner, int64_t w)                                             \
    {                                                                                                                           \
        const T *in = (const T *)x, v = *in;                                                                                    \
        const int64_t step = (int64_t)(sizeof(Wide##T) / sizeof(T));                                                            \
        int64_t i = 0;                                                                                                          \
        if (kind == COPY && w > SHORT)                                                                                          \
            memcpy(out, in, (size_t)w * sizeof(T));                                                                             \
        else {                                                                                                                  \
            for (; kind == SPREAD && i + step <= w; i += step) *(Wide##T *)(out + i) = v - (Wide##T){0};                        \
            for (; i < w; i++) out[i] = kind == SPREAD ? v : kind == COPY ? in[i] : *(const T *)(x + i * inner);          \
        }                                                                                                                       \
    }                                                                                                                           \
    ALWAYS void rows_##T(Kind kind, char *o, const char *x, int64_t outer, int64_t inner, int64_t rows, int64_t w)              \
    {                                                                                                                           \
        T *out = (T *)o;                                                                                                        \
        for (int64_t r = 0; r < rows; r++, x += outer, out += w) run_##T(kind, out, x, inner, w);                               \
    }                                                                                                                           \
    ALWAYS void block_##T(Kind kind, char *o, const char *x, int64_t outer, int64_t inner, int64_t rows, int64_t w)             \
    {                                                                                                                           \
        switch (w) {                                                                                                            \
        case 2: rows_##T(kind, o, x, outer, inner, rows, 2); break;                                                             \
        case 3: rows_##T(kind, o, x, outer, inner, rows, 3); break;                                                             \
        case 4: rows_##T(kind, o, x, outer, inner, rows, 4); break;                                                             \
        default: rows_##T(kind, o, x, outer, inner, rows, w);                                                                   \
        }                                                                                                                       \
    }                                                                                                                           \
    static void spread_##T(char *o, const char *x, int64_t outer, int64_t inner, int64_t rows, int64_t w)                       \
    {                                                                                                                           \
        block_##T(SPREAD, o, x, outer, inner, rows, w);                                                                         \
    }                                                                                                                           \
    static void copy_##T(char *o, const char *x, int64_t outer, int64_t inner, int64_t rows, int64_t w)                         \
    {                                                                                                                           \
        block_##T(COPY, o, x, outer, inner, rows, w);                                                                           \
    }                                                                                                                           \
    static void load_##T(char *o, const char *x, int64_t outer, int64_t inner, int64_t rows, int64_t w)                         \
    {                                                                                                                           \
        block_##T(LOAD, o, x, outer, inner, rows, w);                                                                           \
    }                                                                                                                           \
    static void store_##T(char *o, const char *x, int64_t step, int64_t n)                                                      \
    {                                                                                                                           \
        const T *in = (const T *)x;                                                                                             \
        for (int64_t i = 0; i < n; i++) *(T *)(o + i * step) = in[i];                                                           \
    }
/* clang-format on */
BLOCKS(Word8)
BLOCKS(Word4)
BLOCKS(Word1)
#undef BLOCKS

typedef void Block(char *o, const char *x, int64_t outer, int64_t inner, int64_t rows, int64_t w);
typedef void Run(char *o, const char *x, int64_t step, int64_t n);

static int size_index(int64_t elem) { return elem == 8 ? 0 : elem == 4 ? 1 : 2; }

static Block *block_of(int64_t elem, int64_t step)
{
    static Block *const blocks[KINDS][3] = {
        [SPREAD] = {spread_Word8, spread_Word4, spread_Word1},
        [COPY] = {copy_Word8, copy_Word4, copy_Word1},
        [LOAD] = {load_Word8, load_Word4, load_Word1},
    };
    return blocks[step == 0 ? SPREAD : step == elem ? COPY : LOAD][size_index(elem)];
}

/* ---- the position ---- */
typedef struct {
    int64_t at[QB_MAX_RANK]; /* index in each dim */
    int64_t offset;          /* bytes from element 0 */
} Position;

int64_t move_offset(const Move *k, int64_t e)
{
    int64_t offset = 0;
    for (int d = k->rank - 1; d > 0; e /= k->dims[d--]) offset += e % k->dims[d] * k->stride[d];
    return offset + e * k->stride[0];
}

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

void move_load(const Move *k, void *reg, const void *memory, int64_t e, int64_t n)
{
    char *o = reg;
    const char *x = memory;
    const int last = k->rank - 1;
    const int64_t w = k->dims[last], inner = k->stride[last],
                  outer = last > 0 ? k->stride[last - 1] : 0;
    Block *block = block_of(k->elem, inner);
    Position p;
    seek(&p, k, e);
    while (n > 0) {
        int64_t rows = 1, m = w - p.at[last];
        if (m > n) m = n;
        if (m == w && last > 0) {
            rows = k->dims[last - 1] - p.at[last - 1];
            if (rows > n / w) rows = n / w;
        }
        block(o, x + p.offset, outer, inner, rows, m);
        o += rows * m * k->elem;
        n -= rows * m;
        if (rows > 1) { /* all but the last run, which may be the end of the column */
            p.at[last - 1] += rows - 1;
            p.offset += (rows - 1) * outer;
        }
        advance(&p, k, m);
    }
}

void move_store(const Move *k, void *memory, const void *reg, int64_t e, int64_t n)
{
    char *o = memory;
    const char *x = reg;
    int64_t last = k->dims[k->rank - 1], step = k->stride[k->rank - 1];
    static Run *const runs[] = {store_Word8, store_Word4, store_Word1};
    Run *run = runs[size_index(k->elem)];
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
        block_of(elem, 0)(out, x, 0, 0, 1, total);
        return;
    }
    int64_t have = period < total ? period : total;
    memcpy(out, x, (size_t)(have * elem));
    for (; have < total; have *= 2)
        memcpy(out + have * elem, out,
               (size_t)((have < total - have ? have : total - have) * elem));
}
