"""The wheel, installed into an empty environment as a user does it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.test_serve import running

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

MAX_WHEEL_BYTES = 80_000_000
MAX_ENVIRONMENT_BYTES = 450_000_000


def pip(*arguments: object) -> None:
    """Run pip; a machine that reaches no index of packages skips the test."""
    done = subprocess.run([*PIP, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT, check=False)
    if "Could not find a version that satisfies" in done.stderr:
        pytest.skip("pip cannot download packages here")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_installed_wheel_runs_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip("wheel", ".", "--no-deps", "--wheel-dir", tmp_path)
    (wheel,) = tmp_path.glob("deixis-*.whl")
    assert wheel.stat().st_size < MAX_WHEEL_BYTES
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    pip("--python", python, "install", "-c", "constraints.txt", wheel)
    sizes = (file.stat().st_size for file in environment.rglob("*") if file.is_file() and not file.is_symlink())
    assert sum(sizes) < MAX_ENVIRONMENT_BYTES
    monkeypatch.chdir(tmp_path)  # away from the sources
    monkeypatch.delenv("PYTHONPATH", raising=False)
    deixis = environment / "bin" / "deixis"
    with running("demo", "--no-open", "--port", 0, "--into", tmp_path / "index", command=(deixis,)) as (link, _):
        address, _, token = link.partition("?token=")
        client = httpx.Client(base_url=address, headers={"authorization": f"Bearer {token}"}, timeout=60)
        assert client.get("api/status").json()["photos"] == 14
        assert "<title>deixis</title>" in client.get("").text
        found = client.get("api/search", params={"q": "two dogs", "all": 1, "explain": 1}).json()
        assert found["hits"][0]["phrases"]
