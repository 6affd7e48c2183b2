"""States derived from events."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.annotate.events import AddedPairs, ChainDecision, Discounted, Event, Judged, PhraseDecision, Skipped, Undone
from deixis.annotate.material import Material, prepare_photo
from deixis.annotate.pairs import is_right as found_right
from deixis.annotate.state import PhotoState, Reason, derive_state, extend_state, is_plainly_singular
from deixis.annotate.workflow import Answer, Rules, Status, Task
from tests.annotate.fakes import BOX, EventLog, judge_at_random, photo

DOGS = prepare_photo(photo("A dog runs.", "The big dog jumps."))
STREET = prepare_photo(
    photo("A man in a hat walks a dog.", "A boy with a dog on the street.", "Two people and their pet in a street.")
)


def derive(material: Material, events: Sequence[Event], *, independent: bool = True) -> PhotoState:
    return derive_state(material, events, Rules(independent=independent))


def work(seed: int, limit: int = 400) -> list[Event]:
    """Answer open questions at random until there are none."""
    rng = random.Random(seed)
    events: list[Event] = []
    while len(events) < limit and (questions := derive(STREET, events).questions):
        events.append(judge_at_random(len(events) + 1, questions, rng))
    return events


def test_a_link_then_verification_then_requirement_then_a_box() -> None:
    log = EventLog(DOGS)
    assert log.state.questions[0].mentions == ("0:0-5", "1:0-11")
    assert log.answer(Answer.YES).questions[0].task is Task.VERIFY
    state = log.answer(Answer.YES)
    assert (state.questions[0].task, state.questions[0].mentions) == (Task.REQUIREMENT, ("1:0-11",))
    state = log.answer(Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL)
    assert state.finished
    assert [len(chain.mentions) for chain in state.chains] == [2]
    workflow = state.chains[0].workflow
    assert workflow is not None
    assert (workflow.stage, workflow.boxes[0].xyxy) == (Status.COMPLETE, BOX)


def test_a_rejected_chain_is_split_by_head_noun_and_parts_are_not_verified_again() -> None:
    log = EventLog(prepare_photo(photo("A dog runs.", "A puppy runs.", "The dog barks.")))
    while log.state.questions[0].task is Task.LINK:
        log.answer(Answer.YES)
    state = log.answer(Answer.NO)
    assert sorted([mention.head for mention in chain.mentions] for chain in state.chains) == [["dog", "dog"], ["puppy"]]
    assert {question.task for question in state.questions} == {Task.REQUIREMENT}


def test_a_chain_that_cannot_be_split_continues_and_goes_to_review() -> None:
    log = EventLog(DOGS)
    state = log.answer(Answer.YES, Answer.NO)
    assert len(state.chains) == 1
    assert [(item.reason, item.holds_up) for item in state.review] == [(Reason.SAME_HEADS, False)]
    log.events.append(PhraseDecision(number=9, worker="rob", mention="1:0-11", decision="keep"))
    assert log.state.review == ()


def test_workers_do_not_judge_their_own_box_or_vote_twice() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.NO)
    log.answer(Answer.BOX, workers=["ann"])
    assert log.state.questions[0].barred == {"ann"}
    log.answer(Answer.DRAWN, workers=["bob"])
    assert (log.state.questions[0].task, log.state.questions[0].barred) == (Task.QUALITY, {"bob"})
    log.answer(Answer.GOOD, workers=["ann"])
    assert (log.state.questions[0].task, log.state.questions[0].barred) == (Task.COVERAGE, frozenset())
    log.answer(Answer.ALL, workers=["cy"])
    assert log.state.questions[0].barred == {"cy"}
    alone = derive(DOGS, log.events, independent=False)
    assert alone.questions[0].barred == frozenset()


def test_undoing_a_drawn_box_discards_the_judgements_about_it() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL)
    log.events.append(Undone(number=8, worker="rob", event=4))
    state = log.state
    assert state.questions[0].task is Task.DRAWING
    assert state.counted == {1, 2, 3}


def test_votes_on_earlier_boxes_do_not_count() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.MORE, Answer.DRAWN, Answer.GOOD)
    log.answer(Answer.ALL, Answer.ALL)
    assert log.state.finished
    log.events.append(Undone(number=11, worker="rob", event=4))
    assert log.state.questions[0].task is Task.DRAWING
    assert not {9, 10} & log.state.counted


def test_undoing_a_link_keeps_judgements_about_the_mention_that_is_still_shown() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN)
    log.events.append(Undone(number=5, worker="ann", event=1))
    assert [question.task for question in log.state.questions] == [Task.LINK]
    log.answer(Answer.NO)
    assert {question.task for question in log.state.questions} == {Task.REQUIREMENT, Task.QUALITY}


def test_discounting_a_worker_asks_their_questions_again() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, workers=["bad", "ann"])
    log.events.append(Discounted(number=3, worker="bad", whom="bad", task=Task.LINK))
    assert [question.task for question in log.state.questions] == [Task.LINK]
    assert log.state.counted == frozenset()


def test_votes_of_others_on_identical_boxes_are_kept_when_the_judge_of_the_box_is_discounted() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN)
    log.answer(Answer.GOOD, workers=["bad"])
    log.answer(Answer.MORE, Answer.DRAWN, Answer.GOOD, Answer.ALL, workers=["ann", "bob", "cy", "dee"])
    log.events.append(Discounted(number=10, worker="bad", whom="bad", task=Task.QUALITY))
    assert [question.task for question in log.state.questions] == [Task.QUALITY]
    log.answer(Answer.GOOD, workers=["eve"])
    [question] = log.state.questions
    assert (question.task, len(question.boxes), question.barred) == (Task.COVERAGE, 2, {"dee"})
    assert {6, 7, 8, 9} <= log.state.counted
    log.answer(Answer.ALL, workers=["eve"])
    assert log.state.finished


def test_a_kept_vote_counts_once_and_not_if_the_boxes_became_others() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN)
    log.answer(Answer.GOOD, Answer.ALL, workers=["bad", "ann"])
    log.events.append(Discounted(number=7, worker="bad", whom="bad", task=Task.QUALITY))
    log.answer(Answer.BAD, Answer.DRAWN, Answer.GOOD, workers=["bob", "cy", "dee"])
    assert log.state.questions[0].barred == frozenset()
    assert 6 not in log.state.counted


def test_a_voter_who_found_a_box_missing_may_draw_it_and_no_more_changes_the_vote() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.MORE, Answer.MORE)
    rules = Rules(voters_may_draw=True)
    assert log.state.questions[0].barred == {"w6", "w7", "w8"}
    [question] = derive_state(DOGS, log.events, rules).questions
    assert (question.task, question.barred) == (Task.DRAWING, {"w6"})
    body = {"task": Task.DRAWING, "subject": question.subject, "answer": Answer.NO_MORE}
    changed = derive_state(DOGS, [*log.events, Judged(number=9, worker="w8", **body)], rules)
    assert changed.finished  # two say that all are drawn, and one not
    workflow = changed.chains[0].workflow
    assert workflow is not None
    assert sorted(vote.worker for vote in workflow.coverage_votes) == ["w6", "w7", "w8"]


def test_a_phrase_reported_twice_is_held_back_for_a_reviewer() -> None:
    log = EventLog(DOGS)
    for number, worker in ((1, "ann"), (2, "bob")):
        log.events.append(
            Skipped(number=number, worker=worker, task=Task.LINK, subject="0:0-5 1:0-11", bad_phrase="0:0-5")
        )
        assert worker in log.state.questions[0].barred or number == 2
    state = log.state
    assert [(item.reason, item.mention, item.holds_up) for item in state.review] == [(Reason.BAD_PHRASE, "0:0-5", True)]
    assert [question.mentions for question in state.questions] == [("1:0-11",)]
    keep = PhraseDecision(number=3, worker="rob", mention="0:0-5", decision="keep")
    assert derive(DOGS, [*log.events, keep]).questions[0].task is Task.LINK
    drop = replace(keep, decision="drop")
    dropped = derive(DOGS, [*log.events, drop])
    assert [len(dropped.chains), len(dropped.review)] == [1, 0]


def test_a_reviewer_adds_a_phrase_that_was_missed() -> None:
    added = PhraseDecision(number=1, worker="rob", mention="0:6-10", decision="add", types=("other",))
    state = derive(DOGS, [added])
    assert any(chain.shown.text == "runs" for chain in state.chains)


def test_the_decision_of_a_reviewer_is_final_at_any_stage() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD)
    decision = ChainDecision(number=6, worker="rob", subject=log.state.questions[0].subject, answer=Answer.ALL)
    assert derive(DOGS, [*log.events, decision]).finished
    state = derive(DOGS, [*log.events, replace(decision, answer=Answer.SCENE)])
    workflow = state.chains[0].workflow
    assert workflow is not None
    assert (workflow.stage, workflow.boxes, workflow.is_scene) == (Status.NOT_VISUAL, (), True)


def test_questions_of_unconnected_types_are_open_at_the_same_time() -> None:
    state = derive(STREET, [])
    assert len(state.questions) > 1
    assert len({question.subject for question in state.questions}) == len(state.questions)


def assert_consistent(state: PhotoState) -> None:
    mentions = [mention.id for chain in state.chains for mention in chain.mentions]
    assert len(mentions) == len(set(mentions))
    for chain in state.chains:
        if chain.workflow is not None and chain.workflow.stage is Status.COMPLETE:
            assert chain.workflow.boxes
    assert state.finished <= (not state.questions)


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_any_prefix_of_the_events_gives_the_state_of_that_time(seed: int) -> None:
    events = work(seed)
    for end in range(len(events) + 1):
        state = derive(STREET, events[:end])
        assert_consistent(state)
        assert state.counted == set(range(1, end + 1))


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.data())
def test_undoing_the_last_event_restores_the_previous_state_and_undoing_the_undo_restores_it(
    seed: int, data: st.DataObject
) -> None:
    events = work(seed, limit=60)
    last = len(events)
    undo = Undone(number=last + 1, worker="rob", event=data.draw(st.integers(1, last)))
    again = Undone(number=last + 2, worker="rob", event=last + 1)
    assert_consistent(derive(STREET, [*events, undo]))
    assert derive(STREET, [*events, undo, again]) == derive(STREET, events)
    back = replace(undo, event=last)
    assert derive(STREET, [*events, back]) == derive(STREET, events[:-1])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.data())
def test_work_can_be_finished_after_any_undo(seed: int, data: st.DataObject) -> None:
    events = work(seed, limit=80)
    events.append(Undone(number=500, worker="rob", event=data.draw(st.integers(1, len(events)))))
    rng = random.Random(seed + 1)
    for number in range(501, 900):
        state = derive(STREET, events)
        assert_consistent(state)
        if not state.questions:
            break
        events.append(judge_at_random(number, state.questions, rng))
        assert number in derive(STREET, events).counted
    assert not state.questions


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.booleans())
def test_extending_a_state_equals_deriving_it_again(seed: int, independent: bool) -> None:
    events = work(seed)
    if seed % 2:  # some judgements may not count any more
        events.insert(len(events) // 2, Undone(number=1000, worker="rob", event=1))
        events = [replace(event, number=number) for number, event in enumerate(events, start=1)]
    for end in range(len(events)):
        before = derive(STREET, events[:end], independent=independent)
        extended = extend_state(before, STREET.photo, events[:end], events[end], Rules(independent=independent))
        assert extended in (None, derive(STREET, events[: end + 1], independent=independent))


def test_only_judgements_about_boxes_extend_a_state() -> None:
    log = EventLog(DOGS)
    extended = []
    for value in (Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL):
        before, events = log.state, list(log.events)
        log.answer(value)
        extended.append(extend_state(before, "7", events, log.events[-1], Rules()) is not None)
    assert extended == [False, False, True, True, True, True, True]
    assert log.state.finished


def test_a_judgement_that_answers_no_open_question_changes_nothing() -> None:
    log = EventLog(DOGS)
    log.answer(Answer.YES, Answer.YES)
    stray = Judged(number=9, worker="w", task=Task.COVERAGE, subject="1:0-11", answer=Answer.ALL)
    state = log.state
    assert extend_state(state, "7", log.events, stray, Rules()) is state


def name_one(*phrases: str) -> bool:
    material = Material("7", phrases, (), 9, 9)
    return is_plainly_singular(material.mention_at(f"{row}:0-{len(text)}") for row, text in enumerate(phrases))


@pytest.mark.parametrize("phrases", [("A dog",), ("a small black dog", "the dog"), ("one man", "his face")])
def test_an_article_or_one_and_no_plural_is_singular(phrases: tuple[str, ...]) -> None:
    assert name_one(*phrases)


@pytest.mark.parametrize(
    "phrases",
    [
        ("The dog",),  # nothing says how many
        ("Two dogs",),
        ("A dog", "the dogs"),
        ("A group",),
        ("a pair of shoes",),
        ("a man and a boy",),
        ("A crowd of people",),
        ("a flock",),
        ("a bit of grass",),
        (),
    ],
)
def test_anything_else_is_not_plainly_singular(phrases: tuple[str, ...]) -> None:
    assert not name_one(*phrases)


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
    pair = vote(answers, Rules(judges_per_pair=4)).votes[0]
    assert found_right(pair) is is_right
    assert pair.events == tuple(range(2, 2 + len(answers)))


def test_an_undone_vote_does_not_count() -> None:
    rules = Rules(judges_per_pair=1)
    subject = derive_state(MATERIAL, [ADDED], rules).questions[-1].subject
    judged = Judged(number=2, worker="w", task=Task.PAIR, subject=subject, answer=Answer.RIGHT)
    assert found_right(derive_state(MATERIAL, [ADDED, judged], rules).votes[1])
    undone = [ADDED, judged, Undone(number=3, worker="w", event=2)]
    assert found_right(derive_state(MATERIAL, undone, rules).votes[1]) is None
