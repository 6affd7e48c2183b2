"""The most uncertain photos first."""

from __future__ import annotations

from sqlalchemy import select

from deixis.annotate.events import Undone
from deixis.annotate.help.ordering import most_uncertain_first, uncertainty
from deixis.annotate.help.proposing import propose
from deixis.annotate.project import add_photos
from deixis.annotate.store.schema import photos
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import ask, dogs, people
from tests.annotate.help.fakes import SureOfHeads
from tests.annotate.help.test_proposals import DOGS, HIM, boxes, links


class Unsure(SureOfHeads):
    """Surer of some photos than of others."""

    def __init__(self, likely: dict[str, float]) -> None:
        super().__init__()
        self.likely = likely

    def body(self, material):  # type: ignore[no-untyped-def]
        self.yes = self.likely[material.photo]
        return super().body(material)


def test_a_photo_is_as_uncertain_as_what_was_proposed_on_the_mean() -> None:
    sure, unsure = links(DOGS, {(0, 1): 1.0}), boxes({HIM: [[0, 0, 9, 9, 0.5]]}, number=2)
    assert uncertainty([sure]) == 0
    assert uncertainty([sure, unsure]) == 0.5
    assert uncertainty([sure, unsure, Undone(number=3, worker="ann", event=1)]) == 1
    assert uncertainty([]) == 1


def test_people_are_asked_about_the_most_uncertain_photo_first(new_project: MakeProject) -> None:
    project, _ = new_project(3)
    propose(project, links=Unsure({"dog0": 0.9, "dog1": 0.5, "dog2": 0.7}))
    (ann,) = people(project, "ann")
    assert most_uncertain_first(project) == 3
    assert ask(project, ann).photo == "dog1"
    add_photos(project, dogs(4))
    with project.database.reading() as connection:
        names = list(connection.scalars(select(photos.c.id).order_by(photos.c.place)))
    assert names == ["dog1", "dog2", "dog0", "dog3"]  # the last is new
