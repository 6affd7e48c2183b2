"""Fit the calibration of search to trials of several sources, and evaluate it on each source apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from deixis.arrays import AnyArray, BoolArray, FloatArray, Floats, IntArray, logistic
from deixis.evaluation.calibration import Score, bootstrap_scores, calibration_error_of
from deixis.evaluation.intervals import Statistic, mean_over
from deixis.models.calibrator import Inside, LogisticCalibrator, conditional_logit, random_halves
from deixis.search.calibration import (
    FEATURES,
    SCORES,
    Calibration,
    KindWeights,
    QueryBank,
    Threshold,
    WordPrior,
    features,
)
from deixis.search.encoder import PHRASE, SENTENCE_KINDS, WORD
from deixis.search.trial import ABSENT, KINDS, Trial, TrialQuery

SIZES = (20, 50, 100, 200, 400, 800)
"""Sizes of the random smaller indexes, so that the effect of the index size is fitted too."""

OWN_FIRST = "captions, own photo first"
"""The score for how many captions rank the photo that they come from first: R@1 of the whole search."""

SURE = 0.6
"""Results with at least this probability are counted as sure."""

_TOP_PHOTOS = 30
"""Number of best photos per query to fit on: those that a search could show."""

_MAX_RESULTS = 100
"""Maximum number of results of a query that are judged."""
_ABSENT_SHARE = 0.25
"""The weight of absent queries in the fit, relative to the others of the same kind."""

_MIN_ALIKE = 0.87
"""Fraction of photos that must have a similar one."""

_MIN_LIKENESS = -3.0
"""Minimum logit (5 %) of a similar photo."""

NO_THRESHOLD = Threshold((1,), (-100.0,))
"""Shows all photos."""


def fit_calibration(
    trials: Sequence[Trial], fingerprint: str, bank: QueryBank, *, inside: Inside | None = None, seed: int = 0
) -> Calibration:
    """Fit the calibration of each kind of query to photos and their queries. All sources have the same weight.

    `bank` is that of the trials, `inside` the photos to fit on (default: all), `seed` that of the smaller indexes.
    """
    inside = inside or {trial.name: np.ones(len(trial), dtype=bool) for trial in trials}
    rng = np.random.default_rng(seed)
    own = {trial.name: [query for query in trial.queries if inside[trial.name][query.photo]] for trial in trials}
    prior = fit_prior(trials, own, inside)
    background = np.mean([trial.vectors[inside[trial.name]].mean(axis=0) for trial in trials], axis=0)
    examples: dict[str, tuple[list[Floats], list[BoolArray], list[float]]] = {
        kind: ([], [], []) for kind in SENTENCE_KINDS
    }
    for trial in trials:
        shares_of: dict[tuple[str, bool], float] = defaultdict(float)
        for query in own[trial.name]:
            shares_of[query.evidence.words.kind, query.kind == ABSENT] += _share_of(query)
        for query in own[trial.name]:
            indices, size = _sample_index(query, inside[trial.name], rng)
            kind, is_absent = query.evidence.words.kind, query.kind == ABSENT
            rows, answers, shares = examples[kind]
            rows.append(features(query.evidence.take(indices), size, prior, background))
            answers.append(query.relevant[indices])
            shares.append((_ABSENT_SHARE if is_absent else 1.0) * _share_of(query) / shares_of[kind, is_absent])
    rows, answers, shares = (list(chain.from_iterable(parts)) for parts in zip(*examples.values(), strict=True))
    weights = {
        # A kind of query of which there is no example is taken to be like all others.
        kind: _fit_weights(*of_kind) if any(map(_ranks, of_kind[1])) else _fit_weights(rows, answers, shares)
        for kind, of_kind in examples.items()
    }
    like = _fit_likeness(trials, inside, rng)
    plain = Calibration(
        fingerprint,
        weights,
        tuple(round(float(value), 6) for value in background),
        bank,
        prior,
        (0.0, 1.0),
        (like[0], like[1], like[2]),
        NO_THRESHOLD,
    )
    plain = replace(plain, people=_fit_people(trials, inside, plain))
    return replace(plain, similarity_threshold=_fit_threshold(trials, inside, plain.similarity_logits, rng))


def _share_of(query: TrialQuery) -> float:
    """The weight of a query in the fit: people search more often for what many photos show."""
    return max(float(query.relevant.sum()), 1.0) ** 0.5


def _ranks(answer: BoolArray) -> bool:
    """Whether some of the photos of a query are relevant, and others are not."""
    return bool(answer.any() and not answer.all())


def _fit_weights(rows: Sequence[Floats], answers: Sequence[BoolArray], shares: Sequence[float]) -> KindWeights:
    """Weights of the features, given the best photos of each query: the scores are weighted as they rank best.

    Then a regression scales the weighted sum of the scores and weights the rest. A regression on all features would
    weight scores by how they differ between queries, too, and rank worse.
    """
    ranked = [number for number, answer in enumerate(answers) if _ranks(answer)]
    of_scores = conditional_logit(
        [rows[number][:, SCORES] for number in ranked],
        [answers[number] for number in ranked],
        [shares[number] for number in ranked],
    )
    every = np.concatenate(rows)
    score = (every[:, SCORES] @ of_scores).astype(np.float32)
    knee = float(score.mean() + score.std())
    design = KindWeights.design(every, score, knee)
    at = FEATURES - SCORES.stop  # the column of the score; the next one is the score above the knee
    shares_of_rows = np.repeat(shares, [len(each) for each in rows])
    found = LogisticCalibrator.fit(design, np.concatenate(answers), shares_of_rows, non_negative=[at, at + 1])
    return KindWeights(tuple(of_scores.round(4).tolist()), round(knee, 4), found.round().weights)


def _fit_people(trials: Sequence[Trial], inside: Inside, calibration: Calibration) -> tuple[float, float]:
    """Weights for how probable people are in all photos, given the logit of the most probable word for them."""
    rows, answers, shares = [], [], []
    for trial in trials:
        photos = np.flatnonzero(inside[trial.name])
        words = [calibration.logits(query.evidence.take(photos), len(photos)) for query in trial.people]
        if words:
            rows.append(np.max(words, axis=0)[:, None])
            answers.append(trial.people[0].relevant[photos])
            shares.append(np.full(len(photos), 1 / len(photos)))
    if not rows or np.concatenate(answers).all() or not np.concatenate(answers).any():
        return 0.0, 1.0
    found = LogisticCalibrator.fit(
        np.concatenate(rows), np.concatenate(answers), np.concatenate(shares), non_negative=[0]
    )
    bias, slope = found.round().weights
    return bias, slope


def fit_prior(trials: Sequence[Trial], own: Mapping[str, Sequence[TrialQuery]], inside: Inside) -> WordPrior:
    """Fit a line to the log fractions of photos that are relevant to phrases."""
    short = [
        (query, inside[trial.name]) for trial in trials for query in own[trial.name] if query.kind in (WORD, PHRASE)
    ]
    shares = np.array([query.relevant[photos].mean() for query, photos in short])
    words = np.array([query.evidence.words.log_frequency for query, _ in short])
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


def _fit_threshold(
    trials: Sequence[Trial], inside: Inside, logits: Callable[[Floats, int], Floats], rng: np.random.Generator
) -> Threshold:
    """The cut-off at which most photos have a similar one in every source, for several index sizes.

    Beyond the photos of a source, its cut-off changes like that of the largest source.
    """
    counts = {trial.name: int(inside[trial.name].sum()) for trial in trials}
    largest = max(counts, key=lambda name: counts[name])
    sizes = (*(size for size in SIZES if size < counts[largest]), counts[largest])

    def floor_in(trial: Trial, size: int) -> float:
        indices = rng.choice(np.flatnonzero(inside[trial.name]), size, replace=False)
        among = trial.cosines[np.ix_(indices, indices)] - 2 * np.eye(size, dtype=np.float32)
        best = np.maximum(logits(among.max(axis=1), size), _MIN_LIKENESS)
        return float(np.quantile(best, 1 - _MIN_ALIKE))

    floors = {
        trial.name: {size: floor_in(trial, size) for size in sizes if size <= counts[trial.name]} for trial in trials
    }
    reference = floors[largest]

    def floor_at(size: int, known: Mapping[int, float]) -> float:
        last = max(other for other in known if other <= size)
        return known[last] + reference[size] - reference[last]

    lowest = [min(floor_at(size, known) for known in floors.values() if known) for size in sizes]
    return Threshold(sizes, tuple(round(floor, 4) for floor in lowest))


@dataclass(frozen=True)
class TrialResult:
    """Results of queries in an index of all photos of a trial."""

    # Of each query: its kind and the photo that it comes from,
    kinds: AnyArray
    photos: AnyArray
    best: FloatArray  # the highest probability,
    found: BoolArray  # whether there is a result, and whether the first one is correct,
    first_correct: BoolArray
    is_caption: BoolArray
    own_first: BoolArray  # whether the photo that the query comes from is the most probable one, shown or not.
    # Of each result:
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
    best, found, first, captions, own, query_of, probabilities, correct = [], [], [], [], [], [], [], []
    for number, query in enumerate(queries):
        logits = calibration.logits(query.evidence, len(query.relevant))
        top = np.argsort(-logits)[:_MAX_RESULTS]
        is_hit = calibration.is_hit(logits, query.evidence.words.kind) & (not query.is_unknown)
        kept = top[is_hit[top]]
        best.append(0.0 if query.is_unknown else float(logistic(float(logits[top[0]]))))
        found.append(len(kept) > 0)
        first.append(bool(len(kept)) and bool(query.relevant[kept[0]]))
        captions.append(query.is_caption)
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
        np.array(captions, dtype=bool),
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
    for name, kinds in {"": KINDS, **{f"{kind} ": (kind,) for kind in SENTENCE_KINDS}}.items():
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
    statistics[OWN_FIRST] = _share(result.photos, result.is_caption, result.own_first, units)
    return bootstrap_scores(statistics, units)


def _share(photos: AnyArray, chosen: BoolArray, correct: BoolArray, units: int) -> tuple[Statistic, int]:
    """The fraction of the chosen items that are correct, if photos are drawn, and the number of chosen items."""
    return mean_over(correct[chosen], photos[chosen], units), int(chosen.sum())
