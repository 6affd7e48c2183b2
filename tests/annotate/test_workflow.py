"""The table, row by row, beside §2.1 and §2.2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.annotate.walks import Answer, DrawnBox, Place, Rules, Said, Stop, Task, Vote, Walk
from deixis.annotate.workflow import WORKFLOW, Edge, answers_to, begin, step

BOX, SCENE, NO_BOX = Answer.BOX, Answer.SCENE, Answer.NO_BOX
ALL, MORE = Answer.ALL, Answer.MORE


def walked(walk: Walk, *answers: Answer, rules: Rules | None = None) -> tuple[Walk, list[Edge]]:
    """Where answers of different people lead, and along which rows."""
    taken = []
    for number, answer in enumerate(answers):
        box = DrawnBox(f"b{number}", (0, 0, 9, 9), f"w{number}") if answer is Answer.DRAWN else None
        walk, edge = step(walk, Said(answer, f"w{number}", box), rules or Rules())
        assert edge is not None, f"no row for {answer} in {walk.at}"
        taken.append(edge)
    return walk, taken


def votes(*answers: Answer) -> tuple[Vote, ...]:
    return tuple(Vote(f"v{place}", answer) for place, answer in enumerate(answers))


DRAWN = DrawnBox("b", (0, 0, 5, 5), "ann")
LINKING = Walk(Task.LINK, chains_left=("a", "b"))

# One line for each row of the table: where it starts, what is said, where it leads.
STEPS: list[tuple[Walk, Answer, Place]] = [
    (LINKING, Answer.YES, Stop.PLACED),
    (LINKING, Answer.NO, Task.LINK),
    (Walk(Task.LINK, chains_left=("a",)), Answer.NO, Stop.PLACED),
    (Walk(Task.VERIFY, mentions=2), Answer.YES, Task.REQUIREMENT),
    (Walk(Task.VERIFY, mentions=2, drawn_at_once=True), Answer.YES, Task.DRAWING),
    (Walk(Task.VERIFY, mentions=2), Answer.NO, Task.REQUIREMENT),
    (Walk(Task.VERIFY, mentions=2, proposed_links=1), Answer.NO, Task.LINK),
    (Walk(Task.REQUIREMENT), BOX, Task.DRAWING),
    (Walk(Task.REQUIREMENT), SCENE, Task.REQUIREMENT),
    (Walk(Task.REQUIREMENT), NO_BOX, Task.REQUIREMENT),
    (Walk(Task.REQUIREMENT, wanted=votes(SCENE)), SCENE, Stop.NOT_VISUAL),
    (Walk(Task.REQUIREMENT, wanted=votes(NO_BOX)), NO_BOX, Stop.NOT_VISUAL),
    (Walk(Task.REQUIREMENT, wanted=votes(NO_BOX)), BOX, Task.REQUIREMENT),
    (Walk(Task.REQUIREMENT, wanted=votes(NO_BOX, BOX)), BOX, Task.DRAWING),
    (Walk(Task.REQUIREMENT, wanted=votes(NO_BOX, BOX)), NO_BOX, Stop.NOT_VISUAL),
    (Walk(Task.REQUIREMENT, wanted=votes(NO_BOX, BOX)), SCENE, Stop.NOT_VISUAL),
    (Walk(Task.REQUIREMENT, wanted=votes(SCENE)), NO_BOX, Task.REQUIREMENT),
    (Walk(Task.REQUIREMENT, wanted=votes(SCENE, NO_BOX)), BOX, Stop.NOT_VISUAL),
    (Walk(Task.REQUIREMENT, wanted=votes(BOX, NO_BOX, BOX, NO_BOX)), BOX, Stop.REVIEW),
    (Walk(Task.REQUIREMENT, wanted=votes(BOX, NO_BOX, BOX, NO_BOX)), NO_BOX, Stop.NOT_VISUAL),
    (Walk(Task.DRAWING), Answer.DRAWN, Task.QUALITY),
    (Walk(Task.DRAWING), Answer.NO_MORE, Task.REQUIREMENT),
    (Walk(Task.DRAWING, boxes=(DRAWN,)), Answer.NO_MORE, Task.COVERAGE),
    (Walk(Task.QUALITY, new_box=DRAWN), Answer.GOOD, Task.COVERAGE),
    (Walk(Task.QUALITY, new_box=DRAWN), Answer.BAD, Task.DRAWING),
    (Walk(Task.QUALITY, new_box=DRAWN, bad_boxes=4), Answer.BAD, Stop.REVIEW),
    (Walk(Task.COVERAGE, boxes=(DRAWN,)), MORE, Task.DRAWING),
    (Walk(Task.COVERAGE, boxes=(DRAWN,)), ALL, Task.COVERAGE),
    (Walk(Task.COVERAGE, boxes=(DRAWN,), covered=votes(ALL)), ALL, Stop.COMPLETE),
    (Walk(Task.COVERAGE, boxes=(DRAWN,), covered=votes(ALL)), MORE, Task.COVERAGE),
    (Walk(Task.COVERAGE, boxes=(DRAWN,), covered=votes(ALL, MORE)), ALL, Stop.COMPLETE),
    (Walk(Task.COVERAGE, boxes=(DRAWN,), covered=votes(ALL, MORE)), MORE, Task.DRAWING),
    (Walk(Task.COVERAGE, boxes=(DRAWN,), covered=votes(MORE, ALL)), ALL, Stop.COMPLETE),
    (Walk(Task.COVERAGE, boxes=(DRAWN,), covered=votes(MORE, ALL, MORE, ALL)), MORE, Stop.REVIEW),
    (Walk(Stop.REVIEW, boxes=(DRAWN,)), ALL, Stop.COMPLETE),
    (Walk(Stop.REVIEW), BOX, Task.DRAWING),
    (Walk(Stop.REVIEW, boxes=(DRAWN,)), MORE, Task.DRAWING),
    (Walk(Stop.REVIEW, boxes=(DRAWN,)), SCENE, Stop.NOT_VISUAL),
    (Walk(Stop.REVIEW), NO_BOX, Stop.NOT_VISUAL),
]


@pytest.mark.parametrize(("walk", "answer", "place"), STEPS)
def test_each_row_leads_where_the_paper_says(walk: Walk, answer: Answer, place: Place) -> None:
    assert step(walk, Said(answer, "bob", DRAWN), Rules())[0].at is place


def test_the_steps_above_take_every_row_that_needs_an_answer() -> None:
    taken = {step(walk, Said(answer, "bob", DRAWN), Rules())[1] for walk, answer, _ in STEPS}
    assert taken == {edge for edge in WORKFLOW if edge.answers}


@pytest.mark.parametrize(
    ("walk", "place"),
    [
        (Walk(Stop.NEW), Stop.PLACED),
        (Walk(Stop.NEW, chains_left=("a",)), Task.LINK),
        (Walk(Stop.CHAIN, mentions=2), Task.VERIFY),
        (Walk(Stop.CHAIN), Task.REQUIREMENT),
        (Walk(Stop.CHAIN, drawn_at_once=True), Task.DRAWING),
        (Walk(Stop.READY), Task.REQUIREMENT),
        (Walk(Stop.READY, drawn_at_once=True), Task.DRAWING),
    ],
)
def test_rows_without_an_answer_are_taken_at_once(walk: Walk, place: Place) -> None:
    assert begin(walk, Rules()).at is place


def test_every_task_takes_the_answers_of_the_paper_and_no_others() -> None:
    assert answers_to(Task.LINK) == answers_to(Task.VERIFY) == (Answer.YES, Answer.NO)
    assert set(answers_to(Task.REQUIREMENT)) == {BOX, SCENE, NO_BOX}
    assert set(answers_to(Task.DRAWING)) == {Answer.DRAWN, Answer.NO_MORE}
    assert set(answers_to(Task.QUALITY)) == {Answer.GOOD, Answer.BAD}
    assert set(answers_to(Task.COVERAGE)) == {ALL, MORE}
    assert step(Walk(Task.QUALITY, new_box=DRAWN), Said(Answer.YES, "ann"), Rules()) == (
        Walk(Task.QUALITY, new_box=DRAWN),
        None,
    )


def test_none_for_the_first_box_is_a_vote_that_disagrees_with_the_one_that_led_to_drawing() -> None:
    walk, _ = walked(Walk(Task.REQUIREMENT), BOX, Answer.NO_MORE)
    assert [vote.answer for vote in walk.wanted] == [BOX, NO_BOX]
    assert walked(walk, NO_BOX)[0].at is Stop.NOT_VISUAL
    assert walked(walk, BOX)[0].at is Task.DRAWING


def test_a_type_that_skipped_requirement_still_needs_two_to_lose_its_boxes() -> None:
    walk, _ = walked(begin(Walk(Stop.READY, drawn_at_once=True), Rules()), Answer.NO_MORE)
    assert walk.at is Task.REQUIREMENT
    assert walked(walk, NO_BOX)[0].at is Stop.NOT_VISUAL
    assert walked(walk, BOX)[0].at is Task.REQUIREMENT
    assert walked(walk, BOX, BOX)[0].at is Task.DRAWING


def test_no_more_with_boxes_is_a_vote_that_all_are_drawn() -> None:
    walk, _ = walked(Walk(Task.COVERAGE, boxes=(DRAWN,)), MORE, Answer.NO_MORE)
    assert walk.at is Task.COVERAGE
    assert walked(walk, ALL)[0].at is Stop.COMPLETE
    assert walked(walk, MORE)[0].at is Task.DRAWING


def test_a_new_good_box_begins_the_vote_on_coverage_anew_and_a_bad_one_does_not() -> None:
    walk = Walk(Task.COVERAGE, boxes=(DRAWN,), covered=votes(ALL, MORE))
    good, _ = walked(walk, MORE, Answer.DRAWN, Answer.GOOD)
    assert (good.at, len(good.boxes), good.covered) == (Task.COVERAGE, 2, ())
    bad, _ = walked(walk, MORE, Answer.DRAWN, Answer.BAD)
    assert (bad.at, len(bad.boxes), len(bad.covered)) == (Task.DRAWING, 1, 3)


def test_scene_or_no_box_goes_by_the_majority_and_on_a_tie_by_the_earlier_voice() -> None:
    assert walked(Walk(Task.REQUIREMENT), SCENE, SCENE)[0].is_scene
    assert not walked(Walk(Task.REQUIREMENT), NO_BOX, NO_BOX)[0].is_scene
    assert not walked(Walk(Task.REQUIREMENT), NO_BOX, SCENE, NO_BOX)[0].is_scene
    assert walked(Walk(Task.REQUIREMENT), SCENE, NO_BOX, BOX)[0].is_scene
    assert not walked(Walk(Task.REQUIREMENT), NO_BOX, SCENE, BOX)[0].is_scene


def test_a_person_alone_ends_with_one_judgement() -> None:
    alone = Rules(to_end=1)
    assert walked(Walk(Task.REQUIREMENT), SCENE, rules=alone)[0].at is Stop.NOT_VISUAL
    assert walked(Walk(Task.COVERAGE, boxes=(DRAWN,)), ALL, rules=alone)[0].at is Stop.COMPLETE


@given(st.lists(st.sampled_from([BOX, SCENE, NO_BOX]), max_size=5))
def test_nothing_leaves_without_a_box_unless_two_said_so_and_they_were_more(said: list[Answer]) -> None:
    walk = Walk(Task.REQUIREMENT)
    for place, answer in enumerate(said):
        if walk.at is not Task.REQUIREMENT:
            break
        walk, _ = step(walk, Said(answer, f"w{place}"), Rules())
    without = sum(vote.answer is not BOX for vote in walk.wanted)
    boxes = len(walk.wanted) - without
    assert (walk.at is Stop.NOT_VISUAL) == (
        without > boxes
        and (max(map([v.answer for v in walk.wanted].count, (SCENE, NO_BOX))) >= 2 or len(walk.wanted) > 2)
    )
    assert (walk.at is Task.DRAWING) <= (boxes > without)


@given(st.data())
def test_every_walk_ends_or_goes_to_review_and_each_answer_has_one_row(data: st.DataObject) -> None:
    walk, steps = begin(Walk(Stop.CHAIN, mentions=data.draw(st.integers(1, 3))), Rules()), 0
    while isinstance(walk.at, Task):
        answers = answers_to(walk.at)
        # Nobody draws for ever: more than ten boxes for a phrase are not what this is about.
        usable = [each for each in answers if each is not MORE or len(walk.boxes) < 4]
        answer = data.draw(st.sampled_from(usable))
        walk, edge = step(walk, Said(answer, f"w{steps}", DRAWN if answer is Answer.DRAWN else None), Rules())
        assert edge is not None
        steps += 1
        assert steps < 200
    assert walk.ended or walk.at is Stop.REVIEW
    assert bool(walk.boxes) <= (walk.at is not Stop.NOT_VISUAL)
    assert (walk.at is Stop.COMPLETE) <= bool(walk.boxes)
