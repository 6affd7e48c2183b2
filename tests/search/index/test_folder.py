"""Region search in a folder, compared with a plain loop over all regions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.search.index import IndexInfo, PhotoFilter, PhotoVectors, records
from deixis.search.index.folder import FolderReader, FolderSnapshot
from deixis.search.index.photo_files import ExifInfo, FileState
from deixis.search.index.sqlite import connect_writer, create_database

DIMENSION, PHOTOS, EACH = 96, 400, 6


def vectors(count: int, seed: int) -> np.ndarray:
    """Vectors that differ more along some axes than along others, as those of real regions do."""
    drawn = np.random.default_rng(seed).standard_normal((count, DIMENSION)) / (1 + np.arange(DIMENSION) / 8)
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderSnapshot]:
    folder = tmp_path_factory.mktemp("index")
    create_database(folder, IndexInfo("", "f", DIMENSION, DIMENSION))
    with closing(connect_writer(folder)) as connection:
        connection.execute("BEGIN")
        regions = vectors(PHOTOS * EACH, 0)
        for number in range(PHOTOS):
            some = regions[number * EACH : number * EACH + number % (EACH + 1)]  # photos without regions are among them
            boxes = np.stack([[number, region, number + 1, region + 1] for region in range(len(some))] or [[0] * 4])
            encoded = PhotoVectors(regions[number], 9, 9, boxes[: len(some)].astype(np.float32), some)
            path = Path(f"/{'even' if number % 2 else 'odd'}/{number}.jpg")
            records.add_photo(connection, FileState(path, 1, 1), bytes(32), ExifInfo(), encoded)
        connection.execute("COMMIT")
    with closing(FolderReader(folder)) as reader, reader.snapshot() as found:
        yield found


def plain_ranking(
    snapshot: FolderSnapshot, query: np.ndarray, photo_filter: PhotoFilter | None
) -> list[tuple[int, float, float]]:
    """Number, score and region of the best region of every photo, best first."""
    found = []
    for number, (boxes, regions) in snapshot.regions_of_all(snapshot.numbers(photo_filter).tolist()).items():
        scores = [float(region.astype(np.float32) @ query) for region in regions]
        found.append((number, max(scores), float(boxes[int(np.argmax(scores))][1])))
    return sorted(found, key=lambda each: -each[1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("photo_filter", [None, PhotoFilter(folder="odd")])
def test_a_shortlist_of_all_regions_gives_the_exact_ranking(
    snapshot: FolderSnapshot, seed: int, photo_filter: PhotoFilter | None
) -> None:
    query = vectors(1, 100 + seed)[0]
    found = snapshot.region_ranking(query, photo_filter, PHOTOS * EACH)
    expected = plain_ranking(snapshot, query, photo_filter)
    assert found.numbers.tolist() == [number for number, _, _ in expected]
    assert found.scores.tolist() == pytest.approx([score for _, score, _ in expected], abs=1e-5)
    assert [photo.box[1] for photo in found.first(1000) if photo.box] == [region for _, _, region in expected]


def test_a_short_shortlist_finds_nearly_all_of_the_best(snapshot: FolderSnapshot) -> None:
    shared = []
    for query in vectors(40, 7):
        expected = {number for number, _, _ in plain_ranking(snapshot, query, None)[:10]}
        shared.append(len(expected & set(snapshot.region_ranking(query, None, 60).numbers[:10].tolist())))
    assert np.mean(shared) >= 9.5


def test_nothing_is_found_where_no_photo_passes_the_filter(snapshot: FolderSnapshot) -> None:
    assert snapshot.region_ranking(vectors(1, 7)[0], PhotoFilter(folder="nowhere"), 50).first(10) == []
