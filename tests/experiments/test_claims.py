"""A claim is decided by photos and by seeds."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison
from deixis.evaluation.retrieval_result import Ranking
from deixis.experiments.claims import Judged, judge, verdict_of
from deixis.experiments.outcomes import Measured, Outcome
from deixis.experiments.records import Claim

CLAIM = Claim("a over b", "a", "b", "r1")
PHOTOS = 200


def outcome(right: np.ndarray) -> Outcome:
    ranks = np.where(right, 1.0, 9.0)
    ranking = Ranking(ranks, np.full(len(ranks), 10), np.arange(len(ranks)), len(ranks))
    return Outcome({"r1": 100 * float(right.mean())}, {"": ranking})


def chances(share: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(PHOTOS) < share


def judged(better: list[np.ndarray], worse: list[np.ndarray]) -> Judged:
    found = judge(CLAIM, Measured([*map(outcome, better)]), Measured([*map(outcome, worse)]), rounds=500)
    assert found is not None
    return found


def test_a_clear_difference_holds() -> None:
    found = judged([chances(0.8, seed) for seed in range(3)], [chances(0.4, 10 + seed) for seed in range(3)])
    assert found.verdict == "holds"
    assert len(found.by_seed) == 3
    assert found.found.difference == pytest.approx(np.mean(found.by_seed))


def test_the_same_difference_the_other_way_round_does_not_hold() -> None:
    found = judged([chances(0.4, seed) for seed in range(3)], [chances(0.8, 10 + seed) for seed in range(3)])
    assert found.verdict == "does not hold"


def test_alike_models_cannot_be_told_apart() -> None:
    found = judged([chances(0.5, seed) for seed in range(3)], [chances(0.5, 20 + seed) for seed in range(3)])
    assert found.verdict == "cannot tell"
    assert found.found.low < 0 < found.found.high


def test_seeds_that_disagree_leave_a_claim_open_however_narrow_the_interval() -> None:
    base = chances(0.5, 1)
    much, less = base.copy(), base.copy()
    much[np.flatnonzero(~base)[:60]] = True
    less[np.flatnonzero(base)[:5]] = False
    found = judged([much, much, less], [base, base, base])
    assert found.found.low > 0
    assert found.by_seed[2] < 0
    assert found.verdict == "cannot tell"


def test_a_model_that_no_seed_changes_stands_beside_every_seed_of_the_other() -> None:
    found = judged([chances(0.8, seed) for seed in range(3)], [chances(0.4, 10)])
    assert len(found.by_seed) == 3
    assert found.verdict == "holds"


def test_pairing_makes_the_interval_narrow() -> None:
    base = chances(0.5, 1)
    slightly = base.copy()
    slightly[np.flatnonzero(~base)[:8]] = True
    assert judged([slightly], [base]).verdict == "holds", "of 8 photos all changed for the better"


def test_rows_scored_on_other_photos_are_refused_and_scores_without_ranks_are_not_judged() -> None:
    with pytest.raises(DeixisError, match="a over b: the two rows were scored on other photos"):
        judge(CLAIM, Measured([outcome(chances(0.5, 1))]), Measured([outcome(chances(0.5, 1)[:50])]))
    assert judge(CLAIM, Measured([Outcome({"r1": 5.0})]), Measured([Outcome({"r1": 4.0})])) is None


def test_an_interval_around_0_decides_nothing_even_where_all_seeds_agree() -> None:
    for difference, seeds in ((0.5, (0.4, 0.6)), (-0.5, (-0.4, -0.6))):
        assert verdict_of(Comparison(difference, -2.0, 2.0, p=0.6), seeds) == "cannot tell"
