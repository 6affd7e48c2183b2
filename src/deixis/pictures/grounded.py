"""Grounded pictures: a photo with boxes, and below it sentences with phrases in the colours of their boxes.

Colour is not the only cue: a phrase and its boxes have the same number, and repeated colours have different dashes.
"""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from deixis import geometry
from deixis.data.images import flatten
from deixis.errors import DeixisError
from deixis.pictures.style import (
    BLACK,
    GREY,
    WHITE,
    Mark,
    Rectangle,
    Sizes,
    draw_line,
    draw_tag,
    fill_rectangle,
    font,
    tag_size,
    tint,
)
from deixis.storage.atomic import new_file

if TYPE_CHECKING:
    from deixis.data.records import Photo


def save_picture(picture: Image.Image, path: Path) -> None:
    """Write a picture; the suffix of the file name sets the format."""
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

DOTTED = (0.8, 1.2)
"""Dots and gaps in line widths."""

MIN_WIDTH = 0.6
"""Smallest width of a picture relative to its long side: room for about 45 letters."""


@dataclass(frozen=True)
class PhraseBoxes:
    """A phrase of a caption and its boxes; phrases with the same key share colour, number and boxes."""

    start: int
    end: int
    boxes: tuple[Rectangle, ...]  # in pixels of the photo
    score: float | None = None  # shown in parentheses
    key: str | None = None
    is_guess: bool = False  # dashed boxes, and that word instead of a score
    model_boxes: tuple[Rectangle, ...] = ()  # drawn by a model among those of people: dotted, with the remark "model"


def draw_grounding(photo: Image.Image, captions: Sequence[tuple[str, Sequence[PhraseBoxes]]]) -> Image.Image:
    """Draw an upright photo with boxes, clipped to it, and below it captions in the colours of their boxes."""
    _check(captions)
    shown, factor = _resized(photo)
    sizes = Sizes.for_long_side(max(shown.size))
    marks, boxes = _marks(captions)
    dotted = {_scaled(box, factor) for _, phrases in captions for phrase in phrases for box in phrase.model_boxes}
    _draw_boxes(shown, [(mark, _scaled(box, factor)) for mark, box in boxes], sizes, dotted)
    width = max(shown.width, round(MIN_WIDTH * shown.height))
    sentences = []
    for row, (text, phrases) in enumerate(captions):
        marked = [
            MarkedPhrase(phrase.start, phrase.end, marks.get(_key(row, column, phrase)), _remark(phrase))
            for column, phrase in enumerate(phrases)
        ]
        sentences.append(draw_sentence(text, marked, width - 2 * sizes.margin, sizes))
    return _stack(shown, sentences, width, sizes)


def draw_annotations(photo: Photo, image: Image.Image, model_boxes: Collection[Rectangle] = ()) -> Image.Image:
    """Draw the gold boxes of a photo, and below it the captions (Flickr30k Entities, Figure 1).

    The mentions of a chain, in all captions, share a colour and a number with its boxes; mentions of chains without a
    box have a grey line. Captions that the data marks as unrelated, and phrases of single regions, are left out.
    `model_boxes` are those that a model proposed: they are dotted, and their phrases are marked with "model".
    """
    return draw_grounding(image, annotated_captions(photo, image.size, model_boxes))


def annotated_captions(
    photo: Photo, size: tuple[int, int], model_boxes: Collection[Rectangle] = ()
) -> list[tuple[str, list[PhraseBoxes]]]:
    """The captions of a photo with the boxes of their mentions, in pixels of an image of this size."""
    shown = photo.resized(*size)
    dotted = {new.xyxy for new, box in zip(shown.boxes, photo.boxes, strict=True) if box.xyxy in model_boxes}
    found = []
    for caption in shown.sentences:
        phrases = []
        for mention in caption.mentions:
            boxes = tuple(box.xyxy for box in shown.boxes if mention.chain in box.chains)
            own = tuple(box for box in boxes if box in dotted)
            phrases.append(PhraseBoxes(mention.start, mention.end, boxes, key=mention.chain, model_boxes=own))
        found.append((caption.text, phrases))
    return found


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
    return flatten(photo).resize(size, Image.Resampling.LANCZOS), factor


def _remark(phrase: PhraseBoxes) -> float | str | None:
    return "guess" if phrase.is_guess else "model" if phrase.model_boxes else phrase.score


def _key(row: int, column: int, phrase: PhraseBoxes) -> tuple[int, int] | str:
    return (row, column) if phrase.key is None else phrase.key


def _marks(
    captions: Sequence[tuple[str, Sequence[PhraseBoxes]]],
) -> tuple[dict[tuple[int, int] | str, Mark], list[tuple[Mark, Rectangle]]]:
    """The marks of keys with boxes, numbered by first appearance, and all boxes with their marks."""
    boxes: dict[tuple[int, int] | str, dict[Rectangle, None]] = {}
    guesses = set()
    for row, (_, phrases) in enumerate(captions):
        for column, phrase in sorted(enumerate(phrases), key=lambda item: item[1].start):
            if phrase.boxes:
                boxes.setdefault(_key(row, column, phrase), {}).update(dict.fromkeys(phrase.boxes))
            if phrase.is_guess:
                guesses.add(_key(row, column, phrase))
    marks = {key: Mark(number, key in guesses) for number, key in enumerate(boxes, start=1)}
    return marks, [(marks[key], box) for key, of_key in boxes.items() for box in of_key]


def _scaled(box: Rectangle, factor: float) -> Rectangle:
    x1, y1, x2, y2 = (edge * factor for edge in box)
    return x1, y1, x2, y2


def _draw_boxes(
    picture: Image.Image, boxes: Sequence[tuple[Mark, Rectangle]], sizes: Sizes, dotted: Collection[Rectangle] = ()
) -> None:
    """Draw large boxes first, so that small ones stay visible, then the numbers."""
    pen = ImageDraw.Draw(picture)
    drawn: list[Rectangle] = []
    outlined: list[tuple[Mark, Rectangle]] = []
    for mark, box in sorted(boxes, key=lambda item: -geometry.area(item[1])):
        fitted = _visible(box, picture.size, 4 * sizes.line)
        # Boxes at the same location are drawn inside each other.
        alike = sum(all(abs(a - b) <= sizes.line for a, b in zip(fitted, other, strict=True)) for other in drawn)
        drawn.append(fitted)
        inner = _inset(fitted, alike * (sizes.line + 2 * sizes.rim))
        _draw_outline(pen, inner, mark, sizes, DOTTED if box in dotted else mark.dash)
        outlined.append((mark, inner))
    tags: list[Rectangle] = []
    for mark, box in reversed(outlined):
        tags.append(_tag_location(box, mark, picture.size, tags, sizes))
        x1, y1, x2, y2 = tags[-1]
        fill_rectangle(pen, (x1 - sizes.rim, y1 - sizes.rim, x2 + sizes.rim, y2 + sizes.rim), WHITE)
        draw_tag(pen, (x1, y1), mark, sizes)


def _visible(box: Rectangle, size: tuple[int, int], least: int) -> Rectangle:
    """The part of a box inside the photo, enlarged to a visible size."""
    (x1, x2), (y1, y2) = (_visible_side(box[axis], box[axis + 2], size[axis], least) for axis in (0, 1))
    return x1, y1, x2, y2


def _visible_side(start: float, end: float, length: int, least: int) -> tuple[float, float]:
    start, end = min(max(start, 0), length), min(max(end, 0), length)
    missing = max(least - (end - start), 0)
    start = min(max(start - missing / 2, 0), max(length - least, 0))
    return start, min(max(end, start + least), length)


def _inset(box: Rectangle, by: float) -> Rectangle:
    """Shrink a box, by at most a third on each side."""
    x1, y1, x2, y2 = box
    across, down = min(by, (x2 - x1) / 3), min(by, (y2 - y1) / 3)
    return x1 + across, y1 + down, x2 - across, y2 - down


def _draw_outline(pen: ImageDraw.ImageDraw, box: Rectangle, mark: Mark, sizes: Sizes, dash: tuple[float, ...]) -> None:
    """Draw a frame just inside the box, between two thin white ones for contrast."""
    x1, y1, x2, y2 = (round(edge) for edge in box)
    # A thick line would cover most of a small box.
    small = min(x2 - x1, y2 - y1) < 14 * sizes.line
    line, rim = (sizes.line // 2 if small else sizes.line), sizes.rim
    sides = [(x1, y1, x2, y1 + line), (x1, y2 - line, x2, y2), (x1, y1, x1 + line, y2), (x2 - line, y1, x2, y2)]
    for left, top, right, bottom in sides:
        fill_rectangle(pen, (left - rim, top - rim, right + rim, bottom + rim), WHITE)
    for side in sides:
        draw_line(pen, side, mark.colour, dash)


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


@dataclass(frozen=True)
class MarkedPhrase:
    """A span of a sentence, the mark it shares with its boxes (None without boxes), and its score."""

    start: int
    end: int
    mark: Mark | None
    score: float | str | None = None


@dataclass(frozen=True)
class _Piece:
    """A unit of drawing: a part of a word, a space, a number, a score or the edge of a phrase."""

    width: float
    phrases: frozenset[int]  # indices of the phrases that it belongs to
    text: str = ""
    tag: Mark | None = None
    is_score: bool = False

    @property
    def is_space(self) -> bool:
        return self.text == " "


def draw_sentence(text: str, phrases: Sequence[MarkedPhrase], width: int, sizes: Sizes) -> Image.Image:
    """Draw a sentence on white, in as many lines as it needs.

    A phrase has a tinted background, its number in front and a line like that of its boxes below; without boxes, it
    has only a grey line. The lines of nested phrases are stacked.
    """
    levels = _levels(phrases)
    lines = list(_lines(list(_pieces(text, phrases, sizes)), width, sizes))
    ascent, descent = font(sizes.text).getmetrics()
    stack = (max(levels, default=0) + 1) * 2 * sizes.line
    pitch = ascent + descent + stack + round(sizes.text * 0.25)
    picture = Image.new("RGB", (width, max(1, pitch * len(lines))), WHITE)
    pen = ImageDraw.Draw(picture)
    for row, line in enumerate(lines):
        top = row * pitch
        offsets = [0.0, *accumulate(piece.width for piece in line)][:-1]
        _draw_backgrounds(pen, phrases, levels, line, offsets, top, sizes)
        for piece, x in zip(line, offsets, strict=True):
            _draw_piece(pen, piece, x, top + ascent, sizes)
    return picture


def _levels(phrases: Sequence[MarkedPhrase]) -> list[int]:
    """Level of each phrase's line below the text; of nested phrases, the longer one is lower."""
    levels = [0] * len(phrases)
    done: list[int] = []
    for i in sorted(range(len(phrases)), key=lambda i: phrases[i].end - phrases[i].start):
        here = phrases[i]
        crossed = [j for j in done if here.start < phrases[j].end and phrases[j].start < here.end]
        levels[i] = max((levels[j] + 1 for j in crossed), default=0)
        done.append(i)
    return levels


def _pieces(text: str, phrases: Sequence[MarkedPhrase], sizes: Sizes) -> Iterator[_Piece]:
    """Split the sentence at spaces and at the borders of phrases."""
    shown = "".join(_drawable(character) for character in text)
    borders = {0, len(text), *(edge for phrase in phrases for edge in (phrase.start, phrase.end))}
    borders |= {edge for i, letter in enumerate(shown) if letter == " " for edge in (i, i + 1)}
    inside: set[int] = set()
    for start, end in pairwise(sorted(borders)):
        # Of nested phrases, the longer one opens first and closes last.
        for i, phrase in sorted(enumerate(phrases), key=lambda item: -item[1].end):
            if phrase.start == start:
                inside.add(i)
                if phrase.mark is not None:
                    tag_width = tag_size(phrase.mark, sizes)[0]
                    yield _Piece(tag_width + sizes.gap, frozenset(inside), tag=phrase.mark)
        yield _Piece(font(sizes.text).getlength(shown[start:end]), frozenset(inside), shown[start:end])
        for i, phrase in sorted(enumerate(phrases), key=lambda item: -item[1].start):
            if phrase.end == end:
                if phrase.score is not None:
                    score = f"({phrase.score if isinstance(phrase.score, str) else format(phrase.score, '.2f')})"
                    score_width = font(sizes.tag).getlength(score)
                    yield _Piece(score_width + sizes.gap, frozenset(inside), score, is_score=True)
                if phrase.mark is not None:
                    yield _Piece(sizes.gap / 2, frozenset(inside))
                inside.remove(i)


def _drawable(character: str) -> str:
    """The character, a space for any white space, or the replacement character if no font can draw it."""
    if character.isspace():
        return " "
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cs") else character


def _lines(pieces: Sequence[_Piece], width: float, sizes: Sizes) -> Iterator[list[_Piece]]:
    """Break at spaces, and inside a word only if it is longer than a line. Short phrases are not broken."""
    lengths: defaultdict[int, float] = defaultdict(float)
    for piece in pieces:
        for i in piece.phrases:
            lengths[i] += piece.width
    line: list[_Piece] = []
    for may_break, group in groupby(
        pieces, key=lambda piece: piece.is_space and all(lengths[i] > width / 3 for i in piece.phrases)
    ):
        word = list(group)
        if may_break:
            line += word[:1] if line else []
        elif _length(line) + _length(word) <= width:
            line += word
        else:
            if line:
                yield line[:-1] if line[-1].is_space else line
            *full, line = _cut(word, width, sizes)
            yield from full
    if line:
        yield line[:-1] if line[-1].is_space else line


def _length(pieces: Sequence[_Piece]) -> float:
    return sum(piece.width for piece in pieces)


def _cut(word: Sequence[_Piece], width: float, sizes: Sizes) -> list[list[_Piece]]:
    """Split a word into parts that fit on a line, as far as single letters and numbers do."""
    parts: list[list[_Piece]] = [[]]
    for piece in word:
        whole = piece.width <= width or not piece.text or piece.is_score
        letters = (replace(piece, text=each, width=font(sizes.text).getlength(each)) for each in piece.text)
        for part in [piece] if whole else letters:
            if parts[-1] and _length(parts[-1]) + part.width > width:
                parts.append([])
            parts[-1].append(part)
    return parts


def _draw_backgrounds(
    pen: ImageDraw.ImageDraw,
    phrases: Sequence[MarkedPhrase],
    levels: Sequence[int],
    line: Sequence[_Piece],
    offsets: Sequence[float],
    top: int,
    sizes: Sizes,
) -> None:
    """Draw the tints and lines of the phrases of a line, inner ones over outer ones."""
    bottom = top + sum(font(sizes.text).getmetrics())
    for i in sorted(range(len(phrases)), key=lambda i: -levels[i]):
        parts = [(x, x + p.width) for p, x in zip(line, offsets, strict=True) if i in p.phrases]
        if not parts:
            continue
        left, right = min(start for start, _ in parts), max(end for _, end in parts)
        mark = phrases[i].mark
        bar = bottom + levels[i] * 2 * sizes.line
        if mark is None:
            draw_line(pen, (left, bar, right, bar + max(1, sizes.line // 2)), GREY)
        else:
            fill_rectangle(pen, (left, top, right, bar), tint(mark.colour))
            draw_line(pen, (left, bar, right, bar + sizes.line), mark.colour, mark.dash)


def _draw_piece(pen: ImageDraw.ImageDraw, piece: _Piece, x: float, baseline: int, sizes: Sizes) -> None:
    if piece.tag is not None:
        # Numbers are centred on the cap height, about 0.73 of the font size.
        draw_tag(pen, (x, baseline - sizes.text * 0.365 - tag_size(piece.tag, sizes)[1] / 2), piece.tag, sizes)
    elif piece.is_score:
        pen.text((x + sizes.gap, baseline), piece.text, fill=BLACK, font=font(sizes.tag), anchor="ls")
    else:
        pen.text((x, baseline), piece.text, fill=BLACK, font=font(sizes.text), anchor="ls")
