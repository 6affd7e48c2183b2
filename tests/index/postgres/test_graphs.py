"""Searching by graphs: asked for, used, nearly as good, and given up again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.index import PhotoIndex, Seen, Where, records, update_index
from deixis.index.about import About
from deixis.index.exif import Taken
from deixis.index.postgres.address import read_address
from deixis.index.postgres.connection import WholeVector, connect
from deixis.index.postgres.graphs import search_by_graphs
from deixis.index.postgres.writer import opened_database
from deixis.index.walking import FoundFile
from tests.index.fakes import ColourSeer, photo

DIMENSION, REGION_DIMENSION, PHOTOS, EACH = 24, 12, 400, 5


def unit(count: int, dimension: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.fixture
def filled(address: str) -> str:
    wholes, regions = unit(PHOTOS, DIMENSION, 0), unit(PHOTOS * EACH, REGION_DIMENSION, 1).reshape(PHOTOS, EACH, -1)
    boxes = np.tile(np.array([[0, 0, 9, 9]], dtype=np.float32), (EACH, 1))
    with opened_database(address, About("", "f", DIMENSION, REGION_DIMENSION)) as writer:
        writer.begin()
        for number in range(PHOTOS):
            seen = Seen(wholes[number], 9, 9, boxes, regions[number])
            file = FoundFile(Path(f"/p/{number}.jpg"), 1, 1)
            records.add_photo(writer.connection, file, bytes(32), Taken(number), seen)
        writer.commit()
        writer.finish()
    return address


def by_graph(place: str) -> str:
    """The same index for somebody whose server follows a graph wherever it can, though it is small."""
    return f"{place}&options=-cenable_seqscan%3Doff%20-cenable_sort%3Doff%20-chnsw.max_scan_tuples%3D1"


def found(place: str) -> tuple[list[list[int]], list[list[int]]]:
    with PhotoIndex(place) as index:
        whole = [[match.id for match in index.search(query)] for query in unit(20, DIMENSION, 5)]
        inside = [[match.id for match in index.search_regions(query)] for query in unit(20, REGION_DIMENSION, 6)]
    return whole, inside


def plan(place: str) -> str:
    connection = connect(read_address(by_graph(place)))
    with closing(connection.raw):
        query = "EXPLAIN SELECT whole <#> ? AS away, photo FROM vectors ORDER BY away LIMIT 10"
        rows = connection.execute(query, [WholeVector(unit(1, DIMENSION, 5)[0])])
        return "\n".join(row[0].split("(")[0] for row in rows)


def test_graphs_find_nearly_what_an_exact_search_finds(filled: str) -> None:
    exact = found(filled)
    search_by_graphs(filled, True)
    assert "vectors_graph" in plan(filled)
    for best, nearly in zip(exact, found(by_graph(filled)), strict=True):
        shared = [len(set(one) & set(other)) / 10 for one, other in zip(best, nearly, strict=True)]
        assert np.mean(shared) >= 0.95
    search_by_graphs(filled, False)
    assert "vectors_graph" not in plan(filled)
    assert found(filled) == exact


def test_more_than_a_graph_looks_at_together_is_found_too(filled: str) -> None:
    search_by_graphs(filled, True)
    patient = by_graph(filled).replace("max_scan_tuples%3D1", "max_scan_tuples%3D20000")
    with PhotoIndex(patient) as index:
        assert len(index.nearest(unit(1, DIMENSION, 5)[0], 1000)) == PHOTOS
        assert len(index.nearest_by_regions(unit(1, REGION_DIMENSION, 5)[0], shortlist=3000)) == PHOTOS


def test_with_filters_all_that_pass_are_looked_at(filled: str) -> None:
    search_by_graphs(filled, True)
    query, late = unit(1, DIMENSION, 5)[0], Where(after="1970-01-01 00:06")
    scores = unit(PHOTOS, DIMENSION, 0)[360:] @ query
    with PhotoIndex(by_graph(filled)) as index:
        assert len(index.search(query, 400, where=Where(after="1970"))) == 400
        assert len(index.search(query, 400)) == 400
        found = index.search(query, 400, where=late)
        assert len(index.search_regions(unit(1, REGION_DIMENSION, 5)[0], 400, where=late)) == 40
    assert [match.id - 361 for match in found] == np.argsort(-scores).tolist()


def test_photos_that_come_later_are_found(filled: str, tmp_path: Path, address: str) -> None:
    search_by_graphs(filled, True)
    new = unit(1, DIMENSION, 77)[0]
    with opened_database(filled, About("", "f", DIMENSION, REGION_DIMENSION)) as writer:
        writer.begin()
        records.add_photo(writer.connection, FoundFile(Path("/p/new.jpg"), 1, 1), bytes(32), Taken(), Seen(new, 9, 9))
        writer.commit()
    with PhotoIndex(filled) as index:
        assert index.search(new, 1)[0].path == Path("/p/new.jpg")


def test_a_rebuild_is_exact_again(address: str, tmp_path: Path) -> None:
    photo(tmp_path / "photos" / "a.png", 1)
    update_index(address, [tmp_path / "photos"], ColourSeer())
    search_by_graphs(address, True)
    update_index(address, [tmp_path / "photos"], ColourSeer(), rebuild=True)
    with PhotoIndex(address) as index:
        assert len(index.search(index.vector_of(1))) == 1


def test_where_no_graph_can_be_it_is_one_line(address: str, tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="not an index of photos"):
        search_by_graphs(address, True)
    (tmp_path / "photos").mkdir()
    update_index(address, [tmp_path / "photos"], ColourSeer(dimension=2001))
    with pytest.raises(DeixisError, match="more than 2,000 numbers, too many for a graph$"):
        search_by_graphs(address, True)
