"""Waiting for changes of photos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deixis.search.index.watch import wait_for_changes


class Pauses:
    """What happens during each pause, instead of waiting; after the last one the test ends."""

    def __init__(self, *happenings: Callable[[], object]) -> None:
        self.happenings = list(happenings)

    def __call__(self, seconds: float) -> None:
        assert seconds > 0
        if not self.happenings:
            raise KeyboardInterrupt
        self.happenings.pop(0)()


def test_a_change_is_reported_once_it_is_complete(tmp_path: Path) -> None:
    photo, calls = tmp_path / "a.jpg", []

    def nothing() -> None:
        calls.append("pause")

    pauses = Pauses(
        nothing,
        lambda: photo.write_bytes(b"1"),  # a copy begins
        lambda: photo.write_bytes(b"12"),  # and goes on
        lambda: photo.write_bytes(b"123"),
        nothing,  # and is complete
        lambda: (tmp_path / "notes.txt").write_text("no photo"),
        nothing,
        photo.unlink,
        nothing,
    )
    sizes = []
    with pytest.raises(KeyboardInterrupt):
        for _ in wait_for_changes([tmp_path], sleep=pauses):
            sizes.append(photo.stat().st_size if photo.exists() else None)
    assert sizes == [3, None]
