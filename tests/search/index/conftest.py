"""Paths of indexes in a folder and in PostgreSQL."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from deixis.search.index.base import IndexPath


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.slow)])
def index_path(request: pytest.FixtureRequest, tmp_path: Path) -> IndexPath:
    """A new folder, and then a new database schema; tests of the contract of an index, `on_both`, have both at once."""
    return tmp_path / "index" if request.param == "folder" else new_schema(request.getfixturevalue("postgres"))


@pytest.fixture
def address(postgres: str) -> str:
    """The address of an empty schema."""
    return new_schema(postgres)


def new_schema(server: str) -> str:
    return f"{server}&schema=test_{uuid.uuid4().hex}"
