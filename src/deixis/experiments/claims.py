"""Whether what a paper says of two variants holds on other data.

Both variants are scored on the same photos. For each drawing of photos the scores are averaged over the seeds, and
their difference is taken: that is the paired interval. It says how far other photos would change the answer. How far
other seeds would is said by the differences seed by seed, of which there are too few for an interval of their own; so
a claim is decided only where all of them point the same way as the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison, compare
from deixis.experiments.outcomes import Measured
from deixis.experiments.records import Claim

Verdict = Literal["holds", "does not hold", "cannot tell"]


@dataclass(frozen=True)
class Judged:
    """A claim and what our measurements say of it.

    Attributes
    ----------
    claim
        What the paper says.
    found
        The better row less the worse, with a paired interval over photos.
    by_seed
        The same difference for each seed.
    verdict
        holds, does not hold (the difference is the other way round), or cannot tell.
    """

    claim: Claim
    found: Comparison
    by_seed: tuple[float, ...]
    verdict: Verdict


def judge(claim: Claim, better: Measured, worse: Measured, *, rounds: int = 10_000) -> Judged | None:
    """Judge a claim; None where the score has no photo-by-photo outcomes.

    Parameters
    ----------
    claim
        What is claimed.
    better, worse
        What was measured of its two rows. A model that no seed changes stands beside every seed of the other.
    rounds
        Drawings of photos.
    """
    ours, theirs = better.statistic(claim.score), worse.statistic(claim.score)
    if ours is None or theirs is None:
        return None
    photos = better.outcomes[0].photos
    if photos != worse.outcomes[0].photos:
        raise DeixisError(f"{claim.says}: the two rows were scored on other photos; measure them again")
    found = compare(ours, theirs, photos, rounds=rounds)
    by_seed = _differences(better.by_seed(claim.score), worse.by_seed(claim.score))
    return Judged(claim, found, by_seed, verdict_of(found, by_seed))


def verdict_of(found: Comparison, by_seed: tuple[float, ...]) -> Verdict:
    """Decide only where the interval leaves out 0 and every seed points the same way.

    Examples
    --------
    >>> verdict_of(Comparison(1.2, 0.3, 2.0, p=0.01), (1.0, 1.4))
    'holds'
    >>> verdict_of(Comparison(1.2, 0.3, 2.0, p=0.01), (-0.2, 2.6))
    'cannot tell'
    """
    if found.low > 0 and all(difference > 0 for difference in by_seed):
        return "holds"
    if found.high < 0 and all(difference < 0 for difference in by_seed):
        return "does not hold"
    return "cannot tell"


def _differences(better: tuple[float, ...], worse: tuple[float, ...]) -> tuple[float, ...]:
    """Seed by seed; the score of a model without seeds is the same for all."""
    seeds = max(len(better), len(worse))
    first, second = (scores * seeds if len(scores) == 1 else scores for scores in (better, worse))
    return tuple(a - b for a, b in zip(first, second, strict=True))
