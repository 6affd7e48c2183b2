"""A model of another package, registered by an entry point, in all commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from tests.models.coloured import make_coloured

Command = Callable[..., subprocess.CompletedProcess[str]]

TABLE = """
paper = "A paper of another package"

[models.toy]
model = "toy"
changes = ["epochs=2"]

[tables.toy-1]
title = "Retrieval"
source = "Table 1"
data = ["Flickr8k"]
needs = ["train", "dev"]
columns = [{ name = "i2t_r1", heading = "R@1" }, { name = "t2i_medr", heading = "med r" }]

[[tables.toy-1.parts]]
rows = [{ key = "toy", label = "Toy", figures = [50.0, "-"], recipe = { task = "retrieval", model = "toy" } }]
"""

KILLED = """
import os, signal, sys
from deixis.cli.main import _run
from deixis.models.training.trainer import Trainer
save = Trainer._save_last
def save_and_die(trainer):
    save(trainer)
    os.kill(os.getpid(), signal.SIGKILL)
Trainer._save_last = save_and_die
_run(sys.argv[1:])
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run Python with the other package installed, in a folder with a data set and its features."""
    installed = tmp_path / "site"
    facts = installed / "toy_model-1.0.dist-info"
    facts.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("toy_model.py"), installed / "toy_model.py")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[deixis.models]\ntoy = toy_model:SPEC\n")
    make_coloured(tmp_path)
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments: object, code: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
        start = [sys.executable, *(["-c", code] if code else ["-m", "deixis.cli.main"])]
        done = subprocess.run(
            [*start, *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done

    return run


def test_a_registered_model_is_listed_with_its_settings(command: Command) -> None:
    assert "toy" in json.loads(command("models", "--json").stdout)["trainable"]
    listed = json.loads(command("train", "toy", "--list-settings", "--json").stdout)["settings"]
    defaults = {setting["name"]: setting["default"] for setting in listed}
    assert (defaults["embedding_dim"], defaults["epochs"], defaults["train_split"]) == ("4", "4", "train")
    assert "toy" in command("train", "toi", "--list-settings", status=2).stderr


@pytest.mark.slow
def test_a_registered_model_is_trained_resumed_loaded_evaluated_and_tabulated(command: Command, tmp_path: Path) -> None:
    data = Dataset(tmp_path / "data")
    colours = {colour: row for row, colour in enumerate(("red", "green", "blue", "yellow"))}
    named = [colours[photo.captions[0].text.split()[1]] for photo in data.photos]
    np.savez(tmp_path / "seen.npz", ids=data.photos.ids, features=np.eye(4, dtype=np.float32)[named])
    command("features", "data", "--import", "seen.npz", "--out", "store")

    train = ["train", "toy", "--data", "data", "--set", "features_dir=store", "--set", "device=cpu", "--json"]
    answer = json.loads(command(*train, "--out", "whole").stdout)
    assert (answer["photos"], answer["sentences"], answer["settings"]["embedding_dim"]) == (16, 32, 4)
    assert (answer["dev"]["split"], answer["dev"]["n"]) == ("dev", 8)
    command(*train, "--out", "broken", code=KILLED, status=-signal.SIGKILL)
    command(*train, "--out", "broken", status=2)
    command(*train, "--out", "broken", "--resume")
    whole, broken = (tmp_path / name / "model" / "weights.safetensors" for name in ("whole", "broken"))
    assert whole.read_bytes() == broken.read_bytes()
    card = (tmp_path / "whole" / "model" / "README.md").read_text()
    assert "# toy, trained on data" in card
    assert "deixis train toy --data data --set features_dir=store" in card

    scored = ["evaluate", "retrieval", "--model", "whole", "--data", "data", "--split", "dev", "--features", "store"]
    found = json.loads(command(*scored, "--json").stdout)
    assert found["i2t_r1"] == pytest.approx(answer["dev"]["i2t_r1"])

    (tmp_path / "tables.toml").write_text(TABLE)
    changes = ["--set", "features_dir=store", "--set", "device=cpu", "--seeds", 1]
    table = json.loads(command("table", "tables.toml", "--data", "data", *changes, "--json").stdout)
    [row] = table["rows"]
    assert row["published"] == {"i2t_r1": 50.0, "t2i_medr": None}
    assert 0 <= row["ours"]["i2t_r1"] <= 100
