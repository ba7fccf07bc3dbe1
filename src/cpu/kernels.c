/* kernels.c: the vector kernels. Compiled once per ISA level (-DISA=v3 -march=...), each time
   into one table.

   The loops are scalar C over the texts of ops.h, scalar.h and vmath.h; the compiler vectorises
   them, and a written q_fma becomes a vector fma. One operation sequence, so every level gives
   the same bits. A float32 function is the float64 one, rounded; + - * / and sqrt are native,
   which is the same. Plans with precision "float32" use the functions of native.h. */
#include "cpu/cpu.h"
#include "scalar.h"
#include "vmathf.h"

typedef unsigned char Bool;
#if defined(__AVX512F__)
enum { VECTOR = 64 }; /* bytes */
#else
enum { VECTOR = 32 };
#endif
#define INLINE static inline __attribute__((always_inline))
#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#define FOR_A(...) __VA_ARGS__
#define FOR_F(...) __VA_ARGS__
#define FOR_B(...)
#define FLOATING 1
#define T double
#define NAME(f) f##_f64
#include "cpu/kernel_text.h"
#undef T
#undef NAME
#define T float
#define NAME(f) f##_f32
#include "cpu/kernel_text.h"
#undef NAME
#define NAME(f) f##_native
#define NATIVE_ROWS
#include "cpu/kernel_text.h"
#undef NATIVE_ROWS
#undef T
#undef NAME
#undef FOR_F
#undef FOR_B
#undef FLOATING

#define FOR_F(...)
#define FOR_B(...) __VA_ARGS__
#define FLOATING 0
#define T Bool
#define NAME(f) f##_bool
#include "cpu/kernel_text.h"
#undef T
#undef NAME
#undef FOR_A
#undef FOR_F
#undef FOR_B
#undef FLOATING

/* clang-format off */
/* ---- casts: to bool, nonzero and NaN are true ---- */
#define CAST(from, From, to, To, value)                                                                                         \
    static void from##_to_##to(void *o, const void *a, const void *b, const void *c, int64_t i, int64_t n)                      \
    {                                                                                                                           \
        To *out = o;                                                                                                            \
        const From *x = a;                                                                                                      \
        (void)b, (void)c, (void)i;                                                                                              \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++) out[k] = (value);                                                   \
    }
CAST(f32, float, f64, double, (double)x[k])
CAST(f64, double, f32, float, (float)x[k])
CAST(bool, Bool, f64, double, (double)x[k])
CAST(bool, Bool, f32, float, (float)x[k])
CAST(f64, double, bool, Bool, x[k] != 0)
CAST(f32, float, bool, Bool, x[k] != 0)
#undef CAST

void PASTE(spread, ISA)(void *o, const void *x, int64_t n)
{
    double *out = o, v = *(const double *)x;
    _Pragma("omp simd") for (int64_t k = 0; k < n; k++) out[k] = v;
}

/* ---- the table, by kernel_op, kernel_cast and kernel_fused ---- */
#define F_ROW(name) [OP_##name * QB_DTYPE_COUNT + QB_F64] = name##_f64, [OP_##name * QB_DTYPE_COUNT + QB_F32] = name##_f32,
#define B_ROW(name) [OP_##name * QB_DTYPE_COUNT + QB_BOOL] = name##_bool,
#define A_ROW(name) F_ROW(name) B_ROW(name)

KernelFn *const PASTE(kernels, ISA)[KERNEL_COUNT] = {
#define UNARY(name, in, ...) in##_ROW(name)
#define BINARY(name, in, ...) in##_ROW(name)
#include "ops.h"
    F_ROW(powi)
    A_ROW(where)
    [OP_stop_gradient * QB_DTYPE_COUNT + QB_F64] = copy_f64,
    [OP_stop_gradient * QB_DTYPE_COUNT + QB_F32] = copy_f32,
    [OP_stop_gradient * QB_DTYPE_COUNT + QB_BOOL] = copy_bool,
#define CAST_ROW(from, to) [CAST_FIRST + from * QB_DTYPE_COUNT + to]
    CAST_ROW(QB_F64, QB_F64) = copy_f64,
    CAST_ROW(QB_F32, QB_F32) = copy_f32,
    CAST_ROW(QB_BOOL, QB_BOOL) = copy_bool,
    CAST_ROW(QB_F32, QB_F64) = f32_to_f64,
    CAST_ROW(QB_F64, QB_F32) = f64_to_f32,
    CAST_ROW(QB_BOOL, QB_F64) = bool_to_f64,
    CAST_ROW(QB_BOOL, QB_F32) = bool_to_f32,
    CAST_ROW(QB_F64, QB_BOOL) = f64_to_bool,
    CAST_ROW(QB_F32, QB_BOOL) = f32_to_bool,
#define FUSED_ROW(fused, name)                                                                                                  \
    [FUSED_FIRST + fused * QB_DTYPE_COUNT + QB_F64] = name##_f64, [FUSED_FIRST + fused * QB_DTYPE_COUNT + QB_F32] = name##_f32
    FUSED_ROW(FUSED_MUL_ADD, mul_add),
    FUSED_ROW(FUSED_MUL_SUB, mul_sub),
    FUSED_ROW(FUSED_SUB_MUL, sub_mul),
#define UNARY(name, ...) [NATIVE_##name] = name##_native,
#include "cpu/native.h"
};
/* clang-format on */
