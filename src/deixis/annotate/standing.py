"""How far a worker is trusted with a task (§2.3), as a table: pure functions over what is known of their answers.

Everyone is tested task by task. After the test come the first items, in the binary tasks questions with known answers,
in Drawing boxes that others judge; then hidden questions among the others. Whoever falls below the bar is suspended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from deixis.annotate.settings import Settings
from deixis.annotate.walks import Task


class Level(StrEnum):
    """What a worker may do in a task."""

    NO_HISTORY = "history too short"
    TEST = "in the test"
    FIRST = "first items"
    TRUSTED = "trusted"
    FAILED = "failed the test"
    SUSPENDED = "suspended"


class Purpose(StrEnum):
    """Why a worker is given a question."""

    WORK = "work"
    TEST = "test"
    FIRST = "first"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Check:
    """One answer that could be checked; for Drawing in earnest (`WORK`), a box that others judged."""

    purpose: Purpose
    right: bool


@dataclass(frozen=True, slots=True)
class Bars:
    """How many questions each stage takes; fewer where the project has not enough of known answer."""

    test: int
    first: int

    @classmethod
    def of(cls, task: Task, available: int, settings: Settings) -> Bars:
        """The stages for a task of which so many questions have known answers.

        Examples
        --------
        >>> Bars.of(Task.LINK, 1000, Settings()), Bars.of(Task.LINK, 20, Settings()), Bars.of(Task.LINK, 0, Settings())
        (Bars(test=10, first=30), Bars(test=5, first=15), Bars(test=0, first=0))
        """
        test = min(settings.test_questions, available // 4)
        if task is Task.DRAWING:  # the boxes of the first items are judged by others
            return cls(test, settings.first_items)
        return cls(test, min(settings.first_items, available - test))


def level_of(task: Task, checks: Sequence[Check], bars: Bars, settings: Settings) -> Level:
    """Where a worker stands in a task, from all that could be checked, the earliest first.

    | stage | ends well | ends badly |
    |---|---|---|
    | test | `test_accuracy` of `test_questions`: first items | too many wrong in each of `test_attempts`: failed |
    | first items | `first_accuracy` or `first_boxes_good` of `first_items`: trusted | too many wrong: suspended |
    | trusted | | below `rolling_accuracy` over the last `rolling_items`: suspended |

    A stage ends as soon as its end is certain.

    Examples
    --------
    >>> right, wrong = Check(Purpose.FIRST, True), Check(Purpose.FIRST, False)
    >>> level_of(Task.LINK, [right] * 29, Bars(0, 30), Settings()).value
    'first items'
    >>> level_of(Task.LINK, [right] * 30, Bars(0, 30), Settings()).value
    'trusted'
    >>> level_of(Task.LINK, [wrong] * 5, Bars(0, 30), Settings()).value
    'suspended'
    """
    tests = [check.right for check in checks if check.purpose is Purpose.TEST]
    passed = _test(tests, bars.test, settings)
    if passed is not None:
        return passed
    later = [check.right for check in checks if check.purpose is not Purpose.TEST]
    bar = settings.first_boxes_good if task is Task.DRAWING else settings.first_accuracy
    first = later[: bars.first]
    if first.count(False) > _may_be_wrong(bars.first, bar):
        return Level.SUSPENDED
    if len(first) < bars.first:
        return Level.FIRST
    bar = min(bar, settings.rolling_accuracy)
    for end in range(bars.first + 1, len(later) + 1):
        window = later[max(0, end - settings.rolling_items) : end]
        if window.count(False) > _may_be_wrong(settings.rolling_items, bar):
            return Level.SUSPENDED
    return Level.TRUSTED


def is_reliable(hidden: Sequence[bool], settings: Settings) -> bool:
    """Whether a worker's last hidden answers, in all tasks together, are good enough.

    Someone who turns bad after the first items is wrong everywhere, and in all tasks together that shows sooner.

    Examples
    --------
    >>> is_reliable([True] * 30 + [False] * 5, Settings()), is_reliable([True] * 30 + [False] * 6, Settings())
    (True, False)
    """
    wrong = list(hidden[-settings.rolling_items :]).count(False)
    return wrong <= _may_be_wrong(settings.rolling_items, settings.rolling_accuracy)


def _test(answers: Sequence[bool], length: int, settings: Settings) -> Level | None:
    """The level while the test is not passed, and None afterwards."""
    if length == 0:
        return None
    allowed = _may_be_wrong(length, settings.test_accuracy)
    attempts, wrong, done = 0, 0, 0
    for right in answers:
        done += 1
        wrong += not right
        if wrong > allowed:
            attempts, wrong, done = attempts + 1, 0, 0
            if attempts == settings.test_attempts:
                return Level.FAILED
        elif done == length:
            return None
    return Level.TEST


def answered_in_test(answers: Sequence[bool], length: int, settings: Settings) -> int:
    """How many questions of the test are answered in the attempt that is under way.

    Examples
    --------
    >>> answered_in_test([True] * 3, 10, Settings()), answered_in_test([False] * 3 + [True], 10, Settings())
    (3, 1)
    """
    allowed = _may_be_wrong(length, settings.test_accuracy)
    wrong = done = 0
    for right in answers:
        done, wrong = done + 1, wrong + (not right)
        if wrong > allowed:
            done = wrong = 0
    return done


def _may_be_wrong(items: int, share_right: float) -> int:
    return int(items * (1 - share_right) + 1e-9)
