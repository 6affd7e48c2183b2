"""Records: boxes of chains, and the public names of `deixis.data`."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import deixis.data
from deixis import geometry
from deixis.data.records import Box, Photo
from tests.test_architecture import modules_after

_XYXY = st.tuples(*[st.floats(0, 100)] * 4).map(lambda b: (*map(min, b[:2], b[2:]), *map(max, b[:2], b[2:])))
_CHAINS = st.lists(st.sampled_from("abc"), unique=True).map(tuple)


@given(st.lists(st.builds(Box, _XYXY, _CHAINS), max_size=6).map(tuple))
def test_union_boxes_are_the_unions_of_the_boxes_of_each_chain(boxes: tuple[Box, ...]) -> None:
    photo = Photo("1", boxes=boxes)
    unions = photo.union_boxes()
    assert set(unions) == {chain for box in boxes for chain in box.chains}
    for chain, union in unions.items():
        np.testing.assert_array_equal(union, geometry.union([box.xyxy for box in photo.boxes_of(chain)]))


def test_every_public_name_can_be_imported_and_records_do_not_import_pyarrow() -> None:
    assert dir(deixis.data) == sorted(deixis.data.__all__)
    assert all(getattr(deixis.data, name).__doc__ for name in deixis.data.__all__)
    assert "pyarrow" not in modules_after("import deixis.data; deixis.data.Caption")
