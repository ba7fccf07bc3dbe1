"""Quabla: differentiable scientific computing for physics-informed neural networks.

Arrays and functions follow NumPy, transforms follow JAX: `jit`, `grad`, `value_and_grad`, `jvp`, `vjp`, `vmap` nest in any way and to
any order. `qb.optim` trains, `qb.random` draws keyed random numbers, `qb.tree` handles nested containers.
"""

import abc as _abc

from . import _core, optim, random, tree
from ._compiler import Compiler
from ._control import cond, fori_loop, scan, switch, while_loop
from ._core import (
    Executable,
    Program,
    QuablaError,
    RetraceLimitError,
    RetraceWarning,
    ShapeDtype,
    Tensor,
    TracerError,
    TraceTensor,
    UnsupportedOperationError,
    __version__,
    bool_,
    dtype,
    float32,
    float64,
)
from ._explain import explain
from ._profile import profile
from ._transforms import hessian, jacobian

# Functions of the extension. Those named as Python's builtins are attributes and stay out of __all__.
_FUNCTIONS = [
    "add",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "array",
    "asarray",
    "astype",
    "atan2",
    "broadcast_to",
    "cbrt",
    "ceil",
    "concat",
    "cos",
    "cosh",
    "div",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "eye",
    "floor",
    "fmod",
    "full",
    "full_like",
    "grad",
    "greater",
    "greater_equal",
    "hypot",
    "jit",
    "jvp",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "mean",
    "mul",
    "neg",
    "not_equal",
    "ones",
    "ones_like",
    "power",
    "powi",
    "reshape",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "stack",
    "stop_gradient",
    "sub",
    "tan",
    "tanh",
    "transpose",
    "value_and_grad",
    "vjp",
    "vmap",
    "where",
    "zeros",
    "zeros_like",
]
_BUILTIN_NAMES = ["abs", "max", "min", "pow", "round", "sum"]
globals().update({name: getattr(_core, name) for name in _FUNCTIONS + _BUILTIN_NAMES})


class Array(_abc.ABC):  # noqa: B024  the array types are registered below
    """Base of every array type, for isinstance: Tensor holds data, TraceTensor is a value of a trace."""


Array.register(_core.Tensor)
Array.register(_core.TraceTensor)


def set_num_threads(n):
    """Threads that a plan runs on, the caller included; 0 is the default (QUABLA_NUM_THREADS, or the CPUs of this process).

    The results are the same for every number. Raises ValueError for a negative one.

    >>> qb.set_num_threads(0)
    """
    _core.set_threads(n)


def get_num_threads():
    """Threads that a plan runs on.

    >>> qb.get_num_threads() >= 1
    True
    """
    return _core.get_threads()


def devices():
    """Names of the targets in this build.

    >>> "cpu" in qb.devices()
    True
    """
    return [name for name, built in _core.targets().items() if built]


__all__ = [
    *_FUNCTIONS,
    "Array",
    "Compiler",
    "Executable",
    "Program",
    "QuablaError",
    "RetraceLimitError",
    "RetraceWarning",
    "ShapeDtype",
    "Tensor",
    "TraceTensor",
    "TracerError",
    "UnsupportedOperationError",
    "__version__",
    "bool_",
    "cond",
    "dtype",
    "devices",
    "explain",
    "profile",
    "float32",
    "float64",
    "fori_loop",
    "get_num_threads",
    "hessian",
    "jacobian",
    "optim",
    "random",
    "scan",
    "set_num_threads",
    "switch",
    "tree",
    "while_loop",
]
