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


NEEDED = {"PIL", "numpy", "onnxruntime", "pi_heif", "pillow_heif", "safetensors"}
"""What a search, a grounding and a caption compute with."""

COMMAND_LINE = {"annotated_doc", "annotated_types", "click", "pydantic", "pydantic_core", "shellingham", "typer"}
ALLOWED = {*NEEDED, *COMMAND_LINE, "deixis", "typing_extensions", "typing_inspection"}
PHOTO = str(ROOT / "src/deixis/data/samples/images/astronaut.jpg")


@pytest.mark.parametrize(
    "arguments",
    [("search", "dogs", "--index", "{index}"), ("ground", PHOTO, "a dog"), ("caption", PHOTO), ("describe", PHOTO)],
    ids=lambda arguments: arguments[0],
)
def test_photo_commands_import_only_what_they_compute_with(arguments: tuple[str, ...], sample_index: Path) -> None:
    code = "import sys; from deixis.cli.main import _run; _run(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, *(argument.format(index=sample_index) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()} - sys.stdlib_module_names
    assert "numpy" in loaded, done.stderr
    assert {name for name in loaded if not name.startswith("_")} <= ALLOWED


def test_every_package_has_a_docstring() -> None:
    for init in (ROOT / "src" / "deixis").glob("*/__init__.py"):
        assert init.read_text().startswith('"""'), f"{init} has no docstring"
