"""Names and paths from strangers."""

from __future__ import annotations

import pytest

from deixis.files.names import is_below, is_plain


@pytest.mark.parametrize("name", ["1", "a b", "a.b", "Bildschirmfoto\u202f3", "写真", "12:30", "...", "-x"])
def test_names_of_files_are_plain(name):
    assert is_plain(name)


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\\b", "C:x", "a\0b", "a\nb", "\x7f"])
def test_what_cannot_name_a_file_is_not_plain(name):
    assert not is_plain(name)


@pytest.mark.parametrize("path", ["a.jpg", "a/b.jpg", "a\\b.jpg", "..a/b..jpg"])
def test_paths_below_a_folder_are_told(path):
    assert is_below(path)


@pytest.mark.parametrize(
    "path", ["", "/a", "\\a", "C:\\a", "C:a", "../a", "a/../../b", "a\\..\\..\\b", "\\\\host\\x\\a", "a\0"]
)
def test_paths_that_leave_a_folder_are_told(path):
    assert not is_below(path)
