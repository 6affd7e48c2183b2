"""The architecture: which package may import which, and what must not be imported early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("numpy", "pyarrow", "PIL", "matplotlib", "torch", "spacy", "scipy", "pandas", "defusedxml")


def modules_after(*arguments: str) -> set[str]:
    """Return the top-level modules that are loaded when python runs with these arguments."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_packages_import_only_packages_below_them() -> None:
    command = [
        str(Path(sys.executable).with_name("lint-imports")),
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_deixis_loads_nothing_heavy() -> None:
    assert modules_after("-c", "import deixis").isdisjoint({*HEAVY, "typer", "rich"})


HELPS = [
    (),
    ("data",),
    ("data", "import"),
    ("data", "stats"),
    ("data", "check"),
    ("data", "convert"),
    ("data", "scenes"),
    ("annotate",),
    ("annotate", "status"),
    ("demo",),
    ("serve",),
    ("caption",),
    ("features",),
    ("table",),
    ("train",),
]


@pytest.mark.parametrize("verb", HELPS, ids=lambda verb: " ".join(verb) or "deixis")
def test_help_loads_nothing_heavy(verb: tuple[str, ...]) -> None:
    assert modules_after("-m", "deixis.cli.main", *verb, "--help").isdisjoint(HEAVY)


def test_every_package_has_a_docstring() -> None:
    for init in (ROOT / "src" / "deixis").glob("*/__init__.py"):
        assert init.read_text().startswith('"""'), f"{init} has no docstring"
