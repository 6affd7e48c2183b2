"""How a model that describes regions is judged against what people said of them, and how its scores become chances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import numpy.typing as npt

from deixis.evaluation.of_data import regions_of
from deixis.geometry import Boxes
from deixis.language.features.base import Floats
from deixis.tasks.describe.describing import Describer, DescribeSettings
from deixis.tasks.describe.salient import objectness
from deixis.tasks.features_of import SeenPhotos
from deixis.tokens import words
from deixis.training.grounder_examples import stem

PRIORS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.3, 0.6, 1.0)
FOLDS = 5
_SHOWN = 5
"""Phrases of a region whose scores are to be chances: as many as are shown."""


@dataclass(frozen=True)
class SaidOfRegions:
    """Regions with gold boxes, and what people said of them.

    Attributes
    ----------
    visual
        (regions, d) as the model sees them.
    photo
        (regions,) the place of each one's photo.
    said
        Of each region, the places in the bank of what was said.
    named
        Of each region, all words that were said of it, plurals as singulars.
    """

    visual: Floats
    photo: npt.NDArray[np.int64]
    said: tuple[frozenset[int], ...]
    named: tuple[frozenset[str], ...]


@dataclass(frozen=True)
class Judged:
    """How well regions are described.

    Attributes
    ----------
    r1, r5, r10, medr
        Of regions of which a phrase of the bank was said: how often one is among the first, in percent, and the median
        rank of the first.
    named
        How often the last word of the first phrase, the thing as a rule, was said of the region, in percent.
    calibration_error
        Between the visible scores of the first five phrases and how often that is so; 0.05 is five points.
    regions
        How many were looked at.
    """

    r1: float
    r5: float
    r10: float
    medr: float
    named: float
    calibration_error: float
    regions: int


def said_of_regions(describer: Describer, seen: SeenPhotos) -> SaidOfRegions:
    """The gold regions of photos, as a model sees them."""
    gold, ids = regions_of(seen.photos), seen.photos.ids
    boxes, photo = np.array(gold.boxes, dtype=np.float64), np.array(gold.photo_of_region)
    visual = [_seen(describer, seen, ids[place], boxes[photo == place]) for place in np.unique(photo)]
    place_of = {" ".join(words(phrase)): place for place, phrase in enumerate(describer.bank.phrases)}
    said: list[set[int]] = [set() for _ in boxes]
    named: list[set[str]] = [set() for _ in boxes]
    for region, phrase in gold.positives:
        spoken = words(gold.phrases[phrase])
        named[region].update(map(stem, spoken))
        if (place := place_of.get(" ".join(spoken))) is not None:
            said[region].add(place)
    return SaidOfRegions(np.concatenate(visual), photo, tuple(map(frozenset, said)), tuple(map(frozenset, named)))


def fit_settings(
    describer: Describer, gold: SaidOfRegions, *, on_trial: Callable[[float, Judged], None] = lambda prior, found: None
) -> tuple[DescribeSettings, Judged]:
    """The best prior, the line that turns scores into chances, and how both do in cross-validation.

    The best is the one with the highest sum of R@5 and `Judged.named`: what people say, and of the right thing.

    In each of five folds of photos both are chosen on the others; the judgement is the mean over the folds.

    Parameters
    ----------
    describer
        Its settings but prior, scale and bias are kept.
    gold
        Of photos that the model has not learned from.
    on_trial
        Told of every prior, judged on all photos.
    """
    tried = {prior: _looked(describer, gold, prior) for prior in PRIORS}
    folds = gold.photo % FOLDS
    judged = []
    for fold in range(FOLDS):
        chosen = _chosen(describer.settings, {prior: found.at(folds != fold) for prior, found in tried.items()})
        judged.append(tried[chosen.prior].at(folds == fold).judged(chosen))
    for prior, found in tried.items():
        on_trial(prior, found.judged(replace(describer.settings, prior=prior)))
    return _chosen(describer.settings, tried), _mean(judged)


def judge(describer: Describer, gold: SaidOfRegions) -> Judged:
    """How well a model with its settings describes gold regions."""
    return _looked(describer, gold, describer.settings.prior).judged(describer.settings)


@dataclass(frozen=True)
class _Looked:
    """What a judgement needs to know of each region.

    Attributes
    ----------
    ranks
        (regions,) of the first phrase that was said; 0 where none of the bank was.
    scores, right
        (regions, 5) of the first phrases: how they rank, and whether the last word of each was said.
    """

    ranks: npt.NDArray[np.int64]
    scores: Floats
    right: npt.NDArray[np.bool_]

    def at(self, rows: npt.NDArray[np.bool_]) -> _Looked:
        return _Looked(self.ranks[rows], self.scores[rows], self.right[rows])

    def judged(self, settings: DescribeSettings) -> Judged:
        ranks = self.ranks[self.ranks > 0]
        r1, r5, r10 = (100 * float((ranks <= most).mean()) for most in (1, 5, 10))
        error = calibration_error(settings.chances(self.scores).ravel(), self.right.ravel())
        named = 100 * float(self.right[:, 0].mean())
        return Judged(r1, r5, r10, float(np.median(ranks)), named, error, len(self.ranks))


def _looked(describer: Describer, gold: SaidOfRegions, prior: float) -> _Looked:
    ranking = _with(describer, replace(describer.settings, prior=prior)).ranking(gold.visual)
    ranks = [_rank(row, said) if said else 0 for row, said in zip(ranking, gold.said, strict=True)]
    best = _best_first(ranking, _SHOWN)
    things = [stem(words(phrase)[-1]) if words(phrase) else "" for phrase in describer.bank.phrases]
    right = [[things[place] in named for place in row] for row, named in zip(best, gold.named, strict=True)]
    return _Looked(np.array(ranks), np.take_along_axis(ranking, best, axis=1), np.array(right))


def logistic_line(scores: Floats, right: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """Scale and bias with which the logistic function of scores is likeliest to give what is right.

    Examples
    --------
    >>> scale, bias = logistic_line(np.array([0.0, 0.0, 1.0, 1.0]), np.array([False, True, True, True]))
    >>> bool(scale > 0)
    True
    """
    centre, spread = scores.mean(), scores.std() or 1.0
    inputs = np.stack([(scores - centre) / spread, np.ones(len(scores))], axis=1).astype(np.float64)
    line = np.zeros(2)
    for _ in range(30):  # Newton; the small ridge keeps it from running away where scores tell all
        chance = 1 / (1 + np.exp(-inputs @ line))
        slope = inputs.T @ (right - chance) - 1e-3 * line
        curve = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + 1e-3 * np.eye(2)
        line = line + np.linalg.solve(curve, slope)
    return float(line[0] / spread), float(line[1] - line[0] * centre / spread)


def calibration_error(chances: Floats, right: npt.NDArray[np.bool_], bins: int = 10) -> float:
    """How far chances are from what happens, on average over ten bins of equal width.

    Examples
    --------
    >>> calibration_error(np.array([0.95, 0.95]), np.array([True, False]))
    0.45
    """
    place = np.minimum((chances * bins).astype(int), bins - 1)
    gaps = [abs(float(right[place == b].sum()) - float(chances[place == b].sum())) for b in range(bins)]
    return round(sum(gaps) / len(chances), 10)


def _seen(describer: Describer, seen: SeenPhotos, photo_id: str, boxes: Boxes) -> Floats:
    store = seen.store
    width, height = store.sizes([photo_id])[0].tolist()
    likely = objectness(boxes, store.proposals(photo_id)) if store.contents.proposer else np.ones(len(boxes))
    return describer.see(store.regions(photo_id, boxes), boxes, (width, height), likely, store.whole([photo_id])[0])


def _chosen(settings: DescribeSettings, tried: Mapping[float, _Looked]) -> DescribeSettings:
    def value(prior: float) -> float:
        found = tried[prior].judged(settings)
        return found.r5 + found.named

    best = max(tried, key=value)
    scale, bias = logistic_line(tried[best].scores.ravel(), tried[best].right.ravel())
    return replace(settings, prior=best, scale=round(scale, 4), bias=round(bias, 4))


def _rank(scores: Floats, said: frozenset[int]) -> int:
    """Of the best of what was said; what was not said and scores the same goes before it."""
    own = scores[list(said)]
    return 1 + int((scores >= own.max()).sum() - (own >= own.max()).sum())


def _best_first(ranking: Floats, most: int) -> npt.NDArray[np.intp]:
    some = np.argpartition(-ranking, min(most, ranking.shape[1] - 1), axis=1)[:, :most]
    order = np.argsort(-np.take_along_axis(ranking, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def _with(describer: Describer, settings: DescribeSettings) -> Describer:
    """The same describer with other settings; the phrases are not read again."""
    other = Describer(describer.bundle, describer.bank, settings)
    other.bank_vectors = describer.bank_vectors
    return other


def _mean(found: Sequence[Judged]) -> Judged:
    table = np.array([astuple(each) for each in found])
    r1, r5, r10, medr, named, error, _ = table.mean(axis=0).tolist()
    return Judged(r1, r5, r10, medr, named, error, int(table[:, -1].sum()))
