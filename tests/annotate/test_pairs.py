"""Votes on phrase–region pairs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from deixis.annotate.events import AddedPairs, Event, Judged, Undone
from deixis.annotate.material import prepare_photo
from deixis.annotate.state import PhotoState, derive_state
from deixis.annotate.workflow import Answer, Rules, Task
from tests.annotate.fakes import photo

MATERIAL = prepare_photo(photo("A dog runs."))
ADDED = AddedPairs(
    number=1,
    worker="model",
    model="m",
    fingerprint="f",
    pairs=[("0:0-5", [0.0, 0.0, 50.0, 40.0, 0.9]), ("0:0-10", [0.0, 0.0, 99.0, 79.0, 0.2])],
)


def vote(answers: Sequence[Answer], rules: Rules, which: int = 0) -> PhotoState:
    """Let a different person give each answer to one of the two pairs, while it is asked about."""
    events: list[Event] = [ADDED]
    for number, answer in enumerate(answers, start=2):
        asked = derive_state(MATERIAL, events, rules).questions
        question = next(each for each in asked if each.new_box and each.new_box.id == f"q1:{which}")
        assert question.barred == {f"w{earlier}" for earlier in range(2, number)}
        events.append(
            Judged(number=number, worker=f"w{number}", task=Task.PAIR, subject=question.subject, answer=answer)
        )
    return derive_state(MATERIAL, events, rules)


def test_each_pair_is_a_question_of_its_own() -> None:
    state = derive_state(MATERIAL, [ADDED], Rules())
    pairs = [question for question in state.questions if question.task is Task.PAIR]
    assert [(each.mentions, each.new_box and each.new_box.xyxy) for each in pairs] == [
        (("0:0-5",), (0.0, 0.0, 50.0, 40.0)),
        (("0:0-10",), (0.0, 0.0, 99.0, 79.0)),
    ]


@pytest.mark.parametrize(
    ("answers", "is_right"),
    [
        ([Answer.RIGHT] * 2, None),
        ([Answer.RIGHT] * 3, True),
        ([Answer.WRONG] * 3, False),
        ([Answer.RIGHT, Answer.WRONG, Answer.RIGHT, Answer.WRONG], False),  # a tie
        ([Answer.WRONG, Answer.RIGHT, Answer.RIGHT, Answer.RIGHT], True),
    ],
)
def test_the_majority_of_the_judges_decides_as_soon_as_it_is_certain(
    answers: list[Answer], is_right: bool | None
) -> None:
    pair = vote(answers, Rules(judges_per_pair=4)).pairs[0]
    assert pair.is_right is is_right
    assert pair.is_tie == (answers.count(Answer.RIGHT) == answers.count(Answer.WRONG))
    assert pair.events == tuple(range(2, 2 + len(answers)))


def test_an_undone_vote_does_not_count() -> None:
    rules = Rules(judges_per_pair=1)
    subject = derive_state(MATERIAL, [ADDED], rules).questions[-1].subject
    judged = Judged(number=2, worker="w", task=Task.PAIR, subject=subject, answer=Answer.RIGHT)
    assert derive_state(MATERIAL, [ADDED, judged], rules).pairs[1].is_right
    undone = [ADDED, judged, Undone(number=3, worker="w", event=2)]
    assert derive_state(MATERIAL, undone, rules).pairs[1].is_right is None
