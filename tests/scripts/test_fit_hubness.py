"""Banks of the hubness correction, made of a small data set."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

import deixis
from deixis.data.dataset import make_dataset
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from deixis.models.grounding import EmbeddingPipeline
from deixis.storage.artifacts import CARD, CONFIG, HUBNESS, WEIGHTS, fingerprint_artifact
from tests.scripts.conftest import Script

NAMES = ("bee", "cat", "coffee", "dogs")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three photos with captions for each of four files, of which one split is for training."""
    photos = [
        Photo(
            f"{name}{number}",
            (Caption.from_text(f"A {name} number {number}."), Caption.from_text("Another caption.")),
            file=f"{name}.jpg",
            splits=("train" if number < 3 else "dev",),
        )
        for name in NAMES
        for number in range(4)
    ]
    make_dataset(tmp_path / "some.data", photos, images=SAMPLES / "images")
    return tmp_path / "some.data"


def test_banks_of_training_photos_are_written_into_the_model(data: Path, tmp_path: Path, script: Script) -> None:
    model = cast(EmbeddingPipeline, deixis.load("two-branch"))
    model.hubness = None
    model.save_pretrained(folder := tmp_path / "model")
    before, files = fingerprint_artifact(folder), {CARD, WEIGHTS, "embed_text.onnx", "embed_visual.onnx"}
    contents = {name: (folder / name).read_bytes() for name in files}
    script("fit_hubness.py", data, data, "--model", folder, "--size", 20, "--seed", 3)
    assert fingerprint_artifact(folder) == before
    assert {name: (folder / name).read_bytes() for name in files} == contents
    fitted = cast(EmbeddingPipeline, deixis.load(folder)).hubness
    assert fitted is not None
    shown = model.encode_images([SAMPLES / "images" / f"{name}.jpg" for name in NAMES])
    captions = [f"A {name} number {number}." for name in NAMES for number in range(3)] + ["Another caption."]
    texts = model.encode_sentences(captions)
    assert fitted._photos.shape == fitted._sentences.shape == (20, 512)
    assert (fitted._photos @ shown.T).max(axis=1).min() > 0.99
    nearest = (fitted._sentences @ texts.T).argmax(axis=1)
    assert (fitted._sentences @ texts.T).max(axis=1).min() > 0.99
    assert 0 < np.count_nonzero(nearest == len(captions) - 1) < 20  # a random caption of each photo

    stored = (folder / HUBNESS / WEIGHTS).read_bytes()
    script("fit_hubness.py", data, data, "--model", folder, "--size", 20, "--seed", 3)
    assert (folder / HUBNESS / WEIGHTS).read_bytes() == stored
    script("fit_hubness.py", data, "--model", folder, "--size", 10, "--seed", 4)
    assert (folder / HUBNESS / WEIGHTS).read_bytes() != stored
    assert (folder / CONFIG).is_file()


def test_too_few_photos_are_refused(data: Path, tmp_path: Path, script: Script) -> None:
    deixis.load("two-branch").save_pretrained(tmp_path / "model")
    with pytest.raises(SystemExit, match=f"{data}: 12 photos with captions, fewer than 13"):
        script("fit_hubness.py", data, "--model", tmp_path / "model", "--size", 13)
