"""Figure 3 as a whole: its stages, its files, and going on after a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.models.hm_lstm import HMLSTM
from tests.training.parsed import LOOP, MODEL, alternation, made_correspondences, parsed_photos, right_share

PROGRAM = Path(__file__).with_name("parsed.py")
ROOT = Path(__file__).parents[2]


def run(out: Path, *words: str, stop: int = 0, processes: int = 1) -> None:
    """Go through all stages in processes of their own."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    environment = {**os.environ, "STOP": str(stop), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(PROGRAM), str(out), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == (-9 if stop else 0), done.stderr


def test_roots_come_first_then_correspondences_and_phrases_in_turn(tmp_path: Path) -> None:
    outcomes = alternation(tmp_path / "run").train()
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["0-roots", "1-correspondences.jsonl", "1-phrases", "2-correspondences.jsonl", "2-phrases"]
    assert [outcome.steps for outcome in outcomes] == [6, 6, 6]

    def terms(stage: str) -> list[dict[str, float]]:
        lines = (json.loads(line) for line in (tmp_path / "run" / stage / "log.jsonl").read_text().splitlines())
        return [line["terms"] for line in lines if "terms" in line]

    assert all(line["phrases"] == 0 for line in terms("0-roots"))
    assert any(line["phrases"] > 0 for line in terms("1-phrases"))


def test_without_being_told_it_finds_most_of_the_regions_that_phrases_name(tmp_path: Path) -> None:
    settings = replace(MODEL, hidden=16, round_epochs=8, margin=0.3)
    shares: list[float] = []
    run = replace(
        alternation(tmp_path / "run", settings, replace(LOOP, epochs=20), photos=40),
        on_correspondences=lambda _, found: shares.append(right_share(parsed_photos(40), found)),
    )
    run.train()
    assert min(shares) > 0.5  # at random it would be 0.25
    assert shares[1] > shares[0]


def test_a_model_of_each_stage_can_be_opened(tmp_path: Path) -> None:
    settings = replace(MODEL, rounds=1)
    made = alternation(tmp_path / "run", settings)
    outcomes = made.train()
    last = HMLSTM.load(outcomes[-1].model)
    np.testing.assert_array_equal(last.prepare_text(["a dog"]), made.model.prepare_text(["a dog"]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that nobody killed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    alternation(out).train()
    return out


@pytest.mark.parametrize("stop", [4, 7, 20])
def test_killed_in_any_stage_it_goes_on_to_the_same_bits(tmp_path: Path, whole: Path, stop: int) -> None:
    run(tmp_path / "killed", stop=stop)
    alternation(tmp_path / "killed").train(resume=True)
    for name in ("1-correspondences.jsonl", "2-correspondences.jsonl"):
        assert (tmp_path / "killed" / name).read_bytes() == (whole / name).read_bytes()
    ours, theirs = (HMLSTM.load(folder / "2-phrases" / "model") for folder in (tmp_path / "killed", whole))
    for (name, one), other in zip(ours.network.state_dict().items(), theirs.network.state_dict().values(), strict=True):
        assert one.equal(other), name


def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    alternation(tmp_path / "one", replace(MODEL, rounds=1)).train()
    run(tmp_path / "two", "rounds=1", processes=2)
    for stage in ("0-roots", "1-phrases"):
        one, two = (
            [json.loads(line) for line in (tmp_path / folder / stage / "log.jsonl").read_text().splitlines()]
            for folder in ("one", "two")
        )
        losses = [[line["loss"] for line in lines if "loss" in line] for lines in (one, two)]
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


def test_with_gold_no_correspondences_are_sought(tmp_path: Path) -> None:
    settings = replace(MODEL, correspondences="gold", rounds=1)
    gold = made_correspondences(parsed_photos())
    alternation(tmp_path / "run", settings, gold=gold).train()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["0-roots", "1-phrases"]


def test_gold_that_is_not_there_or_not_wanted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="not given"):
        alternation(tmp_path / "run", replace(MODEL, correspondences="gold")).train()
    with pytest.raises(DeixisError, match="not used"):
        alternation(tmp_path / "run", gold=made_correspondences(parsed_photos())).train()


def test_going_on_as_something_else_is_refused(tmp_path: Path) -> None:
    alternation(tmp_path / "run", replace(MODEL, rounds=0)).train()
    with pytest.raises(DeixisError, match="margin"):
        alternation(tmp_path / "run", replace(MODEL, rounds=0, margin=0.5)).train(resume=True)
    with pytest.raises(DeixisError, match="not empty"):
        alternation(tmp_path / "run", replace(MODEL, rounds=0)).train()
