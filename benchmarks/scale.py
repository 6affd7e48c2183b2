"""What a photo costs in bulk: seconds of a core, bytes on the disk, and what many workers make of many cores.

python benchmarks/scale.py PHOTOS [--count N] [--workers N] [--only features index caption]

PHOTOS is a folder with photos as people take them. Each kind of work is done by one process with one thread, and by
`--workers` processes as with ``--scheduler local:N``, after all of them have opened their models:

core: photos for each second of a processor, waiting not counted; on a busy machine the clock says little.
clock: photos for each second of the clock; the last column is how many times as many the workers do.
writer: what one process can write of what workers hand it, so how many cores it can keep busy.
bytes: what is kept of a photo; for features without crops and proposals, for an index with its thumbnail.

The lines after that say what a billion photos would take at these figures.
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

from deixis.data.images import find_photos
from deixis.index import update_index
from deixis.models.decoding import Decoding
from deixis.tasks.bulk import workers as bulk
from deixis.tasks.bulk.captions import CaptionPlan, captions_by
from deixis.tasks.bulk.features import FeaturesPlan, features_by
from deixis.tasks.bulk.seeing import SeerOfWorkers
from deixis.tasks.captions.captioning import DEFAULT, load_captioner
from deixis.tasks.search.searching import shipped_seer
from deixis.vision.encoders import open_encoder
from deixis.vision.store.computing import Extras, WantedPhoto, compute_features
from deixis.vision.store.manifest import Contents
from deixis.vision.store.shards import PhotoFeatures
from deixis.vision.store.writing import open_for_writing

ENCODER = "deixis"
BILLION = 10**9

Work = Callable[[Sequence[Path]], Iterator[tuple[Any, Any]]]
Works = tuple[Work, Callable[[bulk.Workers], Work]]


@dataclass(frozen=True)
class Pace:
    """Photos, and what they took."""

    photos: int = 0
    clock_s: float = 0.0
    core_s: float = 0.0

    def __add__(self, other: Pace) -> Pace:
        return Pace(self.photos + other.photos, self.clock_s + other.clock_s, self.core_s + other.core_s)


def wanted(paths: Iterable[Path]) -> list[WantedPhoto]:
    return [WantedPhoto(path.name, path) for path in paths]


def features() -> Works:
    encoder = open_encoder(ENCODER, "cpu")
    plan = FeaturesPlan(ENCODER, encoder.fingerprint, "cpu")
    return (
        lambda paths: compute_features(wanted(paths), encoder, Extras()),
        lambda workers: lambda paths: features_by(workers, plan)(wanted(paths)),
    )


def index() -> Works:
    return shipped_seer().see, lambda workers: SeerOfWorkers(workers, shipped_seer()).see


def caption() -> Works:
    bundle, how = load_captioner(DEFAULT), Decoding(beam=5)
    plan = CaptionPlan.of(DEFAULT, how)
    return (
        lambda paths: bundle.caption_files(list(paths), how),
        lambda workers: lambda paths: captions_by(workers, plan, list(paths)),
    )


WORKS: dict[str, Callable[[], Works]] = {"features": features, "index": index, "caption": caption}


def core_seconds() -> float:
    """Of this process and of all that it has started and that still run."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def paced(work: Work, paths: Sequence[Path]) -> tuple[Pace, list[tuple[Any, Any]]]:
    clock, core = time.perf_counter(), core_seconds()
    answers = list(work(paths))
    return Pace(len(paths), time.perf_counter() - clock, core_seconds() - core), answers


def written_features(answers: Sequence[tuple[Any, Any]]) -> tuple[float, float]:
    """Seconds of a core and bytes for each photo."""
    kept = [found for _, found in answers if isinstance(found, PhotoFeatures)]
    channels = 0 if kept[0].cells is None else len(kept[0].cells)
    contents = Contents(ENCODER, "", len(kept[0].whole), channels)
    with tempfile.TemporaryDirectory() as folder:
        begin = core_seconds()
        with open_for_writing(Path(folder) / "store", contents) as writer:
            for photo in kept:
                writer.add(photo)
        taken = core_seconds() - begin
        return taken / len(kept), _bytes_in(Path(folder) / "store") / len(kept)


class Replaying:
    """A seer that has seen everything before."""

    def __init__(self, answers: Sequence[tuple[Any, Any]]) -> None:
        seer = shipped_seer()
        self.fingerprint, self.dimension = seer.fingerprint, seer.dimension
        self.region_dimension = seer.region_dimension
        self._answers = dict(answers)

    def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
        return ((path, self._answers[path]) for path in paths)


def written_index(answers: Sequence[tuple[Any, Any]]) -> tuple[float, float]:
    """The same, hashing the files and reading their EXIF included."""
    paths = [path for path, _ in answers]
    with tempfile.TemporaryDirectory() as folder:
        begin = core_seconds()
        report = update_index(Path(folder) / "index", paths, Replaying(answers))
        taken = core_seconds() - begin
        return taken / report.photos, _bytes_in(Path(folder) / "index") / report.photos


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(name: str, paths: Sequence[Path], workers: bulk.Workers, count: int) -> None:
    alone, by = WORKS[name]()
    list(alone(paths[:2]))
    by_workers = by(workers)
    list(by_workers(paths[: bulk.PART * count]))  # every worker opens its models
    one, many, answers = Pace(), Pace(), []
    step = 2 * count * bulk.PART  # as much for each worker, and both ways in turn, since machines have moods
    for begin in range(0, len(paths), step):
        pace, found = paced(alone, paths[begin : begin + step])
        one, answers = one + pace, answers + found
        many += paced(by_workers, paths[begin : begin + step])[0]
    rates = [pace.photos / seconds for pace in (one, many) for seconds in (pace.core_s, pace.clock_s)]
    print(
        f"{name:9} one process: {rates[0]:6.2f} core {rates[1]:6.2f} clock   "
        f"{count} workers: {rates[2]:6.2f} core {rates[3]:6.2f} clock   ×{rates[3] / rates[1]:.2f}",
        flush=True,
    )
    writes = {"features": written_features, "index": written_index}.get(name)
    taken, size = writes(answers) if writes else (0.0, 0.0)
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
    parser.add_argument("--count", type=int, default=512, help="photos to measure with")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--part", type=int, default=bulk.PART, help="photos handed to a worker at once")
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    paths = find_photos(asked.photos)[: asked.count]
    bulk.PART = asked.part
    mean = sum(path.stat().st_size for path in paths) / len(paths)
    print(f"{len(paths)} photos of {mean / 1000:,.0f} kB, {psutil.cpu_count()} cores")
    with ExitStack() as held:
        workers = held.enter_context(bulk.open_workers(f"local:{asked.workers}", partial(print, flush=True)))
        for name in asked.only:
            measured(name, paths, workers, asked.workers)


if __name__ == "__main__":
    main()
