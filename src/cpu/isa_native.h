/* isa_native.h: what the native float32 form of every ISA level has in common. There is nothing to
   widen; rows become columns through memory, which costs a cycle an element, once per packed
   matrix. */
#ifndef CPU_ISA_NATIVE_H
#define CPU_ISA_NATIVE_H

INLINE V load_f32(const float *p) { return load(p); }
INLINE V load_f32_m(M m, const float *p) { return load_m(m, p); }
INLINE void store_f32_m(float *p, M m, V v) { store_m(p, m, v); }

INLINE void transpose(V r[LANES])
{
    float x[LANES][LANES], y[LANES][LANES];
    for (int i = 0; i < LANES; i++) store(x[i], r[i]);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) y[j][i] = x[i][j];
    for (int i = 0; i < LANES; i++) r[i] = load(y[i]);
}

INLINE void load_columns(const float *p, int64_t row, V r[LANES])
{
    for (int i = 0; i < LANES; i++) r[i] = load(p + i * row);
    transpose(r);
}

#endif
