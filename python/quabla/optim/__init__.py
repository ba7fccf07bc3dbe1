"""Optimizers, learning rate schedules and the Trainer."""

from .adam import SGD, Adam, AdamW, clip_by_global_norm
from .schedules import (
    constant,
    cosine_decay,
    exponential_decay,
    piecewise_constant,
    warmup_cosine_decay,
)
from .trainer import Trainer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Trainer",
    "clip_by_global_norm",
    "constant",
    "cosine_decay",
    "exponential_decay",
    "piecewise_constant",
    "warmup_cosine_decay",
]
