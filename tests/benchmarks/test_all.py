"""The page of all benchmarks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def all_module(benchmarks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """all.py, with its scripts in a temporary folder."""
    module: ModuleType = benchmarks("all")
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def script(folder: Path, name: str, code: str) -> None:
    (folder / "benchmarks" / name).write_text(code)


def make_benchmark(benchmarks: Any, name: str, **changed: Any) -> Any:
    first = benchmarks("suite").SUITE[0]
    return replace(first, name=name, command=(f"{name}.py",), quick=(), shown="times as fast", **changed)


def test_the_page_shows_which_benchmarks_ran_failed_timed_out_or_lacked_data(
    benchmarks: Any, all_module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(
        tmp_path, "good.py", f"print('3 times as fast'); print('ranx is not installed: left out', {str(tmp_path)!r})"
    )
    script(tmp_path, "bad.py", "import sys; print('started'); sys.exit('over a limit')")
    script(tmp_path, "slow.py", "import time; print('started', flush=True); time.sleep(60)")
    script(tmp_path, "needy.py", "")
    suite = [
        make_benchmark(benchmarks, "good"),
        make_benchmark(benchmarks, "bad"),
        make_benchmark(benchmarks, "slow", minutes=0.05),
        replace(make_benchmark(benchmarks, "needy"), command=("needy.py", "{data}")),
        make_benchmark(benchmarks, "never"),
    ]
    monkeypatch.setattr(all_module, "SUITE", suite)
    for each in suite[:-1]:
        all_module.save_record(each.name, all_module.run(each, {"{data}": None}, quick=False), tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    assert "3 times as fast<br>ranx is not installed: left out …" in page
    assert "**exit status 1: over a limit**" in page
    assert "limit of 0.05 minutes**" in page
    assert "not run: needs a data set directory" in page
    assert "| never | " in page
    assert "not run yet" in page
    assert str(tmp_path) not in page


def test_every_script_is_described_in_the_readme(benchmarks: Any) -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    not_run = {"all.py", "suite.py", "scripts_path.py", "matching_training.py"}
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py")} - not_run
    assert {name for name in scripts if f"`{name}`" not in readme} == set()
    assert {each.script for each in benchmarks("suite").SUITE} <= scripts


def test_growing_memory_is_distinguished_from_level_memory(benchmarks: Any) -> None:
    from tests.soak.soak import is_level

    times = [float(second) for second in range(0, 3600, 10)]
    assert is_level([(second, 500 + 8 * (second % 70 == 0)) for second in times])
    assert is_level([(second, min(500.0, second)) for second in times])  # warming up
    assert not is_level([(second, 500 + second / 60) for second in times])
