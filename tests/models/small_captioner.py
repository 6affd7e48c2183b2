"""Small models that name the colour of photos: a captioner, or an m-RNN."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.models.captioner.spec import CaptionerDataSettings, CaptionerSettings
from deixis.models.m_rnn.spec import CaptionDataSettings, MRNNSettings
from deixis.models.training.runner import TrainResult, train
from deixis.models.training.settings import Settings, TrainSettings

SMALL = CaptionerSettings(
    embedding_dim=12, hidden_size=12, multimodal_dim=16, attention_dim=6, attention_heads=1, second_attention=False,
    cell_layers=0, dropout=0.0, label_smoothing=0.0, min_count=2, max_length=30,
)  # fmt: skip
SMALL_M_RNN = MRNNSettings(first_embedding_dim=8, second_embedding_dim=12, multimodal_dim=16, min_count=2)


BRIEF = TrainSettings(epochs=2, batch_size=8, learning_rate=0.01, device="cpu", threads=1)
Train = Callable[..., TrainResult]


def brief_runs(model: str, dataset: Dataset, folder: Path, data: object, settings: object) -> Train:
    """A function that trains a model for two epochs into a folder of a name, with some of its settings changed."""

    def run(name: str = "run", *, on: Dataset = dataset, **changed: object) -> TrainResult:
        chosen = {"data": data, "settings": settings, "training": BRIEF} | changed
        found = train(model, on, out=folder / name, settings=Settings(tuple(chosen.values())))
        assert found
        return found

    return run


def train_small_captioner(
    dataset: Dataset, out: Path, *, settings: CaptionerSettings = SMALL, data: CaptionerDataSettings | None = None
) -> None:
    """Train a small captioner in a second; `open_encoder` must be patched with a small encoder."""
    _train("captioner", dataset, out, data or CaptionerDataSettings(feature_grid=2), settings)


def train_small_m_rnn(
    dataset: Dataset, out: Path, *, settings: MRNNSettings = SMALL_M_RNN, data: CaptionDataSettings | None = None
) -> None:
    """Train a small m-RNN in a second; `open_encoder` must be patched with a small encoder."""
    _train("m-rnn", dataset, out, data or CaptionDataSettings(), settings)


def _train(name: str, dataset: Dataset, out: Path, data: object, settings: object) -> None:
    training = TrainSettings(epochs=30, batch_size=8, learning_rate=0.02, device="cpu", threads=1)
    train(name, dataset, out=out, settings=Settings((data, settings, training)))
