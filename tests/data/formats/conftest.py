"""Fixtures that write files of any format and check that readers refuse them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deixis.data.formats import read_captions
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError

Write = Callable[[str, object], Path]
Refused = Callable[..., None]


@pytest.fixture
def store(tmp_path: Path) -> Write:
    """Write bytes or a text as they are, anything else as JSON."""

    def written(name: str, content: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case bytes():
                path.write_bytes(content)
            case str():
                path.write_text(content, encoding="utf-8", newline="")
            case _:
                path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return written


@pytest.fixture
def refused() -> Refused:
    """Read a file and check that the error, of one line, starts with the file and a position in it."""

    def check(path: Path, where: str, file: Path | None = None, **options: Path) -> None:
        with pytest.raises(DatasetError) as error:
            list(read_captions(path, **options).photos)
        assert str(error.value).startswith(f"{file or path}: {where}")
        assert "\n" not in str(error.value)

    return check


@pytest.fixture(scope="session")
def dogs() -> list[Photo]:
    """A photo with everything, one of no split and unknown size, one with nothing."""
    first = Caption.from_text(
        "A man 🙂 and his dogs.",
        (
            Mention(0, 5, "7", ("people",)),
            Mention(12, 15, None, ("notvisual",)),
            Mention(12 + 4, 20, "8", ("animals", "other")),
        ),
        tree="(NP (DT A) (NN man))",
    )
    second = Caption.from_text("A sunny day.", (Mention(0, 11, "9", ("scene",)),), related=False)
    phrase = Caption.from_text("red hat", (Mention(0, 7, "10"),), region_phrase=True)
    return [
        Photo(
            "101",
            (first, second, phrase),
            (Chain("7"), Chain("8"), Chain("9", scene=True, no_box=True), Chain("10", annotated=False)),
            (
                Box((10, 20, 60, 80), ("7", "10")),
                Box((100, 50, 150.5, 90), ("8",)),
                Box((150, 50, 210, 90), ("8",)),
                Box((0, 0, 5, 5), label="hat"),
            ),
            200,
            100,
            "zoo/101.jpg",
            ("train", "dev"),
            AnnotationSource("101", "101.jpg", 400, 200, 3),
            "ab" * 32,
        ),
        Photo(
            "0102",
            (Caption.from_text(""), Caption.from_text("A dog.", (Mention(0, 5, "1"),))),
            (Chain("1"),),
            (Box((1, 2, 3, 4), ("1",)),),
            annotated=AnnotationSource("0102", "a name.jpg"),
        ),
        Photo("103"),
    ]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """The folder of photos of `dogs`; only the first has a file."""
    folder = tmp_path / "photos"
    (folder / "zoo").mkdir(parents=True)
    (folder / "zoo" / "101.jpg").write_bytes(b"the bytes of 101")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to write to."""
    made = tmp_path / "out"
    made.mkdir()
    return made
