"""Tf-idf against a loop over words."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features import TfIdf

SENTENCES = ["A dog runs.", "A dog and a cat.", "Two cats sit on a dog", "A red cat"]


def by_loops(sentence: list[str], learned_from: list[list[str]], columns: list[str]) -> list[float]:
    row = []
    for word in columns:
        holding = sum(word in other for other in learned_from)
        row.append(sentence.count(word) * (math.log((1 + len(learned_from)) / (1 + holding)) + 1))
    length = math.sqrt(sum(number**2 for number in row))
    return [number / length if length else 0.0 for number in row]


def test_weights_are_what_loops_find() -> None:
    learned_from = [sentence.lower().rstrip(".").split() for sentence in SENTENCES]
    features = TfIdf(minimum=1).fit(SENTENCES)
    assert features.words_ == sorted({word for sentence in learned_from for word in sentence})
    asked = [*learned_from, ["a", "a", "dog", "zebra"], ["zebra"]]
    expected = [by_loops(sentence, learned_from, features.words_) for sentence in asked]
    np.testing.assert_allclose(features.transform(asked), expected, atol=1e-6)
    assert features.transform(asked).dtype == np.float32


def test_rare_words_are_left_out() -> None:
    features = TfIdf(minimum=2).fit(SENTENCES)
    assert features.words_ == ["a", "cat", "dog"]
    assert features.dimension == 3


def test_strings_and_their_words_are_the_same() -> None:
    features = TfIdf().fit(SENTENCES)
    np.testing.assert_array_equal(features.transform(["A dog."]), features.transform([["a", "dog"]]))


def test_what_was_saved_transforms_to_the_same_bits(tmp_path: Path) -> None:
    features = TfIdf().fit(SENTENCES)
    features.save(tmp_path / "saved")
    np.testing.assert_array_equal(TfIdf.load(tmp_path / "saved").transform(SENTENCES), features.transform(SENTENCES))


def test_nothing_to_learn_is_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="no word occurs in 2 of the 1 sentences"):
        TfIdf().fit(["a dog"])
