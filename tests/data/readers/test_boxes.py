import pytest

from deixis.data.readers.boxes import corners
from deixis.data.readers.values import Value
from deixis.errors import DatasetError

PLACE = Value(None, "a.json")


def test_a_corner_and_a_size_become_two_corners():
    assert corners([[1, 2, 3, 4], [-1, 0, 0, 0]], [PLACE, PLACE]) == [(1, 2, 4, 6), (-1, 0, -1, 0)]
    assert corners([], []) == []


@pytest.mark.parametrize("box", [[0, 0, -1, 1], [0, 0, 1, -1], [1e308, 0, 1e308, 1], [0, 1e308, 1, 1e308]])
def test_a_box_that_cannot_be_is_refused(box):
    with pytest.raises(DatasetError, match=r"^a\.json: the box "):
        corners([[0, 0, 1, 1], box], [PLACE, PLACE])
