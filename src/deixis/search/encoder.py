"""The models of a search: one encodes whole photos and sentences, one encodes regions and phrases."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from deixis.arrays import Floats
from deixis.errors import DeixisError, PhotoError
from deixis.language.sentence import Phrase, Sentence
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounding import load_embedding_model, load_grounding_model
from deixis.models.photo_features import RegionInputs
from deixis.models.pipeline import PhotoLike, model_folder, open_image
from deixis.search.index.base import PhotoVectors
from deixis.search.index.photo_files import make_thumbnail
from deixis.search.query import content_words
from deixis.storage.artifacts import fingerprint_artifact
from deixis.vision.extraction import encode_and_keep
from deixis.vision.feature_map import FeatureMap
from deixis.vision.proposals import Proposer

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
        self._photo_words = _log_frequencies(self.photo_model.vocabulary)
        self._region_words = _log_frequencies(self.region_model.vocabulary)
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
                tuple(word for word in sentence.words if not self._knows(word)),
                self._statistics(sentence.words),
                vector,
                tuple(encoded(phrase) for phrase in some),
            )
            for sentence, vector, some in zip(sentences, vectors, phrases, strict=True)
        ]

    @property
    def known_words(self) -> tuple[str, ...]:
        """The vocabulary of the photo model, most common words first."""
        return () if self.photo_model.vocabulary is None else self.photo_model.vocabulary.words

    def presence(self, scores: Floats) -> Floats:
        """Return the probability that photos show phrases, from the best region scores, if half of all photos do."""
        return self.region_model.presence(scores)

    def region_vectors(self, regions: RegionInputs) -> Floats:
        return self.region_model.encode_regions(regions)

    @cached_property
    def _proposer(self) -> Proposer:
        return self.region_model.proposer

    def _encode_features(self, thumbnail: bytes, features: FeatureMap) -> PhotoVectors:
        proposals = self._proposer.propose(_NO_PIXELS, features, MAX_REGIONS)
        vectors, locations = features.regions(proposals.boxes), proposals.boxes / np.tile(features.size, 2)
        regions = RegionInputs(vectors, locations, proposals.scores, features.whole)
        return PhotoVectors(
            self.photo_model.encode_photos(features.whole[None])[0],
            *features.size,
            proposals.boxes.astype(np.float32),
            self.region_vectors(regions),
            thumbnail,
        )

    def _knows(self, word: str) -> bool:
        return self._photo_words is None or word in self._photo_words

    def _statistics(self, words: tuple[str, ...]) -> WordStatistics:
        content = content_words(words)
        photo_words, region_words = self._photo_words or {}, self._region_words or {}
        unknown = sum(self._region_words is not None and word not in region_words for word in content)
        return WordStatistics(
            len(content),
            sum(photo_words.get(word, photo_words.get("", 0.0)) for word in content),
            min((region_words.get(word, region_words.get("", 0.0)) for word in content), default=0.0),
            unknown / max(len(content), 1),
        )


def _wait(path: Path, encoded: PhotoError | Future[PhotoVectors]) -> tuple[Path, PhotoVectors | PhotoError]:
    return path, encoded if isinstance(encoded, PhotoError) else encoded.result()


def _log_frequencies(vocabulary: Vocabulary | None) -> dict[str, float] | None:
    """Return the logarithm of each word's count relative to the most common word.

    The entry of the empty string is for unknown words, which count as seen once. None if the model has no vocabulary.
    """
    if vocabulary is None:
        return None
    if not vocabulary.counts:
        return dict.fromkeys(vocabulary.words, 0.0)
    highest = max(vocabulary.counts)
    frequencies = {
        word: math.log(count / highest) for word, count in zip(vocabulary.words, vocabulary.counts, strict=True)
    }
    return {"": math.log(1 / highest), **frequencies}
