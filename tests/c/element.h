/* element.h: element k of an array of any dtype, read and written as a double. */
#ifndef ELEMENT_H
#define ELEMENT_H

#include "quabla.h"

static inline double element_get(int dtype, const void *p, int64_t k)
{
    if (dtype == QB_F64) return ((const double *)p)[k];
    if (dtype == QB_F32) return (double)((const float *)p)[k];
    return ((const unsigned char *)p)[k];
}

static inline void element_set(int dtype, void *p, int64_t k, double v)
{
    if (dtype == QB_F64)
        ((double *)p)[k] = v;
    else if (dtype == QB_F32)
        ((float *)p)[k] = (float)v;
    else
        ((unsigned char *)p)[k] = v != 0;
}

#endif
