"""Grammatical problems of generated sentences: rules on words and their tags. English only.

The rules find what caption models get wrong, not every error of English: a noun phrase without its noun, an article or
number that does not fit, a repetition, an unfinished ending, a verb that does not fit its subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from deixis.language.tagger import tag

WRONG_ARTICLE = "wrong article"
DOUBLED_WORD = "doubled word"
REPETITION = "repetition"
UNFINISHED = "unfinished"
NO_NOUN = "phrase without a noun"
ARTICLE_AND_PLURAL = "article with a plural"
NUMBER_AND_SINGULAR = "number with a singular"
AGREEMENT = "verb agreement"


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ARTICLES = _word_set("a an")
_DETERMINERS = _word_set("a an the")
_BE = _word_set("is are was were")

# Words that do not end a sentence: "a man with a", "two dogs and". Particles such as "in" and "on" may.
_NEVER_LAST = _word_set(
    "a an the and or but nor of with from into onto is are was were while as than if because his their its my "
    "your each every between among towards toward wearing holding next"
)

# Adjectives that the tagger takes for nouns where the noun is missing, as in "a white is standing".
_ADJECTIVES = _word_set(
    "white black brown red blue green yellow grey gray pink purple tan beige large small little big tiny huge "
    "young old older younger elderly long tall short wooden colorful colourful bright plaid striped grassy snowy "
    "sandy rocky dirty muddy wet dry busy empty crowded shirtless blond-haired dark-haired bearded asian african "
    "outdoor indoor middle-aged multicolored multi-colored plastic metal wearing several"
)
_COUNTING = _word_set("few couple dozen hundred thousand many")

_NUMBERS = _word_set("two three four five six seven eight nine ten eleven twelve several many both few various")
# Nouns that are their own plural, or are counted like one.
_SAME_PLURAL = _word_set(
    "people sheep fish deer zebra police aircraft youth moose bison offspring series species cattle personnel "
    "staff elk buffalo swine shrimp salmon trout squid one other more less each adult side way story inch foot "
    "year day lane piece member hundred thousand dozen million"
)
_SINGULAR_IN_S = _word_set(
    "series species means crossroads barracks headquarters gymnastics news chess tennis bus gas dress grass glass "
    "lens iris atlas canvas christmas circus cactus campus octopus hippopotamus walrus platypus bass mattress "
    "compass cross process gallows thumbs"
)
_PLURALS = _word_set(
    "people men women children feet teeth geese mice skis pants jeans shorts trousers sunglasses goggles scissors"
)
_COLLECTIVES = _word_set(
    "group couple pair crowd team bunch number herd flock pack variety lot band family row line set collection "
    "plenty majority gang class assortment pile stack mix handful trio duo series rest half dozen audience crew "
    "cluster bouquet police"
)
_NOT_SINGULAR = _SAME_PLURAL | _PLURALS | _COLLECTIVES
# Words that people repeat, each time of another one.
_REPEATABLE = _word_set(
    "man men woman women person people boy boys girl girls child children kid kids baby dog dogs other another one "
    "ones two three side top front back player players team hand hands head face end group way wearing holding "
    "standing sitting shirt shirts"
)
_OTHERS = _word_set("another other others different second each both one his her their own")
_DOUBLED = _word_set("very really that had bye choo no ha")
_NOUNS = _word_set("NN NNS NNP NNPS")
_PLURAL_TAGS = _word_set("NNS NNPS")

# The sound of a first letter differs from its spelling.
_LIKE_CONSONANT = re.compile(
    r"(?:uni(?!n|m[^o]|d[^i])|us[aeiu]|ut[ei]|ub[ie]|uk|ur[aio]|ufo|u-|u$|eu|ewe|on(?:e|ce)(?![a-z])|one-|ouija)"
)
_LIKE_VOWEL = re.compile(
    r"(?:hour|honest|honou?r|heir|x-|[fhlmnrsx]$|8|11$|18$|11th|18th|mp3|mp4|suv|rv$|nfl|nba|nhl|mlb|lcd|led$|hdtv|mri|"
    r"ncaa|sos|mtv|fbi|nypd|lp$|nyc)"
)


def problems(words: Sequence[str], tags: Sequence[str] | None = None) -> list[str]:
    """Name the grammatical problems of words as `deixis.tokens.words` gives them; by default, the tagger's `tags`.

    >>> problems("a white is standing next to a elephant".split())
    ['wrong article', 'phrase without a noun']
    >>> problems("two dogs run through the snow".split())
    []
    """
    tags = tag(words) if tags is None else tags
    of_sentence = {
        WRONG_ARTICLE: fix_articles(words) != tuple(words),
        DOUBLED_WORD: any(_is_doubled(*pair) for pair in pairwise(words)),
        REPETITION: _is_repetitive(words, tags),
        AGREEMENT: _disagrees(words, tags),
        UNFINISHED: bool(words) and words[-1] in _NEVER_LAST,
    }
    return [*(name for name, is_so in of_sentence.items() if is_so), *_noun_phrases(words, tags)]


def fix_articles(words: Sequence[str]) -> tuple[str, ...]:
    """Replace "a" by "an" and the reverse where the next word needs it.

    >>> fix_articles(["a", "elephant", "on", "an", "unicycle"])
    ('an', 'elephant', 'on', 'a', 'unicycle')
    """
    following = [*words[1:], ""]
    return tuple(
        ("an" if starts_with_vowel(after) else "a") if word in _ARTICLES and after else word
        for word, after in zip(words, following, strict=False)
    )


def starts_with_vowel(word: str) -> bool:
    """Whether a word starts with the sound of a vowel, so that its article is "an".

    >>> [starts_with_vowel(word) for word in ("elephant", "unicycle", "hour", "one-way", "umbrella")]
    [True, False, True, False, True]
    """
    if _LIKE_VOWEL.match(word):
        return True
    return word[:1] in tuple("aeiou") and not _LIKE_CONSONANT.match(word)


def _is_doubled(word: str, after: str) -> bool:
    return (word == after and word not in _DOUBLED) or (word in _BE and after in _BE)


def _is_repetitive(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether words are repeated, or a thing is named twice as if it were two."""
    count = len(words)
    for index in range(count - 2):  # "a white and white dog", "with buildings and buildings"
        is_named = tags[index][:2] in ("JJ", "NN") or words[index] in _ADJECTIVES
        if is_named and words[index + 1] in ("and", "or") and words[index + 2] == words[index]:
            return True
    for size in range(count // 2, 1, -1):  # "a man in a shirt and a man in a shirt"
        for start in range(count - 2 * size + 1):
            for gap in (0, 1):
                again = start + size + gap
                end = again + size
                joined = not gap or words[again - 1] in ("and", "or", "with", "in", "on", "of")
                # "a train on a train track" repeats nothing
                complete = end >= count or tags[end] not in _NOUNS
                if joined and complete and list(words[start : start + size]) == list(words[again:end]):
                    return True
    first: dict[str, int] = {}
    for index, word in enumerate(words):
        is_head = tags[index] in _NOUNS and not (index + 1 < len(words) and tags[index + 1] in _NOUNS)
        if not is_head or word in _REPEATABLE or words[index - 1] in _OTHERS:
            continue
        if word in first and first[word] < index - 1 and _same_phrase(words, tags, first[word], index):
            return True
        first.setdefault(word, index)
    return False


def _same_phrase(words: Sequence[str], tags: Sequence[str], first: int, second: int) -> bool:
    """Whether two nouns name one thing: nothing says that they differ, and no verb or the same phrase."""
    between = words[first + 1 : second]
    if "and" in between or "while" in between or "as" in between or not _OTHERS.isdisjoint(between):
        return False
    if not any(kind[:2] in ("VB", "WP", "WD") for kind in tags[first + 1 : second]):  # "a bed with a white bed"
        return True
    return _phrase_before(words, tags, first) == _phrase_before(words, tags, second)


def _phrase_before(words: Sequence[str], tags: Sequence[str], noun: int) -> tuple[str, ...]:
    start = noun
    while start and (tags[start - 1][:2] in ("JJ", "NN", "CD") or words[start - 1] in _ADJECTIVES):
        start -= 1
    return tuple(words[max(start - 1, 0) : noun])


def _noun_phrases(words: Sequence[str], tags: Sequence[str]) -> Iterator[str]:
    for start, word in enumerate(words):
        if word in _DETERMINERS or word in _NUMBERS:
            head, end = _head(words, tags, start + 1)
            # After another noun, the tagger may have taken a verb for a noun: "a dog splashes".
            is_first = head == start + 1 + _adjectives(words, tags, start + 1)
            if head is None:
                if word in _DETERMINERS and _lacks_noun(words, tags, start, end):
                    yield NO_NOUN
            elif not is_first:
                continue
            elif word in _ARTICLES and _is_plural(words[head], tags[head]):
                if _COUNTING.isdisjoint(words[start + 1 : head]):
                    yield ARTICLE_AND_PLURAL
            elif word in _NUMBERS and _is_singular(words[head], tags[head]):
                yield NUMBER_AND_SINGULAR
        elif tags[start] == "IN" and word not in ("that", "as") and "".join(words[start + 1 : start + 2]) in _BE:
            yield NO_NOUN


def _adjectives(words: Sequence[str], tags: Sequence[str], start: int) -> int:
    """Number of adjectives at the start of a span."""
    end = start
    while end < len(words) and (words[end] in _ADJECTIVES or tags[end] in ("JJ", "JJR", "JJS")):
        end += 1
    return end - start


def _head(words: Sequence[str], tags: Sequence[str], start: int) -> tuple[int | None, int]:
    """The last noun of the noun phrase that continues at `start`, None without one, and the end of the phrase."""
    index, head = start, None
    while index < len(words):
        word, kind = words[index], tags[index]
        following = tags[index + 1] if index + 1 < len(words) else ""
        if word in _ADJECTIVES and not (kind in _NOUNS and following in _NOUNS):
            if head is not None:
                break
        elif kind in _NOUNS:
            head = index
        elif head is not None and not (kind in ("POS", "HYPH") or (word == "and" and following == "")):
            break
        elif kind == "POS":
            head = None
        elif word == "and" and head is None and index > start and following[:2] in ("JJ", "VB", "NN"):
            pass  # "a black and white dog"
        elif kind[:2] not in ("JJ", "CD", "RB", "VB", "PD", "DT", "FW") or word in _BE:
            break
        index += 1
    return head, index


def _lacks_noun(words: Sequence[str], tags: Sequence[str], start: int, end: int) -> bool:
    """Whether a phrase without a noun is wrong: plain adjectives and then a verb, a preposition or the end."""
    inside = words[start + 1 : end]
    if not all(word in _ADJECTIVES or word == "and" for word in inside):
        return False
    if end == len(words):
        return bool(inside)
    return words[end] in _BE or tags[end] in ("IN", "CC", "TO", "MD", "VBZ", "VBP")


def _is_plural(word: str, kind: str) -> bool:
    if word in _PLURALS:
        return True
    return kind in _PLURAL_TAGS and word.endswith("s") and not word.endswith("ss") and word not in _SINGULAR_IN_S


def _is_singular(word: str, kind: str) -> bool:
    return kind == "NN" and not word.endswith("s") and word not in _NOT_SINGULAR


def _disagrees(words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether a form of *be* or *have* does not fit the subject, where the subject is clear."""
    verb = next((i for i, word in enumerate(words) if word in ("is", "are", "was", "were", "has", "have")), None)
    if not verb or words[0] in ("there", "it", "this", "that", "here"):
        return False
    head, end = _head(words, tags, 0)
    if head is None or end > verb or words[head] in _COLLECTIVES or not _COLLECTIVES.isdisjoint(words[:verb]):
        return False
    between = range(end, verb)
    simple = all(tags[index][:2] in ("IN", "DT", "JJ", "NN", "CD", "PR") for index in between)
    if not simple or "and" in words[:verb] or (between and tags[end] != "IN"):
        return False
    plural = _is_plural(words[head], tags[head]) or words[0] in _NUMBERS
    singular = tags[head] == "NN" and words[0] in ("a", "an", "one", "another") and not plural
    fits = {"is": singular, "was": singular, "has": singular, "are": plural, "were": plural, "have": plural}
    return (plural or singular) and not fits[words[verb]]
