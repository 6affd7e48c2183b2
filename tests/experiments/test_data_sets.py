"""Which data set it is, and what it lacks, in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError
from deixis.experiments.data_sets import known_data, refuse_without, scored_split
from deixis.experiments.tables import find_table


def made(
    folder: Path, *, boxes: bool = True, splits: tuple[str, ...] = ("train", "dev"), images: bool = True
) -> Dataset:
    photos = [
        Photo(
            split,
            (Caption.from_text("A dog.", (Mention(0, 5, "1"),)),),
            (Chain("1"),),
            (Box((0, 0, 4, 4), ("1",)),) if boxes else (),
            file=f"{split}.png" if images else None,
            splits=(split,),
        )
        for split in splits
    ]
    make_dataset(folder / "data", photos, images=folder if images else None)
    return Dataset(folder / "data")


def from_sources(dataset: Dataset, sources: list[tuple[str, str]], photos: int = 100) -> str:
    plain = tuple({"kind": kind, "name": name} for kind, name in sources)
    dataset.manifest = replace(dataset.manifest, sources=plain, counts={**dataset.manifest.counts, "photos": photos})
    return known_data(dataset)


def test_data_sets_are_known_by_where_they_come_from(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    assert known_data(dataset) == ""
    assert from_sources(dataset, [("flickr-token", "Flickr8k.token.txt"), ("flickr30k-entities", "e")]) == "Flickr8k"
    assert from_sources(dataset, [("flickr30k-entities", "flickr30k_entities")], 31_783) == "Flickr30k"
    assert from_sources(dataset, [("flickr-token", "captions.token")], 8_091) == "Flickr8k"
    assert from_sources(dataset, [("flickr-results", "results.csv")], 31_783) == "Flickr30k"
    assert from_sources(dataset, [("karpathy", "dataset_coco.json")]) == "MS COCO"
    assert from_sources(dataset, [("coco-captions", "captions_val2014.json")]) == "MS COCO"
    assert from_sources(dataset, [("iapr-tc12", "annotations")]) == "IAPR TC-12"
    assert from_sources(dataset, [("jsonl", "mine.jsonl")]) == ""


def refusal(table: str, dataset: Dataset, **given: object) -> str:
    with pytest.raises(DatasetError) as raised:
        refuse_without(find_table(table), dataset, **given)  # type: ignore[arg-type]
    return str(raised.value).removeprefix(f"{dataset.path}: ")


def test_a_benchmark_of_another_data_set_is_refused_with_those_of_this_one(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    from_sources(dataset, [("flickr-token", "Flickr8k.token.txt")])
    assert refusal("m-rnn-1", dataset) == (
        "table m-rnn-1 is of IAPR TC-12, and this is Flickr8k; tables of Flickr8k: m-rnn-3, m-rnn-5, hm-lstm-1"
    )
    assert refusal("hm-lstm-2", dataset).startswith("table hm-lstm-2 is of Flickr30k, and this is Flickr8k")
    for name in ("m-rnn-3", "m-rnn-5", "hm-lstm-1", "entities-3", "two-branch-3", "m-rnn-9"):
        refuse_without(find_table(name), dataset)


def test_data_of_ones_own_is_no_benchmark(tmp_path: Path) -> None:
    assert refusal("m-rnn-3", made(tmp_path)) == (
        "table m-rnn-3 is of Flickr8k, and this is none of the papers' data sets"
    )


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    boxless = made(tmp_path / "a", boxes=False)
    assert refusal("two-branch-1", boxless) == (
        "table two-branch-1 needs boxes of phrases; import the data with --entities"
    )
    refuse_without(find_table("two-branch-2"), boxless)
    untrained = made(tmp_path / "b", splits=("dev",))
    assert refusal("entities-2", untrained) == (
        "table entities-2 needs split 'train'; import the data with --split train=FILE"
    )
    unscored = made(tmp_path / "c", splits=("train",))
    assert refusal("entities-3", unscored) == "no split to score on; it has: train"
    refuse_without(find_table("entities-2"), unscored)
    unseen = made(tmp_path / "d", images=False)
    assert refusal("entities-3", unseen).startswith("table entities-3 needs photos; import the data with --images")
    refuse_without(find_table("entities-3"), unseen, features=True)


def test_the_split_to_score_on_is_dev_then_val_then_test_or_the_one_asked_for(tmp_path: Path) -> None:
    dataset = made(tmp_path, splits=("train", "test", "val"))
    assert scored_split(dataset) == "val"
    assert scored_split(dataset, "test") == "test"
    with pytest.raises(DatasetError, match="no split 'dev'"):
        scored_split(dataset, "dev")
