"""One event further is the same as all events anew."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.annotate.advancing import advanced
from deixis.annotate.events import Judged, Undone
from deixis.annotate.state import photo_state
from deixis.annotate.walks import Answer, Rules, Task
from tests.annotate.fakes import Told
from tests.annotate.test_state import DOGS, STREET, work


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.booleans())
def test_one_event_further_is_what_folding_all_of_them_gives(seed: int, independent: bool) -> None:
    events = work(STREET, random.Random(seed))
    if seed % 2:  # some of it may count no more
        events.insert(len(events) // 2, Undone(number=1000, worker="rob", event=1))
        events = [replace(event, number=place + 1) for place, event in enumerate(events)]
    quick = 0
    for end in range(len(events)):
        before = photo_state(STREET, events[:end], independent=independent)
        whole = photo_state(STREET, events[: end + 1], independent=independent)
        further = advanced(before, STREET.photo, events[:end], events[end], Rules(), independent=independent)
        if further is not None:
            quick += 1
            assert further == whole
    assert quick or len(events) < 12


def test_a_judgement_about_boxes_goes_the_quick_way_and_others_do_not() -> None:
    told = Told(DOGS)
    quick = []
    for said in (Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL):
        before, so_far = told.state, list(told.events)
        told.say(said)
        further = advanced(before, "7", so_far, told.events[-1], Rules(), independent=True)
        quick.append(further is not None)
    assert quick == [False, False, True, True, True, True, True]
    assert told.state.finished


def test_a_judgement_that_answers_nothing_changes_nothing() -> None:
    told = Told(DOGS)
    told.say(Answer.YES, Answer.YES)
    stray = Judged(number=9, worker="w", task=Task.COVERAGE, subject="1:0-11", answer=Answer.ALL)
    state = told.state
    assert advanced(state, "7", told.events, stray, Rules(), independent=True) is state
