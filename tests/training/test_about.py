"""What a run is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.training.about import About, facts_of, refuse_another, write_about
from deixis.training.settings import TrainSettings


def dataset(folder: Path, train: str, dev: str) -> Dataset:
    photos = [Photo(i, (Caption.from_text("A dog."),), splits=("train",)) for i in train]
    photos += [Photo(i, (Caption.from_text("A cat."),), splits=("dev",)) for i in dev]
    make_dataset(folder, photos, licence="free for all")
    return Dataset(folder)


def test_facts_of_data_tell_its_hash_and_that_of_each_split(tmp_path: Path) -> None:
    facts = facts_of(dataset(tmp_path / "a", "123", "45"), "train", "dev")
    assert (facts.name, facts.licence) == ("a", "free for all")
    assert facts.splits.keys() == {"train", "dev"}
    assert all(text.startswith("sha256:") for text in [facts.hash, *facts.splits.values()])
    other = facts_of(dataset(tmp_path / "b", "123", "46"), "train", "dev")
    assert other.splits["train"] == facts.splits["train"]
    assert other.splits["dev"] != facts.splits["dev"]
    assert other.hash != facts.hash


def test_what_was_written_is_not_another(tmp_path: Path) -> None:
    about = About("tiny", {"layers": (1, 2)}, facts_of(dataset(tmp_path / "a", "1", "2"), "train"))
    write_about(tmp_path / "run.json", about, TrainSettings())
    refuse_another(tmp_path / "run.json", about, TrainSettings())
    with pytest.raises(DeixisError, match="began with seed = 0, now it is 1"):
        refuse_another(tmp_path / "run.json", about, TrainSettings(seed=1))
    with pytest.raises(DeixisError, match=r"run.json: the run began with layers of the model = \[1, 2\], now"):
        refuse_another(tmp_path / "run.json", replace(about, model_settings={"layers": (1,)}), TrainSettings())
