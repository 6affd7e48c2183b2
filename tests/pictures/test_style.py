"""Colours, dashes and tags of grounded pictures are readable for everybody."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw

from deixis.pictures.style import (
    BLACK,
    DASHES,
    GREY,
    GUESS_DASH,
    PALETTE,
    WHITE,
    Colour,
    Mark,
    Sizes,
    contrast,
    draw_line,
    draw_tag,
    ink_on,
    tag_size,
    tint,
)

SIGHT = {
    "full": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""Linear RGB as perceived with colour blindness: Machado, Oliveira and Fernandes (2009), severity 1."""


def perceived(colour: Colour, sight: str) -> npt.NDArray[np.float64]:
    """A colour in CIELAB (D65), as perceived with a kind of sight."""
    share = np.array(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    xyz = np.array(to_xyz) @ np.clip(np.array(SIGHT[sight]) @ linear, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_contrast_is_that_of_wcag() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, BLACK) == pytest.approx(21)
    assert contrast((119, 119, 119), WHITE) == pytest.approx(4.478, abs=1e-3)
    assert contrast((255, 0, 0), WHITE) == pytest.approx(3.998, abs=1e-3)


@pytest.mark.parametrize("colour", PALETTE)
def test_words_numbers_and_grey_lines_have_enough_contrast(colour: Colour) -> None:
    assert contrast(ink_on(colour), colour) >= 4.5
    assert contrast(BLACK, tint(colour)) >= 4.5
    assert contrast(GREY, WHITE) >= 4.5


@pytest.mark.parametrize("sight", SIGHT)
def test_all_colours_are_distinct_for_every_kind_of_sight(sight: str) -> None:
    for one, other in combinations(PALETTE, 2):
        assert np.linalg.norm(perceived(one, sight) - perceived(other, sight)) > 15, (one, other)


def test_forty_marks_all_differ_in_colour_or_dashes() -> None:
    looks = {(Mark(number).colour, Mark(number).dash) for number in range(1, 41)}
    assert len(looks) == len(PALETTE) * len(DASHES) == 40
    assert all(Mark(number).dash == () for number in range(1, 11))


@pytest.mark.parametrize("horizontal", [True, False])
def test_dashed_lines_have_gaps_and_solid_lines_have_none(horizontal: bool) -> None:
    area = (10, 10, 110, 14) if horizontal else (10, 10, 14, 110)
    for number, gaps in ((1, False), (11, True), (21, True), (31, True)):
        picture = Image.new("RGB", (120, 120), WHITE)
        draw_line(ImageDraw.Draw(picture), area, Mark(number).colour, Mark(number).dash)
        painted = np.all(np.asarray(picture) == Mark(number).colour, axis=2)
        along = painted.any(axis=0 if horizontal else 1)
        assert along[10]
        assert (not along[10:110].all()) == gaps
        assert not along[:10].any()
        assert not along[110:].any()
        assert painted.any(axis=1 if horizontal else 0).sum() == 4


def test_a_tag_is_large_enough_for_its_number() -> None:
    sizes = Sizes.for_long_side(960)
    for number in (1, 10, 123456):
        width, height = tag_size(Mark(number), sizes)
        picture = Image.new("RGB", (width + 40, height + 40), GREY)
        draw_tag(ImageDraw.Draw(picture), (20, 20), Mark(number), sizes)
        outside = np.asarray(picture).copy()
        outside[20 : 20 + height, 20 : 20 + width] = GREY
        assert (outside == GREY).all()


@pytest.mark.parametrize("area", [(5, 5, 5, 9), (5, 5, 9, 5), (9, 5, 5, 9)])
def test_an_empty_line_draws_nothing(area: tuple[float, float, float, float]) -> None:
    picture = Image.new("RGB", (20, 20), WHITE)
    draw_line(ImageDraw.Draw(picture), area, BLACK, Mark(11).dash)
    assert (np.asarray(picture) == 255).all()


COLOURS = Path(__file__).parents[2] / "web" / "src" / "colours.ts"


def lists_in(text: str, name: str) -> list[tuple[float, ...]]:
    """The lists of numbers in a list of this name."""
    body = re.search(rf"{name}[^=]*= (\[.*?\n?\]);", text, re.DOTALL)
    assert body is not None
    inner = re.findall(r"\[([\d., ]*)\]", body[1])
    return [tuple(float(number) for number in each.split(",") if number.strip()) for each in inner]


def test_the_web_app_has_the_same_colours_and_dashes() -> None:
    text = COLOURS.read_text(encoding="utf-8")
    assert lists_in(text, "PALETTE") == [tuple(map(float, colour)) for colour in PALETTE]
    assert lists_in(text, "DASHES") == [tuple(map(float, dash)) for dash in DASHES]
    assert f"GUESS_DASH: readonly number[] = {list(GUESS_DASH)}" in text
