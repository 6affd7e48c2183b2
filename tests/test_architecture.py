"""The architecture: which package may import which, and what must not be imported early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAVY = ("numpy", "pyarrow", "PIL", "matplotlib", "torch", "spacy", "scipy", "pandas", "defusedxml")


def modules_after(code: str, *arguments: object) -> set[str]:
    """Return the top-level modules outside the standard library that are loaded after some code."""
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()} - sys.stdlib_module_names


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
    assert modules_after("import deixis").isdisjoint({*HEAVY, "typer", "rich"})


HELPS = ("", "data", "data import", "data stats", "data check", "data convert", "annotate")
HELPS += ("annotate status", "demo", "serve", "caption", "features", "table", "train")


def test_help_loads_nothing_heavy() -> None:
    code = "from deixis.cli.main import _run\nfor verb in sys.argv[1:]: assert _run([*verb.split(), '--help']) == 0"
    loaded = modules_after(code, *HELPS)
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


NEEDED = {"PIL", "numpy", "onnxruntime", "pi_heif", "pillow_heif", "safetensors"}
"""What a search, a grounding and a caption compute with."""

COMMAND_LINE = {"annotated_doc", "annotated_types", "click", "pydantic", "pydantic_core", "shellingham", "typer"}
ALLOWED = {*NEEDED, *COMMAND_LINE, "deixis", "typing_extensions", "typing_inspection"}
PHOTO = str(ROOT / "src/deixis/data/samples/images/astronaut.jpg")


def test_photo_commands_import_only_what_they_compute_with(sample_index: Path) -> None:
    code = """
from deixis.cli.main import _run
photo, index = sys.argv[1:]
commands = ["search", "dogs", "--index", index], ["ground", photo, "a dog"], ["caption", photo], ["describe", photo]
for command in commands: assert _run(command) == 0"""
    loaded = modules_after(code, PHOTO, sample_index)
    assert loaded >= {"numpy", "onnxruntime"}
    assert {name for name in loaded if not name.startswith("_")} <= ALLOWED


def test_every_package_has_a_docstring() -> None:
    for init in (ROOT / "src" / "deixis").glob("*/__init__.py"):
        assert init.read_text().startswith('"""'), f"{init} has no docstring"
