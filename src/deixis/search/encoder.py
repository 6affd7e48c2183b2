"""The models of a search: one encodes photos, regions and sentences, one proposes regions and locates phrases."""

from __future__ import annotations

import hashlib
import math
import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from deixis.arrays import Floats
from deixis.errors import DeixisError, PhotoError
from deixis.language.sentence import Phrase, Sentence
from deixis.language.vectors import shipped_vectors
from deixis.language.vocabulary import Vocabulary, WordTable
from deixis.language.words import senses, singular
from deixis.models.arguments import PhotoLike, open_image
from deixis.models.base import RegionInputs
from deixis.models.grounding import EmbeddingPipeline, load_grounding_model, load_photo_model
from deixis.models.installed import FAST, SHIPPED, model_folder
from deixis.search.index.base import PhotoVectors
from deixis.search.index.photo_files import make_thumbnail
from deixis.search.query import bare_noun, content_words
from deixis.storage.artifacts import fingerprint_artifact
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.encoder import FeatureMap, encode_and_keep

if TYPE_CHECKING:
    from deixis.models.photo_features import PhotoFeatures

PHOTO_MODEL, REGION_MODEL = "two-branch", "grounder"
"""The default models."""

MAX_REGIONS = 20
"""Maximum number of regions of a photo that can be searched."""

_REGION_AXES = 128
"""Dimension of the vectors of regions, where the photo model knows the axes that carry most of them."""

_PHOTOS_AHEAD = 16
"""Photos whose regions may wait to be encoded."""

_MIN_COUNT = 3
"""How often a word must be in training sentences to be suggested."""

_MAX_LETTERS = 3
"""Largest difference in letters of words that are spelled similarly."""

_MIN_LETTERS, _LONG_WORD = 3, 8
"""A misspelled word has at least 3 letters and differs by one letter from what it means, from 8 letters on by two."""

_MIN_COMMON = 20
"""How often a word must be in training sentences to be the correction of another."""

_MAX_NAME_COUNT = 100
_NOT_NAMES = ("ing", "ed", "ly", "y")
"""Words that are more common than this, or end like this, are not taken for names without a capital letter."""

WORD, PHRASE, ACTION, SENTENCE = SENTENCE_KINDS = ("word", "phrase", "action", "sentence")
"""One word, such as "a dog"; a noun phrase of several; another text of a few words, such as "riding a horse"; and a
longer one."""

_MAX_ACTION = 3
"""Maximum number of content words of what is not a sentence."""

_MIN_KIND = 0.85
"""The lowest cosine of a compound and its last word if one is a kind of the other."""

_MIN_JOINED = 10
"""How often training sentences write a compound as one word if it names a thing of its own, such as a hotdog."""

_CACHED_PHRASES = 1024
"""Phrases whose vectors are kept, because sentences share them: at most 3 MB."""

_PROPOSALS = "head"
_NO_PIXELS = Image.new("RGB", (1, 1))
"""The proposer needs the feature map only."""


@dataclass(frozen=True)
class EncodedPhrase:
    """A phrase as it is compared with regions and with whole photos; scores are dot products."""

    text: str
    span: tuple[int, int]  # offsets in the sentence
    vector: Floats  # (region_dimension,), for regions
    whole_vector: Floats  # (dimension,), for whole photos


@dataclass(frozen=True)
class WordStatistics:
    """The number and the frequencies of the content words of a sentence.

    Frequencies are logarithms of word counts in training sentences, relative to the most common word.
    """

    count: int
    log_frequency: float  # the sum, in the sentences of the photo model
    rarest: float  # the lowest, in the sentences of the region model
    unknown_share: float  # the share of the words that the training sentences of the region model do not have
    kind: str = WORD  # one of `SENTENCE_KINDS`


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence with its phrases, as the models encode them."""

    text: str
    words: tuple[str, ...]  # in lower case
    unknown_words: tuple[str, ...]  # words that the photo model cannot read
    statistics: WordStatistics
    vector: Floats  # (dimension,); its dot product with the vector of a photo is the score
    phrases: tuple[EncodedPhrase, ...]  # noun phrases that name something visible, or the whole sentence
    noun: str = ""  # of a phrase, without numbers, colours and other adjectives
    is_compound: bool = False  # whether the noun is the last word of a compound, such as "school bus"

    @property
    def is_unknown(self) -> bool:
        """Whether the photo model knows none of the content words, so that nothing can be found."""
        content = content_words(self.words)
        return bool(content) and set(content) <= set(self.unknown_words)


class SearchEncoder:
    """Encodes photos with their regions, and sentences with their phrases, into comparable vectors.

    A photo is decoded once. If both models have the same image encoder, both use the feature map of the photo, and the
    photo model encodes regions and phrases as well. Otherwise the region model does.

    Parameters
    ----------
    photo_model
        A name that ``deixis models`` lists, a model directory, or ``open-clip:ARCHITECTURE[:FILE]``.
    region_model
        A name that ``deixis models`` lists, or a model directory. It proposes regions and must give vectors of them. By
        default it is the grounder, with the fast encoder if the photo model uses it.

    Attributes
    ----------
    fingerprint
        Changes whenever a photo or a sentence would get other vectors.
    model_name
        The photo model, as a name or an absolute path that opens it again.

    Examples
    --------
    >>> encoder = SearchEncoder()
    >>> encoder.dimension, encoder.region_dimension
    (512, 128)
    >>> [phrase.text for phrase in encoder.encode_sentence("two dogs in the snow").phrases]
    ['two dogs', 'the snow']
    """

    def __init__(
        self, photo_model: str | PathLike[str] = PHOTO_MODEL, region_model: str | PathLike[str] | None = None
    ) -> None:
        self.photo_model = load_photo_model(photo_model)
        if region_model is None:
            region_model = REGION_MODEL + (FAST if self.photo_model.encoder.is_fast else "")
        self.region_model = load_grounding_model(region_model)
        if self.region_model.provenance.proposals != _PROPOSALS:
            raise DeixisError(f"{fspath(region_model)} does not use the region proposals of {_PROPOSALS}")
        # The photo model, if it takes the feature maps of the region model.
        self._sharing: EmbeddingPipeline | None = None
        self._region_axes: Floats | None = None
        if self.photo_model.encoder == self.region_model.encoder and isinstance(self.photo_model, EmbeddingPipeline):
            self._sharing = self.region_model.photo_model = self.photo_model
            self._region_axes = self.photo_model.model.visual_axes(_REGION_AXES)
        folder = model_folder(photo_model)
        encoders = [model.encoder.fingerprint for model in (self.photo_model, self.region_model)]
        folders = [each for each in (folder, model_folder(region_model)) if each.is_dir()]
        hashes = [*encoders, *map(fingerprint_artifact, folders), str(MAX_REGIONS), str(self.region_dimension)]
        self.fingerprint = hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:16]
        self.model_name = self.photo_model.encoder.name
        if folder.is_dir():
            self.model_name = fspath(photo_model) if folder.parent == SHIPPED else str(folder.absolute())
        self._photo_words = _WordFrequencies(self.vocabulary)
        self._region_words = _WordFrequencies(self.region_model.vocabulary)
        self._recent: OrderedDict[str, tuple[Floats, Floats]] = OrderedDict()
        self._lock = Lock()

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words of the training sentences of the photo model, or else of the region model."""
        return self.photo_model.vocabulary or self.region_model.vocabulary

    @property
    def dimension(self) -> int:
        return self.photo_model.dimension

    @property
    def region_dimension(self) -> int:
        if self._region_axes is not None:
            return int(self._region_axes.shape[1])
        return (self._sharing or self.region_model).dimension

    def encode_regions(self, regions: RegionInputs) -> Floats:
        """Return the vectors of regions of a photo: (n, region_dimension)."""
        vectors = (self._sharing or self.region_model).encode_regions(regions)
        return vectors if self._region_axes is None else vectors @ self._region_axes

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        """Yield one result per path, in order; photos are decoded ahead while the encoder computes."""
        waiting: deque[tuple[Path, Future[PhotoVectors | PhotoError]]] = deque()
        # Regions are encoded by one thread while the image encoder processes the next photos on all cores.
        pool = ThreadPoolExecutor(1, "regions")
        try:
            for path, found in encode_and_keep(self.region_model.image_encoder, paths, self._prepare):
                waiting.append((path, pool.submit(self._encode_features, found)))
                # Finished photos are passed on at once, so that they can be stored.
                while waiting and (len(waiting) > _PHOTOS_AHEAD or waiting[0][1].done()):
                    done, encoded = waiting.popleft()
                    yield done, encoded.result()
            for done, encoded in waiting:
                yield done, encoded.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def encode_photo(self, photo: PhotoLike) -> Floats:
        """Return the vector of one whole photo."""
        vector: Floats = self.photo_model.encode_images([open_image(photo)])[0]
        return vector

    def encode_split_photos(
        self, features: PhotoFeatures, paths: Sequence[Path], on_progress: OnProgress = no_progress
    ) -> Floats:
        """Return the vectors of whole photos of a data set, given the features of the region model."""
        if self._sharing is not None:
            return self._sharing.encode_photos(features.vectors())
        vectors = [np.empty((0, self.dimension), dtype=np.float32)]
        for begin in range(0, len(paths), _PHOTOS_AHEAD):
            vectors.append(self.photo_model.encode_images(paths[begin : begin + _PHOTOS_AHEAD]))
            on_progress("encoding photos", min(begin + _PHOTOS_AHEAD, len(paths)), len(paths))
        return np.concatenate(vectors)

    def encode_sentence(self, text: str) -> EncodedSentence:
        """Encode an English sentence, or a few words."""
        return self.encode_sentences([text])[0]

    def encode_sentences(self, texts: Sequence[str]) -> list[EncodedSentence]:
        """Encode several sentences, each of which is parsed once."""
        sentences = [Sentence(text) for text in texts]
        phrases = [sentence.phrases or (sentence,) for sentence in sentences]
        vectors = self._phrase_vectors({phrase.text: phrase for some in phrases for phrase in some})
        # Not in one batch with phrases: these are short, and most of their steps would be padding.
        longer = {sentence.text: sentence for sentence in sentences if sentence.text not in vectors}
        whole_vectors = {text: whole for text, (whole, _) in vectors.items()}
        if longer:
            whole_vectors.update(zip(longer, self.photo_model.encode_sentences(list(longer.values())), strict=True))

        def encoded(phrase: Phrase | Sentence) -> EncodedPhrase:
            span = phrase.span if isinstance(phrase, Phrase) else (0, len(phrase.text))
            whole, region = vectors[phrase.text]
            return EncodedPhrase(phrase.text, span, region, whole)

        found = []
        for sentence, some in zip(sentences, phrases, strict=True):
            noun = bare_noun(sentence)
            statistics = self._statistics(sentence, noun)
            found.append(
                EncodedSentence(
                    sentence.text,
                    sentence.words,
                    self.photo_model.unknown_words(sentence.words),
                    statistics,
                    whole_vectors[sentence.text],
                    tuple(map(encoded, some)),
                    self._noun_of(sentence, noun, whole_vectors) if noun and statistics.kind == PHRASE else "",
                    noun is not None and set(content_words(sentence.words)) <= set(noun.lower().split()),
                )
            )
        return found

    def _phrase_vectors(self, phrases: Mapping[str, Phrase | Sentence]) -> dict[str, tuple[Floats, Floats]]:
        """Return the vectors of phrases by text, for whole photos and for regions; those of recent ones are kept."""
        with self._lock:
            found = {text: self._recent[text] for text in phrases if text in self._recent}
        if new := {text: phrase for text, phrase in phrases.items() if text not in found}:
            # The larger network first: opening it takes most memory.
            whole = regions = self.photo_model.encode_sentences(list(new.values()))
            if self._sharing is None:
                regions = self.region_model.encode_phrases(list(new.values()))
            elif self._region_axes is not None:
                regions = whole @ self._region_axes
            # Copies, because a row would keep all others.
            found |= {text: (whole[row].copy(), regions[row].copy()) for row, text in enumerate(new)}
        with self._lock:
            for text in phrases:
                self._recent[text] = found[text]
                self._recent.move_to_end(text)
            while len(self._recent) > _CACHED_PHRASES:
                self._recent.popitem(last=False)
        return found

    def untrained_words(self, words: Iterable[str]) -> list[str]:
        """Return the content words that no training sentence has; at most word vectors tell their meaning."""
        known = self.vocabulary
        content = content_words(list(words))
        return [] if known is None else [word for word in content if word not in known]

    def suggest(self, word: str) -> list[str]:
        """Return common words of the training sentences that mean something similar, or are spelled similarly."""
        table = self._common_words
        if table is None:
            return []
        if near := table.nearest_known(word):
            return near
        common = table.vocabulary.words
        swapped = {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1)}
        return [each for each in common if each in swapped] or get_close_matches(
            word, [each for each in common if abs(len(each) - len(word)) <= _MAX_LETTERS], n=2, cutoff=0.8
        )

    def correct(self, word: str) -> str | None:
        """Return the common word that a word is a misspelling of; None if it is a word, or near to none.

        Words of training sentences and of WordNet are words.
        """
        table = self._common_words
        if table is None or len(word) < _MIN_LETTERS or not word.isalpha() or word in (self.vocabulary or ()):
            return None
        if any(isinstance(sense, int) or sense == word for sense in senses(word)):
            return None
        allowed = 2 if len(word) >= _LONG_WORD else 1
        found = []
        for other, count in zip(table.vocabulary.words, table.vocabulary.counts, strict=True):
            if count >= _MIN_COMMON and other[0] == word[0] and abs(len(other) - len(word)) <= 2:
                distance = _edits(_spelled_as_heard(word), _spelled_as_heard(other))
                if distance <= allowed and len(other) > distance + 1:
                    found.append((distance, -count, other))
        return min(found)[2] if found else None

    def may_be_name(self, word: str) -> bool:
        """Whether a word may name a person or a place: it is rare in training sentences and no text has its plural."""
        known, frozen = self.vocabulary, shipped_vectors()
        if known is None or frozen is None or not word.isalpha() or word.endswith(_NOT_NAMES) or singular(word) != word:
            return False
        is_rare = (number := known.id_of(word)) is None or known.counts[number] < _MAX_NAME_COUNT
        return is_rare and not any(f"{word}{ending}" in frozen or f"{word}{ending}" in known for ending in ("s", "es"))

    @cached_property
    def _common_words(self) -> WordTable | None:
        known = self.vocabulary
        if known is None:
            return None
        kept = [(word, count) for word, count in zip(known.words, known.counts, strict=True) if count >= _MIN_COUNT]
        words, counts = zip(*kept, strict=True) if kept else ((), ())
        return WordTable(Vocabulary(words, counts), frozen=shipped_vectors())

    def _prepare(self, photo: Image.Image) -> tuple[bytes, Any]:
        """Return the thumbnail of a decoded photo, and what a photo model with its own encoder needs of it."""
        return make_thumbnail(photo), None if self._sharing is not None else self.photo_model.prepare_photo(photo)

    def _encode_features(self, found: tuple[tuple[bytes, Any], FeatureMap] | PhotoError) -> PhotoVectors | PhotoError:
        if isinstance(found, PhotoError):
            return found
        (thumbnail, pixels), features = found
        if self._sharing is not None:
            whole = self._sharing.encode_photos(features.photo_vector(self.photo_model.encoder.photo_vector)[None])[0]
        else:
            whole = self.photo_model.encode_prepared([pixels])[0]
        proposals = self.region_model.proposer.propose(_NO_PIXELS, features, MAX_REGIONS)
        vectors, locations = features.regions(proposals.boxes), proposals.boxes / np.tile(features.size, 2)
        regions = RegionInputs(vectors, locations, proposals.scores, features.whole)
        return PhotoVectors(
            whole,
            *features.size,
            proposals.boxes.astype(np.float32),
            self.encode_regions(regions),
            thumbnail,
        )

    def _noun_of(self, sentence: Sentence, bare: str, whole_vectors: Mapping[str, Floats]) -> str:
        """Return the noun of a phrase in the singular; empty if it says as much, or if both are one thing (hot dog).

        Of a compound it is the last word, if the photo model takes it for a kind of that: a school bus is a bus.
        """
        content = content_words(sentence.words)
        joined = {"".join(content), "".join([*content[:-1], *map(singular, content[-1:])])}
        if any(self._known.get(word, 0) >= _MIN_JOINED for word in joined):
            return ""
        named = bare.lower().split()
        last = one if (one := singular(named[-1])) in self._known else named[-1]
        if not set(content) <= set(named):
            return " ".join([*named[:-1], last])
        if len(named) == 1:
            return ""
        compound, (alone, _) = whole_vectors[sentence.text], self._phrase_vectors({last: Sentence(last)})[last]
        cosine = float(compound @ alone) / float(np.linalg.norm(compound) * np.linalg.norm(alone))
        return last if cosine >= _MIN_KIND else ""

    @cached_property
    def _known(self) -> dict[str, int]:
        """Words of the training sentences, and how often each occurs."""
        return dict(zip(self.vocabulary.words, self.vocabulary.counts, strict=True)) if self.vocabulary else {}

    def _statistics(self, sentence: Sentence, bare: str | None) -> WordStatistics:
        content = content_words(sentence.words)
        if len(content) == 1:
            kind = WORD
        elif bare is not None:
            kind = PHRASE
        else:
            kind = ACTION if len(content) <= _MAX_ACTION else SENTENCE
        return WordStatistics(
            len(content),
            sum(self._photo_words.log_frequency(word) for word in content),
            min((self._region_words.log_frequency(word) for word in content), default=0.0),
            sum(word not in self._region_words for word in content) / max(len(content), 1),
            kind,
        )


class _WordFrequencies:
    """The words of training texts, with the logarithms of their counts relative to the most common word.

    A model without a vocabulary has every word. A word that it does not have counts as seen once.
    """

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        words, counts = (vocabulary.words, vocabulary.counts) if vocabulary else ((), ())
        self._words = None if vocabulary is None else frozenset(words)
        highest = max(counts, default=1)
        self._logarithms = {word: math.log(count / highest) for word, count in zip(words, counts, strict=False)}
        self._of_unknown = math.log(1 / highest)

    def __contains__(self, word: str) -> bool:
        return self._words is None or word in self._words

    def log_frequency(self, word: str) -> float:
        return self._logarithms.get(word, self._of_unknown)


def _spelled_as_heard(word: str) -> str:
    """Return a word without double letters, with f for ph and i for y."""
    return re.sub(r"(.)\1", r"\1", word.replace("ph", "f").replace("y", "i"))


def _edits(word: str, other: str) -> int:
    """Return how many letters to insert, delete, replace or swap with the next one make a word from another."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(word):
        older, before, row = before, row, [at + 1]
        for place, wanted in enumerate(other):
            row.append(min(row[-1] + 1, before[place + 1] + 1, before[place] + (letter != wanted)))
            if at and place and letter == other[place - 1] and word[at - 1] == wanted:
                row[-1] = min(row[-1], older[place - 1] + 1)
    return row[-1]
