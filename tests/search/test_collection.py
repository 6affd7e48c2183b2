"""Searching the sample photos from Python, in a folder and in PostgreSQL."""

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
from deixis.search import collection as collection_module
from deixis.search.calibration import Calibration, QueryBank
from deixis.search.collection import PhotoCollection, index_photos, open_index, search_encoder
from deixis.search.encoder import PHOTO_MODEL, SearchEncoder
from deixis.search.index import update_index
from deixis.search.index.sqlite import connect_writer
from deixis.search.results import Hit, all_photos
from deixis.web.responses import search_response

CAT = SAMPLES / "images" / "cat.jpg"


@pytest.fixture(scope="module", params=["sample_index", "sample_database"])
def photos(request: pytest.FixtureRequest) -> Iterator[PhotoCollection]:
    with deixis.open_index(request.getfixturevalue(request.param)) as opened:
        yield opened


def names(hits: list[Hit]) -> list[str]:
    return [hit.path.stem for hit in hits]


@pytest.mark.parametrize(
    ("sentence", "name"),
    [("a cat", "cat"), ("two dogs", "dogs"), ("a man with a camera", "photographer"), ("a cup of coffee", "coffee")],
)
def test_photos_are_found_by_what_they_show(photos: PhotoCollection, sentence: str, name: str) -> None:
    assert name in names(photos.search(sentence, top=3, everything=True))


@pytest.mark.parametrize("sentence", ["two dogs on a meadow", "a man with a red hat", "a xyzzy on a table"])
def test_a_search_finds_the_boxes_that_grounding_finds(photos: PhotoCollection, sentence: str) -> None:
    for hit in photos.search(sentence, top=3, explain=True, everything=True):
        found = deixis.ground(hit.path, sentence).phrases
        assert [(phrase.text, phrase.span, phrase.guess) for phrase in hit.phrases] == [
            (phrase.text, phrase.span, phrase.guess) for phrase in found
        ]
        for phrase, expected in zip(hit.phrases, found, strict=True):
            assert phrase.box == pytest.approx(expected.box, abs=0.5)
            assert np.array(phrase.boxes) == pytest.approx(np.array(expected.boxes), abs=0.5)
            assert (phrase.presence is None) is phrase.guess


def test_a_photo_whose_file_is_gone_is_found_without_boxes(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    mine = Path(shutil.copy(CAT, tmp_path / "mine" / "mine.jpg"))
    update_index(tmp_path / "index", [tmp_path / "mine"], search_encoder(PHOTO_MODEL))
    mine.unlink()
    with deixis.open_index(tmp_path / "index") as opened:
        hits = opened.search("a cat", top=3, explain=True, everything=True, grouped=False)
        assert [hit.phrases for hit in hits if hit.path == mine] == [()]
        assert all(hit.phrases for hit in hits if hit.path != mine)


def test_hits_are_ordered_by_probability(photos: PhotoCollection) -> None:
    hits = photos.search("a cat", top=14, everything=True)
    reported = [hit.probability for hit in hits]
    assert len(hits) == len(photos) == 14
    assert all(one is not None and 0 <= one <= 1 for one in reported)
    assert reported == sorted(reported, reverse=True)


def test_improbable_photos_are_shown_on_request_only(photos: PhotoCollection) -> None:
    likely, everything = photos.search("a cat", top=14), photos.search("a cat", top=14, everything=True)
    assert 0 < len(likely) < len(everything)
    assert names(everything)[: len(likely)] == names(likely)


def test_phrases_have_boxes_inside_the_photo_and_spans_of_the_query(photos: PhotoCollection) -> None:
    typed = "in:images  a cat +eyes"
    hit = photos.search(typed, top=1, explain=True, everything=True)[0]
    assert [typed[slice(*phrase.span)] for phrase in hit.phrases] == ["a cat", "eyes"]
    width, height = hit.photo.size
    for phrase in hit.phrases:
        left, top, right, bottom = phrase.box
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        assert 0 <= phrase.presence <= 1
    explained = photos.explain(hit.photo_id, typed)
    assert [(phrase.text, phrase.box) for phrase in explained] == [(phrase.text, phrase.box) for phrase in hit.phrases]
    assert [phrase.presence for phrase in explained] == pytest.approx([phrase.presence for phrase in hit.phrases])


def test_excluded_words_lower_the_probability(photos: PhotoCollection) -> None:
    plain = {hit.path.stem: hit.probability or 0 for hit in photos.search("an animal", top=14, everything=True)}
    without = {hit.path.stem: hit.probability or 0 for hit in photos.search("an animal -cat", top=14, everything=True)}
    assert without["cat"] < plain["cat"]
    assert without["cat"] / plain["cat"] < without["pagoda"] / plain["pagoda"]
    assert all(without[name] <= plain[name] + 1e-6 for name in plain)


@pytest.mark.parametrize("query", ["no people", "nobody", "photos without a person", "-people"])
def test_excluding_people_excludes_astronauts_and_photographers(photos: PhotoCollection, query: str) -> None:
    found = {hit.path.stem for hit in photos.search(query, top=14)}
    assert found
    assert found.isdisjoint({"astronaut", "photographer", "tourist"})


def test_an_excluded_photo_hides_no_other_photo(photos: PhotoCollection) -> None:
    """It was the best one, and photos with less than half of the best probability are not shown."""
    assert "cat" not in names(photos.search("a camera"))
    assert "cat" in names(photos.search("a camera -photographer"))


def test_the_order_of_required_parts_is_of_no_importance(photos: PhotoCollection) -> None:
    assert names(photos.search('+man +"a blue sky"')) == names(photos.search('+"a blue sky" +man')) != []


def test_an_excluded_thing_is_left_out_beside_a_similar_photo(photos: PhotoCollection) -> None:
    with Image.open(SAMPLES / "images" / "dogs.jpg") as photo:
        part = photo.crop((40, 30, *photo.size))
    assert "dogs" in names(photos.search("grass", like=part))
    assert "dogs" not in names(photos.search("-dog", like=part))


@pytest.mark.parametrize(("query", "thing"), [("without a dog", "dog"), ("-giraffe", "giraffe"), ("no cats", "cats")])
def test_the_figure_of_a_negation_is_that_of_the_absence(photos: PhotoCollection, query: str, thing: str) -> None:
    with_it = {hit.path.stem: hit.probability for hit in photos.search(thing, top=14, everything=True)}
    without = {hit.path.stem: hit.probability for hit in photos.search(query, top=14, everything=True)}
    assert without == pytest.approx({name: 1 - (found or 0) for name, found in with_it.items()}, abs=1e-3)
    shown = {hit.path.stem for hit in photos.search(query, top=14)}
    assert shown == {name for name, found in with_it.items() if (found or 0) < 0.5}


def test_a_number_or_a_quality_orders_what_the_noun_finds(photos: PhotoCollection) -> None:
    for noun, longer in (("dog", "two dogs"), ("cat", "a green cat"), ("dog", "three purple dogs")):
        of_noun = {hit.path.stem for hit in photos.search(noun, top=14)}
        assert of_noun
        assert of_noun <= {hit.path.stem for hit in photos.search(longer, top=14)}


def test_the_last_word_of_a_compound_finds_nothing_without_the_compound(photos: PhotoCollection) -> None:
    assert names(photos.search("pole", top=14)) != []
    assert names(photos.search("totem pole", top=14)) == []
    assert "cat" in names(photos.search("house cat", top=14))


def test_the_score_of_required_words_is_their_minimum(photos: PhotoCollection) -> None:
    cat = {hit.path.stem: hit.score for hit in photos.search("cat", top=14, everything=True)}
    coffee = {hit.path.stem: hit.score for hit in photos.search("coffee", top=14, everything=True)}
    both = {hit.path.stem: hit.score for hit in photos.search("cat +coffee", top=14, everything=True)}
    assert both == pytest.approx({name: min(cat[name], coffee[name]) for name in cat}, abs=1e-4)


def test_a_copy_of_a_photo_has_probability_one(photos: PhotoCollection, tmp_path: Path) -> None:
    Image.open(CAT).resize((700, 466)).save(tmp_path / "smaller.jpg", quality=80)
    for same in (Image.open(CAT), tmp_path / "smaller.jpg"):
        first, *others = photos.like(same, everything=True)
        assert (first.path, round(first.probability or 0, 4)) == (CAT, 1.0)
        assert all((other.probability or 0) < 0.9 for other in others)


def test_similar_photos_include_copies_and_not_the_photo_itself(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    mine = Path(shutil.copy(CAT, tmp_path / "mine" / "mine.jpg"))
    update_index(tmp_path / "index", [tmp_path / "mine"], search_encoder(PHOTO_MODEL))
    with deixis.open_index(tmp_path / "index") as opened:
        known = next(hit.photo for hit in all_photos(opened.browse()) if hit.path == CAT)
        for same in (CAT, str(CAT), known):
            found = opened.like(same, top=15, everything=True)
            assert found[0].path == mine
            assert CAT not in [photo.path for photo in all_photos(found)]
            both = opened.search("a cat", top=15, like=same, everything=True)
            assert CAT not in [photo.path for photo in all_photos(both)]


def test_a_changed_photo_is_encoded_again(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    (tmp_path / "mine").mkdir()
    mine = Path(shutil.copy(CAT, tmp_path / "mine" / "mine.jpg"))
    update_index(tmp_path / "index", [tmp_path / "mine"], search_encoder(PHOTO_MODEL))
    shutil.copy(SAMPLES / "images" / "dogs.jpg", mine)
    with deixis.open_index(tmp_path / "index") as photos:
        assert photos.like(mine, top=1)[0].path.stem == "dogs"


def test_only_the_right_opaque_id_gives_a_photo(photos: PhotoCollection) -> None:
    known = photos.browse(count=1)[0].photo
    assert photos.photo(known.photo_id) == known
    assert Image.open(io.BytesIO(photos.thumbnail(known.photo_id) or b"")).format == "JPEG"
    assert len(photos.regions(known.photo_id)) == 20
    number = known.photo_id.partition("-")[0]
    for wrong in (number, f"{number}-0000000000000000", "", "..", "zz", "-", "9" * 40, str(CAT)):
        with pytest.raises(DeixisError):
            photos.photo(wrong)


def test_pages_contain_every_photo_once(photos: PhotoCollection) -> None:
    pages = [hit.photo_id for begin in range(0, 20, 5) for hit in all_photos(photos.browse(count=5, begin=begin))]
    assert len(set(pages)) == len(pages) == 14


def test_unknown_words_find_nothing_whatever_the_probabilities(
    photos: PhotoCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Calibration, "is_hit", lambda _, logits, *others: np.ones(len(logits), dtype=bool))
    assert len(photos.search("a cat", top=14)) == 14
    assert photos.search("a qwertyuiop") == []
    assert photos.search("a cat +qwertyuiop") == []
    assert len(photos.search("a qwertyuiop", top=14, everything=True)) == 14


def test_photos_that_pass_the_filters_are_counted(photos: PhotoCollection) -> None:
    counts = {text: photos.search(text).searched for text in ("cat", "cat in:images", "cat in:nowhere")}
    assert counts == {"cat": 14, "cat in:images": 14, "cat in:nowhere": 0}
    assert photos.like(CAT, after="2100").searched == 0
    assert photos.search("cat in:nowhere").photos == 14


def test_unknown_words_are_reported(photos: PhotoCollection) -> None:
    assert photos.search("a cat -qwertyuiop +asdfgh +zxcvb").unknown_words == ("asdfgh", "zxcvb", "qwertyuiop")
    assert photos.search("Hund, Schnee").unknown_words == ("hund", "schnee")


@pytest.mark.parametrize(
    ("sentence", "top", "message"),
    [("a cat -cat", 10, "'cat'"), ("a cat", 0, "top"), ("a cat", -1, "top"), ("a cat", 1001, "top")],
)
def test_contradictory_queries_and_invalid_numbers_of_results_are_errors(
    photos: PhotoCollection, sentence: str, top: int, message: str
) -> None:
    with pytest.raises(DeixisError, match=message):
        photos.search(sentence, top=top)


def test_candidates_of_a_large_index_give_the_same_results(
    photos: PhotoCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = names(photos.search("two dogs in the snow", top=3, everything=True))
    monkeypatch.setattr(collection_module, "_SMALL_INDEX", 0)
    monkeypatch.setattr(collection_module, "_CANDIDATES", 5)
    assert names(photos.search("two dogs in the snow", top=3, everything=True)) == whole


def test_many_threads_can_search_at_once(photos: PhotoCollection) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: names(photos.search("a cat", everything=True)), range(16)))
    assert all(one == found[0] for one in found)


def test_copies_are_grouped_and_new_photos_and_filters_count(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    holiday = tmp_path / "holiday"
    holiday.mkdir()
    with deixis.open_index(tmp_path / "index") as photos:
        before = len(photos)
        shutil.copy(CAT, holiday / "copy.jpg")
        update_index(tmp_path / "index", [holiday], search_encoder(PHOTO_MODEL))
        assert len(photos) == before + 1
        hit = photos.search("a cat", top=1)[0]
        assert {hit.path.stem, *(other.path.stem for other in hit.duplicates)} == {"cat", "copy"}
        assert names(photos.search("a cat in:holiday", everything=True)) == ["copy"]
        assert len(photos.search("a cat", everything=True, grouped=False, top=20)) == before + 1
        assert photos.search("a cat camera:nosuch") == []


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    update_index(tmp_path / "index", [tmp_path / "none"], search_encoder(PHOTO_MODEL))
    with deixis.open_index(tmp_path / "index") as photos:
        found = photos.search("a cat", everything=True), photos.like(CAT), photos.browse()
        assert (len(photos), found) == (0, ([], [], []))


def test_an_index_of_other_models_is_an_error_that_says_how_to_rebuild_it(tmp_path: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    connection = connect_writer(tmp_path / "index")
    connection.execute("UPDATE about SET value = 'other' WHERE key = 'fingerprint'")
    connection.close()
    with pytest.raises(DeixisError, match="index.*--rebuild"):
        deixis.open_index(tmp_path / "index")


def test_without_calibration_hits_have_no_probabilities(sample_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with deixis.open_index(sample_index) as photos:
        monkeypatch.setattr(photos, "calibration", None)
        hits = photos.search("a cat", top=14)
        assert [hit.probability for hit in hits] == [None] * 14
        assert hits[0].path.stem == "cat"
        assert photos.search("an animal -cat", top=14)[0].path.stem != "cat"
        assert len(photos.like(CAT, top=14)) == 13


def test_and_not_is_the_product_of_probabilities() -> None:
    one, other = np.array([0.9, 0.2, 0.999999]), np.array([0.5, 0.9, 1e-6])
    found = collection_module._and_not(np.log(one / (1 - one)).astype(np.float32), np.log(other / (1 - other)))
    assert np.allclose(1 / (1 + np.exp(-found)), one * (1 - other), atol=1e-4)


def test_photos_are_indexed_and_opened_at_the_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "Pictures").mkdir()
    shutil.copy(CAT, tmp_path / "Pictures")
    assert index_photos("~/Pictures").added == 1
    assert index_photos([tmp_path / "Pictures" / "cat.jpg"], tmp_path / "deixis" / "photos.deixis").unchanged == 1
    with deixis.open_index() as photos:
        assert names(photos.search("a cat")) == ["cat"]


def test_scores_for_other_queries_are_computed_once_for_each_photo(
    tmp_path: Path, sample_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sample_index, tmp_path / "index")
    scored: list[int] = []
    compute = QueryBank.scores

    def scores(bank: QueryBank, photos: np.ndarray) -> np.ndarray:
        scored.append(len(photos))
        return compute(bank, photos)

    monkeypatch.setattr(QueryBank, "scores", scores)
    with PhotoCollection(tmp_path / "index", search_encoder(PHOTO_MODEL)) as photos:
        first = [hit.probability for hit in photos.search("a cat", everything=True)]
        assert [hit.probability for hit in photos.search("a cat", everything=True)] == first
        assert scored == [len(photos)]
        (tmp_path / "mine").mkdir()
        shutil.copy(CAT, tmp_path / "mine" / "mine.jpg")
        update_index(tmp_path / "index", [tmp_path / "mine"], search_encoder(PHOTO_MODEL))
        hits = photos.search("a cat", everything=True, grouped=False)
        assert scored == [len(photos) - 1, 1]
        # A rebuilt database uses the same numbers for other photos.
        photos._other_scores = ("another index", np.full(100, 9.0, np.float32))
        again = photos.search("a cat", everything=True, grouped=False)
    assert [hit.probability for hit in again] == pytest.approx([hit.probability for hit in hits], abs=1e-4)
    copies = [hit.probability for hit in hits if hit.path.stem in ("mine", "cat")]
    assert copies[0] == pytest.approx(copies[1], abs=1e-4)


def test_a_response_does_not_depend_on_earlier_searches(sample_index: Path) -> None:
    """Earlier searches leave vectors of sentences and phrases; a search with none of them is the oracle."""
    sentences = ["two dogs in the snow", "a cat near two dogs", "the snow", "a man with a camera", "a camera", "boats"]

    def respond(photos: PhotoCollection, sentence: str) -> str:
        return search_response(sentence, photos.search(sentence, everything=True)).model_dump_json()

    with PhotoCollection(sample_index, SearchEncoder()) as used:
        for sentence in reversed(sentences):
            respond(used, f"{sentence} today")
        later = [respond(used, sentence) for sentence in sentences]
    alone = []
    for sentence in sentences:
        with PhotoCollection(sample_index, SearchEncoder()) as photos:
            alone.append(respond(photos, sentence))
    assert later == alone


def test_an_overview_follows_the_query_but_for_its_own_filters(tmp_path: Path) -> None:
    names = {"2021/June": "cat", "2021": "dogs", "June": "astronaut"}
    for place, name in names.items():
        (tmp_path / "mine" / place).mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[0x0132] = f"{2021 + len(place)}:06:01 10:00:00"
        Image.open(SAMPLES / "images" / f"{name}.jpg").save(tmp_path / "mine" / place / f"{name}.jpg", exif=exif)
    shutil.copy(SAMPLES / "images" / "bee.jpg", tmp_path / "mine" / "bee.jpg")  # only the file has a time
    index_photos(tmp_path / "mine", tmp_path / "index")
    with open_index(tmp_path / "index") as photos:
        found = photos.overview()
        assert found.folders == {"mine": 4, "mine/2021": 2, "mine/2021/June": 1, "mine/June": 1}
        assert (found.months, found.undated) == ({"2025-06": 2, "2030-06": 1}, 1)
        for name, count in found.folders.items():
            assert photos.browse(f'in:"{name}/"').searched == count
        assert [hit.path.stem for hit in photos.browse()] == ["cat", "astronaut", "dogs", "bee"]
        assert [hit.path.stem for hit in photos.browse("is:undated")] == ["bee"]
        found = photos.overview("dogs in:2021 after:2035")
        assert found.folders == {}
        assert found.months["2025-06"] == 1
        found = photos.overview("in:2021/June/ after:2029")
        assert (found.folders, found.months) == ({"mine": 1, "mine/2021": 1, "mine/2021/June": 1}, {"2030-06": 1})


def test_near_duplicates_of_a_month_are_one_result_of_a_listing(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name, month in (("a", 6), ("b", 6), ("c", 7)):
        exif = Image.Exif()
        exif[0x0132] = f"2024:{month:02}:0{ord(name) - 96} 10:00:00"
        Image.open(CAT).save(tmp_path / "mine" / f"{name}.jpg", exif=exif)
    index_photos(tmp_path / "mine", tmp_path / "index")
    with open_index(tmp_path / "index") as photos:
        listed, most, one = (
            [[hit.path.stem, *(other.path.stem for other in hit.duplicates)] for hit in hits]
            for hits in (photos.browse(), photos.search("in:mine", 2), photos.search("in:mine", 1))
        )
    assert listed == most == [["c"], ["b", "a"]]
    assert one == [["c"]]


def test_albums_and_favourites_are_filters_and_follow_the_photos(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    cat, dogs = (Path(shutil.copy(SAMPLES / "images" / name, tmp_path / "mine")) for name in ("cat.jpg", "dogs.jpg"))
    index_photos(tmp_path / "mine", tmp_path / "index")
    with open_index(tmp_path / "index") as photos:
        photos.albums.change("Best of 2024", [dogs, cat])
        assert (tmp_path / "index" / "albums" / "Best of 2024.txt").read_text() == f"{dogs}\n{cat}\n"
        photos.albums.change("Best of 2024", [cat], remove=True)
        photos.set_favourites([hit.photo for hit in photos.browse() if hit.path == cat], True)
        assert [hit.path for hit in photos.search('album:"Best of 2024"')] == [dogs]
        assert [hit.path for hit in photos.search("a cat is:favourite")] == [cat]
        assert photos.favourites() == [hit.photo_id for hit in photos.browse("is:favourite")]
        with pytest.raises(DeixisError, match="Best of 2024"):
            photos.search("album:Worst")
    dogs = dogs.rename(tmp_path / "mine" / "two dogs.jpg")
    index_photos(tmp_path / "mine", tmp_path / "index")
    with open_index(tmp_path / "index") as photos:
        assert [hit.path for hit in photos.browse('album:"Best of 2024"')] == [dogs]
        photos.albums.change("Best of 2024", [dogs], remove=True)
        assert photos.albums.names() == []


def test_a_favourite_is_not_written_through_a_link_to_another_place(tmp_path: Path) -> None:
    for folder in ("mine", "elsewhere"):
        (tmp_path / folder / "in").mkdir(parents=True)
    shutil.copy(CAT, tmp_path / "mine" / "in")
    index_photos(tmp_path / "mine", tmp_path / "index")
    (tmp_path / "mine" / "in").rename(tmp_path / "mine" / "moved")
    (tmp_path / "mine" / "in").symlink_to(tmp_path / "elsewhere" / "in")
    with open_index(tmp_path / "index") as photos, pytest.raises(DeixisError, match="link"):
        photos.set_favourites([hit.photo for hit in photos.browse()], True)
    assert list((tmp_path / "elsewhere" / "in").iterdir()) == []
