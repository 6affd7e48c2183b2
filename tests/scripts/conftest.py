"""Scripts, run in this process, which is faster than a process of its own."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.conftest import captioner_folder, small_encoder  # noqa: F401 - fixtures

SCRIPTS = Path(__file__).parents[2] / "scripts"
Script = Callable[..., str]


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Script:
    """Run a script with some arguments; return its output. An error of its user is a `SystemExit` with a message."""

    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        capsys.readouterr()
        runpy.run_path(str(SCRIPTS / name), run_name="__main__")
        return capsys.readouterr().out

    return run
