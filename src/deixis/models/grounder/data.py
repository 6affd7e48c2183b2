"""Training data: sentences whose phrases have boxes, and the regions of their photos.

All data is stored in a few arrays, on the device if they fit: a batch is a selection of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from deixis import geometry
from deixis.data.records import ENTITY_TYPES, Photo
from deixis.errors import DatasetError
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder.inputs import RegionBatch, TextBatch, TextInput, make_text_inputs, pad, to_word_spans
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.photo_features import RegionInputs
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import words as words_of_tokens
from deixis.vision.feature_map import resample_cells
from deixis.vision.feature_store import FeatureStore


@dataclass(frozen=True)
class GroundingExamples:
    """Text inputs with their photos, as columns."""

    ids: tuple[str, ...]  # photo ids
    photos: RegionBatch  # regions of the photos, in half precision
    text: TextBatch  # words, and the phrases that have boxes
    photo: Tensor  # index of each text input's photo
    caption: Tensor  # number of each text input's caption over all photos, ascending
    gold: Tensor  # (inputs, phrases, 4) union box of each phrase's chain, divided by the size of the photo
    types: Tensor  # (inputs, phrases, types) entity types of each phrase
    heads: Tensor  # (inputs, phrases) stem of the last word of each phrase, as an id
    photo_stems: Tensor  # (photos, stems) in the sentences of each photo; all have stem 0, for unknown words

    def __len__(self) -> int:
        """Number of phrases."""
        return int(self.text.mask.sum())

    def to(self, device: torch.device) -> GroundingExamples:
        names = ("photos", "text", "gold", "types", "heads", "photo_stems")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def read_regions(store: FeatureStore, photo_id: str, max_proposals: int, *, cells: bool = False) -> RegionInputs:
    """Read the best proposals of a photo from a feature store, with its feature map if `cells`."""
    proposals = store.proposals(photo_id)
    size = store.sizes([photo_id])[0]
    return RegionInputs(
        store.proposal_vectors(photo_id)[:max_proposals],
        proposals.boxes[:max_proposals] / np.tile(size, 2),
        proposals.scores[:max_proposals],
        store.whole([photo_id])[0],
        store.map(photo_id).cells if cells else None,
    )


def build_vocabulary(photos: Iterable[Photo], min_count: int) -> Vocabulary:
    sentences = (words_of_tokens(caption.tokens) for photo in photos for caption in photo.sentences)
    return Vocabulary.fit(sentences, min_count)


def collect_examples(
    photos: Iterable[Photo],
    store: FeatureStore,
    vocabulary: Vocabulary,
    settings: GrounderSettings,
    *,
    max_proposals: int = 100,
    on_progress: OnProgress = no_progress,
) -> GroundingExamples:
    """Collect all phrases with boxes.

    Photos without such a phrase are skipped, and so are captions that describe another photo or a single region. All
    other photos must be in the feature store, which must have proposals.
    """
    builder = _ExampleBuilder(vocabulary, settings)
    for number, photo in enumerate(photos):
        if builder.add(photo, store):
            regions = read_regions(store, photo.id, max_proposals, cells=settings.use_feature_map)
            builder.regions.append(_to_half(regions, builder.regions))
        on_progress("reading regions", number + 1, None)
    return builder.build()


def stem(word: str) -> str:
    """The singular of a plural, approximately: enough to compare words."""
    singular = word[:-1] if word.endswith("s") and not word.endswith("ss") else word
    return _IRREGULAR.get(word, singular)


_IRREGULAR = {"men": "man", "women": "woman", "children": "child", "people": "person", "feet": "foot"}


class _ExampleBuilder:
    """Collects the columns of `GroundingExamples` photo by photo."""

    def __init__(self, vocabulary: Vocabulary, settings: GrounderSettings) -> None:
        self.vocabulary = vocabulary
        self.context = settings.sentence_context
        stems = sorted({stem(word) for word in vocabulary.words})
        self.stem_ids = {word: number for number, word in enumerate(stems, start=1)}
        self.ids: list[str] = []
        self.regions: list[RegionInputs] = []
        self.text: list[TextInput] = []
        self.photo: list[int] = []
        self.caption: list[int] = []
        self.gold: list[np.ndarray] = []
        self.types: list[np.ndarray] = []
        self.photo_stems: list[set[int]] = []
        self.captions = 0

    def add(self, photo: Photo, store: FeatureStore) -> bool:
        """Add the sentences of a photo; False if none has a phrase with a box."""
        boxes_of = _chain_boxes(photo, store)
        before = len(self.text)
        for caption in photo.sentences:
            boxed = [mention for mention in caption.mentions if mention.chain in boxes_of]
            if not boxed:
                continue
            words, spans = to_word_spans(caption.tokens, [(mention.start, mention.end) for mention in boxed])
            for text in make_text_inputs(words, spans, context=self.context):
                mentions = [boxed[phrase] for phrase in text.phrases]
                self.text.append(text)
                self.photo.append(len(self.ids))
                self.caption.append(self.captions)
                self.gold.append(np.stack([boxes_of[mention.chain] for mention in mentions]))
                types = [[kind in mention.types for kind in ENTITY_TYPES] for mention in mentions]
                self.types.append(np.array(types))
            self.captions += 1
        if len(self.text) == before:
            return False
        self.ids.append(photo.id)
        stems = {stem(word) for caption in photo.sentences for word in words_of_tokens(caption.tokens)}
        self.photo_stems.append({0, *(self.stem_ids[word] for word in stems if word in self.stem_ids)})
        return True

    def build(self) -> GroundingExamples:
        if not self.text:
            raise DatasetError("no phrase has a box: there is nothing to train on or to evaluate")
        text = TextBatch.collate(self.text, self.vocabulary)
        photo_stems = torch.zeros(len(self.ids), len(self.stem_ids) + 1, dtype=torch.bool)
        for row, numbers in zip(photo_stems, self.photo_stems, strict=True):
            row[list(numbers)] = True
        heads = [
            np.array([self.stem_ids.get(stem(each.words[end - 1]), 0) for _, end in each.spans]) for each in self.text
        ]
        most = text.mask.shape[1]
        return GroundingExamples(
            ids=tuple(self.ids),
            photos=RegionBatch.collate(self.regions, cells=self.regions[0].cells is not None, dtype=torch.float16),
            text=text,
            photo=torch.tensor(self.photo),
            caption=torch.tensor(self.caption),
            gold=pad(self.gold, most, torch.float32),
            types=pad(self.types, most, torch.bool),
            heads=pad(heads, most, torch.int64),
            photo_stems=photo_stems,
        )


def _chain_boxes(photo: Photo, store: FeatureStore) -> dict[str | None, np.ndarray]:
    """The union box of each chain, divided by the size of the photo."""
    chains = {chain for box in photo.boxes for chain in box.chains}
    if not chains:
        return {}
    known = photo.width and photo.height
    size = np.array([photo.width, photo.height]) if known else store.sizes([photo.id])[0]
    unions = {chain: geometry.union([box.xyxy for box in photo.boxes_of(chain)]) for chain in chains}
    return {chain: box / np.tile(size, 2) for chain, box in unions.items()}


def _to_half(photo: RegionInputs, others: Sequence[RegionInputs]) -> RegionInputs:
    """Convert to half precision, the store's own, and resample the feature map to the grid of the first photo."""
    cells = photo.cells
    if cells is not None:
        if others and others[0].cells is not None:
            cells = resample_cells(cells, *others[0].cells.shape[1:])
        cells = cells.astype(np.float16)
    return replace(photo, vectors=photo.vectors.astype(np.float16), cells=cells)
