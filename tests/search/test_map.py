"""Maps of photos and sentences: layout, picture and page."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.models.pipeline import Pipeline, load
from deixis.search.map import (
    SemanticMap,
    crop_square,
    draw_map,
    lay_out,
    make_map,
    map_page,
    move_apart,
    sample_photos,
    shorten,
)
from tests.browser.conftest import FLAGS

CHROMIUM = shutil.which("chromium")
COLOURS = ("red", "lime", "blue", "yellow", "black", "white")


def small_map(folder: Path, count: int = 6, each: int = 2, sentence: str = "A photo of </script> {}") -> SemanticMap:
    """A map without a model: photos of one colour, and sentences around them."""
    files = []
    for number in range(count):
        file = folder / f"{number}.png"
        Image.new("RGB", (60, 40), COLOURS[number % len(COLOURS)]).save(file)
        files.append(file)
    generator = np.random.default_rng(0)
    photos = generator.random((count, 2)).astype(np.float32)
    owner = np.repeat(np.arange(count), each)
    near = np.clip(photos[owner] + generator.normal(0, 0.05, (count * each, 2)), 0, 1).astype(np.float32)
    sentences = tuple(sentence.format(COLOURS[number % len(COLOURS)]) for number in owner)
    return SemanticMap(tuple(files), sentences, owner, photos, near)


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_the_page_contains_the_map_and_escapes_sentences(tmp_path: Path) -> None:
    shown = small_map(tmp_path)
    data = data_of(map_page(shown))
    assert data["texts"] == list(shown.sentences)
    for name, expected in (("photos", shown.photo_positions), ("sentences", shown.sentence_positions)):
        assert np.array_equal(np.frombuffer(base64.b64decode(str(data[name])), "<f4").reshape(-1, 2), expected)
    assert np.frombuffer(base64.b64decode(str(data["owner"])), "<i4").tolist() == shown.owner.tolist()


def test_the_page_makes_no_network_requests(tmp_path: Path) -> None:
    page = map_page(small_map(tmp_path))
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href|url\()\s*=?\s*["']?(?!data:)(?:https?:)?//""", page)
    assert "http://" not in page
    assert "https://" not in page


def test_every_photo_is_on_the_sprite_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.search.map._SHEET", 400)  # two by two of 192 pixels
    data = data_of(map_page(small_map(tmp_path)))
    sheets = data["sheets"]
    assert isinstance(sheets, list)
    assert (len(sheets), data["row"], data["tile"]) == (2, 2, 192)
    first = Image.open(io.BytesIO(base64.b64decode(sheets[0].split(",")[1])))
    assert first.size == (384, 384)
    blue = first.getpixel((96, 288))
    assert isinstance(blue, tuple)
    assert blue[2] > 240 > 20 > blue[0]
    second = Image.open(io.BytesIO(base64.b64decode(sheets[1].split(",")[1])))
    assert second.size == (384, 192)
    black, white = second.getpixel((96, 96)), second.getpixel((288, 96))
    assert max(black) < 10  # type: ignore[type-var, arg-type]
    assert min(white) > 245  # type: ignore[type-var, arg-type]


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to look with")
def test_hovering_shows_photos_and_the_search_box_finds_sentences(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    shown = small_map(tmp_path, sentence="a <b>{}</b> thing")
    (tmp_path / "map.html").write_text(map_page(shown), encoding="utf-8")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            page = browser.new_page(viewport={"width": 900, "height": 700})
            reported: list[str] = []
            requests: list[str] = []
            page.on("pageerror", lambda error: reported.append(str(error)))
            page.on("console", lambda message: reported.append(message.text))
            page.on("request", lambda request: requests.append(request.url))
            page.goto((tmp_path / "map.html").as_uri())
            assert page.inner_text("#count") == "6 photos, 12 sentences"
            x, y = page.evaluate("[xOf(photos, 2), yOf(photos, 2)]")
            page.mouse.move(x, y)
            page.wait_for_selector("#card:not([hidden])")
            assert page.inner_text("#card").split("\n")[0] == "a <b>blue</b> thing"
            x, y = page.evaluate("[xOf(photos, 2), yOf(photos, 2)]")
            page.wait_for_function("sheets.every((levels) => levels.length)")
            page.evaluate("paint()")
            red, _, blue, _ = page.evaluate(f"[...pen.getImageData({x}, {y}, 1, 1).data]")
            assert blue > 240 > 30 > red
            page.mouse.wheel(0, -500)
            page.wait_for_function("scale > 1.5 * least")
            moved = page.evaluate("[xOf(photos, 2), yOf(photos, 2)]")
            assert moved == pytest.approx([x, y], abs=1)  # what is under the pointer stays there
            page.fill("#find", "BLUE")
            assert page.inner_text("#count") == "6 photos, 2 sentences"
            page.focus("#map")
            page.keyboard.press("0")
            assert page.evaluate("scale === least")
            assert reported == []
            assert [url for url in requests if not url.startswith("data:")] == [(tmp_path / "map.html").as_uri()]
        finally:
            browser.close()


pytest.importorskip("openTSNE", reason="the extra 'map' is not installed")


def clusters(count: int = 3, each: int = 20) -> np.ndarray:
    generator = np.random.default_rng(0)
    middles = np.repeat(np.eye(count, 8), each, axis=0)
    return (middles + generator.normal(0, 0.05, middles.shape)).astype(np.float32)


@pytest.mark.parametrize("lengths", [(1.0, 1.0), (0.1, 10.0)], ids=["equal", "different"])
def test_similar_vectors_are_close_whatever_their_lengths(lengths: tuple[float, float]) -> None:
    positions = lay_out(clusters() * np.random.default_rng(1).uniform(*lengths, (60, 1)).astype(np.float32))
    group = np.repeat(np.arange(3), 20)
    apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (group[apart.argmin(axis=1)] == group).all()


def test_positions_fill_a_square_and_are_the_same_for_the_same_seed() -> None:
    positions = lay_out(clusters(), seed=3)
    assert positions.min() >= 0
    assert positions.max() <= 1
    assert np.ptp(positions, axis=0).max() == pytest.approx(1, abs=1e-5)
    assert np.array_equal(positions, lay_out(clusters(), seed=3))


def test_a_missing_extra_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(DeixisError, match=r"deixis\[map\]"):
        lay_out(clusters())


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return load("two-branch")


def test_sentences_are_near_their_photos(sample_data: Dataset, pipeline: Pipeline) -> None:
    shown = make_map(pipeline, sample_data, sample_data.photos)
    assert len(shown.files) == len(sample_data.photos)
    assert [shown.sentences[row] for row in np.flatnonzero(shown.owner == 0)] == [
        caption.text for caption in sample_data.photos[0].sentences
    ]
    apart = np.linalg.norm(shown.sentence_positions[:, None] - shown.photo_positions[None], axis=2)
    own = apart[np.arange(len(shown.owner)), shown.owner]
    assert (apart < own[:, None]).sum(axis=1).mean() < len(shown.files) / 4  # by chance it would be half of them


def test_photos_are_sampled_and_keep_the_order_of_the_data(sample_data: Dataset) -> None:
    some = sample_photos(sample_data, sample_data.photos, 5, seed=1)
    assert len(some) == 5
    order = [sample_data.photos.ids.index(photo_id) for photo_id in some.ids]
    assert order == sorted(order)
    assert some.ids != sample_photos(sample_data, sample_data.photos, 5, seed=2).ids
    assert len(sample_photos(sample_data, sample_data.photos, 999)) == len(sample_data.photos)


def test_too_few_photos_and_models_without_embeddings_are_errors(
    sample_data: Dataset, pipeline: Pipeline, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match="2 photos"):
        make_map(pipeline, sample_data, sample_data.photos[:2])
    with pytest.raises(DeixisError, match="grounder"):
        make_map(load("grounder"), sample_data, sample_data.photos)


@given(st.integers(1, 12), st.integers(0, 99))
def test_overlapping_squares_are_moved_apart_and_stay_inside(count: int, seed: int) -> None:
    positions = np.random.default_rng(seed).uniform(40, 60, (count, 2))
    apart = move_apart(positions, 8, (4, 96))
    gap = np.abs(apart[:, None] - apart[None]).max(axis=2)
    np.fill_diagonal(gap, np.inf)
    assert gap.min() > 7.5
    assert apart.min() >= 4
    assert apart.max() <= 96


def test_squares_that_do_not_overlap_are_not_moved() -> None:
    positions = np.array([[10.0, 10.0], [50.0, 50.0]])
    assert np.allclose(move_apart(positions, 8, (0, 100)), positions, atol=0.01)


@given(st.text("ab ."), st.integers(3, 20))
def test_a_shortened_sentence_is_its_beginning(sentence: str, most: int) -> None:
    short = shorten(sentence, most)
    assert len(short) <= most
    assert " ".join(sentence.split()).startswith(short.removesuffix(" …").removesuffix("…"))


def test_the_square_is_the_centre_of_the_photo() -> None:
    photo = Image.new("RGB", (90, 30), "red")
    photo.paste("blue", (30, 0, 60, 30))
    small = crop_square(photo, 10)
    assert small.size == (10, 10)
    assert small.getpixel((5, 5)) == (0, 0, 255)


def test_every_photo_is_in_the_picture(tmp_path: Path) -> None:
    shown = small_map(tmp_path)
    picture = np.asarray(draw_map(shown, side=600))
    for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)):
        assert (np.abs(picture.astype(int) - colour).max(axis=2) < 8).sum() > 200
    assert max(picture.shape) <= 600
    written = (picture < 250).any(axis=2)
    rows, columns = np.flatnonzero(written.any(axis=1)), np.flatnonzero(written.any(axis=0))
    assert max(rows[0], columns[0]) <= 30


def test_sentences_are_written_where_they_do_not_overlap(tmp_path: Path) -> None:
    with_words = draw_map(small_map(tmp_path, 4, 1, "a sentence with several words {}"), side=900)
    without = draw_map(small_map(tmp_path, 4, 1, "."), side=900)
    dark = [(np.asarray(picture.convert("L")) < 80).sum() for picture in (with_words, without)]
    assert dark[0] > dark[1] + 300
