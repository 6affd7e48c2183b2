"""Searching an index: exact, filtered, grouped, from threads, errors, and a plain loop over all regions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.errors import DeixisError
from deixis.search.index import (
    Grouping,
    IndexInfo,
    PhotoFilter,
    PhotoVectors,
    photo_index,
    records,
    update_index,
)
from deixis.search.index.base import IndexPath
from deixis.search.index.photo_files import ExifInfo, FileState
from deixis.search.index.photo_index import FolderReader, FolderSnapshot
from deixis.search.index.sqlite import connect_writer, create_database
from tests.search.index.fakes import (
    DIMENSION,
    Altered,
    ColourEncoder,
    ReadIndex,
    on_both,
    photo,
    photos,
    search,
    search_regions,
    vector,
)


@pytest.fixture
def index(tmp_path: Path, index_path: IndexPath) -> ReadIndex:
    photos(tmp_path / "photos", 30)
    update_index(index_path, [tmp_path / "photos"], ColourEncoder())
    return ReadIndex(index_path)


def random_query(seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def photo_vectors(index: ReadIndex, count: int = 30) -> np.ndarray:
    return np.stack([index.vector_of(number) for number in range(1, count + 1)])


@on_both
def test_the_best_photos_come_first_with_their_dot_products(index: ReadIndex, tmp_path: Path) -> None:
    query = random_query()
    scores = photo_vectors(index) @ query
    matches = index.search(query, 7)
    assert [match.photo.id - 1 for match in matches] == np.argsort(-scores)[:7].tolist()
    assert [match.score for match in matches] == pytest.approx(np.sort(scores)[::-1][:7].tolist(), abs=1e-6)
    assert (matches[0].photo.width, matches[0].photo.height) == (16, 12)
    itself = vector(Image.open(tmp_path / "photos" / "017.png"))
    assert index.search(itself, 1)[0].photo.path == tmp_path / "photos" / "017.png"


@on_both
def test_photos_are_found_by_their_best_regions(index: ReadIndex) -> None:
    for seed in range(10):
        query = random_query(seed)
        exact = {number: index.regions_of(number)[1] @ query for number in range(1, 31)}
        expected = sorted(exact, key=lambda number: -exact[number].max())[:5]
        assert [match.photo.id for match in index.search_regions(query, 5)] == expected


@pytest.fixture
def dated(tmp_path: Path, index_path: IndexPath) -> ReadIndex:
    photo(tmp_path / "p" / "Holiday 2023" / "a.jpg", 1, taken="2023:07:01 10:00:00", camera="Canon EOS 5D")
    photo(tmp_path / "p" / "Holiday 2023" / "sea" / "b.jpg", 2, taken="2024:06:01 00:00:00", camera="NIKON D750")
    photo(tmp_path / "p" / "work" / "c.jpg", 3, taken="2024:07:15 12:00:00", camera="Canon EOS R")
    photo(tmp_path / "p" / "work" / "d.jpg", 4)
    update_index(index_path, [tmp_path / "p"], ColourEncoder())
    return ReadIndex(index_path)


@pytest.mark.parametrize(
    ("photo_filter", "names"),
    [
        (PhotoFilter(after="2024"), "bcd"),
        (PhotoFilter(after="2024-06"), "bcd"),
        (PhotoFilter(after="2024-06-02"), "cd"),  # d has the date of its file
        (PhotoFilter(before="2024-06"), "a"),
        (PhotoFilter(after="2023", before="2024-07"), "ab"),
        (PhotoFilter(folder="holiday"), "ab"),
        (PhotoFilter(folder="work"), "cd"),
        (PhotoFilter(camera="canon"), "ac"),
        (PhotoFilter(camera="canon", folder="work"), "c"),
        (PhotoFilter(folder="nowhere"), ""),
        (PhotoFilter(), "abcd"),
    ],
)
def test_only_photos_that_pass_the_filter_are_searched(dated: ReadIndex, photo_filter: PhotoFilter, names: str) -> None:
    for matches in (
        dated.search(random_query(), 10, photo_filter=photo_filter),
        dated.search_regions(random_query(), 10, photo_filter=photo_filter),
    ):
        assert "".join(sorted(match.photo.path.stem for match in matches)) == names


@on_both
def test_filters_come_before_ranking(index: ReadIndex, tmp_path: Path, index_path: IndexPath) -> None:
    photo(tmp_path / "other" / "far.png", 500)
    update_index(index_path, [tmp_path / "other"], ColourEncoder())
    query = -index.vector_of(31)  # the photo asked for is the worst of all
    assert [match.photo.id for match in index.search(query, 1, photo_filter=PhotoFilter(folder="other"))] == [31]


@on_both
def test_copies_and_near_duplicates_are_one_match(index: ReadIndex, tmp_path: Path, index_path: IndexPath) -> None:
    shutil.copy(tmp_path / "photos" / "004.png", tmp_path / "photos" / "copy.png")
    Image.open(tmp_path / "photos" / "004.png").resize((32, 24)).save(tmp_path / "photos" / "large.png")
    update_index(index_path, [tmp_path / "photos"], ColourEncoder())
    query = index.vector_of(5)
    plain = index.search(query, 4)
    grouped = index.search(query, 4, grouping=Grouping(near=0.95))
    assert {match.photo.path.name for match in plain[:3]} == {"004.png", "copy.png", "large.png"}
    assert len(grouped) == 4
    assert {match.photo.path.name for match in (grouped[0], *grouped[0].others)} == {"004.png", "copy.png", "large.png"}
    assert grouped[1].photo.id == plain[3].photo.id


def test_enough_photos_are_read_for_all_groups(tmp_path: Path, index_path: IndexPath) -> None:
    photo(tmp_path / "photos" / "a.png", 1)
    for number in range(40):
        shutil.copy(tmp_path / "photos" / "a.png", tmp_path / "photos" / f"copy{number}.png")
    photo(tmp_path / "photos" / "z.png", 2)
    update_index(index_path, [tmp_path / "photos"], ColourEncoder())
    with ReadIndex(index_path) as index:
        matches = index.search(index.vector_of(1), 2, grouping=Grouping())
    assert [1 + len(match.others) for match in matches] == [41, 1]


@on_both
def test_removed_photos_are_not_found(index: ReadIndex, tmp_path: Path, index_path: IndexPath) -> None:
    query = index.vector_of(9)
    best = index.search(query, 1)[0].photo.path
    best.unlink()
    update_index(index_path, [tmp_path / "photos"], ColourEncoder())
    assert len(index) == 29
    assert best not in {match.photo.path for match in index.search(query, 30)}
    assert best not in {match.photo.path for match in index.search_regions(query, 30)}
    with pytest.raises(DeixisError, match="number 9"):
        index.vector_of(9)


@on_both
def test_many_threads_search_at_once(index: ReadIndex) -> None:
    queries = [random_query(seed) for seed in range(40)]
    expected = [[match.photo.id for match in index.search(query, 5)] for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: [match.photo.id for match in index.search(query, 5)], queries * 5))
        regions = list(pool.map(lambda query: len(index.search_regions(query, 5)), queries))
    assert found == expected * 5
    assert regions == [5] * 40


@on_both
def test_an_empty_index_finds_nothing(tmp_path: Path, index_path: IndexPath) -> None:
    (tmp_path / "photos").mkdir()
    assert update_index(index_path, [tmp_path / "photos"], ColourEncoder()).photos == 0
    with ReadIndex(index_path) as index:
        assert (len(index), index.search(random_query()), index.search_regions(random_query())) == (0, [], [])
        assert index.search(random_query(), photo_filter=PhotoFilter(folder="x"), grouping=Grouping()) == []


def test_photos_without_regions_are_not_found_by_regions(tmp_path: Path, index_path: IndexPath) -> None:
    whole = Altered(alter=lambda _, seen: PhotoVectors(seen.whole, seen.width, seen.height))
    photos(tmp_path / "photos", 3)
    update_index(index_path, [tmp_path / "photos"], whole)
    photo(tmp_path / "photos" / "new.png", 9)
    with ReadIndex(index_path) as index:
        assert index.search_regions(random_query()) == []
        assert index.regions_of(1)[1].shape == (0, DIMENSION)
        assert index.thumbnail(1) is None
        update_index(index_path, [tmp_path / "photos"], ColourEncoder())
        assert [match.photo.path.name for match in index.search_regions(random_query())] == ["new.png"]


def test_a_query_of_a_wrong_shape_or_not_finite_is_an_error(index: ReadIndex) -> None:
    with pytest.raises(DeixisError, match=r"48 numbers.*\(3,\)"):
        index.search(np.ones(3))
    with pytest.raises(DeixisError, match="not finite"):
        index.search_regions(np.full(DIMENSION, np.nan))


def test_a_path_without_index_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="nowhere: no photo index yet"):
        ReadIndex(tmp_path / "nowhere")
    with pytest.raises(DeixisError, match="not a photo index.*deixis index"):
        ReadIndex(tmp_path)


@on_both
def test_region_vectors_can_have_another_length(tmp_path: Path, index_path: IndexPath) -> None:
    photos(tmp_path / "photos", 30)
    short = Altered(alter=lambda _, seen: replace(seen, region_vectors=seen.region_vectors[:, :7]), region_dimension=7)
    update_index(index_path, [tmp_path / "photos"], short)
    with ReadIndex(index_path) as index:
        assert (index.info.dimension, index.info.region_dimension) == (DIMENSION, 7)
        query = random_query()[:7]
        exact = {number: (index.regions_of(number)[1] @ query).max() for number in range(1, 31)}
        expected = sorted(exact, key=lambda number: -exact[number])
        assert [match.photo.id for match in index.search_regions(query, 5)] == expected[:5]
        with index.snapshot() as snapshot:
            assert snapshot.nearest_by_regions(query)[:5].tolist() == expected[:5]
        assert len(index.search(random_query(), 5)) == 5
        with pytest.raises(DeixisError, match="7 numbers"):
            index.search_regions(random_query())


def test_nearest_photos_are_those_of_a_search(index: ReadIndex) -> None:
    query = random_query()
    with index.snapshot() as snapshot:
        assert snapshot.nearest(query, 7).tolist() == [match.photo.id for match in index.search(query, 7)]
        assert snapshot.nearest(query, 0).tolist() == []
        assert snapshot.numbers().tolist() == list(range(1, 31))
        vectors = np.stack([index.vector_of(4), index.vector_of(2)])
        assert np.array_equal(snapshot.vectors_of(np.array([4, 2])), vectors)
        assert set(snapshot.regions_of_all([3, 99])) == {3}


@pytest.mark.parametrize("is_cached", [True, False])
def test_vectors_come_in_any_order_from_an_index_that_grew_and_shrank(
    tmp_path: Path, index_path: IndexPath, is_cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vector of each photo alone is the oracle; rows of removed photos and of other parts must not shift it.

    While an update runs, new photos are not in the cache yet and form a part of their own.
    """
    paths = photos(tmp_path / "photos", 6)
    update_index(index_path, [tmp_path / "photos"], ColourEncoder())
    with ReadIndex(index_path) as index:

        def check(numbers: list[int]) -> None:
            with index.snapshot() as snapshot:
                found = snapshot.vectors_of(np.array(numbers, dtype=np.int64))
                for number, own in zip(numbers, found, strict=True):
                    assert np.array_equal(own, vector(Image.open(snapshot.photo(number).path)))

        check([1, 2, 3, 4, 5, 6])
        check([6, 5, 4, 3, 2, 1])
        check([3, 3, 1])
        if not is_cached:
            monkeypatch.setattr(photo_index, "update_cache", lambda *_: False)
        for seed in (6, 7, 8):
            photo(tmp_path / "more" / f"{seed}.png", seed)
        update_index(index_path, [tmp_path / "more"], ColourEncoder())
        check([1, 2, 3, 4, 5, 6, 7, 8, 9])
        check([8, 2, 9])
        paths[1].unlink()
        update_index(index_path, [tmp_path / "photos"], ColourEncoder())
        check([1, 3, 4, 5, 6, 7, 8, 9])


def test_photos_are_ranked_by_given_scores_without_missing_ones(index: ReadIndex) -> None:
    with index.snapshot() as snapshot:
        found = snapshot.rank(np.array([9, 4, 777, 2]), np.array([0.5, 0.9, 1.0, 0.7], dtype=np.float32), 2)
    assert [match.photo.id for match in found] == [4, 2]
    assert found[0].score == pytest.approx(0.9)


@on_both
def test_a_closed_index_is_reported_as_closed(index: ReadIndex) -> None:
    index.close()
    with pytest.raises(DeixisError, match="closed"):
        index.search(np.ones(DIMENSION, dtype=np.float32), 1)


@on_both
def test_a_snapshot_does_not_see_later_photos(index: ReadIndex, tmp_path: Path, index_path: IndexPath) -> None:
    query = random_query()
    with index.snapshot() as snapshot:
        before = [match.photo.id for match in search(snapshot, query, 50)]
        photo(tmp_path / "photos" / "new.png", 600)
        update_index(index_path, [tmp_path / "photos"], ColourEncoder())
        assert (snapshot.count(), snapshot.numbers().tolist()) == (30, list(range(1, 31)))
        assert [match.photo.id for match in search(snapshot, query, 50)] == before
        assert len(search_regions(snapshot, query, 50)) == 30
    assert len(index) == 31


def test_region_vectors_follow_the_changes_of_an_index(index: ReadIndex, tmp_path: Path, index_path: IndexPath) -> None:
    for number, change in enumerate((photo, lambda path, _: path.unlink(), photo)):
        with index.snapshot() as snapshot:
            numbers = snapshot.numbers()
            found = snapshot.region_vectors(numbers)
            stored = [snapshot.regions_of(number)[1] for number in numbers.tolist()]
            assert found.counts.tolist() == [len(vectors) for vectors in stored]
            np.testing.assert_array_equal(found.vectors, np.concatenate(stored))
        change(tmp_path / "photos" / f"{number:03}.png", 600 + number)
        update_index(index_path, [tmp_path / "photos"], ColourEncoder())


REGION_DIMENSION, PHOTOS, EACH = 96, 400, 6


def region_vectors(count: int, seed: int) -> np.ndarray:
    """Vectors that differ more along some axes than along others, as those of real regions do."""
    drawn = np.random.default_rng(seed).standard_normal((count, REGION_DIMENSION)) / (
        1 + np.arange(REGION_DIMENSION) / 8
    )
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderSnapshot]:
    folder = tmp_path_factory.mktemp("index")
    create_database(folder, IndexInfo("", "f", REGION_DIMENSION, REGION_DIMENSION))
    with closing(connect_writer(folder)) as connection:
        connection.execute("BEGIN")
        regions = region_vectors(PHOTOS * EACH, 0)
        for number in range(PHOTOS):
            some = regions[number * EACH : number * EACH + number % (EACH + 1)]  # photos without regions are among them
            boxes = np.stack([[number, region, number + 1, region + 1] for region in range(len(some))] or [[0] * 4])
            encoded = PhotoVectors(regions[number], 9, 9, boxes[: len(some)].astype(np.float32), some)
            path = Path(f"/{'even' if number % 2 else 'odd'}/{number}.jpg")
            records.add_photo(connection, FileState(path, 1, 1), bytes(32), ExifInfo(), encoded)
        connection.execute("COMMIT")
    with closing(FolderReader(folder)) as reader, reader.snapshot() as found:
        yield found


def plain_ranking(snapshot: FolderSnapshot, query: np.ndarray, photo_filter: PhotoFilter | None) -> list[int]:
    """The numbers of photos by the score of their best region."""
    best = {
        number: max(float(region.astype(np.float32) @ query) for region in regions)
        for number, (_, regions) in snapshot.regions_of_all(snapshot.numbers(photo_filter).tolist()).items()
    }
    return sorted(best, key=lambda number: -best[number])


@pytest.mark.parametrize("in_memory", [PHOTOS, 0])
@pytest.mark.parametrize("photo_filter", [None, PhotoFilter(folder="odd")])
def test_best_scores_are_those_of_the_best_region_of_each_photo(
    snapshot: FolderSnapshot, in_memory: int, photo_filter: PhotoFilter | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(photo_index, "_REGIONS_IN_MEMORY", in_memory)
    queries, numbers = region_vectors(3, 100), snapshot.numbers(photo_filter)
    stored = snapshot.regions_of_all(numbers.tolist())
    best = snapshot.region_vectors(numbers).best_scores(queries)
    assert 0 < len(stored) < len(numbers), "some photos have regions, some have none"
    for number, found in zip(numbers.tolist(), best, strict=True):
        if number in stored:
            plain = (stored[number][1].astype(np.float32) @ queries.T).max(axis=0)
            np.testing.assert_allclose(found, plain, atol=1e-5)
        else:
            assert np.isnan(found).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("photo_filter", [None, PhotoFilter(folder="odd")])
def test_a_shortlist_of_all_regions_gives_the_exact_ranking(
    snapshot: FolderSnapshot, seed: int, photo_filter: PhotoFilter | None
) -> None:
    query = region_vectors(1, 100 + seed)[0]
    found = snapshot.region_ranking(query, photo_filter, PHOTOS * EACH)
    assert found.tolist() == plain_ranking(snapshot, query, photo_filter)


def test_a_short_shortlist_finds_nearly_all_of_the_best(snapshot: FolderSnapshot) -> None:
    shared = []
    for query in region_vectors(40, 7):
        expected = set(plain_ranking(snapshot, query, None)[:10])
        shared.append(len(expected & set(snapshot.region_ranking(query, None, 60)[:10].tolist())))
    assert np.mean(shared) >= 9.5


def test_nothing_is_found_where_no_photo_passes_the_filter(snapshot: FolderSnapshot) -> None:
    assert snapshot.region_ranking(region_vectors(1, 7)[0], PhotoFilter(folder="nowhere"), 50).tolist() == []
