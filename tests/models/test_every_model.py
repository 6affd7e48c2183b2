"""Every model of the registry: trained on a small data set, saved, loaded, used and evaluated through its pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import deixis
from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.evaluation.items import localization_items
from deixis.models.describer import description
from deixis.models.describer.description import PhraseBank
from deixis.models.pipeline import CAPABILITIES, TASKS, load
from deixis.models.registry import model_names
from deixis.storage.artifacts import CONFIG, WEIGHTS
from tests.models.quarters import make_quarters, use_small_encoders
from tests.unchecked import without_checksums

NETWORK = {"epochs": 1, "batch_size": 8, "device": "cpu", "threads": 1}
SMALL: dict[str, dict[str, Any]] = {
    "cca": {"train_on": "phrases", "embedding_dim": 2, "proposals": "corners", "max_proposals": 4},
    "two-branch": {
        **NETWORK,
        "hidden_size": 8,
        "embedding_dim": 4,
        "text_encoder": "gru",
        "word_dim": 6,
        "min_count": 1,
    },
    "similarity": {**NETWORK, "train_on": "phrases", "hidden_size": 8, "embedding_dim": 4, "proposals": "corners"},
    "grounder": {
        **NETWORK,
        **{"hidden_size": 4, "embedding_dim": 6, "num_layers": 1, "word_dim": 5, "min_count": 1},
        **{"word_vectors": "none", "proposals": "corners", "max_proposals": 4},
    },
    "m-rnn": {**NETWORK, **{"first_embedding_dim": 6, "second_embedding_dim": 8, "multimodal_dim": 8, "min_count": 2}},
    "captioner": {
        **NETWORK,
        **{"embedding_dim": 6, "hidden_size": 8, "multimodal_dim": 8, "min_count": 2, "feature_grid": 2},
        **{"attention_dim": 4, "attention_heads": 2, "cell_layers": 1, "cell_dim": 4},
    },
    "consensus": {"tune": False, "neighbours": 3},
    "hm-lstm": {**NETWORK, "hidden_size": 8, "embedding_dim": 6, "proposals": "corners", "max_proposals": 4},
}
VECTORS = "".join(f"{word} {n} 1 2 0\n" for n, word in enumerate(["a", "red", "blue", "green", "square", "one", "the"]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with a run of each model."""
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        use_small_encoders(patch)
        dataset = make_quarters(folder, 12)
        (folder / "vectors.txt").write_text(VECTORS)
        SMALL["hm-lstm"]["word_vectors"] = str(folder / "vectors.txt")
        SMALL["consensus"]["captioner"] = str(folder / "captioner")
        for name in sorted(SMALL, key=lambda name: name == "consensus"):
            deixis.train(name, dataset, out=folder / name, **SMALL[name])
    return folder


@pytest.fixture(autouse=True)
def small_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_encoders(monkeypatch)
    bank = PhraseBank(("a red square", "the blue one"), (2, 1))
    monkeypatch.setattr(description, "_shipped_description", lambda: (bank, description.DescriptionSettings()))


def test_every_built_in_model_is_tested_here() -> None:
    assert set(SMALL) == set(model_names())


CALLS = {
    "encode_images": lambda model, photo: model.encode_images([photo, photo]),
    "encode_sentences": lambda model, photo: model.encode_sentences(["A red square."]),
    "similarity": lambda model, photo: model.similarity(
        model.encode_images([photo]), model.encode_sentences(["A red square.", "A blue one."])
    ),
    "ground": lambda model, photo: model.ground(photo, "A red square beside the blue one.").phrases,
    "caption": lambda model, photo: model.caption([photo, photo], beam=2, top=2),
    "describe": lambda model, photo: model.describe(photo, (0, 0, 8, 8), top=2),
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_trained_model_does_what_its_capabilities_say_and_is_saved_unchanged(
    made: Path, name: str, tmp_path: Path
) -> None:
    photo = made / "images" / "0002.png"
    model = deixis.load(made / name)
    assert model.kind == name
    assert "#" in model.card
    model.save_pretrained(tmp_path / "copy")
    again = deixis.load(tmp_path / "copy")
    assert (again.provenance, again.capabilities, again.tasks) == (model.provenance, model.capabilities, model.tasks)
    assert model.capabilities
    for capability in CAPABILITIES:
        if capability in model.capabilities:
            found, copied = (CALLS[capability](each, photo) for each in (model, again))
            assert len(found)
            if isinstance(found, np.ndarray):
                np.testing.assert_array_equal(found, copied)
            else:
                assert found == copied
        elif capability != "similarity":
            with pytest.raises(DeixisError, match=rf"{name}.*\({capability}\)"):
                CALLS[capability](model, photo)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_trained_model_is_evaluated_on_its_tasks_and_refuses_the_others(made: Path, name: str, task: str) -> None:
    able = deixis.load(made / name).tasks
    if task not in able:
        with pytest.raises(DeixisError, match=rf"{name}.*\({task}\)"):
            deixis.evaluate(task, made / "data", model=made / name, split="dev")
        return
    found = deixis.evaluate(task, made / "data", model=made / name, split="dev")
    assert (found["task"], found["model"], found["split"]) == (task, str(made / name), "dev")
    assert found["n"] > 0


def test_predictions_of_a_model_score_like_the_model(made: Path, tmp_path: Path) -> None:
    options = {"split": "dev", "blind_split": "train"}
    own = deixis.evaluate("grounding", made / "data", model=made / "cca", out=tmp_path / "boxes.jsonl", **options)
    file = deixis.evaluate("grounding", made / "data", predictions=tmp_path / "boxes.jsonl", **options)
    assert (file["r1"], file["upper_bound"]) == pytest.approx((own["r1"], own["upper_bound"]))
    assert own["n"] == len(localization_items(Dataset(made / "data").split("dev")))


@pytest.mark.parametrize(
    "arguments",
    [
        {"task": "swimming", "model": "two-branch"},
        {"task": "retrieval"},
        {"task": "retrieval", "model": "two-branch", "scores": "a.npy"},
        {"task": "retrieval", "predictions": "a.jsonl"},
        {"task": "grounding", "scores": "a.npy"},
    ],
)
def test_wrong_arguments_of_evaluate_are_refused(made: Path, arguments: dict[str, str]) -> None:
    with pytest.raises(DeixisError, match=arguments["task"]):
        deixis.evaluate(data=made / "data", **arguments)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_damaged_models_are_refused_with_their_name(made: Path, name: str, tmp_path: Path) -> None:
    def use() -> None:
        model = load(tmp_path / "damaged")  # graphs are opened when they are used
        for capability in model.capabilities:
            CALLS[capability](model, made / "images" / "0002.png")

    load(made / name).save_pretrained(tmp_path / "damaged")
    without_checksums(tmp_path)
    config, weights = tmp_path / "damaged" / CONFIG, tmp_path / "damaged" / WEIGHTS
    document, arrays = json.loads(config.read_text()), load_file(weights)
    first = min(arrays)
    for changed in ({k: v for k, v in arrays.items() if k != first}, arrays | {first: np.zeros((3, 7), np.float32)}):
        save_file(changed, weights)
        with pytest.raises(DeixisError, match="damaged"):
            use()
    save_file(arrays, weights)
    for change in ({"settings": {}}, {"settings": {"settings": {"colour": 1}}}, {"kind": "oracle"}):
        config.write_text(json.dumps(document | change))
        with pytest.raises(DeixisError, match="damaged"):
            load(tmp_path / "damaged")
    config.write_text(json.dumps(document))
    assert load(tmp_path / "damaged").kind == name
