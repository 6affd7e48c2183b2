"""How fast a run is, and how long it will still take."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Counts steps by the clock.

    Parameters
    ----------
    step, steps
        Where the run begins or goes on, and how many steps it has in all.
    seconds
        How long it has taken before.
    clock
        Gives seconds.

    Examples
    --------
    >>> times = iter([0.0, 10.0, 10.0])
    >>> pace = Pace(step=50, steps=100, seconds=60.0, clock=lambda: next(times))
    >>> pace.steps_per_s(60), pace.seconds, pace.left
    (1.0, 70.0, 40.0)
    """

    def __init__(self, step: int, steps: int, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._steps = steps
        self._first, self._began = step, clock()
        self._before = seconds
        self._step, self._then = step, self._began

    def steps_per_s(self, step: int) -> float:
        """Steps a second since this was last asked; `step` is where the run is now."""
        now = self._clock()
        rate = (step - self._step) / max(now - self._then, 1e-9)
        self._step, self._then = step, now
        return rate

    def pause_ends(self) -> None:
        """Do not count the time since the last look at the pace: something else was done, dev was measured perhaps."""
        self._then = self._clock()

    @property
    def seconds(self) -> float:
        """How long the run has taken, what was before a kill included."""
        return self._before + self._clock() - self._began

    @property
    def left(self) -> float:
        """Seconds that the rest will take, at the mean pace so far."""
        taken = self._then - self._began
        return taken / max(self._step - self._first, 1) * max(self._steps - self._step, 0)


def in_words(seconds: float) -> str:
    """A length of time, as people say it.

    Examples
    --------
    >>> in_words(42), in_words(90), in_words(2 * 3600 + 600)
    ('42 s', '1 min 30 s', '2 h 10 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
