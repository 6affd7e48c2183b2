"""Training data: the parsed sentences of photos, and the regions of the photos with their features (section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.pairs import Integers
from deixis.language.sentence import Sentence
from deixis.models.hm_lstm.trees import Forest, parse_forest
from deixis.models.photo_features import PhotoFeatures
from deixis.storage.progress import OnProgress, no_progress, track

TREES_DIR = "trees"
"""Directory of a data set in which its parsed sentences are cached."""

BoxesAndFeatures = tuple[Sequence[Any] | NDArray[Any], ArrayLike]
"""Boxes of a photo in pixels, (n, 4), and their features, (n, size)."""


@dataclass(frozen=True)
class PhotoRegions:
    """Regions of photos with their features: for each photo the whole image, then proposals, then gold boxes."""

    photos: tuple[str, ...]
    starts: Integers  # first region of each photo, and the number of regions
    candidates: Integers  # number of regions of each photo that a phrase can be matched with: all but the gold boxes
    boxes: geometry.Boxes  # (regions, 4)
    vectors: NDArray[np.floating]  # (regions, size)

    @property
    def has_gold(self) -> NDArray[np.bool_]:
        """Whether each photo has gold boxes."""
        return np.diff(self.starts) > self.candidates

    @classmethod
    def collect(cls, photos: Iterable[tuple[str, BoxesAndFeatures, BoxesAndFeatures | None]]) -> PhotoRegions:
        """Collect the candidates of each photo, the whole image first, and its gold boxes if they are used."""
        ids, counts, candidate_counts, boxes, vectors = [], [0], [], [], []
        for photo, candidates, gold in photos:
            parts = [candidates] + ([gold] if gold and len(gold[0]) else [])
            ids.append(photo)
            candidate_counts.append(len(candidates[0]))
            counts.append(sum(len(part[0]) for part in parts))
            boxes += [np.asarray(part[0], dtype=np.float64) for part in parts]
            vectors += [np.asarray(part[1]) for part in parts]
        return cls(
            tuple(ids), np.cumsum(counts), np.array(candidate_counts), np.concatenate(boxes), np.concatenate(vectors)
        )


@dataclass(frozen=True)
class ParsedPhotos:
    """Photos with their regions, and their sentences with their trees."""

    forest: Forest  # the tree of each sentence; photo by photo, in the order of `regions`
    photo: Integers  # index of each sentence's photo in `regions`
    regions: PhotoRegions


def parse_photos(
    dataset: Dataset, features: PhotoFeatures, *, gold: bool = False, on_progress: OnProgress = no_progress
) -> ParsedPhotos:
    """Parse the sentences of photos, with a cache beside the data set, and read the regions of the photos.

    `gold` includes the gold boxes of phrases.
    """
    sentences = [Sentence.from_caption(caption) for photo in features.photos for caption in photo.sentences]
    forest = parse_forest(sentences, dataset.path / TREES_DIR, on_progress)
    _, photo = features.photos.sentence_rows()
    return ParsedPhotos(forest, photo, read_photo_regions(features, gold=gold, on_progress=on_progress))


def read_photo_regions(
    features: PhotoFeatures, *, gold: bool = False, on_progress: OnProgress = no_progress
) -> PhotoRegions:
    """Read the regions of photos: the whole image, the proposals and, if `gold`, the gold boxes."""
    ids = features.photos.ids
    sizes = features.store.sizes(ids)

    def regions() -> Iterator[tuple[str, BoxesAndFeatures, BoxesAndFeatures | None]]:
        photos = track(features.photos, "reading regions", len(ids), on_progress)
        for row, photo in enumerate(photos):
            boxes = np.vstack([[0, 0, *sizes[row]], features.proposals(photo.id)])
            vectors = np.vstack([features.vectors(row, row + 1), features.proposal_vectors(photo.id)])
            own = np.array([*photo.union_boxes().values()] if gold else [], dtype=np.float64).reshape(-1, 4)
            of_gold = (own, features.region_vectors(photo.id, own).astype(np.float16)) if len(own) else None
            yield photo.id, (boxes, vectors.astype(np.float16)), of_gold

    return PhotoRegions.collect(regions())
