from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_C = TypeVar("_C")  # a pytree of arrays and numbers
_R = TypeVar("_R")

def cond(pred: Any, true_fun: Callable[..., _R], false_fun: Callable[..., _R], *operands: Any) -> _R: ...
def switch(index: Any, branches: Sequence[Callable[..., _R]], *operands: Any) -> _R: ...
def fori_loop(
    lower: int,
    upper: int,
    body_fun: Callable[..., _C],
    init_val: _C,
    *,
    operands: Sequence[Any] = (),
    unroll: bool = False,
) -> _C: ...
def scan(
    f: Callable[..., tuple[_C, _R]],
    init: _C,
    xs: Any = None,
    *,
    length: int | None = None,
    operands: Sequence[Any] = (),
    unroll: bool = False,
) -> tuple[_C, _R]: ...
def while_loop(
    cond_fun: Callable[..., Any],
    body_fun: Callable[..., _C],
    init_val: _C,
    *,
    operands: Sequence[Any] = (),
    max_steps: int | None = None,
) -> _C: ...
