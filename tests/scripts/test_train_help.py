"""Training the models that help annotators."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from train_help import fit_calibration

from deixis.annotate.help.boxes import GroundedBox
from deixis.annotate.help.coreference import Coreference
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from tests.annotate.fakes import BOX

SCRIPT = Path(__file__).parents[2] / "scripts" / "train_help.py"


@pytest.mark.slow
def test_the_coreference_model_is_trained_by_one_command(tmp_path: Path) -> None:
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
    command = [sys.executable, str(SCRIPT), "links", str(tmp_path / "data"), "--held-out", "2"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "made")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "B³" in done.stdout
    assert {file.name for file in (tmp_path / "made").iterdir()} == {"config.json", "weights.safetensors"}
    assert Coreference.load(tmp_path / "made").fingerprint in done.stdout


def test_the_calibration_recovers_the_true_probabilities() -> None:
    dice = np.random.default_rng(0)
    examples = []
    for kind, shift in (("people", 0.0), ("other", -2.0)):
        for support in dice.uniform(0.02, 0.98, 3000):
            odds = np.log(support / (1 - support)) + shift
            examples.append((GroundedBox("", (kind,), BOX, support), dice.random() < 1 / (1 + np.exp(-odds))))
    found = fit_calibration(examples, good_iou=0.6, about="dice")
    assert found.slope == pytest.approx(1, abs=0.1)
    assert found.probability(GroundedBox("", ("people",), BOX, 0.5)) == pytest.approx(0.5, abs=0.04)
    assert found.probability(GroundedBox("", ("other",), BOX, 0.5)) == pytest.approx(1 / (1 + np.exp(2)), abs=0.03)


def test_a_calibration_needs_boxes() -> None:
    with pytest.raises(DeixisError, match="no box"):
        fit_calibration([], good_iou=0.6, about="")
