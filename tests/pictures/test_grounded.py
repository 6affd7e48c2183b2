"""Grounded pictures show each phrase in the colour of its boxes, and nothing is cut off."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from deixis.data.records import Box, Caption, Mention, Photo
from deixis.errors import DeixisError
from deixis.pictures.grounded import (
    LONG_SIDE,
    MarkedPhrase,
    PhraseBoxes,
    annotated_captions,
    draw_grounding,
    draw_sentence,
)
from deixis.pictures.style import GREY, PALETTE, Mark, Sizes, tag_size, tint

SKY = (200, 220, 240)
TEN = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def plain(width: int = 480, height: int = 360) -> Image.Image:
    return Image.new("RGB", (width, height), SKY)


def ten_boxes() -> list[tuple[float, float, float, float]]:
    """Ten boxes that do not touch, in a photo of 480 × 360."""
    return [(10 + 90 * (i % 5), 20 + 180 * (i // 5), 80 + 90 * (i % 5), 150 + 180 * (i // 5)) for i in range(10)]


def share_of(picture: npt.NDArray[np.uint8], colour: tuple[int, int, int]) -> int:
    return int(np.all(picture == colour, axis=2).sum())


def test_ten_phrases_have_the_colours_of_their_boxes() -> None:
    captions = [
        (f"the {word} thing .", [PhraseBoxes(0, 5 + len(word), (box,))])
        for word, box in zip(TEN, ten_boxes(), strict=True)
    ]
    picture = np.asarray(draw_grounding(plain(), captions))
    photo, text = picture[:720], picture[720:]
    bands = np.array_split(text[Sizes.for_long_side(960).margin :], 10)
    for (x1, y1, x2, y2), band, colour in zip(ten_boxes(), bands, PALETTE, strict=True):
        middle_x, middle_y = int(x1 + x2), int(y1 + y2)
        for x, y in (
            (int(2 * x1) + 1, middle_y),
            (int(2 * x2) - 2, middle_y),
            (middle_x, int(2 * y1) + 1),
            (middle_x, int(2 * y2) - 2),
        ):
            assert tuple(photo[y, x]) == colour
        assert share_of(band, colour) > 100
        others = [other for other in PALETTE if other not in (colour, (0, 0, 0))]
        assert not any(share_of(band, other) for other in others)


def test_a_guess_has_a_dashed_box_and_another_number() -> None:
    box = ten_boxes()[0]

    def edge_and_number(is_guess: bool) -> tuple[npt.NDArray[np.bool_], int]:
        phrases = [PhraseBoxes(0, 5, (box,), 0.5, is_guess=is_guess)]
        picture = np.asarray(draw_grounding(plain(), [("a dog", phrases)]))
        below = slice(int(2 * box[1]) + 40, int(2 * box[3]) - 20)  # the left edge, below the number
        is_coloured = np.all(picture == PALETTE[0], axis=2)
        return is_coloured[below, int(2 * box[0]) + 1], tag_size(Mark(1, is_guess), Sizes.for_long_side(960))[0]

    (solid, width), (dashed, wider) = edge_and_number(False), edge_and_number(True)
    assert solid.all()
    assert 0.3 < dashed.mean() < 0.7
    assert wider > width


def test_phrases_with_the_same_key_share_a_colour_across_captions() -> None:
    box, other = ten_boxes()[0], ten_boxes()[6]
    first = [PhraseBoxes(0, 5, (box,), key="7")]
    second = [PhraseBoxes(0, 3, (box,), key="7"), PhraseBoxes(4, 8, (other,), key="8")]
    alone = draw_grounding(plain(), [("a dog runs", first)])
    picture = np.asarray(draw_grounding(plain(), [("a dog runs", first), ("the boys", second)]))
    assert np.array_equal(picture[:370], np.asarray(alone)[:370])
    rows = [np.flatnonzero(np.all(picture[720:] == PALETTE[i], axis=2).any(axis=1)) for i in (0, 1)]
    assert rows[0].max() - rows[0].min() > 40
    assert rows[1].min() > rows[0].min() + 30
    unkeyed = [("a dog", [PhraseBoxes(0, 5, (box,))]), ("a dog", [PhraseBoxes(0, 5, (box,))])]
    assert share_of(np.asarray(draw_grounding(plain(), unkeyed))[720:], PALETTE[1]) > 100


def test_phrases_with_the_same_key_share_boxes_and_number() -> None:
    captions = [
        ("a dog", [PhraseBoxes(0, 5, (), key="7")]),
        ("dogs", [PhraseBoxes(0, 4, (ten_boxes()[0], ten_boxes()[8]), key="7")]),
    ]
    picture = np.asarray(draw_grounding(plain(), captions))
    assert share_of(picture[:360], PALETTE[0]) > 500
    assert share_of(picture[360:720], PALETTE[0]) > 500
    assert not share_of(picture[720:], GREY)
    assert not any(share_of(picture, colour) for colour in PALETTE[1:-1])


def test_a_phrase_without_a_box_is_underlined_in_grey() -> None:
    picture = np.asarray(draw_grounding(plain(), [("in a park", [PhraseBoxes(3, 9, ())])]))
    assert share_of(picture[720:], GREY) > 50
    assert not any(share_of(picture, colour) for colour in PALETTE[:-1])
    assert share_of(picture[:720], SKY) == 960 * 720


def test_the_eleventh_box_is_dashed() -> None:
    boxes = [*ten_boxes(), (100.0, 160.0, 400.0, 195.0)]
    text = " ".join("a" * 11)
    phrases = [PhraseBoxes(2 * i, 2 * i + 1, (box,)) for i, box in enumerate(boxes)]
    top = np.asarray(draw_grounding(plain(), [(text, phrases)]))[321, 260:760]
    painted = np.all(top == PALETTE[0], axis=1)
    assert 0.4 < painted.mean() < 0.9
    assert np.diff(painted.astype(int)).any()


def test_boxes_at_the_same_location_are_all_visible() -> None:
    box = (100.0, 100.0, 300.0, 300.0)
    phrases = [PhraseBoxes(0, 1, (box,)), PhraseBoxes(2, 3, (box,)), PhraseBoxes(4, 5, ((101.0, 99.0, 300.0, 300.0),))]
    photo = np.asarray(draw_grounding(plain(), [("a b c", phrases)]))[:720]
    for colour in PALETTE[:3]:
        assert share_of(photo, colour) > 1000


def test_numbers_of_boxes_at_the_same_location_do_not_overlap() -> None:
    box = (100.0, 100.0, 300.0, 300.0)
    phrases = [PhraseBoxes(2 * i, 2 * i + 1, (box,)) for i in range(9)]
    photo = np.asarray(draw_grounding(plain(), [("a b c d e f g h i", phrases)]))[150:650, 150:650]
    width, height = tag_size(Mark(1), Sizes.for_long_side(960))
    for number, colour in enumerate(PALETTE[:9], start=1):
        mask = np.all(photo == colour, axis=2)
        rows = sliding_window_view(mask, (2, width)).all(axis=(2, 3))
        columns = sliding_window_view(mask, (height, 2)).all(axis=(2, 3))
        rims = rows[: 2 - height] & rows[height - 2 :]
        rims &= columns[:, : 2 - width] & columns[:, width - 2 :]
        assert rims.any(), f"number {number} is partly hidden"


@pytest.mark.parametrize("size", [(280, 373), (373, 280), (1, 1), (10, 2000), (2000, 10), (5000, 3000)])
def test_pictures_have_a_readable_size_for_any_photo(size: tuple[int, int]) -> None:
    text = "A man in a red hat with an incomprehensibilities-sized dog stands on the left of a street ."
    phrases = [PhraseBoxes(0, 5, ((0, 0, size[0], size[1]),), 0.5), PhraseBoxes(9, 18, ((0, 0, 1, 1),))]
    picture = draw_grounding(plain(*size), [(text, phrases)])
    letters = Sizes.for_long_side(min(max(LONG_SIDE[0], *size), LONG_SIDE[1])).text
    assert picture.width <= LONG_SIDE[1]
    assert picture.width >= 15 * letters
    margin = letters // 2
    edges = np.asarray(picture)[-margin:]
    assert (edges == 255).all()
    below = np.asarray(picture)[-3 * letters :]
    assert (below[:, :margin] == 255).all()
    assert (below[:, -margin:] == 255).all()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_photos_of_every_mode_are_drawn_and_not_changed(mode: str) -> None:
    photo = Image.new(mode, (100, 80))
    before = photo.copy()
    picture = draw_grounding(photo, [("a dog", [PhraseBoxes(0, 5, ((10, 10, 60, 60),))])])
    assert picture.mode == "RGB"
    assert photo == before


def test_boxes_are_clipped_to_the_photo_and_tiny_ones_stay_visible() -> None:
    for box in (
        (-50.0, -50.0, 1000.0, 1000.0),
        (479.0, 359.0, 480.0, 360.0),
        (5.0, 5.0, 5.0, 5.0),
        (600.0, 10.0, 700.0, 50.0),
    ):
        photo = np.asarray(draw_grounding(plain(), [("a dog", [PhraseBoxes(0, 5, (box,))])]))[:720]
        assert share_of(photo, PALETTE[0]) > 200


@pytest.mark.parametrize("span", [(-1, 3), (3, 3), (4, 2), (0, 6)])
def test_spans_outside_the_caption_raise_an_error(span: tuple[int, int]) -> None:
    with pytest.raises(DeixisError, match=f"span {span[0]}-{span[1]}"):
        draw_grounding(plain(), [("a dog", [PhraseBoxes(*span, ())])])


@pytest.mark.parametrize(
    "box", [(9.0, 0.0, 2.0, 5.0), (0.0, 9.0, 5.0, 2.0), (0.0, 0.0, float("nan"), 5.0), (0.0, 0.0, float("inf"), 5.0)]
)
def test_invalid_boxes_raise_an_error(box: tuple[float, float, float, float]) -> None:
    with pytest.raises(DeixisError, match="'a dog'"):
        draw_grounding(plain(), [("a dog", [PhraseBoxes(0, 5, (box,))])])


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


def test_lines_of_nested_phrases_are_stacked() -> None:
    text = "a man in a red hat runs"
    outer, inner = MarkedPhrase(0, 18, Mark(1)), MarkedPhrase(9, 18, Mark(2))
    for phrases in ((outer, inner), (inner, outer)):
        picture = draw(text, *phrases)
        bars = [where(picture, Mark(n).colour).sum(axis=1).argmax() for n in (1, 2)]
        assert bars[0] >= bars[1] + SIZES.line


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


def test_dotted_boxes_have_the_colour_of_their_phrase_and_gaps() -> None:
    box = (100.0, 100.0, 300.0, 250.0)
    phrases = [PhraseBoxes(0, 5, (box,), model_boxes=each) for each in ((), (box,))]
    pictures = [np.asarray(draw_grounding(plain(), [("a dog .", [phrase])])) for phrase in phrases]
    solid, dotted = (share_of(picture[:720], PALETTE[0]) for picture in pictures)
    assert 0 < dotted < solid


DOGS = Caption.from_text("Two dogs play.", (Mention(0, 8, "1", ("animals",)),))
ANIMALS = Caption.from_text("Animals on grass.", (Mention(0, 7, "1", ("animals",)), Mention(11, 16, "2", ("scene",))))
OTHER = Caption.from_text("A train.", (Mention(0, 7, "3"),), related=False)
PHOTO = Photo(
    "7",
    (DOGS, ANIMALS, OTHER),
    boxes=(Box((0, 0, 40, 40), ("1",)), Box((50, 10, 90, 60), ("1",)), Box((1, 1, 5, 5), ("3",))),
    width=100,
    height=80,
)


def test_mentions_of_a_chain_share_its_boxes_in_pixels_of_the_image() -> None:
    [(text, [dogs]), (_, [animals, grass])] = annotated_captions(PHOTO, (200, 80))
    assert text == "Two dogs play."
    assert dogs.boxes == animals.boxes == ((0, 0, 80, 40), (100, 10, 180, 60))
    assert (dogs.key, grass.key, grass.boxes) == ("1", "2", ())
