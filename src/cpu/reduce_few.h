/* reduce_few.h: part of reduce.c. Rows of 2 to 8 elements, in scalar code: the tree of so few numbers is one to seven additions, where
   vectors with masks take some twenty instructions a row. Compiled for each length, so that nothing is left but those. */

typedef double Few(const void *x, int64_t k, int64_t n, Get *get);

#define TREE(l, n)                                           \
    UNROLL for (int i = 0; i < 4; i++) if (i + 4 < n) l[i] += l[i + 4]; \
    UNROLL for (int i = 0; i < 2; i++) if (i + 2 < n) l[i] += l[i + 2]; \
    return n > 1 ? l[0] + l[1] : l[0]

INLINE double few_sum(const void *x, int64_t k, int64_t n, Get *get)
{
    double l[SUM_LANES];
    for (int64_t i = 0; i < n; i++) l[i] = get(x, k + i);
    TREE(l, n);
}

/* Of a native plan, where lanes are float32. */
INLINE double few_native(const void *x, int64_t k, int64_t n, Get *get)
{
    float l[SUM_LANES];
    for (int64_t i = 0; i < n; i++) l[i] = (float)get(x, k + i);
    TREE(l, n);
}
#undef TREE

/* False: the rows are longer, or of one element. */
INLINE bool few_rows(double *out, const void *x, int64_t rows, int64_t w, Get *get, Few *few)
{
    switch (w) {
#define LENGTH(n)                                                            \
    case n:                                                                  \
        for (int64_t r = 0; r < rows; r++) out[r] = few(x, r * n, n, get);   \
        return true;
        LENGTH(2) LENGTH(3) LENGTH(4) LENGTH(5) LENGTH(6) LENGTH(7) LENGTH(8)
#undef LENGTH
    default: return false;
    }
}
