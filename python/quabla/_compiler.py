"""The compiler facade: trace by input names, transform programs, compile for a target."""

from . import _core

__all__ = ["Compiler"]


def _spec(spec):
    if not isinstance(spec, (tuple, list)) or len(spec) not in (2, 3) or not isinstance(spec[0], str):
        raise TypeError(f"Compiler.trace: a spec is (name, shape) or (name, shape, dtype), not {spec!r}")
    return spec[0], _core.ShapeDtype(*spec[1:])


class Compiler:
    """Traces functions into Programs with named inputs, without the pytrees and caches of jit.

    >>> program = qb.Compiler().trace(lambda x, w: qb.sum(x * w), [("x", [2]), ("w", [2], qb.float64)])
    >>> print(program.lower_text())
    %0 = input[name=x] : tensor<2xf64>
    %1 = input[name=w] : tensor<2xf64>
    %2 = mul(%0, %1) : tensor<2xf64>
    %3 = sum(%2) : tensor<f64>
    >>> run = program.vjp("y_bar")["w"].compile("cpu")
    >>> run({"x": qb.array([1.0, 2.0]), "w": qb.ones((2,)), "y_bar": qb.array(3.0)})
    Tensor([3., 6.], dtype=float64)
    """

    def trace(self, function, input_specs):
        """The Program of function(*arrays), one array for each spec (name, shape) or (name, shape, dtype); dtype is float64 if absent.

        The function returns one array. Arrays that it closes over become constants. Raises TypeError for a malformed spec or
        another result, ValueError for a repeated name.
        """
        if not callable(function):
            raise TypeError(f"Compiler.trace takes a function, not {function!r}")
        specs = [_spec(s) for s in input_specs]
        return _core._trace_program(function, tuple(n for n, _ in specs), tuple(t for _, t in specs))

    def capabilities(self):
        """{target: whether this build contains it}. It says nothing of the hardware that is there."""
        return _core.targets()

    def capability(self, target):
        """Whether this build contains a target; ValueError for an unknown one."""
        known = _core.targets()
        if target not in known:
            raise ValueError(f"capability: {target!r} is not one of {', '.join(map(repr, known))}")
        return known[target]

    def __repr__(self):
        return "Compiler()"
