"""Caption files of Flickr8k and Flickr30k."""

import pytest

from deixis.data.formats import read_captions

LINES = """1000268201_693b08cb0e.jpg#0\tA child in a pink dress .
1000268201_693b08cb0e.jpg#1\tA girl going into a wooden building .
1001773457_577c3a7d70.jpg#0\tA black dog and a spotted dog are fighting
"""


def texts(photo):
    return [caption.text for caption in photo.captions]


def test_each_line_is_a_caption_of_the_photo_it_names(store):
    source = read_captions(store("anything.bin", LINES))
    photos = list(source.photos)
    assert (source.kind, source.total) == ("flickr-token", 2)
    assert [photo.id for photo in photos] == ["1000268201_693b08cb0e", "1001773457_577c3a7d70"]
    assert texts(photos[0]) == ["A child in a pink dress .", "A girl going into a wooden building ."]
    assert photos[0].annotated.file == "1000268201_693b08cb0e.jpg"
    assert photos[0].file is None


def test_captions_are_sorted_by_number_and_photos_by_first_appearance(store):
    lines = "b.jpg#2\tthree\na.jpg#0\tother\nb.jpg#0\tone\nb.jpg#10\televen\nb.jpg#1\ttwo\n"
    photos = list(read_captions(store("token.txt", lines)).photos)
    assert [(photo.id, texts(photo)) for photo in photos] == [
        ("b", ["one", "two", "three", "eleven"]),
        ("a", ["other"]),
    ]


@pytest.mark.parametrize(
    ("content", "file", "captions"),
    [
        ("2258277193_586949ec62.jpg.1#0\tpeople waiting\n", "2258277193_586949ec62.jpg", ["people waiting"]),
        (b"\xef\xbb\xbfa.jpg#0\tcaf\xc3\xa9 .\r\na.jpg#1\ttwo\r\n", "a.jpg", ["café .", "two"]),
        ("a.jpg#0\tone\u2028still one\x85and one\n", "a.jpg", ["one\u2028still one\x85and one"]),
    ],
    ids=["text after the suffix", "Windows line ends and a byte order mark", "only line feeds end a line"],
)
def test_oddities_of_real_files_are_read(store, content, file, captions):
    photo = next(read_captions(store("token.txt", content)).photos)
    assert (photo.id, photo.annotated.file, texts(photo)) == (file.removesuffix(".jpg"), file, captions)


@pytest.mark.parametrize(
    "line", ["b.jpg A cat .", "b.jpg#x\tA cat .", "b.jpg#0\t  ", "x/a.jpg#0\tA cat .", "..#0\tA cat ."]
)
def test_a_bad_line_is_named(store, refused, line):
    refused(store("token.txt", f"a.jpg#0\tA dog .\n{line}\n"), "line 2: ")


HEADER = "image_name| comment_number| comment\n"


def test_bars_separate_photo_number_and_caption(store):
    lines = (
        "1000092795.jpg| 1| Two young , White males are outside .\n"
        '1000092795.jpg| 0| Two young guys with "shaggy" hair .\n'
        "10002456.jpg| 0| Several men | hard hats .\n"
    )
    source = read_captions(store("results.csv", HEADER + lines))
    photos = list(source.photos)
    assert (source.kind, source.total) == ("flickr-results", 2)
    assert [caption.text for caption in photos[0].captions] == [
        'Two young guys with "shaggy" hair .',
        "Two young , White males are outside .",
    ]
    assert photos[1].captions[0].text == "Several men | hard hats ."


def test_the_line_of_the_release_without_its_second_bar_is_read(store):
    path = store("results.csv", HEADER + "2199200615.jpg| 4   A dog runs across the grass .\n")
    photo = next(read_captions(path).photos)
    assert (photo.id, photo.captions[0].text) == ("2199200615", "A dog runs across the grass .")


@pytest.mark.parametrize("line", ["2.jpg| A dog runs .", "2.jpg", "2.jpg| 4", "2.jpg| 4|  ", " | 4| A dog ."])
def test_other_bad_lines_are_named(store, refused, line):
    refused(store("results.csv", f"{HEADER}1.jpg| 0| A cat .\n{line}\n"), "line 3: ")


def test_a_header_without_rows_is_refused(store, refused):
    refused(store("results.csv", HEADER), "")
