"""The map as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from deixis.tasks.map.picture import draw_map, moved_apart, shortened, square
from tests.tasks.maps import small_map


@given(st.integers(1, 12), st.integers(0, 99))
def test_squares_that_find_room_no_longer_overlap_and_stay_inside(count: int, seed: int) -> None:
    places = np.random.default_rng(seed).uniform(40, 60, (count, 2))
    apart = moved_apart(places, 8, (4, 96))
    gap = np.abs(apart[:, None] - apart[None]).max(axis=2)
    np.fill_diagonal(gap, np.inf)
    assert gap.min() > 7.5
    assert apart.min() >= 4
    assert apart.max() <= 96


def test_squares_that_do_not_overlap_stay_where_they_are() -> None:
    places = np.array([[10.0, 10.0], [50.0, 50.0]])
    assert np.allclose(moved_apart(places, 8, (0, 100)), places, atol=0.01)


@given(st.text("ab ."), st.integers(3, 20))
def test_a_shortened_sentence_is_its_beginning(sentence: str, most: int) -> None:
    short = shortened(sentence, most)
    assert len(short) <= most
    assert " ".join(sentence.split()).startswith(short.removesuffix(" …").removesuffix("…"))


def test_the_middle_of_a_photo_becomes_the_square() -> None:
    photo = Image.new("RGB", (90, 30), "red")
    photo.paste("blue", (30, 0, 60, 30))
    small = square(photo, 10)
    assert small.size == (10, 10)
    assert small.getpixel((5, 5)) == (0, 0, 255)


def test_every_photo_is_in_the_picture_and_nothing_around_it(tmp_path: Path) -> None:
    shown = small_map(tmp_path)
    picture = np.asarray(draw_map(shown, side=600))
    for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)):
        assert (np.abs(picture.astype(int) - colour).max(axis=2) < 8).sum() > 200
    assert max(picture.shape) <= 600
    written = (picture < 250).any(axis=2)
    rows, columns = np.flatnonzero(written.any(axis=1)), np.flatnonzero(written.any(axis=0))
    assert max(rows[0], columns[0]) <= 30


def test_sentences_are_written_where_there_is_room(tmp_path: Path) -> None:
    with_words = draw_map(small_map(tmp_path, 4, 1, "a sentence with several words {}"), side=900)
    without = draw_map(small_map(tmp_path, 4, 1, "."), side=900)
    dark = [(np.asarray(picture.convert("L")) < 80).sum() for picture in (with_words, without)]
    assert dark[0] > dark[1] + 300
