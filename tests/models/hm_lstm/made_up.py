"""Synthetic photos with parsed sentences, for the HM-LSTM. Also a program that can be killed.

``STOP=n python made_up.py OUT [key=value…]`` trains in all stages and kills itself after n progress reports.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from deixis.language.trees import read_tree
from deixis.language.vectors import WordVectors
from deixis.models.hm_lstm.correspondence import Correspondences, ParsedPhotos, PhotoRegions
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.hm_lstm.spec import SPEC, HMLSTMDataSettings, HMLSTMSettings
from deixis.models.hm_lstm.training import HMLSTMTrainingData, score_retrieval
from deixis.models.hm_lstm.trees import Forest
from deixis.models.training.objective import Validation
from deixis.models.training.run_record import DataDescription, RunDescription
from deixis.models.training.runner import Run, TrainingData, TrainResult, _train_network, refuse_unusable
from deixis.models.training.settings import Settings, TrainSettings
from deixis.storage.progress import OnProgress, no_progress

SIZE = 6
THINGS = ("dog", "cat", "man", "girl", "car")
COLOURS = ("red", "blue", "green", "white")
MODEL = HMLSTMSettings(hidden_size=8, embedding_dim=6, rounds=2, round_epochs=2)
TRAINING = TrainSettings(epochs=2, batch_size=8, learning_rate=0.01, log_every=1, device="cpu", threads=1)


def _sentence(thing: str, colour: str, other: str) -> str:
    return f"(S (NP (DT A) (JJ {colour}) (NN {thing})) (VP (VBZ sees) (NP (NP (DT a) (NN {other})) (. .))))"


def _both(thing: str, other: str) -> str:
    return f"(NP (NP (DT a) (NN {thing})) (CC and) (NP (DT a) (NN {other})))"


@cache
def parsed_photos(photos: int = 12, proposals: int = 3) -> ParsedPhotos:
    """Two sentences per photo; the features of regions depend on the things in them."""
    rng = np.random.default_rng(0)
    look = {word: rng.normal(size=SIZE) for word in (*THINGS, *COLOURS)}
    trees, vectors = [], {}
    for photo in range(photos):
        thing, other = rng.choice(THINGS, 2, replace=False)
        colour = rng.choice(COLOURS)
        trees += [read_tree(_sentence(thing, colour, other)), read_tree(_both(thing, other))]
        things = [look[thing] + look[other] + look[colour], look[thing] + look[colour], look[other]]
        rows = [*things, *rng.normal(size=(proposals - 2, SIZE))]
        vectors[str(photo)] = np.array(rows) + 0.1 * rng.normal(size=(proposals + 1, SIZE))
    boxes = [[0, 0, 90, 90], *([10 * n, 0, 10 * n + 10, 30] for n in range(proposals))]
    regions = PhotoRegions.collect((photo, (boxes, own.astype(np.float32)), None) for photo, own in vectors.items())
    return ParsedPhotos(Forest.from_trees(trees), np.repeat(np.arange(photos), 2), regions)


def made_correspondences(data: ParsedPhotos) -> Correspondences:
    """Random regions with random confidences, some negative."""
    rng = np.random.default_rng(1)
    sentence, node = data.forest.noun_phrases.owners, data.forest.noun_phrases.values
    photo = data.photo[sentence]
    region = data.regions.starts[photo] + rng.integers(data.regions.candidates[photo])
    rows = zip(sentence, node, region, rng.uniform(-0.3, 1, len(node)), strict=True)
    return Correspondences.from_rows(list(rows), len(data.forest))


def right_share(data: ParsedPhotos, found: Correspondences) -> float:
    """Share of phrases with the right region: 1 for the first thing of a sentence, 2 for the other."""
    owners = found.rows.owners
    within = found.region - data.regions.starts[data.photo[owners]]
    right: list[bool] = []
    for sentence, node, region in zip(owners.tolist(), found.node.tolist(), within.tolist(), strict=True):
        first = next(word for word in data.forest.text(sentence, 0).split() if word in THINGS)
        right.append(region == (1 if first in data.forest.text(sentence, node).split() else 2))
    return sum(right) / len(right)


def made_vectors() -> WordVectors:
    words = parsed_photos().forest.words
    return WordVectors(np.random.default_rng(2).normal(size=(len(words), 7)).astype(np.float32), words)


def made_model(settings: HMLSTMSettings) -> HMLSTM:
    torch.manual_seed(0)
    return HMLSTM(SIZE, made_vectors(), settings)


class MadeUpRun(Run):
    """A run on data that is in no data set."""

    def about(self, data: TrainingData) -> RunDescription:
        return RunDescription(
            "hm-lstm", asdict(self.settings[HMLSTMSettings]), DataDescription("made up", "", {}, "CC0")
        )


def train_made_up(
    out: Path,
    model: HMLSTMSettings = MODEL,
    training: TrainSettings = TRAINING,
    *,
    photos: int = 12,
    resume: bool = False,
    on_progress: OnProgress = no_progress,
) -> TrainResult | None:
    """Train on synthetic photos, by all stages of Figure 3; the training photos are the validation photos too."""
    contents = SimpleNamespace(encoder="made up", fingerprint="1", proposer="corners", proposer_fingerprint="1")
    features: Any = SimpleNamespace(
        photos=[],
        left_out=(),
        crops=0,
        location_weight=0.0,
        photo_vector="photo",
        store=SimpleNamespace(contents=contents),
    )
    parsed = parsed_photos(photos)
    data = HMLSTMTrainingData(train=features, parsed=parsed, word_vectors=made_vectors())
    validation = Validation(features, lambda pipeline: score_retrieval(pipeline.model, parsed))
    spec = replace(SPEC, prepare_data=lambda run: data, validation=lambda run, data, photos: validation)
    dataset: Any = SimpleNamespace(path=Path("made up"))
    refuse_unusable(out, resume)
    settings = Settings((HMLSTMDataSettings(), model, training))
    run = MadeUpRun(spec, settings, dataset, out, resume, on_progress=on_progress, validation={"dev": []})
    return _train_network(run)


def main() -> None:
    out, *assignments = sys.argv[1:]
    settings = Settings((MODEL, TRAINING)).with_assignments(assignments)
    reports = 0

    def stop(description: str, done: int, total: int | None) -> None:
        nonlocal reports
        reports += 1
        if reports == int(os.environ["STOP"]):
            os.kill(os.getpid(), signal.SIGKILL)

    train_made_up(Path(out), settings[HMLSTMSettings], settings[TrainSettings], on_progress=stop)


if __name__ == "__main__":
    main()
