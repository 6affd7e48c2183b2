"""Tests of claims: of a difference and of an equality, with the number of tests, of seeds and of photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.captions import caption_scores, compare_captions
from deixis.evaluation.intervals import Comparison, values_of
from deixis.evaluation.retrieval import Ranking
from deixis.papers.claims import ALPHA, MIN_PHOTOS, ClaimTest, check_claims, correct_for_number, decide, p_value
from deixis.papers.results import ModelScores, RowResult, score_caption_texts
from deixis.papers.tables import Claim

CLAIM = Claim("a over b", "a", "b", "r1")
EQUAL = replace(CLAIM, says="a is like b", margin=5.0)
PHOTOS = MIN_PHOTOS


def scores(correct: np.ndarray) -> ModelScores:
    ranks = np.where(correct, 1.0, 9.0)
    ranking = Ranking(ranks, np.full(len(ranks), 10), np.arange(len(ranks)), len(ranks))
    return ModelScores({"r1": 100 * float(correct.mean())}, {"": ranking})


def sample_correct(share: float, seed: int, photos: int = PHOTOS) -> np.ndarray:
    return np.random.default_rng(seed).random(photos) < share


def changed(base: np.ndarray, better: int) -> np.ndarray:
    """With this number of photos more (or, if negative, fewer) that are correct."""
    found = base.copy()
    found[np.flatnonzero(base if better < 0 else ~base)[: abs(better)]] = better > 0
    return found


def check(better: Sequence[np.ndarray], worse: Sequence[np.ndarray], *claims: Claim, single: str = "") -> ClaimTest:
    rows = {key: RowResult([*map(scores, each)]) for key, each in (("a", better), ("b", worse))}
    return next(check_claims(claims or (CLAIM,), rows, single=single, rounds=500))


@pytest.mark.parametrize(
    ("better", "worse", "verdict"), [(0.8, 0.4, "holds"), (0.4, 0.8, "does not hold"), (0.5, 0.5, "cannot tell")]
)
def test_only_a_clear_difference_decides_a_claim(better: float, worse: float, verdict: str) -> None:
    found = check(
        [sample_correct(better, seed) for seed in range(3)], [sample_correct(worse, 20 + seed) for seed in range(3)]
    )
    assert found.verdict == verdict
    assert len(found.by_seed) == 3
    assert found.difference.difference == pytest.approx(np.mean(found.by_seed))
    assert (found.p > ALPHA) == (verdict == "cannot tell")


@pytest.mark.parametrize(("more", "verdict"), [(0, "holds"), (3, "holds"), (15, "cannot tell"), (60, "does not hold")])
def test_an_equality_holds_only_well_within_its_margin(more: int, verdict: str) -> None:
    base = changed(sample_correct(0.5, 1), -5)  # five photos of 300 always differ, in both directions
    both = [changed(changed(base, more), 5)], [changed(base, 5)[::1]]
    found = check(*both, EQUAL)
    assert found.verdict == verdict
    assert check(both[1], both[0], EQUAL).verdict == verdict, "both directions are alike"


def test_the_p_of_an_equality_is_that_of_two_one_sided_tests() -> None:
    found = Comparison(1.0, 1.0 - 1.96, 1.0 + 1.96, p=0.3)  # a deviation of 1
    assert p_value(replace(EQUAL, margin=3.0), found) == pytest.approx(0.0228, abs=1e-3)  # two deviations within
    assert p_value(replace(EQUAL, margin=0.0), found) == pytest.approx(0.1587, abs=1e-3)  # one deviation beyond
    assert p_value(CLAIM, found) == 0.3


def test_p_is_corrected_for_the_number_of_claims_and_that_of_comparisons() -> None:
    values = [0.04, 0.001, 0.02]
    assert correct_for_number(values) == pytest.approx([0.04, 0.003, 0.04])
    assert correct_for_number([0.6, 0.7]) == [1.0, 1.0]
    better, worse = [changed(sample_correct(0.5, 1), 12)], [sample_correct(0.5, 1)]
    ours = [replace(CLAIM, is_ours=True)] * 30
    alone, among = check(better, worse, CLAIM, *ours), check(better, worse, *[CLAIM] * 30)
    assert among.p == pytest.approx(30 * alone.p)
    assert alone.p == alone.difference.p, "the comparisons of our own are corrected apart"


def test_seeds_that_disagree_leave_a_claim_undecided() -> None:
    base = sample_correct(0.5, 1)
    better, worse = changed(base, 60), changed(base, -5)
    found = check([better, better, worse], [base, base, base])
    assert found.difference.low > 0
    assert found.by_seed[2] < 0
    assert found.verdict == "cannot tell"
    [first, last] = (0.1, 0.2), (0.1, 6.0)
    within = Comparison(2.0, 1.5, 2.5, p=0.01)
    assert [decide(EQUAL, within, seeds, 0.01) for seeds in (first, last)] == ["holds", "cannot tell"]


def test_a_deterministic_model_is_compared_with_every_seed_of_the_other() -> None:
    found = check([sample_correct(0.8, seed) for seed in range(3)], [sample_correct(0.4, 10)])
    assert len(found.by_seed) == 3
    assert found.verdict == "holds"


def test_pairing_makes_the_interval_narrow() -> None:
    base = sample_correct(0.5, 1)
    assert check([changed(base, 8)], [base]).verdict == "holds", "all of 8 changed photos improved"


def test_few_photos_one_seed_or_no_published_difference_give_no_verdict() -> None:
    few = [sample_correct(share, 1, MIN_PHOTOS - 1) for share in (0.9, 0.1)]
    clear = [sample_correct(share, 1) for share in (0.9, 0.1)]
    assert check([clear[0]], [clear[1]]).verdict == "holds"
    assert check([few[0]], [few[1]]).verdict == "no verdict"
    assert check([clear[0]], [clear[1]], single="a").verdict == "no verdict"
    for published, verdict in ((0.0, "no verdict"), (-1.0, "no verdict"), (0.1, "holds"), (None, "holds")):
        assert check([clear[0]], [clear[1]], replace(CLAIM, published=published)).verdict == verdict


def test_rows_must_be_scored_on_the_same_photos_and_have_ranks() -> None:
    with pytest.raises(DeixisError, match="a over b"):
        check([sample_correct(0.5, 1)], [sample_correct(0.5, 1)[:50]])
    rows = {key: RowResult([ModelScores({"r1": 5.0})]) for key in "ab"}
    assert list(check_claims([CLAIM], rows)) == []
    assert list(check_claims([CLAIM], {"a": rows["a"]})) == []


REFERENCES = {str(number): ("a dog runs in the snow", "the dog is running") for number in range(PHOTOS)}


def captions_with_mistakes(wrong: int) -> ModelScores:
    made = {photo: "a dog runs in snow" if int(photo) >= wrong else "a cat" for photo in REFERENCES}
    captions = {photo: (made[photo], REFERENCES[photo]) for photo in REFERENCES}
    found = score_caption_texts(captions)
    return ModelScores(values_of(found.statistics, found.n), captions=captions)


def test_claims_about_captions_are_tested_over_photos() -> None:
    rows = {key: captions_with_mistakes(wrong) for key, wrong in (("a", 50), ("b", 150))}
    claim = Claim("a over b", "a", "b", "bleu1")
    [found] = check_claims([claim], {key: RowResult([each]) for key, each in rows.items()}, rounds=500)
    made = ({photo: text for photo, (text, _) in each.captions.items()} for each in rows.values())
    plain = compare_captions(*(caption_scores(each, REFERENCES) for each in made), rounds=500)["bleu1"]
    assert found.verdict == "holds"
    assert (found.difference.low, found.difference.high) == pytest.approx((plain.low, plain.high))
