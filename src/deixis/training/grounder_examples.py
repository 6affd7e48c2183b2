"""What the grounder learns from and is measured on: sentences whose phrases have boxes, and regions of their photos.

All of it lies in a few arrays, on the device if there is room: a batch is rows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from deixis import geometry
from deixis.data.records import ENTITY_TYPES, Mention, Photo
from deixis.errors import DatasetError
from deixis.files.progress import OnProgress, silent
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder_inputs import (
    Reading,
    ReadingBatch,
    RegionBatch,
    RegionInputs,
    readings_of,
    words_and_spans,
)
from deixis.models.grounder_network import GrounderSettings
from deixis.tokens import words as words_of_tokens
from deixis.vision.pooling import resample_cells
from deixis.vision.store import FeatureStore


@dataclass(frozen=True)
class GroundingExamples:
    """Readings with their photos, as columns.

    Attributes
    ----------
    ids
        Of the photos.
    photos
        Their regions, in half precision.
    readings
        The words, and the phrases that have boxes.
    photo, caption
        Of each reading: the place of its photo, and the number of its caption over all photos; never falling.
    gold
        The box around all boxes of each phrase's chain, as shares of the photo: (readings, phrases, 4).
    types
        Which of the entity types each phrase has: (readings, phrases, types).
    heads
        The number of each phrase's last word, plurals as singulars: (readings, phrases).
    held
        Which of these words the sentences of each photo hold: (photos, words). Word 0 stands for all unknown words, and
        every photo holds it.
    """

    ids: tuple[str, ...]
    photos: RegionBatch
    readings: ReadingBatch
    photo: Tensor
    caption: Tensor
    gold: Tensor
    types: Tensor
    heads: Tensor
    held: Tensor

    def __len__(self) -> int:
        """How many phrases there are."""
        return int(self.readings.asked.sum())

    def to(self, device: torch.device) -> GroundingExamples:
        """The same on another device."""
        moved = {
            name: getattr(self, name).to(device) for name in ("photos", "readings", "gold", "types", "heads", "held")
        }
        return replace(self, **moved)


def region_inputs(store: FeatureStore, photo_id: str, top: int, *, cells: bool = False) -> RegionInputs:
    """The regions of a photo as the grounder takes them, from its `top` best proposals.

    Parameters
    ----------
    store
        Made with ``--proposals``.
    photo_id
        The photo.
    top
        Proposals at most.
    cells
        Whether the map is needed too.
    """
    proposals = store.proposals(photo_id)
    size = store.sizes([photo_id])[0]
    return RegionInputs(
        store.proposal_vectors(photo_id)[:top],
        proposals.boxes[:top] / np.tile(size, 2),
        proposals.scores[:top],
        store.whole([photo_id])[0],
        store.map(photo_id).cells if cells else None,
    )


def vocabulary_of(photos: Iterable[Photo], min_count: int) -> Vocabulary:
    """The words of the sentences of photos.

    Examples
    --------
    >>> from deixis.data.records import Caption
    >>> vocabulary_of([Photo("1", (Caption.from_text("A dog, a cat."),))], min_count=2).words
    ('a',)
    """
    sentences = (words_of_tokens(caption.tokens) for photo in photos for caption in photo.sentences)
    return Vocabulary.fit(sentences, min_count)


def grounding_examples(
    photos: Iterable[Photo],
    store: FeatureStore,
    vocabulary: Vocabulary,
    settings: GrounderSettings,
    *,
    top: int = 100,
    on_progress: OnProgress = silent,
) -> GroundingExamples:
    """All phrases with boxes that photos hold, such as those of ``Dataset.split("train")``.

    Parameters
    ----------
    photos
        Those without such a phrase are left out, and so are captions about another photo or a single region. All
        others must be in the store.
    store
        Made with ``--proposals``.
    vocabulary, settings
        Of the model.
    top
        Proposals of a photo at most.
    on_progress
        Called as the work goes on.
    """
    builder = _Builder(vocabulary, settings)
    for number, photo in enumerate(photos):
        if builder.add(photo, store):
            builder.regions.append(_halved(region_inputs(store, photo.id, top, cells=settings.cells), builder.regions))
        on_progress("reading regions", number + 1, None)
    return builder.finish()


def stem(word: str) -> str:
    """A plural as its singular, roughly: what only has to tell whether two words may mean the same.

    Examples
    --------
    >>> stem("dogs"), stem("grass"), stem("men")
    ('dog', 'grass', 'man')
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


_IRREGULAR = {"men": "man", "women": "woman", "children": "child", "people": "person", "feet": "foot"}


class _Builder:
    """Takes in photos one by one and makes the columns."""

    def __init__(self, vocabulary: Vocabulary, settings: GrounderSettings) -> None:
        self.vocabulary = vocabulary
        self.context = settings.context
        stems = sorted({stem(word) for word in vocabulary.words})
        self.stems = {word: number for number, word in enumerate(stems, start=1)}
        self.ids: list[str] = []
        self.regions: list[RegionInputs] = []
        self.readings: list[Reading] = []
        self.photo: list[int] = []
        self.caption: list[int] = []
        self.gold: list[np.ndarray] = []
        self.types: list[np.ndarray] = []
        self.held: list[set[int]] = []
        self.captions = 0

    def add(self, photo: Photo, store: FeatureStore) -> bool:
        """Take in the sentences of a photo; say whether there is anything to learn from them."""
        boxes_of = _boxes_of(photo, store)
        before = len(self.readings)
        for caption in photo.sentences:
            boxed = [mention for mention in caption.mentions if mention.chain in boxes_of]
            if not boxed:
                continue
            words, spans = words_and_spans(caption.tokens, [(mention.start, mention.end) for mention in boxed])
            for reading in readings_of(words, spans, context=self.context):
                mentions = [boxed[place] for place in reading.phrases]
                self.readings.append(reading)
                self.photo.append(len(self.ids))
                self.caption.append(self.captions)
                self.gold.append(np.stack([boxes_of[mention.chain] for mention in mentions]))
                self.types.append(_types_of(mentions))
            self.captions += 1
        if len(self.readings) == before:
            return False
        self.ids.append(photo.id)
        said = {stem(word) for caption in photo.sentences for word in words_of_tokens(caption.tokens)}
        self.held.append({0, *(self.stems[word] for word in said if word in self.stems)})
        return True

    def finish(self) -> GroundingExamples:
        """The columns of all that was taken in."""
        if not self.readings:
            raise DatasetError("no phrase has a box: there is nothing to point at")
        readings = ReadingBatch.of(self.readings, self.vocabulary)
        held = torch.zeros(len(self.ids), len(self.stems) + 1, dtype=torch.bool)
        for row, numbers in zip(held, self.held, strict=True):
            row[list(numbers)] = True
        heads = [
            np.array([self.stems.get(stem(reading.words[end - 1]), 0) for _, end in reading.spans])
            for reading in self.readings
        ]
        most = readings.asked.shape[1]
        cells = self.regions[0].cells is not None
        return GroundingExamples(
            ids=tuple(self.ids),
            photos=RegionBatch.of(self.regions, cells=cells, kind=torch.float16),
            readings=readings,
            photo=torch.tensor(self.photo),
            caption=torch.tensor(self.caption),
            gold=_columns(self.gold, most, torch.float32),
            types=_columns(self.types, most, torch.bool),
            heads=_columns(heads, most, torch.int64),
            held=held,
        )


def _boxes_of(photo: Photo, store: FeatureStore) -> dict[str | None, np.ndarray]:
    """The box around all boxes of each chain, as shares of the photo."""
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    for box in photo.boxes:
        for chain in box.chains:
            found.setdefault(chain, []).append(box.xyxy)
    if not found:
        return {}
    known = photo.width and photo.height
    size = np.array([photo.width, photo.height]) if known else store.sizes([photo.id])[0]
    return {chain: geometry.union(boxes) / np.tile(size, 2) for chain, boxes in found.items()}


def _types_of(mentions: Sequence[Mention]) -> np.ndarray:
    return np.array([[kind in mention.types for kind in ENTITY_TYPES] for mention in mentions])


def _halved(photo: RegionInputs, before: Sequence[RegionInputs]) -> RegionInputs:
    """In half precision, which is how the store has them; maps on the grid of the first one."""
    cells = photo.cells
    if cells is not None:
        if before and before[0].cells is not None:
            cells = resample_cells(cells, *before[0].cells.shape[1:])
        cells = cells.astype(np.float16)
    return replace(photo, vectors=photo.vectors.astype(np.float16), cells=cells)


def _columns(rows: Sequence[np.ndarray], most: int, kind: torch.dtype) -> Tensor:
    columns = torch.zeros(len(rows), most, *rows[0].shape[1:], dtype=kind)
    for column, row in zip(columns, rows, strict=True):
        column[: len(row)] = torch.from_numpy(row)
    return columns
