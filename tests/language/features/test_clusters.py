"""Clusters that start a mixture."""

from __future__ import annotations

import numpy as np

from deixis.language.features.clusters import nearest_centres


def test_groups_far_apart_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(5, size=200)
    points = (100 * np.eye(5)[groups] + rng.normal(size=(200, 5))).astype(np.float32)
    for seed in range(5):
        found = nearest_centres(points, np.full(200, 1 / 200), 5, seed)
        assert len(set(zip(groups.tolist(), found.tolist(), strict=True))) == 5


def test_words_that_are_all_alike_still_give_an_answer() -> None:
    found = nearest_centres(np.ones((6, 2), dtype=np.float32), np.full(6, 1 / 6), 3, seed=0)
    assert found.shape == (6,)
