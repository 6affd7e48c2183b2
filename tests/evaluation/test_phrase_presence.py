"""Presence of phrases in photos, against loops over pairs and expanded samples."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.data.records import Caption, Mention, Photo
from deixis.errors import DeixisError
from deixis.evaluation import phrase_presence
from deixis.evaluation.phrase_precision import CandidateBoxes
from deixis.evaluation.phrase_presence import best_region_scores, mentioned_in_photos, score_presence


def made_up(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many equal ones, and at least one phrase that is in some photos and not in others."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 5), rng.integers(2, 7)
    mentioned = rng.random(shape) < 0.4
    mentioned[0, :2] = True, False
    return np.round(rng.normal(size=shape) * 2) / 2, mentioned


def plain_area(right: list[float], wrong: list[float]) -> float:
    wins = sum((one > other) + 0.5 * (one == other) for one in right for other in wrong)
    return 100 * wins / (len(right) * len(wrong))


def plain_ap(scores: list[float], mentioned: list[bool]) -> float:
    """Of equal scores, wrong photos come first. The precision at a hit is the best at that rank or a lower one."""
    ranked = [right for _, right in sorted(zip(scores, mentioned, strict=True), key=lambda pair: (-pair[0], pair[1]))]
    precisions = [sum(ranked[:place]) / place for place in range(1, len(ranked) + 1)]
    hits = [rank for rank, right in enumerate(ranked) if right]
    return 100 * sum(max(precisions[hit:]) for hit in hits) / len(hits)


def plain_scores(scores: np.ndarray, mentioned: np.ndarray) -> dict[str, float]:
    rows = [(row.tolist(), flags.tolist()) for row, flags in zip(scores, mentioned, strict=True)]
    rows = [(row, flags) for row, flags in rows if any(flags) and not all(flags)]
    split = [
        ([s for s, f in zip(row, flags, strict=True) if f], [s for s, f in zip(row, flags, strict=True) if not f])
        for row, flags in rows
    ]
    return {
        "ap": float(np.mean([plain_ap(row, flags) for row, flags in rows])),
        "roc": float(np.mean([plain_area(right, wrong) for right, wrong in split])),
        "pooled_roc": plain_area([s for right, _ in split for s in right], [s for _, wrong in split for s in wrong]),
    }


@settings(max_examples=150)
@given(st.integers(0, 10**6))
def test_every_score_agrees_with_a_loop_over_pairs(seed: int) -> None:
    scores, mentioned = made_up(seed)
    found = score_presence(scores, mentioned, rounds=2)
    in_some = [row for row in mentioned.tolist() if any(row) and not all(row)]
    assert (found.phrases, found.photos, found.present) == (len(in_some), mentioned.shape[1], sum(map(sum, in_some)))
    for name, value in plain_scores(scores, mentioned).items():
        assert getattr(found, name) == pytest.approx(value, abs=1e-6), name
    json.dumps(found.as_json(), allow_nan=False)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_a_bootstrap_sample_scores_like_its_expanded_photos(seed: int, times: list[int]) -> None:
    scores, mentioned = made_up(seed)
    mentioned = mentioned[mentioned.any(axis=1) & ~mentioned.all(axis=1)]
    scores = np.random.default_rng(seed).permutation(mentioned.size).reshape(mentioned.shape).astype(float)
    drawn = np.repeat(np.arange(mentioned.shape[1]), times[: mentioned.shape[1]])
    both = mentioned[:, drawn].any(axis=1) & ~mentioned[:, drawn].all(axis=1)
    if not both.all():  # the next test covers samples that leave out phrases
        return
    counts = np.bincount(drawn, minlength=mentioned.shape[1])[None].astype(float)
    plain = plain_scores(scores[:, drawn], mentioned[:, drawn])
    assert phrase_presence._mean_area(scores, mentioned)(counts)[0] == pytest.approx(plain["roc"], abs=1e-4)
    assert phrase_presence._pooled_area(scores, mentioned)(counts)[0] == pytest.approx(plain["pooled_roc"], abs=1e-6)


def test_a_sample_leaves_out_phrases_that_it_cannot_score() -> None:
    scores, mentioned = np.array([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]]), np.array([[1, 0, 0], [1, 0, 0]], dtype=bool)
    area = phrase_presence._mean_area(scores, mentioned)
    assert area(np.array([[1.0, 1, 1], [0, 2, 1]])).tolist() == [50.0, 0.0]
    mentioned[1] = [False, False, True]  # the second phrase's photo is not drawn
    assert phrase_presence._mean_area(scores, mentioned)(np.array([[1.0, 2, 0]])).tolist() == [100.0]


def test_the_pooled_area_needs_one_threshold_for_all_phrases() -> None:
    mentioned = np.eye(20, dtype=bool)
    own_level = mentioned + 10.0 * np.arange(20)[:, None]
    found = score_presence(own_level, mentioned)
    assert (found.ap, found.roc, found.share) == (100.0, 100.0, 5.0)
    assert found.pooled_roc < 60
    assert score_presence(mentioned, mentioned).pooled_roc == 100.0


def test_scores_lie_in_their_intervals() -> None:
    rng = np.random.default_rng(0)
    mentioned = rng.random((30, 60)) < 0.2
    found = score_presence(mentioned + rng.normal(size=mentioned.shape), mentioned)
    for name, interval in found.interval.items():
        assert interval.low < getattr(found, name) < interval.high, name


@settings(max_examples=50)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any), st.sampled_from([np.float32, np.int64]))
def test_a_photo_has_the_score_of_its_best_region(counts: list[int], dtype: type) -> None:
    regions = CandidateBoxes.from_boxes({str(photo): np.zeros((count, 4)) for photo, count in enumerate(counts)})
    scores = np.random.default_rng(0).integers(-9, 9, size=(3, sum(counts))).astype(dtype)
    best = best_region_scores(scores, regions)
    begin = 0
    for photo, count in enumerate(counts):
        for phrase in range(3):
            plain = max(scores[phrase, begin : begin + count].tolist(), default=-np.inf)
            assert best[phrase, photo] == plain
        begin += count


def test_a_phrase_is_mentioned_by_any_related_caption_with_or_without_a_box() -> None:
    about = Caption.from_text("A dog sees the Man .", (Mention(0, 5, "1"), Mention(11, 18, None)))
    elsewhere = Caption.from_text("A cat .", (Mention(0, 5, "2"),), related=False)
    mentioned = mentioned_in_photos(["man", "dog", "cat"], [Photo("7", (elsewhere, about)), Photo("8", ())])
    assert mentioned.tolist() == [[True, False], [True, False], [False, False]]


ONE = CandidateBoxes.from_boxes({"7": [[0, 0, 10, 10]]})


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: score_presence([[1.0]], [[True, False]]), r"\(1, 1\).*\(1, 2\)"),
        (lambda: score_presence([[1.0, 2]], [[True, True]]), "no phrase"),
        (lambda: score_presence([[np.nan, 2]], [[True, False]]), "nan"),
        (lambda: best_region_scores([[1.0, 2]], ONE), "2 columns"),
    ],
)
def test_invalid_arguments_are_errors(score: Callable[[], object], message: str) -> None:
    with pytest.raises(DeixisError, match=message):
        score()
