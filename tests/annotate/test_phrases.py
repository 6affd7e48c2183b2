"""Editing the phrases of a photo."""

from __future__ import annotations

import pytest

from deixis.annotate.assigning import next_question
from deixis.annotate.changing import RefusedError
from deixis.annotate.material import material_of
from deixis.annotate.people import Role
from deixis.annotate.phrases import edit_phrases, phrases_of
from deixis.annotate.project import Project, add_photos
from deixis.annotate.recording import TakenBackError, record
from deixis.annotate.walks import Answer
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, ask, people, photo

A, B, SNOW = ("0:0-5", ("animals",)), ("1:0-7", ("animals",)), ("0:9-17", ("scene",))


def snowy(new_project: MakeProject) -> tuple[Project, str, str]:
    project, _ = new_project(0)
    add_photos(project, [material_of(photo("A dog in the snow.", "The dog jumps."))])
    [eve] = people(project, "eve", role=Role.OWNER)
    [ann] = people(project, "ann")
    return project, eve, ann


def ids(project: Project) -> list[str]:
    return [phrase.id for phrase in phrases_of(project, "7").phrases]


def test_before_work_begins_phrases_are_replaced_and_questions_follow(new_project: MakeProject) -> None:
    project, eve, ann = snowy(new_project)
    assert ids(project) == ["0:0-5", "0:9-17", "1:0-7"]
    held = ask(project, ann)
    edit_phrases(project, eve, "7", [("0:2-5", ()), SNOW])
    assert ids(project) == ["0:2-5", "0:9-17"]
    assert not phrases_of(project, "7").begun
    with pytest.raises(TakenBackError):
        record(project, ann, held.token, "yes")
    first = ask(project, ann)
    second = next_question(project, ann, besides=[first.token])
    assert second is not None
    assert [first.asked["mentions"], second.asked["mentions"]] == [["0:9-17"], ["0:2-5"]]


def test_afterwards_phrases_are_dropped_and_added_on_record(new_project: MakeProject) -> None:
    project, eve, ann = snowy(new_project)
    answer(project, ann, Answer.YES)
    edit_phrases(project, eve, "7", [A, SNOW, ("1:8-13", ("other",))])
    assert ids(project) == ["0:0-5", "0:9-17", "1:8-13"]
    assert phrases_of(project, "7").begun
    edit_phrases(project, eve, "7", [A, B, SNOW])
    assert ids(project) == ["0:0-5", "0:9-17", "1:0-7"], "what was dropped can come back"
    with project.database.reading() as connection:
        kinds = [event.kind for event in project.folds.at(connection, "7").events]
    assert kinds.count("marking") == 4
    assert next_question(project, ann) is not None


def test_what_cannot_be_is_refused_and_changes_nothing(new_project: MakeProject) -> None:
    project, eve, ann = snowy(new_project)
    for wanted in ([A, ("0:3-9", ())], [("5:0-1", ())], [("0:0-5", ("nonsense",))]):
        with pytest.raises(Exception, match=r"overlaps|no caption|is no type"):
            edit_phrases(project, eve, "7", wanted)
    with pytest.raises(RefusedError, match="only owners"):
        edit_phrases(project, ann, "7", [A])
    answer(project, ann, Answer.YES)
    with pytest.raises(RefusedError, match="keeps the types"):
        edit_phrases(project, eve, "7", [("0:0-5", ("scene",))])
    assert ids(project) == ["0:0-5", "0:9-17", "1:0-7"]
