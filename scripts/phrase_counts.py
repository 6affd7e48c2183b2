"""Phrase banks counted in captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence, parse_sentences
from deixis.models.describer.description import FUNCTION_WORDS, PhraseBank
from deixis.tokens import words

MAX_WORDS = 6
MIN_COUNT = 3
"""Longer and rarer phrases are left out."""

LONG_WORDS = (4, 14)
"""Fewest and most words of a long phrase."""

LONG_MIN_COUNT = 2
"""Number of photos that a long phrase must be said of."""


def count_phrases(photos: Iterable[Photo], *, min_count: int = MIN_COUNT) -> PhraseBank:
    """Count the noun phrases of captions.

    If a photo has boxes, only phrases whose chain has one are counted; captions without mentions are parsed.
    Phrases without content ("one", "the other") and long or rare ones are left out.
    """
    counted: Counter[str] = Counter()
    for photo in photos:
        counted.update(
            phrase
            for phrase in _phrases_of(photo)
            if len(phrase.split()) <= MAX_WORDS and not FUNCTION_WORDS.issuperset(phrase.split())
        )
    kept = [(phrase, count) for phrase, count in counted.most_common() if count >= min_count]
    if not kept:
        raise DeixisError(f"no noun phrase of at most {MAX_WORDS} words occurs {min_count} times in these captions")
    return PhraseBank(*zip(*kept, strict=True))


def count_long_phrases(photos: Iterable[Photo], *, min_count: int = LONG_MIN_COUNT) -> PhraseBank:
    """Count the noun phrases with a prepositional phrase or a clause: "a man in a red hat", "a dog with a stick".

    Captions are parsed. Counts are numbers of photos, so that no phrase is the words of one person.
    """
    counted: Counter[str] = Counter()
    for photo in photos:
        sentences = [Sentence.from_caption(caption) for caption in photo.sentences]
        parse_sentences(sentences)
        counted.update({phrase for sentence in sentences for phrase in long_phrases(sentence)})
    kept = [(phrase, count) for phrase, count in counted.most_common() if count >= min_count]
    if not kept:
        raise DeixisError(f"no long noun phrase occurs in {min_count} of these photos")
    return PhraseBank(*zip(*kept, strict=True))


def long_phrases(sentence: Sentence) -> list[str]:
    """The noun phrases of a sentence that begin with a visible thing and say more about it.

    Examples
    --------
    >>> long_phrases(Sentence("A man in a red hat and a woman sit on something soft."))
    ['a man in a red hat']
    """
    first = {phrase.start: phrase for phrase in sentence.phrases}
    found = []
    for phrase in sentence.nested_phrases:
        head = first[phrase.start]
        text, start = _normalized(phrase.text), _normalized(head.text)
        if phrase.end == head.end or not LONG_WORDS[0] <= len(text.split()) <= LONG_WORDS[1]:
            continue
        if any(child.label == "CC" for child in phrase.node.children):  # lists several things
            continue
        follows = sentence.tags[head.end]
        names_thing = not FUNCTION_WORDS.issuperset(start.split())
        if names_thing and (follows in ("IN", "TO") or follows.startswith("VB")):
            found.append(text)
    return found


def _phrases_of(photo: Photo) -> Iterator[str]:
    shown = {chain for box in photo.boxes for chain in box.chains}
    for caption in photo.captions:
        if not caption.related:
            continue
        if not caption.mentions:
            yield from (_normalized(phrase.text) for phrase in Sentence.from_caption(caption).phrases)
        for mention in caption.mentions:
            if mention.chain is not None and (mention.chain in shown or not photo.boxes):
                yield _normalized(caption.phrase(mention))


def _normalized(phrase: str) -> str:
    """In lower case and without punctuation; "man 's" becomes "man's"."""
    return " ".join(words(phrase)).replace(" 's", "'s").replace(" '", "'")
