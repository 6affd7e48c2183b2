"""`deixis train` as a person types it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deixis.cli.main import _run
from deixis.data.importing import import_dataset
from deixis.data.samples import SAMPLES
from deixis.models.cca import CCA
from deixis.tasks.bundle import Bundle
from deixis.training.log import read_log
from deixis.vision import encoders
from deixis.vision.store import FeatureStore
from tests.conftest import Run
from tests.tasks.coloured import make_coloured
from tests.tasks.quarters import make_quarters, make_store, use_small_encoders
from tests.test_house import HEAVY, modules_after
from tests.vision.store.small import colour_encoder

FEW = ["--set", "components=2", "--set", "regularisation=0.01"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of twenty-four small photos, and an encoder that needs no weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    make_coloured(tmp_path)
    return Path("data")


def train(*arguments: object) -> int:
    return _run(["train", "cca", "--data", "data", *map(str, arguments)])


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What is said of a mistake: one line."""
    assert train(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_it_says_what_it_learned_from_and_how_good_it_is(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(*FEW) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "cca.model: cca, learned from 16 photos and 32 sentences of data"
    assert out.splitlines()[1].startswith("dev (8 photos): i2t_r1 ")
    assert len(out.splitlines()) == 2
    assert err == "next: deixis evaluate retrieval --model cca.model --data data --split dev\n"
    assert Bundle.load("cca.model").model.dimension == 2


def test_the_model_has_a_card(data: Path) -> None:
    Path("images/0001.png").write_bytes(b"no photo")
    assert train(*FEW, "--set", "train=train") == 0
    card = Path("cca.model/README.md").read_text()
    for words in (
        "# cca, trained on data",
        "| photos of train | sha256:",
        "| photos of dev | sha256:",
        "| photos learned from | 15, with 30 sentences; 1 left out |",
        "| encoder | colours (colours-1) |",
        "| scored on dev | 8 photos; 0 left out |",
        "| i2t_r1 | ",
        "| components | 2 |",
        "```\ndeixis train cca --data data --set components=2 --set regularisation=0.01\n```",
        "The data: not stated; ask the makers of the data.",
    ):
        assert words in card, words
    assert "epoch" not in card


def test_json_is_one_document(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = Path("images/0001.png").absolute()
    bad.write_bytes(b"no photo")
    assert train(*FEW, "--out", "here/a.model", "--json") == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert err == ""
    assert (answer["model"], answer["out"], answer["photos"], answer["sentences"]) == ("cca", "here/a.model", 15, 30)
    assert answer["settings"]["components"] == 2
    assert answer["left_out"] == [f"{bad}: not a photo in a known format"]
    assert (answer["dev"]["split"], answer["dev"]["n"], answer["dev"]["left_out"]) == ("dev", 8, [])
    assert 0 <= answer["dev"]["i2t_r1"] <= 100


def test_photos_that_cannot_be_read_are_named_but_do_not_flood(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for photo in sorted(Path("images").iterdir())[:11]:
        photo.write_bytes(b"no photo")
    assert train(*FEW) == 0
    out, err = capsys.readouterr()
    assert "learned from 8 photos" in out
    assert "dev (5 photos)" in out
    assert err.count("left out: ") == 11
    assert "0000.png: not a photo in a known format" in err
    assert "left out: … and 1 more (--json lists all)" in err


def test_what_is_typed_comes_before_the_file_and_the_file_before_the_defaults(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("few.json").write_text('{"components": 3, "power": 2, "regularisation": 0.01}')
    assert train("--settings", "few.json", "--set", "components=2", "--json") == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["components"], settings["power"], settings["text"]) == (2, 2, "tfidf")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "colour=2"], "--set colour=2: no setting is called 'colour'; there are: learn"),
        (["--set", "text=bag"], "'bag' is none of mean, tfidf, fisher, hglmm"),
        (["--set", "crops=3"], "crops=3: must be 0 or 10"),
        (["--set", "train=none"], "no split 'none' to learn from; it has: dev, train"),
        (["--set", "components=99"], "99 components cannot be had from 32 pairs"),
        (["--set", "features=nowhere"], "nowhere: not a feature store; is there a typing mistake?"),
        (["--settings", "nowhere.json"], "nowhere.json: cannot be read"),
        (["--images", "nowhere"], "nowhere: no such folder; say where the photos are now with --images DIR"),
        (["--out", "images"], "images: not replaced, it is no model; give another name"),
        (["--out", "data"], "data: not replaced, it is no model; give another name"),
        (["--out", "images/0001.png"], "0001.png: a file has this name; give another name"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_model(
    data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    there = sorted(Path("data").glob("*"))
    assert words in refusal(capsys, *FEW, *arguments)
    assert not Path("cca.model").exists()
    assert sorted(path.name for path in Path().iterdir()) == ["data", "images"]
    assert [path for path in sorted(Path("data").glob("*")) if path.name != "features"] == there


def test_a_place_that_cannot_be_used_is_known_before_the_work(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refusal(capsys, *FEW, "--out", "images")
    assert not Path("data/features").exists()


def test_imported_features_are_learned_from_and_scored(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)
    np.savez("theirs.npz", ids=[f"{number:04d}" for number in range(23)], features=rows)
    assert _run(["features", "data", "--import", "theirs.npz", "--out", "theirs"]) == 0
    capsys.readouterr()
    assert train(*FEW, "--set", "features=theirs") == 0
    out, err = capsys.readouterr()
    assert "learned from 16 photos" in out
    assert "dev (7 photos)" in out
    assert "left out: 0023: not in theirs" in err
    assert Bundle.load("cca.model").encoder.is_imported


def test_ctrl_c_leaves_the_older_model_and_the_features(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(*FEW) == 0
    before = Path("cca.model/model/weights.safetensors").read_bytes()

    def stop(self: CCA, pairs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CCA, "fit_blocks", stop)
    capsys.readouterr()
    assert train(*FEW, "--set", "power=2") == 130
    assert capsys.readouterr().err == "deixis: stopped; what was finished is kept, and nothing half-made\n"
    assert Path("cca.model/model/weights.safetensors").read_bytes() == before
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []
    assert len(FeatureStore("data/features/colours")) == 24


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("moment", ["fit_blocks", "save"])
def test_kill_9_leaves_no_half_model_and_the_next_run_none_of_its_rests(data: Path, moment: str) -> None:
    child = os.fork()
    if child == 0:
        setattr(CCA, moment, lambda self, given: os.kill(os.getpid(), signal.SIGKILL))
        try:
            train(*FEW)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert not Path("cca.model").exists()
    assert set(FeatureStore("data/features/colours").ids) >= {"0000", "0001"}
    assert train(*FEW) == 0
    assert Bundle.load("cca.model").model.dimension == 2
    assert sorted(path.name for path in Path().iterdir()) == ["cca.model", "data", "images"]


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos of four coloured quarters in ./data, and in ./store their features."""
    monkeypatch.chdir(tmp_path)
    use_small_encoders(monkeypatch)
    make_store(make_quarters(tmp_path), tmp_path / "store")
    return tmp_path


def settings(*assignments: str) -> list[str]:
    return [word for each in assignments for word in ("--set", each)]


SMALL_RUN = settings(
    "features=store",
    "learn=phrases",
    "proposals=corners",
    "top=4",
    "hidden=8",
    "dimension=4",
    "epochs=3",
    "batch_size=8",
    "log_every=1",
    "device=cpu",
    "threads=1",
)


def test_a_network_says_what_it_learned_from_and_how_good_it_is(
    quarters: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(["train", "two-branch", "--data", "data", *SMALL_RUN]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "two-branch.model: two-branch, learned from 16 photos and 32 phrases of data"
    assert re.fullmatch(r"dev \(8 photos\): r1 [\d.]+, r5 100.0, r10 100.0, upper_bound 100.0", out.splitlines()[1])
    assert err == "next: deixis evaluate grounding --model two-branch.model --data data --split dev\n"
    assert _run(["train", "two-branch", "--data", "data", *SMALL_RUN]) == 2
    said = capsys.readouterr().err
    assert said == "deixis: two-branch.model: not empty; go on with it by --resume, or give another directory\n"


def test_a_network_answers_in_json(quarters: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["train", "similarity", "--data", "data", *SMALL_RUN, "--out", "s", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    answer = json.loads(out)
    assert (answer["model"], answer["out"], answer["photos"], answer["phrases"]) == ("similarity", "s", 16, 32)
    assert (answer["settings"]["top"], answer["settings"]["hidden"], answer["settings"]["epochs"]) == (4, 8, 3)
    assert answer["dev"]["upper_bound"] == 100


KILLED = """
import os, signal, sys
from deixis.cli.main import _run
from deixis.training.trainer import Trainer
saved, save = [], Trainer._save_last
def save_and_die(trainer):
    save(trainer)
    saved.append(trainer)
    if len(saved) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
Trainer._save_last = save_and_die
_run(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_very_same_model(quarters: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "two-branch", "--data", "data", *SMALL_RUN]
    assert _run([*command, "--out", "whole"]) == 0
    killed = subprocess.run([sys.executable, "-c", KILLED, *command, "--out", "broken"], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert _run([*command, "--out", "broken", "--resume"]) == 0
    for name in ("model/weights.safetensors", "bundle.json"):
        assert Path("whole/model", name).read_bytes() == Path("broken/model", name).read_bytes(), name
    assert losses("whole") == losses("broken")
    capsys.readouterr()
    assert _run([*command, "--set", "margin=0.3", "--out", "broken", "--resume"]) == 2
    assert "the run began with margin of the model = 0.05, now it is 0.3" in capsys.readouterr().err


def losses(out: str) -> list[float]:
    return [line["loss"] for line in read_log(Path(out) / "log.jsonl") if "loss" in line]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["two-branch", "similarity"])
def test_two_processes_train_what_one_trains(quarters: Path, model: str) -> None:
    command = ["train", model, "--data", "data", *SMALL_RUN]
    assert _run([*command, "--out", "one"]) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*torchrun, "-m", "deixis.cli.main", *command, "--out", "two", "--json"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dev"]["upper_bound"] == 100  # one process alone has spoken
    assert losses("two") == pytest.approx(losses("one"), rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cca", "--data", "data", "--resume"], "--resume: cca learns in one pass"),
        (["two-branch"], "give --data DATA, a data set directory (--list-settings needs none)"),
        (["similarity", "--data", "data", *settings("reader=lstm")], "no setting is called 'reader'"),
        (["two-branch", "--data", "data", *settings("learn=both")], "learn=both: only cca learns from both together"),
        (["two-branch", "--data", "data", "--settings", "papers/two"], "two-branch has no settings of this name"),
        (
            ["two-branch", "--data", "data", *settings("features=store", "learn=phrases")],
            "no 100 proposals for a photo",
        ),
        (["two-branch", "--data", "data", "--resume"], "two-branch.model: no run to go on with (run.json is missing)"),
        (["no-model", "--data", "data"], "'no-model' is not one of"),
    ],
)
def test_what_cannot_be_trained_is_one_line(
    quarters: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    if "features=store" in arguments:
        arguments += settings("proposals=corners")
    assert _run(["train", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


def test_all_settings_are_listed_with_what_they_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["train", "two-branch", "--list-settings"]) == 0
    out = capsys.readouterr().out
    for words in ("most_negatives", "K of Algorithm 1", "learning_rate", "papers/two-branch-phrases", "[triplet, "):
        assert words in out, words
    assert _run(["train", "cca", "--list-settings", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "papers/cca-joint" in answer["names"]
    assert {"name": "power", "default": "1.0"}.items() <= next(
        setting for setting in answer["settings"] if setting["name"] == "power"
    ).items()


def test_help_loads_nothing_heavy() -> None:
    assert modules_after("-m", "deixis.cli.main", "train", "--help").isdisjoint(HEAVY)


@pytest.mark.slow
def test_the_sample_photos_are_learned_and_found_again(deixis: Run, tmp_path: Path) -> None:
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
    done = deixis("train", "cca", "--data", "data", "--set", "components=8", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dev"]["split"] == "val"
    found = deixis("evaluate", "retrieval", "--model", "cca.model", "--data", "data", "--split", "train", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["t2i_r5"] > 80  # what it has learned from; chance is 56
