"""Benchmarks as modules; their folder is not a package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Any]:
    """Import a module of the folder benchmarks, which is not a package."""
    sys.path.insert(0, FOLDER)
    yield __import__
    sys.path.remove(FOLDER)
