"""`deixis annotate propose`, and projects that begin with proposals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.annotate.project import open_project
from deixis.cli.main import _run
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample photos, in the current directory."""
    monkeypatch.chdir(tmp_path)
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")


def test_a_project_begins_with_proposals_and_they_are_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--data", "data", "--split", "val", "--propose", "links,boxes", "--order", "uncertain"]
    assert _run(["annotate", "init", "p", *options]) == 0
    assert "proposals for" in capsys.readouterr().err
    assert _run(["annotate", "propose", "p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"project": "p", "photos": 0, "begun": 0, "known_questions": 0}
    project = open_project(tmp_path / "p")
    with project.database.reading() as connection:
        folded = project.folds.at(connection, "coffee")
    assert [event.kind for event in folded.events] == ["proposed links", "proposed boxes"]
    project.close()


def test_new_photos_get_proposals_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "init", "p", "--data", "data", "--split", "train", "--propose", "links"]) == 0
    capsys.readouterr()
    assert _run(["annotate", "add", "p", "--data", "data"]) == 0
    assert "proposals for" in capsys.readouterr().err


def test_proposing_where_nobody_asked_for_it_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "init", "p", "--data", "data"]) == 0
    capsys.readouterr()
    assert _run(["annotate", "propose", "p"]) == 2
    assert "propose_links and propose_boxes are both false" in capsys.readouterr().err
    assert _run(["annotate", "init", "q", "--data", "data", "--propose", "cats"]) == 2
    assert not Path("q").exists()
