"""Recall@K and ranks of retrieval: image and sentence, sentence and sentence, region and phrase.

=========  ============================  =====================================================
direction  queries and candidates        correct answers
=========  ============================  =====================================================
i2t        photos, all sentences         the sentences of the photo
t2i        sentences, all photos         the photo of the sentence
s2s        sentences, other sentences    the other sentences of the same photo
regions    regions, all phrases          the phrases of the region
=========  ============================  =====================================================

`deixis.evaluation.ranks` defines ranks and ties. A query without a correct answer is not scored, but stays a candidate;
`without_positive` is the number of such queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.arrays import BoolArray, FloatArray, IntArray, expand_runs
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison, Interval, Result, Statistic, bootstrap_all, mean_over, values_of
from deixis.evaluation.ranks import (
    TIE_RULE,
    Pairs,
    Ranks,
    as_indices,
    compute_ranks,
    make_pairs,
    match_ranks,
    positive_pairs,
    shortlist_ranks,
)
from deixis.evaluation.score_matrix import ScoreBlocks, Scores, as_blocks
from deixis.storage.atomic import new_file, write_csv

_CELLS_PER_BATCH = 1 << 20
_PERCENTAGES = range(1, 101)
_PLOTS = (".png", ".svg", ".pdf")


@dataclass(frozen=True, eq=False)
class Ranking:
    """The queries of one direction that have a correct answer."""

    ranks: FloatArray  # rank of the best correct answer; inf if a shortlist has none
    candidates: IntArray  # number of ranked answers
    units: IntArray  # index of the photo of the query
    photos: int  # number of photos
    without_positive: int = 0  # number of queries that were left out because they have no correct answer
    # Rank of every correct answer in the ranked list, and the index of its query; None unless they were asked for
    matches: FloatArray | None = None
    match_queries: IntArray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class RetrievalResult(Result):
    """Retrieval scores, with the ranks that they follow from."""

    rankings: Mapping[str, Ranking]  # the ranks of each direction (`i2t`, `t2i`, `s2s`, or empty for regions)

    @classmethod
    def of_rankings(
        cls, rankings: Mapping[str, Ranking], ks: Sequence[int], photos: int, protocol: str
    ) -> RetrievalResult:
        """Compute the scores of rankings of queries of some photos."""
        if not ks or any(isinstance(k, bool) or int(k) != k or k < 1 for k in ks):
            raise DeixisError(f"ks: must be positive integers, not {tuple(ks)}")
        about = {
            "protocol": protocol,
            "ties": TIE_RULE,
            "n": photos,
            "queries": {name or "regions": len(each.ranks) for name, each in rankings.items()},
            "without_positive": {name or "regions": each.without_positive for name, each in rankings.items()},
        }
        scores = values_of(ranking_statistics(rankings, ks, finite=False), photos)
        statistics = ranking_statistics(rankings, ks)
        return cls(about=about, scores=scores, statistics=statistics, units=photos, rankings=rankings)

    @cached_property
    def interval(self) -> dict[str, Interval | None]:
        """The 95 % interval of every score; None for the median or mean rank of queries of which some have no rank."""
        found = bootstrap_all(self.statistics, self.units)
        return {name: found.get(name) for name in self.scores}

    def compare(self, other: Result, *, rounds: int = 10_000) -> dict[str, Comparison]:
        """Compare two results on the same queries: the difference self - other of each score.

        Median and mean rank (lower is better) are left out if some queries have no rank.
        """
        for direction, ranking in self.rankings.items():
            theirs = other.rankings.get(direction) if isinstance(other, RetrievalResult) else None
            if theirs is None or not np.array_equal(ranking.units, theirs.units):
                raise DeixisError(f"cannot compare: the results have different queries ({direction or 'regions'})")
        if self.scores.keys() != other.scores.keys():
            raise DeixisError("cannot compare: the results have different ks")
        return super().compare(other, rounds=rounds)


def ranking_statistics(
    rankings: Mapping[str, Ranking], ks: Sequence[int], *, finite: bool = True
) -> dict[str, Statistic]:
    """Return the scores of rankings as statistics over photos.

    Those that are `finite` leave out median and mean rank of a direction in which some queries have no rank.
    """
    found: dict[str, Statistic] = {}
    for direction, ranking in rankings.items():
        prefix = f"{direction}_" if direction else ""
        found |= {f"{prefix}r{k}": percentage(ranking, ranking.ranks <= k) for k in sorted(set(map(int, ks)))}
        if not finite or np.isfinite(ranking.ranks).all():
            found[f"{prefix}medr"] = _median_of(ranking.ranks, ranking.units)
            found[f"{prefix}meanr"] = mean_over(ranking.ranks, ranking.units, ranking.photos)
    return found


@dataclass(frozen=True, eq=False)
class Curve:
    """A value of a ranking as a function of the percentage of the ranked list that is inspected, from 1 to 100."""

    ranking: Ranking
    statistics: Mapping[int, Statistic]

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The value at each percentage."""
        return tuple(values_of(self.statistics, self.ranking.photos).values())

    @cached_property
    def interval(self) -> tuple[Interval, ...]:
        """The 95 % bootstrap interval at each percentage, computed on first use."""
        return tuple(bootstrap_all(self.statistics, self.ranking.photos).values())


def recall_curve(ranking: Ranking) -> Curve:
    """Compute recall as a function of the percentage of the ranked list, by the best correct answer of each query.

    A query is found at p % when 100 · rank / candidates ≤ p.
    """
    reached = 100 * ranking.ranks / ranking.candidates
    return Curve(ranking, {limit: percentage(ranking, reached <= limit) for limit in _PERCENTAGES})


def match_curve(ranking: Ranking) -> Curve:
    """Compute the mean number of matches as a function of the percentage of the ranked list (m-RNN, Figure 6).

    A correct answer counts at p % when 100 · rank / candidates ≤ p. Needs a ranking of
    ``recall_at_k(…, all_matches=True)``.
    """
    ranks, queries = ranking.matches, ranking.match_queries
    if ranks is None or queries is None:
        raise DeixisError("the ranking has no ranks of all correct answers; pass all_matches=True to recall_at_k")
    reached, count = 100 * ranks / ranking.candidates[queries], len(ranking.ranks)
    matches = {limit: np.bincount(queries[reached <= limit], minlength=count) for limit in _PERCENTAGES}
    statistics = {limit: mean_over(found, ranking.units, ranking.photos) for limit, found in matches.items()}
    return Curve(ranking, statistics)


def check_curve_path(path: Path) -> None:
    """Check the file name and the folder before the scores are computed."""
    if path.suffix.lower() not in (".csv", *_PLOTS):
        raise DeixisError(f"--curve {path}: must end in .csv for a table, or in {', '.join(_PLOTS)} for a plot")
    if not path.absolute().parent.is_dir():
        raise DeixisError(f"--curve {path}: the folder {path.parent} does not exist")


def write_curves(path: Path, rankings: Mapping[str, Ranking]) -> str:
    """Write the curves of each direction and return a one-line summary.

    A table (.csv) has the recall and the mean number of matches, a plot the latter, as Figure 6 of m-RNN.
    """
    check_curve_path(path)
    curves = {name: match_curve(ranking) for name, ranking in rankings.items()}
    if path.suffix.lower() == ".csv":
        write_csv(path, _table(curves))
    else:
        with new_file(path) as temporary:
            _plot(temporary, curves)
    summary = (
        f"{name} {', '.join(f'{curve.values[at - 1]:.2f} at {at} %' for at in (1, 5, 10, 20, 50))}"
        for name, curve in curves.items()
    )
    return f"{path}: mean number of matches by percentage of the ranking; {'; '.join(summary)}"


def _table(curves: Mapping[str, Curve]) -> Iterator[list[object]]:
    columns: dict[str, Sequence[float]] = {}
    for direction, matches in curves.items():
        for name, curve in ((direction, recall_curve(matches.ranking)), (f"{direction}_matches", matches)):
            columns[name] = curve.values
            columns[f"{name}_low"] = [each.low for each in curve.interval]
            columns[f"{name}_high"] = [each.high for each in curve.interval]
    yield ["percentage", *columns]
    for at, values in enumerate(zip(*columns.values(), strict=True), start=1):
        yield [at, *(round(value, 3) for value in values)]


def _plot(path: Path, curves: Mapping[str, Curve]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    titles = {"i2t": "a photo looks for its sentences", "t2i": "a sentence looks for its photo"}
    colours = ("#0072B2", "#D55E00")
    for axes, colour, (name, curve) in zip(figure.subplots(1, len(curves)), colours, curves.items(), strict=False):
        low, high = zip(*((bounds.low, bounds.high) for bounds in curve.interval), strict=True)
        axes.fill_between(_PERCENTAGES, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(_PERCENTAGES, curve.values, color=colour)
        axes.set_title(titles.get(name, name), loc="left", fontsize=10)
        axes.set_xlabel("share of the ranking looked at, %")
        axes.set_ylabel("mean number of matches")
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 1.01 * max(curve.values[-1], 1e-9))
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def percentage(ranking: Ranking, found: BoolArray) -> Statistic:
    """Return the percentage of queries for which a flag is set, as a statistic over photos."""
    return mean_over(np.where(found, 100.0, 0.0), ranking.units, ranking.photos)


def _median_of(ranks: FloatArray, units: IntArray) -> Statistic:
    """The median rank over the queries of the drawn photos."""
    order = np.argsort(ranks, kind="stable")
    sorted_ranks, sorted_units = ranks[order], units[order]

    def median(counts_of_unit: FloatArray) -> float:
        upto = np.cumsum(counts_of_unit[sorted_units])
        middle = np.searchsorted(upto, [(upto[-1] - 1) // 2, upto[-1] // 2], side="right")
        return float(sorted_ranks[np.minimum(middle, len(ranks) - 1)].mean())

    return lambda counts: np.array([median(each) for each in counts])


def recall_at_k(
    scores: Scores,
    photo_of_sentence: npt.ArrayLike | None = None,
    ks: Sequence[int] = (1, 5, 10),
    *,
    captions_per_photo: int | None = None,
    folds: int = 1,
    i2t_shortlists: Sequence[npt.ArrayLike] | None = None,
    all_matches: bool = False,
) -> RetrievalResult:
    """Compute recall@K and ranks of image→sentence and sentence→image retrieval.

    Parameters
    ----------
    scores
        Photos × sentences, higher is better: an array, a memory-mapped file or `ScoreBlocks`.
    photo_of_sentence
        Row of each column. By default the matrix is square and sentence i belongs to photo i.
    ks
        The K values of R@K.
    captions_per_photo
        Instead of `photo_of_sentence`: sentence j belongs to photo j // captions_per_photo.
    folds
        Number of parts of the photos, in their order, that are ranked separately. Published scores of MS COCO are means
        over five folds of 1,000 photos.
    i2t_shortlists
        Candidates to rank: for each photo its sentences. A correct answer that is not in the list is not found.
    all_matches
        Also rank every correct answer, for `match_curve`.

    Returns
    -------
    RetrievalResult
        Scores `i2t_r1`, …, `i2t_medr`, `i2t_meanr` and the same for `t2i`, in percent, with intervals.

    Examples
    --------
    Two photos with two sentences each. The best sentence of the second photo comes after a wrong one.

    >>> found = recall_at_k([[0.9, 0.1, 0.3, 0.2], [0.2, 0.8, 0.5, 0.4]], [0, 0, 1, 1], ks=(1, 2))
    >>> found.i2t_r1, found.i2t_r2, found.i2t_medr, found.t2i_r1
    (50.0, 100.0, 1.5, 75.0)
    """
    blocks = as_blocks(scores)
    photos, sentences = blocks.shape
    owners = _owners(photo_of_sentence, captions_per_photo, photos, sentences)
    positives = positive_pairs(owners, photos)
    if folds > 1 and (all_matches or i2t_shortlists is not None):
        raise DeixisError("folds: cannot be combined with shortlists or ranks of all matches")
    ranks, sentences_in_fold, photos_in_fold = _ranks_in_folds(blocks, owners, folds)
    of_photo = ranks.rows if i2t_shortlists is None else shortlist_ranks(blocks, positives, i2t_shortlists)
    listed = (
        sentences_in_fold if i2t_shortlists is None else np.array([len(np.asarray(each)) for each in i2t_shortlists])
    )
    rankings = {
        "i2t": _ranking(of_photo, listed, np.arange(photos), photos),
        "t2i": _ranking(ranks.columns, photos_in_fold, owners, photos),
    }
    if all_matches:
        query_of_photo = np.cumsum(~np.isnan(of_photo)) - 1  # photos without sentences are not queries
        rankings["i2t"] = replace(
            rankings["i2t"],
            matches=match_ranks(blocks, positives, i2t_shortlists),
            match_queries=query_of_photo[positives.rows],
        )
        one_each = rankings["t2i"].ranks  # a sentence has one photo
        rankings["t2i"] = replace(rankings["t2i"], matches=one_each, match_queries=np.arange(len(one_each)))
    among = "all {}" if folds == 1 else f"the {{}} of its own fold of {folds}"
    sentences_among = among if i2t_shortlists is None else "the {} of its own shortlist"
    protocol = (
        f"i2t: the photo's best sentence among {sentences_among.format('sentences')}; "
        f"t2i: the sentence's photo among {among.format('photos')}"
    )
    return RetrievalResult.of_rankings(rankings, ks, photos, protocol)


def sentence_retrieval(
    scores: Scores, photo_of_sentence: npt.ArrayLike, ks: Sequence[int] = (1, 5, 10)
) -> RetrievalResult:
    """Compute recall@K and ranks of sentence→sentence retrieval: each sentence is a query for the others of its photo.

    Parameters
    ----------
    scores
        Sentences × sentences, higher is better. The diagonal is ignored, but must be finite.
    photo_of_sentence
        Photo number of each sentence. The only sentence of a photo is not a query.
    ks
        The K values of R@K.

    Examples
    --------
    >>> found = sentence_retrieval([[1, 0.2, 0.7], [0.2, 1, 0.1], [0.7, 0.1, 1]], [0, 0, 1], ks=(1,))
    >>> found.s2s_r1, found.rankings["s2s"].without_positive
    (50.0, 1)
    """
    blocks = as_blocks(scores)
    height, width = blocks.shape
    photo = as_indices(photo_of_sentence, "photo_of_sentence")
    if height != width or len(photo) != width:
        raise DeixisError(f"scores: {len(photo)} sentences need a square matrix, not {height} × {width}")
    photos, units = _number(photo)
    positives, self_pairs = _same_photo(units)
    rank = compute_ranks(blocks, positives, self_pairs, columns=False).rows
    ranking = _ranking(rank, np.full(height, width - 1), units, photos)
    protocol = "s2s: the best other sentence of the same photo among all sentences but the query"
    return RetrievalResult.of_rankings({"s2s": ranking}, ks, photos, protocol)


def region_retrieval(
    scores: Scores,
    positives: npt.ArrayLike,
    ks: Sequence[int] = (1, 5, 10),
    *,
    phrases: Sequence[str] | None = None,
    photo_of_region: npt.ArrayLike | None = None,
) -> RetrievalResult:
    """Compute recall@K and ranks of region→phrase retrieval.

    Parameters
    ----------
    scores
        Regions × phrases, higher is better.
    positives
        Rows of (region, phrase), in any order. A phrase may belong to several regions.
    ks
        The K values of R@K.
    phrases
        Text of each column. If passed, columns of the same text are the same answer, so that "a man" of another photo
        is not wrong.
    photo_of_region
        Photo of each region, the unit of the bootstrap. By default each region is a unit.

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
        raise DeixisError("positives: must be rows of (region, phrase)")
    cells = make_pairs(pairs[:, 0], pairs[:, 1], blocks.shape)
    if phrases is not None:
        cells = _with_equal_texts(cells, phrases, blocks.shape)
    photo = np.arange(regions) if photo_of_region is None else np.asarray(photo_of_region)
    if photo.shape != (regions,):
        raise DeixisError(f"photo_of_region: {photo.size} entries for {regions} regions")
    photos, units = _number(photo)
    ranking = _ranking(compute_ranks(blocks, cells, columns=False).rows, np.full(regions, columns), units, photos)
    same = "" if phrases is None else ", the same text being the same phrase"
    protocol = f"the region's best phrase among all phrases{same}"
    return RetrievalResult.of_rankings({"": ranking}, ks, photos, protocol)


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
    return a.compare(b, rounds=rounds)


def nearest_photos(features: npt.ArrayLike, count: int = 100) -> IntArray:
    """Return the `count` nearest photos of each photo by Euclidean distance, itself first (m-RNN's shortlists)."""
    vectors = np.asarray(features, dtype=np.float64)
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise DeixisError("features: must be one row of finite numbers per photo")
    if not 1 <= count <= len(vectors):
        raise DeixisError(f"count: cannot list {count} of {len(vectors)} photos")
    lengths = np.einsum("ij,ij->i", vectors, vectors)
    nearest = np.empty((len(vectors), count), dtype=np.int64)
    step = max(1, _CELLS_PER_BATCH // len(vectors))
    for begin in range(0, len(vectors), step):
        distance = lengths - 2 * vectors[begin : begin + step] @ vectors.T
        own = np.arange(len(distance))
        distance[own, own + begin] = -np.inf
        nearest[begin : begin + step] = np.argsort(distance, axis=1, kind="stable")[:, :count]
    return nearest


def sentence_shortlists(photo_lists: Sequence[npt.ArrayLike], photo_of_sentence: npt.ArrayLike) -> list[IntArray]:
    """Convert lists of photos to lists of their sentences: shortlists for `recall_at_k`."""
    own = positive_pairs(photo_of_sentence)
    found = []
    for at, photos in enumerate(photo_lists):
        listed = as_indices(photos, f"list {at}")
        begins, ends = np.searchsorted(own.rows, listed), np.searchsorted(own.rows, listed, side="right")
        pieces = [own.columns[begin:end] for begin, end in zip(begins, ends, strict=True)]
        found.append(np.concatenate(pieces) if pieces else listed)
    return found


def _owners(
    photo_of_sentence: npt.ArrayLike | None, captions_per_photo: int | None, photos: int, sentences: int
) -> IntArray:
    """The photo of each sentence."""
    if photo_of_sentence is not None and captions_per_photo is not None:
        raise DeixisError("pass photo_of_sentence or captions_per_photo, not both")
    if photo_of_sentence is not None:
        owners = as_indices(photo_of_sentence, "photo_of_sentence")
        if len(owners) != sentences:
            raise DeixisError(f"photo_of_sentence: {len(owners)} entries for {sentences} columns of scores")
        return owners
    each = 1 if captions_per_photo is None else captions_per_photo
    if each < 1 or photos * each != sentences:
        raise DeixisError(
            f"scores: {photos} × {sentences} are not {photos} photos with {each} "
            f"{'caption' if each == 1 else 'captions'} each; pass photo_of_sentence or captions_per_photo"
        )
    return np.arange(sentences) // each


def _ranking(rank: FloatArray, candidates: IntArray, units: IntArray, photos: int) -> Ranking:
    """The queries that have a correct answer."""
    scored = ~np.isnan(rank)
    if not scored.any():
        raise DeixisError("no query has a correct answer")
    return Ranking(rank[scored], candidates[scored], units[scored], photos, int((~scored).sum()))


def _ranks_in_folds(blocks: ScoreBlocks, owners: IntArray, folds: int) -> tuple[Ranks, IntArray, IntArray]:
    """The ranks within each fold, and the number of candidates of each photo and of each sentence."""
    photos, sentences = blocks.shape
    if not 1 <= folds <= photos:
        raise DeixisError(f"folds: must be from 1 to the number of photos, {photos}, not {folds}")
    ranks = Ranks(np.empty(photos), np.empty(sentences))
    of_photo, of_sentence = np.empty(photos, dtype=np.int64), np.empty(sentences, dtype=np.int64)
    ends = np.cumsum([0, *map(len, np.array_split(np.arange(photos), folds))])
    for first, last in pairwise(ends.tolist()):
        rows, columns = slice(first, last), np.flatnonzero((owners >= first) & (owners < last))
        part = blocks if folds == 1 else _part_of(blocks, rows, columns)
        found = compute_ranks(part, positive_pairs(owners[columns] - first, last - first))
        ranks.rows[rows], ranks.columns[columns] = found.rows, found.columns
        of_photo[rows], of_sentence[columns] = len(columns), last - first
    return ranks, of_photo, of_sentence


def _part_of(blocks: ScoreBlocks, rows: slice, columns: IntArray) -> ScoreBlocks:
    shape = rows.stop - rows.start, len(columns)
    return ScoreBlocks(shape, lambda begin, end: blocks.rows(rows.start + begin, rows.start + end)[:, columns])


def _number(labels: npt.NDArray[np.generic]) -> tuple[int, IntArray]:
    """The number of distinct labels, and the labels as numbers from 0."""
    distinct, numbers = np.unique(labels, return_inverse=True)
    return len(distinct), numbers


def _same_photo(photo: IntArray) -> tuple[Pairs, Pairs]:
    """Pairs of different sentences of one photo, and pairs of each sentence with itself."""
    order = np.argsort(photo, kind="stable")
    size = np.bincount(photo)
    first = np.cumsum(size) - size
    partners = size[photo[order]]
    row = np.repeat(order, partners)
    column = order[expand_runs(first[photo[order]], partners)]
    shape, sentence = (len(photo), len(photo)), np.arange(len(photo))
    other = row != column
    return make_pairs(row[other], column[other], shape), make_pairs(sentence, sentence, shape)


def _with_equal_texts(positives: Pairs, phrases: Sequence[str], shape: tuple[int, int]) -> Pairs:
    """The positive pairs, extended to all columns of the same text."""
    if len(phrases) != shape[1]:
        raise DeixisError(f"phrases: {len(phrases)} texts for {shape[1]} columns of scores")
    columns_of: dict[str, list[int]] = {}
    for column, text in enumerate(phrases):
        columns_of.setdefault(text, []).append(column)
    equal = [columns_of[phrases[column]] for column in positives.columns]
    rows = np.repeat(positives.rows, [len(each) for each in equal])
    return make_pairs(rows, np.concatenate(equal), shape)
