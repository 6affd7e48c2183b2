"""The recurrent layers by themselves; what they compute within a network is in `test_m_rnn`."""

from __future__ import annotations

import pytest
import torch

from deixis.models.m_rnn_cells import GatedRecurrence, ReluRecurrence


@pytest.mark.parametrize("kind", ["relu", "lstm", "gru"])
def test_a_sentence_in_two_parts_ends_in_the_state_of_the_whole(kind: str) -> None:
    torch.manual_seed(0)
    layer = ReluRecurrence(4) if kind == "relu" else GatedRecurrence(kind, 4, 4)
    words = torch.randn(3, 6, 4)
    state = tuple(torch.zeros(3, 4) for _ in range(2 if kind == "lstm" else 1))
    whole, last = layer(words, state)
    first, between = layer(words[:, :2], state)
    second, after = layer(words[:, 2:], between)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    for ours, theirs in zip(after, last, strict=True):
        torch.testing.assert_close(ours, theirs)
