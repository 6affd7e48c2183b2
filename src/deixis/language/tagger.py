"""Part-of-speech tagger for English (Penn Treebank tags).

The model is trained on newspaper text (the 5 % Treebank sample and the CoNLL-2000 chunking data) and on captions
labelled by a larger tagger; see ``models/tagger/README.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from deixis.language.sequence_model import MODELS, FeatureRows, SequenceModel, Template, WordFacts

_WORD, _S1, _S2, _S3, _S4, _PREFIX, _SHAPE = range(len(WordFacts.NAMES))

TAGGER_TEMPLATES: tuple[Template, ...] = (
    ((0, _WORD),),
    ((-1, _WORD),),
    ((1, _WORD),),
    ((-2, _WORD),),
    ((2, _WORD),),
    ((-1, _WORD), (0, _WORD)),
    ((0, _WORD), (1, _WORD)),
    ((-1, _WORD), (1, _WORD)),
    ((0, _S1),),
    ((0, _S2),),
    ((0, _S3),),
    ((0, _S4),),
    ((0, _PREFIX),),
    ((0, _SHAPE),),
    ((0, _SHAPE), (0, _S2)),
    ((-1, _S3),),
    ((1, _S3),),
    ((-1, _S2), (0, _S2), (1, _S2)),
    ((-1, _SHAPE), (0, _SHAPE)),
)


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
