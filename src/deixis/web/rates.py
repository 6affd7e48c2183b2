"""Rate limits by client address."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.exceptions import HTTPException

_MAX_ENTRIES = 10_000


class RateLimiter:
    """Token buckets by key: a rate, and a burst of requests at once. Not thread-safe: for the event loop only.

    Examples
    --------
    >>> limiter = RateLimiter(per_second=0.5, burst=2, clock=lambda: 0.0)
    >>> limiter.take("ann"), limiter.take("ann"), limiter.take("ann"), limiter.take("bob")
    (0.0, 0.0, 2.0, 0.0)
    """

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one request from a bucket; if it is empty, return the seconds until it is not."""
        now = self._clock()
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        while len(self._buckets) > _MAX_ENTRIES:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._rate

    def check(self, key: str) -> None:
        """Take one request, or refuse it with status 429."""
        wait_s = self.take(key)
        if wait_s:
            raise HTTPException(429, "too many requests; wait a moment", {"retry-after": str(int(wait_s) + 1)})

    def reset(self, key: str) -> None:
        self._buckets.pop(key, None)


def network_of(address: str) -> str:
    """Return an address; of IPv6 the network, because everybody has many addresses.

    Examples
    --------
    >>> network_of("192.0.2.1"), network_of("2001:db8::1"), network_of("2001:db8::2")
    ('192.0.2.1', '2001:db8::/64', '2001:db8::/64')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((int(parsed), 64), strict=False))
