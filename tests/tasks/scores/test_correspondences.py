"""How many correspondences are right, against a count by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.language.sentence import Sentence
from deixis.models.correspondence import Correspondences, PhotoRegions
from deixis.models.trees import Forest
from deixis.tasks.scores.correspondences import GoldPhrases
from deixis.training.hm_lstm import ParsedPhotos

DOG, SNOW = (0, 0, 10, 10), (20, 20, 40, 40)
CANDIDATES = [[0, 0, 40, 40], [0, 0, 10, 10], [20, 20, 40, 39], [30, 0, 40, 10]]


def dog_in_snow(photo_id: str, boxes: tuple[Box, ...]) -> Photo:
    said = Caption.from_text("A dog in the snow.", (Mention(0, 5, "1", ("animals",)), Mention(9, 17, "2", ("scene",))))
    other = Caption.from_text("Another photo.", (Mention(0, 13, "1"),), related=False)
    return Photo(photo_id, (other, said), (Chain("1"), Chain("2")), boxes, width=40, height=40)


@pytest.fixture
def data(tmp_path: Path) -> tuple[Dataset, ParsedPhotos]:
    """Two photos with gold boxes, and one whose dog has none."""
    both = (Box(DOG, ("1",)), Box(SNOW, ("2",)))
    make_dataset(tmp_path / "data", [dog_in_snow("a", both), dog_in_snow("b", both), dog_in_snow("c", both[1:])])
    dataset = Dataset(tmp_path / "data")
    forest = Forest.of(Sentence.of_caption(c).tree for photo in dataset.photos for c in photo.sentences)
    regions = PhotoRegions.of(dataset.photos.ids, lambda _: (CANDIDATES, np.zeros((4, 2))))
    return dataset, ParsedPhotos(forest, np.arange(3), regions)


def found_regions(parsed: ParsedPhotos, chosen: list[list[int]]) -> Correspondences:
    """For each photo the candidates that "A dog" and "the snow" were found to name."""
    rows = []
    for sentence, own in enumerate(chosen):
        for node, region in zip(parsed.forest.noun_phrases[sentence].tolist()[: len(own)], own, strict=True):
            rows.append((sentence, node, int(parsed.regions.starts[sentence]) + region, 0.5))
    return Correspondences.of_rows(rows, len(parsed.forest))


def nouns(parsed: ParsedPhotos) -> list[str]:
    return [parsed.forest.text(0, node) for node in parsed.forest.noun_phrases[0].tolist()]


def test_right_is_an_iou_of_a_half_with_the_box_of_the_chain(data: tuple[Dataset, ParsedPhotos]) -> None:
    dataset, parsed = data
    assert nouns(parsed) == ["A dog", "the snow"]
    # Right, right; wrong, right; and of the third photo only the snow has a box.
    found = GoldPhrases.of(dataset.photos, parsed).judge(found_regions(parsed, [[1, 2], [3, 2], [1, 0]]))
    assert found
    assert found.phrases == 5
    assert found.right == pytest.approx(60)
    assert found.by_type == {"animals": 50, "scene": pytest.approx(200 / 3, abs=0.01)}
    assert found.random == pytest.approx(25)  # one of the four candidates is right for each phrase
    assert (found.whole, found.bound) == (0, 100)
    assert found.fixed == 100  # dogs and snow are where they always are
    assert found.mean_confidence == pytest.approx(0.5)
    assert "60.0 % of 5 phrases" in found.in_words()


def test_phrases_that_nothing_was_found_for_do_not_count(data: tuple[Dataset, ParsedPhotos]) -> None:
    dataset, parsed = data
    found = GoldPhrases.of(dataset.photos, parsed).judge(found_regions(parsed, [[1], [], []]))
    assert found
    assert (found.phrases, found.right) == (1, 100)


def test_without_gold_boxes_there_is_nothing_to_say(tmp_path: Path) -> None:
    make_dataset(tmp_path / "data", [dog_in_snow("a", ())])
    dataset = Dataset(tmp_path / "data")
    forest = Forest.of(Sentence.of_caption(c).tree for photo in dataset.photos for c in photo.sentences)
    regions = PhotoRegions.of(["a"], lambda _: (CANDIDATES, np.zeros((4, 2))))
    parsed = ParsedPhotos(forest, np.arange(1), regions)
    assert GoldPhrases.of(dataset.photos, parsed).judge(found_regions(parsed, [[1, 2]])) is None
