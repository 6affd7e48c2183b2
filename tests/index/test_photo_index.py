"""Searching an index: exact, filtered, grouped, from threads, and refused in one line where it cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.errors import DeixisError, PhotoError
from deixis.index import Grouping, PhotoIndex, Seen, Where, mixed, update_index
from deixis.index.places import Place
from tests.index.fakes import DIMENSION, ColourSeer, photo, photos, vector


@pytest.fixture
def index(tmp_path: Path, place: Place) -> PhotoIndex:
    photos(tmp_path / "photos", 30)
    update_index(place, [tmp_path / "photos"], ColourSeer())
    return PhotoIndex(place)


def random_query(seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def wholes(index: PhotoIndex, count: int = 30) -> np.ndarray:
    return np.stack([index.vector_of(number) for number in range(1, count + 1)])


def test_the_best_photos_come_first_with_their_dot_products(index: PhotoIndex) -> None:
    query = random_query()
    scores = wholes(index) @ query
    matches = index.search(query, 7)
    assert [match.id - 1 for match in matches] == np.argsort(-scores)[:7].tolist()
    assert [match.score for match in matches] == pytest.approx(np.sort(scores)[::-1][:7].tolist(), abs=1e-6)
    assert [match.rank for match in matches] == list(range(1, 8))
    assert (matches[0].width, matches[0].height, matches[0].box) == (16, 12, None)


def test_a_photo_finds_itself(index: PhotoIndex, tmp_path: Path) -> None:
    query = vector(Image.open(tmp_path / "photos" / "017.png"))
    assert index.search(query, 1)[0].path == tmp_path / "photos" / "017.png"


def test_the_best_regions_are_found_with_their_boxes(index: PhotoIndex) -> None:
    for seed in range(10):
        query = random_query(seed)
        exact = {number: index.regions_of(number)[1] @ query for number in range(1, 31)}
        expected = sorted(exact, key=lambda number: -exact[number].max())[:5]
        matches = index.search_regions(query, 5)
        assert [match.id for match in matches] == expected
        for match in matches:
            boxes, _ = index.regions_of(match.id)
            assert match.box == tuple(boxes[exact[match.id].argmax()].tolist())
            assert match.score == pytest.approx(exact[match.id].max(), abs=1e-5)


def test_a_shortlist_is_never_shorter_than_what_is_asked_for(index: PhotoIndex) -> None:
    assert len(index.search_regions(random_query(), 12, shortlist=1)) == 12


def test_plus_and_minus(index: PhotoIndex) -> None:
    plus, minus = index.vector_of(3), index.vector_of(4)
    query = mixed([plus, minus], [1, -0.5])
    expected = plus - 0.5 * minus
    assert np.allclose(query, expected / np.linalg.norm(expected), atol=1e-6)
    ranks = {match.id: match.rank for match in index.search(query, 30)}
    assert ranks[3] == 1
    assert ranks[4] > 15
    assert np.allclose(mixed(plus), plus, atol=1e-6)


@pytest.fixture
def dated(tmp_path: Path, place: Place) -> PhotoIndex:
    photo(tmp_path / "p" / "Holiday 2023" / "a.jpg", 1, taken="2023:07:01 10:00:00", camera="Canon EOS 5D")
    photo(tmp_path / "p" / "Holiday 2023" / "sea" / "b.jpg", 2, taken="2024:06:01 00:00:00", camera="NIKON D750")
    photo(tmp_path / "p" / "work" / "c.jpg", 3, taken="2024:07:15 12:00:00", camera="Canon EOS R")
    photo(tmp_path / "p" / "work" / "d.jpg", 4)
    update_index(place, [tmp_path / "p"], ColourSeer())
    return PhotoIndex(place)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (Where(after="2024"), "bc"),
        (Where(after="2024-06"), "bc"),
        (Where(after="2024-06-02"), "c"),
        (Where(before="2024-06"), "a"),
        (Where(after="2023", before="2024-07"), "ab"),
        (Where(folder="holiday"), "ab"),
        (Where(folder="work"), "cd"),
        (Where(camera="canon"), "ac"),
        (Where(camera="canon", folder="work"), "c"),
        (Where(folder="nowhere"), ""),
        (Where(), "abcd"),
    ],
)
def test_only_photos_that_are_asked_for_are_looked_at(dated: PhotoIndex, where: Where, names: str) -> None:
    for matches in (
        dated.search(random_query(), 10, where=where),
        dated.search_regions(random_query(), 10, where=where),
    ):
        assert "".join(sorted(match.path.stem for match in matches)) == names


def test_filters_come_before_ranking(index: PhotoIndex, tmp_path: Path, place: Place) -> None:
    photo(tmp_path / "other" / "far.png", 500)
    update_index(place, [tmp_path / "other"], ColourSeer())
    query = -index.vector_of(31)  # the photo asked for is the worst of all
    assert [match.id for match in index.search(query, 1, where=Where(folder="other"))] == [31]


def test_copies_and_near_copies_are_one_match(index: PhotoIndex, tmp_path: Path, place: Place) -> None:
    shutil.copy(tmp_path / "photos" / "004.png", tmp_path / "photos" / "copy.png")
    Image.open(tmp_path / "photos" / "004.png").resize((32, 24)).save(tmp_path / "photos" / "large.png")
    update_index(place, [tmp_path / "photos"], ColourSeer())
    query = index.vector_of(5)
    plain = index.search(query, 4)
    grouped = index.search(query, 4, grouping=Grouping(near=0.95))
    assert {match.path.name for match in plain[:3]} == {"004.png", "copy.png", "large.png"}
    assert len(grouped) == 4
    assert {match.path.name for match in (grouped[0], *grouped[0].others)} == {"004.png", "copy.png", "large.png"}
    assert {match.rank for match in grouped[0].others} == {1}
    assert grouped[1].id == plain[3].id


def test_groups_are_filled_up_from_further_down(tmp_path: Path, place: Place) -> None:
    photo(tmp_path / "photos" / "a.png", 1)
    for number in range(40):
        shutil.copy(tmp_path / "photos" / "a.png", tmp_path / "photos" / f"copy{number}.png")
    photo(tmp_path / "photos" / "z.png", 2)
    update_index(place, [tmp_path / "photos"], ColourSeer())
    with PhotoIndex(place) as index:
        matches = index.search(index.vector_of(1), 2, grouping=Grouping())
    assert [1 + len(match.others) for match in matches] == [41, 1]


def test_removed_photos_are_found_no_more(index: PhotoIndex, tmp_path: Path, place: Place) -> None:
    query = index.vector_of(9)
    best = index.search(query, 1)[0].path
    best.unlink()
    update_index(place, [tmp_path / "photos"], ColourSeer())
    assert len(index) == 29
    assert best not in {match.path for match in index.search(query, 30)}
    assert best not in {match.path for match in index.search_regions(query, 30)}
    with pytest.raises(DeixisError, match="there is no photo 9"):
        index.vector_of(9)
    with pytest.raises(DeixisError, match="there is no photo 9"):
        index.photo(9)


def test_many_threads_search_at_once(index: PhotoIndex) -> None:
    queries = [random_query(seed) for seed in range(40)]
    expected = [[match.id for match in index.search(query, 5)] for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: [match.id for match in index.search(query, 5)], queries * 5))
        regions = list(pool.map(lambda query: len(index.search_regions(query, 5)), queries))
    assert found == expected * 5
    assert regions == [5] * 40


def test_an_empty_index_finds_nothing(tmp_path: Path, place: Place) -> None:
    (tmp_path / "photos").mkdir()
    assert update_index(place, [tmp_path / "photos"], ColourSeer()).photos == 0
    with PhotoIndex(place) as index:
        assert (len(index), index.search(random_query()), index.search_regions(random_query())) == (0, [], [])
        assert index.search(random_query(), where=Where(folder="x"), grouping=Grouping()) == []


def test_photos_without_regions_are_not_found_by_regions(tmp_path: Path, place: Place) -> None:
    class Whole(ColourSeer):
        def see(self, paths):  # type: ignore[no-untyped-def]
            from deixis.index import Seen

            for path, seen in super().see(paths):
                yield path, Seen(seen.whole, seen.width, seen.height)

    photos(tmp_path / "photos", 3)
    update_index(place, [tmp_path / "photos"], Whole())
    photo(tmp_path / "photos" / "new.png", 9)
    with PhotoIndex(place) as index:
        assert index.search_regions(random_query()) == []
        assert index.regions_of(1)[1].shape == (0, DIMENSION)
        assert index.thumbnail(1) is None
        update_index(place, [tmp_path / "photos"], ColourSeer())
        assert [match.path.name for match in index.search_regions(random_query())] == ["new.png"]


def test_a_query_of_another_shape_or_with_nonsense_is_one_line(index: PhotoIndex) -> None:
    with pytest.raises(DeixisError, match=r"its vectors have 48 numbers, the query's has shape \(3,\)"):
        index.search(np.ones(3))
    with pytest.raises(DeixisError, match="not finite"):
        index.search_regions(np.full(DIMENSION, np.nan))


def test_nothing_is_asked_nothing_is_found(index: PhotoIndex) -> None:
    assert index.search(random_query(), 0) == []
    assert index.search_regions(random_query(), 0) == []


def test_what_is_no_index_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="not an index of photos; is there a typing mistake"):
        PhotoIndex(tmp_path / "nowhere")
    with pytest.raises(DeixisError, match="not an index of photos; make one with: deixis index"):
        PhotoIndex(tmp_path)


def test_the_index_of_another_model_is_one_line(index: PhotoIndex, place: Place) -> None:
    with pytest.raises(DeixisError, match=r"another model \(colours-1, not other\).*--rebuild$"):
        PhotoIndex(place, fingerprint="other")


class ShortRegions(ColourSeer):
    """Its regions have shorter vectors than whole photos, of which only the first numbers count."""

    def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
        for path, seen in super().see(paths):
            assert isinstance(seen, Seen)
            yield path, replace(seen, region_vectors=seen.region_vectors[:, : self.region_dimension])


def test_regions_may_have_vectors_of_another_length(tmp_path: Path, place: Place) -> None:
    photos(tmp_path / "photos", 30)
    update_index(place, [tmp_path / "photos"], ShortRegions(region_dimension=7))
    with PhotoIndex(place) as index:
        assert (index.about.dimension, index.about.region_dimension) == (DIMENSION, 7)
        asked = random_query()[:7]
        exact = {number: (index.regions_of(number)[1] @ asked).max() for number in range(1, 31)}
        expected = sorted(exact, key=lambda number: -exact[number])
        assert [match.id for match in index.search_regions(asked, 5)] == expected[:5]
        assert index.nearest_by_regions(asked)[:5].tolist() == expected[:5]
        assert len(index.search(random_query(), 5)) == 5
        with pytest.raises(DeixisError, match="7 numbers"):
            index.search_regions(random_query())


def test_the_nearest_are_those_that_a_search_finds(index: PhotoIndex) -> None:
    query = random_query()
    assert index.nearest(query, 7).tolist() == [match.id for match in index.search(query, 7)]
    assert index.numbers().tolist() == list(range(1, 31))
    assert np.array_equal(index.vectors_of(np.array([4, 2])), np.stack([index.vector_of(4), index.vector_of(2)]))
    assert set(index.regions_of_all([3, 99])) == {3}


def test_scores_of_others_rank_photos(index: PhotoIndex) -> None:
    found = index.ranked(np.array([9, 4, 777, 2]), np.array([0.5, 0.9, 1.0, 0.7], dtype=np.float32), 2)
    assert [(match.id, match.rank) for match in found] == [(4, 1), (2, 2)]
    assert found[0].score == pytest.approx(0.9)


def test_a_photo_that_is_gone_is_not_ranked(index: PhotoIndex, tmp_path: Path, place: Place) -> None:
    (tmp_path / "photos" / "003.png").unlink()
    update_index(place, [tmp_path / "photos"], ColourSeer())
    found = index.ranked(np.array([3, 4, 5]), np.array([0.1, 0.9, 0.5], dtype=np.float32), 2)
    assert [match.id for match in found] == [5, 3]


def test_the_newest_come_page_by_page(index: PhotoIndex) -> None:
    assert [photo.id for photo in index.newest(3)] == [30, 29, 28]
    assert [photo.id for photo in index.newest(3, begin=28)] == [2, 1]


def test_a_closed_index_is_called_closed_and_not_damaged(index: PhotoIndex) -> None:
    index.close()
    with pytest.raises(DeixisError, match="was closed; open it again"):
        index.search(np.ones(DIMENSION, dtype=np.float32), 1)
