"""Consensus reranking, against the caption scores of the evaluation and plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.captions.bleu import bleu_from, bleu_statistics
from deixis.evaluation.captions.cider import cider
from deixis.evaluation.captions.coded import CaptionSet
from deixis.tasks.consensus import CaptionSimilarity, Consensus, ConsensusSettings, oracle_order

WORDS = ("a", "the", "dog", "cat", "runs", "red", "and")


def sentence(rng: np.random.Generator, longest: int = 9) -> list[str]:
    return list(rng.choice(WORDS, size=rng.integers(1, longest)))


def captions(photos: int = 12, seed: int = 0) -> list[list[list[str]]]:
    """Of few words, so that sentences have n-grams twice and much in common."""
    rng = np.random.default_rng(seed)
    return [[sentence(rng) for _ in range(rng.integers(1, 5))] for _ in range(photos)]


def flat(of_photos: list[list[list[str]]]) -> list[list[str]]:
    return [words for photo in of_photos for words in photo]


def test_cider_of_a_pair_is_that_of_the_evaluation() -> None:
    training = [[words] for words in flat(captions())]  # a photo for each caption, as the evaluation will count them
    rng = np.random.default_rng(1)
    hypothesis = [sentence(rng) for _ in training]
    found = CaptionSimilarity(training).cider(hypothesis, np.arange(len(training)))
    expected = cider(CaptionSet(tuple(map(str, range(len(training)))), hypothesis, training)).cider_d
    np.testing.assert_allclose(np.diag(found), expected)
    assert (np.diag(found) > 0).sum() > 10


def test_rare_words_are_those_of_few_photos_and_not_of_few_captions() -> None:
    same = CaptionSimilarity([[["dog"]] * 5, [["cat"]], [["hat"]]])
    assert same.cider([["dog"]], np.array([0])) == same.cider([["cat"]], np.array([5]))


def test_bleu_of_a_pair_is_that_of_the_evaluation_but_for_smoothing() -> None:
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


def test_words_that_no_caption_has_are_wrong_but_no_error() -> None:
    like = CaptionSimilarity(captions())
    everything = np.arange(len(flat(captions())))
    for measure in (like.bleu, like.cider):
        known, strange = measure([["a", "dog"], ["zebra", "zebra"]], everything)
        assert known.max() > 0
        assert (strange == 0).all()
        assert (measure([[]], everything) == 0).all()


def neighbours_by_loop(vectors: np.ndarray, asked: np.ndarray, count: int) -> list[list[int]]:
    found = []
    for one in asked:
        cosines = [one @ other / np.linalg.norm(one) / np.linalg.norm(other) for other in vectors]
        found.append(sorted(range(len(vectors)), key=lambda row: -cosines[row])[:count])
    return found


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_a_score_is_the_mean_of_the_best_similarities_to_the_neighbours_captions(similarity: str) -> None:
    training = captions()
    rng = np.random.default_rng(2)
    vectors, asked = rng.normal(size=(12, 4)), rng.normal(size=(3, 4))
    sentences = [[sentence(rng) for _ in range(4)] for _ in range(3)]
    settings = ConsensusSettings(similarity, neighbours=5, best=6)  # type: ignore[arg-type]
    found = Consensus(vectors, training).scores(asked, sentences, settings)
    like = CaptionSimilarity(training)
    starts = np.concatenate([[0], np.cumsum([len(texts) for texts in training])])
    for photo, rows in enumerate(neighbours_by_loop(vectors, asked, 5)):
        for place, words in enumerate(sentences[photo]):
            values = [
                getattr(like, similarity)([words], np.array([caption]))[0, 0]
                for row in rows
                for caption in range(starts[row], starts[row + 1])
            ]
            assert found[photo][place] == pytest.approx(np.mean(sorted(values, reverse=True)[:6]))


def test_fewer_captions_than_asked_for_are_all_counted() -> None:
    made = Consensus(np.eye(2), [["a dog"], ["a cat"]])
    assert made.scores(np.eye(2)[:1], [["a dog"]], ConsensusSettings("bleu"))[0] == pytest.approx(
        (1 + CaptionSimilarity([[["a", "dog"]], [["a", "cat"]]]).bleu([["a", "dog"]], np.array([1]))[0, 0]) / 2
    )


def test_neighbours_are_the_nearest_by_cosine() -> None:
    rng = np.random.default_rng(3)
    vectors, asked = rng.normal(size=(12, 4)), rng.normal(size=(5, 4))
    made = Consensus(vectors, captions())
    assert made.neighbours(asked, 4).tolist() == neighbours_by_loop(vectors, asked, 4)
    assert made.neighbours(asked * 7, 4).tolist() == made.neighbours(asked, 4).tolist()


def test_equally_good_sentences_stay_in_their_order() -> None:
    made = Consensus(np.eye(2), [["a dog"], ["a cat"]])
    order = made.order(np.eye(2)[:1], [["zebra", "a dog", "zebra", "a dog"]])[0]
    assert order.tolist() == [1, 3, 0, 2]


def test_what_was_saved_gives_the_same_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    made = Consensus(rng.normal(size=(12, 4)).astype(np.float32), captions())
    made.save(tmp_path / "consensus")
    asked, sentences = rng.normal(size=(3, 4)), [[sentence(rng) for _ in range(5)] for _ in range(3)]
    one, other = made.scores(asked, sentences), Consensus.load(tmp_path / "consensus").scores(asked, sentences)
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_the_oracle_takes_the_sentence_that_the_photos_own_captions_like_best(similarity: str) -> None:
    references = captions(8, seed=5)
    rng = np.random.default_rng(6)
    sentences = [[*(sentence(rng) for _ in range(3)), references[photo][0]] for photo in range(8)]
    for photo, order in enumerate(oracle_order(sentences, references, similarity)):  # type: ignore[arg-type]
        values = []
        for words in sentences[photo]:
            everyone = [words if other == photo else ["zebra"] for other in range(8)]
            scored = CaptionSet(tuple(map(str, range(8))), everyone, references)
            if similarity == "cider":
                values.append(cider(scored).cider_d[photo])
            else:
                statistics = bleu_statistics(scored)
                statistics[:, 1:4] += 1
                statistics[:, 5:8] += 1
                values.append(bleu_from(statistics)[photo, 3])
        assert values[order[0]] == pytest.approx(max(values))


def test_what_does_not_fit_is_refused_in_words() -> None:
    with pytest.raises(DeixisError, match=r"shape \(2, 2\)"):
        Consensus(np.eye(2), [["a dog"]])
    made = Consensus(np.eye(2), [["a dog"], ["a cat"]])
    with pytest.raises(DeixisError, match="2 numbers here"):
        made.neighbours(np.eye(3), 1)
    with pytest.raises(DeixisError, match="sentences for 1"):
        made.scores(np.eye(2), [["a"]])
    with pytest.raises(DeixisError, match="neighbours=0"):
        ConsensusSettings(neighbours=0)


def test_the_papers_numbers_are_the_usual() -> None:
    assert ConsensusSettings().neighbours == 60
    assert (ConsensusSettings("bleu").captions, ConsensusSettings("cider").captions) == (175, 125)
