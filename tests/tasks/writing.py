"""A small model that has learned to name the colour of photos."""

from __future__ import annotations

from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.models.m_rnn import MRNNSettings
from deixis.tasks.fit.chosen import Chosen
from deixis.tasks.fit.fitting import fit
from deixis.tasks.fit.m_rnn import CaptionData
from deixis.training.settings import TrainSettings

SMALL = MRNNSettings(
    first_embedding=8, second_embedding=12, recurrent_size=12, multimodal_size=16, attention_size=6, min_count=2
)


def train_writer(
    dataset: Dataset, out: Path, *, settings: MRNNSettings = SMALL, data: CaptionData | None = None
) -> None:
    """Train one in a second; needs an encoder in place of the real ones."""
    training = TrainSettings(epochs=30, batch_size=8, learning_rate=0.02, device="cpu", threads=1)
    fit("m-rnn", dataset, Chosen(data or CaptionData(cells=2), settings, training), out)
