"""Drawing of sentences with marked phrases, broken into lines."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise

from PIL import Image, ImageDraw

from deixis.pictures.style import (
    BLACK,
    GREY,
    WHITE,
    Mark,
    Sizes,
    draw_line,
    draw_tag,
    fill_rectangle,
    font,
    tag_size,
    tint,
)


@dataclass(frozen=True)
class MarkedPhrase:
    """A span of a sentence, the mark it shares with its boxes (None without boxes), and its score."""

    start: int
    end: int
    mark: Mark | None
    score: float | None = None


@dataclass(frozen=True)
class _Piece:
    """A unit of drawing: a part of a word, a space, a number, a score or the edge of a phrase.

    `phrases` are the indices of the phrases that it belongs to.
    """

    width: float
    phrases: frozenset[int]
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

    Examples
    --------
    >>> dog = MarkedPhrase(0, 5, Mark(1))
    >>> draw_sentence("A dog runs.", [dog], width=300, sizes=Sizes.for_long_side(960)).width
    300
    """
    levels = _levels(phrases)
    lines = list(_lines(list(_pieces(text, phrases, sizes)), width, sizes))
    ascent, descent = font(sizes.text).getmetrics()
    stack = (max(levels, default=0) + 1) * 2 * sizes.line
    pitch = ascent + descent + stack + round(sizes.text * 0.25)
    picture = Image.new("RGB", (width, max(1, pitch * len(lines))), WHITE)
    pen = ImageDraw.Draw(picture)
    right_to_left = _is_right_to_left(text)
    for row, line in enumerate(lines):
        top = row * pitch
        offsets = _offsets(line, width, right_to_left=right_to_left)
        _draw_backgrounds(pen, phrases, levels, line, offsets, top, sizes)
        for piece, x in zip(line, offsets, strict=True):
            _draw_piece(pen, piece, x, top + ascent, sizes, right_to_left=right_to_left)
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
                    score = f"({phrase.score:.2f})"
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
                yield _without_last_space(line)
            *full, line = _cut(word, width, sizes)
            yield from full
    if line:
        yield _without_last_space(line)


def _length(pieces: Sequence[_Piece]) -> float:
    return sum(piece.width for piece in pieces)


def _without_last_space(line: list[_Piece]) -> list[_Piece]:
    return line[:-1] if line[-1].is_space else line


def _cut(word: Sequence[_Piece], width: float, sizes: Sizes) -> list[list[_Piece]]:
    """Split a word into parts that fit on a line, as far as single letters and numbers do."""
    parts: list[list[_Piece]] = [[]]
    for piece in word:
        whole = piece.width <= width or not piece.text or piece.is_score
        for part in [piece] if whole else _letters(piece, sizes):
            if parts[-1] and _length(parts[-1]) + part.width > width:
                parts.append([])
            parts[-1].append(part)
    return parts


def _letters(piece: _Piece, sizes: Sizes) -> list[_Piece]:
    return [replace(piece, text=c, width=font(sizes.text).getlength(c)) for c in piece.text]


def _is_right_to_left(text: str) -> bool:
    """Whether the first letter with a direction is right-to-left, as in Hebrew and Arabic."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((d != "L" for d in directions if d in ("L", "R", "AL")), False)


def _offsets(line: Sequence[_Piece], width: int, *, right_to_left: bool) -> list[float]:
    """Left edge of each piece of a line."""
    ends = list(accumulate(piece.width for piece in line))
    if right_to_left:
        return [width - end for end in ends]
    return [0.0, *ends[:-1]]


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


def _draw_piece(
    pen: ImageDraw.ImageDraw, piece: _Piece, x: float, baseline: int, sizes: Sizes, *, right_to_left: bool
) -> None:
    if piece.tag is not None:
        height = tag_size(piece.tag, sizes)[1]
        # Numbers are centred on the cap height, about 0.73 of the font size.
        top = baseline - sizes.text * 0.365 - height / 2
        draw_tag(pen, (x + sizes.gap if right_to_left else x, top), piece.tag, sizes)
    elif piece.is_score:
        position = (x if right_to_left else x + sizes.gap, baseline)
        pen.text(position, piece.text, fill=BLACK, font=font(sizes.tag), anchor="ls")
    else:
        pen.text((x, baseline), piece.text, fill=BLACK, font=font(sizes.text), anchor="ls")
