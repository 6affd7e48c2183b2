"""Detection of formats, errors of all readers, and the registry."""

import os
import zipfile
from types import SimpleNamespace

import pytest

from deixis.data import readers
from deixis.data.readers import FORMATS, Source, read_captions
from deixis.data.records import Caption, Photo
from deixis.errors import DatasetError


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("", ""),
        (" \n\t\n", ""),
        ("\ufeff", ""),
        (b"a.jpg#0\tcaf\xe9\n", "line 1: "),
        ('{"images": [{"sentences"', "line 1 column 25: "),
        ('{"images": [\n{"file', "line 2 column 2: "),
        ("[" * 100_000, "line 1: "),
        ('{"a":' * 100_000, "line 1: "),
        ("[" + "1" * 5000 + "]", "line 1: "),
        ("PK\x03\x04 and no more", ""),
        ({"images": [], "annotations": []}, ""),
        ("image,caption\n", ""),
    ],
)
def test_an_error_names_the_file_on_one_line(write, refused, content, where):
    refused(write("captions", content), where)


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("a dog runs\n", "it starts with 'a dog runs'"),
        ("<DOC>", "it starts with '<DOC>'"),
        ("name,caption\n", "it starts with 'name,caption'"),
        ({"images": [], "x\n": 1}, "a JSON object with the keys 'images, x\\n'"),
        ({"id": "a", "caption": "b"}, "a JSON object with the keys 'id, caption'"),
        ("[1, 2]", "it starts with '[1, 2]'"),
        ("x" * 10_000, "it starts with 'xxx"),
    ],
)
def test_the_error_about_an_unknown_format_shows_the_content_and_the_known_formats(write, content, seen):
    path = write("captions", content)
    with pytest.raises(DatasetError) as error:
        read_captions(path)
    message = str(error.value)
    assert message.startswith(f"{path}: unknown format ({seen}")
    assert all(known.FORM in message for known in FORMATS)
    assert "\n" not in message
    assert len(message) < 1200


def test_the_error_about_a_missing_file_names_it(tmp_path):
    with pytest.raises(DatasetError, match="none"):
        read_captions(tmp_path / "none")


def test_the_error_about_an_unknown_folder_shows_its_files(write, tmp_path):
    with pytest.raises(DatasetError, match="unknown format .*0 files"):
        read_captions(tmp_path)
    write("a/b.txt", "x")
    with pytest.raises(DatasetError, match=r"unknown format .*1 files.*a/b\.txt"):
        read_captions(tmp_path)


def test_a_zip_that_leaves_its_folder_is_refused(tmp_path):
    path = tmp_path / "z"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../25.eng", "<DOC/>")
    with pytest.raises(DatasetError, match="25.eng"):
        read_captions(path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_read_permission_is_named(write):
    path = write("captions", "image,caption\n1.jpg,x\n")
    path.chmod(0)
    with pytest.raises(DatasetError, match="captions"):
        read_captions(path)


def test_instances_require_coco_captions(write):
    path, instances = write("captions.csv", "image,caption\n1.jpg,x\n"), write("i.json", {})
    with pytest.raises(DatasetError, match=r"i\.json"):
        read_captions(path, instances=instances)


def test_the_file_name_does_not_matter(write):
    path = write("captions_val2014.json", "1.jpg#0\tA dog .\n")
    assert read_captions(path).kind == "flickr-token"


def test_a_new_reader_is_one_module_and_one_entry_of_the_registry(write, monkeypatch):
    def read(content):
        return Source("toy", iter([Photo("1", (Caption.from_text(content.text.removeprefix("toy:")),))]), 1)

    toy = SimpleNamespace(
        KIND="toy", FORM="a toy", recognizes=lambda content: content.first_line.startswith("toy:"), read=read
    )
    monkeypatch.setattr(readers, "FORMATS", (*FORMATS, toy))
    source = read_captions(write("toy.txt", "toy:A dog ."))
    assert (source.kind, next(source.photos).captions[0].text) == ("toy", "A dog .")
