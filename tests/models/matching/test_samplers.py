"""Batches of Algorithm 1 of the two-branch paper."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain as joined
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from deixis import geometry
from deixis.data.pairs import RegionPhrasePairs
from deixis.data.records import Photo
from deixis.errors import DatasetError
from deixis.models.matching.samplers import (
    LabelledRegionSampler,
    LabelledSentenceSampler,
    RegionPhraseSampler,
    SentenceSampler,
    TripletBatch,
    distance,
    hardest_negatives,
)
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.training.objective import Sampler
from tests.models.presets import paper_presets
from tests.models.training.region_pairs import made, random_pairs, worlds


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 9), st.integers(1, 12))
def test_negatives_are_the_nearest_allowed_ones(seed: int, targets: int, pool: int, most: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = normalize(torch.randn(targets, 4, generator=generator, dtype=torch.float64))
    others = normalize(torch.randn(pool, 4, generator=generator, dtype=torch.float64))
    allowed = torch.rand(targets, pool, generator=generator) < 0.6
    mined = hardest_negatives(rows, others, allowed, most)
    for target in range(targets):
        candidates = [row for row in range(pool) if allowed[target, row]]
        nearest = sorted(candidates, key=lambda row: float((rows[target] - others[row]).norm()))
        expected = (others[nearest[:most]] @ rows[target]).tolist()
        assert mined[target][mined[target] > -torch.inf].tolist() == pytest.approx(expected)


def test_the_gradient_at_distance_zero_is_zero() -> None:
    a = torch.ones(2, 3, requires_grad=True)
    distance(a, torch.ones(2, 3)).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [[0.0] * 3] * 2


def batch(identical: bool = True) -> TripletBatch:
    pairs = torch.tensor([[0, 0], [1, 1], [1, 2]])
    text, group = torch.tensor([7, 8, 7]), torch.tensor([4, 5, 5])
    negatives = torch.zeros(3, 2, dtype=torch.bool)
    neighbours = torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 2, dtype=torch.int64)
    targets = pairs, pairs.flip(1)
    return TripletBatch(
        torch.arange(2), text, *targets, group, negatives, *neighbours, 3, identical_text_is_negative=identical
    )


def test_texts_of_other_groups_are_negatives_and_identical_ones_may_be_excluded() -> None:
    assert batch().text_negatives.tolist() == [[False, True, True], [True, False, False], [True, False, False]]
    negatives = batch(identical=False).text_negatives
    assert negatives.tolist() == [[False, True, False], [True, False, False], [False, False, False]]


TWO_BRANCH = paper_presets("two-branch", TwoBranchSettings)

World = tuple[list[Photo], dict[str, np.ndarray]]
photos_of_sentences = st.lists(st.integers(0, 5), min_size=2, max_size=30).map(np.array)
seeds = st.integers(0, 1000)


def iou(pairs: RegionPhrasePairs, chain: int, region: int) -> float:
    return float(np.float32(geometry.iou([pairs.boxes[pairs.gold[chain]]], [pairs.boxes[region]]).item()))


def batches_of(sampler: Sampler[Any], seed: int = 0) -> list[Any]:
    return list(sampler.epoch(0, np.random.default_rng(seed)))


def check_positions(batch: TripletBatch) -> None:
    """Every position exists, and rows of visual come once."""
    visual, text = len(batch.visual), len(batch.text)
    assert len(set(batch.visual.tolist())) == visual
    assert batch.visual_negatives_of(torch.arange(text)).shape == (text, visual)
    assert len(batch.group) == text
    for positions, sizes in (
        (batch.visual_targets, (visual, text)),
        (batch.text_targets, (text, visual)),
        (batch.visual_neighbours, (visual, visual, text)),
        (batch.text_neighbours, (text, text)),
    ):
        assert positions.shape[1] == len(sizes)
        assert (positions >= 0).all()
        assert (positions < torch.tensor(sizes)).all()


@given(
    worlds(),
    seeds,
    st.integers(2, 9),
    st.sampled_from(["augmented", "single"]),
    st.booleans(),
    st.sampled_from([None, 1, 3]),
    st.sampled_from(["photo", "batch"]),
)
def test_batches_of_phrases_follow_algorithm_1(
    world: World,
    seed: int,
    batch_size: int,
    positives: Literal["augmented", "single"],
    neighbours: bool,
    max_candidates: int | None,
    negatives_from: Literal["photo", "batch"],
) -> None:
    pairs = made(world)
    assume(len(pairs) > 1)
    settings = TwoBranchSettings(
        positives=positives,
        neighbour_sampling=neighbours,
        visual_neighbour_weight=0.0,
        text_neighbour_weight=0.0,
        max_candidates=max_candidates,
        negatives_from=negatives_from,
    )
    check_batches(pairs, settings, batch_size, seed)


@pytest.mark.parametrize(
    "settings",
    [
        TwoBranchSettings(),
        TwoBranchSettings(max_candidates=7),
        TwoBranchSettings(negatives_from="batch"),
        TwoBranchSettings(positives="single"),
        TWO_BRANCH["papers/two-branch-phrases-no-neighbours"],
    ],
)
def test_batches_with_many_positives_follow_algorithm_1(settings: TwoBranchSettings) -> None:
    check_batches(random_pairs(), settings, 50, 0)


def check_batches(pairs: RegionPhrasePairs, settings: TwoBranchSettings, batch_size: int, seed: int) -> None:
    for batch in batches_of(RegionPhraseSampler(pairs, settings, batch_size), seed):
        check_positions(batch)
        check_positives(pairs, batch, settings)
        check_negatives(pairs, batch, settings)
        check_second_positives(pairs, batch, settings)


def check_positives(pairs: RegionPhrasePairs, batch: TripletBatch, settings: TwoBranchSettings) -> None:
    """A positive region shows the phrase's chain, and the phrase is one of that chain."""
    both = joined(batch.visual_targets.tolist(), (pair[::-1] for pair in batch.text_targets.tolist()))
    for visual, text in both:
        region, chain = int(batch.visual[visual]), int(batch.group[text])
        assert int(batch.text[text]) in pairs.phrases_of_chain[chain]
        assert pairs.region_photo[region] == pairs.region_photo[pairs.gold[chain]]
        assert region == pairs.gold[chain] or iou(pairs, chain, region) >= np.float32(0.7)
        if settings.positives == "single":
            assert region == pairs.gold[chain]


def check_negatives(pairs: RegionPhrasePairs, batch: TripletBatch, settings: TwoBranchSettings) -> None:
    """No negative phrase of the same chain; negative regions of the same photo, with an IoU below 0.3, and all."""
    for one, other in batch.text_negatives.nonzero().tolist():
        assert batch.group[one] != batch.group[other]
    for text in range(len(batch.text)):
        chain = int(batch.group[text])
        found = batch.visual[batch.visual_negatives_of(torch.tensor([text]))[0]].tolist()
        photo = pairs.region_photo[pairs.gold[chain]]
        here = [region for region in found if pairs.region_photo[region] == photo]
        assert all(iou(pairs, chain, region) < np.float32(0.3) for region in here)
        assert all(region not in pairs.gold for region in here)
        if settings.negatives_from == "photo":
            assert here == found
        if text < batch.size:
            far = [r for r in pairs.negatives(2.0)[chain].tolist() if iou(pairs, chain, r) < np.float32(0.3)]
            assert len(here) == min(len(far), settings.max_candidates or len(far))


def check_second_positives(pairs: RegionPhrasePairs, batch: TripletBatch, settings: TwoBranchSettings) -> None:
    """Every target of the set has two different positives, if there are two and these are asked for."""
    regions = pairs.positives(0.7) if settings.positives == "augmented" else pairs.positives(2.0)
    for text in range(batch.size):
        chain = int(batch.group[text])
        phrases = {int(batch.text[t]) for v, t in batch.visual_targets.tolist() if v == batch.visual_targets[text, 0]}
        shown = {v for t, v in batch.text_targets.tolist() if t == text}
        if settings.neighbour_sampling:
            assert len(phrases) >= min(2, pairs.phrases_of_chain.counts[chain])
            assert len(shown) == min(2, regions.counts[chain])
        else:
            assert len(shown) == 1
    if not settings.neighbour_sampling:
        assert len(batch.visual_targets) == len(batch.text_targets) == len(batch.text) == batch.size
    shared: dict[int, set[int]] = {}
    for text, visual in batch.text_targets.tolist():
        shared.setdefault(text, set()).add(visual)
    expected = {(a, b, text) for text, some in shared.items() for a in some for b in some if a != b}
    assert {tuple(row) for row in batch.visual_neighbours.tolist()} == expected


def test_with_neighbours_there_are_twice_as_many_targets_in_each_direction() -> None:
    """§4.5 counts 5,378 triplets in a batch without neighbourhood sampling, and 10,756 with it: twice as many."""
    pairs = random_pairs()
    phrases, regions = pairs.phrases_of_chain.counts[pairs.chain], pairs.positives(0.7).counts[pairs.chain]
    many = pairs.select(np.flatnonzero((phrases > 1) & (regions > 1)))
    for batch in batches_of(RegionPhraseSampler(many, TwoBranchSettings(), 20)):
        assert len(batch.visual_targets) == len(batch.text_targets) == 2 * batch.size


def test_the_control_has_as_many_targets_with_random_pairs() -> None:
    """§4.4: "sampling the same number of additional triplets randomly"."""
    pairs, settings = random_pairs(), TWO_BRANCH["papers/two-branch-phrases-random-partners"]
    neighbours = TWO_BRANCH["papers/two-branch-phrases-sampling-only"]
    chains_of_batch, others = 0, 0
    for control, usual in zip(
        batches_of(RegionPhraseSampler(pairs, settings, 20)),
        batches_of(RegionPhraseSampler(pairs, neighbours, 20)),
        strict=True,
    ):
        check_positions(control)
        assert control.size == usual.size
        assert len(control.visual_targets) == len(usual.visual_targets)
        assert len(control.text_targets) == len(usual.text_targets)
        assert control.group[: control.size].tolist() == usual.group[: usual.size].tolist()
        known = set(zip(pairs.chain.tolist(), pairs.phrase.tolist(), strict=True))
        assert all(each in known for each in zip(control.group.tolist(), control.text.tolist(), strict=True))
        for visual, text in joined(control.visual_targets.tolist(), control.text_targets.flip(1).tolist()):
            assert iou(pairs, int(control.group[text]), int(control.visual[visual])) >= settings.positive_iou
        own = set(control.group[: control.size].tolist())
        chains_of_batch += len(control.group) - control.size
        others += sum(chain not in own for chain in control.group[control.size :].tolist())
    assert others > chains_of_batch / 4, "further pairs are mostly of other chains"


def test_the_control_for_sentences_draws_any_sentences() -> None:
    photo = np.repeat(np.arange(30), 3)
    settings = replace(TWO_BRANCH["papers/two-branch-sentences"], text_neighbour_weight=0.0, random_partners=True)
    for batch in batches_of(SentenceSampler(photo, settings, 10)):
        check_positions(batch)
        assert batch.group.tolist() == photo[batch.text].tolist()
        assert (len(batch.visual_targets), len(batch.text_targets)) == (2 * batch.size, batch.size)
        assert not set(batch.group[batch.size :].tolist()) <= set(batch.group[: batch.size].tolist())


@given(worlds(), seeds, st.integers(2, 9))
def test_every_pair_is_in_one_batch_of_an_epoch(world: World, seed: int, batch_size: int) -> None:
    pairs = made(world)
    assume(len(pairs) > 1)
    sampler = RegionPhraseSampler(pairs, TwoBranchSettings(), batch_size)
    batches = batches_of(sampler, seed)
    assert len(batches) == len(sampler)
    found = Counter(
        pair
        for batch in batches
        for pair in zip(batch.group[: batch.size].tolist(), batch.text[: batch.size].tolist(), strict=True)
    )
    every = Counter(zip(pairs.chain.tolist(), pairs.phrase.tolist(), strict=True))
    assert sum((every - found).values()) == (len(pairs) % batch_size == 1)
    assert not found - every
    assert all(batch.size == batch_size for batch in batches[:-1])


@pytest.mark.parametrize("name", ["regions", "sentences", "labelled regions", "labelled sentences"])
def test_batches_depend_on_the_generator_only(name: str) -> None:
    pairs, photo = random_pairs(), np.repeat(np.arange(9), 5)
    sampler: Sampler[Any] = {
        "regions": RegionPhraseSampler(pairs, TwoBranchSettings(max_candidates=5), 20),
        "sentences": SentenceSampler(photo, TwoBranchSettings(), 20),
        "labelled regions": LabelledRegionSampler(pairs, SimilaritySettings(), 20),
        "labelled sentences": LabelledSentenceSampler(photo, 20),
    }[name]
    first, again, other = (batches_of(sampler, seed) for seed in (3, 3, 4))

    def same(one: Any, two: Any) -> bool:
        tensors = [(vars(one)[key], vars(two)[key]) for key in vars(one) if isinstance(vars(one)[key], torch.Tensor)]
        return all(torch.equal(a, b) for a, b in tensors)

    assert all(map(same, first, again))
    assert not any(map(same, first, other))
    assert not same(first[0], first[1])


def test_batches_hold_their_epoch_and_whether_identical_texts_are_negatives() -> None:
    pairs = random_pairs()
    sampler = RegionPhraseSampler(pairs, TwoBranchSettings(identical_text_is_negative=False), 20)
    before, batch = (next(iter(sampler.epoch(epoch, np.random.default_rng(0)))) for epoch in (7, 8))
    assert (before.neighbours, batch.neighbours) == (False, True)
    same = (batch.text[:, None] == batch.text) & (batch.group[:, None] != batch.group)
    assert same.any()
    assert not (batch.text_negatives & same).any()
    assert batches_of(RegionPhraseSampler(pairs, TwoBranchSettings(), 90))[0].identical_text_is_negative


def test_positives_are_drawn_among_all_that_overlap_enough() -> None:
    pairs = random_pairs()
    positives = pairs.positives(0.7)
    sampler = RegionPhraseSampler(pairs, TwoBranchSettings(), len(pairs))
    drawn: dict[int, Counter[int]] = {}
    for seed in range(60):
        batch = batches_of(sampler, seed)[0]
        for text, visual in batch.text_targets[: batch.size].tolist():
            drawn.setdefault(int(batch.group[text]), Counter())[int(batch.visual[visual])] += 1
    for chain, counts in drawn.items():
        assert set(counts) == set(positives[chain].tolist())
        assert max(counts.values()) < 3 * min(counts.values())


@given(photos_of_sentences, seeds, st.integers(2, 40), st.booleans())
def test_batches_of_sentences_follow_section_5(photo: np.ndarray, seed: int, batch_size: int, neighbours: bool) -> None:
    settings = replace(TWO_BRANCH["papers/two-branch-sentences"], text_neighbour_weight=0.0)
    settings = replace(settings, neighbour_sampling=neighbours)
    sampler = SentenceSampler(photo, settings, batch_size)
    batches = batches_of(sampler, seed)
    assert len(batches) == len(sampler)
    found = sorted(sentence for batch in batches for sentence in batch.text[: batch.size].tolist())
    assert len(found) == len(set(found)) == len(photo) - (len(photo) % batch_size == 1)
    for batch in batches:
        check_positions(batch)
        assert batch.group.tolist() == photo[batch.text].tolist()
        for visual, text in joined(batch.visual_targets.tolist(), batch.text_targets.flip(1).tolist()):
            assert batch.visual[visual] == photo[batch.text[text]]
        for text in range(len(batch.text)):
            wrong = batch.visual_negatives_of(torch.tensor([text]))[0].tolist()
            assert wrong == [visual != batch.group[text] for visual in batch.visual.tolist()]
        assert len(batch.text_targets) == batch.size
        for visual, number in enumerate(batch.visual.tolist()):
            sentences = [int(batch.text[t]) for v, t in batch.visual_targets.tolist() if v == visual]
            assert len(set(sentences)) >= (min(2, int((photo == number).sum())) if neighbours else 1)
        assert len(batch.visual_neighbours) == 0


@given(worlds(), seeds, st.integers(2, 9), st.sampled_from(["augmented", "single"]))
def test_labelled_regions_follow_algorithm_1(
    world: World, seed: int, batch_size: int, positives: Literal["augmented", "single"]
) -> None:
    pairs = made(world)
    usable = int((pairs.negatives(0.3).counts[pairs.chain] > 0).sum())
    assume(usable > 1)
    sampler = LabelledRegionSampler(pairs, SimilaritySettings(positives=positives), batch_size)
    batches = batches_of(sampler, seed)
    assert len(batches) == len(sampler) == usable // batch_size + (usable % batch_size > 1)
    for batch in batches:
        assert batch.matches.sum() == (~batch.matches).sum()
        half = len(batch.pairs) // 2
        right, wrong = batch.pairs[:half].tolist(), batch.pairs[half:].tolist()
        for (visual, text), (other, same_text) in zip(right, wrong, strict=True):
            assert text == same_text
            region, negative = int(batch.visual[visual]), int(batch.visual[other])
            chains = [c for c in range(len(pairs.gold)) if region == pairs.gold[c] or iou(pairs, c, region) >= 0.7]
            named = [c for c in chains if int(batch.text[text]) in pairs.phrases_of_chain[c]]
            assert any(
                pairs.region_photo[region] == pairs.region_photo[negative] and iou(pairs, c, negative) < np.float32(0.3)
                for c in named
            )
            if positives == "single":
                assert region in pairs.gold


def test_all_regions_that_overlap_enough_are_labelled_positives() -> None:
    pairs = random_pairs()
    positives, negatives = pairs.positives(0.7), pairs.negatives(0.3)
    batch = batches_of(LabelledRegionSampler(pairs, SimilaritySettings(), len(pairs)))[0]
    chains = pairs.chain[negatives.counts[pairs.chain] > 0]
    expected = Counter(region for chain in chains for region in positives[chain].tolist())
    assert Counter(batch.visual[batch.pairs[batch.matches][:, 0]].tolist()) == expected


def test_every_region_that_overlaps_too_little_is_drawn_as_a_negative() -> None:
    pairs = random_pairs(photos=2, proposals=12)
    sampler = LabelledRegionSampler(pairs, SimilaritySettings(positives="single"), len(pairs))
    drawn: set[int] = set()
    for seed in range(40):
        batch = batches_of(sampler, seed)[0]
        drawn.update(batch.visual[batch.pairs[~batch.matches][:, 0]].tolist())
    assert drawn == set(pairs.negatives(0.3).values.tolist())


@given(photos_of_sentences.filter(lambda photo: len(set(photo.tolist())) > 1), seeds, st.integers(2, 40))
def test_labelled_sentences_are_wrong_only_for_other_photos(photo: np.ndarray, seed: int, batch_size: int) -> None:
    for batch in batches_of(LabelledSentenceSampler(photo, batch_size), seed):
        assert batch.matches.sum() == (~batch.matches).sum()
        shown = batch.visual[batch.pairs[:, 0]].numpy()
        described = photo[batch.text[batch.pairs[:, 1]].numpy()]
        assert ((shown == described) == batch.matches.numpy()).all()


def test_every_sentence_of_another_photo_is_drawn_about_as_often() -> None:
    photo = np.array([2, 0, 1, 0, 2, 1])
    sampler, drawn = LabelledSentenceSampler(photo, 6), Counter[tuple[int, int]]()
    for seed in range(300):
        batch = batches_of(sampler, seed)[0]
        wrong = batch.pairs[~batch.matches]
        drawn.update(zip(batch.visual[wrong[:, 0]].tolist(), batch.text[wrong[:, 1]].tolist(), strict=True))
    assert set(drawn) == {(shown, text) for shown in range(3) for text in range(6) if photo[text] != shown}
    assert max(drawn.values()) < 1.5 * min(drawn.values())


def test_too_little_training_data_is_refused() -> None:
    with pytest.raises(DatasetError):
        SentenceSampler(np.array([0]), TwoBranchSettings())
    with pytest.raises(DatasetError):
        LabelledSentenceSampler(np.array([0, 0, 0]))


def test_a_text_is_never_its_own_neighbour() -> None:
    """A sentence can be in a batch twice: on its own, and as the second sentence of another of its photo."""
    settings = TWO_BRANCH["papers/two-branch-sentences"]
    sampler = SentenceSampler(np.repeat(np.arange(4), 2), settings, batch_size=8)
    for epoch in range(5):
        for batch in sampler.epoch(epoch, np.random.default_rng(epoch)):
            assert len(batch.text) > len(set(batch.text.tolist())), "some sentence is there twice"
            first, second = batch.text_neighbours.T
            assert (batch.text[first] != batch.text[second]).all()
            assert (batch.group[first] == batch.group[second]).all()
            assert set(first.tolist()) == set(range(len(batch.text))), "every sentence has another of its photo"
