"""Noun phrase chunker for English: "a man", "an orange hat", "a group of people".

Chunks are not recursive. As in Flickr30k Entities, the article belongs to the chunk, the last word is its head, and "a
man in an orange hat" is two chunks. The model is trained on the mentions of Entities, including pronouns and non-visual
ones; `Sentence.phrases` keeps only visual chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from deixis.arrays import IntArray
from deixis.language.sequence_model import MODELS, FeatureRows, SequenceModel, Template, WordFacts, fact
from deixis.language.tagger import Tagger

Span = tuple[int, int]
"""Token indices of a chunk, end exclusive."""

_WORD, _S1, _S2, _S3, _S4, _PREFIX, _SHAPE = range(len(WordFacts.NAMES))
_TAG = len(WordFacts.NAMES)

CHUNK_TEMPLATES: tuple[Template, ...] = (
    *(((offset, _WORD),) for offset in (-2, -1, 0, 1, 2)),
    ((-1, _WORD), (0, _WORD)),
    ((0, _WORD), (1, _WORD)),
    ((-1, _WORD), (1, _WORD)),
    ((-2, _WORD), (-1, _WORD)),
    ((1, _WORD), (2, _WORD)),
    ((-1, _WORD), (0, _WORD), (1, _WORD)),
    ((0, _S2),),
    ((0, _S3),),
    ((0, _S4),),
    ((0, _SHAPE),),
    ((0, _PREFIX),),
    ((-1, _S3),),
    ((1, _S3),),
    *(((offset, _TAG),) for offset in (-2, -1, 0, 1, 2)),
    ((-1, _TAG), (0, _TAG)),
    ((0, _TAG), (1, _TAG)),
    ((-2, _TAG), (-1, _TAG)),
    ((1, _TAG), (2, _TAG)),
    ((-1, _TAG), (0, _TAG), (1, _TAG)),
    ((-2, _TAG), (-1, _TAG), (0, _TAG)),
    ((0, _TAG), (1, _TAG), (2, _TAG)),
    ((0, _WORD), (1, _TAG)),
    ((-1, _TAG), (0, _WORD)),
    ((0, _TAG), (1, _WORD)),
)


class ChunkFeatures:
    """Feature rows of the chunker, from words and their tags."""

    def __init__(self, tagger: Tagger, bits: int) -> None:
        self._tagger = tagger
        self._word_facts = WordFacts()
        self._tag_facts = {tag: fact("tag", tag) for tag in tagger.model.labels}
        self._rows = FeatureRows(CHUNK_TEMPLATES, bits)

    def __call__(self, tokens: Sequence[str], tags: Sequence[str] | None = None) -> IntArray:
        """Rows of the weight table, (tokens, templates). `tags` are those of the tagger if already known."""
        tags = self._tagger.tag(tokens) if tags is None else tags
        facts = np.array([self._tag_facts[tag] for tag in tags], dtype=np.uint64)
        return self._rows(np.column_stack([self._word_facts(tokens), facts]))


class Chunker:
    def __init__(self, model: SequenceModel, tagger: Tagger) -> None:
        self.model = model
        self._features = ChunkFeatures(tagger, model.bits)

    @classmethod
    @cache
    def shipped(cls) -> Chunker:
        """The chunker of the package, loaded once."""
        return Chunker(SequenceModel.load(MODELS / "chunker"), Tagger.shipped())

    def chunks(self, tokens: Sequence[str], tags: Sequence[str] | None = None) -> list[Span]:
        """Return the chunks of a sentence as token spans, in order, without overlaps.

        `tags` are those of the tagger if already known.
        """
        return spans_from_labels(self.model.decode(self._features(tokens, tags)))


def spans_from_labels(labels: Sequence[str]) -> list[Span]:
    """Convert labels to spans. A chunk may start with "I", since the model does not exclude that."""
    spans = []
    start: int | None = None
    for index, label in enumerate([*labels, "O"]):
        if start is not None and label != "I":
            spans.append((start, index))
            start = None
        if label == "B" or (label == "I" and start is None):
            start = index
    return spans
