"""Average precision over all photos, against `localization` of the same scores as predictions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deixis import geometry
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Interval, Result
from deixis.evaluation.items import Item, distinct_phrases
from deixis.evaluation.phrase_localization import localization
from deixis.evaluation.phrase_precision import CandidateBoxes, photo_precisions, phrase_precision
from deixis.evaluation.predictions import NegativePrediction, Prediction
from deixis.evaluation.score_matrix import ScoreBlocks
from deixis.tokens import distinct_phrase

PHRASES = ["A man", "the man", "two men", "a dog", "Man"]
KINDS = [(), ("people",), ("people", "animals"), ("other",)]


def made_up(seed: int, dtype: type = np.float32) -> tuple[np.ndarray, list[Item], CandidateBoxes]:
    """A few photos with a few regions each, whose scores are often equal."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 12, size=rng.integers(1, 6))
    items = []
    for photo in range(len(counts)):
        for place in range(rng.integers(1, 5)):
            phrase, kinds = PHRASES[rng.integers(len(PHRASES))], KINDS[rng.integers(len(KINDS))]
            golds = tuple(tuple(box) for box in made_up_boxes(rng, int(rng.integers(1, 3))).tolist())
            items.append(Item(f"p{photo}", place, (0, len(phrase)), phrase, kinds, golds))
    regions = CandidateBoxes.from_boxes({f"p{photo}": made_up_boxes(rng, count) for photo, count in enumerate(counts)})
    shape = len(distinct_phrases(items)), len(regions.boxes)
    scores = np.round(rng.normal(size=shape) * 3) / 4
    return scores.astype(dtype), items, regions


def made_up_boxes(rng: np.random.Generator, n: int) -> np.ndarray:
    corners = rng.integers(0, 6, size=(n, 2))
    return np.concatenate([corners, corners + rng.integers(1, 8, size=(n, 2))], axis=1).astype(np.float64)


def as_predictions(
    scores: np.ndarray, items: list[Item], regions: CandidateBoxes
) -> list[Prediction | NegativePrediction]:
    """A record for every mention, and for every phrase in every photo that does not mention it."""
    row = {phrase: place for place, phrase in enumerate(distinct_phrases(items))}
    of_photo = {
        photo: slice(start, start + count)
        for photo, start, count in zip(regions.photos, regions.starts, regions.counts, strict=True)
    }
    found: list[Prediction | NegativePrediction] = []
    for item in items:
        mine = of_photo[item.photo]
        own = scores[row[distinct_phrase(item.phrase)], mine]
        found.append(Prediction(item.photo, item.caption, item.span, regions.boxes[mine], own))
    mentioned = {(item.photo, distinct_phrase(item.phrase)) for item in items}
    for photo, mine in of_photo.items():
        for phrase, place in row.items():
            if (photo, phrase) not in mentioned:
                found.append(NegativePrediction(photo, phrase, regions.boxes[mine], scores[place, mine]))
    return found


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from([np.float32, np.float64, np.float16]),
    st.sampled_from(["union", "any"]),
    st.sampled_from(["area", "11-point"]),
)
def test_every_score_equals_that_of_localization_of_predictions(seed: int, dtype: type, protocol, rule) -> None:
    scores, items, regions = made_up(seed, dtype)
    if not len(regions.boxes):
        return
    found = phrase_precision(scores, items, regions, protocol=protocol, ap_rule=rule, rounds=20)
    expected = localization(as_predictions(scores, items, regions), items, protocol=protocol, ap_rule=rule, rounds=20)
    compare(found.as_json(), expected)
    json.dumps(found.as_json(), allow_nan=False)


def compare(found: dict[str, Any], expected: Result) -> None:
    for name in ("ap", "ap_nms", "macro_ap", "macro_ap_nms"):
        assert found[name] == pytest.approx(getattr(expected, name), abs=1e-9), name
    for groups in ("by_type", "by_phrase"):
        theirs = getattr(expected, groups)
        assert list(found[groups]) == list(theirs)
        for name, scores in found[groups].items():
            assert (scores["n"], scores["photos"]) == (theirs[name].n, theirs[name].photos)
            assert scores["ap"] == pytest.approx(theirs[name].ap, abs=1e-9)
            assert scores["ap_nms"] == pytest.approx(theirs[name].ap_nms, abs=1e-9)
            assert scores["no_interval"] == theirs[name].no_interval


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_intervals_are_as_wide_as_those_of_localization_of_predictions(seed: int) -> None:
    """Without equal scores, because the order of photos without the phrase is not defined for ties."""
    scores, items, regions = made_up(seed)
    if not len(regions.boxes):
        return
    scores = scores + np.random.default_rng(seed).permutation(scores.size).reshape(scores.shape) / 1e5
    found = phrase_precision(scores, items, regions, rounds=50)
    expected = localization(as_predictions(scores, items, regions), items, rounds=50)
    for name, interval in found.interval.items():
        assert_around(getattr(found, name), interval, expected.interval[name])
    for groups in ("by_type", "by_phrase"):
        for name, group in getattr(found, groups).items():
            theirs = getattr(expected, groups)[name].interval
            for score, interval in group.interval.items():
                assert (interval is None) == (theirs[score] is None)
                if interval:
                    assert_around(getattr(group, score), interval, theirs[score])


def assert_around(score: float, mine: Interval, theirs: Interval) -> None:
    half = (theirs.high - theirs.low) / 2
    expected = max(score - half, 0), min(score + half, 100)
    assert (mine.low, mine.high) == pytest.approx(expected, abs=1e-9)


def test_blocks_of_phrases_give_the_same_scores() -> None:
    scores, items, regions = made_up(5)
    asked = []

    def rows(begin: int, end: int) -> np.ndarray:
        asked.append((begin, end))
        return scores[begin:end]

    blocks = ScoreBlocks(scores.shape, rows, rows_at_once=2)
    assert phrase_precision(blocks, items, regions).as_json() == phrase_precision(scores, items, regions).as_json()
    assert asked == [(begin, min(begin + 2, len(scores))) for begin in range(0, len(scores), 2)]


def dog(photo: str) -> Item:
    return Item(photo, 0, (0, 5), "A dog", ("animals",), ((0, 0, 10, 10),))


def test_regions_of_photos_without_any_phrase_are_ranked_too() -> None:
    regions = CandidateBoxes.from_boxes({"7": [[0, 0, 10, 10]], "8": [[0, 0, 10, 10]]})
    assert phrase_precision([[0.5, 0.9]], [dog("7")], regions).ap == 50.0


def test_scores_may_be_integers() -> None:
    regions = CandidateBoxes.from_boxes({"7": [[0, 0, 10, 10], [20, 0, 30, 10]]})
    for dtype in (np.uint8, np.int64):
        assert phrase_precision(np.array([[1, 0]], dtype=dtype), [dog("7")], regions).ap == 100.0
        assert phrase_precision(np.array([[0, 1]], dtype=dtype), [dog("7")], regions).ap == 50.0


ONE = CandidateBoxes.from_boxes({"7": [[0, 0, 10, 10]]})


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: phrase_precision([[0.5]], [], ONE), "no phrases"),
        (lambda: phrase_precision([[0.5]], [dog("8")], ONE), "photo '8'"),
        (lambda: phrase_precision([[0.5, 1]], [dog("7")], ONE), "1 × 2"),
        (lambda: phrase_precision([[np.nan]], [dog("7")], ONE), "row 0, column 0.*nan"),
        (lambda: phrase_precision([[1.0]], [dog("7")], ONE, protocol="best"), "protocol 'best'"),
        (lambda: CandidateBoxes(("7",), np.zeros((2, 4)), np.array([1])), "counts"),
    ],
)
def test_invalid_arguments_are_errors(score: Callable[[], object], message: str) -> None:
    with pytest.raises(DeixisError, match=message):
        score()


def photo_precision_by_loop(
    scores: np.ndarray, kept: set[int], items: list[Item], phrase: str, regions: CandidateBoxes
) -> float:
    """Walk down the regions of all photos, each once."""
    gold: dict[str, list[tuple[float, ...]]] = {}
    for item in items:
        box = tuple(geometry.union(np.array(item.boxes)).tolist())
        if distinct_phrase(item.phrase) == phrase and box not in gold.setdefault(item.photo, []):
            gold[item.photo].append(box)
    left = {photo: list(boxes) for photo, boxes in gold.items()}
    found: list[bool] = []
    for region in sorted(kept, key=lambda region: (-scores[region], region)):
        mine = left.get(regions.photos[regions.photo[region]], [])
        overlaps = [float(geometry.iou(regions.boxes[region][None], np.array([box]))[0, 0]) for box in mine]
        found.append(max(overlaps, default=0.0) >= 0.5)
        if found[-1]:
            mine.pop(overlaps.index(max(overlaps)))
    precisions = [sum(found[: rank + 1]) / (rank + 1) for rank in range(len(found))]
    total = sum(max(precisions[rank:]) for rank, hit in enumerate(found) if hit)
    return 100 * total / sum(map(len, gold.values()))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_a_photo_is_ranked_once_for_a_phrase_and_a_gold_box_is_found_once(seed: int) -> None:
    scores, items, regions = made_up(seed)
    assume(len(regions.boxes))
    items += [replace(item, caption=item.caption + 10) for item in items]  # every box is mentioned twice
    found = photo_precisions(scores, items, regions)
    for row, phrase in enumerate(distinct_phrases(items)):
        assert found[phrase]["ap"] == pytest.approx(
            photo_precision_by_loop(scores[row], set(range(len(regions.boxes))), items, phrase, regions)
        )
        kept: set[int] = set()
        for start, count in zip(regions.starts.tolist(), regions.counts.tolist(), strict=True):
            own = geometry.nms(regions.boxes[start : start + count], scores[row, start : start + count], 0.5)
            kept |= {start + int(index) for index in own}
        assert found[phrase]["ap_nms"] == pytest.approx(
            photo_precision_by_loop(scores[row], kept, items, phrase, regions)
        )
