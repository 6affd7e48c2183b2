"""Noun phrase chunker for English: "a man", "an orange hat", "a group of people".

Chunks are not recursive. As in Flickr30k Entities, the article belongs to the chunk, the last word is its head, and "a
man in an orange hat" is two chunks. The model is trained on the mentions of Entities, including pronouns and non-visual
ones; `Sentence.phrases` keeps only visual chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from deixis.language.sequence_model import MODELS, FeatureRows, SequenceModel, WordFacts, read_templates
from deixis.language.tagger import tag

Span = tuple[int, int]
"""Token indices of a chunk, end exclusive."""

CHUNK_TEMPLATES = read_templates("""
    word:-2  word:-1  word:0  word:1  word:2
    word:-1,word:0  word:0,word:1  word:-1,word:1  word:-2,word:-1  word:1,word:2  word:-1,word:0,word:1
    suffix2:0  suffix3:0  suffix4:0  shape:0  prefix3:0  suffix3:-1  suffix3:1
    tag:-2  tag:-1  tag:0  tag:1  tag:2
    tag:-1,tag:0  tag:0,tag:1  tag:-2,tag:-1  tag:1,tag:2
    tag:-1,tag:0,tag:1  tag:-2,tag:-1,tag:0  tag:0,tag:1,tag:2
    word:0,tag:1  tag:-1,word:0  tag:0,word:1
""")


class Chunker:
    def __init__(self, model: SequenceModel) -> None:
        self.model = model
        self._facts = WordFacts()
        self._rows = FeatureRows(CHUNK_TEMPLATES, model.bits)

    @classmethod
    @cache
    def shipped(cls) -> Chunker:
        """The chunker of the package, loaded once."""
        return Chunker(SequenceModel.load(MODELS / "chunker"))

    def chunks(self, tokens: Sequence[str], tags: Sequence[str] | None = None) -> list[Span]:
        """Return the chunks of a sentence as token spans, in order, without overlaps.

        `tags` are those of the tagger if already known.
        """
        facts = self._facts(tokens, tag(tokens) if tags is None else tags)
        return spans_from_labels(self.model.decode(self._rows(facts)))


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
