"""Eq. 9 and 10 compared with plain loops, and the contents of batches."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from deixis.errors import DatasetError
from deixis.models.hm_lstm.correspondence import Correspondences, ParsedPhotos
from deixis.models.hm_lstm.objective import PairBatch, PairObjective, PairSampler, contrastive_pairs, pair_losses
from deixis.models.hm_lstm.spec import HMLSTMSettings
from tests.models.hm_lstm.made_up import made_correspondences, made_model, parsed_photos


def unit(generator: np.random.Generator, rows: int) -> Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(generator.normal(size=(rows, 4))), dim=1)


def random_pairs(seed: int, pairs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vectors of 5 regions and of texts, the region of each text, and random contrastive pairs."""
    rng = np.random.default_rng(seed)
    visual, text, region = unit(rng, 5), unit(rng, pairs), torch.from_numpy(rng.integers(5, size=pairs))
    contrast = torch.from_numpy(rng.random((pairs, pairs)) < 0.5)
    return visual, text, region, contrast.fill_diagonal_(False)  # no pair contrasts with itself


@given(st.integers(0, 500), st.integers(1, 9), st.floats(0, 1))
def test_the_loss_of_a_pair_is_eq_9(seed: int, pairs: int, margin: float) -> None:
    visual, text, region, contrast = random_pairs(seed, pairs)
    found = pair_losses(visual, text, region, contrast, HMLSTMSettings(margin=margin))
    for k in range(pairs):
        right = float(visual[region[k]] @ text[k])
        others = [number for number in range(pairs) if contrast[k, number]]
        to_text = [max(0.0, margin - right + float(visual[region[k]] @ text[number])) for number in others]
        to_visual = [max(0.0, margin - right + float(text[k] @ visual[region[number]])) for number in others]
        assert float(found[k]) == pytest.approx(sum(to_text) + sum(to_visual), abs=1e-9)


@given(st.integers(0, 500), st.integers(1, 9), st.floats(0.02, 2))
def test_the_softmax_loss_is_the_cross_entropy_of_the_pair_itself(seed: int, pairs: int, temperature: float) -> None:
    visual, text, region, contrast = random_pairs(seed, pairs)
    found = pair_losses(visual, text, region, contrast, HMLSTMSettings(loss="softmax", temperature=temperature))
    for k in range(pairs):
        among = sorted({k, *(number for number in range(pairs) if contrast[k, number])})
        right = math.exp(float(visual[region[k]] @ text[k]) / temperature)
        texts = sum(math.exp(float(visual[region[k]] @ text[number]) / temperature) for number in among)
        regions = sum(math.exp(float(text[k] @ visual[region[number]]) / temperature) for number in among)
        assert float(found[k]) == pytest.approx(-math.log(right / texts) - math.log(right / regions), abs=1e-6)


@given(st.integers(0, 50), st.integers(2, 6), st.sampled_from(["photo", "batch"]), st.booleans())
def test_contrastive_pairs_follow_the_settings(
    seed: int, size: int, contrast: Literal["photo", "batch"], identical: bool
) -> None:
    data, settings = parsed_photos(), HMLSTMSettings(negatives_from=contrast, identical_text_is_negative=identical)
    sampler = PairSampler(data, size, made_correspondences(data))
    for batch in sampler.epoch(0, np.random.default_rng(seed)):
        found = contrastive_pairs(batch, settings)
        for k in range(len(batch.region)):
            for other in range(len(batch.region)):
                other_photo = batch.photo[k] != batch.photo[other]
                if batch.is_root[k] != batch.is_root[other]:
                    expected = False
                elif batch.is_root[k]:
                    expected = bool(other_photo)
                else:
                    expected = bool(batch.region[k] != batch.region[other])
                    expected &= identical or bool(batch.text_id[k] != batch.text_id[other])
                    expected &= contrast == "batch" or not other_photo
                assert bool(found[k, other]) is expected


def pairs_in(batch: PairBatch) -> list[tuple[int, int]]:
    return list(zip(batch.photo.tolist(), batch.visual[batch.region].tolist(), strict=True))


def test_an_epoch_holds_each_sentence_with_its_photo_and_each_phrase_with_its_region() -> None:
    data = parsed_photos()
    found = made_correspondences(data)
    sentences, phrases, weights = [], [], []
    for batch in PairSampler(data, 4, found, phrase_weight=0.5).epoch(0, np.random.default_rng(0)):
        roots = batch.is_root.numpy()
        assert roots.sum() == batch.size
        sentences += [pair for pair, root in zip(pairs_in(batch), roots, strict=True) if root]
        phrases += [pair for pair, root in zip(pairs_in(batch), roots, strict=True) if not root]
        weights += batch.weight[~batch.is_root].tolist()
        assert (batch.weight[batch.is_root] == 1).all()
        assert len(batch.nodes) == len(batch.region)
    whole = data.regions.starts[data.photo].tolist()
    assert sorted(sentences) == sorted(zip(data.photo.tolist(), whole, strict=True))
    kept = found.confidence > 0
    owners = data.photo[found.rows.owners[kept]].tolist()
    assert sorted(phrases) == sorted(zip(owners, found.region[kept].tolist(), strict=True))
    assert sorted(weights) == pytest.approx(sorted((0.5 * found.confidence[kept]).tolist()))


def test_a_last_batch_of_one_is_dropped_and_one_sentence_raises_an_error() -> None:
    data = parsed_photos()
    count = len(data.photo)
    sampler = PairSampler(data, count - 1)
    assert len(sampler) == len(list(sampler.epoch(0, np.random.default_rng(0)))) == 1
    one = ParsedPhotos(data.forest, data.photo[:1], data.regions)
    with pytest.raises(DatasetError):
        PairSampler(one)


def make_objective(data: ParsedPhotos, settings: HMLSTMSettings) -> tuple[Any, PairObjective]:
    model = made_model(settings)
    return model, PairObjective(
        settings, torch.from_numpy(data.regions.vectors), torch.from_numpy(model.word_matrix(data.forest))
    )


@pytest.mark.parametrize("encoder", ["h-lstm", "tree-lstm", "chain"])
@pytest.mark.parametrize("contrast", ["photo", "batch"])
def test_the_total_is_eq_10_divided_by_the_sentences_of_the_batch(
    encoder: Literal["h-lstm", "tree-lstm", "chain"], contrast: Literal["photo", "batch"]
) -> None:
    data = parsed_photos()
    settings = HMLSTMSettings(hidden_size=8, embedding_dim=4, text_encoder=encoder, negatives_from=contrast, margin=0.3)
    model, objective = make_objective(data, settings)
    model.network.eval()
    batch = next(PairSampler(data, 5, made_correspondences(data)).epoch(0, np.random.default_rng(3)))
    found = objective(model.network, batch)

    visual = torch.from_numpy(model.prepare_visual(data.regions.vectors[batch.visual.numpy()]))
    text = model.network.embed_nodes(objective.words, batch.trees, batch.nodes)
    losses = pair_losses(visual, text, batch.region, contrastive_pairs(batch, settings), settings)
    total = sum((w * loss).item() for w, loss in zip(batch.weight, losses, strict=True)) / 5
    assert found.total.item() == pytest.approx(total, rel=1e-5)
    assert float(found.terms["sentences"] + found.terms["phrases"]) == pytest.approx(total, rel=1e-5)
    assert float(found.terms["phrases"]) > 0


def test_correspondences_are_sorted_by_sentence() -> None:
    data = parsed_photos()
    found = made_correspondences(data)
    rows = list(zip(found.rows.owners, found.node, found.region, found.confidence, strict=True))
    again = Correspondences.from_rows(
        [rows[index] for index in np.random.default_rng(0).permutation(len(rows))], len(data.forest)
    )
    np.testing.assert_array_equal(again.rows.owners, found.rows.owners)
    assert sorted(zip(again.rows.owners, again.node, again.region, again.confidence, strict=True)) == sorted(rows)
