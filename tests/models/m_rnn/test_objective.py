"""Training of the m-RNN: batches, the likelihood loss against plain loops, and resumed runs of both objectives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deixis.errors import DatasetError
from deixis.models.captioner.self_critical import PhotoSampler, draw_views
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.objective import CaptionSampler
from deixis.models.training.trainer import Trainer
from deixis.tokens import words
from tests.models.m_rnn.caption_runs import (
    CAPTIONER,
    KINDS,
    OWNERS,
    SETTINGS,
    SMALL,
    TEXTS,
    LikelihoodRun,
    RewardRun,
    photos,
)
from tests.models.training.test_trainer import KilledError, same_run

LENGTHS = np.random.default_rng(0).integers(5, 25, size=6403)


@pytest.mark.parametrize("sampler", [CaptionSampler(LENGTHS, 64), PhotoSampler(np.arange(6403), 64)])
def test_every_row_is_in_one_batch_of_an_epoch(sampler: CaptionSampler | PhotoSampler) -> None:
    batches, again, other = (list(sampler.epoch(0, np.random.default_rng(seed))) for seed in (1, 1, 2))
    assert len(batches) == len(sampler) == 101
    assert sorted(torch.cat(batches).tolist()) == list(range(6403))
    assert all(map(torch.equal, batches, again))
    assert not all(map(torch.equal, batches, other))


def test_captions_in_a_batch_have_similar_lengths_and_batches_come_in_any_order() -> None:
    lengths = LENGTHS[:3200]  # one pool
    batches = list(CaptionSampler(lengths, 64).epoch(0, np.random.default_rng(1)))
    assert sum(len(batch) * lengths[batch].max() for batch in batches) < 1.03 * lengths.sum()
    means = [lengths[batch].mean() for batch in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


def test_data_without_captions_or_photos_is_refused() -> None:
    for sampler in (CaptionSampler, PhotoSampler):
        with pytest.raises(DatasetError):
            sampler(np.zeros(0, dtype=np.int64), 8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_mean_bits_per_word(kind: str) -> None:
    run = LikelihoodRun({"m-rnn": SMALL, "captioner": CAPTIONER}[kind])
    rows = np.array([0, 3, 8, 21])
    log_p = run.model.log_probabilities(run.photos, [TEXTS[row] for row in rows], OWNERS[rows])
    bits = -np.concatenate(log_p) / np.log(2)
    found = run.loss(run.model.network, torch.from_numpy(rows))
    # Cells are in half precision.
    assert found.total.item() == pytest.approx(bits.mean(), rel=1e-3 if kind == "captioner" else 1e-5)
    assert found.terms["perplexity"].item() == pytest.approx(2 ** bits.mean(), rel=1e-2)


def test_label_smoothing_changes_the_loss_but_not_the_perplexity() -> None:
    run = LikelihoodRun(replace(CAPTIONER, label_smoothing=0.2))
    network, rows = run.model.network, torch.arange(6)
    network.train()
    smoothed = run.loss(network, rows)
    network.eval()
    plain = run.loss(network, rows)
    assert smoothed.terms["perplexity"].item() == pytest.approx(plain.terms["perplexity"].item())
    assert smoothed.total.item() != pytest.approx(plain.total.item())


def test_captions_determined_by_the_photo_are_learned(tmp_path: Path) -> None:
    run = LikelihoodRun(SMALL, replace(SETTINGS, epochs=60, evaluate_every=20))
    run.trainer(tmp_path / "run").train()
    assert run.perplexity() < 1.6
    generated = run.model.generate(photos(), Decoding(beam=3, top=2))
    for photo, sentences in enumerate(generated):
        assert {s.text for s in sentences} == {" ".join(words(text)) for text in TEXTS[2 * photo : 2 * photo + 2]}
    scores = run.model.scores(run.model.prepare_visual(photos()), run.model.prepare_text(TEXTS))
    assert (scores.argmax(0) == OWNERS).all()
    assert (OWNERS[scores.argmax(1)] == np.arange(12)).all()


@pytest.mark.parametrize("kind", [*KINDS, "reward"])
def test_a_killed_run_resumes_bit_for_bit(tmp_path: Path, kind: str) -> None:
    def stop(doing: str, done: int, total: int | None) -> None:
        if done == 3:
            raise KilledError

    def trainer(name: str, **others: Any) -> Trainer[torch.Tensor]:
        if kind == "reward":
            settings = replace(SETTINGS, save_every=2, batch_size=4, ema_decay=0.5)
            return RewardRun(replace(CAPTIONER, dropout=0.2), settings).trainer(tmp_path / name, **others)
        settings = replace(SETTINGS, threads=2, save_every=2, weight_decay=1e-4, max_grad_norm=1.0)
        return LikelihoodRun(KINDS[kind], settings).trainer(tmp_path / name, **others)

    trainer("unbroken").train()
    with pytest.raises(KilledError):
        trainer("run", on_progress=stop).train()
    trainer("run").train(resume=True)
    assert same_run(tmp_path / "run", tmp_path / "unbroken")


def test_captions_of_a_photo_are_sampled_uniformly() -> None:
    likelihood = RewardRun().likelihood
    torch.manual_seed(0)
    sampled = torch.cat([likelihood.sample_captions(torch.tensor([7, 3])) for _ in range(50)])
    assert sorted(set(sampled.tolist())) == [6, 7, 14, 15]
    assert np.bincount(sampled)[[6, 7, 14, 15]].min() > 15


def test_a_random_view_of_each_photo_is_drawn() -> None:
    owners = torch.tensor([0, 3, 1]).repeat(200)
    rows = draw_views(owners, 4)
    assert torch.equal(rows // 4, owners)
    assert set((rows % 4).tolist()) == {0, 1, 2, 3}
    assert torch.equal(draw_views(owners, 1), owners)


@pytest.mark.parametrize("run", [LikelihoodRun(CAPTIONER), RewardRun()], ids=["likelihood", "reward"])
def test_a_loss_takes_the_views_of_its_photos_only(run: LikelihoodRun) -> None:
    whole, batch = run.loss, torch.tensor([2, 5])
    photos = batch if isinstance(run, RewardRun) else whole.photo_of_caption[batch]
    own = torch.isin(torch.arange(12), photos).repeat_interleave(3)

    def loss(spoilt: torch.Tensor) -> float:
        rows = spoilt.nonzero()[:, 0]
        views = tuple(part.repeat_interleave(3, 0).index_fill(0, rows, torch.nan) for part in whole.photos)
        return replace(whole, photos=views, views=3)(run.model.network, batch).total.item()

    assert np.isfinite(loss(~own))
    assert np.isnan(loss(own))
