"""Cost of a photo in bulk processing: CPU seconds, bytes on disk, and the speed-up by several workers.

python benchmarks/scale.py PHOTOS [--count N] [--workers N] [--only features index caption]

PHOTOS is a folder of photos. Each task is run by one process with one thread, and by `--workers` processes as with
``--scheduler local:N``, after all of them have loaded their models:

core: photos per CPU second; wall time is unreliable on a busy machine.
clock: photos per second of wall time; the last column is the speed-up by the workers.
writer: photos per CPU second that one process can write, which limits the number of workers.
bytes: size on disk per photo; for features without crops and proposals, for an index with its thumbnail.

The last lines extrapolate to a billion photos.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch

from deixis import cluster as bulk
from deixis.cluster import (
    CaptionJob,
    ClusterEncoder,
    FeaturesJob,
    caption_photos,
    cluster_features,
    model_fingerprint,
)
from deixis.data.images import find_photos
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.pipeline import DEFAULT_CAPTIONER, load_captioner
from deixis.search.collection import search_encoder
from deixis.search.encoder import PHOTO_MODEL
from deixis.search.index import update_index
from deixis.vision.encoders import open_encoder
from deixis.vision.feature_store.files import Contents, FeatureRecord
from deixis.vision.feature_store.store import open_writer
from deixis.vision.feature_store.updates import FeatureOptions, PhotoSource, compute_features

ENCODER = "deixis"
BILLION = 10**9

Work = Callable[[Sequence[Path]], Iterator[tuple[Any, Any]]]
TaskPair = tuple[Work, Callable[[bulk.ClusterWorkers], Work]]


@dataclass(frozen=True)
class Pace:
    """Number of photos, wall seconds and CPU seconds."""

    photos: int = 0
    clock_s: float = 0.0
    core_s: float = 0.0

    def __add__(self, other: Pace) -> Pace:
        return Pace(self.photos + other.photos, self.clock_s + other.clock_s, self.core_s + other.core_s)


def photo_sources(paths: Iterable[Path]) -> list[PhotoSource]:
    return [PhotoSource(path.name, path) for path in paths]


def features() -> TaskPair:
    encoder = open_encoder(ENCODER, "cpu")
    job = FeaturesJob(ENCODER, encoder.fingerprint, "cpu")
    return (
        lambda paths: compute_features(photo_sources(paths), encoder, FeatureOptions()),
        lambda workers: lambda paths: cluster_features(workers, job)(photo_sources(paths)),
    )


def index() -> TaskPair:
    return search_encoder(
        PHOTO_MODEL
    ).encode_photos, lambda workers: ClusterEncoder(workers, search_encoder(PHOTO_MODEL)).encode_photos


def caption() -> TaskPair:
    captioner, decoding = load_captioner(DEFAULT_CAPTIONER), Decoding(beam=5)
    job = CaptionJob(DEFAULT_CAPTIONER, model_fingerprint(DEFAULT_CAPTIONER), decoding)
    return (
        lambda paths: captioner.caption_files(list(paths), decoding),
        lambda workers: lambda paths: caption_photos(workers, job, list(paths)),
    )


TASKS: dict[str, Callable[[], TaskPair]] = {"features": features, "index": index, "caption": caption}


def core_seconds() -> float:
    """CPU seconds of this process and of its running children."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def measure_pace(work: Work, paths: Sequence[Path]) -> tuple[Pace, list[tuple[Any, Any]]]:
    clock, core = time.perf_counter(), core_seconds()
    results = list(work(paths))
    return Pace(len(paths), time.perf_counter() - clock, core_seconds() - core), results


def write_features(results: Sequence[tuple[Any, Any]]) -> tuple[float, float]:
    """Write features; return CPU seconds and bytes per photo."""
    kept = [found for _, found in results if isinstance(found, FeatureRecord)]
    channels = 0 if kept[0].cells is None else len(kept[0].cells)
    contents = Contents(ENCODER, "", len(kept[0].whole), channels)
    with tempfile.TemporaryDirectory() as folder:
        begin = core_seconds()
        with open_writer(Path(folder) / "store", contents) as writer:
            for photo in kept:
                writer.add(photo)
        taken = core_seconds() - begin
        return taken / len(kept), _bytes_in(Path(folder) / "store") / len(kept)


class PrecomputedEncoder:
    """An encoder that returns precomputed vectors."""

    def __init__(self, results: Sequence[tuple[Any, Any]]) -> None:
        encoder = search_encoder(PHOTO_MODEL)
        self.fingerprint, self.dimension = encoder.fingerprint, encoder.dimension
        self.region_dimension = encoder.region_dimension
        self._answers = dict(results)

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
        return ((path, self._answers[path]) for path in paths)


def write_index(results: Sequence[tuple[Any, Any]]) -> tuple[float, float]:
    """Write an index, including hashes and EXIF; return CPU seconds and bytes per photo."""
    paths = [path for path, _ in results]
    with tempfile.TemporaryDirectory() as folder:
        begin = core_seconds()
        report = update_index(Path(folder) / "index", paths, PrecomputedEncoder(results))
        taken = core_seconds() - begin
        return taken / report.photos, _bytes_in(Path(folder) / "index") / report.photos


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_task(name: str, paths: Sequence[Path], workers: bulk.ClusterWorkers, count: int) -> None:
    alone, by = TASKS[name]()
    list(alone(paths[:2]))
    by_workers = by(workers)
    list(by_workers(paths[: bulk.PART * count]))  # every worker loads its models
    one, many, results = Pace(), Pace(), []
    step = 2 * count * bulk.PART  # equal parts per worker, and both ways in turns, because machines are noisy
    for begin in range(0, len(paths), step):
        pace, found = measure_pace(alone, paths[begin : begin + step])
        one, results = one + pace, results + found
        many += measure_pace(by_workers, paths[begin : begin + step])[0]
    rates = [pace.photos / seconds for pace in (one, many) for seconds in (pace.core_s, pace.clock_s)]
    print(
        f"{name:9} one process: {rates[0]:6.2f} core {rates[1]:6.2f} clock   "
        f"{count} workers: {rates[2]:6.2f} core {rates[3]:6.2f} clock   ×{rates[3] / rates[1]:.2f}",
        flush=True,
    )
    writes = {"features": write_features, "index": write_index}.get(name)
    taken, size = writes(results) if writes else (0.0, 0.0)
    if writes:
        print(f"{'':9} writer: {1 / taken:,.0f} photos a second of a core; {size:,.0f} bytes a photo")
    cores_h = BILLION / rates[2] / 3600
    print(
        f"{'':9} a billion photos: {cores_h:,.0f} hours of a core, {cores_h / 1000:,.0f} h on 1,000 cores; "
        f"{size * BILLION / 1e12:,.1f} TB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--count", type=int, default=512, help="number of photos")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--part", type=int, default=bulk.PART, help="photos per task of a worker")
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths = find_photos(options.photos)[: options.count]
    bulk.PART = options.part
    mean = sum(path.stat().st_size for path in paths) / len(paths)
    print(f"{len(paths)} photos of {mean / 1000:,.0f} kB, {psutil.cpu_count()} cores")
    with ExitStack() as held:
        workers = held.enter_context(bulk.open_workers(f"local:{options.workers}", partial(print, flush=True)))
        for name in options.only:
            measure_task(name, paths, workers, options.workers)


if __name__ == "__main__":
    main()
