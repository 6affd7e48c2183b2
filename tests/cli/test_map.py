"""`deixis map`: a picture, a page and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from deixis.data.samples import SAMPLES
from tests.cli.conftest import Command

pytest.importorskip("openTSNE", reason="the extra 'map' is not installed")


def test_a_picture_and_a_page_are_written(samples: Path, tmp_path: Path, command: Command) -> None:
    picture, page = tmp_path / "map.png", tmp_path / "map.html"
    out, _ = command("map", samples, "--out", picture, "--photos", 8)
    assert out.startswith(f"{picture}: 8 photos and ")
    with Image.open(picture) as drawn:
        assert max(drawn.size) > 1000
    document = command.json("map", samples, "--out", page)
    assert document["file"] == str(page)
    assert document["photos"] == len(list((SAMPLES / "images").iterdir()))
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
