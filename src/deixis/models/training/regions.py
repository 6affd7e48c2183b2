"""Region–phrase pairs of photos, with their features; and phrase localization on those of the validation split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.data.pairs import Integers, RegionPhrasePairs
from deixis.data.records import Caption, Mention, Photo
from deixis.errors import DatasetError
from deixis.language.features import TextFeatures, transform_in_chunks
from deixis.language.relations import Relation
from deixis.language.sentence import Sentence, parse_sentences
from deixis.models.base import Scorer
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.data import MatchingDataSettings
from deixis.storage.progress import OnProgress, no_progress, track

CORRECT_IOU = 0.5
"""A region with at least this IoU with the box of the chain is correct."""

KS = (1, 5, 10)
NEVER = np.iinfo(np.int64).max
"""Rank of the first correct region if no proposal is correct."""

_PHOTOS_AT_ONCE = 200


class Relations:
    """Relations in captions, whose sentences are parsed in batches, which is several times faster."""

    def __init__(self) -> None:
        self._sentences: dict[int, Sentence] = {}

    def parsed(self, photos: Iterable[Photo]) -> Iterator[Photo]:
        """Yield photos; the relations of a photo are available until the next one is taken."""
        rest = iter(photos)
        while some := list(islice(rest, _PHOTOS_AT_ONCE)):
            captions = [caption for photo in some for caption in photo.captions if caption.mentions]
            self._sentences = {id(caption): Sentence.from_caption(caption) for caption in captions}
            parse_sentences(self._sentences.values())
            yield from some

    def __call__(self, caption: Caption, mentions: Sequence[Mention]) -> list[Relation]:
        sentence = self._sentences.get(id(caption))
        return sentence.relations(mentions) if sentence else []


HalfFloats = NDArray[np.float16]


@dataclass(frozen=True)
class RegionSet:
    """Region–phrase pairs, and the features of all regions of their photos: row r is region r of `pairs`."""

    pairs: RegionPhrasePairs
    vectors: HalfFloats


def region_set(
    features: PhotoFeatures,
    data: MatchingDataSettings,
    *,
    where: str = "",
    gold_only: bool = False,
    on_progress: OnProgress = no_progress,
) -> RegionSet:
    """Collect the region–phrase pairs of photos, with the features of their gold boxes and proposals.

    `where` is the name of the data in error messages; `gold_only` leaves the proposals out.
    """
    photos = track(features.photos, "pairing regions and phrases", len(features.photos), on_progress)
    relations = Relations() if data.relation_phrases else None
    try:
        pairs = RegionPhrasePairs.from_photos(
            relations.parsed(photos) if relations else photos,
            (lambda photo_id: np.zeros((0, 4))) if gold_only else features.proposals,
            more_phrases=relations,
        )
    except DatasetError as error:
        raise DatasetError(f"{where}: {error}" if where else str(error)) from None
    if data.max_regions_per_phrase:
        pairs = pairs.resample(data.max_regions_per_phrase)
    return RegionSet(pairs, _vectors(features, pairs, on_progress))


def _vectors(features: PhotoFeatures, pairs: RegionPhrasePairs, on_progress: OnProgress) -> HalfFloats:
    vectors = np.empty((len(pairs.boxes), features.region_size), dtype=np.float16)
    ends = pairs.region_starts[1:]
    for row, photo_id in enumerate(pairs.photos):
        begin, first, end = pairs.region_starts[row], pairs.first_proposal[row], ends[row]
        vectors[begin:first] = features.region_vectors(photo_id, pairs.boxes[begin:first])
        if end > first:
            vectors[first:end] = features.proposal_vectors(photo_id)
        on_progress("reading regions", row + 1, len(pairs.photos))
    return vectors


def phrase_vectors(features: TextFeatures, phrases: Sequence[str], on_progress: OnProgress = no_progress) -> HalfFloats:
    """Return the features of phrases, one row each, in half precision to save memory."""
    vectors = np.empty((len(phrases), features.dimension), dtype=np.float16)
    done = 0
    for rows in transform_in_chunks(features, phrases):
        vectors[done : done + len(rows)] = rows
        done += len(rows)
        on_progress("reading phrases", done, len(phrases))
    return vectors


def proposed(pairs: RegionPhrasePairs, photo: int) -> slice:
    """Return the regions of a photo that are proposals."""
    return slice(int(pairs.first_proposal[photo]), int(pairs.region_starts[photo + 1]))


def localization_scores(model: Scorer, regions: RegionSet, phrases: Any) -> dict[str, float]:
    """R@1, R@5, R@10 and the upper bound in percent, as ``deixis evaluate grounding`` computes them.

    Gold boxes are not among the candidates; `phrases` are all distinct phrases as `prepare_text` takes them.
    """
    pairs = regions.pairs
    visual, text = model.prepare_visual(regions.vectors), model.prepare_text(phrases)
    found = np.concatenate(
        [_ranks(model, pairs, photo, visual[proposed(pairs, photo)], text) for photo in range(len(pairs.photos))]
    )
    scores = {f"r{k}": 100 * float(np.mean(found < k)) for k in KS}
    return {**scores, "upper_bound": 100 * float(np.mean(found < NEVER))}


def _ranks(model: Scorer, pairs: RegionPhrasePairs, photo: int, visual: Floats, text: Floats) -> Integers:
    """The number of regions before the first correct one, for each pair of a photo."""
    begin, end = np.searchsorted(pairs.photo, [photo, photo + 1])
    chains, phrases = pairs.chain[begin:end], pairs.phrase[begin:end]
    distinct, column = np.unique(phrases, return_inverse=True)
    # A stable sort: of equal scores, the region that was proposed first is ranked first.
    order = np.argsort(-model.scores(visual, text[distinct]), axis=0, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(order))[:, None], axis=0)
    first = proposed(pairs, photo).start
    starts, values = pairs.overlaps.starts, pairs.overlaps.values
    found = np.full(end - begin, NEVER)
    for row, chain in enumerate(chains):
        near = slice(starts[chain], starts[chain + 1])
        correct = values[near][pairs.ious[near] >= CORRECT_IOU] - first
        if len(correct):
            found[row] = ranks[correct, column[row]].min()
    return found


def dev_regions(features: PhotoFeatures, on_progress: OnProgress = no_progress) -> RegionSet | None:
    """Regions and phrases of the validation split; None if no phrase has a box."""

    def on_dev(doing: str, done: int, total: int | None) -> None:
        on_progress(f"dev: {doing}", done, total)

    try:
        return region_set(features, MatchingDataSettings(train_on="phrases"), on_progress=on_dev)
    except DatasetError:
        return None
