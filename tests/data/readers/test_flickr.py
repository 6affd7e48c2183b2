"""Flickr token files."""

import os
from pathlib import Path

import pytest

from deixis.data.readers import read_captions
from deixis.errors import DatasetError

LINES = """1000268201_693b08cb0e.jpg#0\tA child in a pink dress .
1000268201_693b08cb0e.jpg#1\tA girl going into a wooden building .
1001773457_577c3a7d70.jpg#0\tA black dog and a spotted dog are fighting
"""


def texts(photo):
    return [caption.text for caption in photo.captions]


def test_each_line_is_a_caption_of_the_photo_it_names(write):
    source = read_captions(write("anything.bin", LINES))
    photos = list(source.photos)
    assert (source.kind, source.total) == ("flickr-token", 2)
    assert [photo.id for photo in photos] == ["1000268201_693b08cb0e", "1001773457_577c3a7d70"]
    assert texts(photos[0]) == ["A child in a pink dress .", "A girl going into a wooden building ."]
    assert photos[0].annotated.file == "1000268201_693b08cb0e.jpg"
    assert photos[0].file is None


def test_captions_are_sorted_by_number_and_photos_by_first_appearance(write):
    lines = "b.jpg#2\tthree\na.jpg#0\tother\nb.jpg#0\tone\nb.jpg#10\televen\nb.jpg#1\ttwo\n"
    photos = list(read_captions(write("token.txt", lines)).photos)
    assert [(photo.id, texts(photo)) for photo in photos] == [
        ("b", ["one", "two", "three", "eleven"]),
        ("a", ["other"]),
    ]


def test_a_leftover_after_the_suffix_is_no_part_of_the_name(write):
    path = write("token.txt", "2258277193_586949ec62.jpg.1#0\tpeople waiting for the subway\n")
    photo = next(read_captions(path).photos)
    assert photo.id == "2258277193_586949ec62"
    assert photo.annotated.file == "2258277193_586949ec62.jpg"


def test_windows_line_ends_and_byte_order_marks_are_no_part_of_captions(write):
    path = write("token.txt", b"\xef\xbb\xbfa.jpg#0\tcaf\xc3\xa9 .\r\na.jpg#1\ttwo\r\n")
    photo = next(read_captions(path).photos)
    assert (photo.id, texts(photo)) == ("a", ["café .", "two"])


def test_only_line_feeds_end_a_line(write):
    path = write("token.txt", "a.jpg#0\tone\u2028still one\x85and one\n")
    assert texts(next(read_captions(path).photos)) == ["one\u2028still one\x85and one"]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("b.jpg A cat .", "line 2: "),
        ("b.jpg#x\tA cat .", "line 2: "),
        ("b.jpg#0\t  ", "line 2: "),
        ("x/a.jpg#0\tA cat .", "line 2: "),
        ("..#0\tA cat .", "line 2: "),
    ],
)
def test_a_bad_line_is_named(write, line, where):
    path = write("token.txt", f"a.jpg#0\tA dog .\n{line}\n")
    with pytest.raises(DatasetError) as error:
        list(read_captions(path).photos)
    assert str(error.value).startswith(f"{path}: {where}")


def test_the_real_file_is_read_completely():
    if "DEIXIS_DATA" not in os.environ:
        pytest.skip("DEIXIS_DATA is unset: it names the folder that holds flickr8k/Flickr8k.token.txt")
    path = Path(os.environ["DEIXIS_DATA"]) / "flickr8k" / "Flickr8k.token.txt"
    source = read_captions(path)
    photos = list(source.photos)
    assert source.kind == "flickr-token"
    assert len(photos) == source.total >= 7000
    assert {len(photo.captions) for photo in photos} == {5}
    assert photos[0].captions[0].text.startswith("A child in a pink dress is climbing up")
