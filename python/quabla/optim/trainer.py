"""Trainer: loss, gradient and optimizer update as one compiled plan whose state stays inside."""

import time

from .. import _core as qb
from .._core import tree
from .._progress import Progress

__all__ = ["Trainer"]


class Trainer:
    """Trains `params` on `loss(params, *data)`.

    loss: function of the parameters and the data that returns a floating scalar.    params: tree of floating arrays.
    optimizer: has init(params) and update(params, grads, state), such as qb.optim.Adam.    data: arrays, fixed for all steps.
    batch_argnums: positions in `data` (counted from 0) that step(*batch) replaces.
    The step is traced and compiled at the first call; values equal those of value_and_grad and optimizer.update, bit for bit.
    Raises TypeError for parameters that are not floating arrays, UnsupportedOperationError for a device that is not built.

    >>> trainer = qb.optim.Trainer(lambda p: (p["w"] - 3.0) ** 2, {"w": qb.array(0.0)}, qb.optim.Adam(0.1))
    >>> trainer.run(500).item() < 1e-3
    True
    >>> round(trainer.params["w"].item(), 2)
    3.0
    """

    def __init__(self, loss, params, optimizer, *data, device="cpu", batch_argnums=(), precision=None):
        for path, leaf in tree.flatten_with_path(params)[0]:
            where = "params" + "".join(f"[{p!r}]" for p in path)
            if isinstance(leaf, qb.TraceTensor):
                raise TypeError(f"Trainer: {where} is a tracer; build the trainer outside the traced function")
            if not isinstance(leaf, qb.Tensor) or leaf.dtype is qb.bool_:
                kind = f"a {leaf.dtype} array" if isinstance(leaf, qb.Tensor) else type(leaf).__name__
                raise TypeError(f"Trainer: {where} is {kind}; parameters are float32 or float64 Tensors")
        if isinstance(batch_argnums, int):
            batch_argnums = (batch_argnums,)
        for i in batch_argnums:
            if not 0 <= i < len(data):
                raise ValueError(f"Trainer: batch_argnums {i} is out of range; there are {len(data)} data arguments")
        self._loss, self._optimizer = loss, optimizer
        self._batch_argnums = tuple(batch_argnums)
        self._data = tuple(tree.map(qb.asarray, d) for d in data)
        self._options = {"device": device, "precision": precision}
        self._value = qb.jit(loss, **self._options)
        self._loop = qb.StepLoop(self._step, (params, optimizer.init(params)), self._data, **self._options)

    def _step(self, state, *data):
        params, opt_state = state
        value, grads = qb.value_and_grad(self._loss)(params, *data)
        return self._optimizer.update(params, grads, opt_state), value

    @property
    def params(self):
        """The parameters now, with the structure that was given."""
        return self._loop.state[0]

    def _with_batch(self, batch):
        if len(batch) != len(self._batch_argnums):
            raise ValueError(
                f"Trainer.step: {len(batch)} batch arguments; batch_argnums={self._batch_argnums} asks for "
                f"{len(self._batch_argnums)}"
            )
        data = list(self._data)
        for i, b in zip(self._batch_argnums, batch):
            data[i] = tree.map(qb.asarray, b)
        return tuple(data)

    def step(self, *batch):
        """One update. Returns the loss before it, a scalar Tensor. batch: new values for the arguments of batch_argnums."""
        if batch or self._batch_argnums:
            self._data = self._with_batch(batch)
            self._loop.set_data(self._data)
        return self._loop.step()

    def loss(self):
        """The loss at the parameters now, a scalar Tensor."""
        return self._value(self.params, *self._data)

    def run(self, steps, progress=False):
        """`steps` updates with no Python between them. Returns the loss before the last one.

        progress: show loss, steps per second and time left. Ctrl-C stops between two steps and leaves the trainer usable.
        """
        if isinstance(steps, bool) or not isinstance(steps, int):
            raise TypeError(f"Trainer.run: steps is an int, not {type(steps).__name__}")
        if steps < 1:
            raise ValueError(f"Trainer.run: steps must be at least 1, not {steps}")
        if not progress:
            return self._loop.run(steps)
        value, chunk, left = None, 1, steps
        with Progress(steps) as bar:
            while left:
                n, start = min(chunk, left), time.perf_counter()
                value = self._loop.run(n)
                left -= n
                bar.update(n, value.item())
                if time.perf_counter() - start < 0.1:
                    chunk *= 2
        return value
