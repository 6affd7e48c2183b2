"""Regions: what the codes choose and the exact scores decide, beside a plain loop over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.index import Seen, records
from deixis.index.database import make_database, open_to_write
from deixis.index.exif import Taken
from deixis.index.regions import RankedRegions, best_regions
from deixis.index.snapshot import Snapshot, refreshed
from deixis.index.sqlite_connection import SqliteConnection
from deixis.index.walking import FoundFile

DIMENSION, PHOTOS, EACH = 96, 400, 6


def vectors(count: int, seed: int) -> np.ndarray:
    """They differ more along some axes than along others, as those of real regions do."""
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSION)) / (1 + np.arange(DIMENSION) / 8)
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Snapshot, SqliteConnection]]:
    folder = tmp_path_factory.mktemp("index")
    make_database(folder, "f", DIMENSION, DIMENSION)
    with closing(open_to_write(folder)) as connection:
        connection.execute("BEGIN")
        regions = vectors(PHOTOS * EACH, 0)
        for number in range(PHOTOS):
            here = regions[number * EACH : number * EACH + number % (EACH + 1)]  # some have none
            boxes = np.stack([[number, region, number + 1, region + 1] for region in range(len(here))] or [[0] * 4])
            seen = Seen(regions[number], 9, 9, boxes[: len(here)].astype(np.float32), here)
            records.add_photo(connection, FoundFile(Path(f"/p/{number}.jpg"), 1, 1), bytes(32), Taken(), seen)
        connection.execute("COMMIT")
        yield refreshed(folder, connection, None), connection


def ranked(
    opened: tuple[Snapshot, SqliteConnection], query: np.ndarray, allowed: np.ndarray, shortlist: int
) -> RankedRegions:
    def read_regions(numbers: list[int]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        return opened[1].regions_of(numbers, DIMENSION)

    return best_regions(opened[0], read_regions, query, allowed, shortlist)


def plainly(connection: SqliteConnection, query: np.ndarray, allowed: np.ndarray) -> list[tuple[int, float, float]]:
    """Number, score and place of the best region of every photo, best first."""
    found = []
    for number, (boxes, regions) in connection.regions_of(range(1, PHOTOS + 1), DIMENSION).items():
        scores = [float(region.astype(np.float32) @ query) for region in regions]
        if allowed[number - 1]:
            found.append((number, max(scores), float(boxes[int(np.argmax(scores))][1])))
    return sorted(found, key=lambda each: -each[1])


@pytest.mark.parametrize("seed", range(5))
def test_with_a_shortlist_of_all_regions_the_answer_is_exact(
    opened: tuple[Snapshot, SqliteConnection], seed: int
) -> None:
    query = vectors(1, 100 + seed)[0]
    allowed = np.random.default_rng(seed).random(PHOTOS) < 0.7
    found = ranked(opened, query, allowed, PHOTOS * EACH)
    expected = plainly(opened[1], query, allowed)
    assert found.numbers.tolist() == [number for number, _, _ in expected]
    assert found.scores.tolist() == pytest.approx([score for _, score, _ in expected], abs=1e-5)
    assert [answer.box[1] for answer in found.first(1000) if answer.box] == [region for _, _, region in expected]


def test_a_short_list_finds_nearly_all_of_the_best(opened: tuple[Snapshot, SqliteConnection]) -> None:
    allowed, shared = np.ones(PHOTOS, dtype=bool), []
    for query in vectors(40, 7):
        expected = {number for number, _, _ in plainly(opened[1], query, allowed)[:10]}
        shared.append(len(expected & set(ranked(opened, query, allowed, 60).numbers[:10].tolist())))
    assert np.mean(shared) >= 9.5


def test_where_nothing_is_allowed_nothing_is_found(opened: tuple[Snapshot, SqliteConnection]) -> None:
    assert ranked(opened, vectors(1, 7)[0], np.zeros(PHOTOS, dtype=bool), 50).first(10) == []
