"""The model for links, trained again by its command: on a few photos, to see that all of it fits together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deixis.annotate.help.coreference import Coreference
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES

SCRIPT = Path(__file__).parents[3] / "scripts" / "train_help.py"


@pytest.mark.slow
def test_one_command_learns_links_from_a_data_set(tmp_path: Path) -> None:
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
    assert {file.name for file in (tmp_path / "made").iterdir()} == {"settings.json", "weights.safetensors"}
    assert Coreference.load(tmp_path / "made").fingerprint in done.stdout
