"""Similarity of sentences and captions, against the caption scores of the evaluation and plain loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
from deixis.models.consensus.similarity import CaptionSimilarity

from deixis.evaluation.captions.metrics import bleu_from, bleu_statistics, cider
from deixis.evaluation.captions.ngrams import CaptionSet
from tests.models.sentences import captions, flat, sentence


def test_cider_of_a_pair_equals_the_evaluation() -> None:
    training = [[words] for words in flat(captions())]  # one photo per caption, as in the evaluation
    rng = np.random.default_rng(1)
    hypothesis = [sentence(rng) for _ in training]
    found = CaptionSimilarity(training).cider(hypothesis, np.arange(len(training)))
    expected = cider(CaptionSet(tuple(map(str, range(len(training)))), hypothesis, training)).cider_d
    np.testing.assert_allclose(np.diag(found), expected)
    assert (np.diag(found) > 0).sum() > 10


def test_document_frequency_counts_photos_not_captions() -> None:
    same = CaptionSimilarity([[["dog"]] * 5, [["cat"]], [["hat"]]])
    assert same.cider([["dog"]], np.array([0])) == same.cider([["cat"]], np.array([5]))


def test_bleu_of_a_pair_equals_the_evaluation_with_smoothing() -> None:
    training = captions()
    references = flat(training)
    rng = np.random.default_rng(1)
    hypothesis = [sentence(rng) for _ in references]
    statistics = bleu_statistics(
        CaptionSet(tuple(map(str, range(len(references)))), hypothesis, [[words] for words in references])
    )
    statistics[:, 1:4] += 1
    statistics[:, 5:8] += 1
    found = CaptionSimilarity(training).bleu(hypothesis, np.arange(len(references)))
    np.testing.assert_allclose(np.diag(found), bleu_from(statistics)[:, 3], atol=1e-4)


def test_unknown_words_match_nothing() -> None:
    similarity = CaptionSimilarity(captions())
    everything = np.arange(len(flat(captions())))
    for measure in (similarity.bleu, similarity.cider):
        known, unknown = measure([["a", "dog"], ["zebra", "zebra"]], everything)
        assert known.max() > 0
        assert (unknown == 0).all()
        assert (measure([[]], everything) == 0).all()


def grams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[begin : begin + n]) for begin in range(len(words) - n + 1))


def cider_by_loop(one: list[str], other: list[str], training: list[list[list[str]]]) -> float:
    """CIDEr-D of a sentence with one reference, as in its paper."""
    total = 0.0
    for n in range(1, 5):
        photos = [set().union(*(grams(words, n) for words in texts)) for texts in training]

        def idf(gram: tuple[str, ...], photos: list[set[tuple[str, ...]]] = photos) -> float:
            return float(np.log(len(photos)) - np.log(max(1, sum(gram in photo for photo in photos))))

        ours, theirs = grams(one, n), grams(other, n)
        lengths = [np.sqrt(sum((count * idf(gram)) ** 2 for gram, count in some.items())) for some in (ours, theirs)]
        if all(lengths):
            common = sum(min(ours[gram], count) * count * idf(gram) ** 2 for gram, count in theirs.items())
            total += common / np.prod(lengths)
    difference = max(0, len(one) - 1) - max(0, len(other) - 1)
    return float(10 / 4 * total * np.exp(-(difference**2) / 72))


def test_cider_equals_a_plain_loop_with_unknown_words_and_photos_without_captions() -> None:
    training = [[], *captions(8, seed=3), []]
    rng = np.random.default_rng(4)
    sentences = [["zebra", *sentence(rng), "zebra", "zebra", "zebra"], *(sentence(rng) for _ in range(4))]
    references = flat(training)
    found = CaptionSimilarity(training).cider(sentences, np.arange(len(references)))
    expected = [[cider_by_loop(one, other, training) for other in references] for one in sentences]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_captions_are_compared_in_the_order_of_the_argument() -> None:
    similarity, everything = CaptionSimilarity(captions()), np.arange(len(flat(captions())))
    some = np.array([7, 2, 2, 11])
    for measure in (similarity.bleu, similarity.cider):
        whole = measure([["a", "red", "dog"]], everything)
        np.testing.assert_allclose(measure([["a", "red", "dog"]], some), whole[:, some])
