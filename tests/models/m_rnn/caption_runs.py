"""A small captioning data set, and runs that train on it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deixis.language.vocabulary import Vocabulary
from deixis.models.captioner.pipeline import Captioner, VectorsAndCells
from deixis.models.captioner.self_critical import CiderReward, PhotoSampler, RewardObjective, ViewLikelihood
from deixis.models.captioner.spec import CaptionerSettings
from deixis.models.m_rnn.evaluation import caption_cider, caption_perplexity
from deixis.models.m_rnn.model import MRNN
from deixis.models.m_rnn.objective import CaptionSampler
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.models.networks import word_tensors
from deixis.models.training.objective import DevScores
from deixis.models.training.run_record import DataDescription, RunDescription
from deixis.models.training.settings import TrainSettings
from deixis.models.training.trainer import Trainer
from deixis.tokens import words

SMALL = MRNNSettings(first_embedding_dim=6, second_embedding_dim=12, multimodal_dim=16, reference_photos=4, min_count=1)
CAPTIONER = CaptionerSettings(
    embedding_dim=12, hidden_size=12, multimodal_dim=16, attention_dim=256, attention_heads=1, cell_layers=0,
    dropout=0.0, label_smoothing=0.0, reference_photos=4, min_count=1, max_length=12,
)  # fmt: skip
KINDS = {"m-rnn": SMALL, "captioner": replace(CAPTIONER, dropout=0.2, label_smoothing=0.1)}
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

    def __init__(self, kind: MRNNSettings | CaptionerSettings, settings: TrainSettings = SETTINGS) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        vocabulary = Vocabulary.fit(map(words, TEXTS))
        self.photos: Any = photos()
        self.model: MRNN
        if isinstance(kind, CaptionerSettings):
            cells = np.random.default_rng(0).normal(size=(12, 5, 4)).astype(np.float32)
            self.photos = VectorsAndCells(self.photos, cells)
            self.model = Captioner(7, vocabulary, kind, cell_size=4)
            inputs: Any = torch.from_numpy(photos()), torch.from_numpy(cells).half()
        else:
            self.model = MRNN(7, vocabulary, kind)
            inputs = (torch.from_numpy(photos()),)
        self.model.fit_statistics(self.photos)
        ids, self.lengths = word_tensors(TEXTS, self.model.vocabulary)
        smoothing = getattr(kind, "label_smoothing", 0.0)
        self.loss: Any = ViewLikelihood(inputs, torch.from_numpy(OWNERS), ids, self.lengths, smoothing)

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


REFERENCES = [[words(text) for text, owner in zip(TEXTS, OWNERS, strict=True) if owner == photo] for photo in range(12)]


class RewardRun(LikelihoodRun):
    """A model, its reward loss and its trainer."""

    def __init__(self, kind: CaptionerSettings = CAPTIONER, settings: TrainSettings = SETTINGS) -> None:
        super().__init__(kind, settings)
        reward, self.likelihood = CiderReward(REFERENCES, self.model.vocabulary), self.loss
        self.loss = RewardObjective(self.loss.photos, reward, samples=4, max_length=kind.max_length)

    def trainer(self, out: Path, **others: Any) -> Trainer[torch.Tensor]:
        trainer = super().trainer(out, **others)
        trainer.sampler = PhotoSampler(np.arange(12), self.settings.batch_size)
        trainer.evaluate = {
            "dev": lambda: DevScores("cider", {"cider": caption_cider(self.model, self.photos, REFERENCES)})
        }
        return trainer
