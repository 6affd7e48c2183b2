"""Which photos a search looks at."""

from __future__ import annotations

import pytest

from deixis.errors import DeixisError
from deixis.index.where import Where


@pytest.mark.parametrize(
    ("date", "seconds"),
    [("1970", 0), ("1970-01-02", 86400), ("1970-02", 31 * 86400), ("1970-01-01 01:30", 5400), ("1970-1-1T00:01", 60)],
)
def test_a_date_begins_with_its_first_moment(date: str, seconds: int) -> None:
    assert Where(after=date).seconds_from() == seconds
    assert Where(before=date).seconds_until() == seconds


@pytest.mark.parametrize("date", ["yesterday", "2024-13", "2024-02-30", "24", "2024-06-", "2024-06-01 25:00"])
def test_what_is_no_date_is_one_line(date: str) -> None:
    with pytest.raises(DeixisError, match="not a date; write one like 2024"):
        Where(after=date).seconds_from()


def test_nothing_asked_leaves_nothing_out() -> None:
    assert not Where()
    assert Where(camera="x")
    assert (Where().seconds_from(), Where().seconds_until(), Where().allows_folder(b"/a")) == (None, None, True)


@pytest.mark.parametrize(
    ("folder", "path", "allowed"),
    [
        ("holiday", b"/photos/Holiday 2023/beach", True),
        ("HOLIDAY", b"/photos/holiday", True),
        ("holiday", b"/photos/work", False),
        ("2023/beach", b"/photos/Holiday 2023/beach", True),
        ("holiday/beach", b"/photos/holiday 2023/beach", False),
        ("/photos", b"/photos/holiday", True),
        ("caf", b"/photos/caf\xe9", True),
    ],
)
def test_a_folder_is_named_by_a_part_of_its_name_or_path(folder: str, path: bytes, allowed: bool) -> None:
    assert Where(folder=folder).allows_folder(path) is allowed
