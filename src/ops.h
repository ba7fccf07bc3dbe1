/* THE op table: one row an op. Includes nothing; readers define the macros they need, this file undefines them all.

   UNARY / BINARY are elementwise. Everything about such an op is its row: enum, text name, inference, scalar value and
   constant folding, vector kernels, batching, jvp, vjp, tests, documentation.
     name   enum OP_name, text name, public function name
     in     operand class: F floating, B bool, A any dtype (all operands of one dtype)
     out    same: the operands' dtype; bool: a mask
     value  scalar C over x, y of the operand's C type, helpers from scalar.h and vmath.h. A float32 op is this value, computed in
            double where a helper takes double, rounded once on store.
     rare, slow   where `rare` (cheap, branch-free) is true, `slow` is the value instead; NEVER, 0 where one text serves all
     d...   partial derivatives as builder expressions over values x, y and the result z; ZERO where the derivative vanishes.
            K(c) is the constant c in x's type.
     mlx    spelling on MLX        ulp   bound in float64, tested against MPFR (0: correctly rounded or exact)

   STRUCT ops have Rules in src/ops/<file>.c. attrs tells print.c and parse.c which attributes they carry (see ATTR in ir.h).
     arity  number of operands, -1 for any number >= 1
   cond, scan and while are the REGION ops: they hold graphs as bodies (src/ops/region.c), and are all control flow there is. */
/* clang-format off */
#ifndef UNARY
#define UNARY(name, in, out, value, rare, slow, d, mlx, ulp, doc)
#endif
#ifndef BINARY
#define BINARY(name, in, out, value, rare, slow, dx, dy, mlx, ulp, doc)
#endif
#ifndef STRUCT
#define STRUCT(name, arity, attrs, doc)
#endif

/*      name           in out    value               rare, slow     d/dx                        d/dy                  mlx          ulp   doc */
BINARY( add,           F, same,  x + y,              NEVER, 0,      K(1),                       K(1),                 add,         0,    "sum" )
BINARY( sub,           F, same,  x - y,              NEVER, 0,      K(1),                       K(-1),                subtract,    0,    "difference" )
BINARY( mul,           F, same,  x * y,              NEVER, 0,      y,                          x,                    multiply,    0,    "product" )
BINARY( div,           F, same,  x / y,              NEVER, 0,      grecip(y),                  gneg(gdiv(z, y)),     divide,      0,    "quotient; no y squared: 1e-25 / 1e-25 keeps its derivative" )
BINARY( pow,           F, same,  q_pow_main(x, y),   q_pow_rare(x, y), q_pow_slow(x, y), d_pow_x(x, y),  d_pow_y(x, y, z), power, 2.5,  "x to the power y; d/dx is 0 where x == 0 and y < 1, d/dy is 0 where x <= 0" )
BINARY( atan2,         F, same,  q_atan2(x, y),      NEVER, 0,      d_atan2_x(x, y),            d_atan2_y(x, y),      arctan2,     2.5,  "angle of the point (x2, x1); derivatives are 0 at the origin and at infinity" )
BINARY( hypot,         F, same,  q_hypot(x, y),      NEVER, 0,      d_ratio(x, z),              d_ratio(y, z),        hypot,       2.5,  "sqrt(x1^2 + x2^2) without overflow; zero gradient at the origin" )
BINARY( fmod,          F, same,  q_fmod_main(x, y),  q_fmod_rare(x, y), q_fmod_slow(x, y), K(1),  gneg(gtrunc(gdiv(x, y))), remainder, 0, "exact remainder with the sign of x1" )
BINARY( greater,       A, bool,  x > y,              NEVER, 0,      ZERO,                       ZERO,                 greater,     0,    "x1 > x2" )
BINARY( greater_equal, A, bool,  x >= y,             NEVER, 0,      ZERO,                       ZERO,                 greater_equal, 0,  "x1 >= x2" )
BINARY( less,          A, bool,  x < y,              NEVER, 0,      ZERO,                       ZERO,                 less,        0,    "x1 < x2" )
BINARY( less_equal,    A, bool,  x <= y,             NEVER, 0,      ZERO,                       ZERO,                 less_equal,  0,    "x1 <= x2" )
BINARY( equal,         A, bool,  x == y,             NEVER, 0,      ZERO,                       ZERO,                 equal,       0,    "x1 == x2" )
BINARY( not_equal,     A, bool,  x != y,             NEVER, 0,      ZERO,                       ZERO,                 not_equal,   0,    "x1 != x2, true for NaN" )
BINARY( logical_and,   B, same,  x & y,              NEVER, 0,      ZERO,                       ZERO,                 logical_and, 0,    "both" )
BINARY( logical_or,    B, same,  x | y,              NEVER, 0,      ZERO,                       ZERO,                 logical_or,  0,    "either" )
UNARY(  logical_not,   B, same,  x ^ 1,              NEVER, 0,      ZERO,                                             logical_not, 0,    "not" )
UNARY(  neg,           F, same,  -x,                 NEVER, 0,      K(-1),                                            negative,    0,    "negation" )
UNARY(  abs,           F, same,  q_abs(x),           NEVER, 0,      gsign(x),                                         abs,         0,    "absolute value; derivative is the sign, 0 at 0" )
UNARY(  sign,          F, same,  q_sign(x),          NEVER, 0,      ZERO,                                             sign,        0,    "-1, 0 or 1; +0 at -0, NaN at NaN" )
UNARY(  floor,         F, same,  q_floor(x),         NEVER, 0,      ZERO,                                             floor,       0,    "largest integer not above" )
UNARY(  ceil,          F, same,  q_ceil(x),          NEVER, 0,      ZERO,                                             ceil,        0,    "smallest integer not below" )
UNARY(  round,         F, same,  q_round(x),         NEVER, 0,      ZERO,                                             round,       0,    "nearest integer, half to even" )
UNARY(  sqrt,          F, same,  q_sqrt(x),          NEVER, 0,      d_sqrt(x, z),                                     sqrt,        0,    "square root; every derivative at 0 is 0" )
UNARY(  cbrt,          F, same,  q_cbrt(x),          NEVER, 0,      grecip(gtimes(3, gmul(z, z))),                    NONE,        2.5,  "cube root; derivative inf at 0" )
UNARY(  exp,           F, same,  q_exp(x),           NEVER, 0,      z,                                                exp,         1.05, "exponential" )
UNARY(  exp2,          F, same,  q_exp2(x),          NEVER, 0,      gmul(z, K(0.693147180559945309417232)),           NONE,        1.05, "2 to the power x, exact for integers" )
UNARY(  expm1,         F, same,  q_expm1(x),         NEVER, 0,      gexp(x),                                          expm1,       2.5,  "exp(x) - 1, accurate near 0" )
UNARY(  log,           F, same,  q_log(x),           NEVER, 0,      grecip(x),                                        log,         1.05, "natural logarithm" )
UNARY(  log1p,         F, same,  q_log1p(x),         NEVER, 0,      grecip(gplus(1, x)),                              log1p,       2.5,  "log(1 + x), accurate near 0" )
UNARY(  log2,          F, same,  q_log2(x),          NEVER, 0,      grecip(gmul(x, K(0.693147180559945309417232))),   log2,        2.5,  "logarithm to base 2" )
UNARY(  log10,         F, same,  q_log10(x),         NEVER, 0,      grecip(gmul(x, K(2.302585092994045684017991))),   log10,       2.5,  "logarithm to base 10" )
UNARY(  sin,           F, same,  q_sin_main(x),      q_sin_rare(x), q_sin_slow(x), gcos(x),                           sin,         1.5,  "sine" )
UNARY(  cos,           F, same,  q_cos_main(x),      q_cos_rare(x), q_cos_slow(x), gneg(gsin(x)),                     cos,         1.5,  "cosine" )
UNARY(  tan,           F, same,  q_tan_main(x),      q_tan_rare(x), q_tan_slow(x), gplus(1, gmul(z, z)),              tan,         2.5,  "tangent" )
UNARY(  arcsin,        F, same,  q_arcsin(x),        NEVER, 0,      grecip(gsqrt(d_one_minus_sq(x))),                 arcsin,      2.5,  "inverse sine" )
UNARY(  arccos,        F, same,  q_arccos(x),        NEVER, 0,      gneg(grecip(gsqrt(d_one_minus_sq(x)))),           arccos,      2.5,  "inverse cosine" )
UNARY(  arctan,        F, same,  q_arctan(x),        NEVER, 0,      grecip(gplus(1, gmul(x, x))),                     arctan,      2.5,  "inverse tangent" )
UNARY(  sinh,          F, same,  q_sinh(x),          NEVER, 0,      gcosh(x),                                         sinh,        2.5,  "hyperbolic sine" )
UNARY(  cosh,          F, same,  q_cosh(x),          NEVER, 0,      gsinh(x),                                         cosh,        2.5,  "hyperbolic cosine" )
UNARY(  tanh,          F, same,  q_tanh(x),          NEVER, 0,      gminus(1, gmul(z, z)),                            tanh,        2.5,  "hyperbolic tangent" )
UNARY(  sigmoid,       F, same,  q_sigmoid(x),       NEVER, 0,      gmul(z, gsigmoid(gneg(x))),                       sigmoid,     2.5,  "1 / (1 + exp(-x)), computed without overflow" )
UNARY(  softplus,      F, same,  q_softplus(x),      NEVER, 0,      gsigmoid(x),                                      NONE,        2.5,  "log(1 + exp(x)), computed without overflow" )
UNARY(  arcsinh,       F, same,  q_arcsinh(x),       NEVER, 0,      grecip(ghypot(x, K(1))),                          arcsinh,     2.5,  "inverse hyperbolic sine; its derivative never overflows" )
UNARY(  arccosh,       F, same,  q_arccosh(x),       NEVER, 0,      grecip(d_arccosh(x)),                             arccosh,     2.5, "inverse hyperbolic cosine" )
UNARY(  arctanh,       F, same,  q_arctanh(x),       NEVER, 0,      grecip(d_one_minus_sq(x)),                        arctanh,     2.5,  "inverse hyperbolic tangent" )
UNARY(  erf,           F, same,  q_erf(x),           NEVER, 0,      d_erf(x),                                         erf,         2.5,  "error function" )
UNARY(  erfc,          F, same,  q_erfc(x),          NEVER, 0,      gneg(d_erf(x)),                                   NONE,        2.5,  "1 - erf(x) without cancellation" )

/*      name           arity  attrs                       doc */
STRUCT( input,         0,     "name",                     "an input of the program" )
STRUCT( constant,      0,     "value",                    "one value in every element, or a dense array" )
STRUCT( powi,          1,     "i",                        "x to a constant integer power >= 0, by repeated multiplication" )
STRUCT( cast,          1,     "",                         "convert to another dtype; to bool: nonzero and NaN are true" )
STRUCT( stop_gradient, 1,     "",                         "identity with zero derivative" )
STRUCT( where,         3,     "",                         "where(mask, a, b): elements of a where mask, of b elsewhere" )
STRUCT( broadcast,     1,     "",                         "same rank; axes of length 1 are repeated to the result's length" )
STRUCT( reshape,       1,     "",                         "same elements in row-major order, another shape" )
STRUCT( transpose,     1,     "axes",                     "result axis i is operand axis axes[i]" )
STRUCT( slice,         1,     "axis start length step",   "elements start + i step, i < length, along one axis; step is any nonzero integer" )
STRUCT( pad_slice,     1,     "axis start total step",    "the transpose of slice: zeros of `total` along axis, the operand at start + i step" )
STRUCT( concat,        -1,    "axis",                     "operands one after the other along an axis" )
STRUCT( sum,           1,     "axes",                     "sum over axes, in the fixed order of plan.h" )
STRUCT( mean,          1,     "axes",                     "sum over axes divided by their number of elements" )
STRUCT( max,           1,     "axes",                     "largest element over axes; NaN wins, -0 < +0" )
STRUCT( min,           1,     "axes",                     "smallest element over axes; NaN wins, -0 < +0" )
STRUCT( gather,        1,     "axis indices",             "elements along one axis at constant indices, which may repeat" )
STRUCT( scatter_add,   2,     "axis indices",             "the first operand with the second added along one axis at constant indices, in index order" )
STRUCT( cumsum,        1,     "axis reverse",             "running sum along one axis, from the end when reverse; every sum is rounded to the dtype" )
STRUCT( matmul,        2,     "",                         "[..., m, k] x [..., k, n] -> [..., m, n]; equal batch axes, fixed order of plan.h" )
STRUCT( cond,          -1,    "",                         "cond(pred, operands...): the results of the first body where pred, else of the second; only that one runs" )
STRUCT( scan,          -1,    "length reverse carries xs", "scan(carries..., xs..., captures...): the body `length` times; last carries, then its other results stacked" )
STRUCT( after,         2,     "",                         "x, but not before y is there: a plan orders its steps by it" )
STRUCT( instead,       2,     "",                         "x in place of y: the value of x, the derivative of y" )
STRUCT( checkpoint,    -1,    "",                         "its body; reverse mode computes it again and keeps nothing of it" )
STRUCT( custom_jvp,    -1,    "",                         "its first body; the second is its forward derivative, linear in the tangents" )
STRUCT( custom_vjp,    -1,    "",                         "its first body; the second gives results and residuals, the third cotangents from residuals and cotangents" )
STRUCT( while,         -1,    "carries max_steps",        "while(carries..., captures...): the second body while the first gives true, at most max_steps times (0: no bound)" )
/* clang-format on */
#undef UNARY
#undef BINARY
#undef STRUCT
