"""Near-duplicates and bursts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deixis.index.exif import Taken
from deixis.index.grouping import Grouping, groups_of
from deixis.index.records import IndexedPhoto


def indexed(number: int, sha256: bytes = b"", seconds: int | None = None, camera: str | None = None) -> IndexedPhoto:
    own = sha256 or bytes([number])
    return IndexedPhoto(number, Path(f"{number}.jpg"), 1, 1, own, 9, 9, Taken(seconds, camera), 0)


def at_angles(*degrees: float) -> np.ndarray:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * 3  # length does not matter


def test_what_looks_the_same_is_one_group_and_the_order_stays() -> None:
    photos = [indexed(number) for number in range(4)]
    assert groups_of(photos, at_angles(0, 90, 5, 92), Grouping()) == [[0, 2], [1, 3]]


def test_the_same_file_is_one_group_whatever_its_vector() -> None:
    assert groups_of([indexed(1, b"x"), indexed(2, b"x")], at_angles(0, 90), Grouping()) == [[0, 1]]


def test_a_burst_is_one_group_and_the_same_scene_later_is_another() -> None:
    photos = [indexed(1, seconds=100), indexed(2, seconds=108), indexed(3, seconds=500), indexed(4)]
    assert groups_of(photos, at_angles(0, 20, 20, 20), Grouping()) == [[0, 1], [2, 3]]


def test_two_cameras_make_no_burst() -> None:
    photos = [indexed(1, seconds=100, camera="A"), indexed(2, seconds=101, camera="B")]
    assert len(groups_of(photos, at_angles(0, 20), Grouping())) == 2


def test_small_steps_do_not_chain_into_one_group() -> None:
    photos = [indexed(number) for number in range(4)]
    assert groups_of(photos, at_angles(0, 10, 20, 30), Grouping(near=0.97)) == [[0, 1], [2, 3]]


def test_later_photos_still_join_the_groups_there_are() -> None:
    photos = [indexed(number) for number in range(4)]
    assert groups_of(photos, at_angles(0, 90, 180, 1), Grouping(), most=2) == [[0, 3], [1]]


def test_vectors_of_no_length_are_near_to_nothing() -> None:
    assert len(groups_of([indexed(1), indexed(2)], np.zeros((2, 2), np.float32), Grouping())) == 2
