"""What writes quickly writes as its network does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from deixis.models.m_rnn import PAPERS, MRNNNetwork, MRNNSettings
from deixis.models.m_rnn_quick import QuickMRNN

SIZES = {"first_embedding": 4, "second_embedding": 6, "recurrent_size": 6, "multimodal_size": 8}
KINDS = {name: replace(settings, **SIZES) for name, settings in PAPERS.items() if "vis-in-rnn" not in name} | {
    kind: MRNNSettings(**{**SIZES, "recurrent_size": 5}, recurrent=kind, attention=attention, dropout=0.5)
    for kind, attention in (("lstm", True), ("gru", False))
}


@pytest.mark.parametrize("kind", KINDS)
def test_word_by_word_it_says_what_the_network_says(kind: str) -> None:
    torch.manual_seed(0)
    network = MRNNNetwork(5, 7, KINDS[kind], 3 if KINDS[kind].attention else 0).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=0.7)
        cells = torch.randn(2, 4, 3).double() if KINDS[kind].attention else None
        seen = network.see(torch.randn(2, 5).double(), cells)
        quick = QuickMRNN(network)
        slow_state, quick_state = network.first_state(2), quick.first_state(2)
        for words in torch.tensor([[network.start, network.start], [3, 1], [0, 7], [3, 3]]):
            slow, slow_state = network.next_words(seen, words, slow_state)
            fast, quick_state = quick.next_words(seen, words, quick_state)
            torch.testing.assert_close(fast, slow)
