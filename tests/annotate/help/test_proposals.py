"""Proposals by models."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_crowd import Kind, Truth, simulate_crowd
from sqlalchemy import select

from deixis.annotate.help.proposals import (
    ProposalCounts,
    propose,
    propose_by_settings,
    with_proposals,
)
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role, find_worker
from deixis.annotate.progress import read_progress
from deixis.annotate.project import Project, add_photos, make_project
from deixis.annotate.schema import known_questions, workers
from deixis.annotate.settings import Settings
from deixis.annotate.workflow import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, ask, dogs, gold, people, photo, snapshot, undo
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
