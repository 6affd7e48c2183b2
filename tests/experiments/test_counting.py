"""Tables without a model, against plain counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.pairs import RegionPhrasePairs
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.experiments.counting import count_chains, count_pairs
from deixis.language.sentence import Sentence

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
    one_by_one = RegionPhrasePairs.of_photos(
        dataset.split("train"),
        lambda photo_id: np.zeros((0, 4)),
        more_phrases=lambda caption, mentions: Sentence.of_caption(caption).relations(mentions),
    )
    assert found["chunks_pairs"] == 6, "two mentions and one more, in two photos"
    assert found["chunks-1_pairs"] == 2, "a dog, a ball"
    assert found["chunks-10_pairs"] == 4, "each in two photos"
    assert found["augmented_pairs"] == len(one_by_one) > 6
