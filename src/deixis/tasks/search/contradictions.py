"""Queries that want and avoid the same thing, which no photo can answer."""

from __future__ import annotations

from collections.abc import Sequence

from deixis.errors import DeixisError
from deixis.evaluation.captions.meteor_words import stem
from deixis.tasks.search.seeing import ReadSentence, content_words
from deixis.tokens import words


def refuse_contradiction(wanted: Sequence[ReadSentence], avoided: Sequence[ReadSentence]) -> None:
    """Say which thing is both wanted and avoided: a whole phrase, in whatever number (``two dogs -dog``).

    A hot dog is no dog, so ``hot dog -dog`` is fine.
    """
    things = {_thing(phrase.text) for read in wanted for phrase in read.phrases}
    things |= {_thing(read.text) for read in wanted}
    for read in avoided:
        thing = _thing(read.text)
        if thing and thing in things:
            raise DeixisError(f"'{read.text}' is both wanted and avoided (-{read.text}), so no photo can be found")


def _thing(text: str) -> frozenset[str]:
    """The stems of the words that say something."""
    return frozenset(stem(word) for word in content_words(words(text)))
