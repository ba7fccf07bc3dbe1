/* native.h: the functions that native float32 has of its own, as rows in the manner of ops.h; all others are the float64 function,
   rounded, there too. Columns that kernels do not read are empty. The reader defines UNARY; it is undefined at the end. */
/* clang-format off */
UNARY( exp,      F, same, q_expf(x),      NEVER,          0,              , , 2.5, )
UNARY( exp2,     F, same, q_exp2f(x),     NEVER,          0,              , , 2.5, )
UNARY( expm1,    F, same, q_expm1f(x),    NEVER,          0,              , , 2.5, )
UNARY( log,      F, same, q_logf(x),      NEVER,          0,              , , 2.5, )
UNARY( log1p,    F, same, q_log1pf(x),    NEVER,          0,              , , 2.5, )
UNARY( log2,     F, same, q_log2f(x),     NEVER,          0,              , , 2.5, )
UNARY( log10,    F, same, q_log10f(x),    NEVER,          0,              , , 2.5, )
UNARY( sin,      F, same, q_sinf_main(x), q_sinf_rare(x), q_sinf_slow(x), , , 2.5, )
UNARY( cos,      F, same, q_cosf_main(x), q_cosf_rare(x), q_cosf_slow(x), , , 2.5, )
UNARY( sinh,     F, same, q_sinhf(x),     NEVER,          0,              , , 2.5, )
UNARY( cosh,     F, same, q_coshf(x),     NEVER,          0,              , , 2.5, )
UNARY( tanh,     F, same, q_tanhf(x),     NEVER,          0,              , , 2.5, )
UNARY( sigmoid,  F, same, q_sigmoidf(x),  NEVER,          0,              , , 2.5, )
UNARY( softplus, F, same, q_softplusf(x), NEVER,          0,              , , 2.5, )
#undef UNARY
#undef BINARY
/* clang-format on */
