"""Searching an index of photos: ours beside faiss flat and LanceDB, regions with what their codes lose, and filling it.

    python benchmarks/search.py [--photos 100000 1000000] [--dimension 512] [--queries 30] [--peers PYTHON]
    python benchmarks/search.py --regions 20 --photos 100000 [--region-dimension 193]
    python benchmarks/search.py --regions 20 --photos 6500 --vectors FILE.npy --asked FILE.npy
    python benchmarks/search.py --regions 20 --photos 100000 --sentence "two dogs in the snow"
    python benchmarks/search.py --fill FOLDER [--photos 200]

Peers live in an environment of their own, so that ours does not depend on them:

    peers=$(mktemp -d) && python3 -m venv $peers && $peers/bin/pip install faiss-cpu lancedb
    python benchmarks/search.py --peers $peers/bin/python

An index is made in a temporary directory with vectors that a model could have given, and opened as users open it; ours
is `PhotoIndex.search` whole, from the query's vector to paths of photos. Each peer holds the same vectors in a process
of its own, which answers one query at a time and times itself. All take turns with the same queries, and must find the
same ten photos. Wall time is what a person waits; processor time adds up the threads and is the steadier figure on a
busy machine.

With --regions so many regions a photo are searched too, and compared with the exact answer of a plain product. Their
vectors are random with lengths along their axes that fall as those of embedded regions do, or those of --vectors; with
--flat they fall not at all, which is the worst that codes can meet. Memory is what the process holds beyond the files
that it has mapped, and with them (Linux only).

With --sentence the same index is also searched as people do, by `PhotoCollection.search`: the sentence read, photos and
regions searched for the whole of it and for each of its phrases, a few hundred photos looked at closely, probabilities,
groups. The regions then have as many numbers as those of the shipped model.

With --fill the first photos of a folder go through the encoder alone, and into an index, in turns: what all else costs
(regions, thumbnails, hashes, EXIF, commits), as a share of the encoder's time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deixis.index import PhotoIndex, Seen
from deixis.index.cache import bring_up_to_date
from deixis.index.database import make_database, open_to_write
from deixis.index.exif import Taken
from deixis.index.records import add_photo
from deixis.index.walking import FoundFile

if TYPE_CHECKING:
    from deixis.tasks.search.seeing import Seer

TOP = 10
PEERS = ("faiss", "faiss on all cores", "lancedb")

PEER = r"""
import json, sys, time
import numpy as np
name, vectors, queries, folder = sys.argv[1:]
vectors, queries = np.load(vectors, mmap_mode="r"), np.load(queries)
if name.startswith("faiss"):
    import faiss, os
    # One query runs on one core, so for more of them the vectors are split among as many indexes.
    cores = os.cpu_count() if "cores" in name else 1
    index = faiss.IndexShards(vectors.shape[1], True, True)
    for part in np.array_split(np.arange(len(vectors)), cores):
        shard = faiss.IndexFlatIP(vectors.shape[1])
        for begin in range(part[0], part[-1] + 1, 100_000):
            shard.add(np.ascontiguousarray(vectors[begin:min(begin + 100_000, part[-1] + 1)]))
        index.add_shard(shard)
    index = index if cores > 1 else shard
    ask = lambda query: index.search(query[None], 10)[1][0].tolist()
else:
    import lancedb, pyarrow as pa
    kind = pa.list_(pa.float32(), vectors.shape[1])
    schema = pa.schema([("id", pa.int64()), ("vector", kind)])
    def batches():
        for begin in range(0, len(vectors), 20_000):
            block = np.ascontiguousarray(vectors[begin:begin + 20_000])
            column = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), vectors.shape[1])
            ids = pa.array(np.arange(begin, begin + len(block)))
            yield pa.record_batch([ids, column.cast(kind)], schema=schema)
    table = lancedb.connect(folder).create_table("photos", batches(), schema=schema)
    search = lambda query: table.search(query).distance_type("dot").select(["id", "_distance"]).limit(10)
    ask = lambda query: search(query).to_arrow()["id"].to_pylist()
print("ready", flush=True)
for line in sys.stdin:
    query = queries[int(line)]
    wall, processor = time.perf_counter(), time.process_time()
    found = ask(query)
    print(json.dumps([time.perf_counter() - wall, time.process_time() - processor, found]), flush=True)
"""


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def random_vectors(count: int, dimension: int, flat: bool = False, seed: int = 0) -> Iterator[np.ndarray]:
    """Blocks of unit vectors; half of their squared length lies along a fifteenth of the axes, unless flat."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((dimension, dimension)))[0].astype(np.float32)
    lengths = np.ones(dimension) if flat else 1 / (1 + np.arange(dimension) / (dimension / 16))
    mixing = (lengths[:, None] * turn).astype(np.float32)
    for begin in range(0, count, 10_000):
        size = min(10_000, count - begin)
        yield unit(rng.standard_normal((size, dimension), dtype=np.float32) @ mixing)


def make_index(
    folder: Path,
    whole: np.ndarray,
    regions: Iterator[np.ndarray] | None,
    region_dimension: int = 1,
    fingerprint: str = "benchmark",
) -> None:
    """An index of photos that never were; row i is photo i + 1."""
    make_database(folder, fingerprint, whole.shape[1], region_dimension)
    with closing(open_to_write(folder)) as connection:
        for begin in range(0, len(whole), 1000):
            connection.execute("BEGIN")
            for number, vector in enumerate(whole[begin : begin + 1000], start=begin):
                file = FoundFile(Path(f"/photos/{number // 1000:04}/{number:07}.jpg"), 1, 1)
                seen = Seen(vector, 640, 480)
                if regions is not None:
                    vectors = next(regions)
                    boxes = np.tile(np.array([[0, 0, 9, 9]], np.float32), (len(vectors), 1))
                    seen = Seen(vector, 640, 480, boxes, vectors)
                add_photo(connection, file, number.to_bytes(32, "big"), Taken(1_600_000_000 + number), seen)
            connection.execute("COMMIT")
        assert bring_up_to_date(folder, connection)


class Timed(NamedTuple):
    wall_s: float
    cpu_s: float
    found: list[int]


class Peer:
    """A peer in a process of its own."""

    def __init__(self, python: str, name: str, vectors: Path, queries: Path, folder: Path) -> None:
        self.name = name
        command = [python, "-c", PEER, name, str(vectors), str(queries), str(folder / name.replace(" ", "-"))]
        quiet = {**os.environ, "RUST_LOG": "error"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=quiet)
        assert self.process.stdout is not None
        self.is_there = self.process.stdout.readline().strip() == "ready"

    def __call__(self, query: int) -> Timed:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(query, file=self.process.stdin, flush=True)
        return Timed(*json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def compare_whole(photos: int, arguments: argparse.Namespace, folder: Path) -> None:
    vectors, queries = folder / "vectors.npy", folder / "queries.npy"
    whole = np.lib.format.open_memmap(vectors, "w+", np.float32, (photos, arguments.dimension))
    for number, block in enumerate(random_vectors(photos, arguments.dimension)):
        whole[number * 10_000 : number * 10_000 + len(block)] = block
    whole.flush()
    asked = next(random_vectors(arguments.queries + 2, arguments.dimension, seed=2))
    np.save(queries, asked)
    make_index(folder / "index", whole, None)
    begin = time.perf_counter()
    index = PhotoIndex(folder / "index")
    print(f"\n{photos:,} × {arguments.dimension}; opened and checked in {1e3 * (time.perf_counter() - begin):.0f} ms")

    def ours(query: int) -> Timed:
        wall, processor = time.perf_counter(), time.process_time()
        matches = index.search(asked[query], TOP)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        return Timed(wall, processor, [match.id - 1 for match in matches])

    names = PEERS if arguments.peers else ()
    started = [Peer(arguments.peers, name, vectors, queries, folder) for name in names]
    peers = [peer for peer in started if peer.is_there]
    for peer in started:
        if not peer.is_there:
            print(f"  {peer.name} did not start: left out")
    works: dict[str, Callable[[int], Timed]] = {"deixis": ours, **{peer.name: peer for peer in peers}}
    runs: dict[str, list[Timed]] = {name: [] for name in works}
    for query in range(len(asked)):
        answers = {name: work(query) for name, work in works.items()}
        found = {name: set(answer.found) for name, answer in answers.items()}
        assert all(each == found["deixis"] for each in found.values()), f"query {query}: not the same photos"
        if query >= 2:  # the first two warm up
            for name, answer in answers.items():
                runs[name].append(answer)
    print_runs(runs)
    for peer in started:
        peer.close()
    index.close()


def print_runs(runs: dict[str, list[Timed]]) -> None:
    """Medians, each also as a multiple of the first one's."""
    figures = {}
    for name, timed in runs.items():
        wall, cpu = ([1e3 * each[column] for each in timed] for column in (0, 1))
        figures[name] = (float(np.median(wall)), min(wall), float(np.median(cpu)))
    first = next(iter(figures.values()))
    print(f"  {'':20} {'wall, median':>14} {'best':>9} {'processor':>11}   as multiples of the first")
    for name, of_it in figures.items():
        ratios = " ".join(f"{each / own:6.2f}" for each, own in zip(of_it, first, strict=True))
        print(f"  {name:20} {of_it[0]:11.1f} ms {of_it[1]:6.1f} ms {of_it[2]:8.1f} ms   {ratios}", flush=True)


def compare_regions(arguments: argparse.Namespace, folder: Path) -> None:
    seer = None
    if arguments.sentence:
        from deixis.tasks.search.searching import shipped_seer

        seer = shipped_seer()
        arguments.dimension, arguments.region_dimension = seer.dimension, seer.region_dimension
    photos, each = arguments.photos[0], arguments.regions
    whole_dimension = arguments.dimension
    if arguments.vectors:
        given = np.load(arguments.vectors, mmap_mode="r")
        photos = min(photos, len(given) // each)
        blocks = (given[row * each : row * each + each].astype(np.float32) for row in range(photos))
        asked = np.load(arguments.asked)[: arguments.queries].astype(np.float32)
    else:
        many = random_vectors(photos * each, arguments.region_dimension, arguments.flat, seed=3)
        blocks = (part for block in many for part in np.split(block, len(block) // each))
        asked = next(random_vectors(arguments.queries, arguments.region_dimension, arguments.flat, seed=4))
    dimension = asked.shape[1]
    whole = np.concatenate(list(random_vectors(photos, whole_dimension)))
    asked_whole = next(random_vectors(len(asked), whole_dimension, seed=5))
    begin = time.perf_counter()
    make_index(folder / "index", whole, blocks, dimension, seer.fingerprint if seer else "benchmark")
    made = time.perf_counter() - begin
    del whole
    begin = time.perf_counter()
    index = PhotoIndex(folder / "index")
    opened = 1e3 * (time.perf_counter() - begin)
    print(f"\n{photos:,} photos × {each} regions × {dimension}; made in {made:.0f} s, opened in {opened:.0f} ms")
    index.search_regions(asked[0], TOP)
    runs: dict[str, list[Timed]] = {"whole photos": [], "regions": []}
    for of_whole, of_regions in zip(asked_whole, asked, strict=True):
        for name, search, query in (
            ("whole photos", index.search, of_whole),
            ("regions", index.search_regions, of_regions),
        ):
            wall, processor = time.perf_counter(), time.process_time()
            matches = search(query, TOP)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            runs[name].append(Timed(wall, processor, [match.id for match in matches]))
    anonymous, all_of_it = held_mb()
    truths = exact_regions(index, asked)
    shared = [len(set(run.found) & truth) / TOP for run, truth in zip(runs["regions"], truths, strict=True)]
    print_runs(runs)
    print(
        f"  recall@{TOP} of the exact answer {np.mean(shared):.4f} over {len(asked)} queries, worst {min(shared):.2f}"
    )
    print(f"  memory {anonymous:.0f} MB of its own, {all_of_it:.0f} MB with mapped files")
    index.close()
    if seer:
        search_as_people_do(folder / "index", seer, arguments)


def search_as_people_do(index: Path, seer: Seer, arguments: argparse.Namespace) -> None:
    """A sentence, from the words to hits; and how much of that is reading it."""
    from deixis.tasks.search.searching import PhotoCollection

    runs: dict[str, list[Timed]] = {"reading it": [], "the whole search": []}
    with PhotoCollection(index, seer) as photos:
        photos.search(arguments.sentence, everything=True)
        for _ in range(arguments.queries):
            for name, work in (
                ("reading it", lambda: seer.read(arguments.sentence)),
                ("the whole search", lambda: photos.search(arguments.sentence, everything=True)),
            ):
                wall, processor = time.perf_counter(), time.process_time()
                work()
                runs[name].append(Timed(time.perf_counter() - wall, time.process_time() - processor, []))
    print(f"\n  {arguments.sentence!r}, {len(seer.read(arguments.sentence).phrases)} phrases:")
    print_runs(runs)
    anonymous, all_of_it = held_mb()
    print(f"  memory with the models {anonymous:.0f} MB of its own, {all_of_it:.0f} MB with mapped files")


def exact_regions(index: PhotoIndex, asked: np.ndarray) -> list[set[int]]:
    """The photos of the best regions, by a plain product with every stored vector."""
    best = np.empty((len(asked), len(index)), dtype=np.float32)
    numbers = index.numbers()
    for some in np.split(numbers, range(1000, len(numbers), 1000)):
        for number, (_, vectors) in index.regions_of_all(some.tolist()).items():
            best[:, number - 1] = (asked @ vectors.astype(np.float32).T).max(axis=1)
    return [set((np.argsort(-scores, kind="stable")[:TOP] + 1).tolist()) for scores in best]


def held_mb() -> tuple[float, float]:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    held = {line.split(":")[0]: float(line.split()[1]) / 1024 for line in lines if line.startswith("Rss")}
    return held.get("RssAnon", float("nan")), sum(held.values()) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def compare_filling(arguments: argparse.Namespace, folder: Path) -> None:
    """The encoder alone, and `deixis index`, on the same photos in turns."""
    from threadpoolctl import threadpool_limits

    from deixis.data.images import find_photos
    from deixis.index import update_index
    from deixis.tasks.search.searching import shipped_seer
    from deixis.vision.reading import encode_photos

    paths = find_photos(Path(arguments.fill))[: arguments.photos[0]]
    seer = shipped_seer()
    encoder = seer.whole.image_encoder

    def index(part: list[Path], number: int) -> None:
        with threadpool_limits(1, user_api="blas"):  # as the command has it
            update_index(folder / f"index-{number}", part, seer)

    works: dict[str, Callable[[list[Path], int], object]] = {
        "encoder alone": lambda part, _: sum(1 for _ in encode_photos(encoder, part)),
        "deixis index": index,
    }
    parts = [paths[begin : begin + 40] for begin in range(0, len(paths), 40)]
    for work in works.values():
        work(paths[:16], -1)  # warms up
    runs: dict[str, list[Timed]] = {name: [] for name in works}
    for number, part in enumerate(parts):
        for name, work in works.items():
            wall, processor = time.perf_counter(), time.process_time()
            work(part, number)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            runs[name].append(Timed(wall / len(part), processor / len(part), []))
    print(f"\n{len(paths):,} photos, {len(parts)} parts; for one photo:")
    print_runs(runs)
    for column, what in enumerate(("wall", "processor")):
        alone, filling = (sum(timed[column] for timed in runs[name]) for name in works)
        print(f"  all parts, {what}: filling takes {filling / alone - 1:+.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--peers", help="a python that has faiss and lancedb")
    parser.add_argument("--regions", type=int, default=0, help="search so many regions a photo instead")
    parser.add_argument("--vectors", help="regions of your own, .npy")
    parser.add_argument("--asked", help="queries of your own, .npy")
    parser.add_argument("--flat", action="store_true", help="regions as different as can be")
    parser.add_argument("--region-dimension", type=int, default=512)
    parser.add_argument("--sentence", help="search for this as well, with the shipped models")
    parser.add_argument("--fill", help="a folder of photos to index")
    arguments = parser.parse_args()
    if arguments.fill:
        arguments.photos = arguments.photos if len(arguments.photos) == 1 else [200]
        with tempfile.TemporaryDirectory() as folder:
            compare_filling(arguments, Path(folder))
        return
    if not arguments.peers and not arguments.regions:
        print("without peers: see the beginning of this file for how to get them", file=sys.stderr)
    for photos in arguments.photos[:1] if arguments.regions else arguments.photos:
        with tempfile.TemporaryDirectory() as folder:
            if arguments.regions:
                compare_regions(arguments, Path(folder))
            else:
                compare_whole(photos, arguments, Path(folder))


if __name__ == "__main__":
    main()
