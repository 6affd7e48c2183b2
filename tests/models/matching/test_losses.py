"""Losses against loops so plain that they are obviously right, their gradients, and the objectives of the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from deixis.language.vocabulary import Vocabulary
from deixis.models.matching.losses import (
    LogisticObjective,
    MatchingLoss,
    MatchingObjective,
    SoftmaxLoss,
    TripletLoss,
    logistic_loss,
    matching_loss,
)
from deixis.models.matching.model import TwoBranch
from deixis.models.matching.networks import Branches, SimilarityNetwork, TwoBranchNetwork
from deixis.models.matching.samplers import (
    LabelledRegionSampler,
    LabelledSentenceSampler,
    RegionPhraseSampler,
    SentenceSampler,
    TripletBatch,
)
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.networks import word_tensors
from tests.models.training.region_pairs import random_pairs

PHRASES = random_pairs(photos=6, proposals=16)
PHOTO_OF_SENTENCE = np.repeat(np.arange(8), 3)
KINDS = ("phrases", "phrases of other photos", "sentences")


def batch_of(kind: str, seed: int = 0) -> TripletBatch:
    settings = TwoBranchSettings(negatives_from="batch" if kind == "phrases of other photos" else "photo")
    sampler: RegionPhraseSampler | SentenceSampler = (
        SentenceSampler(PHOTO_OF_SENTENCE, settings, 10)
        if kind == "sentences"
        else RegionPhraseSampler(PHRASES, settings, 10)
    )
    return replace(next(iter(sampler.epoch(0, np.random.default_rng(seed)))), neighbours=True)


def vectors(batch: TripletBatch, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Those of one row are the same wherever it stands."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(  # type: ignore[return-value]
        normalize(torch.randn(int(rows.max()) + 1, 6, generator=generator, dtype=dtype))[rows]
        for rows in (batch.visual, batch.text)
    )


Triplet = tuple[Tensor, Tensor, list[Tensor]]


def triplets(visual: Tensor, text: Tensor, batch: TripletBatch) -> dict[str, list[Triplet]]:
    """For each kind every target, its positive and all its negatives."""

    def texts_of_others(row: int) -> list[Tensor]:
        return [text[i] for i in range(len(text)) if batch.group[i] != batch.group[row]]

    wrong = batch.visual_negatives_of(torch.arange(len(text)))

    def wrong_visuals(row: int) -> list[Tensor]:
        return [visual[i] for i in range(len(visual)) if wrong[row, i]]

    texts = range(len(text))
    return {
        "visual_to_text": [(visual[v], text[t], texts_of_others(t)) for v, t in batch.visual_targets.tolist()],
        "text_to_visual": [(text[t], visual[v], wrong_visuals(t)) for t, v in batch.text_targets.tolist()],
        "visual_neighbours": [(visual[a], visual[b], wrong_visuals(t)) for a, b, t in batch.visual_neighbours.tolist()],
        "text_neighbours": [
            (text[a], text[b], texts_of_others(a))
            for a in texts
            for b in texts
            if batch.text[a] != batch.text[b] and batch.group[a] == batch.group[b]
        ],
    }


def plain_triplet_loss(loss: TripletLoss, visual: Tensor, text: Tensor, batch: TripletBatch) -> float:
    total = 0.0
    for name, all_of_kind in triplets(visual, text, batch).items():
        for target, positive, negatives in all_of_kind:
            hinges = [
                max(0.0, loss.margin + float((target - positive).norm()) - float((target - negative).norm()))
                for negative in negatives
            ]
            total += getattr(loss, name) * sum(sorted(hinges, reverse=True)[: loss.max_negatives])
    return total / batch.size


def plain_softmax_loss(loss: SoftmaxLoss, visual: Tensor, text: Tensor, batch: TripletBatch) -> float:
    total, kinds = 0.0, triplets(visual, text, batch)
    temperature = max(0.01, math.exp(loss.log_temperature.item()))
    for name in ("visual_to_text", "text_to_visual"):
        losses = []
        for target, positive, negatives in kinds[name]:
            scores = [float(target @ other) / temperature for other in (positive, *negatives)]
            whole = math.log(sum(map(math.exp, scores)))
            targets = [loss.label_smoothing / len(scores)] * len(scores)
            targets[0] += 1 - loss.label_smoothing
            losses.append(sum(share * (whole - score) for share, score in zip(targets, scores, strict=True)))
        total += sum(losses) / len(losses) / 2
    return total


TRIPLET_LOSSES = [
    TripletLoss(1.0, 4.0, 0.1, 0.1),
    TripletLoss(1.0, 1.5, 0.0, 0.05, max_negatives=3),
    TripletLoss(0.0, 1.0, margin=0.7),
    TripletLoss(1.0, 0.0, margin=0.3, max_negatives=1),
    TripletLoss(0.5, 0.25, 2.0, 3.0, margin=1.5, max_negatives=1000),
]
LOSSES: list[tuple[MatchingLoss, Callable[..., float]]] = [
    *((loss, plain_triplet_loss) for loss in TRIPLET_LOSSES),
    (SoftmaxLoss(torch.tensor(math.log(0.07), dtype=torch.float64)), plain_softmax_loss),
    (SoftmaxLoss(torch.tensor(math.log(0.5), dtype=torch.float64), label_smoothing=0.1), plain_softmax_loss),
    (SoftmaxLoss(torch.tensor(-9.0, dtype=torch.float64)), plain_softmax_loss),
]


# The distance of two vectors that are the same, from their dot product, is the root of what rounding leaves.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-7), (torch.float32, 1e-4)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("loss", "plain"), LOSSES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_loss_equals_a_plain_loop(
    loss: MatchingLoss, plain: Callable[..., float], kind: str, dtype: torch.dtype, tolerance: float
) -> None:
    for seed in range(2):
        batch = batch_of(kind, seed)
        visual, text = vectors(batch, dtype, seed)
        expected = plain(loss, visual.double(), text.double(), batch)
        value = loss(visual, text, batch).total
        assert value.dtype == dtype
        assert value.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)
        assert expected > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [pair[0] for pair in LOSSES], ids=str)
def test_the_gradient_equals_finite_differences(loss: MatchingLoss, kind: str) -> None:
    batch = batch_of(kind)
    generator = torch.Generator().manual_seed(0)
    # Different even where the rows are the same: which of two equal negatives is the hardest, no gradient can say.
    rows = [
        torch.randn(len(side), 6, generator=generator, dtype=torch.float64, requires_grad=True)
        for side in (batch.visual, batch.text)
    ]
    assert torch.autograd.gradcheck(
        lambda visual, text: loss(normalize(visual), normalize(text), batch).total, rows, fast_mode=True
    )


def test_the_temperature_is_learned() -> None:
    batch = batch_of("sentences")
    visual, text = vectors(batch)
    log_temperature = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda log: SoftmaxLoss(log, 0.1)(visual, text, batch).total, [log_temperature], eps=1e-6
    )


def without_negatives(batch: TripletBatch) -> TripletBatch:
    group = torch.zeros_like(batch.group)
    none = torch.zeros(len(batch.text), len(batch.visual), dtype=torch.bool)
    return replace(batch, group=group, visual_negatives=none)


@pytest.mark.parametrize("loss", [pair[0] for pair in LOSSES], ids=str)
def test_targets_without_a_negative_have_no_loss(loss: MatchingLoss) -> None:
    batch = without_negatives(batch_of("phrases"))
    visual, text = (rows.requires_grad_() for rows in vectors(batch))
    value = loss(visual, text, batch).total
    assert value.item() == pytest.approx(0, abs=1e-12)
    value.backward()  # type: ignore[no-untyped-call]
    assert visual.grad is not None
    assert torch.isfinite(visual.grad).all()


def test_neighbourhood_terms_start_at_their_epoch() -> None:
    loss = TripletLoss(1.0, 4.0, 0.1, 0.1)
    batch = batch_of("phrases")
    visual, text = vectors(batch)
    early, late = (loss(visual, text, replace(batch, neighbours=count)) for count in (False, True))
    assert set(early.terms) == {"visual_to_text", "text_to_visual"}
    assert set(late.terms) == {"visual_to_text", "text_to_visual", "visual_neighbours", "text_neighbours"}
    assert early.total.item() == TripletLoss(1.0, 4.0)(visual, text, batch).total.item()
    assert late.total.item() == pytest.approx(sum(term.item() for term in late.terms.values()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_logistic_loss_equals_a_plain_loop(dtype: torch.dtype) -> None:
    scores = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=dtype) * 5
    matches = torch.arange(20) % 2 == 0
    signs = [1 if match else -1 for match in matches]
    expected = [math.log(1 + math.exp(-z * p)) for z, p in zip(signs, scores.tolist(), strict=True)]
    assert logistic_loss(scores, matches).item() == pytest.approx(sum(expected) / 20, rel=1e-6)


def test_the_logistic_loss_has_a_gradient_and_is_finite_for_very_wrong_scores() -> None:
    scores = torch.linspace(-4, 4, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: logistic_loss(p, torch.arange(9) % 2 == 0), [scores])
    assert logistic_loss(torch.tensor([-1000.0]), torch.tensor([True])).item() == 1000


SMALL = TwoBranchSettings(
    hidden_size=16, embedding_dim=8, neighbour_start_epoch=0, visual_neighbour_weight=0.1, text_neighbour_weight=0.1
)


def features(rows: int, size: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, size)).astype(dtype)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("loss", ["triplet", "softmax"])
def test_the_objective_embeds_the_rows_that_a_batch_names(loss: str, as_tensor: bool) -> None:
    settings = replace(SMALL, loss=loss, standardize_images=True)  # type: ignore[arg-type]
    visual, text = features(len(PHRASES.boxes), 5, np.float16), features(len(PHRASES.phrases), 4)
    network, batch = TwoBranchNetwork(5, 4, settings).eval(), batch_of("phrases")
    standardize(network)
    inputs = (torch.from_numpy(visual), torch.from_numpy(text)) if as_tensor else (visual, text)
    value = MatchingObjective(settings, inputs[0], [inputs[1]])(network, batch).total
    vectors = network(torch.from_numpy(visual[batch.visual]).float(), torch.from_numpy(text[batch.text]))
    expected = matching_loss(settings, network.log_temperature)(*vectors, batch).total
    assert value.item() == pytest.approx(expected.item())
    value.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in network.parameters())


def test_the_objective_reads_words_where_there_is_an_encoder() -> None:
    settings = replace(SMALL, text_encoder="lstm", word_dim=4, text_hidden_size=6, visual_neighbour_weight=0.0)
    vocabulary = Vocabulary(("a", "dog"), (2, 1))
    sentences = ["a dog", "a", "dog"] * 8
    model = TwoBranch(5, settings=settings, vocabulary=vocabulary)
    objective = MatchingObjective(settings, features(8, 5), word_tensors(sentences, vocabulary))
    objective(model.network, batch_of("sentences")).total.backward()  # type: ignore[no-untyped-call]
    assert model.network.encoder is not None
    assert model.network.encoder.words.weight.grad is not None


def standardize(network: Branches) -> None:
    """Give a network means and scales of the five image features."""
    network.visual_mean.copy_(torch.arange(5.0))
    network.visual_scale.copy_(torch.arange(1.0, 6.0))


@pytest.mark.parametrize("standardized", [False, True])
@pytest.mark.parametrize("kind", ["phrases", "sentences"])
def test_the_logistic_objective_scores_the_pairs_that_a_batch_names(kind: str, standardized: bool) -> None:
    settings = SimilaritySettings(hidden_size=16, embedding_dim=8, standardize_images=standardized)
    sampler: LabelledRegionSampler | LabelledSentenceSampler = (
        LabelledRegionSampler(PHRASES, settings, 5)
        if kind == "phrases"
        else LabelledSentenceSampler(PHOTO_OF_SENTENCE, 5)
    )
    visual, text = features(len(PHRASES.boxes), 5), features(24, 4)
    network = SimilarityNetwork(5, 4, settings).eval()
    if standardized:
        standardize(network)
    batch = next(iter(sampler.epoch(0, np.random.default_rng(0))))
    value = LogisticObjective(visual, text)(network, batch).total
    rows = batch.visual[batch.pairs[:, 0]], batch.text[batch.pairs[:, 1]]
    scores = network(torch.from_numpy(visual[rows[0]]), torch.from_numpy(text[rows[1]]))
    assert value.item() == pytest.approx(logistic_loss(scores, batch.matches).item(), rel=1e-5)
