/* cumsum.c: running sums along one axis. The chain of one column is serial by definition; columns are independent, so they
   run side by side where the axis is not the last one. */
#include "cpu/cpu.h"

#define RUNNING(T)                                                                           \
    static void running_##T(T *z, const T *x, CallRows r, bool back)                         \
    {                                                                                        \
        int64_t step = back ? -r.inner : r.inner, first = back ? (r.n - 1) * r.inner : 0;    \
        for (int64_t o = 0; o < r.outer; o++, x += r.n * r.inner, z += r.n * r.inner) {      \
            const T *from = x + first;                                                       \
            T *to = z + first;                                                               \
            memcpy(to, from, (size_t)r.inner * sizeof(T));                                   \
            if (r.inner == 1) {                                                              \
                T sum = *from;                                                               \
                for (int64_t k = 1; k < r.n; k++) to[k * step] = sum = sum + from[k * step]; \
                continue;                                                                    \
            }                                                                                \
            for (int64_t k = 1; k < r.n; k++) {                                              \
                const T *before = to;                                                        \
                from += step;                                                                \
                to += step;                                                                  \
                for (int64_t i = 0; i < r.inner; i++) to[i] = before[i] + from[i];           \
            }                                                                                \
        }                                                                                    \
    }
RUNNING(double)
RUNNING(float)
#undef RUNNING

bool cumsum_run(const CallCode *o, char *const *base, char *scratch, qb_error *err)
{
    (void)scratch, (void)err;
    const Call *c = o->call;
    CallRows r = call_rows(&c->z[0].type, c->attr->i);
    const void *x = call_operand(o, base, 0);
    void *z = call_result(o, base, 0);
    if (c->z[0].type.dtype == QB_F64)
        running_double(z, x, r, c->attr->start != 0);
    else
        running_float(z, x, r, c->attr->start != 0);
    return true;
}
