"""The numerical conventions, one named test each, in six modes.

A convention is a function, a point, and what must come out: the value, the gradient of the sum of the value, and the gradient of the
sum of that, the second order (None: it is beyond the range of the dtype). zeros: the sign of zeros counts. symmetric: the second
derivatives are, so that both ways to compute them must agree. The modes: eager, jit, jvp, vjp, vmap, second.
"""

import math
import re

import numpy as np
import pytest
import quabla as qb

NAN, INF = math.nan, math.inf
F32 = np.float32


class Convention:
    def __init__(self, name, fun, args, value, d, dd, dtype=np.float64, rtol=4e-16, zeros=False, symmetric=True):
        self.name, self.fun, self.rtol, self.zeros, self.symmetric = name, fun, rtol, zeros, symmetric
        self.args = [np.asarray(a, dtype) for a in args]
        self.value, self.dtype = value, dtype
        self.d = [np.asarray(v, dtype) for v in d]
        self.dd = None if dd is None else [np.asarray(v, dtype) for v in dd]

    def tensors(self):
        return [qb.array(a) for a in self.args]

    def check(self, got, want, what):
        got, want = np.asarray(got), np.asarray(want)
        rtol = max(self.rtol, 1.2e-7) if self.dtype is F32 else self.rtol
        np.testing.assert_allclose(got, want, rtol=rtol, atol=0, err_msg=f"{self.name}: {what}")
        if self.zeros and want.dtype != bool:
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want), err_msg=f"{self.name}: {what}, signs")


def c(name, fun, *args, **kwargs):
    return Convention(name, fun, args, **kwargs)


def two_branches(x):
    return qb.where(x < 1, x, qb.sqrt(x))


def gelu_exact(x):
    return qb.gelu(x, approximate=False)


def exact_gelu(x):
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


def tanh_gelu(x):
    """The tanh form as x s(2u), u = k (x + 0.044715 x^3), and its two derivatives, where s is small."""
    k = math.sqrt(2 / math.pi)
    u, u1, u2 = k * (x + 0.044715 * x**3), k * (1 + 3 * 0.044715 * x**2), k * 6 * 0.044715 * x
    s = 1 / (1 + math.exp(-2 * u))
    s1, s2 = s * (1 - s), s * (1 - s) * (1 - 2 * s)
    return x * s, s + x * s1 * 2 * u1, 2 * s1 * 2 * u1 + x * (s2 * (2 * u1) ** 2 + s1 * 2 * u2)


def var0(x):
    return qb.var(x)


def interp2(x):
    return qb.interp(x, [0.0, 1.0, 2.0], [0.0, 10.0, 40.0])


def sig(x):
    return 1 / (1 + math.exp(-x))


E = math.e
CONVENTIONS = [
    # nothing raises on a domain error
    c("log_of_zero_is_minus_infinity", qb.log, [0.0, -1.0], value=[-INF, NAN], d=[[INF, -1.0]], dd=[[-INF, -1.0]]),
    c("one_over_zero_is_infinity", lambda x: 1 / x, [0.0], value=[INF], d=[[-INF]], dd=[[INF]]),
    c("arcsin_outside_its_domain_is_nan", qb.arcsin, [2.0], value=[NAN], d=[[NAN]], dd=[[NAN]]),
    c("log1p_of_minus_one_is_minus_infinity", qb.log1p, [-1.0, 1e-20], value=[-INF, 1e-20], d=[[INF, 1.0]], dd=[[-INF, -1.0]]),
    c("expm1_is_accurate_near_zero", qb.expm1, [1e-20, -1e-20], value=[1e-20, -1e-20], d=[[1.0, 1.0]], dd=[[1.0, 1.0]]),
    # sqrt
    c("every_derivative_of_sqrt_at_zero_is_zero", qb.sqrt, [0.0, 4.0], value=[0.0, 2.0], d=[[0.0, 0.25]], dd=[[0.0, -1 / 32]]),
    c("sqrt_of_minus_zero_is_minus_zero", qb.sqrt, [-0.0], value=[-0.0], d=[[0.0]], dd=[[0.0]], zeros=True),
    c("sqrt_of_negatives_is_nan", qb.sqrt, [-1.0], value=[NAN], d=[[NAN]], dd=[[NAN]]),
    # powers
    c("pow_at_a_zero_base_has_no_derivative_below_exponent_one", qb.power, [0.0, 0.0], [0.5, -1.0], value=[0.0, INF],
      d=[[0, 0], [0, 0]], dd=[[0.0, 0.0]] * 2),
    c("pow_has_no_derivative_in_the_exponent_for_bases_up_to_zero", qb.power, [0.0, -2.0], [2.0, 2.0], value=[0.0, 4.0],
      d=[[0.0, -4.0], [0.0, 0.0]], symmetric=False, dd=[[2.0, 2.0], [0.0, -2.0]]),
    c("zero_to_the_zero_is_one", qb.power, [0.0], [0.0], value=[1.0], d=[[0.0], [0.0]], dd=[[0.0], [0.0]]),
    c("pow_has_both_partials", qb.power, [2.0], [3.0], value=[8.0], d=[[12.0], [8 * math.log(2)]], rtol=1e-15,
      dd=[[16 + 12 * math.log(2)], [4 + 12 * math.log(2) + 8 * math.log(2) ** 2]]),
    c("integer_powers_are_exact_products", lambda x: x**3, [0.0, -2.0, 1.1], value=[0.0, -8.0, 1.1 * (1.1 * 1.1)],
      d=[[0.0, 12.0, 3 * (1.1 * 1.1)]], dd=[[0.0, -12.0, 6 * 1.1]], rtol=5e-16),
    c("x_to_the_zero_is_one_everywhere", lambda x: x**0, [0.0, NAN], value=[1.0, 1.0], d=[[0.0, 0.0]], dd=[[0.0, 0.0]]),
    # quotients
    c("a_quotient_has_no_square_in_its_derivative", lambda x, y: x / y, [1e-25], [1e-25], value=[1.0], d=[[1e25], [-1e25]], dtype=F32,
      dd=None),
    c("a_quotient_of_second_order", lambda x, y: x / y, [1.0], [2.0], value=[0.5], d=[[0.5], [-0.25]], dd=[[-0.25], [0.0]]),
    # inverse and trigonometric functions
    c("tan_derivative_is_one_plus_tan_squared", qb.tan, [0.7], value=[math.tan(0.7)], d=[[1 + math.tan(0.7) ** 2]],
      dd=[[2 * math.tan(0.7) * (1 + math.tan(0.7) ** 2)]], rtol=1e-15),
    c("cbrt_derivative_at_zero_is_infinite", qb.cbrt, [0.0, 8.0], value=[0.0, 2.0], d=[[INF, 1 / 12]], dd=[[NAN, -1 / 144]]),
    c("arcsin_derivative_near_one_does_not_cancel", qb.arcsin, [1 - 2.0**-53], value=[math.asin(1 - 2.0**-53)],
      d=[[1 / math.sqrt(2.0**-53 * (2 - 2.0**-53))]], rtol=1e-15, dd=[[(1 - 2.0**-53) / (2.0**-53 * (2 - 2.0**-53)) ** 1.5]]),
    c("arctanh_derivative_near_one_does_not_cancel", qb.arctanh, [1 - 2.0**-53], value=[math.atanh(1 - 2.0**-53)],
      d=[[1 / (2.0**-53 * (2 - 2.0**-53))]], rtol=1e-15, dd=[[2 * (1 - 2.0**-53) / (2.0**-53 * (2 - 2.0**-53)) ** 2]]),
    c("arccos_derivative_near_one_does_not_cancel", qb.arccos, [1 - 2.0**-53], value=[math.acos(1 - 2.0**-53)],
      d=[[-1 / math.sqrt(2.0**-53 * (2 - 2.0**-53))]], dd=[[-(1 - 2.0**-53) / (2.0**-53 * (2 - 2.0**-53)) ** 1.5]], rtol=1e-15),
    c("arccosh_derivative_has_two_roots", qb.arccosh, [1.0, 3.0], value=[0.0, math.acosh(3)], d=[[INF, 1 / math.sqrt(8)]], rtol=1e-15,
      dd=[[NAN, -3 / 8**1.5]]),
    c("arcsinh_derivative_does_not_overflow", qb.arcsinh, [1e200, 0.0], value=[math.asinh(1e200), 0.0], d=[[1e-200, 1.0]],
      dd=[[0.0, 0.0]], rtol=1e-15),
    c("arctan_derivative", qb.arctan, [0.0, 2.0], value=[0.0, math.atan(2)], d=[[1.0, 0.2]], dd=[[0.0, -4 / 25]], rtol=1e-15),
    c("erf_derivative", qb.erf, [0.0, 1.0], value=[0.0, math.erf(1)], d=[[2 / math.sqrt(math.pi), 2 / math.sqrt(math.pi) / E]],
      dd=[[0.0, -4 / math.sqrt(math.pi) / E]], rtol=1e-15),
    c("erfc_does_not_cancel", qb.erfc, [10.0], value=[math.erfc(10)], d=[[-2 / math.sqrt(math.pi) * math.exp(-100)]], rtol=1e-15,
      dd=[[40 / math.sqrt(math.pi) * math.exp(-100)]]),
    c("exp2_is_exact_for_integers", qb.exp2, [-1074.0, 3.0, 1023.0], value=[5e-324, 8.0, 2.0**1023],
      d=[[5e-324, 8 * math.log(2), 2.0**1023 * math.log(2)]], dd=[[5e-324, 8 * math.log(2) ** 2, 2.0**1023 * math.log(2) ** 2]]),
    # atan2
    c("atan2_has_no_derivative_at_the_origin", qb.atan2, [0.0], [0.0], value=[0.0], d=[[0.0], [0.0]], dd=[[0.0], [0.0]]),
    c("atan2_has_no_derivative_at_infinity", qb.atan2, [INF, 1.0], [1.0, INF], value=[math.pi / 2, 0.0], d=[[0, 0], [0, 0]],
      dd=[[0, 0], [0, 0]]),
    c("atan2_of_two_infinities_has_no_derivative", qb.atan2, [INF, INF], [INF, -INF], value=[math.pi / 4, 3 * math.pi / 4],
      d=[[0.0, 0.0]] * 2, dd=[[0.0, 0.0]] * 2),
    c("atan2_of_nan_is_nan", qb.atan2, [NAN], [1.0], value=[NAN], d=[[NAN], [NAN]], dd=[[NAN], [NAN]]),
    c("atan2_partials_are_scaled", qb.atan2, [1e-200, 1e200], [1e-200, 1e200], value=[math.pi / 4] * 2,
      d=[[0.5e200, 0.5e-200], [-0.5e200, -0.5e-200]], rtol=1e-15, dd=[[-INF, 0.0], [INF, 0.0]]),
    # maximum, minimum, clip
    c("maximum_at_a_tie_is_the_right_operand", qb.maximum, [2.0], [2.0], value=[2.0], d=[[0.0], [1.0]], dd=[[0.0], [0.0]]),
    c("minimum_at_a_tie_is_the_right_operand", qb.minimum, [2.0], [2.0], value=[2.0], d=[[0.0], [1.0]], dd=[[0.0], [0.0]]),
    c("maximum_at_a_tie_of_zeros_has_the_right_sign", qb.maximum, [-0.0, 0.0], [0.0, -0.0], value=[0.0, -0.0], zeros=True,
      d=[[0.0, 0.0], [1.0, 1.0]], dd=[[0.0, 0.0]] * 2),
    c("minimum_at_a_tie_of_zeros_has_the_right_sign", qb.minimum, [-0.0, 0.0], [0.0, -0.0], value=[0.0, -0.0], zeros=True,
      d=[[0.0, 0.0], [1.0, 1.0]], dd=[[0.0, 0.0]] * 2),
    c("nan_from_either_side_is_the_maximum", qb.maximum, [NAN, 1.0], [1.0, NAN], value=[NAN, NAN], d=[[1.0, 0.0], [0.0, 1.0]],
      dd=[[0.0, 0.0]] * 2),
    c("nan_from_either_side_is_the_minimum", qb.minimum, [NAN, 1.0], [1.0, NAN], value=[NAN, NAN], d=[[1.0, 0.0], [0.0, 1.0]],
      dd=[[0.0, 0.0]] * 2),
    c("relu_has_derivative_zero_at_zero", qb.relu, [0.0, -1.0, 2.0, NAN], value=[0.0, 0.0, 2.0, NAN], d=[[0.0, 0.0, 1.0, 1.0]],
      dd=[[0.0] * 4]),
    c("clip_gives_the_derivative_to_the_bound", qb.clip, [1.0, 3.0, 2.0], [1.0] * 3, [3.0] * 3, value=[1.0, 3.0, 2.0],
      d=[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dd=[[0.0] * 3] * 3),
    c("clip_with_crossed_bounds_is_the_upper_one", qb.clip, [0.0, 9.0], [5.0, 5.0], [2.0, 2.0], value=[2.0, 2.0],
      d=[[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]], dd=[[0.0, 0.0]] * 3),
    c("clip_with_a_nan_bound_is_nan", qb.clip, [1.0, 1.0], [NAN, 0.0], [2.0, NAN], value=[NAN, NAN],
      d=[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dd=[[0.0, 0.0]] * 3),
    c("max_shares_its_derivative_between_ties", qb.max, [3.0, 1.0, 3.0], value=3.0, d=[[0.5, 0.0, 0.5]], dd=[[0.0] * 3]),
    c("min_shares_its_derivative_between_ties", qb.min, [1.0, 1.0, 3.0], value=1.0, d=[[0.5, 0.5, 0.0]], dd=[[0.0] * 3]),
    c("nan_is_the_max", qb.max, [1.0, NAN, 3.0], value=NAN, d=[[NAN] * 3], dd=[[0.0] * 3]),
    c("nan_is_the_min", qb.min, [1.0, NAN, 3.0], value=NAN, d=[[NAN] * 3], dd=[[0.0] * 3]),
    c("max_orders_zeros", qb.max, [-0.0, 0.0, -0.0], value=0.0, zeros=True, d=[[1 / 3] * 3], dd=[[0.0] * 3]),
    c("min_orders_zeros", qb.min, [0.0, -0.0, 0.0], value=-0.0, zeros=True, d=[[1 / 3] * 3], dd=[[0.0] * 3]),
    # where
    c("where_needs_no_inner_guard", two_branches, [0.0, 4.0], value=[0.0, 2.0], d=[[1.0, 0.25]], dd=[[0.0, -1 / 32]]),
    c("where_does_not_leak_infinities", lambda x: qb.where(x > 0, qb.log(x), 0.0), [0.0, 2.0], value=[0.0, math.log(2)],
      d=[[0.0, 0.5]], dd=[[0.0, -0.25]]),
    c("where_does_not_leak_through_shapes", lambda x: qb.where(qb.reshape(x, (2, 1)) > 0, qb.reshape(1 / x, (2, 1)), 0.0), [0.0, 2.0],
      value=[[0.0], [0.5]], d=[[0.0, -0.25]], dd=[[0.0, 0.25]]),
    c("where_has_no_derivative_through_its_predicate", lambda x: qb.where(x > 1, 2.0, 3.0), [0.5, 1.5], value=[3.0, 2.0],
      d=[[0.0, 0.0]], dd=[[0.0, 0.0]]),
    # steps
    c("sign_has_no_derivative", qb.sign, [-2.0, -0.0, 0.0, 3.0, NAN], value=[-1.0, 0.0, 0.0, 1.0, NAN], d=[[0.0] * 5], zeros=True,
      dd=[[0.0] * 5]),
    c("floor_has_no_derivative", qb.floor, [1.0, -1.5], value=[1.0, -2.0], d=[[0.0, 0.0]], dd=[[0.0, 0.0]]),
    c("ceil_has_no_derivative", qb.ceil, [1.0, -1.5], value=[1.0, -1.0], d=[[0.0, 0.0]], dd=[[0.0, 0.0]]),
    c("round_goes_to_even_and_has_no_derivative", qb.round, [0.5, 1.5, 2.5], value=[0.0, 2.0, 2.0], d=[[0.0] * 3], dd=[[0.0] * 3]),
    c("abs_has_derivative_zero_at_zero", qb.abs, [-2.0, 0.0, 3.0], value=[2.0, 0.0, 3.0], d=[[-1.0, 0.0, 1.0]], dd=[[0.0] * 3]),
    # remainders
    c("fmod_has_the_sign_of_x_and_is_exact", qb.fmod, [-7.5, 7.5, 1e300], [2.0, -2.0, 3.0], value=[-1.5, 1.5, math.fmod(1e300, 3)],
      d=[[1.0] * 3, [3.0, 3.0, -np.trunc(1e300 / 3)]], dd=[[0.0] * 3] * 2),
    c("mod_has_the_sign_of_the_divisor", qb.mod, [-7.5, 7.5, 7.5], [2.0, -2.0, 2.0], value=[0.5, -0.5, 1.5],
      d=[[1.0] * 3, [4.0, 4.0, -3.0]], dd=[[0.0] * 3] * 2),
    c("mod_is_exact_where_a_quotient_is_not", qb.mod, [1e18], [3.0], value=[math.fmod(1e18, 3)], d=[[1.0], [-np.floor(1e18 / 3)]],
      dd=[[0.0], [0.0]]),
    c("a_zero_mod_has_the_sign_of_the_divisor", qb.mod, [4.0, -4.0, 4.0, -0.0], [2.0, 2.0, -2.0, 2.0], value=[0.0, 0.0, -0.0, 0.0],
      zeros=True, d=[[1.0] * 4, [-2.0, 2.0, 2.0, 0.0]], dd=[[0.0] * 4] * 2),
    c("mod_by_infinity", qb.mod, [1.0, -1.0], [INF, INF], value=[1.0, INF], d=[[1.0, 1.0], [0.0, 1.0]], dd=[[0.0, 0.0]] * 2),
    # activations
    c("sigmoid_does_not_overflow", qb.sigmoid, [-1000.0, 0.0, 1000.0], value=[0.0, 0.5, 1.0], d=[[0.0, 0.25, 0.0]], dd=[[0.0] * 3]),
    c("sigmoid_of_negatives_keeps_its_relative_accuracy", qb.sigmoid, [-40.0], value=[math.exp(-40)], d=[[math.exp(-40)]],
      dd=[[math.exp(-40)]], rtol=1e-15),
    c("derivatives_of_sigmoid_keep_their_relative_accuracy_in_both_tails", qb.sigmoid, [40.0, -700.0],
      value=[1.0, math.exp(-700)], d=[[math.exp(-40), math.exp(-700)]], dd=[[-math.exp(-40), math.exp(-700)]], rtol=1e-14),
    c("softplus_does_not_overflow", qb.softplus, [-1000.0, 0.0, 1000.0], value=[0.0, math.log(2), 1000.0], d=[[0.0, 0.5, 1.0]],
      dd=[[0.0, 0.25, 0.0]]),
    c("softplus_of_minus_20_in_float32", qb.softplus, [-20.0], value=[F32(2.0611537e-9)], d=[[F32(2.0611537e-9)]], dtype=F32,
      dd=[[F32(2.0611537e-9)]]),
    c("silu_at_zero", qb.silu, [0.0, 1.0], value=[0.0, sig(1)], d=[[0.5, sig(1) * (2 - sig(1))]],
      dd=[[0.5, sig(1) * (1 - sig(1)) * (2 + 1 - 2 * sig(1))]], rtol=1e-15),
    c("gelu_keeps_its_negative_tail", gelu_exact, [-10.0, 0.0], value=[exact_gelu(-10), 0.0],
      d=[[exact_gelu(-10) / -10 - 10 * math.exp(-50) / math.sqrt(2 * math.pi), 0.5]], rtol=1e-13,
      dd=[[(2 - 100) * math.exp(-50) / math.sqrt(2 * math.pi), 2 / math.sqrt(2 * math.pi)]]),
    c("gelu_in_its_tanh_form_keeps_its_negative_tail", qb.gelu, [-6.0, 0.0], value=[tanh_gelu(-6.0)[0], 0.0],
      d=[[tanh_gelu(-6.0)[1], 0.5]], dd=[[tanh_gelu(-6.0)[2], math.sqrt(8 / math.pi) / 2]], rtol=1e-12),
    c("softmax_subtracts_the_largest", qb.softmax, [1000.0, 0.0], value=[1.0, 0.0], d=[[0.0, 0.0]], dd=[[0.0, 0.0]], dtype=F32),
    c("softmax_of_all_minus_infinity_is_nan", qb.softmax, [-INF, -INF], value=[NAN, NAN], d=[[NAN, NAN]], dd=[[NAN, NAN]]),
    c("log_softmax_is_finite", qb.log_softmax, [1000.0, 0.0], value=[0.0, -1000.0], d=[[-1.0, 1.0]], dd=[[0.0, 0.0]], dtype=F32),
    c("logsumexp_is_finite", qb.logsumexp, [1000.0, 1000.0], value=1000 + math.log(2), d=[[0.5, 0.5]], dd=[[0.0, 0.0]]),
    c("logsumexp_of_minus_infinities", qb.logsumexp, [-INF, -INF], value=-INF, d=[[NAN, NAN]], dd=[[NAN, NAN]]),
    c("logsumexp_of_infinity", qb.logsumexp, [INF, 0.0], value=INF, d=[[NAN, 0.0]], dd=[[NAN, NAN]]),
    c("logaddexp_splits_evenly_at_ties", qb.logaddexp, [3.0], [3.0], value=[3 + math.log(2)], d=[[0.5], [0.5]], dd=[[0.0], [0.0]]),
    c("logaddexp_of_infinities", qb.logaddexp, [-INF, INF, INF], [-INF, INF, 0.0], value=[-INF, INF, INF],
      d=[[0.5, 0.5, 1.0], [0.5, 0.5, 0.0]], dd=[[0.0] * 3] * 2),
    c("logaddexp_does_not_overflow", qb.logaddexp, [1000.0], [0.0], value=[1000.0], d=[[1.0], [0.0]], dd=[[0.0], [0.0]]),
    # statistics
    c("var_is_computed_in_two_passes", var0, 1e8 + np.array([1.0, 2.0, 3.0]), value=2 / 3, d=[[-2 / 3, 0.0, 2 / 3]], rtol=0,
      dd=[[0.0] * 3]),
    c("var_without_freedom_is_infinite", lambda x: qb.var(x, ddof=3), [1.0, 2.0, 3.0], value=INF, d=[[NAN] * 3], dd=[[NAN] * 3]),
    c("var_of_one_element_less_one_is_nan", lambda x: qb.var(x, ddof=1), [1.0], value=NAN, d=[[NAN]], dd=[[NAN]]),
    c("std_has_derivative_zero_at_zero_variance", qb.std, [2.0, 2.0, 2.0], value=0.0, d=[[0.0] * 3], dd=[[0.0] * 3]),
    c("norm_does_not_overflow_in_float32", qb.norm, [1e20, 1e20], value=F32(1.4142136e20), d=[[0.70710677, 0.70710677]], dd=[[0.0, 0.0]], dtype=F32),
    c("norm_does_not_underflow", qb.norm, [3e-200, 4e-200], value=5e-200, d=[[0.6, 0.8]], rtol=1e-15, dd=[[3.2e198, -2.4e198]]),
    c("norm_at_zero_has_derivative_zero", qb.norm, [0.0, 0.0], value=0.0, d=[[0.0, 0.0]], dd=[[0.0, 0.0]]),
    c("norm_of_nan_is_nan", qb.norm, [NAN, 1.0], value=NAN, d=[[NAN, NAN]], dd=[[NAN, NAN]]),
    c("norm_of_infinity_is_infinite", qb.norm, [INF, 1.0], value=INF, d=[[NAN, 0.0]], dd=[[NAN, NAN]]),
    c("hypot_at_the_origin_has_derivative_zero", qb.hypot, [0.0], [0.0], value=[0.0], d=[[0.0], [0.0]], dd=[[0.0], [0.0]]),
    c("hypot_does_not_overflow", qb.hypot, [3e200], [4e200], value=[5e200], d=[[0.6], [0.8]], rtol=4e-15, dd=[[3.2e-202], [-2.4e-202]]),
    c("hypot_of_infinity_and_nan_is_infinite", qb.hypot, [INF, NAN], [NAN, -INF], value=[INF, INF], d=[[NAN, NAN]] * 2,
      dd=[[NAN, NAN]] * 2),
    c("prod_has_exact_gradients_with_one_zero", qb.prod, [0.0, 2.0, 3.0], value=0.0, d=[[6.0, 0.0, 0.0]], dd=[[5.0, 3.0, 2.0]]),
    c("prod_has_exact_gradients_with_two_zeros", qb.prod, [0.0, 0.0, 3.0], value=0.0, d=[[0.0] * 3], dd=[[3.0, 3.0, 0.0]]),
    c("cumsum_rounds_every_sum", qb.cumsum, [1e8, 1.0, 1.0, 1.0, 1.0], value=[1e8] * 5, d=[[5.0, 4.0, 3.0, 2.0, 1.0]], dd=[[0.0] * 5], dtype=F32),
    c("cumsum_in_reverse", lambda x: qb.cumsum(x, reverse=True), [1.0, 2.0, 3.0], value=[6.0, 5.0, 3.0], d=[[1.0, 2.0, 3.0]], dd=[[0.0] * 3]),
    c("sums_of_float32_are_float64_inside", lambda x: qb.sum(x), [1e8, 1.0, -1e8], value=1.0, d=[[1.0] * 3], dtype=F32, dd=[[0.0] * 3]),
    c("dot_of_float32_is_float64_inside", lambda x: qb.dot(x, np.ones(3, F32)), [1e8, 1.0, -1e8], value=1.0, d=[[1.0] * 3], dtype=F32,
      dd=[[0.0] * 3]),
    # differences and integrals
    c("diff_has_prepend_and_append", lambda x: qb.diff(x**2, prepend=1.0, append=[0.0, 5.0]), [2.0, 3.0], value=[3.0, 5.0, -9.0, 5.0],
      d=[[0.0, 0.0]], dd=[[0.0, 0.0]]),
    c("diff_of_second_order", lambda x: qb.diff(x**2, 2), [1.0, 2.0, 4.0], value=[9.0], d=[[2.0, -8.0, 8.0]], dd=[[2.0, -4.0, 2.0]]),
    c("trapezoid_takes_points", lambda y, x: qb.trapezoid(y**2, x), [1.0, 2.0], [0.0, 3.0], value=7.5, d=[[3.0, 6.0], [-2.5, 2.5]],
      dd=[[3.0, 3.0], [-3.0, 3.0]]),
    c("trapezoid_takes_a_step", lambda y, h: qb.trapezoid(y**2, dx=h), [1.0, 2.0], 3.0, value=7.5, d=[[3.0, 6.0], 2.5], dd=[[4.0, 5.0], 3.0]),
    # replacing and interpolating
    c("nan_to_num_replaces_by_the_finite_limits", qb.nan_to_num, [NAN, INF, -INF, 2.0],
      value=[0.0, np.finfo(F32).max, np.finfo(F32).min, 2.0], d=[[0.0, 0.0, 0.0, 1.0]], dd=[[0.0] * 4], dtype=F32),
    c("nan_to_num_in_float64", qb.nan_to_num, [INF, -INF], value=[np.finfo(float).max, np.finfo(float).min], d=[[0.0, 0.0]],
      dd=[[0.0, 0.0]]),
    c("interp_is_exact_at_knots_with_the_right_slope", interp2, [0.0, 1.0, 2.0, 0.5], value=[0.0, 10.0, 40.0, 5.0], d=[[10.0, 30.0, 0.0, 10.0]],
      dd=[[0.0] * 4]),
    c("interp_outside_is_constant", interp2, [-1.0, 3.0, NAN], value=[0.0, 40.0, NAN], d=[[0.0, 0.0, 1.0]], dd=[[0.0] * 3]),
    c("interp_is_differentiable_in_knots_and_values", lambda xp, fp: qb.interp([0.25], xp, fp), [0.0, 1.0], [2.0, 6.0], value=[3.0],
      d=[[-3.0, -1.0], [0.75, 0.25]], dd=[[-4.0, 4.0], [1.0, -1.0]]),
    c("polyval_is_horners_rule", qb.polyval, [1.0, 0.0, -1.0], [2.0, 3.0], value=[3.0, 8.0], d=[[13.0, 5.0, 2.0], [4.0, 6.0]],
      dd=[[10.0, 2.0, 0.0], [7.0, 9.0]]),
    c("stop_gradient_is_the_identity", lambda x: x * qb.stop_gradient(x), [3.0], value=[9.0], d=[[3.0]], dd=[[0.0]]),
]  # fmt: skip

assert len({v.name for v in CONVENTIONS}) == len(CONVENTIONS)
assert [v.name for v in CONVENTIONS if v.dd is None] == ["a_quotient_has_no_square_in_its_derivative"]
named = pytest.mark.parametrize("v", CONVENTIONS, ids=lambda v: v.name)


def bits(x):
    return [(t.dtype, t.shape, bytes(memoryview(t).cast("B"))) for t in (x if isinstance(x, (tuple, list)) else [x])]


def alike(xs):
    """The bits, where every NaN is one."""
    return bits([qb.where(qb.isnan(x), NAN, x) for x in xs])


def total(f):
    return lambda *args: qb.sum(f(*args))


def gradients(f, n):
    """The gradients in all n arguments, of the sum of f."""
    return qb.grad(total(f), argnums=tuple(range(n)))


def sum_of_gradients(f, n):
    def g(*args):
        parts = [qb.sum(p) for p in gradients(f, n)(*args)]
        return sum(parts[1:], parts[0])

    return g


@named
def test_eager(v):
    v.check(v.fun(*v.tensors()), np.asarray(v.value, v.dtype), "value")


@named
def test_jit(v):
    assert bits(qb.jit(v.fun)(*v.tensors())) == bits(v.fun(*v.tensors()))


@named
def test_jvp(v):
    args = v.tensors()
    rtol = 1e-6 if v.dtype is F32 else max(8 * v.rtol, 4e-15)
    for k, want in enumerate(v.d):
        ones = tuple(qb.ones_like(a) if i == k else qb.zeros_like(a) for i, a in enumerate(args))
        out, _ = qb.jvp(v.fun, tuple(args), ones)
        v.check(out, np.asarray(v.value, v.dtype), "value beside a tangent")
        got = np.asarray(qb.jvp(total(v.fun), tuple(args), ones)[1], float)
        np.testing.assert_allclose(got, want.astype(float).sum(), rtol=rtol, err_msg=v.name)
        assert bits(qb.jit(lambda ones: qb.jvp(v.fun, tuple(args), ones)[1])(ones)) == bits(
            qb.jvp(v.fun, tuple(args), ones)[1]
        )


@named
def test_vjp(v):
    args = v.tensors()
    out, pull = qb.vjp(v.fun, *args)
    v.check(out, np.asarray(v.value, v.dtype), "value beside a pullback")
    for got, want, g in zip(pull(qb.ones_like(out)), v.d, gradients(v.fun, len(args))(*args)):
        v.check(got, want, "vjp")
        v.check(g, want, "grad")
    assert bits(qb.jit(gradients(v.fun, len(args)))(*args)) == bits(gradients(v.fun, len(args))(*args))


@named
def test_vmap(v):
    args = v.tensors()
    batch = [qb.stack([a, a * 0 + 0.5, a]) for a in args]
    out = qb.vmap(v.fun)(*batch)
    assert bits(out[0]) == bits(out[2]) == bits(v.fun(*args))
    for got, want in zip(qb.vmap(gradients(v.fun, len(args)))(*batch), gradients(v.fun, len(args))(*args)):
        assert bits(got[0]) == bits(got[2]) == bits(want)


@named
def test_second(v):
    args, n = v.tensors(), len(v.args)
    second = qb.grad(sum_of_gradients(v.fun, n), argnums=tuple(range(n)))
    reverse = second(*args)
    assert bits(qb.jit(second)(*args)) == bits(reverse)
    assert alike([g[1] for g in qb.vmap(second)(*[qb.stack([a, a]) for a in args])]) == alike(reverse)
    if v.dd is None:
        return
    for got, want in zip(reverse, v.dd):
        v.check(got, want, "second order")
    ones = tuple(qb.ones_like(a) for a in args)
    forward = qb.jvp(gradients(v.fun, n), tuple(args), ones)[1]
    for a, b in zip(reverse, forward):
        if v.symmetric:
            np.testing.assert_allclose(
                np.asarray(a, float), np.asarray(b, float), rtol=1e-6, atol=1e-300, err_msg=v.name
            )


# ---- what no table of points holds ----


@pytest.mark.parametrize("f, x", [(qb.sqrt, 0.0), (lambda x: qb.atan2(x, x), 0.0), (lambda x: qb.atan2(x, 1.0), INF), (lambda x: qb.norm(qb.stack([x, x])), 0.0),
                                  (lambda x: qb.hypot(x, x), 0.0)], ids=["sqrt", "atan2", "atan2_inf", "norm", "hypot"])  # fmt: skip
def test_every_order_is_zero_at_the_point(f, x):
    for order in range(1, 5):
        f = qb.grad(f)
        assert float(f(x)) == 0.0 == float(qb.jit(f)(qb.array(x))), order
        assert qb.vmap(f)(qb.array([x, x])).tolist() == [0.0, 0.0]


def test_where_does_not_leak_at_any_order():
    def f(x):
        return qb.where(x < 1, x * x * x, qb.sqrt(x) + qb.log(x) + 1 / x)

    for order, want in enumerate([0.0, 0.0, 0.0, 6.0, 0.0]):
        assert float(f(qb.array(0.0))) == want == float(qb.jit(f)(qb.array(0.0))), order
        forward = qb.jvp(f, (qb.array(0.0),), (qb.array(1.0),))[1]
        f = qb.grad(f)
        assert float(forward) == float(f(0.0))


def test_nan_compares_false_except_for_not_equal():
    x, y = qb.array([NAN, 1.0, NAN]), qb.array([1.0, NAN, NAN])
    for f in (qb.less, qb.less_equal, qb.greater, qb.greater_equal, qb.equal):
        assert f(x, y).tolist() == qb.jit(f)(x, y).tolist() == [False] * 3
    assert qb.not_equal(x, y).tolist() == qb.vmap(qb.not_equal)(x, y).tolist() == [True] * 3


def test_prod_is_a_tree_of_products_in_every_order():
    f = qb.prod
    for _ in range(3):
        ops = set(re.findall(r" = (\w+)\(", qb.jit(f).lower(qb.ones((5,))).as_text()))
        assert "mul" in ops and not ops & {"div", "log", "exp", "pow"}
        f = qb.grad(lambda x, f=f: qb.sum(f(x)))


def test_mod_has_no_quotient_in_its_value():
    ops = set(re.findall(r" = (\w+)\(", qb.jit(qb.mod).lower(qb.ones((3,)), qb.ones((3,))).as_text()))
    assert "fmod" in ops and not ops & {"div", "floor", "floor_divide"}
