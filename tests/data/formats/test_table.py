"""CSV and TSV tables."""

import csv
import io
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.data.formats import read_captions


def texts(photo):
    return [caption.text for caption in photo.captions]


def test_the_kaggle_file_of_flickr8k_is_read(store):
    path = store(
        "captions.txt",
        "image,caption\n"
        "1000268201_693b08cb0e.jpg,A child in a pink dress .\n"
        '1000268201_693b08cb0e.jpg,"A girl , going into a ""wooden"" building ."\n'
        "1001773457_577c3a7d70.jpg,A black dog .\n",
    )
    source = read_captions(path)
    first, second = source.photos
    assert (source.kind, source.total) == ("table", 2)
    assert texts(first) == ["A child in a pink dress .", 'A girl , going into a "wooden" building .']
    assert (second.id, second.annotated.file) == ("1001773457_577c3a7d70", "1001773457_577c3a7d70.jpg")


PHOTOS = ("image", "Image_Name", "file", "file_name", "filename", "path", "photo")
SENTENCES = ("caption", "comment", "text", "Sentence", "raw", "description")


@pytest.mark.parametrize("delimiter", list(",;\t|"))
def test_columns_are_found_by_name_under_any_separator(store, delimiter):
    for photo, sentence in product(PHOTOS, SENTENCES):
        rows = [["n", sentence, photo, "split"], ["0", "One ; two, three", "a/1.jpg", "train"], ["1", "x", "2.jpg", ""]]
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=delimiter).writerows(rows)
        first, second = read_captions(store("table", out.getvalue())).photos
        assert (first.id, texts(first), first.splits) == ("1", ["One ; two, three"], ("train",))
        assert (second.id, second.splits) == ("2", ())


def test_a_json_list_in_a_cell_is_several_captions(store):
    cell = '"[""Two young guys ."", ""Caf\\u00e9 .""]"'
    path = store("flickr_annotations_30k.csv", f'raw,sentids,split,filename,img_id\n{cell},"[0, 1]",train,1.jpg,0\n')
    assert texts(next(read_captions(path).photos)) == ["Two young guys .", "Café ."]


def test_splits_of_one_photo_are_kept_once_each(store):
    path = store("t.csv", "image,caption,split\n1.jpg,a,train\n1.jpg,b,train\n1.jpg,c,tiny\n")
    assert next(read_captions(path).photos).splits == ("train", "tiny")


@pytest.mark.parametrize(
    "row",
    [
        "1.jpg,One, two",
        "1.jpg",
        "1.jpg,",
        ",A dog",
        '1.jpg,"A dog',
        '1.jpg,"A" dog',
        "1.jpg," + "x" * 200_000,
        '1.jpg,"[""a"", ""\\ud800""]"',
    ],
)
def test_a_bad_row_is_named_by_its_line(store, refused, row):
    refused(store("t.csv", f'image,caption\n0.jpg,"over\ntwo lines"\n{row}\n'), "line 4: ")


CELL = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.strip).filter(bool)


@settings(max_examples=60, deadline=None)
@given(st.lists(CELL.filter(lambda cell: not cell.startswith('["')), min_size=1, max_size=5), st.sampled_from(",;\t|"))
def test_any_caption_in_a_table_round_trips(tmp_path_factory, captions, delimiter):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(
            [["image", "caption"], *(["1.jpg", cell] for cell in captions)]
        )
    assert texts(next(read_captions(path).photos)) == captions
