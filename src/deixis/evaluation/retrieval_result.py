"""What a retrieval evaluation finds: ranks by direction, scores with intervals, and two systems compared.

R@K is the percentage of queries whose best right answer has rank K or better; `medr` and `meanr` are the median (the
mean of the two in the middle) and the mean of that rank. Intervals draw photos, each with all its queries; the
candidates stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison, Counts, Interval, Statistic, bootstrap_all, compare_all, ratio_of
from deixis.evaluation.ranks import TIE_RULE, FloatArray
from deixis.evaluation.scores import IntArray

JsonValue = str | int | float | None | dict[str, int] | dict[str, list[float] | None]


@dataclass(frozen=True, eq=False)
class Ranking:
    """One direction: for each query that has a right answer, how it fared.

    Attributes
    ----------
    ranks
        The rank of its best right answer; inf where a shortlist held none.
    candidates
        How many answers were ranked.
    units
        The photo it belongs to, as a number from 0.
    photos
        How many photos there are.
    without_positive
        How many queries were left out because they have no right answer.
    """

    ranks: FloatArray
    candidates: IntArray
    units: IntArray
    photos: int
    without_positive: int = 0


@dataclass(frozen=True, eq=False)
class RetrievalResult:
    """The scores of one evaluation. Each score is also an attribute by its JSON name: `result.i2t_r1`.

    Attributes
    ----------
    n
        The number of photos, the units that intervals draw.
    ks
        The Ks of R@K.
    rankings
        Direction (`i2t`, `t2i`, `s2s`, or empty for regions) to its ranks.
    protocol, ties
        What was ranked, and what equal scores do, in words.
    """

    n: int
    ks: tuple[int, ...]
    rankings: Mapping[str, Ranking]
    protocol: str
    ties: str = TIE_RULE

    @cached_property
    def scores(self) -> dict[str, float]:
        """Every score by its JSON name."""
        return {name: _once(statistic, self.n) for name, statistic in self.statistics.items()}

    @cached_property
    def interval(self) -> dict[str, Interval | None]:
        """The 95 % bootstrap interval of every score, worked out when first asked for.

        None for a median or mean rank when some queries have no rank.
        """
        drawn = {name: statistic for name, statistic in self.statistics.items() if _has_interval(self, name)}
        found = bootstrap_all(drawn, self.n)
        return {name: found.get(name) for name in self.statistics}

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """Every score as a statistic over photos, for `deixis.evaluation.intervals`."""
        found = {}
        for direction, ranking in self.rankings.items():
            for name, statistic in _statistics(ranking, self.ks).items():
                found[f"{direction}_{name}" if direction else name] = statistic
        return found

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name not in self.scores:
            raise AttributeError(f"{name!r} is neither an attribute nor a score of this result")
        return self.scores[name]

    def as_json(self) -> dict[str, JsonValue]:
        """Everything as plain JSON values; a score or a bound that is not finite is null."""
        document: dict[str, JsonValue] = {
            "protocol": self.protocol,
            "ties": self.ties,
            "n": self.n,
            "queries": {name or "regions": len(each.ranks) for name, each in self.rankings.items()},
            "without_positive": {name or "regions": each.without_positive for name, each in self.rankings.items()},
        }
        document.update({name: _finite_or_none(value) for name, value in self.scores.items()})
        document["interval"] = {
            name: [bounds.low, bounds.high] if bounds else None for name, bounds in self.interval.items()
        }
        return document


@dataclass(frozen=True, eq=False)
class RecallCurve:
    """Recall, in percent of the queries, against the percentage of each query's ranked list that is looked at."""

    ranking: Ranking
    percentages: tuple[float, ...]

    @cached_property
    def recall(self) -> tuple[float, ...]:
        """The recall at each percentage."""
        return tuple(_once(statistic, self.ranking.photos) for statistic in self._statistics)

    @cached_property
    def interval(self) -> tuple[Interval, ...]:
        """The 95 % bootstrap interval at each percentage, worked out when first asked for."""
        numbered = {str(place): statistic for place, statistic in enumerate(self._statistics)}
        return tuple(bootstrap_all(numbered, self.ranking.photos).values())

    @cached_property
    def _statistics(self) -> list[Statistic]:
        reached = 100 * self.ranking.ranks / self.ranking.candidates
        return [_share_of_queries(self.ranking, reached <= percentage) for percentage in self.percentages]


def recall_curve(ranking: Ranking, percentages: Sequence[float] = tuple(range(1, 101))) -> RecallCurve:
    """Recall against the percentage of each query's ranked list (m-RNN, Figure 6).

    A query is found at p % when 100 · rank / candidates ≤ p.

    Examples
    --------
    >>> ranking = Ranking(np.array([1.0, 4.0]), candidates=np.array([4, 4]), units=np.array([0, 1]), photos=2)
    >>> recall_curve(ranking, (10, 25, 50, 100)).recall
    (0.0, 50.0, 50.0, 100.0)
    """
    if not percentages or not all(0 <= each <= 100 for each in percentages):
        raise DeixisError("percentages: numbers from 0 to 100 are needed")
    return RecallCurve(ranking, tuple(percentages))


def compare_results(a: RetrievalResult, b: RetrievalResult, *, rounds: int = 10_000) -> dict[str, Comparison]:
    """Compare two results of the same protocol on the same queries, score by score: a less b.

    Median and mean rank, of which less is better, are left out when some queries have no rank.
    """
    if a.protocol != b.protocol or a.ks != b.ks or a.n != b.n:
        raise DeixisError("only results of the same photos, protocol and Ks can be compared")
    for direction, ranking in a.rankings.items():
        if not np.array_equal(ranking.units, b.rankings[direction].units):
            raise DeixisError(f"the two results were not asked the same queries ({direction or 'regions'})")
    finite = {name: each for name, each in a.statistics.items() if _has_interval(a, name) and _has_interval(b, name)}
    return compare_all(finite, b.statistics, a.n, rounds=rounds)


def _statistics(ranking: Ranking, ks: Sequence[int]) -> dict[str, Statistic]:
    """The scores of one direction as statistics over photos."""
    found = {f"r{k}": _share_of_queries(ranking, ranking.ranks <= k) for k in ks}
    found["medr"] = _median_of(ranking.ranks, ranking.units)
    found["meanr"] = _mean_over_queries(ranking, ranking.ranks)
    return found


def _share_of_queries(ranking: Ranking, found: npt.NDArray[np.bool_]) -> Statistic:
    """The percentage of the queries for which something is true."""
    return _mean_over_queries(ranking, np.where(found, 100.0, 0.0))


def _mean_over_queries(ranking: Ranking, values: FloatArray) -> Statistic:
    sums = np.bincount(ranking.units, values, ranking.photos)
    return ratio_of(sums, np.bincount(ranking.units, minlength=ranking.photos))


def _median_of(ranks: FloatArray, units: IntArray) -> Statistic:
    """The median rank when each photo, with all its queries, is drawn as often as the counts say."""
    order = np.argsort(ranks, kind="stable")
    sorted_ranks, sorted_units = ranks[order], units[order]

    def median(counts_of_unit: FloatArray) -> float:
        upto = np.cumsum(counts_of_unit[sorted_units])
        middle = np.searchsorted(upto, [(upto[-1] - 1) // 2, upto[-1] // 2], side="right")
        return float(sorted_ranks[np.minimum(middle, len(ranks) - 1)].mean())

    def statistic(counts: Counts) -> FloatArray:
        return np.array([median(each) for each in counts])

    return statistic


def _has_interval(result: RetrievalResult, name: str) -> bool:
    """Whether drawings of a score stay finite: all recalls do, ranks do where every query has one."""
    direction = name.rpartition("_")[0]
    return not name.endswith(("medr", "meanr")) or bool(np.isfinite(result.rankings[direction].ranks).all())


def _once(statistic: Statistic, n: int) -> float:
    """The statistic when each photo is drawn once."""
    return float(statistic(np.ones((1, n)))[0])


def _finite_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None
