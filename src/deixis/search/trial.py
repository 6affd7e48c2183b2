"""A trial of search: photos with captions, queries made from them, and the scores of all photos for each query.

The queries are captions, their phrases, and absent queries: texts about things that none of the photos shows. Captions
decide which photos are relevant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import numpy as np

from deixis.arrays import BoolArray, Floats, IntArray
from deixis.data.dataset import Dataset
from deixis.data.derived import named_splits
from deixis.language.sentence import Sentence
from deixis.language.words import senses, stem
from deixis.models.base import read_regions
from deixis.models.photo_features import compute_features
from deixis.search.calibration import Evidence, QueryBank
from deixis.search.encoder import MAX_REGIONS, SENTENCE_KINDS, WORD, EncodedSentence, SearchEncoder
from deixis.search.index.base import RegionVectors
from deixis.search.query import PEOPLE, bare_noun, content_words
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import tokenize
from deixis.tokens import words as words_of_tokens

ABSENT = "absent"
KINDS = (*SENTENCE_KINDS, ABSENT)
"""Kinds of queries: those of sentences, and texts about things that no photo shows."""

_MAX_CAPTIONS = 2500
"""Maximum number of captions of a source that are used as queries."""

BANK_SIZE = 256
"""Number of vectors in a bank of queries."""

_BANK_TEXTS = 2000
"""Maximum number of captions, and of phrases, of a source from which a bank is made."""

_BANK_ROUNDS = 20
_BANK_TEMPERATURE = 0.5
"""In standard deviations of the scores of photos."""


@dataclass(frozen=True)
class EncodedSplit:
    """The encoded photos of a split, as in an index."""

    captions: list[list[str]]  # of each photo
    whole: Floats  # (photos, dimension)
    regions: RegionVectors
    facts: Sequence[Sequence[str]] = ()  # what else is known of each photo, such as "two dogs", from labels and boxes

    def evidence(
        self, reads: Sequence[EncodedSentence], bank: QueryBank, on_progress: OnProgress = no_progress
    ) -> list[Evidence]:
        """Compute the evidence of queries for all photos."""
        others, found = bank.scores(self.whole), []
        for read in reads:
            found.append(Evidence.collect(read, self.whole, self.regions, others))
            on_progress("scoring queries", len(found), len(reads))
        return found


@dataclass(frozen=True)
class TrialQuery:
    """A query with its evidence for every photo."""

    kind: str  # one of `KINDS`
    photo: int  # that the query comes from; for an absent query any photo, which determines its half
    evidence: Evidence
    relevant: BoolArray  # (photos,)
    is_unknown: bool = False  # whether no word of the query is known, so that search returns nothing
    is_caption: bool = False


@dataclass(frozen=True)
class Trial:
    """The photos of one source, and queries of all kinds."""

    name: str  # of the source
    vectors: Floats  # (photos, dimension), of whole photos
    queries: Sequence[TrialQuery]
    people: Sequence[TrialQuery] = ()  # the words for people

    def __len__(self) -> int:
        """Return the number of photos."""
        return len(self.vectors)

    @cached_property
    def cosines(self) -> Floats:
        """Cosines of all pairs of photos."""
        return self.vectors @ self.vectors.T

    @cached_property
    def alike(self) -> BoolArray:
        """For all pairs of photos, whether the second is relevant to a caption of the first."""
        alike = np.zeros((len(self), len(self)), dtype=bool)
        for query in self.queries:
            if query.is_caption:
                alike[query.photo] |= query.relevant
        return alike


@dataclass(frozen=True)
class Source:
    """The encoded photos of a split, and captions of other photos of the data set."""

    name: str
    photos: EncodedSplit
    other_captions: list[str]


def make_trial(
    source: Source,
    encoder: SearchEncoder,
    bank: QueryBank,
    *,
    absent_texts: Sequence[str] = (),
    exclude: Sequence[str] = (),
    on_progress: OnProgress = no_progress,
) -> Trial:
    """Create queries of all kinds for the photos of a source, which the models were not trained on.

    Captions of other photos with a word that no caption of these photos has, and `absent_texts`, are absent queries.
    Words of the texts in `exclude` are not.
    """
    photos = source.photos
    relevance = Relevance(
        [[*texts, *facts] for texts, facts in zip_longest(photos.captions, photos.facts, fillvalue=())]
    )
    queries = make_queries(photos, relevance, encoder, bank, on_progress=on_progress)
    texts = [*find_absent_texts(source.other_captions, relevance, encoder, exclude=exclude), *absent_texts]
    reads = [
        read
        for read in (encoder.encode_sentences(texts) if texts else [])
        if not relevance.of(read.text, [phrase.text for phrase in read.phrases]).any()
    ]
    kinds = encoder.encode_sentences(PEOPLE)
    relevant = np.any([relevance.with_word(kind.words[-1]) for kind in kinds], axis=0)
    people = [TrialQuery(WORD, 0, found, relevant) for found in photos.evidence(kinds, bank)]
    return Trial(source.name, photos.whole, queries + absent_trial_queries(reads, photos, bank), people)


def read_sources(
    paths: Sequence[Path],
    splits: Sequence[str],
    encoder: SearchEncoder,
    absent_from: str = "train",
    facts: Mapping[str, Sequence[str]] | None = None,
    on_progress: OnProgress = no_progress,
) -> list[Source]:
    """Encode the photos of data sets: each of the splits that a data set has is a source.

    If a data set has none of the splits, the first is an error. Captions of other photos are those of `absent_from`;
    `facts` are further texts by the id of a photo, which decide with the captions what it shows.
    """
    sources = []
    for name, dataset, split in named_splits(paths, splits):
        others = dataset.split(absent_from) if absent_from in dataset.manifest.splits else ()
        captions = [caption.text for photo in others for caption in photo.sentences]
        photos = encode_split(dataset, split, encoder, on_progress)
        known = [list((facts or {}).get(photo.id, ())) for photo in dataset.split(split)]
        sources.append(Source(name, replace(photos, facts=known), captions))
    return sources


def make_bank(sources: Sequence[Source], encoder: SearchEncoder, size: int = BANK_SIZE, seed: int = 0) -> QueryBank:
    """Create typical queries: the centres of clusters of captions and phrases of other photos.

    All sources have the same weight. A source without captions of other photos gives those of its own.
    """
    rng = np.random.default_rng(seed)
    vectors = []
    for source in sources:
        captions = source.other_captions or [text for texts in source.photos.captions for text in texts]
        reads = encoder.encode_sentences(_sample(captions, _BANK_TEXTS, rng))
        phrases = {phrase.text.lower(): phrase.whole_vector for read in reads for phrase in read.phrases}
        chosen = _sample(sorted(phrases), _BANK_TEXTS, rng)
        vectors += [*(read.vector for read in reads), *(phrases[text] for text in chosen)]
    centres = _cluster(np.stack(vectors), size, rng)
    photos = np.concatenate([source.photos.whole for source in sources])
    return QueryBank.encode(centres, _BANK_TEMPERATURE * float((photos @ centres.T).std()))


def _cluster(vectors: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return the centres of clusters, by k-means."""
    centres = vectors[rng.choice(len(vectors), min(count, len(vectors)), replace=False)]
    for _ in range(_BANK_ROUNDS):
        nearest = (vectors @ centres.T - (centres**2).sum(axis=1) / 2).argmax(axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, vectors)
        counts = np.bincount(nearest, minlength=len(centres))
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres).astype(np.float32)
    return np.asarray(centres, dtype=np.float32)


def encode_split(
    dataset: Dataset, split: str, encoder: SearchEncoder, on_progress: OnProgress = no_progress
) -> EncodedSplit:
    """Encode the photos of a split, or read their features from the data set directory."""
    proposals = encoder.region_model.provenance.proposal_source
    seen = compute_features(
        dataset, dataset.split(split), encoder.region_model.image_encoder, proposals=proposals, on_progress=on_progress
    )
    ids = seen.photos.ids
    vectors: list[Floats | None] = []
    for done, photo_id in enumerate(ids, start=1):
        vectors.append(encoder.encode_regions(read_regions(seen.store, photo_id, MAX_REGIONS)))
        on_progress("reading regions", done, len(ids))
    return EncodedSplit(
        [[caption.text for caption in photo.sentences] for photo in seen.photos],
        encoder.encode_split_photos(seen, [dataset.path_of(photo) for photo in seen.photos], on_progress),
        RegionVectors.join(vectors, encoder.region_dimension),
    )


def make_queries(
    photos: EncodedSplit,
    relevance: Relevance,
    encoder: SearchEncoder,
    bank: QueryBank,
    *,
    on_progress: OnProgress = no_progress,
) -> list[TrialQuery]:
    """Create queries from captions, evenly spaced, and from distinct parts of them: noun phrases, nouns and actions."""
    captions = [(photo, text) for photo, texts in enumerate(photos.captions) for text in texts]
    captions = captions[:: -(-len(captions) // _MAX_CAPTIONS)]
    reads = encoder.encode_sentences([text for _, text in captions])
    known = [(photo, fact) for photo, facts in enumerate(photos.facts) for fact in facts]
    first = {text: photo for photo, caption in [*captions, *known] for text in short_queries(caption)}
    on_progress("reading captions", len(reads), len(reads))
    reads_of_parts = encoder.encode_sentences(list(first))
    evidence = photos.evidence([*reads, *reads_of_parts], bank, on_progress)
    found = []
    origins = [(photo, True) for photo, _ in captions] + [(photo, False) for photo in first.values()]
    for (photo, is_caption), read, of_it in zip(origins, [*reads, *reads_of_parts], evidence, strict=True):
        relevant = relevance.of(read.text, [phrase.text for phrase in read.phrases])
        relevant[photo] = True  # by definition
        if words_of(read.text):
            found.append(TrialQuery(read.statistics.kind, photo, of_it, relevant, read.is_unknown, is_caption))
    return found


def short_queries(caption: str) -> list[str]:
    """Return what people may type who look for the photo of a caption: noun phrases, nouns and actions.

    Examples
    --------
    >>> short_queries("A man is riding a brown horse.")
    ['man', 'a brown horse', 'horse', 'riding a brown horse']
    """
    sentence, found = Sentence(caption.lower()), list[str]()
    for phrase in sentence.phrases:
        nouns = bare_noun(Sentence(phrase.text))
        article, _, rest = phrase.text.partition(" ")
        found += [rest if nouns == rest or article == "the" else phrase.text]
        found += [nouns] if nouns else []
    for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
        after = [phrase for phrase in sentence.phrases if 0 <= phrase.span[0] - token.end <= _ACTION_GAP]
        if tag == "VBG" and after:
            found.append(sentence.text[token.start : after[0].span[1]])
    return list(dict.fromkeys(found))


def find_absent_texts(
    captions: Sequence[str],
    relevance: Relevance,
    encoder: SearchEncoder,
    *,
    count: int = 2000,
    exclude: Sequence[str] = (),
) -> list[str]:
    """Return captions, phrases of them and single words that no caption of the photos has, `count` of each at most.

    The captions are those of other photos; the words are those that the models were trained with. Words of the
    texts in `exclude` are left out.
    """
    rng = np.random.default_rng(0)
    absent = _sample([caption for caption in captions if relevance.has_absent_word(caption)], count, rng)
    reads = encoder.encode_sentences(absent) if absent else []
    phrases = {phrase.text for read in reads for phrase in read.phrases if relevance.has_absent_word(phrase.text)}
    words = _absent_words(relevance, encoder, exclude)
    return [*absent, *_sample(sorted(phrases), count, rng), *_sample(words, count, rng)]


def _absent_words(relevance: Relevance, encoder: SearchEncoder, exclude: Sequence[str]) -> list[str]:
    """Known words for visible things that no caption has."""
    excluded = {stem(word) for text in exclude for word in words_of(text)}
    known = encoder.vocabulary
    words = [word for word in (known.words if known else ()) if word.isalpha() and stem(word) not in excluded]
    absent = [f"a {word}" for word in words if words_of(word) and not relevance.with_word(word).any()]
    return [text for text in absent if Sentence(text).phrases]


def absent_trial_queries(reads: Sequence[EncodedSentence], photos: EncodedSplit, bank: QueryBank) -> list[TrialQuery]:
    """Create a query without a relevant photo of each sentence."""
    nowhere = np.zeros(len(photos.whole), dtype=bool)
    halves = np.random.default_rng(0).integers(len(photos.whole), size=len(reads))
    return [
        TrialQuery(ABSENT, int(photo), evidence, nowhere, read.is_unknown)
        for photo, evidence, read in zip(halves, photos.evidence(reads, bank), reads, strict=True)
    ]


def _sample(texts: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    indices = rng.choice(len(texts), min(count, len(texts)), replace=False)
    return [texts[index] for index in indices]


MIN_WORD_SHARE = 2 / 3
"""Fraction of the words of a long query that the captions of a relevant photo must contain."""

_SHORT = 3
"""Content words of a short noun phrase, which one caption must have in this order."""

_NEAR = 3
"""The largest distance of two words of a short noun phrase in a caption."""

_ACTION_GAP = 8
"""Maximum number of characters between a verb and its object, such as " on the "."""

_BETWEEN = 16
"""A distance that is larger than any between the words of a caption."""


class Relevance:
    """Decides from captions which photos are relevant to a query.

    A photo is relevant to a short noun phrase if a caption has its words in this order and near each other. It is
    relevant to another query if its captions together contain the last word of every phrase, usually the object, and at
    least two thirds of all words. Words match if they share a stem or a WordNet sense. Captions do not mention
    everything, so some relevant photos are missed.

    Parameters
    ----------
    captions
        Captions of each photo.

    Examples
    --------
    >>> photos = Relevance([["A brown dog runs.", "A puppy."], ["Two cats on a mat."]])
    >>> photos.of("brown dogs", ["brown dogs"]).tolist(), photos.of("a dog and a cat", ["a dog", "a cat"]).tolist()
    ([True, False], [False, False])
    """

    def __init__(self, captions: Sequence[Iterable[str]]) -> None:
        self.count = len(captions)
        self._with_word: dict[str, BoolArray] = {}
        places: dict[str, list[int]] = {}
        photos: list[int] = []  # of each place of a word
        for index, of_photo in enumerate(captions):
            for caption in of_photo:
                for word in words_of_tokens(tokenize(caption.lower())):
                    places.setdefault(word, []).append(len(photos))
                    photos.append(index)
                photos += [index] * _BETWEEN
        self._photos = np.array(photos, dtype=np.int64)
        by_meaning: dict[object, list[int]] = {}
        for word, of_word in places.items():
            for meaning in _meanings(word) if content_words([word]) else ():
                by_meaning.setdefault(meaning, []).extend(of_word)
        self._by_meaning = {meaning: np.array(found) for meaning, found in by_meaning.items()}

    def of(self, query: str, phrases: Iterable[str]) -> BoolArray:
        """Return which photos are relevant to a query with these phrases: (photos,)."""
        words, named = words_of(query), [words_of(phrase) for phrase in phrases]
        if not words:
            return np.zeros(self.count, dtype=bool)
        if words in named and len(words) <= _SHORT:
            return self._in_order(words, _NEAR)
        present = np.stack([self.with_word(word) for word in words])
        relevant = present.mean(axis=0) >= MIN_WORD_SHARE - 1e-9
        for objects in {tuple(of_phrase[-1:]) for of_phrase in named}:
            for name in objects:
                relevant &= self.with_word(name)
        return np.asarray(relevant)

    def with_word(self, word: str) -> BoolArray:
        """Return which photos have a caption with the word or a synonym."""
        if word not in self._with_word:
            self._with_word[word] = self._in_order([word], 0)
        return self._with_word[word]

    def _in_order(self, words: Sequence[str], distance: int) -> BoolArray:
        """Return which photos have a caption with the words in this order, each at most so far from the one before."""
        ends = self._places(words[0])
        for word in words[1:]:
            after = self._places(word)
            before = np.searchsorted(ends, after)  # the number of ends in front of each place
            nearest = (
                np.where(before > 0, ends[np.maximum(before - 1, 0)], -_BETWEEN) if len(ends) else after - _BETWEEN
            )
            ends = after[after - nearest <= distance]
        found = np.zeros(self.count, dtype=bool)
        found[self._photos[ends]] = True
        return found

    def _places(self, word: str) -> IntArray:
        none = np.zeros(0, dtype=np.int64)
        return np.unique(np.concatenate([none, *(self._by_meaning.get(each, none) for each in _meanings(word))]))

    def has_absent_word(self, text: str) -> bool:
        """Return whether a content word of a text, and its synonyms, are in no caption."""
        return any(not self.with_word(word).any() for word in words_of(text))


def words_of(text: str) -> list[str]:
    """Return the content words of a text.

    Examples
    --------
    >>> words_of("Two dogs in the snow.")
    ['two', 'dogs', 'snow']
    """
    return content_words(words_of_tokens(tokenize(text)))


def _meanings(word: str) -> set[object]:
    return {f"stem {stem(word)}", *senses(word)}
