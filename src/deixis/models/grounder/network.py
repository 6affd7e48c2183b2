"""The network: scores every region of a photo for every phrase of a sentence.

A bidirectional GRU encodes the sentence; the state of a phrase is the mean over its words. The state of a region is the
sum of its features, its location and the features of the whole photo. The score is the dot product of both, after a
linear layer each. Optional transformer layers fuse regions and words and add a second score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from deixis.language.vocabulary import Vocabulary, WordTable
from deixis.models.base import RegionInputs
from deixis.models.grounder.model import TextInput, cell_arrays, span_arrays
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.networks import (
    GRUEncoder,
    TextEncoderShape,
    TransformerBlock,
    recurrent_states,
    tensor_fields,
    word_tensors,
)
from deixis.runtime import Array, Function

_LOCATION_HIDDEN = 128
_MIN_OBJECTNESS = 1e-4
"""Objectness is clamped, so that its logit stays finite."""
_MAX_LOG_SCALE = 1.0
"""The refiner scales a side of a box by at most e."""
_INITIAL_MEMBER_LOGIT = -3.0
"""About one region in twenty is one of the things that a phrase names."""


@dataclass(frozen=True)
class RegionBatch:
    """The regions of several photos, padded to the largest number of regions; the columns of `RegionInputs` stacked."""

    vectors: Tensor  # (b, k, channels)
    boxes: Tensor  # (b, k, 4)
    objectness: Tensor  # (b, k)
    whole: Tensor  # (b, dimension)
    mask: Tensor  # (b, k), False for padding
    cells: Tensor | None = None  # (b, cells, channels), row by row
    cell_centres: Tensor | None = None  # (b, cells, 2), divided by the width and height of the photo

    @classmethod
    def collate(
        cls, photos: Sequence[RegionInputs], *, cells: bool = False, dtype: torch.dtype = torch.float32
    ) -> RegionBatch:
        """Stack the regions of one or more photos; `dtype` is that of feature vectors."""
        most = max(1, *map(len, photos))  # at least one row, which may be padding
        counts = torch.tensor([len(photo) for photo in photos])
        maps = [cell_arrays(photo) for photo in photos] if cells else []
        return cls(
            pad([photo.vectors for photo in photos], most, dtype),
            pad([photo.boxes for photo in photos], most, torch.float32),
            pad([photo.objectness for photo in photos], most, torch.float32),
            torch.stack([_to_tensor(photo.whole).to(dtype) for photo in photos]),
            torch.arange(most) < counts[:, None],
            torch.stack([_to_tensor(vectors).to(dtype) for vectors, _ in maps]) if cells else None,
            torch.stack([_to_tensor(centres) for _, centres in maps]) if cells else None,
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def select(self, rows: Tensor) -> RegionBatch:
        return replace(self, **{name: column[rows] for name, column in tensor_fields(self).items()})

    def to(self, device: torch.device, dtype: torch.dtype | None = None) -> RegionBatch:
        """Copy to a device; `dtype` applies to floats."""
        columns = tensor_fields(self).items()
        return replace(
            self, **{name: each.to(device, dtype if each.is_floating_point() else None) for name, each in columns}
        )


@dataclass(frozen=True)
class TextBatch:
    """Several text inputs, padded."""

    words: Tensor  # (b, longest) word ids for training, or (b, longest, word_dim) word vectors
    lengths: Tensor  # (b,) number of words, on the CPU
    spans: Tensor  # (b, phrases, 2)
    mask: Tensor  # (b, phrases), False for padding

    @classmethod
    def collate(cls, inputs: Sequence[TextInput], vocabulary: Vocabulary | WordTable) -> TextBatch:
        """Inputs with the ids of their words, for training."""
        words = word_tensors([text.words for text in inputs], vocabulary)
        return cls(*words, *map(torch.from_numpy, span_arrays(inputs)))

    def __len__(self) -> int:
        return len(self.words)

    def select(self, rows: Tensor) -> TextBatch:
        """Select inputs, with no more padding than they need."""
        lengths = self.lengths[rows.cpu()]
        mask = self.mask[rows]
        words, most = int(lengths.max()), int(mask.sum(1).max())
        return TextBatch(self.words[rows, :words], lengths, self.spans[rows, :most], mask[:, :most])

    def split_phrases(self) -> TextBatch:
        """Each phrase as an input of its own, in order."""
        begin, end = self.spans[self.mask].T
        lengths, row = end - begin, self.mask.nonzero()[:, 0]
        offset = torch.arange(int(lengths.max()), device=row.device)
        words = self.words[row[:, None], (begin[:, None] + offset).clamp(max=self.words.shape[1] - 1)]
        spans = torch.stack([torch.zeros_like(lengths), lengths], dim=1)[:, None]
        mask = torch.ones(len(row), 1, dtype=torch.bool, device=row.device)
        return TextBatch(words.masked_fill(offset >= lengths[:, None], 0), lengths.cpu(), spans, mask)

    def to(self, device: torch.device) -> TextBatch:
        return TextBatch(self.words.to(device), self.lengths, self.spans.to(device), self.mask.to(device))


def pad(arrays: Sequence[NDArray[Any]], most: int, dtype: torch.dtype) -> Tensor:
    """Stack arrays of different lengths, padded with zeros to `most` rows."""
    padded = torch.zeros(len(arrays), most, *arrays[0].shape[1:], dtype=dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = _to_tensor(array)
    return padded


def _to_tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(array, order="C"))  # a copy, because torch refuses negative strides


@dataclass(frozen=True)
class NetworkOutput:
    """Scores and states of text inputs and their photos."""

    scores: Tensor  # (b, phrases, regions); −∞ for padded regions
    phrases: Tensor  # (b, phrases, d) states for box refinement
    regions: Tensor  # (b, regions, d)
    region_vectors: Tensor  # (photos, regions, d + 1) of the dot product


class WordEncoder(GRUEncoder):
    """A bidirectional GRU with a state for each word: (n, longest, 2 · hidden_size)."""

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        return recurrent_states(self.recurrent, self.dropout(self.words(words)), lengths, words.shape[1])


class Matching(nn.Module):
    """Linear layers of phrases and regions before the dot product."""

    def __init__(self, embedding_dim: int) -> None:
        super().__init__()
        self.phrase = nn.Linear(embedding_dim, embedding_dim)
        self.region = nn.Linear(embedding_dim, embedding_dim)

    def phrases(self, states: Tensor) -> Tensor:
        return self.phrase(states)

    def regions(self, states: Tensor) -> Tensor:
        return self.region(states) / math.sqrt(states.shape[-1])  # small initial scores


class Fusion(nn.Module):
    """Transformer layers over the regions of a photo, the words of a sentence and optionally the feature map."""

    def __init__(self, channels: int, settings: GrounderSettings) -> None:
        super().__init__()
        width = settings.embedding_dim
        # For regions, words and cells.
        self.type_embeddings = nn.Parameter(nn.init.normal_(torch.empty(3, width), std=0.02))
        self.cell_projection = _projection(channels, width) if settings.use_feature_map else None
        self.cell_location = _location_mlp(2, width) if settings.use_feature_map else None
        block = TransformerBlock(width, settings.dropout)
        self.layers = nn.TransformerEncoder(block, settings.num_layers, enable_nested_tensor=False)
        self.matching = Matching(width)

    def forward(self, regions: Tensor, region_mask: Tensor, words: Tensor, word_mask: Tensor, *cells: Tensor) -> Tensor:
        """New states of regions and words, concatenated: (b, regions + words, d)."""
        count = regions.shape[1] + words.shape[1]
        states = [regions + self.type_embeddings[0], words + self.type_embeddings[1]]
        masks = [region_mask, word_mask]
        if self.cell_projection is not None and self.cell_location is not None:
            vectors, centres = cells
            states.append(self.cell_projection(vectors) + self.cell_location(centres) + self.type_embeddings[2])
            masks.append(torch.ones_like(centres[..., 0], dtype=torch.bool))
        joined, mask = torch.cat(states, dim=1), torch.cat(masks, dim=1)
        for block in self.layers.layers:
            joined = block(joined, mask)
        return joined[:, :count]


class BoxRefiner(nn.Module):
    """Predicts offsets that fit a proposal to a phrase; initially zero."""

    def __init__(self, embedding_dim: int) -> None:
        super().__init__()
        self.phrase = nn.Linear(embedding_dim, embedding_dim)
        self.region = nn.Linear(embedding_dim, embedding_dim, bias=False)
        self.offsets = nn.Linear(embedding_dim, 4)
        nn.init.zeros_(self.offsets.weight)
        nn.init.zeros_(self.offsets.bias)

    def forward(self, phrases: Tensor, regions: Tensor, boxes: Tensor) -> Tensor:
        """Refine the boxes (b, phrases or 1, c, 4) of regions (b, phrases or 1, c, d) for phrases (b, phrases, d)."""
        hidden = functional.gelu(self.phrase(phrases)[:, :, None] + self.region(regions))
        return apply_offsets(boxes, self.offsets(hidden).to(boxes.dtype))


class Members(nn.Module):
    """Scores regions as one of the things that a phrase names, and refines their boxes to that thing."""

    def __init__(self, embedding_dim: int, *, refine_boxes: bool) -> None:
        super().__init__()
        self.matching = Matching(embedding_dim)
        self.bias = nn.Parameter(torch.tensor(_INITIAL_MEMBER_LOGIT))
        self.box_refiner = BoxRefiner(embedding_dim) if refine_boxes else None

    def forward(self, phrases: Tensor, regions: Tensor) -> Tensor:
        """Logits (b, phrases, regions) from states (b, phrases, d) and (b, regions, d)."""
        return self.matching.phrases(phrases) @ self.matching.regions(regions).transpose(1, 2) + self.bias


def apply_offsets(boxes: Tensor, offsets: Tensor) -> Tensor:
    """Shift boxes (…, 4) by multiples of their size and scale them by powers of e; clamped to the photo."""
    begin, end = boxes[..., :2], boxes[..., 2:]
    centre = (begin + end) / 2 + offsets[..., :2] * (end - begin)
    half = (end - begin) / 2 * offsets[..., 2:].clamp(-_MAX_LOG_SCALE, _MAX_LOG_SCALE).exp()
    return torch.cat([centre - half, centre + half], dim=-1).clamp(0, 1)


class GrounderNetwork(nn.Module):
    """Scores every phrase of sentences against every region of their photos; `words` is the size of the vocabulary."""

    def __init__(self, channels: int, whole_size: int, words: int, settings: GrounderSettings) -> None:
        super().__init__()
        width = settings.embedding_dim
        self.channels, self.whole_size, self.dimension = channels, whole_size, width + 1
        self.use_cells = settings.use_feature_map
        shape = TextEncoderShape("gru", words, settings.word_dim, settings.hidden_size, 1, settings.word_dropout)
        self.text_encoder = WordEncoder(shape)
        self.word_projection = nn.Linear(self.text_encoder.size, width)
        self.region_projection = _projection(channels, width)
        self.location = _location_mlp(7, width) if settings.use_location else None
        self.global_projection = _projection(whole_size, width) if settings.global_context else None
        self.dropout = nn.Dropout(settings.dropout)
        self.matching = Matching(width)
        self.objectness_weight = nn.Parameter(torch.tensor(0.5))
        self.fusion = Fusion(channels, settings) if settings.num_layers else None
        self.box_refiner = BoxRefiner(width) if settings.refine_boxes else None
        self.members = Members(width, refine_boxes=settings.refine_boxes) if settings.sets_weight else None
        # Logarithm of the scale, and bias, that turn a score into the logit of presence.
        self.presence_calibration = nn.Parameter(torch.zeros(2)) if settings.presence_weight else None

    def encode_regions(self, vectors: Tensor, boxes: Tensor, objectness: Tensor, whole: Tensor) -> Tensor:
        """States of the regions of photos: (b, k, d)."""
        states = self.region_projection(vectors)
        if self.location is not None:
            sizes = boxes[..., 2:] - boxes[..., :2]
            states = states + self.location(torch.cat([boxes, sizes, objectness[..., None]], dim=-1))
        if self.global_projection is not None:
            states = states + self.global_projection(whole)[:, None]
        return self.dropout(states)

    def encode_words(self, words: Tensor, lengths: Tensor) -> Tensor:
        """States of words: (b, longest, d)."""
        return self.dropout(self.word_projection(self.text_encoder(words, lengths)))

    def region_vectors(self, states: Tensor, objectness: Tensor) -> Tensor:
        """Vectors of regions; the last component is a score that does not depend on the phrase."""
        prior = self.objectness_weight * objectness.clamp(_MIN_OBJECTNESS, 1 - _MIN_OBJECTNESS).logit()
        return torch.cat([self.matching.regions(states), prior[..., None]], dim=-1)

    def phrase_vectors(self, states: Tensor) -> Tensor:
        """Vectors of phrases; the last component is 1."""
        vectors = self.matching.phrases(states)
        return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)

    def phrase_vectors_alone(self, text: TextBatch) -> Tensor:
        """Vectors of the phrases of a batch, each encoded without its sentence: (n, d + 1)."""
        phrases = text.split_phrases()
        states = mean_over_spans(self.encode_words(phrases.words, phrases.lengths), phrases.spans)[:, 0]
        with torch.autocast(states.device.type, enabled=False):
            return self.phrase_vectors(states.to(self.matching.phrase.weight.dtype))

    def forward(self, photos: RegionBatch, photo_of: Tensor, text: TextBatch) -> NetworkOutput:
        """Score regions for phrases; `photo_of` is the index of each text input's photo."""
        encoded = self.encode_regions(photos.vectors, photos.boxes, photos.objectness, photos.whole)
        words = self.encode_words(text.words, text.lengths)
        regions, phrases = encoded[photo_of], mean_over_spans(words, text.spans)
        dtype = photos.boxes.dtype
        with torch.autocast(encoded.device.type, enabled=False):  # half precision would change the ranking
            region_vectors = self.region_vectors(encoded.to(dtype), photos.objectness)
            scores = self.phrase_vectors(phrases.to(dtype)) @ region_vectors[photo_of].transpose(1, 2)
        region_mask = photos.mask[photo_of]
        if self.fusion is not None:
            word_mask = torch.arange(words.shape[1], device=words.device) < text.lengths.to(words.device)[:, None]
            cells = [column[photo_of] for column in (photos.cells, photos.cell_centres) if column is not None]
            states = self.fusion(regions, region_mask, words, word_mask, *cells)
            count = regions.shape[1]
            regions, phrases = states[:, :count], mean_over_spans(states[:, count:], text.spans)
            with torch.autocast(encoded.device.type, enabled=False):
                fused = self.fusion.matching
                scores = scores + fused.phrases(phrases.to(dtype)) @ fused.regions(regions.to(dtype)).transpose(1, 2)
        scores = scores.masked_fill(~region_mask[:, None], -torch.inf)
        return NetworkOutput(scores, phrases.to(dtype), regions.to(dtype), region_vectors)

    def refine(self, output: NetworkOutput, boxes: Tensor, chosen: Tensor, *, members: bool = False) -> Tensor:
        """Refined boxes (b, phrases, c, 4) of the regions `chosen` (b, phrases, c); `boxes` are (b, regions, 4).

        With `members`, each box is refined to one of the things of the phrase instead of all of them.
        """
        row = torch.arange(len(chosen), device=chosen.device)[:, None, None]
        refiner = self.members.box_refiner if members and self.members is not None else self.box_refiner
        if refiner is None:
            return boxes[row, chosen]
        return refiner(output.phrases, output.regions[row, chosen], boxes[row, chosen])

    # Inference on one photo.

    def functions(self) -> list[Function]:
        """Inference functions."""
        region = {
            "vectors": Array("regions", self.channels),
            "boxes": Array("regions", 4),
            "objectness": Array("regions", example=0.5),
            "whole": Array(self.whole_size),
        }
        cells = {"cells": Array("cells", self.channels), "cell_centres": Array("cells", 2)}
        words = {
            "words": Array("texts", "words", self.text_encoder.words.embedding_dim),
            "lengths": Array("texts", dtype="int64", example=2),
        }
        spans = {"spans": Array("texts", "phrases", 2, dtype="int64")}
        region_vectors = {"region_vectors": Array("regions", self.dimension)}
        found = {
            "scores": Array("texts", "phrases", "regions"),
            "refined": Array("texts", "phrases", "regions", 4),
        }
        if self.members is not None:
            found["members"] = Array("texts", "phrases", "regions")
            found["member_boxes"] = Array("texts", "phrases", "regions", 4)
        return [
            Function("embed_regions", region, region_vectors),
            Function("embed_phrases", words, {"phrase_vectors": Array("texts", self.dimension)}),
            Function("ground", {**region, **words, **spans, **(cells if self.use_cells else {})}, found),
        ]

    def embed_regions(self, vectors: Tensor, boxes: Tensor, objectness: Tensor, whole: Tensor) -> Tensor:
        """Vectors of the regions of a photo: (regions, d + 1)."""
        states = self.encode_regions(vectors[None], boxes[None], objectness[None], whole[None])
        return self.region_vectors(states, objectness[None])[0]

    def embed_phrases(self, words: Tensor, lengths: Tensor) -> Tensor:
        """Vectors of phrases without a sentence: (texts, d + 1)."""
        spans = torch.stack([torch.zeros_like(lengths), lengths], dim=1)[:, None]
        return self.phrase_vectors(mean_over_spans(self.encode_words(words, lengths), spans)[:, 0])

    def ground(
        self,
        vectors: Tensor,
        boxes: Tensor,
        objectness: Tensor,
        whole: Tensor,
        words: Tensor,
        lengths: Tensor,
        spans: Tensor,
        cells: Tensor | None = None,
        cell_centres: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Scores (texts, phrases, regions) of the regions of a photo, and their boxes refined for each phrase.

        With `sets_weight` also the logits of members, and the boxes refined as members.
        """
        mask = torch.ones_like(objectness[None], dtype=torch.bool)
        photo = RegionBatch(vectors[None], boxes[None], objectness[None], whole[None], mask)
        if cells is not None and cell_centres is not None:
            photo = replace(photo, cells=cells[None], cell_centres=cell_centres[None])
        text = TextBatch(words, lengths, spans, torch.ones_like(spans[..., 0], dtype=torch.bool))
        output: NetworkOutput = self(photo, torch.zeros_like(lengths), text)

        def refine(refiner: BoxRefiner | None) -> Tensor:
            if refiner is None:
                return boxes.expand(*spans.shape[:2], *boxes.shape)
            return refiner(output.phrases, output.regions[:, None], boxes)

        found = output.scores, refine(self.box_refiner)
        if self.members is None:
            return found
        return *found, self.members(output.phrases, output.regions), refine(self.members.box_refiner)


def mean_over_spans(words: Tensor, spans: Tensor) -> Tensor:
    """Mean over the words of each span: (b, longest, d) and (b, phrases, 2) to (b, phrases, d)."""
    index = torch.arange(words.shape[1], device=words.device)
    within = ((index >= spans[..., :1]) & (index < spans[..., 1:])).to(words.dtype)
    return (within @ words) / within.sum(dim=-1, keepdim=True).clamp(min=1)


def _projection(size: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(size), nn.Linear(size, width))


def _location_mlp(size: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, _LOCATION_HIDDEN), nn.GELU(), nn.Linear(_LOCATION_HIDDEN, width))
