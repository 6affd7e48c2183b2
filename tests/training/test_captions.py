"""Learning to write captions: the batches, the cost of eq. 6, and a run that goes on where it broke off."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from deixis.errors import DatasetError
from deixis.language.vocabulary import Vocabulary
from deixis.models.decoding import Decoding
from deixis.models.m_rnn import PAPERS, MRNNNetwork, MRNNSettings
from deixis.models.m_rnn_model import MRNN, WithCells
from deixis.models.text_encoders import word_ids
from deixis.tokens import words
from deixis.training.about import About, DataFacts
from deixis.training.base import DevScores
from deixis.training.captions import SCHEDULES, CaptionObjective, CaptionSampler, perplexity_of
from deixis.training.settings import TrainSettings
from deixis.training.trainer import Trainer
from tests.training.test_trainer import KilledError, same_run

SMALL = MRNNSettings(
    first_embedding=6, second_embedding=12, recurrent_size=12, multimodal_size=16, reference_photos=4, min_count=1
)
KINDS = {
    "m-rnn": replace(SMALL, dropout=0.2, word_dropout=0.1),
    "lstm": replace(SMALL, recurrent="lstm", label_smoothing=0.1),
    "attention": replace(SMALL, attention=True, shared_words=True),
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
    """Photos that show their colour and their thing."""
    return np.array(
        [np.concatenate([np.eye(4)[c], np.eye(3)[t]]) for c in range(4) for t in range(3)], dtype=np.float32
    )


class Made:
    """All that a run needs."""

    def __init__(self, kind: MRNNSettings, settings: TrainSettings = SETTINGS) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        cells = np.random.default_rng(0).normal(size=(12, 5, 4)).astype(np.float32)
        self.model = MRNN(7, Vocabulary.fit(map(words, TEXTS)), kind, cell_size=4 if kind.attention else 0)
        self.photos: Any = photos()
        if kind.attention:
            self.photos = WithCells(self.photos, cells)
        self.model.look_at(self.photos)
        ids, self.lengths = word_ids(TEXTS, self.model.vocabulary)
        self.loss = CaptionObjective(
            torch.from_numpy(photos()),
            torch.from_numpy(OWNERS),
            ids,
            self.lengths,
            torch.from_numpy(cells).half() if kind.attention else None,
        )

    def trainer(self, out: Path, **others: Any) -> Trainer[torch.Tensor]:
        about = About("m-rnn", asdict(self.model.settings), DataFacts("made up", "", {}, "free for all"))
        sampler = CaptionSampler(self.lengths, self.settings.batch_size)
        return Trainer(
            self.model.network,
            sampler,
            self.loss,
            self.settings,
            out,
            about=about,
            keep=self.model.save,
            evaluate=lambda: DevScores("minus", {"minus": -self.perplexity()}),
            **others,
        )

    def perplexity(self) -> float:
        return perplexity_of(self.model, self.photos, TEXTS, OWNERS).perplexity


def test_every_caption_is_in_one_batch_of_an_epoch() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, size=1003)
    sampler = CaptionSampler(lengths, 16)
    batches = list(sampler.epoch(0, np.random.default_rng(1)))
    assert len(batches) == len(sampler) == 63
    assert sorted(torch.cat(batches).tolist()) == list(range(1003))


def test_batches_follow_from_the_generator_alone() -> None:
    sampler = CaptionSampler(np.random.default_rng(0).integers(1, 30, size=200), 16)
    one, again, other = (list(sampler.epoch(0, np.random.default_rng(seed))) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_captions_of_like_length_are_together() -> None:
    lengths = np.random.default_rng(0).integers(5, 25, size=6400)
    batches = CaptionSampler(lengths, 64).epoch(0, np.random.default_rng(1))
    read = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert read < 1.03 * lengths.sum()


def test_lengths_do_not_come_in_order() -> None:
    lengths = np.arange(3200) // 100
    means = [lengths[batch].mean() for batch in CaptionSampler(lengths, 64).epoch(0, np.random.default_rng(1))]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


def test_nothing_to_learn_from_is_said_so() -> None:
    with pytest.raises(DatasetError, match="no caption"):
        CaptionSampler(np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize("kind", KINDS)
def test_the_cost_is_the_mean_of_log2_over_all_words(kind: str) -> None:
    made = Made(replace(KINDS[kind], dropout=0.0, word_dropout=0.0, label_smoothing=0.0))
    rows = np.array([0, 3, 8, 21])
    likely = made.model.log_probabilities(made.photos, [TEXTS[row] for row in rows], OWNERS[rows])
    bits = -np.concatenate(likely) / np.log(2)
    found = made.loss(made.model.network, torch.from_numpy(rows))
    # Cells are learned from in half precision.
    assert found.total.item() == pytest.approx(bits.mean(), rel=1e-3 if kind == "attention" else 1e-5)
    assert found.terms["perplexity"].item() == pytest.approx(2 ** bits.mean(), rel=1e-2)


def test_label_smoothing_is_part_of_the_loss_and_not_of_the_perplexity() -> None:
    made = Made(replace(SMALL, label_smoothing=0.2))
    network, rows = made.model.network, torch.arange(6)
    network.train()
    smoothed = made.loss(network, rows)
    network.eval()
    plain = made.loss(network, rows)
    assert smoothed.terms["perplexity"].item() == pytest.approx(plain.terms["perplexity"].item())
    assert smoothed.total.item() != pytest.approx(plain.total.item())


def test_perplexity_is_that_of_a_loop_over_words() -> None:
    made = Made(SMALL)
    total, count = 0.0, 0
    for text, owner in zip(TEXTS, OWNERS, strict=True):
        for likely in made.model.log_probabilities(made.photos[owner : owner + 1], [text])[0]:
            total, count = total - np.log2(np.exp(likely)), count + 1
    found = perplexity_of(made.model, made.photos, TEXTS, OWNERS)
    assert found.perplexity == pytest.approx(2 ** (total / count))
    assert count == found.words == sum(len(words(text)) + 1 for text in TEXTS)
    assert found.n == 12


def test_perplexity_tells_the_share_of_unknown_words() -> None:
    made = Made(SMALL)
    assert perplexity_of(made.model, made.photos, ["a dog", "a red zebra"], np.array([0, 0])).oov == pytest.approx(20)


def test_the_loss_is_for_this_network_only() -> None:
    with pytest.raises(TypeError, match="MRNNNetwork"):
        Made(SMALL).loss(nn.Linear(2, 2), torch.arange(2))


def test_every_setting_of_the_paper_has_a_schedule() -> None:
    assert SCHEDULES.keys() == PAPERS.keys()


def test_captions_that_follow_from_photos_are_learned(tmp_path: Path) -> None:
    made = Made(SMALL, replace(SETTINGS, epochs=60, evaluate_every=20))
    made.trainer(tmp_path / "run").train()
    assert made.perplexity() < 1.6
    said = made.model.generate(photos(), Decoding(beam=3, count=2))
    for photo, sentences in enumerate(said):
        assert {s.text for s in sentences} == {" ".join(words(text)) for text in TEXTS[2 * photo : 2 * photo + 2]}
    scores = made.model.scores(made.model.prepare_visual(photos()), made.model.prepare_text(TEXTS))
    assert (scores.argmax(0) == OWNERS).all()
    assert (OWNERS[scores.argmax(1)] == np.arange(12)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_killed_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    def stop(doing: str, done: int, total: int | None) -> None:
        if done == 4:
            raise KilledError

    settings = replace(SETTINGS, threads=2, save_every=2, weight_decay=1e-4, clip=1.0)
    Made(KINDS[kind], settings).trainer(tmp_path / "unbroken").train()
    with pytest.raises(KilledError):
        Made(KINDS[kind], settings).trainer(tmp_path / "run", on_progress=stop).train()
    Made(KINDS[kind], settings).trainer(tmp_path / "run").train(resume=True)
    assert same_run(tmp_path / "run", tmp_path / "unbroken")
    opened = MRNN.load(tmp_path / "run" / "model")
    assert isinstance(opened.network, MRNNNetwork)
