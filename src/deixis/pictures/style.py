"""Colours, lines, fonts and sizes of grounded pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import ImageDraw, ImageFont

_FONTS = Path(__file__).parent / "fonts"

Colour = tuple[int, int, int]
Rectangle = tuple[float, float, float, float]

PALETTE: tuple[Colour, ...] = (
    (213, 94, 0),
    (0, 114, 178),
    (0, 158, 115),
    (230, 159, 0),
    (204, 121, 167),
    (86, 180, 233),
    (136, 34, 85),
    (240, 228, 66),
    (51, 34, 136),
    (0, 0, 0),
)
"""The eight colours of Okabe and Ito (2008) and Tol's wine and indigo, distinct for colour-blind readers too."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2.5), (1.5, 1.5), (6, 1.5, 1.5, 1.5))
"""Strokes and gaps in line widths, for the first use of a colour, the second and so on."""

GUESS_DASH = (2, 2)
"""Strokes and gaps of boxes that are guesses."""

BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)
GREY: Colour = (118, 118, 118)


@dataclass(frozen=True)
class Mark:
    """The number of a phrase and its boxes, from 1, which determines colour and dashes; a guess has a question mark."""

    number: int
    is_guess: bool = False

    @property
    def label(self) -> str:
        return f"{self.number}?" if self.is_guess else f"{self.number}"

    @property
    def colour(self) -> Colour:
        return PALETTE[(self.number - 1) % len(PALETTE)]

    @property
    def dash(self) -> tuple[float, ...]:
        """Strokes and gaps in line widths; empty for a solid line."""
        return GUESS_DASH if self.is_guess else DASHES[(self.number - 1) // len(PALETTE) % len(DASHES)]


@dataclass(frozen=True)
class Sizes:
    """Text heights, line widths, gaps and margins in pixels, in proportion to the picture."""

    text: int
    tag: int
    line: int
    rim: int
    gap: int
    margin: int

    @classmethod
    def for_long_side(cls, long_side: int) -> Sizes:
        unit = long_side / 960
        return cls(
            text=round(22 * unit),
            tag=round(16 * unit),
            line=round(4 * unit),
            rim=round(unit),
            gap=round(6 * unit),
            margin=round(20 * unit),
        )


def contrast(one: Colour, other: Colour) -> float:
    """The contrast ratio of WCAG 2.1, from 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Colour) -> float:
    shares = [value / 255 for value in colour]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink_on(colour: Colour) -> Colour:
    """Black or white, whichever has the higher contrast; always at least 4.5:1."""
    return max((BLACK, WHITE), key=lambda ink: contrast(ink, colour))


def tint(colour: Colour, strength: float = 0.2) -> Colour:
    """Mix a colour with white."""
    red, green, blue = (round(255 - strength * (255 - value)) for value in colour)
    return red, green, blue


@lru_cache(maxsize=16)
def font(size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with deixis, so that no system fonts are needed."""
    return ImageFont.truetype(_FONTS / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"), size)


def draw_line(pen: ImageDraw.ImageDraw, area: Rectangle, colour: Colour, dash: tuple[float, ...] = ()) -> None:
    """Draw a solid or dashed line, given as a rectangle; an empty one draws nothing."""
    x1, y1, x2, y2 = (round(edge) for edge in area)
    if x1 >= x2 or y1 >= y2:
        return
    horizontal = x2 - x1 >= y2 - y1
    length, width = (x2 - x1, y2 - y1) if horizontal else (y2 - y1, x2 - x1)
    offset, index = 0.0, 0
    while offset < length:
        stroke = dash[index % len(dash)] * width if dash else length
        if index % 2 == 0:
            start, end = round(offset), min(round(offset + stroke), length)
            fill_rectangle(
                pen, (x1 + start, y1, x1 + end, y2) if horizontal else (x1, y1 + start, x2, y1 + end), colour
            )
        offset, index = offset + stroke, index + 1


def fill_rectangle(pen: ImageDraw.ImageDraw, area: Rectangle, colour: Colour) -> None:
    """Fill an end-exclusive rectangle; an empty one draws nothing."""
    x1, y1, x2, y2 = (round(edge) for edge in area)
    if x1 < x2 and y1 < y2:
        pen.rectangle((x1, y1, x2 - 1, y2 - 1), fill=colour)


def draw_tag(pen: ImageDraw.ImageDraw, corner: tuple[float, float], mark: Mark, sizes: Sizes) -> None:
    """Draw a number on a background of its colour; `corner` is the top left."""
    width, height = tag_size(mark, sizes)
    x, y = round(corner[0]), round(corner[1])
    fill_rectangle(pen, (x, y, x + width, y + height), mark.colour)
    middle = (x + width / 2, y + height / 2)
    letters = font(sizes.tag, bold=True)
    pen.text(middle, mark.label, fill=ink_on(mark.colour), font=letters, anchor="mm")


def tag_size(mark: Mark, sizes: Sizes) -> tuple[int, int]:
    height = round(sizes.tag * 1.35)
    digits = font(sizes.tag, bold=True).getlength(mark.label)
    return max(height, round(digits + sizes.tag * 0.6)), height
