"""Non-recursive noun phrases of an English sentence: "a man", "an orange hat", "a group of people".

The chunks are those of Flickr30k Entities: the article belongs to the chunk, the last word is its head, and
"a man in an orange hat" is two chunks. They were learned from the mentions marked there, pronouns and non-visual ones
included; `Sentence.phrases` drops what no picture can show. English only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from deixis.language.sequence import FeatureRows, Rows, SequenceModel, Template, WordFacts, fact, load_shipped
from deixis.language.tagger import Tagger

CHUNK_LABELS = ("B", "I", "O")
"""The first token of a chunk, a further one, and a token of no chunk."""

CHUNK_BITS = 20

Span = tuple[int, int]
"""First token and the token after the last."""

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
    """The feature rows that the chunker looks at: words and their tags.

    Examples
    --------
    >>> ChunkFeatures(Tagger.shipped(), bits=20)(["A", "dog"]).shape == (2, len(CHUNK_TEMPLATES))
    True
    """

    def __init__(self, tagger: Tagger, bits: int) -> None:
        self._tagger = tagger
        self._word_facts = WordFacts()
        self._tag_facts = {tag: fact("tag", tag) for tag in tagger.model.labels}
        self._rows = FeatureRows(CHUNK_TEMPLATES, bits)

    def __call__(self, tokens: Sequence[str], tags: Sequence[str] | None = None) -> Rows:
        """Rows of the weights, (tokens, templates); `tags` are those of the tagger, where they are known already."""
        tags = self._tagger.tag(tokens) if tags is None else tags
        facts = np.array([self._tag_facts[tag] for tag in tags], dtype=np.uint64)
        return self._rows(np.column_stack([self._word_facts(tokens), facts]))


class Chunker:
    """Finds noun-phrase chunks with a learned model.

    Examples
    --------
    >>> Chunker.shipped().chunks(["A", "man", "in", "an", "orange", "hat", "."])
    [(0, 2), (3, 6)]
    """

    def __init__(self, model: SequenceModel, tagger: Tagger) -> None:
        self.model = model
        self._features = ChunkFeatures(tagger, model.bits)

    @classmethod
    def shipped(cls) -> Chunker:
        """The chunker that comes with the package, loaded once."""
        return _shipped()

    def chunks(self, tokens: Sequence[str], tags: Sequence[str] | None = None) -> list[Span]:
        """The chunks of one sentence as spans of its tokens, in order, not overlapping.

        `tags` are those that the tagger gives to these tokens, where they are known already.
        """
        return spans_of(self.model.decode(self._features(tokens, tags)))


@cache
def _shipped() -> Chunker:
    return Chunker(load_shipped("chunker"), Tagger.shipped())


def spans_of(labels: Sequence[str]) -> list[Span]:
    """The chunks that labels mark. A chunk may begin without a "B" where a model is careless.

    Examples
    --------
    >>> spans_of(["B", "I", "O", "B", "B", "O", "I"])
    [(0, 2), (3, 4), (4, 5), (6, 7)]
    """
    spans = []
    begun: int | None = None
    for place, label in enumerate([*labels, "O"]):
        if begun is not None and label != "I":
            spans.append((begun, place))
            begun = None
        if label == "B" or (label == "I" and begun is None):
            begun = place
    return spans


def labels_of(spans: Iterable[Span], token_count: int) -> list[str]:
    """The labels that mark chunks: what `spans_of` reads back.

    Examples
    --------
    >>> labels_of([(0, 2), (3, 4)], 5)
    ['B', 'I', 'O', 'B', 'O']
    """
    labels = ["O"] * token_count
    for begin, end in spans:
        labels[begin:end] = ["B", *["I"] * (end - begin - 1)]
    return labels
