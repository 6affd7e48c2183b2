"""Counts against a plain loop over the records."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from matplotlib.figure import Figure
from PIL import Image

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.data.statistics import compute_statistics, plot_types
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
@given(photo_lists.filter(bool))
def test_types_are_counted_as_a_plain_loop_counts_them(photos: list[Photo]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = compute_statistics(made(Path(folder), photos))
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
    found = compute_statistics(made(tmp_path, worked_example()))
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
    found = compute_statistics(made(tmp_path, worked_example()), "train")
    assert (found.photos, found.captions, found.chains, found.boxes) == (1, 2, 2, 2)
    assert [row.type for row in found.types] == ["people", "scene"]


def test_the_means_of_the_last_row_are_sums_over_the_types(tmp_path: Path) -> None:
    """A rider (people and other: three mentions, one box) and a child (people: one mention, three boxes)."""
    rider = Caption.from_text("rider", (Mention(0, 5, "1", ("people", "other")),))
    child = Caption.from_text("child", (Mention(0, 5, "2", ("people",)),))
    boxes = tuple(Box((0, 0, 5, 5), (chain,)) for chain in "1222")
    found = compute_statistics(
        made(tmp_path, [Photo("1", (rider, rider, rider, child), (Chain("1"), Chain("2")), boxes)])
    )
    assert (found.chains, found.mentions, found.boxes) == (2, 4, 4)
    assert found.mentions_per_chain == pytest.approx((4 + 3) / (2 + 1))
    assert found.boxes_per_chain == pytest.approx((4 + 1) / (2 + 1))
    printed = asdict(found)
    assert printed["mentions_per_chain"] == found.mentions_per_chain
    assert printed["boxes_per_chain"] == found.boxes_per_chain


def test_phrases_for_regions_are_no_captions(tmp_path: Path) -> None:
    sentence, phrase = Caption.from_text("A dog runs"), Caption.from_text("red hat", region_phrase=True)
    found = compute_statistics(made(tmp_path, [Photo("1", (sentence, phrase, phrase))]))
    assert (found.captions, found.region_phrases) == (1, 2)
    assert found.captions_per_photo == 1


def test_the_bars_of_the_figure_are_as_high_as_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: (saved.append(figure), save(figure, path)))
    plot_types(compute_statistics(made(tmp_path, worked_example())), tmp_path / "types.png")
    with Image.open(tmp_path / "types.png") as image:
        assert image.width > 600
    (axes,) = saved[0].axes
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    assert heights == {"chains": [1, 1, 1], "mentions": [2, 1, 1], "boxes": [2, 1, 0]}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["people", "animals", "scene"]
    middles = {bars.get_label(): [round(bar.get_x() + bar.get_width() / 2) for bar in bars] for bars in axes.containers}
    assert middles == {what: [0, 1, 2] for what in heights}  # each bar stands at its type
