from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.evaluation.captions import meteor
from deixis.evaluation.captions.meteor import align, meteor_from, meteor_statistics
from deixis.evaluation.captions.meteor_matches import EXACT, SHIPPED_PARAPHRASES, find_matches
from deixis.evaluation.captions.ngrams import CaptionSet, EncodedSentences, Numbering, caption_set

from .strategies import caption_sets, meteor_sentences

unusual_words = st.lists(st.sampled_from(["a", "st.", "t-shirt", "u.s.", "'s", "&", "dog", "…"]), max_size=5)


def normalize_words(words: Sequence[str]) -> list[str]:
    """The words of one sentence."""
    followed = [*map(meteor.starts_with_letter, words[1:]), False][: len(words)]
    return [part for word, before in zip(words, followed, strict=True) for part in meteor.normalize_word(word, before)]


@given(caption_sets(unusual_words))
def test_a_caption_set_is_normalized_like_single_sentences(captions: CaptionSet) -> None:
    candidates, references, ids = meteor._normalize_captions(captions)
    words = list(ids)
    found = [
        [words[number] for number in sentences.words[begin:end]]
        for sentences in (candidates, references)
        for begin, end in pairwise(sentences.begins)
    ]
    assert found == [normalize_words(sentence) for sentence in chain(captions.candidates, *captions.references)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["t-shirt"], ["t", "shirt"]),
        (["-lrb-"], ["-lrb-"]),
        (["n't"], ["n", "'t"]),
        (["'s"], ["'", "s"]),
        (["1990's"], ["1990", "'s"]),
        (["rock", "n'", "roll"], ["rock", "n", "'", "roll"]),
        (["u.s."], ["us"]),
        (["mr.", "smith"], ["mr.", "smith"]),
        (["mr."], ["mr", "."]),
        (["vs."], ["vs."]),
        (["1,000", "a,b"], ["1,000", "a", ",", "b"]),
        (["3/4", "&", "#1"], ["3", "/", "4", "&", "#", "1"]),
        (["a..b"], ["a", "..", "b"]),
        (["café"], ["café"]),
        ([], []),
    ],
)
def test_words_are_normalized_as_in_meteor(words: list[str], expected: list[str]) -> None:
    assert normalize_words(words) == expected


def score(candidate: str, *references: str) -> float:
    statistics = meteor_statistics(caption_set({"1": candidate}, {"1": list(references)}))
    return float(meteor_from(statistics)[0])


def test_an_equal_sentence_scores_one() -> None:
    assert score("a dog runs in the snow", "a cat sleeps", "A dog runs in the snow.") == 1.0


# Worked out by hand: content words weigh 0.75, function words (the, is) 0.25.
def test_meteor_agrees_with_a_calculation_by_hand() -> None:
    # the=the, dogs~dog (stem), run~runs (stem): one chunk of three words. P = (0.25 + 2 × 0.6 × 0.75) / 1.75.
    precision = recall = 1.15 / 1.75
    expected = 1 / (0.15 / precision + 0.85 / recall)  # all matched in one chunk: no penalty
    assert score("the dogs run", "the dog runs") == pytest.approx(expected)


def test_recall_counts_more_than_precision() -> None:
    # One more content word in the reference: R = 1.15 / 2.5, and now one chunk of three words is a third.
    precision, recall = 1.15 / 1.75, 1.15 / 2.5
    mean = 1 / (0.15 / precision + 0.85 / recall)
    assert score("the dogs run", "the dog runs fast") == pytest.approx(mean * (1 - 0.6 * (1 / 3) ** 0.2))


def test_meteor_penalizes_fragments() -> None:
    # Every word matches exactly, in two chunks of four words.
    assert score("red zebra lake boat", "lake boat red zebra") == pytest.approx(1 - 0.6 * (2 / 4) ** 0.2)


def test_a_single_ambiguous_match_is_not_used() -> None:
    # dogs~dog is a stem match and a synonym match at once; it adds a chunk and no exact word, so Meteor leaves it.
    assert score("two dogs", "one dog") == 0.0


def test_the_best_reference_counts_and_the_first_of_equals() -> None:
    several = caption_set({"1": "a dog"}, {"1": ["a red cat", "a dog runs", "runs a dog"]})
    assert meteor_from(meteor_statistics(several))[0] == pytest.approx(score("a dog", "a dog runs"))
    assert (
        meteor_statistics(several)[0].tolist()
        == meteor_statistics(caption_set({"1": "a dog"}, {"1": ["a dog runs"]}))[0].tolist()
    )


def test_each_photo_is_scored_as_if_alone() -> None:
    candidates = ["a man is running", "a dog next to the man", "two people", ""]
    references = [["the men run", "a person runs"], ["a dog near a man"], ["two persons", "people"], ["nothing"]]
    together = CaptionSet(
        ("1", "2", "3", "4"),
        [each.split() for each in candidates],
        [[one.split() for one in each] for each in references],
    )
    alone = [
        meteor_statistics(CaptionSet(("1",), together.candidates[n : n + 1], together.references[n : n + 1]))[0]
        for n in range(4)
    ]
    assert meteor_statistics(together) == pytest.approx(np.array(alone))


def test_a_set_of_empty_captions_can_be_scored() -> None:
    assert meteor_from(meteor_statistics(CaptionSet(("1",), [[]], [[[]]]))).tolist() == [0.0]


Row = tuple[int, int, int, int, int]


def words_of(row: Row) -> tuple[set[int], set[int]]:
    start, length, at, span, _ = row
    return set(range(start, start + length)), set(range(at, at + span))


def clash(a: Row, b: Row) -> bool:
    return any(mine & yours for mine, yours in zip(words_of(a), words_of(b), strict=True))


def cost(rows: list[Row]) -> tuple[int, int]:
    """The cost of an alignment: minus the number of common words, then the number of chunks."""
    common = sum(2 if module == EXACT else length // 2 + span // 2 for _, length, _, span, module in rows)
    ends = {(start + length, at + span) for start, length, at, span, _ in rows}
    chunks = sum((start, at) not in ends for start, _, at, _, _ in rows)
    return -common, chunks


def lowest_cost(rows: list[Row], chosen: list[Row]) -> tuple[int, int]:
    """The lowest cost, by trying every choice."""
    if not rows:
        return cost(chosen)
    first, *rest = rows
    without = lowest_cost(rest, chosen)
    if any(clash(first, each) for each in chosen):
        return without
    return min(without, lowest_cost(rest, [*chosen, first]))


def aligned(pairs: list[tuple[list[str], list[str]]]) -> list[tuple[list[Row], list[Row]]]:
    """For each candidate and reference all possible matches, and those chosen."""
    ids = Numbering()
    candidates = EncodedSentences.of([candidate for candidate, _ in pairs], ids.encode)
    references = EncodedSentences.of([reference for _, reference in pairs], ids.encode)
    matches = find_matches(candidates, references, np.arange(len(pairs)), ids, SHIPPED_PARAPHRASES)
    chosen = align(matches, candidates.lengths, references)
    found = []
    for number in range(len(pairs)):
        columns = (matches.start, matches.length, matches.at, matches.span, matches.module)
        rows = list(zip(*(column[matches.pair == number].tolist() for column in columns), strict=True))
        found.append((rows, [row for row, used in zip(rows, chosen[matches.pair == number], strict=True) if used]))
    return found


@given(st.lists(st.tuples(meteor_sentences, meteor_sentences), min_size=1, max_size=4))
@settings(max_examples=100)
def test_the_alignment_is_optimal_given_the_undisputed_matches(pairs: list[tuple[list[str], list[str]]]) -> None:
    for rows, chosen in aligned(pairs):
        undisputed = [
            row for n, row in enumerate(rows) if not any(clash(row, other) for other in rows[:n] + rows[n + 1 :])
        ]
        distinct = list(dict.fromkeys(row for row in rows if row not in undisputed))
        assert set(undisputed) <= set(chosen)
        assert not any(clash(a, b) for n, a in enumerate(chosen) for b in chosen[:n])
        assert cost(chosen) == lowest_cost(distinct, undisputed)


repetitive = st.lists(st.sampled_from(["red", "zebra", "lake"]), min_size=3, max_size=6)


@given(st.lists(st.tuples(repetitive, repetitive), min_size=1, max_size=4))
@settings(max_examples=100)
def test_repeated_words_are_matched_in_the_fewest_chunks(pairs: list[tuple[list[str], list[str]]]) -> None:
    for rows, chosen in aligned(pairs):
        assert cost(chosen) == lowest_cost(rows, [])


def test_pairs_are_aligned_independently_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [
        (["a", "dog", "a", "man"], ["the", "man", "a", "dog"]),
        (["a"] * 3, ["a"] * 5),
        (["is", "running", "near"], ["runs", "next", "to"]),
    ] * 4
    together = aligned(pairs)
    assert together == [aligned([pair])[0] for pair in pairs]
    monkeypatch.setattr(meteor, "_CELLS_PER_BATCH", 20)
    assert together == aligned(pairs)


def test_a_sentence_of_more_than_64_words_is_aligned_completely() -> None:
    words = [f"word{n}" for n in range(150)]
    candidate, reference = [*words, "twice", "twice"], ["twice", "twice", *words[::-1]]
    ((_, chosen),) = aligned([(candidate, reference)])
    assert len(chosen) == 152
    assert {at for _, _, at, _, _ in chosen} == set(range(152))


def test_a_beam_that_loses_the_exact_matches_still_aligns_the_rest() -> None:
    texts = (
        "a man in a blue shirt is standing on a sidewalk with a dog and a woman in a red dress near a car",
        "a man not wearing a shirt is pouring something out a can while sitting on sand in front of a orange and red "
        "tent",
    )
    candidate, reference = (text.split() for text in texts)
    for _, chosen in aligned([(candidate, reference), (["a", "dog"], ["the", "dog"]), (candidate, reference)])[::2]:
        assert sum(length for _, length, _, _, _ in chosen) > 10
        assert not any(clash(a, b) for n, a in enumerate(chosen) for b in chosen[:n])
