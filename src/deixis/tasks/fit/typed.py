"""Settings as people type them: the command that makes a model again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from deixis.data.dataset import Dataset
from deixis.training.settings import settings_to_json


def command_of(model: str, dataset: Dataset, *settings: Any, usual: Sequence[Any] = ()) -> str:
    """What trains the same model again: all settings that are not the defaults.

    Parameters
    ----------
    model
        As ``deixis train`` calls it.
    dataset
        What it learns from.
    settings
        All the dataclasses whose fields can be set.
    usual
        What ``deixis train`` takes for this model where that is not what a dataclass itself has as defaults.
    """
    words = ["deixis", "train", model, "--data", str(dataset.path)]
    own = {type(each): each for each in usual}
    for some in settings:
        plain = settings_to_json(own.get(type(some)) or type(some)())
        for name, value in settings_to_json(some).items():
            if value != plain[name]:
                words += ["--set", f"{name}={typed(value)}"]
    return shlex.join(words)


def typed(value: Any) -> str:
    """A value as ``--set`` takes it.

    Examples
    --------
    >>> typed(None), typed(True), typed([0.9, 0.99]), typed("tfidf")
    ('none', 'true', '0.9,0.99', 'tfidf')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
