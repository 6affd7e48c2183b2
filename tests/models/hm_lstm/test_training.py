"""Training by the stages of Figure 3: on a data set, on synthetic photos, interrupted, and by two processes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deixis.data.creation import make_dataset
from deixis.data.dataset import Dataset
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.items import localization_items
from deixis.evaluation.phrase_localization import localization
from deixis.language.vectors import WordVectors
from deixis.models.hm_lstm import training
from deixis.models.hm_lstm import trees as trees_module
from deixis.models.hm_lstm.correspondence import Correspondences
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.hm_lstm.spec import HMLSTMDataSettings, HMLSTMSettings
from deixis.models.pipeline import load
from deixis.models.registry import get_spec
from deixis.models.training.runner import TrainResult, train
from deixis.models.training.settings import Settings, TrainSettings
from tests.models.coloured import COLOURS, make_coloured
from tests.models.hm_lstm.made_up import MODEL, TRAINING, parsed_photos, right_share, train_made_up
from tests.models.quarters import QUARTERS, make_quarters, make_store
from tests.vision.feature_store.small import colour_encoder

WORDS = [*COLOURS, "a", "the", "one", "square", "beside", "corner"]
SMALL = HMLSTMSettings(
    hidden_size=8, embedding_dim=6, negatives_from="batch", centering="photo", rounds=2, round_epochs=2
)
BRIEF = TrainSettings(epochs=2, batch_size=8, learning_rate=0.02, device="cpu", threads=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of photos in four quarters, a store of their features, and word vectors."""
    folder = tmp_path_factory.mktemp("quarters")
    make_store(make_quarters(folder, 24), folder / "features")
    WordVectors(np.eye(len(WORDS), dtype=np.float32), WORDS, source="one for each").save(folder / "vectors")
    return folder


@pytest.fixture
def dataset(made: Path) -> Dataset:
    return Dataset(made / "data")


def from_store(made: Path) -> HMLSTMDataSettings:
    return HMLSTMDataSettings(
        features_dir=str(made / "features"), proposals="corners", max_proposals=4, word_vectors=str(made / "vectors")
    )


def fitted(dataset: Dataset, made: Path, out: Path, **others: object) -> TrainResult:
    chosen = {"data": from_store(made), "settings": SMALL, "training": BRIEF} | others
    parts = Settings(tuple(chosen.pop(name) for name in ("data", "settings", "training")))  # type: ignore[arg-type]
    found = train("hm-lstm", dataset, out=out, settings=parts, **chosen)  # type: ignore[arg-type]
    assert found
    return found


def model_of(folder: Path) -> HMLSTM:
    model = load(folder).model
    assert isinstance(model, HMLSTM)
    return model


def test_a_run_writes_a_trained_model_with_a_card(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    found = fitted(dataset, made, tmp_path / "run")
    assert (found.photos, found.sentences, found.left_out) == (16, 32, ())
    assert found.phrases > 32
    assert found.dev
    assert found.dev.scores["mean_recall"] == found.outcome.best.value
    pipeline = load(tmp_path / "run")
    about = pipeline.provenance
    assert (about.train_on, about.proposals, about.max_proposals) == ("both", "corners", 4)
    assert pipeline.encode_sentences(["A red square."]).shape == (1, 6)
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    for words in ("16, with 32 sentences", "4 of corners", "one for each", "correspondences of round 2, right"):
        assert words in card


def test_each_stage_writes_a_model_and_correspondences_with_their_scores(
    dataset: Dataset, made: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    fitted(dataset, made, out)
    for stage in ("0-roots", "1-phrases", "2-phrases"):
        assert load(out / stage).model.KIND == "hm-lstm"
    scores = json.loads((out / "2-correspondences.json").read_text())
    assert scores["round"] == 2
    assert scores["phrases"] == 32  # two mentions in each of 16 photos
    assert scores["random"] == pytest.approx(20)  # one of four corners and the whole photo
    assert (scores["whole"], scores["bound"]) == (0, 100)
    _, first, *_ = (out / "1-correspondences.jsonl").read_text().splitlines()
    assert set(json.loads(first)["phrases"][0]) == {"sentence", "node", "text", "region", "box", "confidence"}


def test_training_on_gold_boxes_learns_to_ground_phrases(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    settings = replace(
        SMALL, hidden_size=24, loss="softmax", temperature=0.1, correspondence="gold", rounds=1, round_epochs=25
    )
    fitted(dataset, made, tmp_path / "run", settings=settings, training=replace(BRIEF, epochs=1))
    pipeline = load(tmp_path / "run")
    features = pipeline.features(dataset, dataset.split("dev"), regions=True, also=[made / "features"])
    items = localization_items(dataset.split("dev"))
    predictions = pipeline.predict_boxes(features, items)
    assert predictions[0].boxes.tolist() == [[0, 0, 16, 16], *map(list, QUARTERS)]
    assert localization(predictions, items, rounds=1).r1 > 60  # at random it would be 20


def test_the_card_has_the_command_of_the_run(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    fitted(dataset, made, tmp_path / "run")
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    command = next(line for line in card.splitlines() if line.startswith("deixis train hm-lstm"))
    typed = [word for word in shlex.split(command)[5:] if word != "--set"]
    assert get_spec("hm-lstm").choose_settings(None, typed) == Settings((from_store(made), SMALL, BRIEF))


def test_the_same_seed_gives_the_same_model(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, rounds=0)
    torch.manual_seed(5)  # earlier random numbers have no effect
    fitted(dataset, made, tmp_path / "first", settings=settings)
    torch.manual_seed(6)
    fitted(dataset, made, tmp_path / "again", settings=settings)
    fitted(dataset, made, tmp_path / "other", settings=settings, training=replace(BRIEF, seed=1))
    weights = [model_of(tmp_path / name).network.text.connected.weight for name in ("first", "again", "other")]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("stop", ["0-roots", "round 1: finding", "2-phrases"])
def test_a_stopped_run_continues_bit_for_bit(dataset: Dataset, made: Path, tmp_path: Path, stop: str) -> None:
    class EnoughError(Exception):
        pass

    def stopping(doing: str, done: int, total: int | None) -> None:
        if doing.startswith(stop) and done >= 5:
            raise EnoughError

    fitted(dataset, made, tmp_path / "unbroken")
    with pytest.raises(EnoughError):
        fitted(dataset, made, tmp_path / "run", on_progress=stopping)
    fitted(dataset, made, tmp_path / "run", resume=True)
    ours, theirs = (model_of(tmp_path / name) for name in ("run", "unbroken"))
    for (name, one), other in zip(ours.network.state_dict().items(), theirs.network.state_dict().values(), strict=True):
        assert torch.equal(one, other), name
    np.testing.assert_array_equal(ours.phrase_mean_, theirs.phrase_mean_)
    for name in ("1-correspondences.jsonl", "2-correspondences.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()


def test_sentences_are_parsed_once_for_all_runs(
    dataset: Dataset, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SMALL, rounds=0)
    fitted(dataset, made, tmp_path / "first", settings=settings)
    monkeypatch.setattr(trees_module, "parse_sentences", lambda *_: pytest.fail("parsed again"))
    fitted(dataset, made, tmp_path / "second", settings=settings)


def test_gold_correspondences_are_not_computed(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    settings = replace(SMALL, correspondence="gold", rounds=1)
    found = fitted(dataset, made, tmp_path / "run", settings=settings)
    assert found.phrases == 32
    assert not (tmp_path / "run" / "1-correspondences.jsonl").exists()


def test_phrases_without_weight_need_no_correspondences(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    found = fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, phrase_weight=0.0))
    assert found.phrases == 0
    assert not (tmp_path / "run" / "1-correspondences.jsonl").exists()
    assert (tmp_path / "run" / "2-phrases").is_dir()


def test_gold_correspondence_without_boxes_raises_an_error(made: Path, tmp_path: Path) -> None:
    plain = make_coloured(tmp_path)
    with pytest.raises(DatasetError, match="correspondence=gold"):
        fitted(plain, made, tmp_path / "run", settings=replace(SMALL, correspondence="gold"))


def test_photos_without_captions_raise_an_error(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    without_captions = [replace(photo, captions=()) for photo in dataset.photos]
    make_dataset(tmp_path / "plain", without_captions, images=made / "images")
    with pytest.raises(DatasetError, match="caption"):
        fitted(Dataset(tmp_path / "plain"), made, tmp_path / "run")


def test_a_store_without_proposals_raises_an_error(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    from deixis.vision.feature_store import update_store

    update_store(tmp_path / "features", dataset, colour_encoder())
    data = replace(from_store(made), features_dir=str(tmp_path / "features"))
    with pytest.raises(DeixisError, match="proposals"):
        fitted(dataset, made, tmp_path / "run", data=data)


def test_a_directory_in_use_raises_an_error(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(DeixisError, match="not empty"):
        fitted(dataset, made, tmp_path / "run")
    with pytest.raises(DeixisError, match="no run to resume"):
        fitted(dataset, made, tmp_path / "none", resume=True)


def test_resuming_with_other_settings_raises_an_error(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, rounds=0))
    shutil.rmtree(tmp_path / "run" / "0-roots")  # as if stopped before the first stage
    with pytest.raises(DeixisError, match="margin"):
        fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, rounds=0, margin=0.5), resume=True)


def test_roots_come_first_then_correspondences_and_phrases_alternate(tmp_path: Path) -> None:
    result = train_made_up(tmp_path / "run")
    assert result
    assert result.outcome
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names >= {"0-roots", "1-correspondences.jsonl", "1-phrases", "2-correspondences.jsonl", "2-phrases", "model"}
    assert result.outcome.steps == 18

    def terms(stage: str) -> list[dict[str, float]]:
        return [line["terms"] for line in read_log(tmp_path / "run" / stage) if "terms" in line]

    assert all(line["phrases"] == 0 for line in terms("0-roots"))
    assert any(line["phrases"] > 0 for line in terms("1-phrases"))


def read_log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_most_regions_are_found_without_supervision_and_more_in_each_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    find = training.find_correspondences

    def find_and_score(*arguments: Any) -> Correspondences:
        found = find(*arguments)
        shares.append(right_share(parsed_photos(40), found))
        return found

    monkeypatch.setattr(training, "find_correspondences", find_and_score)
    settings = replace(MODEL, hidden_size=16, round_epochs=8, margin=0.3)
    train_made_up(tmp_path / "run", settings, replace(TRAINING, epochs=20), photos=40)
    assert min(shares) > 0.5  # 0.25 at random
    assert shares[1] > shares[0]


def run_program(out: Path, *words: str, stop: int = 0, processes: int = 1) -> None:
    """Train in separate processes."""
    root = Path(__file__).parents[3]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    path = f"{root}{os.pathsep}{root / 'src'}"
    command = [sys.executable, *launcher, str(Path(__file__).with_name("made_up.py")), str(out), *words]
    environment = {**os.environ, "STOP": str(stop), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == (-9 if stop else 0), done.stderr


@pytest.fixture(scope="module")
def complete_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("complete") / "run"
    train_made_up(out)
    return out


@pytest.mark.parametrize("stop", [4, 7, 20])
def test_a_run_killed_in_any_stage_continues_bit_for_bit(tmp_path: Path, complete_run: Path, stop: int) -> None:
    run_program(tmp_path / "killed", stop=stop)
    train_made_up(tmp_path / "killed", resume=True)
    for name in ("1-correspondences.jsonl", "2-correspondences.jsonl"):
        assert (tmp_path / "killed" / name).read_bytes() == (complete_run / name).read_bytes()
    ours, theirs = (model_of(folder) for folder in (tmp_path / "killed", complete_run))
    for (name, one), other in zip(ours.network.state_dict().items(), theirs.network.state_dict().values(), strict=True):
        assert one.equal(other), name


def test_two_processes_have_the_losses_of_one(tmp_path: Path) -> None:
    train_made_up(tmp_path / "one", replace(MODEL, rounds=1))
    run_program(tmp_path / "two", "rounds=1", processes=2)
    for stage in ("0-roots", "1-phrases"):
        one, two = (
            [line["loss"] for line in read_log(tmp_path / folder / stage) if "loss" in line]
            for folder in ("one", "two")
        )
        np.testing.assert_allclose(one, two, rtol=1e-3)
