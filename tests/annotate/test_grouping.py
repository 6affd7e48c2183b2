"""The group interface for coreference."""

from __future__ import annotations

import random

import pytest
from simulated_crowd import HONEST, Truth, simulate_crowd

from deixis.annotate.events import Event, Judged, PhraseDecision
from deixis.annotate.grouping import find_grouping_problem, rand_index
from deixis.annotate.known_answers import add_known_photos, make_grouped_questions
from deixis.annotate.material import prepare_photo
from deixis.annotate.project import add_photos
from deixis.annotate.state import PhotoState, derive_state
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workflow import Answer, Rules, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import ask, gold, people, photo, record, snapshot

MATERIAL = prepare_photo(photo("A man sees a woman.", "The guy waves.", "Two people."))
MAN, WOMAN, GUY, BOTH = (mention.id for mention in MATERIAL.mentions)
RULES = Rules(group_links=True)


def grouped(*groups: tuple[str, ...], number: int = 1, worker: str = "ann") -> Judged:
    subject = " ".join((MAN, WOMAN, GUY, BOTH))
    return Judged(number=number, worker=worker, task=Task.GROUP, subject=subject, answer=Answer.GROUPED, groups=groups)


def state_after(*events: Event, rules: Rules = RULES) -> PhotoState:
    return derive_state(MATERIAL, list(events), rules)


def test_one_question_asks_about_all_mentions_that_could_be_the_same() -> None:
    asked = state_after().questions
    assert [(question.task, question.mentions) for question in asked] == [(Task.GROUP, (MAN, WOMAN, GUY, BOTH))]
    assert state_after(rules=Rules()).questions[0].task is Task.LINK


def test_the_answer_makes_chains_that_somebody_else_verifies() -> None:
    state = state_after(grouped((MAN, GUY), (WOMAN,), (BOTH,)))
    assert [[mention.id for mention in chain.mentions] for chain in state.chains] == [[MAN, GUY], [WOMAN], [BOTH]]
    verify = next(question for question in state.questions if question.task is Task.VERIFY)
    assert (verify.mentions, verify.barred) == ((MAN, GUY), {"ann"})
    assert state.counted == {1}


def test_a_dropped_phrase_leaves_the_other_groups() -> None:
    dropped = PhraseDecision(number=2, worker="rob", mention=WOMAN, decision="drop")
    state = state_after(grouped((MAN, GUY), (WOMAN,), (BOTH,)), dropped)
    assert [[mention.id for mention in chain.mentions] for chain in state.chains] == [[MAN, GUY], [BOTH]]


def test_pairs_that_were_begun_are_finished_as_pairs() -> None:
    pair = state_after(rules=Rules()).questions[0]
    judged = Judged(number=1, worker="ann", task=Task.LINK, subject=pair.subject, answer=Answer.NO)
    assert {question.task for question in state_after(judged).questions} == {Task.LINK}


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [[MAN, GUY]],
        [[MAN, GUY], [WOMAN], [BOTH, BOTH]],
        [[MAN, WOMAN], [GUY], [BOTH]],
        [[MAN, GUY, WOMAN, BOTH], []],
    ],
)
def test_answers_that_are_no_groups_are_refused(new_project: MakeProject, groups: list[list[str]]) -> None:
    assert find_grouping_problem((MAN, WOMAN, GUY, BOTH), groups)
    project, _ = new_project(0, group_links=True)
    add_photos(project, [MATERIAL])
    [ann] = people(project, "Ann")
    token = ask(project, ann).token
    with pytest.raises(RefusedError):
        record(project, ann, token, "grouped", groups=groups)
    record(project, ann, token, "grouped", groups=[[MAN, GUY], [WOMAN], [BOTH]])
    assert len(snapshot(project, "7").state.chains) == 3


def test_agreement_of_groups_is_that_of_their_pairs() -> None:
    assert rand_index([[MAN, GUY], [WOMAN]], [[GUY, MAN], [WOMAN]]) == 1.0
    assert rand_index([[MAN, GUY], [WOMAN]], [[GUY], [MAN], [WOMAN]]) == 0.5  # man and woman are of one caption


def test_known_groups_are_the_gold_chains() -> None:
    annotated = gold()
    made = list(make_grouped_questions(annotated, prepare_photo(annotated), random.Random(0)))
    questions = [known for known in made if known.question.task is Task.GROUP]
    assert questions
    assert all(known.question.task is not Task.LINK for known in made)
    for known in questions:
        truth = Truth(annotated).groups(known.question.mentions)
        assert rand_index(known.groups, truth) == 1.0
        assert known.why.startswith("Annotators ")


def test_a_wrong_group_in_a_test_is_explained(new_project: MakeProject) -> None:
    project, _ = new_project(0, group_links=True, test_questions=1, first_items=0)
    add_known_photos(project, [gold(f"g{number}") for number in range(4)])
    add_photos(project, [MATERIAL])
    [ann] = people(project, "Ann")
    question = ask(project, ann)
    assert (question.task, question.test) == (Task.GROUP, True)
    told = record(project, ann, question.token, "grouped", groups=[[name] for name in question.content["mentions"]])
    truth = Truth(gold()).groups(question.content["mentions"])
    assert told.lesson is not None
    assert told.lesson.correct == (rand_index([[name] for name in question.content["mentions"]], truth) >= 0.6)
    assert told.lesson.why


def test_a_crowd_finishes_photos_with_fewer_questions_than_pairs(new_project: MakeProject) -> None:
    judged = {}
    for groups in (False, True):
        project, _ = new_project(0, group_links=groups, test_questions=0, first_items=0, verify_own=False)
        photos = [gold(f"g{number}") for number in range(6)]
        add_photos(project, map(prepare_photo, photos))
        done = simulate_crowd(project, {each.id: Truth(each) for each in photos}, {HONEST: 5})
        assert all(snapshot(project, each.id).state.finished for each in photos)
        judged[groups] = done.judged[Task.LINK] + done.judged[Task.GROUP]
    assert 0 < judged[True] < judged[False]
