"""`deixis index`, `search` and `serve` on an index in PostgreSQL."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

PASSWORD = "open_sesame"


@pytest.fixture
def address(postgres: str, request: pytest.FixtureRequest) -> str:
    """An address with a password, which the server of the tests does not ask for."""
    return f"{postgres}&schema=cli_{abs(hash(request.node.name))}".replace("postgres:@", f"postgres:{PASSWORD}@")


class SecretCommand(Command):
    """Checks that no output contains the password."""

    def __call__(self, *arguments: object, code: int = 0) -> tuple[str, str]:
        out, err = super().__call__(*arguments, code=code)
        assert PASSWORD not in out + err
        return out, err


@pytest.fixture
def command(command: Command) -> SecretCommand:
    return SecretCommand(command.capsys)


def test_photos_are_indexed_and_searched_in_a_database(address: str, tmp_path: Path, command: Command) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("cat.jpg", "dogs.jpg"):
        shutil.copy(SAMPLES / "images" / name, photos)
    out, err = command("index", photos, "--into", address)
    assert ": 2 photos (2 added)" in out
    assert f"--index '{address.replace(':' + PASSWORD, '')}'" in err
    (photos / "dogs.jpg").unlink()
    found = command.json("index", photos, "--into", address, "--approximate")
    assert (found["added"], found["removed"], found["photos"]) == (0, 1, 1)
    (hit,) = command.json("search", "a cat", "--index", address, "--explain", "--all")["hits"]
    assert hit["path"] == str(photos / "cat.jpg")
    assert hit["phrases"][0]["text"] == "a cat"


@pytest.mark.slow
def test_an_index_is_copied_into_a_database_and_back(
    address: str, tmp_path: Path, sample_index: Path, command: Command
) -> None:
    out, _ = command("index", "--from", sample_index, "--into", address)
    assert f": 14 photos (14 copied from {sample_index}, 0 unchanged)" in out
    copied = command.json("index", "--from", address, "--into", tmp_path / "back")
    assert copied == {"copied": 14, "unchanged": 0, "photos": 14}
    first, *others = [
        json.loads(command("search", "two dogs", "--all", "--json", "--index", index)[0])["hits"]
        for index in (sample_index, address, tmp_path / "back")
    ]
    for hits in others:
        assert [hit["path"] for hit in hits] == [hit["path"] for hit in first]
        assert [hit["score"] for hit in hits] == pytest.approx([hit["score"] for hit in first], abs=1e-3)


def test_errors_are_one_line(address: str, tmp_path: Path, sample_index: Path, command: Command) -> None:
    nowhere = f"postgresql://ada:{PASSWORD}@127.0.0.1:1/family"
    for arguments, words in (
        (["index", "--into", address], "deixis index PHOTOS"),
        (["index", tmp_path, "--from", sample_index], "--from INDEX"),
        (["index", "--from", sample_index, "--into", address, "--rebuild"], "--from"),
        (["index", tmp_path, "--into", tmp_path / "x", "--approximate"], "--approximate"),
        (["index", tmp_path, "--into", nowhere], "ada@127.0.0.1:1/family"),
        (["index", "--from", nowhere, "--into", tmp_path / "x"], "127.0.0.1:1/family"),
        (["search", "a cat", "--index", nowhere], "ada@127.0.0.1:1/family"),
        (["search", "a cat", "--index", address], "postgres"),
        (["serve", "--index", nowhere], "127.0.0.1:1/family"),
    ):
        assert words in command.error(*arguments)


def test_the_web_app_serves_a_database(sample_database: str, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    served = []
    monkeypatch.setattr("deixis.web.app.serve", lambda photos, *_, **__: served.append(len(photos)))
    _, err = command("serve", "--index", sample_database.replace("postgres:@", f"postgres:{PASSWORD}@"))
    assert served == [14]
    assert "14 photos in postgresql://postgres@/postgres" in err
