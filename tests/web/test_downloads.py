"""Files are streamed: whole or in parts, and in memory that does not depend on their size."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from deixis.web.downloads import FileDownload
from tests.web.serving import served

CONTENT = bytes(range(256)) * 1000
SIZE = len(CONTENT)


@pytest.fixture
def address(client: TestClient, folder: Path) -> str:
    (photo,) = (each for each in client.get("/api/photos").json()["photos"] if each["name"] == "dog.jpg")
    (folder / "dog.jpg").write_bytes(CONTENT)
    return f"/api/photos/{photo['id']}/original"


@pytest.mark.parametrize(
    ("asked", "status", "begin", "end"),
    [
        ("", 200, 0, SIZE),
        ("bytes=0-", 206, 0, SIZE),
        ("bytes=70000-70099", 206, 70_000, 70_100),
        ("bytes=255999-", 206, SIZE - 1, SIZE),
        ("bytes=10-999999999", 206, 10, SIZE),
        ("bytes=-300", 206, SIZE - 300, SIZE),
        ("bytes=-999999999", 206, 0, SIZE),
        ("bytes=0-1, 5-6", 200, 0, SIZE),
        ("bytes=-", 200, 0, SIZE),
        ("lines=1-2", 200, 0, SIZE),
        ("bytes=256000-", 416, 0, 0),
        ("bytes=9-3", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
    ],
)
def test_ranges(asked: str, status: int, begin: int, end: int, client: TestClient, address: str) -> None:
    found = client.get(address, headers={"range": asked} if asked else {})
    assert found.status_code == status
    if status == 416:
        assert found.headers["content-range"] == f"bytes */{SIZE}"
        return
    assert found.content == CONTENT[begin:end]
    assert found.headers["content-length"] == str(end - begin)
    assert found.headers.get("content-range") == (f"bytes {begin}-{end - 1}/{SIZE}" if status == 206 else None)


def test_a_part_of_an_older_file_is_the_whole_file(client: TestClient, address: str) -> None:
    found = client.get(address, headers={"range": "bytes=5-", "if-range": '"older"'})
    assert (found.status_code, found.content) == (200, CONTENT)


def test_more_downloads_at_once_are_refused(client: TestClient, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileDownload, "limit", 0)
    assert client.get(address).status_code == 503
    monkeypatch.undo()
    assert client.get(address).content == CONTENT


def test_memory_does_not_depend_on_the_file_or_on_clients_that_do_not_read(folder: Path) -> None:
    with served(folder) as (link, process), ExitStack() as clients:
        ids = {each["name"]: each["id"] for each in httpx.get(f"{link}api/photos").json()["photos"]}
        with (folder / "dog.jpg").open("wb") as file:
            file.truncate(400 * 2**20)
        before = peak_memory(process.pid)
        url = httpx.URL(f"{link}api/photos/{ids['dog.jpg']}/original")
        for _ in range(100):
            client = clients.enter_context(socket.create_connection((url.host, url.port or 0), timeout=20))
            client.sendall(f"GET {url.path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert httpx.get(f"{link}api/photos/{ids['dog.jpg']}/original").status_code == 503
        clients.close()
        for _ in range(100):
            with httpx.stream("GET", url) as whole:
                if whole.status_code == 200:
                    assert sum(map(len, whole.iter_bytes())) == 400 * 2**20
                    break
        assert peak_memory(process.pid) - before < 60 * 2**20


def peak_memory(process: int) -> int:
    (line,) = (line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 2**10
