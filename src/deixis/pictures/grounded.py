"""Grounded pictures: a photo with boxes, and below it sentences with phrases in the colours of their boxes.

Colour is not the only cue: a phrase and its boxes have the same number, and repeated colours have different dashes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.pictures.style import WHITE, Mark, Rectangle, Sizes, draw_line, draw_tag, fill_rectangle, tag_size
from deixis.pictures.text import MarkedPhrase, draw_sentence
from deixis.storage.atomic import new_file


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture; the suffix of the file name sets the format.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_picture(Image.new("RGB", (8, 6)), Path(folder) / "a.png")
    ...     Image.open(Path(folder) / "a.png").size
    (8, 6)
    """
    form = check_picture_name(path)
    with new_file(path) as unfinished:
        picture.save(unfinished, format=form)


def check_picture_name(path: Path) -> str:
    """Check the file name of a picture before the work starts, and return the format."""
    form = Image.registered_extensions().get(path.suffix.lower())
    if form not in Image.SAVE:
        raise DeixisError(f"{path}: unknown picture format; use a name that ends in .png, .jpg or .webp")
    if not path.parent.is_dir():
        raise DeixisError(f"{path}: the directory {path.parent} does not exist; create it or give another name")
    return form


LONG_SIDE = (960, 2400)
"""Smallest and largest long side; small photos are enlarged to make room for text."""

MIN_WIDTH = 0.6
"""Smallest width of a picture relative to its long side: room for about 45 letters."""


@dataclass(frozen=True)
class PhraseBoxes:
    """A phrase of a caption and its boxes.

    Attributes
    ----------
    start, end
        Offsets in Unicode code points in the caption, end exclusive.
    boxes
        ``x1, y1, x2, y2`` in pixels of the photo; may be empty.
    score
        Shown in parentheses after the phrase.
    key
        Phrases with the same key, in any caption, share colour, number and boxes.
    """

    start: int
    end: int
    boxes: tuple[Rectangle, ...]
    score: float | None = None
    key: str | None = None


def draw_grounding(photo: Image.Image, captions: Sequence[tuple[str, Sequence[PhraseBoxes]]]) -> Image.Image:
    """Draw a photo with boxes and, below it, captions with phrases in the colours of their boxes.

    Parameters
    ----------
    photo
        The photo, upright. It is not changed.
    captions
        Captions with their phrases. Boxes are clipped to the photo.

    Examples
    --------
    >>> dog = PhraseBoxes(0, 5, ((10, 10, 90, 60),), score=0.83)
    >>> picture = draw_grounding(Image.new("RGB", (280, 210)), [("A dog runs .", [dog])])
    >>> picture.width
    960
    """
    _check(captions)
    shown, factor = _resized(photo)
    sizes = Sizes.for_long_side(max(shown.size))
    marks, boxes = _marks(captions)
    _draw_boxes(shown, [(mark, _scaled(box, factor)) for mark, box in boxes], sizes)
    width = max(shown.width, round(MIN_WIDTH * shown.height))
    sentences = []
    for row, (text, phrases) in enumerate(captions):
        marked = [
            MarkedPhrase(phrase.start, phrase.end, marks.get(_key(row, column, phrase)), phrase.score)
            for column, phrase in enumerate(phrases)
        ]
        sentences.append(draw_sentence(text, marked, width - 2 * sizes.margin, sizes))
    return _stack(shown, sentences, width, sizes)


def draw_annotations(record: Photo, photo: Image.Image, *, captions: Sequence[int] | None = None) -> Image.Image:
    """Draw the annotations of a photo in a data set: its mentions in the colours of their chains' boxes.

    Parameters
    ----------
    record
        The photo's record; its boxes are scaled to the size of `photo`.
    photo
        The photo, upright.
    captions
        Indices of the captions to show; all by default.

    Examples
    --------
    >>> from deixis.data.records import Box, Caption, Chain, Mention
    >>> caption = Caption.from_text("A dog runs .", (Mention(0, 5, "7", ("animals",)),))
    >>> record = Photo("1", (caption,), (Chain("7"),), (Box((10, 10, 90, 60), ("7",)),), 280, 210)
    >>> draw_annotations(record, Image.new("RGB", (280, 210))).width
    960
    """
    fitted = record.resized(*photo.size)
    chosen = record.captions if captions is None else [record.captions[i] for i in captions]
    shown = []
    for caption in chosen:
        phrases = [
            PhraseBoxes(m.start, m.end, tuple(box.xyxy for box in fitted.boxes_of(m.chain)), key=m.chain)
            for m in caption.mentions
            if m.chain is not None
        ]
        shown.append((caption.text, phrases))
    return draw_grounding(photo, shown)


def _check(captions: Sequence[tuple[str, Sequence[PhraseBoxes]]]) -> None:
    for text, phrases in captions:
        for phrase in phrases:
            if not 0 <= phrase.start < phrase.end <= len(text):
                raise DeixisError(
                    f"span {phrase.start}-{phrase.end} is outside the caption, which has {len(text)} characters"
                )
            for x1, y1, x2, y2 in phrase.boxes:
                if not (math.isfinite(x1 + y1 + x2 + y2) and x1 <= x2 and y1 <= y2):
                    raise DeixisError(
                        f"{text[phrase.start : phrase.end]!r}: {x1:g}, {y1:g}, {x2:g}, {y2:g} is not a box"
                    )


def _resized(photo: Image.Image) -> tuple[Image.Image, float]:
    """An RGB copy within the limits of `LONG_SIDE`, and the scale factor."""
    long_side = max(photo.size)
    factor = min(max(long_side, LONG_SIDE[0]), LONG_SIDE[1]) / long_side
    size = (max(1, round(photo.width * factor)), max(1, round(photo.height * factor)))
    solid = Image.new("RGB", photo.size, WHITE)
    if photo.has_transparency_data:
        clear = photo.convert("RGBA")
        solid.paste(clear, mask=clear.getchannel("A"))
    else:
        solid.paste(photo.convert("RGB"))
    return solid.resize(size, Image.Resampling.LANCZOS), factor


def _key(row: int, column: int, phrase: PhraseBoxes) -> tuple[int, int] | str:
    return (row, column) if phrase.key is None else phrase.key


def _marks(
    captions: Sequence[tuple[str, Sequence[PhraseBoxes]]],
) -> tuple[dict[tuple[int, int] | str, Mark], list[tuple[Mark, Rectangle]]]:
    """The marks of keys with boxes, numbered by first appearance, and all boxes with their marks."""
    boxes: dict[tuple[int, int] | str, dict[Rectangle, None]] = {}
    for row, (_, phrases) in enumerate(captions):
        for column, phrase in sorted(enumerate(phrases), key=lambda item: item[1].start):
            if phrase.boxes:
                boxes.setdefault(_key(row, column, phrase), {}).update(dict.fromkeys(phrase.boxes))
    marks = {key: Mark(number) for number, key in enumerate(boxes, start=1)}
    return marks, [(marks[key], box) for key, of_key in boxes.items() for box in of_key]


def _scaled(box: Rectangle, factor: float) -> Rectangle:
    x1, y1, x2, y2 = (edge * factor for edge in box)
    return x1, y1, x2, y2


def _draw_boxes(picture: Image.Image, boxes: Sequence[tuple[Mark, Rectangle]], sizes: Sizes) -> None:
    """Draw large boxes first, so that small ones stay visible, then the numbers."""
    pen = ImageDraw.Draw(picture)
    drawn: list[Rectangle] = []
    outlined: list[tuple[Mark, Rectangle]] = []
    for mark, box in sorted(boxes, key=lambda item: -_area(item[1])):
        fitted = _visible(box, picture.size, 4 * sizes.line)
        # Boxes at the same location are drawn inside each other.
        alike = sum(_nearly_same(fitted, other, sizes.line) for other in drawn)
        drawn.append(fitted)
        inner = _inset(fitted, alike * (sizes.line + 2 * sizes.rim))
        _draw_outline(pen, inner, mark, sizes)
        outlined.append((mark, inner))
    tags: list[Rectangle] = []
    for mark, box in reversed(outlined):
        tags.append(_tag_location(box, mark, picture.size, tags, sizes))
        x1, y1, x2, y2 = tags[-1]
        fill_rectangle(pen, (x1 - sizes.rim, y1 - sizes.rim, x2 + sizes.rim, y2 + sizes.rim), WHITE)
        draw_tag(pen, (x1, y1), mark, sizes)


def _area(box: Rectangle) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _visible(box: Rectangle, size: tuple[int, int], least: int) -> Rectangle:
    """The part of a box inside the photo, enlarged to a visible size."""
    x1, x2 = _visible_side(box[0], box[2], size[0], least)
    y1, y2 = _visible_side(box[1], box[3], size[1], least)
    return x1, y1, x2, y2


def _visible_side(start: float, end: float, length: int, least: int) -> tuple[float, float]:
    start, end = min(max(start, 0), length), min(max(end, 0), length)
    missing = max(least - (end - start), 0)
    start = min(max(start - missing / 2, 0), max(length - least, 0))
    return start, min(max(end, start + least), length)


def _nearly_same(one: Rectangle, other: Rectangle, distance: float) -> bool:
    return all(abs(a - b) <= distance for a, b in zip(one, other, strict=True))


def _inset(box: Rectangle, by: float) -> Rectangle:
    """Shrink a box, by at most a third on each side."""
    x1, y1, x2, y2 = box
    across, down = min(by, (x2 - x1) / 3), min(by, (y2 - y1) / 3)
    return x1 + across, y1 + down, x2 - across, y2 - down


def _draw_outline(pen: ImageDraw.ImageDraw, box: Rectangle, mark: Mark, sizes: Sizes) -> None:
    """Draw a frame just inside the box, between two thin white ones for contrast."""
    x1, y1, x2, y2 = (round(edge) for edge in box)
    # A thick line would cover most of a small box.
    small = min(x2 - x1, y2 - y1) < 14 * sizes.line
    line, rim = (sizes.line // 2 if small else sizes.line), sizes.rim
    sides = [(x1, y1, x2, y1 + line), (x1, y2 - line, x2, y2), (x1, y1, x1 + line, y2), (x2 - line, y1, x2, y2)]
    for left, top, right, bottom in sides:
        fill_rectangle(pen, (left - rim, top - rim, right + rim, bottom + rim), WHITE)
    for side in sides:
        draw_line(pen, side, mark.colour, mark.dash)


def _tag_location(
    box: Rectangle, mark: Mark, size: tuple[int, int], taken: Sequence[Rectangle], sizes: Sizes
) -> Rectangle:
    """Find a corner for a box's number that covers no other number and, if possible, no small box."""
    width, height = tag_size(mark, sizes)
    x1, y1, x2, y2 = box
    inside = [(x1, y1), (x2 - width, y1), (x1, y2 - height), (x2 - width, y2 - height)]
    outside = [(x1, y1 - height), (x2 - width, y1 - height), (x1, y2), (x2 - width, y2)]
    small = x2 - x1 < 4 * width or y2 - y1 < 4 * height
    along = [(x1 + i * (width + 2), y1) for i in range(1, max(2, int((x2 - x1) / (width + 2))))]
    down = [(x1, y1 + i * (height + 2)) for i in range(1, max(2, int((y2 - y1) / (height + 2))))]
    corners = [*(outside + inside if small else inside + outside), *along, *down]
    locations = [
        (x, y, x + width, y + height) for x, y in corners if 0 <= x <= size[0] - width and 0 <= y <= size[1] - height
    ]
    free = (location for location in locations if not any(_overlap(location, other) for other in taken))
    return next(free, locations[0] if locations else (0, 0, width, height))


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _stack(photo: Image.Image, sentences: Sequence[Image.Image], width: int, sizes: Sizes) -> Image.Image:
    """Put the photo above the sentences."""
    gap = sizes.margin // 2
    below = sum(sentence.height + gap for sentence in sentences) + sizes.margin if sentences else 0
    picture = Image.new("RGB", (width, photo.height + below), WHITE)
    picture.paste(photo, ((width - photo.width) // 2, 0))
    top = photo.height + sizes.margin
    for sentence in sentences:
        picture.paste(sentence, (sizes.margin, top))
        top += sentence.height + gap
    return picture
