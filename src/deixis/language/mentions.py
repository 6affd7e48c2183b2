"""Mentions from plain captions: the noun phrases that name something visible, with their types. English only."""

from __future__ import annotations

from deixis.language.sentence import Phrase, Sentence

__all__ = ["find_mentions"]


def find_mentions(text: str) -> tuple[Phrase, ...]:
    """Find the noun phrases of an English caption that name something visible: the `phrases` of its `Sentence`.

    Pronouns and a short list of words that no picture can show ("the background", "a trick") are dropped. The phrases
    are in no chain yet: which of them name the same thing is another question.

    Parameters
    ----------
    text : str
        A caption, tokenised or not.

    Returns
    -------
    tuple of Phrase
        In the order of the text, not overlapping, each with one or more of `deixis.data.records.ENTITY_TYPES`.

    Examples
    --------
    >>> [(found.text, *found.types) for found in find_mentions("A dog, a cat and they watch a man in red.")]
    [('A dog', 'animals'), ('a cat', 'animals'), ('a man', 'people'), ('red', 'clothing')]
    """
    return Sentence(text).phrases
