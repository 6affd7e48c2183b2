"""A server that listens on a port."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections import Counter
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from deixis.errors import DeixisError
from deixis.web import app
from deixis.web.server import ServerAddress, listen
from tests.web.fakes import FakeCollection, FakeInference
from tests.web.serving import served


def test_the_server_stops_cleanly_on_ctrl_c(folder: Path) -> None:
    with served(folder) as (link, process):
        assert httpx.get(f"{link}api/status").json()["photos"] == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_connections_send_responses_at_once() -> None:
    with listen(ServerAddress(port=0)) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_browser_is_started_with_a_link_that_works_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, printed, used = list[str](), list[str](), list[httpx.Response]()

    def run(served: ASGIApp, *_: object, **__: object) -> None:
        with TestClient(served, base_url="http://127.0.0.1") as client:
            for _ in range(2):
                used.append(client.get(opened[0], follow_redirects=False))
                client.cookies.clear()

    monkeypatch.setattr(app, "open_in_browser", opened.append)
    monkeypatch.setattr("deixis.web.app.run_server", run)
    collection = FakeCollection(sorted(folder.glob("*.jpg")), folder)
    address = ServerAddress(port=0)
    app.serve(
        collection, address, listen(address), inference=FakeInference(), on_ready=printed.append, open_browser=True
    )
    (token,) = re.findall("token=(.+)", printed[0])
    assert token not in opened[0]
    assert [response.status_code for response in used] == [303, 401]


def test_public_servers_generate_and_print_a_token(folder: Path) -> None:
    with served(folder, "0.0.0.0") as (link, _):
        port, token = httpx.URL(link).port, httpx.URL(link).params["token"]
        assert len(token) >= 24
        status = f"http://127.0.0.1:{port}/api/status"
        assert httpx.get(status).status_code == 401
        assert httpx.get(status, headers={"authorization": f"Bearer {token}"}).status_code == 200


async def status_of(host: str, port: int, query: str) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    request = f"GET /api/search?q={query} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    writer.write(request.encode())
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return int(answer.split(b" ", 2)[1])


def test_a_thousand_concurrent_searches_are_answered_or_rejected(folder: Path) -> None:
    async def crowd(host: str, port: int) -> Counter[int]:
        return Counter(await asyncio.gather(*(status_of(host, port, f"dog+{number}") for number in range(1000))))

    with served(folder) as (link, _):
        codes = asyncio.run(crowd("127.0.0.1", httpx.URL(link).port or 0))
        assert set(codes) <= {200, 503}
        assert codes[200] > 0
        assert httpx.get(f"{link}api/search", params={"q": "dog"}).json()["hits"][0]["name"] == "dog.jpg"


def test_a_port_in_use_or_an_address_of_another_machine_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DeixisError, match=f"port {port}.*--port 0"):
            listen(ServerAddress(port=port))
    with pytest.raises(DeixisError, match=r"192\.0\.2\.1"):
        listen(ServerAddress("192.0.2.1", 0))


def test_urls_are_valid() -> None:
    assert ServerAddress("::1", token="a b").url(80) == "http://[::1]:80/?token=a%20b"
    assert "0.0.0.0" not in ServerAddress("0.0.0.0").url(80)
    assert ServerAddress("127.0.0.1").with_token().token == ""
    assert len(ServerAddress("127.0.0.1").with_token(on_loopback=True).token) > 20
    assert ServerAddress("0.0.0.0").with_token().token != ServerAddress("0.0.0.0").with_token().token
    assert "secret" not in repr(ServerAddress(token="secret"))
