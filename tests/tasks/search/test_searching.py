"""The sample photos, searched in Python."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.index import update_index
from deixis.index.database import open_to_write
from deixis.tasks.search import searching
from deixis.tasks.search.probability import Certainty
from deixis.tasks.search.searching import PhotoCollection, shipped_seer

CAT = SAMPLES / "images" / "cat.jpg"


@pytest.fixture(scope="module", params=["sample_index", "sample_database"])
def photos(request: pytest.FixtureRequest) -> Iterator[PhotoCollection]:
    with deixis.open_index(request.getfixturevalue(request.param)) as opened:
        yield opened


def names(hits: list[searching.Hit]) -> list[str]:
    return [hit.path.stem for hit in hits]


@pytest.mark.parametrize(
    ("sentence", "name"),
    [("a cat", "cat"), ("two dogs", "dogs"), ("a man with a camera", "photographer"), ("a cup of coffee", "coffee")],
)
def test_a_photo_is_found_by_what_it_shows(photos: PhotoCollection, sentence: str, name: str) -> None:
    assert name in names(photos.search(sentence, top=3, everything=True))


def test_hits_come_by_falling_probability(photos: PhotoCollection) -> None:
    hits = photos.search("a cat", top=14, everything=True)
    told = [hit.probability for hit in hits]
    assert len(hits) == len(photos) == 14
    assert all(one is not None and 0 <= one <= 1 for one in told)
    assert told == sorted(told, reverse=True)


def test_unlikely_photos_are_left_out_unless_all_are_wanted(photos: PhotoCollection) -> None:
    likely, everything = photos.search("a cat", top=14), photos.search("a cat", top=14, everything=True)
    assert 0 < len(likely) < len(everything)
    assert names(everything)[: len(likely)] == names(likely)


def test_phrases_have_boxes_inside_the_photo_and_spans_of_what_was_typed(photos: PhotoCollection) -> None:
    typed = "in:images  a cat +eyes"
    hit = photos.search(typed, top=1, explain=True, everything=True)[0]
    assert [typed[slice(*phrase.span)] for phrase in hit.phrases] == ["a cat", "eyes"]
    width, height = hit.photo.size
    for phrase in hit.phrases:
        left, top, right, bottom = phrase.box
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert 0 <= phrase.score <= 1
    assert photos.explain(hit.photo_id, typed) == hit.phrases


def test_words_with_a_minus_push_photos_down(photos: PhotoCollection) -> None:
    plain = {hit.path.stem: hit.probability or 0 for hit in photos.search("an animal", top=14, everything=True)}
    without = {hit.path.stem: hit.probability or 0 for hit in photos.search("an animal -cat", top=14, everything=True)}
    assert without["cat"] < plain["cat"]
    assert without["cat"] / plain["cat"] < without["pagoda"] / plain["pagoda"]
    assert all(without[name] <= plain[name] + 1e-6 for name in plain)


def test_words_with_a_plus_are_all_needed(photos: PhotoCollection) -> None:
    cat = {hit.path.stem: hit.score for hit in photos.search("cat", top=14, everything=True)}
    coffee = {hit.path.stem: hit.score for hit in photos.search("coffee", top=14, everything=True)}
    both = {hit.path.stem: hit.score for hit in photos.search("cat +coffee", top=14, everything=True)}
    assert both == pytest.approx({name: min(cat[name], coffee[name]) for name in cat}, abs=1e-4)


def test_a_photo_is_most_like_itself(photos: PhotoCollection) -> None:
    known = photos.photo(photos.like(CAT, top=1)[0].photo_id)
    assert known.path == CAT
    assert photos.like(known, top=1)[0].path == CAT
    assert photos.like(Image.open(CAT), top=1)[0].path == CAT


def test_the_photo_itself_is_certain_however_it_comes(photos: PhotoCollection, tmp_path: Path) -> None:
    Image.open(CAT).resize((700, 466)).save(tmp_path / "smaller.jpg", quality=80)
    known = next(photo for photo in photos.newest() if photo.path == CAT)
    for same in (CAT, str(CAT), known, Image.open(CAT), tmp_path / "smaller.jpg"):
        first, *others = photos.like(same, everything=True)
        assert (first.path, round(first.probability or 0, 4)) == (CAT, 1.0)
        assert all((other.probability or 0) < 0.9 for other in others)


def test_a_photo_that_has_changed_since_is_looked_at_again(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    mine = Path(shutil.copy(CAT, tmp_path / "mine" / "mine.jpg"))
    update_index(tmp_path / "index", [tmp_path / "mine"], shipped_seer())
    shutil.copy(SAMPLES / "images" / "dogs.jpg", mine)
    with deixis.open_index(tmp_path / "index") as photos:
        assert photos.like(mine, top=1)[0].path.stem == "dogs"


def test_a_photo_is_known_by_its_opaque_id_only(photos: PhotoCollection) -> None:
    known = photos.newest(1)[0]
    assert photos.photo(known.photo_id) == known
    assert Image.open(io.BytesIO(photos.thumbnail(known.photo_id) or b"")).format == "JPEG"
    assert len(photos.regions(known.photo_id)) == 20
    number = known.photo_id.partition("-")[0]
    for wrong in (number, f"{number}-0000000000000000", "", "..", "zz", "-", "9" * 40, str(CAT)):
        with pytest.raises(DeixisError, match="no photo of this index"):
            photos.photo(wrong)


def test_pages_go_through_all_photos_once(photos: PhotoCollection) -> None:
    pages = [photo.photo_id for begin in range(0, 20, 5) for photo in photos.newest(5, begin)]
    assert len(set(pages)) == len(pages) == 14


def test_nothing_is_found_for_words_that_nobody_knows(photos: PhotoCollection) -> None:
    assert photos.search("a qwertyuiop") == []
    assert photos.search("a cat +qwertyuiop") == []
    assert len(photos.search("a qwertyuiop", top=14, everything=True)) == 14


def test_however_likely_photos_seem_words_that_nobody_knows_find_none(
    photos: PhotoCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Certainty, "worth_showing", lambda _, logits, photos: np.ones(len(logits), dtype=bool))
    assert len(photos.search("a cat", top=14)) == 14
    assert photos.search("a qwertyuiop") == []
    assert photos.search("a cat +qwertyuiop") == []


def test_the_photos_that_filters_leave_are_counted(photos: PhotoCollection) -> None:
    assert (photos.looked_at(), photos.looked_at("cat in:images"), photos.looked_at("cat in:nowhere")) == (14, 14, 0)
    assert photos.looked_at(after="2100") == 0


def test_unknown_words_are_told(photos: PhotoCollection) -> None:
    assert photos.unknown_words("a cat -qwertyuiop +asdfgh +qwertyuiop") == ["asdfgh", "qwertyuiop"]
    assert photos.unknown_words("ein Hund im Schnee") == ["ein", "hund", "im", "schnee"]


def test_what_is_wanted_and_avoided_at_once_is_refused(photos: PhotoCollection) -> None:
    with pytest.raises(DeixisError, match="'cat' is both wanted and avoided"):
        photos.search("a cat -cat")


@pytest.mark.parametrize("top", [0, -1, 1001])
def test_nonsense_numbers_of_hits_are_refused(photos: PhotoCollection, top: int) -> None:
    with pytest.raises(DeixisError, match="give a whole number from 1 to 1,000"):
        photos.search("a cat", top=top)


def test_a_large_index_is_not_looked_at_whole_and_finds_the_same(
    photos: PhotoCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = names(photos.search("two dogs in the snow", top=3, everything=True))
    monkeypatch.setattr(searching, "_ALL_OF_THEM", 0)
    monkeypatch.setattr(searching, "_CANDIDATES", 5)
    assert names(photos.search("two dogs in the snow", top=3, everything=True)) == whole


def test_many_threads_may_search_at_once(photos: PhotoCollection) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: names(photos.search("a cat", everything=True)), range(16)))
    assert all(one == found[0] for one in found)


def test_copies_are_one_hit_and_filters_and_growth_are_seen(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    holiday = tmp_path / "holiday"
    holiday.mkdir()
    with deixis.open_index(tmp_path / "index") as photos:
        before = len(photos)
        shutil.copy(CAT, holiday / "copy.jpg")
        update_index(tmp_path / "index", [holiday], shipped_seer())
        assert len(photos) == before + 1
        hit = photos.search("a cat", top=1)[0]
        assert {hit.path.stem, *(other.path.stem for other in hit.duplicates)} == {"cat", "copy"}
        assert names(photos.search("a cat in:holiday", everything=True)) == ["copy"]
        assert len(photos.search("a cat", everything=True, grouped=False, top=20)) == before + 1
        assert photos.search("a cat camera:nosuch") == []


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    update_index(tmp_path / "index", [tmp_path / "none"], shipped_seer())
    with deixis.open_index(tmp_path / "index") as photos:
        assert (len(photos), photos.search("a cat", everything=True), photos.like(CAT), photos.newest()) == (
            0,
            [],
            [],
            [],
        )


def test_an_index_of_other_models_says_how_to_make_it_anew(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    connection = open_to_write(tmp_path / "index")
    connection.execute("UPDATE about SET value = 'other' WHERE key = 'fingerprint'")
    connection.close()
    with pytest.raises(DeixisError, match=r"seen by another model .* --rebuild"):
        deixis.open_index(tmp_path / "index")


def test_without_fitted_weights_there_are_scores_but_no_probabilities(
    sample_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with deixis.open_index(sample_index) as photos:
        monkeypatch.setattr(photos, "certainty", None)
        hits = photos.search("a cat", top=14)
        assert [hit.probability for hit in hits] == [None] * 14
        assert hits[0].path.stem == "cat"
        assert photos.search("an animal -cat", top=14)[0].path.stem != "cat"
        assert len(photos.like(CAT, top=14)) == 14


def test_and_not_is_the_product_of_probabilities() -> None:
    said, other = np.array([0.9, 0.2, 0.999999]), np.array([0.5, 0.9, 1e-6])
    found = searching._and_not(np.log(said / (1 - said)).astype(np.float32), np.log(other / (1 - other)))
    assert np.allclose(1 / (1 + np.exp(-found)), said * (1 - other), atol=1e-4)
