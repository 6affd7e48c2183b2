"""`deixis train hm-lstm` on the command line, and the use of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.language.vectors import WordVectors
from tests.cli.conftest import Command
from tests.models.coloured import COLOURS
from tests.models.quarters import make_quarters, use_small_encoders

SMALL = [
    f"--set={setting}"
    for setting in (
        *("hidden_size=8", "embedding_dim=6", "epochs=2", "rounds=1", "round_epochs=1", "batch_size=8"),
        *("proposals=corners", "max_proposals=4", "word_vectors=vectors", "device=cpu", "threads=1"),
    )
]
TRAIN = ("train", "hm-lstm", "--data", "data", *SMALL)


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    use_small_encoders(monkeypatch)
    words = [*COLOURS, "a", "the", "square", "one"]
    WordVectors(np.eye(len(words), dtype=np.float32), words).save("vectors")
    make_quarters(tmp_path)


@pytest.fixture
def model(command: Command) -> Path:
    command(*TRAIN)
    return Path("hm-lstm.model")


def test_training_reports_scores_and_a_finished_run_is_not_overwritten(command: Command) -> None:
    out, err = command(*TRAIN, "--settings", "deixis/hm-lstm")
    first, second = out.splitlines()
    assert first.startswith("hm-lstm.model: hm-lstm, learned from 16 photos, 32 sentences and ")
    assert second.startswith("dev (8 photos): i2t_r1 ")
    assert err.splitlines()[-1] == "next: deixis evaluate retrieval --model hm-lstm.model --data data --split dev"
    assert "--resume" in command.error(*TRAIN)


def test_every_task_and_the_model_of_every_stage_can_be_evaluated(model: Path, command: Command) -> None:
    scores = {
        "retrieval": {"i2t_r1", "t2i_medr"},
        "regions": {"r1", "medr"},
        "sentences": {"s2s_r1"},
        "grounding": {"r1", "upper_bound", "blind_r1", "by_type"},
    }
    for task, names in scores.items():
        assert names <= set(command.json("evaluate", task, "--model", model, "--data", "data", "--split", "dev"))
    for stage in ("0-roots", "1-phrases"):
        found = command.json("evaluate", "grounding", "--model", model / stage, "--data", "data")
        assert found["proposals"]["mean"] == 5  # the whole photo and four corners


def test_missing_word_vectors_are_an_error(command: Command) -> None:
    assert "none.txt" in command.error(*TRAIN, "--set", "word_vectors=none.txt")
