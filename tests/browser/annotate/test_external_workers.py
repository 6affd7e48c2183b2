"""Workers of an external site, which shows our page in a frame."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode

import pytest
from playwright.sync_api import Browser, expect

from deixis.annotate.project import read_secret
from deixis.annotate.workforce import make_items_key
from tests.browser.annotate.conftest import Bench, MakeBench
from tests.browser.annotate.photos import two_people_with_a_dog


class OtherSite(ThreadingHTTPServer):
    """A site that shows our page in a frame and receives its form. For browsers, localhost is not 127.0.0.1."""

    frame = ""

    def __init__(self, keeps_storage: bool) -> None:
        self.forms: list[dict[str, list[str]]] = []
        # Browsers that block cookies of third parties keep nothing for the frame of another site.
        self.keeps_storage, self.host = keeps_storage, "127.0.0.1" if keeps_storage else "localhost"
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.server_port}"

    def show(self, site: Bench, assignment: str) -> None:
        key = make_items_key(read_secret(site.project), 2)
        parameters = {
            "key": key,
            "assignmentId": assignment,
            "hitId": "H1",
            "workerId": "W1",
            "turkSubmitTo": self.address,
        }
        self.frame = f"{site.address}external?{urlencode(parameters)}".replace("&", "&amp;")


class _Handler(BaseHTTPRequestHandler):
    server: OtherSite

    def do_GET(self) -> None:
        self._send_html(f'<iframe width=1200 height=760 src="{self.server.frame}"></iframe>')

    def do_POST(self) -> None:
        self.server.forms.append(parse_qs(self.rfile.read(int(self.headers["content-length"])).decode()))
        self._send_html("thanks")

    def _send_html(self, html: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(html.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=[False, True], ids=["keeps nothing", "keeps storage"])
def other_site(request: pytest.FixtureRequest) -> Iterator[OtherSite]:
    with OtherSite(request.param) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_questions_are_answered_in_a_frame_and_the_form_is_submitted(
    browser: Browser, bench: MakeBench, other_site: OtherSite
) -> None:
    site = bench([two_people_with_a_dog()], workforce=(other_site.address,), claimed_workers=True)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    inside = page.frame_locator("iframe")
    other_site.show(site, "ASSIGNMENT_ID_NOT_AVAILABLE")
    page.goto(other_site.address)
    expect(inside.get_by_text("This is a preview")).to_be_visible()
    other_site.show(site, "A1")
    page.goto(other_site.address)
    for done in range(2):
        expect(inside.locator(".who")).to_have_text(f"{done} of 2")
        expect(inside.locator(".answer").last).to_be_enabled()
        inside.locator(".answer").last.click()
        if not done:  # loaded again in this window it goes on, and elsewhere it is refused
            expect(inside.locator(".who")).to_have_text("1 of 2")
            if other_site.keeps_storage:
                page.reload()
            elsewhere = browser.new_page()
            elsewhere.goto(other_site.address)
            expect(elsewhere.frame_locator("iframe").get_by_text("entered before")).to_be_visible()
            elsewhere.close()
    inside.get_by_role("button", name="Submit").click()
    expect(inside.get_by_text("thanks")).to_be_visible()
    assert other_site.forms == [{"assignmentId": ["A1"], "answered": ["2"]}]
    page.close()
