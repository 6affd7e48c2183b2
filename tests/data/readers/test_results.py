"""Flickr30k results.csv."""

import pytest

from deixis.data.readers import read_captions

HEADER = "image_name| comment_number| comment\n"


def test_bars_separate_photo_number_and_caption(write):
    lines = (
        "1000092795.jpg| 1| Two young , White males are outside .\n"
        '1000092795.jpg| 0| Two young guys with "shaggy" hair .\n'
        "10002456.jpg| 0| Several men | hard hats .\n"
    )
    source = read_captions(write("results.csv", HEADER + lines))
    photos = list(source.photos)
    assert (source.kind, source.total) == ("flickr-results", 2)
    assert [caption.text for caption in photos[0].captions] == [
        'Two young guys with "shaggy" hair .',
        "Two young , White males are outside .",
    ]
    assert photos[1].captions[0].text == "Several men | hard hats ."


def test_the_line_of_the_release_without_its_second_bar_is_read(write):
    path = write("results.csv", HEADER + "2199200615.jpg| 4   A dog runs across the grass .\n")
    photo = next(read_captions(path).photos)
    assert (photo.id, photo.captions[0].text) == ("2199200615", "A dog runs across the grass .")


@pytest.mark.parametrize(
    "line",
    ["2.jpg| A dog runs .", "2.jpg", "2.jpg| 4", "2.jpg| 4|  ", " | 4| A dog ."],
)
def test_other_bad_lines_are_named(write, refused, line):
    refused(write("results.csv", f"{HEADER}1.jpg| 0| A cat .\n{line}\n"), "line 3: ")


def test_a_header_without_rows_is_refused(write, refused):
    refused(write("results.csv", HEADER), "")
