"""Blind baselines."""

from __future__ import annotations

import itertools
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis import geometry
from deixis.data.formats.entities import parse_annotation, parse_sentence
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.baselines import FixedBoxes, best_fixed_box, best_fixed_boxes
from deixis.evaluation.items import Item, localization_items
from deixis.evaluation.phrase_localization import localization


def item(boxes: tuple[tuple[float, float, float, float], ...], *types: str, photo: str = "7") -> Item:
    return Item(photo, 0, (0, 5), "A man", types, boxes, (200, 100))


def right(box: tuple[float, ...], items: list[Item], protocol: str) -> int:
    scaled = np.array([box]) * [200, 100, 200, 100]
    return sum((geometry.iou(scaled, each.gold(protocol)) >= 0.5).any() for each in items)


@pytest.mark.parametrize("protocol", ["union", "any"])
def test_the_best_box_is_at_least_as_good_as_every_box_of_a_plain_grid(protocol: str) -> None:
    rng = np.random.default_rng(5)
    items = []
    for number in range(60):
        corners = np.sort(rng.random((2, 2, 2)) * [200, 100], axis=1).reshape(2, 4)
        items.append(item(tuple(map(tuple, corners[: 1 + number % 2].tolist())), photo=str(number)))
    best = right(best_fixed_box(items, protocol=protocol), items, protocol)
    sides = list(itertools.combinations(np.arange(6) / 5, 2))
    grid = [(x1, y1, x2, y2) for (x1, x2), (y1, y2) in itertools.product(sides, sides)]
    assert best >= max(right(box, items, protocol) for box in grid)


def test_a_box_counts_once_per_mention() -> None:
    left, right_edge = ((0.0, 0.0, 50.0, 100.0),), ((150.0, 0.0, 200.0, 100.0),)
    items = [item(left)] * 2 + [item(right_edge, photo="8")] * 3
    assert right(best_fixed_box(items), [item(right_edge)], "union") == 1


def test_corners_leave_the_coarse_grid_if_that_helps() -> None:
    """Two narrow boxes: no box with corners on tenths is right for both, one from 0.025 to 0.1 is."""
    items = [item(((4, 0, 16, 100),)), item(((10, 0, 22, 100),), photo="8")]
    assert right(best_fixed_box(items), items, "union") == 2


def test_each_type_has_its_own_box_and_an_unknown_type_gets_the_single_box() -> None:
    left, right_half = ((0.0, 0.0, 100.0, 100.0),), ((100.0, 0.0, 200.0, 100.0),)
    found = best_fixed_boxes([item(left, "people"), item(right_half, "animals", photo="8")])
    assert right(found.by_type["people"], [item(left)], "union") == 1
    assert right(found.by_type["animals"], [item(right_half)], "union") == 1
    fixed = FixedBoxes((0, 0, 0.5, 1), {"people": (0.5, 0, 1, 1)})
    boxes = [
        prediction.boxes[0].tolist()
        for prediction in fixed.predict([item(left, "people", "robots"), item(left, "robots")])
    ]
    assert boxes == [[100, 0, 200, 100], [0, 0, 100, 100]]


def test_a_photo_without_size_and_an_empty_set_are_errors() -> None:
    with pytest.raises(DeixisError, match="photo 7"):
        best_fixed_box([Item("7", 0, (0, 5), "A man", (), ((0, 0, 1, 1),))])
    with pytest.raises(DeixisError, match="item"):
        best_fixed_box([])


@pytest.mark.slow
def test_the_best_fixed_box_of_flickr8k_train_is_correct_for_30_percent_of_dev_phrases(real_data: Path) -> None:
    with zipfile.ZipFile(real_data / "flickr30k_entities" / "annotations.zip") as archive:

        def items_of(split: str) -> list[Item]:
            names = (real_data / "flickr8k" / f"Flickr_8k.{split}Images.txt").read_text().split()
            return localization_items(photo_of(name.split("_")[0]) for name in names)

        def photo_of(number: str) -> Photo:
            sentences = archive.read(f"Sentences/{number}.txt").decode().splitlines()
            captions = tuple(parse_sentence(line) for line in sentences if line.strip())
            return replace(
                parse_annotation(archive.read(f"Annotations/{number}.xml"), number, number), captions=captions
            )

        train, dev = items_of("train"), items_of("dev")
    result = localization(best_fixed_boxes(train).predict(dev, single=True), dev, rounds=10)
    assert result.n > 13_000
    assert result.r1 == pytest.approx(30.0, abs=1)
