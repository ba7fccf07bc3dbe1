"""Quabla: differentiable scientific computing for physics-informed neural networks.

Arrays and functions follow NumPy, transforms follow JAX: `jit`, `grad`, `value_and_grad`, `jvp`, `vjp`, `vmap` nest in any way and to
any order. `qb.optim` trains, `qb.random` draws keyed random numbers, `qb.tree` handles nested containers.
"""

import abc as _abc
import os as _os

from . import _calculus, _core, _numpy, _products, _shape, _statics, optim, random, tree
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
    TensorView,
    TracerError,
    TraceTensor,
    UnsupportedOperationError,
    __version__,
    bool_,
    dtype,
    float32,
    float64,
)
from ._custom import checkpoint, custom_jvp, custom_vjp, remat
from ._explain import explain
from ._io import load, save
from ._profile import profile
from ._transforms import hessian, jacobian

# Functions of the extension. Those named as Python's builtins are attributes and stay out of __all__.
# fmt: off
_FUNCTIONS = [
    "add", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "array",
    "asarray", "astype", "atan2", "broadcast_to", "cbrt", "ceil", "clip", "concat", "cos",
    "cosh", "cumsum", "div", "equal", "erf", "erfc", "exp", "exp2", "expm1",
    "eye", "floor", "floor_divide", "fmod", "from_dlpack", "full", "full_like", "gather", "gelu", "grad",
    "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan", "jit", "jvp", "less",
    "less_equal", "linspace", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logsumexp", "matmul", "maximum", "mean", "minimum", "mod", "mul",
    "nan_to_num", "neg", "norm", "not_equal", "ones", "ones_like", "power", "powi", "prod",
    "reciprocal", "relu", "remainder", "reshape", "scatter_add", "sigmoid", "sign", "silu", "sin",
    "sinh", "softmax", "softplus", "sqrt", "square", "stack", "std", "stop_gradient", "sub",
    "tan", "tanh", "transpose", "value_and_grad", "var", "vjp", "vmap", "where", "zeros",
    "zeros_like",
]
# fmt: on
_BUILTIN_NAMES = ["abs", "all", "any", "max", "min", "pow", "round", "sum"]
globals().update({name: getattr(_core, name) for name in _FUNCTIONS + _BUILTIN_NAMES})

# Functions written here; each is a method of arrays too, but for those that take arrays in another place than the first.
_COMPOSED = {
    _calculus: "diff interp polyval trapezoid",
    _products: "cross dot einsum kron outer tensordot",
    _shape: "diag diagonal expand_dims flip meshgrid moveaxis pad ravel repeat roll split squeeze swapaxes tile trace tril triu",
}
_NO_METHODS = ("einsum", "meshgrid", "polyval")
for _module, _names in _COMPOSED.items():
    for _name in _names.split():
        _FUNCTIONS.append(_name)
        globals()[_name] = getattr(_module, _name)
        if _name not in _NO_METHODS:
            _core._add_method(_name, globals()[_name])
_core._add_method("__array_function__", _numpy.array_function)
for _name in _statics.__all__:
    _core._add_method(_name, staticmethod(getattr(_statics, _name)), False)
del _module, _names, _name


class Array(_abc.ABC):  # noqa: B024  the array types are registered below
    """Base of every array type, for isinstance: Tensor holds data, TraceTensor is a value of a trace."""


Array.register(_core.Tensor)
Array.register(_core.TensorView)
Array.register(_core.TraceTensor)


def set_num_threads(n):
    """Threads that a plan runs on, the caller included; 0 is the default (QUABLA_NUM_THREADS, or the CPUs of this process).

    The results are the same for every number. Raises ValueError for one that is not from 0 to 256.

    >>> qb.set_num_threads(0)
    """
    _core.set_num_threads(n)


def get_num_threads():
    """Threads that a plan runs on.

    >>> qb.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def _check_threads():
    """A warning for a QUABLA_NUM_THREADS that is not followed."""
    asked = _os.environ.get("QUABLA_NUM_THREADS", "")
    if asked.strip("0") and asked.lstrip("0") != str(get_num_threads()):
        import warnings

        text = f"QUABLA_NUM_THREADS={asked!r} is not a number from 1 to {_core.MAX_THREADS}; plans run on {get_num_threads()} threads"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


_check_threads()


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
    "TensorView",
    "TraceTensor",
    "TracerError",
    "UnsupportedOperationError",
    "__version__",
    "bool_",
    "checkpoint",
    "cond",
    "dtype",
    "custom_jvp",
    "custom_vjp",
    "devices",
    "explain",
    "profile",
    "float32",
    "float64",
    "fori_loop",
    "get_num_threads",
    "hessian",
    "jacobian",
    "load",
    "optim",
    "random",
    "remat",
    "save",
    "scan",
    "set_num_threads",
    "switch",
    "tree",
    "while_loop",
]
