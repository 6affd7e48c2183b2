"""Fits how certain a search is, on photos whose captions tell what they show, and judges that on photos left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from deixis.language.features.base import Floats
from deixis.tasks.search.probability import NO_CUT_OFF, Certainty, Commonness, CutOff, Evidence, features
from deixis.tasks.search.relevance import Mask

SIZES = (20, 50, 100, 200, 400, 800)
"""Photos of the smaller indexes that are drawn, so that the size of an index is learned too."""

FOLDS = 5
_CONTENDERS = 30
"""Photos of each that are learned from: those that a search could show."""

_BINS = 15
_RIDGE = 1e-4
_KEPT = {"caption": 0.905, "phrase": 0.85}
"""Shares of them that must find something; a little more than wanted, since photos left out do a little worse."""

_LEAST_ALIKE = -3.0
"""A logit: photos that are less likely alike than 5 % are never shown as like another, whatever else there is."""

_SHOWN = 10

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """A query, and what there is to know of it for every photo.

    Attributes
    ----------
    kind
        caption, phrase, or absent: one whose photos are elsewhere.
    photo
        The place of the photo that it comes from; of an absent one, any, which says in which fold it is.
    evidence
        For all photos.
    shown
        Which photos show it.
    is_unknown
        Whether no word of it is known, so that a search does not even look.
    """

    kind: str
    photo: int
    evidence: Evidence
    shown: Mask
    is_unknown: bool = False


@dataclass(frozen=True)
class Judged:
    """What a fit says of queries that it has not learned from, in an index of all photos.

    Attributes
    ----------
    kind
        Of the queries.
    best
        The highest probability of each.
    found
        Which of them find anything.
    probabilities, right
        Of the hits that are shown, at most ten for each query.
    first_right
        Of the queries that find anything, whether the first hit is right.
    """

    kind: str
    best: Array
    found: Mask
    probabilities: Array
    right: Mask
    first_right: Mask


def fit_certainty(
    queries: Sequence[Asked], likeness: tuple[Floats, Mask], inside: Mask, fingerprint: str, seed: int = 0
) -> Certainty:
    """Fit to the photos `inside`, and to the queries from them.

    Parameters
    ----------
    queries
        Of all kinds.
    likeness
        The cosines of all pairs of photos, and whether the second shows what a caption of the first says.
    inside : array of bool, (photos,)
        Which photos may be looked at.
    fingerprint
        Of the models.
    seed
        For the indexes that are drawn.
    """
    own = [query for query in queries if inside[query.photo]]
    commonness = fit_commonness(own, inside)
    rng = np.random.default_rng(seed)
    drawn = [_drawn(query, inside, rng) for query in own]
    rows = [
        (features(query.evidence.at(places), size, commonness), query.shown[places])
        for query, (places, size) in zip(own, drawn, strict=True)
    ]
    weights = logistic(np.concatenate([row for row, _ in rows]), np.concatenate([shown for _, shown in rows]))
    like = _fit_likeness(*likeness, inside, rng)
    unfinished = Certainty(fingerprint, tuple(weights), commonness, NO_CUT_OFF, (like[0], like[1], like[2]), NO_CUT_OFF)

    def best_in(size: int) -> dict[str, list[float]]:
        return {
            kind: [_best(unfinished, query, inside, size, rng) for query in own if query.kind == kind] for kind in _KEPT
        }

    return replace(
        unfinished,
        cut_off=_fit_cut_off(best_in, inside),
        likeness_cut_off=_fit_cut_off(
            lambda size: {"caption": np.maximum(_likest(unfinished, likeness[0], inside, size, rng), _LEAST_ALIKE)},
            inside,
        ),
    )


def fit_commonness(queries: Sequence[Asked], inside: Mask) -> Commonness:
    """The line through the logarithms of the shares of photos that show phrases."""
    phrases = [query for query in queries if query.kind == "phrase"]
    shares = np.array([query.shown[inside].mean() for query in phrases])
    words = np.array([query.evidence.facts.log_shares for query in phrases])
    slope, bias = np.polyfit(words[shares > 0], np.log(shares[shares > 0]), 1)
    return Commonness(float(bias), float(slope))


def _drawn(query: Asked, inside: Mask, rng: np.random.Generator) -> tuple[NDArray[np.int64], int]:
    """The contenders of a smaller index, which holds the photo of the query unless that is elsewhere; and its size."""
    pool = np.flatnonzero(inside)
    size = min(int(rng.choice(SIZES)), len(pool))
    places = rng.choice(pool, size, replace=False)
    if query.kind != "absent":
        places = np.union1d(places, [query.photo])
    order = np.argsort(-query.evidence.whole[places])
    return places[order[:_CONTENDERS]], len(places)


def _fit_likeness(cosines: Floats, alike: Mask, inside: Mask, rng: np.random.Generator) -> Array:
    """Weights of one, cosine and the logarithm of the number of photos."""
    pool, rows, answers = np.flatnonzero(inside), [], []
    for photo in pool:
        size = min(int(rng.choice(SIZES)), len(pool))
        others = rng.choice(pool[pool != photo], size - 1, replace=False)
        nearest = others[np.argsort(-cosines[photo, others])[:_CONTENDERS]]
        ones = np.ones(len(nearest))
        rows.append(np.stack([ones, cosines[photo, nearest], ones * np.log(size)], axis=1))
        answers.append(alike[photo, nearest])
    return logistic(np.concatenate(rows), np.concatenate(answers))


def _fit_cut_off(best_in: Callable[[int], Mapping[str, Sequence[float] | Floats]], inside: Mask) -> CutOff:
    """What lets enough queries of each kind find something, in indexes of several sizes."""
    most = int(inside.sum())
    sizes = (*(size for size in SIZES if size < most), most)
    floors = [min(float(np.quantile(best, 1 - _KEPT[kind])) for kind, best in best_in(size).items()) for size in sizes]
    return CutOff(sizes, tuple(round(floor, 4) for floor in floors))


def _best(certainty: Certainty, query: Asked, inside: Mask, size: int, rng: np.random.Generator) -> float:
    """The highest logit in a smaller index that holds the photo of the query."""
    places = np.append(rng.choice(np.flatnonzero(inside), size - 1, replace=False), query.photo)
    return float(certainty.of(query.evidence.at(places), size).max())


def _likest(certainty: Certainty, cosines: Floats, inside: Mask, size: int, rng: np.random.Generator) -> Floats:
    """The highest logit of each photo's likeness to another, in a smaller index."""
    places = rng.choice(np.flatnonzero(inside), size, replace=False)
    among = cosines[np.ix_(places, places)] - 2 * np.eye(size, dtype=np.float32)
    return certainty.of_likeness(among.max(axis=1), size)


def logistic(rows: Floats, answers: Mask, ridge: float = _RIDGE) -> Array:
    """Weights (columns,) of a logistic regression; the first column must be ones, and is not held back by the ridge.

    Examples
    --------
    >>> rows = np.array([[1, 0], [1, 1], [1, 2], [1, 3]], dtype=np.float32)
    >>> bool(logistic(rows, np.array([False, True, False, True]))[1] > 0)
    True
    """
    means, spreads = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    means[0], spreads[0] = 0.0, 1.0
    spreads[spreads == 0] = 1.0
    scaled, right = (rows - means) / spreads, answers.astype(np.float64)
    held = ridge * len(rows) * np.r_[0.0, np.ones(rows.shape[1] - 1)]

    def loss(weights: Array) -> tuple[float, Array]:
        logits = scaled @ weights
        error = 1 / (1 + np.exp(-logits)) - right
        value = np.logaddexp(0, logits).sum() - right @ logits + (held * weights**2).sum() / 2
        return float(value), scaled.T @ error + held * weights

    found = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x / spreads
    found[0] -= (found * means)[1:].sum()
    return np.asarray(found)


def folds_of(photos: int, seed: int = 0) -> NDArray[np.int64]:
    """The fold of each photo."""
    return np.random.default_rng(seed).permutation(photos) % FOLDS


def judge(certainty: Certainty, queries: Sequence[Asked], kind: str) -> Judged:
    """Search all photos for queries, as a person would."""
    best, found, probabilities, right, first = [], [], [], [], []
    for query in queries:
        logits = certainty.of(query.evidence, len(query.shown))
        places = np.argsort(-logits)[:_SHOWN]
        worth_showing = certainty.worth_showing(logits, len(query.shown)) & (not query.is_unknown)
        kept = places[worth_showing[places]]
        best.append(0.0 if query.is_unknown else 1 / (1 + np.exp(-logits[places[0]])))
        found.append(len(kept) > 0)
        probabilities.append(1 / (1 + np.exp(-logits[kept].astype(np.float64))))
        right.append(query.shown[kept])
        if len(kept):
            first.append(query.shown[kept[0]])
    return Judged(
        kind,
        np.array(best),
        np.array(found, dtype=bool),
        np.concatenate([np.zeros(0), *probabilities]),
        np.concatenate([np.zeros(0, dtype=bool), *right]),
        np.array(first, dtype=bool),
    )


def calibration_error(probabilities: Array, right: Mask, bins: int = _BINS) -> float:
    """The expected calibration error: the mean distance of probability and truth, over bins of equally many.

    Examples
    --------
    >>> calibration_error(np.array([0.5, 0.5]), np.array([True, False]), bins=1)
    0.0
    """
    return float(sum(share * abs(said - true) for said, true, share in reliability(probabilities, right, bins)))


def reliability(probabilities: Array, right: Mask, bins: int = _BINS) -> list[tuple[float, float, float]]:
    """Mean probability, share that is right, and share of all, for bins of equally many."""
    order = np.argsort(probabilities)
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [(probabilities[part].mean(), right[part].mean(), len(part) / len(order)) for part in parts]


def cross_validate(
    queries: Sequence[Asked],
    likeness: tuple[Floats, Mask],
    fingerprint: str,
    on_fold: Callable[[int, Certainty, Mask], None],
) -> None:
    """Fit five times to four fifths of the photos; `on_fold` is given each fit and the photos that it has not seen."""
    folds = folds_of(len(likeness[0]))
    for fold in range(FOLDS):
        left_out = folds == fold
        on_fold(fold, fit_certainty(queries, likeness, ~left_out, fingerprint), left_out)
