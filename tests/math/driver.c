/* Array loops over the elementwise rows of ops.h, as a shared library for the checkers in this
   folder.

   A row is run the way a vector kernel runs it: a tile without rare arguments in one simd loop, any
   other tile element by element. So one text, built for several instruction sets and compilers,
   shows whether they give the same bits. */
#include "scalar.h"
#include "vmathf.h"

enum { TILE = 256 };

#define ROW(name, type, args, fetch, value, rare, slow)                                           \
    void math_##name(args(type), type *out, long n)                                               \
    {                                                                                             \
        for (long t = 0; t < n; t += TILE) {                                                      \
            long end = n - t < TILE ? n : t + TILE;                                               \
            int any = 0;                                                                          \
            for (long i = t; i < end; i++) { fetch(type) any |= (rare) != 0; (void)x; }           \
            if (any)                                                                              \
                for (long i = t; i < end; i++) {                                                  \
                    fetch(type) out[i] = (type)((rare) ? (slow) : (value));                       \
                }                                                                                 \
            else                                                                                  \
                _Pragma("omp simd") for (long i = t; i < end; i++) {                              \
                    fetch(type) out[i] = (type)(value);                                           \
                }                                                                                 \
        }                                                                                         \
    }
#define ARGS1(type) const type *restrict a
#define ARGS2(type) const type *restrict a, const type *restrict b
#define FETCH1(type) type x = a[i];
#define FETCH2(type) type x = a[i], y = b[i]; (void)y;

#define ROW_F1(name, value, rare, slow) ROW(name, double, ARGS1, FETCH1, value, rare, slow)
#define ROW_F2(name, value, rare, slow) ROW(name, double, ARGS2, FETCH2, value, rare, slow)
#define SKIP(...)
#define FLOAT1_F ROW_F1
#define FLOAT1_B SKIP
#define FLOAT1_A SKIP
#define FLOAT2_F ROW_F2
#define FLOAT2_B SKIP
#define FLOAT2_A SKIP
#define UNARY(name, in, out, value, rare, slow, d, mlx, ulp, doc) FLOAT1_##in(name, value, rare, slow)
#define BINARY(name, in, out, value, rare, slow, dx, dy, mlx, ulp, doc) FLOAT2_##in(name, value, rare, slow)
#include "ops.h"

/* The list that the checkers read: name, operands, and the bound of the row in ulps */
typedef struct { const char *name; int arity; double ulp; } MathRow;
#define LIST1_F(name, ulp) {#name, 1, ulp},
#define LIST2_F(name, ulp) {#name, 2, ulp},
#define LIST1_B SKIP
#define LIST1_A SKIP
#define LIST2_B SKIP
#define LIST2_A SKIP
#define UNARY(name, in, out, value, rare, slow, d, mlx, ulp, doc) LIST1_##in(name, ulp)
#define BINARY(name, in, out, value, rare, slow, dx, dy, mlx, ulp, doc) LIST2_##in(name, ulp)
const MathRow math_rows[] = {
#include "ops.h"
    {0, 0, 0}};

/* The native float32 functions; their names end in f. */
#define UNARY(name, in, out, value, rare, slow, ...) ROW(name##f, float, ARGS1, FETCH1, value, rare, slow)
#include "cpu/native.h"
#define UNARY(name, in, out, value, rare, slow, d, mlx, ulp, doc) {#name "f", 1, ulp},
const MathRow math_rows32[] = {
#include "cpu/native.h"
    {0, 0, 0}};
