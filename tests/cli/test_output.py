"""Progress output: rate, remaining time, lines and bars."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deixis.cli import output
from deixis.cli.output import Rate, plural, time_left


def test_the_rate_is_over_the_last_30_seconds() -> None:
    rate = Rate()
    assert rate.at(0.0, 1) == 0.0
    assert rate.at(10.0, 101) == 10.0
    for second in range(11, 101):
        latest = rate.at(float(second), 101 + (second - 10))
    assert latest == pytest.approx(1.0)


def test_remaining_time_is_rounded_to_its_precision() -> None:
    assert time_left(0, 100, 0.0) == "time left not known yet"
    assert time_left(100, 100_100, 10.0) == "about 2.8 h left"
    assert time_left(100, 7_300, 10.0) == "about 12 min left"
    assert time_left(7_299, 7_300, 10.0) == "less than a minute left"


def test_counts_have_a_noun_in_singular_or_plural() -> None:
    assert (plural(1, "photo"), plural(2000, "photo"), plural(0, "box", "boxes")) == (
        "1 photo",
        "2,000 photos",
        "0 boxes",
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading of the clock is two seconds later."""
    seconds = iter(range(0, 1000, 2))
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


@pytest.mark.usefixtures("clock")
def test_a_long_job_prints_count_rate_and_remaining_time_every_few_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with output.progress("photos") as on_progress:
        for done in range(1, 8):
            on_progress("importing", 10 * done, 7091)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        "importing: 30 of 7,091, 5.0 photos/s, about 24 min left",
        "importing: 60 of 7,091, 5.0 photos/s, about 23 min left",
    ]
    assert printed.out == ""


@pytest.mark.usefixtures("clock")
def test_a_job_of_unknown_length_prints_its_count(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as on_progress:
        for _ in range(3):
            on_progress("learning", 0, None)
        for done in range(1, 4):
            on_progress("reading", 1000 * done, None)
    assert capsys.readouterr().err.splitlines() == ["learning …", "reading: 3,000, 500.0/s"]


@pytest.mark.usefixtures("clock")
def test_a_second_job_of_the_same_name_has_its_own_rate(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as on_progress:
        for done, total in ((10, 7000), (7000, 7000), (1, 1000), (11, 1000), (21, 1000), (31, 1000)):
            on_progress("reading", done, total)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 1 of 1,000, time left not known yet",
        "reading: 31 of 1,000, 5.0/s, about 3 min left",
    ]


def test_a_stage_of_unknown_length_is_hidden_when_the_next_one_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("photos") as on_progress:
        on_progress("finding", 12, None)
        on_progress("encoding", 1, 12)
        capsys.readouterr()
        on_progress("encoding", 12, 12)
    printed = capsys.readouterr().err
    assert "12/12" in printed
    assert "finding" not in printed


def test_a_terminal_shows_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("photos") as on_progress:
        for done in range(1, 3):
            on_progress("encoding", done, 3)
    printed = capsys.readouterr()
    assert "encoding" in printed.err
    assert "2/3" in printed.err
    assert printed.out == ""
