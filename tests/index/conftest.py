"""Indexes in both kinds of places."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from deixis.index.places import Place


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where an index is to be: a folder, and then a database."""
    return tmp_path / "index" if request.param == "folder" else new_schema(request.getfixturevalue("postgres"))


@pytest.fixture
def address(postgres: str) -> str:
    """An address where nothing is yet."""
    return new_schema(postgres)


def new_schema(server: str) -> str:
    return f"{server}&schema=test_{uuid.uuid4().hex}"
