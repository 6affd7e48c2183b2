"""`deixis annotate`: projects from creation to export, proposals and errors."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from workflow_diagram import draw_workflow

from deixis.annotate.people import InvitationError, find_invitation, find_session
from deixis.annotate.progress import count_qualifying_questions
from deixis.annotate.project import open_for_work, open_project, read_secret, write_link
from deixis.annotate.state import Reason
from deixis.annotate.store import photos
from deixis.annotate.web.photos import PhotoLibrary
from deixis.annotate.workflow import Status, Task
from deixis.cli.main import _run
from deixis.data.dataset import Dataset, make_dataset
from deixis.data.imports import import_dataset
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from tests.annotate.fakes import next_question, record, skip


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of the sample photos in the current directory."""
    monkeypatch.chdir(tmp_path)
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
    return tmp_path / "data"


@pytest.fixture
def project(data: Path, tmp_path: Path) -> Path:
    """A project of the sample photos in the current directory."""
    assert _run(["annotate", "init", "p", "--data", "data", "--split", "train"]) == 0
    return tmp_path / "p"


def output(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert _run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_project_from_init_to_export(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ann = run_json(capsys, "annotate", "invite", "p", "Ann", "--vouch")["worker"]
    run_json(capsys, "annotate", "invite", "p", "Rob", "--role", "reviewer")
    opened = open_project(project)
    question = next_question(opened, ann)
    assert question is not None
    number = record(opened, ann, question.token, "no", seconds=4.0).event
    other = next_question(opened, ann)
    assert other is not None
    skip(opened, ann, other.token, bad_phrase=other.content["mentions"][0], remark="not a thing")
    opened.close()
    status = run_json(capsys, "annotate", "status", "p")
    assert (status["judged"], status["photos"]) == (1, 9)
    queue = run_json(capsys, "annotate", "review", "p")
    assert {item["reason"] for item in queue} == {Reason.BAD_PHRASE, "remark: not a thing"}
    assert _run(["annotate", "review", "p", question.photo]) == 0
    assert f"#{number} Ann, link: no" in output(capsys)
    assert _run(["annotate", "review", "p", "--undo", str(number), "--as", "Rob"]) == 0
    reinstate = ["annotate", "review", "p", "--reinstate", "Ann:link", "--as"]
    assert _run([*reinstate, "Ann"]) == 2
    assert run_json(capsys, *reinstate, "Rob") == {"worker": "Ann", "task": "link", "level": "trusted"}
    assert _run(["annotate", "review", "p", question.photo]) == 0
    assert "undone by event" in output(capsys)
    assert _run(["annotate", "status", "p", "--pay", "pay.csv"]) == 0
    assert "Ann" in Path("pay.csv").read_text()
    assert _run(["annotate", "export", "p", "--to", "jsonl", "--out", "out", "--unfinished"]) == 0
    assert _run(["data", "import", "--captions", "out/photos.jsonl", "--out", "again"]) == 0
    assert _run(["annotate", "backup", "p", "--out", "copy"]) == 0
    assert _run(["annotate", "forget", "p", "Ann"]) == 0
    assert "Ann" not in json.dumps(run_json(capsys, "annotate", "status", "p"))
    assert "Ann" in json.dumps(run_json(capsys, "annotate", "status", "copy"))


def test_init_says_how_many_known_questions_come_first(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", "data", "--split", "train", "--known", "data", "--known-split", "val"]
    assert _run(["annotate", "init", "q", *options]) == 0
    opened = open_project(Path("q"))
    count = count_qualifying_questions(opened)
    opened.close()
    assert count > 20
    shown = capsys.readouterr()
    assert "q: 9 photos" in shown.out
    assert "next: edit q/settings.json" in shown.out
    assert f"workers answer {count} questions with known answers" in shown.err


def test_an_export_prints_the_commands_that_train_on_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("entities", "jsonl", "label-studio"):
        options = ["--to", name, "--out", f"o.{name}", "--unfinished", "--with-photos"]
        assert _run(["annotate", "export", "p", *options]) == 0
        printed = capsys.readouterr().out.splitlines()
        import_command, split_command, train_command = (line.partition(": ")[2].strip() for line in printed[-3:])
        assert _run([*shlex.split(import_command)[1:], "--force"]) == 0
        assert _run([*shlex.split(split_command.replace("N", "2"))[1:], "--force"]) == 0
        made = Dataset(Path(shlex.split(train_command)[4]))
        assert set(made.manifest.splits) == {"train", "dev"}
        assert made.path_of(made.photos[0]).is_file()
        capsys.readouterr()


def test_a_person_gets_a_new_link(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run_json(capsys, "annotate", "invite", "p", "Cleo")
    assert _run(["annotate", "invite", "p", "Cleo", "--vouch"]) == 2
    assert "--renew" in capsys.readouterr().err
    again = run_json(capsys, "annotate", "invite", "p", "Cleo", "--vouch", "--renew")
    assert again["worker"] == first["worker"]
    assert again["link"] is None  # no server has run yet
    opened = open_project(Path("p"))
    write_link(opened, "http://127.0.0.1:7861/")
    with pytest.raises(InvitationError):
        find_invitation(opened, first["token"])
    assert find_invitation(opened, again["token"]).vouched
    opened.close()
    served = run_json(capsys, "annotate", "invite", "p", "Cleo", "--renew")
    assert served["link"] == f"http://127.0.0.1:7861/#/join/{served['token']}"


def test_photos_are_added_later(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    added = run_json(capsys, "annotate", "add", "p", "--data", "data")
    assert added == {"project": "p", "photos": 5, "there_already": 9}


def split_folders(data: Path) -> None:
    """Make two data sets, "here" and "there", with one photo each in folders of their own."""
    photos = sorted((SAMPLES / "images").glob("*.jpg"))
    for name, source in zip(("here", "there"), photos, strict=False):
        images = data.parent / f"{name} photos"
        images.mkdir()
        (images / source.name).write_bytes(source.read_bytes())
        import_dataset(data.parent / name, images=images, entities=SAMPLES / "entities")


def test_photos_of_each_data_set_stay_in_their_own_folder(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split_folders(data)
    made = run_json(capsys, "annotate", "init", "q", "--data", "here", "--known", "there")
    assert (made["photos"], made["known_questions"] > 0) == (1, True)
    opened = open_project(Path("q"))
    library = PhotoLibrary(opened, read_secret(opened))
    with opened.database.reading() as connection:
        names = connection.scalars(select(photos.c.id)).all()
    assert len(names) == 2
    for name in names:
        assert library.read_picture(library.read_view(name).id)
    opened.close()


def test_an_export_has_the_photos_of_all_folders(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split_folders(data)
    assert _run(["annotate", "init", "q", "--data", "here"]) == 0
    assert run_json(capsys, "annotate", "add", "q", "--data", "there")["photos"] == 1
    options = ["--to", "jsonl", "--out", "out", "--unfinished", "--with-photos"]
    assert _run(["annotate", "export", "q", *options]) == 0
    copies = sorted(Path("out/images").iterdir())
    assert [copy.read_bytes() for copy in copies] == [
        next(Path(f"{name} photos").iterdir()).read_bytes() for name in ("here", "there")
    ]
    assert not any(copy.is_symlink() for copy in copies)


def test_photos_that_do_not_open_are_skipped_and_listed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    split_folders(data)
    next(Path("there photos").iterdir()).write_bytes(b"not a photo")
    assert _run(["annotate", "init", "q", "--data", "here", "--known", "there"]) == 0
    shown = capsys.readouterr()
    assert "q: 1 photo" in shown.out
    assert shown.err.count("skipped: ") == 1
    next(Path("here photos").iterdir()).write_bytes(b"not a photo")
    assert _run(["annotate", "init", "r", "--data", "here"]) == 2  # nothing is left to annotate
    assert capsys.readouterr().err.count("skipped: ") == 1


def test_pairs_of_a_prediction_file_are_judged_and_scored(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = Dataset(data).split("train")[:2]
    lines = [
        {"photo": photo.id, "caption": number, "span": [mention.start, mention.end], "scores": [0.5]}
        | {"boxes": [[0, 0, photo.width, photo.height]]}
        for photo in photos
        for number, caption in enumerate(photo.sentences)
        for mention in caption.mentions
    ]
    Path("found.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = run_json(capsys, "annotate", "init", "q", "--data", "data", "--pairs", "found.jsonl", "--sample", "4")
    assert made["pairs"] == 4
    settings = json.loads(Path("q/settings.json").read_text())
    Path("q/settings.json").write_text(json.dumps(settings | {"judges_per_pair": 1}))
    worker = run_json(capsys, "annotate", "invite", "q", "Ann", "--vouch")["worker"]
    assert run_json(capsys, "annotate", "pairs", "q")["accuracy"] is None
    opened = open_for_work(Path("q"))
    for answer in ("right", "right", "right", "wrong"):
        question = next_question(opened, worker)
        assert question is not None
        record(opened, worker, question.token, answer)
    opened.close()
    scores = run_json(capsys, "annotate", "pairs", "q", "--out", "judged.jsonl")
    assert (scores["judged"], scores["right"], scores["accuracy"]) == (4, 3, 0.75)
    judged = [json.loads(line) for line in Path("judged.jsonl").read_text().splitlines()]
    assert sorted(row["right"] for row in judged) == [False, True, True, True]
    assert _run(["annotate", "pairs", "q"]) == 0
    assert "right: 3 (75.0%" in output(capsys)


def test_tokens_webhooks_and_suspensions(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = run_json(capsys, "annotate", "invite", "p", "Ann", "--vouch")["worker"]
    made = run_json(capsys, "annotate", "token", "p", "Ann", "--for", "export")
    opened = open_for_work(project)
    session = find_session(opened, made["token"])
    assert session is not None
    assert session.worker.id == worker
    assert [each["name"] for each in run_json(capsys, "annotate", "token", "p")] == ["export"]
    run_json(capsys, "annotate", "token", "p", "--revoke", made["id"])
    assert find_session(opened, made["token"]) is None
    hook = run_json(capsys, "annotate", "webhook", "p", "--add", "https://example.org/hook", "--on", "judgement")
    listed = run_json(capsys, "annotate", "webhook", "p")
    assert [(each["id"], each["kinds"], each["waiting"]) for each in listed] == [(hook["id"], ["judgement"], 0)]
    assert "secret" not in listed[0]
    assert _run(["annotate", "webhook", "p", "--add", "https://example.org/hook", "--on", "everything"]) == 2
    assert run_json(capsys, "annotate", "webhook", "p", "--retry", hook["id"]) == {"again": 0}
    run_json(capsys, "annotate", "backup", "p", "--out", "b")
    assert run_json(capsys, "annotate", "restore", "b", "q")["webhooks"] == ["https://example.org/hook"]
    assert _run(["annotate", "restore", "b", "q"]) == 2
    assert "--force" in capsys.readouterr().err
    run_json(capsys, "annotate", "webhook", "p", "--remove", hook["id"])
    assert run_json(capsys, "annotate", "webhook", "p") == []
    assert next_question(opened, worker)
    assert run_json(capsys, "annotate", "suspend", "p", "Ann") == {"worker": worker, "suspended": True}
    assert [each["suspended"] for each in run_json(capsys, "annotate", "status", "p")["workers"]] == [True]
    _run(["annotate", "status", "p"])
    assert "suspended by an owner" in " ".join(capsys.readouterr().out.split())
    assert next_question(opened, worker) is None
    assert _run(["annotate", "suspend", "p", "Ann", "--resume"]) == 0
    assert next_question(opened, worker)
    opened.close()


def test_only_options_that_exist_are_suggested(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "init", "p", "--data", "data"]) == 2
    assert "--force" not in capsys.readouterr().err


def test_the_workflow_is_shown_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "workflow"]) == 0
    assert "split by head noun" in output(capsys)
    draw_workflow(tmp_path / "flow.svg")
    drawn = (tmp_path / "flow.svg").read_text()
    assert all(f">{stage.value}<" in drawn for stage in (*Task, *Status))
    rows = run_json(capsys, "annotate", "workflow")
    assert rows[0]["in"] == "new mention"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["status", "nothing"], "nothing"),
        (["invite", "p", "Eve", "--role", "king"], "--role king"),
        (["review", "p", "x", "--decide", "all"], "--as NAME"),
        (["review", "p", "nophoto"], "nophoto"),
        (["export", "p", "--to", "jsonl", "--out", "o"], "--unfinished"),
        (["export", "p", "--to", "clay", "--out", "o", "--unfinished"], "clay"),
        (["forget", "p", "Nobody"], "Nobody"),
        (["init", "p", "--data", "data"], "p: "),
    ],
)
def test_errors_are_one_line_with_exit_code_2(
    arguments: list[str], line: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert _run(["annotate", *arguments]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert line in error[-1]


def test_photos_that_cannot_be_annotated_are_skipped_and_listed(
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
    for name in ("photo long", "photo silent", "photo sizeless"):
        assert name in shown.err


def test_proposals_are_made_once_when_a_project_is_created(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", "data", "--split", "val", "--propose", "links,boxes", "--order", "uncertain"]
    assert _run(["annotate", "init", "p", *options]) == 0
    assert "proposals for" in capsys.readouterr().err
    assert _run(["annotate", "propose", "p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"project": "p", "photos": 0, "begun": 0, "known_questions": 0}
    project = open_project(Path("p"))
    with project.database.reading() as connection:
        snapshot = project.snapshots.read(connection, "coffee")
    assert [event.kind for event in snapshot.events] == ["proposed links", "proposed boxes"]
    project.close()


def test_new_photos_get_proposals_too(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "init", "p", "--data", "data", "--split", "train", "--propose", "links"]) == 0
    capsys.readouterr()
    assert _run(["annotate", "add", "p", "--data", "data"]) == 0
    assert "proposals for" in capsys.readouterr().err


def test_proposing_without_settings_is_an_error(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "init", "p", "--data", "data"]) == 0
    capsys.readouterr()
    assert _run(["annotate", "propose", "p"]) == 2
    assert "propose_links" in capsys.readouterr().err
    assert _run(["annotate", "init", "q", "--data", "data", "--propose", "cats"]) == 2
    assert not Path("q").exists()


def test_photos_of_a_folder_are_assigned(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_json(capsys, "annotate", "invite", "p", "Ann", "--vouch")
    found = run_json(capsys, "annotate", "assign", "p", "a", "--to", "Ann")
    assert found["photos"] > 0
    assert "3 people" in found["advice"]
    again = run_json(capsys, "annotate", "assign", "p", "a", "--everybody")
    assert (again["photos"], again["advice"]) == (found["photos"], None)
    for wrong in (["--to", "Zed"], ["--to", "Ann", "--everybody"], []):
        assert _run(["annotate", "assign", "p", "a", *wrong]) == 2
    capsys.readouterr()
    assert _run(["annotate", "assign", "p", "no/such/folder", "--to", "Ann"]) == 2
    assert "no/such/folder" in capsys.readouterr().err


def test_several_projects_of_one_server_have_different_names(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["annotate", "serve", "p", "p"]) == 2
    assert "p, p" in capsys.readouterr().err
