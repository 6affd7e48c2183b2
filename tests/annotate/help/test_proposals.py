"""Proposals by models."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_crowd import Kind, Truth, simulate_crowd
from sqlalchemy import select

from deixis.annotate.export import export_photo
from deixis.annotate.help.proposals import (
    ProposalCounts,
    propose,
    propose_annotations,
    propose_by_settings,
    with_proposals,
)
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role, find_worker
from deixis.annotate.progress import read_progress
from deixis.annotate.project import Project, add_photos, make_project
from deixis.annotate.settings import Settings
from deixis.annotate.store import known_questions, workers
from deixis.annotate.workflow import Answer, Task
from deixis.data.records import Photo
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import answer, ask, dogs, gold, next_question, people, photo, record, snapshot, undo
from tests.annotate.help.fakes import SureOfHeads, box_model


def test_workers_verify_proposed_links(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    assert propose(project) == ProposalCounts(0, 0, 0)
    model = SureOfHeads()
    assert propose(project, links=model) == ProposalCounts(2, 0, 0)
    (ann,) = people(project, "ann")
    question = ask(project, ann)
    assert question.task is Task.VERIFY
    assert question.content["proposal"] == {"model": "coreference", "links": 1}
    add_photos(project, [prepare_photo(gold("new"))])
    assert propose(project, links=model) == ProposalCounts(1, 0, 0)
    assert model.calls == 3, "the model runs on new photos only"


def test_photos_with_judgements_get_no_proposals(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "ann", "bob")
    answer(project, ann, Answer.YES, Task.LINK)
    assert propose(project, links=SureOfHeads()) == ProposalCounts(0, 1, 0)
    assert "proposal" not in ask(project, bob).content


def test_a_model_is_not_listed_as_a_worker(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    propose(project, links=SureOfHeads())
    assert read_progress(project).workers == ()
    with project.database.reading() as connection:
        assert connection.scalar(select(workers.c.name)) == "coreference abc"
        with pytest.raises(DeixisError, match="coreference"):
            find_worker(connection, "coreference abc")


@on_both_databases
def test_a_models_box_is_no_check_of_a_worker(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man."))])
    propose(project, boxes=box_model({"A man": [[0, 0, 20, 20, 0.9], [70, 50, 90, 70, 0.8]]}))
    ann, bob = people(project, "ann", "bob")
    answer(project, ann, Answer.BAD, Task.QUALITY)
    answer(project, ann, Answer.BAD, Task.QUALITY)
    answer(project, bob, Answer.DRAWN, Task.DRAWING)
    answer(project, ann, Answer.GOOD, Task.QUALITY)
    assert {each.name: each.accuracy for each in read_progress(project).workers} == {"ann": None, "bob": 1.0}


def test_an_owner_can_undo_proposals(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    propose(project, links=SureOfHeads())
    (owner,) = people(project, "owner", role=Role.OWNER)
    undo(project, owner, 1)
    assert ask(project, owner).task is Task.LINK


def test_known_questions_are_marked_like_others_and_include_bad_boxes(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_known_photos(project, [gold()])
    boxes = box_model({"The man": [[10, 10, 30, 70, 0.9]], "a dog": [[0, 0, 40, 40, 0.9]]})
    done = propose(project, links=SureOfHeads(), boxes=boxes)
    with project.database.reading() as connection:
        rows = connection.execute(select(known_questions)).all()
    marked = [row for row in rows if "proposal" in row.asked]
    assert done == ProposalCounts(0, 0, len(marked))
    assert {row.task for row in marked} == {"verify", "quality"}
    verdicts = {tuple(row.asked["new_box"]): row.answer for row in marked if row.task == "quality"}
    assert verdicts == {(10, 10, 30, 70): "good"}  # "a dog" is not the longest mention of its chain


def test_perfect_workers_correct_a_model_that_is_always_wrong(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    photos = [gold("a"), gold("b")]
    add_photos(project, map(prepare_photo, photos))
    wrong = box_model({text: [[0, 0, 9, 9, 0.99]] for text in ("The man", "a boy", "their dog", "Two people")})
    propose(project, links=SureOfHeads(yes=0.99, no=0.5), boxes=wrong)
    simulate_crowd(
        project, {each.id: Truth(each) for each in photos}, {Kind("perfect", error_rate=0.0, box_noise=0.0): 5}
    )
    assert set(_chains(project, "a")) == {
        (frozenset({"0:0-5", "2:0-7"}), ((10, 10, 30, 70),)),
        (frozenset({"0:10-15"}), ((40, 20, 60, 70),)),
        (frozenset({"0:21-26", "1:16-25"}), ((70, 50, 95, 75),)),
        (frozenset({"0:30-38"}), ()),
        (frozenset({"1:0-10"}), ((10, 10, 30, 70), (40, 20, 60, 70))),
    }


def _chains(project: Project, photo: str) -> list[tuple[frozenset[str], tuple[object, ...]]]:
    state = snapshot(project, photo).state
    assert state.finished
    return [
        (frozenset(mention.id for mention in chain.mentions), tuple(sorted(box.xyxy for box in chain.workflow.boxes)))
        for chain in state.chains
        if chain.workflow
    ]


def test_the_command_line_chooses_proposals_and_order() -> None:
    assert with_proposals(Settings(), None, None) == Settings()
    chosen = with_proposals(Settings(), "links, boxes", "uncertain")
    assert (chosen.propose_links, chosen.propose_boxes, chosen.order) == (True, True, "uncertain")


def test_boxes_cannot_be_proposed_without_photos(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", settings=Settings(propose_boxes=True))
    with pytest.raises(DeixisError, match="propose_boxes"):
        propose_by_settings(project)
    project.close()


def test_the_bounds_of_proposals_are_settings(tmp_path: Path) -> None:
    project = make_project(tmp_path / "asked", settings=Settings(propose_links=True, links_yes_from=1.0))
    add_photos(project, dogs(1))
    propose_by_settings(project)
    assert [question.task for question in snapshot(project).state.questions] == [Task.LINK]
    project.close()


ACCEPT = {Task.VERIFY: "yes", Task.QUALITY: "good", Task.COVERAGE: "all", Task.REQUIREMENT: "scene"}


def chains_and_boxes(photo: Photo) -> set[tuple[frozenset[str], frozenset[tuple[float, ...]]]]:
    """The chains as sets of phrases and boxes, without their names."""
    found = set()
    for chain in photo.chains:
        phrases = frozenset(
            f"{number}:{mention.start}"
            for number, caption in enumerate(photo.captions)
            for mention in caption.mentions
            if mention.chain == chain.id
        )
        found.add((phrases, frozenset(tuple(round(side, 2) for side in box.xyxy) for box in photo.boxes_of(chain.id))))
    return found


@pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)
def test_imported_chains_and_boxes_are_verified_and_judged_and_come_out_again(new_project: MakeProject) -> None:
    project, _ = new_project(0, test_questions=0, first_items=0, hidden_share=0.0)
    photo = gold()
    add_photos(project, [prepare_photo(photo)])
    add_known_photos(project, [gold("known")])
    assert propose_annotations(project, [photo], "f" * 12) == 1
    workers = people(project, "Ann", "Bob", "Cy")
    asked = []
    while questions := [(worker, each) for worker in workers if (each := next_question(project, worker))]:
        for worker, question in questions:
            asked.append(question.task)
            assert question.task in ACCEPT
            record(project, worker, question.token, ACCEPT[question.task])
    assert asked.count(Task.REQUIREMENT) == 2  # of the park, which has no box
    exported, provenance = export_photo(snapshot(project, photo.id), project.settings)
    assert chains_and_boxes(exported) == chains_and_boxes(photo)
    assert provenance[0]["proposed"]["links"]["model"] == "imported"
    with project.database.reading() as connection:
        marks = [row.asked.get("proposal") for row in connection.execute(known_questions.select())]
    assert any(marks)


@pytest.mark.parametrize("new_project", ["sqlite"], indirect=True)
def test_photos_with_judgements_stay_as_they_are(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(gold())])
    [ann] = people(project, "Ann")
    record(project, ann, ask(project, ann).token, "no")
    assert propose_annotations(project, [gold()], "f" * 12) == 0
