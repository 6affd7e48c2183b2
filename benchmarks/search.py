"""Search in an index of photos compared with faiss flat and LanceDB, recall of the region codes, and indexing speed.

    python benchmarks/search.py [--photos 100000 1000000] [--dimension 512] [--queries 30] [--peers PYTHON]
    python benchmarks/search.py --regions 20 --photos 100000 [--region-dimension 193]
    python benchmarks/search.py --regions 20 --photos 6500 --vectors FILE.npy --query-vectors FILE.npy
    python benchmarks/search.py --regions 20 --photos 100000 --sentence "two dogs in the snow"
    python benchmarks/search.py --fill FOLDER [--photos 200]

Peers are installed in a separate environment, so that deixis does not depend on them:

    peers=$(mktemp -d) && python3 -m venv $peers && $peers/bin/pip install faiss-cpu lancedb
    python benchmarks/search.py --peers $peers/bin/python

An index of synthetic vectors is made in a temporary directory. Our time is that of a snapshot and its `search`, from
the query vector to paths of photos. Each peer holds the same vectors in its own process, answers one query at a time
and measures its own time. All take turns with the same queries, and must find the same ten photos. CPU time adds up the
threads and is more reliable than wall time on a busy machine.

With --regions, that number of regions per photo is searched too and compared with exact search. Their vectors are those
of --vectors, or random with the spectrum of embedded regions; --flat gives them a flat spectrum, the worst case for the
codes. Memory is that of the process without and with mapped files (Linux only).

With --sentence the same index is also searched by `PhotoCollection.search`: the sentence is parsed, photos and regions
are searched for the sentence and each of its phrases, a few hundred photos are scored in detail, calibrated and
grouped. The regions then have the dimension of the shipped model.

With --fill the first photos of a folder are encoded only, and indexed, in turns: this gives the cost of everything else
(regions, thumbnails, hashes, EXIF, commits) relative to the encoder.
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

from deixis.search.index import IndexInfo, PhotoIndex, PhotoVectors
from deixis.search.index.matrix import update_cache
from deixis.search.index.photo_files import ExifInfo, FileState
from deixis.search.index.records import add_photo
from deixis.search.index.sqlite import connect_writer, create_database

if TYPE_CHECKING:
    from deixis.search.encoder import SearchEncoder

TOP = 10
PEERS = ("faiss", "faiss on all cores", "lancedb")

PEER = r"""
import json, sys, time
import numpy as np
name, vectors, queries, folder = sys.argv[1:]
vectors, queries = np.load(vectors, mmap_mode="r"), np.load(queries)
if name.startswith("faiss"):
    import faiss, os
    # faiss runs one query on one core, so the vectors are split into one index per core.
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
    """Yield blocks of unit vectors; unless flat, half of their squared length is along 1/15 of the axes."""
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
    """Make an index of synthetic photos; row i is photo i + 1."""
    create_database(folder, IndexInfo("", fingerprint, whole.shape[1], region_dimension))
    with closing(connect_writer(folder)) as connection:
        for begin in range(0, len(whole), 1000):
            connection.execute("BEGIN")
            for number, vector in enumerate(whole[begin : begin + 1000], start=begin):
                file = FileState(Path(f"/photos/{number // 1000:04}/{number:07}.jpg"), 1, 1)
                photo_vectors = PhotoVectors(vector, 640, 480)
                if regions is not None:
                    vectors = next(regions)
                    boxes = np.tile(np.array([[0, 0, 9, 9]], np.float32), (len(vectors), 1))
                    photo_vectors = PhotoVectors(vector, 640, 480, boxes, vectors)
                add_photo(connection, file, number.to_bytes(32, "big"), ExifInfo(1_600_000_000 + number), photo_vectors)
            connection.execute("COMMIT")
        assert update_cache(folder, connection)


class Timed(NamedTuple):
    wall_s: float
    cpu_s: float
    found: list[int]


class Peer:
    """A peer in its own process."""

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
    query_vectors = next(random_vectors(arguments.queries + 2, arguments.dimension, seed=2))
    np.save(queries, query_vectors)
    make_index(folder / "index", whole, None)
    begin = time.perf_counter()
    index = PhotoIndex(folder / "index")
    print(f"\n{photos:,} × {arguments.dimension}; opened and checked in {1e3 * (time.perf_counter() - begin):.0f} ms")

    def ours(query: int) -> Timed:
        wall, processor = time.perf_counter(), time.process_time()
        with index.snapshot() as snapshot:
            numbers = snapshot.nearest(query_vectors[query], TOP)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        return Timed(wall, processor, (numbers - 1).tolist())

    names = PEERS if arguments.peers else ()
    started = [Peer(arguments.peers, name, vectors, queries, folder) for name in names]
    peers = [peer for peer in started if peer.is_there]
    for peer in started:
        if not peer.is_there:
            print(f"  {peer.name} did not start: left out")
    works: dict[str, Callable[[int], Timed]] = {"deixis": ours, **{peer.name: peer for peer in peers}}
    runs: dict[str, list[Timed]] = {name: [] for name in works}
    for query in range(len(query_vectors)):
        answers = {name: work(query) for name, work in works.items()}
        found = {name: set(answer.found) for name, answer in answers.items()}
        assert all(each == found["deixis"] for each in found.values()), f"query {query}: not the same photos"
        if query >= 2:  # the first two are the warm-up
            for name, answer in answers.items():
                runs[name].append(answer)
    print_runs(runs)
    for peer in started:
        peer.close()
    index.close()


def print_runs(runs: dict[str, list[Timed]]) -> None:
    """Print medians, and their ratios to the first."""
    figures = {}
    for name, timed in runs.items():
        wall, cpu = ([1e3 * each[column] for each in timed] for column in (0, 1))
        figures[name] = (float(np.median(wall)), min(wall), float(np.median(cpu)))
    first = next(iter(figures.values()))
    print(f"  {'':20} {'wall, median':>14} {'best':>9} {'CPU':>11}   relative to the first")
    for name, of_it in figures.items():
        ratios = " ".join(f"{each / own:6.2f}" for each, own in zip(of_it, first, strict=True))
        print(f"  {name:20} {of_it[0]:11.1f} ms {of_it[1]:6.1f} ms {of_it[2]:8.1f} ms   {ratios}", flush=True)


def compare_regions(arguments: argparse.Namespace, folder: Path) -> None:
    encoder = None
    if arguments.sentence:
        from deixis.search.collection import search_encoder
        from deixis.search.encoder import PHOTO_MODEL

        encoder = search_encoder(PHOTO_MODEL)
        arguments.dimension, arguments.region_dimension = encoder.dimension, encoder.region_dimension
    photos, each = arguments.photos[0], arguments.regions
    whole_dimension = arguments.dimension
    if arguments.vectors:
        vectors = np.load(arguments.vectors, mmap_mode="r")
        photos = min(photos, len(vectors) // each)
        blocks = (vectors[row * each : row * each + each].astype(np.float32) for row in range(photos))
        query_vectors = np.load(arguments.query_vectors)[: arguments.queries].astype(np.float32)
    else:
        many = random_vectors(photos * each, arguments.region_dimension, arguments.flat, seed=3)
        blocks = (part for block in many for part in np.split(block, len(block) // each))
        query_vectors = next(random_vectors(arguments.queries, arguments.region_dimension, arguments.flat, seed=4))
    dimension = query_vectors.shape[1]
    whole = np.concatenate(list(random_vectors(photos, whole_dimension)))
    photo_queries = next(random_vectors(len(query_vectors), whole_dimension, seed=5))
    begin = time.perf_counter()
    make_index(folder / "index", whole, blocks, dimension, encoder.fingerprint if encoder else "benchmark")
    made = time.perf_counter() - begin
    del whole
    begin = time.perf_counter()
    index = PhotoIndex(folder / "index")
    opened = 1e3 * (time.perf_counter() - begin)
    print(f"\n{photos:,} photos × {each} regions × {dimension}; made in {made:.0f} s, opened in {opened:.0f} ms")
    with index.snapshot() as snapshot:
        snapshot.nearest_by_regions(query_vectors[0])
    runs: dict[str, list[Timed]] = {"whole photos": [], "regions": []}
    for of_whole, of_regions in zip(photo_queries, query_vectors, strict=True):
        for name, query in (("whole photos", of_whole), ("regions", of_regions)):
            wall, processor = time.perf_counter(), time.process_time()
            with index.snapshot() as snapshot:
                if name == "regions":
                    numbers = snapshot.nearest_by_regions(query)[:TOP]
                else:
                    numbers = snapshot.nearest(query, TOP)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            runs[name].append(Timed(wall, processor, numbers.tolist()))
    anonymous, all_of_it = held_mb()
    truths = exact_regions(index, query_vectors)
    shared = [len(set(run.found) & truth) / TOP for run, truth in zip(runs["regions"], truths, strict=True)]
    print_runs(runs)
    print(
        f"  recall@{TOP} of exact search {np.mean(shared):.4f}, {len(query_vectors)} queries, worst {min(shared):.2f}"
    )
    print(f"  memory {anonymous:.0f} MB anonymous, {all_of_it:.0f} MB with mapped files")
    index.close()
    if encoder:
        search_by_sentence(folder / "index", encoder, arguments)


def search_by_sentence(index: Path, encoder: SearchEncoder, arguments: argparse.Namespace) -> None:
    """Time a search from the sentence to its results, and the encoding of the sentence alone."""
    from deixis.search.collection import PhotoCollection

    runs: dict[str, list[Timed]] = {"reading it": [], "the whole search": []}
    with PhotoCollection(index, encoder) as photos:
        photos.search(arguments.sentence, everything=True)
        for _ in range(arguments.queries):
            for name, work in (
                ("reading it", lambda: encoder.encode_sentence(arguments.sentence)),
                ("the whole search", lambda: photos.search(arguments.sentence, everything=True)),
            ):
                wall, processor = time.perf_counter(), time.process_time()
                work()
                runs[name].append(Timed(time.perf_counter() - wall, time.process_time() - processor, []))
    print(f"\n  {arguments.sentence!r}, {len(encoder.encode_sentence(arguments.sentence).phrases)} phrases:")
    print_runs(runs)
    anonymous, all_of_it = held_mb()
    print(f"  memory with the models {anonymous:.0f} MB anonymous, {all_of_it:.0f} MB with mapped files")


def exact_regions(index: PhotoIndex, query_vectors: np.ndarray) -> list[set[int]]:
    """Return the photos of the best regions, by exact search over all stored vectors."""
    best = np.empty((len(query_vectors), len(index)), dtype=np.float32)
    with index.snapshot() as snapshot:
        numbers = snapshot.numbers()
        for some in np.split(numbers, range(1000, len(numbers), 1000)):
            for number, (_, vectors) in snapshot.regions_of_all(some.tolist()).items():
                best[:, number - 1] = (query_vectors @ vectors.astype(np.float32).T).max(axis=1)
    return [set((np.argsort(-scores, kind="stable")[:TOP] + 1).tolist()) for scores in best]


def held_mb() -> tuple[float, float]:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    held = {line.split(":")[0]: float(line.split()[1]) / 1024 for line in lines if line.startswith("Rss")}
    return held.get("RssAnon", float("nan")), sum(held.values()) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def compare_filling(arguments: argparse.Namespace, folder: Path) -> None:
    """Time the encoder alone and `deixis index` on the same photos, in turns."""
    from threadpoolctl import threadpool_limits

    from deixis.data.images import find_photos
    from deixis.search.collection import search_encoder
    from deixis.search.encoder import PHOTO_MODEL
    from deixis.search.index import update_index
    from deixis.vision.encoder import encode_photos

    paths = find_photos(Path(arguments.fill))[: arguments.photos[0]]
    search_encoder = search_encoder(PHOTO_MODEL)
    encoder = search_encoder.region_model.image_encoder

    def index(part: list[Path], number: int) -> None:
        with threadpool_limits(1, user_api="blas"):  # as in the command
            update_index(folder / f"index-{number}", part, search_encoder)

    works: dict[str, Callable[[list[Path], int], object]] = {
        "encoder alone": lambda part, _: sum(1 for _ in encode_photos(encoder, part)),
        "deixis index": index,
    }
    parts = [paths[begin : begin + 40] for begin in range(0, len(paths), 40)]
    for work in works.values():
        work(paths[:16], -1)  # warm-up
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
    parser.add_argument("--peers", help="Python interpreter of an environment with faiss and lancedb")
    parser.add_argument("--regions", type=int, default=0, help="search regions instead: number of regions per photo")
    parser.add_argument("--vectors", help="region vectors to use instead of random ones, .npy")
    parser.add_argument("--query-vectors", help="query vectors for --vectors, .npy")
    parser.add_argument("--flat", action="store_true", help="random regions with a flat spectrum")
    parser.add_argument("--region-dimension", type=int, default=512)
    parser.add_argument("--sentence", help="also search for this sentence with the shipped models")
    parser.add_argument("--fill", help="measure indexing of this folder of photos")
    arguments = parser.parse_args()
    if arguments.fill:
        arguments.photos = arguments.photos if len(arguments.photos) == 1 else [200]
        with tempfile.TemporaryDirectory() as folder:
            compare_filling(arguments, Path(folder))
        return
    if not arguments.peers and not arguments.regions:
        print("without peers: the docstring of this file describes how to install them", file=sys.stderr)
    for photos in arguments.photos[:1] if arguments.regions else arguments.photos:
        with tempfile.TemporaryDirectory() as folder:
            if arguments.regions:
                compare_regions(arguments, Path(folder))
            else:
                compare_whole(photos, arguments, Path(folder))


if __name__ == "__main__":
    main()
