"""A real browser, and a server for it to visit."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvicorn

from deixis.server.app import make_app
from deixis.server.eyes import Eyes
from deixis.server.guard import Door
from deixis.server.library import Library
from deixis.server.pages import STATIC
from tests.server.fakes import FakeEyes, FakeLibrary, photo_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Without the last ones Chromium asks for Google's servers at every start.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

Site = Callable[..., str]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    if not (STATIC / "index.html").is_file():
        pytest.fail("the page was not built: cd web && npm ci && npm run build")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20_000)  # machines are noisy
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must neither complain nor ask anybody but its own server."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(f"{error} {error.stack}"))
    opened.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
    opened.on("request", lambda asked: None if _is_own(asked.url) else complaints.append(f"asked for {asked.url}"))
    yield opened
    context.close()
    assert complaints == []


def _is_own(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "blob:http://127.0.0.1:"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, colour in (("dog", "brown"), ("cat", "grey"), ("boat", "blue"), ("tree", "green"), ("sun", "gold")):
        (tmp_path / f"{name}.jpg").write_bytes(photo_bytes((640, 480), colour=colour))
    return tmp_path


@pytest.fixture
def library(folder: Path) -> FakeLibrary:
    return FakeLibrary(sorted(folder.glob("*.jpg")), folder)


@pytest.fixture
def site(library: FakeLibrary) -> Iterator[Site]:
    """The address of a server for a library of photos."""
    with ExitStack() as running:

        def start(shown: Library = library, eyes: Eyes | None = None, door: Door | None = None) -> str:
            return running.enter_context(_served(shown, eyes or FakeEyes(), door))

        yield start


@contextmanager
def _served(library: Library, eyes: Eyes, door: Door | None) -> Iterator[str]:
    config = uvicorn.Config(
        make_app(library, eyes=eyes, door=door), port=0, log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
