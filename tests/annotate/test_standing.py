"""How far a worker is trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.annotate.settings import Settings
from deixis.annotate.standing import Bars, Check, Level, Purpose, level_of
from deixis.annotate.walks import Task

BARS = Bars(10, 30)


def checks(purpose: Purpose, right: int, wrong: int = 0) -> list[Check]:
    return [Check(purpose, False)] * wrong + [Check(purpose, True)] * right


PASSED = checks(Purpose.TEST, 10)


@pytest.mark.parametrize(
    ("done", "level"),
    [
        ([], Level.TEST),
        (checks(Purpose.TEST, 9), Level.TEST),
        (checks(Purpose.TEST, 8, wrong=2), Level.FIRST),
        (checks(Purpose.TEST, 0, wrong=3), Level.TEST),
        (checks(Purpose.TEST, 0, wrong=6), Level.FAILED),
        (checks(Purpose.TEST, 0, wrong=3) + PASSED, Level.FIRST),
        (PASSED + checks(Purpose.FIRST, 29), Level.FIRST),
        (PASSED + checks(Purpose.FIRST, 26, wrong=4), Level.TRUSTED),
        (PASSED + checks(Purpose.FIRST, 0, wrong=5), Level.SUSPENDED),
        (PASSED + checks(Purpose.FIRST, 30) + checks(Purpose.HIDDEN, 0, wrong=5), Level.TRUSTED),
        (PASSED + checks(Purpose.FIRST, 30) + checks(Purpose.HIDDEN, 0, wrong=6), Level.SUSPENDED),
        (PASSED + checks(Purpose.FIRST, 26, wrong=4) + checks(Purpose.HIDDEN, 50, wrong=5), Level.TRUSTED),
    ],
)
def test_each_stage_ends_as_soon_as_its_end_is_certain(done: list[Check], level: Level) -> None:
    assert level_of(Task.LINK, done, BARS, Settings()) is level


def test_for_drawing_the_first_items_are_boxes_that_others_judged() -> None:
    boxes = PASSED + checks(Purpose.WORK, 21, wrong=9)
    assert level_of(Task.DRAWING, boxes, BARS, Settings()) is Level.TRUSTED
    assert level_of(Task.DRAWING, PASSED + checks(Purpose.WORK, 0, wrong=10), BARS, Settings()) is Level.SUSPENDED


def test_where_nothing_is_known_everybody_is_trusted_but_boxes_are_judged_still() -> None:
    assert level_of(Task.LINK, [], Bars.of(Task.LINK, 0, Settings()), Settings()) is Level.TRUSTED
    assert level_of(Task.DRAWING, [], Bars.of(Task.DRAWING, 0, Settings()), Settings()) is Level.FIRST


@given(st.lists(st.booleans(), max_size=80), st.integers(0, 60))
def test_a_suspension_stays_whatever_comes_after_and_an_answer_more_that_is_right_never_hurts(
    right: list[bool], place: int
) -> None:
    done = PASSED + [Check(Purpose.FIRST if n < 30 else Purpose.HIDDEN, ok) for n, ok in enumerate(right)]
    level = level_of(Task.LINK, done, BARS, Settings())
    if level is Level.SUSPENDED:
        assert level_of(Task.LINK, [*done, Check(Purpose.HIDDEN, True)], BARS, Settings()) is Level.SUSPENDED
    else:
        assert level_of(Task.LINK, [*done, Check(Purpose.HIDDEN, True)], BARS, Settings()) is not Level.SUSPENDED
