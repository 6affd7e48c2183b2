"""Boxes of the grounder and their probabilities."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from deixis.annotate.help.boxes import BoxCalibration, GroundedBox, ground_mentions, proposed_boxes
from deixis.annotate.material import prepare_photo
from deixis.data.images import open_photo
from deixis.data.samples import SAMPLES
from deixis.language.sentence import Phrase
from deixis.models.grounding import BoxSet, PhraseScores, load_grounding_model
from tests.annotate.fakes import photo


def test_the_grounder_proposes_boxes_inside_the_photo_for_single_things_and_for_two_of_a_kind() -> None:
    picture = open_photo(SAMPLES / "images" / "dogs.jpg")
    captions = ("A dog in a field.", "Two dogs in a field.", "Dogs.")
    half = (picture.width // 2, picture.height // 2)  # as if the project had a smaller copy of the photo
    material = prepare_photo(photo(*captions, size=half))
    grounder = load_grounding_model()
    found = ground_mentions(grounder, grounder.propose(picture), material)
    texts = {mention.id: mention.text for mention in material.mentions}
    counts = Counter(each.mention for each in found)
    assert [texts[name] for name, count in counts.items() if count == 1] == ["A dog", "a field", "a field"]
    assert [texts[name] for name, count in counts.items() if count == 2].count("Two dogs") == 1
    boxes = proposed_boxes(found, BoxCalibration.shipped())
    for x1, y1, x2, y2, probability in (box for of_mention in boxes.values() for box in of_mention):
        assert 0 <= x1 < x2 <= half[0]
        assert 0 <= y1 < y2 <= half[1]
        assert 0 < probability < 1


def test_a_grounder_of_sets_proposes_a_box_for_each_thing() -> None:
    left, right = [10.0, 10, 40, 70], [60.0, 10, 90, 70]
    sets = {
        "A dog": BoxSet(np.array([left])),
        "Some dogs": BoxSet(np.array([left, right]), np.array([0.9, 0.6])),
        "Two dogs": BoxSet(np.array([left])),  # the second was not found: the box is around both
    }

    def score_phrases(proposals: object, sentence: object, phrases: list[Phrase]) -> PhraseScores:
        boxes = np.array([[left, right]] * len(phrases))
        return PhraseScores(np.zeros((len(phrases), 2)), boxes, sets=[sets[phrase.text] for phrase in phrases])

    grounder = SimpleNamespace(score_phrases=score_phrases)
    proposals = SimpleNamespace(features=SimpleNamespace(size=(100, 80)))
    material = prepare_photo(photo("A dog.", "Some dogs.", "Two dogs.", size=(50, 40)))
    found = ground_mentions(grounder, proposals, material)  # type: ignore[arg-type]
    texts = {mention.id: mention.text for mention in material.mentions}
    boxes = {texts[name]: own for name, own in proposed_boxes(found, BoxCalibration.shipped()).items()}
    assert set(boxes) == {"A dog", "Some dogs"}
    assert boxes["Some dogs"] == [[5, 5, 20, 35, 0.9], [30, 5, 45, 35, 0.6]]
    assert boxes["A dog"][0][:4] == [5, 5, 20, 35]


def test_the_probability_of_a_box_is_logistic_in_its_support() -> None:
    calibration = BoxCalibration(1.0, {"animals": 0.0}, 0.6, "")
    box = GroundedBox("0:0-5", ("animals",), (0, 0, 9, 9), 0.75)
    assert calibration.probability(box) == pytest.approx(0.75)
    assert calibration.probability(replace(box, probability=0.4)) == 0.4
