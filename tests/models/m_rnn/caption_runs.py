"""A small captioning data set, and runs that train on it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.evaluation import caption_cider, caption_perplexity
from deixis.models.m_rnn.model import MRNN, VectorsAndCells
from deixis.models.m_rnn.objective import CaptionSampler, LikelihoodObjective
from deixis.models.m_rnn.self_critical import CiderReward, PhotoSampler, RewardObjective
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.models.networks import word_tensors
from deixis.models.training.objective import DevScores
from deixis.models.training.run_record import DataDescription, RunDescription
from deixis.models.training.settings import TrainSettings
from deixis.models.training.trainer import Trainer
from deixis.tokens import words

SMALL = MRNNSettings(
    first_embedding_dim=6, second_embedding_dim=12, hidden_size=12, multimodal_dim=16, reference_photos=4, min_count=1
)
KINDS = {
    "m-rnn": replace(SMALL, dropout=0.2, word_dropout=0.1),
    "lstm": replace(SMALL, recurrent_cell="lstm", label_smoothing=0.1),
    "attention": replace(SMALL, attention=True, tie_word_weights=True),
}
SETTINGS = TrainSettings(epochs=2, batch_size=8, learning_rate=0.01, log_every=1, device="cpu", threads=1)
COLOURS, THINGS = ("red", "blue", "green", "white"), ("dog", "hat", "car")
TEXTS = [
    text
    for colour in COLOURS
    for thing in THINGS
    for text in (f"a {colour} {thing}", f"There is a {thing}, it is {colour}.")
]
OWNERS = np.repeat(np.arange(12), 2)


def photos() -> np.ndarray:
    """Features that determine colour and thing."""
    return np.array(
        [np.concatenate([np.eye(4)[c], np.eye(3)[t]]) for c in range(4) for t in range(3)], dtype=np.float32
    )


class LikelihoodRun:
    """A model, its likelihood loss and its trainer."""

    def __init__(self, kind: MRNNSettings, settings: TrainSettings = SETTINGS) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        cells = np.random.default_rng(0).normal(size=(12, 5, 4)).astype(np.float32)
        self.model = MRNN(7, Vocabulary.fit(map(words, TEXTS)), kind, cell_size=4 if kind.attention else 0)
        self.photos: Any = photos()
        if kind.attention:
            self.photos = VectorsAndCells(self.photos, cells)
        self.model.fit_statistics(self.photos)
        ids, self.lengths = word_tensors(TEXTS, self.model.vocabulary)
        self.loss = LikelihoodObjective(
            torch.from_numpy(photos()),
            torch.from_numpy(OWNERS),
            ids,
            self.lengths,
            torch.from_numpy(cells).half() if kind.attention else None,
        )

    def trainer(self, out: Path, **others: Any) -> Trainer[torch.Tensor]:
        about = RunDescription(
            "m-rnn", asdict(self.model.settings), DataDescription("synthetic", "", {}, "free for all")
        )
        sampler = CaptionSampler(self.lengths, self.settings.batch_size)
        return Trainer(
            self.model.network,
            sampler,
            self.loss,
            self.settings,
            out,
            about=about,
            keep=self.model.save,
            evaluate={"dev": lambda: DevScores("minus", {"minus": -self.perplexity()})},
            **others,
        )

    def perplexity(self) -> float:
        return caption_perplexity(self.model, self.photos, TEXTS, OWNERS).perplexity


REWARD_KIND = replace(SMALL, recurrent_cell="lstm", image_input="both", attention=True, max_length=12)
REFERENCES = [[words(text) for text, owner in zip(TEXTS, OWNERS, strict=True) if owner == photo] for photo in range(12)]


class RewardRun(LikelihoodRun):
    """A model, its reward loss and its trainer."""

    def __init__(self, kind: Any = REWARD_KIND, settings: TrainSettings = SETTINGS) -> None:
        super().__init__(kind, settings)
        cells = torch.from_numpy(self.photos.cells).half() if kind.attention else None
        reward, self.likelihood = CiderReward(REFERENCES, self.model.vocabulary), self.loss
        self.loss: Any = RewardObjective(self.loss.photos, reward, samples=4, max_length=kind.max_length, cells=cells)

    def trainer(self, out: Path, **others: Any) -> Trainer[torch.Tensor]:
        trainer = super().trainer(out, **others)
        trainer.sampler = PhotoSampler(np.arange(12), self.settings.batch_size)
        trainer.evaluate = {
            "dev": lambda: DevScores("cider", {"cider": caption_cider(self.model, self.photos, REFERENCES)})
        }
        return trainer
