"""Self-critical training: sampling, reward and loss against plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from deixis.errors import DatasetError
from deixis.evaluation.captions.metrics import cider
from deixis.evaluation.captions.ngrams import CaptionSet
from deixis.language.vocabulary import Vocabulary
from deixis.models.captioner.self_critical import CiderReward, WrongWordPenalty, sample_sentences
from deixis.tokens import words as split
from tests.models.m_rnn.caption_runs import CAPTIONER, LikelihoodRun, RewardRun


def test_sentences_are_sampled_with_their_probabilities_and_end() -> None:
    run = LikelihoodRun(CAPTIONER)
    network = run.model.network.eval()
    torch.manual_seed(0)
    with torch.no_grad():
        photo = [torch.from_numpy(part[:1]) for part in run.photos]
        sampled, counts = sample_sentences(network, photo, 4000, torch.rand(4000, 6))
        first = network(network.visual_context(*photo), torch.tensor([[network.start]]))[0][0].log_softmax(-1)
    shares = np.bincount(sampled[:, 0], minlength=first.shape[1]) / 4000
    np.testing.assert_allclose(shares, first[0].exp(), atol=0.03)
    for row, count in zip(sampled.tolist()[:200], counts.tolist(), strict=False):
        ends = network.end in row
        assert count == (row.index(network.end) + 1 if ends else len(row))
        assert not ends or set(row[count:]) <= {network.end}


def test_the_loss_equals_a_plain_loop() -> None:
    run = RewardRun()
    network, samples = run.model.network, 4
    kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def reward(sampled: np.ndarray, rows: np.ndarray) -> np.ndarray:
        kept.append((sampled, rows, run.loss.reward(sampled, rows) + np.arange(len(rows)) % 3))
        return kept[-1][2]

    objective = replace(run.loss, reward=reward)
    torch.manual_seed(3)
    found = objective(network, torch.tensor([5, 2]))
    sampled, rows, values = kept[0]
    assert rows.tolist() == [5] * samples + [2] * samples
    total, length = 0.0, 0
    for row, (sentence, photo) in enumerate(zip(sampled.tolist(), rows, strict=True)):
        others = [value for other, value in enumerate(values) if rows[other] == photo and other != row]
        count = sentence.index(network.end) + 1 if network.end in sentence else len(sentence)
        read = torch.tensor([[network.start, *sentence[:-1]]])
        log_p = network(network.visual_context(*(part[[photo]].float() for part in run.loss.photos)), read)[0][
            0
        ].log_softmax(-1)
        gained = sum(log_p[place, sentence[place]].item() for place in range(count))
        total -= (values[row] - np.mean(others)) * gained
        length += count
    assert found.total.item() == pytest.approx(total / length, rel=1e-4)
    assert found.terms["reward"].item() == pytest.approx(values.mean(), rel=1e-4)
    assert found.terms["words"].item() == pytest.approx(length / len(rows))


def test_the_likelihood_loss_is_added_with_its_weight() -> None:
    run = RewardRun()
    likelihood, network = run.likelihood, run.model.network
    both = replace(run.loss, likelihood=likelihood, likelihood_weight=0.3)
    torch.manual_seed(3)
    found = both(network, torch.tensor([5, 2, 11]))
    torch.manual_seed(3)
    alone = run.loss(network, torch.tensor([5, 2, 11]))
    sampled = likelihood.sample_captions(torch.tensor([5, 2, 11]))
    assert likelihood.photo_of_caption[sampled].tolist() == [5, 2, 11]
    added = likelihood(network, sampled)
    assert found.total.item() == pytest.approx(alone.total.item() + 0.3 * added.total.item(), rel=1e-5)
    assert found.terms["perplexity"].item() == pytest.approx(added.terms["perplexity"].item(), rel=1e-5)


KNOWN = Vocabulary(("a", "dog", "runs", "cat", "red"), (5, 4, 3, 2, 1))
UNKNOWN, STOP = len(KNOWN), len(KNOWN) + 1
WORDS = [*KNOWN.words, "zebra", "yacht"]
END_TOKEN = "<end>"


def captions(seed: int, count: int, most: int = 12) -> list[list[str]]:
    """Sentences of few different words, some unknown, so that they share many n-grams."""
    rng = np.random.default_rng(seed)
    return [[WORDS[word] for word in rng.integers(len(WORDS), size=rng.integers(1, most))] for _ in range(count)]


def references(photos: int = 30) -> list[list[list[str]]]:
    rng = np.random.default_rng(9)
    return [captions(100 + photo, int(rng.integers(1, 6))) for photo in range(photos)]


def as_ids(sentences: list[list[str]], max_length: int = 14) -> np.ndarray:
    """Word ids as a network generates them, with an end token; ids after it are arbitrary."""
    rows = np.full((len(sentences), max_length), 2)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = [KNOWN.encode([word])[0] if word in KNOWN else UNKNOWN for word in sentence]
        row[len(sentence)] = STOP
    return rows


def expected(sentences: list[list[str]], gold: list[list[list[str]]]) -> np.ndarray:
    read = [[word if word in KNOWN else "nothing" for word in words] + [END_TOKEN] for words in sentences]
    with_ends = [[[*words, END_TOKEN] for words in each] for each in gold]
    return cider(CaptionSet(tuple(map(str, range(len(gold)))), read, with_ends)).cider_d


@pytest.mark.parametrize("seed", range(4))
def test_the_reward_is_the_cider_d_of_the_evaluation_with_the_end_token_as_a_word(seed: int) -> None:
    gold, sentences = references(), captions(seed, 30)
    reward = CiderReward(gold, KNOWN)
    found = reward(as_ids(sentences), np.arange(30))
    np.testing.assert_allclose(found, expected(sentences, gold), rtol=1e-12, atol=1e-12)
    assert found.max() > 0.5
    some = np.array([7, 3, 3, 29])
    np.testing.assert_allclose(reward(as_ids(sentences)[some], some), found[some], rtol=1e-6)


def test_an_unfinished_sentence_has_a_lower_reward() -> None:
    gold = [[["a", "dog", "runs"]], [["a", "red", "cat"]]]
    reward = CiderReward(gold, KNOWN)
    ended, open_end = reward(np.array([[0, 1, 2, STOP], [0, 1, 2, 0]]), np.array([0, 0]))
    assert ended > open_end > 0


def test_photos_without_captions_are_allowed() -> None:
    gold = references()
    reward = CiderReward([*gold, []], KNOWN)
    assert np.isfinite(reward(as_ids(captions(0, 30)), np.arange(30))).all()
    with pytest.raises(DatasetError, match="caption"):
        CiderReward([[], []], KNOWN)


def test_only_rarely_repeated_words_are_penalized() -> None:
    gold = [[["a", "dog", "runs", "a"], ["a", "red", "cat", "a"]], [["a", "cat"]]]
    sentences = [["a", "dog", "a", "dog", "dog"], ["a", "cat", "a"]]
    plain, costly = (
        CiderReward(gold, KNOWN, repetition_penalty=cost)(as_ids(sentences), np.arange(2)) for cost in (0, 0.5)
    )
    np.testing.assert_allclose(plain - costly, [2 * 0.5, 0])


CAPTIONS = [
    ["Two kids sit on a brown couch.", "Children watch television on a sofa in front of a wall."],
    ["A dog runs on green grass.", "The dog is running through a field."],
]
SAID = Vocabulary.fit([split(text) for captions in CAPTIONS for text in captions])


def penalties(*pairs: tuple[str, int]) -> list[float]:
    """The penalties of sentences, each for a photo; a sentence is followed by end tokens."""
    number = {word: index for index, word in enumerate(SAID.words)}
    unknown, end = len(number), len(number) + 1
    rows = np.full((len(pairs), 12), end)
    for row, (text, _) in enumerate(pairs):
        known = [number.get(word, unknown) for word in split(text)]
        rows[row, : len(known)] = known
    references = [[split(text) for text in captions] for captions in CAPTIONS]
    found = WrongWordPenalty(references, SAID)(rows, np.array([photo for _, photo in pairs]))
    return found.tolist()


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        ([("two kids sit on a sofa", 0), ("a dog is running on green grass", 1)], [0, 0]),  # what people say
        ([("children sitting on a couch", 0), ("a dog runs through grass", 1)], [0, 0]),  # synonyms and other forms
        ([("a dog on a sofa", 0), ("a brown dog", 1), ("a brown sofa", 1)], [1, 0.5, 1.5]),  # a noun costs 1
        ([("a dog and a dog on a couch", 0)], [2]),  # every occurrence counts
        ([("in front of the zebra", 1), ("", 0)], [0, 0]),  # words without content, and unknown words
    ],
)
def test_wrong_words_cost_something(sentences: list[tuple[str, int]], expected: list[float]) -> None:
    assert penalties(*sentences) == expected
