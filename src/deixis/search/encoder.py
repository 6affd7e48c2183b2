"""The models of a search: one encodes whole photos and sentences, one encodes regions and phrases."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from deixis.arrays import Floats
from deixis.errors import DeixisError, PhotoError
from deixis.language.sentence import Phrase, Sentence
from deixis.language.vocabulary import Vocabulary
from deixis.models.arguments import PhotoLike, open_image
from deixis.models.grounding import load_embedding_model, load_grounding_model
from deixis.models.installed import model_folder
from deixis.models.photo_features import RegionInputs
from deixis.search.index.base import PhotoVectors
from deixis.search.index.photo_files import make_thumbnail
from deixis.search.query import content_words
from deixis.storage.artifacts import fingerprint_artifact
from deixis.vision.extraction import encode_and_keep
from deixis.vision.feature_map import FeatureMap

PHOTO_MODEL, REGION_MODEL = "two-branch", "grounder"
"""The default models."""

MAX_REGIONS = 20
"""Maximum number of regions of a photo that can be searched."""

_PHOTOS_AHEAD = 16
"""Photos whose regions may wait to be encoded."""

_PROPOSALS = "head"
_NO_PIXELS = Image.new("RGB", (1, 1))
"""The proposer needs the feature map only."""


@dataclass(frozen=True)
class EncodedPhrase:
    """A phrase as both models encode it; scores are dot products."""

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
    unknown_share: float  # the share of the words that the region model does not know


@dataclass(frozen=True)
class EncodedSentence:
    """A sentence as both models encode it."""

    text: str
    words: tuple[str, ...]  # in lower case
    unknown_words: tuple[str, ...]  # those that the photo model does not know
    statistics: WordStatistics
    vector: Floats  # (dimension,); its dot product with the vector of a photo is the score
    phrases: tuple[EncodedPhrase, ...]  # noun phrases that name something visible, or the whole sentence

    @property
    def is_unknown(self) -> bool:
        """Whether the photo model knows none of the content words, so that nothing can be found."""
        content = content_words(self.words)
        return bool(content) and set(content) <= set(self.unknown_words)


class SearchEncoder:
    """Encodes photos with their regions, and sentences with their phrases, into comparable vectors.

    A photo is encoded once; both models use its feature map.

    Parameters
    ----------
    photo_model, region_model
        Names that ``deixis models`` lists, or model directories. The second must give vectors of regions.

    Examples
    --------
    >>> encoder = SearchEncoder()
    >>> encoder.dimension, encoder.region_dimension
    (512, 193)
    >>> [phrase.text for phrase in encoder.encode_sentence("two dogs in the snow").phrases]
    ['two dogs', 'the snow']
    """

    def __init__(
        self, photo_model: str | PathLike[str] = PHOTO_MODEL, region_model: str | PathLike[str] = REGION_MODEL
    ) -> None:
        self.photo_model = load_embedding_model(photo_model)
        self.region_model = load_grounding_model(region_model)
        if self.photo_model.encoder != self.region_model.encoder:
            raise DeixisError(
                f"{fspath(photo_model)} and {fspath(region_model)} use different image encoders "
                f"({self.photo_model.encoder.name} and {self.region_model.encoder.name}); an index needs models of one"
            )
        if self.region_model.provenance.proposals != _PROPOSALS:
            raise DeixisError(f"{fspath(region_model)} does not use the region proposals of {_PROPOSALS}")
        hashes = [fingerprint_artifact(model_folder(model)) for model in (photo_model, region_model)]
        self._photo_words = _WordFrequencies(self.photo_model.vocabulary)
        self._region_words = _WordFrequencies(self.region_model.vocabulary)
        self._fingerprint = hashlib.sha256(" ".join([*hashes, str(MAX_REGIONS)]).encode()).hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """Changes whenever a photo or a sentence would get other vectors."""
        return self._fingerprint

    @property
    def dimension(self) -> int:
        return self.photo_model.dimension

    @property
    def region_dimension(self) -> int:
        return self.region_model.dimension

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        """Yield one result per path, in order; photos are decoded ahead while the encoder computes."""
        waiting: deque[tuple[Path, PhotoError | Future[PhotoVectors]]] = deque()
        # Regions are encoded by one thread while the image encoder processes the next photos on all cores.
        pool = ThreadPoolExecutor(1, "regions", initializer=torch.set_num_threads, initargs=(1,))
        try:
            for path, found in encode_and_keep(self.photo_model.image_encoder, paths, make_thumbnail):
                encoded = found if isinstance(found, PhotoError) else pool.submit(self._encode_features, *found)
                waiting.append((path, encoded))
                if len(waiting) > _PHOTOS_AHEAD:
                    yield _wait(*waiting.popleft())
            while waiting:
                yield _wait(*waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def encode_photo(self, photo: PhotoLike) -> Floats:
        """Return the vector of one whole photo."""
        vector: Floats = self.photo_model.encode_images([open_image(photo)])[0]
        return vector

    def encode_sentence(self, text: str) -> EncodedSentence:
        """Encode an English sentence, or a few words."""
        return self.encode_sentences([text])[0]

    def encode_sentences(self, texts: Sequence[str]) -> list[EncodedSentence]:
        """Encode several sentences, each of which is parsed once."""
        sentences = [Sentence(text) for text in texts]
        phrases = [sentence.phrases or (sentence,) for sentence in sentences]
        distinct = {phrase.text: phrase for some in phrases for phrase in some}
        rows = {text: row for row, text in enumerate(distinct)}
        region_vectors = self.region_model.encode_phrases(list(distinct.values()))
        whole_vectors = self.photo_model.encode_sentences(list(distinct.values()))
        vectors = self.photo_model.encode_sentences(sentences)

        def encoded(phrase: Phrase | Sentence) -> EncodedPhrase:
            span = phrase.span if isinstance(phrase, Phrase) else (0, len(phrase.text))
            row = rows[phrase.text]
            return EncodedPhrase(phrase.text, span, region_vectors[row], whole_vectors[row])

        return [
            EncodedSentence(
                sentence.text,
                sentence.words,
                tuple(word for word in sentence.words if word not in self._photo_words),
                self._statistics(sentence.words),
                vector,
                tuple(encoded(phrase) for phrase in some),
            )
            for sentence, vector, some in zip(sentences, vectors, phrases, strict=True)
        ]

    def _encode_features(self, thumbnail: bytes, features: FeatureMap) -> PhotoVectors:
        proposals = self.region_model.proposer.propose(_NO_PIXELS, features, MAX_REGIONS)
        vectors, locations = features.regions(proposals.boxes), proposals.boxes / np.tile(features.size, 2)
        regions = RegionInputs(vectors, locations, proposals.scores, features.whole)
        return PhotoVectors(
            self.photo_model.encode_photos(features.whole[None])[0],
            *features.size,
            proposals.boxes.astype(np.float32),
            self.region_model.encode_regions(regions),
            thumbnail,
        )

    def _statistics(self, words: tuple[str, ...]) -> WordStatistics:
        content = content_words(words)
        return WordStatistics(
            len(content),
            sum(self._photo_words.log_frequency(word) for word in content),
            min((self._region_words.log_frequency(word) for word in content), default=0.0),
            sum(word not in self._region_words for word in content) / max(len(content), 1),
        )


class _WordFrequencies:
    """The words that a model knows, with the logarithms of their counts relative to the most common word.

    A model without a vocabulary knows every word. An unknown word counts as seen once.
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


def _wait(path: Path, encoded: PhotoError | Future[PhotoVectors]) -> tuple[Path, PhotoVectors | PhotoError]:
    return path, encoded if isinstance(encoded, PhotoError) else encoded.result()
