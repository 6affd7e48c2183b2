"""The command `deixis`, run in this process, which is faster than a process of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deixis.cli.main import _run
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES


@dataclass(frozen=True)
class Command:
    """Runs the command, and checks its exit code."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object, code: int = 0) -> tuple[str, str]:
        """Return standard output and standard error."""
        self.capsys.readouterr()
        found = _run([str(argument) for argument in arguments])
        out, err = self.capsys.readouterr()
        assert found == code, err
        return out, err

    def json(self, *arguments: object) -> Any:
        return json.loads(self(*arguments, "--json")[0])

    def error(self, *arguments: object) -> str:
        """Return the message of a user error: one line, apart from progress, and nothing on standard output."""
        out, err = self(*arguments, code=2)
        [line] = [line for line in err.splitlines() if not line.endswith("…")]
        assert out == ""
        return line


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr("deixis.cli.output.is_watched", lambda: True)  # hints are printed as on a terminal
    return Command(capsys)


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample photos as a data set, to which commands may add features."""
    out = tmp_path_factory.mktemp("samples") / "samples.data"
    import_dataset(out, images=SAMPLES / "images", entities=SAMPLES / "entities", licence="mixed")
    return out
