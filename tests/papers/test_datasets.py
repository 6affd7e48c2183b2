"""Identifying data sets, what tables require of them, and tables without a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.pairs import RegionPhrasePairs
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError
from deixis.language.sentence import Sentence
from deixis.models.matching.samplers import LabelledRegionSampler, RegionPhraseSampler
from deixis.models.matching.spec import SimilaritySettings
from deixis.models.training.settings import Settings, TrainSettings
from deixis.papers.datasets import (
    batch_sizes,
    check_requirements,
    choose_split,
    count_chains,
    count_pairs,
    count_triplets,
    identify_dataset,
)
from deixis.papers.tables import find_table
from tests.models.matching.test_samplers import TWO_BRANCH, batches_of, random_pairs


def make_data(
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
    return identify_dataset(dataset)


def test_data_sets_are_identified_by_their_sources(tmp_path: Path) -> None:
    dataset = make_data(tmp_path)
    assert identify_dataset(dataset) == ""
    assert from_sources(dataset, [("flickr-token", "Flickr8k.token.txt"), ("flickr30k-entities", "e")]) == "Flickr8k"
    assert from_sources(dataset, [("flickr30k-entities", "flickr30k_entities")], 31_783) == "Flickr30k"
    assert from_sources(dataset, [("flickr-token", "captions.token")], 8_091) == "Flickr8k"
    assert from_sources(dataset, [("flickr-results", "results.csv")], 31_783) == "Flickr30k"
    assert from_sources(dataset, [("karpathy", "dataset_coco.json")]) == "MS COCO"
    assert from_sources(dataset, [("coco-captions", "captions_val2014.json")]) == "MS COCO"
    assert from_sources(dataset, [("iapr-tc12", "annotations")]) == "IAPR TC-12"
    assert from_sources(dataset, [("jsonl", "mine.jsonl")]) == ""


def refusal(table: str, dataset: Dataset, **options: object) -> str:
    with pytest.raises(DatasetError) as raised:
        check_requirements(find_table(table), dataset, **options)  # type: ignore[arg-type]
    return str(raised.value).removeprefix(f"{dataset.path}: ")


def test_a_benchmark_of_another_data_set_is_an_error_that_lists_those_of_this_one(tmp_path: Path) -> None:
    dataset = make_data(tmp_path)
    from_sources(dataset, [("flickr-token", "Flickr8k.token.txt")])
    for words in ("m-rnn-1", "IAPR TC-12", "Flickr8k: m-rnn-3, m-rnn-5, hm-lstm-1"):
        assert words in refusal("m-rnn-1", dataset)
    assert "Flickr30k" in refusal("hm-lstm-2", dataset)
    for name in ("m-rnn-3", "m-rnn-5", "hm-lstm-1", "entities-3", "two-branch-2", "m-rnn-9"):
        check_requirements(find_table(name), dataset)


def test_an_unknown_data_set_is_not_a_benchmark(tmp_path: Path) -> None:
    assert "m-rnn-3 is of Flickr8k" in refusal("m-rnn-3", make_data(tmp_path))


def test_the_error_names_what_is_missing_and_the_option_that_adds_it(tmp_path: Path) -> None:
    boxless = make_data(tmp_path / "a", boxes=False)
    assert "--entities" in refusal("two-branch-1", boxless)
    check_requirements(find_table("two-branch-2"), boxless)
    untrained = make_data(tmp_path / "b", splits=("dev",))
    assert "--split train=FILE" in refusal("entities-2", untrained)
    unscored = make_data(tmp_path / "c", splits=("train",))
    assert refusal("entities-3", unscored).endswith("train")
    check_requirements(find_table("entities-2"), unscored)
    without_photos = make_data(tmp_path / "d", images=False)
    assert "--images" in refusal("entities-3", without_photos)
    check_requirements(find_table("entities-3"), without_photos, features=True)


def test_the_default_split_is_dev_then_val_then_test(tmp_path: Path) -> None:
    dataset = make_data(tmp_path, splits=("train", "test", "val"))
    assert choose_split(dataset) == "val"
    assert choose_split(dataset, "test") == "test"
    with pytest.raises(DatasetError, match="dev"):
        choose_split(dataset, "dev")


TEXT = "A dog chases a ball."
MENTIONS = (Mention(0, 5, "1", ("animals",)), Mention(13, 19, "2", ("other",)))


def photo(number: int, split: str = "train") -> Photo:
    return Photo(
        str(number),
        (Caption.from_text(TEXT, MENTIONS), Caption.from_text("A dog.", (Mention(0, 5, "1", ("animals",)),))),
        (Chain("1"), Chain("2")),
        (Box((0, 0, 40, 30), ("1",)), Box((60, 0, 70, 10), ("2",)), Box((80, 0, 90, 10), ("2",))),
        splits=(split,),
    )


def data(folder: Path) -> Dataset:
    make_dataset(folder / "data", [photo(1), photo(2), photo(3, "dev")])
    return Dataset(folder / "data")


def test_chains_are_counted_by_type_over_the_whole_data_set(tmp_path: Path) -> None:
    found = count_chains(data(tmp_path)).scores
    assert {name: found[f"animals_{name}"] for name in ("chains", "mentions_per_chain", "boxes_per_chain")} == {
        "chains": 3,
        "mentions_per_chain": 2,
        "boxes_per_chain": 1,
    }
    assert found["other_boxes_per_chain"] == 2
    assert found["total_chains"] == 6
    assert "people_chains" not in found


def test_pairs_are_counted_on_the_training_split_with_and_without_relations(tmp_path: Path) -> None:
    dataset = data(tmp_path)
    found = count_pairs(dataset).scores
    one_by_one = RegionPhrasePairs.from_photos(
        dataset.split("train"),
        lambda photo_id: np.zeros((0, 4)),
        more_phrases=lambda caption, mentions: Sentence.from_caption(caption).relations(mentions),
    )
    assert found["chunks_pairs"] == 6, "two mentions and one more, in two photos"
    assert found["chunks-1_pairs"] == 2, "a dog, a ball"
    assert found["chunks-10_pairs"] == 4, "each in two photos"
    assert found["augmented_pairs"] == len(one_by_one) > 6


@pytest.mark.parametrize("name", TWO_BRANCH)
def test_triplets_of_a_batch_are_counted_one_by_one(name: str) -> None:
    """At most K negatives for each target and positive, in the directions that have a weight (§4.5)."""
    settings = replace(TWO_BRANCH[name], max_negatives=4)
    pairs = random_pairs()
    sampler = RegionPhraseSampler(pairs, settings, 20)
    for batch in batches_of(sampler):
        count = 0
        for _, positive in batch.visual_targets.tolist() if settings.visual_to_text_weight else ():
            group = batch.group.tolist()
            count += min(4, sum(other != group[positive] for other in group))
        for target, _ in batch.text_targets.tolist() if settings.text_to_visual_weight else ():
            count += min(4, sum(batch.visual_negatives_of(torch.tensor([target]))[0].tolist()))
        assert count_triplets(batch, settings) == count
    assert batch_sizes(pairs, Settings((settings, TrainSettings(batch_size=20)))) == [
        count_triplets(batch, settings) for batch in batches_of(sampler)
    ]


def test_labelled_pairs_of_a_batch_are_counted() -> None:
    settings = SimilaritySettings()
    batches = batches_of(LabelledRegionSampler(random_pairs(), settings, 20))
    assert batch_sizes(random_pairs(), Settings((settings, TrainSettings(batch_size=20)))) == [
        len(batch.pairs) for batch in batches
    ]
