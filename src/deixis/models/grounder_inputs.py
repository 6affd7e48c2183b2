"""What the grounder is given: the regions of photos, and the words of sentences with the spans of their phrases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.text_encoders import LONGEST, word_ids
from deixis.tokens import Token
from deixis.tokens import words as words_of_tokens

Array = npt.NDArray[Any]
Span = tuple[int, int]


@dataclass(frozen=True)
class RegionInputs:
    """The regions of one photo; there may be none.

    Attributes
    ----------
    vectors : array, (n, channels)
        One for each region.
    boxes : array, (n, 4)
        `x1, y1, x2, y2` as shares of the photo's width and height.
    objectness : array, (n,)
        How likely each box holds anything, between 0 and 1: the scores of its proposer.
    whole : array, (dimension,)
        The vector of the whole photo.
    cells : array, (channels, rows, columns), optional
        The photo's map, for models that look at it.

    Examples
    --------
    >>> boxes = np.array([[0, 0, 0.5, 1], [0.2, 0, 1, 1]])
    >>> len(RegionInputs(np.ones((2, 8)), boxes, np.array([0.7, 0.4]), np.ones(8)))
    2
    """

    vectors: Array
    boxes: Array
    objectness: Array
    whole: Array
    cells: Array | None = None

    def __post_init__(self) -> None:
        shapes = [array.shape for array in (self.vectors, self.boxes, self.objectness)]
        count = shapes[0][:1]
        if self.vectors.ndim != 2 or shapes[1:] != [(*count, 4), count] or self.whole.ndim != 1:
            raise DeixisError(f"regions: vectors, boxes and objectness of shapes {shapes} do not fit each other")

    def __len__(self) -> int:
        """How many regions there are."""
        return len(self.vectors)


@dataclass(frozen=True)
class RegionBatch:
    """The regions of several photos, each photo with as many rows as the one with most.

    Attributes
    ----------
    vectors, boxes, objectness, whole
        As of `RegionInputs`, one photo after another: (b, k, channels), (b, k, 4), (b, k), (b, dimension).
    there
        Which rows are regions: (b, k).
    cells
        Of the maps, row by row: (b, cells, channels).
    cell_places
        The middle of each cell, as shares of the photo: (b, cells, 2).
    """

    vectors: Tensor
    boxes: Tensor
    objectness: Tensor
    whole: Tensor
    there: Tensor
    cells: Tensor | None = None
    cell_places: Tensor | None = None

    @classmethod
    def of(
        cls, photos: Sequence[RegionInputs], *, cells: bool = False, kind: torch.dtype = torch.float32
    ) -> RegionBatch:
        """Put the regions of one or more photos together; vectors are kept as `kind`.

        Examples
        --------
        >>> one, two = (RegionInputs(np.ones((n, 8)), np.ones((n, 4)), np.ones(n), np.ones(8)) for n in (1, 2))
        >>> RegionBatch.of([one, two]).there.tolist()
        [[True, False], [True, True]]
        """
        most = max(1, *map(len, photos))  # there is always a row, if only an empty one
        counts = torch.tensor([len(photo) for photo in photos])
        maps = [_map_of(photo) for photo in photos] if cells else []
        return cls(
            _padded([photo.vectors for photo in photos], most, kind),
            _padded([photo.boxes for photo in photos], most, torch.float32),
            _padded([photo.objectness for photo in photos], most, torch.float32),
            torch.stack([_tensor(photo.whole).to(kind) for photo in photos]),
            torch.arange(most) < counts[:, None],
            torch.stack([_tensor(one).flatten(1).T.to(kind) for one in maps]) if cells else None,
            torch.stack([_middles(*one.shape[1:]) for one in maps]) if cells else None,
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def at(self, rows: Tensor) -> RegionBatch:
        """Some of the photos."""
        return self._each(lambda column: column[rows])

    def to(self, device: torch.device, kind: torch.dtype | None = None) -> RegionBatch:
        """The same on another device; all that is no truth value as another kind of number."""
        return self._each(lambda column: column.to(device, kind if column.is_floating_point() else None))

    def _each(self, change: Callable[[Tensor], Tensor]) -> RegionBatch:
        columns: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(column) for name, column in columns.items() if column is not None})


@dataclass(frozen=True)
class Reading:
    """Words that are read together.

    Attributes
    ----------
    words
        At most `LONGEST`.
    spans
        Where the phrases begin and end among them.
    phrases
        Which phrases of the sentence these are.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    phrases: tuple[int, ...]


def readings_of(words: Sequence[str], spans: Sequence[Span], *, context: bool = True) -> list[Reading]:
    """How the phrases of a sentence are read: within the sentence, or each alone.

    Beyond `LONGEST` words a phrase is read alone in either case; one without any word is read as an unknown word.

    Parameters
    ----------
    words, spans
        Of the sentence; spans count words, the end exclusive.
    context
        Read phrases within their sentence.

    Examples
    --------
    >>> [reading.words for reading in readings_of("a dog and a cat".split(), [(0, 2), (3, 5)], context=False)]
    [('a', 'dog'), ('a', 'cat')]
    """
    for begin, end in spans:
        if not 0 <= begin <= end <= len(words):
            raise DeixisError(f"words {begin} to {end}: the sentence has {len(words)}")
    together = [place for place, (begin, end) in enumerate(spans) if context and begin < end <= LONGEST]
    made = []
    if together:
        made.append(Reading(tuple(words[:LONGEST]), tuple(spans[place] for place in together), tuple(together)))
    for place in sorted(set(range(len(spans))).difference(together)):
        alone = tuple(words[slice(*spans[place])][:LONGEST]) or ("",)
        made.append(Reading(alone, ((0, len(alone)),), (place,)))
    return made


def words_and_spans(tokens: Iterable[Token], spans: Sequence[Span]) -> tuple[list[str], list[Span]]:
    """The words of a sentence, and spans of its text as spans of these words.

    Parameters
    ----------
    tokens
        Of the sentence, as a `Caption` has them.
    spans
        Offsets in code points, end exclusive. A word that is partly within a span belongs to it.

    Examples
    --------
    >>> from deixis.tokens import tokenize
    >>> words_and_spans(tokenize("Look, a dog!"), [(6, 11)])
    (['look', 'a', 'dog'], [(1, 3)])
    """
    placed = [(word, token) for token in tokens for word in words_of_tokens([token])]
    starts = np.array([token.start for _, token in placed], dtype=np.int64)
    ends = np.array([token.end for _, token in placed], dtype=np.int64)
    found = []
    for start, end in spans:
        begin = int(np.searchsorted(ends, start, side="right"))
        found.append((begin, max(begin, int(np.searchsorted(starts, end)))))
    return [word for word, _ in placed], found


@dataclass(frozen=True)
class ReadingBatch:
    """Several readings.

    Attributes
    ----------
    words, lengths
        The numbers of their words, and how many there are: (b, longest), (b,). Lengths stay on the processor.
    spans, asked
        The spans of their phrases (b, most, 2), and which of these there are (b, most).
    """

    words: Tensor
    lengths: Tensor
    spans: Tensor
    asked: Tensor

    @classmethod
    def of(cls, readings: Sequence[Reading], vocabulary: Vocabulary) -> ReadingBatch:
        """Number the words.

        Examples
        --------
        >>> readings = readings_of(["a", "dog", "barks"], [(0, 2)])
        >>> ReadingBatch.of(readings, Vocabulary(("a", "dog"), (2, 1))).words
        tensor([[0, 1, 2]])
        """
        words, lengths = word_ids([reading.words for reading in readings], vocabulary)
        most = max((len(reading.spans) for reading in readings), default=0)
        spans = torch.zeros(len(readings), most, 2, dtype=torch.int64)
        asked = torch.zeros(len(readings), most, dtype=torch.bool)
        for row, reading in enumerate(readings):
            spans[row, : len(reading.spans)] = torch.tensor(reading.spans)
            asked[row, : len(reading.spans)] = True
        return cls(words, lengths, spans, asked)

    def __len__(self) -> int:
        return len(self.words)

    def at(self, rows: Tensor) -> ReadingBatch:
        """Some of the readings, with no more columns than they need."""
        lengths = self.lengths[rows.cpu()]
        asked = self.asked[rows]
        words, most = int(lengths.max()), int(asked.sum(1).max())
        return ReadingBatch(self.words[rows, :words], lengths, self.spans[rows, :most], asked[:, :most])

    def alone(self) -> ReadingBatch:
        """Each phrase as a reading of its own, one after another.

        Examples
        --------
        >>> readings = readings_of("the dog sees a cat".split(), [(0, 2), (4, 5)])
        >>> batch = ReadingBatch.of(readings, Vocabulary(("the", "dog", "cat"), (1, 1, 1))).alone()
        >>> batch.words.tolist(), batch.lengths.tolist()
        ([[0, 1], [2, 0]], [2, 1])
        """
        begin, end = self.spans[self.asked].T
        lengths, row = end - begin, self.asked.nonzero()[:, 0]
        place = torch.arange(int(lengths.max()), device=row.device)
        words = self.words[row[:, None], (begin[:, None] + place).clamp(max=self.words.shape[1] - 1)]
        spans = torch.stack([torch.zeros_like(lengths), lengths], dim=1)[:, None]
        asked = torch.ones(len(row), 1, dtype=torch.bool, device=row.device)
        return ReadingBatch(words.masked_fill(place >= lengths[:, None], 0), lengths.cpu(), spans, asked)

    def to(self, device: torch.device) -> ReadingBatch:
        """The same on another device."""
        return ReadingBatch(self.words.to(device), self.lengths, self.spans.to(device), self.asked.to(device))


def _padded(arrays: Sequence[Array], most: int, kind: torch.dtype) -> Tensor:
    padded = torch.zeros(len(arrays), most, *arrays[0].shape[1:], dtype=kind)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = _tensor(array)
    return padded


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.array(array, order="C"))  # a copy: torch takes no array that is read backwards


def _map_of(photo: RegionInputs) -> Array:
    if photo.cells is None or photo.cells.ndim != 3:
        raise DeixisError("cells=true: the map of the photo is needed, (channels, rows, columns)")
    return photo.cells


def _middles(rows: int, columns: int) -> Tensor:
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
    return torch.stack([x, y], dim=-1).flatten(0, 1)
