"""A fixture that writes files of any format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, object], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write bytes or a text as they are, anything else as JSON."""

    def written(name: str, content: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case bytes():
                path.write_bytes(content)
            case str():
                path.write_text(content, encoding="utf-8", newline="")
            case _:
                path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return written
