import pytest

from deixis.data.readers.gathered import Gathered
from deixis.errors import DatasetError


def test_captions_of_equal_number_stay_as_they_came():
    gathered = Gathered()
    for text, number in [("c", 1), ("a", 0), ("d", 1), ("b", 0)]:
        gathered.add("1.jpg", f" {text}\n", DatasetError, number=number)
    photo = next(gathered.source("kind").photos)
    assert [caption.text for caption in photo.captions] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("split", ["..", "a/b", "a\nb"])
def test_a_split_that_cannot_name_a_file_is_refused(split):
    with pytest.raises(DatasetError, match="cannot be the name of a split"):
        Gathered().add("1.jpg", "A dog .", DatasetError, split=split)
