/* exhaustive.c: a one-argument row of ops.h on every float32, rounded to float32 as eager and compiled programs round it.

   The double result decides the float32 one unless it lies next to the middle between two floats. So two questions are asked of
   every input: does rounding the row's result give what rounding the C library's result gives, and is the result within 8
   double ulps of such a middle? Inputs where either answer raises doubt are printed, and exhaustive.py asks MPFR about them.

       exhaustive NAME FIRST LAST STEP     bit patterns FIRST, FIRST + STEP, ... below LAST
   prints a line "in out" of bit patterns for each doubtful input, then "tested COUNT". */
#include "driver.c"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *name;
    void (*row)(const double *, double *, long);
    double (*libm)(double);
} Function;

static double libm_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double libm_softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }

#define LIST(name, libm) {#name, math_##name, libm},
static const Function functions[] = {
    LIST(exp, exp) LIST(exp2, exp2) LIST(expm1, expm1) LIST(log, log) LIST(log1p, log1p) LIST(log2, log2) LIST(log10, log10)
    LIST(sin, sin) LIST(cos, cos) LIST(tan, tan) LIST(arcsin, asin) LIST(arccos, acos) LIST(arctan, atan) LIST(sinh, sinh)
    LIST(cosh, cosh) LIST(tanh, tanh) LIST(arcsinh, asinh) LIST(arccosh, acosh) LIST(arctanh, atanh) LIST(erf, erf)
    LIST(sigmoid, libm_sigmoid) LIST(softplus, libm_softplus) LIST(erfc, erfc) LIST(cbrt, cbrt) LIST(sqrt, sqrt)
};

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static float of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* Is y within 8 ulps of the middle between two neighbouring floats? Of a normal float the 29 bits that rounding drops
   say so; subnormal results have coarser floats. */
static int near_middle(double y)
{
    enum { DROPPED = 29, HALF = 1 << (DROPPED - 1) };
    const double a = fabs(y);
    if (!(a > 0x1p-151) || !(a < 0x1p128)) return 0;
    if (a >= 0x1p-126) {
        uint64_t u;
        memcpy(&u, &y, 8);
        return llabs((int64_t)(u & (2 * HALF - 1)) - HALF) <= 8;
    }
    return fabs(fmod(a, 0x1p-149) - 0x1p-150) <= 8 * ldexp(1, ilogb(a) - 52);
}

int main(int argc, char **argv)
{
    enum { CHUNK = 4096 };
    static double x[CHUNK], y[CHUNK];
    static uint32_t in[CHUNK];
    const Function *f = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (argc == 5 && strcmp(functions[i].name, argv[1]) == 0) f = &functions[i];
    if (!f) return fprintf(stderr, "usage: exhaustive NAME FIRST LAST STEP\n"), 2;
    uint64_t at = strtoull(argv[2], NULL, 10), last = strtoull(argv[3], NULL, 10), step = strtoull(argv[4], NULL, 10), count = 0;
    while (at < last) {
        long n = 0;
        for (; n < CHUNK && at < last; at += step) {
            in[n] = (uint32_t)at;
            x[n++] = of_bits((uint32_t)at);
        }
        f->row(x, y, n);
        for (long i = 0; i < n; i++) {
            const float ours = (float)y[i], theirs = (float)f->libm(x[i]);
            if (ours != ours && theirs != theirs) continue;
            if (bits_of(ours) != bits_of(theirs) || near_middle(y[i])) printf("%u %u\n", in[i], bits_of(ours));
        }
        count += (uint64_t)n;
    }
    printf("tested %llu\n", (unsigned long long)count);
    return 0;
}
