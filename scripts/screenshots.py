"""Take the screenshots of the web app for the README and ``docs/reference/http.md``.

python scripts/screenshots.py [--out docs/pictures] [--chromium /usr/bin/chromium]

Indexes the sample photos, serves them and drives a browser; needs playwright (in the test extra) and Chromium.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

DESKTOP = {"width": 1280, "height": 800}
LOW = {"width": 1280, "height": 520}
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


def show_hits(page: Page, address: str) -> None:
    """Open the results of a query."""
    page.goto(f"{address}?q={QUERY.replace(' ', '+')}")
    page.locator(".tile").first.wait_for(timeout=60_000)


def show_photo(page: Page, address: str) -> None:
    """Open a photo with a sentence about it."""
    page.goto(address)
    page.get_by_label(re.compile("tourist")).first.click()
    page.get_by_label("A sentence about this photo").fill(SENTENCE)
    page.locator(".phrase-line").first.wait_for(timeout=60_000)
    page.locator(".region .words").first.wait_for(timeout=60_000)
    page.mouse.move(0, 0)


SHOTS = (
    ("web-search", show_hits, LOW, "light"),
    ("web-photo", show_photo, DESKTOP, "light"),
    ("web-photo-dark", show_photo, DESKTOP, "dark"),
    ("web-photo-phone", show_photo, PHONE, "light"),
)


def take_all(browser: Browser, address: str, out: Path) -> None:
    """Take every screenshot in its own page."""
    for name, show, size, scheme in SHOTS:
        page = browser.new_page(viewport=size, color_scheme=scheme, device_scale_factor=2 if size is PHONE else 1)  # type: ignore[arg-type]
        show(page, address)
        wait_until_loaded(page)
        page.screenshot(path=out / f"{name}.jpg", type="jpeg", quality=88)
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--address", help="address of a running server, instead of a demo")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=args.chromium, args=FLAGS)
        if args.address:
            take_all(browser, args.address, args.out)
        else:
            with demo() as address:
                take_all(browser, address, args.out)
        browser.close()


if __name__ == "__main__":
    main()
