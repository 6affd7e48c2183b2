"""Training data: sentences whose phrases have boxes, and the regions of their photos.

All data is stored in a few arrays, on the device if they fit: a batch is a selection of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from deixis import geometry
from deixis.data.records import ENTITY_TYPES, Photo
from deixis.errors import DatasetError
from deixis.language.vocabulary import Vocabulary, WordTable
from deixis.models.base import RegionInputs, read_regions
from deixis.models.grounder.model import TextInput, make_text_inputs, to_word_spans
from deixis.models.grounder.network import RegionBatch, TextBatch, pad
from deixis.models.grounder.spec import GrounderSettings
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import words as words_of_tokens
from deixis.vision.encoder import resample_cells
from deixis.vision.feature_store import FeatureStore


@dataclass(frozen=True)
class GroundingExamples:
    """Text inputs with their photos, as columns."""

    photos: RegionBatch  # regions of the photos, in half precision
    text: TextBatch  # words, and the phrases that have boxes
    photo: Tensor  # index of each text input's photo
    caption: Tensor  # number of each text input's caption over all photos, ascending
    gold: Tensor  # (inputs, phrases, 4) union box of each phrase's chain, divided by the size of the photo
    chain: Tensor  # (inputs, phrases) row of `chain_boxes`
    chain_boxes: Tensor  # (chains, most, 4) boxes of each chain, padded with empty boxes
    types: Tensor  # (inputs, phrases, types) entity types of each phrase
    heads: Tensor  # (inputs, phrases) stem of the last word of each phrase, as an id
    photo_stems: Tensor  # (photos, stems) in the sentences of each photo; all have stem 0, for unknown words

    def __len__(self) -> int:
        """Number of phrases."""
        return int(self.text.mask.sum())

    def to(self, device: torch.device) -> GroundingExamples:
        names = ("photos", "text", "gold", "chain", "chain_boxes", "types", "heads", "photo_stems")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})


def build_vocabulary(photos: Iterable[Photo], min_count: int) -> Vocabulary:
    sentences = (words_of_tokens(caption.tokens) for photo in photos for caption in photo.sentences)
    return Vocabulary.fit(sentences, min_count)


def collect_examples(
    photos: Iterable[Photo],
    store: FeatureStore,
    table: WordTable,
    settings: GrounderSettings,
    *,
    max_proposals: int = 100,
    on_progress: OnProgress = no_progress,
) -> GroundingExamples:
    """Collect all phrases with boxes.

    Photos without such a phrase are skipped, and so are captions that describe another photo or a single region. All
    other photos must be in the feature store, which must have proposals.
    """
    regions: list[RegionInputs] = []
    stems: list[set[str]] = []
    rows: list[_Row] = []
    chains: list[np.ndarray] = []
    for number, photo in enumerate(photos):
        first_caption = rows[-1].caption + 1 if rows else 0
        boxes_of = _chain_boxes(photo, store)
        if own := _photo_rows(
            photo, boxes_of, len(stems), first_caption, len(chains), context=settings.sentence_context
        ):
            chains += boxes_of.values()
            rows += own
            read = read_regions(store, photo.id, max_proposals, cells=settings.use_feature_map)
            regions.append(_to_half(read, regions, settings.feature_grid))
            words = (word for caption in photo.sentences for word in words_of_tokens(caption.tokens))
            stems.append({stem(word) for word in words})
        on_progress("reading regions", number + 1, None)
    if not rows:
        raise DatasetError("no phrase has a box: there is nothing to train on or to evaluate")

    known = sorted({stem(word) for word in table.vocabulary.words})
    stem_ids = {word: number for number, word in enumerate(known, start=1)}
    photo_stems = torch.zeros(len(stems), len(stem_ids) + 1, dtype=torch.bool)
    for row, of_photo in zip(photo_stems, stems, strict=True):
        row[[0, *(stem_ids[word] for word in of_photo if word in stem_ids)]] = True
    heads = [np.array([stem_ids.get(stem(row.text.words[end - 1]), 0) for _, end in row.text.spans]) for row in rows]
    text = TextBatch.collate([row.text for row in rows], table)
    most = text.mask.shape[1]
    return GroundingExamples(
        photos=RegionBatch.collate(regions, cells=settings.use_feature_map, dtype=torch.float16),
        text=text,
        photo=torch.tensor([row.photo for row in rows]),
        caption=torch.tensor([row.caption for row in rows]),
        gold=pad([row.gold for row in rows], most, torch.float32),
        chain=pad([row.chain for row in rows], most, torch.int64),
        chain_boxes=pad(chains, max(map(len, chains)), torch.float32),
        types=pad([row.types for row in rows], most, torch.bool),
        heads=pad(heads, most, torch.int64),
        photo_stems=photo_stems,
    )


def stem(word: str) -> str:
    """The singular of a plural, approximately: enough to compare words."""
    singular = word[:-1] if word.endswith("s") and not word.endswith("ss") else word
    return _IRREGULAR.get(word, singular)


_IRREGULAR = {"men": "man", "women": "woman", "children": "child", "people": "person", "feet": "foot"}


class _Row(NamedTuple):
    """A text input: rows of the columns of `GroundingExamples`."""

    text: TextInput
    photo: int
    caption: int
    gold: np.ndarray
    chain: np.ndarray
    types: np.ndarray


def _photo_rows(
    photo: Photo,
    boxes_of: Mapping[str | None, np.ndarray],
    index: int,
    first_caption: int,
    first_chain: int,
    *,
    context: bool,
) -> list[_Row]:
    """The text inputs of a photo; none if no phrase has a box."""
    chain_ids = {chain: number for number, chain in enumerate(boxes_of, start=first_chain)}
    boxed = [[mention for mention in caption.mentions if mention.chain in boxes_of] for caption in photo.sentences]
    captions = [(caption, mentions) for caption, mentions in zip(photo.sentences, boxed, strict=True) if mentions]
    rows = []
    for number, (caption, mentions) in enumerate(captions, start=first_caption):
        words, spans = to_word_spans(caption.tokens, [(mention.start, mention.end) for mention in mentions])
        for text in make_text_inputs(words, spans, context=context):
            own = [mentions[phrase] for phrase in text.phrases]
            gold = np.stack([geometry.union(boxes_of[mention.chain]) for mention in own])
            chain = np.array([chain_ids[mention.chain] for mention in own])
            types = np.array([[kind in mention.types for kind in ENTITY_TYPES] for mention in own])
            rows.append(_Row(text, index, number, gold, chain, types))
    return rows


def _chain_boxes(photo: Photo, store: FeatureStore) -> dict[str | None, np.ndarray]:
    """The boxes of each chain, divided by the size of the photo."""
    boxes: dict[str | None, list[tuple[float, float, float, float]]] = {}
    for box in photo.boxes:
        for chain in box.chains:
            boxes.setdefault(chain, []).append(box.xyxy)
    if not boxes:
        return {}
    known = photo.width and photo.height
    size = np.array([photo.width, photo.height]) if known else store.sizes([photo.id])[0]
    return {chain: np.array(own) / np.tile(size, 2) for chain, own in boxes.items()}


def _to_half(photo: RegionInputs, others: Sequence[RegionInputs], grid: int) -> RegionInputs:
    """Convert to half precision, the store's own, and resample the feature map to one grid."""
    cells = photo.cells
    if cells is not None:
        if grid:
            cells = resample_cells(cells, grid, grid)
        elif others and others[0].cells is not None:
            cells = resample_cells(cells, *others[0].cells.shape[1:])
        cells = cells.astype(np.float16)
    return replace(photo, vectors=photo.vectors.astype(np.float16), cells=cells)
