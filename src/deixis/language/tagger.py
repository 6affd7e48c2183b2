"""Part-of-speech tagger for English (Penn Treebank tags).

The model is trained on newspaper text (the 5 % Treebank sample and the CoNLL-2000 chunking data) and on captions
labelled by a larger tagger; see ``models/tagger/README.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from deixis.language.sequence_model import MODELS, FeatureRows, SequenceModel, WordFacts, read_templates

TAGGER_TEMPLATES = read_templates("""
    word:0  word:-1  word:1  word:-2  word:2  word:-1,word:0  word:0,word:1  word:-1,word:1
    suffix1:0  suffix2:0  suffix3:0  suffix4:0  prefix3:0  shape:0  shape:0,suffix2:0
    suffix3:-1  suffix3:1  suffix2:-1,suffix2:0,suffix2:1  shape:-1,shape:0
""")


class Tagger:
    def __init__(self, model: SequenceModel) -> None:
        self.model = model
        self._facts = WordFacts()
        self._rows = FeatureRows(TAGGER_TEMPLATES, model.bits)

    @classmethod
    @cache
    def shipped(cls) -> Tagger:
        """The tagger of the package, loaded once."""
        return Tagger(SequenceModel.load(MODELS / "tagger"))

    def tag(self, tokens: Sequence[str]) -> list[str]:
        return self.model.decode(self._rows(self._facts(tokens)))


def tag(tokens: Sequence[str]) -> list[str]:
    """Return one Penn Treebank tag per token of an English sentence.

    Examples
    --------
    >>> tag(["A", "dog", "runs"])
    ['DT', 'NN', 'VBZ']
    """
    return Tagger.shipped().tag(tokens)
