/* isa.c: which levels does this CPU have? Whole levels (x86-64-v3: AVX2 and FMA, v4: AVX-512 F,
   BW, CD, DQ, VL), not single flags: two builds to test instead of dozens. There is no v2:
   without an FMA instruction each fma of the math functions is a call, 280 times slower. All
   levels give the same bits; a new one is a line here, a line in meson.build and a header. */
#include "cpu/cpu.h"

#define LEVEL(level)                                                               \
    extern KernelFn *const kernels_##level[KERNEL_COUNT];                          \
    extern const Reducer reducers_##level[REDUCER_COUNT][REDUCE_FORMS];            \
    extern ChainFn *const chains_##level[FUSED_COUNT][2];                          \
    extern void spread_##level(void *o, const void *x, int64_t n);                 \
    extern void gemm_rows_##level(const GemmJob *job, int64_t m0, int64_t m1);     \
    extern void gemm_pack_##level(const GemmJob *job);                             \
    extern void gemm_rows_f32_##level(const GemmJob *job, int64_t m0, int64_t m1); \
    extern void gemm_pack_f32_##level(const GemmJob *job);                         \
    static const Isa isa_##level = {#level,                                        \
                                    kernels_##level,                               \
                                    reducers_##level,                              \
                                    chains_##level,                                \
                                    spread_##level,                                \
                                    gemm_rows_##level,                             \
                                    gemm_pack_##level,                             \
                                    gemm_rows_f32_##level,                         \
                                    gemm_pack_f32_##level};

#if defined(__x86_64__)
LEVEL(v4)
LEVEL(v3)
static const Isa *const levels[] = {&isa_v4, &isa_v3};
#else
LEVEL(neon)
static const Isa *const levels[] = {&isa_neon};
#endif
#undef LEVEL
enum { LEVELS = sizeof levels / sizeof *levels };

static _Atomic(const Isa *) now;

/* Does this CPU have level i? */
static bool has(int i)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    return levels[i] == &isa_v4 ? v4 : v3;
#else
    return levels[i] != NULL;
#endif
}

static const Isa *best(void)
{
    for (int i = 0; i < LEVELS; i++)
        if (has(i)) return levels[i];
    return NULL;
}

bool isa_supported(qb_error *err)
{
    if (best()) return true;
    error_set(
        err, QB_EUNSUPPORTED,
        "this CPU has no AVX2 and FMA instructions (x86-64-v3: Intel since 2013, AMD since 2015), "
        "which the kernels of Quabla need");
    return false;
}

/* On a CPU without any level the last one is named; nothing compiles for it (cpu.c asks
   isa_supported). */
const Isa *isa_now(void)
{
    const Isa *isa = atomic_load_explicit(&now, memory_order_relaxed);
    if (isa) return isa;
    isa = best();
    if (!isa) isa = levels[LEVELS - 1];
    atomic_store_explicit(&now, isa, memory_order_relaxed);
    return isa;
}

bool isa_set(const char *name, qb_error *err)
{
    if (!isa_supported(err)) return false;
    for (int i = 0; i < LEVELS; i++) {
        if (name && strcmp(name, levels[i]->name)) continue;
        if (has(i)) return atomic_store(&now, levels[i]), true;
        if (name)
            return error_set(err, QB_EVALUE, "this CPU does not have the level '%s'", name), false;
    }
    error_set(err, QB_EVALUE, "no ISA level is called '%s'; this build has: %s%s%s", name,
              levels[0]->name, LEVELS > 1 ? ", " : "", LEVELS > 1 ? levels[LEVELS - 1]->name : "");
    return false;
}
