"""The models of the two-branch paper on made-up features, as the loop trains them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deixis.language.vocabulary import Vocabulary
from deixis.models.base import word_ids
from deixis.models.matching.losses import LogisticObjective, MatchingObjective
from deixis.models.matching.model import Similarity, TwoBranch
from deixis.models.matching.samplers import LabelledRegionSampler, RegionPhraseSampler, SentenceSampler
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.training.objective import DevScores
from deixis.models.training.run_record import DataDescription, RunDescription
from deixis.models.training.settings import TrainSettings
from deixis.models.training.trainer import Trainer
from deixis.storage.progress import OnProgress, no_progress
from tests.models.training.region_pairs import random_pairs

SETTINGS = TrainSettings(epochs=2, batch_size=20, learning_rate=0.001, log_every=1, device="cpu", threads=1)
SIZE = 16


def features(rows: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, SIZE)).astype(np.float32)


def phrases(batch_size: int) -> tuple[Any, Any, Any, Callable[[], float]]:
    pairs = random_pairs()
    chosen = TwoBranchSettings(hidden_size=32, embedding_dim=8, max_negatives=5, neighbour_start_epoch=1)
    model = TwoBranch(SIZE, SIZE, chosen)
    visual, text = features(len(pairs.region_photo), 1), features(len(pairs.phrases), 2)
    loss = MatchingObjective(chosen, visual, [text])
    return model, RegionPhraseSampler(pairs, chosen, batch_size), loss, lambda: agreement(model, visual, text)


def words(batch_size: int) -> tuple[Any, Any, Any, Callable[[], float]]:
    texts = [f"a {colour} {thing}" for colour in ("red", "blue", "green") for thing in ("dog", "hat", "car", "man")] * 5
    chosen = TwoBranchSettings(
        hidden_size=32, embedding_dim=8, text_encoder="gru", word_dim=8, text_hidden_size=12, loss="softmax"
    )
    model = TwoBranch(SIZE, settings=chosen, vocabulary=Vocabulary.fit([text.split() for text in texts], min_count=1))
    visual = features(20, 1)
    loss = MatchingObjective(chosen, visual, word_ids(texts, model.words))
    sampler = SentenceSampler(np.arange(len(texts)) % 20, chosen, batch_size)
    return model, sampler, loss, lambda: agreement(model, visual, texts[:20])


def similarity(batch_size: int) -> tuple[Any, Any, Any, Callable[[], float]]:
    pairs = random_pairs()
    chosen = SimilaritySettings()
    model = Similarity(SIZE, SIZE, chosen)
    visual, text = features(len(pairs.region_photo), 1), features(len(pairs.phrases), 2)
    loss = LogisticObjective(visual, text)
    return model, LabelledRegionSampler(pairs, chosen, batch_size), loss, lambda: agreement(model, visual, text)


def agreement(model: Any, visual: Any, text: Any) -> float:
    count = min(len(visual), len(text), 20)
    scores = model.scores(model.prepare_visual(visual[:count]), model.prepare_text(text[:count]))
    return float(np.mean(np.diag(scores)) - np.mean(scores))


MODELS = {"phrases": phrases, "words": words, "similarity": similarity}


def trainer(
    out: Path, name: str, settings: TrainSettings = SETTINGS, on_progress: OnProgress = no_progress
) -> Trainer[Any]:
    torch.manual_seed(settings.seed)
    model, sampler, loss, evaluate = MODELS[name](settings.batch_size)
    about = RunDescription(name, asdict(model.settings), DataDescription("made up", "", {}, "free for all"))
    return Trainer(
        model.network,
        sampler,
        loss,
        settings,
        out,
        about=about,
        keep=model.save,
        evaluate={"dev": lambda: DevScores("agreement", {"agreement": evaluate()})},
        on_progress=on_progress,
    )
