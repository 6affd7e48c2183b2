"""The fold: any order of undoing and replaying leads to a state that the events explain."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.annotate.events import Discounted, Event, Judged, Marking, Ruled, Skipped, Undone
from deixis.annotate.material import Material, material_of
from deixis.annotate.state import PhotoState, Reason, photo_state
from deixis.annotate.walks import Answer, Stop, Task
from deixis.annotate.workflow import answers_to
from tests.annotate.fakes import BOX, Told, photo

DOGS = material_of(photo("A dog runs.", "The big dog jumps."))
STREET = material_of(
    photo("A man in a hat walks a dog.", "A boy with a dog on the street.", "Two people and their pet in a street.")
)


def work(material: Material, chance: random.Random, most: int = 400) -> list[Event]:
    """Answer open questions by chance until there are none."""
    events: list[Event] = []
    while len(events) < most and (questions := photo_state(material, events).questions):
        question = chance.choice(questions)
        worker = chance.choice([name for name in map(str, range(30)) if name not in question.barred])
        said = chance.choice(answers_to(question.task))
        events.append(
            Judged(
                number=len(events) + 1,
                worker=worker,
                task=question.task,
                subject=question.subject,
                answer=said,
                box=BOX if said is Answer.DRAWN else None,
            )
        )
    return events


def test_a_link_then_verification_then_requirement_then_a_box() -> None:
    told = Told(DOGS)
    assert told.state.questions[0].mentions == ("0:0-5", "1:0-11")
    assert told.say(Answer.YES).questions[0].task is Task.VERIFY
    state = told.say(Answer.YES)
    assert (state.questions[0].task, state.questions[0].mentions) == (Task.REQUIREMENT, ("1:0-11",))
    state = told.say(Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL)
    assert state.finished
    assert [len(chain.mentions) for chain in state.chains] == [2]
    walk = state.chains[0].walk
    assert walk is not None
    assert (walk.at, walk.boxes[0].xyxy) == (Stop.COMPLETE, BOX)


def test_the_longest_mention_stands_for_its_chain() -> None:
    told = Told(DOGS)
    told.say(Answer.YES, Answer.YES)
    assert told.state.chains[0].shown.text == "The big dog"


def test_no_in_verification_splits_by_head_noun_and_parts_are_not_verified_again() -> None:
    told = Told(material_of(photo("A dog runs.", "A puppy runs.", "The dog barks.")))
    while told.state.questions[0].task is Task.LINK:
        told.say(Answer.YES)
    state = told.say(Answer.NO)
    assert sorted([mention.head for mention in chain.mentions] for chain in state.chains) == [["dog", "dog"], ["puppy"]]
    assert {question.task for question in state.questions} == {Task.REQUIREMENT}


def test_a_chain_that_heads_cannot_split_goes_on_and_is_told_to_the_reviewers() -> None:
    told = Told(DOGS)
    state = told.say(Answer.YES, Answer.NO)
    assert len(state.chains) == 1
    assert [(item.reason, item.holds_up) for item in state.review] == [(Reason.SAME_HEADS, False)]
    told.events.append(Marking(number=9, worker="rob", mention="1:0-11", decision="keep"))
    assert told.state.review == ()


def test_whoever_drew_does_not_judge_and_whoever_voted_is_not_asked_again() -> None:
    told = Told(DOGS)
    told.say(Answer.NO)
    told.say(Answer.BOX, workers=["ann"])
    assert told.state.questions[0].barred == {"ann"}
    told.say(Answer.DRAWN, workers=["bob"])
    assert (told.state.questions[0].task, told.state.questions[0].barred) == (Task.QUALITY, {"bob"})
    told.say(Answer.GOOD, workers=["ann"])
    assert (told.state.questions[0].task, told.state.questions[0].barred) == (Task.COVERAGE, frozenset())
    told.say(Answer.ALL, workers=["cy"])
    assert told.state.questions[0].barred == {"cy"}
    alone = photo_state(DOGS, told.events, independent=False)
    assert alone.questions[0].barred == frozenset()


def test_undoing_a_drawn_box_asks_again_and_what_was_said_of_it_counts_no_more() -> None:
    told = Told(DOGS)
    told.say(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL, Answer.ALL)
    told.events.append(Undone(number=8, worker="rob", event=4))
    state = told.state
    assert state.questions[0].task is Task.DRAWING
    assert state.counted == {1, 2, 3}


def test_votes_on_boxes_that_are_others_now_count_no_more() -> None:
    told = Told(DOGS)
    told.say(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.MORE, Answer.DRAWN, Answer.GOOD)
    told.say(Answer.ALL, Answer.ALL)
    assert told.state.finished
    told.events.append(Undone(number=11, worker="rob", event=4))
    assert told.state.questions[0].task is Task.DRAWING
    assert not {9, 10} & told.state.counted


def test_undoing_a_link_keeps_what_was_said_about_the_mention_that_is_still_shown() -> None:
    told = Told(DOGS)
    told.say(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN)
    told.events.append(Undone(number=5, worker="ann", event=1))
    assert [question.task for question in told.state.questions] == [Task.LINK]
    told.say(Answer.NO)
    assert {question.task for question in told.state.questions} == {Task.REQUIREMENT, Task.QUALITY}


def test_discounting_a_worker_queues_again_what_they_did() -> None:
    told = Told(DOGS)
    told.say(Answer.YES, Answer.YES, workers=["bad", "ann"])
    told.events.append(Discounted(number=3, worker="bad", whom="bad", task=Task.LINK))
    assert [question.task for question in told.state.questions] == [Task.LINK]
    assert told.state.counted == frozenset()


def test_two_who_call_a_phrase_bad_hold_it_back_until_a_reviewer_has_looked() -> None:
    told = Told(DOGS)
    for number, worker in ((1, "ann"), (2, "bob")):
        told.events.append(
            Skipped(number=number, worker=worker, task=Task.LINK, subject="0:0-5 1:0-11", bad_phrase="0:0-5")
        )
        assert worker in told.state.questions[0].barred or number == 2
    state = told.state
    assert [(item.reason, item.mention, item.holds_up) for item in state.review] == [(Reason.BAD_PHRASE, "0:0-5", True)]
    assert [question.mentions for question in state.questions] == [("1:0-11",)]
    keep = Marking(number=3, worker="rob", mention="0:0-5", decision="keep")
    assert photo_state(DOGS, [*told.events, keep]).questions[0].task is Task.LINK
    drop = replace(keep, decision="drop")
    dropped = photo_state(DOGS, [*told.events, drop])
    assert [len(dropped.chains), len(dropped.review)] == [1, 0]


def test_a_reviewer_adds_a_phrase_that_was_missed() -> None:
    added = Marking(number=1, worker="rob", mention="0:6-10", decision="add", types=("other",))
    state = photo_state(DOGS, [added])
    assert any(chain.shown.text == "runs" for chain in state.chains)


def test_a_reviewers_word_counts_alone_at_any_moment() -> None:
    told = Told(DOGS)
    told.say(Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD)
    ruling = Ruled(number=6, worker="rob", subject=told.state.questions[0].subject, answer=Answer.ALL)
    assert photo_state(DOGS, [*told.events, ruling]).finished
    nothing = replace(ruling, answer=Answer.SCENE)
    state = photo_state(DOGS, [*told.events, nothing])
    walk = state.chains[0].walk
    assert walk is not None
    assert (walk.at, walk.boxes, walk.is_scene) == (Stop.NOT_VISUAL, (), True)


def test_questions_of_unconnected_types_are_open_at_the_same_time() -> None:
    state = photo_state(STREET, [])
    assert len(state.questions) > 1
    assert len({question.subject for question in state.questions}) == len(state.questions)


def consistent(state: PhotoState) -> None:
    mentions = [mention.id for chain in state.chains for mention in chain.mentions]
    assert len(mentions) == len(set(mentions))
    for chain in state.chains:
        if chain.walk is not None and chain.walk.at is Stop.COMPLETE:
            assert chain.walk.boxes
    assert state.finished <= (not state.questions)


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_replaying_any_beginning_gives_the_state_of_that_moment(seed: int) -> None:
    events = work(STREET, random.Random(seed))
    counted: frozenset[int] = frozenset()
    for end in range(len(events) + 1):
        state = photo_state(STREET, events[:end])
        consistent(state)
        assert state.counted == counted | ({end} if end else set())
        counted = state.counted
        if end < len(events):
            asked = events[end]
            assert isinstance(asked, Judged)
            assert any((q.task, q.subject) == (asked.task, asked.subject) for q in state.questions)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.data())
def test_an_undo_that_is_undone_changes_nothing_and_an_undo_of_the_last_gives_the_moment_before(
    seed: int, data: st.DataObject
) -> None:
    events = work(STREET, random.Random(seed), most=60)
    whole = photo_state(STREET, events)
    last = len(events)
    undo = Undone(number=last + 1, worker="rob", event=data.draw(st.integers(1, last)))
    again = Undone(number=last + 2, worker="rob", event=last + 1)
    consistent(photo_state(STREET, [*events, undo]))
    assert photo_state(STREET, [*events, undo, again]) == whole
    back = replace(undo, event=last)
    assert photo_state(STREET, [*events, back]) == photo_state(STREET, events[:-1])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.data())
def test_after_any_undo_the_work_can_be_finished(seed: int, data: st.DataObject) -> None:
    events = work(STREET, random.Random(seed), most=80)
    events.append(Undone(number=500, worker="rob", event=data.draw(st.integers(1, len(events)))))
    chance = random.Random(seed + 1)
    for number in range(501, 900):
        state = photo_state(STREET, events)
        consistent(state)
        if not state.questions:
            break
        question = chance.choice(state.questions)
        said = chance.choice(answers_to(question.task))
        worker = chance.choice([name for name in map(str, range(60)) if name not in question.barred])
        box = BOX if said is Answer.DRAWN else None
        events.append(
            Judged(number=number, worker=worker, task=question.task, subject=question.subject, answer=said, box=box)
        )
        assert number in photo_state(STREET, events).counted
    assert not state.questions
