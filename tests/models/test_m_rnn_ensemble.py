"""Models that write together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.decoding import Decoding
from deixis.models.m_rnn import MRNNSettings
from deixis.models.m_rnn_ensemble import Ensemble
from deixis.models.m_rnn_model import MRNN, WithCells

SIZES = {"first_embedding": 4, "second_embedding": 6, "recurrent_size": 6, "multimodal_size": 8, "attention_size": 4}
KNOWN = Vocabulary(tuple("abcde"), (5, 4, 3, 2, 1))
RNG = np.random.default_rng(0)
PHOTOS = WithCells(RNG.normal(size=(4, 5)), RNG.normal(size=(4, 9, 3)))


def made(seed: int, **others: object) -> MRNN:
    torch.manual_seed(seed)
    model = MRNN(5, KNOWN, MRNNSettings(**SIZES, **others), cell_size=3)  # type: ignore[arg-type]
    model.network.double()
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.normal_(std=0.7)
    return model


def kinds() -> list[MRNN]:
    return [made(0), made(1, recurrent="lstm", attention=True, photo_into="both")]


@pytest.mark.parametrize("how", [Decoding("greedy"), Decoding(beam=3, count=3), Decoding("sample", seed=2)])
def test_the_probability_told_is_the_mean_at_each_word(how: Decoding) -> None:
    models = kinds()
    for photo, sentences in enumerate(Ensemble(models).generate(PHOTOS, how, start="b")):
        look = WithCells(PHOTOS.vectors[[photo]], PHOTOS.cells[[photo]])
        for sentence in sentences:
            likely = np.array([model.log_probabilities(look, [sentence.words])[0] for model in models])
            expected = np.log(np.exp(likely).mean(0))[: len(sentence.words) + sentence.finished].sum()
            assert sentence.log_probability == pytest.approx(expected)


def test_a_model_with_itself_writes_as_it_does_alone() -> None:
    model = kinds()[1]
    how = Decoding(beam=3, count=3)
    alone, twice = model.generate(PHOTOS, how), Ensemble([model, model]).generate(PHOTOS, how)
    assert [[s.words for s in each] for each in alone] == [[s.words for s in each] for each in twice]


def test_models_that_know_other_words_do_not_write_together() -> None:
    other = MRNN(5, Vocabulary(("a",), (1,)), MRNNSettings(**SIZES))
    with pytest.raises(DeixisError, match="the same words"):
        Ensemble([made(0), other])
    with pytest.raises(DeixisError, match="at least one"):
        Ensemble([])
