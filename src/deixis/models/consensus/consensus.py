"""Consensus reranking (m-RNN, section 8): of several sentences for a photo, prefer what captions of similar photos say.

For each photo, the k nearest training photos are found by their features (8.1). The score of a sentence is its mean
similarity to the m most similar of their captions (8.2). The paper states neither the distance of photos nor the BLEU
of two sentences; they are ours (cosine, smoothed) or those of the authors' released code (mRNN-CR).

`tune` chooses k and m on photos with known captions. Scores on these photos are then optimistic, so
`cross_validated_order` reranks each half of the photos with the choice of the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.errors import DeixisError
from deixis.evaluation.captions.metrics import SCALE, SIGMA, bleu_from, bleu_statistics
from deixis.evaluation.captions.ngrams import MAX_NGRAM, CaptionSet
from deixis.language.features.base import Text, words_of
from deixis.models.consensus.spec import BleuForm, NeighbourDistance

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]
Similarity = Literal["bleu", "cider"]

PAPER_TOP_CAPTIONS = {"bleu": 175, "cider": 125}
"""Section 8.2: m."""

_PHOTOS_PER_BLOCK = 512

_WORD_BITS = 31
"""Code of an n-gram: the number of its first n − 1 words, then the id of its last word in this many bits."""


@dataclass(frozen=True)
class RerankSettings:
    """How sentences are reranked with one similarity: smoothed BLEU-4 or CIDEr-D.

    `neighbours` is k of section 8.2, the number of nearest training photos. `top_captions` is m: the score is the mean
    over this number of most similar captions; None for the paper's.
    """

    similarity: Similarity = "cider"
    neighbours: int = 60
    top_captions: int | None = None

    def __post_init__(self) -> None:
        for name in ("neighbours", "top_captions"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DeixisError(f"{name}={value}: must be 1 or more")

    @property
    def m(self) -> int:
        return self.top_captions or PAPER_TOP_CAPTIONS[self.similarity]


class Consensus:
    """Training photos with their captions, which score sentences for other photos.

    `vectors` are image features, or the refined ones of an m-RNN (`MRNN.refine`), one row per photo. `distance` and
    `bleu` are settings of `ConsensusSettings`.

    Examples
    --------
    >>> consensus = Consensus(np.eye(2), [["a dog runs", "a dog in the snow"], ["two cats sleep"]])
    >>> sentences = [["a cat sleeps", "a dog runs"], ["two cats sleep", "a dog runs"]]
    >>> [each.tolist() for each in consensus.order(np.eye(2), sentences, RerankSettings(neighbours=1))]
    [[1, 0], [0, 1]]
    """

    def __init__(
        self,
        vectors: ArrayLike,
        captions: Sequence[Sequence[Text]],
        *,
        distance: NeighbourDistance = "cosine",
        bleu: BleuForm = "smoothed",
    ) -> None:
        self._distance, self._bleu = distance, bleu
        self._vectors = np.asarray(vectors, dtype=np.float32)
        self._captions = _words(captions)
        if self._vectors.ndim != 2 or len(self._vectors) != len(self._captions) or not len(self._captions):
            raise DeixisError(
                f"consensus: vectors of shape {self._vectors.shape} are not one row for each of "
                f"{len(self._captions)} photos"
            )
        counts = [len(texts) for texts in self._captions]
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def similarity(self) -> CaptionSimilarity:
        """Similarity of sentences to all captions; computed when first used."""
        return CaptionSimilarity(self._captions)

    def neighbours(self, vectors: ArrayLike, count: int) -> IntArray:
        """The rows of the training photos nearest to each photo, nearest first (section 8.1)."""
        queries = np.asarray(vectors, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self._vectors.shape[1]:
            raise DeixisError(
                f"consensus: vectors of shape {queries.shape}; photos have {self._vectors.shape[1]:,} features"
            )
        cosine = self._distance == "cosine"
        training = _normalize(self._vectors) if cosine else self._vectors
        # Half of the squared distance, less what is the same for all training photos.
        offset = 0.0 if cosine else np.einsum("ij,ij->i", training, training, dtype=np.float64) / 2
        blocks = []
        for first in range(0, len(queries), _PHOTOS_PER_BLOCK):
            block = queries[first : first + _PHOTOS_PER_BLOCK]
            products = _normalize(block) @ training.T if cosine else block.astype(np.float64) @ training.T
            blocks.append(np.argsort(offset - products, axis=1, kind="stable"))
        return np.concatenate([block[:, :count] for block in blocks] or [np.zeros((0, count), dtype=np.int64)])

    def similarities(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], similarity: Similarity, neighbours: int
    ) -> Iterator[tuple[IntArray, Floats]]:
        """Compare the sentences of each photo with the captions of its neighbours.

        Yields the end of each neighbour's captions, nearest neighbour first, and the similarities of sentences ×
        captions.
        """
        nearest = self.neighbours(vectors, neighbours)
        if len(nearest) != len(sentences):
            raise DeixisError(f"consensus: {len(nearest)} photos, but sentences for {len(sentences)}")
        name = "mean_f" if similarity == "bleu" and self._bleu == "mean-f" else similarity
        measure: Callable[[Sequence[Sequence[str]], IntArray], Floats] = getattr(self.similarity, name)
        for rows, texts in zip(nearest, _words(sentences), strict=True):
            captions = np.concatenate([np.arange(self._starts[row], self._starts[row + 1]) for row in rows])
            ends = np.cumsum(self._starts[rows + 1] - self._starts[rows])
            yield ends, measure(texts, captions)

    def scores(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], settings: RerankSettings | None = None
    ) -> list[Floats]:
        """For each photo the consensus scores of its sentences: the mean of the m highest similarities (8.2)."""
        settings = settings or RerankSettings()
        found = []
        for _, values in self.similarities(vectors, sentences, settings.similarity, settings.neighbours):
            highest = -np.sort(-values, axis=1)[:, : settings.m]
            found.append(highest.mean(1) if highest.size else np.zeros(len(values)))
        return found

    def order(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], settings: RerankSettings | None = None
    ) -> list[IntArray]:
        """For each photo the order of its sentences, best first; ties keep their order."""
        return [best_first(scores) for scores in self.scores(vectors, sentences, settings)]


def _words(texts: Sequence[Sequence[Text]]) -> list[list[list[str]]]:
    return [[list(words_of(text)) for text in of_photo] for of_photo in texts]


def best_first(scores: Floats) -> IntArray:
    """The order of sentences by their scores, best first; ties keep their order."""
    return np.argsort(-scores, kind="stable")


def oracle_scores(
    sentences: Sequence[Sequence[Text]], references: Sequence[Sequence[Text]], similarity: Similarity = "cider"
) -> list[Floats]:
    """Scores of sentences by the photos' own captions: the upper bound of reranking (oracle of Table 8).

    `references` are the own captions of each photo; CIDEr-D is computed over these photos.
    """
    candidates, captions = _words(sentences), _words(references)
    if similarity == "bleu":
        return list(map(_smoothed_bleu, candidates, captions))
    measure, ends = CaptionSimilarity(captions), np.cumsum([len(texts) for texts in captions])
    return [
        measure.cider(texts, np.arange(end - len(own), end)).mean(1)
        for texts, own, end in zip(candidates, captions, ends, strict=True)
    ]


def _smoothed_bleu(sentences: Sequence[Sequence[str]], captions: Sequence[Sequence[str]]) -> Floats:
    """BLEU-4 of each sentence with all captions as references."""
    ids = tuple(map(str, range(len(sentences))))  # each sentence stands for a photo of its own
    statistics = bleu_statistics(CaptionSet(ids, sentences, [captions] * len(sentences)))
    statistics[:, 1:MAX_NGRAM] += 1
    statistics[:, MAX_NGRAM + 1 : 2 * MAX_NGRAM] += 1
    return bleu_from(statistics)[:, -1]


def _normalize(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, np.finfo(np.float32).tiny))


NEIGHBOURS = (5, 10, 20, 40, 60, 90, 120, 200)
TOP_CAPTIONS = (5, 10, 25, 50, 75, 100, 125, 175, 250, 400)
"""The k and m that are tried, the paper's among them."""


@dataclass(frozen=True)
class Candidates:
    """For each photo the vector by which its neighbours are found, sentences to choose from, and its own captions."""

    vectors: ArrayLike
    sentences: Sequence[Sequence[Text]]
    references: Sequence[Sequence[Text]]


def tune(consensus: Consensus, candidates: Candidates, similarity: Similarity) -> RerankSettings:
    """The k and m with the best choices: by BLEU-4 over all photos for bleu, by CIDEr-D for cider."""
    trial = _Trial.of(consensus, candidates, similarity)
    return trial.best_on(np.arange(len(candidates.sentences)))


def cross_validated_order(
    consensus: Consensus, candidates: Candidates, similarity: Similarity
) -> tuple[list[IntArray], tuple[RerankSettings, RerankSettings]]:
    """Rerank each half of the photos (every other one) with the k and m chosen on the other half.

    Also gives the settings used for the first and the second half.
    """
    trial, photos = _Trial.of(consensus, candidates, similarity), np.arange(len(candidates.sentences))
    halves = photos[::2], photos[1::2]
    chosen = [trial.best_on(others if len(others) else own) for own, others in (halves, halves[::-1])]
    vectors = np.asarray(candidates.vectors)
    order: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(photos)
    for half, settings in zip(halves, chosen, strict=True):
        found = consensus.order(vectors[half], [candidates.sentences[photo] for photo in half], settings)
        for photo, each in zip(half.tolist(), found, strict=True):
            order[photo] = each
    return order, (chosen[0], chosen[1])


@dataclass(frozen=True)
class _Trial:
    """The sentence that every k and m chooses for each photo."""

    settings: list[RerankSettings]  # all k and m
    gained: Floats  # (photos, settings, …): what the chosen sentence adds to the score

    @classmethod
    def of(cls, consensus: Consensus, candidates: Candidates, similarity: Similarity) -> _Trial:
        """Try all k and m; similarities to the captions of the largest k are computed once."""
        settings = [RerankSettings(similarity, k, m) for k in NEIGHBOURS for m in TOP_CAPTIONS]
        if similarity == "cider":
            values = oracle_scores(candidates.sentences, candidates.references, "cider")
        else:
            values = _bleu_statistics(candidates)
        similarities = consensus.similarities(candidates.vectors, candidates.sentences, similarity, max(NEIGHBOURS))
        gained = [each[_choices(*found)] for each, found in zip(values, similarities, strict=True)]
        return cls(settings, np.stack(gained))

    def best_on(self, photos: NDArray[np.int64]) -> RerankSettings:
        """The settings with the best score on these photos; the first of equal ones."""
        total = self.gained[photos].sum(0)
        return self.settings[int(np.argmax(total if total.ndim == 1 else bleu_from(total)[:, -1]))]


def _choices(ends: IntArray, similarities: Floats) -> IntArray:
    """The sentence that each k and m ranks first."""
    chosen = []
    for k in NEIGHBOURS:
        captions = similarities[:, : int(ends[min(k, len(ends)) - 1])]
        sums = np.cumsum(-np.sort(-captions, axis=1), axis=1)
        for m in TOP_CAPTIONS:
            count = min(m, captions.shape[1])
            chosen.append(int(np.argmax(sums[:, count - 1])) if count else 0)
    return np.array(chosen)


def _bleu_statistics(candidates: Candidates) -> list[Floats]:
    """For each photo what each of its sentences adds to corpus BLEU."""
    counts = [len(texts) for texts in candidates.sentences]
    sentences = list(chain.from_iterable(_words(candidates.sentences)))
    # Each sentence stands for a photo of its own.
    captions = zip(_words(candidates.references), counts, strict=True)
    references = [texts for texts, count in captions for _ in range(count)]
    everything = CaptionSet(tuple(map(str, range(len(sentences)))), sentences, references)
    return np.split(bleu_statistics(everything), np.cumsum(counts)[:-1])


# Similarity of sentences and captions (section 8.2)


class CaptionSimilarity:
    """Similarity of any sentences to a fixed set of captions.

    Every occurrence of an n-gram in a caption is a column of a sparse matrix, so that clipped counts are dot products:
    the i-th occurrence in a sentence matches the i-th occurrence in a caption. `captions` are those of each photo, as
    words. Document frequencies are counted over these photos.
    """

    def __init__(self, captions: Sequence[Sequence[Sequence[str]]]) -> None:
        sentences = list(chain.from_iterable(captions))
        photo_of = np.repeat(np.arange(len(captions)), [len(photo) for photo in captions])
        distinct = dict.fromkeys(chain.from_iterable(sentences))
        self._ids = {word: number for number, word in enumerate(distinct)}
        self._lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        self._log_photos = float(np.log(max(1, len(captions))))
        self._known: list[_KnownNgrams] = []
        self._counts: list[Any] = []
        self._weights: list[Any] = []
        for codes, rows in self._ngrams(sentences):
            self._known.append(_KnownNgrams.of(codes, rows, photo_of))
            found = self._occurrences(len(self._known) - 1, codes, rows, len(sentences))
            weights = found.count * found.idf**2 / found.norm[found.row]
            self._counts.append(self._matrix(found, np.ones(len(found.row))))
            self._weights.append(self._matrix(found, weights))

    def bleu(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> Floats:
        """BLEU-4 of each sentence (row) with each of these captions (column) as its only reference.

        Precisions of n-grams longer than one word are (matches + 1) / (n-grams + 1), after Lin and Och (2004): few
        pairs share four words in a row, and without smoothing all others would be 0.
        """
        length = np.array([len(words) for words in sentences], dtype=np.float64)[:, None]
        logs = np.zeros((len(sentences), len(captions)))
        for n, (codes, rows) in enumerate(self._ngrams(sentences)):
            found = self._occurrences(n, codes, rows, len(sentences))
            ours = self._matrix(found, np.ones(len(found.row)))
            matches = np.asarray((ours @ self._counts[n][captions].T).todense())
            smooth = 1.0 if n else 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                logs += np.nan_to_num(np.log((matches + smooth) / (np.maximum(length - n, 0) + smooth)), nan=-np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            brevity = np.minimum(0, 1 - np.nan_to_num(self._lengths[captions] / length, posinf=np.inf))
        return np.asarray(np.exp(logs / MAX_NGRAM + brevity))

    def mean_f(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> Floats:
        """What the authors' released code calls BLEU, of each sentence (row) with each caption (column).

        The mean over n = 1 … 4 of 2 · matches / (n-grams of the sentence + n-grams of the caption); 0 if one of them
        has fewer than four words.
        """
        ours, theirs = np.array([len(words) for words in sentences]), self._lengths[captions]
        total = np.zeros((len(sentences), len(captions)))
        for n, (codes, rows) in enumerate(self._ngrams(sentences)):
            found = self._occurrences(n, codes, rows, len(sentences))
            matches = (self._matrix(found, np.ones(len(found.row))) @ self._counts[n][captions].T).todense()
            both = np.maximum(ours[:, None] - n, 0) + np.maximum(theirs - n, 0)
            total += 2 * np.asarray(matches) / np.maximum(both, 1)
        long = (ours[:, None] >= MAX_NGRAM) & (theirs >= MAX_NGRAM)
        return np.asarray(np.where(long, total / MAX_NGRAM, 0.0))

    def cider(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> Floats:
        """CIDEr-D (0 to 10) of each sentence (row) with each of these captions (column) as its only reference."""
        total = np.zeros((len(sentences), len(captions)))
        for n, (codes, rows) in enumerate(self._ngrams(sentences)):
            found = self._occurrences(n, codes, rows, len(sentences))
            ours = self._matrix(found, 1 / found.norm[found.row])
            total += np.asarray((ours @ self._weights[n][captions].T).todense())
        bigrams = np.array([max(0, len(words) - 1) for words in sentences])[:, None]
        difference = bigrams - np.maximum(0, self._lengths[captions] - 1)
        return np.asarray(SCALE / MAX_NGRAM * total * np.exp(-(difference**2) / (2 * SIGMA**2)))

    def _ngrams(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[IntArray, IntArray]]:
        """For n = 1, 2, …: the code of each n-gram, and its sentence.

        Before it continues with n + 1, the n-grams of length n must be in `_known`.
        """
        words = _word_ids(sentences, self._ids)
        lengths = np.array([len(each) for each in sentences], dtype=np.int64)
        rows = np.repeat(np.arange(len(sentences)), lengths)
        last = np.cumsum(lengths)[rows] - 1  # last word of the sentence that each word is in
        first, prefix = np.arange(len(words)), np.zeros(len(words), dtype=np.int64)
        for n in range(MAX_NGRAM):
            fits = first + n <= last[first]
            first, prefix = first[fits], prefix[fits]
            codes = prefix << _WORD_BITS | words[first + n]
            yield codes, rows[first]
            prefix = self._known[n].numbers(codes)

    def _occurrences(self, n: int, codes: IntArray, rows: IntArray, sentences: int) -> _Occurrences:
        known = self._known[n]
        ngrams = known.numbers(codes)
        order = np.lexsort((ngrams, rows))
        ngrams, rows = ngrams[order], rows[order]
        first = np.flatnonzero(np.diff(ngrams, prepend=-1) | np.diff(rows, prepend=-1))
        counts = np.diff(first, append=len(ngrams))
        count = np.repeat(counts, counts)
        rank = np.arange(len(ngrams)) - np.repeat(first, counts)
        photos = np.append(known.photos, 1)[np.minimum(ngrams, len(known.photos))]  # 1 if no caption has it
        idf = self._log_photos - np.log(photos)
        squares = np.bincount(rows[first], (counts * idf[first]) ** 2, sentences)
        # A sentence of n-grams that every photo has is a vector of length 0: all its similarities are 0.
        norm = np.where(squares > 0, np.sqrt(squares), np.inf)
        return _Occurrences(rows, ngrams, rank, count, idf, norm, known)

    def _matrix(self, found: _Occurrences, values: Floats) -> Any:
        """A sparse matrix: one row per sentence, one column per occurrence that a caption has."""
        from scipy import sparse

        columns = found.known.columns
        there = found.ngram < len(columns) - 1
        row, ngram, rank, values = found.row[there], found.ngram[there], found.rank[there], values[there]
        fits = rank < columns[ngram + 1] - columns[ngram]
        cells = row[fits], (columns[ngram] + rank)[fits]
        return sparse.csr_array((values[fits], cells), shape=(len(found.norm), int(columns[-1])))


@dataclass(frozen=True)
class _KnownNgrams:
    """The n-grams of one length that captions have."""

    codes: IntArray  # sorted
    photos: IntArray  # number of photos that have each n-gram in a caption
    # The first column of each n-gram, which has as many as its highest count in a caption; and the number of columns.
    columns: IntArray

    @classmethod
    def of(cls, codes: IntArray, rows: IntArray, photo_of_row: IntArray) -> _KnownNgrams:
        distinct, ngrams = np.unique(codes, return_inverse=True)
        base = 1 + max(len(photo_of_row), int(photo_of_row.max(initial=0)))  # above all numbers of captions and photos
        in_photos = np.unique(ngrams * base + photo_of_row[rows]) // base
        in_captions, counts = np.unique(ngrams * base + rows, return_counts=True)
        highest = np.zeros(len(distinct), dtype=np.int64)
        np.maximum.at(highest, in_captions // base, counts)
        photos = np.bincount(in_photos, minlength=len(distinct))
        return cls(distinct, photos, np.concatenate([[0], np.cumsum(highest)]))

    def numbers(self, codes: IntArray) -> IntArray:
        """The number of each n-gram; those that no caption has get higher ones, equal n-grams the same."""
        index = np.searchsorted(self.codes, codes)
        known = np.zeros(len(codes), dtype=bool)
        inside = index < len(self.codes)
        known[inside] = self.codes[index[inside]] == codes[inside]
        found = np.where(known, index, 0)
        found[~known] = len(self.codes) + np.unique(codes[~known], return_inverse=True)[1]
        return found


@dataclass(frozen=True)
class _Occurrences:
    """Occurrences of n-grams of one length in sentences, sorted by sentence and n-gram."""

    row: IntArray  # the sentence
    ngram: IntArray
    rank: IntArray  # number of earlier occurrences in the sentence
    count: IntArray  # occurrences in the sentence
    idf: Floats
    norm: Floats  # for each sentence the length of its vector of count · idf
    known: _KnownNgrams


def _word_ids(sentences: Sequence[Sequence[str]], known: Mapping[str, int]) -> IntArray:
    """Ids of all words, sentence after sentence; words that no caption has get higher ids."""
    unknown: dict[str, int] = {}
    found = [
        known[word] if word in known else len(known) + unknown.setdefault(word, len(unknown))
        for words in sentences
        for word in words
    ]
    return np.array(found, dtype=np.int64)
