"""Every shipped model, trained again by one command: on a few scenes, to see that all stages fit together."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file

import deixis
from deixis.annotate.help.coreference import Coreference
from deixis.cli.main import _run
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES
from deixis.models.describer.description import Describer
from deixis.models.grounding import load_embedding_model
from deixis.models.installed import shipped_models
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.search.calibration import Calibration
from deixis.search.collection import search_encoder
from deixis.search.encoder import PHOTO_MODEL
from deixis.vision.encoders import open_encoder
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.encoders.tiny_vit import TinyViT, TinyViTShape
from tests.scenes import write_scenes

SCRIPT = Path(__file__).parents[2] / "scripts" / "retrain.py"
SMALL = {
    "encoder": ["epochs=1", "head_steps=1", "text_steps=1", "side=56", "batch=6", "candidates=16", "anchors=4"],
    "fast": ["epochs=1", "batch=4"],
    "grounder": ["epochs=1"],
    "words": ["epochs=1", "views=2"],
    **{name: ["epochs=1", "views=2"] for name in ("run-1", "run-2", "run-3")},
    "m-rnn": ["epochs=1"],
    "hm-lstm": ["epochs=1", "rounds=1", "round_epochs=1", "hidden_size=32", "min_count=1"],
    "describer": ["components=8"],
}

Finished = subprocess.CompletedProcess[str]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("retrain"), 24, {"train": 0.6, "dev": 0.4})


def make_data(folder: Path, count: int, splits: dict[str, float]) -> Path:
    write_scenes(folder / "scenes", count, splits)
    photos, captions = str(folder / "scenes" / "images"), str(folder / "scenes" / "photos.jsonl")
    assert _run(["data", "import", "--images", photos, "--captions", captions, "--out", str(folder / "data")]) == 0
    return folder / "data"


def retrain(model: str, data: Path, out: Path, *stages: str, options: Sequence[str | Path] = ()) -> Finished:
    settings = [part for stage in stages for pair in SMALL[stage] for part in ("--set", f"{stage}.{pair}")]
    return subprocess.run(
        [sys.executable, SCRIPT, model, data, out, *options, *settings],
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
    made_with_the_encoder = {"two-branch"}
    trained = {model.name for model in shipped_models()} - made_with_the_encoder
    assert trained | {"encoder", "fast-encoder", "search"} <= set(module.MODELS)


def test_the_encoders_can_be_trained_again_from_any_weights(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    save_file(VisionTransformer(ViTShape(grid=4)).state_dict(), tmp_path / "vit.safetensors")
    save_file(TinyViT(TinyViTShape()).state_dict(), tmp_path / "tiny.safetensors")
    names = tmp_path / "names"
    names.mkdir()
    for number, name in enumerate(("zebra", "banana")):
        Image.new("RGB", (60, 50), (90 * number, 80, 70)).save(names / f"n0000000{number}_{name}.png")
    options = ["--start", tmp_path / "vit.safetensors", "--names", names]
    first = retrain("encoder", data, out, "encoder", options=options)
    assert first.returncode == 0, first.stderr
    assert {"encoder", "head", "two-branch"} <= {file.name for file in (out / "made").iterdir()}
    model = deixis.load(out / "made" / "two-branch")
    photo = next((data.parent / "scenes" / "images").iterdir())
    assert model.similarity(model.encode_images([photo]), model.encode_sentences(["a zebra"])).shape == (1, 1)
    assert np.isfinite(model.encode_sentences(["a refrigerator"])).all()  # no caption has it, the word vectors do
    options += ["--fast-start", tmp_path / "tiny.safetensors"]
    second = retrain("fast-encoder", data, out, "fast", options=options)
    assert second.returncode == 0, second.stderr
    assert "3 of 6, encoder: already done" in second.stdout
    with Image.open(photo) as opened:
        features = next(iter(open_encoder(f"deixis:{out / 'made-fast' / 'fast'}").encode([opened])))
    assert features.cells.shape == (384, 14, 14)
    check = [sys.executable, SCRIPT.with_name("check_training.py"), out / "examples.npz", out / "photos"]
    starts = ["--start", tmp_path / "vit.safetensors", "--fast-start", tmp_path / "tiny.safetensors"]
    small = ["--set", "batch=6", "side=56", "candidates=16", "anchors=4", "group=2", "--fast-set", "batch=4"]
    checked = subprocess.run(
        [*check, *starts, "--out", tmp_path / "check", *small], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert "everything runs" in checked.stdout


def test_the_encoder_needs_weights_to_start_from(data: Path, tmp_path: Path) -> None:
    refused = retrain("encoder", data, tmp_path / "out")
    assert refused.stderr.startswith("retrain: give --start")
    assert refused.stderr.count("\n") == 1


def test_the_grounder_can_be_trained_again(data: Path, tmp_path: Path) -> None:
    done = retrain("grounder", data, tmp_path / "out", "grounder")
    assert done.returncode == 0, done.stderr
    model = deixis.load(tmp_path / "out" / "run").model
    assert model.KIND == "grounder"
    assert [each.photo_model for each in model.presence_calibrations] == ["two-branch"]


def test_the_captioner_can_be_trained_again(tmp_path: Path) -> None:
    data = make_data(tmp_path, 50, {"train": 0.3, "dev": 0.7})  # a calibration needs 30 photos
    done = retrain("captioner", data, tmp_path / "out", "words", "run-1", "run-2", "run-3")
    assert done.returncode == 0, done.stderr
    captioner = load_captioner(tmp_path / "out" / "model")
    assert captioner.model.vocabulary
    assert captioner.confidence is not None


def test_the_m_rnn_can_be_trained_again(data: Path, tmp_path: Path) -> None:
    done = retrain("m-rnn", data, tmp_path / "out", "m-rnn")
    assert done.returncode == 0, done.stderr
    assert load_captioner(tmp_path / "out" / "run").kind == "m-rnn"


def test_the_hm_lstm_can_be_trained_again(data: Path, tmp_path: Path) -> None:
    done = retrain("hm-lstm", data, tmp_path / "out", "hm-lstm")
    assert done.returncode == 0, done.stderr
    model = deixis.load(tmp_path / "out" / "run")
    assert {"similarity", "ground", "describe"} <= model.capabilities
    assert model.encode_sentences(["a red star"]).shape == (1, 512)


def test_the_describer_can_be_trained_again(data: Path, tmp_path: Path) -> None:
    done = retrain("describer", data, tmp_path / "out", "describer")
    assert done.returncode == 0, done.stderr
    assert len(Describer.of(load_embedding_model(tmp_path / "out" / "model")).bank)


def test_the_coreference_model_of_the_workbench_can_be_trained_again(tmp_path: Path) -> None:
    import_dataset(tmp_path / "data", images=SAMPLES / "images", entities=SAMPLES / "entities")
    command = [sys.executable, SCRIPT.with_name("train_help.py"), "links", tmp_path / "data", "--held-out", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    out = ["--out", tmp_path / "made"]
    done = subprocess.run([*command, *out], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "B³" in done.stdout
    assert Coreference.load(tmp_path / "made").fingerprint in done.stdout


def test_the_calibration_of_search_can_be_fitted_again(data: Path, tmp_path: Path) -> None:
    done = retrain("search", data, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (
        Calibration.for_models(search_encoder(PHOTO_MODEL).fingerprint, [tmp_path / "out" / "calibration.json"])
        is not None
    )


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
