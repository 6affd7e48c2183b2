"""The mean of trained models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.model import MRNN
from deixis.models.m_rnn.pipeline import CaptionPipeline, load_captioner
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.storage.artifacts import CARD
from tests.scripts.conftest import Script

SETTINGS = MRNNSettings(
    first_embedding_dim=4, second_embedding_dim=4, multimodal_dim=4, min_count=1, reference_photos=2
)


def write_model(folder: Path, seed: int, multimodal_dim: int = 4) -> None:
    torch.manual_seed(seed)
    vocabulary = Vocabulary.fit([("a", "dog"), ("a", "cat")], 1)
    model = MRNN(6, vocabulary, replace(SETTINGS, multimodal_dim=multimodal_dim))
    model.fit_statistics(np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32), 0)
    provenance = Provenance(EncoderInfo("pixels", "0"), scores={"cider": 1.0})
    CaptionPipeline(model, provenance, card="The card of one model.").save_pretrained(folder)


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for seed, folder in enumerate(folders):
        write_model(folder, seed)
    return folders


def test_weights_are_the_mean_of_all_models(models: list[Path], tmp_path: Path, script: Script) -> None:
    script("average_models.py", tmp_path / "mean", *models)
    made = load_captioner(tmp_path / "mean")
    states = [load_captioner(folder).model.network.state_dict() for folder in models]
    for name, tensor in made.model.network.state_dict().items():
        assert torch.allclose(tensor, sum(state[name] for state in states) / 3, atol=1e-6), name
    assert made.model.vocabulary == load_captioner(models[0]).model.vocabulary
    assert not made.provenance.scores
    assert not (tmp_path / "mean" / CARD).exists()


def test_models_with_other_networks_are_refused(models: list[Path], tmp_path: Path, script: Script) -> None:
    write_model(tmp_path / "wide", 0, multimodal_dim=8)
    with pytest.raises(SystemExit, match=f"{tmp_path / 'wide'}: has another network or vocabulary than {models[0]}"):
        script("average_models.py", tmp_path / "mean", models[0], tmp_path / "wide")
    assert not (tmp_path / "mean").exists()
