"""Projects: made, opened, and given photos."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.annotate.project import ABOUT, add_photos, make_project, open_project
from deixis.annotate.settings import Settings
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import dogs


def test_photos_are_added_while_others_are_there_and_never_twice(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    assert add_photos(project, dogs(3)) == (1, 2)
    assert add_photos(project, dogs(3)) == (0, 3)


def test_a_project_is_opened_with_its_settings(tmp_path: Path) -> None:
    make_project(tmp_path / "p", settings=Settings(first_items=7), images=tmp_path).close()
    again = open_project(tmp_path / "p")
    assert (again.settings.first_items, again.images) == (7, tmp_path)
    again.close()


def test_what_is_no_project_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="not an annotation project; make one with: deixis annotate init"):
        open_project(tmp_path / "none")
    (tmp_path / ABOUT).write_text("{")
    with pytest.raises(DeixisError, match="damaged"):
        open_project(tmp_path)
    (tmp_path / ABOUT).write_text("[1]")
    with pytest.raises(DeixisError, match="does not say that it is an annotation project"):
        open_project(tmp_path)


def test_a_project_is_not_made_over_another(tmp_path: Path) -> None:
    make_project(tmp_path / "p").close()
    with pytest.raises(DeixisError, match="exists already"):
        make_project(tmp_path / "p")
