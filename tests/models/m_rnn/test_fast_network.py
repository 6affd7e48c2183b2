"""The fast network against the network it is made from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from deixis.models.m_rnn.decoding import BeamRows
from deixis.models.m_rnn.fast_network import FastMRNN
from deixis.models.m_rnn.network import MRNNNetwork
from deixis.models.m_rnn.spec import MRNNSettings
from tests.models.presets import paper_presets

PAPER_NETWORKS = paper_presets("m-rnn", MRNNSettings)

SIZES = {"first_embedding_dim": 4, "second_embedding_dim": 6, "hidden_size": 6, "multimodal_dim": 8}
GATED = MRNNSettings(**{**SIZES, "hidden_size": 5}, recurrent_cell="lstm", dropout=0.5)
KINDS = {name: replace(settings, **SIZES) for name, settings in PAPER_NETWORKS.items()} | {
    "lstm": replace(GATED, attention=True),
    "lstm-both": replace(GATED, attention=True, attention_heads=2, attention_dim=6, image_input="both"),
    "lstm-not-standardized": replace(GATED, attention=True, standardize_images=False),
    "lstm-first": replace(GATED, image_input="recurrent", multimodal_word_input="first"),
    "gru": replace(GATED, recurrent_cell="gru"),
    "gru-both": replace(GATED, recurrent_cell="gru", image_input="both", single_embedding=True, tie_word_weights=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_gives_the_log_probabilities_of_the_network(kind: str) -> None:
    torch.manual_seed(0)
    network = MRNNNetwork(5, 7, KINDS[kind], 3 if KINDS[kind].attention else 0).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=0.7)
        for part in (network.photo_mean, network.cell_mean):
            part.normal_()
        for part in (network.photo_scale, network.cell_scale):
            part.uniform_(0.5, 2)
        inputs = torch.randn(2, 5).double(), torch.randn(2, 4, 3).double() if KINDS[kind].attention else None
        fast = FastMRNN(network)
        twice = network.visual_context(*inputs).repeat(2)
        slow_state, fast_state = network.initial_state(4), fast.initial_state(4)
        context, rows = fast.visual_context(*inputs), BeamRows(2, 2)
        for words in torch.tensor([[network.start] * 4, [3, 1, 0, 2], [0, 7, 1, 1], [3, 3, 4, 5]]):
            slow, slow_state = network(twice, words[:, None], slow_state)
            log_p, fast_state = fast.step(context, words, fast_state, rows)
            torch.testing.assert_close(log_p, slow[:, 0].log_softmax(-1))
        some = torch.tensor([0, 2, 3])
        slow, _ = network(twice.take(some), torch.tensor([[1], [6], [0]]), tuple(part[some] for part in slow_state))
        state = tuple(part[some] for part in fast_state)
        log_p, _ = fast.step(context, torch.tensor([1, 6, 0]), state, BeamRows(2, 2, some))
        torch.testing.assert_close(log_p, slow[:, 0].log_softmax(-1))
