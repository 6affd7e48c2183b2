"""Evaluate a model that describes regions against gold phrases, and calibrate its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import numpy.typing as npt

from deixis.arrays import BoolArray, Floats, IntArray
from deixis.evaluation.calibration import calibration_error
from deixis.evaluation.items import regions_of
from deixis.geometry import Boxes
from deixis.models.base import RegionInputs
from deixis.models.calibrator import LogisticCalibrator
from deixis.models.describer.description import Describer, DescriptionSettings, estimate_objectness
from deixis.models.grounder.data import stem
from deixis.models.photo_features import PhotoFeatures
from deixis.tokens import words

PRIORS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.3, 0.6, 1.0)
FOLDS = 5
_RIDGE = 1e-3
_SHOWN = 5
"""Number of phrases per region to calibrate, as many as are shown."""


@dataclass(frozen=True)
class RegionPhrases:
    """Gold regions and their phrases."""

    visual: Floats  # (regions, d) encoded regions
    photo: IntArray  # (regions,) photo index
    said: tuple[frozenset[int], ...]  # indices in the bank of the phrases of each region
    named: tuple[frozenset[str], ...]  # all words of the phrases of each region, stemmed


@dataclass(frozen=True)
class DescriptionScores:
    """Scores of region descriptions."""

    # Recall@K in percent and median rank, for regions with a phrase of the bank
    r1: float
    r5: float
    r10: float
    medr: float
    named: float  # percentage of regions whose phrases contain the last word of the best phrase, usually the object
    calibration_error: float  # of the scores of the best five phrases
    regions: int


def encode_gold_regions(describer: Describer, seen: PhotoFeatures) -> RegionPhrases:
    """Encode the gold regions of photos."""
    gold, ids = regions_of(seen.photos), seen.photos.ids
    boxes, photo = np.array(gold.boxes, dtype=np.float64), np.array(gold.photo_of_region)
    visual = [_seen(describer, seen, ids[place], boxes[photo == place]) for place in np.unique(photo)]
    index_of = {" ".join(words(phrase)): index for index, phrase in enumerate(describer.bank.phrases)}
    said: list[set[int]] = [set() for _ in boxes]
    named: list[set[str]] = [set() for _ in boxes]
    for region, phrase in gold.positives:
        tokens = words(gold.phrases[phrase])
        named[region].update(map(stem, tokens))
        if (index := index_of.get(" ".join(tokens))) is not None:
            said[region].add(index)
    return RegionPhrases(np.concatenate(visual), photo, tuple(map(frozenset, said)), tuple(map(frozenset, named)))


def fit_settings(
    describer: Describer,
    gold: RegionPhrases,
    *,
    on_trial: Callable[[float, DescriptionScores], None] = lambda prior, found: None,
) -> tuple[DescriptionSettings, DescriptionScores]:
    """Choose the prior and the calibration, and evaluate both by five-fold cross-validation over photos.

    The best prior has the highest sum of R@5 and `DescriptionScores.named`. The photos must not have been used for
    training; `on_trial` is called with every prior and its scores on all photos.
    """
    tried = {prior: _evaluate_prior(describer, gold, prior) for prior in PRIORS}
    folds = gold.photo % FOLDS
    scores = []
    for fold in range(FOLDS):
        chosen = _chosen(describer.settings, {prior: found.at(folds != fold) for prior, found in tried.items()})
        scores.append(tried[chosen.prior].at(folds == fold).score(chosen))
    for prior, found in tried.items():
        on_trial(prior, found.score(replace(describer.settings, prior=prior)))
    return _chosen(describer.settings, tried), _mean(scores)


@dataclass(frozen=True)
class _RegionResults:
    """The results of each region."""

    ranks: IntArray  # (regions,) rank of the best gold phrase; 0 if the bank has none
    # (regions, 5) scores of the best phrases, and whether the last word of each is in a gold phrase
    scores: Floats
    correct: BoolArray

    def at(self, rows: BoolArray) -> _RegionResults:
        return _RegionResults(self.ranks[rows], self.scores[rows], self.correct[rows])

    def score(self, settings: DescriptionSettings) -> DescriptionScores:
        ranks = self.ranks[self.ranks > 0]
        r1, r5, r10 = (100 * float((ranks <= most).mean()) for most in (1, 5, 10))
        error = calibration_error(settings.probabilities(self.scores).ravel(), self.correct.ravel())
        named = 100 * float(self.correct[:, 0].mean())
        return DescriptionScores(r1, r5, r10, float(np.median(ranks)), named, error, len(self.ranks))


def _evaluate_prior(describer: Describer, gold: RegionPhrases, prior: float) -> _RegionResults:
    ranking = _with(describer, replace(describer.settings, prior=prior)).scores(gold.visual)
    ranks = [_rank(row, said) if said else 0 for row, said in zip(ranking, gold.said, strict=True)]
    best = _best_first(ranking, _SHOWN)
    things = [stem(words(phrase)[-1]) if words(phrase) else "" for phrase in describer.bank.phrases]
    right = [[things[place] in named for place in row] for row, named in zip(best, gold.named, strict=True)]
    return _RegionResults(np.array(ranks), np.take_along_axis(ranking, best, axis=1), np.array(right))


def fit_logistic(scores: Floats, right: BoolArray) -> tuple[float, float]:
    """Fit scale and bias of a logistic function of the scores, rounded as they are saved."""
    fitted = LogisticCalibrator.fit(scores.reshape(-1, 1), right.ravel(), ridge=_RIDGE / right.size)
    bias, scale = fitted.round().weights
    return scale, bias


def _seen(describer: Describer, seen: PhotoFeatures, photo_id: str, boxes: Boxes) -> Floats:
    store = seen.store
    shares = boxes / np.tile(store.sizes([photo_id])[0], 2)
    likely = estimate_objectness(boxes, store.proposals(photo_id)) if store.contents.proposer else np.ones(len(boxes))
    inputs = RegionInputs(store.regions(photo_id, boxes), shares, likely, store.whole([photo_id])[0])
    return describer.pipeline.encode_regions(inputs)


def _chosen(settings: DescriptionSettings, tried: Mapping[float, _RegionResults]) -> DescriptionSettings:
    def value(prior: float) -> float:
        found = tried[prior].score(settings)
        return found.r5 + found.named

    best = max(tried, key=value)
    scale, bias = fit_logistic(tried[best].scores, tried[best].correct)
    return replace(settings, prior=best, scale=scale, bias=bias)


def _rank(scores: Floats, said: frozenset[int]) -> int:
    """Rank of the best gold phrase; other phrases with the same score come first."""
    own = scores[list(said)]
    return 1 + int((scores >= own.max()).sum() - (own >= own.max()).sum())


def _best_first(ranking: Floats, most: int) -> npt.NDArray[np.intp]:
    some = np.argpartition(-ranking, min(most, ranking.shape[1] - 1), axis=1)[:, :most]
    order = np.argsort(-np.take_along_axis(ranking, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def _with(describer: Describer, settings: DescriptionSettings) -> Describer:
    """The same describer with other settings, without encoding the phrases again."""
    other = Describer(describer.pipeline, describer.bank, settings)
    other.bank_vectors = describer.bank_vectors
    return other


def _mean(found: Sequence[DescriptionScores]) -> DescriptionScores:
    table = np.array([astuple(each) for each in found])
    r1, r5, r10, medr, named, error, _ = table.mean(axis=0).tolist()
    return DescriptionScores(r1, r5, r10, medr, named, error, int(table[:, -1].sum()))
