"""Top scores, and grouping of near-duplicates and bursts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.search.index.photo_files import ExifInfo
from deixis.search.index.records import IndexedPhoto
from deixis.search.index.snapshot import Grouping, group_photos, top_indices


def indexed(number: int, sha256: bytes = b"", seconds: int | None = None, camera: str | None = None) -> IndexedPhoto:
    own = sha256 or bytes([number])
    return IndexedPhoto(number, Path(f"{number}.jpg"), 1, 1, own, 9, 9, ExifInfo(seconds, camera, None, "exif"), 0)


def at_angles(*degrees: float) -> np.ndarray:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * 3  # length does not matter


def test_near_duplicates_are_one_group_and_the_order_is_kept() -> None:
    photos = [indexed(number) for number in range(4)]
    assert group_photos(photos, at_angles(0, 90, 5, 92), Grouping()) == [[0, 2], [1, 3]]


def test_equal_files_are_one_group_whatever_their_vectors() -> None:
    assert group_photos([indexed(1, b"x"), indexed(2, b"x")], at_angles(0, 90), Grouping()) == [[0, 1]]


def test_a_burst_is_one_group_and_the_same_scene_later_is_another() -> None:
    photos = [indexed(1, seconds=100), indexed(2, seconds=108), indexed(3, seconds=500), indexed(4)]
    assert group_photos(photos, at_angles(0, 20, 20, 20), Grouping()) == [[0, 1], [2, 3]]


def test_photos_of_two_cameras_are_no_burst() -> None:
    photos = [indexed(1, seconds=100, camera="A"), indexed(2, seconds=101, camera="B")]
    assert len(group_photos(photos, at_angles(0, 20), Grouping())) == 2


def test_small_steps_do_not_chain_into_one_group() -> None:
    photos = [indexed(number) for number in range(4)]
    assert group_photos(photos, at_angles(0, 10, 20, 30), Grouping(near=0.97)) == [[0, 1], [2, 3]]


def test_later_photos_join_existing_groups_beyond_the_maximum() -> None:
    photos = [indexed(number) for number in range(4)]
    assert group_photos(photos, at_angles(0, 90, 180, 1), Grouping(), max_groups=2) == [[0, 3], [1]]


def test_zero_vectors_are_similar_to_nothing() -> None:
    assert len(group_photos([indexed(1), indexed(2)], np.zeros((2, 2), np.float32), Grouping())) == 2


def sorted_indices(scores: np.ndarray, top: int) -> list[int]:
    return sorted(range(len(scores)), key=lambda index: (-scores[index], index))[: max(top, 0)]


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, float("-inf")]), max_size=60), st.integers(-1, 70))
def test_ties_keep_the_order_of_the_indices(values: list[float], top: int) -> None:
    scores = np.array(values, dtype=np.float32)
    assert top_indices(scores, top).tolist() == sorted_indices(scores, top)


@pytest.mark.parametrize("top", [1, 10, 300, 20_000])
@pytest.mark.parametrize("order", ["random", "ascending", "descending", "best in a row", "equal"])
def test_many_scores_are_ranked_as_by_sorting(top: int, order: str) -> None:
    scores = np.random.default_rng(0).standard_normal(30_000).astype(np.float32)
    if order == "ascending":
        scores.sort()
    elif order == "descending":
        scores = np.sort(scores)[::-1].copy()
    elif order == "best in a row":
        scores[1000:1400] += 50
    elif order == "equal":
        scores[:] = 0.5
    assert top_indices(scores, top).tolist() == np.argsort(-scores, kind="stable")[:top].tolist()
