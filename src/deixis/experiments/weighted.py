"""Photos and sentences scored by two trained models together, one of wholes and one of parts (eq. 2 and eq. 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from deixis.models.base import Scorer
from deixis.models.combined import ENTITIES, TWO_BRANCH, Combined, WithParts
from deixis.tasks.scores.combined import mentioned_phrases

if TYPE_CHECKING:
    from deixis.data.dataset import Photos
    from deixis.experiments.records import Weights
    from deixis.experiments.scored import Scored
    from deixis.language.features.base import Floats
    from deixis.tasks.bundle import Bundle

_SETTINGS = {"entities": ENTITIES, "two-branch": TWO_BRANCH}
_REGIONS = {"entities": 19, "two-branch": 200}
"""Proposals of a photo; beside them the whole photo is a region in Flickr30k Entities."""

_PHOTOS_AT_ONCE = 64


def weighted_scores(wholes: Bundle, parts: Bundle, weights: Weights, on: Scored) -> Floats:
    """Photos × sentences, higher is better.

    Parameters
    ----------
    wholes, parts
        Models of photos and sentences, and of regions and phrases.
    weights
        Whose combination: of Flickr30k Entities or of the two-branch networks.
    on
        What is scored. The phrases of a sentence are those that the data marks.
    """
    visual = _photos_with_regions(wholes, parts, weights, on)
    text = _sentences_with_phrases(wholes, parts, on.photos)
    model = Combined(cast(Scorer, wholes.model), cast(Scorer, parts.model), _SETTINGS[weights])
    rows, count = [], len(on.photos)
    for begin in range(0, count, _PHOTOS_AT_ONCE):
        end = min(begin + _PHOTOS_AT_ONCE, count)
        rows.append(model.scores(visual.run(begin, end), text))
        on.on_progress("comparing regions with phrases", end, count)
    return np.concatenate(rows)


def _photos_with_regions(wholes: Bundle, parts: Bundle, weights: Weights, on: Scored) -> WithParts:
    seen, near = on.seen_by(wholes), on.seen_by(parts, regions=True)
    regions = []
    as_regions = near.vectors()
    for place, photo_id in enumerate(on.photos.ids):
        vectors = near.proposal_vectors(photo_id)[: _REGIONS[weights]]
        # The two-branch paper names no whole photo among the regions; a photo without proposals has nothing else.
        if weights == "entities" or not len(vectors):
            vectors = np.concatenate([vectors, as_regions[place][None]])
        regions.append(parts.model.prepare_visual(vectors))
    counts = np.array([len(rows) for rows in regions], dtype=np.int64)
    return WithParts(wholes.model.prepare_visual(seen.vectors()), np.concatenate(regions), counts)


def _sentences_with_phrases(wholes: Bundle, parts: Bundle, photos: Photos) -> WithParts:
    captions = [caption for photo in photos for caption in photo.sentences]
    phrases = mentioned_phrases(captions)
    return WithParts(
        wholes.encode_sentences([caption.text for caption in captions]),
        parts.encode_sentences(phrases.texts),
        phrases.counts,
        phrases.which,
    )
