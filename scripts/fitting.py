"""Examples of several sources, and the logistic regressions that `fit_presence` and `fit_photo_score` fit to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from deixis.arrays import BoolArray, FloatArray, IntArray
from deixis.models.calibrator import LogisticCalibrator


@dataclass(frozen=True)
class Examples:
    """The examples of a source."""

    features: FloatArray  # (examples, features)
    right: BoolArray
    weights: FloatArray
    photo: IntArray


def fit(sources: Sequence[Examples], non_negative: Sequence[int], fingerprint: str = "") -> LogisticCalibrator:
    """Fit one regression to all sources, with weights rounded as they are saved."""
    rows, right, weights, _ = _joined(sources)
    fitted = LogisticCalibrator.fit(rows, right, weights, non_negative=non_negative, fingerprint=fingerprint)
    return fitted.round()


def cross_fit(sources: Sequence[Examples], non_negative: Sequence[int]) -> list[FloatArray]:
    """Return the logits of each source, those of each half of the photos by the fit to the other half."""
    rows, right, weights, photo = _joined(sources)
    logits = LogisticCalibrator.cross_fit(rows, right, weights, photo % 2, non_negative=non_negative)
    return np.split(logits, np.cumsum([len(source.right) for source in sources])[:-1])


def balanced(right: BoolArray, groups: IntArray | None = None) -> FloatArray:
    """Weights that give right and wrong examples the same total, in each group or in all."""
    found = np.zeros(len(right))
    for group in [0] if groups is None else np.unique(groups):
        inside = np.ones(len(right), bool) if groups is None else groups == group
        for chosen in (inside & right, inside & ~right):
            found[chosen] = 1 / max(chosen.sum(), 1)
    return found


def _joined(sources: Sequence[Examples]) -> tuple[FloatArray, ...]:
    features, *others = (np.concatenate(parts) for parts in zip(*map(astuple, sources), strict=True))
    return features.astype(np.float32), *others
