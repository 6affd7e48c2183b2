"""R@K, median and mean rank of a photos × sentences matrix: ours, sorting, torchmetrics and ranx in the same run.

    python benchmarks/retrieval.py [--photos 5000] [--captions 5] [--peer-queries 100] [--repeats 5]

torchmetrics (with torch) and ranx are optional; what is missing is said and left out. They hold every query's list as
objects of their own, so they are timed on the first queries only and that time is multiplied; the table says so. All
must find the same R@K. Wall time is the best of the repeats; processor time adds up the threads and is the fairer figure
on a busy machine. Memory is the most that was held beyond the matrix itself (Linux only).
"""

from __future__ import annotations

import argparse
import importlib.util
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deixis.evaluation.ranks import pairs_of, ranks
from deixis.evaluation.retrieval import recall_at_k

KS = (1, 5, 10)
Recalls = dict[str, float]


@dataclass(frozen=True)
class Timing:
    name: str
    wall_s: float
    cpu_s: float
    memory_mb: float | None
    times: float
    recalls: Recalls


def held_mb() -> float | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    return next(float(line.split()[1]) / 1024 for line in status.read_text().splitlines() if "RssAnon" in line)


def most_held_mb(work: Callable[[], object]) -> float | None:
    """Run the work and watch how much memory it holds at most beyond what was held before."""
    before = held_mb()
    if before is None:
        return None
    most, done = before, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, held_mb() or 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return most - before


def measure(name: str, work: Callable[[], Recalls], repeats: int, times: float = 1.0) -> Timing:
    wall, cpu, recalls = [], [], {}
    for _ in range(repeats):
        wall_begin, cpu_begin = time.perf_counter(), time.process_time()
        recalls = work()
        wall.append(time.perf_counter() - wall_begin)
        cpu.append(time.process_time() - cpu_begin)
    memory = most_held_mb(work)  # another run: watching takes time of its own
    print(f"  {name}: {min(wall) * times:.2f} s", flush=True)
    return Timing(name, min(wall) * times, min(cpu) * times, memory, times, recalls)


def recalls_of(found_ranks: np.ndarray, way: str) -> Recalls:
    return {f"{way}_r{k}": float(100 * (found_ranks <= k).mean()) for k in KS}


def ours_both(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    found = recall_at_k(scores, owners, KS).scores
    return {name: value for name, value in found.items() if "_r" in name}


def ours_photos_only(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    return recalls_of(ranks(scores, pairs_of(owners, len(scores)), columns=False).rows, "i2t")


def ours_with_intervals(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    result = recall_at_k(scores, owners, KS)
    assert result.interval
    return {}


def sorted_photos(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    """Sort every row whole and look for the first sentence of the photo."""
    first = [np.argmax(owners[np.argsort(-row)] == photo) + 1 for photo, row in enumerate(scores)]
    return recalls_of(np.array(first), "i2t")


def sorted_sentences(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    columns = np.ascontiguousarray(scores.T)
    first = [np.argmax(np.argsort(-column) == owner) + 1 for column, owner in zip(columns, owners, strict=True)]
    return recalls_of(np.array(first), "t2i")


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


def ranx_photos(scores: np.ndarray, owners: np.ndarray) -> Recalls:
    from ranx import Qrels, Run, evaluate

    names = [str(sentence) for sentence in range(scores.shape[1])]
    right = {str(p): {names[s]: 1 for s in np.flatnonzero(owners == p)} for p in range(len(scores))}
    run = {str(p): dict(zip(names, row.tolist(), strict=True)) for p, row in enumerate(scores)}
    found = evaluate(Qrels(right), Run(run), [f"hit_rate@{k}" for k in KS])
    return {f"i2t_r{k}": float(100 * found[f"hit_rate@{k}"]) for k in KS}


def peers(scores: np.ndarray, owners: np.ndarray, queries: int) -> list[Timing]:
    first, times = scores[:queries], len(scores) / queries
    found = []
    for name, work in (("torchmetrics", torchmetrics_photos), ("ranx", ranx_photos)):
        if importlib.util.find_spec(name) is None:
            print(f"  {name} is not installed: left out")
            continue
        work(scores[:2], owners)  # what is compiled or imported on first use is not timed
        found.append(measure(f"{name}, i2t", lambda work=work: work(first, owners), 1, times))
    return found


def report(timings: list[Timing], ours: Timing, ours_one_way: Timing) -> None:
    print(f"\n{'':44}{'wall s':>9}{'cpu s':>9}{'MB held':>9}{'÷ ours':>9}{'÷ ours i2t':>12}")
    for each in timings:
        memory = "–" if each.memory_mb is None else f"{each.memory_mb:.0f}"
        scaled = f" (× {each.times:.0f} from part)" if each.times != 1 else ""
        print(
            f"{each.name + scaled:44}{each.wall_s:9.2f}{each.cpu_s:9.2f}{memory:>9}"
            f"{each.wall_s / ours.wall_s:9.1f}{each.wall_s / ours_one_way.wall_s:12.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=5000)
    parser.add_argument("--captions", type=int, default=5)
    parser.add_argument("--peer-queries", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    owners = np.arange(options.photos * options.captions) // options.captions
    scores = rng.standard_normal((options.photos, len(owners)), dtype=np.float32)
    scores[owners, np.arange(len(owners))] += 3
    print(f"{scores.shape[0]} × {scores.shape[1]} float32, {scores.nbytes / 1e6:.0f} MB")
    both = measure("ours, both directions", lambda: ours_both(scores, owners), options.repeats)
    one = measure("ours, i2t only", lambda: ours_photos_only(scores, owners), options.repeats)
    bounded = measure("ours, both with intervals", lambda: ours_with_intervals(scores, owners), 1)
    rows = measure("argsort of every row, i2t", lambda: sorted_photos(scores, owners), 1)
    columns = measure("argsort of every column, t2i", lambda: sorted_sentences(scores, owners), 1)
    for way in (one, rows, columns):
        for name, value in way.recalls.items():
            assert abs(value - both.recalls[name]) < 1e-3, f"{way.name} finds another {name}"
    queries = min(options.peer_queries, options.photos)
    others = peers(scores, owners, queries)
    part = recalls_of(ranks(scores, pairs_of(owners, options.photos), columns=False).rows[:queries], "i2t")
    for way in others:
        for name, value in way.recalls.items():
            assert abs(value - part[name]) < 1e-3, f"{way.name} finds another {name}"
    report([both, one, bounded, rows, columns, *others], both, one)
    print("all find the same R@K")


if __name__ == "__main__":
    main()
