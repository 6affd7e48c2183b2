"""The page and the pictures of deixis have the same colours."""

from __future__ import annotations

import re
from pathlib import Path

from deixis.tasks.pictures.style import DASHES, PALETTE

COLOURS = Path(__file__).parents[2] / "web" / "src" / "colours.ts"


def lists_in(text: str, name: str) -> list[tuple[float, ...]]:
    """The lists of numbers in a list of this name."""
    body = re.search(rf"{name}[^=]*= (\[.*?\n?\]);", text, re.DOTALL)
    assert body is not None
    inner = re.findall(r"\[([\d., ]*)\]", body[1])
    return [tuple(float(number) for number in each.split(",") if number.strip()) for each in inner]


def test_colours_and_strokes_of_the_page_are_those_of_the_pictures() -> None:
    text = COLOURS.read_text(encoding="utf-8")
    assert lists_in(text, "PALETTE") == [tuple(map(float, colour)) for colour in PALETTE]
    assert lists_in(text, "DASHES") == [tuple(map(float, dash)) for dash in DASHES]
