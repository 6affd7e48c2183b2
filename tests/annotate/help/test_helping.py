"""The help that settings ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.annotate.help.helping import asking_for, propose_as_set
from deixis.annotate.project import add_photos, make_project
from deixis.annotate.settings import Settings
from deixis.annotate.walks import Task
from deixis.errors import DeixisError
from tests.annotate.fakes import dogs


def test_help_is_off_unless_somebody_asks_for_it() -> None:
    assert asking_for(Settings(), None, None) == Settings()
    asked = asking_for(Settings(), "links, boxes", "uncertain")
    assert (asked.propose_links, asked.propose_boxes, asked.order) == (True, True, "uncertain")


def test_what_cannot_be_asked_for_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="--propose dogs: choose from: links, boxes"):
        asking_for(Settings(), "dogs", None)
    with pytest.raises(DeixisError, match="order is 'size'"):
        asking_for(Settings(), None, "size")
    with pytest.raises(DeixisError, match="boxes_show_from is 2"):
        Settings(boxes_show_from=2)
    with pytest.raises(DeixisError, match="links_no_below is 0.8, links_yes_from 0.7"):
        Settings(links_no_below=0.8, links_yes_from=0.7)
    project = make_project(tmp_path / "none")
    with pytest.raises(DeixisError, match="both false"):
        propose_as_set(project)
    project.close()
    project = make_project(tmp_path / "boxes", settings=Settings(propose_boxes=True))
    with pytest.raises(DeixisError, match="no photos"):
        propose_as_set(project)
    project.close()


def test_an_owner_says_how_sure_the_model_must_be(tmp_path: Path) -> None:
    project = make_project(tmp_path / "asked", settings=Settings(propose_links=True, links_yes_from=1.0))
    add_photos(project, dogs(1))
    propose_as_set(project)
    with project.database.reading() as connection:
        state = project.folds.at(connection, "dog0").state
    assert [question.task for question in state.questions] == [Task.LINK]
    project.close()
