"""Public names of the package for type checkers; tests/python/test_docs.py compares them with quabla.__all__."""

import abc

from . import optim as optim
from . import random as random
from . import tree as tree
from ._calculus import (
    diff as diff,
)
from ._calculus import (
    interp as interp,
)
from ._calculus import (
    polyval as polyval,
)
from ._calculus import (
    trapezoid as trapezoid,
)
from ._compiler import (
    Compiler as Compiler,
)
from ._control import (
    cond as cond,
)
from ._control import (
    fori_loop as fori_loop,
)
from ._control import (
    scan as scan,
)
from ._control import (
    switch as switch,
)
from ._control import (
    while_loop as while_loop,
)
from ._core import (
    Executable as Executable,
)
from ._core import (
    Program as Program,
)
from ._core import (
    QuablaError as QuablaError,
)
from ._core import (
    RetraceLimitError as RetraceLimitError,
)
from ._core import (
    RetraceWarning as RetraceWarning,
)
from ._core import (
    ShapeDtype as ShapeDtype,
)
from ._core import (
    Tensor as Tensor,
)
from ._core import (
    TensorView as TensorView,
)
from ._core import (
    TracerError as TracerError,
)
from ._core import (
    TraceTensor as TraceTensor,
)
from ._core import (
    UnsupportedOperationError as UnsupportedOperationError,
)
from ._core import (
    __version__ as __version__,
)
from ._core import (
    abs as abs,
)
from ._core import (
    add as add,
)
from ._core import (
    all as all,
)
from ._core import (
    any as any,
)
from ._core import (
    arange as arange,
)
from ._core import (
    arccos as arccos,
)
from ._core import (
    arccosh as arccosh,
)
from ._core import (
    arcsin as arcsin,
)
from ._core import (
    arcsinh as arcsinh,
)
from ._core import (
    arctan as arctan,
)
from ._core import (
    arctanh as arctanh,
)
from ._core import (
    array as array,
)
from ._core import (
    asarray as asarray,
)
from ._core import (
    astype as astype,
)
from ._core import (
    atan2 as atan2,
)
from ._core import (
    bool_ as bool_,
)
from ._core import (
    broadcast_to as broadcast_to,
)
from ._core import (
    cbrt as cbrt,
)
from ._core import (
    ceil as ceil,
)
from ._core import (
    clip as clip,
)
from ._core import (
    concat as concat,
)
from ._core import (
    cos as cos,
)
from ._core import (
    cosh as cosh,
)
from ._core import (
    cumsum as cumsum,
)
from ._core import (
    div as div,
)
from ._core import (
    dtype as dtype,
)
from ._core import (
    equal as equal,
)
from ._core import (
    erf as erf,
)
from ._core import (
    erfc as erfc,
)
from ._core import (
    exp as exp,
)
from ._core import (
    exp2 as exp2,
)
from ._core import (
    expm1 as expm1,
)
from ._core import (
    eye as eye,
)
from ._core import (
    float32 as float32,
)
from ._core import (
    float64 as float64,
)
from ._core import (
    floor as floor,
)
from ._core import (
    floor_divide as floor_divide,
)
from ._core import (
    fmod as fmod,
)
from ._core import (
    from_dlpack as from_dlpack,
)
from ._core import (
    full as full,
)
from ._core import (
    full_like as full_like,
)
from ._core import (
    gather as gather,
)
from ._core import (
    gelu as gelu,
)
from ._core import (
    grad as grad,
)
from ._core import (
    greater as greater,
)
from ._core import (
    greater_equal as greater_equal,
)
from ._core import (
    hypot as hypot,
)
from ._core import (
    isfinite as isfinite,
)
from ._core import (
    isinf as isinf,
)
from ._core import (
    isnan as isnan,
)
from ._core import (
    jit as jit,
)
from ._core import (
    jvp as jvp,
)
from ._core import (
    less as less,
)
from ._core import (
    less_equal as less_equal,
)
from ._core import (
    linspace as linspace,
)
from ._core import (
    log as log,
)
from ._core import (
    log1p as log1p,
)
from ._core import (
    log2 as log2,
)
from ._core import (
    log10 as log10,
)
from ._core import (
    log_softmax as log_softmax,
)
from ._core import (
    logaddexp as logaddexp,
)
from ._core import (
    logical_and as logical_and,
)
from ._core import (
    logical_not as logical_not,
)
from ._core import (
    logical_or as logical_or,
)
from ._core import (
    logsumexp as logsumexp,
)
from ._core import (
    matmul as matmul,
)
from ._core import (
    max as max,
)
from ._core import (
    maximum as maximum,
)
from ._core import (
    mean as mean,
)
from ._core import (
    min as min,
)
from ._core import (
    minimum as minimum,
)
from ._core import (
    mod as mod,
)
from ._core import (
    mul as mul,
)
from ._core import (
    nan_to_num as nan_to_num,
)
from ._core import (
    neg as neg,
)
from ._core import (
    norm as norm,
)
from ._core import (
    not_equal as not_equal,
)
from ._core import (
    ones as ones,
)
from ._core import (
    ones_like as ones_like,
)
from ._core import (
    pow as pow,
)
from ._core import (
    power as power,
)
from ._core import (
    powi as powi,
)
from ._core import (
    prod as prod,
)
from ._core import (
    reciprocal as reciprocal,
)
from ._core import (
    relu as relu,
)
from ._core import (
    remainder as remainder,
)
from ._core import (
    reshape as reshape,
)
from ._core import (
    round as round,
)
from ._core import (
    scatter_add as scatter_add,
)
from ._core import (
    sigmoid as sigmoid,
)
from ._core import (
    sign as sign,
)
from ._core import (
    silu as silu,
)
from ._core import (
    sin as sin,
)
from ._core import (
    sinh as sinh,
)
from ._core import (
    softmax as softmax,
)
from ._core import (
    softplus as softplus,
)
from ._core import (
    sqrt as sqrt,
)
from ._core import (
    square as square,
)
from ._core import (
    stack as stack,
)
from ._core import (
    std as std,
)
from ._core import (
    stop_gradient as stop_gradient,
)
from ._core import (
    sub as sub,
)
from ._core import (
    sum as sum,
)
from ._core import (
    tan as tan,
)
from ._core import (
    tanh as tanh,
)
from ._core import (
    transpose as transpose,
)
from ._core import (
    value_and_grad as value_and_grad,
)
from ._core import (
    var as var,
)
from ._core import (
    vjp as vjp,
)
from ._core import (
    vmap as vmap,
)
from ._core import (
    where as where,
)
from ._core import (
    zeros as zeros,
)
from ._core import (
    zeros_like as zeros_like,
)
from ._custom import (
    checkpoint as checkpoint,
)
from ._custom import (
    custom_jvp as custom_jvp,
)
from ._custom import (
    custom_vjp as custom_vjp,
)
from ._custom import (
    remat as remat,
)
from ._explain import (
    explain as explain,
)
from ._io import (
    load as load,
)
from ._io import (
    save as save,
)
from ._products import (
    cross as cross,
)
from ._products import (
    dot as dot,
)
from ._products import (
    einsum as einsum,
)
from ._products import (
    kron as kron,
)
from ._products import (
    outer as outer,
)
from ._products import (
    tensordot as tensordot,
)
from ._profile import (
    profile as profile,
)
from ._shape import (
    diag as diag,
)
from ._shape import (
    diagonal as diagonal,
)
from ._shape import (
    expand_dims as expand_dims,
)
from ._shape import (
    flip as flip,
)
from ._shape import (
    meshgrid as meshgrid,
)
from ._shape import (
    moveaxis as moveaxis,
)
from ._shape import (
    pad as pad,
)
from ._shape import (
    ravel as ravel,
)
from ._shape import (
    repeat as repeat,
)
from ._shape import (
    roll as roll,
)
from ._shape import (
    split as split,
)
from ._shape import (
    squeeze as squeeze,
)
from ._shape import (
    swapaxes as swapaxes,
)
from ._shape import (
    tile as tile,
)
from ._shape import (
    trace as trace,
)
from ._shape import (
    tril as tril,
)
from ._shape import (
    triu as triu,
)
from ._transforms import (
    hessian as hessian,
)
from ._transforms import (
    jacobian as jacobian,
)

class Array(abc.ABC): ...

def devices() -> list[str]: ...
def get_num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
