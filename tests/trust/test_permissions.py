"""Who may read what: indexes, projects and their secrets are private, models are not."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from deixis.annotate.people import Role, forget_worker, invite
from deixis.annotate.project import backup_project, make_project, open_project
from deixis.search.index import update_index
from deixis.storage.artifacts import Artifact, write_artifact
from tests.search.index.fakes import ColourEncoder, photos


def readable_by_others(folder: Path) -> list[str]:
    paths = [folder, *folder.rglob("*")]
    return [path.name for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_a_project_and_its_backup_are_private(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    invite(project, "Ann", vouched=True, role=Role.WORKER)
    assert readable_by_others(tmp_path / "project") == []
    backup_project(project, tmp_path / "backup")
    project.close()
    assert readable_by_others(tmp_path / "backup") == []


def test_a_project_that_everybody_could_read_becomes_private_when_it_is_opened(tmp_path: Path) -> None:
    make_project(tmp_path / "project").close()
    (tmp_path / "project" / "annotations.sqlite").chmod(0o644)
    open_project(tmp_path / "project").close()
    assert stat.S_IMODE((tmp_path / "project" / "annotations.sqlite").stat().st_mode) == 0o600


def test_an_index_is_private(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 3)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    assert stat.S_IMODE((tmp_path / "index").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "index" / "index.sqlite").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "index" / "cache").stat().st_mode) == 0o700


def test_everybody_may_read_a_model(tmp_path: Path) -> None:
    write_artifact(tmp_path / "model", Artifact("example", {}, {"numbers": np.arange(3)}))
    for name in ("config.json", "weights.safetensors"):
        assert stat.S_IMODE((tmp_path / "model" / name).stat().st_mode) & 0o444 == 0o444


@pytest.mark.parametrize("name", ["Wilhelmina Xanthopoulos-Quinn"])
def test_no_file_of_a_project_has_the_name_of_a_forgotten_worker(tmp_path: Path, name: str) -> None:
    project = make_project(tmp_path / "project")
    invite(project, name, vouched=True, role=Role.WORKER)
    files = [path for path in (tmp_path / "project").rglob("*") if path.is_file()]
    assert any(name.encode() in path.read_bytes() for path in files)
    forget_worker(project, name)
    assert not any(name.encode() in path.read_bytes() for path in files if path.exists())
    project.close()
