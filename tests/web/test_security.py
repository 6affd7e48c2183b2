"""Tokens, origins and security headers."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from deixis.storage.remote import is_loopback
from deixis.web import security
from deixis.web.security import COOKIE, AccessPolicy
from tests.web.conftest import Visit

TOKEN = "correct-horse-battery"
ELSEWHERE = "192.168.1.5:7860"


@pytest.fixture
def guarded(visit: Visit) -> TestClient:
    return visit(policy=AccessPolicy("0.0.0.0", TOKEN), host=ELSEWHERE)


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
def test_other_host_names_are_rejected(client: TestClient, host: str, is_known: bool) -> None:
    response = client.get("/api/status", headers={"host": host})
    assert response.status_code == (200 if is_known else 421)


def test_public_servers_accept_addresses_but_no_other_names() -> None:
    policy = AccessPolicy("0.0.0.0", TOKEN)
    assert policy.allows_host(ELSEWHERE)
    assert policy.allows_host("localhost:7860")
    assert not policy.allows_host("evil.example:7860")
    assert AccessPolicy("photos.example", TOKEN).allows_host("photos.example:7860")
    assert TOKEN not in repr(policy)


@pytest.mark.parametrize("path", ["/", "/api/status", "/api/openapi.json", "/api/nothing", "/assets/x.js"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"cookie": f"{COOKIE.format(port=7860)}=wrong"},
        {"cookie": f"other={TOKEN}"},
        {"cookie": "\x7f=="},
    ],
)
def test_requests_without_token_are_rejected(guarded: TestClient, path: str, headers: dict[str, str]) -> None:
    response = guarded.get(path, headers=headers)
    assert response.status_code == 401
    assert "token" in response.json()["error"]


def test_the_token_begins_a_session_of_its_own(guarded: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert guarded.get("/api/status", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    entered = guarded.get("/", params={"token": TOKEN, "q": "dog"}, follow_redirects=False)
    assert entered.status_code == 303
    assert entered.headers["location"] == "/?q=dog"
    assert "HttpOnly" in entered.headers["set-cookie"]
    assert "samesite=lax" in entered.headers["set-cookie"].casefold()
    assert guarded.get("/api/status").status_code == 200  # by its cookie now
    [(name, session)] = guarded.cookies.items()
    assert name == "deixis-session-7860"  # servers on other ports have others
    assert TOKEN not in session
    policy = AccessPolicy("0.0.0.0", TOKEN)  # of a server that was started again
    assert policy.has_session(name, session)
    assert not policy.has_session("deixis-session-7861", session)
    assert not policy.has_session(name, f"9{session}")
    assert not AccessPolicy("0.0.0.0", f"{TOKEN}x").has_session(name, session)
    monkeypatch.setattr(security, "SESSION_S", -1)
    assert not policy.has_session(name, policy.new_session(name))


def test_wrong_tokens_slow_down_without_ending_sessions(guarded: TestClient) -> None:
    right, wrong = ({"authorization": f"Bearer {token}"} for token in (TOKEN, "wrong"))
    guarded.get("/", params={"token": TOKEN})
    session = "; ".join(f"{name}={value}" for name, value in guarded.cookies.items())
    guarded.cookies.clear()
    tried = [guarded.get("/api/status", headers=wrong).status_code for _ in range(7)]
    assert tried == [401] * 5 + [429] * 2
    assert guarded.get("/api/status", headers=right).status_code == 429
    assert int(guarded.get("/", params={"token": TOKEN}).headers["retry-after"]) >= 1
    assert guarded.get("/api/status", headers={"cookie": session}).status_code == 200


def test_a_request_with_two_lengths_ends_the_connection(client: TestClient) -> None:
    both = {"content-length": "4", "transfer-encoding": "chunked"}
    response = client.post("/api/ground", content=b"{}", headers=both)
    assert response.status_code == 400
    assert response.headers["connection"] == "close"


def test_a_ticket_opens_the_page_once(visit: Visit) -> None:
    """Other users of the machine see the link that a browser was started with."""
    guarded = visit(policy=AccessPolicy("0.0.0.0", TOKEN, ticket="used once"), host=ELSEWHERE)
    assert guarded.get("/api/status", headers={"authorization": "Bearer used once"}).status_code == 401
    assert guarded.get("/", params={"token": "used"}, follow_redirects=False).status_code == 401
    assert guarded.get("/", params={"token": "used once"}, follow_redirects=False).status_code == 303
    assert guarded.get("/api/status").status_code == 200
    guarded.cookies.clear()
    assert guarded.get("/", params={"token": "used once"}, follow_redirects=False).status_code == 401
    assert guarded.get("/", params={"token": TOKEN}, follow_redirects=False).status_code == 303


def test_a_ticket_is_valid_for_a_minute(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "TICKET_S", -1.0)
    guarded = visit(policy=AccessPolicy("0.0.0.0", TOKEN, ticket="used once"), host=ELSEWHERE)
    assert guarded.get("/", params={"token": "used once"}, follow_redirects=False).status_code == 401


def test_no_ticket_is_not_an_empty_one(guarded: TestClient) -> None:
    assert guarded.get("/", params={"token": ""}, follow_redirects=False).status_code == 401


def test_the_token_in_the_url_works_for_the_page_only(guarded: TestClient) -> None:
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
def test_cross_site_requests_are_rejected(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/api/status", headers=headers).status_code == 403
    assert client.post("/api/caption", headers=headers).status_code == 403


def test_links_from_other_sites_work_but_forms_do_not(client: TestClient) -> None:
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=followed).status_code in (200, 503)  # 503 where the page was not built
    assert client.post("/api/caption", headers=followed).status_code == 403
    form = {"origin": "null", "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"}
    own = {"origin": "http://127.0.0.1:7860", "sec-fetch-site": "same-origin"}
    for headers in (form, own):
        assert client.get("/api/status", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/status", "/api/nothing", "/assets/nothing.js"])
def test_every_response_has_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_this_machine_reaches_loopback(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


def test_quoted_cookies_are_not_parsed(guarded: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of Python take twelve seconds for 60 kB, during which the server answers nobody."""
    unquoted: list[str] = []
    monkeypatch.setattr("http.cookies._unquote", lambda text: unquoted.append(text) or text)
    entered = guarded.get("/", params={"token": TOKEN}, follow_redirects=False)
    session = entered.headers["set-cookie"].partition(";")[0]
    hostile = 'x="' + '\\\\"' * 1000 + '"'
    assert guarded.get("/api/status", headers={"cookie": f"{hostile}; {session}; {hostile}"}).status_code == 200
    assert not any("\\\\" in text for text in unquoted)
