"""What has been trained and measured already, so that a table that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.experiments.outcomes import Outcome
from deixis.files.atomic import new_directory

FOLDER = "experiments"
"""Beside the data, unless another place is given."""

ABOUT = "about.json"
_DIGITS = 12


def key_of(about: Mapping[str, Any]) -> str:
    """What tells one piece of work from another: a hash over everything that decides its result.

    Examples
    --------
    >>> key_of({"seed": 1, "data": "x"}) == key_of({"data": "x", "seed": 1}) != key_of({"data": "x", "seed": 2})
    True
    """
    plain = json.dumps(about, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(plain.encode()).hexdigest()[:_DIGITS]


class Runs:
    """A folder of models and of what they scored.

    Parameters
    ----------
    folder
        Made when something is first kept in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def model(self, name: str, about: Mapping[str, Any]) -> Path:
        """Where the model is, or is to be, that is made from this."""
        return self.folder / "models" / f"{name}-{key_of(about)}"

    def outcome(self, name: str, about: Mapping[str, Any], measure: Callable[[], Outcome]) -> Outcome:
        """What was measured; measured now where it is not there yet."""
        place = self.folder / "scores" / f"{name}-{key_of(about)}"
        if not place.is_dir():
            made = measure()
            try:
                with new_directory(place) as unfinished:
                    made.save(unfinished)
                    words = json.dumps(about, indent=1, ensure_ascii=False)
                    (unfinished / ABOUT).write_text(words + "\n", encoding="utf-8")
            except OSError as error:
                raise DeixisError(f"{place}: cannot be written ({error.strerror}); name another with --runs") from None
        return Outcome.load(place)
