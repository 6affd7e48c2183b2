"""Sign-in by OpenID Connect, against a small provider."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("jwt", reason="PyJWT is not installed")

from starlette.testclient import TestClient

from deixis.annotate.people import invite, suspend_worker
from deixis.annotate.project import Project
from deixis.annotate.web.app import WorkbenchPolicy, make_app
from deixis.annotate.web.oidc import PENDING_SECONDS, OidcSettings
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.web.fake_provider import CLIENT, FakeProvider, fake_provider, rsa_key


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as running:
        yield running


@pytest.fixture
def project(new_project: MakeProject) -> Project:
    made, clock = new_project()
    clock.now = time.time()
    return made


def new_browser(project: Project, provider: FakeProvider, secret: str = "") -> TestClient:
    app = make_app(project, link="http://127.0.0.1/", oidc=OidcSettings(provider.issuer, CLIENT, secret))
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False, follow_redirects=False)


def start(browser: TestClient, invitation: str = "") -> str:
    return str(browser.post("/api/oidc/start", json={"invitation": invitation}).json()["url"])


def sign_in(browser: TestClient, provider: FakeProvider, invitation: str = "") -> str:
    """Sign in and return where the browser is sent."""
    return str(browser.get(provider.authorize(start(browser, invitation))).headers["location"])


def user_of(browser: TestClient) -> Any:
    return browser.get("/api/session").json()["user"]


def test_an_invited_person_joins_and_comes_back_without_a_password(project: Project, provider: FakeProvider) -> None:
    browser = new_browser(project, provider)
    assert browser.get("/api/session").json()["oidc"] == "127.0.0.1"
    _, token = invite(project, "Ann", vouched=True)
    late = new_browser(project, provider)
    back = provider.authorize(start(late, token))
    assert sign_in(browser, provider, token) == "/"
    assert user_of(browser)["name"] == "Ann"
    assert late.get(back).headers["location"] == "/?sign-in=invitation", "an invitation works once"
    assert late.post("/api/oidc/start", json={"invitation": token}).status_code == 404
    other = new_browser(project, provider)
    assert sign_in(other, provider) == "/"
    assert user_of(other)["name"] == "Ann"
    assert not provider.token_requests[0]["authorization"]


def test_people_without_an_invitation_and_suspended_ones_stay_out(project: Project, provider: FakeProvider) -> None:
    browser = new_browser(project, provider)
    assert sign_in(browser, provider) == "/?sign-in=unknown"
    _, token = invite(project, "Ann", vouched=True)
    sign_in(browser, provider, token)
    provider.subject = "bob-2"
    assert sign_in(new_browser(project, provider), provider) == "/?sign-in=unknown"
    suspend_worker(project, "Ann")
    provider.subject = "ann-1"
    late = new_browser(project, provider)
    assert sign_in(late, provider) == "/?sign-in=suspended"
    assert user_of(late) is None


def test_one_account_is_one_worker(project: Project, provider: FakeProvider) -> None:
    tokens = [invite(project, name, vouched=True)[1] for name in ("Ann", "Bob")]
    assert sign_in(new_browser(project, provider), provider, tokens[0]) == "/"
    assert sign_in(new_browser(project, provider), provider, tokens[1]) == "/?sign-in=failed"


def test_a_confidential_client_sends_its_secret(project: Project, provider: FakeProvider) -> None:
    browser = new_browser(project, provider, secret="s3cret")
    sign_in(browser, provider)
    assert provider.token_requests[0]["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda: {"claims": {"nonce": "another"}},
        lambda: {"claims": {"aud": "another"}},
        lambda: {"claims": {"aud": [CLIENT, "another"], "azp": "another"}},
        lambda: {"claims": {"sub": ""}},
        lambda: {"claims": {"sub": "ann\0"}},
        lambda: {"claims": {"sub": "a" * 256}},
        lambda: {"claims": {"iss": "https://example.org"}},
        lambda: {"claims": {"exp": int(time.time()) - 3600}},
        lambda: {"key": rsa_key(1)},
        lambda: {"algorithm": "none", "key": None},
        lambda: {"exchange": lambda form, authorization: (400, {"error": "invalid_grant"})},
        lambda: {"exchange": lambda form, authorization: (200, {"id_token": "\ud800"})},
        lambda: {"key_fields": {"alg": "none"}},
    ],
    ids=[
        *("nonce", "audience", "party", "nobody", "control", "long", "issuer", "time", "key", "algorithm", "code"),
        *("half a character", "a key for nothing"),
    ],
)
def test_a_wrong_token_signs_nobody_in(
    project: Project, provider: FakeProvider, spoil: Callable[[], dict[str, Any]]
) -> None:
    _, token = invite(project, "Ann", vouched=True)
    browser = new_browser(project, provider)
    assert sign_in(browser, provider, token) == "/"
    vars(provider).update(spoil())
    other = new_browser(project, provider)
    assert sign_in(other, provider) == "/?sign-in=failed"
    assert user_of(other) is None


def test_only_the_browser_that_began_finishes_a_sign_in_and_only_once(project: Project, provider: FakeProvider) -> None:
    _, token = invite(project, "Ann", vouched=True)
    browser = new_browser(project, provider)
    sign_in(browser, provider, token)
    back = provider.authorize(start(browser))
    victim = new_browser(project, provider)
    assert victim.get(back).headers["location"] == "/?sign-in=failed", "a link from elsewhere"
    stolen = TestClient(browser.app, base_url="http://127.0.0.1", follow_redirects=False)
    assert stolen.get(back).headers["location"] == "/?sign-in=failed", "another browser of the same server"
    assert browser.get(back).headers["location"] == "/"
    assert browser.get(back).headers["location"] == "/?sign-in=failed", "twice"
    slow = provider.authorize(start(browser))
    late = project.clock() + PENDING_SECONDS + 1
    project.clock.now = late  # type: ignore[attr-defined]
    assert browser.get(slow).headers["location"] == "/?sign-in=failed"


def test_a_provider_must_be_one_and_the_page_must_have_no_token(project: Project, provider: FakeProvider) -> None:
    for issuer, client in (("http://example.org", CLIENT), ("example.org", CLIENT), (provider.issuer, "")):
        with pytest.raises(DeixisError):
            OidcSettings(issuer, client)
    settings = OidcSettings(provider.issuer, CLIENT)
    with pytest.raises(DeixisError):
        make_app(project, policy=WorkbenchPolicy("0.0.0.0", "t" * 20), oidc=settings)
    provider.issuer = "https://another.example.org"
    app = make_app(project, oidc=settings)
    browser = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    assert browser.post("/api/oidc/start", json={}).status_code == 400


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
@pytest.mark.parametrize(
    "address",
    [
        *("file://localhost/etc/passwd", "http://example.org/x", "https:///x", "", "https://[x", "https://x:y/", 5),
        *("https://x/\r\nSet-Cookie: a=b", "https://x/#rest", "https://ann:secret@x/", "javascript://x/%0aalert(1)"),
    ],
)
def test_addresses_of_a_provider_are_https(
    name: str, address: object, project: Project, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = provider.answer("/.well-known/openid-configuration") | {name: address}
    monkeypatch.setattr(provider, "answer", lambda path: metadata)
    app = make_app(project, oidc=OidcSettings(provider.issuer, CLIENT))
    browser = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    refused = browser.post("/api/oidc/start", json={})
    assert refused.status_code == 400
    assert name in refused.text


def test_a_description_that_is_nested_without_end_is_refused(
    project: Project, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deixis.annotate.web.oidc.send_request", lambda *_, **__: b"[" * 100_000)
    refused = new_browser(project, provider).post("/api/oidc/start", json={})
    assert refused.status_code == 400
    assert "other than JSON" in refused.text
