"""custom_vjp, custom_jvp, checkpoint: functions that bring their own derivative.

Outside a trace each just calls the function. Inside, the function and its rules are traced, and become one node that the transforms
splice; see src/ops/custom.c.
"""

import functools
import threading

from . import _core

__all__ = ["checkpoint", "custom_jvp", "custom_vjp", "remat"]

_inside = threading.local()


class _WithRule:
    """A function and what stands for its derivative. `_nondiff`: positions of arguments that are plain Python values."""

    _kind = ""

    def __init__(self, fun, nondiff_argnums=()):
        if not callable(fun):
            raise TypeError(f"{self._kind} takes a function, not {fun!r}")
        numbers = (nondiff_argnums,) if type(nondiff_argnums) is int else nondiff_argnums
        if not isinstance(numbers, (tuple, list)) or not all(type(i) is int for i in numbers):
            raise TypeError(f"{self._kind}: argument numbers are an int or a tuple of ints, not {nondiff_argnums!r}")
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._nondiff = tuple(numbers)
        self._name = getattr(fun, "__qualname__", None) or repr(fun)

    def __repr__(self):
        return f"{self._kind}({self._name})"

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if kwargs:
            raise TypeError(f"{self!r} takes positional arguments only, not {', '.join(map(repr, kwargs))}")
        active = _inside.__dict__.setdefault("functions", set())
        if not _core._tracing() or id(self) in active:
            return self._fun(*args)
        fixed, free = self._split(args)

        def with_fixed(f):
            """f of the free arguments, within which a call of this function is a call of the plain one."""

            def call(*free_args):
                merged = list(args)
                for i, x in zip(free, free_args):
                    merged[i] = x
                active.add(id(self))
                try:
                    return f(*merged)
                finally:
                    active.discard(id(self))

            return call

        def with_rule(f):
            """f(*fixed values, a, b)."""

            def call(a, b):
                active.add(id(self))
                try:
                    return f(*(args[i] for i in fixed), a, b)
                finally:
                    active.discard(id(self))

            return call

        return self._trace(with_fixed, with_rule, tuple(args[i] for i in free))

    def _split(self, args):
        fixed = []
        for given in self._nondiff:
            i = given + len(args) if given < 0 else given
            if not 0 <= i < len(args):
                raise ValueError(f"{self!r}: argument number {given} is out of range; it was called with {len(args)}")
            if any(isinstance(x, _core.TraceTensor) for x in _core.tree.leaves(args[i])):
                raise TypeError(
                    f"{self!r}: argument {i} is set to be a plain Python value, and holds a TraceTensor;"
                    " leave it out of the argument numbers"
                )
            fixed.append(i)
        return sorted(set(fixed)), [i for i in range(len(args)) if i not in fixed]


class custom_vjp(_WithRule):
    """A function with a reverse-mode rule of its own: f = custom_vjp(fun), then f.defvjp(fwd, bwd). Usable as a decorator.

    fwd(*args) returns (out, residuals): what fun returns, and any pytree that bwd needs. bwd(residuals, ct) gets the cotangent of the
    output and returns a tuple with the cotangent of each argument, in its structure, shapes and dtypes; None is zeros. Arguments
    numbered in nondiff_argnums are plain Python values: fun and fwd get them in their places, bwd first, and they have no cotangent.

    Higher derivatives differentiate fwd and bwd. Forward mode (jvp) is a ValueError. vmap batches the rules. Results are floating
    arrays. Nothing here may close over traced values: pass them as arguments. Inside its own rules a call of f is a call of fun.

    >>> @qb.custom_vjp
    ... def log1pexp(x):
    ...     return qb.log(1.0 + qb.exp(x))
    >>> log1pexp.defvjp(lambda x: (log1pexp(x), x), lambda x, ct: (ct * qb.sigmoid(x) if hasattr(qb, "sigmoid") else ct / (1.0 + qb.exp(-x)),))
    >>> qb.grad(log1pexp)(1000.0).item()
    1.0
    """

    _kind = "custom_vjp"

    def __init__(self, fun, nondiff_argnums=()):
        super().__init__(fun, nondiff_argnums)
        self._fwd = self._bwd = None

    def defvjp(self, fwd, bwd):
        """Set the rule. Returns None."""
        if not callable(fwd) or not callable(bwd):
            raise TypeError(f"{self!r}.defvjp takes two functions, fwd and bwd")
        self._fwd, self._bwd = fwd, bwd

    def _trace(self, with_fixed, with_rule, args):
        if self._fwd is None:
            raise AttributeError(f"{self!r} has no rule yet; call defvjp(fwd, bwd) first")
        return _core._custom_vjp(self._name, with_fixed(self._fun), with_fixed(self._fwd), with_rule(self._bwd), args)


class custom_jvp(_WithRule):
    """A function with a forward-mode rule of its own: f = custom_jvp(fun), then f.defjvp(rule). Usable as a decorator.

    rule(primals, tangents) gets two tuples and returns (out, tangent_out), both like what fun returns. tangent_out is linear in the
    tangents, so its transpose serves reverse mode; a rule that is not linear is a ValueError. The value of f is always that of
    fun; higher derivatives differentiate the rule. Arguments numbered in nondiff_argnums are plain Python values: fun gets them in their
    places, the rule first. Results, closures and vmap are as in custom_vjp.

    >>> @qb.custom_jvp
    ... def safe_sqrt(x):
    ...     return qb.sqrt(x)
    >>> @safe_sqrt.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     y = safe_sqrt(x)
    ...     return y, t * 0.5 / qb.where(y > 0.1, y, 0.1)
    >>> qb.grad(safe_sqrt)(0.0).item(), qb.grad(safe_sqrt)(4.0).item()
    (5.0, 0.25)
    """

    _kind = "custom_jvp"

    def __init__(self, fun, nondiff_argnums=()):
        super().__init__(fun, nondiff_argnums)
        self._rule = None

    def defjvp(self, rule):
        """Set the rule. Returns it, so that this is a decorator."""
        if not callable(rule):
            raise TypeError(f"{self!r}.defjvp takes a function, not {rule!r}")
        self._rule = rule
        return rule

    def _trace(self, with_fixed, with_rule, args):
        if self._rule is None:
            raise AttributeError(f"{self!r} has no rule yet; call defjvp(rule) first")
        return _core._custom_jvp(self._name, with_fixed(self._fun), with_rule(self._rule), args)


class _Checkpoint(_WithRule):
    _kind = "checkpoint"

    def _trace(self, with_fixed, with_rule, args):
        return _core._checkpoint(self._name, with_fixed(self._fun), args)


def checkpoint(fun=None, *, static_argnums=()):
    """fun with the same values and derivatives, of which reverse mode keeps the arguments alone and computes the rest again.

    It trades time for memory: the intermediate values of fun are not held from the forward to the backward pass. Results are floating
    arrays. fun may close over traced values. Arguments numbered in static_argnums are plain Python values. Also called remat.

    >>> layer = qb.checkpoint(lambda x: qb.tanh(qb.sin(x) * 3.0))
    >>> qb.grad(lambda x: qb.sum(layer(layer(x))))(qb.array([0.0, 0.5])).tolist() == \\
    ...     qb.grad(lambda x: qb.sum(layer.__wrapped__(layer.__wrapped__(x))))(qb.array([0.0, 0.5])).tolist()
    True
    """
    if fun is None:
        return functools.partial(checkpoint, static_argnums=static_argnums)
    return _Checkpoint(fun, static_argnums)


remat = checkpoint
