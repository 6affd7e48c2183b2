"""The models in the package: there, small, and what their cards say of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import deixis
from deixis.cli.main import _run
from deixis.data.samples import SAMPLES
from deixis.tasks.shipped_models import place_of, shipped_models
from deixis.vision.encoders import open_encoder

MOST = 60_000_000


@pytest.mark.parametrize("name", [model.name for model in shipped_models()])
def test_every_model_has_a_card_that_names_its_data(name: str) -> None:
    model = next(each for each in shipped_models() if each.name == name)
    card = (model.folder / "README.md").read_text(encoding="utf-8")
    assert "Flickr8k" in card
    assert "education" in card
    assert model.does
    assert model.scores


def test_every_file_of_weights_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["models", "--json"]) == 0
    listed = [Path(model["path"]) for model in json.loads(capsys.readouterr().out)]
    package = Path(deixis.__file__).parent
    weights = [*package.rglob("*.safetensors"), *package.rglob("*.npz")]
    assert [file for file in weights if not any(each in (file, *file.parents) for each in listed)] == []


def test_the_weights_of_all_models_together_stay_small() -> None:
    weights = Path(deixis.__file__).parent.rglob("*.safetensors")
    assert sum(file.stat().st_size for file in weights) < MOST


def test_opening_them_does_not_load_the_compiler_of_torch() -> None:
    """It is not used, and takes as long to import as torch itself."""
    opened = """
import sys
from deixis.models.saved import load_model
from deixis.tasks.shipped_models import shipped_models
from deixis.vision.encoders import open_encoder
for model in shipped_models():
    load_model(model.folder / "model")
open_encoder("deixis", device="cpu")
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", opened], check=True)


def test_retrieval_by_its_name_is_of_the_encoder_that_comes_with_it() -> None:
    bundle = deixis.load("two-branch")
    assert bundle.encoder.fingerprint == open_encoder("deixis", device="cpu").fingerprint
    dogs, boat = bundle.encode_sentences(["Two dogs run through the snow.", "A boat on the water."])
    puppies = bundle.encode_sentences(["A pair of dogs plays in snow."])[0]
    assert puppies @ dogs > puppies @ boat + 0.2


def test_the_captioner_sees_dogs_and_writes_english() -> None:
    words = deixis.caption(SAMPLES / "images" / "dogs.jpg").text.split()
    assert {"dog", "dogs"} & set(words)
    assert 3 < len(words) < 20


def test_a_directory_of_the_users_goes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of("two-branch").is_absolute()
    (tmp_path / "two-branch").mkdir()
    assert place_of("two-branch").is_absolute()  # an empty folder is no model
    (tmp_path / "two-branch" / "bundle.json").write_text("{}")
    assert place_of("two-branch") == Path("two-branch")
    assert place_of("no-such-model") == Path("no-such-model")
