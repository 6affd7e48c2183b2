"""Training by the stages of Figure 3: on a data set, on synthetic photos, and interrupted."""

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

from deixis.data.dataset import Dataset, make_dataset
from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.items import localization_items
from deixis.evaluation.phrase_localization import localization
from deixis.language.sentence import Sentence
from deixis.language.vectors import WordVectors
from deixis.models.hm_lstm import training
from deixis.models.hm_lstm.correspondence import Correspondences, ParsedPhotos
from deixis.models.hm_lstm.model import HMLSTM
from deixis.models.hm_lstm.objective import PairSampler
from deixis.models.hm_lstm.spec import HMLSTMDataSettings, HMLSTMSettings
from deixis.models.pipeline import load
from deixis.models.registry import get_spec
from deixis.models.training.runner import TrainResult, train
from deixis.models.training.settings import Settings, TrainSettings
from tests.models.coloured import COLOURS, make_coloured
from tests.models.hm_lstm.made_up import MODEL, TRAINING, parsed_photos, right_share, train_made_up
from tests.models.quarters import QUARTERS, SYNONYMS, check_synonyms, make_quarters, make_store

WORDS = [*COLOURS, "a", "the", "one", "square", "beside", "corner"]
SMALL = HMLSTMSettings(
    hidden_size=8, embedding_dim=6, negatives_from="batch", centering="photo", rounds=2, round_epochs=2
)
CENTRED = replace(MODEL, centering="photo")
BRIEF = TrainSettings(epochs=2, batch_size=8, learning_rate=0.02, device="cpu", threads=1)


@pytest.fixture(scope="module")
def made(quarters_store: Path) -> Path:
    """Photos in four quarters with their features, and word vectors."""
    WordVectors(np.eye(len(WORDS), dtype=np.float32), WORDS, source="one for each").save(quarters_store / "vectors")
    return quarters_store


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


def test_a_run_writes_a_model_per_stage_correspondences_and_a_card(
    dataset: Dataset, made: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    found = fitted(dataset, made, out)
    assert (found.photos, found.sentences, found.left_out) == (16, 32, ())
    assert found.phrases > 32
    assert found.dev
    assert found.dev.scores["mean_recall"] == found.outcome.best.value
    about = load(out).provenance
    assert (about.train_on, about.proposals, about.max_proposals) == ("both", "corners", 4)
    card = (out / "model" / "README.md").read_text()
    for words in ("16, with 32 sentences", "4 of corners", "one for each", "correspondences of round 2, right"):
        assert words in card
    command = next(line for line in card.splitlines() if line.startswith("deixis train hm-lstm"))
    typed = [word for word in shlex.split(command)[5:] if word != "--set"]
    assert get_spec("hm-lstm").choose_settings(None, typed) == Settings((from_store(made), SMALL, BRIEF))

    for stage in ("0-roots", "1-phrases", "2-phrases"):
        assert load(out / stage).model.KIND == "hm-lstm"
    scores = json.loads((out / "2-correspondences.json").read_text())
    assert scores["round"] == 2
    assert scores["phrases"] == 32  # two mentions in each of 16 photos
    assert scores["random"] == pytest.approx(20)  # one of four corners and the whole photo
    assert (scores["whole"], scores["bound"]) == (0, 100)
    _, first, *_ = (out / "1-correspondences.jsonl").read_text().splitlines()
    assert set(json.loads(first)["phrases"][0]) == {"sentence", "node", "text", "region", "box", "confidence"}


def test_a_word_of_no_caption_is_near_its_synonym_with_shipped_word_vectors(tmp_path: Path) -> None:
    dataset = make_quarters(tmp_path, 24, words=tuple(SYNONYMS))
    make_store(dataset, tmp_path / "features")
    data = replace(from_store(tmp_path), word_vectors="shipped")
    settings = replace(SMALL, hidden_size=24, loss="softmax", correspondence="gold", rounds=1, round_epochs=10)
    training = replace(BRIEF, epochs=1, learning_rate=0.005)
    found = fitted(dataset, tmp_path, tmp_path / "run", data=data, settings=settings, training=training)
    model = model_of(found.outcome.model)
    assert model.vocabulary
    assert {"a", "dog", "sofa", "corner"} <= set(model.vocabulary.words)
    assert np.abs(model.words.learned[: len(model.vocabulary)]).max() > 0.01  # what training added
    assert not (found.outcome.model / "vectors").exists()  # only the differences are saved
    for synonym in SYNONYMS.values():
        assert (synonym in model.vocabulary, synonym in model.words) == (False, True)
    check_synonyms(lambda phrases: model.prepare_text([Sentence(phrase).phrases[0] for phrase in phrases]))


def test_training_on_gold_boxes_learns_to_ground_phrases(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    settings = replace(
        SMALL, hidden_size=24, loss="softmax", temperature=0.1, correspondence="gold", rounds=1, round_epochs=25
    )
    found = fitted(dataset, made, tmp_path / "run", settings=settings, training=replace(BRIEF, epochs=1))
    assert found.phrases == 32
    assert not (tmp_path / "run" / "1-correspondences.jsonl").exists()
    pipeline = load(tmp_path / "run")
    features = pipeline.features(dataset, dataset.split("dev"), regions=True, also=[made / "features"])
    items = localization_items(dataset.split("dev"))
    predictions = pipeline.predict_boxes(features, items)
    assert predictions[0].boxes.tolist() == [[0, 0, 16, 16], *map(list, QUARTERS)]
    assert localization(predictions, items, rounds=1).r1 > 60  # at random it would be 20


def test_mixed_correspondences_are_gold_for_photos_with_boxes_and_learned_for_others(
    dataset: Dataset, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = [replace(photo, boxes=()) if int(photo.id) % 2 else photo for photo in dataset.photos]
    make_dataset(tmp_path / "half", photos, images=made / "images")
    used: list[tuple[ParsedPhotos, Correspondences]] = []
    make = training.PairSampler

    def keep(data: ParsedPhotos, size: int, found: Correspondences | None, weight: float) -> PairSampler:
        if found is not None:
            used.append((data, found))
        return make(data, size, found, weight)

    monkeypatch.setattr(training, "PairSampler", keep)
    settings = replace(SMALL, correspondence="mixed", rounds=1)
    fitted(Dataset(tmp_path / "half"), made, tmp_path / "run", settings=settings, training=replace(BRIEF, epochs=1))
    ((data, found),) = used
    owners = data.photo[found.rows.owners]
    is_gold = found.region - data.regions.starts[owners] >= data.regions.candidates[owners]
    ids = np.array([int(data.regions.photos[photo]) for photo in owners])
    assert np.array_equal(is_gold, ids % 2 == 0)
    assert np.all(found.confidence[is_gold] == 1)
    assert is_gold.sum() == 2 * len(set(ids[is_gold]))  # both mentions of each photo
    assert (ids % 2 == 1).sum() > 0


def test_phrases_without_weight_need_no_correspondences(dataset: Dataset, made: Path, tmp_path: Path) -> None:
    found = fitted(dataset, made, tmp_path / "run", settings=replace(SMALL, phrase_weight=0.0))
    assert found.phrases == 0
    assert not (tmp_path / "run" / "1-correspondences.jsonl").exists()
    assert (tmp_path / "run" / "2-phrases").is_dir()


def test_data_without_captions_or_without_boxes_for_gold_raises_an_error(
    dataset: Dataset, made: Path, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match="correspondence=gold"):
        fitted(make_coloured(tmp_path), made, tmp_path / "run", settings=replace(SMALL, correspondence="gold"))
    make_dataset(tmp_path / "plain", [replace(photo, captions=()) for photo in dataset.photos], images=made / "images")
    with pytest.raises(DatasetError, match="plain: .*'train'"):
        fitted(Dataset(tmp_path / "plain"), made, tmp_path / "run")


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


@pytest.fixture(scope="module")
def complete_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("complete") / "run"
    train_made_up(out, CENTRED)
    return out


@pytest.mark.parametrize("stop", [4, 7, 20])
def test_a_run_killed_in_any_stage_continues_bit_for_bit(tmp_path: Path, complete_run: Path, stop: int) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, str(Path(__file__).with_name("made_up.py")), str(tmp_path / "killed"), "centering=photo"]
    paths = {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        env={**os.environ, **paths, "STOP": str(stop)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    train_made_up(tmp_path / "killed", CENTRED, resume=True)
    for name in ("1-correspondences.jsonl", "2-correspondences.jsonl"):
        assert (tmp_path / "killed" / name).read_bytes() == (complete_run / name).read_bytes()
    ours, theirs = (model_of(folder) for folder in (tmp_path / "killed", complete_run))
    for (name, one), other in zip(ours.network.state_dict().items(), theirs.network.state_dict().values(), strict=True):
        assert one.equal(other), name
    np.testing.assert_array_equal(ours.phrase_mean_, theirs.phrase_mean_)
