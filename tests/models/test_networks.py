"""Word embeddings: differences from frozen vectors. Text encoders: inputs, and that padding makes no difference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary, WordTable
from deixis.models.base import MAX_WORDS, word_vectors
from deixis.models.networks import Kind, TextEncoderShape, WordEmbedding, make_text_encoder, word_tensors

WORDS = Vocabulary(("a", "dog", "cat", "runs"), (4, 3, 2, 1))
KINDS: tuple[Kind, ...] = ("lstm", "gru", "transformer")


def encoder_of(kind: Kind, **changes: float) -> nn.Module:
    torch.manual_seed(0)
    return make_text_encoder(TextEncoderShape(kind, len(WORDS), word_dim=6, hidden_size=8, **changes)).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_text_is_encoded_the_same_alone_and_beside_longer_ones(kind: Kind) -> None:
    encoder = encoder_of(kind)
    together = encoder(*word_tensors(["a dog", "a cat runs a dog runs", "dog"], WORDS))
    for row, text in enumerate(["a dog", "a cat runs a dog runs", "dog"]):
        torch.testing.assert_close(encoder(*word_tensors([text], WORDS))[0], together[row], atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_the_lstm_gives_its_state_after_the_last_word() -> None:
    encoder = encoder_of("lstm")
    states, _ = encoder.recurrent(encoder.words(torch.tensor([[0, 1, 3]])))  # type: ignore[operator]
    torch.testing.assert_close(encoder(*word_tensors(["a dog runs"], WORDS))[0], states[0, -1])


@torch.no_grad()
def test_the_gru_gives_the_maximum_of_its_states() -> None:
    encoder = encoder_of("gru")
    states, _ = encoder.recurrent(encoder.words(torch.tensor([[0, 1, 3]])))  # type: ignore[operator]
    torch.testing.assert_close(encoder(*word_tensors(["a dog runs", "a"], WORDS))[0], states[0].max(dim=0).values)


@pytest.mark.parametrize("kind", KINDS)
def test_word_embeddings_are_trained_but_padding_is_not(kind: Kind) -> None:
    encoder = encoder_of(kind)
    encoder(*word_tensors(["a dog", "cat"], WORDS)).square().sum().backward()
    gradient = encoder.words.weight.grad  # type: ignore[union-attr]
    assert isinstance(gradient, torch.Tensor)
    assert gradient.abs().sum(dim=1).bool().tolist() == [True, True, True, False, False, False]


VOCABULARY = Vocabulary(("dog", "selfie", "red"), (3, 2, 1))
FROZEN = WordVectors(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32), ["dog", "puppy", "red"])
TEXTS = ["a red dog", "puppy selfie", ""]


def embedding(delta_dropout: float = 0.0) -> WordEmbedding:
    made = WordEmbedding(len(VOCABULARY), 4)
    made.add_frozen(WordTable(VOCABULARY, frozen=FROZEN).frozen_by_id, delta_dropout)
    return made


def table_of(words: WordEmbedding) -> WordTable:
    return WordTable(VOCABULARY, words.weight.detach().numpy(), FROZEN)


def test_frozen_vectors_are_the_beginning() -> None:
    words = embedding()
    assert not words.weight.any()
    ids, _ = word_tensors(["dog puppy"], table_of(words))
    np.testing.assert_array_equal(words(ids)[0].detach(), FROZEN.vectors_of(["dog", "puppy"]))


@torch.no_grad()
def test_ids_and_vectors_give_the_same() -> None:
    words = embedding().eval()
    words.weight[:4] = torch.randn(4, 4)
    table = table_of(words)
    ids, lengths = word_tensors(TEXTS, table)
    vectors, same_lengths = map(torch.from_numpy, word_vectors(TEXTS, table))
    assert torch.equal(lengths, same_lengths)
    torch.testing.assert_close(words(ids), vectors)
    assert words(vectors) is vectors


def test_only_words_of_the_vocabulary_and_the_unknown_word_are_trained() -> None:
    words = embedding()
    before = words(torch.arange(len(VOCABULARY) + 2 + 3)).detach()
    words(torch.arange(len(VOCABULARY) + 2 + 3)).square().sum().backward()
    assert words.weight.grad is not None
    changes = words.weight.grad.abs().sum(dim=1).bool().tolist()
    assert changes == [True, False, True, False, False]  # where the vector is not zero
    with torch.no_grad():
        words.weight -= words.weight.grad
    after = words(torch.arange(len(VOCABULARY) + 2 + 3)).detach()
    assert torch.equal(after[4:], before[4:])
    assert "frozen" not in words.state_dict()


def test_differences_are_dropped_in_training_only() -> None:
    words = embedding(delta_dropout=0.25)
    with torch.no_grad():
        words.weight[0] = 1.0
    ids = torch.zeros(20, 200, dtype=torch.int64)
    frozen = torch.from_numpy(FROZEN.vectors_of(["dog"])[0])
    torch.manual_seed(0)
    kept = (words(ids) - frozen).detach()
    assert set(kept.round(decimals=3).unique().tolist()) == {0.0, 1.0}  # all of a difference or nothing, not scaled
    assert (kept.std(dim=-1) < 1e-3).all()
    assert kept.mean().item() == pytest.approx(0.75, abs=0.03)
    torch.testing.assert_close(words.eval()(ids) - frozen, torch.ones(20, 200, 4))


def test_embeddings_can_start_from_word_vectors_that_are_trained() -> None:
    torch.manual_seed(0)
    words = WordEmbedding(len(VOCABULARY), 4)
    before = words.weight.detach().clone()
    words.init_from(VOCABULARY, FROZEN)
    np.testing.assert_array_equal(words.weight[[0, 2]].detach(), FROZEN.vectors_of(["dog", "red"]))
    assert torch.equal(words.weight[[1, 3, 4]], before[[1, 3, 4]])
    assert not words.weight[3:].any()


@torch.no_grad()
def test_an_encoder_reads_ids_and_vectors_alike() -> None:
    encoder = make_text_encoder(TextEncoderShape("gru", len(VOCABULARY), word_dim=4, hidden_size=6)).eval()
    encoder.words.add_frozen(WordTable(VOCABULARY, frozen=FROZEN).frozen_by_id, 0.2)
    table = table_of(encoder.words)
    vectors = map(torch.from_numpy, word_vectors(TEXTS, table))
    torch.testing.assert_close(encoder(*word_tensors(TEXTS, table)), encoder(*vectors))


def test_very_long_texts_are_cut_and_there_may_be_none() -> None:
    vectors, lengths = word_vectors(["dog " * 5000, "a"], table_of(embedding()))
    assert vectors.shape == (2, MAX_WORDS, 4)
    assert lengths.tolist() == [MAX_WORDS, 1]
    assert [part.shape for part in word_tensors(["dog " * 5000, "a"], VOCABULARY)] == [(2, MAX_WORDS), (2,)]
    assert word_vectors([], table_of(embedding()))[0].shape == (0, 1, 4)
