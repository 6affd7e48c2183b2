"""Learning to point: the loss against loops so plain that they are obviously right, gradients, and whole runs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis import geometry
from deixis.errors import DatasetError
from deixis.evaluation import localization
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.predictions import Prediction
from deixis.models.grounder import Grounder, GrounderSettings
from deixis.models.grounder_inputs import words_and_spans
from deixis.training.base import LossValue
from deixis.training.checkpoints import read_checkpoint
from deixis.training.grounder import (
    DOUBT,
    NEAR,
    CaptionSampler,
    GroundingObjective,
    cross_entropy,
    found_among_photos,
    generalized_iou,
    iou,
    pointing_scores,
    presence_loss,
    wishes,
)
from deixis.training.grounder_examples import GroundingExamples, region_inputs
from deixis.training.log import read_log
from tests.training import pointing
from tests.training.pointing import SETTINGS, SMALL, MadeUpStore, made_examples, made_model, made_photos, trainer

EVERYTHING = replace(SMALL, layers=1, cells=True, other_photos=0.5)


def random_boxes(count: int, seed: int) -> np.ndarray:
    corners = np.sort(np.random.default_rng(seed).uniform(size=(count, 2, 2)), axis=1)
    return corners.reshape(count, 4)


def test_overlaps_are_those_of_geometry() -> None:
    a, b = random_boxes(20, 0), random_boxes(30, 1)
    found = iou(torch.from_numpy(a)[:, None], torch.from_numpy(b))
    np.testing.assert_allclose(found.numpy(), geometry.iou(a, b), atol=1e-12)


def test_generalized_overlap_is_that_of_the_paper() -> None:
    for a, b in zip(random_boxes(20, 0), random_boxes(20, 1), strict=True):
        around = float(geometry.area(geometry.union([a, b])))
        overlap = float(geometry.iou([a], [b])[0, 0])
        union = (float(geometry.area(a)) + float(geometry.area(b))) / (1 + overlap)
        found = generalized_iou(torch.from_numpy(a), torch.from_numpy(b))
        assert float(found) == pytest.approx(overlap - (around - union) / around)


def test_boxes_without_any_room_have_finite_losses() -> None:
    nothing = torch.zeros(4)
    assert iou(nothing, nothing) == 0
    assert math.isfinite(generalized_iou(nothing, nothing))


def plain_wishes(overlaps: list[float], power: float) -> list[float]:
    shares = [overlap**power if overlap >= 0.5 else 0.0 for overlap in overlaps]
    if not any(shares):
        shares = [1.0 if place == overlaps.index(max(overlaps)) else 0.0 for place in range(len(overlaps))]
    return [share / sum(shares) for share in shares]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_regions_that_are_right_share_the_wish_and_otherwise_the_nearest_has_it(power: float) -> None:
    overlaps = torch.from_numpy(np.random.default_rng(0).uniform(0, 0.7, (30, 6)))
    expected = [plain_wishes(row, power) for row in overlaps.tolist()]
    np.testing.assert_allclose(wishes(overlaps, power).numpy(), expected, atol=1e-12)


def test_regions_that_are_not_there_have_no_part_in_the_loss() -> None:
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    wished = wishes(torch.tensor([[0.6, 0.5, 0.1, 0.0, 0.0]] * 3), 1.0)
    padded = scores.masked_fill(torch.arange(5) >= 3, -torch.inf)
    loss = cross_entropy(padded, wished)
    torch.testing.assert_close(loss, cross_entropy(scores[:, :3], wished[:, :3]))
    loss.backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


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
                wrong.append(-DOUBT * math.log(chance) - (1 - DOUBT) * math.log(1 - chance))
    return sum(sum(part) / max(1, len(part)) for part in (right, wrong)) / 2


def test_presence_is_told_as_a_plain_loop_tells_it() -> None:
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


def test_regions_are_found_among_photos_as_a_plain_loop_finds_them() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 3, 4, generator=generator, dtype=torch.float64)
    scores[:, 1, 2:] = -torch.inf  # a photo with two regions
    own, absent = torch.tensor([0, 1, 2, 1, 0]), torch.rand(5, 3, generator=generator) < 0.5
    wished = torch.rand(5, 4, generator=generator, dtype=torch.float64).masked_fill(
        scores[range(5), own] == -torch.inf, 0
    )
    wished /= wished.sum(dim=1, keepdim=True)
    expected = []
    for phrase in range(5):
        offered = [photo for photo in range(3) if photo == own[phrase] or absent[phrase, photo]]
        total = sum(math.exp(float(score)) for photo in offered for score in scores[phrase, photo])
        chosen = zip(wished[phrase].tolist(), scores[phrase, own[phrase]].tolist(), strict=True)
        expected.append(-sum(wish * math.log(math.exp(score) / total) for wish, score in chosen if wish))
    assert found_among_photos(scores, own, absent, wished).item() == pytest.approx(sum(expected) / 5)


def test_presence_can_be_learned_from_one_photo_alone() -> None:
    loss = presence_loss(torch.tensor([[2.0]]), torch.tensor([0]), torch.tensor([[True]]), torch.zeros(2))
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-2.0)) / 2)


def plain_choice_and_box(model: Grounder, photos: list, store: MadeUpStore, top: int) -> tuple[float, float]:
    """The two terms, phrase by phrase through `Grounder.point`."""
    choices, moves = [], []
    for photo in photos:
        regions = region_inputs(store, photo.id, top, cells=model.settings.cells)  # type: ignore[arg-type]
        for caption in photo.sentences:
            words, spans = words_and_spans(caption.tokens, [(m.start, m.end) for m in caption.mentions])
            found = model.point(regions, words, spans)
            for phrase, mention in enumerate(caption.mentions):
                gold = np.array(photo.boxes_of(mention.chain)[0].xyxy) / (100, 80, 100, 80)
                overlaps = geometry.iou([gold], regions.boxes)[0] if len(regions) else np.zeros(1)
                if overlaps.max() <= NEAR:
                    continue
                chances = np.exp(found.scores[phrase]) / np.exp(found.scores[phrase]).sum()
                wished = plain_wishes(overlaps.tolist(), model.settings.target_power)
                choices.append(-sum(w * math.log(c) for w, c in zip(wished, chances, strict=True) if w))
                near = [place for place, overlap in enumerate(overlaps) if overlap > NEAR]
                ours = torch.from_numpy(found.boxes[phrase][near])
                moves.append(float((1 - generalized_iou(ours, torch.from_numpy(gold))).mean()))
    return float(np.mean(choices)), float(np.mean(moves))


def awakened(model: Grounder) -> Grounder:
    """Let a refiner that begins by doing nothing do something."""
    assert model.network.refiner is not None
    torch.nn.init.normal_(model.network.refiner.change.weight, std=0.1)
    return model


@pytest.mark.parametrize(
    "settings",
    [SMALL, replace(SMALL, target_power=2.0), replace(SMALL, context=False), replace(SMALL, layers=1, cells=True)],
    ids=["plain", "power", "alone", "layers"],
)
def test_the_loss_is_that_of_a_plain_loop_over_phrases(settings: GrounderSettings) -> None:
    counts = {"3": 0, "4": 1, "5": 2}
    photos, model = made_photos(8), awakened(made_model(settings)).network.eval()
    examples = made_examples(settings, 8, counts=counts)
    whole = awakened(made_model(settings))
    whole.network.load_state_dict(model.state_dict())
    value = GroundingObjective(settings, examples)(model, torch.arange(len(examples.readings)))
    choice, box = plain_choice_and_box(whole, photos, _same_grid(MadeUpStore(photos, counts), photos), top=7)
    assert float(value.terms["choice"]) == pytest.approx(choice, rel=1e-3)  # vectors are in half precision
    assert float(value.terms["box"]) == pytest.approx(box, rel=1e-3)
    assert value.total.item() == pytest.approx(choice + box, rel=1e-3)


def _same_grid(store: MadeUpStore, photos: list) -> MadeUpStore:
    """Maps of training are brought to the grid of the first photo."""
    from deixis.vision.pooling import resample_cells

    first, given = store.map(photos[0].id).cells.shape[1:], store.map

    def resampled(photo_id: str):
        seen = given(photo_id)
        return replace(seen, cells=resample_cells(seen.cells, *first))

    store.map = resampled  # type: ignore[method-assign]
    return store


@pytest.mark.parametrize("settings", [replace(SMALL, other_photos=0.5), EVERYTHING], ids=["dot", "everything"])
def test_gradients_are_those_of_small_differences(settings: GrounderSettings) -> None:
    settings = replace(settings, dimension=4, word_size=3, hidden=2)
    examples = made_examples(settings, 4, counts={"1": 0, "2": 1})
    network = awakened(made_model(settings)).network.double().eval()
    objective, rows = GroundingObjective(settings, examples), torch.arange(len(examples.readings))
    objective(network, rows).total.backward()
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        place = int(weight.grad.abs().argmax())
        flat, step = weight.data.view(-1), 1e-6
        losses = []
        for sign in (1, -1):
            flat[place] += sign * step
            losses.append(objective(network, rows).total.item())
            flat[place] -= sign * step
        slope = (losses[0] - losses[1]) / (2 * step)
        assert float(weight.grad.view(-1)[place]) == pytest.approx(slope, rel=1e-4, abs=1e-7), name


def test_half_precision_changes_the_loss_but_little() -> None:
    network, examples = awakened(made_model(EVERYTHING)).network, made_examples(EVERYTHING)
    objective, rows = GroundingObjective(EVERYTHING, examples), torch.arange(len(examples.readings))
    exact = objective(network, rows).total.item()
    with torch.autocast("cpu", torch.bfloat16):
        rough = objective(network, rows).total
    rough.backward()
    assert rough.item() == pytest.approx(exact, rel=0.05)
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in network.parameters())


def test_a_batch_without_any_phrase_to_learn_from_changes_nothing() -> None:
    examples = made_examples(SMALL, 2, counts={"0": 0, "1": 0})
    network = made_model().network
    value = GroundingObjective(SMALL, examples)(network, torch.arange(len(examples.readings)))
    value.total.backward()
    assert value.total.item() == 0
    assert all(weight.grad is None or not weight.grad.any() for weight in network.parameters())


def test_another_network_is_refused() -> None:
    with pytest.raises(TypeError, match="a GrounderNetwork is needed"):
        GroundingObjective(SMALL, made_examples())(torch.nn.Linear(1, 1), torch.arange(2))


def test_an_epoch_holds_every_reading_once_and_captions_stay_together() -> None:
    examples = made_examples(replace(SMALL, context=False))
    sampler = CaptionSampler(examples, 5)
    batches = list(sampler.epoch(0, np.random.default_rng(0)))
    assert len(batches) == len(sampler)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(examples.readings)))
    for batch in batches:
        assert len(examples.caption[batch].unique()) <= 5
    captions = [set(examples.caption[batch].tolist()) for batch in batches]
    assert sum(map(len, captions)) == len(set.union(*captions))


def test_epochs_differ_and_repeat() -> None:
    sampler = CaptionSampler(made_examples(), 5)
    first, again, other = (
        torch.cat(list(sampler.epoch(0, np.random.default_rng(seed)))).tolist() for seed in (0, 0, 1)
    )
    assert first == again != other


def test_scores_are_those_of_the_evaluation_of_phrase_localisation() -> None:
    photos, counts = made_photos(8), {"3": 0, "4": 1, "5": 2}
    store, model = MadeUpStore(photos, counts), awakened(made_model())
    scores = pointing_scores(model.network.eval(), made_examples(SMALL, 8, counts=counts))
    items = localization_items(photos)
    plain, refined = [], []
    for item in items:
        photo = next(photo for photo in photos if photo.id == item.photo)
        regions = region_inputs(store, photo.id, 7)  # type: ignore[arg-type]
        words, spans = words_and_spans(photo.captions[item.caption].tokens, [item.span])
        found, size = model.point(regions, words, spans), np.array([100, 80, 100, 80])
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


def test_scores_do_not_depend_on_how_many_readings_are_looked_at_once() -> None:
    model, examples = awakened(made_model(EVERYTHING)), made_examples(EVERYTHING)
    several, one = (pointing_scores(model.network.eval(), examples, count) for count in (256, 1))
    assert several.pop("presence") > 0  # told among the photos that are looked at together
    assert several == one


def test_nothing_to_point_at_is_one_clear_line() -> None:
    examples = made_examples()
    none = replace(examples, readings=replace(examples.readings, asked=torch.zeros_like(examples.readings.asked)))
    with pytest.raises(DatasetError, match="no phrase has a box"):
        pointing_scores(made_model().network, none)


@pytest.mark.parametrize(
    "settings",
    [SMALL, replace(SMALL, context=False, refine=False), replace(EVERYTHING, place=False, whole=False)],
    ids=["plain", "alone", "everything"],
)
def test_the_colours_of_a_made_up_world_are_learned(tmp_path: Path, settings: GrounderSettings) -> None:
    training = replace(SETTINGS, epochs=12, learning_rate=0.02)
    outcome = trainer(tmp_path / "run", settings, training).train()
    assert outcome.best.scores["r1"] > 95
    fresh = made_examples(settings, 12, seed=1)
    model = Grounder.load(outcome.model)
    assert pointing_scores(model.network, fresh)["r1"] > 60  # any region: 14


def learn(model: Grounder, examples: GroundingExamples, steps: int) -> list[LossValue]:
    """Without the loop: all readings at each step."""
    objective = GroundingObjective(model.settings, examples)
    optimiser = torch.optim.Adam(model.network.parameters(), 0.01)
    values = []
    for _ in range(steps):
        values.append(objective(model.network, torch.arange(len(examples.readings))))
        optimiser.zero_grad()
        values[-1].total.backward()
        optimiser.step()
    return values


def test_a_refiner_learns_to_move_boxes() -> None:
    values = learn(made_model(), made_examples(), steps=60)
    assert float(values[-1].terms["box"]) < 0.6 * float(values[0].terms["box"])


def test_presence_tells_photos_that_show_a_colour_from_those_that_do_not() -> None:
    settings = replace(SMALL, other_photos=1.0)
    model, examples, photos = made_model(settings), made_examples(settings), made_photos()
    before = pointing_scores(model.network.eval(), examples)["presence"]
    learn(model, examples, steps=100)
    assert before < 70
    assert pointing_scores(model.network.eval(), examples)["presence"] > 95
    store, shown, absent = MadeUpStore(photos), [], []
    for photo in photos:
        regions = region_inputs(store, photo.id, 7)  # type: ignore[arg-type]
        said = {colour for colour in pointing.COLOURS for caption in photo.sentences if colour in caption.text}
        for colour in pointing.COLOURS:
            found = model.point(regions, ["look", "a", "shiny", colour, "by", "one", "red"], [(1, 4)])
            assert found.presence is not None
            (shown if colour in said else absent).append(float(found.presence[0]))
    assert np.mean(shown) > 0.7
    assert np.mean(absent) < 0.3


def run(out: Path, *words: str, processes: int = 1, **environment: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    start = (
        [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    )
    return subprocess.run(
        [sys.executable, *start, pointing.__file__, str(out), *words],
        env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_bit_for_bit(tmp_path: Path) -> None:
    words = ("dropout=0.3", "word_dropout=0.2", "layers=1", "other_photos=0.5", "save_every=2", "average=0.9")
    assert run(tmp_path / "unbroken", *words).returncode == 0
    assert run(tmp_path / "run", *words, STOP="5").returncode != 0
    assert read_checkpoint(tmp_path / "run" / "last.safetensors")[1].step == 4
    done = run(tmp_path / "run", "--resume", *words)
    assert done.returncode == 0, done.stderr
    ours, theirs = (read_checkpoint(tmp_path / name / "last.safetensors")[0] for name in ("run", "unbroken"))
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


@pytest.mark.slow
@pytest.mark.parametrize("words", [("other_photos=0.5",), ("layers=1", "cells=true")], ids=["dot", "layers"])
def test_two_processes_give_the_loss_curve_of_one(tmp_path: Path, words: tuple[str, ...]) -> None:
    # A last batch of one caption leaves one process without any reading.
    words = (*words, "epochs=2", "batch_size=23", "learning_rate=0.001")
    for name, count in (("one", 1), ("two", 2)):
        done = run(tmp_path / name, *words, processes=count)
        assert done.returncode == 0, done.stderr
    one, two = (
        [line["loss"] for line in read_log(tmp_path / name / "log.jsonl") if "loss" in line] for name in ("one", "two")
    )
    assert len(one) == 4
    assert two == pytest.approx(one, rel=1e-5)
