"""`deixis train hm-lstm` on the command line, and the use of the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.main import _run
from deixis.language.vectors import WordVectors
from tests.models.coloured import COLOURS
from tests.models.quarters import make_quarters, use_small_encoders

SMALL = [
    f"--set={setting}"
    for setting in (
        *("hidden_size=8", "embedding_dim=6", "epochs=2", "rounds=1", "round_epochs=1", "batch_size=8"),
        *("proposals=corners", "max_proposals=4", "word_vectors=vectors", "device=cpu", "threads=1"),
    )
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    use_small_encoders(monkeypatch)
    words = [*COLOURS, "a", "the", "square", "one"]
    WordVectors(np.eye(len(words), dtype=np.float32), words).save("vectors")
    make_quarters(tmp_path)
    return Path("data")


@pytest.fixture
def model(data: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL]) == 0
    capsys.readouterr()
    return Path("hm-lstm.model")


def test_training_reports_scores_and_the_next_command(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["train", "hm-lstm", "--data", "data", "--settings", "deixis/hm-lstm", *SMALL]) == 0
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith("hm-lstm.model: hm-lstm, learned from 16 photos, 32 sentences and ")
    assert second.startswith("dev (8 photos): i2t_r1 ")
    assert err.splitlines()[-1] == "next: deixis evaluate retrieval --model hm-lstm.model --data data --split dev"


@pytest.mark.parametrize(
    ("task", "scores"),
    [("retrieval", ["i2t_r1", "t2i_medr"]), ("regions", ["r1", "medr"]), ("sentences", ["s2s_r1"]),
     ("grounding", ["r1", "upper_bound", "blind_r1", "by_type"])],
)  # fmt: skip
def test_each_task_can_be_evaluated(
    model: Path, capsys: pytest.CaptureFixture[str], task: str, scores: list[str]
) -> None:
    assert _run(["evaluate", task, "--model", str(model), "--data", "data", "--split", "dev", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(name in found for name in scores)


def test_the_model_of_each_stage_can_be_evaluated(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stage in ("0-roots", "1-phrases"):
        assert _run(["evaluate", "grounding", "--model", str(model / stage), "--data", "data", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["proposals"]["mean"] == 5  # the whole photo and four corners


def test_a_sentence_is_grounded_and_drawn(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ground", "images/0002.png", "A red square beside the blue one.", "--model", str(model)]
    assert _run([*command, "--picture", "grounded.png", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["phrases"][0]["text"] == "A red square"
    assert Path("grounded.png").stat().st_size > 0


def test_a_finished_run_is_not_overwritten_and_can_be_resumed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (model / "model" / "weights.safetensors").read_bytes()
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL]) == 2
    assert "--resume" in capsys.readouterr().err
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL, "--resume"]) == 0
    assert (model / "model" / "weights.safetensors").read_bytes() == before


def test_missing_word_vectors_are_an_error(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["train", "hm-lstm", "--data", "data", *SMALL, "--set", "word_vectors=none.txt"]) == 2
    assert "none.txt" in capsys.readouterr().err
