"""New splits of a data set: numbers, no photo twice, the same for the same seed, and the papers' rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.data.splitting import RULES, Draw, SplitRule, split_dataset
from deixis.errors import DatasetError


def make_data(path: Path, numbers: Sequence[int] = range(30)) -> Path:
    photos = [
        Photo(f"{number:02d}", (Caption.from_text("A dog."),), splits=("val" if number % 3 == 0 else "train",))
        for number in numbers
    ]
    make_dataset(path, photos, sources=[("coco-captions", Path("captions.json"))])
    return path


def splits_of(path: Path) -> dict[str, tuple[str, ...]]:
    return {photo.id: photo.splits for photo in Dataset(path).photos}


def test_photos_are_drawn_once_and_leave_their_splits(tmp_path: Path) -> None:
    data = make_data(tmp_path / "old")
    rule = SplitRule((Draw("dev", 4, "val"), Draw("test", 3, "val"), Draw("more", 5)))
    manifest = split_dataset(tmp_path / "new", data, rule)
    assert {name: manifest.splits[name] for name in ("dev", "test", "more")} == {"dev": 4, "test": 3, "more": 5}
    before, after = splits_of(data), splits_of(tmp_path / "new")
    for photo, splits in after.items():
        assert len(splits) == 1
        if splits in (("dev",), ("test",)):
            assert before[photo] == ("val",)
        elif splits != ("more",):
            assert splits == before[photo]
    assert Dataset(tmp_path / "new").manifest.sources == Dataset(data).manifest.sources


def test_the_seed_and_the_ids_decide_and_not_the_order_of_photos(tmp_path: Path) -> None:
    rule = SplitRule((Draw("dev", 10),), rest="train")
    one, other = make_data(tmp_path / "one"), make_data(tmp_path / "other", range(29, -1, -1))
    found = []
    for name, data, seed in (("a", one, 3), ("b", other, 3), ("c", one, 4)):
        split_dataset(tmp_path / name, data, rule, seed=seed)
        found.append(splits_of(tmp_path / name))
    assert found[0] == found[1] != found[2]
    assert set(found[0].values()) == {("dev",), ("train",)}


def test_the_papers_rules(tmp_path: Path) -> None:
    assert {name: [(draw.split, draw.count, draw.source) for draw in rule.draws] for name, rule in RULES.items()} == {
        "coco": [("dev", 4000, "val"), ("test", 1000, "val")],
        "flickr30k": [("dev", 1000, ""), ("test", 1000, "")],
        "iapr": [("dev", 1000, "train")],
    }
    small = SplitRule((Draw("dev", 4, "val"),), RULES["coco"].rest, RULES["coco"].drop)
    manifest = split_dataset(tmp_path / "new", make_data(tmp_path / "old"), small)
    assert manifest.splits == {"dev": 4, "train": 20}, "the other photos of val are in no split"


@pytest.mark.parametrize(("draw", "words"), [(Draw("dev", 11, "val"), "dev=11"), (Draw("dev", 1, "x"), "'x'")])
def test_too_many_photos_and_unknown_splits_are_named(tmp_path: Path, draw: Draw, words: str) -> None:
    with pytest.raises(DatasetError, match=words):
        split_dataset(tmp_path / "new", make_data(tmp_path / "old"), SplitRule((draw,)))
    assert not (tmp_path / "new").exists()
