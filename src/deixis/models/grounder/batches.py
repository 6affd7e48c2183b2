"""Batches of the grounder as tensors: the regions of photos, and words with the spans of phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.language.vocabulary import Vocabulary
from deixis.language.word_table import WordTable
from deixis.models.grounder.inputs import TextInput, cell_arrays, span_arrays
from deixis.models.networks import tensor_fields, word_tensors
from deixis.models.region_inputs import RegionInputs


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
