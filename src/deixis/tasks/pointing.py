"""A model points: for phrases, the score of every region of a photo."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from deixis.evaluation.localization_items import Item
from deixis.evaluation.of_data import Regions
from deixis.evaluation.predictions import Prediction
from deixis.evaluation.scores import ScoreBlocks
from deixis.files.progress import OnProgress, silent
from deixis.language.features.base import Floats, Text
from deixis.tasks.bundle import Bundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.places import with_places
from deixis.vision.features import FeatureMap


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


def gold_region_scores(bundle: Bundle, seen: SeenPhotos, gold: Regions) -> ScoreBlocks:
    """Gold regions × all phrases, computed when they are asked for."""
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
