"""Descriptions of runs, logs, pace and model cards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.models.training.objective import DevScores
from deixis.models.training.run_record import (
    DataDescription,
    Log,
    Pace,
    RunDescription,
    describe_data,
    format_duration,
    model_card,
    refuse_other_run,
    write_description,
)
from deixis.models.training.settings import TrainSettings
from tests.models.training.tiny import read_log


def dataset(folder: Path, train: str, dev: str) -> Dataset:
    photos = [Photo(i, (Caption.from_text("A dog."),), splits=("train",)) for i in train]
    photos += [Photo(i, (Caption.from_text("A cat."),), splits=("dev",)) for i in dev]
    make_dataset(folder, photos, licence="free for all")
    return Dataset(folder)


def describe(folder: Path, train: str, dev: str) -> DataDescription:
    made = dataset(folder, train, dev)
    return describe_data(made, {name: made.split(name) for name in ("train", "dev")})


def test_the_description_of_data_has_its_hash_and_that_of_each_split(tmp_path: Path) -> None:
    facts = describe(tmp_path / "a", "123", "45")
    assert (facts.name, facts.licence) == ("a", "free for all")
    assert facts.splits.keys() == {"train", "dev"}
    assert all(text.startswith("sha256:") for text in [facts.hash, *facts.splits.values()])
    other = describe(tmp_path / "b", "123", "46")
    assert other.splits["train"] == facts.splits["train"]
    assert other.splits["dev"] != facts.splits["dev"]
    assert other.hash != facts.hash


def test_a_written_description_matches_itself(tmp_path: Path) -> None:
    about = RunDescription("tiny", {"layers": (1, 2)}, describe(tmp_path / "a", "1", "2"))
    write_description(tmp_path / "run.json", about, TrainSettings())
    refuse_other_run(tmp_path / "run.json", about, TrainSettings())
    with pytest.raises(DeixisError, match="run.json: .*seed.*0.*1"):
        refuse_other_run(tmp_path / "run.json", about, TrainSettings(seed=1))
    with pytest.raises(DeixisError, match=r"run.json: .*layers.*\[1, 2\].*\[1\]"):
        refuse_other_run(tmp_path / "run.json", replace(about, model_settings={"layers": (1,)}), TrainSettings())


def test_a_run_of_a_version_with_further_settings_is_resumed(tmp_path: Path) -> None:
    about, path = RunDescription("toy", {}, DataDescription("d", "1", {"train": "2"}, "free")), tmp_path / "run.json"
    write_description(path, about, TrainSettings())
    document = json.loads(path.read_text())
    document["settings"] |= {"lr_decay": 0.1, "lr_decay_epochs": 10}
    path.write_text(json.dumps(document))
    refuse_other_run(path, about, TrainSettings())
    document["settings"] |= {"lr_schedule": "step"}
    path.write_text(json.dumps(document))
    with pytest.raises(DeixisError, match=r"run.json: .*lr_schedule.*step.*constant"):
        refuse_other_run(path, about, TrainSettings())


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log.jsonl")


def test_appended_records_are_read(log: Log) -> None:
    assert log.size == 0
    records = [{"step": 1}, {"step": 2, "note": "ü\n"}]
    for record in records:
        log.append(record)
    assert read_log(log.path) == records


def test_cutting_removes_later_lines_and_never_makes_a_log_longer(log: Log) -> None:
    log.cut(100)
    assert not log.path.exists()
    log.append({"step": 1})
    size = log.size
    log.append({"step": 2})
    with log.path.open("a") as file:
        file.write('{"st')
    log.cut(size)
    log.append({"step": 3})
    log.cut(1000)
    assert read_log(log.path) == [{"step": 1}, {"step": 3}]


def test_an_unwritable_log_is_named(log: Log) -> None:
    log.path.mkdir()
    with pytest.raises(DeixisError, match="log.jsonl"):
        log.append({"step": 1})


def test_throughput_is_recent_and_time_left_is_of_the_whole_run() -> None:
    now = 100.0
    pace = Pace(step=50, steps=150, seconds=1000.0, clock=lambda: now)
    assert (pace.left, pace.steps_per_s(50)) == (0.0, 0.0)
    now = 110.0
    assert pace.steps_per_s(60) == pytest.approx(1.0)
    now = 115.0
    assert pace.steps_per_s(70) == pytest.approx(2.0)
    assert pace.left == pytest.approx(80 * 15 / 20)
    assert pace.seconds == pytest.approx(1015.0), "with those before the run was resumed"
    now = 135.0
    pace.skip_pause()
    now = 140.0
    assert pace.steps_per_s(80) == pytest.approx(2.0), "a pause does not slow the next steps"
    assert pace.left == pytest.approx(70 * 40 / 30), "but the whole run"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (1e5, "27 h 46 min")],
)
def test_durations_are_readable(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words


ABOUT = RunDescription(
    "two-branch",
    {"margin": 0.05, "layers": [1024, 512]},
    DataDescription("flickr8k", "0a1b", {"train": "2c3d", "dev": "4e5f"}, "research only"),
    "deixis train two-branch --data flickr8k --set epochs=3",
    {"encoder": "efficientnet-lite2"},
)
CARD = model_card(
    ABOUT, TrainSettings(epochs=3), DevScores("i2t_r1", {"i2t_r1": 24.4567, "odd": float("nan")}, 120, 2), 75.0
)


def test_the_card_has_data_splits_settings_scores_licence_and_command() -> None:
    for words in (
        "# two-branch, trained on flickr8k",
        "| hash | 0a1b |",
        "| photos of dev | 4e5f |",
        "| encoder | efficientnet-lite2 |",
        "| layers | [1024, 512] |",
        "| epochs | 3 |",
        "| i2t_r1 | 24.46 |",
        "chosen by the best `i2t_r1`",
        "120 steps, to epoch 2, after 1 min 15 s",
        "```\ndeixis train two-branch --data flickr8k --set epochs=3\n```",
        "The data: research only.",
        "torch 2",
    ):
        assert words in CARD, words


def test_the_card_of_a_closed_form_model_has_no_steps() -> None:
    card = model_card(ABOUT, None, DevScores("", {"i2t_r1": 24.4567}), 75.0)
    assert "| i2t_r1 | 24.46 |" in card
    assert "; in 1 min 15 s." in card
    for words in ("Settings of training", "chosen", "steps", "epoch 0"):
        assert words not in card, words
    assert "Not measured on dev.\n" in model_card(ABOUT, None, DevScores("", {}), 75.0)


def test_special_characters_do_not_break_a_table() -> None:
    hostile = RunDescription("a", {"x": "1 | 2\n\n# not a heading"}, ABOUT.data)
    card = model_card(hostile, TrainSettings(), DevScores("", {}, 1, 1), 0.0)
    assert "| x | 1 \\| 2 # not a heading |" in card
    assert "\n# not" not in card
