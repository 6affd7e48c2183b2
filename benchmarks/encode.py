"""Compare the speed of encoding photos from files with that of the network alone.

    DEIXIS_DATA=FOLDER python benchmarks/encode.py --encoder deixis --photos 64 --rounds 7
    DEIXIS_DATA=FOLDER python benchmarks/encode.py --encoder efficientnet-lite2 --photos 32

Reads the first photos of $DEIXIS_DATA/flickr8k/Images. The network alone, on decoded and resized photos, and
`encode_photos`, from files, are timed in turns. Prints medians, the overhead of reading (it must be below 15 %) in wall
and CPU time, and the peak memory of two processes, one with four times as many photos as the other.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from deixis.data.images import find_photos, open_photo
from deixis.vision.encoder import ImageEncoder, encode_photos
from deixis.vision.encoders import open_encoder

OVERHEAD = 0.15
GROWTH = 1.05


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - cpu


def compare(encoder: ImageEncoder, paths: list[Path], batch: int, readers: int, rounds: int) -> bool:
    ready = [encoder.prepare(open_photo(path)) for path in paths]

    def bare() -> None:
        for start in range(0, len(ready), batch):
            encoder.encode_prepared(ready[start : start + batch])

    def from_files() -> None:
        for _ in encode_photos(encoder, paths, batch, readers):
            pass

    bare()
    alone, whole = [], []
    for _ in range(rounds):
        alone.append(timed(bare))
        whole.append(timed(from_files))
    (bare_clock, bare_cpu), (clock, cpu) = (
        tuple(median(values) for values in zip(*times, strict=True)) for times in (alone, whole)
    )
    ratio = median(b[0] / a[0] for a, b in zip(alone, whole, strict=True))
    photos = len(paths)
    print(f"{encoder.name}, {photos} photos, batches of {batch}, {readers} readers, {rounds} rounds")
    print(f"  network alone:   {photos / bare_clock:6.1f} photos/s, {1000 * bare_cpu / photos:5.0f} ms CPU per photo")
    print(f"  from files:      {photos / clock:6.1f} photos/s, {1000 * cpu / photos:5.0f} ms CPU per photo")
    print(f"  on top in wall time: {100 * (ratio - 1):.1f} % (median of pairs), ", end="")
    print(f"in CPU time {100 * (cpu / bare_cpu - 1):.1f} %")
    return ratio - 1 < OVERHEAD


def peak_mb(arguments: argparse.Namespace, photos: int) -> float:
    """Peak memory of a process that encodes a number of photos."""
    command = [sys.executable, __file__, "--encoder", arguments.encoder, "--batch", str(arguments.batch)]
    command += ["--readers", str(arguments.readers), "--only-memory", str(photos)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def first_photos(number: int) -> list[Path]:
    """The first photos, repeated if there are fewer."""
    folder = os.environ.get("DEIXIS_DATA")
    if not folder:
        sys.exit("DEIXIS_DATA is not set: no photos to encode")
    found = find_photos(Path(folder) / "flickr8k" / "Images")
    return [found[index % len(found)] for index in range(number)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--encoder", default="deixis")
    parser.add_argument("--photos", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--only-memory", type=int, metavar="PHOTOS", help="only print the peak memory")
    arguments = parser.parse_args()
    encoder = open_encoder(arguments.encoder)
    if arguments.only_memory:
        for _ in encode_photos(encoder, first_photos(arguments.only_memory), arguments.batch, arguments.readers):
            pass
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    paths = first_photos(arguments.photos)
    quick = compare(encoder, paths, arguments.batch, arguments.readers, arguments.rounds)
    few, many = (peak_mb(arguments, times * arguments.photos) for times in (1, 4))
    print(f"  peak memory: {few:.0f} MB for {arguments.photos} photos, {many:.0f} MB for {4 * arguments.photos}")
    flat = many < GROWTH * few
    print(f"  within the limits: overhead {'yes' if quick else 'NO'}, memory {'yes' if flat else 'NO'}")
    sys.exit(0 if quick and flat else 1)


if __name__ == "__main__":
    main()
