"""A tiny thing to train: two branches with dropout and batch norm, on made-up pairs. Also a program, to be killed.

``python tiny.py OUT [--resume] [key=value…]``; in the environment, STOP makes the program kill itself after this many
steps.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.models.training.objective import DevScores, LossValue
from deixis.models.training.run_record import DataDescription, RunDescription
from deixis.models.training.settings import Settings, TrainSettings
from deixis.models.training.trainer import Trainer
from deixis.storage.artifacts import Artifact, write_into

ROWS, WIDTH = 203, 12
SETTINGS = TrainSettings(epochs=3, batch_size=32, learning_rate=0.01, log_every=3, device="cpu", threads=1)
ABOUT = RunDescription(
    "tiny", {"width": WIDTH}, DataDescription("made up", "abc", {"train": "def"}, "free for all"), "python tiny.py OUT"
)


def read_log(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Branches(nn.Module):
    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.visual = branch(8, dropout)
        self.text = branch(6, dropout)
        self.scale = nn.Parameter(torch.tensor(3.0))
        self.idle = nn.Linear(2, 2)  # takes no part, as some weights of some models in some epochs


def branch(inputs: int, dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, WIDTH, bias=False), nn.BatchNorm1d(WIDTH)
    )


class Rows:
    """Rows of a made-up data set in an order drawn again each epoch; the last batch is smaller."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def __len__(self) -> int:
        return -(-ROWS // self.batch_size)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Tensor]:
        order = torch.from_numpy(generator.permutation(ROWS))
        yield from order.split(self.batch_size)


class Contrast:
    """Cross entropy among the pairs of the whole batch, with a temperature that is learnt."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(7)
        shared = torch.randn(ROWS, 5, generator=generator)
        self.photos = shared @ torch.randn(5, 8, generator=generator)
        self.sentences = shared @ torch.randn(5, 6, generator=generator)

    def __call__(self, network: Branches, batch: Tensor) -> LossValue:
        visual = functional.normalize(network.visual(self.photos[batch]))
        text = functional.normalize(network.text(self.sentences[batch]))
        scores = network.scale * visual @ text.T
        to_text = functional.cross_entropy(scores, torch.arange(len(batch)))
        to_visual = functional.cross_entropy(scores.T, torch.arange(len(batch)))
        return LossValue(to_text + to_visual, {"to_text": to_text.detach(), "to_visual": to_visual.detach()})


class Tiny:
    """All that a run needs."""

    def __init__(self, settings: TrainSettings = SETTINGS, dropout: float = 0.3) -> None:
        torch.manual_seed(1)
        self.settings = settings
        self.network = Branches(dropout)
        self.loss = Contrast()

    def evaluate(self) -> DevScores:
        assert not self.network.training
        visual, text = self.network.visual(self.loss.photos), self.network.text(self.loss.sentences)
        right = (visual @ text.T).argmax(1) == torch.arange(ROWS)
        torch.rand(3)  # what dev draws must not matter
        return DevScores("r1", {"r1": 100 * right.double().mean().item(), "mean": visual.mean().item()})

    def keep(self, folder: Path) -> None:
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        write_into(folder, Artifact("tiny", {}, arrays))

    def trainer(self, out: Path, **others: object) -> Trainer[Tensor]:
        chosen = {"about": ABOUT, "keep": self.keep, "evaluate": self.evaluate} | others
        if not isinstance(chosen["evaluate"], dict):
            chosen["evaluate"] = {"dev": chosen["evaluate"]}
        return Trainer(self.network, Rows(self.settings.batch_size), self.loss, self.settings, out, **chosen)


def stop(doing: str, done: int, total: int | None) -> None:
    if done == int(os.environ.get("STOP", "0")):
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    out, *rest = sys.argv[1:]
    settings = Settings((SETTINGS,)).with_assignments([word for word in rest if "=" in word])[TrainSettings]
    made = Tiny(settings)
    made.trainer(Path(out), on_progress=stop).train(resume="--resume" in rest)


if __name__ == "__main__":
    main()
