"""Presence fitted to the sample photos."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import fit_presence
import numpy as np
import pytest

import deixis
from deixis.data.dataset import make_dataset
from deixis.data.records import Caption, Photo
from deixis.data.samples import SAMPLES
from deixis.models.grounder.pipeline import GrounderPipeline
from deixis.models.grounding import load_embedding_model
from tests.scripts.conftest import Script

CAPTIONS = {
    "cat": ["A cat with green eyes."],
    "dogs": ["Two dogs look out of a window."],
    "coffee": ["A cup of coffee with a spoon."],
    "bee": ["A bee on a flower."],
}


@pytest.fixture(scope="module")
def photos() -> list[Photo]:
    return [
        Photo(name, tuple(map(Caption.from_text, texts)), file=f"{name}.jpg", splits=("dev",))
        for name, texts in CAPTIONS.items()
    ]


def test_photos_are_asked_for_what_they_show_and_for_what_they_do_not(photos: list[Photo]) -> None:
    asked = list(fit_presence.ask(photos, load_embedding_model("two-branch")))

    def texts(photo: str, kind: str) -> set[str]:
        number = list(CAPTIONS).index(photo)
        return {each.phrase.text for each in asked if each.photo == number and each.kind == kind}

    assert texts("cat", "own") == {"a cat", "green eyes"}
    assert texts("cat", "named") == {"a cat"}
    assert texts("cat", "other") <= {"two dogs", "a window", "a cup", "coffee", "a spoon", "a bee", "a flower"}
    absent = texts("cat", "near") | texts("cat", "nearest")
    assert len(texts("cat", "nearest")) == 2
    assert len(absent) == 6
    assert "a cat" not in absent
    assert not texts("coffee", "near")  # its captions name no thing of a group

    rng = np.random.default_rng(0)
    source = fit_presence.Source("samples", asked, np.zeros((len(asked), 4), np.float32), rng.random(len(asked)))
    there = source.weights[source.right].sum()
    assert there == pytest.approx(source.weights[~source.right].sum())
    animals = [source.weights[source.of(kind, "animals")].sum() for kind in ("named", "near", "nearest")]
    assert animals[1] == pytest.approx(animals[2]) == pytest.approx(animals[0] / 2)


def test_the_fit_is_written_into_the_model_and_the_scores_printed(
    photos: list[Photo], tmp_path: Path, script: Script
) -> None:
    make_dataset(tmp_path / "some.data", photos, images=SAMPLES / "images")
    grounder = cast(GrounderPipeline, deixis.load("grounder"))
    fast = [each for each in grounder.model.presence_calibrations if each.encoder != grounder.encoder.fingerprint]
    grounder.save_pretrained(tmp_path / "model")
    out = script("fit_presence.py", tmp_path / "some.data", "--model", tmp_path / "model")
    assert "calibration error" in out
    fitted = cast(GrounderPipeline, deixis.load(tmp_path / "model"))
    *others, own = fitted.model.presence_calibrations
    assert others == fast
    assert own.encoder == grounder.encoder.fingerprint
    assert own.weights != grounder.model.presence_calibrations[0].weights
    assert fitted._calibrated_presence is not None
