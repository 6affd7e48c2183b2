"""Fit the calibration of search to trials of several sources, and evaluate it on each source apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from deixis.arrays import AnyArray, BoolArray, FloatArray, Floats, IntArray, logistic
from deixis.evaluation.calibration import Score, bootstrap_scores, calibration_error, calibration_error_of
from deixis.evaluation.intervals import Statistic, mean_over
from deixis.models.calibrator import Inside, LogisticCalibrator, conditional_logit, random_halves
from deixis.search.calibration import FEATURES, MONOTONE, Calibration, QueryBank, Threshold, WordPrior, features
from deixis.search.trial import ABSENT, CAPTION, KINDS, PHRASE, Trial, TrialQuery

SIZES = (20, 50, 100, 200, 400, 800)
"""Sizes of the random smaller indexes, so that the effect of the index size is fitted too."""

OWN_FIRST = "captions, own photo first"
"""The score for how many captions rank the photo that they come from first: R@1 of the whole search."""

SURE = 0.6
"""Results with at least this probability are counted as sure."""

_TOP_PHOTOS = 30
"""Number of best photos per query to fit on: those that a search could show."""

_MAX_RESULTS = 10
_MIN_FOUND = {CAPTION: 0.87, PHRASE: 0.82}
"""Fractions of queries that must find something in every source, on the photos of the fit: a few points more do in an
index of twice as many photos."""

_MIN_ALIKE = 0.87
"""Fraction of photos that must have a similar one."""

_MIN_SURE_CORRECT = 0.62
_MAX_ERROR = 0.045
"""Goals on the photos of the fit, with a margin for other photos: fraction correct of sure results, and calibration
error."""

_MIN_SURE = 30
"""Number of sure results of a source below which their fraction correct is not used."""

_OFFSETS, _SLOPES = (-0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2), (0.9, 1.0, 1.1)
_BENDS, _FLATTER = (-0.8, -0.4, 0.0, 0.4), (0.5, 0.6, 0.7, 0.8, 1.0)
"""Lines that are tried: offsets and slopes, the logit from which another line is lower, and its share of the slope."""

_MIN_LIKENESS = -3.0
"""Minimum logit (5 %) of a similar photo."""

IDENTITY = ((0.0, 1.0),)
NO_THRESHOLD = Threshold((1,), (-100.0,))
"""Shows all photos."""


def fit_calibration(
    trials: Sequence[Trial], fingerprint: str, bank: QueryBank, *, inside: Inside | None = None, seed: int = 0
) -> Calibration:
    """Fit the calibration to photos and their queries. All sources and kinds of queries have the same weight.

    `bank` is that of the trials, `inside` the photos to fit on (default: all), `seed` that of the smaller indexes.
    """
    inside = inside or {trial.name: np.ones(len(trial), dtype=bool) for trial in trials}
    rng = np.random.default_rng(seed)
    own = {trial.name: [query for query in trial.queries if inside[trial.name][query.photo]] for trial in trials}
    prior = fit_prior(trials, own, inside)
    background = np.mean([trial.vectors[inside[trial.name]].mean(axis=0) for trial in trials], axis=0)
    rows, answers, shares = [], [], []
    for trial in trials:
        counts = Counter(query.kind for query in own[trial.name])
        for query in own[trial.name]:
            indices, size = _sample_index(query, inside[trial.name], rng)
            rows.append(features(query.evidence.take(indices), size, prior, background))
            answers.append(query.relevant[indices])
            shares.append(1 / counts[query.kind])
    weights = _fit_weights(rows, answers, shares)
    like = _fit_likeness(trials, inside, rng)
    plain = Calibration(
        fingerprint,
        tuple(weights.tolist()),
        IDENTITY,
        tuple(round(float(value), 6) for value in background),
        bank,
        prior,
        NO_THRESHOLD,
        NO_THRESHOLD,
        (like[0], like[1], like[2]),
        NO_THRESHOLD,
    )
    thresholds: list[Threshold] = []
    for kind in (CAPTION, PHRASE):
        best = {}
        for trial in trials:
            of_kind = [query for query in own[trial.name] if query.kind == kind]
            if of_kind:
                best[trial.name] = partial_best(of_kind, inside[trial.name], plain, rng)
        thresholds.append(_fit_threshold(best, inside, _MIN_FOUND[kind]) if best else thresholds[-1])
    plain = replace(plain, threshold=thresholds[0], short_threshold=thresholds[1])
    shown = [_shown(own[trial.name], inside[trial.name], plain) for trial in trials]
    lines = _fit_lines(shown)
    likeness = {
        trial.name: partial_likeness(trial.cosines, inside[trial.name], plain.similarity_logits, rng)
        for trial in trials
    }
    return replace(
        plain,
        lines=lines,
        threshold=_moved(plain.threshold, lines),
        short_threshold=_moved(plain.short_threshold, lines),
        similarity_threshold=_fit_threshold(likeness, inside, _MIN_ALIKE),
    )


def _fit_weights(rows: Sequence[Floats], answers: Sequence[BoolArray], shares: Sequence[float]) -> FloatArray:
    """Weights of the features, given the best photos of each query: the scores are weighted as they rank best.

    Then a regression scales the weighted sum of the scores and weights the rest. A regression on all features would
    weight scores by how they differ between queries, too, and rank worse.
    """
    ranked = [number for number, answer in enumerate(answers) if answer.any() and not answer.all()]
    of_scores = conditional_logit(
        [rows[number][:, MONOTONE] for number in ranked],
        [answers[number] for number in ranked],
        [shares[number] for number in ranked],
    )
    every = np.concatenate(rows)
    is_score = np.zeros(FEATURES, dtype=bool)
    is_score[MONOTONE] = True
    score = (every[:, is_score] @ of_scores).astype(np.float32)
    others = every[:, ~is_score][:, 1:]
    found = LogisticCalibrator.fit(
        np.concatenate([others, score[:, None]], axis=1),
        np.concatenate(answers),
        np.repeat(shares, [len(each) for each in rows]),
        non_negative=[others.shape[1]],
    ).weights
    weights = np.zeros(FEATURES)
    weights[~is_score], weights[is_score] = found[:-1], found[-1] * of_scores
    return weights


def fit_prior(trials: Sequence[Trial], own: Mapping[str, Sequence[TrialQuery]], inside: Inside) -> WordPrior:
    """Fit a line to the log fractions of photos that are relevant to phrases."""
    phrases = [(query, inside[trial.name]) for trial in trials for query in own[trial.name] if query.kind == PHRASE]
    shares = np.array([query.relevant[photos].mean() for query, photos in phrases])
    words = np.array([query.evidence.words.log_frequency for query, _ in phrases])
    slope, bias = np.polyfit(words[shares > 0], np.log(shares[shares > 0]), 1)
    return WordPrior(float(bias), float(slope))


def _sample_index(query: TrialQuery, inside: BoolArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """The best photos of a random smaller index, which contains the photo of the query unless absent, and its size."""
    pool = np.flatnonzero(inside)
    size = min(int(rng.choice(SIZES)), len(pool))
    indices = rng.choice(pool, size, replace=False)
    if query.kind != ABSENT:
        indices = np.union1d(indices, [query.photo])
    order = np.argsort(-query.evidence.whole[indices])
    return indices[order[:_TOP_PHOTOS]], len(indices)


def _fit_likeness(trials: Sequence[Trial], inside: Inside, rng: np.random.Generator) -> tuple[float, ...]:
    """Weights of the bias, the cosine and the logarithm of the number of photos."""
    rows, answers, shares = [], [], []
    for trial in trials:
        pool = np.flatnonzero(inside[trial.name])
        for photo in pool:
            size = min(int(rng.choice(SIZES)), len(pool))
            others = rng.choice(pool[pool != photo], size - 1, replace=False)
            nearest = others[np.argsort(-trial.cosines[photo, others])[:_TOP_PHOTOS]]
            ones = np.ones(len(nearest))
            rows.append(np.stack([trial.cosines[photo, nearest], ones * np.log(size)], axis=1))
            answers.append(trial.alike[photo, nearest])
            shares.append(ones / len(pool))
    fitted = LogisticCalibrator.fit(np.concatenate(rows), np.concatenate(answers), np.concatenate(shares))
    return fitted.weights


BestLogits = Callable[[int], Sequence[float] | Floats]
"""For a size, the highest logits of queries in an index of that size."""


def partial_best(
    queries: Sequence[TrialQuery], inside: BoolArray, calibration: Calibration, rng: np.random.Generator
) -> BestLogits:
    """Return a function that gives the highest logit of each query in smaller indexes that contain its photo."""
    pool = np.flatnonzero(inside)

    def best(query: TrialQuery, size: int) -> float:
        indices = np.append(rng.choice(pool, size - 1, replace=False), query.photo)
        return -np.inf if query.is_unknown else float(calibration.logits(query.evidence.take(indices), size).max())

    return lambda size: [best(query, size) for query in queries]


def partial_likeness(
    cosines: Floats, inside: BoolArray, logits: Callable[[Floats, int], Floats], rng: np.random.Generator
) -> BestLogits:
    """Return a function that gives the highest likeness logit of each photo in smaller indexes."""

    def best(size: int) -> Floats:
        indices = rng.choice(np.flatnonzero(inside), size, replace=False)
        among = cosines[np.ix_(indices, indices)] - 2 * np.eye(size, dtype=np.float32)
        return np.maximum(logits(among.max(axis=1), size), _MIN_LIKENESS)

    return best


def _fit_threshold(best_of: Mapping[str, BestLogits], inside: Inside, min_found: float) -> Threshold:
    """The cut-off at which this share of queries finds something in every source, for several index sizes.

    Beyond the photos of a source, its cut-off changes like that of the largest source.
    """
    counts = {name: int(inside[name].sum()) for name in best_of}
    largest = max(counts, key=lambda name: counts[name])
    sizes = (*(size for size in SIZES if size < counts[largest]), counts[largest])
    floors = {
        name: {size: float(np.quantile(best_in(size), 1 - min_found)) for size in sizes if size <= counts[name]}
        for name, best_in in best_of.items()
    }
    reference = floors[largest]

    def floor_at(size: int, known: Mapping[int, float]) -> float:
        last = max(other for other in known if other <= size)
        return known[last] + reference[size] - reference[last]

    lowest = [min(floor_at(size, known) for known in floors.values() if known) for size in sizes]
    return Threshold(sizes, tuple(round(floor, 4) for floor in lowest))


def _moved(threshold: Threshold, lines: Lines) -> Threshold:
    return Threshold(threshold.sizes, tuple(_lowest(lines, np.array(threshold.logits)).round(4).tolist()))


@dataclass(frozen=True)
class _Shown:
    """Logits and relevance of the best photos of each query, and its cut-off."""

    logits: FloatArray  # (queries, photos)
    relevant: BoolArray  # (queries, photos)
    cut_off: FloatArray  # (queries, 1)


def _shown(queries: Sequence[TrialQuery], inside: BoolArray, calibration: Calibration) -> _Shown:
    photos = np.flatnonzero(inside)
    logits, relevant, cut_offs = [], [], []
    for query in queries:
        if not query.is_unknown:
            of_query = calibration.logits(query.evidence.take(photos), len(photos))
            top = np.argsort(-of_query)[:_MAX_RESULTS]
            logits.append(of_query[top])
            relevant.append(query.relevant[photos[top]])
            cut_offs.append([calibration.cut_off(query.evidence.words.count, len(photos))])
    return _Shown(np.stack(logits).astype(np.float64), np.stack(relevant), np.array(cut_offs))


Lines = tuple[tuple[float, float], ...]


def _fit_lines(shown: Sequence[_Shown]) -> Lines:
    """Two lines whose lowest value is the logit: where the worst miss of a goal for a source is smallest.

    The goals are for sure results and for the calibration error of every source.
    """
    if len(shown) < 2:
        return IDENTITY
    candidates: list[Lines] = []
    for offset, slope, bend, flat in product(_OFFSETS, _SLOPES, _BENDS, _FLATTER):
        above = round(offset + (1 - flat) * slope * bend, 4), round(flat * slope, 4)
        candidates.append(((offset, slope), above))
    misses = [max(_miss(*_results(each, lines)) for each in shown) for lines in candidates]
    return candidates[int(np.argmin(misses))]


def _miss(probabilities: FloatArray, correct: BoolArray) -> float:
    """The largest factor by which a goal is missed; at most 1 if both are met."""
    sure = probabilities >= SURE
    miss_of_sure = _MIN_SURE_CORRECT / max(float(correct[sure].mean()), 0.01) if sure.sum() >= _MIN_SURE else 0.0
    return max(miss_of_sure, calibration_error(probabilities, correct) / _MAX_ERROR)


def _lowest(lines: Lines, logits: FloatArray) -> FloatArray:
    return np.asarray(np.min([offset + slope * logits for offset, slope in lines], axis=0))


def _results(shown: _Shown, lines: Lines) -> tuple[FloatArray, BoolArray]:
    """Probabilities and correctness of what would be shown."""
    logits = _lowest(lines, shown.logits)
    log_probabilities = -np.logaddexp(0, -logits)
    near_best = log_probabilities >= log_probabilities[:, :1] + np.log(1 / 3)
    kept = (shown.logits >= shown.cut_off) & near_best
    return np.exp(log_probabilities[kept]), shown.relevant[kept]


@dataclass(frozen=True)
class TrialResult:
    """Results of queries in an index of all photos of a trial."""

    # Of each query: its kind and the photo that it comes from,
    kinds: AnyArray
    photos: AnyArray
    best: FloatArray  # the highest probability,
    found: BoolArray  # whether there is a result, and whether the first one is correct,
    first_correct: BoolArray
    own_first: BoolArray  # whether the photo that the query comes from is the most probable one, shown or not.
    # Of each result, at most ten per query:
    query: AnyArray
    probabilities: FloatArray
    correct: BoolArray

    @classmethod
    def join(cls, results: Sequence[TrialResult]) -> TrialResult:
        """Return the results of all queries."""
        offsets = np.cumsum([0, *(len(each.kinds) for each in results)])
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(each, name) for each in results]) for name in cls.__dataclass_fields__
        }
        joined["query"] = np.concatenate([each.query + offset for each, offset in zip(results, offsets, strict=False)])
        return cls(**joined)


def evaluate_queries(calibration: Calibration, queries: Sequence[TrialQuery]) -> TrialResult:
    """Search all photos for queries."""
    best, found, first, own, query_of, probabilities, correct = [], [], [], [], [], [], []
    for number, query in enumerate(queries):
        logits = calibration.logits(query.evidence, len(query.relevant))
        top = np.argsort(-logits)[:_MAX_RESULTS]
        is_hit = calibration.is_hit(logits, query.evidence.words.count, len(query.relevant)) & (not query.is_unknown)
        kept = top[is_hit[top]]
        best.append(0.0 if query.is_unknown else float(logistic(float(logits[top[0]]))))
        found.append(len(kept) > 0)
        first.append(bool(len(kept)) and bool(query.relevant[kept[0]]))
        own.append(top[0] == query.photo)
        query_of.append(np.full(len(kept), number))
        probabilities.append(logistic(logits[kept].astype(np.float64)))
        correct.append(query.relevant[kept])
    return TrialResult(
        np.array([query.kind for query in queries]),
        np.array([query.photo for query in queries], dtype=np.int64),
        np.array(best),
        np.array(found, dtype=bool),
        np.array(first, dtype=bool),
        np.array(own, dtype=bool),
        np.concatenate([np.zeros(0, dtype=np.int64), *query_of]),
        np.concatenate([np.zeros(0), *probabilities]),
        np.concatenate([np.zeros(0, dtype=bool), *correct]),
    )


def halves(
    trials: Sequence[Trial], fingerprint: str, bank: QueryBank, seed: int = 0
) -> Iterator[tuple[Calibration, Inside]]:
    """Yield two fits, each on half of the photos of every source, and the photos that it left out."""
    for inside, left_out in random_halves({trial.name: len(trial) for trial in trials}, seed):
        yield fit_calibration(trials, fingerprint, bank, inside=inside), left_out


def evaluate_halves(trials: Sequence[Trial], fingerprint: str, bank: QueryBank) -> dict[str, TrialResult]:
    """Return the results of the queries of each source, each by the calibration of the other half of the photos."""
    parts: dict[str, list[TrialResult]] = {trial.name: [] for trial in trials}
    for calibration, left_out in halves(trials, fingerprint, bank):
        for trial in trials:
            queries = [query for query in trial.queries if left_out[trial.name][query.photo]]
            parts[trial.name].append(evaluate_queries(calibration, queries))
    return {name: TrialResult.join(results) for name, results in parts.items()}


def summarize(result: TrialResult) -> dict[str, Score]:
    """Return calibration errors, precision of sure results, and how often queries find something.

    Intervals come from a bootstrap over the photos that the queries come from.
    """
    units = int(result.photos.max(initial=0)) + 1
    photos, kinds_of_results = result.photos[result.query], result.kinds[result.query]
    statistics: dict[str, tuple[Statistic, int]] = {}
    for name, kinds in {"": KINDS, f"{CAPTION} ": (CAPTION,), f"{PHRASE} ": (PHRASE,)}.items():
        of_kind = np.isin(kinds_of_results, kinds)
        error = calibration_error_of(result.probabilities[of_kind], result.correct[of_kind], photos[of_kind])
        statistics[f"{name}calibration error"] = error, int(of_kind.sum())
        sure = of_kind & (result.probabilities >= SURE)
        statistics[f"{name}sure results correct"] = _share(photos, sure, result.correct, units)
    for kind in KINDS:
        of_query = result.kinds == kind
        statistics[f"{kind}s find something"] = _share(result.photos, of_query, result.found, units)
        statistics[f"{kind}s, first result correct"] = _share(
            result.photos, of_query & result.found, result.first_correct, units
        )
    statistics[OWN_FIRST] = _share(result.photos, result.kinds == CAPTION, result.own_first, units)
    return bootstrap_scores(statistics, units)


def _share(photos: AnyArray, chosen: BoolArray, correct: BoolArray, units: int) -> tuple[Statistic, int]:
    """The fraction of the chosen items that are correct, if photos are drawn, and the number of chosen items."""
    return mean_over(correct[chosen], photos[chosen], units), int(chosen.sum())
