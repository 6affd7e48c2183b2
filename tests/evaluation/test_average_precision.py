"""Average precision against plain loops over expanded rankings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.evaluation import intervals
from deixis.evaluation.average_precision import (
    Hits,
    PhotoRanking,
    mean_precision,
)

PHOTOS = 4

photo = st.integers(0, PHOTOS - 1)


@st.composite
def rankings(draw: st.DrawFn) -> PhotoRanking:
    """Boxes of any photos, of which some find a mention of their photo, and mentions that nothing finds."""
    boxes = draw(st.lists(st.tuples(photo, st.booleans()), max_size=12))
    found = [number for number, finds in boxes if finds]
    unfound = draw(st.lists(photo, min_size=0 if found else 1, max_size=3))
    return PhotoRanking(
        np.array([finds for _, finds in boxes], dtype=bool),
        np.array([number for number, _ in boxes], dtype=np.intp),
        np.array(found + unfound, dtype=np.intp),
    )


def plain_average_precision(found: list[bool], positives: int, rule: str) -> float:
    """Compute precision and recall at every rank; at a recall, the best precision at that recall or a higher one."""
    curve = []
    for rank in range(1, len(found) + 1):
        hits = sum(found[:rank])
        curve.append((hits, hits / rank))

    def precision_at(hits_needed: float) -> float:
        return max((precision for hits, precision in curve if hits >= hits_needed), default=0.0)

    if rule == "11-point":
        return sum(precision_at(tenth * positives / 10) for tenth in range(11)) / 11
    return sum(precision_at(hits) for hits in range(1, positives + 1)) / positives


def plain_mean(rankings: list[PhotoRanking], counts: list[int], rule: str) -> float:
    """Repeat each box and each mention as often as its photo was drawn, and score that ranking."""
    precisions = []
    for ranking in rankings:
        found = []
        for number, finds in zip(ranking.photo.tolist(), ranking.found.tolist(), strict=True):
            found += [finds] * counts[number]
        mentions = sum(counts[number] for number in ranking.mentions.tolist())
        if mentions:
            precisions.append(plain_average_precision(found, mentions, rule))
    return 100 * sum(precisions) / len(precisions) if precisions else 0.0


def hits_of(ranking: PhotoRanking) -> Hits:
    """Walk down the ranking and count the boxes of each photo from one hit to the next."""
    counts, tally = [], np.zeros(PHOTOS, dtype=np.float32)
    for number, finds in zip(ranking.photo.tolist(), ranking.found.tolist(), strict=True):
        tally[number] += 1
        if finds:
            counts.append(tally)
            tally = np.zeros(PHOTOS, dtype=np.float32)
    boxes = np.array(counts, dtype=np.float32).reshape(-1, PHOTOS)
    return Hits(ranking.photo[ranking.found], boxes, ranking.mentions)


@given(
    st.lists(rankings(), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, 3), min_size=PHOTOS, max_size=PHOTOS), min_size=1, max_size=5),
    st.sampled_from(["area", "11-point"]),
)
def test_a_bootstrap_sample_has_the_precision_of_its_expanded_ranking(
    rankings: list[PhotoRanking], samples: list[list[int]], rule: str
) -> None:
    counts = np.array(samples, dtype=float)
    expected = [plain_mean(rankings, sample, rule) for sample in samples]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_ROUNDS_PER_BATCH", 2)
        found = mean_precision(rankings, PHOTOS, rule)(counts)
        from_hits = mean_precision([hits_of(ranking) for ranking in rankings], PHOTOS, rule)(counts)
    assert found.tolist() == pytest.approx(expected)
    assert from_hits.tolist() == pytest.approx(expected)


def test_three_of_ten_reach_a_recall_of_three_tenths() -> None:
    ranking = PhotoRanking(np.array([True] * 3), np.zeros(3, dtype=np.intp), np.zeros(10, dtype=np.intp))
    assert mean_precision([ranking], 1, "11-point")(np.ones((1, 1))).tolist() == pytest.approx([400 / 11])
