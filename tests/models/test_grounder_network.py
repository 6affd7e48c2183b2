"""The network that points: padding never matters, each part can be left out, and boxes move as they are told."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder_inputs import ReadingBatch, RegionBatch, readings_of
from deixis.models.grounder_network import (
    GrounderNetwork,
    GrounderSettings,
    Pointed,
    Refiner,
    changed_boxes,
    spans_of,
)
from tests.models.test_grounder_inputs import WORDS, regions

SMALL = GrounderSettings(dimension=8, word_size=6, hidden=5, dropout=0.0, word_dropout=0.0)
DEEP = replace(SMALL, layers=2, cells=True)
SENTENCE = ["a", "dog", "and", "a", "red", "cat"]


def network_of(settings: GrounderSettings, seed: int = 0) -> GrounderNetwork:
    torch.manual_seed(seed)
    return GrounderNetwork(4, 3, len(WORDS), settings).eval()


def looked(network: GrounderNetwork, photos: RegionBatch, photo_of: list[int], text: ReadingBatch) -> Pointed:
    with torch.no_grad():
        found: Pointed = network(photos, torch.tensor(photo_of), text)
    return found


@pytest.mark.parametrize("settings", [SMALL, DEEP], ids=["dot", "layers"])
def test_neither_other_photos_nor_other_sentences_change_a_score(settings: GrounderSettings) -> None:
    network = network_of(settings)
    photos = [regions(3, 0), regions(7, 1), regions(0, 2)]
    readings = [*readings_of(SENTENCE, [(0, 2), (3, 6)]), *readings_of(["a", "cat"], [(0, 2)])]
    several = looked(network, RegionBatch.of(photos, cells=True), [0, 1], ReadingBatch.of(readings, WORDS))
    for row in (0, 1):
        alone = looked(
            network,
            RegionBatch.of(photos[row : row + 1], cells=True),
            [0],
            ReadingBatch.of(readings[row : row + 1], WORDS),
        )
        phrases, count = len(readings[row].spans), len(photos[row])
        torch.testing.assert_close(several.scores[row, :phrases, :count], alone.scores[0], rtol=1e-5, atol=1e-5)
        assert several.scores[row, :, count:].isneginf().all()


def test_without_layers_a_score_is_the_dot_product_of_vectors() -> None:
    network, photo = network_of(SMALL), regions(5)
    found = looked(network, RegionBatch.of([photo]), [0], ReadingBatch.of(readings_of(SENTENCE, [(0, 2)]), WORDS))
    torch.testing.assert_close(found.scores[0], found.phrase_vectors[0] @ found.region_vectors[0].T)
    likely = network.objectness.item() * math.log(photo.objectness[2] / (1 - photo.objectness[2]))
    assert float(found.region_vectors[0, 2, -1]) == pytest.approx(likely, rel=1e-4)


def scores_with(settings: GrounderSettings, **changes: np.ndarray) -> torch.Tensor:
    photo = replace(regions(5), **changes)
    text = ReadingBatch.of(readings_of(SENTENCE, [(0, 2)], context=settings.context), WORDS)
    return looked(network_of(settings), RegionBatch.of([photo], cells=settings.cells), [0], text).scores


@pytest.mark.parametrize(
    ("part", "column"), [("place", "boxes"), ("whole", "whole"), ("cells", "cells")], ids=["place", "whole", "cells"]
)
def test_a_part_that_is_left_out_does_not_matter(part: str, column: str) -> None:
    settings = DEEP if part == "cells" else SMALL
    other = getattr(regions(5, seed=9), column)
    assert not torch.allclose(scores_with(settings), scores_with(settings, **{column: other}))
    without = replace(settings, **{part: False})
    assert torch.equal(scores_with(without), scores_with(without, **{column: other}))


def test_a_sentence_changes_what_its_phrases_say_only_with_context() -> None:
    photos = RegionBatch.of([regions(5)])

    def scores(settings: GrounderSettings, sentence: list[str]) -> torch.Tensor:
        text = ReadingBatch.of(readings_of(sentence, [(0, 2)], context=settings.context), WORDS)
        return looked(network_of(settings), photos, [0], text).scores

    others = ["a", "dog", "cat"]
    assert not torch.allclose(scores(SMALL, SENTENCE), scores(SMALL, others))
    alone = replace(SMALL, context=False)
    assert torch.equal(scores(alone, SENTENCE), scores(alone, others))


def test_scores_of_proposers_may_be_exactly_0_or_1() -> None:
    assert scores_with(SMALL, objectness=np.array([0.0, 1.0, 0.5, -3.0, 7.0])).isfinite().all()


def test_a_phrase_is_the_mean_of_its_words() -> None:
    words = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    found = spans_of(words, torch.tensor([[[0, 2], [4, 5]], [[1, 4], [0, 0]]]))
    torch.testing.assert_close(found[0, 0], words[0, :2].mean(0))
    torch.testing.assert_close(found[0, 1], words[0, 4])
    torch.testing.assert_close(found[1, 0], words[1, 1:4].mean(0))
    assert not found[1, 1].any()


def test_boxes_move_by_shares_of_their_size_and_stretch_by_powers_of_e() -> None:
    box = torch.tensor([0.4, 0.4, 0.6, 0.5])
    moved = changed_boxes(box, torch.tensor([0.5, -1.0, math.log(2), math.log(0.5)]))
    torch.testing.assert_close(moved, torch.tensor([0.4, 0.325, 0.8, 0.375]))
    huge = changed_boxes(box, torch.tensor([0.0, 0.0, 50.0, 50.0]))
    torch.testing.assert_close(huge, torch.tensor([0.5 - 0.1 * math.e, 0.45 - 0.05 * math.e,
                                                   0.5 + 0.1 * math.e, 0.45 + 0.05 * math.e]))  # fmt: skip
    assert changed_boxes(box, torch.tensor([9.0, 0.0, 0.0, 0.0])).tolist() == pytest.approx([1.0, 0.4, 1.0, 0.5])


def test_a_refiner_begins_by_leaving_boxes_as_they_are() -> None:
    refiner, boxes = Refiner(8), torch.tensor([[[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.4, 0.9]]])
    found = refiner(torch.randn(1, 3, 8), torch.randn(1, 2, 8), boxes, torch.tensor([[[0, 1], [1, 0], [1, 1]]]))
    torch.testing.assert_close(found[0, 1], boxes[0].flip(0))


def test_a_refined_box_depends_on_its_phrase_and_its_region_alone() -> None:
    torch.manual_seed(0)
    refiner = Refiner(8)
    torch.nn.init.normal_(refiner.change.weight)
    phrases, regions_, boxes = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.rand(2, 4, 4).sort(dim=2).values
    every = torch.arange(4).expand(2, 3, 4)
    found = refiner(phrases, regions_, boxes, every)
    hidden = torch.nn.functional.gelu(refiner.phrase(phrases[1, 2]) + refiner.region(regions_[1, 3]))
    torch.testing.assert_close(found[1, 2, 3], changed_boxes(boxes[1, 3], refiner.change(hidden)))


def test_without_a_refiner_boxes_are_the_proposed_ones() -> None:
    network, photos = network_of(replace(SMALL, refine=False)), RegionBatch.of([regions(5)])
    found = looked(network, photos, [0], ReadingBatch.of(readings_of(SENTENCE, [(0, 2)]), WORDS))
    assert torch.equal(network.refined(found, photos.boxes, torch.tensor([[[3, 1]]]))[0, 0], photos.boxes[0, [3, 1]])


def test_a_share_of_nothing_can_be_computed_and_takes_part_in_the_gradient() -> None:
    network = network_of(replace(SMALL, layers=1))
    assert network.together is not None
    words = network.read(torch.zeros(0, 4, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    seen = network.see(torch.zeros(0, 5, 4), torch.zeros(0, 5, 4), torch.zeros(0, 5), torch.zeros(0, 3))
    nowhere = torch.zeros(0, 5, dtype=torch.bool), torch.zeros(0, 4, dtype=torch.bool)
    joined = network.together(seen, nowhere[0], words, nowhere[1])
    assert [made.shape for made in (words, seen, joined)] == [(0, 4, 8), (0, 5, 8), (0, 9, 8)]
    # Else this process would not wait for the others' gradients, which they wait for.
    assert words.requires_grad
    assert seen.requires_grad
    assert joined.requires_grad


def test_any_dimension_has_heads() -> None:
    for dimension in (1, 7, 130, 200):
        settings = GrounderSettings(dimension=dimension, layers=1)
        with torch.device("meta"):
            network = GrounderNetwork(4, 3, 5, settings)
        assert network.together is not None


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"dimension": 0}, "dimension=0: must be 1 or more"),
        ({"layers": -1}, "layers=-1: must be 0 or more"),
        ({"dropout": 1.0}, "dropout=1.0: must be at least 0 and less than 1"),
        ({"other_photos": math.nan}, "other_photos=nan: must be 0 or more"),
        ({"cells": True}, "cells=true: only layers can look at cells"),
    ],
)
def test_settings_that_cannot_be_are_one_clear_line(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(DeixisError, match=complaint):
        replace(SMALL, **changes)  # type: ignore[arg-type]


def test_bfloat16_changes_scores_but_little() -> None:
    network, photos = network_of(DEEP), RegionBatch.of([regions(6)], cells=True)
    text = ReadingBatch.of(readings_of(SENTENCE, [(0, 2), (3, 6)]), Vocabulary(WORDS.words, WORDS.counts))
    exact = looked(network, photos, [0], text)
    with torch.autocast("cpu", torch.bfloat16):
        rough = looked(network, photos, [0], text)
    assert rough.scores.dtype == torch.float32
    torch.testing.assert_close(rough.scores, exact.scores, rtol=0.1, atol=0.1)
