"""`deixis index`, `search` and `serve` on an index in PostgreSQL."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from deixis.cli.main import _run
from deixis.data.samples import SAMPLES

PASSWORD = "open_sesame"


@pytest.fixture
def address(postgres: str, request: pytest.FixtureRequest) -> str:
    """An address with a password, which the server of the tests does not ask for."""
    return f"{postgres}&schema=cli_{abs(hash(request.node.name))}".replace("postgres:@", f"postgres:{PASSWORD}@")


def run(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> tuple[str, str]:
    assert _run(list(map(str, arguments))) == code
    printed = capsys.readouterr()
    assert PASSWORD not in printed.out + printed.err
    return printed.out, printed.err


def test_photos_are_indexed_and_searched_in_a_database(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("cat.jpg", "dogs.jpg"):
        shutil.copy(SAMPLES / "images" / name, tmp_path / "photos")
    out, err = run(capsys, 0, "index", tmp_path / "photos", "--into", address)
    assert ": 2 photos (2 added)" in out
    assert f"--index '{address.replace(':' + PASSWORD, '')}'" in err
    (tmp_path / "photos" / "dogs.jpg").unlink()
    out, _ = run(capsys, 0, "index", tmp_path / "photos", "--into", address, "--approximate", "--json")
    assert {key: json.loads(out)[key] for key in ("added", "removed", "photos")} == {
        "added": 0,
        "removed": 1,
        "photos": 1,
    }
    out, _ = run(capsys, 0, "search", "a cat", "--index", address, "--json", "--explain", "--all")
    (hit,) = json.loads(out)["hits"]
    assert hit["path"] == str(tmp_path / "photos" / "cat.jpg")
    assert hit["phrases"][0]["text"] == "a cat"


def test_an_index_is_copied_into_a_database_and_back(
    address: str, tmp_path: Path, sample_index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = run(capsys, 0, "index", "--from", sample_index, "--into", address)
    assert f": 14 photos (14 copied from {sample_index}, 0 unchanged)" in out
    out, _ = run(capsys, 0, "index", "--from", address, "--into", tmp_path / "back", "--json")
    assert json.loads(out) == {"copied": 14, "unchanged": 0, "photos": 14}
    arguments = ("search", "two dogs", "--all", "--json", "--index")
    answers = [
        json.loads(run(capsys, 0, *arguments, index)[0])["hits"] for index in (sample_index, address, tmp_path / "back")
    ]
    assert [[hit["path"] for hit in hits] for hits in answers] == [[hit["path"] for hit in answers[0]]] * 3
    for hits in answers[1:]:
        assert [hit["score"] for hit in hits] == pytest.approx([hit["score"] for hit in answers[0]], abs=1e-3)


def test_errors_are_one_line(
    address: str, tmp_path: Path, sample_index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = f"postgresql://ada:{PASSWORD}@127.0.0.1:1/family"
    for arguments, line in (
        (["index", "--into", address], "--from INDEX"),
        (["index", tmp_path, "--from", sample_index], "--from INDEX"),
        (["index", "--from", sample_index, "--into", address, "--rebuild"], "--from"),
        (["index", tmp_path, "--into", tmp_path / "x", "--approximate"], "--approximate"),
        (["index", tmp_path, "--into", nowhere], "ada@127.0.0.1:1/family"),
        (["index", "--from", nowhere, "--into", tmp_path / "x"], "127.0.0.1:1/family"),
        (["search", "a cat", "--index", nowhere], "ada@127.0.0.1:1/family"),
        (["search", "a cat", "--index", address], "postgres"),
        (["serve", "--index", nowhere], "127.0.0.1:1/family"),
    ):
        _, err = run(capsys, 2, *arguments)
        assert line in err.splitlines()[-1]


def test_the_web_app_serves_a_database(
    sample_database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = []
    monkeypatch.setattr("deixis.web.app.serve", lambda photos, *_, **__: served.append(len(photos)))
    _, err = run(capsys, 0, "serve", "--index", sample_database.replace("postgres:@", f"postgres:{PASSWORD}@"))
    assert served == [14]
    assert "14 photos in postgresql://postgres@/postgres" in err
