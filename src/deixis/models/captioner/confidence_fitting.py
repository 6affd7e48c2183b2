"""Fit the confidence of captions to photos with people's captions, and evaluate it on each source apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from deixis.arrays import BoolArray, FloatArray
from deixis.data.dataset import Dataset
from deixis.evaluation.calibration import Score, bootstrap_scores, calibration_error_of
from deixis.evaluation.captions.people_captions import PeopleCaptions
from deixis.evaluation.intervals import Statistic, ratio_of
from deixis.models.calibrator import Inside, LogisticCalibrator, random_halves
from deixis.models.captioner.pipeline import CaptionerPipeline
from deixis.models.captioner.ranking import (
    FEATURES,
    LOG_PROBABILITIES,
    SURE,
    Confidence,
    TaggedCaption,
    features,
    shorter_captions,
)
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.storage.progress import OnProgress, no_progress, track

_RIDGE = 1e-3
_MIN_SURE_RIGHT, _MAX_SURE_WRONG = SURE + 0.02, 0.1
"""Goals on the photos of the fit: fraction right of the sure captions, or fraction of all captions that are sure and
wrong."""

_THRESHOLDS = np.arange(SURE, 0.96, 0.025).round(3).tolist()


@dataclass(frozen=True)
class PhotoCaptions:
    """The caption of a photo and its shorter versions, in the order in which they are tried."""

    features: FloatArray  # (captions, FEATURES), or with those of the match
    right: BoolArray  # (captions,) whether people's captions agree


@dataclass(frozen=True)
class CaptionSource:
    """The captions of the photos of a split."""

    name: str
    photos: list[PhotoCaptions]


def read_caption_sources(
    pipeline: CaptionerPipeline,
    splits: Iterable[tuple[str, Dataset, str]],
    on_progress: OnProgress = no_progress,
) -> list[CaptionSource]:
    """Caption the photos of splits (name of the source, data set, split) and compare the captions with people's.

    The captioner must not have been trained on the photos. Photos without captions are left out.
    """
    sources = []
    for name, dataset, split in splits:
        found = pipeline.features(dataset, dataset.split(split), on_progress=on_progress)
        inputs = pipeline.model_inputs(found, on_progress)
        captions = pipeline.best_sentences(inputs)
        ranker = pipeline.match_ranker if pipeline.ranking else None
        matches = [each[0] for each in ranker.features(inputs, [[one] for one in captions])] if ranker else None
        rows = track(zip(captions, found.photos, strict=True), f"captions of {name}", len(captions), on_progress)
        photos = [
            compare_captions(sentence, [caption.text for caption in photo.sentences], matches[row] if matches else ())
            for row, (sentence, photo) in enumerate(rows)
            if photo.sentences
        ]
        sources.append(CaptionSource(name, photos))
    return sources


def compare_captions(
    sentence: GeneratedSentence, captions: Sequence[str], match: Sequence[float] = ()
) -> PhotoCaptions:
    """Compare a generated caption and its shorter versions with people's captions of the photo.

    `match` are the features of its match with the photo, which are those of the shorter versions too.
    """
    people, whole = PeopleCaptions(captions), TaggedCaption.from_sentence(sentence)
    tried = [whole, *shorter_captions(whole)]
    right = [people.agree(caption.words, caption.tags) for caption in tried]
    return PhotoCaptions(np.stack([features(caption, match) for caption in tried]), np.array(right, dtype=bool))


def fit_confidence(sources: Sequence[CaptionSource], inside: Inside | None = None) -> Confidence:
    """Fit the confidence. All sources have the same weight, and so have all photos of a source.

    Captions are sure from the lowest probability, `SURE` or more, at which most sure captions of every source are
    right, or few of its captions are sure and wrong. `inside` marks the photos to fit on.
    """
    photos = [
        [photo for at, photo in enumerate(source.photos) if inside is None or inside[source.name][at]]
        for source in sources
    ]
    weights = _fit(photos).weights
    for threshold in _THRESHOLDS:
        confidence = Confidence(weights, threshold)
        if all(_is_honest(ShownCaptions.of(confidence, of_source)) for of_source in photos):
            break
    return confidence


def _fit(photos: Sequence[Sequence[PhotoCaptions]]) -> LogisticCalibrator:
    rows, right, shares = [], [], []
    for of_source in photos:
        for photo in of_source:
            rows.append(photo.features)
            right.append(photo.right)
            shares.append(np.full(len(photo.right), 1 / len(photo.right) / len(of_source)))
    table = np.concatenate(rows).astype(np.float32)
    return LogisticCalibrator.fit(
        table[:, 1:],
        np.concatenate(right),
        np.concatenate(shares),
        non_negative=[column - 1 for column in (*range(FEATURES)[LOG_PROBABILITIES], *range(FEATURES, table.shape[1]))],
        ridge=_RIDGE,
    ).round()


def _is_honest(shown: ShownCaptions) -> bool:
    """Whether most sure captions are right, or few captions are sure and wrong."""
    wrong = int((shown.sure & ~shown.right).sum())
    return wrong <= max((1 - _MIN_SURE_RIGHT) * int(shown.sure.sum()), _MAX_SURE_WRONG * len(shown.sure))


@dataclass(frozen=True)
class ShownCaptions:
    """The captions that would be shown of the photos of a source."""

    probabilities: FloatArray
    right: BoolArray
    sure: BoolArray
    shorter: BoolArray  # whether the caption is a shorter version

    @classmethod
    def of(cls, confidence: Confidence, photos: Sequence[PhotoCaptions]) -> ShownCaptions:
        """Choose as `choose_captions` does."""
        rows = []
        for photo in photos:
            chances = confidence.probabilities(photo.features)
            sure = np.flatnonzero(chances >= confidence.sure_from)
            place = sure[0] if len(sure) else chances.argmax()
            rows.append((chances[place], photo.right[place], len(sure) > 0, place > 0))
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        return cls(table[:, 0], *(column.astype(bool) for column in table[:, 1:].T))


def evaluate_halves(sources: Sequence[CaptionSource], seed: int = 0) -> dict[str, ShownCaptions]:
    """Return the captions of each source, each by the confidence that was fitted to the other half of the photos."""
    shown: dict[str, list[ShownCaptions]] = {source.name: [] for source in sources}
    for inside, _ in random_halves({source.name: len(source.photos) for source in sources}, seed):
        confidence = fit_confidence(sources, inside)
        for source in sources:
            left_out = [photo for photo, is_in in zip(source.photos, inside[source.name], strict=True) if not is_in]
            shown[source.name].append(ShownCaptions.of(confidence, left_out))
    return {name: _join(parts) for name, parts in shown.items()}


def _join(parts: Sequence[ShownCaptions]) -> ShownCaptions:
    names = ShownCaptions.__dataclass_fields__
    return ShownCaptions(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def summarize(shown: ShownCaptions) -> dict[str, Score]:
    """Return the calibration error and the fractions of captions that are sure, right and shortened, with intervals."""
    count, sure = len(shown.right), shown.sure
    every = np.ones(count)
    statistics: dict[str, tuple[Statistic, int]] = {
        "calibration error": (calibration_error_of(shown.probabilities, shown.right, np.arange(count)), count),
        "captions right": (ratio_of(shown.right * every, every), count),
        "sure captions": (ratio_of(sure * every, every), count),
        "sure captions right": (ratio_of((sure & shown.right) * every, sure * every), int(sure.sum())),
        "sure captions that were shortened": (ratio_of((sure & shown.shorter) * every, sure * every), int(sure.sum())),
    }
    return bootstrap_scores(statistics, count)
