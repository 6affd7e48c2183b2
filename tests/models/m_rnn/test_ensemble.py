"""Ensembles of m-RNNs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.ensemble import Ensemble
from deixis.models.m_rnn.model import MRNN, VectorsAndCells
from deixis.models.m_rnn.spec import MRNNSettings

SIZES = {"first_embedding_dim": 4, "second_embedding_dim": 6, "hidden_size": 6, "multimodal_dim": 8}
WORDS = Vocabulary(("a", "dog", "cat", "runs"), (4, 3, 2, 1))
PHOTOS = VectorsAndCells(*(np.random.default_rng(0).normal(size=size) for size in ((4, 5), (4, 9, 3))))


def random_model(seed: int, **others: object) -> MRNN:
    torch.manual_seed(seed)
    model = MRNN(5, WORDS, MRNNSettings(**SIZES, **others), cell_size=3)  # type: ignore[arg-type]
    model.network.double()
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.normal_(std=0.7)
    return model


@pytest.mark.parametrize("decoding", [Decoding("greedy"), Decoding(beam=3, top=3), Decoding("sample", seed=2)])
def test_an_ensemble_uses_the_mean_probability_of_each_word(decoding: Decoding) -> None:
    models = [random_model(0), random_model(1, recurrent_cell="lstm", attention=True, image_input="both")]
    for photo, sentences in enumerate(Ensemble(models).generate(PHOTOS, decoding, start="dog")):
        photo_input = PHOTOS.take(slice(photo, photo + 1))
        for sentence in sentences:
            log_p = np.array([model.log_probabilities(photo_input, [sentence.words])[0] for model in models])
            expected = np.log(np.exp(log_p).mean(0))[: len(sentence.words) + sentence.finished].sum()
            assert sentence.log_probability == pytest.approx(expected, rel=1e-5)


def test_an_ensemble_needs_models_with_one_vocabulary() -> None:
    other = MRNN(5, Vocabulary(("a",), (1,)), MRNNSettings(**SIZES))
    with pytest.raises(DeixisError, match="the same vocabulary"):
        Ensemble([random_model(0), other])
    with pytest.raises(DeixisError, match="at least one"):
        Ensemble([])
