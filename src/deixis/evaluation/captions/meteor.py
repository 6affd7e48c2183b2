r"""METEOR 1.5 for English without Java, as COCO's caption evaluation runs it (``-l en -norm``).

The rules are those of Meteor 1.5 for English (Denkowski and Lavie, 2014); no code of it is used. Candidate and
reference are aligned word by word and phrase by phrase: `meteor_matches` finds the possible matches (equal words,
equal stems, WordNet synonyms, paraphrases), `align` chooses among them. With
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

In an alignment, a word is in at most one match. Meteor first accepts the matches that compete with no other. It then
goes through the reference from left to right with a beam search over *paths*: at each word a path takes one of the
matches that begin there, or skips the word. The better of two paths has more in common (an exact match counts 1 on each
side, any other match half of its words, rounded down, on each side), then fewer chunks (runs that are contiguous in
both sentences), then the smaller distance between the positions of the matched words.

Unlike Meteor, this search merges paths that have the same continuations and drops paths that can no longer reach what
exact matches alone would give, so that a beam of 40 covers more than Meteor's beam of 40.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from itertools import pairwise
from operator import itemgetter, or_

import numpy as np

from deixis.arrays import FloatArray
from deixis.evaluation.captions.meteor_matches import EXACT, SHIPPED_PARAPHRASES, Match, Matcher, Phrase
from deixis.evaluation.captions.ngrams import CaptionSet
from deixis.language.words import function_words

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MODULE_WEIGHTS = (1.0, 0.6, 0.8, 0.6)
_BEAM = 40


def meteor_statistics(
    captions: CaptionSet, *, paraphrases: str | os.PathLike[str] | None = SHIPPED_PARAPHRASES
) -> FloatArray:
    """Return (photos, 6) counts for the reference with the best score, the first of equal ones.

    Weighted words of the candidate and of the reference, weighted matches of the two, chunks, matched words.
    """
    candidates = [normalize(words) for words in captions.candidates]
    references = [[normalize(words) for words in several] for several in captions.references]
    vocabulary = dict.fromkeys(word for several in (candidates, *references) for words in several for word in words)
    matcher = Matcher(vocabulary, paraphrases)
    value = {word: 1 - _DELTA if word in function_words() else _DELTA for word in vocabulary}
    best = []
    for candidate, several in zip(candidates, references, strict=True):
        units = matcher.units(candidate)
        counts = np.array(
            [
                _count(align(_matches(matcher, units, candidate, words), len(words)), candidate, words, value)
                for words in several
            ]
        )
        best.append(counts[int(np.argmax(meteor_from(counts)))])
    return np.array(best)


def meteor_from(statistics: FloatArray) -> FloatArray:
    """Compute METEOR from single or summed counts (last axis), as a fraction of 1."""
    candidate, reference, matched_candidate, matched_reference, chunks, matched = np.moveaxis(statistics, -1, 0)
    precision, recall = _ratio(matched_candidate, candidate), _ratio(matched_reference, reference)
    mean = _ratio(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    return np.maximum(0.0, mean * (1 - _GAMMA * _ratio(chunks, matched) ** _BETA))


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0)


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


def normalize(words: Sequence[str]) -> Phrase:
    """Normalize the words of a sentence as Meteor does with ``-norm``."""
    before_letter = [*map(starts_with_letter, words[1:]), False]
    return tuple(
        part for word, before in zip(words, before_letter, strict=False) for part in normalize_word(word, before)
    )


def _matches(
    matcher: Matcher, units: Mapping[Phrase, Sequence[int]], candidate: Phrase, reference: Phrase
) -> list[Match]:
    """All matches; only exact ones if the sentences are the same."""
    found = matcher.find(units, matcher.units(reference))
    return [match for match in found if match.module == EXACT] if candidate == reference else found


def _count(matches: Sequence[Match], candidate: Phrase, reference: Phrase, value: Mapping[str, float]) -> list[float]:
    """The counts of a pair from its chosen matches."""
    in_candidate = in_reference = 0.0
    for start, module, length, at, span in matches:
        in_candidate += _MODULE_WEIGHTS[module] * sum(value[word] for word in candidate[at : at + span])
        in_reference += _MODULE_WEIGHTS[module] * sum(value[word] for word in reference[start : start + length])
    chunks = len(matches) - sum(_follows(one, other) for one, other in pairwise(matches))
    spans, lengths = sum(match.span for match in matches), sum(match.length for match in matches)
    is_complete = spans == len(candidate) and lengths == len(reference) and chunks == 1
    return [
        sum(value[word] for word in candidate),
        sum(value[word] for word in reference),
        in_candidate,
        in_reference,
        0 if is_complete else chunks,
        (spans + lengths) / 2,
    ]


def _follows(one: Match, other: Match) -> bool:
    return other.start == one.start + one.length and other.at == one.at + one.span


def align(matches: Sequence[Match], length: int) -> list[Match]:
    """Return the matches of the best alignment with a reference of some length."""
    in_reference = Counter(word for match in matches for word in range(match.start, match.start + match.length))
    in_candidate = Counter(word for match in matches for word in range(match.at, match.at + match.span))
    undisputed: dict[int, Match] = {}
    disputed: dict[int, list[Match]] = {}
    for match in matches:
        if any(in_reference[word] > 1 for word in range(match.start, match.start + match.length)) or any(
            in_candidate[word] > 1 for word in range(match.at, match.at + match.span)
        ):
            disputed.setdefault(match.start, []).append(match)
        else:
            undisputed[match.start] = match
    return _search(undisputed, disputed, length) if disputed else list(undisputed.values())


_COMMON, _CHUNK = 1 << 48, 1 << 32
"""Costs: a common word is worth more than all chunks, and a chunk costs more than all distances."""


def _search(undisputed: Mapping[int, Match], disputed: Mapping[int, Sequence[Match]], length: int) -> list[Match]:
    """The matches of the best path.

    A path is its cost, its next reference word, the candidate word after its last match while the chunk of that is open
    (otherwise -1), the candidate words in use as bits, and its matches.
    """
    steps = [[(match, _gain(match), _candidate_words(match)) for match in disputed.get(n, ())] for n in range(length)]
    usable, gains = [0] * (length + 1), [0] * (length + 1)  # candidate words and gain of the matches from a word on
    for position in reversed(range(length)):
        usable[position] = reduce(or_, (words for _, _, words in steps[position]), usable[position + 1])
        gains[position] = gains[position + 1] + max((gain for _, gain, _ in steps[position]), default=0)
    for position, match in undisputed.items():
        steps[position] = [(match, -_distance(match), 0)]
    worst = _COMMON - _gain_of_exact(disputed.values())
    paths: list[tuple[int, int, int, int, tuple[Match, ...]]] = [(0, 0, -1, 0, ())]
    for position in range(length):
        extended = []
        for path in paths:
            cost, following, last, used, matches = path
            if following > position:
                extended.append(path)
                continue
            closed = cost if last < 0 else cost + _CHUNK
            passed = 0  # Meteor adds the distance of a match not to the path that takes it but to those after it.
            for match, gain, words in steps[position]:
                if not used & words:
                    new_cost = (cost if last == match.at else closed) - gain + passed
                    end = match.at + match.span
                    extended.append((new_cost, position + match.length, end, used | words, (*matches, match)))
                    passed += _distance(match)
            if position not in undisputed:
                extended.append((closed + passed, position + 1, -1, used, matches))
        kept: dict[tuple[int, int, int], tuple[int, int, int, int, tuple[Match, ...]]] = {}
        extended.sort(key=itemgetter(0))
        promising = [path for path in extended if path[0] < worst + gains[path[1]]]
        for path in promising or extended:  # the beam may have lost the paths that are as good as exact matches alone
            _, following, last, used, _ = path
            kept.setdefault((following, last, used & usable[following]), path)
        paths = list(kept.values())[:_BEAM]
    return list(min(paths, key=lambda path: path[0] + (_CHUNK if path[2] >= 0 else 0))[4])


def _gain(match: Match) -> int:
    return _COMMON * (2 if match.module == EXACT else match.length // 2 + match.span // 2)


def _distance(match: Match) -> int:
    return abs(match.start - match.at)


def _candidate_words(match: Match) -> int:
    return (1 << match.span) - 1 << match.at


def _gain_of_exact(disputed: Iterable[Sequence[Match]]) -> int:
    """The gain of exact matches alone: of each word, as many as the smaller of its counts in the two sentences."""
    positions = (tuple(match.at for match in matches if match.module == EXACT) for matches in disputed)
    return sum(2 * _COMMON * min(times, len(at)) for at, times in Counter(positions).items())
