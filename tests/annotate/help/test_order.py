"""The order by uncertainty, and how it follows the team's answers."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import select

from deixis.annotate.events import ProposedBoxes, ProposedLinks, Undone
from deixis.annotate.help.order import (
    Recalibration,
    UncertaintyOrder,
    mean_entropy,
    read_proposals,
)
from deixis.annotate.help.proposals import add_proposals, propose
from deixis.annotate.project import Project, add_photos
from deixis.annotate.store import photos, questions
from deixis.annotate.workflow import Answer, Task
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import answer, ask, dogs, people, record
from tests.annotate.help.fakes import SureOfHeads
from tests.annotate.test_chains import DOGS, HIM, links, proposed_boxes


class Unsure(SureOfHeads):
    """Surer of some photos than of others."""

    def __init__(self, probabilities: dict[str, float]) -> None:
        super().__init__()
        self.probabilities = probabilities

    def event_body(self, material):  # type: ignore[no-untyped-def]
        self.yes = self.probabilities[material.photo]
        return super().event_body(material)


def places(project: Project) -> list[str]:
    with project.database.reading() as connection:
        return list(connection.scalars(select(photos.c.id).order_by(photos.c.place)))


def test_uncertainty_is_the_mean_entropy_of_the_proposals() -> None:
    sure, unsure = links(DOGS, {(0, 1): 1.0}), proposed_boxes({HIM: [[0, 0, 9, 9, 0.5]]}, number=2)
    assert mean_entropy(read_proposals([sure])) == 0
    assert mean_entropy(read_proposals([sure, unsure])) == 0.5
    assert mean_entropy(read_proposals([sure, unsure, Undone(number=3, worker="ann", event=1)])) == 1
    assert mean_entropy(read_proposals([])) == 1


def test_the_most_uncertain_photo_comes_first(new_project: MakeProject) -> None:
    project, _ = new_project(3)
    propose(project, links=Unsure({"dog0": 0.9, "dog1": 0.5, "dog2": 0.7}))
    (ann,) = people(project, "ann")
    assert UncertaintyOrder(project).refresh() == 3
    assert ask(project, ann).photo == "dog1"
    add_photos(project, dogs(4))
    assert places(project) == ["dog1", "dog2", "dog0", "dog3"]  # the last is new


@on_both_databases
def test_begun_photos_stay_in_front_and_questions_follow_their_photos(new_project: MakeProject) -> None:
    project, _ = new_project(3)
    (ann,) = people(project, "ann")
    answer(project, ann, Answer.YES, Task.LINK)  # of the first photo
    propose(project, links=Unsure({"dog1": 0.95, "dog2": 0.5}))
    UncertaintyOrder(project).refresh()
    assert places(project) == ["dog0", "dog2", "dog1"]
    with project.database.reading() as connection:
        joined = select(questions.c.place, photos.c.place.label("of_photo")).join(photos)
        rows = connection.execute(joined).all()
    assert rows
    assert all(row.place == row.of_photo for row in rows)


def test_answers_show_how_far_a_model_can_be_trusted() -> None:
    assert Recalibration.fit([]) == Recalibration(0.0, 1.0)
    few = Recalibration.fit([(0.9, False)])
    many = Recalibration.fit([(0.9, False), (0.9, True)] * 100)
    assert few.apply([0.9])[0] > many.apply([0.9])[0]  # the prior trusts the model
    assert many.apply([0.9])[0] == pytest.approx(0.5, abs=0.05)
    rng = np.random.default_rng(0)
    drawn = rng.uniform(0.05, 0.95, 2000)
    calibrated = Recalibration.fit([(p, bool(rng.random() < p)) for p in drawn])
    assert calibrated.intercept == pytest.approx(0, abs=0.2)
    assert calibrated.slope == pytest.approx(1, abs=0.2)


def boxed(project: Project, photo: str, probability: float) -> None:
    boxes = {"0:0-5": [[10, 10, 60, 50, probability]]}
    body = {"model": "grounder", "fingerprint": "0" * 12, "boxes": boxes, "show_from": 0.0}
    assert add_proposals(project, photo, {ProposedBoxes.kind: body})


def test_the_order_follows_what_the_team_accepts(new_project: MakeProject) -> None:
    count = 30
    project, _ = new_project(count, order="uncertain", bad_boxes_to_review=1, first_items=0)
    for number in range(count):
        boxed(project, f"dog{number}", 0.9)
    order = UncertaintyOrder(project)
    assert order.refresh_if_due()
    ann, bob = people(project, "ann", "bob")
    for number in range(count):
        answer_task(project, ann, Answer.YES, Task.LINK)
        answer_task(project, ann, Answer.YES, Task.VERIFY)
        answer_task(project, bob, Answer.BOX, Task.REQUIREMENT)
        answer_task(project, bob, Answer.GOOD if number % 2 else Answer.BAD, Task.QUALITY)
    add_photos(project, dogs(count + 2))
    boxed(project, f"dog{count}", 0.55)
    boxed(project, f"dog{count + 1}", 0.9)
    assert order.refresh_if_due()
    assert not order.refresh_if_due()  # too little has happened since
    # Of boxes at 0.9 the team accepts only half, so these are now the least certain.
    assert order.recalibrations[ProposedBoxes.kind].apply([0.9])[0] == pytest.approx(0.5, abs=0.1)
    assert places(project)[-2:] == [f"dog{count + 1}", f"dog{count}"]
    assert order.recalibrations[ProposedLinks.kind] == Recalibration()


def answer_task(project: Project, worker: str, value: Answer, task: Task) -> str:
    """Answer a question of a task and return its photo."""
    question = ask(project, worker, tasks=[task])
    record(project, worker, question.token, value.value)
    return question.photo


def test_projects_in_the_order_of_addition_stay_as_they_are(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    propose(project, links=Unsure({"dog0": 0.9, "dog1": 0.5}))
    assert not UncertaintyOrder(project).refresh_if_due()
    assert places(project) == ["dog0", "dog1"]
