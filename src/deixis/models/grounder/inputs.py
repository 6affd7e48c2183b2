"""Inputs of the grounder as arrays: words with the spans of phrases, and the cells of feature maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.word_table import WordTable
from deixis.models.inputs import MAX_WORDS, word_vectors
from deixis.models.region_inputs import RegionInputs
from deixis.tokens import Token
from deixis.tokens import words as words_of_tokens
from deixis.vision.feature_map import resample_cells

Span = tuple[int, int]


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


def text_arrays(
    inputs: Sequence[TextInput], table: WordTable
) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Word vectors (n, longest, word_dim), lengths (n,), and spans and their mask as `span_arrays` gives them."""
    return *word_vectors([text.words for text in inputs], table), *span_arrays(inputs)


def span_arrays(inputs: Sequence[TextInput]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Spans (n, phrases, 2), padded, and which of them are phrases (n, phrases)."""
    most = max((len(text.spans) for text in inputs), default=0)
    spans = np.zeros((len(inputs), most, 2), dtype=np.int64)
    mask = np.zeros((len(inputs), most), dtype=np.bool_)
    for row, text in enumerate(inputs):
        spans[row, : len(text.spans)] = text.spans
        mask[row, : len(text.spans)] = True
    return spans, mask


def cell_arrays(photo: RegionInputs, grid: int = 0) -> tuple[NDArray[Any], Floats]:
    """Vectors (cells, channels) and centres (cells, 2) of the cells of a feature map, row by row.

    Centres are divided by the width and height of the photo. The map is pooled to `grid` cells per side; 0 takes it as
    it is.
    """
    if photo.cells is None or photo.cells.ndim != 3:
        raise DeixisError("use_feature_map=true: the feature map (channels, rows, columns) of the photo is missing")
    cells = resample_cells(photo.cells, grid, grid) if grid else photo.cells
    channels, rows, columns = cells.shape
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    return cells.reshape(channels, -1).T, np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32)
