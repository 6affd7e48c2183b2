"""The review queue, decisions, phrases and histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from deixis.annotate.events import ProposedBoxes
from deixis.annotate.gallery import GalleryFilter, assign_photos
from deixis.annotate.help.proposals import add_proposals
from deixis.annotate.judgements import ExpiredQuestionError
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role, suspend_worker
from deixis.annotate.progress import read_progress
from deixis.annotate.project import Project, add_photos, open_project
from deixis.annotate.quality import Level
from deixis.annotate.queue import read_assigned
from deixis.annotate.review import (
    ASK_AGAIN,
    Reassigned,
    WaitsFor,
    blocked_questions,
    decide,
    decide_chain,
    decide_phrase,
    edit_phrases,
    explain_photo,
    reassign,
    review_queue,
)
from deixis.annotate.store import RefusedError, qualifications
from deixis.annotate.workflow import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import (
    answer,
    ask,
    join,
    link_and_verify,
    next_question,
    people,
    photo,
    record,
    skip,
    snapshot,
    undo,
)


@on_both_databases
def test_an_undecided_chain_waits_for_the_decision_of_a_reviewer(new_project: MakeProject) -> None:
    project, _ = new_project(1, votes_to_review=3)
    workers = people(project, "Ann", "Bob", "Cy")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    link_and_verify(project, workers[0])
    answer(project, workers[0], Answer.BOX, Task.REQUIREMENT)
    answer(project, workers[1], Answer.NO_MORE, Task.DRAWING)
    answer(project, workers[2], Answer.BOX, Task.REQUIREMENT)
    assert next_question(project, rob) is None
    [item] = review_queue(project)
    assert (item.photo, item.phrase, item.holds_up) == ("dog0", "The dog", True)
    for reviewer, name, mention, decision, match in (
        (rob, "dog0", item.mention, "all", "dog0"),
        (workers[0], "dog0", item.mention, "no box", "reviewers"),
        (rob, "dog0", item.mention, "perhaps", "review"),
        (rob, "dog0", "0:1-2", "no box", "0:1-2"),
        (rob, "cat", item.mention, "no box", "cat"),
    ):
        with pytest.raises(RefusedError, match=match):
            decide_chain(project, reviewer, name, mention, decision)
    decide_chain(project, rob, "dog0", "0:0-5", "no box")
    assert review_queue(project) == []
    assert snapshot(project, "dog0").state.finished


@on_both_databases
def test_a_remark_waits_until_a_reviewer_has_decided_on_the_photo(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    question = ask(project, ann)
    record(project, ann, question.token, "yes", remark="  <b>two</b> dogs?  ")
    assert [item.reason for item in review_queue(project)] == ["remark: <b>two</b> dogs?"]
    decide_phrase(project, rob, "dog0", "0:0-5", "keep")
    assert review_queue(project) == []


@on_both_databases
def test_reviewers_drop_add_and_keep_phrases(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    [rob] = people(project, "Rob", role=Role.OWNER)
    for worker in (ann, bob):
        question = ask(project, worker)
        skip(project, worker, question.token, bad_phrase="1:0-7")
    [item] = review_queue(project)
    assert (item.phrase, item.holds_up) == ("The dog", True)
    with pytest.raises(RefusedError, match="0:0-5"):
        decide_phrase(project, rob, "dog0", "0:2-8", "add")
    with pytest.raises(RefusedError):
        decide_phrase(project, rob, "dog0", "0:0-5", "paint")
    with pytest.raises(DeixisError, match="dog0"):
        decide_phrase(project, rob, "dog0", "7:0-5", "drop")
    decide_phrase(project, rob, "dog0", "1:0-7", "drop")
    decide_phrase(project, rob, "dog0", "1:8-13", "add", types=("other",))
    state = snapshot(project, "dog0").state
    assert [chain.shown.text for chain in state.chains] == ["A dog", "jumps"]
    assert review_queue(project) == []


def test_boxes_of_an_incomplete_chain_cannot_be_decided(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    with pytest.raises(RefusedError, match="dog0"):
        decide_chain(project, rob, "dog0", "0:0-5", "no box")


def test_a_history_lists_every_judgement_with_its_transition(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    link_and_verify(project, ann)
    answer(project, bob, Answer.SCENE, Task.REQUIREMENT)
    [chain], not_counted = explain_photo(project, "dog0")
    assert chain.phrases == ("A dog", "The dog")
    assert [(entry.who, entry.said) for entry in chain.told] == [
        ("Ann", "link: yes"),
        ("Ann", "verify: yes"),
        ("Bob", "requirement: scene"),
    ]
    assert chain.told[0].led_to == "join the chain; always; to in a chain"
    assert (chain.place, not_counted) == ("requirement", [])


def test_a_history_can_be_read_as_of_any_event_and_explains_what_does_not_count(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    link = answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    undo(project, rob, link)
    [chain], not_counted = explain_photo(project, "dog0")
    assert chain.place == "mentions may still join"
    assert [entry.event for entry in not_counted] == [link, link + 1]
    assert "event 3" in not_counted[0].led_to
    [chain], not_counted = explain_photo(project, "dog0", until=2)
    assert (chain.place, not_counted) == ("requirement", [])


def test_a_history_has_the_box_that_waits_for_a_judgement_and_names_models(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man smiles."))])
    ann, bob = people(project, "Ann", "Bob")
    body = {"model": "grounder", "fingerprint": "0" * 12, "boxes": {"0:0-5": [[1, 1, 9, 9, 0.8]]}, "show_from": 0.1}
    assert add_proposals(project, "7", {ProposedBoxes.kind: body})
    [chain], _ = explain_photo(project, "7")
    [box] = chain.boxes
    assert (box.xyxy, box.model, box.by, box.waits) == ((1, 1, 9, 9), "grounder", None, True)
    answer(project, ann, Answer.GOOD, Task.QUALITY)
    answer(project, ann, Answer.MORE, Task.COVERAGE)
    record(project, bob, ask(project, bob).token, "drawn", box=(20, 1, 30, 9))
    [chain], _ = explain_photo(project, "7")
    assert [(each.model, each.by, each.waits) for each in chain.boxes] == [
        ("grounder", None, False),
        (None, "Bob", True),
    ]


A, B, SNOW = ("0:0-5", ("animals",)), ("1:0-7", ("animals",)), ("0:9-17", ("scene",))


def snowy(new_project: MakeProject) -> tuple[Project, str, str]:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A dog in the snow.", "The dog jumps."))])
    [eve] = people(project, "eve", role=Role.OWNER)
    [ann] = people(project, "ann")
    return project, eve, ann


def ids(project: Project) -> list[str]:
    return [phrase.id for phrase in project.read_photo("7").mentions]


@on_both_databases
def test_before_work_begins_phrases_are_replaced_with_their_questions(new_project: MakeProject) -> None:
    project, eve, ann = snowy(new_project)
    assert ids(project) == ["0:0-5", "0:9-17", "1:0-7"]
    held = ask(project, ann)
    edit_phrases(project, eve, "7", [("0:2-5", ()), SNOW])
    assert ids(project) == ["0:2-5", "0:9-17"]
    assert not project.read_photo("7").events
    with pytest.raises(ExpiredQuestionError):
        record(project, ann, held.token, "yes")
    first = ask(project, ann)
    second = ask(project, ann, exclude=[first.token])
    assert [first.content["mentions"], second.content["mentions"]] == [["0:9-17"], ["0:2-5"]]


def test_phrases_that_another_process_edited_are_seen(new_project: MakeProject) -> None:
    project, eve, _ = snowy(new_project)
    edit_phrases(project, eve, "7", [A, B])
    other = open_project(project.folder)
    edit_phrases(other, eve, "7", [A])
    other.close()
    assert ids(project) == ["0:0-5"]


def test_after_work_has_begun_phrase_changes_are_recorded_as_events(new_project: MakeProject) -> None:
    project, eve, ann = snowy(new_project)
    answer(project, ann, Answer.YES)
    edit_phrases(project, eve, "7", [A, SNOW, ("1:8-13", ("other",))])
    assert ids(project) == ["0:0-5", "0:9-17", "1:8-13"]
    assert project.read_photo("7").events
    edit_phrases(project, eve, "7", [A, B, SNOW])
    assert ids(project) == ["0:0-5", "0:9-17", "1:0-7"], "what was dropped can come back"
    assert [event.kind for event in snapshot(project, "7").events].count("marking") == 4
    assert next_question(project, ann) is not None


def test_invalid_phrases_are_refused_and_change_nothing(new_project: MakeProject) -> None:
    project, eve, ann = snowy(new_project)
    for wanted in ([A, ("0:3-9", ())], [("5:0-1", ())], [("0:0-5", ("nonsense",))]):
        with pytest.raises(DeixisError):
            edit_phrases(project, eve, "7", wanted)
    with pytest.raises(RefusedError):
        edit_phrases(project, ann, "7", [A])
    answer(project, ann, Answer.YES)
    with pytest.raises(RefusedError, match="0:0-5"):
        edit_phrases(project, eve, "7", [("0:0-5", ("scene",))])
    assert ids(project) == ["0:0-5", "0:9-17", "1:0-7"]


@on_both_databases
def test_a_tie_of_two_workers_waits_for_a_third_person_and_a_reviewer_can_decide(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    [lead] = join(project, "Lead", role=Role.OWNER)
    for worker, value in ((ann, "yes"), (bob, "yes"), (ann, "scene"), (bob, "no box")):
        record(project, worker, ask(project, worker).token, value)
    assert next_question(project, ann) is None
    [blocked] = blocked_questions(project)
    assert (blocked.task, blocked.waits_for) == (Task.REQUIREMENT, WaitsFor.ANOTHER_PERSON)
    assert blocked.answered == ("Ann", "Bob")
    assert read_progress(project).blocked == {"another person": 1}
    [case] = review_queue(project)
    assert case.holds_up
    assert case.decisions == ("box", "scene", "no box")
    decide(project, lead, case.photo, case.mention, "scene")
    assert snapshot(project, "dog0").state.finished
    assert review_queue(project) == []


def test_a_third_worker_ends_the_wait_until_suspended(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    for worker, value in ((ann, "yes"), (bob, "yes"), (ann, "scene"), (bob, "no box")):
        record(project, worker, ask(project, worker).token, value)
    assert len(blocked_questions(project)) == 1
    join(project, "Cy")
    assert blocked_questions(project) == []
    suspend_worker(project, "Cy")
    assert len(blocked_questions(project)) == 1


def test_what_waits_for_an_absent_person_is_shown_and_given_to_others(new_project: MakeProject) -> None:
    project, clock = new_project(4, absent_after_h=1.0)
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    [lead] = join(project, "Lead", role=Role.OWNER)
    for worker, value in ((ann, "yes"), (bob, "yes"), (ann, "scene"), (bob, "no box")):
        record(project, worker, ask(project, worker).token, value)  # a tie, which only Cy can break
    for worker in (ann, bob):
        skip(project, worker, ask(project, worker).token)  # the same question, twice
    ask(project, cy)
    assert blocked_questions(project) == []
    clock.now += 3601
    assert {ask(project, ann).photo, ask(project, bob).photo} == {"dog2", "dog3"}
    tie, skipped = blocked_questions(project)
    assert tie.waits_for is skipped.waits_for is WaitsFor.ABSENT_PERSON
    assert tie.absent == skipped.absent == (cy,)
    found = read_progress(project)
    assert found.waiting == len(review_queue(project)) == 2  # one number on all pages
    progress = {each.worker: each for each in found.workers}
    assert [(progress[each].absent, progress[each].waiting) for each in (ann, cy)] == [(False, 1), (True, 2)]
    assert progress[cy].seen_at == 1000.0
    with pytest.raises(RefusedError):
        reassign(project, ann, cy)
    assert reassign(project, lead, cy) == Reassigned(released=1, asked_again=1, for_review=1)
    assert [each.photo for each in blocked_questions(project)] == ["dog0"]


@on_both_databases
def test_photos_of_an_absent_person_are_for_everybody_if_too_few_people_are_left(new_project: MakeProject) -> None:
    project, _ = new_project(3)
    names = ("Ann", "Bob", "Cy", "Dan")
    ann, bob, cy, dan = join(project, *names)
    [lead] = join(project, "Lead", role=Role.OWNER)
    for name, chosen in (("dog0", names), ("dog1", names[:3]), ("dog2", names[:2])):
        assign_photos(project, None, GalleryFilter(words=name), chosen)
    reassign(project, lead, cy)
    with project.database.reading() as connection:
        assert read_assigned(connection) == {"dog0": {ann, bob, dan}, "dog2": {ann, bob}}


def test_nobody_is_absent_while_everybody_is_away(new_project: MakeProject) -> None:
    project, clock = new_project(1)
    join(project, "Ann", "Bob")
    clock.now += 1e6
    assert blocked_questions(project) == []


def test_nobody_is_absent_because_only_somebody_is_there_who_may_do_nothing(new_project: MakeProject) -> None:
    project, clock = new_project(2)
    _, _, cy = join(project, "Ann", "Bob", "Cy")
    next_question(project, cy)
    with project.database.writing() as connection:
        connection.execute(update(qualifications).where(qualifications.c.worker == cy).values(level=Level.SUSPENDED))
    clock.now += 1e6
    assert next_question(project, cy) is None  # on Monday morning, before the others
    assert blocked_questions(project) == []
    with project.database.writing() as connection:
        may_draw = (qualifications.c.worker == cy) & (qualifications.c.task == Task.DRAWING)
        connection.execute(update(qualifications).where(may_draw).values(level=Level.TRUSTED))
    assert len(blocked_questions(project)) == 2  # links, which wait for the absent


@pytest.mark.parametrize("decision", ["yes", ASK_AGAIN])
def test_a_question_that_everybody_skipped_is_answered_by_a_reviewer_or_asked_again(
    new_project: MakeProject, decision: str
) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    [lead] = join(project, "Lead", role=Role.OWNER)
    for worker in (ann, bob):
        skip(project, worker, ask(project, worker).token)
    [blocked] = blocked_questions(project)
    assert blocked.skipped == ("Ann", "Bob")
    assert ASK_AGAIN in blocked.decisions
    skips = {worker.name: worker.skipped for worker in read_progress(project).workers}
    assert skips == {"Ann": 1, "Bob": 1, "Lead": 0}
    decide(project, lead, blocked.photo, blocked.mention, decision)
    assert blocked_questions(project) == []
    assert ask(project, ann).task is (Task.VERIFY if decision == "yes" else Task.LINK)


def test_a_reviewer_sees_all_phrases_of_a_blocked_link(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = join(project, "Ann")
    skip(project, ann, ask(project, ann).token)
    [case] = review_queue(project)
    assert case.phrase == "A dog · The dog"
    assert set(case.mentions) == {"0:0-5", "1:0-7"}
    assert case.mention == case.mentions[0]


@pytest.mark.parametrize("task", [Task.QUALITY, Task.COVERAGE])
def test_answers_that_need_a_box_are_no_decisions(new_project: MakeProject, task: Task) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man smiles."))])
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    [lead] = join(project, "Lead", role=Role.OWNER)
    record(project, ann, ask(project, ann).token, "drawn", box=(1, 1, 9, 9))
    if task is Task.COVERAGE:
        record(project, bob, ask(project, bob).token, "good")
    for worker in (ann, bob, cy):
        if (question := next_question(project, worker)) is not None:
            skip(project, worker, question.token)
    [case] = review_queue(project)  # the phrase that two have skipped is no second case
    answers = ("good", "bad") if task is Task.QUALITY else ("all", "more")
    assert case.decisions == (*answers, ASK_AGAIN, "drop")
    needs_box = "adjusted" if task is Task.QUALITY else "wrong box"
    with pytest.raises(RefusedError, match="needs a box"):
        decide(project, lead, case.photo, case.mention, needs_box)
    decide(project, lead, case.photo, case.mention, answers[0])
    assert blocked_questions(project) == []


def test_a_photo_whose_file_is_gone_waits_for_it(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(0)
    project.images = tmp_path
    join(project, "Ann")
    there, gone = (prepare_photo(photo("A dog runs.", "The dog jumps.", name=name)) for name in ("there", "gone"))
    (tmp_path / "dog.jpg").touch()
    add_photos(project, [replace(there, file="dog.jpg"), replace(gone, file="lost.jpg")])
    assert [(each.photo, each.waits_for) for each in blocked_questions(project)] == [("gone", WaitsFor.PICTURE)]


def test_nobody_verifies_their_own_links(new_project: MakeProject) -> None:
    project, _ = new_project(1, verify_own=False)
    ann, bob = join(project, "Ann", "Bob")
    record(project, ann, ask(project, ann).token, "yes")
    assert next_question(project, ann) is None
    assert ask(project, bob).task is Task.VERIFY


def test_nothing_is_blocked_before_anybody_has_joined(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    assert blocked_questions(project) == []


def test_a_phrase_that_two_have_skipped_waits_only_while_its_question_is_open(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man smiles."))])
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    for worker in (ann, bob):
        skip(project, worker, ask(project, worker).token)
    [case] = review_queue(project)
    assert (case.reason, case.decisions) == ("skipped by several workers", ("keep", "drop"))
    record(project, cy, ask(project, cy).token, "drawn", box=(1, 1, 9, 9))
    assert review_queue(project) == []


def test_a_report_of_a_phrase_is_part_of_its_blocked_question(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man smiles."))])
    ann, bob = join(project, "Ann", "Bob")
    [lead] = join(project, "Lead", role=Role.OWNER)
    question = ask(project, ann)
    skip(project, ann, question.token, bad_phrase=question.content["mentions"][0])
    skip(project, bob, ask(project, bob).token)
    [case] = review_queue(project)
    assert case.reason.endswith("Ann and Bob skipped it; reported as not being a phrase")
    assert case.decisions[-1] == "drop"
    decide(project, lead, case.photo, case.mention, "drop")
    assert review_queue(project) == []


def test_a_report_of_one_phrase_of_a_blocked_link_is_a_case_of_its_own(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    question = ask(project, ann)
    skip(project, ann, question.token, bad_phrase=question.content["mentions"][0])
    skip(project, bob, ask(project, bob).token)
    assert [case.decisions for case in review_queue(project)] == [("yes", "no", ASK_AGAIN), ("keep", "drop")]
