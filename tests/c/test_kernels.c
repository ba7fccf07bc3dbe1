/* Vector kernels against the scalar reference, byte for byte: every op and dtype, every ISA
   level of this CPU, every length around the group sizes, in place and not, with the memory
   after the result watched. */
#include "cpu/cpu.h"
#include "scalar.h"
#include "vmathf.h"
#include "element.h"
#include "test.h"

enum { LENGTH = 300, GUARD = 64 };
static const char *const all_levels[] = {"v3", "v4", "neon"};

static const double special[] = {0.0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 2,
                                 3,
                                 -7.25,
                                 1e-320,
                                 -1e-310,
                                 1e300,
                                 -1e300,
                                 1e22,
                                 710,
                                 -746,
                                 88.8,
                                 1e-30,
                                 0x1p-1022,
                                 0x1p-126,
                                 1e38,
                                 3e7,
                                 -2.5,
                                 1.5,
                                 __builtin_inf(),
                                 -__builtin_inf(),
                                 __builtin_nan("")};
enum { SPECIALS = sizeof special / sizeof *special };

static uint64_t seed = 1;
static double random_unit(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static double element(int64_t k)
{
    return k < SPECIALS ? special[k] : (random_unit() - 0.5) * (k % 3 ? 8 : 200);
}

/* The same bits, or both a NaN. */
static bool same(int dtype, double a, double b)
{
    if (a != a && b != b) return true;
    float x = (float)a, y = (float)b;
    return dtype == QB_F32 ? !memcmp(&x, &y, sizeof x) : !memcmp(&a, &b, sizeof a);
}

typedef union {
    double align;
    char bytes[LENGTH * 8 + GUARD];
} Array;
typedef double Expect(int id, int dtype, double x, double y, double z);

static void check(const Isa *isa, int kernel, int id, int in, int out, const Array *x,
                  const Array *y, const Array *z, int64_t i, int64_t n, Expect *expect,
                  bool in_place)
{
    Array o;
    memset(o.bytes, 0x55, sizeof o.bytes);
    if (in_place) memcpy(o.bytes, x->bytes, (size_t)(n * type_elem(in)));
    isa->kernels[kernel](o.bytes, in_place ? o.bytes : x->bytes, y->bytes, z->bytes, i, n);
    int64_t wrong = 0, bytes = n * type_elem(out);
    for (int64_t k = 0; k < n; k++)
        wrong += !same(out, element_get(out, o.bytes, k),
                       expect(id, in, element_get(in, x->bytes, k), element_get(in, y->bytes, k),
                              element_get(in, z->bytes, k)));
    for (int64_t k = bytes; k < bytes + GUARD; k++) wrong += o.bytes[k] != 0x55;
    if (!CHECK(wrong == 0))
        fprintf(stderr, "    kernel %d (%d) dtype %d of %s, n = %lld: %lld wrong\n", kernel, id, in,
                isa->name, (long long)n, (long long)wrong);
}

static void fill(Array *x, Array *y, Array *z, int dtype)
{
    for (int64_t k = 0; k < LENGTH; k++) {
        element_set(dtype, x->bytes, k, dtype == QB_BOOL ? random_unit() > 0.5 : element(k));
        element_set(dtype, y->bytes, k,
                    dtype == QB_BOOL ? random_unit() > 0.5
                                     : element(k < SPECIALS ? (k * 7 + 3) % SPECIALS : k));
        element_set(dtype, z->bytes, k, dtype == QB_BOOL ? random_unit() > 0.5 : element(k));
    }
}

static void each_length(const Isa *isa, int kernel, int id, int in, int out, int64_t i,
                        Expect *expect)
{
    Array x, y, z;
    fill(&x, &y, &z, in);
    for (int64_t n = 1; n <= LENGTH; n += n < 40 ? 1 : 43) {
        check(isa, kernel, id, in, out, &x, &y, &z, i, n, expect, false);
        if (type_elem(in) == type_elem(out))
            check(isa, kernel, id, in, out, &x, &y, &z, i, n, expect, true);
    }
}

static const Isa *level(int i)
{
    qb_error err = {0};
    return isa_set(all_levels[i], &err) ? isa_now() : NULL;
}
#define EACH_LEVEL(isa)            \
    const Isa *isa;                \
    for (int l_ = 0; l_ < 3; l_++) \
        if ((isa = level(l_)))

static double expect_row(int op, int dtype, double x, double y, double z)
{
    return (void)z, value_scalar((Op)op, dtype, x, y);
}

static void test_every_row_equals_the_scalar_reference(void)
{
    EACH_LEVEL(isa)
    for (int op = 0; op < OP_COUNT; op++) {
        if (op_table[op].cls == CLASS_STRUCT) continue;
        for (int dtype = 0; dtype < QB_DTYPE_COUNT; dtype++) {
            bool floating = dtype != QB_BOOL,
                 takes = op_table[op].in == IN_A || (op_table[op].in == IN_F) == floating;
            int kernel = kernel_op(op, dtype);
            CHECK(takes == (isa->kernels[kernel] != NULL));
            if (isa->kernels[kernel])
                each_length(isa, kernel, op, dtype, op_table[op].to_bool ? QB_BOOL : dtype, 0,
                            expect_row);
        }
    }
}

/* No rare element at all, which takes the fast path of every row. */
static void test_ordinary_elements_take_the_same_values(void)
{
    Array x, y, z;
    EACH_LEVEL(isa)
    for (int op = 0; op < OP_COUNT; op++)
        for (int dtype = 0; dtype <= QB_F64; dtype++) {
            if (op_table[op].cls == CLASS_STRUCT || !isa->kernels[kernel_op(op, dtype)]) continue;
            for (int64_t k = 0; k < LENGTH; k++) {
                element_set(dtype, x.bytes, k, 0.01 + 3 * random_unit());
                element_set(dtype, y.bytes, k, 0.01 + 3 * random_unit());
                element_set(dtype, z.bytes, k, 0);
            }
            int out = op_table[op].to_bool ? QB_BOOL : dtype;
            for (int64_t n = 1; n <= LENGTH; n += n < 20 ? 1 : 70)
                check(isa, kernel_op(op, dtype), op, dtype, out, &x, &y, &z, 0, n, expect_row,
                      false);
        }
}

/* ---- native float32: the rows of native.h ---- */
/* clang-format off */
static double expect_native(int op, int dtype, double a, double y, double z)
{
    (void)dtype, (void)y, (void)z;
    float x = (float)a;
    switch (op) {
#define UNARY(name, in, out, value, rare, slow, ...) case OP_##name: return (double)((rare) ? (slow) : (value));
#include "cpu/native.h"
    default: return 0;
    }
}
/* clang-format on */

static void test_native_rows_equal_their_scalar_text(void)
{
    CHECK_EQ_INT(kernel_native(OP_add), kernel_op(OP_add, QB_F32));
    CHECK(kernel_native(OP_tanh) >= NATIVE_FIRST);
    EACH_LEVEL(isa)
    for (int op = 0; op < OP_COUNT; op++)
        if (kernel_native(op) >= NATIVE_FIRST)
            each_length(isa, kernel_native(op), op, QB_F32, QB_F32, 0, expect_native);
}

/* ulps of float32 between them: the numbers are ordered as integers with the sign turned. */
static int64_t apart(float a, float b)
{
    if (a != a || b != b) return a != a && b != b ? 0 : INT64_MAX;
    int32_t i, j;
    memcpy(&i, &a, sizeof i);
    memcpy(&j, &b, sizeof j);
    if (a == 0 && b == 0) return i == j ? 0 : INT64_MAX; /* signed zeros */
    if ((i < 0) != (j < 0)) return INT64_MAX;
    return i > j ? i - j : j - i;
}

static void test_native_rows_are_within_3_ulp_of_the_rounded_ones(void)
{
    Array x, y, z;
    fill(&x, &y, &z, QB_F32);
    for (int op = 0; op < OP_COUNT; op++) {
        if (kernel_native(op) < NATIVE_FIRST) continue;
        float got[LENGTH];
        isa_now()->kernels[kernel_native(op)](got, x.bytes, NULL, NULL, 0, LENGTH);
        for (int64_t k = 0; k < LENGTH; k++) {
            double at = element_get(QB_F32, x.bytes, k), want = value_scalar((Op)op, QB_F32, at, 0);
            if (!CHECK(apart(got[k], (float)want) <= 3))
                fprintf(stderr, "    %s(%a): %a, not %a\n", op_table[op].name, at, (double)got[k],
                        want);
        }
    }
}

static double expect_cast(int to, int dtype, double x, double y, double z)
{
    (void)dtype, (void)y, (void)z;
    return to == QB_BOOL ? x != 0 : to == QB_F32 ? (float)x : x;
}

static void test_casts(void)
{
    EACH_LEVEL(isa)
    for (int from = 0; from < QB_DTYPE_COUNT; from++)
        for (int to = 0; to < QB_DTYPE_COUNT; to++)
            each_length(isa, kernel_cast(from, to), to, from, to, 0, expect_cast);
}

static int64_t exponent;
static double expect_powi(int id, int dtype, double x, double y, double z)
{
    (void)id, (void)y, (void)z;
    return dtype == QB_F32 ? (float)q_powi(x, exponent) : q_powi(x, exponent);
}

static void test_integer_powers(void)
{
    static const int64_t exponents[] = {0, 1, 2, 3, 7, 10, 1023, INT64_MAX};
    EACH_LEVEL(isa)
    for (int dtype = 0; dtype <= QB_F64; dtype++)
        for (int i = 0; i < 8; i++) {
            exponent = exponents[i];
            each_length(isa, kernel_op(OP_powi, dtype), OP_powi, dtype, dtype, exponent,
                        expect_powi);
        }
}

static double expect_fused(int fused, int dtype, double x, double y, double z)
{
    double p = dtype == QB_F32 ? (float)(x * y) : x * y;
    double v = fused == FUSED_MUL_ADD ? p + z : fused == FUSED_MUL_SUB ? p - z : z - p;
    return dtype == QB_F32 ? (float)v : v;
}

static void test_a_fused_product_keeps_both_roundings(void)
{
    EACH_LEVEL(isa)
    for (int dtype = 0; dtype <= QB_F64; dtype++)
        for (int f = 0; f < FUSED_COUNT; f++)
            each_length(isa, kernel_fused(f, dtype), f, dtype, dtype, 0, expect_fused);
}

static void test_where_takes_elements_by_the_mask(void)
{
    Array x, y, z, o;
    EACH_LEVEL(isa)
    for (int dtype = 0; dtype < QB_DTYPE_COUNT; dtype++) {
        unsigned char mask[LENGTH];
        fill(&x, &y, &z, dtype);
        for (int64_t k = 0; k < LENGTH; k++) mask[k] = random_unit() > 0.5;
        for (int64_t n = 1; n <= LENGTH; n += 13) {
            memset(o.bytes, 0x55, sizeof o.bytes);
            isa->kernels[kernel_op(OP_where, dtype)](o.bytes, mask, x.bytes, y.bytes, 0, n);
            int64_t wrong = 0, size = type_elem(dtype);
            for (int64_t k = 0; k < n; k++)
                wrong += memcmp(o.bytes + k * size, (mask[k] ? x.bytes : y.bytes) + k * size,
                                (size_t)size) != 0;
            CHECK(wrong == 0 && o.bytes[n * size] == 0x55);
        }
    }
}

static void test_a_level_that_does_not_exist_is_named(void)
{
    qb_error err = {0};
    CHECK(!isa_set("v9", &err));
    CHECK_EQ_INT(err.code, QB_EVALUE);
    CHECK(strstr(err.message, "'v9'") != NULL);
    CHECK(isa_set(NULL, &err));
    CHECK(isa_supported(&err));
}

int main(void)
{
    RUN(test_every_row_equals_the_scalar_reference);
    RUN(test_ordinary_elements_take_the_same_values);
    RUN(test_native_rows_equal_their_scalar_text);
    RUN(test_native_rows_are_within_3_ulp_of_the_rounded_ones);
    RUN(test_casts);
    RUN(test_integer_powers);
    RUN(test_a_fused_product_keeps_both_roundings);
    RUN(test_where_takes_elements_by_the_mask);
    RUN(test_a_level_that_does_not_exist_is_named);
    return test_report();
}
