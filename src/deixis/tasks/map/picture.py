"""The map as a picture: photos, lines to their sentences, and as many of the sentences as find room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from deixis.data.images import open_photo
from deixis.files.progress import OnProgress, silent
from deixis.tasks.map.layout import SemanticMap
from deixis.tasks.pictures.style import PALETTE, WHITE, Colour, Rectangle, font, tint

SIDE = 2400
"""Of the picture, in pixels; it is as wide as high."""

MOST_LETTERS = 34
_THUMBNAIL = 0.05
_MARGIN = 0.06
_INK: Colour = (40, 40, 40)


def draw_map(shown: SemanticMap, *, side: int = SIDE, on_progress: OnProgress = silent) -> Image.Image:
    """Draw a map of some dozens of photos; of hundreds little can be seen.

    Photos lie where the layout put them, but for those that would hide each other: these are moved apart a little, and
    a point stays where each of them was.

    Parameters
    ----------
    shown
        The map.
    side
        Width and height of the picture in pixels.
    on_progress
        Called as the work goes on.
    """
    size = max(24, round(side * _THUMBNAIL * min(1.0, (90 / max(1, len(shown.files))) ** 0.5)))
    margin = round(side * _MARGIN)
    photos = margin + shown.photo_places * (side - 2 * margin)
    sentences = margin + shown.sentence_places * (side - 2 * margin)
    middles = moved_apart(photos, size * 1.06, (size / 2, side - size / 2))
    # Drawn at twice the size and made smaller: Pillow's lines have stairs.
    canvas = Image.new("RGB", (2 * side, 2 * side), WHITE)
    pen = ImageDraw.Draw(canvas)
    for place, owner in zip(sentences, shown.owner, strict=True):
        pen.line([*(2 * middles[owner]), *(2 * place)], fill=tint(_colour(owner), 0.45), width=max(2, side // 800))
    for place, owner in zip(sentences, shown.owner, strict=True):
        _dot(pen, 2 * place, side / 500, _colour(owner))
    canvas = canvas.resize((side, side), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(canvas)
    taken = list(_paste(canvas, shown.files, middles, size, on_progress))
    _write_sentences(pen, shown, sentences, taken, side)
    return canvas.crop(_without_borders(taken, sentences, side))


def moved_apart(places: np.ndarray, distance: float, within: tuple[float, float], rounds: int = 200) -> np.ndarray:
    """Places of squares that no longer overlap, or less: those too near to each other step aside, again and again.

    Examples
    --------
    >>> apart = moved_apart(np.array([[50.0, 50.0], [51.0, 50.0]]), 10, (0, 100))
    >>> bool(np.abs(apart[0] - apart[1]).max() >= 9.9)
    True
    """
    now = places.astype(np.float64) + np.random.default_rng(0).normal(0, 1e-3, places.shape)
    for _ in range(rounds):
        gap = now[:, None] - now[None]
        overlap = np.maximum(distance - np.abs(gap), 0)
        both = np.asarray((overlap > 0).all(axis=2))
        np.fill_diagonal(both, False)
        if not both.any():
            break
        # Squares part in the direction in which the way out is the shorter one.
        across = overlap[..., 0] < overlap[..., 1]
        step = np.where(both[..., None] & np.stack([across, ~across], axis=-1), np.sign(gap) * overlap, 0)
        now = np.clip(now + 0.5 * step.sum(axis=1) / np.maximum(both.sum(axis=1), 1)[:, None], *within)
    return now


def shortened(sentence: str, most: int = MOST_LETTERS) -> str:
    """The beginning of a sentence, cut after a word.

    Examples
    --------
    >>> shortened("A brown dog runs through the deep snow .", 20)
    'A brown dog runs …'
    """
    text = " ".join(sentence.split()).removesuffix(" .")
    if len(text) <= most:
        return text
    cut = text[: most - 2].rsplit(" ", 1)[0]
    return f"{cut} …"


def _colour(owner: int) -> Colour:
    return PALETTE[int(owner) % (len(PALETTE) - 1)]  # all but black, the colour of the words


def _dot(pen: ImageDraw.ImageDraw, place: np.ndarray, radius: float, colour: Colour) -> None:
    x, y, r = *place, 2 * radius
    pen.ellipse([x - r, y - r, x + r, y + r], fill=colour)


def _paste(
    canvas: Image.Image, files: Sequence[Path], middles: np.ndarray, size: int, on_progress: OnProgress
) -> Iterator[Rectangle]:
    """The photos, each in a frame of its colour; gives the places that they take."""
    rim = max(2, size // 28)
    for number, (file, (x, y)) in enumerate(zip(files, middles, strict=True)):
        small = square(open_photo(file), size - 2 * rim)
        left, top = round(x - size / 2), round(y - size / 2)
        canvas.paste(_colour(number), (left, top, left + size, top + size))
        canvas.paste(small, (left + rim, top + rim))
        on_progress("drawing photos", number + 1, len(files))
        yield left, top, left + size, top + size


def square(photo: Image.Image, side: int) -> Image.Image:
    """The middle of a photo as a small square."""
    short = min(photo.size)
    left, top = (photo.width - short) // 2, (photo.height - short) // 2
    cut = photo.convert("RGB").resize(
        (side, side), Image.Resampling.LANCZOS, (left, top, left + short, top + short), reducing_gap=3.0
    )
    cut.info.clear()
    return cut


def _write_sentences(
    pen: ImageDraw.ImageDraw, shown: SemanticMap, places: np.ndarray, taken: list[Rectangle], side: int
) -> None:
    """The first sentence of each photo, then the second and so on, where they hide nothing."""
    letters = font(max(9, round(side / 150)))
    order = sorted(range(len(places)), key=lambda row: (_rank(shown.owner, row), row))
    for row in order:
        text = shortened(shown.sentences[row])
        width, height = letters.getlength(text), letters.size * 1.3
        x, y = places[row]
        gap = side / 300
        beside = ((x + gap, y - height / 2), (x - gap - width, y - height / 2))
        for left, top in (*beside, (x - width / 2, y + gap), (x - width / 2, y - gap - height)):
            room = (left, top, left + width, top + height)
            inside = left >= 0 and top >= 0 and room[2] <= side and room[3] <= side
            if inside and not any(_overlap(room, other) for other in taken):
                pen.text((left, top), text, fill=_INK, font=letters, stroke_width=2, stroke_fill=WHITE)
                taken.append(room)
                break


def _without_borders(taken: Sequence[Rectangle], places: np.ndarray, side: int) -> tuple[int, int, int, int]:
    """The part of the picture in which there is something, with a margin."""
    edges = np.concatenate([np.array(taken), np.tile(places, 2)])
    margin = side // 60
    low, high = edges[:, :2].min(axis=0) - margin, edges[:, 2:].max(axis=0) + margin
    left, top = np.maximum(low, 0).astype(int).tolist()
    right, bottom = np.minimum(high, side).astype(int).tolist()
    return left, top, right, bottom


def _rank(owner: np.ndarray, row: int) -> int:
    """Which one of its photo's sentences a sentence is."""
    return row - int(np.searchsorted(owner, owner[row]))


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
