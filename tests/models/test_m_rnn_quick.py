"""What writes quickly writes as its network does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from deixis.models.decoding_search import Growing
from deixis.models.m_rnn import PAPERS, MRNNNetwork, MRNNSettings
from deixis.models.m_rnn_quick import QuickMRNN

SIZES = {"first_embedding": 4, "second_embedding": 6, "recurrent_size": 6, "multimodal_size": 8}
GATED = MRNNSettings(**{**SIZES, "recurrent_size": 5}, recurrent="lstm", dropout=0.5)
KINDS = {name: replace(settings, **SIZES) for name, settings in PAPERS.items()} | {
    "lstm": replace(GATED, attention=True),
    "lstm-both": replace(GATED, attention=True, attention_heads=2, attention_size=6, photo_into="both"),
    "lstm-as-given": replace(GATED, attention=True, standardise=False),
    "lstm-first": replace(GATED, photo_into="recurrent", word_from="first"),
    "gru": replace(GATED, recurrent="gru"),
    "gru-both": replace(GATED, recurrent="gru", photo_into="both", one_embedding=True, shared_words=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_word_by_word_it_says_what_the_network_says(kind: str) -> None:
    torch.manual_seed(0)
    network = MRNNNetwork(5, 7, KINDS[kind], 3 if KINDS[kind].attention else 0).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=0.7)
        for part in (network.photo_mean, network.cell_mean):
            part.normal_()
        for part in (network.photo_scale, network.cell_scale):
            part.uniform_(0.5, 2)
        looks = torch.randn(2, 5).double(), torch.randn(2, 4, 3).double() if KINDS[kind].attention else None
        quick = QuickMRNN(network)
        twice = network.see(*looks).repeat(2)
        slow_state, quick_state = network.first_state(4), quick.first_state(4)
        seen, growing = quick.see(*looks), Growing(2, 2)
        for words in torch.tensor([[network.start] * 4, [3, 1, 0, 2], [0, 7, 1, 1], [3, 3, 4, 5]]):
            slow, slow_state = network(twice, words[:, None], slow_state)
            fast, quick_state = quick.next_words(seen, words, quick_state, growing)
            torch.testing.assert_close(fast, slow[:, 0].log_softmax(-1))
        some = torch.tensor([0, 2, 3])
        slow, _ = network(twice.take(some), torch.tensor([[1], [6], [0]]), tuple(part[some] for part in slow_state))
        state = tuple(part[some] for part in quick_state)
        fast, _ = quick.next_words(seen, torch.tensor([1, 6, 0]), state, Growing(2, 2, some))
        torch.testing.assert_close(fast, slow[:, 0].log_softmax(-1))
