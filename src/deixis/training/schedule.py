"""The learning rate as a function of the step: nothing to save, nothing to restore."""

from __future__ import annotations

import math

from deixis.training.settings import TrainSettings


def learning_rate_at(step: int, settings: TrainSettings, steps_per_epoch: int) -> float:
    """The learning rate of a step; the first is number 0.

    Examples
    --------
    >>> settings = TrainSettings(epochs=10, learning_rate=1.0, schedule="cosine", warmup=10)
    >>> [round(learning_rate_at(step, settings, 10), 2) for step in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    if settings.schedule == "cosine":
        whole = max(settings.epochs * steps_per_epoch - settings.warmup, 1)
        passed = min((step - settings.warmup) / whole, 1.0)
        return settings.learning_rate * (1 + math.cos(math.pi * passed)) / 2
    if settings.schedule == "step":
        drops = step // (settings.decay_epochs * steps_per_epoch)
        return settings.learning_rate * math.pow(settings.decay, drops)
    return settings.learning_rate
