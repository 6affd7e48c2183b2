"""Fit and evaluate the calibration of search on the photos of a data set.

The queries are captions, their phrases, and absent queries: things that none of the photos shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from deixis.arrays import Floats
from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError
from deixis.language.sentence import Sentence
from deixis.language.words import senses, stem
from deixis.models.grounder.data import read_regions
from deixis.models.photo_features import compute_features
from deixis.search.calibration import Calibration, Evidence, Threshold, WordPrior, features
from deixis.search.encoder import MAX_REGIONS, EncodedSentence, SearchEncoder
from deixis.search.query import content_words
from deixis.storage.progress import OnProgress, no_progress
from deixis.tokens import tokenize
from deixis.tokens import words as words_of_tokens

MIN_WORD_SHARE = 2 / 3
"""Fraction of the words of a query that the captions of a relevant photo must contain."""

Mask = NDArray[np.bool_]


class Relevance:
    """Decides from captions which photos are relevant to a query.

    A photo is relevant if its captions together contain the last word of every phrase of the query, usually the object,
    and at least two thirds of all its words. Words match if they share a stem or a WordNet sense. Captions do not
    mention everything, so some relevant photos are missed.

    Parameters
    ----------
    captions
        Captions of each photo.

    Examples
    --------
    >>> photos = Relevance([["A dog runs.", "A brown puppy."], ["Two cats on a mat."]])
    >>> photos.of("brown dogs", ["brown dogs"]).tolist(), photos.of("a dog and a cat", ["a dog", "a cat"]).tolist()
    ([True, False], [False, False])
    """

    def __init__(self, captions: Sequence[Iterable[str]]) -> None:
        self.count = len(captions)
        self._with_word: dict[str, Mask] = {}
        by_word: dict[str, Mask] = {}
        for index, of_photo in enumerate(captions):
            for word in {word for caption in of_photo for word in words_of(caption)}:
                by_word.setdefault(word, np.zeros(self.count, dtype=bool))[index] = True
        self._by_meaning: dict[object, Mask] = {}
        for word, photos in by_word.items():
            for meaning in _meanings(word):
                self._by_meaning[meaning] = self._by_meaning.get(meaning, photos) | photos

    def of(self, query: str, phrases: Iterable[str]) -> Mask:
        """Return which photos are relevant to a query with these phrases: (photos,)."""
        words = words_of(query)
        if not words:
            return np.zeros(self.count, dtype=bool)
        present = np.stack([self.with_word(word) for word in words])
        relevant = present.mean(axis=0) >= MIN_WORD_SHARE - 1e-9
        objects = {last for phrase in phrases for last in words_of(phrase)[-1:]}
        for name in objects:
            relevant &= self.with_word(name)
        return np.asarray(relevant)

    def with_word(self, word: str) -> Mask:
        """Return which photos have a caption with the word or a synonym."""
        if word not in self._with_word:
            none = np.zeros(self.count, dtype=bool)
            found = [self._by_meaning.get(meaning, none) for meaning in _meanings(word)]
            self._with_word[word] = np.logical_or.reduce([none, *found])
        return self._with_word[word]


def words_of(text: str) -> list[str]:
    """Return the content words of a text.

    Examples
    --------
    >>> words_of("Two dogs in the snow.")
    ['dogs', 'snow']
    """
    return content_words(words_of_tokens(tokenize(text)))


def _meanings(word: str) -> set[object]:
    return {f"stem {stem(word)}", *senses(word)}


SIZES = (20, 50, 100, 200, 400, 800)
"""Sizes of the random smaller indexes, so that the effect of the index size is fitted too."""

FOLDS = 5
_TOP_PHOTOS = 30
"""Number of best photos per query to fit on: those that a search could show."""

_BINS = 15
_RIDGE = 1e-4
_MIN_FOUND = {"caption": 0.905, "phrase": 0.85}
"""Fractions of queries that must find something; slightly above the goal, since held-out photos do slightly worse."""

_MIN_LIKENESS = -3.0
"""Minimum logit (5 %) of a similar photo."""

_MAX_RESULTS = 10
NO_THRESHOLD = Threshold((1,), (-100.0,))
"""Shows all photos."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrialQuery:
    """A query with its evidence for every photo.

    Attributes
    ----------
    kind
        caption, phrase or absent.
    photo
        Index of the photo that the query comes from; for an absent query any photo, which determines its fold.
    evidence
        Evidence for all photos.
    relevant
        Which photos are relevant.
    is_unknown
        Whether no word of the query is known, so that search returns nothing.
    """

    kind: str
    photo: int
    evidence: Evidence
    relevant: Mask
    is_unknown: bool = False

    def evidence_of(self, photos: NDArray[np.int64]) -> Evidence:
        """Return the evidence for some of the photos."""
        every = self.evidence
        return Evidence(every.whole[photos], every.phrases[photos], every.regions[photos], every.words)


@dataclass(frozen=True)
class TrialResult:
    """Results of held-out queries in an index of all photos.

    Attributes
    ----------
    kind
        Kind of the queries.
    best
        Highest probability of each query.
    found
        Which queries have a result.
    probabilities, correct
        Probability and correctness of the results, at most ten per query.
    first_correct
        Whether the first result is correct, for queries with a result.
    """

    kind: str
    best: Array
    found: Mask
    probabilities: Array
    correct: Mask
    first_correct: Mask


def fit_calibration(
    queries: Sequence[TrialQuery], likeness: tuple[Floats, Mask], inside: Mask, fingerprint: str, seed: int = 0
) -> Calibration:
    """Fit the calibration to the photos `inside` and their queries.

    Parameters
    ----------
    queries
        Queries of all kinds.
    likeness
        Cosines of all pairs of photos, and whether the second is relevant to a caption of the first.
    inside : array of bool, (photos,)
        Photos to fit on.
    fingerprint
        Hash of the models.
    seed
        Random seed of the smaller indexes.
    """
    own = [query for query in queries if inside[query.photo]]
    prior = fit_prior(own, inside)
    rng = np.random.default_rng(seed)
    samples = [_sample_index(query, inside, rng) for query in own]
    rows = [
        (features(query.evidence_of(indices), size, prior), query.relevant[indices])
        for query, (indices, size) in zip(own, samples, strict=True)
    ]
    weights = logistic(np.concatenate([row for row, _ in rows]), np.concatenate([relevant for _, relevant in rows]))
    like = _fit_likeness(*likeness, inside, rng)
    without_threshold = Calibration(
        fingerprint, tuple(weights), prior, NO_THRESHOLD, (like[0], like[1], like[2]), NO_THRESHOLD
    )

    def best_in(size: int) -> dict[str, list[float]]:
        return {
            kind: [_best(without_threshold, query, inside, size, rng) for query in own if query.kind == kind]
            for kind in _MIN_FOUND
        }

    return replace(
        without_threshold,
        threshold=_fit_threshold(best_in, inside),
        similarity_threshold=_fit_threshold(
            lambda size: {
                "caption": np.maximum(_best_likeness(without_threshold, likeness[0], inside, size, rng), _MIN_LIKENESS)
            },
            inside,
        ),
    )


def fit_prior(queries: Sequence[TrialQuery], inside: Mask) -> WordPrior:
    """Fit a line to the log fractions of photos that are relevant to phrases."""
    phrases = [query for query in queries if query.kind == "phrase"]
    shares = np.array([query.relevant[inside].mean() for query in phrases])
    words = np.array([query.evidence.words.log_frequency for query in phrases])
    slope, bias = np.polyfit(words[shares > 0], np.log(shares[shares > 0]), 1)
    return WordPrior(float(bias), float(slope))


def _sample_index(query: TrialQuery, inside: Mask, rng: np.random.Generator) -> tuple[NDArray[np.int64], int]:
    """The best photos of a random smaller index, which contains the photo of the query unless absent, and its size."""
    pool = np.flatnonzero(inside)
    size = min(int(rng.choice(SIZES)), len(pool))
    indices = rng.choice(pool, size, replace=False)
    if query.kind != "absent":
        indices = np.union1d(indices, [query.photo])
    order = np.argsort(-query.evidence.whole[indices])
    return indices[order[:_TOP_PHOTOS]], len(indices)


def _fit_likeness(cosines: Floats, alike: Mask, inside: Mask, rng: np.random.Generator) -> Array:
    """Weights of the bias, the cosine and the logarithm of the number of photos."""
    pool, rows, answers = np.flatnonzero(inside), [], []
    for photo in pool:
        size = min(int(rng.choice(SIZES)), len(pool))
        others = rng.choice(pool[pool != photo], size - 1, replace=False)
        nearest = others[np.argsort(-cosines[photo, others])[:_TOP_PHOTOS]]
        ones = np.ones(len(nearest))
        rows.append(np.stack([ones, cosines[photo, nearest], ones * np.log(size)], axis=1))
        answers.append(alike[photo, nearest])
    return logistic(np.concatenate(rows), np.concatenate(answers))


def _fit_threshold(best_in: Callable[[int], Mapping[str, Sequence[float] | Floats]], inside: Mask) -> Threshold:
    """The cut-off at which enough queries of each kind find something, for several index sizes."""
    most = int(inside.sum())
    sizes = (*(size for size in SIZES if size < most), most)
    floors = [
        min(float(np.quantile(best, 1 - _MIN_FOUND[kind])) for kind, best in best_in(size).items()) for size in sizes
    ]
    return Threshold(sizes, tuple(round(floor, 4) for floor in floors))


def _best(calibration: Calibration, query: TrialQuery, inside: Mask, size: int, rng: np.random.Generator) -> float:
    """The highest logit in a smaller index that contains the photo of the query."""
    indices = np.append(rng.choice(np.flatnonzero(inside), size - 1, replace=False), query.photo)
    return float(calibration.logits(query.evidence_of(indices), size).max())


def _best_likeness(
    calibration: Calibration, cosines: Floats, inside: Mask, size: int, rng: np.random.Generator
) -> Floats:
    """The highest likeness logit of each photo in a smaller index."""
    indices = rng.choice(np.flatnonzero(inside), size, replace=False)
    among = cosines[np.ix_(indices, indices)] - 2 * np.eye(size, dtype=np.float32)
    return calibration.similarity_logits(among.max(axis=1), size)


def logistic(rows: Floats, answers: Mask, ridge: float = _RIDGE) -> Array:
    """Fit a ridge-regularized logistic regression; the first column must be ones and is not regularized.

    Examples
    --------
    >>> rows = np.array([[1, 0], [1, 1], [1, 2], [1, 3]], dtype=np.float32)
    >>> bool(logistic(rows, np.array([False, True, False, True]))[1] > 0)
    True
    """
    means, spreads = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    means[0], spreads[0] = 0.0, 1.0
    spreads[spreads == 0] = 1.0
    scaled, labels = (rows - means) / spreads, answers.astype(np.float64)
    penalty = ridge * len(rows) * np.r_[0.0, np.ones(rows.shape[1] - 1)]

    def loss(weights: Array) -> tuple[float, Array]:
        logits = scaled @ weights
        error = 1 / (1 + np.exp(-logits)) - labels
        value = np.logaddexp(0, logits).sum() - labels @ logits + (penalty * weights**2).sum() / 2
        return float(value), scaled.T @ error + penalty * weights

    found = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x / spreads
    found[0] -= (found * means)[1:].sum()
    return np.asarray(found)


def assign_folds(photos: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the fold of each photo."""
    return np.random.default_rng(seed).permutation(photos) % FOLDS


def evaluate_queries(calibration: Calibration, queries: Sequence[TrialQuery], kind: str) -> TrialResult:
    """Search all photos for queries."""
    best, found, probabilities, correct, first = [], [], [], [], []
    for query in queries:
        logits = calibration.logits(query.evidence, len(query.relevant))
        top = np.argsort(-logits)[:_MAX_RESULTS]
        is_hit = calibration.is_hit(logits, len(query.relevant)) & (not query.is_unknown)
        kept = top[is_hit[top]]
        best.append(0.0 if query.is_unknown else 1 / (1 + np.exp(-logits[top[0]])))
        found.append(len(kept) > 0)
        probabilities.append(1 / (1 + np.exp(-logits[kept].astype(np.float64))))
        correct.append(query.relevant[kept])
        if len(kept):
            first.append(query.relevant[kept[0]])
    return TrialResult(
        kind,
        np.array(best),
        np.array(found, dtype=bool),
        np.concatenate([np.zeros(0), *probabilities]),
        np.concatenate([np.zeros(0, dtype=bool), *correct]),
        np.array(first, dtype=bool),
    )


def calibration_error(probabilities: Array, correct: Mask, bins: int = _BINS) -> float:
    """Return the expected calibration error over bins of equal size.

    Examples
    --------
    >>> calibration_error(np.array([0.5, 0.5]), np.array([True, False]), bins=1)
    0.0
    """
    return float(
        sum(share * abs(predicted - true) for predicted, true, share in reliability(probabilities, correct, bins))
    )


def reliability(probabilities: Array, correct: Mask, bins: int = _BINS) -> list[tuple[float, float, float]]:
    """Return mean probability, fraction correct and fraction of all, for bins of equal size."""
    order = np.argsort(probabilities)
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return [(probabilities[part].mean(), correct[part].mean(), len(part) / len(order)) for part in parts]


def cross_validate(
    queries: Sequence[TrialQuery],
    likeness: tuple[Floats, Mask],
    fingerprint: str,
    on_fold: Callable[[int, Calibration, Mask], None],
) -> None:
    """Five-fold cross-validation: call `on_fold` with each fit and the photos it left out."""
    folds = assign_folds(len(likeness[0]))
    for fold in range(FOLDS):
        left_out = folds == fold
        on_fold(fold, fit_calibration(queries, likeness, ~left_out, fingerprint), left_out)


_PHRASES_PER_BATCH = 256


@dataclass(frozen=True)
class EncodedSplit:
    """The encoded photos of a split, as in an index.

    Attributes
    ----------
    captions
        Captions of each photo.
    whole : array of float32, (photos, dimension)
    regions : array of float32, (all regions, region_dimension)
        Regions, photo by photo.
    starts
        First region of each photo.
    """

    captions: list[list[str]]
    whole: Floats
    regions: Floats
    starts: list[int]

    def evidence(self, reads: Sequence[EncodedSentence], on_progress: OnProgress = no_progress) -> list[Evidence]:
        """Compute the evidence of queries for all photos."""
        phrases = {phrase.text: phrase for read in reads for phrase in read.phrases}
        texts = list(phrases)
        row = {text: number for number, text in enumerate(texts)}
        best = np.empty((len(texts), len(self.whole)), dtype=np.float32)
        for begin in range(0, len(texts), _PHRASES_PER_BATCH):
            batch = np.stack([phrases[text].vector for text in texts[begin : begin + _PHRASES_PER_BATCH]])
            best[begin : begin + len(batch)] = np.maximum.reduceat(batch @ self.regions.T, self.starts, axis=1)
            on_progress("scoring phrases", begin + len(batch), len(texts))
        whole = np.stack([phrases[text].whole_vector for text in texts]) @ self.whole.T
        queries = np.stack([read.vector for read in reads]) @ self.whole.T
        found = []
        for read, scores in zip(reads, queries, strict=True):
            rows = [row[phrase.text] for phrase in read.phrases]
            found.append(Evidence(scores, whole[rows].T, best[rows].T, read.statistics))
        return found


def encode_split(
    dataset: Dataset, split: str, encoder: SearchEncoder, on_progress: OnProgress = no_progress
) -> EncodedSplit:
    """Encode the photos of a split, or read them from the cache."""
    proposals = encoder.region_model.provenance.proposal_source
    photos: Photos = dataset.split(split)
    seen = compute_features(
        dataset, photos, encoder.photo_model.image_encoder, proposals=proposals, on_progress=on_progress
    )
    ids, vectors = seen.photos.ids, []
    for done, photo_id in enumerate(ids, start=1):
        vectors.append(encoder.region_model.encode_regions(read_regions(seen.store, photo_id, MAX_REGIONS)))
        on_progress("reading regions", done, len(ids))
    starts = np.cumsum([0, *(len(regions) for regions in vectors)])[:-1]
    return EncodedSplit(
        [[caption.text for caption in photo.sentences] for photo in seen.photos],
        encoder.photo_model.model.prepare_visual(seen.vectors()),
        np.concatenate(vectors),
        starts.tolist(),
    )


def make_queries(
    seen: EncodedSplit,
    relevance: Relevance,
    encoder: SearchEncoder,
    *,
    every: int = 2,
    on_progress: OnProgress = no_progress,
) -> list[TrialQuery]:
    """Create queries from every n-th caption and from the distinct phrases of these captions."""
    captions = [(photo, text) for photo, texts in enumerate(seen.captions) for text in texts][::every]
    reads = encoder.encode_sentences([text for _, text in captions])
    first = {
        phrase.text.lower(): photo for (photo, _), read in zip(captions, reads, strict=True) for phrase in read.phrases
    }
    on_progress("reading captions", len(reads), len(reads))
    reads_of_phrases = encoder.encode_sentences(list(first))
    evidence = seen.evidence([*reads, *reads_of_phrases], on_progress)
    found = []
    sources = [("caption", photo) for photo, _ in captions] + [("phrase", photo) for photo in first.values()]
    for (kind, photo), read, of_it in zip(sources, [*reads, *reads_of_phrases], evidence, strict=True):
        relevant = relevance.of(read.text, [phrase.text for phrase in read.phrases])
        relevant[photo] = True  # by definition
        if words_of(read.text):
            found.append(TrialQuery(kind, photo, of_it, relevant, read.is_unknown))
    return found


def make_absent_queries(
    dataset: Dataset,
    split: str,
    seen: EncodedSplit,
    relevance: Relevance,
    encoder: SearchEncoder,
    *,
    count: int = 2000,
    exclude: Sequence[str] = (),
) -> list[TrialQuery]:
    """Create queries with a word that occurs in no caption of these photos.

    They are captions and phrases of another split, and single words of the vocabulary, `count` of each. Words of the
    texts in `exclude` are left out.
    """
    rng = np.random.default_rng(0)
    captions: list[str] = []
    phrases: set[str] = set()
    for photo in dataset.split(split):
        for caption in photo.sentences:
            if _has_absent_word(caption.text, relevance):
                captions.append(caption.text)
                texts = (caption.text[mention.start : mention.end] for mention in caption.mentions)
                phrases |= {text for text in texts if _has_absent_word(text, relevance)}
    chosen = [*_sample(captions, count, rng), *_sample(sorted(phrases), count, rng)]
    reads = [
        read
        for read in encoder.encode_sentences(
            [*chosen, *_sample(_absent_words(relevance, encoder, exclude), count, rng)]
        )
        if not relevance.of(read.text, [phrase.text for phrase in read.phrases]).any()
    ]
    return absent_trial_queries(reads, seen)


def _absent_words(relevance: Relevance, encoder: SearchEncoder, exclude: Sequence[str]) -> list[str]:
    """Known words for visible things that no photo shows."""
    excluded = {stem(word) for text in exclude for word in words_of(text)}
    known = encoder.photo_model.vocabulary
    words = [word for word in (known.words if known else ()) if word.isalpha() and stem(word) not in excluded]
    absent = [f"a {word}" for word in words if words_of(word) and not relevance.with_word(word).any()]
    return [text for text in absent if Sentence(text).phrases]


def absent_trial_queries(reads: Sequence[EncodedSentence], seen: EncodedSplit) -> list[TrialQuery]:
    """Create absent queries."""
    nowhere = np.zeros(len(seen.whole), dtype=bool)
    folds = np.random.default_rng(0).integers(len(seen.whole), size=len(reads))
    evidence = seen.evidence(reads)
    return [
        TrialQuery("absent", int(photo), each, nowhere, read.is_unknown)
        for photo, each, read in zip(folds, evidence, reads, strict=True)
    ]


def photo_likeness(seen: EncodedSplit, queries: Sequence[TrialQuery]) -> tuple[Floats, Mask]:
    """Return the cosines of all pairs of photos, and whether the second is relevant to a caption of the first."""
    alike = np.zeros((len(seen.whole), len(seen.whole)), dtype=bool)
    for query in queries:
        if query.kind == "caption":
            alike[query.photo] |= query.relevant
    return seen.whole @ seen.whole.T, alike


def read_absent_list(file: Path, captions: Sequence[Sequence[str]]) -> list[str]:
    """Read absent queries from a file with lines of the form "query | absent object".

    Raises
    ------
    DatasetError
        If a caption contains all words of an object.
    """
    caption_stems = [{stem(word) for word in words_of(caption)} for of_photo in captions for caption in of_photo]
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        query, _, absent = (part.strip() for part in line.partition("|"))
        names = {stem(word) for word in words_of(absent)}
        if not query or not names:
            raise DatasetError(f"{file}: line {number} must have the form 'query | absent object'")
        if any(names <= words for words in caption_stems):
            raise DatasetError(f"{file}: line {number}: {absent!r} is in a caption")
        found.append(query)
    return found


def _has_absent_word(text: str, relevance: Relevance) -> bool:
    return any(not relevance.with_word(word).any() for word in words_of(text))


def _sample(texts: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    indices = rng.choice(len(texts), min(count, len(texts)), replace=False)
    return [texts[index] for index in indices]
