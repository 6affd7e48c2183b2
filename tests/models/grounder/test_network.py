"""The network of the grounder: padding, optional parts and box offsets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from deixis.language.vocabulary import Vocabulary
from deixis.models.base import RegionInputs
from deixis.models.grounder.model import make_text_inputs
from deixis.models.grounder.network import (
    BoxRefiner,
    GrounderNetwork,
    NetworkOutput,
    RegionBatch,
    TextBatch,
    apply_offsets,
    mean_over_spans,
)
from deixis.models.grounder.spec import GrounderSettings

WORDS = Vocabulary(("a", "dog", "cat"), (3, 2, 1))


def regions(count: int, seed: int = 0, channels: int = 4) -> RegionInputs:
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(channels, 2, 3))
    return RegionInputs(rng.normal(size=(count, channels)), rng.uniform(size=(count, 4)), rng.uniform(size=count),
                        rng.normal(size=3), cells)  # fmt: skip


SMALL = GrounderSettings(embedding_dim=8, word_dim=6, hidden_size=5, dropout=0.0, word_dropout=0.0)
DEEP = replace(SMALL, num_layers=2, use_feature_map=True)
SENTENCE = ["a", "dog", "and", "a", "red", "cat"]


def network_of(settings: GrounderSettings, seed: int = 0) -> GrounderNetwork:
    torch.manual_seed(seed)
    return GrounderNetwork(4, 3, len(WORDS), settings).eval()


def run(network: GrounderNetwork, photos: RegionBatch, photo_of: list[int], text: TextBatch) -> NetworkOutput:
    with torch.no_grad():
        found: NetworkOutput = network(photos, torch.tensor(photo_of), text)
    return found


@pytest.mark.parametrize("settings", [SMALL, DEEP], ids=["dot", "layers"])
def test_scores_do_not_depend_on_other_photos_and_sentences_of_the_batch(settings: GrounderSettings) -> None:
    network = network_of(settings)
    photos = [regions(3, 0), regions(7, 1), regions(0, 2)]
    readings = [*make_text_inputs(SENTENCE, [(0, 2), (3, 6)]), *make_text_inputs(["a", "cat"], [(0, 2)])]
    several = run(network, RegionBatch.collate(photos, cells=True), [0, 1], TextBatch.collate(readings, WORDS))
    for row in (0, 1):
        alone = run(
            network,
            RegionBatch.collate(photos[row : row + 1], cells=True),
            [0],
            TextBatch.collate(readings[row : row + 1], WORDS),
        )
        phrases, count = len(readings[row].spans), len(photos[row])
        torch.testing.assert_close(several.scores[row, :phrases, :count], alone.scores[0], rtol=1e-5, atol=1e-5)
        assert several.scores[row, :, count:].isneginf().all()


def test_without_layers_a_score_is_the_dot_product_of_vectors() -> None:
    network, photo = network_of(SMALL), regions(5)
    found = run(
        network, RegionBatch.collate([photo]), [0], TextBatch.collate(make_text_inputs(SENTENCE, [(0, 2)]), WORDS)
    )
    torch.testing.assert_close(found.scores[0], network.phrase_vectors(found.phrases)[0] @ found.region_vectors[0].T)
    likely = network.objectness_weight.item() * math.log(photo.objectness[2] / (1 - photo.objectness[2]))
    assert float(found.region_vectors[0, 2, -1]) == pytest.approx(likely, rel=1e-4)


def scores_with(settings: GrounderSettings, **changes: np.ndarray) -> torch.Tensor:
    photo = replace(regions(5), **changes)
    text = TextBatch.collate(make_text_inputs(SENTENCE, [(0, 2)], context=settings.sentence_context), WORDS)
    return run(network_of(settings), RegionBatch.collate([photo], cells=settings.use_feature_map), [0], text).scores


@pytest.mark.parametrize(
    ("part", "column"), [("use_location", "boxes"), ("global_context", "whole"), ("use_feature_map", "cells")]
)
def test_an_input_has_no_effect_if_its_setting_is_off(part: str, column: str) -> None:
    settings = DEEP if part == "use_feature_map" else SMALL
    other = getattr(regions(5, seed=9), column)
    assert not torch.allclose(scores_with(settings), scores_with(settings, **{column: other}))
    without = replace(settings, **{part: False})
    assert torch.equal(scores_with(without), scores_with(without, **{column: other}))


def test_the_sentence_affects_a_phrase_only_with_sentence_context() -> None:
    photos = RegionBatch.collate([regions(5)])

    def scores(settings: GrounderSettings, sentence: list[str]) -> torch.Tensor:
        text = TextBatch.collate(make_text_inputs(sentence, [(0, 2)], context=settings.sentence_context), WORDS)
        return run(network_of(settings), photos, [0], text).scores

    others = ["a", "dog", "cat"]
    assert not torch.allclose(scores(SMALL, SENTENCE), scores(SMALL, others))
    alone = replace(SMALL, sentence_context=False)
    assert torch.equal(scores(alone, SENTENCE), scores(alone, others))


def test_scores_are_finite_for_an_objectness_of_0_and_1() -> None:
    assert scores_with(SMALL, objectness=np.array([0.0, 1.0, 0.5, -3.0, 7.0])).isfinite().all()


def test_the_state_of_a_phrase_is_the_mean_over_its_words() -> None:
    words = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    found = mean_over_spans(words, torch.tensor([[[0, 2], [4, 5]], [[1, 4], [0, 0]]]))
    torch.testing.assert_close(found[0, 0], words[0, :2].mean(0))
    torch.testing.assert_close(found[0, 1], words[0, 4])
    torch.testing.assert_close(found[1, 0], words[1, 1:4].mean(0))
    assert not found[1, 1].any()


def test_offsets_shift_and_scale_boxes_within_limits() -> None:
    box = torch.tensor([0.4, 0.4, 0.6, 0.5])
    moved = apply_offsets(box, torch.tensor([0.5, -1.0, math.log(2), math.log(0.5)]))
    torch.testing.assert_close(moved, torch.tensor([0.4, 0.325, 0.8, 0.375]))
    huge = apply_offsets(box, torch.tensor([0.0, 0.0, 50.0, 50.0]))
    torch.testing.assert_close(huge, torch.tensor([0.5 - 0.1 * math.e, 0.45 - 0.05 * math.e,
                                                   0.5 + 0.1 * math.e, 0.45 + 0.05 * math.e]))  # fmt: skip
    assert apply_offsets(box, torch.tensor([9.0, 0.0, 0.0, 0.0])).tolist() == pytest.approx([1.0, 0.4, 1.0, 0.5])


def test_an_untrained_refiner_keeps_boxes() -> None:
    refiner, boxes = BoxRefiner(8), torch.tensor([[[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.4, 0.9]]])
    found = refiner(torch.randn(1, 3, 8), torch.randn(1, 1, 2, 8), boxes)
    for phrase in range(3):
        torch.testing.assert_close(found[0, phrase], boxes[0])


def test_a_refined_box_depends_only_on_its_phrase_and_region() -> None:
    torch.manual_seed(0)
    refiner = BoxRefiner(8)
    torch.nn.init.normal_(refiner.offsets.weight)
    phrases, regions_, boxes = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.rand(2, 4, 4).sort(dim=2).values
    found = refiner(phrases, regions_[:, None], boxes[:, None])
    hidden = torch.nn.functional.gelu(refiner.phrase(phrases[1, 2]) + refiner.region(regions_[1, 3]))
    torch.testing.assert_close(found[1, 2, 3], apply_offsets(boxes[1, 3], refiner.offsets(hidden)))


def test_without_a_refiner_boxes_are_the_proposals() -> None:
    network, photos = network_of(replace(SMALL, refine_boxes=False)), RegionBatch.collate([regions(5)])
    found = run(network, photos, [0], TextBatch.collate(make_text_inputs(SENTENCE, [(0, 2)]), WORDS))
    assert torch.equal(network.refine(found, photos.boxes, torch.tensor([[[3, 1]]]))[0, 0], photos.boxes[0, [3, 1]])
