"""All scores of captions with bootstrap intervals, the comparison of two systems, and perplexity."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from deixis.arrays import FloatArray, IntArray
from deixis.errors import DatasetError
from deixis.evaluation.captions.meteor import meteor_from, meteor_statistics
from deixis.evaluation.captions.meteor_matches import SHIPPED_PARAPHRASES
from deixis.evaluation.captions.metrics import (
    bleu_from,
    bleu_statistics,
    cider,
    distinct_sentences,
    distinct_share,
    novel_sentences,
    rouge_l,
)
from deixis.evaluation.captions.ngrams import MAX_NGRAM, CaptionSet, caption_set, sum_by_group
from deixis.evaluation.intervals import (
    Comparison,
    Result,
    Statistic,
    mean_of,
    number_units,
    perplexity_of,
    ratio_of,
    values_of,
)
from deixis.tokens import TOKENIZER_VERSION

TIES = "of equally close reference lengths BLEU takes the shorter; of equally good references METEOR takes the first"

SCORES = (
    *("bleu1", "bleu2", "bleu3", "bleu4", "cider", "cider_d", "rouge_l", "meteor", "novel"),
    *("distinct_1", "distinct_2", "distinct_sentences"),
)
"""Names of all scores, in their order in tables."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CaptionScores(Result):
    """Scores of a set of candidate captions, in percent.

    Bootstrap samples keep the document frequencies of the full set in CIDEr; diversity uses jackknife pseudo-values
    (see `metrics.Diversity`).

    Attributes
    ----------
    per_photo
        The values of each score per photo. For BLEU and METEOR their mean is not the score.
    captions
        The tokenized captions.
    """

    per_photo: Mapping[str, FloatArray] = field(repr=False)
    captions: CaptionSet = field(repr=False)

    @property
    def photos(self) -> tuple[str, ...]:
        """Photo ids, in the order of `per_photo`."""
        return self.captions.photos


def caption_scores(
    candidates: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    *,
    training: Iterable[str] | None = None,
    paraphrases: str | os.PathLike[str] | None = SHIPPED_PARAPHRASES,
) -> CaptionScores:
    """Score one caption per photo against its references, as COCO's caption evaluation does, without Java.

    Parameters
    ----------
    candidates
        Generated captions by photo id. An empty caption scores 0.
    references
        Reference captions by photo id, one or more per photo.
    training
        The captions the captioner was trained on, for `novel`.
    paraphrases
        METEOR's paraphrase table; None leaves out the paraphrase module. Meteor's own `paraphrase-en.gz` works too and
        takes about half a minute to read.

    Returns
    -------
    CaptionScores
        `bleu1` to `bleu4` (corpus BLEU), `cider` and `cider_d` times 100 (COCO's evaluation and published tables call
        `cider_d` CIDEr), `rouge_l`, `meteor`, `novel` (candidates that are not a training caption; None without
        `training`), `distinct_1` and `distinct_2` (distinct words and bigrams over all of the candidates) and
        `distinct_sentences` (the number of different candidates, not a percentage) of `n` photos.

    Examples
    --------
    >>> scores = caption_scores(
    ...     {"1": "A dog runs in the snow.", "2": "Two men play guitar."},
    ...     {"1": ["A dog running in snow.", "The dog runs."], "2": ["Two people play the guitar."]},
    ...     training=["A dog runs in the snow."],
    ... )
    >>> round(scores.bleu1, 1), round(scores.rouge_l, 1), scores.novel, scores.n
    (90.0, 69.6, 50.0, 2)
    """
    captions = caption_set(candidates, references)
    sums: dict[str, tuple[FloatArray, Callable[[FloatArray], FloatArray]]] = {}
    bleu = bleu_statistics(captions)
    for k in range(MAX_NGRAM):
        sums[f"bleu{k + 1}"] = bleu, _bleu_order(k)
    sums["meteor"] = meteor_statistics(captions, paraphrases=paraphrases), meteor_from
    per_photo: dict[str, FloatArray] = {name: 100 * score(added) for name, (added, score) in sums.items()}
    statistics: dict[str, Statistic] = {name: _score_of_sums(added, score) for name, (added, score) in sums.items()}

    means = cider(captions)._asdict() | {"rouge_l": rouge_l(captions)}
    if training is not None:
        means["novel"] = novel_sentences(captions.candidates, training).astype(np.float64)
    per_photo |= {name: 100 * values for name, values in means.items()}
    statistics |= {name: mean_of(per_photo[name]) for name in means}

    diversity = {f"distinct_{n}": distinct_share(captions, n) for n in (1, 2)}
    diversity["distinct_sentences"] = distinct_sentences(captions)
    statistics |= {name: each.statistic for name, each in diversity.items()}

    n = len(captions.photos)
    found = values_of(statistics, n) | {name: each.value for name, each in diversity.items()}
    return CaptionScores(
        about={"n": n, "protocol": _protocol(paraphrases), "ties": TIES},
        scores={name: found.get(name) for name in SCORES},
        statistics=statistics,
        units=n,
        per_photo=per_photo,
        captions=captions,
    )


def compare_captions(a: CaptionScores, b: CaptionScores, *, rounds: int = 10_000) -> dict[str, Comparison]:
    """Compare two systems on the same photos by the paired bootstrap: the difference a - b of each score.

    Examples
    --------
    >>> references = {str(i): ["a dog runs in the snow"] for i in range(20)}
    >>> right = caption_scores({i: "a dog runs in the snow" for i in references}, references)
    >>> wrong = caption_scores({i: "a cat sleeps in the sun" for i in references}, references)
    >>> round(compare_captions(right, wrong, rounds=100)["bleu1"].difference, 6)
    50.0
    """
    if (a.photos, a.captions.references) != (b.photos, b.captions.references):
        raise DatasetError("cannot compare: the two systems must be scored on the same photos and references")
    return a.compare(b, rounds=rounds)


def _bleu_order(k: int) -> Callable[[FloatArray], FloatArray]:
    return lambda added: bleu_from(added)[..., k]


def _score_of_sums(parts: FloatArray, score: Callable[[FloatArray], FloatArray]) -> Statistic:
    """A score in percent, computed from sums over the drawn photos."""
    return lambda counts: 100 * score(counts @ parts)


def _protocol(paraphrases: str | os.PathLike[str] | None) -> str:
    modules = "exact, stem and synonym"
    if paraphrases is not None:
        origin = "the shipped" if os.fspath(paraphrases) == os.fspath(SHIPPED_PARAPHRASES) else "the given"
        modules = f"exact, stem, synonym and paraphrase ({origin} table)"
    return (
        "COCO caption evaluation: Penn Treebank words in lower case without punctuation "
        f"(tokenizer {TOKENIZER_VERSION}); corpus BLEU with the closest reference length; "
        "CIDEr with the document frequencies of these references; "
        f"METEOR 1.5 English with {modules}"
    )


def perplexity_scores(
    log_probabilities: Sequence[npt.ArrayLike],
    *,
    unknown: Sequence[int] | None = None,
    photos: Sequence[Hashable] | None = None,
    base: float = np.e,
) -> Result:
    r"""Compute perplexity, base 2, including end tokens (eq. 5 and the mean of eq. 6 of m-RNN).

    .. math:: \log_2 \mathrm{PPL} = -\frac{1}{L} \sum_{n=1}^{L} \log_2 P(w_n | w_{1:n-1}, I)

    For a set the sum runs over all words, so that long sentences count more. Out-of-vocabulary words are scored as the
    unknown word, which makes the task easier, so compare perplexities only at the same vocabulary.

    Parameters
    ----------
    log_probabilities
        For each sentence, one number per word and a last one for the end token.
    unknown
        For each sentence, the number of out-of-vocabulary words.
    photos
        For each sentence, its photo: the units of the bootstrap. By default each sentence is a unit.
    base
        Base of the logarithms.

    Returns
    -------
    Result
        `perplexity`, and `oov`, the percentage of unknown words, end tokens not counted; None without `unknown`.

    Examples
    --------
    >>> scores = perplexity_scores([[-1.0, -3.0], [-2.0, -2.0, -2.0]], unknown=[0, 1], base=2)
    >>> scores.perplexity, round(scores.oov, 1)
    (4.0, 33.3)
    """
    if len(log_probabilities) == 0:
        raise DatasetError("perplexity: no sentences")
    arrays = [_check_log_probabilities(number, values) for number, values in enumerate(log_probabilities)]
    lengths = np.array([len(values) for values in arrays])
    bits = -np.array([values.sum() for values in arrays]) * np.log2(base)
    units = _units(photos, len(arrays))
    n_units = int(units.max()) + 1
    statistics: dict[str, Statistic] = {
        "perplexity": perplexity_of(sum_by_group(units, bits, n_units), sum_by_group(units, lengths, n_units))
    }
    if unknown is not None:
        missing = _check_unknown(unknown, lengths)
        statistics["oov"] = ratio_of(
            100 * sum_by_group(units, missing, n_units), sum_by_group(units, lengths - 1, n_units)
        )
    protocol = "base 2 over all words, end signs counted, unknown words scored as the unknown word"
    about = {"protocol": protocol, "n": n_units, "sentences": len(arrays)}
    return Result.of(about, statistics, n_units, others={"oov": None})


def _check_log_probabilities(number: int, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise DatasetError(
            f"perplexity: sentence {number} (from 0) needs one log probability per word and one for the end token"
        )
    wrong = np.flatnonzero(~np.isfinite(array) | (array > 0))
    if len(wrong):
        raise DatasetError(
            f"perplexity: sentence {number}, word {wrong[0]} (from 0): {array[wrong[0]]} is not a log probability"
        )
    return array


def _check_unknown(unknown: Sequence[int], lengths: IntArray) -> IntArray:
    counts = np.asarray(unknown, dtype=np.int64)
    if counts.shape != lengths.shape:
        raise DatasetError(f"perplexity: {len(lengths)} sentences but {counts.size} counts of unknown words")
    wrong = np.flatnonzero((counts < 0) | (counts >= lengths))
    if len(wrong):
        raise DatasetError(
            f"perplexity: sentence {wrong[0]} (from 0) has {lengths[wrong[0]] - 1} words, {counts[wrong[0]]} unknown"
        )
    return counts


def _units(photos: Sequence[Hashable] | None, n_sentences: int) -> IntArray:
    if photos is None:
        return np.arange(n_sentences)
    if len(photos) != n_sentences:
        raise DatasetError(f"perplexity: {n_sentences} sentences but {len(photos)} photos")
    return number_units(photos)[0]
