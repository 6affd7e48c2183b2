"""Rate limits, and delays after wrong passwords."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.exceptions import HTTPException

_MAX_ENTRIES = 10_000
_FREE_BY_NAME, _FREE_BY_ADDRESS = 5, 20
_MAX_DELAY_S = 60.0


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
            raise _too_many("requests", wait_s)

    def reset(self, key: str) -> None:
        self._buckets.pop(key, None)


class LoginDelays:
    """Delays after wrong passwords, which double with each failure: by address, and by address and name.

    Others who try wrong passwords for a name delay only their own address, and nobody for longer than a minute. A
    request that is refused leaves no trace. Not thread-safe: for the event loop only.

    Examples
    --------
    >>> delays = LoginDelays(clock=lambda: 0.0)
    >>> for _ in range(6):
    ...     delays.failed("192.0.2.1", "ann")
    >>> delays.wait_s("192.0.2.1", "ann"), delays.wait_s("192.0.2.1", "bob"), delays.wait_s("192.0.2.7", "ann")
    (2.0, 0.0, 0.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # their number, and when the last one was

    def wait_s(self, address: str, name: str) -> float:
        """Return the seconds until the next attempt is allowed."""
        now = self._clock()
        return max(0.0, *(self._until(key, free) - now for key, free in self._keys(address, name)))

    def check(self, address: str, name: str) -> None:
        """Refuse an attempt that comes too early with status 429."""
        if wait_s := self.wait_s(address, name):
            raise _too_many("wrong passwords", wait_s)

    def failed(self, address: str, name: str) -> None:
        """Record a wrong password."""
        for key, _ in self._keys(address, name):
            count, _ = self._failures.pop(key, (0, 0.0))
            self._failures[key] = (count + 1, self._clock())
        while len(self._failures) > _MAX_ENTRIES:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures with this name; those of the address stay, for others may share it."""
        self._failures.pop(self._keys(address, name)[1][0], None)

    def _until(self, key: str, free: int) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        return last + min(2.0 ** (count - free), _MAX_DELAY_S) if count >= free else 0.0

    @staticmethod
    def _keys(address: str, name: str) -> tuple[tuple[str, int], tuple[str, int]]:
        """Return both keys, with the number of failures that cause no delay."""
        network = network_of(address)
        return (network, _FREE_BY_ADDRESS), (f"{network} {name.strip().casefold()}", _FREE_BY_NAME)


def _too_many(what: str, wait_s: float) -> HTTPException:
    seconds = int(wait_s) + 1
    return HTTPException(429, f"too many {what}; try again in {seconds} s", {"retry-after": str(seconds)})


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
