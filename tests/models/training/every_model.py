"""Every model that learns by the loop, on made-up data, trained by one process or by several: a program for torchrun.

``python every_model.py OUT`` trains all of them into folders below OUT, once plainly and once in half precision with
gradients of two batches added up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from deixis.models.training.distributed import leave, processes
from deixis.models.training.settings import Settings, TrainSettings
from tests.models.grounder import made_up as pointing
from tests.models.hm_lstm import made_up as parsed
from tests.models.m_rnn.caption_runs import CAPTIONER, SMALL, LikelihoodRun, RewardRun
from tests.models.training import real

SETTINGS = TrainSettings(epochs=2, batch_size=9, learning_rate=0.002, log_every=1, device="cpu", threads=1)
WAYS = {"plain": (), "mixed": ("precision=bfloat16", "gradient_accumulation=2")}


def of_paper(name: str) -> Callable[[Path, TrainSettings], None]:
    def train(out: Path, settings: TrainSettings) -> None:
        real.trainer(out, name, replace(settings, batch_size=20)).train()

    return train


def grounder(out: Path, settings: TrainSettings) -> None:
    model = replace(pointing.SMALL, presence_weight=0.5, num_layers=1, use_feature_map=True)
    pointing.trainer(out, model, replace(settings, batch_size=23)).train()  # the last batch is of one caption


def hm_lstm(out: Path, settings: TrainSettings) -> None:
    parsed.train_made_up(out, replace(parsed.MODEL, rounds=1, round_epochs=1), settings)


def m_rnn(out: Path, settings: TrainSettings) -> None:
    LikelihoodRun(SMALL, replace(settings, batch_size=23)).trainer(out).train()  # the last batch is of one caption


def captioner(out: Path, settings: TrainSettings) -> None:
    LikelihoodRun(CAPTIONER, replace(settings, batch_size=23)).trainer(out).train()


def self_critical(out: Path, settings: TrainSettings) -> None:
    RewardRun(settings=replace(settings, batch_size=11)).trainer(out).train()  # the last batch is of one photo


MODELS: dict[str, Callable[[Path, TrainSettings], None]] = {
    **{name: of_paper(name) for name in real.MODELS},
    "grounder": grounder,
    "hm-lstm": hm_lstm,
    "m-rnn": m_rnn,
    "captioner": captioner,
    "self-critical": self_critical,
}


def main() -> None:
    out = Path(sys.argv[1])
    with processes(torch.device("cpu")):
        for way, words in WAYS.items():
            for name, train in MODELS.items():
                train(out / way / name, Settings((SETTINGS,)).with_assignments(words)[TrainSettings])


if __name__ == "__main__":
    main()
    leave()
