"""Boxes of the grounder, and how sure they are."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.annotate.help.boxes import BoxCertainty, Pointed, _apart, fit_certainty, point_at_mentions, proposed_boxes
from deixis.annotate.material import material_of
from deixis.data.images import open_photo
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.tasks.bundle import load
from deixis.tasks.grounding import Pointer
from tests.annotate.fakes import BOX


def test_the_grounder_proposes_boxes_inside_the_photo_for_single_things_and_for_two_of_a_kind() -> None:
    picture = open_photo(SAMPLES / "images" / "dogs.jpg")
    said = ("A dog in a field.", "Two dogs in a field.", "Dogs.")
    half = (picture.width // 2, picture.height // 2)  # as if the project had a smaller copy of the photo
    material = material_of(Photo("dogs", tuple(map(Caption.from_text, said)), width=half[0], height=half[1]))
    pointer = Pointer(load("grounder"))
    pointed = point_at_mentions(pointer, pointer.look_at(picture), material)
    texts = {mention.id: mention.text for mention in material.mentions}
    assert [texts[each.mention] for each in pointed if each.of == 1] == ["A dog", "a field", "a field"]
    assert {texts[each.mention] for each in pointed if each.of == 2} == {"Two dogs"}
    assert len(pointed) <= 5
    boxes = proposed_boxes(pointed, BoxCertainty.shipped())
    for x1, y1, x2, y2, probability in (box for of_mention in boxes.values() for box in of_mention):
        assert 0 <= x1 < x2 <= half[0]
        assert 0 <= y1 < y2 <= half[1]
        assert 0 < probability < 1


def test_certainty_follows_what_was_good() -> None:
    dice = np.random.default_rng(0)
    examples = []
    for kind, shift in (("people", 0.0), ("other", -2.0)):
        for support in dice.uniform(0.02, 0.98, 3000):
            odds = np.log(support / (1 - support)) + shift
            examples.append((Pointed("", (kind,), BOX, support), dice.random() < 1 / (1 + np.exp(-odds))))
    examples += [(Pointed("", ("people",), BOX, 0.1, of=2), right) for right in (True, True)]
    found = fit_certainty(examples, good_iou=0.6, about="dice")
    assert found.slope == pytest.approx(1, abs=0.1)
    assert found(Pointed("", ("people",), BOX, 0.5)) == pytest.approx(0.5, abs=0.04)
    assert found(Pointed("", ("other",), BOX, 0.5)) == pytest.approx(1 / (1 + np.exp(2)), abs=0.03)
    assert found(Pointed("", ("people",), BOX, 0.99, of=2)) == 0.75


def test_of_the_best_boxes_those_around_the_others_are_left_out() -> None:
    one, other, both, third = [0, 0, 10, 10], [12, 0, 22, 10], [0, 0, 22, 10], [40, 0, 50, 10]
    boxes = np.array([both, one, [0, 0, 10, 9], other, third], float)
    scores = np.array([5.0, 4.0, 3.9, 3.0, 1.0])
    assert _apart(boxes, scores, 2) == [1, 3]
    assert _apart(boxes[:1], scores[:1], 2) == [0]


def test_there_must_be_something_to_learn_from() -> None:
    with pytest.raises(DeixisError, match="no box"):
        fit_certainty([], good_iou=0.6, about="")
