"""The map as a page: what is in the file, and what a browser makes of it."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.tasks.map.page import map_page
from tests.tasks.maps import small_map

CHROMIUM = shutil.which("chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_the_page_holds_the_map_and_no_sentence_ends_its_script(tmp_path: Path) -> None:
    shown = small_map(tmp_path)
    data = data_of(map_page(shown))
    assert data["texts"] == list(shown.sentences)
    for name, expected in (("photos", shown.photo_places), ("sentences", shown.sentence_places)):
        assert np.array_equal(np.frombuffer(base64.b64decode(str(data[name])), "<f4").reshape(-1, 2), expected)
    assert np.frombuffer(base64.b64decode(str(data["owner"])), "<i4").tolist() == shown.owner.tolist()


def test_the_page_asks_the_network_for_nothing(tmp_path: Path) -> None:
    page = map_page(small_map(tmp_path))
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href|url\()\s*=?\s*["']?(?!data:)(?:https?:)?//""", page)
    assert "http://" not in page
    assert "https://" not in page


def test_every_photo_is_on_its_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.tasks.map.page._SHEET", 400)  # two by two of 192 pixels
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


def test_many_photos_get_smaller_squares(tmp_path: Path) -> None:
    shown = small_map(tmp_path, count=160, each=1)
    assert data_of(map_page(shown))["tile"] == 112


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to look with")
def test_in_a_browser_the_pointer_finds_photos_and_words_find_sentences(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    shown = small_map(tmp_path, sentence="a <b>{}</b> thing")
    (tmp_path / "map.html").write_text(map_page(shown), encoding="utf-8")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            page = browser.new_page(viewport={"width": 900, "height": 700})
            told: list[str] = []
            asked: list[str] = []
            page.on("pageerror", lambda error: told.append(str(error)))
            page.on("console", lambda message: told.append(message.text))
            page.on("request", lambda request: asked.append(request.url))
            page.goto((tmp_path / "map.html").as_uri())
            assert page.inner_text("#count") == "6 photos, 12 sentences"
            x, y = page.evaluate("[xOf(photos, 2), yOf(photos, 2)]")
            page.mouse.move(x, y)
            page.wait_for_selector("#card:not([hidden])")
            assert page.inner_text("#card").split("\n")[0] == "a <b>blue</b> thing"
            x, y = page.evaluate("[xOf(photos, 2), yOf(photos, 2)]")
            page.wait_for_function("sheets.every((levels) => levels.length)")
            page.evaluate("paint()")
            seen = page.evaluate(f"[...pen.getImageData({x}, {y}, 1, 1).data]")
            assert seen[2] > 240 > 30 > seen[0]
            page.mouse.wheel(0, -500)
            page.wait_for_function("scale > 1.5 * least")
            moved = page.evaluate("[xOf(photos, 2), yOf(photos, 2)]")
            assert moved == pytest.approx([x, y], abs=1)  # what is under the pointer stays there
            page.fill("#find", "BLUE")
            assert page.inner_text("#count") == "6 photos, 2 sentences"
            page.focus("#map")
            page.keyboard.press("0")
            assert page.evaluate("scale === least")
            assert told == []
            assert [url for url in asked if not url.startswith("data:")] == [(tmp_path / "map.html").as_uri()]
        finally:
            browser.close()
