"""An HM-LSTM points: a phrase is the node of its sentence's tree, and the whole photo is a region like the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from deixis.evaluation.localization_items import Item
from deixis.evaluation.predictions import Prediction
from deixis.files.progress import OnProgress, silent
from deixis.geometry import Boxes
from deixis.language.features.base import Floats
from deixis.language.sentence import Phrase, Sentence
from deixis.models.hm_lstm import HMLSTM
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.places import with_places, with_whole_place
from deixis.vision.features import FeatureMap


def hm_lstm_predictions(
    model: HMLSTM, seen: SeenPhotos, items: Sequence[Item], *, on_progress: OnProgress = silent
) -> list[Prediction]:
    """The whole photo and its proposals for every item, each with its score, as §3.3 of the paper finds regions.

    Parameters
    ----------
    model
        Whose scores.
    seen
        The photos of all items, with proposals.
    items
        Those of one photo must stand together, as `localization_items` gives them.
    on_progress
        Called as the work goes on.
    """
    text = model.prepare_text(_in_their_sentences(seen, items))
    place_of = {photo_id: place for place, photo_id in enumerate(seen.photos.ids)}
    sizes = seen.store.sizes(seen.photos.ids)
    found: list[Prediction] = []
    for photo_id, of_photo in groupby(items, key=lambda item: item.photo):
        here, place = list(of_photo), place_of[photo_id]
        boxes = _with_whole(seen.proposals(photo_id), sizes[place])
        vectors = np.vstack([seen.vectors(place, place + 1), seen.proposal_vectors(photo_id)])
        own = text[len(found) : len(found) + len(here)]
        scores = model.scores_in_photo(model.prepare_visual(vectors), own).astype(np.float64)
        found += [
            Prediction(item.photo, item.caption, item.span, boxes, scores[:, column])
            for column, item in enumerate(here)
        ]
        on_progress("pointing at phrases", len(found), len(items))
    return found


def point_in_photo(
    model: HMLSTM, photo: FeatureMap, proposals: npt.ArrayLike, phrases: Sequence[Phrase], place: float = 0.0
) -> tuple[Floats, Boxes]:
    """Scores of the whole photo and of its proposals for phrases, (phrases, regions), and the boxes of these regions.

    Parameters
    ----------
    model
        Whose scores.
    photo
        As the encoder of the model sees it.
    proposals
        Boxes in pixels of the photo, (n, 4).
    phrases
        Of one sentence or of several.
    place
        How much the place of a region counts, as the model has learned it.
    """
    boxes = np.asarray(proposals, dtype=np.float64).reshape(-1, 4)
    regions = with_places(photo.regions(boxes), boxes, photo.size, place)
    vectors = np.vstack([with_whole_place(photo.whole[None], place), regions])
    scores = model.scores_in_photo(model.prepare_visual(vectors), model.prepare_text(phrases))
    return scores.T, _with_whole(boxes, photo.size)


def _with_whole(boxes: Boxes, size: npt.ArrayLike) -> Boxes:
    return np.vstack([[0, 0, *np.asarray(size)], boxes]).astype(np.float64)


def _in_their_sentences(seen: SeenPhotos, items: Sequence[Item]) -> list[Phrase]:
    records = {photo.id: photo for photo in seen.photos}
    sentences: dict[tuple[str, int], Sentence] = {}
    for item in items:
        key = item.photo, item.caption
        if key not in sentences:
            sentences[key] = Sentence.of_caption(records[item.photo].captions[item.caption])
    return [sentences[item.photo, item.caption].phrase(*item.span) for item in items]
