r"""METEOR 1.5 for English without Java, as COCO's caption evaluation runs it (``-l en -norm``).

The rules are those of Meteor 1.5 for English (Denkowski and Lavie, 2014); no code of it is used. Candidate and
reference are aligned word by word and phrase by phrase: `meteor_matches` finds the possible matches (equal words,
equal stems, WordNet synonyms, paraphrases), `meteor_alignment` chooses among them. With
:math:`w = (1, 0.6, 0.8, 0.6)` for these modules, δ = 0.75 for content words and 1 − δ for function words,

.. math::
    P = \frac{\sum_i w_i (δ \, m^c_i + (1 - δ) \, m^f_i)}{δ \, |c| + (1 - δ) \, |f|}

is the precision on the side of the candidate, where :math:`m^c_i` and :math:`m^f_i` count the content and function
words matched by module i and :math:`|c|, |f|` all content and function words; the recall R is the same ratio on the
side of the reference;

.. math::
    F = \frac{P R}{α P + (1 - α) R}, \qquad
    \mathrm{METEOR} = F \cdot \Big(1 - γ \Big(\frac{\text{chunks}}{\text{matched words}}\Big)^β\Big)

with α = 0.85, β = 0.2, γ = 0.6, matched words averaged over the two sides, and no penalty where both sentences are
matched completely in one chunk. Among several references, the one with the best score counts. The score of a set is the
same formula applied to the sums of all counts, not the mean of the scores of the photos.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from itertools import chain

import numpy as np

from deixis.evaluation.captions.meteor_alignment import align
from deixis.evaluation.captions.meteor_matches import SHIPPED_PARAPHRASES, Matches, Phrase, Sentences, find_matches
from deixis.evaluation.captions.ngrams import CaptionSet, FloatArray, IntArray, Numbering, expand_runs, sum_by_group
from deixis.language.words import function_words

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])


def meteor_statistics(
    captions: CaptionSet, *, paraphrases: str | os.PathLike[str] | None = SHIPPED_PARAPHRASES
) -> FloatArray:
    """Return the counts behind METEOR, per photo, for the reference with the best score (the first of equal ones)."""
    candidates, references, ids = _normalize_captions(captions)
    candidate_of = captions.photo_of_reference
    matches = find_matches(candidates, references, candidate_of, ids, paraphrases)
    matches = matches.where(align(matches, candidates.lengths[candidate_of], references))
    value = np.array([1 - _DELTA if word in function_words() else _DELTA for word in ids])
    statistics = _count(matches, candidates, references, candidate_of, value)
    return statistics[_best_references(meteor_from(statistics), candidate_of)]


def meteor_from(statistics: FloatArray) -> FloatArray:
    """Compute METEOR from single or summed counts (last axis), as a fraction of 1."""
    candidate, reference, matched_candidate, matched_reference, chunks, matched = np.moveaxis(statistics, -1, 0)
    precision, recall = _ratio(matched_candidate, candidate), _ratio(matched_reference, reference)
    mean = _ratio(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    return np.maximum(0.0, mean * (1 - _GAMMA * _ratio(chunks, matched) ** _BETA))


# The letters of Meteor's normalizer: western European and Cyrillic.
_LETTER = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
_ABBREVIATIONS = frozenset({"v", "vs", "i.e", "rev", "e.g"})

_SUBSTITUTIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"[^0-9{_LETTER}\s.'`,\-‘’]", r" \g<0> "),
        (r"\.{2,}", r" \g<0> "),
        (r"(?<![0-9]),|,(?![0-9])", " , "),
        (r"[`‘’]", "'"),
        (r"[“”]|''", ' " '),
        ("–|--", "-"),
        (rf"(?<=[0-9{_LETTER}.])-(?=[0-9{_LETTER}])", " "),
        (
            rf"(?<![{_LETTER}])'(?![{_LETTER}])|(?<![0-9{_LETTER}])'(?=[{_LETTER}])|(?<=[{_LETTER}])'(?![{_LETTER}])",
            " ' ",
        ),
        (rf"(?<=[{_LETTER}])'(?=[{_LETTER}])|(?<=[0-9])'(?=s)", " '"),
    )
)


def normalize_words(words: Sequence[str]) -> list[str]:
    """Normalize the words of a sentence as Meteor does with ``-norm``.

    Hyphens and apostrophes split words, and acronyms lose their full stops.
    """
    followed = [*map(starts_with_letter, words[1:]), False][: len(words)]
    return [part for word, before in zip(words, followed, strict=True) for part in normalize_word(word, before)]


@cache
def normalize_word(word: str, before_letter: bool) -> Phrase:
    """Normalize one word."""
    parts = _split_word(word)
    if not parts or not parts[-1].endswith("."):
        return parts
    *others, last = parts
    before = last[:-1]
    if last.endswith("..") or not before:
        return parts
    if "." in before and re.search(f"[{_LETTER}]", before):
        return (*others, last.replace(".", ""))
    if before in _ABBREVIATIONS or before_letter:
        return parts
    return (*others, before, ".")


def starts_with_letter(word: str) -> bool:
    """Whether the normalized word starts with a letter from a to z."""
    parts = _split_word(word)
    return bool(parts) and "a" <= parts[0][0] <= "z"


@cache
def _split_word(word: str) -> Phrase:
    """The parts of a word, before the final full stop is treated."""
    if word.isascii() and word.isalnum():
        return (word,)
    for pattern, replacement in _SUBSTITUTIONS:
        word = pattern.sub(replacement, word)
    return tuple(word.lower().split())


def _normalize_captions(captions: CaptionSet) -> tuple[Sentences, Sentences, Numbering]:
    """Normalized candidates and references, and the numbers of their words."""
    vocabulary, words = captions.encoded
    last_of_sentence = np.cumsum(captions.lengths)[captions.lengths > 0] - 1
    starts = np.array([starts_with_letter(word) for word in vocabulary] + [False])
    before_letter = np.append(starts[words[1:]], False)[: len(words)]
    before_letter[last_of_sentence] = False

    spellings = [normalize_word(word, before) for before in (False, True) for word in vocabulary]
    ids = Numbering()
    parts = ids.encode(chain.from_iterable(spellings))
    count = np.array([len(spelling) for spelling in spellings], dtype=np.int64)
    first = np.cumsum(count) - count
    spelling = words + before_letter * len(vocabulary)
    flat = parts[expand_runs(first[spelling], count[spelling])]
    sentence = np.repeat(np.arange(len(captions.lengths)), captions.lengths)
    begins = np.append(0, np.cumsum(sum_by_group(sentence, count[spelling], len(captions.lengths)))).astype(np.int64)
    n_photos = len(captions.photos)
    middle = begins[n_photos]
    return Sentences(flat[:middle], begins[: n_photos + 1]), Sentences(flat[middle:], begins[n_photos:] - middle), ids


def _count(
    matches: Matches, candidates: Sentences, references: Sentences, candidate_of: IntArray, value: FloatArray
) -> FloatArray:
    """The counts of each pair from its chosen matches."""
    n_pairs = len(candidate_of)
    weight = _MODULE_WEIGHTS[matches.module]
    candidate_sums, reference_sums = _cumulative(value[candidates.words]), _cumulative(value[references.words])
    at = candidates.begins[candidate_of[matches.pair]] + matches.at
    start = references.begins[matches.pair] + matches.start
    in_candidate = weight * (candidate_sums[at + matches.span] - candidate_sums[at])
    in_reference = weight * (reference_sums[start + matches.length] - reference_sums[start])

    continues = (start[1:] == (start + matches.length)[:-1]) & (at[1:] == (at + matches.span)[:-1])
    continues &= matches.pair[1:] == matches.pair[:-1]
    chunks = np.bincount(matches.pair, minlength=n_pairs) - np.bincount(matches.pair[1:][continues], minlength=n_pairs)
    spans, lengths = (sum_by_group(matches.pair, each, n_pairs) for each in (matches.span, matches.length))
    complete = (spans == candidates.lengths[candidate_of]) & (lengths == references.lengths) & (chunks == 1)
    return np.stack(
        [
            np.diff(candidate_sums[candidates.begins])[candidate_of],
            np.diff(reference_sums[references.begins]),
            sum_by_group(matches.pair, in_candidate, n_pairs),
            sum_by_group(matches.pair, in_reference, n_pairs),
            np.where(complete, 0, chunks),
            (spans + lengths) / 2,
        ],
        axis=1,
    )


def _best_references(scores: FloatArray, candidate_of: IntArray) -> IntArray:
    """The reference with the highest score of each photo, the first of equal ones."""
    first = np.searchsorted(candidate_of, np.arange(candidate_of[-1] + 1))
    best = np.flatnonzero(scores == np.maximum.reduceat(scores, first)[candidate_of])
    return best[np.searchsorted(candidate_of[best], np.arange(len(first)))]


def _cumulative(values: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(values)])


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0)
