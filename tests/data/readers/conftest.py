"""Fixtures that write files of any format and check that readers refuse them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deixis.data.readers import read_captions
from deixis.errors import DatasetError

Write = Callable[[str, object], Path]
Refused = Callable[..., None]


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


@pytest.fixture
def refused() -> Refused:
    """Read a file and check that the error, of one line, starts with the file and a position in it."""

    def check(path: Path, where: str, file: Path | None = None, **options: Path) -> None:
        with pytest.raises(DatasetError) as error:
            list(read_captions(path, **options).photos)
        assert str(error.value).startswith(f"{file or path}: {where}")
        assert "\n" not in str(error.value)

    return check
