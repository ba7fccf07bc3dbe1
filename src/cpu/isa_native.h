/* isa_native.h: what the native float32 form of every ISA level has in common: there is nothing to
   widen. */
#ifndef CPU_ISA_NATIVE_H
#define CPU_ISA_NATIVE_H

INLINE V load_f32(const float *p) { return load(p); }
INLINE V load_f32_m(M m, const float *p) { return load_m(m, p); }
INLINE void store_f32_m(float *p, M m, V v) { store_m(p, m, v); }

/* r[j] = column j of LANES rows that lie `row` elements apart. */
INLINE void load_columns(const float *p, int64_t row, V r[LANES])
{
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) r[i] = load(p + i * row);
    transpose(r);
}

#endif
