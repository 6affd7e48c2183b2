"""Inputs of the grounder as tensors: the regions of photos, and words with the spans of phrases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.networks import MAX_WORDS, tensor_fields, word_ids
from deixis.models.photo_features import RegionInputs
from deixis.tokens import Token
from deixis.tokens import words as words_of_tokens

Array = npt.NDArray[Any]
Span = tuple[int, int]


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
        maps = [_require_map(photo) for photo in photos] if cells else []
        return cls(
            pad([photo.vectors for photo in photos], most, dtype),
            pad([photo.boxes for photo in photos], most, torch.float32),
            pad([photo.objectness for photo in photos], most, torch.float32),
            torch.stack([_to_tensor(photo.whole).to(dtype) for photo in photos]),
            torch.arange(most) < counts[:, None],
            torch.stack([_to_tensor(one).flatten(1).T.to(dtype) for one in maps]) if cells else None,
            torch.stack([_cell_centres(*one.shape[1:]) for one in maps]) if cells else None,
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
class TextInput:
    """Words that are encoded together."""

    words: tuple[str, ...]  # at most `MAX_WORDS`
    spans: tuple[Span, ...]  # phrases, as spans of `words`
    phrases: tuple[int, ...]  # index of each phrase among the phrases of the sentence


def make_text_inputs(words: Sequence[str], spans: Sequence[Span], *, context: bool = True) -> list[TextInput]:
    """Split a sentence into inputs: the phrases within the sentence, or each phrase alone.

    A phrase beyond `MAX_WORDS` words is always encoded alone. A phrase without words becomes an unknown word. Spans
    count words, end exclusive.
    """
    for begin, end in spans:
        if not 0 <= begin <= end <= len(words):
            raise DeixisError(f"span {begin} to {end}: the sentence has {len(words)} words")
    in_context = [phrase for phrase, (begin, end) in enumerate(spans) if context and begin < end <= MAX_WORDS]
    inputs = []
    if in_context:
        own_spans = tuple(spans[phrase] for phrase in in_context)
        inputs.append(TextInput(tuple(words[:MAX_WORDS]), own_spans, tuple(in_context)))
    for phrase in sorted(set(range(len(spans))).difference(in_context)):
        alone = tuple(words[slice(*spans[phrase])][:MAX_WORDS]) or ("",)
        inputs.append(TextInput(alone, ((0, len(alone)),), (phrase,)))
    return inputs


def to_word_spans(tokens: Iterable[Token], spans: Sequence[Span]) -> tuple[list[str], list[Span]]:
    """The words of a sentence, and character spans as spans of these words.

    Character spans are offsets in code points, end exclusive. A word that is partly within a span belongs to it.
    """
    located = [(word, token) for token in tokens for word in words_of_tokens([token])]
    starts = np.array([token.start for _, token in located], dtype=np.int64)
    ends = np.array([token.end for _, token in located], dtype=np.int64)
    word_spans = []
    for start, end in spans:
        begin = int(np.searchsorted(ends, start, side="right"))
        word_spans.append((begin, max(begin, int(np.searchsorted(starts, end)))))
    return [word for word, _ in located], word_spans


@dataclass(frozen=True)
class TextBatch:
    """Several text inputs, padded."""

    words: Tensor  # (b, longest) word ids
    lengths: Tensor  # (b,) number of words, on the CPU
    spans: Tensor  # (b, phrases, 2)
    mask: Tensor  # (b, phrases), False for padding

    @classmethod
    def collate(cls, inputs: Sequence[TextInput], vocabulary: Vocabulary) -> TextBatch:
        words, lengths = word_ids([text.words for text in inputs], vocabulary)
        most = max((len(text.spans) for text in inputs), default=0)
        spans = torch.zeros(len(inputs), most, 2, dtype=torch.int64)
        mask = torch.zeros(len(inputs), most, dtype=torch.bool)
        for row, text in enumerate(inputs):
            spans[row, : len(text.spans)] = torch.tensor(text.spans)
            mask[row, : len(text.spans)] = True
        return cls(words, lengths, spans, mask)

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


def pad(arrays: Sequence[Array], most: int, dtype: torch.dtype) -> Tensor:
    """Stack arrays of different lengths, padded with zeros to `most` rows."""
    padded = torch.zeros(len(arrays), most, *arrays[0].shape[1:], dtype=dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = _to_tensor(array)
    return padded


def _to_tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.array(array, order="C"))  # a copy, because torch refuses negative strides


def _require_map(photo: RegionInputs) -> Array:
    if photo.cells is None or photo.cells.ndim != 3:
        raise DeixisError("use_feature_map=true: the feature map (channels, rows, columns) of the photo is missing")
    return photo.cells


def _cell_centres(rows: int, columns: int) -> Tensor:
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
    return torch.stack([x, y], dim=-1).flatten(0, 1)
