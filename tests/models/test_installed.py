"""The models that come with deixis: complete, saved to the same bits, and able to do what they list."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.models.installed import InstalledModel, model_folder, shared_parts, shipped_models
from deixis.models.pipeline import CAPABILITIES, TASKS, new_model
from deixis.storage.artifacts import CONFIG, WEIGHTS, find_damage
from tests.models.test_every_model import CALLS

REFUSED = {"similarity": lambda model, photo: model.similarity(np.eye(2), np.eye(2))}
DOGS = SAMPLES / "images" / "dogs.jpg"


EVERY_MODEL = pytest.mark.parametrize("listed", shipped_models(), ids=attrgetter("name"))


@EVERY_MODEL
def test_every_listed_model_loads_and_does_what_its_capabilities_say(listed: InstalledModel) -> None:
    name, model = listed.name, deixis.load(listed.name)
    assert (model.capabilities, model.tasks) == (set(listed.capabilities), set(listed.tasks))
    assert model.capabilities <= set(CAPABILITIES)
    assert model.tasks <= set(TASKS)
    for capability in CAPABILITIES:
        if capability in model.capabilities:
            assert len(CALLS[capability](model, DOGS))
        else:
            with pytest.raises(DeixisError, match=f"^{name}: .*{capability}.* can: ") as refusal:
                REFUSED.get(capability, CALLS[capability])(model, DOGS)
            able = str(refusal.value).rpartition(": ")[2].split(", ")
            assert name not in able
            assert all(capability in deixis.load(other).capabilities for other in able)


@EVERY_MODEL
def test_every_shipped_model_has_a_card_and_is_saved_to_the_same_bits(listed: InstalledModel, tmp_path: Path) -> None:
    assert listed.summary
    assert listed.scores
    model = deixis.load(listed.name)
    assert "Flickr8k" in model.card
    assert "education" in model.card
    with new_model(tmp_path / "copy") as unfinished:
        model.write(unfinished, half=True)
    assert (tmp_path / "copy" / WEIGHTS).read_bytes() == (listed.folder / WEIGHTS).read_bytes()
    assert json.loads((tmp_path / "copy" / CONFIG).read_text()) == json.loads((listed.folder / CONFIG).read_text())


def test_every_part_says_how_it_is_opened() -> None:
    for part in shared_parts():
        module, _, call = part.opened_by.partition("(")[0].rpartition(".")
        owner, _, attribute = module.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), call)
        except ModuleNotFoundError:  # a method of a class
            found = getattr(getattr(importlib.import_module(owner), attribute), call)
        assert callable(found)


def test_an_unknown_name_is_answered_with_the_nearest_model() -> None:
    with pytest.raises(DeixisError, match=r"two-brunch.*'two-branch'"):
        deixis.load("two-brunch")


def test_opening_models_does_not_load_the_compiler_of_torch() -> None:
    """It is not used, and takes as long to import as torch itself."""
    opened = """
import sys
from deixis.models.pipeline import load
from deixis.models.installed import shipped_models
from deixis.vision.encoders import open_encoder
for model in shipped_models():
    load(model.name)
open_encoder("deixis", device="cpu")
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", opened], check=True)


def test_the_weights_of_all_models_together_stay_small() -> None:
    files = Path(deixis.__file__).parent.rglob("*")
    assert sum(file.stat().st_size for file in files if file.suffix in (".safetensors", ".onnx")) <= 68_000_000


def test_a_directory_of_the_user_goes_before_a_shipped_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two-branch").mkdir()
    assert model_folder("two-branch").is_absolute()  # an empty directory is not a model
    (tmp_path / "two-branch" / CONFIG).write_text("{}")
    assert model_folder("two-branch") == Path("two-branch")
    assert model_folder("no-such-model") == Path("no-such-model")


def test_sentences_with_the_same_meaning_are_similar() -> None:
    model = deixis.load("two-branch")
    dogs, boat = model.encode_sentences(["Two dogs run through the snow.", "A boat on the water."])
    puppies = model.encode_sentences(["A pair of dogs plays in snow."])[0]
    assert puppies @ dogs > puppies @ boat + 0.2


def test_everything_that_is_shipped_has_checksums_that_match() -> None:
    package = Path(deixis.__file__).parent
    folders = sorted(file.parent for file in package.rglob(CONFIG))
    assert len(folders) > 10
    assert [line for folder in folders for line in find_damage(folder)] == []
