import pytest

from deixis.data.readers.names import Names, shown
from deixis.errors import DatasetError


def test_a_name_may_come_again_unless_it_must_be_new():
    names = Names()
    assert names.new_id_of("a/1.jpg", DatasetError) == "1"
    assert names.id_of("a/1.jpg", DatasetError) == "1"
    with pytest.raises(DatasetError, match=r"photo 'a/1\.jpg' comes a second time"):
        names.new_id_of("a/1.jpg", DatasetError)


def test_long_texts_are_cut_and_invisible_characters_spelled():
    assert shown("\ud800\n") == r"'\ud800\n'"
    assert len(shown("x" * 10_000)) == 82
