"""Nothing is sent anywhere, and nothing is written outside of deixis's own folders: no telemetry of ONNX Runtime."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

SOURCE = Path(__file__).parents[2] / "src" / "deixis"
SAMPLES = SOURCE / "data" / "samples"
PHOTO = SAMPLES / "images" / "cat.jpg"
VARIABLE = "ORT_DISABLE_TELEMETRY"
PRINT = f"import os; print(os.environ['{VARIABLE}'])"
ADDRESS = re.compile(r"sa_family=AF_INET6?, .*?\"([^\"]+)\"\)")
WRITES = re.compile(r"\d+ +(?:open.*\"[^\"]*O_(?:WRONLY|RDWR|CREAT)|creat|mkdir|rename|link|symlink|mknod)")
NAMED = re.compile(r"(?:<([^>]*)>, )?\"([^\"]*)\"")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty home folder, who has asked for telemetry."""
    names = ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TMPDIR")
    folders = {name: str(tmp_path / name) for name in names}
    for folder in folders.values():
        Path(folder).mkdir()
    # Without bytecode: where this is the first run of a new checkout, Python would write it beside the sources.
    return {**os.environ, **folders, VARIABLE: "0", "PYTHONDONTWRITEBYTECODE": "1"}


class Guard:
    """Runs commands under strace and collects what docs/trust.md excludes: other hosts and other folders."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment, self.runs = folder, environment, 0

    def run(self, *arguments: object) -> None:
        with self.running(*arguments) as process:
            _, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors

    @contextmanager
    def running(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """Run a command, interrupt it if it still runs, and check the calls of all its processes."""
        log, self.runs = self.folder / f"strace-{self.runs}", self.runs + 1
        calls = "trace=%network,open,openat,creat,/^(mkdir|rename|link|symlink|mknod)"
        strace = ["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-s", "512", "-e", calls, "-o", str(log)]
        command = [*strace, sys.executable, "-m", "deixis.cli.main", *map(str, arguments)]
        process = subprocess.Popen(
            command, env=self.environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                os.kill(int(children[0]), signal.SIGINT)  # strace does not pass signals on
                process.communicate(timeout=60)
        assert list(self.violations(log.read_text().splitlines())) == []

    def violations(self, calls: Sequence[str]) -> Iterator[str]:
        data, cache, temporary = (self.environment[name] for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "TMPDIR"))
        own = [f"{data}/deixis", f"{cache}/deixis", temporary, str(self.folder / "own"), "/dev/"]
        assert calls
        for call in calls:
            if any(address not in ("127.0.0.1", "::1") for address in ADDRESS.findall(call)):
                yield call
            if WRITES.match(call) and " = -1 " not in call:
                paths = [str(Path(folder) / name) for folder, name in NAMED.findall(call)]
                if not paths[-1].startswith(tuple(own)):
                    yield call


@pytest.fixture
def guard(home: dict[str, str], tmp_path: Path) -> Guard:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed: no look at the calls of commands")
    return Guard(tmp_path, home)


def use_commands(guard: Guard) -> None:
    """Index, search, caption, ground and describe."""
    guard.run("index", SAMPLES / "images")
    guard.run("search", "a cat")
    guard.run("caption", PHOTO)
    guard.run("ground", PHOTO, "a cat")
    guard.run("describe", PHOTO)


def use_server(guard: Guard, *, seconds: float = 0) -> None:
    """Search and upload a photo, which a process of its own decodes."""
    with guard.running("serve", "--no-open", "--no-token", "--port", 0) as process:
        assert process.stdout
        link = process.stdout.readline().strip()
        assert httpx.get(f"{link}api/search", params={"q": "a cat"}, timeout=120).json()["hits"]
        photo = {"photo": PHOTO.read_bytes()}
        assert httpx.post(f"{link}api/caption", files=photo, timeout=120).json()["captions"]
        time.sleep(seconds)


def use_workbench(guard: Guard, *, seconds: float = 0) -> None:
    """Create a project and open its page."""
    data, project = guard.folder / "own" / "samples.data", guard.folder / "own" / "project"
    data.parent.mkdir()
    guard.run("data", "import", "--out", data, "--images", SAMPLES / "images", "--entities", SAMPLES / "entities")
    guard.run("annotate", "init", project, "--data", data, "--propose", "links,boxes")
    with guard.running("annotate", "serve", project, "--no-open", "--port", 0) as process:
        assert process.stdout
        link = process.stdout.readline().partition("#")[0]
        assert httpx.get(link, timeout=120).status_code in (200, 503)  # 503 if the page was not built
        time.sleep(seconds)


def test_commands_and_servers_reach_no_other_machine_and_write_only_to_their_folders(guard: Guard) -> None:
    use_commands(guard)
    use_server(guard)
    use_workbench(guard)


@pytest.mark.slow
def test_nothing_is_sent_after_half_a_minute_or_by_workers(guard: Guard) -> None:
    guard.run("index", SAMPLES / "images")
    use_server(guard, seconds=40)
    use_workbench(guard, seconds=40)
    pytest.importorskip("distributed")
    guard.run("index", SAMPLES / "images", "--into", guard.folder / "own" / "index", "--scheduler", "local:2")


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.29.0", "1.30.0", "1.31.0", "1.31.1"])
def test_every_release_of_onnxruntime_is_silent(release: str, guard: Guard) -> None:
    packages = guard.folder / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages]
    if subprocess.run([*install, f"onnxruntime=={release}"], check=False).returncode:
        pytest.skip(f"onnxruntime {release} cannot be downloaded")
    guard.environment["PYTHONPATH"] = str(packages)
    found = [sys.executable, "-c", "import onnxruntime; print(onnxruntime.__version__)"]
    assert subprocess.check_output(found, env=guard.environment | {VARIABLE: "1"}, text=True).strip() == release
    use_commands(guard)
    use_server(guard)


def test_telemetry_is_off_in_every_process_that_imports_deixis(home: dict[str, str]) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PRINT!r}])"
    code = f"import deixis.tokens; {PRINT}; {child}"
    done = subprocess.run([sys.executable, "-c", code], env=home, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]


def test_telemetry_is_off_if_onnxruntime_was_imported_first(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    from deixis.runtime.devices import onnx_runtime

    calls: list[str] = []
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: calls.append("off"))
    onnx_runtime.cache_clear()
    assert onnx_runtime() is onnxruntime
    assert calls == ["off"]


def test_onnxruntime_is_imported_in_one_place() -> None:
    imports = []
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imports += [file.relative_to(SOURCE).as_posix() for name in names if name.split(".")[0] == "onnxruntime"]
    assert imports == ["runtime/devices.py"]
