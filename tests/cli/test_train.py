"""`deixis train`: output, settings, errors, resuming and several processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES
from deixis.models.cca.model import CCA
from deixis.models.pipeline import load
from deixis.vision import encoders
from deixis.vision.feature_store import FeatureStore
from tests.cli.conftest import Command
from tests.conftest import Run
from tests.models.coloured import make_coloured
from tests.models.quarters import make_quarters, make_store, use_small_encoders
from tests.vision.feature_store.small import colour_encoder

TRAIN = ("train", "cca", "--data", "data", "--set", "embedding_dim=2", "--set", "regularization=0.01")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of twenty-four small photos, and an encoder that needs no weights."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    make_coloured(tmp_path)
    return Path("data")


def test_training_prints_data_scores_and_the_next_command(data: Path, command: Command) -> None:
    out, err = command(*TRAIN)
    assert out.splitlines()[0] == "cca.model: cca, learned from 16 photos and 32 sentences of data"
    assert out.splitlines()[1].startswith("dev (8 photos): i2t_r1 ")
    assert len(out.splitlines()) == 2
    assert err == "next: deixis evaluate retrieval --model cca.model --data data --split dev\n"
    assert load("cca.model").model.dimension == 2


def test_the_model_has_a_card(data: Path, command: Command) -> None:
    Path("images/0001.png").write_bytes(b"no photo")
    command(*TRAIN, "--set", "train_split=train")
    card = Path("cca.model/README.md").read_text()
    for words in (
        "# cca, trained on data",
        "| photos of train | sha256:",
        "| photos of dev | sha256:",
        "| photos learned from | 15, with 30 sentences; 1 left out |",
        "| encoder | colours (colours-1) |",
        "| scored on dev | 8 photos; 0 left out |",
        "| i2t_r1 | ",
        "| embedding_dim | 2 |",
        "```\ndeixis train cca --data data --set embedding_dim=2 --set regularization=0.01\n```",
    ):
        assert words in card, words
    assert "epoch" not in card


def test_json_is_one_document(data: Path, command: Command) -> None:
    bad = Path("images/0001.png").absolute()
    bad.write_bytes(b"no photo")
    answer = command.json(*TRAIN, "--out", "here/a.model")
    assert (answer["model"], answer["out"], answer["photos"], answer["sentences"]) == ("cca", "here/a.model", 15, 30)
    assert answer["settings"]["embedding_dim"] == 2
    assert answer["left_out"] == [f"{bad}: not a photo in a known format"]
    assert (answer["dev"]["split"], answer["dev"]["n"], answer["dev"]["left_out"]) == ("dev", 8, [])
    assert 0 <= answer["dev"]["i2t_r1"] <= 100


def test_unreadable_photos_are_listed_up_to_a_limit(data: Path, command: Command) -> None:
    for photo in sorted(Path("images").iterdir())[:11]:
        photo.write_bytes(b"no photo")
    out, err = command(*TRAIN)
    assert "learned from 8 photos" in out
    assert "dev (5 photos)" in out
    assert err.count("left out: ") == 11
    assert "0000.png: not a photo in a known format" in err
    assert "left out: … and 1 more (--json lists all)" in err


def test_options_override_the_settings_file_and_the_file_overrides_defaults(data: Path, command: Command) -> None:
    Path("small.json").write_text('{"embedding_dim": 3, "correlation_power": 2}')
    settings = command.json(*TRAIN, "--settings", "small.json")["settings"]
    assert (settings["embedding_dim"], settings["correlation_power"], settings["text_features"]) == (2, 2, "tfidf")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "colour=2"], "--set colour=2"),
        (["--set", "text_features=bag"], "'bag'"),
        (["--set", "crops=3"], "crops=3"),
        (["--set", "train_split=none"], "'none'"),
        (["--set", "embedding_dim=99"], "embedding_dim=99"),
        (["--set", "features_dir=nowhere"], "nowhere: "),
        (["--settings", "nowhere.json"], "nowhere.json: "),
        (["--images", "nowhere"], "nowhere: "),
        (["--out", "images"], "images: "),
        (["--out", "data"], "data: "),
        (["--out", "images/0001.png"], "0001.png: "),
    ],
)
def test_errors_are_one_line_and_leave_no_model(data: Path, command: Command, arguments: list[str], words: str) -> None:
    files = sorted(Path("data").glob("*"))
    assert words in command.error(*TRAIN, *arguments)
    assert sorted(path.name for path in Path().iterdir()) == ["data", "images"]
    assert [path for path in sorted(Path("data").glob("*")) if path.name != "features"] == files
    assert "--out" not in arguments or not Path("data/features").exists(), "found before features are computed"


def test_a_model_is_trained_and_scored_on_imported_features(data: Path, command: Command) -> None:
    rows = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)
    np.savez("theirs.npz", ids=[f"{number:04d}" for number in range(23)], features=rows)
    command("features", "data", "--import", "theirs.npz", "--out", "theirs")
    out, err = command(*TRAIN, "--set", "features_dir=theirs")
    assert "learned from 16 photos" in out
    assert "dev (7 photos)" in out
    assert "left out: 0023: not in theirs" in err
    assert load("cca.model").encoder.is_imported


def test_ctrl_c_keeps_the_older_model_and_the_features(
    data: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(*TRAIN)
    before = Path("cca.model/weights.safetensors").read_bytes()

    def stop(self: CCA, pairs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CCA, "fit_blocks", stop)
    _, err = command(*TRAIN, "--set", "correlation_power=2", code=130)
    assert err == "deixis: interrupted; completed work was saved\n"
    assert Path("cca.model/weights.safetensors").read_bytes() == before
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []
    assert len(FeatureStore("data/features/colours")) == 24


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos with coloured quarters in ./data, and their features in ./store."""
    monkeypatch.chdir(tmp_path)
    use_small_encoders(monkeypatch)
    make_store(make_quarters(tmp_path), tmp_path / "store")
    return tmp_path


def settings(*assignments: str) -> list[str]:
    return [word for each in assignments for word in ("--set", each)]


SMALL_RUN = settings(
    *("features_dir=store", "train_on=phrases", "proposals=corners", "max_proposals=4", "hidden_size=8"),
    *("embedding_dim=4", "epochs=3", "batch_size=8", "log_every=1", "device=cpu", "threads=1"),
)


def test_a_network_prints_scores_and_its_output_is_not_overwritten(quarters: Path, command: Command) -> None:
    train = ("train", "two-branch", "--data", "data", *SMALL_RUN)
    out, err = command(*train)
    assert out.splitlines()[0] == "two-branch.model: two-branch, learned from 16 photos and 32 phrases of data"
    assert re.fullmatch(r"dev \(8 photos\): r1 [\d.]+, r5 100.0, r10 100.0, upper_bound 100.0", out.splitlines()[1])
    assert err == "next: deixis evaluate grounding --model two-branch.model --data data --split dev\n"
    error = command.error(*train)
    assert "two-branch.model: " in error
    assert "--resume" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cca", "--data", "data", "--resume"], "--resume: cca"),
        (["two-branch"], "--data DATA"),
        (["similarity", "--data", "data", *settings("text_encoder=lstm")], "text_encoder"),
        (["two-branch", "--data", "data", *settings("train_on=both")], "train_on=both"),
        (["two-branch", "--data", "data", "--settings", "papers/two"], "--settings papers/two"),
        (
            ["two-branch", "--data", "data", *settings("features_dir=store", "train_on=phrases", "proposals=corners")],
            "100 proposals",
        ),
        (["two-branch", "--data", "data", "--resume"], "two-branch.model: "),
        (["no-model", "--data", "data"], "no-model"),
    ],
)
def test_errors_of_networks_are_one_line(quarters: Path, command: Command, arguments: list[str], words: str) -> None:
    assert words in command.error("train", *arguments)


def test_all_settings_are_listed_with_their_meaning(command: Command) -> None:
    out, _ = command("train", "two-branch", "--list-settings")
    for words in ("max_negatives", "K of Algorithm 1", "learning_rate", "papers/two-branch-phrases", "[triplet, "):
        assert words in out, words
    answer = command.json("train", "cca", "--list-settings")
    assert "papers/cca-joint" in answer["names"]
    assert ("correlation_power", "1.0") in [(setting["name"], setting["default"]) for setting in answer["settings"]]


@pytest.mark.slow
def test_a_model_of_the_sample_photos_retrieves_them(deixis: Run, tmp_path: Path) -> None:
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
    done = deixis("train", "cca", "--data", "data", "--set", "embedding_dim=8", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dev"]["split"] == "val"
    found = deixis("evaluate", "retrieval", "--model", "cca.model", "--data", "data", "--split", "train", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["t2i_r5"] > 80  # training photos; chance is 56
