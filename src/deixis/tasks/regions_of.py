"""The regions of photos with the phrases that name them: what models of regions and phrases learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.data.pairs import RegionPhrasePairs
from deixis.errors import DatasetError
from deixis.files.progress import OnProgress, silent, told
from deixis.language.features import TextFeatures, transform_in_chunks
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.learning import Learning
from deixis.tasks.relations_of import Relations

HalfFloats = NDArray[np.float16]


@dataclass(frozen=True)
class RegionSet:
    """Pairs of a region and a phrase, and what all regions of their photos look like.

    Attributes
    ----------
    pairs
        Which region belongs to which phrase.
    vectors : array of float16, (regions, size)
        Row r is region r of `pairs`.
    """

    pairs: RegionPhrasePairs
    vectors: HalfFloats


def region_set(
    seen: SeenPhotos,
    learning: Learning,
    *,
    where: str = "",
    gold_only: bool = False,
    on_progress: OnProgress = silent,
) -> RegionSet:
    """All pairs of some photos, with the vectors of their gold boxes and proposals.

    Parameters
    ----------
    seen
        The photos, with their proposals.
    learning
        Whether relations are added, and how many regions a phrase keeps.
    where
        What to call the data in an error.
    gold_only
        Leave the proposals out.
    on_progress
        Called as the work goes on.
    """
    photos = told(seen.photos, "pairing regions and phrases", len(seen.photos), on_progress)
    said = Relations() if learning.relations else None
    try:
        pairs = RegionPhrasePairs.of_photos(
            said.parsed(photos) if said else photos,
            (lambda photo_id: np.zeros((0, 4))) if gold_only else seen.proposals,
            more_phrases=said,
        )
    except DatasetError as error:
        raise DatasetError(f"{where}: {error}" if where else str(error)) from None
    if learning.most_regions:
        pairs = pairs.resampled(learning.most_regions)
    return RegionSet(pairs, _vectors(seen, pairs, on_progress))


def _vectors(seen: SeenPhotos, pairs: RegionPhrasePairs, on_progress: OnProgress) -> HalfFloats:
    vectors = np.empty((len(pairs.boxes), seen.region_size), dtype=np.float16)
    ends = pairs.region_starts[1:]
    for place, photo_id in enumerate(pairs.photos):
        begin, first, end = pairs.region_starts[place], pairs.first_proposal[place], ends[place]
        vectors[begin:first] = seen.region_vectors(photo_id, pairs.boxes[begin:first])
        if end > first:
            vectors[first:end] = seen.proposal_vectors(photo_id)
        on_progress("reading regions", place + 1, len(pairs.photos))
    return vectors


def phrase_vectors(features: TextFeatures, phrases: Sequence[str], on_progress: OnProgress = silent) -> HalfFloats:
    """A row for each phrase; in half precision, for there are many and each has thousands of numbers."""
    vectors = np.empty((len(phrases), features.dimension), dtype=np.float16)
    done = 0
    for rows in transform_in_chunks(features, phrases):
        vectors[done : done + len(rows)] = rows
        done += len(rows)
        on_progress("reading phrases", done, len(phrases))
    return vectors


def proposed(pairs: RegionPhrasePairs, place: int) -> slice:
    """The regions of a photo that were proposed."""
    return slice(int(pairs.first_proposal[place]), int(pairs.region_starts[place + 1]))
