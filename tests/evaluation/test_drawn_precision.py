"""Average precision of drawings against rankings written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.evaluation import drawn_precision
from deixis.evaluation.drawn_precision import Finds, PhotoRanking, mean_precision, mean_precision_of_finds
from deixis.evaluation.ranked_boxes import average_precision

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


def plain_mean(given_: list[PhotoRanking], counts: list[int], rule: str) -> float:
    """Write each box and each mention as often as its photo was drawn, and score that ranking."""
    precisions = []
    for ranking in given_:
        found = []
        for number, finds in zip(ranking.photo.tolist(), ranking.found.tolist(), strict=True):
            found += [finds] * counts[number]
        mentions = sum(counts[number] for number in ranking.mentions.tolist())
        if mentions:
            precisions.append(average_precision(np.array(found, dtype=bool), mentions, rule))
    return 100 * sum(precisions) / len(precisions) if precisions else 0.0


@settings(deadline=None)
@given(
    st.lists(rankings(), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, 3), min_size=PHOTOS, max_size=PHOTOS), min_size=1, max_size=5),
    st.sampled_from(["area", "11-point"]),
)
def test_a_drawing_has_the_precision_of_the_ranking_written_out(
    given_: list[PhotoRanking], drawings: list[list[int]], rule: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn_precision, "_ROUNDS_AT_ONCE", 2)
        found = mean_precision(given_, PHOTOS, rule)(np.array(drawings, dtype=float))
    assert found.tolist() == pytest.approx([plain_mean(given_, counts, rule) for counts in drawings])


def only_finds(ranking: PhotoRanking) -> Finds:
    """Walk down the ranking and count the boxes of each photo from one find to the next."""
    counts, tally = [], np.zeros(PHOTOS, dtype=np.float32)
    for number, finds in zip(ranking.photo.tolist(), ranking.found.tolist(), strict=True):
        tally[number] += 1
        if finds:
            counts.append(tally)
            tally = np.zeros(PHOTOS, dtype=np.float32)
    boxes = np.array(counts, dtype=np.float32).reshape(-1, PHOTOS)
    return Finds(ranking.photo[ranking.found], boxes, ranking.mentions)


@settings(deadline=None)
@given(
    st.lists(rankings(), min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, 3), min_size=PHOTOS, max_size=PHOTOS), min_size=1, max_size=5),
    st.sampled_from(["area", "11-point"]),
)
def test_the_finds_of_a_ranking_are_enough(given_: list[PhotoRanking], drawings: list[list[int]], rule: str) -> None:
    counts = np.array(drawings, dtype=float)
    whole, short = (
        mean_precision(given_, PHOTOS, rule),
        mean_precision_of_finds(list(map(only_finds, given_)), PHOTOS, rule),
    )
    assert short(counts).tolist() == pytest.approx(whole(counts).tolist(), abs=1e-9)


def test_a_photo_drawn_three_times_brings_its_wrong_boxes_three_times() -> None:
    ranking = PhotoRanking(np.array([False, True, True]), np.array([1, 0, 1]), np.array([0, 1]))
    counts = np.array([[1.0, 1], [1, 3]])
    assert mean_precision([ranking], 2)(counts).tolist() == pytest.approx([100 * 2 / 3, 100 * 4 / 7])
