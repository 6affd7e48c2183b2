"""Bootstrap intervals of scores, and paired bootstrap comparisons of two systems.

The unit of resampling is the photo, never the caption: five captions of one photo are not five independent
observations. A bootstrap sample is a row of counts: how often each unit was drawn. A *statistic* maps rows of counts
(rounds, n) to one value per row, which covers means, medians and ratios of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from deixis.arrays import AnyArray, FloatArray, IntArray
from deixis.errors import DeixisError

Counts = FloatArray
Statistic = Callable[[Counts], FloatArray]
Key = TypeVar("Key", bound=Hashable)

_CELLS_PER_BATCH = 4_000_000
_LEVEL = 0.95
_QUANTILES = ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2)
_ROUNDS_PER_BATCH = 100

ONE_PHOTO = "all mentions are in one photo"
NO_SAMPLE = "no bootstrap sample has a mention"


@dataclass(frozen=True)
class Interval:
    """The 95 % bootstrap percentile interval of a score."""

    low: float
    high: float


def to_json(value: Any) -> Any:
    """Return plain values: intervals as [low, high], results as objects; numbers that are not finite are None."""
    match value:
        case Interval():
            return [value.low, value.high]
        case Mapping():
            return {key: to_json(each) for key, each in value.items()}
        case NamedScores():
            return value.as_json()
        case tuple() if hasattr(value, "_asdict"):
            return value._asdict()
        case float() if not np.isfinite(value):
            return None
    return value


@dataclass(frozen=True)
class Comparison:
    """The difference a - b of two systems on the same units, with its 95 % interval.

    `p` is two-sided: twice the smaller fraction of samples on either side of 0, at least 2 / (rounds + 1).
    """

    difference: float
    low: float
    high: float
    p: float


def mean_of(values: npt.ArrayLike) -> Statistic:
    """Return the mean of one value per unit, as a statistic."""
    column = np.asarray(values, dtype=np.float64)
    return lambda counts: np.asarray((counts @ column) / counts.sum(axis=1))


def ratio_of(numerators: npt.ArrayLike, denominators: npt.ArrayLike) -> Statistic:
    """Return the ratio of two sums over units, as a statistic, for example recall over captions when photos are drawn.

    A sample whose denominators are all 0 gives 0.
    """
    top, bottom = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)

    def statistic(counts: Counts) -> FloatArray:
        total = counts @ bottom
        return np.asarray(np.divide(counts @ top, total, out=np.zeros_like(total), where=total > 0))

    return statistic


def mean_over(values: npt.ArrayLike, unit: IntArray, n: int) -> Statistic:
    """Return the mean of one value per query, as a statistic; `unit` is the unit of each query, of `n`."""
    return ratio_of(np.bincount(unit, values, n), np.bincount(unit, minlength=n))


def number_units(names: Iterable[Hashable]) -> tuple[IntArray, int]:
    """Number units by their names, in the order of first occurrence; return the number of each, and how many differ."""
    numbers: dict[Hashable, int] = {}
    found = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)
    return found, len(numbers)


def perplexity_of(bits: npt.ArrayLike, words: npt.ArrayLike) -> Statistic:
    """Return a statistic: the perplexity (base 2) of words, given the bits and the number of words of each unit."""
    mean_bits = ratio_of(bits, words)
    return lambda counts: np.exp2(mean_bits(counts))


def values_of(statistics: Mapping[Key, Statistic], n: int) -> dict[Key, float]:
    """Return the value of each statistic on the data itself."""
    once = np.ones((1, n))
    return {name: float(statistic(once)[0]) for name, statistic in statistics.items()}


def centre_interval(score: float, bootstrapped: Interval) -> Interval:
    """Centre the bootstrap interval of an average precision on the score.

    A hit that is drawn twice counts twice at its rank, so that the low precisions of rare phrases are a third or more
    higher in bootstrap samples. The samples show how much the score varies, but not around which value.
    """
    half = (bootstrapped.high - bootstrapped.low) / 2
    return Interval(max(score - half, 0.0), min(score + half, 100.0))


def in_batches(of_samples: Callable[[AnyArray], FloatArray], counts: AnyArray) -> FloatArray:
    """Apply a function of counts (n, rounds) to rows of counts (rounds, n), in batches that bound memory."""
    parts = range(0, len(counts), _ROUNDS_PER_BATCH)
    return np.concatenate([of_samples(np.ascontiguousarray(counts[at : at + _ROUNDS_PER_BATCH].T)) for at in parts])


def bootstrap(statistic: Statistic, n: int, *, rounds: int = 1000, seed: int = 0) -> Interval:
    """Compute the percentile bootstrap interval of a statistic over `n` units."""
    return bootstrap_all({"": statistic}, n, rounds=rounds, seed=seed)[""]


def bootstrap_all(
    statistics: Mapping[Key, Statistic], n: int, *, rounds: int = 1000, seed: int = 0
) -> dict[Key, Interval]:
    """Compute the intervals of several statistics over the same `n` units, from the same samples.

    Samples for which a statistic is nan are left out; a statistic without any other has no interval.
    """
    values: dict[Key, list[FloatArray]] = {key: [] for key in statistics}
    for counts in _samples(n, rounds, seed):
        for key, statistic in statistics.items():
            value = statistic(counts)
            values[key].append(value[~np.isnan(value)])
    return {key: _percentile_interval(joined) for key, drawn in values.items() if len(joined := np.concatenate(drawn))}


class NamedScores:
    """Scores, their intervals and what they are of, such as the protocol; each is also an attribute by its name."""

    about: Mapping[str, Any]
    scores: Mapping[str, Any]
    interval: Any  # Mapping[str, Interval | None]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name not in NamedScores.__annotations__:
            for values in (self.scores, self.about):
                if name in values:
                    return values[name]
        raise AttributeError(f"{name!r} is not an attribute or a score of this result")

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON; intervals as [low, high]."""
        return {**to_json(self.about), **to_json(self.scores), "interval": to_json(self.interval)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(NamedScores):
    """The scores of a system. Each score, and each entry of `about`, is also an attribute by its name: `result.r1`.

    Attributes
    ----------
    about
        What the scores are of: the protocol, numbers of queries and photos, scores of groups.
    scores
        Every score by its name; None if it does not apply.
    statistics
        The scores that have an interval, as statistics over the units.
    units
        Number of photos, the units of the bootstrap.
    interval
        The 95 % bootstrap interval of each score that has one, computed on first use.
    """

    about: Mapping[str, Any]
    scores: Mapping[str, Any]
    statistics: Mapping[str, Statistic] = field(repr=False)
    units: int
    rounds: int = 1000
    centred: Container[str] = ()  # scores whose intervals are those of `centre_interval`

    @classmethod
    def of(
        cls,
        about: Mapping[str, Any],
        statistics: Mapping[str, Statistic],
        units: int,
        *,
        rounds: int = 1000,
        centred: Container[str] = (),
        others: Mapping[str, Any] | None = None,
    ) -> Self:
        """Compute the scores of statistics. `others` are those without an interval, unless there is a statistic."""
        scores: dict[str, Any] = values_of(statistics, units)
        scores |= {name: value for name, value in (others or {}).items() if name not in scores}
        return cls(about=about, scores=scores, statistics=statistics, units=units, rounds=rounds, centred=centred)

    @cached_property
    def interval(self) -> dict[str, Interval | None]:
        drawn = bootstrap_all(self.statistics, self.units, rounds=self.rounds)
        return {
            name: centre_interval(self.scores[name], bounds) if name in self.centred else bounds
            for name, bounds in drawn.items()
        }

    def compare(self, other: Result, *, rounds: int = 10_000) -> dict[str, Comparison]:
        """Compare two systems on the same photos by the paired bootstrap: the difference self - other of each score."""
        if self.units != other.units or self.about.get("protocol") != other.about.get("protocol"):
            raise DeixisError("cannot compare: the results differ in photos or protocol")
        return compare_all(self.statistics, other.statistics, self.units, rounds=rounds)


@dataclass(frozen=True)
class GroupScores(NamedScores):
    """The scores of a group of queries, such as the mentions of one type.

    `n` queries are in so many `photos`; intervals of groups in few photos are too narrow. The interval of each score is
    over the samples with a query of the group; without one, it is None, and `no_interval` says why.
    """

    scores: dict[str, Any]
    about: Mapping[str, Any]
    interval: Mapping[str, Interval | None]


def bootstrap_groups(
    groups: Mapping[str, tuple[AnyArray, Mapping[str, Statistic]]],
    n: int,
    *,
    rounds: int = 1000,
    seed: int = 0,
    centred: bool = False,
) -> dict[str, GroupScores]:
    """Score groups of queries separately, with intervals from the same samples of `n` photos.

    A group is the photo index of each of its queries, and its scores as statistics. `centred` intervals are those of
    `centre_interval`.
    """
    queries = {name: np.bincount(photo, minlength=n) for name, (photo, _) in groups.items()}
    photos = {name: int(np.count_nonzero(counts)) for name, counts in queries.items()}
    statistics = {
        (name, score): _in_samples_with(queries[name], statistic)
        for name, (_, by_score) in groups.items()
        if photos[name] > 1
        for score, statistic in by_score.items()
    }
    bounds = bootstrap_all(statistics, n, rounds=rounds, seed=seed)
    found = {}
    for name, (photo, by_score) in groups.items():
        scores = values_of(by_score, n)
        interval = {score: bounds.get((name, score)) for score in by_score}
        reason = None if all(interval.values()) else ONE_PHOTO if photos[name] == 1 else NO_SAMPLE
        if centred:
            interval = {score: drawn and centre_interval(scores[score], drawn) for score, drawn in interval.items()}
        about = {"n": len(photo), "photos": photos[name], "no_interval": reason}
        found[name] = GroupScores(scores, about, interval)
    return found


def _in_samples_with(queries: IntArray, statistic: Statistic) -> Statistic:
    """A statistic that is nan in samples without a query."""
    return lambda counts: np.where(counts @ queries > 0, statistic(counts), np.nan)


def compare(a: Statistic, b: Statistic, n: int, *, rounds: int = 10_000, seed: int = 0) -> Comparison:
    """Compare two systems on the same `n` units by the paired bootstrap."""
    return compare_all({"": a}, {"": b}, n, rounds=rounds, seed=seed)[""]


def compare_all(
    a: Mapping[str, Statistic], b: Mapping[str, Statistic], n: int, *, rounds: int = 10_000, seed: int = 0
) -> dict[str, Comparison]:
    """Compare two systems by every statistic that both have, from the same samples of `n` units."""
    values: dict[str, list[FloatArray]] = {name: [] for name in a if name in b}
    for counts in _samples(n, rounds, seed):
        for name, drawn in values.items():
            drawn.append(a[name](counts) - b[name](counts))
    once = np.ones((1, n))
    return {
        name: _comparison(float((a[name](once) - b[name](once))[0]), np.concatenate(drawn))
        for name, drawn in values.items()
    }


def _comparison(difference: float, drawn: FloatArray) -> Comparison:
    interval = _percentile_interval(drawn)
    one_side = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    p = min(1.0, 2 * (one_side + 1) / (len(drawn) + 1))
    return Comparison(difference, interval.low, interval.high, p)


def _percentile_interval(values: FloatArray) -> Interval:
    low, high = np.quantile(values, _QUANTILES)
    return Interval(float(low), float(high))


def _samples(n: int, rounds: int, seed: int) -> Iterator[Counts]:
    """Rows of counts, in batches that bound memory."""
    if n < 1:
        raise ValueError("the bootstrap needs at least one unit")
    rng = np.random.default_rng(seed)
    batch_size = max(1, _CELLS_PER_BATCH // n)
    for begin in range(0, rounds, batch_size):
        rows = min(batch_size, rounds - begin)
        drawn = rng.integers(0, n, size=(rows, n)) + np.arange(rows)[:, None] * n
        yield np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
