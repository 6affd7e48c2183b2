"""How well right answers are found: image and sentence, sentence and sentence, region and phrase.

=========  ============================  =====================================================
direction  queries and candidates        right answers
=========  ============================  =====================================================
i2t        photos, all sentences         the photo's sentences
t2i        sentences, all photos         the sentence's photo
s2s        sentences, other sentences    the other sentences of the same photo
regions    regions, all phrases          the phrases said of the region
=========  ============================  =====================================================

`deixis.evaluation.ranks` says how ranks are counted and what equal scores do. A query without any right answer asks
nothing: it stays among the candidates, is not counted, and `without_positive` says how many there were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison
from deixis.evaluation.ranks import (
    FloatArray,
    Pairs,
    make_pairs,
    pairs_of,
    ranks,
    shortlist_ranks,
    whole_numbers,
)
from deixis.evaluation.retrieval_result import Ranking, RetrievalResult, compare_results
from deixis.evaluation.scores import IntArray, Scores, as_blocks

_CELLS_AT_ONCE = 1 << 20


def recall_at_k(
    scores: Scores,
    photo_of_sentence: npt.ArrayLike | None = None,
    ks: Sequence[int] = (1, 5, 10),
    *,
    captions_per_photo: int | None = None,
    i2t_shortlists: Sequence[npt.ArrayLike] | None = None,
    t2i_shortlists: Sequence[npt.ArrayLike] | None = None,
) -> RetrievalResult:
    """Score image→sentence and sentence→image retrieval.

    Parameters
    ----------
    scores
        Photos × sentences, higher is better: an array, a memory-mapped file or `ScoreBlocks`.
    photo_of_sentence
        For each column the row it belongs to. Without it the matrix is square and goes one to one.
    ks
        The Ks of R@K.
    captions_per_photo
        Instead of `photo_of_sentence`: sentence j belongs to photo j // captions_per_photo.
    i2t_shortlists, t2i_shortlists
        For each photo the sentences, or for each sentence the photos, that are ranked, and no others. A right answer
        that is not in the list is not found.

    Examples
    --------
    Two photos with two sentences each. The second photo's best sentence comes after a wrong one.

    >>> found = recall_at_k([[0.9, 0.1, 0.3, 0.2], [0.2, 0.8, 0.5, 0.4]], [0, 0, 1, 1], ks=(1, 2))
    >>> found.i2t_r1, found.i2t_r2, found.i2t_medr, found.t2i_r1
    (50.0, 100.0, 1.5, 75.0)
    """
    blocks = as_blocks(scores)
    photos, sentences = blocks.shape
    owners = _owners(photo_of_sentence, captions_per_photo, photos, sentences)
    right = pairs_of(owners, photos)
    of_photo = of_sentence = None
    if i2t_shortlists is not None:
        of_photo = shortlist_ranks(blocks, right, i2t_shortlists)
    if t2i_shortlists is not None:
        of_sentence = shortlist_ranks(blocks, right, t2i_shortlists, of_columns=True)
    if of_photo is None or of_sentence is None:
        whole = ranks(blocks, right, columns=of_sentence is None)
        of_photo = whole.rows if of_photo is None else of_photo
        of_sentence = whole.columns if of_sentence is None else of_sentence
    rankings = {
        "i2t": _ranking(of_photo, _lengths(i2t_shortlists, photos, sentences), np.arange(photos), photos),
        "t2i": _ranking(of_sentence, _lengths(t2i_shortlists, sentences, photos), owners, photos),
    }
    protocol = (
        f"i2t: the photo's best sentence among {_among(i2t_shortlists, 'sentences')}; "
        f"t2i: the sentence's photo among {_among(t2i_shortlists, 'photos')}"
    )
    return RetrievalResult(photos, _checked_ks(ks), rankings, protocol)


def sentence_retrieval(
    scores: Scores, photo_of_sentence: npt.ArrayLike, ks: Sequence[int] = (1, 5, 10)
) -> RetrievalResult:
    """Score sentence→sentence retrieval: each sentence asks for the others of its photo, never for itself.

    Parameters
    ----------
    scores
        Sentences × sentences, higher is better. The diagonal is not looked at, but must be finite.
    photo_of_sentence
        For each sentence the number of its photo. A sentence that is its photo's only one asks nothing.
    ks
        The Ks of R@K.

    Examples
    --------
    >>> found = sentence_retrieval([[1, 0.2, 0.7], [0.2, 1, 0.1], [0.7, 0.1, 1]], [0, 0, 1], ks=(1,))
    >>> found.s2s_r1, found.rankings["s2s"].without_positive
    (50.0, 1)
    """
    blocks = as_blocks(scores)
    height, width = blocks.shape
    photo = whole_numbers(photo_of_sentence, "photo_of_sentence")
    if height != width or len(photo) != width:
        raise DeixisError(f"scores: {len(photo)} sentences need a square matrix, this is {height} × {width}")
    photos, units = _numbered(photo)
    right, self_pairs = _same_photo(units)
    rank = ranks(blocks, right, self_pairs, columns=False).rows
    ranking = _ranking(rank, np.full(height, width - 1), units, photos)
    protocol = "s2s: the best other sentence of the same photo among all sentences but the query"
    return RetrievalResult(photos, _checked_ks(ks), {"s2s": ranking}, protocol)


def region_retrieval(
    scores: Scores,
    positives: npt.ArrayLike,
    ks: Sequence[int] = (1, 5, 10),
    *,
    phrases: Sequence[str] | None = None,
    photo_of_region: npt.ArrayLike | None = None,
) -> RetrievalResult:
    """Score region→phrase retrieval: each region asks for the phrases that were said of it.

    Parameters
    ----------
    scores
        Regions × phrases, higher is better.
    positives
        Rows of (region, phrase), in any order. A phrase may be right for several regions.
    ks
        The Ks of R@K.
    phrases
        The text of each column. With it, columns of the same text are the same answer: what is right for a region is
        right wherever it is written again, so that "a man" of another photo does not stand in the way.
    photo_of_region
        The photo of each region, by which intervals draw. Without it each region is drawn alone.

    Examples
    --------
    >>> found = region_retrieval([[0.9, 0.4, 0.1], [0.6, 0.5, 0.2]], [(0, 0), (1, 1), (1, 2)], ks=(1,))
    >>> found.r1, found.medr
    (50.0, 1.5)
    """
    blocks = as_blocks(scores)
    regions, columns = blocks.shape
    pairs = np.asarray(positives)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DeixisError("positives: rows of a region and a phrase are needed")
    right = make_pairs(pairs[:, 0], pairs[:, 1], blocks.shape)
    if phrases is not None:
        right = _wherever_written(right, phrases, blocks.shape)
    photo = np.arange(regions) if photo_of_region is None else np.asarray(photo_of_region)
    if photo.shape != (regions,):
        raise DeixisError(f"photo_of_region: {regions} regions need {regions} photos, not {photo.size}")
    photos, units = _numbered(photo)
    ranking = _ranking(ranks(blocks, right, columns=False).rows, np.full(regions, columns), units, photos)
    same = "" if phrases is None else ", the same text being the same phrase"
    protocol = f"the region's best phrase among all phrases{same}"
    return RetrievalResult(photos, _checked_ks(ks), {"": ranking}, protocol)


def compare_retrieval(
    scores_a: Scores,
    scores_b: Scores,
    photo_of_sentence: npt.ArrayLike | None = None,
    ks: Sequence[int] = (1, 5, 10),
    *,
    captions_per_photo: int | None = None,
    rounds: int = 10_000,
) -> dict[str, Comparison]:
    """Compare two systems on the same photos and sentences by the paired bootstrap over photos.

    Examples
    --------
    >>> good, bad = np.eye(50), np.zeros((50, 50))
    >>> compare_retrieval(good, bad)["i2t_r1"].difference
    100.0
    """
    a = recall_at_k(scores_a, photo_of_sentence, ks, captions_per_photo=captions_per_photo)
    b = recall_at_k(scores_b, photo_of_sentence, ks, captions_per_photo=captions_per_photo)
    return compare_results(a, b, rounds=rounds)


def nearest_photos(features: npt.ArrayLike, count: int = 100) -> IntArray:
    """The `count` photos nearest to each photo by Euclidean distance, itself first: m-RNN's shortlists.

    Examples
    --------
    >>> nearest_photos([[0.0], [1.0], [5.0]], count=2).tolist()
    [[0, 1], [1, 0], [2, 1]]
    """
    vectors = np.asarray(features, dtype=np.float64)
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DeixisError("features: one row of finite numbers for each photo is needed")
    if not 1 <= count <= len(vectors):
        raise DeixisError(f"a shortlist of {count} cannot be had from {len(vectors)} photos")
    lengths = np.einsum("ij,ij->i", vectors, vectors)
    nearest = np.empty((len(vectors), count), dtype=np.int64)
    step = max(1, _CELLS_AT_ONCE // len(vectors))
    for begin in range(0, len(vectors), step):
        distance = lengths - 2 * vectors[begin : begin + step] @ vectors.T
        own = np.arange(len(distance))
        distance[own, own + begin] = -np.inf
        nearest[begin : begin + step] = np.argsort(distance, axis=1, kind="stable")[:, :count]
    return nearest


def sentences_of(photo_lists: Sequence[npt.ArrayLike], photo_of_sentence: npt.ArrayLike) -> list[IntArray]:
    """Lists of photos as lists of their sentences: shortlists for `recall_at_k`.

    Examples
    --------
    >>> [each.tolist() for each in sentences_of([[1, 0]], [0, 1, 0])]
    [[1, 0, 2]]
    """
    own = pairs_of(photo_of_sentence)
    found = []
    for at, photos in enumerate(photo_lists):
        listed = whole_numbers(photos, f"list {at}")
        begins, ends = np.searchsorted(own.rows, listed), np.searchsorted(own.rows, listed, side="right")
        pieces = [own.columns[begin:end] for begin, end in zip(begins, ends, strict=True)]
        found.append(np.concatenate(pieces) if pieces else listed)
    return found


def _owners(
    photo_of_sentence: npt.ArrayLike | None, captions_per_photo: int | None, photos: int, sentences: int
) -> IntArray:
    """The photo of each sentence, from whichever way the caller said it."""
    if photo_of_sentence is not None and captions_per_photo is not None:
        raise DeixisError("give photo_of_sentence or captions_per_photo, not both")
    if photo_of_sentence is not None:
        owners = whole_numbers(photo_of_sentence, "photo_of_sentence")
        if len(owners) != sentences:
            raise DeixisError(f"photo_of_sentence: {len(owners)} entries for {sentences} columns of scores")
        return owners
    each = 1 if captions_per_photo is None else captions_per_photo
    if each < 1 or photos * each != sentences:
        raise DeixisError(
            f"scores: {photos} × {sentences} are not {photos} photos with {each} "
            f"{'caption' if each == 1 else 'captions'} each; say which with photo_of_sentence or captions_per_photo"
        )
    return np.arange(sentences) // each


def _ranking(rank: FloatArray, candidates: IntArray, units: IntArray, photos: int) -> Ranking:
    """The queries that have a right answer."""
    asks = ~np.isnan(rank)
    if not asks.any():
        raise DeixisError("no query has a right answer")
    return Ranking(rank[asks], candidates[asks], units[asks], photos, int((~asks).sum()))


def _lengths(shortlists: Sequence[npt.ArrayLike] | None, queries: int, candidates: int) -> IntArray:
    if shortlists is None:
        return np.full(queries, candidates)
    return np.array([len(np.asarray(each)) for each in shortlists])


def _among(shortlists: Sequence[npt.ArrayLike] | None, candidates: str) -> str:
    return f"all {candidates}" if shortlists is None else f"the {candidates} of its own shortlist"


def _checked_ks(ks: Sequence[int]) -> tuple[int, ...]:
    if not ks or any(isinstance(k, bool) or int(k) != k or k < 1 for k in ks):
        raise DeixisError(f"ks: whole numbers from 1 are needed, not {tuple(ks)}")
    return tuple(sorted({int(k) for k in ks}))


def _numbered(labels: npt.NDArray[np.generic]) -> tuple[int, IntArray]:
    """Labels as numbers from 0, and how many there are."""
    distinct, numbers = np.unique(labels, return_inverse=True)
    return len(distinct), numbers


def _same_photo(photo: IntArray) -> tuple[Pairs, Pairs]:
    """The pairs of different sentences of one photo, and each sentence with itself."""
    order = np.argsort(photo, kind="stable")
    size = np.bincount(photo)
    first = np.cumsum(size) - size
    partners = size[photo[order]]
    row = np.repeat(order, partners)
    place = np.arange(len(row)) - np.repeat(np.cumsum(partners) - partners, partners)
    column = order[first[photo[row]] + place]
    shape, sentence = (len(photo), len(photo)), np.arange(len(photo))
    other = row != column
    return make_pairs(row[other], column[other], shape), make_pairs(sentence, sentence, shape)


def _wherever_written(right: Pairs, phrases: Sequence[str], shape: tuple[int, int]) -> Pairs:
    """The right pairs, and those with a column of the same text."""
    if len(phrases) != shape[1]:
        raise DeixisError(f"phrases: {len(phrases)} texts for {shape[1]} columns of scores")
    columns_of: dict[str, list[int]] = {}
    for column, text in enumerate(phrases):
        columns_of.setdefault(text, []).append(column)
    written = [columns_of[phrases[column]] for column in right.columns]
    rows = np.repeat(right.rows, [len(each) for each in written])
    return make_pairs(rows, np.concatenate(written), shape)
