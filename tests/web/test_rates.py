"""Delays after wrong passwords."""

from __future__ import annotations

import pytest
from starlette.exceptions import HTTPException

from deixis.web.rates import LoginDelays


def test_the_delay_grows_to_a_minute_and_is_forgotten_by_the_right_password() -> None:
    now = 0.0
    delays = LoginDelays(clock=lambda: now)
    waits = []
    for _ in range(15):
        delays.failed("2001:db8::1", "Ann")
        waits.append(delays.wait_s("2001:db8::2", "ann "))  # the same network, the same name
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    now = 61.0
    assert delays.wait_s("2001:db8::1", "ann") == 0
    delays.succeeded("2001:db8::1", "ann")
    delays.failed("2001:db8::1", "ann")
    assert delays.wait_s("2001:db8::1", "ann") == 0


def test_refused_attempts_leave_no_trace() -> None:
    delays = LoginDelays(clock=lambda: 0.0)
    for number in range(25):
        delays.failed("192.0.2.1", f"name {number}")
    before = dict(delays._failures)
    for number in range(100):
        with pytest.raises(HTTPException):
            delays.check("192.0.2.1", f"other {number}")
    assert delays._failures == before
