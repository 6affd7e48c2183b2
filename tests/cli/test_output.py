"""What the command says while it works."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deixis.cli import output
from deixis.cli.output import Pace, time_left


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    pace = Pace()
    assert pace.at(0.0, 1) == 0.0
    assert pace.at(10.0, 101) == 10.0
    for second in range(11, 101):
        latest = pace.at(float(second), 101 + (second - 10))
    assert latest == pytest.approx(1.0)


def test_the_pace_begins_anew_with_another_piece_of_work() -> None:
    pace = Pace()
    pace.at(0.0, 1)
    pace.at(10.0, 7000)
    assert pace.at(12.0, 1) == 0.0
    assert pace.at(14.0, 11) == 5.0


def test_time_left_claims_no_more_than_is_known() -> None:
    assert time_left(0, 100, 0.0) == "time left not known yet"
    assert time_left(100, 100_100, 10.0) == "about 2.8 h left"
    assert time_left(100, 7_300, 10.0) == "about 12 min left"
    assert time_left(7_299, 7_300, 10.0) == "less than a minute left"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is two seconds later."""
    seconds = iter(range(0, 1000, 2))
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


@pytest.mark.usefixtures("clock")
def test_a_long_job_says_every_few_seconds_how_far_it_is_how_fast_and_how_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with output.progress("photos") as on_progress:
        for done in range(1, 8):
            on_progress("importing", 10 * done, 7091)
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "importing: 30 of 7,091, 5.0 photos/s, about 24 min left",
        "importing: 60 of 7,091, 5.0 photos/s, about 23 min left",
    ]
    assert said.out == ""


@pytest.mark.usefixtures("clock")
def test_a_job_without_an_end_in_sight_is_counted_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as on_progress:
        for _ in range(3):
            on_progress("learning", 0, None)
        for done in range(1, 4):
            on_progress("reading", 1000 * done, None)
    assert capsys.readouterr().err.splitlines() == ["learning …", "reading: 3,000, 500.0/s"]


def test_a_short_job_says_nothing_on_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as on_progress:
        on_progress("importing", 1, 1)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("clock")
def test_a_second_job_of_the_same_name_is_not_said_to_go_backwards(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress() as on_progress:
        for done, total in ((10, 7000), (7000, 7000), (1, 1000), (11, 1000), (21, 1000), (31, 1000)):
            on_progress("reading", done, total)
    assert capsys.readouterr().err.splitlines() == [
        "reading: 1 of 1,000, time left not known yet",
        "reading: 31 of 1,000, 5.0/s, about 3 min left",
    ]


def test_a_terminal_has_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("photos") as on_progress:
        for done in range(1, 3):
            on_progress("encoding", done, 3)
    said = capsys.readouterr()
    assert "encoding" in said.err
    assert "2/3" in said.err
    assert said.out == ""
