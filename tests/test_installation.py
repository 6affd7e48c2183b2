"""An installation without extras: what works, and what the others say. Packages of extras are hidden from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import httpx
import pytest
from dependencies import REQUIRED, dependencies
from packaging.utils import canonicalize_name

from deixis.data.dataset import make_dataset
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from tests.cli.test_serve import running

PHOTO = SAMPLES / "images" / "astronaut.jpg"

HIDE = """
import sys
from importlib.machinery import PathFinder
hidden = set(sys.argv.pop(1).split(","))
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def hidden() -> str:
    """The modules of all packages that are installed here, but not by ``pip install deixis``."""
    required = {canonicalize_name(each.name) for each in dependencies() if each.use == REQUIRED} | {"deixis"}
    modules = packages_distributions().items()
    return ",".join(name for name, owners in modules if not required & {canonicalize_name(owner) for owner in owners})


@pytest.fixture
def without_extras(hidden: str, tmp_path: Path) -> Run:
    """Run code in an environment without extras, in an empty folder."""

    def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", HIDE + code, hidden, *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    return run


COMMAND = "from deixis.cli.main import _run; sys.exit(_run(sys.argv[1:]))"
COMMANDS = "import json; from deixis.cli.main import _run; print([_run(each) for each in json.loads(sys.argv[1])])"


def test_extras_are_hidden(hidden: str, without_extras: Run) -> None:
    assert {"torch", "onnx", "pyarrow", "scipy", "matplotlib", "sqlalchemy"} <= set(hidden.split(","))
    assert "No module named 'pyarrow'" in without_extras("import numpy; import pyarrow").stderr


def test_photos_are_searched_and_described_without_extras(without_extras: Run, sample_index: Path) -> None:
    commands = [
        ("index", PHOTO, "--into", "new.deixis"),
        ("search", "a woman -dog", "--explain", "--csv", "found.csv", "--index", sample_index),
        ("ground", PHOTO, "a woman in a suit", "--picture", "grounded.png"),
        ("caption", PHOTO, "--csv", "captions.csv"),
        ("describe", PHOTO, "--picture", "described.png"),
        ("models",),
        ("verify", "new.deixis", "two-branch"),
    ]
    done = without_extras(COMMANDS, json.dumps(commands, default=str))
    assert done.stdout.splitlines()[-1] == str([0] * len(commands)), done.stderr


def test_the_server_runs_without_extras(hidden: str, sample_index: Path) -> None:
    command = [sys.executable, "-c", HIDE + COMMAND, hidden]
    with running("serve", "--index", sample_index, "--port", 0, "--no-open", "--no-token", command=command) as (
        link,
        _,
    ):
        assert httpx.get(f"{link}api/status").json()["photos"] == 14
        found = httpx.get(f"{link}api/search", params={"q": "two dogs", "explain": 1, "all": 1}, timeout=60).json()
        assert found["hits"][0]["phrases"]
        photo = found["hits"][0]["id"]
        grounded = httpx.post(f"{link}api/ground", json={"photo": photo, "sentence": "two dogs"}, timeout=60)
        assert grounded.json()["phrases"][0]["boxes"]


def test_commands_for_data_sets_name_the_extra_that_they_need(without_extras: Run) -> None:
    commands = [
        ("data", "stats", "flickr8k.data"),
        ("annotate", "status", "project"),
        ("evaluate", "retrieval", "--model", "two-branch", "--data", "flickr8k.data"),
        ("train", "cca", "--data", "flickr8k.data"),
        ("features", "flickr8k.data"),
    ]
    done = without_extras(COMMANDS, json.dumps(commands))
    assert done.stdout.splitlines()[-1] == str([2] * len(commands)), done.stderr
    errors = done.stderr.splitlines()
    assert len(errors) == len(commands)
    assert all(line.endswith("which is not installed: pip install 'deixis[data]'") for line in errors)


def test_the_public_api_names_the_extra_that_it_needs(without_extras: Run) -> None:
    code = """
import deixis
try:
    deixis.Dataset
except deixis.DeixisError as error:
    print(error)
"""
    assert without_extras(code).stdout == "this needs pyarrow, which is not installed: pip install 'deixis[data]'\n"


def test_data_sets_need_matplotlib_only_for_plots(tmp_path: Path) -> None:
    photo = Photo("1", (Caption.from_text("A dog."),), splits=("train",))
    make_dataset(tmp_path / "data", [photo])

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", HIDE + COMMAND, "matplotlib", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert run("data", "stats", "data").returncode == 0
    assert run("data", "convert", "data", "--to", "jsonl", "--out", "converted").returncode == 0
    plotted = run("data", "stats", "data", "--plot", "types.png")
    assert (plotted.returncode, "deixis[plot]" in plotted.stderr) == (2, True)
