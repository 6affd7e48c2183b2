r"""METEOR 1.5 for English without Java, as COCO's caption evaluation runs it (``-l en -norm``).

Candidate and reference are aligned word by word and phrase by phrase (`meteor_matches` finds what can match,
`meteor_search` chooses): equal words, equal stems, WordNet synonyms, paraphrases. With
:math:`w = (1, 0.6, 0.8, 0.6)` for these modules, δ = 0.75 for content words and 1 − δ for function words,

.. math::
    P = \frac{\sum_i w_i (δ \, m^c_i + (1 - δ) \, m^f_i)}{δ \, |c| + (1 - δ) \, |f|}

on the side of the candidate, where :math:`m^c_i` and :math:`m^f_i` count the content and function words matched by
module i and :math:`|c|, |f|` all of them; R likewise on the side of the reference;

.. math::
    F = \frac{P R}{α P + (1 - α) R}, \qquad
    \mathrm{METEOR} = F \cdot \Big(1 - γ \Big(\frac{\text{chunks}}{\text{matched words}}\Big)^β\Big)

with α = 0.85, β = 0.2, γ = 0.6, matched words averaged over the two sides, and no penalty where both sentences are
matched whole in one chunk. Of several references the one with the best score counts. The score of the set is the same
formula on the sums of all counts, not the mean of the photos' scores.
"""

from __future__ import annotations

import os
from itertools import chain

import numpy as np

from deixis.evaluation.captions.arrays import FloatArray, IntArray, Numbering, runs, summed
from deixis.evaluation.captions.coded import CaptionSet
from deixis.evaluation.captions.meteor_matches import Matches, Sentences, find_matches
from deixis.evaluation.captions.meteor_search import align
from deixis.evaluation.captions.meteor_words import SHIPPED_PARAPHRASES, function_words, respelled, starts_with_letter

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])


def meteor_statistics(
    captions: CaptionSet, *, paraphrases: str | os.PathLike[str] | None = SHIPPED_PARAPHRASES
) -> FloatArray:
    """The sums that METEOR adds up, per photo, for the reference with the best score (of equal ones the first).

    Parameters
    ----------
    captions
        Candidates and references.
    paraphrases
        A table in Meteor's format: the one that comes with the package, or the whole `paraphrase-en.gz` of Meteor.
        None leaves the paraphrase module out.

    Returns
    -------
    array (photos, 6)
        Weighted words of the candidate and of the reference, weighted matches of the two, chunks, matched words.

    Examples
    --------
    >>> from deixis.evaluation.captions.coded import caption_set
    >>> one = caption_set({"1": "the dogs run"}, {"1": ["a cat", "the dog runs fast"]})
    >>> meteor_statistics(one).round(2).tolist()
    [[1.75, 2.5, 1.15, 1.15, 1.0, 3.0]]
    """
    candidates, references, ids = _respelled(captions)
    candidate_of = captions.photo_of_reference
    matches = find_matches(candidates, references, candidate_of, ids, paraphrases)
    matches = matches.where(align(matches, candidates.lengths[candidate_of], references))
    value = np.array([1 - _DELTA if word in function_words() else _DELTA for word in ids])
    statistics = _summed(matches, candidates, references, candidate_of, value)
    return statistics[_best_references(meteor_from(statistics), candidate_of)]


def meteor_from(statistics: FloatArray) -> FloatArray:
    """METEOR from added-up or single statistics (last axis), as a share of 1.

    Examples
    --------
    >>> round(float(meteor_from(np.array([1.75, 2.5, 1.15, 1.15, 1.0, 3.0]))), 4)
    0.2497
    """
    candidate, reference, matched_candidate, matched_reference, chunks, matched = np.moveaxis(statistics, -1, 0)
    precision, recall = _ratio(matched_candidate, candidate), _ratio(matched_reference, reference)
    mean = _ratio(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    return np.maximum(0.0, mean * (1 - _GAMMA * _ratio(chunks, matched) ** _BETA))


def _respelled(captions: CaptionSet) -> tuple[Sentences, Sentences, Numbering]:
    """Candidates and references as Meteor spells them, and the numbers of its words."""
    vocabulary, words = captions.coded
    last_of_sentence = np.cumsum(captions.lengths)[captions.lengths > 0] - 1
    starts = np.array([starts_with_letter(word) for word in vocabulary] + [False])
    before_letter = np.append(starts[words[1:]], False)[: len(words)]
    before_letter[last_of_sentence] = False

    spellings = [respelled(word, before) for before in (False, True) for word in vocabulary]
    ids = Numbering()
    parts = ids.of(chain.from_iterable(spellings))
    count = np.array([len(spelling) for spelling in spellings], dtype=np.int64)
    first = np.cumsum(count) - count
    spelling = words + before_letter * len(vocabulary)
    flat = parts[runs(first[spelling], count[spelling])]
    sentence = np.repeat(np.arange(len(captions.lengths)), captions.lengths)
    begins = np.append(0, np.cumsum(summed(sentence, count[spelling], len(captions.lengths)))).astype(np.int64)
    n_photos = len(captions.photos)
    middle = begins[n_photos]
    return Sentences(flat[:middle], begins[: n_photos + 1]), Sentences(flat[middle:], begins[n_photos:] - middle), ids


def _summed(
    matches: Matches, candidates: Sentences, references: Sentences, candidate_of: IntArray, value: FloatArray
) -> FloatArray:
    """The statistics of each pair from the matches that are used."""
    n_pairs = len(candidate_of)
    weight = _MODULE_WEIGHTS[matches.module]
    up_to_candidate, up_to_reference = _cumulated(value[candidates.words]), _cumulated(value[references.words])
    at = candidates.begins[candidate_of[matches.pair]] + matches.at
    start = references.begins[matches.pair] + matches.start
    in_candidate = weight * (up_to_candidate[at + matches.span] - up_to_candidate[at])
    in_reference = weight * (up_to_reference[start + matches.length] - up_to_reference[start])

    goes_on = (start[1:] == (start + matches.length)[:-1]) & (at[1:] == (at + matches.span)[:-1])
    goes_on &= matches.pair[1:] == matches.pair[:-1]
    chunks = np.bincount(matches.pair, minlength=n_pairs) - np.bincount(matches.pair[1:][goes_on], minlength=n_pairs)
    spans, lengths = (summed(matches.pair, each, n_pairs) for each in (matches.span, matches.length))
    whole = (spans == candidates.lengths[candidate_of]) & (lengths == references.lengths) & (chunks == 1)
    return np.stack(
        [
            np.diff(up_to_candidate[candidates.begins])[candidate_of],
            np.diff(up_to_reference[references.begins]),
            summed(matches.pair, in_candidate, n_pairs),
            summed(matches.pair, in_reference, n_pairs),
            np.where(whole, 0, chunks),
            (spans + lengths) / 2,
        ],
        axis=1,
    )


def _best_references(scores: FloatArray, candidate_of: IntArray) -> IntArray:
    """For each photo its reference with the highest score, of equal ones the first."""
    first = np.searchsorted(candidate_of, np.arange(candidate_of[-1] + 1))
    best = np.flatnonzero(scores == np.maximum.reduceat(scores, first)[candidate_of])
    return best[np.searchsorted(candidate_of[best], np.arange(len(first)))]


def _cumulated(values: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(values)])


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0)
