"""A small captioner that names the colour of photos."""

from __future__ import annotations

from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.models.m_rnn.spec import CaptionDataSettings, MRNNSettings
from deixis.models.training.runner import train
from deixis.models.training.settings import Settings, TrainSettings

SMALL = MRNNSettings(
    first_embedding_dim=8, second_embedding_dim=12, hidden_size=12, multimodal_dim=16, attention_dim=6, min_count=2
)


def train_small_captioner(
    dataset: Dataset, out: Path, *, settings: MRNNSettings = SMALL, data: CaptionDataSettings | None = None
) -> None:
    """Train a small captioner in a second; `open_encoder` must be patched with a small encoder."""
    training = TrainSettings(epochs=30, batch_size=8, learning_rate=0.02, device="cpu", threads=1)
    parts = Settings((data or CaptionDataSettings(feature_grid=2), settings, training))
    train("m-rnn", dataset, out=out, settings=parts)
