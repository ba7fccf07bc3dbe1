"""Optimizers, learning rate schedules and the Trainer."""

from .adam import Adam, AdamW
from .base import clip_by_global_norm
from .batches import minibatches
from .lbfgs import LBFGS
from .schedules import (
    constant,
    cosine_decay,
    exponential_decay,
    piecewise_constant,
    warmup_cosine_decay,
)
from .sgd import SGD, Lion, RMSprop
from .trainer import Trainer

__all__ = [
    "LBFGS",
    "SGD",
    "Adam",
    "AdamW",
    "Lion",
    "RMSprop",
    "Trainer",
    "clip_by_global_norm",
    "constant",
    "cosine_decay",
    "exponential_decay",
    "minibatches",
    "piecewise_constant",
    "warmup_cosine_decay",
]
