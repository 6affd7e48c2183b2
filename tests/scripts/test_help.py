"""Every script can be imported and describes its options, run in this process, which is faster than one of its own."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
NAMES = sorted(path.name for path in SCRIPTS.glob("*.py") if "ArgumentParser(" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_describes_its_options(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPTS / name), run_name="__main__")
    assert not ended.value.code
    assert f"usage: {name}" in capsys.readouterr().out
