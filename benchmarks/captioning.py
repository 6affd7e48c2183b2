"""Measure the speed of caption generation and of photo-sentence scores, without the image encoder.

python benchmarks/captioning.py [--model NAME|DIR] [--photos N] [--sentences N] [--captions FILE] [--rounds N]

Times are CPU milliseconds per sentence, the best of the rounds for each photo, on one thread if OMP_NUM_THREADS=1.

alone: one photo at a time.
among: all photos in one call.
pairs: log P(w | I) of each photo with each sentence. Use real captions (--captions, one per line): random ones share
fewer prefixes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import deixis
from deixis.models.m_rnn.decoding import Decoding

METHODS = ("greedy", "beam 5", "beam 10")
MAX_ALONE = 20


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def best_of(rounds: int, works: Sequence[Callable[[], object]]) -> float:
    """The mean of the best rounds of each work: one is so short that some rounds are undisturbed."""
    for work in works:
        work()  # opens what is opened when it is needed
    return float(np.mean([min(seconds(work) for _ in range(rounds)) for work in works]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="captioner")
    parser.add_argument("--photos", type=int, default=64)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--captions", type=Path, help="file with a sentence per line, for the scores of pairs")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    model = deixis.load(options.model).model
    rng = np.random.default_rng(0)
    kept = model.references_

    def rows(parts: Sequence[np.ndarray | None], chosen: slice) -> object:
        return tuple(None if part is None else part[chosen] for part in parts)

    # Photos between two of those that the model keeps
    one, other = rng.integers(len(kept[0]), size=(2, options.photos))
    share = rng.random(options.photos).astype(np.float32)
    mixed = []
    for part in kept:
        if part is None:
            mixed.append(None)
            continue
        of_first = share.reshape(-1, *[1] * (part.ndim - 1))
        mixed.append(of_first * part[one].astype(np.float32) + (1 - of_first) * part[other].astype(np.float32))
    length = model.settings.max_length
    methods = {
        "greedy": Decoding("greedy", max_length=length),
        "beam 5": Decoding(beam=5, max_length=length),
        "beam 10": Decoding(beam=10, top=10, max_length=length),
    }
    if options.captions:
        lines = options.captions.read_text(encoding="utf-8").splitlines()[: options.sentences]
        texts = [line.lower().split() for line in lines]
    else:
        shares = 1 / np.arange(1, len(model.vocabulary) + 1)
        drawn = rng.choice(len(model.vocabulary), size=(options.sentences, 11), p=shares / shares.sum())
        texts = [model.vocabulary.decode(row) for row in drawn.tolist()]

    everything = rows(mixed, slice(None))
    single = [rows(mixed, slice(row, row + 1)) for row in range(min(options.photos, MAX_ALONE))]
    for method, decoding in methods.items():
        alone = [partial(model.generate, photo, decoding=decoding) for photo in single]
        among = [partial(model.generate, everything, decoding=decoding)]
        for kind, works, sentences in (("alone", alone, 1), ("among", among, options.photos)):
            taken = 1e3 * best_of(options.rounds, works) / sentences
            print(f"{kind} {method:8s} {taken:8.2f} ms a sentence", flush=True)
    some = rows(mixed, slice(0, 16))
    pairs = min(16, options.photos) * len(texts)

    def score() -> None:
        model.scores(model.prepare_visual(some), model.prepare_text(texts))

    print(f"{'pairs':14s} {1e6 * best_of(options.rounds, [score]) / pairs:8.2f} µs a pair", flush=True)


if __name__ == "__main__":
    main()
