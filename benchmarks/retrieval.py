"""R@K of a photos × sentences matrix: our implementation, sorting, torchmetrics and ranx in the same run.

    python benchmarks/retrieval.py [--photos 5000] [--captions 5] [--peer-queries 100] [--repeats 3]

torchmetrics (with torch) and ranx are optional; a missing one is reported and left out. They store every query's list
as objects and would need hours and tens of gigabytes for the whole matrix, so a second table compares all of them on
the first photos against all sentences, without extrapolation.

Everything runs once as a warm-up (ranx compiles then), then in turns, equally often; the best run counts. CPU time adds
up the threads and is more reliable than wall time on a busy machine. Memory is the maximum beyond the matrix itself
(Linux only). All must give the same R@K.

Each direction is also compared alone: photos with a count of the rows only, sentences with a count of both, because
ours never counts columns alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deixis.evaluation.ranks import compute_ranks, make_pairs
from deixis.evaluation.retrieval import recall_at_k

KS = (1, 5, 10)
Recalls = dict[str, float]


@dataclass(frozen=True)
class Timing:
    name: str
    wall_s: float
    cpu_s: float
    memory_mb: float
    recalls: Recalls


class MemoryWatch:
    """Peak memory during the body, relative to before."""

    def __enter__(self) -> MemoryWatch:
        self._before = self._most = _held_mb()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.most_mb = self._most - self._before

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self._most = max(self._most, _held_mb())


def _held_mb() -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon")), float("nan"))


def measure(implementations: dict[str, Callable[[], Recalls]], repeats: int) -> list[Timing]:
    """Return the best run of each, run in turns so that noise affects all equally.

    The first turn warms up and is not timed, but its memory counts: allocators keep what they once had.
    """
    runs: dict[str, list[Timing]] = {name: [] for name in implementations}
    for turn in range(repeats + 1):
        for name, work in implementations.items():
            timing = once(name, work)
            runs[name].append(timing)
            print(f"  {name}: {timing.wall_s:.3f} s{'' if turn else ' (warm-up)'}", flush=True)
    return [
        Timing(
            name,
            min(each.wall_s for each in timings[1:]),
            min(each.cpu_s for each in timings[1:]),
            max(each.memory_mb for each in timings),
            timings[0].recalls,
        )
        for name, timings in runs.items()
    ]


def once(name: str, work: Callable[[], Recalls]) -> Timing:
    with MemoryWatch() as watch:
        wall, cpu = time.perf_counter(), time.process_time()
        recalls = work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Timing(name, wall, cpu, watch.most_mb, recalls)


def recalls_of(found_ranks: np.ndarray, way: str) -> Recalls:
    return {f"{way}_r{k}": float(100 * (found_ranks <= k).mean()) for k in KS}


def ours_both(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    found = recall_at_k(scores, owners, KS).scores
    return {name: found[name] for name in found if name.partition("_")[2] in {f"r{k}" for k in KS}}


def ours_photos(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    sentences = np.flatnonzero(owners < len(scores))
    right = make_pairs(owners[sentences], sentences, scores.shape)
    return recalls_of(compute_ranks(scores, right, columns=False).rows, "i2t")


def ours_with_intervals(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    assert recall_at_k(scores, owners, KS).interval
    return {}


def sorted_photos(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    """Sort every row and find the first sentence of the photo."""
    first = [np.argmax(owners[np.argsort(-row)] == photo) + 1 for photo, row in enumerate(scores)]
    return recalls_of(np.array(first), "i2t")


def sorted_sentences(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    columns = np.ascontiguousarray(scores.T)
    first = [np.argmax(np.argsort(-column) == owner) + 1 for column, owner in zip(columns, owners, strict=True)]
    return recalls_of(np.array(first), "t2i")


def sorted_both(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    return sorted_photos(scores, owners) | sorted_sentences(scores, owners)


def torchmetrics_photos(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    import torch
    from torchmetrics.retrieval import RetrievalHitRate

    height, width = scores.shape
    target = torch.from_numpy(owners[None, :] == np.arange(height)[:, None]).flatten()
    query = torch.arange(height).repeat_interleave(width)
    values = torch.from_numpy(scores).flatten()
    found = {}
    for k in KS:
        metric = RetrievalHitRate(top_k=k)
        metric.update(values, target, indexes=query)
        found[f"i2t_r{k}"] = float(100 * metric.compute())
    return found


def ranx_objects(scores: np.ndarray, owners: np.ndarray) -> tuple[object, object]:
    from ranx import Qrels, Run

    names = [str(sentence) for sentence in range(scores.shape[1])]
    right = {str(p): {names[s]: 1 for s in np.flatnonzero(owners == p)} for p in range(len(scores))}
    run = {str(p): dict(zip(names, row.tolist(), strict=True)) for p, row in enumerate(scores)}
    return Qrels(right), Run(run)


def ranx_photos(qrels: object, run: object) -> Recalls:
    from ranx import evaluate

    found = evaluate(qrels, run, [f"hit_rate@{k}" for k in KS])
    return {f"i2t_r{k}": float(100 * found[f"hit_rate@{k}"]) for k in KS}


def against_sorting(scores: np.ndarray, owners: np.ndarray, repeats: int) -> None:
    size = f"{scores.shape[0]} × {scores.shape[1]}"
    implementations = {
        "ours, both directions": lambda: ours_both(scores, owners),
        "ours, i2t only": lambda: ours_photos(scores, owners),
        "ours, both, with intervals": lambda: ours_with_intervals(scores, owners),
        "argsort, both directions": lambda: sorted_both(scores, owners),
        "argsort, i2t only": lambda: sorted_photos(scores, owners),
        "argsort, t2i only": lambda: sorted_sentences(scores, owners),
    }
    both, one, bounded, both_sorted, rows_sorted, columns_sorted = measure(implementations, repeats)
    report(f"{size}, both directions", both, [bounded, both_sorted, rows_sorted, columns_sorted])
    report(f"{size}, i2t only", one, [rows_sorted])
    report(f"{size}, t2i only", both, [columns_sorted])


def against_peers(scores: np.ndarray, owners: np.ndarray, repeats: int) -> None:
    implementations = {"ours": lambda: ours_photos(scores, owners), "argsort": lambda: sorted_photos(scores, owners)}
    if all(map(importlib.util.find_spec, ("torch", "torchmetrics"))):
        implementations["torchmetrics"] = lambda: torchmetrics_photos(scores, owners)
    else:
        print("  torchmetrics is not installed: left out")
    if importlib.util.find_spec("ranx"):
        qrels, run = ranx_objects(scores, owners)
        implementations["ranx, matrix to scores"] = lambda: ranx_photos(*ranx_objects(scores, owners))
        implementations["ranx, evaluate alone"] = lambda: ranx_photos(qrels, run)
    else:
        print("  ranx is not installed: left out")
    ours, *others = measure(implementations, repeats)
    report(f"{scores.shape[0]} × {scores.shape[1]}, i2t only", ours, others)


def report(title: str, ours: Timing, others: list[Timing]) -> None:
    for other in others:
        for name, value in other.recalls.items():
            if name in ours.recalls:
                assert abs(value - ours.recalls[name]) < 1e-3, f"{other.name} finds another {name}"
    print(f"\n{title:36}{'wall s':>10}{'cpu s':>10}{'MB held':>10}{'wall ÷ ours':>13}{'cpu ÷ ours':>12}")
    for each in (ours, *others):
        print(
            f"{each.name:36}{each.wall_s:10.3f}{each.cpu_s:10.3f}{each.memory_mb:10.0f}"
            f"{each.wall_s / ours.wall_s:13.1f}{each.cpu_s / ours.cpu_s:12.1f}"
        )
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=5000)
    parser.add_argument("--captions", type=int, default=5)
    parser.add_argument("--peer-queries", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # ranx warns about casts
    rng = np.random.default_rng(0)
    owners = np.arange(options.photos * options.captions) // options.captions
    scores = rng.standard_normal((options.photos, len(owners)), dtype=np.float32)
    scores[owners, np.arange(len(owners))] += 3
    size = f"{scores.shape[0]} × {scores.shape[1]} float32, {scores.nbytes / 1e6:.0f} MB"
    print(size)
    against_peers(scores[: options.peer_queries], owners, options.repeats)
    against_sorting(scores, owners, options.repeats)


if __name__ == "__main__":
    main()
