from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.evaluation.captions.meteor import align, meteor_from, meteor_statistics, normalize
from deixis.evaluation.captions.meteor_matches import EXACT, SHIPPED_PARAPHRASES, Match, Matcher
from deixis.evaluation.captions.ngrams import CaptionSet, caption_set

from .strategies import meteor_sentences


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
    assert list(normalize(words)) == expected


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


def test_a_set_of_empty_captions_can_be_scored() -> None:
    assert meteor_from(meteor_statistics(CaptionSet(("1",), [[]], [[[]]]))).tolist() == [0.0]


def words_of(match: Match) -> tuple[set[int], set[int]]:
    return set(range(match.start, match.start + match.length)), set(range(match.at, match.at + match.span))


def clash(a: Match, b: Match) -> bool:
    return any(mine & yours for mine, yours in zip(words_of(a), words_of(b), strict=True))


def cost(rows: list[Match]) -> tuple[int, int]:
    """The cost of an alignment: minus the number of common words, then the number of chunks."""
    common = sum(2 if each.module == EXACT else each.length // 2 + each.span // 2 for each in rows)
    ends = {(each.start + each.length, each.at + each.span) for each in rows}
    chunks = sum((each.start, each.at) not in ends for each in rows)
    return -common, chunks


def lowest_cost(rows: list[Match], chosen: list[Match]) -> tuple[int, int]:
    """The lowest cost, by trying every choice."""
    if not rows:
        return cost(chosen)
    first, *rest = rows
    without = lowest_cost(rest, chosen)
    if any(clash(first, each) for each in chosen):
        return without
    return min(without, lowest_cost(rest, [*chosen, first]))


def aligned(candidate: list[str], reference: list[str]) -> tuple[list[Match], list[Match]]:
    """All possible matches of two sentences, and those chosen."""
    matcher = Matcher({*candidate, *reference}, SHIPPED_PARAPHRASES)
    matches = matcher.find(matcher.units(candidate), matcher.units(reference))
    return matches, align(matches, len(reference))


@given(meteor_sentences, meteor_sentences)
@settings(max_examples=200)
def test_the_alignment_is_optimal_given_the_undisputed_matches(candidate: list[str], reference: list[str]) -> None:
    rows, chosen = aligned(candidate, reference)
    undisputed = [row for n, row in enumerate(rows) if not any(clash(row, other) for other in rows[:n] + rows[n + 1 :])]
    distinct = list(dict.fromkeys(row for row in rows if row not in undisputed))
    assert set(undisputed) <= set(chosen)
    assert not any(clash(a, b) for n, a in enumerate(chosen) for b in chosen[:n])
    assert cost(chosen) == lowest_cost(distinct, undisputed)


repetitive = st.lists(st.sampled_from(["red", "zebra", "lake"]), min_size=3, max_size=6)


@given(repetitive, repetitive)
@settings(max_examples=200)
def test_repeated_words_are_matched_in_the_fewest_chunks(candidate: list[str], reference: list[str]) -> None:
    rows, chosen = aligned(candidate, reference)
    assert cost(chosen) == lowest_cost(rows, [])


def test_a_long_sentence_is_aligned_completely() -> None:
    words = [f"word{n}" for n in range(150)]
    candidate, reference = [*words, "twice", "twice"], ["twice", "twice", *words[::-1]]
    _, chosen = aligned(candidate, reference)
    assert len(chosen) == 152
    assert {match.at for match in chosen} == set(range(152))


def test_a_beam_that_loses_the_exact_matches_still_aligns_the_rest() -> None:
    texts = (
        "a man in a blue shirt is standing on a sidewalk with a dog and a woman in a red dress near a car",
        "a man not wearing a shirt is pouring something out a can while sitting on sand in front of a orange and red "
        "tent",
    )
    _, chosen = aligned(*(text.split() for text in texts))
    assert sum(match.length for match in chosen) > 10
    assert not any(clash(a, b) for n, a in enumerate(chosen) for b in chosen[:n])
