"""Jobs that are cheap, slow or fail, in a module that workers can import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from deixis.errors import DeixisError


@dataclass(frozen=True)
class Squares:
    """Squares of numbers, with the id of the process and its number of threads."""

    seconds: float = 0.0

    def load(self) -> Callable[[Sequence[int]], Iterator[tuple[int, int, int]]]:
        def squared(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
            for number in numbers:
                time.sleep(self.seconds)
                yield number**2, os.getpid(), torch.get_num_threads()

        return squared


@dataclass(frozen=True)
class TelemetrySetting:
    """The variable that turns off the telemetry of ONNX Runtime, as a worker has it."""

    def load(self) -> Callable[[Sequence[int]], Iterator[str | None]]:
        return lambda numbers: (os.environ.get("ORT_DISABLE_TELEMETRY") for _ in numbers)


@dataclass(frozen=True)
class Failing:
    """A worker whose models cannot be loaded."""

    def load(self) -> Callable[[Sequence[int]], Iterator[int]]:
        raise DeixisError("a worker has another version of the models")


@dataclass(frozen=True)
class KillingOnce:
    """The first worker that gets number 20 is killed in the middle of its task."""

    mark: Path

    def load(self) -> Callable[[Sequence[int]], Iterator[int]]:
        def counted(numbers: Sequence[int]) -> Iterator[int]:
            for number in numbers:
                if number == 20 and not self.mark.exists():
                    self.mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield number

        return counted
