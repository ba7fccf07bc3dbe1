/* gemm_f32.c: the text of gemm.c in native float32, for plans with precision "float32". Per element
   and block of 128 k one chain of float32 fma from +0; block results added in order, in float32. */
#define NATIVE
#include "cpu/gemm.c" /* NOLINT(bugprone-suspicious-include) */
