from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from .._core import Tensor, _ArrayLike
from ..random import Key

_P = TypeVar("_P")  # a pytree of parameters
_Schedule: TypeAlias = Callable[[Any], Any]  # the learning rate by the number of completed updates
_Rate: TypeAlias = float | _Schedule

class _Optimizer:
    learning_rate: _Rate
    clip_norm: float | None
    def init(self, params: Any) -> Any: ...
    def update(self, params: _P, grads: Any, state: Any) -> tuple[_P, Any]: ...

class Adam(_Optimizer):
    b1: float
    b2: float
    eps: float
    def __init__(
        self,
        learning_rate: _Rate = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-08,
        *,
        beta1: float | None = None,
        beta2: float | None = None,
        epsilon: float | None = None,
        clip_norm: float | None = None,
    ) -> None: ...
    def step(self, parameters: _P, gradients: Any) -> _P: ...

class AdamW(Adam):
    weight_decay: float
    def __init__(
        self,
        learning_rate: _Rate = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-08,
        weight_decay: float = 0.0001,
        *,
        clip_norm: float | None = None,
    ) -> None: ...

class SGD(_Optimizer):
    momentum: float
    nesterov: bool
    def __init__(
        self,
        learning_rate: _Rate = 0.01,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        clip_norm: float | None = None,
    ) -> None: ...

class RMSprop(_Optimizer):
    decay: float
    eps: float
    def __init__(
        self, learning_rate: _Rate = 0.001, decay: float = 0.9, eps: float = 1e-08, *, clip_norm: float | None = None
    ) -> None: ...

class Lion(_Optimizer):
    b1: float
    b2: float
    weight_decay: float
    def __init__(
        self,
        learning_rate: _Rate = 0.0001,
        b1: float = 0.9,
        b2: float = 0.99,
        weight_decay: float = 0.0,
        *,
        clip_norm: float | None = None,
    ) -> None: ...

class _Info(dict[str, Any]):
    def __getattr__(self, name: str) -> Any: ...

class LBFGS:
    history: int
    max_iterations: int
    max_evaluations: int | None
    tolerance_grad: float
    tolerance_change: float
    line_search: str
    def __init__(
        self,
        history: int = 10,
        max_iterations: int = 500,
        max_evaluations: int | None = None,
        tolerance_grad: float = 1e-07,
        tolerance_change: float = 1e-09,
        line_search: str = "strong_wolfe",
    ) -> None: ...
    def minimize(
        self, fun: Callable[..., Any], params: _P, *args: Any, callback: Callable[[_P, _Info], Any] | None = None
    ) -> tuple[_P, _Info]: ...

class Trainer:
    def __init__(
        self,
        loss: Callable[..., Any],
        params: Any,
        optimizer: Any,
        *data: Any,
        device: str = "cpu",
        batch_argnums: int | Sequence[int] = (),
        precision: str | None = None,
    ) -> None: ...
    @property
    def params(self) -> Any: ...
    @property
    def best_params(self) -> Any: ...
    @property
    def best_loss(self) -> float: ...
    @property
    def finite_params(self) -> Any: ...
    @property
    def steps(self) -> int: ...
    @property
    def history(self) -> dict[str, Tensor]: ...
    def plot_history(self, path: Any = None) -> Any: ...
    def loss(self) -> Tensor: ...
    def terms(self) -> dict[str, Tensor]: ...
    def step(self, *batch: Any) -> Tensor: ...
    def run(self, steps: int, progress: bool = False) -> Tensor: ...
    def fit(
        self,
        *phases: int | tuple[Any, int],
        sample: Callable[[int, Any], Sequence[Any]] | None = None,
        sample_every: int = 1,
        callback: Callable[[Trainer], Any] | None = None,
        every: int = 1000,
        target: float | None = None,
        patience: int | None = None,
        seconds: float | None = None,
        checkpoint: Any = None,
        checkpoint_seconds: float = 60.0,
        progress: bool = False,
    ) -> _Info: ...
    def checkpoint(self, path: Any) -> None: ...
    def resume(self, path: Any) -> None: ...

def clip_by_global_norm(grads: _P, max_norm: float) -> tuple[_P, Tensor]: ...
def minibatches(key: Key, size: int, *arrays: _ArrayLike) -> Callable[[int, Any], tuple[Tensor, ...]]: ...
def constant(value: float) -> _Schedule: ...
def exponential_decay(
    init_value: float,
    transition_steps: float,
    decay_rate: float,
    transition_begin: float = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> _Schedule: ...
def cosine_decay(init_value: float, decay_steps: float, alpha: float = 0.0) -> _Schedule: ...
def warmup_cosine_decay(
    init_value: float, peak_value: float, warmup_steps: float, decay_steps: float, end_value: float = 0.0
) -> _Schedule: ...
def piecewise_constant(boundaries: Sequence[float], values: Sequence[float]) -> _Schedule: ...
