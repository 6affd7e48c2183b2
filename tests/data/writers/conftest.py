"""Photos to write: examples with all fields, and Hypothesis strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from deixis.data.records import ENTITY_TYPES, AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.storage.files import is_file_name

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc",), exclude_characters="/\\:"), min_size=1, max_size=40
)
NAMES = NAMES.filter(is_file_name)
TEXTS = st.text(st.characters(codec="utf-8"))
SIDES = st.none() | st.integers(1, 5000)
CORNERS = st.integers(-50, 6000) | st.floats(-50, 6000)


@st.composite
def captions(draw: Any, chains: list[str]) -> Caption:
    text = draw(TEXTS)
    ends = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    mentions = tuple(
        Mention(
            start,
            end,
            draw(st.none() | st.sampled_from(chains)) if chains else None,
            draw(st.lists(st.sampled_from(ENTITY_TYPES) | TEXTS, max_size=3).map(tuple)),
        )
        for start, end in zip(ends[::2], ends[1::2], strict=False)
    )
    return Caption.from_text(
        text,
        mentions,
        related=draw(st.booleans()),
        tree=draw(st.none() | TEXTS),
        region_phrase=draw(st.booleans()),
    )


@st.composite
def boxes(draw: Any, chains: list[str]) -> Box:
    (x1, x2), (y1, y2) = (sorted((draw(CORNERS), draw(CORNERS))) for _ in range(2))
    shown = draw(st.lists(st.sampled_from(chains), unique=True)) if chains else []
    return Box((x1, y1, x2, y2), tuple(shown), draw(st.none() | TEXTS))


@st.composite
def photos(draw: Any) -> Photo:
    chains = draw(st.lists(TEXTS, unique=True, max_size=4))
    sizes = st.builds(AnnotationSource, NAMES, TEXTS, SIDES, SIDES, st.none() | st.integers(0, 4))
    return Photo(
        draw(NAMES),
        tuple(draw(st.lists(captions(chains), max_size=3))),
        tuple(Chain(chain, *(draw(st.booleans()) for _ in range(3))) for chain in chains),
        tuple(draw(st.lists(boxes(chains), max_size=3))),
        draw(SIDES),
        draw(SIDES),
        draw(st.none() | NAMES),
        tuple(draw(st.lists(st.sampled_from(["train", "val", "dev-1k", "été"]), max_size=3))),
        draw(st.none() | sizes),
        draw(st.none() | st.just("0" * 64)),
    )


@pytest.fixture(scope="session")
def any_photos() -> st.SearchStrategy[list[Photo]]:
    """Lists of valid photos with different ids."""
    return st.lists(photos(), max_size=4, unique_by=lambda photo: photo.id)


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
