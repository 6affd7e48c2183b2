"""Photos with their regions and sentences with their trees: what an HM-LSTM learns from and is watched on."""

from __future__ import annotations

import numpy as np

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent, told
from deixis.language.sentence import Sentence
from deixis.models.correspondence import BoxesAndVectors, PhotoRegions, gold_boxes
from deixis.models.trees_cache import parsed_forest
from deixis.tasks.features_of import SeenPhotos
from deixis.training.hm_lstm import ParsedPhotos

TREES = "trees"
"""Beside the data: where the trees of its sentences are kept."""


def parsed_photos(
    dataset: Dataset, seen: SeenPhotos, *, gold: bool = False, on_progress: OnProgress = silent
) -> ParsedPhotos:
    """The trees of the sentences of photos, parsed now if they are not there yet, and the regions of the photos.

    Parameters
    ----------
    dataset
        Whose sentences; their trees are kept in its folder ``trees``.
    seen
        The photos, with their proposals.
    gold
        The boxes that the data says phrases name, too.
    on_progress
        Called as the work goes on.
    """
    sentences = [Sentence.of_caption(caption) for photo in seen.photos for caption in photo.sentences]
    forest = parsed_forest(sentences, dataset.path / TREES, on_progress)
    _, owner = seen.photos.sentence_rows()
    return ParsedPhotos(forest, owner, photo_regions(seen, gold=gold, on_progress=on_progress))


def photo_regions(seen: SeenPhotos, *, gold: bool = False, on_progress: OnProgress = silent) -> PhotoRegions:
    """Of each photo the whole of it, its proposals and, where they are wanted, its gold boxes."""
    refuse_two_sizes(seen)
    ids = seen.photos.ids
    place_of = {photo_id: place for place, photo_id in enumerate(ids)}
    sizes = seen.store.sizes(ids)
    told_of = {photo.id: gold_boxes(photo) for photo in seen.photos} if gold else {}

    def candidates(photo_id: str) -> BoxesAndVectors:
        place = place_of[photo_id]
        boxes = np.vstack([[0, 0, *sizes[place]], seen.proposals(photo_id)])
        vectors = np.vstack([seen.vectors(place, place + 1), seen.proposal_vectors(photo_id)])
        return boxes, vectors.astype(np.float16)

    def golden(photo_id: str) -> BoxesAndVectors:
        boxes = np.array(list(told_of[photo_id].values()), dtype=np.float64).reshape(-1, 4)
        return boxes, seen.region_vectors(photo_id, boxes).astype(np.float16) if len(boxes) else boxes

    return PhotoRegions.of(told(ids, "reading regions", len(ids), on_progress), candidates, golden if gold else None)


def refuse_two_sizes(seen: SeenPhotos) -> None:
    """One head serves photos and regions, so their vectors must be of one kind."""
    made_by = seen.store.contents
    if made_by.channels != made_by.dimension:
        raise DeixisError(
            f"{seen.store.path}: vectors of whole photos have {made_by.dimension} numbers and those of regions "
            f"{made_by.channels}; hm-lstm needs an encoder that gives both alike, such as deixis"
        )
