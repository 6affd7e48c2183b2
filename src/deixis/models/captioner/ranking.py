"""The captions that are shown: ranked by their match with the photo, grammatical, and shorter ones if unsure.

A caption is right if people's captions of the photo agree with it (`deixis.evaluation.captions.people_captions`). The
probability is a logistic function of the log-probabilities of its words and, if the model has a ranking, of its match
with the photo, fitted by `confidence_fitting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from deixis.arrays import FloatArray, Floats
from deixis.errors import DeixisError
from deixis.language.tagger import tag
from deixis.language.words import content_word_indices
from deixis.models.calibrator import LogisticCalibrator
from deixis.models.grounding import EmbeddingPipeline, load_embedding_model
from deixis.models.installed import SHIPPED, model_folder
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.model import PhotoInputs, photo_arrays
from deixis.storage.artifacts import CONFIG, Artifact, Storable

if TYPE_CHECKING:
    from deixis.models.provenance import EncoderInfo


class MatchRanking(Storable):
    """How captions are ranked: by log-probability per word + weight · similarity of caption and photo.

    The end token counts as a word. `model` is a matching model of the same encoder as the captioner: the shipped one of
    this name, even if the working directory has another, or a directory.
    """

    KIND = "caption-ranking"

    def __init__(self, model: str = "two-branch", weight: float = 2.0) -> None:
        self.model, self.weight = model, float(weight)

    def open(self, encoder: EncoderInfo, given: EmbeddingPipeline | None = None) -> MatchRanker:
        """Open the matching model, for photos by the encoder of a captioner.

        `given` is a matching model that is already open. It is used if it is the one that is needed.
        """
        shipped = SHIPPED / self.model
        folder = shipped if (shipped / CONFIG).is_file() else model_folder(self.model)
        if given and model_folder(given.name) == folder and given.encoder.fingerprint == encoder.fingerprint:
            return MatchRanker(given, self.weight)
        matcher = load_embedding_model(folder)
        if not matcher.has_common_space:
            raise DeixisError(f"{self.model}: cannot rank captions, because it does not compare vectors")
        trained_on = matcher.encoder.faster() if encoder.is_fast else matcher.encoder
        if (trained_on.fingerprint, trained_on.crops) != (encoder.fingerprint, encoder.crops):
            raise DeixisError(
                f"captions of a model on {encoder.name} cannot be ranked by {self.model}, which was trained on "
                f"{matcher.encoder.name}: use --rerank none; in training, match_model="
            )
        return MatchRanker(matcher, self.weight)

    def to_artifact(self) -> Artifact:
        return Artifact(self.KIND, {"model": self.model, "weight": self.weight})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        return cls(artifact.settings["model"], artifact.settings["weight"])


_SIMILARITY, _FAMILIARITY, _PER_UNIT = 0.5, 0.4, 10
"""Typical values of the two features, and by how much they are multiplied, so that they are about 1."""


class MatchRanker:
    """Compares generated sentences with photos, for `MatchRanking` and for the confidence of captions."""

    is_consensus = False

    def __init__(self, matcher: EmbeddingPipeline, weight: float) -> None:
        self._matcher, self._weight = matcher, weight
        self._encoded: dict[str, Floats] = {}  # the sentences of the last call, which are often those of the next one

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        """For each photo a score for each of its sentences; higher is better."""
        return [
            np.array([one.log_probability_per_word for one in each]) + self._weight * similarities
            for each, similarities in zip(sentences, self._similarities(self._images(photos), sentences), strict=True)
        ]

    def features(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        """For each photo (sentences, 2), from which the confidence of a caption is computed as well.

        The similarity of photo and sentence; and the familiarity of the photo, its mean similarity to the nearest
        captions of the training data (those of the hubness correction), which is low for things that no caption names.
        """
        images, hubness = self._images(photos), self._matcher.hubness
        familiarity = 2 * hubness.photo_terms(images) if hubness else np.full(len(images), _FAMILIARITY)
        return [
            _PER_UNIT * np.column_stack([found - _SIMILARITY, np.full(len(found), known - _FAMILIARITY)])
            for found, known in zip(self._similarities(images, sentences), familiarity, strict=True)
        ]

    def _images(self, photos: PhotoInputs) -> Floats:
        return self._matcher.encode_photos(np.asarray(photo_arrays(photos)[0], np.float32))

    def _similarities(self, images: Floats, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        encoded = self._encode([one.text for each in sentences for one in each])
        return [
            self._matcher.compare(image[None], np.stack([encoded[one.text] for one in each]))[0].astype(np.float64)
            for each, image in zip(sentences, images, strict=True)
        ]

    def _encode(self, texts: Sequence[str]) -> dict[str, Floats]:
        known = self._encoded
        new = [text for text in dict.fromkeys(texts) if text not in known]
        encoded = dict(zip(new, self._matcher.encode_sentences(new), strict=True)) if new else {}
        found = {text: encoded[text] if text in encoded else known[text] for text in texts}
        self._encoded = found
        return found


SURE = 0.7
"""Lowest probability of a sure caption; a calibration may ask for more."""

MIN_NOUNS, MIN_CONTENT_WORDS = 2, 3
"""Nouns or content words that a shorter caption must have: "a person is standing" says too little."""

FEATURES, MATCH_FEATURES = 5, 2
"""Number of features of the confidence: of a caption, and of its match with the photo, if used."""

LOG_PROBABILITIES = slice(1, 4)
"""Features that are log-probabilities: the confidence does not fall if they rise."""

_IS = frozenset(["is", "are"])
_WITH = frozenset(["in", "with", "wearing"])


@lru_cache(maxsize=1024)
def _tags(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(tag(words))


@lru_cache(maxsize=1024)
def _is_grammatical(words: tuple[str, ...], tags: tuple[str, ...]) -> bool:
    return not problems(words, tags)


@dataclass(frozen=True)
class TaggedCaption:
    """A generated caption with articles corrected, the tags of its words and their log-probabilities."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    log_probabilities: tuple[float, ...]

    @classmethod
    def from_sentence(cls, sentence: GeneratedSentence, start: Sequence[str] = ()) -> Self:
        """Tag a sentence. The words that it was started with are not corrected."""
        words = (*start, *fix_articles(sentence.words)[len(start) :])
        return cls(words, _tags(words), sentence.word_log_probabilities[: len(words)])

    @property
    def is_grammatical(self) -> bool:
        return _is_grammatical(self.words, self.tags)

    def take(self, kept: Sequence[int]) -> TaggedCaption:
        """Only these words, with articles corrected again."""
        return TaggedCaption(
            fix_articles([self.words[index] for index in kept]),
            tuple(self.tags[index] for index in kept),
            tuple(self.log_probabilities[index] for index in kept),
        )


def shorter_captions(caption: TaggedCaption, start: Sequence[str] = ()) -> list[TaggedCaption]:
    """Return grammatical parts of a caption, those with the most words first.

    They end where a phrase ends, or leave out adjectives or what the subject wears or has. They keep the words of
    `start`.

    >>> words = "a man in a red shirt is standing on a bench".split()
    >>> found = shorter_captions(TaggedCaption(tuple(words), tuple(tag(words)), (0.0,) * len(words)))
    >>> [" ".join(each.words) for each in found][:3]
    ['a man in a shirt is standing on a bench', 'a man in a red shirt is standing', 'a man in a shirt is standing']
    """
    everything = tuple(range(len(caption.words)))
    found = {
        kept
        for whole in (everything, _without_modifier(caption))
        for plain in (whole, _without_adjectives(caption, whole))
        for kept in (plain, *_beginnings(caption, plain))
    }
    parts = [caption.take(kept) for kept in sorted(found - {everything}, key=lambda kept: (-len(kept), kept))]
    return [part for part in parts if _can_stand_alone(part) and part.words[: len(start)] == tuple(start)]


def _can_stand_alone(caption: TaggedCaption) -> bool:
    content = content_word_indices(caption.words, caption.tags)
    nouns = sum(  # "a laptop computer" is one
        caption.tags[index][:2] == "NN" and "".join(caption.tags[index + 1 : index + 2])[:2] != "NN"
        for index in content
    )
    says_enough = nouns >= MIN_NOUNS or (nouns and len(content) >= MIN_CONTENT_WORDS)
    return bool(says_enough) and caption.is_grammatical


def _beginnings(caption: TaggedCaption, kept: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The words before each preposition, conjunction and verb, except before "of"."""
    for end in range(2, len(kept)):
        word, kind, last = caption.words[kept[end]], caption.tags[kept[end]], caption.tags[kept[end - 1]]
        ends_phrase = last[:2] == "NN" or last in ("VBG", "VBZ", "VBP", "RP", "RB")
        starts_phrase = (kind in ("IN", "CC", "VBG") and word != "of") or word in _IS or word == "next"
        if ends_phrase and starts_phrase and caption.words[kept[end - 1]] not in _IS:
            yield tuple(kept[:end])


def _without_modifier(caption: TaggedCaption) -> tuple[int, ...]:
    """Without what comes between the subject and its verb: "in a red shirt", "with a hat"."""
    everything = tuple(range(len(caption.words)))
    verb = next((index for index, word in enumerate(caption.words) if word in _IS), None)
    first = next((index for index, word in enumerate(caption.words) if word in _WITH), None)
    if verb is None or first is None or not 1 < first < verb or "and" in caption.words[:verb]:
        return everything
    return everything[:first] + everything[verb:]


def _without_adjectives(caption: TaggedCaption, kept: Sequence[int]) -> tuple[int, ...]:
    """Without the adjectives between an article and a noun."""
    plain: list[int] = []
    waiting: list[int] = []  # words after an article that are left out if a noun follows
    in_phrase = False
    for index in kept:
        kind = caption.tags[index]
        if in_phrase and (kind == "JJ" or (kind == "CC" and waiting)):
            waiting.append(index)
            continue
        if waiting and kind[:2] != "NN":
            plain += waiting
        waiting = []
        in_phrase = kind in ("DT", "CD", "PRP$")
        plain.append(index)
    return tuple(plain + waiting)


def features(caption: TaggedCaption, match: Sequence[float] = ()) -> FloatArray:
    """Return the features that the confidence of a caption is computed from.

    A constant, mean and lowest log-probability of the nouns, mean log-probability of the other content words, the
    number of content words, and those of its match with the photo (`MatchRanker.features`).
    """
    log_p, tags = caption.log_probabilities, caption.tags
    content = content_word_indices(caption.words, tags)
    nouns = [log_p[index] for index in content if tags[index][:2] == "NN"]
    others = [log_p[index] for index in content if tags[index][:2] != "NN"]
    return np.array(
        [
            1.0,
            sum(nouns) / len(nouns) if nouns else 0.0,
            min(nouns, default=0.0),
            sum(others) / len(others) if others else 0.0,
            len(content),
            *match,
        ]
    )


class Confidence(Storable):
    """The probability that a caption is right: a logistic function of its features, with or without those of the match.

    Captions with at least the probability `sure_from` are sure.

    >>> confidence = Confidence([0.0, 1.0, 1.0, 0.5, 0.0])
    >>> sure, unsure = (
    ...     TaggedCaption(("a", "dog", "runs"), ("DT", "NN", "VBZ"), (-0.1, log_p, -0.2)) for log_p in (-0.1, -2.0)
    ... )
    >>> confidence.of(sure) > confidence.of(unsure)
    True
    """

    KIND = "caption-confidence"

    def __init__(self, weights: Sequence[float], sure_from: float = SURE) -> None:
        self.calibrator = LogisticCalibrator.load(weights, [FEATURES - 1, FEATURES + MATCH_FEATURES - 1])
        self.sure_from = float(sure_from)

    @property
    def uses_match(self) -> bool:
        """Whether it needs the features of a caption's match with the photo."""
        return len(self.calibrator.weights) > FEATURES

    def probabilities(self, rows: FloatArray) -> FloatArray:
        """Return the probabilities of captions, given their features: (captions, FEATURES)."""
        return self.calibrator.probabilities(rows)

    def of(self, caption: TaggedCaption, match: Sequence[float] = ()) -> float:
        """Return the probability that a caption is right."""
        return float(self.probabilities(features(caption, match)[None])[0])

    def to_artifact(self) -> Artifact:
        return Artifact(self.KIND, {"weights": list(self.calibrator.weights), "sure_from": self.sure_from})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        return cls(artifact.settings["weights"], artifact.settings["sure_from"])


@dataclass(frozen=True)
class ChosenCaption:
    """A caption to show."""

    sentence: GeneratedSentence  # if it was changed, its log-probability is still that of the generated one
    confidence: float | None  # probability that it is right; None without a calibration
    sure: bool | None  # grammatical and probable enough; None if grammatical, without a calibration
    changed: bool  # whether words of the generated sentence were corrected or left out
    rank: int  # of the generated sentence


def choose_captions(
    sentences: Sequence[GeneratedSentence],
    confidence: Confidence | None,
    start: Sequence[str] = (),
    matches: Sequence[Sequence[float]] | FloatArray | None = None,
) -> list[ChosenCaption]:
    """Return the captions to show of the generated sentences of a photo, in the same order.

    Ungrammatical sentences are left out, unless there are no others; then the first is shortened. If the first caption
    is not sure, its longest part that is sure takes its place; if none is, the most probable part, if it is more
    probable. `matches` are the features of each sentence's match with the photo, which its parts have too.
    """

    def judge(caption: TaggedCaption, rank: int) -> ChosenCaption:
        match = () if matches is None else matches[rank]
        sentence, chance = sentences[rank], None if confidence is None else confidence.of(caption, match)
        changed = caption.words != sentence.words
        shown = replace(sentence, words=caption.words) if changed else sentence
        sure = None if confidence is None or chance is None else chance >= confidence.sure_from
        return ChosenCaption(shown, chance, sure, changed, rank)

    tagged = [TaggedCaption.from_sentence(sentence, start) for sentence in sentences]
    good = [rank for rank, caption in enumerate(tagged) if caption.is_grammatical]
    chosen = [judge(tagged[rank], rank) for rank in good]
    if chosen and chosen[0].sure is not False:
        return chosen
    first = good[0] if good else 0
    versions = chosen[:1] + [judge(part, first) for part in shorter_captions(tagged[first], start)]
    if not versions:
        return [replace(judge(tagged[0], 0), sure=False)]
    sure = (each for each in versions if each.sure is not False)
    best = next(sure, None) or max(versions, key=lambda each: each.confidence or 0.0)
    return [best, *chosen[1:]]


def is_grammatical(sentence: GeneratedSentence, start: Sequence[str] = ()) -> bool:
    """Whether a generated sentence has no grammatical problem once its articles are corrected."""
    return TaggedCaption.from_sentence(sentence, start).is_grammatical


# Grammar, English only. The rules find what caption models get wrong, not every error: a noun phrase without its noun,
# an article or number that does not fit, a repetition, an unfinished ending, a verb that does not fit its subject.

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
