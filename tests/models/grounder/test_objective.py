"""The loss compared with plain loops, its gradients, and training on synthetic photos."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis import geometry
from deixis.data.records import Box, Photo
from deixis.evaluation import localization
from deixis.evaluation.items import localization_items
from deixis.evaluation.predictions import Prediction
from deixis.language.vocabulary import WordTable
from deixis.models.base import read_regions
from deixis.models.grounder.data import build_vocabulary, collect_examples
from deixis.models.grounder.model import Grounder, to_word_spans
from deixis.models.grounder.network import BoxRefiner
from deixis.models.grounder.objective import (
    FALSE_ABSENCE,
    MIN_TRAINING_IOU,
    GroundingObjective,
    GroundingSampler,
    cross_entropy_across_photos,
    generalized_iou,
    iou,
    member_loss,
    presence_loss,
    score_examples,
    target_probabilities,
)
from deixis.models.grounder.spec import GrounderSettings
from tests.models.grounder import made_up
from tests.models.grounder.made_up import SMALL, MadeUpStore, made_examples, made_model, made_photos

EVERYTHING = replace(SMALL, num_layers=1, use_feature_map=True, presence_weight=0.5, sets_weight=0.5)


def random_boxes(count: int, seed: int) -> np.ndarray:
    corners = np.sort(np.random.default_rng(seed).uniform(size=(count, 2, 2)), axis=1)
    return corners.reshape(count, 4)


def test_generalized_iou_follows_its_definition() -> None:
    for a, b in zip(random_boxes(20, 0), random_boxes(20, 1), strict=True):
        around = float(geometry.area(geometry.union([a, b])))
        overlap = float(geometry.iou([a], [b])[0, 0])
        union = (float(geometry.area(a)) + float(geometry.area(b))) / (1 + overlap)
        found = generalized_iou(torch.from_numpy(a), torch.from_numpy(b))
        assert float(found) == pytest.approx(overlap - (around - union) / around)


def test_empty_boxes_have_finite_losses() -> None:
    nothing = torch.zeros(4)
    assert iou(nothing, nothing) == 0
    assert math.isfinite(generalized_iou(nothing, nothing))


def plain_targets(overlaps: list[float], power: float) -> list[float]:
    shares = [overlap**power if overlap >= 0.5 else 0.0 for overlap in overlaps]
    if not any(shares):
        shares = [1.0 if index == overlaps.index(max(overlaps)) else 0.0 for index in range(len(overlaps))]
    return [share / sum(shares) for share in shares]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_right_regions_share_the_target_and_otherwise_the_nearest_has_it(power: float) -> None:
    overlaps = torch.from_numpy(np.random.default_rng(0).uniform(0, 0.7, (30, 6)))
    expected = [plain_targets(row, power) for row in overlaps.tolist()]
    np.testing.assert_allclose(target_probabilities(overlaps, power).numpy(), expected, atol=1e-12)


def plain_presence(scores: Tensor, own: Tensor, absent: Tensor, presence: Tensor) -> float:
    right, wrong = [], []
    for phrase, row in enumerate((presence[0].exp() * scores + presence[1]).tolist()):
        for photo, logit in enumerate(row):
            if logit == -math.inf:
                continue
            chance = 1 / (1 + math.exp(-logit))
            if photo == own[phrase]:
                right.append(-math.log(chance))
            elif absent[phrase, photo]:
                wrong.append(-FALSE_ABSENCE * math.log(chance) - (1 - FALSE_ABSENCE) * math.log(1 - chance))
    return sum(sum(part) / max(1, len(part)) for part in (right, wrong)) / 2


def test_the_presence_loss_equals_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    scores[:, 2] = -torch.inf  # a photo without regions
    own = torch.tensor([0, 0, 1, 3, 3, 2, 1])
    absent = torch.rand(7, 4, generator=generator) < 0.6
    presence = torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)
    loss = presence_loss(scores, own, absent, presence)
    assert loss.item() == pytest.approx(plain_presence(scores, own, absent, presence.detach()))
    loss.backward()
    assert presence.grad is not None
    assert presence.grad.isfinite().all()


def test_the_cross_entropy_across_photos_equals_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64)
    scores[:, 1, 2:] = -torch.inf  # a photo with two regions
    own, absent = torch.tensor([0, 1, 2, 1, 0]), torch.rand(5, 3, generator=generator) < 0.5
    targets = torch.rand(5, 4, generator=generator, dtype=torch.float64).masked_fill(
        scores[range(5), own] == -torch.inf, 0
    )
    targets /= targets.sum(dim=1, keepdim=True)
    expected = []
    for phrase in range(5):
        offered = [photo for photo in range(3) if photo == own[phrase] or absent[phrase, photo]]
        total = sum(math.exp(float(score)) for photo in offered for score in scores[phrase, photo])
        chosen = zip(targets[phrase].tolist(), scores[phrase, own[phrase]].tolist(), strict=True)
        expected.append(-sum(target * math.log(math.exp(score) / total) for target, score in chosen if target))
    assert cross_entropy_across_photos(scores, own, absent, targets).item() == pytest.approx(sum(expected) / 5)


def test_the_presence_loss_is_defined_for_one_photo() -> None:
    loss = presence_loss(torch.tensor([[2.0]]), torch.tensor([0]), torch.tensor([[True]]), torch.zeros(2))
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-2.0)) / 2)


def plain_choice_and_box(model: Grounder, photos: list, store: MadeUpStore, max_proposals: int) -> tuple[float, float]:
    """The two terms, phrase by phrase through `Grounder.ground`."""
    choices, moves = [], []
    for photo in photos:
        regions = read_regions(store, photo.id, max_proposals, cells=model.settings.use_feature_map)  # type: ignore[arg-type]
        for caption in photo.sentences:
            words, spans = to_word_spans(caption.tokens, [(m.start, m.end) for m in caption.mentions])
            found = model.ground(regions, words, spans)
            for phrase, mention in enumerate(caption.mentions):
                gold = np.array(photo.boxes_of(mention.chain)[0].xyxy) / (100, 80, 100, 80)
                overlaps = geometry.iou([gold], regions.boxes)[0] if len(regions) else np.zeros(1)
                if overlaps.max() <= MIN_TRAINING_IOU:
                    continue
                chances = np.exp(found.scores[phrase]) / np.exp(found.scores[phrase]).sum()
                targets = plain_targets(overlaps.tolist(), model.settings.target_iou_power)
                choices.append(-sum(w * math.log(c) for w, c in zip(targets, chances, strict=True) if w))
                near = [index for index, overlap in enumerate(overlaps) if overlap > MIN_TRAINING_IOU]
                ours = torch.from_numpy(found.boxes[phrase][near])
                moves.append(float((1 - generalized_iou(ours, torch.from_numpy(gold))).mean()))
    return float(np.mean(choices)), float(np.mean(moves))


def with_random_refiner(model: Grounder) -> Grounder:
    """Give the refiners random weights; initially they do nothing."""
    for refiner in (module for module in model.network.modules() if isinstance(module, BoxRefiner)):
        torch.nn.init.normal_(refiner.offsets.weight, std=0.1)
    return model


@pytest.mark.parametrize(
    "settings",
    [
        SMALL,
        replace(SMALL, target_iou_power=2.0),
        replace(SMALL, sentence_context=False),
        replace(SMALL, num_layers=1, use_feature_map=True),
    ],
    ids=["plain", "power", "alone", "layers"],
)
def test_the_loss_equals_a_plain_loop_over_phrases(settings: GrounderSettings) -> None:
    counts = {"3": 0, "4": 1, "5": 2}
    photos, model = made_photos(8), with_random_refiner(made_model(settings)).network.eval()
    examples = made_examples(settings, 8, counts=counts)
    whole = with_random_refiner(made_model(settings))
    whole.network.load_state_dict(model.state_dict())
    value = GroundingObjective(settings, examples)(model, torch.arange(len(examples.text)))
    choice, box = plain_choice_and_box(whole, photos, _same_grid(MadeUpStore(photos, counts), photos), max_proposals=7)
    assert float(value.terms["choice"]) == pytest.approx(choice, rel=1e-3)  # vectors are in half precision
    assert float(value.terms["box"]) == pytest.approx(box, rel=1e-3)
    assert value.total.item() == pytest.approx(choice + box, rel=1e-3)


def test_the_member_loss_equals_a_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 8, generator=generator, dtype=torch.float64)
    overlaps = torch.rand(6, 8, generator=generator, dtype=torch.float64)
    overlaps[1] *= 0.3  # no positive
    mask = torch.arange(8) < torch.tensor([8, 8, 3, 0, 5, 8])[:, None]
    expected = []
    for phrase in range(6):
        total, positives = 0.0, 0
        for logit, overlap in zip(logits[phrase][mask[phrase]].tolist(), overlaps[phrase].tolist(), strict=False):
            chance = 1 / (1 + math.exp(-logit))
            if overlap >= 0.5:
                positives += 1
                total -= math.log(chance)
            elif overlap < 0.4:
                total -= math.log(1 - chance)
        expected.append(total / max(1, positives))
    assert member_loss(logits, overlaps, mask).item() == pytest.approx(sum(expected) / 6)


@pytest.mark.parametrize("settings", [replace(SMALL, sets_weight=0.5), EVERYTHING], ids=["dot", "everything"])
def test_the_member_box_loss_compares_each_region_with_its_nearest_box(settings: GrounderSettings) -> None:
    photos, model = made_pairs(6), with_random_refiner(made_model(settings))
    store = _same_grid(MadeUpStore(photos), photos)
    table = WordTable(build_vocabulary(made_photos(), 1))
    examples = collect_examples(photos, store, table, settings, max_proposals=7)  # type: ignore[arg-type]
    value = GroundingObjective(settings, examples)(model.network.eval(), torch.arange(len(examples.text)))
    expected = []
    for photo in photos:
        regions = read_regions(store, photo.id, 7, cells=True)  # type: ignore[arg-type]
        for caption in photo.sentences:
            words, spans = to_word_spans(caption.tokens, [(m.start, m.end) for m in caption.mentions])
            found = model.ground(regions, words, spans)
            assert found.member_boxes is not None
            for phrase, mention in enumerate(caption.mentions):
                gold = np.array([box.xyxy for box in photo.boxes_of(mention.chain)]) / (100, 80, 100, 80)  # type: ignore[arg-type]
                losses = []
                for region, refined in zip(regions.boxes, found.member_boxes[phrase], strict=True):
                    near = geometry.iou([region], gold)[0]
                    if near.max() > MIN_TRAINING_IOU:
                        pair = torch.from_numpy(refined), torch.from_numpy(gold[near.argmax()])
                        losses.append(1 - float(generalized_iou(*pair)))
                expected.append(np.mean(losses))
    assert float(value.terms["member_box"]) == pytest.approx(0.5 * np.mean(expected), rel=1e-3)


def made_pairs(count: int) -> list[Photo]:
    """Photos in which the first colour has a second box, apart from the first."""
    return [
        replace(photo, boxes=(*photo.boxes, Box((70.0, 2.0, 95.0, 15.0), photo.boxes[0].chains)))
        for photo in made_photos(count)
    ]


def _same_grid(store: MadeUpStore, photos: list) -> MadeUpStore:
    """In training, feature maps are resampled to the grid of the first photo."""
    from deixis.vision.encoder import resample_cells

    first, read_map = store.map(photos[0].id).cells.shape[1:], store.map

    def resampled(photo_id: str):
        found = read_map(photo_id)
        return replace(found, cells=resample_cells(found.cells, *first))

    store.map = resampled  # type: ignore[method-assign]
    return store


@pytest.mark.parametrize("settings", [replace(SMALL, presence_weight=0.5), EVERYTHING], ids=["dot", "everything"])
def test_gradients_equal_finite_differences(settings: GrounderSettings) -> None:
    settings = replace(settings, embedding_dim=4, word_dim=3, hidden_size=2)
    examples = made_examples(settings, 4, counts={"1": 0, "2": 1})
    network = with_random_refiner(made_model(settings)).network.double().eval()
    objective, rows = GroundingObjective(settings, examples), torch.arange(len(examples.text))
    objective(network, rows).total.backward()
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        index = int(weight.grad.abs().argmax())
        flat, step = weight.data.view(-1), 1e-6
        losses = []
        for sign in (1, -1):
            flat[index] += sign * step
            losses.append(objective(network, rows).total.item())
            flat[index] -= sign * step
        slope = (losses[0] - losses[1]) / (2 * step)
        assert float(weight.grad.view(-1)[index]) == pytest.approx(slope, rel=1e-4, abs=1e-7), name


def test_bfloat16_changes_the_loss_only_slightly() -> None:
    network, examples = with_random_refiner(made_model(EVERYTHING)).network, made_examples(EVERYTHING)
    objective, rows = GroundingObjective(EVERYTHING, examples), torch.arange(len(examples.text))
    exact = objective(network, rows).total.item()
    with torch.autocast("cpu", torch.bfloat16):
        rough = objective(network, rows).total
    rough.backward()
    assert rough.item() == pytest.approx(exact, rel=0.05)
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in network.parameters())


def test_a_batch_without_a_trainable_phrase_has_no_gradient() -> None:
    examples = made_examples(SMALL, 2, counts={"0": 0, "1": 0})
    network = made_model().network
    value = GroundingObjective(SMALL, examples)(network, torch.arange(len(examples.text)))
    value.total.backward()
    assert value.total.item() == 0
    assert all(weight.grad is None or not weight.grad.any() for weight in network.parameters())


def test_an_epoch_holds_each_input_once_and_keeps_captions_together() -> None:
    examples = made_examples(replace(SMALL, sentence_context=False))
    sampler = GroundingSampler(examples, 5)
    batches = list(sampler.epoch(0, np.random.default_rng(0)))
    assert len(batches) == len(sampler)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(examples.text)))
    for batch in batches:
        assert len(examples.caption[batch].unique()) <= 5
    captions = [set(examples.caption[batch].tolist()) for batch in batches]
    assert sum(map(len, captions)) == len(set.union(*captions))


def test_scores_equal_those_of_the_localization_evaluation() -> None:
    photos, counts = made_photos(8), {"3": 0, "4": 1, "5": 2}
    store, model = MadeUpStore(photos, counts), with_random_refiner(made_model())
    scores = score_examples(model.network.eval(), made_examples(SMALL, 8, counts=counts))
    items = localization_items(photos)
    plain, refined = [], []
    for item in items:
        photo = next(photo for photo in photos if photo.id == item.photo)
        regions = read_regions(store, photo.id, 7)  # type: ignore[arg-type]
        words, spans = to_word_spans(photo.captions[item.caption].tokens, [item.span])
        found, size = model.ground(regions, words, spans), np.array([100, 80, 100, 80])
        plain.append(Prediction(item.photo, item.caption, item.span, regions.boxes * size, found.scores[0]))
        refined.append(Prediction(item.photo, item.caption, item.span, found.boxes[0] * size, found.scores[0]))
    expected, better = (localization(some, items, rounds=2) for some in (plain, refined))
    for rank in ("r1", "r5", "r10"):
        assert scores[rank] == pytest.approx(getattr(expected, rank))
        assert scores[f"refined_{rank}"] == pytest.approx(getattr(better, rank))
    assert scores["upper_bound"] == pytest.approx(expected.upper_bound)
    for kind in ("people", "other"):
        assert scores[f"{kind}_r1"] == pytest.approx(better.by_type[kind].r1)
    assert set(scores) == {
        "r1", "r5", "r10", "refined_r1", "refined_r5", "refined_r10", "upper_bound", "people_r1", "other_r1"
    }  # fmt: skip


def test_scores_do_not_depend_on_the_batch_size() -> None:
    model, examples = with_random_refiner(made_model(EVERYTHING)), made_examples(EVERYTHING)
    several, one = (score_examples(model.network.eval(), examples, count) for count in (256, 1))
    assert several.pop("presence") > 0  # depends on the photos of the batch
    assert several == pytest.approx(one)


def test_training_refines_boxes_and_presence_separates_photos_with_and_without_a_colour() -> None:
    settings = replace(SMALL, presence_weight=1.0)
    model, examples, photos = made_model(settings), made_examples(settings), made_photos()
    before = score_examples(model.network.eval(), examples)["presence"]
    objective, optimizer = GroundingObjective(settings, examples), torch.optim.Adam(model.network.parameters(), 0.01)
    terms = []
    for _ in range(100):
        value = objective(model.network, torch.arange(len(examples.text)))
        optimizer.zero_grad()
        value.total.backward()
        optimizer.step()
        terms.append(value.terms)
    assert float(terms[-1]["box"]) < 0.6 * float(terms[0]["box"])
    assert before < 70
    assert score_examples(model.network.eval(), examples)["presence"] > 95
    store, shown, absent = MadeUpStore(photos), [], []
    for photo in photos:
        regions = read_regions(store, photo.id, 7)  # type: ignore[arg-type]
        named = {colour for colour in made_up.COLOURS for caption in photo.sentences if colour in caption.text}
        for colour in made_up.COLOURS:
            found = model.ground(regions, ["look", "a", "shiny", colour, "by", "one", "red"], [(1, 4)])
            assert found.presence is not None
            (shown if colour in named else absent).append(float(found.presence[0]))
    assert np.mean(shown) > 0.7
    assert np.mean(absent) < 0.3
