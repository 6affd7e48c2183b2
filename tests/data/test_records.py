"""Records: boxes of chains."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deixis import geometry
from deixis.data.records import Box, Photo

_XYXY = st.tuples(*[st.floats(0, 100)] * 4).map(lambda b: (*map(min, b[:2], b[2:]), *map(max, b[:2], b[2:])))
_CHAINS = st.lists(st.sampled_from("abc"), unique=True).map(tuple)


@given(st.lists(st.builds(Box, _XYXY, _CHAINS), max_size=6).map(tuple))
def test_union_boxes_are_the_unions_of_the_boxes_of_each_chain(boxes: tuple[Box, ...]) -> None:
    photo = Photo("1", boxes=boxes)
    unions = photo.union_boxes()
    assert set(unions) == {chain for box in boxes for chain in box.chains}
    for chain, union in unions.items():
        np.testing.assert_array_equal(union, geometry.union([box.xyxy for box in photo.boxes_of(chain)]))
