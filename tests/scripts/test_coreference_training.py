"""Clusters of mentions."""

from __future__ import annotations

from itertools import combinations

from coreference_training import group_mentions
from hypothesis import given
from hypothesis import strategies as st


def test_mentions_are_grouped_by_the_mean_log_odds_of_their_pairs() -> None:
    assert group_mentions(3, {(0, 1): 0.9, (0, 2): 0.8, (1, 2): 0.6}, 0.5) == [[0, 1, 2]]
    assert group_mentions(3, {(0, 1): 0.9, (0, 2): 0.8, (1, 2): 0.1}, 0.5) == [[0, 1], [2]]


@given(st.data())
def test_groups_hold_every_mention_once_and_no_unlisted_pair(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 7))
    pairs = list(combinations(range(count), 2))
    listed = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    probabilities = {pair: data.draw(st.floats(0, 1)) for pair in listed}
    groups = group_mentions(count, probabilities, 0.5)
    assert sorted(index for group in groups for index in group) == list(range(count))
    for group in groups:
        assert set(combinations(group, 2)) <= set(listed)
