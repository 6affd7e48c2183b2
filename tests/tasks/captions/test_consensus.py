"""Consensus reranking, against the caption scores of the evaluation and plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.captions.bleu import bleu_from, bleu_statistics
from deixis.evaluation.captions.cider import cider
from deixis.evaluation.captions.coded import CaptionSet
from deixis.tasks.captions.consensus import Consensus, ConsensusSettings, oracle_scores
from deixis.tasks.captions.similarity import CaptionSimilarity
from tests.tasks.sentences import captions, sentence


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


@pytest.mark.parametrize("similarity", ["bleu", "cider"])
def test_the_oracle_takes_the_sentence_that_the_photos_own_captions_like_best(similarity: str) -> None:
    references = captions(8, seed=5)
    rng = np.random.default_rng(6)
    sentences = [[*(sentence(rng) for _ in range(3)), references[photo][0]] for photo in range(8)]
    for photo, scores in enumerate(oracle_scores(sentences, references, similarity)):  # type: ignore[arg-type]
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
        np.testing.assert_allclose(scores, values, atol=1e-4)


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
