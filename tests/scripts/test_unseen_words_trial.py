"""The trial of words that no caption has: what is replaced, and how recall is counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
import unseen_words_trial as trial
from torch import Tensor, nn

from deixis.language.vectors import shipped_vectors
from deixis.language.vocabulary import Vocabulary

WORDS = ("dog", "car", "tree", "boat")
CAPTIONS = [[f"a {word} {number}" for number in range(5)] for word in WORDS]


class Exact(nn.Module):
    """Knows the four words and no others."""

    def forward(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([[float(word in text.split()) for word in WORDS] + [0.1] for text in texts])


def test_recall_counts_only_captions_with_words_to_replace() -> None:
    assert trial.replace_words("A dog, and a car", {"dog": "mutt"}) == "a mutt and a car"
    model = Exact()
    assert trial.recalls(model, CAPTIONS, {"dog": "boat", "car": "car"}) == [100, 100, 0, 100]  # type: ignore[arg-type]


@pytest.mark.parametrize("embeddings", trial.EMBEDDINGS)
def test_each_kind_of_embeddings_is_trained(embeddings: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "BATCH", 4)
    torch.manual_seed(0)
    vocabulary = Vocabulary(("a", *WORDS), (9, 1, 1, 1, 1))
    model = trial.CaptionEncoder(embeddings, vocabulary)
    before = model.encoder.words.weight.detach().clone()
    trial.train(model, CAPTIONS, 3, np.random.default_rng(0))
    changed = bool((model.encoder.words.weight[: len(vocabulary)] != before[: len(vocabulary)]).any())
    assert changed == (embeddings != "frozen")
    unseen = model.table.encode(["mutt"], len(vocabulary))
    assert (unseen == [len(vocabulary)]) == (embeddings in ("random", "initial"))
    assert "mutt" in shipped_vectors()
