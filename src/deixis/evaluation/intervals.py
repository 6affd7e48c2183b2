"""Bootstrap intervals of scores, and paired bootstrap comparisons of two systems.

The unit of resampling is the photo, never the caption: five captions of one photo are not five independent
observations. A bootstrap sample is a row of counts: how often each unit was drawn. A *statistic* maps rows of counts
(rounds, n) to one value per row, which covers means, medians and ratios of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from deixis.arrays import AnyArray, FloatArray, IntArray

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


class PlainResult:
    """A dataclass of scores, intervals and groups of scores."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON; intervals as [low, high]."""
        return {name: to_json(value) for name, value in vars(self).items()}


def to_json(value: Any) -> Any:
    """Convert intervals, results, and mappings of them to plain values."""
    if isinstance(value, Interval):
        return [value.low, value.high]
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    return value.as_json() if isinstance(value, PlainResult) else value


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


def with_intervals(
    statistics: Mapping[str, Statistic], n: int, *, rounds: int, seed: int, centred: bool = False
) -> dict[str, Any]:
    """Return the score of each statistic by name, and their 95 % intervals as `interval`: attributes of a result.

    `centred` intervals are those of `centre_interval`.
    """
    values, intervals = values_of(statistics, n), bootstrap_all(statistics, n, rounds=rounds, seed=seed)
    if centred:
        intervals = {name: centre_interval(values[name], drawn) for name, drawn in intervals.items()}
    return {**values, "interval": intervals}


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
    """A result whose `scores` are also attributes by their names: `result.r1`."""

    scores: Any  # dict[str, float], of a dataclass or computed on first use

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name == "scores" or name not in self.scores:
            raise AttributeError(f"{name!r} is not an attribute or a score of this result")
        return float(self.scores[name])


@dataclass(frozen=True)
class GroupScores(NamedScores, PlainResult):
    """The scores of a group of queries, such as the mentions of one type; each is also an attribute by its name."""

    # Number of queries and of their photos; intervals of groups in few photos are too narrow
    n: int
    photos: int
    scores: dict[str, float]  # every score by its name
    # The 95 % interval of each score over the samples with a query of the group, or None
    interval: Mapping[str, Interval | None]
    no_interval: str | None  # the reason if there is no interval

    def as_json(self) -> dict[str, Any]:
        document = super().as_json()
        return {**document.pop("scores"), **document}


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
        found[name] = GroupScores(len(photo), photos[name], scores, interval, reason)
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
