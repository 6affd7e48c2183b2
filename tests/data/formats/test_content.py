"""Content of captions files."""

import os
import threading
import zipfile

import pytest

from deixis.data.formats import read_captions
from deixis.data.formats.content import Content


def test_zips_and_folders_are_recognized(store, tmp_path):
    archive = tmp_path / "archive"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a/b.txt", "x")
    assert Content(tmp_path).is_tree
    assert Content(archive).names == ["a/b.txt"]
    assert not Content(store("text", "PK is no zip")).is_tree


def test_lines_keep_their_numbers(store):
    content = Content(store("text", "\n  \none\r\n\ntwo"))
    assert content.first_line == "one"
    assert content.lines() == [(3, "one"), (5, "two")]


def test_a_document_fills_its_file_and_lines_do_not(store):
    assert Content(store("a", ' {"a":\n1}\n')).document == {"a": 1}
    lines = Content(store("b", '{"a": 1}\n{"a": 2}\n'))
    assert (lines.document, lines.first_json) == (None, {"a": 1})
    assert Content(store("c", "no JSON")).first_json is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_captions_may_come_through_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("image,caption\n1.jpg,A dog .\n",))
    writer.start()
    photos = list(read_captions(pipe).photos)
    writer.join()
    assert [photo.id for photo in photos] == ["1"]
