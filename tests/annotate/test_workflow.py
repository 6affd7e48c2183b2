"""The transition table, row by row (sections 2.1 and 2.2 of the paper)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.annotate.workflow import (
    ANSWERS_WITH_BOX,
    WORKFLOW,
    Answer,
    DrawnBox,
    OwnQuestion,
    Question,
    Rules,
    Stage,
    Status,
    Task,
    Transition,
    WorkerAnswer,
    WorkflowState,
    allowed_answers,
    apply_answer,
    apply_automatic,
)

BOX, SCENE, NO_BOX = Answer.BOX, Answer.SCENE, Answer.NO_BOX
ALL, MORE = Answer.ALL, Answer.MORE
NOT_VISUAL = Status.NOT_VISUAL
BOB_FOR_BOX, BOB_FOR_MORE = (WorkerAnswer(answer, "bob") for answer in (BOX, MORE))


def apply_all(
    state: WorkflowState, *answers: Answer, rules: Rules | None = None
) -> tuple[WorkflowState, list[Transition]]:
    """Where answers of different people lead, and along which rows."""
    taken = []
    for number, answer in enumerate(answers):
        box = DrawnBox(f"b{number}", (0, 0, 9, 9), f"w{number}") if answer is Answer.DRAWN else None
        state, transition = apply_answer(state, WorkerAnswer(answer, f"w{number}", box), rules or Rules())
        assert transition is not None, f"no row for {answer} in {state.stage}"
        taken.append(transition)
    return state, taken


def said(*answers: str) -> tuple[WorkerAnswer, ...]:
    """Votes on the lead's own question."""
    return tuple(WorkerAnswer(answer, f"v{index}") for index, answer in enumerate(answers))


def votes(*answers: Answer) -> tuple[WorkerAnswer, ...]:
    return tuple(WorkerAnswer(answer, f"v{index}") for index, answer in enumerate(answers))


DRAWN = DrawnBox("b", (0, 0, 5, 5), "ann")
LINKING = WorkflowState(Task.LINK, chains_left=("a", "b"))

# One line for each row of the table: where it starts, the answer, where it leads.
STEPS: list[tuple[WorkflowState, Answer, Stage]] = [
    (LINKING, Answer.YES, Status.PLACED),
    (LINKING, Answer.NO, Task.LINK),
    (WorkflowState(Task.LINK, chains_left=("a",)), Answer.NO, Status.PLACED),
    (WorkflowState(Task.VERIFY, mentions=2), Answer.YES, Task.REQUIREMENT),
    (WorkflowState(Task.VERIFY, mentions=2, needs_boxes=True), Answer.YES, Task.DRAWING),
    (WorkflowState(Task.VERIFY, mentions=2), Answer.NO, Task.REQUIREMENT),
    (WorkflowState(Task.VERIFY, mentions=2, proposed_links=1), Answer.NO, Task.LINK),
    (WorkflowState(Task.REQUIREMENT), BOX, Task.DRAWING),
    (WorkflowState(Task.REQUIREMENT), SCENE, Task.REQUIREMENT),
    (WorkflowState(Task.REQUIREMENT), NO_BOX, Task.REQUIREMENT),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(SCENE)), SCENE, Status.NOT_VISUAL),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(NO_BOX)), NO_BOX, Status.NOT_VISUAL),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(NO_BOX)), BOX, Task.REQUIREMENT),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(NO_BOX, BOX)), BOX, Task.DRAWING),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(NO_BOX, BOX)), NO_BOX, Status.NOT_VISUAL),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(NO_BOX, BOX)), SCENE, Status.NOT_VISUAL),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(SCENE)), NO_BOX, Task.REQUIREMENT),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(SCENE, NO_BOX)), BOX, Status.NOT_VISUAL),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(BOX, NO_BOX, BOX, NO_BOX)), BOX, Status.REVIEW),
    (WorkflowState(Task.REQUIREMENT, requirement_votes=votes(BOX, NO_BOX, BOX, NO_BOX)), NO_BOX, Status.NOT_VISUAL),
    (WorkflowState(Task.DRAWING), Answer.DRAWN, Task.QUALITY),
    (WorkflowState(Task.DRAWING), Answer.NO_MORE, Task.REQUIREMENT),
    (WorkflowState(Task.DRAWING, boxes=(DRAWN,)), Answer.NO_MORE, Task.COVERAGE),
    # Somebody who has voted may draw, and changes the vote: two of three.
    (WorkflowState(Task.DRAWING, requirement_votes=(*votes(SCENE, BOX), BOB_FOR_BOX)), Answer.NO_MORE, NOT_VISUAL),
    (
        WorkflowState(Task.DRAWING, boxes=(DRAWN,), coverage_votes=(*votes(ALL, MORE), BOB_FOR_MORE)),
        Answer.NO_MORE,
        Status.COMPLETE,
    ),
    (WorkflowState(Task.QUALITY, new_box=DRAWN), Answer.GOOD, Task.COVERAGE),
    (
        WorkflowState(Task.QUALITY, new_box=DRAWN, imported_boxes=True, proposed_boxes=(DRAWN,)),
        Answer.GOOD,
        Task.QUALITY,
    ),
    (WorkflowState(Task.QUALITY, new_box=DRAWN, singular=True), Answer.GOOD, Status.COMPLETE),
    (WorkflowState(Task.QUALITY, new_box=DRAWN, bad_boxes=4), Answer.ADJUSTED, Status.REVIEW),
    (WorkflowState(Task.QUALITY, new_box=DRAWN), Answer.ADJUSTED, Task.QUALITY),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), singular=True), ALL, Status.COMPLETE),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,)), Answer.WRONG_BOX, Task.QUALITY),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), doubts=4), Answer.WRONG_BOX, Status.REVIEW),
    (WorkflowState(Task.QUALITY, new_box=DRAWN), Answer.BAD, Task.DRAWING),
    (WorkflowState(Task.QUALITY, new_box=DRAWN, bad_boxes=4), Answer.BAD, Status.REVIEW),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,)), MORE, Task.DRAWING),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,)), ALL, Task.COVERAGE),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), coverage_votes=votes(ALL)), ALL, Status.COMPLETE),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), coverage_votes=votes(ALL)), MORE, Task.COVERAGE),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), coverage_votes=votes(ALL, MORE)), ALL, Status.COMPLETE),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), coverage_votes=votes(ALL, MORE)), MORE, Task.DRAWING),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), coverage_votes=votes(MORE, ALL)), ALL, Status.COMPLETE),
    (WorkflowState(Task.COVERAGE, boxes=(DRAWN,), coverage_votes=votes(MORE, ALL, MORE, ALL)), MORE, Status.REVIEW),
    (WorkflowState(Status.REVIEW, boxes=(DRAWN,)), ALL, Status.COMPLETE),
    (WorkflowState(Status.REVIEW), BOX, Task.DRAWING),
    (WorkflowState(Status.REVIEW, boxes=(DRAWN,)), MORE, Task.DRAWING),
    (WorkflowState(Status.REVIEW, boxes=(DRAWN,)), SCENE, Status.NOT_VISUAL),
    (WorkflowState(Status.REVIEW), NO_BOX, Status.NOT_VISUAL),
    (WorkflowState(Task.GROUP), Answer.GROUPED, Status.PLACED),
    (WorkflowState(Task.PAIR, new_box=DRAWN, votes=votes(*[Answer.RIGHT] * 4)), Answer.RIGHT, Task.PAIR),
    (WorkflowState(Task.PAIR, new_box=DRAWN, votes=votes(*[Answer.RIGHT] * 5)), Answer.RIGHT, Status.COMPLETE),
    (WorkflowState(Task.PAIR, new_box=DRAWN, votes=votes(*[Answer.RIGHT] * 5)), Answer.WRONG, Task.PAIR),
    (WorkflowState(Task.OWN), "yes", Task.OWN),
    (WorkflowState(Task.OWN, votes=said("yes")), "yes", Status.COMPLETE),
    (WorkflowState(Task.OWN, votes=said("yes")), "no", Task.OWN),
    (WorkflowState(Task.OWN, votes=said("yes", "no")), "all", Task.OWN),  # a tie asks one more
    (WorkflowState(Task.OWN, votes=said("yes", "no", "all")), "no", Status.COMPLETE),
    (WorkflowState(Task.OWN, votes=said("yes", "no", "all", "no")), "yes", Status.COMPLETE),  # without a majority
]


RULES = Rules(skip_singular_coverage=True, question=OwnQuestion("q", "?", choices=("yes", "no", "all")))


@pytest.mark.parametrize(("state", "answer", "target"), STEPS)
def test_each_row_leads_where_the_paper_says(state: WorkflowState, answer: Answer, target: Stage) -> None:
    assert apply_answer(state, WorkerAnswer(answer, "bob", DRAWN), RULES)[0].stage is target


def test_the_steps_above_take_every_row_that_needs_an_answer() -> None:
    taken = {apply_answer(state, WorkerAnswer(answer, "bob", DRAWN), RULES)[1] for state, answer, _ in STEPS}
    assert taken == {transition for transition in WORKFLOW if transition.answers}


@pytest.mark.parametrize(
    ("state", "target"),
    [
        (WorkflowState(Status.NEW), Status.PLACED),
        (WorkflowState(Status.NEW, chains_left=("a",)), Task.LINK),
        (WorkflowState(Status.CHAIN, mentions=2), Task.VERIFY),
        (WorkflowState(Status.CHAIN), Task.REQUIREMENT),
        (WorkflowState(Status.CHAIN, needs_boxes=True), Task.DRAWING),
        (WorkflowState(Status.READY), Task.REQUIREMENT),
        (WorkflowState(Status.READY, needs_boxes=True), Task.DRAWING),
    ],
)
def test_rows_without_an_answer_are_taken_automatically(state: WorkflowState, target: Stage) -> None:
    assert apply_automatic(state, Rules()).stage is target


def test_an_answer_of_another_task_changes_nothing() -> None:
    state = WorkflowState(Task.QUALITY, new_box=DRAWN)
    assert apply_answer(state, WorkerAnswer(Answer.YES, "ann"), Rules()) == (state, None)


def test_no_more_for_the_first_box_is_a_vote_for_no_box() -> None:
    state, _ = apply_all(WorkflowState(Task.REQUIREMENT), BOX, Answer.NO_MORE)
    assert [vote.answer for vote in state.requirement_votes] == [BOX, NO_BOX]
    assert apply_all(state, NO_BOX)[0].stage is Status.NOT_VISUAL
    assert apply_all(state, BOX)[0].stage is Task.DRAWING


def test_a_type_that_skipped_requirement_still_needs_two_to_lose_its_boxes() -> None:
    state, _ = apply_all(apply_automatic(WorkflowState(Status.READY, needs_boxes=True), Rules()), Answer.NO_MORE)
    assert state.stage is Task.REQUIREMENT
    assert apply_all(state, NO_BOX)[0].stage is Status.NOT_VISUAL
    assert apply_all(state, BOX)[0].stage is Task.REQUIREMENT
    assert apply_all(state, BOX, BOX)[0].stage is Task.DRAWING


def test_no_more_with_boxes_is_a_vote_that_all_are_drawn() -> None:
    state, _ = apply_all(WorkflowState(Task.COVERAGE, boxes=(DRAWN,)), MORE, Answer.NO_MORE)
    assert state.stage is Task.COVERAGE
    assert apply_all(state, ALL)[0].stage is Status.COMPLETE
    assert apply_all(state, MORE)[0].stage is Task.DRAWING


def test_a_good_box_restarts_the_vote_on_coverage_and_a_bad_one_does_not() -> None:
    state = WorkflowState(Task.COVERAGE, boxes=(DRAWN,), coverage_votes=votes(ALL, MORE))
    good, _ = apply_all(state, MORE, Answer.DRAWN, Answer.GOOD)
    assert (good.stage, len(good.boxes), good.coverage_votes) == (Task.COVERAGE, 2, ())
    bad, _ = apply_all(state, MORE, Answer.DRAWN, Answer.BAD)
    assert (bad.stage, len(bad.boxes), len(bad.coverage_votes)) == (Task.DRAWING, 1, 3)


def test_scene_or_no_box_is_decided_by_majority_and_on_a_tie_by_the_earlier_vote() -> None:
    assert apply_all(WorkflowState(Task.REQUIREMENT), SCENE, SCENE)[0].is_scene
    assert not apply_all(WorkflowState(Task.REQUIREMENT), NO_BOX, NO_BOX)[0].is_scene
    assert not apply_all(WorkflowState(Task.REQUIREMENT), NO_BOX, SCENE, NO_BOX)[0].is_scene
    assert apply_all(WorkflowState(Task.REQUIREMENT), SCENE, NO_BOX, BOX)[0].is_scene
    assert not apply_all(WorkflowState(Task.REQUIREMENT), NO_BOX, SCENE, BOX)[0].is_scene


def test_a_person_alone_ends_with_one_judgement() -> None:
    alone = Rules(judgements_to_end=1)
    assert apply_all(WorkflowState(Task.REQUIREMENT), SCENE, rules=alone)[0].stage is Status.NOT_VISUAL
    assert apply_all(WorkflowState(Task.COVERAGE, boxes=(DRAWN,)), ALL, rules=alone)[0].stage is Status.COMPLETE


@given(st.lists(st.sampled_from([BOX, SCENE, NO_BOX]), max_size=5))
def test_a_chain_ends_without_a_box_only_if_two_agree_and_are_the_majority(answers: list[Answer]) -> None:
    state = WorkflowState(Task.REQUIREMENT)
    for index, answer in enumerate(answers):
        if state.stage is not Task.REQUIREMENT:
            break
        state, _ = apply_answer(state, WorkerAnswer(answer, f"w{index}"), Rules())
    without = sum(vote.answer is not BOX for vote in state.requirement_votes)
    boxes = len(state.requirement_votes) - without
    assert (state.stage is Status.NOT_VISUAL) == (
        without > boxes
        and (
            max(map([v.answer for v in state.requirement_votes].count, (SCENE, NO_BOX))) >= 2
            or len(state.requirement_votes) > 2
        )
    )
    assert (state.stage is Task.DRAWING) <= (boxes > without)


@given(st.data())
def test_every_chain_ends_or_goes_to_review_and_each_answer_has_one_row(data: st.DataObject) -> None:
    state, steps = apply_automatic(WorkflowState(Status.CHAIN, mentions=data.draw(st.integers(1, 3))), Rules()), 0
    while isinstance(state.stage, Task):
        answers = allowed_answers(state.stage)
        # Nobody draws for ever: more than ten boxes for a phrase are not what this is about.
        usable = [each for each in answers if each is not MORE or len(state.boxes) < 4]
        answer = data.draw(st.sampled_from(usable))
        box = DRAWN if answer in ANSWERS_WITH_BOX else None
        state, transition = apply_answer(state, WorkerAnswer(answer, f"w{steps}", box), Rules())
        assert transition is not None
        steps += 1
        assert steps < 200
    assert state.ended or state.stage is Status.REVIEW
    assert bool(state.boxes) <= (state.stage is not Status.NOT_VISUAL)
    assert (state.stage is Status.COMPLETE) <= bool(state.boxes)


ACCEPTED = DrawnBox("b7", (1, 2, 3, 4), "w-secret")
NEW = DrawnBox("b9", (5, 6, 7, 8), "w-other")
QUALITY = Question("p", Task.QUALITY, ("0:0-5",), (ACCEPTED,), NEW, frozenset({"w-other"}))


def test_the_subject_names_all_mentions_and_boxes() -> None:
    assert QUALITY.subject == "0:0-5 b7 ?b9"
    assert Question("p", Task.COVERAGE, ("0:0-5",), (ACCEPTED, NEW)).subject == "0:0-5 b7 b9"


def test_the_json_of_a_question_does_not_reveal_workers() -> None:
    shown = json.dumps(QUALITY.as_json())
    assert json.loads(shown)["new_box"] == [5, 6, 7, 8]
    assert "w-secret" not in shown
    assert "w-other" not in shown


ADJUSTED = DrawnBox("b2", (1, 1, 6, 6), "bob")


def test_an_adjusted_box_takes_the_place_of_the_one_shown_and_is_judged() -> None:
    state = WorkflowState(Task.QUALITY, new_box=DRAWN)
    state, _ = apply_answer(state, WorkerAnswer(Answer.ADJUSTED, "bob", ADJUSTED), Rules())
    assert (state.stage, state.new_box, state.adjusted) == (Task.QUALITY, ADJUSTED, ((DRAWN, ADJUSTED),))
    assert apply_all(state, Answer.GOOD)[0].boxes == (ADJUSTED,)


def test_a_box_called_wrong_is_judged_again_and_coverage_is_voted_on_anew() -> None:
    other = DrawnBox("c", (7, 7, 9, 9), "ann")
    state = WorkflowState(Task.COVERAGE, boxes=(DRAWN, other), coverage_votes=votes(ALL))
    doubted, _ = apply_answer(state, WorkerAnswer(Answer.WRONG_BOX, "bob", DrawnBox("", DRAWN.xyxy, "bob")), Rules())
    assert (doubted.new_box, doubted.boxes, doubted.doubted_by) == (DRAWN, (other,), "bob")
    kept, _ = apply_all(doubted, Answer.GOOD)
    assert (kept.stage, set(kept.boxes), kept.coverage_votes) == (Task.COVERAGE, {DRAWN, other}, ())
    assert apply_all(doubted, Answer.BAD)[0].boxes == (other,)


def test_wrong_about_a_box_that_is_not_there_changes_nothing() -> None:
    state = WorkflowState(Task.COVERAGE, boxes=(DRAWN,))
    assert apply_answer(state, WorkerAnswer(Answer.WRONG_BOX, "bob", ADJUSTED), Rules()) == (state, None)


def test_coverage_is_skipped_only_for_one_box_of_a_singular_phrase_that_the_lead_allows() -> None:
    singular = WorkflowState(Task.QUALITY, new_box=DRAWN, singular=True)
    assert apply_all(singular, Answer.GOOD, rules=RULES)[0].stage is Status.COMPLETE
    assert apply_all(singular, Answer.GOOD)[0].stage is Task.COVERAGE
    second = WorkflowState(Task.QUALITY, boxes=(ADJUSTED,), new_box=DRAWN, singular=True)
    assert apply_all(second, Answer.GOOD, rules=RULES)[0].stage is Task.COVERAGE
    plural = WorkflowState(Task.QUALITY, new_box=DRAWN)
    assert apply_all(plural, Answer.GOOD, rules=RULES)[0].stage is Task.COVERAGE
