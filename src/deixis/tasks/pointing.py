"""A model points: for phrases, the score of every region of a photo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from deixis.evaluation import phrase_regions
from deixis.evaluation.localization_items import Item, Protocol
from deixis.evaluation.of_data import Regions
from deixis.evaluation.phrase_precision import PhrasePrecision, phrase_precision
from deixis.evaluation.phrase_presence import PresenceResult, best_region_scores, presence, said_in_photos
from deixis.evaluation.predictions import Prediction
from deixis.evaluation.scores import ScoreBlocks
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats, Text
from deixis.models.grounder import Grounder
from deixis.models.grounder_inputs import words_and_spans
from deixis.models.hm_lstm import HMLSTM
from deixis.tasks.bundle import Bundle, refuse_pointing_only
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.hm_lstm_pointing import hm_lstm_predictions
from deixis.tasks.places import with_places
from deixis.training.grounder_examples import region_inputs
from deixis.vision.features import FeatureMap

_PAIRS_AT_ONCE = 1 << 22
"""Phrases and regions that are scored between two reports of progress."""


def region_scores(bundle: Bundle, photo: FeatureMap, boxes: npt.ArrayLike, phrases: Sequence[Text]) -> Floats:
    """A row for each region of a photo, a column for each phrase; higher is better.

    Parameters
    ----------
    bundle
        The model.
    photo
        As the encoder of the model sees it.
    boxes
        The regions, (n, 4), in pixels of the photo: proposals as a rule.
    phrases
        Their words.

    Examples
    --------
    >>> photo = bundle.image_encoder.encode([opened])[0]  # doctest: +SKIP
    >>> region_scores(bundle, photo, [[0, 0, 50, 80]], ["a dog"]).shape  # doctest: +SKIP
    (1, 1)
    """
    regions = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    vectors = with_places(photo.regions(regions), regions, photo.size, bundle.learned.place)
    return bundle.similarity(bundle.model.prepare_visual(vectors), bundle.encode_sentences(phrases))


def predictions_of(
    bundle: Bundle, seen: SeenPhotos, items: Sequence[Item], *, on_progress: OnProgress = silent
) -> list[Prediction]:
    """The proposals of its photo for every item, each with its score.

    Parameters
    ----------
    bundle
        The model.
    seen
        The photos of all items, with proposals.
    items
        Those of one photo must stand together, as `localization_items` gives them.
    on_progress
        Called as the work goes on.
    """
    if isinstance(bundle.model, Grounder):
        return _predictions_in_context(bundle.model, seen, items, on_progress)
    if isinstance(bundle.model, HMLSTM):
        return hm_lstm_predictions(bundle.model, seen, items, on_progress=on_progress)
    phrases = sorted({item.phrase for item in items})
    row_of = {phrase: row for row, phrase in enumerate(phrases)}
    text = bundle.encode_sentences(phrases)
    found: list[Prediction] = []
    for photo_id, of_photo in groupby(items, key=lambda item: item.photo):
        here = list(of_photo)
        boxes = seen.proposals(photo_id)
        visual = bundle.model.prepare_visual(seen.proposal_vectors(photo_id))
        scores = bundle.similarity(visual, text[[row_of[item.phrase] for item in here]]).astype(np.float64)
        found += [
            Prediction(item.photo, item.caption, item.span, boxes, scores[:, column])
            for column, item in enumerate(here)
        ]
        on_progress("pointing at phrases", len(found), len(items))
    return found


def _predictions_in_context(
    model: Grounder, seen: SeenPhotos, items: Sequence[Item], on_progress: OnProgress
) -> list[Prediction]:
    """The same from a model that reads phrases in their sentence; of each phrase the best box is a better one."""
    found: list[Prediction] = []
    records = {photo.id: photo for photo in seen.photos}
    for photo_id, of_photo in groupby(items, key=lambda item: item.photo):
        regions = region_inputs(seen.store, photo_id, seen.top, cells=model.settings.cells)
        proposals, size = seen.proposals(photo_id), np.tile(seen.store.sizes([photo_id])[0], 2)
        for caption, of_caption in groupby(of_photo, key=lambda item: item.caption):
            here = list(of_caption)
            tokens = records[photo_id].captions[caption].tokens
            pointing = model.point(regions, *words_and_spans(tokens, [item.span for item in here]))
            for item, scores, better in zip(here, pointing.scores, pointing.boxes, strict=True):
                boxes = proposals.astype(np.float64)
                if len(boxes):
                    best = int(np.argmax(scores))
                    boxes[best] = better[best].astype(np.float64) * size
                found.append(Prediction(item.photo, item.caption, item.span, boxes, scores.astype(np.float64)))
        on_progress("pointing at phrases", len(found), len(items))
    return found


def gold_region_scores(bundle: Bundle, seen: SeenPhotos, gold: Regions) -> ScoreBlocks:
    """Gold regions × all phrases, computed when they are asked for."""
    refuse_pointing_only(bundle)
    boxes, ids = np.array(gold.boxes, dtype=np.float64), seen.photos.ids
    starts = np.searchsorted(gold.photo_of_region, np.arange(len(ids) + 1))
    visual = np.concatenate(
        [
            bundle.model.prepare_visual(seen.region_vectors(ids[place], boxes[starts[place] : starts[place + 1]]))
            for place in np.unique(gold.photo_of_region)
        ]
    )
    text = bundle.encode_sentences(gold.phrases)
    return ScoreBlocks((len(visual), len(text)), lambda begin, end: bundle.similarity(visual[begin:end], text))


@dataclass(frozen=True)
class OverAllPhotos:
    """How well phrases are looked for in all photos, whether these mention them or not.

    Attributes
    ----------
    precision
        Each phrase ranks the regions of all photos.
    presence
        Each phrase ranks the photos, by their best regions.
    """

    precision: PhrasePrecision
    presence: PresenceResult


def score_over_all_photos(
    bundle: Bundle,
    seen: SeenPhotos,
    items: Sequence[Item],
    *,
    protocol: Protocol = "union",
    on_progress: OnProgress = silent,
) -> OverAllPhotos:
    """Look for every distinct phrase in all photos, in one pass over the scores.

    Phrases are read alone, and regions stay as they were proposed, by a grounder too.

    Parameters
    ----------
    bundle
        The model.
    seen
        All photos, with proposals; the vectors of these are held in memory, 100 MB for 100,000 of 256 numbers.
    items
        What there is to localise, from `localization_items`.
    protocol
        When a region is right, as for `localization`.
    on_progress
        Called as the work goes on.

    Examples
    --------
    >>> found = score_over_all_photos(bundle, seen, localization_items(seen.photos))  # doctest: +SKIP
    >>> found.precision.ap, found.presence.pooled_roc  # doctest: +SKIP
    (3.1, 84.8)
    """
    ids = seen.photos.ids
    regions = phrase_regions.Regions.of({photo_id: seen.proposals(photo_id) for photo_id in ids})
    visual = _all_proposals(bundle, seen, on_progress)
    text = bundle.encode_sentences(phrase_regions.usual_words(items))
    best = np.empty((len(text), len(ids)))

    def rows(begin: int, end: int) -> Floats:
        scores = np.ascontiguousarray(bundle.similarity(visual, text[begin:end]).T)
        # Noted while they are here: to compute all scores again would take as long as all else.
        best[begin:end] = best_region_scores(scores, regions)
        on_progress("looking for phrases in all photos", end, len(text))
        return scores

    scores = ScoreBlocks((len(text), len(visual)), rows, max(1, _PAIRS_AT_ONCE // max(1, len(visual))))
    precision = phrase_precision(scores, items, regions, protocol=protocol)
    said = said_in_photos(phrase_regions.distinct_phrases(items), seen.photos)
    return OverAllPhotos(precision, presence(best, said))


def _all_proposals(bundle: Bundle, seen: SeenPhotos, on_progress: OnProgress) -> Floats:
    """The proposals of all photos, end to end, as the model sees them."""
    ids = seen.photos.ids
    vectors = []
    for done, photo_id in enumerate(ids, start=1):
        regions = (
            region_inputs(seen.store, photo_id, seen.top)
            if isinstance(bundle.model, Grounder)
            else seen.proposal_vectors(photo_id)
        )
        vectors.append(bundle.model.prepare_visual(regions))
        on_progress("reading regions", done, len(ids))
    return np.concatenate(vectors)
