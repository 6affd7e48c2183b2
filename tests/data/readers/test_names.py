import pytest

from deixis.data.readers.names import Names, is_below, is_plain, shown
from deixis.errors import DatasetError


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


def test_a_name_may_come_again_unless_it_must_be_new():
    names = Names()
    assert names.new_id_of("a/1.jpg", DatasetError) == "1"
    assert names.id_of("a/1.jpg", DatasetError) == "1"
    with pytest.raises(DatasetError, match=r"photo 'a/1\.jpg' comes a second time"):
        names.new_id_of("a/1.jpg", DatasetError)


def test_long_texts_are_cut_and_invisible_characters_spelled():
    assert shown("\ud800\n") == r"'\ud800\n'"
    assert len(shown("x" * 10_000)) == 82
