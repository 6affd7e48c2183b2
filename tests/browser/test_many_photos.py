"""The page stays responsive with ten thousand photos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deixis.search.results import PhotoRecord
from tests.browser.conftest import Site
from tests.web.fakes import FakeCollection, photo_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import expect

COUNT = 10_000
MAX_TILES = 150
SLOWER = 8
"""How much slower the page may be than with five photos, on whatever machine."""

# Scrolls fast; returns frame times and the maximum number of tiles.
SCROLL = """async () => {
    const frames = [];
    let most = 0, last = performance.now();
    for (let step = 0; step < 100; step++) {
        scrollBy(0, innerHeight / 4);
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        frames.push(now - last);
        last = now;
        most = Math.max(most, document.querySelectorAll(".tile").length);
    }
    frames.sort((one, other) => one - other);
    return { most, median: frames[50], slow: frames[95], reached: scrollY };
}"""


# Records the time from each key to the next frame.
WATCH_TYPING = """() => {
    window.typed = [];
    document.addEventListener("input", event => {
        const pressed = event.timeStamp;
        requestAnimationFrame(() => setTimeout(() => window.typed.push(performance.now() - pressed)));
    });
}"""


class ManyPhotos(FakeCollection):
    """Photos without files that share one thumbnail."""

    def __init__(self) -> None:
        super().__init__()
        shapes = [(640, 480), (480, 640), (600, 600), (900, 500)]
        for number in range(COUNT):
            name = f"{number:05d}"
            self.known[name] = PhotoRecord(name, Path(f"/photos/{name}.jpg"), shapes[number % len(shapes)])
        self.jpeg = photo_bytes((320, 240))

    def thumbnail(self, photo_id: str) -> bytes:
        return self.jpeg


def test_only_the_tiles_near_the_window_are_in_the_page_and_frames_stay_short(page: Page, site: Site) -> None:
    scrolled = []
    for photos in (None, ManyPhotos()):
        page.goto(site(photos) if photos else site())
        expect(page.get_by_text("10,000 photos" if photos else "5 photos")).to_be_visible()
        expect(page.locator(".tile").first).to_be_visible()
        scrolled.append(page.evaluate(SCROLL))
    few, many = scrolled
    assert many["most"] <= MAX_TILES
    assert many["reached"] > 15_000
    assert many["median"] < SLOWER * few["median"], scrolled


def test_typing_with_many_photos_is_not_delayed(page: Page, site: Site) -> None:
    medians = []
    for photos in (None, ManyPhotos()):
        page.goto(site(photos) if photos else site())
        expect(page.get_by_text("10,000 photos" if photos else "5 photos")).to_be_visible()
        page.get_by_label("Search photos by a sentence").focus()
        page.evaluate(WATCH_TYPING)
        page.keyboard.type("00042 and more", delay=30)
        delays = page.evaluate("typed.sort((one, other) => one - other)")
        assert len(delays) == len("00042 and more")
        medians.append(delays[len(delays) // 2])
    few, many = medians
    assert many < SLOWER * few, medians
    expect(page.locator(".tile")).to_have_count(1)


def test_the_last_photo_can_be_reached_and_opened(page: Page, site: Site) -> None:
    page.goto(site(ManyPhotos()))
    last = page.get_by_label("09999.jpg")
    for _ in range(400):  # the pages are loaded one after the other
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        page.wait_for_timeout(50)
        if last.count():
            break
    expect(last).to_be_visible()
    assert page.locator(".tile").count() <= MAX_TILES
    was_at = page.evaluate("scrollY")
    last.click()
    expect(page.get_by_text("10000 of 10000")).to_be_visible()
    page.keyboard.press("Escape")
    expect(last).to_be_focused()
    # The page is where it was, to within half a window: lines below the photos come and go.
    assert page.evaluate("scrollY") == pytest.approx(was_at, abs=page.evaluate("innerHeight") / 2)
