"""Training speed of the two-branch networks and where the time goes: ``python benchmarks/matching.py training mining``.

Random features of the papers' sizes are generated on the device, which should be a GPU. *Share of the ceiling* is the
rate of the branches' matrix multiplications, relative to that of one large multiplication in the same precision.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from deixis.data.pairs import RegionPhrasePairs
from deixis.data.records import Box, Caption, Mention, Photo
from deixis.models.matching.losses import MatchingObjective
from deixis.models.matching.model import TwoBranch
from deixis.models.matching.samplers import RegionPhraseSampler, SentenceSampler, TripletBatch, hardest_negatives
from deixis.models.matching.spec import TwoBranchSettings
from deixis.models.registry import get_spec
from deixis.models.training.run_record import DataDescription, RunDescription
from deixis.models.training.settings import TrainSettings
from deixis.models.training.trainer import Stepper, Trainer

VISUAL, TEXT = 4096, 6000
WARM_UP = 3


def random_features(rows: int, size: int, device: str) -> Tensor:
    made = torch.empty(rows, size, dtype=torch.bfloat16, device=device)
    for block in made.split(65_536):
        block.normal_()
    return made


def ceiling(precision: str, device: str) -> float:
    """Operations per second of one large matrix multiplication in this precision."""
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    size = 8192 if device == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    seconds = min(timed(lambda: a @ b, device) for _ in range(10))
    return 2 * size**3 / seconds


def timed(work: Callable[[], object], device: str) -> float:
    wait(device)
    begin = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - begin


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def operations(batch: TripletBatch, settings: TwoBranchSettings) -> float:
    """Operations of both branches, forward and backward; the first layers need no gradient of their input."""

    def of_branch(rows: int, size: int) -> float:
        return 2.0 * rows * (2 * size * settings.hidden_size + 3 * settings.hidden_size * settings.embedding_dim)

    return of_branch(len(batch.visual), VISUAL) + of_branch(len(batch.text), TEXT)


def synthetic_photos(count: int, rng: np.random.Generator) -> Iterator[Photo]:
    """Yield photos like those of Flickr30k Entities: 8 entities in 5 captions, 14 phrases with boxes."""
    for number in range(count):
        corners = rng.uniform(0, 250, size=(8, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(40, 250, size=(8, 2))], axis=1).clip(0, 499)
        captions = []
        for _ in range(5):
            named = rng.choice(8, 3, replace=False)
            words = [f"thing{rng.integers(15_000)}" for _ in named]
            starts = np.cumsum([0, *(len(word) + 1 for word in words)])
            mentions = [
                Mention(int(start), int(start) + len(word), str(chain))
                for start, word, chain in zip(starts[:-1], words, named, strict=True)
            ]
            captions.append(Caption.from_text(" ".join(words), tuple(mentions)))
        there = tuple(Box(tuple(map(float, box)), (str(chain),)) for chain, box in enumerate(boxes))
        yield Photo(str(number), tuple(captions), boxes=there)


def synthetic_pairs(photos: int, proposals: int = 200) -> RegionPhrasePairs:
    rng = np.random.default_rng(0)
    golds: dict[str, np.ndarray] = {}

    def remembered() -> Iterator[Photo]:
        for photo in synthetic_photos(photos, rng):
            golds[photo.id] = np.array([box.xyxy for box in photo.boxes])
            yield photo

    def proposed(photo: str) -> np.ndarray:
        near = np.repeat(golds[photo], 5, axis=0) + rng.normal(0, 8, size=(40, 4))
        corners = rng.uniform(0, 350, size=(proposals - len(near), 2))
        far = np.concatenate([corners, corners + rng.uniform(20, 149, size=corners.shape)], axis=1)
        return np.concatenate([near, far]).clip(0, 499)

    return RegionPhrasePairs.from_photos(remembered(), proposed)


def print_sentences(device: str, pairs: int, epochs: int = 10) -> None:
    """Train the embedding network for sentences with the loop of `deixis train`, including checkpoints."""
    settings = get_spec("two-branch").preset("papers/two-branch-sentences")[TwoBranchSettings]
    photo = np.repeat(np.arange(pairs // 5), 5)
    visual, text = random_features(pairs // 5, VISUAL, device), random_features(pairs, TEXT, device)
    for precision in ("bfloat16", "float32"):
        model = TwoBranch(VISUAL, TEXT, settings)
        model.network.to(device)
        how = TrainSettings(epochs=epochs, batch_size=500, learning_rate=1e-4, device=device, precision=precision)
        about = RunDescription("two-branch", {}, DataDescription("random", "", {}, ""))
        with tempfile.TemporaryDirectory() as folder:
            sampler = SentenceSampler(photo, settings, 500)
            objective = MatchingObjective(settings, visual, [text])
            trainer = Trainer(
                model.network, sampler, objective, how, Path(folder) / "run", about=about, keep=model.save
            )
            seconds = timed(trainer.train, device)
        print(f"training: sentences, {pairs:,} pairs, {epochs} epochs, {precision}: {seconds:.1f} s")


def learn(stepper: Stepper[TripletBatch], batches: list[TripletBatch]) -> None:
    for number, batch in enumerate(batches, WARM_UP):
        stepper.step(number, [batch])


def print_phrases(device: str, photos: int, steps: int = 200) -> None:
    """Time some training steps of the embedding network for phrases, and their parts."""
    name = "papers/two-branch-phrases"
    preset, pairs = get_spec("two-branch").preset(name), synthetic_pairs(photos)
    settings, batch_size = preset[TwoBranchSettings], preset[TrainSettings].batch_size
    visual = random_features(len(pairs.boxes), VISUAL, device)
    text = random_features(len(pairs.phrases), TEXT, device)
    sampler = RegionPhraseSampler(pairs, settings, batch_size)
    for precision in ("bfloat16", "float32"):
        model = TwoBranch(VISUAL, TEXT, settings)
        model.network.to(device)
        how = TrainSettings(learning_rate=1e-3, precision=precision, device=device)
        objective = MatchingObjective(settings, visual, [text])
        stepper = Stepper(model.network, objective, how, torch.device(device), len(sampler))
        batches = sampler.epoch(settings.neighbour_start_epoch, np.random.default_rng(0))
        for number in range(WARM_UP):
            stepper.step(number, [next(batches)])
        begin = time.perf_counter()
        drawn = list(islice(batches, steps))
        sampling = time.perf_counter() - begin
        work = sum(operations(batch, settings) for batch in drawn)
        seconds = timed(partial(learn, stepper, drawn), device)
        reached, most = work / (sampling + seconds), ceiling(precision, device)
        epoch = 427_356 / batch_size / steps * (sampling + seconds)
        print(
            f"training: phrases, {precision}: {1000 * (sampling + seconds) / steps:.1f} ms per step, of which "
            f"{1000 * sampling / steps:.1f} draw the batch; {reached / 1e12:.0f} TFLOP/s in the branches, "
            f"{100 * reached / most:.0f} % of the {most / 1e12:.0f} of one large multiplication; "
            f"at this pace the 427,356 pairs of Flickr30k Entities take {epoch:.0f} s per epoch, "
            f"and the paper's ten epochs {epoch / 6:.0f} min"
        )


def print_mining(device: str, rounds: int = 20) -> None:
    """Time the mining of the K hardest negatives of a batch, and the miners of pytorch-metric-learning."""
    torch.manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(1000, 512, device=device), dim=1)
    groups = torch.arange(500, device=device).repeat(2)
    allowed = groups[:, None] != groups
    ours = min(timed(lambda: hardest_negatives(vectors, vectors, allowed, 10), device) for _ in range(rounds))
    print(f"mining: 1,000 vectors, the 10 hardest negatives of each: deixis {1000 * ours:.2f} ms")
    try:
        from pytorch_metric_learning.miners import BatchHardMiner, TripletMarginMiner
    except ImportError:
        print("mining: pytorch-metric-learning is not installed")
        return
    for miner in (BatchHardMiner(), TripletMarginMiner(margin=0.05, type_of_triplets="hard")):
        theirs = min(timed(partial(miner, vectors, groups), device) for _ in range(rounds))
        print(f"mining: {type(miner).__name__} {1000 * theirs:.2f} ms, {theirs / ours:.1f} times ours")


def print_training(device: str) -> None:
    small = device == "cpu"
    print_sentences(device, 5_000 if small else 150_000, 1 if small else 10)
    print_phrases(device, 50 if small else 3_000, 2 if small else 200)
