"""Who is let in, and what browsers may do with an answer."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from deixis.server.guard import COOKIE, Door, is_loopback
from tests.server.conftest import Visit

TOKEN = "correct-horse-battery"
ELSEWHERE = "192.168.1.5:7860"


@pytest.fixture
def guarded(visit: Visit) -> TestClient:
    return visit(door=Door("0.0.0.0", TOKEN), host=ELSEWHERE)


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.0.0.1:7860", True),
        ("localhost", True),
        ("[::1]:7860", True),
        ("evil.example:7860", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("192.168.1.5", False),
        ("", False),
        ("[::1", False),
    ],
)
def test_a_name_bent_to_this_machine_is_refused(client: TestClient, host: str, is_known: bool) -> None:
    response = client.get("/api/status", headers={"host": host})
    assert response.status_code == (200 if is_known else 421)


def test_beyond_this_machine_addresses_are_known_and_other_names_not() -> None:
    door = Door("0.0.0.0", TOKEN)
    assert door.knows_host(ELSEWHERE)
    assert door.knows_host("localhost:7860")
    assert not door.knows_host("evil.example:7860")
    assert Door("photos.example", TOKEN).knows_host("photos.example:7860")


@pytest.mark.parametrize("path", ["/", "/api/status", "/api/openapi.json", "/api/nothing", "/assets/x.js"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"cookie": f"{COOKIE}=wrong"},
        {"cookie": f"other={TOKEN}"},
        {"cookie": "\x7f=="},
    ],
)
def test_without_the_token_nothing_is_answered(guarded: TestClient, path: str, headers: dict[str, str]) -> None:
    response = guarded.get(path, headers=headers)
    assert response.status_code == 401
    assert "a token is needed" in response.json()["error"]


def test_the_token_opens_by_header_and_by_link_and_cookie(guarded: TestClient) -> None:
    assert guarded.get("/api/status", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    entered = guarded.get("/", params={"token": TOKEN, "q": "dog"}, follow_redirects=False)
    assert entered.status_code == 303
    assert entered.headers["location"] == "/?q=dog"
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert "samesite=lax" in entered.headers["set-cookie"].casefold()
    assert guarded.get("/api/status").status_code == 200  # by its cookie now


def test_the_token_in_a_link_opens_the_page_only(guarded: TestClient) -> None:
    assert guarded.get("/api/status", params={"token": TOKEN}).status_code == 401
    assert guarded.post("/", params={"token": TOKEN}).status_code == 401
    assert guarded.get("/", params={"token": "wrong"}, follow_redirects=False).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://[::1"},
    ],
)
def test_pages_of_other_sites_get_nothing(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/api/status", headers=headers).status_code == 403
    assert client.post("/api/caption", headers=headers).status_code == 403


def test_a_link_from_another_site_may_be_followed_but_no_form_sent(client: TestClient) -> None:
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=followed).status_code in (200, 503)  # 503 where the page was not built
    assert client.post("/api/caption", headers=followed).status_code == 403
    own = {"origin": "http://127.0.0.1:7860", "sec-fetch-site": "same-origin"}
    assert client.get("/api/status", headers=own).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/status", "/api/nothing", "/assets/nothing.js"])
def test_every_answer_carries_the_rules(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_token_is_in_no_representation() -> None:
    assert TOKEN not in repr(Door("0.0.0.0", TOKEN))


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_this_machine_reaches_loopback(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own
