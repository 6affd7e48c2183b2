"""Sentences are drawn completely, whatever they contain, with their phrases marked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from deixis.pictures.style import GREY, Mark, Sizes, tint
from deixis.pictures.text import MarkedPhrase, draw_sentence

SIZES = Sizes.for_long_side(960)


def draw(text: str, *phrases: MarkedPhrase, width: int = 600) -> npt.NDArray[np.int64]:
    return np.asarray(draw_sentence(text, phrases, width, SIZES), dtype=np.int64)


def where(picture: npt.NDArray[np.int64], colour: tuple[int, int, int]) -> npt.NDArray[np.bool_]:
    return np.asarray(np.all(picture == colour, axis=2))


def ink(picture: npt.NDArray[np.int64]) -> float:
    return float((255 - picture).sum())


def test_breaking_lines_loses_no_letter() -> None:
    text = "A man with Donaudampfschifffahrtsgesellschaftskapitänsmützen stands on a very long pier by the sea ."
    whole = ink(draw(text, width=3000))
    for width in (900, 400, 150, 60):
        assert ink(draw(text, width=width)) == pytest.approx(whole, rel=0.01)


def test_short_phrases_are_not_broken() -> None:
    for before in range(60):
        text = "i" * before + " " + "long words " * 3 + "a red hat ."
        start = text.index("a red hat")
        rows = where(draw(text, MarkedPhrase(start, start + 9, Mark(1))), Mark(1).colour).sum(axis=1)
        bars = np.flatnonzero(rows > 30)
        assert len(bars) == SIZES.line
        assert np.ptp(bars) == SIZES.line - 1


def test_a_long_phrase_is_marked_on_each_of_its_lines() -> None:
    text = "a rather long phrase that goes on and on over several lines"
    picture = draw(text, MarkedPhrase(0, len(text), Mark(2)), width=200)
    bars = np.flatnonzero(where(picture, Mark(2).colour).sum(axis=1) > 50)
    lines = 1 + int((np.diff(bars) > 1).sum())
    assert lines == picture.shape[0] // draw("a", MarkedPhrase(0, 1, Mark(2))).shape[0]
    assert lines > 2


def test_only_the_phrase_is_marked() -> None:
    text = "Here is a dog ."
    picture = draw(text, MarkedPhrase(8, 13, Mark(3)))
    columns = np.flatnonzero(where(picture, tint(Mark(3).colour)).any(axis=0))
    plain = np.flatnonzero((draw("Here is ") < 128).any(axis=(0, 2)))
    assert columns.min() > plain.max()
    assert columns.max() < np.flatnonzero((picture < 128).any(axis=(0, 2))).max()


def test_a_score_makes_the_marked_part_longer() -> None:
    lengths = []
    for score in (None, 0.5, 1234.5, float("nan"), float("-inf")):
        picture = draw("a dog runs", MarkedPhrase(0, 5, Mark(1), score))
        lengths.append(where(picture, Mark(1).colour).any(axis=0).sum())
    assert lengths[0] < lengths[1] < lengths[2]
    assert min(lengths[3:]) > lengths[0]


def test_a_phrase_without_a_mark_has_a_grey_line_and_no_number() -> None:
    plain, picture = draw("a dog runs"), draw("a dog runs", MarkedPhrase(0, 5, None))
    changed = (plain != picture).any(axis=2)
    assert changed.any()
    assert (picture[changed] == GREY).all()


def test_lines_of_nested_phrases_are_stacked() -> None:
    text = "a man in a red hat runs"
    outer, inner = MarkedPhrase(0, 18, Mark(1)), MarkedPhrase(9, 18, Mark(2))
    for phrases in ((outer, inner), (inner, outer)):
        picture = draw(text, *phrases)
        bars = [where(picture, Mark(n).colour).sum(axis=1).argmax() for n in (1, 2)]
        assert bars[0] >= bars[1] + SIZES.line


def test_a_right_to_left_sentence_starts_on_the_right() -> None:
    phrase = MarkedPhrase(0, 3, Mark(1))
    columns = np.flatnonzero(where(draw("כלב רץ", phrase), Mark(1).colour).any(axis=0))
    assert columns.min() > 300
    assert columns.max() >= 598
    assert np.flatnonzero(where(draw("dog runs", phrase), Mark(1).colour).any(axis=0)).min() == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\t",
        "x" * 500,
        "🐶👩‍👩‍👧 in 雪",
        "كلب أسود",
        "\x00\x07\ud800\udfff",
        "e\u0301\u0301",
        "\u202eab\u200f",
        "a\u2028b",
    ],
)
def test_unusual_text_can_be_drawn(text: str) -> None:
    phrases = [MarkedPhrase(0, len(text), Mark(99), 0.5), MarkedPhrase(0, 1, None)] if text else []
    for width in (600, 5):
        picture = draw_sentence(text, phrases, width, SIZES)
        assert picture.width == width
        assert picture.height >= 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_text_with_any_phrases_can_be_drawn(data: st.DataObject) -> None:
    text = data.draw(st.text(min_size=1, max_size=60))
    spans = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text)))
    phrases = [
        MarkedPhrase(min(a, b - 1), max(a + 1, b), Mark(n), 0.5)
        for n, (a, b) in enumerate(data.draw(st.lists(spans, max_size=5)), start=1)
    ]
    assert isinstance(draw_sentence(text, phrases, 300, SIZES), Image.Image)
