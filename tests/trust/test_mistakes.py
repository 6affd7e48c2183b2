"""Mistakes of users that are one line and not success: impossible sizes, empty paths, work that skipped everything."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import deixis
from deixis.cli.main import _run, make_app
from deixis.data.dataset import make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.models.registry import get_spec
from tests.test_docs import command_options


@pytest.mark.parametrize(
    ("model", "setting"),
    [
        ("two-branch", "hidden_size"),
        ("m-rnn", "multimodal_dim"),
        ("hm-lstm", "hidden_size"),
        ("cca", "embedding_dim"),
    ],
)
def test_impossible_sizes_of_models_are_refused(model: str, setting: str) -> None:
    settings = get_spec(model).choose_settings(None)
    with pytest.raises(DeixisError, match=f"{setting}=1000000000: must be at most"):
        settings.with_assignments([f"{setting}=1000000000"])
    with pytest.raises(DeixisError, match=setting):
        settings.with_values({setting: 10**9})


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set whose photos cannot be read, and their folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number in range(3):
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(b"no photo")
    photos = [Photo(str(n), (Caption.from_text("A dog."),), file=f"{n}.jpg", splits=("train",)) for n in range(3)]
    make_dataset(tmp_path / "data", photos, images=tmp_path / "photos")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "index photos --into index",
        "index photos --into index --json",
        "caption photos",
        "caption photos --json",
        "ground photos/0.jpg dog",
        "describe photos/0.jpg",
        "features data --encoder deixis",
        "features data --encoder deixis --json",
        "annotate init project --data data",
        "train cca --data data",
        "map data --out map.html",
    ],
)
def test_work_that_skipped_everything_is_not_success(
    command: str, broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(command.split()) == 2
    written = capsys.readouterr()
    assert written.err.splitlines()[-1].startswith("deixis: ")
    if "--json" in command and written.out:
        json.loads(written.out)


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
_ADVICE = re.compile(r"deixis ((?:[a-z][a-z-]* ?){1,2})([^;:,`]*)")
_OF_OTHERS = {"--force-reinstall": "pip", "--no-deps": "pip"}


def _texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, without docstrings; what is filled in is an ellipsis."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def _wrong_options(source: str, known: dict[str, set[str]]) -> list[str]:
    """Return the options in the texts of a module that no command, or not the named command, has."""
    found = []
    for text in _texts(ast.parse(source)):
        if ":root{" in text:  # a style sheet
            continue
        found += [option for option in _OPTION.findall(text) if option not in known["deixis"] | _OF_OTHERS.keys()]
        for words, rest in _ADVICE.findall(text):
            names = (" ".join(["deixis", *words.split()[:count]]) for count in (2, 1))
            verb = next((name for name in names if name in known), None)
            if verb is not None:
                found += [f"{verb} {option}" for option in _OPTION.findall(rest) if option not in known[verb]]
    return found


def test_no_message_advises_an_option_that_does_not_exist() -> None:
    package, known = Path(deixis.__file__).parent, dict(command_options(typer.main.get_command(make_app())))
    sources = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert {str(path): found for path, source in sources.items() if (found := _wrong_options(source, known))} == {}
    for message in ("use --recursive", "run: deixis search --rebuild"):
        assert _wrong_options(f'raise DeixisError(f"{{path}}: {message}")', known)
