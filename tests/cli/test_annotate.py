"""`deixis annotate` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.annotate.assigning import next_question
from deixis.annotate.project import open_project
from deixis.annotate.recording import record, skip
from deixis.cli.main import _run
from deixis.data.importing import import_dataset
from deixis.data.making import make_dataset
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the sample photos, in the current directory."""
    monkeypatch.chdir(tmp_path)
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
    assert _run(["annotate", "init", "p", "--data", "data", "--split", "train"]) == 0
    return tmp_path / "p"


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    capsys.readouterr()
    assert _run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_from_init_to_export_and_back(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ann = told(capsys, "annotate", "invite", "p", "Ann", "--vouch")["worker"]  # type: ignore[index]
    told(capsys, "annotate", "invite", "p", "Rob", "--role", "reviewer")
    opened = open_project(project)
    given = next_question(opened, ann)
    assert given is not None
    number = record(opened, ann, given.token, "no", seconds=4.0).event
    other = next_question(opened, ann)
    assert other is not None
    skip(opened, ann, other.token, bad_phrase=other.asked["mentions"][0], remark="not a thing")
    opened.close()
    status = told(capsys, "annotate", "status", "p")
    assert (status["judged"], status["photos"]) == (1, 9)  # type: ignore[index,call-overload]
    queue = told(capsys, "annotate", "review", "p")
    assert {item["reason"] for item in queue} == {"said to be no phrase", "remark: not a thing"}  # type: ignore
    assert _run(["annotate", "review", "p", given.photo]) == 0
    assert f"#{number} Ann, link: no" in said(capsys)
    assert _run(["annotate", "review", "p", "--undo", str(number), "--as", "Rob"]) == 0
    assert _run(["annotate", "review", "p", given.photo]) == 0
    assert "undone by event" in said(capsys)
    assert _run(["annotate", "status", "p", "--pay", "pay.csv"]) == 0
    assert "Ann" in Path("pay.csv").read_text()
    assert _run(["annotate", "export", "p", "--to", "jsonl", "--out", "out", "--unfinished"]) == 0
    assert _run(["data", "import", "--captions", "out/photos.jsonl", "--out", "again"]) == 0
    assert _run(["annotate", "backup", "p", "--out", "copy"]) == 0
    assert _run(["annotate", "forget", "p", "Ann"]) == 0
    assert "Ann" not in json.dumps(told(capsys, "annotate", "status", "p"))
    assert "Ann" in json.dumps(told(capsys, "annotate", "status", "copy"))


def test_init_says_what_to_do_next(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "init", "q", "--data", "data", "--find-mentions"]) == 0
    assert "next: edit q/settings.json" in said(capsys)


def test_photos_are_added_later(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    added = told(capsys, "annotate", "add", "p", "--data", "data")
    assert added == {"project": "p", "photos": 5, "there_already": 9}


def test_known_answers_come_from_annotated_photos(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = told(
        capsys, "annotate", "init", "q", "--data", "data", "--split", "train", "--known", "data", "--known-split", "val"
    )
    assert made["photos"] == 9  # type: ignore[index,call-overload]
    assert made["known_questions"] > 20  # type: ignore[index,call-overload]


def test_the_workflow_is_shown_and_drawn(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "workflow", "--picture", "flow.svg"]) == 0
    assert "split by head noun" in said(capsys)
    assert Path("flow.svg").read_text().startswith("<?xml")
    rows = told(capsys, "annotate", "workflow")
    assert rows[0]["in"] == "new mention"  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["status", "nothing"], "deixis: nothing: not an annotation project"),
        (["invite", "p", "Eve", "--role", "king"], "--role king: choose one of: worker, reviewer, owner"),
        (["review", "p", "x", "--decide", "all"], "--as NAME: say who decides"),
        (["review", "p", "nophoto"], "there is no photo 'nophoto' in this project"),
        (["export", "p", "--to", "jsonl", "--out", "o"], "no photo is finished"),
        (["export", "p", "--to", "clay", "--out", "o", "--unfinished"], "unknown format 'clay'"),
        (["forget", "p", "Nobody"], "Nobody: nobody of that name is in this project"),
        (["init", "p", "--data", "data"], "exists already"),
    ],
)
def test_a_mistake_is_one_line_and_exits_with_2(
    arguments: list[str], line: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert _run(["annotate", *arguments]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert line in error[-1]


def test_photos_that_cannot_be_annotated_are_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_dataset(
        tmp_path / "data",
        [
            Photo("good", (Caption.from_text("A dog."),), width=4, height=3),
            Photo("long", (Caption.from_text("dog " * 900),), width=4, height=3),
            Photo("silent", (), width=4, height=3),
            Photo("sizeless", (Caption.from_text("A dog."),)),
        ],
    )
    assert _run(["annotate", "init", "p", "--data", "data"]) == 0
    shown = capsys.readouterr()
    assert "p: 1 photo," in shown.out
    for line in (
        "photo long: caption 0 has 3,600 characters",
        "photo silent: it has no caption",
        "photo sizeless: its",
    ):
        assert line in shown.err
