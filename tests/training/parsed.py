"""Made-up photos with parsed sentences, for the HM-LSTM. Also a program, to be killed.

``python parsed.py OUT [--resume] [key=value…]`` goes through all stages; with STOP in the environment it kills
itself after so many steps and photos.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import torch

from deixis.files.progress import OnProgress, silent
from deixis.language.trees import read_tree
from deixis.language.vectors import WordVectors
from deixis.models.correspondence import Correspondences, PhotoRegions
from deixis.models.hm_lstm import HMLSTM, HMLSTMSettings
from deixis.models.trees import Forest
from deixis.training.about import About, DataFacts
from deixis.training.base import DevScores
from deixis.training.distributed import leave
from deixis.training.hm_lstm import ParsedPhotos
from deixis.training.hm_lstm_rounds import Alternation, retrieval_on
from deixis.training.settings import TrainSettings, settings_from_all

SIZE = 6
THINGS = ("dog", "cat", "man", "girl", "car")
COLOURS = ("red", "blue", "green", "white")
MODEL = HMLSTMSettings(hidden=8, dimension=6, rounds=2, round_epochs=2)
LOOP = TrainSettings(epochs=2, batch_size=8, learning_rate=0.01, log_every=1, device="cpu", threads=1)


def _sentence(thing: str, colour: str, other: str) -> str:
    return f"(S (NP (DT A) (JJ {colour}) (NN {thing})) (VP (VBZ sees) (NP (NP (DT a) (NN {other})) (. .))))"


def _both(thing: str, other: str) -> str:
    return f"(NP (NP (DT a) (NN {thing})) (CC and) (NP (DT a) (NN {other})))"


@cache
def parsed_photos(photos: int = 12, proposals: int = 3) -> ParsedPhotos:
    """Two sentences a photo; regions whose features follow from the things in them."""
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
    regions = PhotoRegions.of(vectors, lambda photo: (boxes, vectors[photo].astype(np.float32)))
    return ParsedPhotos(Forest.of(trees), np.repeat(np.arange(photos), 2), regions)


def made_correspondences(data: ParsedPhotos) -> Correspondences:
    """Random regions with random confidences, some below 0."""
    rng = np.random.default_rng(1)
    sentence, node = data.forest.noun_phrases.owners, data.forest.noun_phrases.values
    photo = data.photo[sentence]
    region = data.regions.starts[photo] + rng.integers(data.regions.candidates[photo])
    return Correspondences.of_columns(sentence, node, region, rng.uniform(-0.3, 1, len(node)), len(data.forest))


def right_share(data: ParsedPhotos, found: Correspondences) -> float:
    """How many phrases got the region made for them: 1 for the first thing of a sentence, 2 for the other."""
    owners = found.of_sentence.owners
    within = found.region - data.regions.starts[data.photo[owners]]
    right: list[bool] = []
    for sentence, node, region in zip(owners.tolist(), found.node.tolist(), within.tolist(), strict=True):
        first = next(word for word in data.forest.text(sentence, 0).split() if word in THINGS)
        right.append(region == (1 if first in data.forest.text(sentence, node).split() else 2))
    return sum(right) / len(right)


def made_model(settings: HMLSTMSettings) -> HMLSTM:
    torch.manual_seed(0)
    words = parsed_photos().forest.words
    vectors = np.random.default_rng(2).normal(size=(len(words), 7)).astype(np.float32)
    return HMLSTM(SIZE, WordVectors(vectors, words), settings)


def alternation(
    out: Path,
    model_settings: HMLSTMSettings = MODEL,
    loop: TrainSettings = LOOP,
    on_progress: OnProgress = silent,
    gold: Correspondences | None = None,
    photos: int = 12,
) -> Alternation:
    """Figure 3 on the made-up photos."""
    data, model = parsed_photos(photos), made_model(model_settings)
    about = About("hm-lstm", asdict(model_settings), DataFacts("made up", "", {}, "free for all"))

    def evaluate() -> DevScores:
        return retrieval_on(model, data)

    return Alternation(model, data, loop, out, about, evaluate, gold, on_progress=on_progress)


def main() -> None:
    out, *rest = sys.argv[1:]
    model_settings, loop = settings_from_all([MODEL, LOOP], [word for word in rest if "=" in word])
    told = 0

    def stop(doing: str, done: int, total: int | None) -> None:
        nonlocal told
        told += 1
        if told == int(os.environ.get("STOP", "0")):
            os.kill(os.getpid(), signal.SIGKILL)

    alternation(Path(out), model_settings, loop, stop).train(resume="--resume" in rest)


if __name__ == "__main__":
    main()
    leave()
