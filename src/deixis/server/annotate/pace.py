"""How often somebody may do something: a bucket that fills slowly and empties with every try."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_KEYS = 10_000


class Pace:
    """Buckets by name. Only for one thread: the event loop's.

    Parameters
    ----------
    per_second
        How fast a bucket fills.
    at_once
        How much it holds: so many tries may follow each other at once.
    clock
        For tests.

    Examples
    --------
    >>> pace = Pace(per_second=0.5, at_once=2, clock=lambda: 0.0)
    >>> pace.wait_s("ann"), pace.wait_s("ann"), pace.wait_s("ann"), pace.wait_s("bob")
    (0.0, 0.0, 2.0, 0.0)
    """

    def __init__(self, per_second: float, at_once: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._clock = per_second, at_once, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: str) -> float:
        """Take one try; how long to wait before it, where the bucket is empty. Then it is not taken."""
        now = self._clock()
        left, at = self._buckets.pop(key, (self._most, now))
        left = min(self._most, left + (now - at) * self._rate)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        while len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._rate

    def forgive(self, key: str) -> None:
        """Fill a bucket again."""
        self._buckets.pop(key, None)
