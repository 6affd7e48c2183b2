"""Take the screenshots of the web app for the README and ``docs/reference/http.md``, or of every page.

python scripts/screenshots.py [--out docs/pictures] [--chromium /usr/bin/chromium]
python scripts/screenshots.py --every-page --out shots [--address "http://127.0.0.1:7860/?token=…"]

Indexes the sample photos, serves them and drives a browser; needs playwright (in the test extra) and Chromium.
``--every-page`` takes each page and state in light and dark, on a desktop and on a phone, to look at.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from deixis.data.samples import SAMPLES

DESKTOP = {"width": 1280, "height": 800}
LOW = {"width": 1280, "height": 520}
LAPTOP = {"width": 1366, "height": 768}
PHONE = {"width": 390, "height": 844}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
QUERY = "a woman with a camera"
SENTENCE = "A woman in a blue shirt holds a phone in front of an old building."


@contextmanager
def demo() -> Iterator[str]:
    """Run a demo and yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "deixis.cli.main", "demo", "--no-open", "--port", "0", "--into", f"{folder}/i"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        try:
            assert running.stdout is not None  # noqa: S101
            link = next(line.strip() for line in running.stdout if line.startswith("http"))
            yield link
        finally:
            running.terminate()
            running.wait()


def wait_until_loaded(page: Page) -> None:
    """Wait until all images are loaded and no search is running."""
    # Not `wait_for_function`, which the content security policy of the page forbids.
    while not page.evaluate(
        "[...document.images].every(each => each.complete) && !document.body.innerText.includes('Looking …')"
    ):
        page.wait_for_timeout(100)
    page.wait_for_timeout(400)


def show_grid(page: Page) -> None:
    """Open all photos."""
    page.locator(".tile").first.wait_for(timeout=60_000)


def show_hits(page: Page) -> None:
    """Open the results of a query, with the boxes of those on the screen."""
    search(page, QUERY)
    page.locator(".tile .box").first.wait_for(timeout=60_000)
    page.wait_for_load_state("networkidle", timeout=60_000)


def show_nothing_found(page: Page) -> None:
    """Search for a word that the models do not know."""
    search(page, "a qwertyuiop")
    page.locator(".notice").wait_for(timeout=60_000)


def show_error(page: Page) -> None:
    """Search with a filter that does not exist."""
    search(page, "date:2024")
    page.locator(".notice").wait_for(timeout=60_000)


def show_filter(page: Page) -> None:
    """Open the photos of some years."""
    search(page, "after:1990 before:2100")
    page.locator(".chip").first.wait_for(timeout=60_000)


def show_selection(page: Page) -> None:
    """Select two photos."""
    show_grid(page)
    page.get_by_role("button", name="Select").click()
    for place in (0, 1):
        page.locator(".tile").nth(place).click()


def show_photo(page: Page) -> None:
    """Open a photo with a sentence about it."""
    show_grid(page)
    tourist = page.get_by_label(re.compile("tourist"))
    (tourist if tourist.count() else page.locator(".tile")).first.click()
    describe(page, SENTENCE)


def show_guess(page: Page) -> None:
    """Open a photo with a sentence that has an unknown word and things that are not there."""
    show_grid(page)
    page.locator(".tile").nth(1).click()
    describe(page, "A qwertyuiop, a thing, an elephant and a person.")


def show_missing(page: Page) -> None:
    """Open a photo that does not exist."""
    page.goto(page.url.partition("?")[0] + "?photo=0-0")
    page.locator(".notice").wait_for(timeout=60_000)


def show_similar(page: Page) -> None:
    """Open photos like a photo."""
    show_grid(page)
    page.locator(".tile").nth(2).click()
    page.get_by_role("button", name="More like this").click()
    page.locator(".tile, .notice").first.wait_for(timeout=60_000)


def show_upload(page: Page) -> None:
    """Search by a photo of the user."""
    show_grid(page)
    page.get_by_label("A photo to search by").set_input_files(SAMPLES / "images" / "dogs.jpg")
    page.get_by_role("button", name="Caption and describe this photo").wait_for(timeout=60_000)
    page.locator(".tile, .notice").first.wait_for(timeout=60_000)


def show_uploaded(page: Page) -> None:
    """Caption and describe a photo of the user."""
    show_upload(page)
    page.get_by_role("button", name="Caption and describe this photo").click()
    describe(page, "Two dogs play on the grass.")


def show_log_in(page: Page) -> None:
    """Open the page without a token."""
    page.context.clear_cookies()
    page.reload()
    page.get_by_label("Password").wait_for(timeout=60_000)


def search(page: Page, query: str) -> None:
    """Open the results of a query."""
    page.goto(page.url.partition("?")[0] + "?" + urlencode({"q": query}))


def describe(page: Page, sentence: str) -> None:
    """Type a sentence about an open photo, and wait for the models."""
    page.get_by_label("A sentence about this photo").fill(sentence)
    page.locator(".phrase-line").first.wait_for(timeout=60_000)
    page.locator(".region .words").first.wait_for(timeout=60_000)
    page.mouse.move(0, 0)


IN_DOCS = (
    ("web-search", show_hits, LOW, "light"),
    ("web-photo", show_photo, DESKTOP, "light"),
    ("web-photo-dark", show_photo, DESKTOP, "dark"),
    ("web-photo-phone", show_photo, PHONE, "light"),
)
PAGES = (
    show_grid,
    show_hits,
    show_nothing_found,
    show_error,
    show_filter,
    show_selection,
    show_photo,
    show_guess,
    show_missing,
    show_similar,
    show_upload,
    show_uploaded,
    show_log_in,
)
EVERY_PAGE = tuple(
    (f"{show.__name__.removeprefix('show_')}-{device}-{scheme}", show, size, scheme)
    for show in PAGES
    for device, size in (("desktop", LAPTOP), ("phone", PHONE))
    for scheme in ("light", "dark")
)
Shot = tuple[str, Callable[[Page], None], dict[str, int], str]


def take_all(browser: Browser, address: str, out: Path, shots: Sequence[Shot], form: Literal["jpeg", "png"]) -> None:
    """Take every screenshot in its own page."""
    for name, show, size, scheme in shots:
        context = browser.new_context(
            viewport=size,  # type: ignore[arg-type]
            color_scheme=scheme,  # type: ignore[arg-type]
            device_scale_factor=2 if size is PHONE else 1,
            has_touch=size is PHONE,
        )
        page = context.new_page()
        page.goto(address)
        show(page)
        wait_until_loaded(page)
        quality = 88 if form == "jpeg" else None
        page.screenshot(path=out / f"{name}.{'jpg' if form == 'jpeg' else form}", type=form, quality=quality)
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--address", help="address of a running server, instead of a demo")
    parser.add_argument("--every-page", action="store_true", help="every page and state, as PNG, to look at")
    args = parser.parse_args()
    form: Literal["jpeg", "png"] = "png" if args.every_page else "jpeg"
    shots = EVERY_PAGE if args.every_page else IN_DOCS
    args.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=args.chromium, args=FLAGS)
        if args.address:
            take_all(browser, args.address, args.out, shots, form)
        else:
            with demo() as address:
                take_all(browser, address, args.out, shots, form)
        browser.close()


if __name__ == "__main__":
    main()
