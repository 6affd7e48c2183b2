"""A browser, and servers for it."""

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

from deixis.web.app import make_app
from deixis.web.inference import InferenceService
from deixis.web.pages import STATIC
from deixis.web.security import AccessPolicy
from tests.web.fakes import FakeCollection, FakeInference, photo_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Without the last three, Chromium contacts Google's servers at every start.
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


# One browser per module: while Playwright runs, its event loop occupies the main thread, and a test outside
# this folder that the same worker runs next could not start a loop of its own.
@pytest.fixture(scope="module")
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
    """A page that must have no errors and send requests only to its own server."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(f"{error} {error.stack}"))
    opened.on("console", lambda message: problems.append(message.text) if "Content Security" in message.text else None)
    opened.on("request", lambda request: None if _is_own(request.url) else problems.append(f"request to {request.url}"))
    yield opened
    context.close()
    assert problems == []


def _is_own(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "blob:http://127.0.0.1:"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, colour in (("dog", "brown"), ("cat", "grey"), ("boat", "blue"), ("tree", "green"), ("sun", "gold")):
        (tmp_path / f"{name}.jpg").write_bytes(photo_bytes((640, 480), colour=colour))
    return tmp_path


@pytest.fixture
def collection(folder: Path) -> FakeCollection:
    return FakeCollection(sorted(folder.glob("*.jpg")), folder)


@pytest.fixture
def site(collection: FakeCollection) -> Iterator[Site]:
    """Start a server for a collection of photos and return its URL."""
    with ExitStack() as running:

        def start(
            photos: FakeCollection = collection,
            inference: InferenceService | None = None,
            policy: AccessPolicy | None = None,
        ) -> str:
            return running.enter_context(_served(photos, inference or FakeInference(), policy))

        yield start


@contextmanager
def _served(photos: FakeCollection, inference: InferenceService, policy: AccessPolicy | None) -> Iterator[str]:
    config = uvicorn.Config(
        make_app(photos, inference=inference, policy=policy), port=0, log_level="warning", timeout_graceful_shutdown=1
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
