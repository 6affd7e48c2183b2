"""What is right for a query of benchmarks/queries.py, and how results are scored."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from named_things import NamedThings

CAPTIONS = [
    ["Two small dogs run on a beach."],
    ["A dog sits.", "A pair of dogs."],
    ["A red double decker bus."],
    ["A cat."],
]
LABELS = [{"dog"}, {"dog"}, {"bus"}, {"cat", "dog"}]
BOXES = [[], [], [], [["dog", 0.0, 0.0, 0.5, 0.5], ["dog", 0.5, 0.5, 1.0, 1.0], ["dog", 0.0, 0.0, 0.01, 0.01]]]


@pytest.fixture(scope="module")
def queries(benchmarks: Any) -> ModuleType:
    module: ModuleType = benchmarks("queries")
    return module


@pytest.fixture(scope="module")
def texts(queries: ModuleType) -> Any:
    labels = [frozenset(each) for each in LABELS]
    return queries.Texts(NamedThings(CAPTIONS), labels, BOXES, {"dog": "dog, puppy"})


@pytest.mark.parametrize(
    ("gold", "right"),
    [
        ("@dog", [0, 1, 3]),
        ("#2 dog", [0, 1, 3]),
        ("!@dog", [2]),
        ("beach & @dog", [0]),
        ("red .. bus", [2]),
        ("red .. cat | small .. dog", [0]),
        ("beach, =cat", [0, 3]),
    ],
)
def test_what_is_right_is_read_from_labels_captions_and_boxes(texts: Any, gold: str, right: list[int]) -> None:
    assert texts.right(gold).nonzero()[0].tolist() == right


def test_results_are_scored_by_kind(queries: ModuleType, texts: Any) -> None:
    kinds = {"nouns": {"dogs": "@dog", "a beach": "beach"}, "absent": {"a harp": "harp"}}
    found = {"dogs": [("11.jpg", 0.9), ("12.jpg", 0.5)], "a beach": [], "a harp": [("10.jpg", 0.2)]}
    report = queries.score(kinds, texts, [10, 11, 12, 13], found)
    nouns = report["nouns"]
    assert nouns["by query"] == {"dogs": pytest.approx(1 / 3), "a beach": 0.0}
    assert nouns["first right"]["value"] == 0.5
    assert (nouns["stated"], nouns["right"]) == (0.7, 0.5)
    assert nouns["nothing found"]["value"] == 0.5
    assert report["absent"]["nothing found"]["value"] == 0.0


def test_a_query_with_an_attribute_is_compared_with_its_noun(queries: ModuleType, texts: Any) -> None:
    gold = {"two dogs": "#2 dog", "a red bus": "red .. bus", "a blue bus": "blue .. bus"}
    found = {"two dogs": [("12.jpg", 0.9)], "dogs": [("10.jpg", 0.8), ("13.jpg", 0.7)]}
    found |= {"a red bus": [("12.jpg", 0.6)], "bus": []}
    pairs = {"two dogs": "dogs", "a red bus": "bus", "a blue bus": "bus"}
    report = queries.score_pairs(pairs, gold, texts, [10, 11, 12, 13], found)
    assert report["by query"] == {"two dogs": pytest.approx(-2 / 3), "a red bus": 1.0}
    assert (report["queries"], report["below the noun"]) == (2, 1)
    assert report["recall@10"]["value"] == 0.5
    assert report["of the noun"]["value"] == pytest.approx(1 / 3)
