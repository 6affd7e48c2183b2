"""The models that fill an index and read what is asked of it: one for whole photos, one for their regions."""

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

from deixis.errors import DeixisError, PhotoError
from deixis.evaluation.captions.meteor_words import function_words
from deixis.files.hashes import hash_of_file
from deixis.index.seeing import Seen
from deixis.index.thumbnails import thumbnail_of
from deixis.language.features.base import Floats
from deixis.language.sentence import Sentence
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounder import Grounder
from deixis.models.grounder_inputs import RegionInputs
from deixis.tasks.bundle import Bundle, PhotoLike, load, opened
from deixis.tasks.grounding import Pointer
from deixis.tasks.places import with_places, with_whole_place
from deixis.tasks.shipped_models import place_of
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposer
from deixis.vision.reading import encode_keeping

WHOLE, POINTING = "two-branch", "grounder"
"""The models that see where nobody names others."""

REGIONS = 20
"""Of each photo that can be searched."""

_SEEN_AHEAD = 16
"""Photos whose regions may wait to be looked at."""

_PROPOSALS = "head"
_NO_PIXELS = Image.new("RGB", (1, 1))
"""Proposals of the head are made from the encoder's map alone."""

_CARDS = (".md", "about.json", "run.json")
"""Endings of files that say something of a model, but change none of its numbers."""


@dataclass(frozen=True)
class ReadPhrase:
    """A phrase as both models read it.

    Attributes
    ----------
    text, span
        As written, and its offsets in the sentence.
    vector : array of float32, (region_dimension,)
        Its dot product with that of a region is the score.
    whole_vector : array of float32, (dimension,)
        The same for whole photos.
    """

    text: str
    span: tuple[int, int]
    vector: Floats
    whole_vector: Floats


@dataclass(frozen=True)
class WordFacts:
    """How many words say something, and how usual they are.

    Attributes
    ----------
    count
        Words that are not of the commonest English ones.
    log_shares
        The sum of the logarithms of their counts, relative to the commonest word, in the sentences that the model of
        whole photos learned from.
    rarest
        The least of these logarithms in the sentences that the model of regions learned from.
    strange
        The share of them that the model of regions does not know.
    """

    count: int
    log_shares: float
    rarest: float
    strange: float


@dataclass(frozen=True)
class ReadSentence:
    """A sentence as both models read it.

    Attributes
    ----------
    text
        As given.
    words, unknown
        Its words in lower case, and those among them that the model of whole photos does not know.
    facts
        How many words there are, and how usual.
    vector : array of float32, (dimension,)
        Its dot product with that of a photo is the score.
    phrases
        The noun phrases that name something visible; where there is none, the whole sentence as one.
    """

    text: str
    words: tuple[str, ...]
    unknown: tuple[str, ...]
    facts: WordFacts
    vector: Floats
    phrases: tuple[ReadPhrase, ...]

    @property
    def is_unknown(self) -> bool:
        """Whether no word that says something is known, so that nothing can be found."""
        said = content_words(self.words)
        return bool(said) and set(said) <= set(self.unknown)


class Seer:
    """Photos to vectors of them and of their regions, and sentences to vectors that find them.

    A photo goes through the encoder once; both models read its map.

    Parameters
    ----------
    whole, pointing
        The models, by a name that ``deixis models`` lists or by their directories. The second must give vectors of
        regions.

    Examples
    --------
    >>> seer = Seer()
    >>> seer.dimension, seer.region_dimension
    (512, 193)
    >>> [phrase.text for phrase in seer.read("two dogs in the snow").phrases]
    ['two dogs', 'the snow']
    """

    def __init__(self, whole: str | PathLike[str] = WHOLE, pointing: str | PathLike[str] = POINTING) -> None:
        self.whole: Bundle = load(whole)
        self.pointing: Bundle = load(pointing)
        if self.whole.encoder != self.pointing.encoder:
            raise DeixisError(
                f"{fspath(whole)} and {fspath(pointing)} see photos through different encoders "
                f"({self.whole.encoder.name} and {self.pointing.encoder.name}); an index needs models of one"
            )
        if self.pointing.learned.proposals != _PROPOSALS:
            raise DeixisError(f"{fspath(pointing)} points at proposals that are not those of {_PROPOSALS}")
        hashes = [hash_of_model(place_of(model)) for model in (whole, pointing)]
        self._fingerprint = hashlib.sha256(" ".join([*hashes, str(REGIONS)]).encode()).hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """What changes whenever a photo or a sentence would get other vectors."""
        return self._fingerprint

    @property
    def dimension(self) -> int:
        """Numbers in the vector of a whole photo."""
        return self.whole.model.dimension

    @property
    def region_dimension(self) -> int:
        """Numbers in the vector of a region."""
        return self.pointing.model.dimension

    def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
        """One answer for each path, in their order; photos are decoded ahead while the encoder computes."""
        waiting: deque[tuple[Path, PhotoError | Future[Seen]]] = deque()
        # Regions are small work for one core, done while the encoder has the next photos on all of them.
        pool = ThreadPoolExecutor(1, "regions", initializer=torch.set_num_threads, initargs=(1,))
        try:
            for path, found in encode_keeping(self.whole.image_encoder, paths, thumbnail_of):
                seen = found if isinstance(found, PhotoError) else pool.submit(self._seen, *found)
                waiting.append((path, seen))
                if len(waiting) > _SEEN_AHEAD:
                    yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def see_whole(self, photo: PhotoLike) -> Floats:
        """The vector of one photo, to search by it."""
        vector: Floats = self.whole.encode_images([opened(photo)])[0]
        return vector

    def read(self, text: str) -> ReadSentence:
        """An English sentence, or a few words of one, as both models read it."""
        return self.read_all([text])[0]

    def read_all(self, texts: Sequence[str]) -> list[ReadSentence]:
        """The same for many."""
        sentences = [Sentence(text) for text in texts]
        found = [
            [(phrase.text, phrase.span) for phrase in sentence.phrases] or [(sentence.text, (0, len(sentence.text)))]
            for sentence in sentences
        ]
        texts_of_phrases = list(dict.fromkeys(text for phrases in found for text, _ in phrases))
        place = {text: number for number, text in enumerate(texts_of_phrases)}
        regions = self.pointing.encode_sentences(texts_of_phrases)
        whole = self.whole.encode_sentences(texts_of_phrases)
        vectors = self.whole.encode_sentences(list(texts))
        return [
            ReadSentence(
                sentence.text,
                sentence.words,
                self._unknown(sentence.words),
                self._facts(sentence.words),
                vector,
                tuple(ReadPhrase(text, span, regions[place[text]], whole[place[text]]) for text, span in phrases),
            )
            for sentence, vector, phrases in zip(sentences, vectors, found, strict=True)
        ]

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """The words that the model of whole photos does not know."""
        return self._unknown(Sentence(text).words)

    @property
    def known_words(self) -> tuple[str, ...]:
        """The words that the model of whole photos knows, the commonest first."""
        known = _vocabulary(self.whole)
        return () if known is None else known.words

    def presence(self, scores: Floats) -> Floats:
        """How likely photos show phrases, if half of all photos did, from the best score of each among regions."""
        model = self.pointing.model
        if isinstance(model, Grounder) and model.settings.other_photos:
            return model.presence(scores)
        return np.asarray(1 / (1 + np.exp(-scores)), dtype=np.float32)

    @cached_property
    def _proposer(self) -> Proposer:
        return Pointer(self.pointing).proposer

    def _seen(self, thumbnail: bytes, features: FeatureMap) -> Seen:
        proposals = self._proposer.propose(_NO_PIXELS, features, REGIONS)
        vectors, places = features.regions(proposals.boxes), proposals.boxes / np.tile(features.size, 2)
        regions = RegionInputs(vectors, places, proposals.scores, features.whole)
        whole = with_whole_place(features.whole[None], self.whole.learned.place)
        return Seen(
            self.whole.model.prepare_visual(whole)[0],
            *features.size,
            proposals.boxes.astype(np.float32),
            self.region_vectors(regions),
            thumbnail,
        )

    def region_vectors(self, regions: RegionInputs) -> Floats:
        """The vectors of the regions of a photo, to be kept in an index."""
        if isinstance(self.pointing.model, Grounder):
            return self.pointing.model.prepare_visual(regions)
        placed = with_places(regions.vectors, regions.boxes, (1, 1), self.pointing.learned.place)
        return self.pointing.model.prepare_visual(placed)

    def _unknown(self, words: Iterable[str]) -> tuple[str, ...]:
        known = _vocabulary(self.whole)
        return tuple(word for word in words if known is not None and word not in known)

    def _facts(self, words: Sequence[str]) -> WordFacts:
        said = content_words(words)
        whole, regions = _vocabulary(self.whole), _vocabulary(self.pointing)
        rarest = min(_log_shares(regions, said), default=0.0)
        return WordFacts(len(said), sum(_log_shares(whole, said)), rarest, _share_missing(regions, said))


def _finished(path: Path, seen: PhotoError | Future[Seen]) -> tuple[Path, Seen | PhotoError]:
    return path, seen if isinstance(seen, PhotoError) else seen.result()


def content_words(words: Iterable[str]) -> list[str]:
    """The words that say something, once each: all but the commonest of English.

    Examples
    --------
    >>> content_words(["two", "dogs", "in", "the", "snow"])
    ['dogs', 'snow']
    """
    usual = function_words()
    return list(dict.fromkeys(word for word in words if word not in usual))


def _vocabulary(bundle: Bundle) -> Vocabulary | None:
    known = getattr(bundle.model, "vocabulary", None)
    return known if isinstance(known, Vocabulary) else None


def _share_missing(known: Vocabulary | None, words: Sequence[str]) -> float:
    return sum(known is not None and word not in known for word in words) / max(len(words), 1)


def _log_shares(known: Vocabulary | None, words: Sequence[str]) -> list[float]:
    """Of each word, relative to the commonest; a word that is not known was met once, for all we know."""
    if known is None or not known.counts:
        return [0.0 for _ in words]
    numbers = [known.id_of(word) for word in words]
    counts = [1 if number is None else known.counts[number] for number in numbers]
    return [math.log(count / max(known.counts)) for count in counts]


def hash_of_model(folder: Path) -> str:
    """Of all files that make a model's numbers."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(_CARDS))
    named = [f"{file.relative_to(folder).as_posix()} {hash_of_file(file)}" for file in files]
    return hashlib.sha256("\n".join(named).encode()).hexdigest()
