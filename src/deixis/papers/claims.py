"""Tests of claims: a row is above another, or equal to it within a margin; corrected for the number of tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison, compare
from deixis.papers.results import RowResult
from deixis.papers.tables import Claim

Verdict = Literal["holds", "does not hold", "cannot tell", "no verdict"]
"""No verdict: there are too few photos or seeds, or the paper has no difference of this direction itself."""

ALPHA = 0.05
MIN_PHOTOS = 300

_NORMAL = NormalDist()


@dataclass(frozen=True)
class ClaimTest:
    """The test of a claim."""

    claim: Claim
    difference: Comparison  # better row minus worse, with a paired interval over photos
    by_seed: tuple[float, ...]  # difference for each seed
    p: float  # of the side that the difference lies on, corrected for the number of tests
    verdict: Verdict


def check_claims(
    claims: Sequence[Claim], ours: Mapping[str, RowResult], *, single: Collection[str] = (), rounds: int = 10_000
) -> Iterator[ClaimTest]:
    """Test the claims whose rows were computed, by a paired bootstrap over photos.

    The claims of the paper and our own comparisons are two families, each corrected by Holm's method. A deterministic
    model is compared with every seed of the other. `single` are the rows of networks of which there is one seed only:
    their claims have no verdict. A claim is left out if its score is not known per photo.
    """
    for is_ours in (False, True):
        family = [claim for claim in claims if claim.is_ours == is_ours and {claim.better, claim.worse} <= ours.keys()]
        compared = [(claim, _compare(claim, ours[claim.better], ours[claim.worse], rounds)) for claim in family]
        tested = [(claim, found) for claim, found in compared if found is not None]
        corrected = correct_for_number([p_value(claim, found) for claim, found in tested])
        for (claim, found), p in zip(tested, corrected, strict=True):
            better, worse = ours[claim.better], ours[claim.worse]
            by_seed = _differences(better.by_seed(claim.score), worse.by_seed(claim.score))
            enough = better.models[0].photos >= MIN_PHOTOS and not {claim.better, claim.worse} & set(single)
            yield ClaimTest(claim, found, by_seed, p, decide(claim, found, by_seed, p) if enough else "no verdict")


def _compare(claim: Claim, better: RowResult, worse: RowResult, rounds: int) -> Comparison | None:
    first, second = better.statistic(claim.score), worse.statistic(claim.score)
    if first is None or second is None:
        return None
    photos = better.models[0].photos
    if photos != worse.models[0].photos:
        raise DeixisError(f"{claim.says}: the two rows were scored on different photos; compute them again")
    return compare(first, second, photos, rounds=rounds)


def p_value(claim: Claim, found: Comparison) -> float:
    """Return the p of a test, uncorrected.

    Of a difference it is that of the bootstrap. Of an equality it is that of the side of the margin that the difference
    lies on, with the deviation that the interval has: two one-sided tests if it lies within, one if beyond.
    """
    if claim.margin is None:
        return found.p
    deviation = (found.high - found.low) / (2 * _NORMAL.inv_cdf(0.975))  # the interval is that of 95 %
    distance = abs(claim.margin - abs(found.difference))
    return _NORMAL.cdf(-distance / deviation) if deviation else 0.0


def correct_for_number(values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number by Holm's method, in the same order.

    Examples
    --------
    >>> correct_for_number([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = min(1.0, max(highest, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected


def decide(claim: Claim, found: Comparison, by_seed: Sequence[float], p: float) -> Verdict:
    """Decide only if the corrected p is small enough and all seeds lie on the side of the mean."""
    if claim.margin is None and claim.published is not None and claim.published <= 0:
        return "no verdict"
    holds, *seeds = [
        value > 0 if claim.margin is None else abs(value) < claim.margin for value in (found.difference, *by_seed)
    ]
    if p >= ALPHA or any(seed != holds for seed in seeds):
        return "cannot tell"
    return "holds" if holds else "does not hold"


def _differences(better: Sequence[float], worse: Sequence[float]) -> tuple[float, ...]:
    """Return the difference for each seed; a deterministic model has one score for all seeds."""
    seeds = max(len(better), len(worse))
    first, second = (list(scores) * seeds if len(scores) == 1 else scores for scores in (better, worse))
    return tuple(a - b for a, b in zip(first, second, strict=True))
