"""Models propose in a project."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from deixis.annotate.help.proposing import Proposing, propose
from deixis.annotate.known import add_known
from deixis.annotate.material import material_of
from deixis.annotate.people import Role, find_worker
from deixis.annotate.progress import progress
from deixis.annotate.project import Project, add_photos
from deixis.annotate.recording import undo
from deixis.annotate.rehearsal import Kind, Truth, rehearse
from deixis.annotate.store.schema import known, workers
from deixis.annotate.walks import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, ask, gold, people, photo
from tests.annotate.help.fakes import SureOfHeads, box_model


def test_nothing_is_proposed_unless_it_is_asked_for(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    assert propose(project) == Proposing(0, 0, 0)
    (ann,) = people(project, "ann")
    assert "proposal" not in ask(project, ann).asked


def test_people_verify_what_a_model_has_linked(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    assert propose(project, links=SureOfHeads()) == Proposing(2, 0, 0)
    (ann,) = people(project, "ann")
    given = ask(project, ann)
    assert given.task is Task.VERIFY
    assert given.asked["proposal"] == {"model": "coreference", "links": 1}


def test_proposing_again_asks_the_models_about_new_photos_only(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    model = SureOfHeads()
    propose(project, links=model)
    add_photos(project, [material_of(gold("new"))])
    assert propose(project, links=model) == Proposing(1, 0, 0)
    assert model.asked == 2


def test_a_photo_that_people_have_begun_stays_as_it_is(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "ann", "bob")
    answer(project, ann, Answer.YES, Task.LINK)
    assert propose(project, links=SureOfHeads()) == Proposing(0, 1, 0)
    assert "proposal" not in ask(project, bob).asked


def test_a_model_is_nobody_who_is_paid_or_can_be_named(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    propose(project, links=SureOfHeads())
    assert progress(project).workers == ()
    with project.database.reading() as connection:
        assert connection.scalar(select(workers.c.name)) == "coreference abc"
        with pytest.raises(DeixisError, match="nobody of that name"):
            find_worker(connection, "coreference abc")


def test_nobody_is_blamed_for_a_models_box(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [material_of(photo("A man."))])
    propose(project, boxes=box_model({"A man": [[0, 0, 20, 20, 0.9], [70, 50, 90, 70, 0.8]]}))
    ann, bob = people(project, "ann", "bob")
    answer(project, ann, Answer.BAD, Task.QUALITY)
    answer(project, ann, Answer.BAD, Task.QUALITY)
    answer(project, bob, Answer.DRAWN, Task.DRAWING)
    answer(project, ann, Answer.GOOD, Task.QUALITY)
    assert {each.name: each.accuracy for each in progress(project).workers} == {"ann": None, "bob": 1.0}


def test_an_owner_can_take_a_models_word_back(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    propose(project, links=SureOfHeads())
    (owner,) = people(project, "owner", role=Role.OWNER)
    undo(project, owner, 1)
    assert ask(project, owner).task is Task.LINK


def test_known_questions_are_marked_as_others_are_and_bad_boxes_are_among_them(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_known(project, [gold()])
    boxes = box_model({"The man": [[10, 10, 30, 70, 0.9]], "a dog": [[0, 0, 40, 40, 0.9]]})
    done = propose(project, links=SureOfHeads(), boxes=boxes)
    with project.database.reading() as connection:
        rows = connection.execute(select(known)).all()
    marked = [row for row in rows if "proposal" in row.asked]
    assert done == Proposing(0, 0, len(marked))
    assert {row.task for row in marked} == {"verify", "quality"}
    verdicts = {tuple(row.asked["new_box"]): row.answer for row in marked if row.task == "quality"}
    assert verdicts == {(10, 10, 30, 70): "good"}  # "a dog" is not the longest mention of its chain


def test_perfect_workers_correct_a_model_that_is_always_wrong(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    photos = [gold("a"), gold("b")]
    add_photos(project, map(material_of, photos))
    wrong = box_model({text: [[0, 0, 9, 9, 0.99]] for text in ("The man", "a boy", "their dog", "Two people")})
    propose(project, links=SureOfHeads(yes=0.99, no=0.5), boxes=wrong)
    rehearse(project, {each.id: Truth(each) for each in photos}, {Kind("perfect", errs=0.0, shake=0.0): 5})
    assert set(_chains(project, "a")) == {
        (frozenset({"0:0-5", "2:0-7"}), ((10, 10, 30, 70),)),
        (frozenset({"0:10-15"}), ((40, 20, 60, 70),)),
        (frozenset({"0:21-26", "1:16-25"}), ((70, 50, 95, 75),)),
        (frozenset({"0:30-38"}), ()),
        (frozenset({"1:0-10"}), ((10, 10, 30, 70), (40, 20, 60, 70))),
    }


def _chains(project: Project, photo: str) -> list[tuple[frozenset[str], tuple[object, ...]]]:
    with project.database.reading() as connection:
        state = project.folds.at(connection, photo).state
    assert state.finished
    return [
        (frozenset(mention.id for mention in chain.mentions), tuple(sorted(box.xyxy for box in chain.walk.boxes)))
        for chain in state.chains
        if chain.walk
    ]
