"""Approximate search by graphs in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pgvector import Vector

from deixis.errors import DeixisError
from deixis.search.index import PhotoFilter, PhotoVectors, records, update_index
from deixis.search.index.base import IndexInfo
from deixis.search.index.photo_files import ExifInfo, FileState
from deixis.search.index.postgres import connected, open_postgres_writer, parse_address, set_approximate
from tests.search.index.fakes import ColourEncoder, ReadIndex, photo

DIMENSION, REGION_DIMENSION, PHOTOS, EACH = 24, 12, 400, 5


def unit(count: int, dimension: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.fixture
def filled(address: str) -> str:
    photo_vectors, regions = (
        unit(PHOTOS, DIMENSION, 0),
        unit(PHOTOS * EACH, REGION_DIMENSION, 1).reshape(PHOTOS, EACH, -1),
    )
    boxes = np.tile(np.array([[0, 0, 9, 9]], dtype=np.float32), (EACH, 1))
    with open_postgres_writer(address, IndexInfo("", "f", DIMENSION, REGION_DIMENSION)) as writer:
        writer.begin()
        for number in range(PHOTOS):
            vectors = PhotoVectors(photo_vectors[number], 9, 9, boxes, regions[number])
            file = FileState(Path(f"/p/{number}.jpg"), 1, 1)
            records.add_photo(writer.connection, file, bytes(32), ExifInfo(number), vectors)
        writer.commit()
        writer.finish()
    return address


def by_graph(path: str) -> str:
    """The address of the same index with settings that make the server use graphs even if they are small."""
    return f"{path}&options=-cenable_seqscan%3Doff%20-cenable_sort%3Doff%20-chnsw.max_scan_tuples%3D1"


def found(path: str) -> tuple[list[list[int]], list[list[int]]]:
    with ReadIndex(path) as index:
        whole = [[match.photo.id for match in index.search(query)] for query in unit(20, DIMENSION, 5)]
        inside = [[match.photo.id for match in index.search_regions(query)] for query in unit(20, REGION_DIMENSION, 6)]
    return whole, inside


def plan(path: str) -> str:
    with connected(parse_address(by_graph(path))) as connection:
        query = "EXPLAIN SELECT whole <#> ? AS distance, photo FROM vectors ORDER BY distance LIMIT 10"
        rows = connection.execute(query, [Vector(unit(1, DIMENSION, 5)[0])])
        return "\n".join(row[0].split("(")[0] for row in rows)


def test_graphs_find_nearly_the_exact_results(filled: str) -> None:
    exact = found(filled)
    set_approximate(filled, True)
    assert "vectors_graph" in plan(filled)
    for best, nearly in zip(exact, found(by_graph(filled)), strict=True):
        shared = [len(set(one) & set(other)) / 10 for one, other in zip(best, nearly, strict=True)]
        assert np.mean(shared) >= 0.95
    set_approximate(filled, False)
    assert "vectors_graph" not in plan(filled)
    assert found(filled) == exact


@pytest.mark.slow
def test_graphs_find_more_than_their_number_of_candidates(filled: str) -> None:
    set_approximate(filled, True)
    patient = by_graph(filled).replace("max_scan_tuples%3D1", "max_scan_tuples%3D20000")
    with ReadIndex(patient) as index, index.snapshot() as snapshot:
        assert len(snapshot.nearest(unit(1, DIMENSION, 5)[0], 1000)) == PHOTOS
        assert len(snapshot.nearest_by_regions(unit(1, REGION_DIMENSION, 5)[0], shortlist=3000)) == PHOTOS


def test_searches_with_filters_are_exact(filled: str) -> None:
    set_approximate(filled, True)
    query, late = unit(1, DIMENSION, 5)[0], PhotoFilter(after="1970-01-01 00:06")
    scores = unit(PHOTOS, DIMENSION, 0)[360:] @ query
    with ReadIndex(by_graph(filled)) as index:
        assert len(index.search(query, 400, photo_filter=PhotoFilter(after="1970"))) == 400
        assert len(index.search(query, 400)) == 400
        found = index.search(query, 400, photo_filter=late)
        assert len(index.search_regions(unit(1, REGION_DIMENSION, 5)[0], 400, photo_filter=late)) == 40
    assert [match.photo.id - 361 for match in found] == np.argsort(-scores).tolist()


@pytest.mark.slow
def test_photos_added_later_are_found(filled: str, tmp_path: Path, address: str) -> None:
    set_approximate(filled, True)
    new = unit(1, DIMENSION, 77)[0]
    with open_postgres_writer(filled, IndexInfo("", "f", DIMENSION, REGION_DIMENSION)) as writer:
        writer.begin()
        records.add_photo(
            writer.connection, FileState(Path("/p/new.jpg"), 1, 1), bytes(32), ExifInfo(), PhotoVectors(new, 9, 9)
        )
        writer.commit()
    with ReadIndex(filled) as index:
        assert index.search(new, 1)[0].photo.path == Path("/p/new.jpg")


@pytest.mark.slow
def test_a_rebuild_is_exact_again(address: str, tmp_path: Path) -> None:
    photo(tmp_path / "photos" / "a.png", 1)
    update_index(address, [tmp_path / "photos"], ColourEncoder())
    set_approximate(address, True)
    update_index(address, [tmp_path / "photos"], ColourEncoder(), rebuild=True)
    with ReadIndex(address) as index:
        assert len(index.search(index.vector_of(1))) == 1


@pytest.mark.slow
def test_graphs_of_a_missing_index_or_long_vectors_are_errors(address: str, tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="not a photo index"):
        set_approximate(address, True)
    (tmp_path / "photos").mkdir()
    update_index(address, [tmp_path / "photos"], ColourEncoder(dimension=2001))
    with pytest.raises(DeixisError, match="2,000"):
        set_approximate(address, True)
