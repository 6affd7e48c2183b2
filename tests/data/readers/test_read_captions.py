import os
import zipfile

import pytest

from deixis.data.readers import FORMATS, read_captions
from deixis.errors import DatasetError


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "the file is empty"),
        (" \n\t\n", "the file is empty"),
        ("\ufeff", "the file is empty"),
        (b"a.jpg#0\tcaf\xe9\n", "line 1: not UTF-8 (byte 0xe9); save the file as UTF-8"),
        ('{"images": [{"sentences"', "line 1 column 25: not JSON: expecting ':' delimiter; the file may be truncated"),
        (
            '{"images": [\n{"file',
            "line 2 column 2: not JSON: unterminated string starting at; the file may be truncated",
        ),
        ("[" * 100_000, "line 1: JSON nested too deeply"),
        ('{"a":' * 100_000, "line 1: JSON nested too deeply"),
        ("[" + "1" * 5000 + "]", "line 1: a number has thousands of digits"),
        ("PK\x03\x04 and no more", "not a whole zip file"),
        ({"images": [], "annotations": []}, "there are no photos in it"),
        ("image,caption\n", "there are no photos in it"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(write, content, complaint):
    path = write("captions", content)
    with pytest.raises(DatasetError) as error:
        list(read_captions(path).photos)
    assert str(error.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("a dog runs\n", "it begins with 'a dog runs'"),
        ("<DOC>", "it begins with '<DOC>'"),
        ("name,caption\n", "it begins with 'name,caption'"),
        ({"images": [], "x\n": 1}, "a JSON object with the keys 'images, x\\n'"),
        ({"id": "a", "caption": "b"}, "a JSON object with the keys 'id, caption'"),
        ("[1, 2]", "it begins with '[1, 2]'"),
        ("x" * 10_000, "it begins with 'xxx"),
    ],
)
def test_an_unknown_file_is_told_what_was_seen_and_what_is_known(write, content, seen):
    path = write("captions", content)
    with pytest.raises(DatasetError) as error:
        read_captions(path)
    message = str(error.value)
    assert message.startswith(f"{path}: unknown form, {seen}")
    assert all(known.FORM in message for known in FORMATS)
    assert "\n" not in message
    assert len(message) < 1200


def test_an_unknown_folder_is_told_what_was_seen(write, tmp_path):
    with pytest.raises(DatasetError, match="unknown form, a folder or zip: no file"):
        read_captions(tmp_path)
    write("a/b.txt", "x")
    with pytest.raises(DatasetError, match=r"unknown form, a folder or zip: the first of 1 files is 'a/b\.txt'"):
        read_captions(tmp_path)


def test_a_zip_that_leaves_its_folder_is_refused(tmp_path):
    path = tmp_path / "z"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../25.eng", "<DOC/>")
    with pytest.raises(DatasetError, match="leaves the archive"):
        read_captions(path)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(DatasetError, match=r"none: cannot be read \(No such file or directory\)"):
        read_captions(tmp_path / "none")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_forbidden_file_is_one_clear_line(write):
    path = write("captions", "image,caption\n1.jpg,x\n")
    path.chmod(0)
    with pytest.raises(DatasetError, match=r"captions: cannot be read \(Permission denied\)"):
        read_captions(path)


def test_boxes_of_coco_go_with_nothing_else(write):
    path, instances = write("captions.csv", "image,caption\n1.jpg,x\n"), write("i.json", {})
    with pytest.raises(DatasetError, match=r"boxes from .*i\.json go with COCO's captions only, and this is CSV"):
        read_captions(path, instances=instances)


def test_a_name_says_nothing_about_the_format(write):
    path = write("captions_val2014.json", "1.jpg#0\tA dog .\n")
    assert read_captions(path).kind == "flickr-token"


def test_formats_have_names_of_their_own():
    assert len({known.KIND for known in FORMATS}) == len({known.FORM for known in FORMATS}) == len(FORMATS)
