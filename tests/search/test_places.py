"""Where indexes are."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.search.places import config_file, index_place, named_places, place_option


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user for indexes; there are no settings."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "data" / "deixis"


def configure(text: str) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text, encoding="utf-8")


def test_the_default_index_is_the_same_in_every_directory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = index_place()
    monkeypatch.chdir(tmp_path)
    assert index_place() == here == str(data / "photos.deixis")


def test_a_variable_comes_before_the_settings(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure('index = "@family"\n[indexes]\nwork = "postgresql://db/work"\n')
    assert index_place() == str(data / "family.deixis")
    assert index_place("@work") == "postgresql://db/work"
    monkeypatch.setenv("DEIXIS_INDEX", "@work")
    assert index_place() == "postgresql://db/work"
    assert index_place("mine") == "mine"
    assert index_place("@mine") == str(data / "mine.deixis")


def test_a_suggested_command_has_the_shortest_name(data: Path) -> None:
    (data / "trip.deixis").mkdir(parents=True)
    assert named_places() == {"trip": str(data / "trip.deixis")}
    assert place_option(data / "photos.deixis") == ""
    assert place_option(str(data / "trip.deixis"), "--into") == " --into @trip"
    assert place_option(str(data / "not-yet.deixis"), "--into") == " --into @not-yet"
    assert place_option("my photos") == " --index 'my photos'"
    assert "secret" not in place_option("postgresql://ada:secret@db/photos")


@pytest.mark.parametrize("text", ["index = 5", "index = ", "indexes = 3", "[indexes]\nwork = 1", "colour = 'red'"])
def test_wrong_settings_are_named(text: str) -> None:
    configure(text)
    with pytest.raises(DeixisError, match="config.toml"):
        index_place()


@pytest.mark.parametrize("name", ["@", "@../other", "@a/b", "@.hidden"])
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(DeixisError, match="not the name of an index"):
        index_place(name)
