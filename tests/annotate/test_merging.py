"""Merging boxes, then chains."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from deixis import geometry
from deixis.annotate.merging import Chained, merge
from deixis.annotate.settings import Settings
from deixis.annotate.walks import XYXY

HIGH: XYXY = (0, 0, 100, 100)
ALMOST: XYXY = (0, 0, 100, 85)
"""An IoU of 0.85 with `HIGH`."""


def test_boxes_become_one_from_eight_tenths_on_and_their_chains_with_them() -> None:
    found = merge([Chained("1", ("people",), (HIGH,)), Chained("2", ("people",), (ALMOST,))])
    assert found.became == {"1": "1", "2": "1"}
    assert [(box.xyxy, box.chains, len(box.drawn)) for box in found.boxes] == [((0, 0, 100, 92.5), ("1",), 2)]


def test_other_needs_nine_tenths() -> None:
    found = merge([Chained("1", ("other",), (HIGH,)), Chained("2", ("animals",), (ALMOST,))])
    assert found.became == {"1": "1", "2": "2"}
    closer = merge([Chained("1", ("other",), (HIGH,)), Chained("2", ("other",), ((0, 0, 100, 91),))])
    assert closer.became == {"1": "1", "2": "1"}


def test_clothing_never_becomes_people_not_even_through_a_third_box() -> None:
    both = merge([Chained("1", ("people",), (HIGH,)), Chained("2", ("clothing",), (HIGH,))])
    assert len(both.boxes) == 2
    three = merge(
        [
            Chained("1", ("people",), (HIGH,)),
            Chained("2", ("bodyparts",), (HIGH,)),
            Chained("3", ("clothing",), (HIGH,)),
        ]
    )
    assert three.became["1"] == three.became["2"] == "1"
    assert three.became["3"] == "3"


def test_chains_that_share_only_some_boxes_stay_apart_and_share_them() -> None:
    couple = Chained("1", ("people",), ((0, 0, 50, 100), (60, 0, 100, 100)))
    bride = Chained("2", ("people",), ((0, 0, 50, 98),))
    found = merge([couple, bride])
    assert found.became == {"1": "1", "2": "2"}
    assert sorted(box.chains for box in found.boxes) == [("1",), ("1", "2")]


def test_chains_without_boxes_are_not_merged() -> None:
    assert merge([Chained("1", ("scene",), ()), Chained("2", ("scene",), ())]).became == {"1": "1", "2": "2"}


sides = st.integers(0, 40)
boxes = st.tuples(sides, sides, st.integers(50, 90), st.integers(50, 90))
kinds = st.sampled_from(["people", "clothing", "other", "animals"])
chains = st.lists(st.tuples(kinds, st.lists(boxes, max_size=3)), max_size=5)


@given(chains)
def test_afterwards_no_two_boxes_could_be_merged_and_nothing_is_lost(made: list[tuple[str, list[XYXY]]]) -> None:
    given_chains = [Chained(str(n), (kind,), tuple(found)) for n, (kind, found) in enumerate(made)]
    merged = merge(given_chains)
    assert sum(len(box.drawn) for box in merged.boxes) == sum(len(chain.boxes) for chain in given_chains)
    assert set(merged.became.values()) <= set(merged.became)
    assert all(merged.became[left] == left for left in merged.became.values())
    for chain in given_chains:
        shown = [box for box in merged.boxes if merged.became[chain.name] in box.chains]
        assert bool(shown) == bool(chain.boxes)
    types = {chain.name: chain.types[0] for chain in given_chains}
    settings = Settings()
    for place, one in enumerate(merged.boxes):
        for other in merged.boxes[place + 1 :]:
            kinds_of = [
                {types[name] for name, became in merged.became.items() if became in box.chains} for box in (one, other)
            ]
            apart = {"people", "clothing"} <= kinds_of[0] | kinds_of[1]
            overlap = float(np.squeeze(geometry.iou([one.xyxy], [other.xyxy])))
            assert apart or overlap < settings.merge_iou_other
