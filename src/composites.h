/* The composites: functions that are no ops. qb_apply and qb_eager take them as they take ops, and compose.c emits a few ops for
   each: derivatives, batching and backends follow from those. One that runs eagerly is one compiled plan. Includes nothing.
     form   ELEMENT: elementwise, operands are promoted and broadcast. TEST: the same, to bool. REDUCE: over axes, with keepdims.
            AXIS: along axis i
     arity  number of operands */
/* clang-format off */
#ifndef COMPOSITE
#define COMPOSITE(name, form, arity, doc)
#endif
/*         name          form     arity  doc */
COMPOSITE( square,       ELEMENT, 1,     "x times x" )
COMPOSITE( reciprocal,   ELEMENT, 1,     "1 / x" )
COMPOSITE( relu,         ELEMENT, 1,     "x where positive, else 0; derivative 0 at 0" )
COMPOSITE( silu,         ELEMENT, 1,     "x times sigmoid(x)" )
COMPOSITE( gelu,         ELEMENT, 1,     "x times the normal distribution function of x; approximate: its tanh form" )
COMPOSITE( isfinite,     TEST,    1,     "neither infinite nor NaN" )
COMPOSITE( isnan,        TEST,    1,     "NaN" )
COMPOSITE( isinf,        TEST,    1,     "infinite, of either sign" )
COMPOSITE( maximum,      ELEMENT, 2,     "the larger one; NaN wins, at a tie value and derivative are those of x2" )
COMPOSITE( minimum,      ELEMENT, 2,     "the smaller one; NaN wins, at a tie value and derivative are those of x2" )
COMPOSITE( mod,          ELEMENT, 2,     "remainder with the sign of x2, exact where fmod is" )
COMPOSITE( remainder,    ELEMENT, 2,     "the same as mod" )
COMPOSITE( floor_divide, ELEMENT, 2,     "largest integer not above the quotient; derivative 0" )
COMPOSITE( logaddexp,    ELEMENT, 2,     "log(exp(x1) + exp(x2)), computed without overflow" )
COMPOSITE( clip,         ELEMENT, 3,     "x between two bounds; at a bound the derivative is that of the bound" )
COMPOSITE( nan_to_num,   ELEMENT, 4,     "x with NaN, inf and -inf replaced; derivative 0 there" )
COMPOSITE( prod,         REDUCE,  1,     "product, as a tree of pairs" )
COMPOSITE( any,          REDUCE,  1,     "is an element true (nonzero or NaN)?" )
COMPOSITE( all,          REDUCE,  1,     "are all elements true (nonzero or NaN)?" )
COMPOSITE( norm,         REDUCE,  1,     "square root of the sum of squares, computed without overflow; derivative 0 at 0" )
COMPOSITE( var,          REDUCE,  1,     "mean squared distance from the mean, in two passes; the divisor is the count less ddof" )
COMPOSITE( std,          REDUCE,  1,     "square root of var; derivative 0 where that is 0" )
COMPOSITE( logsumexp,    REDUCE,  1,     "log of the sum of exponentials, computed without overflow" )
COMPOSITE( softmax,      AXIS,    1,     "exponentials divided by their sum along one axis" )
COMPOSITE( log_softmax,  AXIS,    1,     "logarithm of softmax, computed without overflow" )
/* clang-format on */
#undef COMPOSITE
