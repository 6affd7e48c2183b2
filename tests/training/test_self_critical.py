"""Learning from sentences that a network has drawn itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deixis.errors import DatasetError
from deixis.models.m_rnn import MRNNNetwork
from deixis.tokens import words
from deixis.training.base import DevScores
from deixis.training.captions import cider_of
from deixis.training.cider_reward import CiderReward
from deixis.training.self_critical import PhotoSampler, RewardObjective, draw
from deixis.training.settings import TrainSettings
from deixis.training.trainer import Trainer
from tests.training.test_captions import OWNERS, SETTINGS, SMALL, TEXTS, Made
from tests.training.test_trainer import KilledError, same_run

KIND = replace(SMALL, recurrent="lstm", photo_into="both", attention=True, longest=12)
REFERENCES = [[words(text) for text, owner in zip(TEXTS, OWNERS, strict=True) if owner == photo] for photo in range(12)]


class Drawing(Made):
    """All that a run needs."""

    def __init__(self, kind: Any = KIND, settings: TrainSettings = SETTINGS) -> None:
        super().__init__(kind, settings)
        cells = torch.from_numpy(self.photos.cells).half() if kind.attention else None
        reward, self.people = CiderReward(REFERENCES, self.model.vocabulary), self.loss
        self.loss: Any = RewardObjective(self.loss.photos, reward, samples=4, longest=kind.longest, cells=cells)

    def rewarded(self, out: Path, **others: Any) -> Trainer[torch.Tensor]:
        trainer = self.trainer(out, **others)
        trainer.sampler = PhotoSampler(np.arange(12), self.settings.batch_size)
        trainer.evaluate = lambda: DevScores("cider", {"cider": cider_of(self.model, self.photos, REFERENCES)})
        return trainer


def test_every_photo_is_in_one_batch_of_an_epoch() -> None:
    sampler = PhotoSampler(np.arange(3, 25), 8)
    batches = list(sampler.epoch(0, np.random.default_rng(0)))
    assert len(batches) == len(sampler) == 3
    assert sorted(torch.cat(batches).tolist()) == list(range(3, 25))
    with pytest.raises(DatasetError, match="no photo"):
        PhotoSampler(np.arange(0), 8)


def test_words_are_drawn_as_often_as_they_are_likely_and_ends_end() -> None:
    made = Made(SMALL)
    network = made.model.network.eval()
    torch.manual_seed(0)
    with torch.no_grad():
        photo = torch.from_numpy(made.photos[:1])
        drawn, written = draw(network, [photo], 4000, torch.rand(4000, 6))
        first = network(network.see(photo), torch.tensor([[network.start]]))[0][0].log_softmax(-1)
    shares = np.bincount(drawn[:, 0], minlength=first.shape[1]) / 4000
    np.testing.assert_allclose(shares, first[0].exp(), atol=0.03)
    for row, count in zip(drawn.tolist()[:200], written.tolist(), strict=False):
        ends = network.end in row
        assert count == (row.index(network.end) + 1 if ends else len(row))
        assert not ends or set(row[count:]) <= {network.end}


def test_the_loss_is_that_of_a_plain_loop() -> None:
    made = Drawing(replace(KIND, attention=False))
    network, samples = made.model.network, 4
    kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def reward(drawn: np.ndarray, rows: np.ndarray) -> np.ndarray:
        kept.append((drawn, rows, made.loss.reward(drawn, rows) + np.arange(len(rows)) % 3))
        return kept[-1][2]

    objective = replace(made.loss, reward=reward)
    torch.manual_seed(3)
    found = objective(network, torch.tensor([5, 2]))
    drawn, rows, values = kept[0]
    assert rows.tolist() == [5] * samples + [2] * samples
    total, length = 0.0, 0
    for row, (sentence, photo) in enumerate(zip(drawn.tolist(), rows, strict=True)):
        mates = [value for mate, value in enumerate(values) if rows[mate] == photo and mate != row]
        count = sentence.index(network.end) + 1 if network.end in sentence else len(sentence)
        read = torch.tensor([[network.start, *sentence[:-1]]])
        likely = network(network.see(made.loss.photos[[photo]]), read)[0][0].log_softmax(-1)
        gained = sum(likely[place, sentence[place]].item() for place in range(count))
        total -= (values[row] - np.mean(mates)) * gained
        length += count
    assert found.total.item() == pytest.approx(total / length, rel=1e-4)
    assert found.terms["reward"].item() == pytest.approx(values.mean(), rel=1e-4)
    assert found.terms["words"].item() == pytest.approx(length / len(rows))


def test_peoples_words_are_learned_beside_the_reward_as_much_as_asked() -> None:
    made = Drawing(replace(KIND, attention=False))
    people, network = made.people, made.model.network
    both = replace(made.loss, people=people, words_weight=0.3)
    torch.manual_seed(3)
    found = both(network, torch.tensor([5, 2, 11]))
    torch.manual_seed(3)
    alone = made.loss(network, torch.tensor([5, 2, 11]))
    drawn = people.drawn(torch.tensor([5, 2, 11]))
    assert people.photo_of_caption[drawn].tolist() == [5, 2, 11]
    said = people(network, drawn)
    assert found.total.item() == pytest.approx(alone.total.item() + 0.3 * said.total.item(), rel=1e-5)
    assert found.terms["perplexity"].item() == pytest.approx(said.terms["perplexity"].item(), rel=1e-5)


def test_every_caption_of_a_photo_is_drawn_about_as_often() -> None:
    people = Drawing(KIND).people
    torch.manual_seed(0)
    drawn = torch.cat([people.drawn(torch.tensor([7, 3])) for _ in range(50)])
    assert sorted(set(drawn.tolist())) == [6, 7, 14, 15]
    assert np.bincount(drawn)[[6, 7, 14, 15]].min() > 15


def test_what_is_rewarded_is_written_more_often() -> None:
    made = Drawing(replace(KIND, dropout=0.1))
    network = made.model.network
    optimiser = torch.optim.Adam(network.parameters(), 0.02)
    objective = replace(made.loss, reward=lambda drawn, rows: (drawn == 3).sum(1).astype(float))
    torch.manual_seed(0)
    values = []
    for _ in range(30):
        optimiser.zero_grad()
        found = objective(network.train(), torch.arange(12))
        found.total.backward()
        optimiser.step()
        values.append(found.terms["reward"].item())
    assert np.mean(values[-5:]) > 3 * np.mean(values[:5])


def test_captions_become_better_by_the_score_that_is_aimed_at(tmp_path: Path) -> None:
    settings = replace(SETTINGS, epochs=60, batch_size=12, learning_rate=0.02, evaluate_every=20)
    made = Drawing(KIND, settings)
    before = cider_of(made.model, made.photos, REFERENCES)
    made.rewarded(tmp_path / "run").train()
    assert cider_of(made.model, made.photos, REFERENCES) > before + 50


def test_a_run_that_was_killed_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def stop(doing: str, done: int, total: int | None) -> None:
        if done == 3:
            raise KilledError

    settings = replace(SETTINGS, save_every=2, batch_size=4, average=0.5)
    kind = replace(KIND, dropout=0.2)
    Drawing(kind, settings).rewarded(tmp_path / "unbroken").train()
    with pytest.raises(KilledError):
        Drawing(kind, settings).rewarded(tmp_path / "run", on_progress=stop).train()
    Drawing(kind, settings).rewarded(tmp_path / "run").train(resume=True)
    assert same_run(tmp_path / "run", tmp_path / "unbroken")


def test_only_networks_that_write_can_learn_so() -> None:
    made = Drawing()
    assert isinstance(made.model.network, MRNNNetwork)
    with pytest.raises(TypeError, match="MRNNNetwork"):
        made.loss(torch.nn.Linear(2, 2), torch.tensor([0]))
