"""`deixis serve` and `deixis demo`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

DOGS = "two dogs look out of a window"


@contextmanager
def running(
    *arguments: object, command: Sequence[object] = (sys.executable, "-m", "deixis.cli.main")
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a command; yield the link that it prints and its process."""
    started = [*map(str, command), *map(str, arguments)]
    process = subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        link = process.stdout.readline().strip()
        assert link.startswith("http"), process.stderr.read()
        yield link, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def interrupt(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    return process.wait(30)


@pytest.mark.parametrize(("chosen", "threads"), [(None, 1), ("2", 2)], ids=["default", "environment"])
@pytest.mark.parametrize(
    "command", [["serve", "--index"], ["index"], ["demo", "--into"]], ids=lambda command: command[0]
)
def test_blas_uses_one_thread_unless_the_environment_says_otherwise(
    command: list[str], chosen: str | None, threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("threadpoolctl")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", chosen)
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("neither an index nor a photo")
    script = f"""
from deixis.cli.main import _run
assert _run({[*command, "notes.txt"]!r}) == 2
import threadpoolctl
found = [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["internal_api"] == "openblas"]
print(*found or ["none"])
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert set(printed.splitlines()[-1].split()) <= {str(min(threads, os.cpu_count() or 1)), "none"}


@pytest.mark.slow
def test_the_demo_serves_the_sample_photos_and_serve_opens_its_index(tmp_path: Path) -> None:
    index = tmp_path / "demo.deixis"
    with running("demo", "--no-open", "--port", 0, "--into", index) as (link, process), httpx.Client() as client:
        link, _, token = link.partition("?token=")
        assert client.get(f"{link}api/status").status_code == 401
        assert client.get(link, params={"token": token}).status_code == 303
        assert client.get(f"{link}api/status").json()["photos"] == 14
        page = client.get(link)
        assert "<title>deixis</title>" in page.text or page.status_code == 503  # 503 if the page was not built
        found = client.get(f"{link}api/search", params={"q": DOGS, "explain": 1, "all": 1}, timeout=60).json()["hits"]
        assert found[0]["name"] == "dogs.jpg"
        assert found[0]["phrases"][0]["text"] == "two dogs"
        assert client.get(f"{link}api/photos/{found[0]['id']}/image").headers["content-type"] == "image/jpeg"
        body = {"photo": found[0]["id"], "sentence": "Two dogs."}
        grounded = client.post(f"{link}api/ground", json=body, timeout=60).json()
        assert [phrase["text"] for phrase in grounded["phrases"]] == ["Two dogs"]
        assert interrupt(process) == 0
    with running("serve", "--index", index, "--no-open", "--no-token", "--port", 0) as (link, process):
        assert httpx.get(f"{link}api/status").json()["photos"] == 14
        photo = (SAMPLES / "images" / "dogs.jpg").read_bytes()
        like = httpx.post(f"{link}api/search/like", files={"photo": photo}, timeout=60).json()["hits"]
        assert like[0]["name"] == "dogs.jpg"
        assert interrupt(process) == 0


def test_a_port_in_use_is_reported_before_anything_else(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments in (["serve", "--index", "nowhere"], ["serve", "--share"], ["demo"]):
            assert f"port {port} of" in command.error(*arguments, "--port", port)
