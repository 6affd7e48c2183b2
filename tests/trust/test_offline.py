"""Nothing is sent anywhere, and nothing is written outside of deixis's own folders: no telemetry of ONNX Runtime."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "deixis"
SAMPLES = SOURCE / "data" / "samples" / "images"
VARIABLE = "ORT_DISABLE_TELEMETRY"
PRINT = f"import os; print(os.environ['{VARIABLE}'])"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty home folder, who has asked for telemetry."""
    folders = {name: str(tmp_path / name) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    for folder in folders.values():
        Path(folder).mkdir()
    return {**os.environ, **folders, VARIABLE: "0"}


def test_commands_write_only_to_folders_of_deixis(home: dict[str, str], tmp_path: Path) -> None:
    photo = SAMPLES / "cat.jpg"
    for arguments in (["index", str(photo)], ["search", "a cat"], ["caption", str(photo)]):
        command = [sys.executable, "-m", "deixis.cli.main", *arguments]
        done = subprocess.run(command, env=home, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert {path.parts[:2] for path in written} <= {("XDG_DATA_HOME", "deixis"), ("XDG_CACHE_HOME", "deixis")}


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
