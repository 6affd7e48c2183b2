"""Counts against a plain loop over the records."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from PIL import Image

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.data.stats import plot_types, statistics
from tests.data.strategies import photo_lists
from tests.data.test_dataset import made


def counted(photos: list[Photo]) -> dict[str, Counter[str]]:
    """Chains, mentions, boxes and photos by type, the slow way."""
    found: dict[str, Counter[str]] = {what: Counter() for what in ("chains", "mentions", "boxes", "photos")}
    for photo in photos:
        types_of: dict[str, set[str]] = {}
        mentions: Counter[str] = Counter()
        for caption in photo.captions:
            for mention in caption.mentions:
                if mention.chain is not None:
                    types_of.setdefault(mention.chain, set()).update(mention.types)
                    mentions[mention.chain] += 1
        for chain, types in types_of.items():
            found["chains"].update(types)
            found["mentions"].update(dict.fromkeys(types, mentions[chain]))
        found["photos"].update(set().union(*types_of.values()))
        for box in photo.boxes:
            for chain in box.chains:
                found["boxes"].update(types_of.get(chain, ()))
    return found


@settings(max_examples=60)
@given(photo_lists().filter(bool))
def test_types_are_counted_as_a_plain_loop_counts_them(photos: list[Photo]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = statistics(made(Path(folder), photos))
    expected = counted(photos)
    assert {row.type: row.chains for row in found.types} == expected["chains"]
    assert {row.type: row.mentions for row in found.types} == expected["mentions"]
    assert {row.type: row.boxes for row in found.types if row.boxes} == {
        t: n for t, n in expected["boxes"].items() if n
    }
    for row in found.types:
        assert row.photos_percent == pytest.approx(100 * expected["photos"][row.type] / len(photos))
    assert found.boxes == sum(len(photo.boxes) for photo in photos)
    assert found.tokens == sum(len(caption.tokens) for photo in photos for caption in photo.captions)


def worked_example() -> list[Photo]:
    """Two photos: a man (two mentions, two boxes), snow (a scene without box), a dog (one mention, one box)."""
    man, snow = Mention(0, 3, "1", ("people",)), Mention(7, 11, "2", ("scene",))
    first = Photo(
        "1",
        (
            Caption.from_text("man in snow", (man, snow)),
            Caption.from_text("man  no fun", (man, Mention(5, 11, None, ("notvisual",)))),
        ),
        (Chain("1"), Chain("2", scene=True, no_box=True)),
        (Box((0, 0, 5, 5), ("1",)), Box((5, 5, 9, 9), ("1",))),
        splits=("train",),
    )
    dog = Caption.from_text("dog", (Mention(0, 3, "9", ("animals",)),))
    return [first, Photo("2", (dog,), (Chain("9"),), (Box((0, 0, 5, 5), ("9",)),))]


def test_the_worked_example_counts_as_by_hand(tmp_path: Path) -> None:
    found = statistics(made(tmp_path, worked_example()))
    assert (found.photos, found.captions, found.mentions, found.not_visual) == (2, 3, 4, 1)
    assert (found.chains, found.boxes) == (3, 3)
    assert found.chains_with_several_mentions_percent == pytest.approx(100 / 3)
    assert found.chains_with_one_box_percent == pytest.approx(100 / 3)
    assert found.chains_with_several_boxes_percent == pytest.approx(100 / 3)
    assert found.chains_without_box_percent == pytest.approx(100 / 3)
    assert [row.type for row in found.types] == ["people", "animals", "scene"]
    assert (found.types[0].mentions_per_chain, found.types[0].boxes_per_chain) == (2, 2)
    assert found.types[0].photos_percent == 50


def test_one_split_is_counted_alone(tmp_path: Path) -> None:
    found = statistics(made(tmp_path, worked_example()), "train")
    assert (found.photos, found.captions, found.chains, found.boxes) == (1, 2, 2, 2)
    assert [row.type for row in found.types] == ["people", "scene"]


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    plot_types(statistics(made(tmp_path, worked_example())), tmp_path / "types.png")
    with Image.open(tmp_path / "types.png") as figure:
        assert figure.width > 600
        assert len(figure.convert("RGB").getcolors(1_000_000) or []) > 10
