"""Text encoders: what they read, and that padding makes no difference."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from deixis.language.vocabulary import Vocabulary
from deixis.models.inputs import MAX_WORDS
from deixis.models.networks import Kind, TextEncoderShape, make_text_encoder, word_tensors

WORDS = Vocabulary(("a", "dog", "cat", "runs"), (4, 3, 2, 1))
KINDS: tuple[Kind, ...] = ("lstm", "gru", "transformer")


def encoder_of(kind: Kind, **changes: float) -> nn.Module:
    torch.manual_seed(0)
    return make_text_encoder(TextEncoderShape(kind, len(WORDS), word_dim=6, hidden_size=8, **changes)).eval()  # type: ignore[arg-type]


def test_the_lstm_has_the_sizes_of_the_paper() -> None:
    encoder = make_text_encoder(TextEncoderShape("lstm", 8569))
    assert encoder.size == 512
    assert encoder.words.weight.shape == (8569 + 2, 256)
    recurrent = encoder.recurrent
    assert isinstance(recurrent, nn.LSTM)
    assert (recurrent.input_size, recurrent.hidden_size, recurrent.num_layers) == (256, 512, 1)
    assert not recurrent.bidirectional


def test_the_gru_reads_in_both_directions() -> None:
    encoder = make_text_encoder(TextEncoderShape("gru", 10, word_dim=300, hidden_size=512, dropout=0.3))
    assert encoder.size == 1024
    assert isinstance(encoder.recurrent, nn.GRU)
    assert encoder.recurrent.bidirectional


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_text_is_encoded_the_same_alone_and_beside_longer_ones(kind: Kind) -> None:
    encoder = encoder_of(kind)
    together = encoder(*word_tensors(["a dog", "a cat runs a dog runs", "dog"], WORDS))
    for row, text in enumerate(["a dog", "a cat runs a dog runs", "dog"]):
        torch.testing.assert_close(encoder(*word_tensors([text], WORDS))[0], together[row], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_order_of_words_matters(kind: Kind) -> None:
    one, other = encoder_of(kind)(*word_tensors(["a dog runs", "runs dog a"], WORDS))
    assert (one - other).abs().max() > 1e-4


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


def test_dropout_is_for_training_only() -> None:
    encoder, inputs = encoder_of("gru", dropout=0.5), word_tensors(["a dog runs"], WORDS)
    assert torch.equal(encoder(*inputs), encoder(*inputs))
    encoder.train()
    assert not torch.equal(encoder(*inputs), encoder(*inputs))


def test_very_long_texts_are_cut() -> None:
    ids, lengths = word_tensors(["dog " * 5000, "a"], WORDS)
    assert ids.shape == (2, MAX_WORDS)
    assert lengths.tolist() == [MAX_WORDS, 1]
