"""Measure the speed of caption generation and of photo-sentence scores, without the image encoder.

python benchmarks/captioning.py [--model NAME|DIR] [--other CHECKOUT] [--photos N] [--sentences N] [--captions FILE]
                                [--rounds N] [--threads N]

Times are CPU milliseconds per sentence, the best of the rounds for each photo, on one thread by default. --other is
another checkout of deixis, such as the previous release: each works in a process of its own, in turns, with its own
copy of the shipped model.

alone: one photo at a time.
among: all photos in one call.
pairs: log P(w | I) of each photo with each sentence. Use real captions (--captions, one per line): random ones share
fewer prefixes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
METHODS = ("greedy", "beam 5", "beam 10")

WORKER = """
import json, sys, time
from functools import partial
import numpy as np
import deixis
from deixis.models.m_rnn.decoding import Decoding

name, photos, sentences, captions, threads = json.loads(sys.argv[1])
if "torch" in sys.modules:  # versions before the runtime
    sys.modules["torch"].set_num_threads(threads)
try:
    model = deixis.load(name).model
except deixis.DeixisError:  # a version before the captioner had a name of its own
    model = deixis.load("m-rnn").model
rng = np.random.default_rng(0)
kept = model.references_
make = getattr(kept, "_make", tuple)  # a named tuple in versions before
take = lambda rows: make(None if part is None else part[rows] for part in features)
one, other = rng.integers(len(kept[0]), size=(2, photos))
share = rng.random((photos, 1)).astype(np.float32)
mixed = [None if part is None else np.asarray(part, np.float32) for part in kept]
mix = lambda part, share: None if part is None else share * part[one] + (1 - share) * part[other]
features = make([mix(mixed[0], share), *(mix(part, share[:, :, None]) for part in mixed[1:])])
length = model.settings.max_length
methods = {
    "greedy": Decoding("greedy", max_length=length),
    "beam 5": Decoding(beam=5, max_length=length),
    "beam 10": Decoding(beam=10, top=10, max_length=length),
}
if captions:
    texts = [line.lower().split() for line in open(captions, encoding="utf-8")][:sentences]
else:
    shares = 1 / np.arange(1, len(model.vocabulary) + 1)
    drawn = rng.choice(len(model.vocabulary), size=(sentences, 11), p=shares / shares.sum())
    texts = [model.vocabulary.decode(row) for row in drawn.tolist()]
single = [take(slice(row, row + 1)) for row in range(min(photos, 20))]

def seconds(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin

for line in sys.stdin:
    task = line.strip()
    if task == "pairs":
        some = take(slice(0, 16))
        work = lambda: model.scores(model.prepare_visual(some), model.prepare_text(texts))
        print(json.dumps([seconds(work) / len(some[0]) / len(texts)]), flush=True)
        continue
    kind, method = task.split(" ", 1)
    work = partial(model.generate, decoding=methods[method])
    if kind == "alone":
        found = [min(seconds(partial(work, photo)) for _ in range(3)) for photo in single]
    elif kind == "among":
        found = [seconds(partial(work, features)) / photos]
    else:
        found = [" ".join(sentences[0].words) for sentences in work(features)]
    print(json.dumps(found), flush=True)
"""


class Worker:
    """A process that measures with one checkout."""

    def __init__(self, checkout: Path, arguments: list[Any], threads: int) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def __call__(self, task: str) -> list[Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(task + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{task}: the worker ended")
        found: list[Any] = json.loads(answer)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="captioner")
    parser.add_argument("--other", type=Path, help="another checkout, to compare with")
    parser.add_argument("--photos", type=int, default=64)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--captions", help="file with a sentence per line, for the scores of pairs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    arguments = [options.model, options.photos, options.sentences, options.captions, options.threads]
    checkouts = {"this": HERE} | ({"other": options.other.resolve()} if options.other else {})
    workers = {name: Worker(path, arguments, options.threads) for name, path in checkouts.items()}
    tasks = [f"{kind} {method}" for method in METHODS for kind in ("alone", "among")] + ["pairs"]
    for task in tasks:
        rounds: dict[str, list[list[float]]] = {name: [] for name in workers}
        for number in range(options.rounds + 1):
            for name, worker in workers.items():
                found = worker(task)
                if number:  # the first round opens what is opened when it is needed
                    rounds[name].append(found)
        # The best round of each photo: a sentence is so short that some rounds are undisturbed.
        best = {name: sum(map(min, zip(*some, strict=True))) / len(some[0]) for name, some in rounds.items()}
        unit, factor = ("µs a pair", 1e6) if task == "pairs" else ("ms a sentence", 1e3)
        line = f"{task:14s} {factor * best['this']:8.2f} {unit}"
        if "other" in best:
            line += f", other {factor * best['other']:8.2f}, ratio {best['this'] / best['other']:.2f}"
        print(line, flush=True)
    if "other" in workers:
        for method in METHODS:
            one, other = (worker(f"texts {method}") for worker in workers.values())
            same = sum(ours == theirs for ours, theirs in zip(one, other, strict=True))
            print(f"{method}: {same} of {len(one)} best captions are the same")


if __name__ == "__main__":
    main()
