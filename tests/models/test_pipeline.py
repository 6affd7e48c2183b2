"""Pipelines: saved and opened unchanged, used on photos, sentences and data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.data.dataset import Dataset
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.evaluation.items import sentences_of
from deixis.language.features.base import CHUNK
from deixis.models.matching.model import MatchingPipeline
from deixis.models.pipeline import Pipeline, load
from deixis.models.provenance import Provenance
from deixis.models.training.data import MatchingDataSettings
from deixis.storage.artifacts import CONFIG, WEIGHTS
from deixis.vision import encoders
from deixis.vision.feature_store import import_features
from tests.models.coloured import SMALL, fit_cca
from tests.unchecked import change_config
from tests.vision.feature_store.small import colour_encoder

SENTENCES = ["A red wall.", "Everything here is blue.", "words nobody has seen", ""]


@pytest.fixture
def pipeline(dataset: Dataset) -> Pipeline:
    return fit_cca(dataset)


@pytest.fixture
def folder(pipeline: Pipeline, tmp_path: Path) -> Path:
    pipeline.save_pretrained(tmp_path / "made.model")
    return tmp_path / "made.model"


def paths(dataset: Dataset) -> list[Path]:
    return [dataset.path_of(photo) for photo in dataset.photos]


def test_photos_are_paths_or_open_images_in_any_number(pipeline: Pipeline, dataset: Dataset) -> None:
    from_paths = pipeline.encode_images([str(path) for path in paths(dataset)])
    opened = [Image.open(path) for path in paths(dataset)]
    np.testing.assert_allclose(pipeline.encode_images(opened), from_paths, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(from_paths, axis=1), 1, atol=1e-5)
    one_by_one = [pipeline.encode_images([path])[0] for path in paths(dataset)]
    np.testing.assert_allclose(np.stack(one_by_one), from_paths, atol=1e-6)


def test_sentences_encoded_in_chunks_keep_their_order(pipeline: Pipeline) -> None:
    colours = ["red", "green", "blue"]
    many = [f"A {colours[number % 3]} wall." for number in range(CHUNK + 5)]
    vectors = pipeline.encode_sentences(many)
    three = pipeline.encode_sentences(many[:3])
    np.testing.assert_allclose(vectors, three[np.arange(len(many)) % 3], atol=1e-6)


def test_empty_inputs_give_empty_outputs(pipeline: Pipeline) -> None:
    assert pipeline.encode_images([]).shape == pipeline.encode_sentences([]).shape == (0, 2)


def test_similarity_is_the_dot_product_of_every_pair(pipeline: Pipeline, dataset: Dataset) -> None:
    photos, sentences = pipeline.encode_images(paths(dataset)[:3]), pipeline.encode_sentences(SENTENCES)
    plain = [[float(np.dot(photo, sentence)) for sentence in sentences] for photo in photos]
    np.testing.assert_allclose(pipeline.similarity(photos, sentences), plain, atol=1e-6)


def test_a_photo_that_cannot_be_read_is_named(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"no photo")
    with pytest.raises(DeixisError, match="x.jpg"):
        pipeline.encode_images([tmp_path / "x.jpg"])


def test_another_version_of_the_encoder_is_refused(
    folder: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder("colours-2"))
    again = load(folder)
    assert again.encode_sentences(SENTENCES).shape == (4, 2)
    with pytest.raises(DeixisError, match=r"encoder colours \(colours-1, installed is colours-2\)"):
        again.encode_images(paths(dataset))


def test_saving_replaces_all_files_of_an_older_model(pipeline: Pipeline, folder: Path) -> None:
    pipeline.card = "# old"
    pipeline.save_pretrained(folder)
    assert load(folder).card == "# old"
    pipeline.card = ""
    pipeline.save_pretrained(folder)
    assert {path.name for path in folder.iterdir() if path.name[0] != "."} == {CONFIG, WEIGHTS, "text"}


def test_a_directory_without_a_model_is_never_replaced(pipeline: Pipeline, dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "copied").mkdir()
    (tmp_path / "copied" / CONFIG).write_text("{}")
    for place in (dataset.path, tmp_path / "thesis"):
        with pytest.raises(DeixisError, match=place.name):
            pipeline.save_pretrained(place)
    with pytest.raises(DeixisError, match="file"):
        pipeline.save_pretrained(tmp_path / "file")
    with pytest.raises(DeixisError, match="copied"):
        pipeline.save_pretrained(tmp_path / "copied")
    assert list(Dataset(dataset.path).photos) == list(dataset.photos)
    assert (tmp_path / "thesis" / "thesis.txt").exists()
    pipeline.save_pretrained(tmp_path / "thesis" / "inside")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"version": 9},
        {"kind": "oracle"},
        {"kind": "two-branch"},
        {"settings": {"colour": 3}},
        {"provenance": {}},
        {"provenance": {"encoder": {"colour": 1}}},
        {"provenance": {"encoder": {"name": 1, "fingerprint": "x"}}},
        {"provenance": {"encoder": {"name": "a", "fingerprint": "b"}, "train_on": "nothing"}},
        {"provenance": {"encoder": {"name": "a", "fingerprint": "b"}, "max_proposals": "many"}},
    ],
)
def test_a_damaged_config_is_named(folder: Path, changes: dict[str, object]) -> None:
    change_config(folder, **changes)
    with pytest.raises(DeixisError, match=f"made.model/{CONFIG}") as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)


def test_a_run_directory_opens_as_the_model_in_it(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.save_pretrained(tmp_path / "run" / "model")
    (tmp_path / "run" / "log.jsonl").write_text("")
    np.testing.assert_array_equal(
        load(tmp_path / "run").encode_sentences(SENTENCES), pipeline.encode_sentences(SENTENCES)
    )


def test_the_provenance_is_saved(pipeline: Pipeline, tmp_path: Path) -> None:
    about = Provenance(
        pipeline.encoder, "phrases", 2.5, "edge-boxes", 7, "abc", "example", "data", "free", {"r1": 50.0}
    )
    MatchingPipeline(pipeline.model, about, pipeline.text).save_pretrained(tmp_path / "other")
    assert load(tmp_path / "other").provenance == about


def test_an_unknown_name_raises_an_error_that_lists_the_models(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"^m: .*two-branch"):
        load("m")
    with pytest.raises(DeixisError, match=CONFIG):
        load(tmp_path)


DOGS = SAMPLES / "images" / "dogs.jpg"


def test_a_model_moves_to_a_device() -> None:
    model = deixis.load("two-branch", device="cpu")
    assert model.device == "cpu"
    assert model.encode_images([DOGS]).shape == (1, 512)
    with pytest.raises(DeixisError, match="nonsense"):
        deixis.load("two-branch", device="nonsense")


def test_one_photo_gives_one_result_and_a_list_gives_a_list() -> None:
    model = deixis.load("grounder")
    one = model.ground(DOGS, "Two dogs.")
    assert [each.phrases[0].text for each in model.ground([DOGS], ["Two dogs."])] == [one.phrases[0].text]
    with pytest.raises(DeixisError, match="sentence"):
        model.ground([DOGS, DOGS], ["Two dogs."])


# On data sets.


def test_retrieval_scores_equal_those_of_single_pairs(pipeline: Pipeline, dataset: Dataset) -> None:
    dev = dataset.split("dev")
    texts = sentences_of(dev).texts
    scores = pipeline.retrieval_scores(pipeline.features(dataset, dev), texts)
    plain = [
        [
            float(pipeline.encode_images([dataset.path_of(photo)])[0] @ pipeline.encode_sentences([text])[0])
            for text in texts
        ]
        for photo in dev
    ]
    assert scores.shape == (len(dev), len(texts))
    np.testing.assert_allclose(scores.rows(0, len(dev)), plain, atol=1e-5)
    np.testing.assert_allclose(scores.rows(2, 3), plain[2:3], atol=1e-5)


def test_sentence_scores_equal_those_of_single_pairs(pipeline: Pipeline) -> None:
    texts = ["A red wall.", "Everything here is red.", "A blue wall."]
    vectors = [pipeline.encode_sentences([text])[0] for text in texts]
    plain = [[float(one @ other) for other in vectors] for one in vectors]
    scores = pipeline.sentence_scores(texts)
    assert scores.shape == (3, 3)
    np.testing.assert_allclose(scores.rows(0, 3), plain, atol=1e-5)
    np.testing.assert_allclose(scores.rows(1, 2), plain[1:2], atol=1e-5)


def test_stored_features_are_read_without_encoder_and_photos(
    pipeline: Pipeline, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = pipeline.features(dataset, dataset.split("dev"))
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: pytest.fail("an encoder was opened"))
    elsewhere = Dataset(dataset.path, images=tmp_path / "unmounted")
    pipeline.save_pretrained(tmp_path / "model")
    read = load(tmp_path / "model").features(elsewhere, elsewhere.split("dev"))
    np.testing.assert_array_equal(read.vectors(), computed.vectors())


def imported(dataset: Dataset, tmp_path: Path, ids: list[str]) -> Path:
    rows = np.random.default_rng(0).normal(size=(len(ids), 5)).astype(np.float32)
    np.savez(tmp_path / "theirs.npz", ids=ids, features=rows)
    import_features(tmp_path / "store", dataset, tmp_path / "theirs.npz")
    return tmp_path / "store"


def test_a_model_trained_on_imported_features_needs_them(dataset: Dataset, tmp_path: Path) -> None:
    store = imported(dataset, tmp_path, dataset.photos.ids[:-1])
    pipeline = fit_cca(dataset, SMALL, MatchingDataSettings(features_dir=str(store)))
    with pytest.raises(DeixisError, match=r"data: .*imported:"):
        pipeline.features(dataset, dataset.photos)
    features = pipeline.features(dataset, dataset.photos, also=[store])
    assert features.left_out == (f"0023: not in {store}",)


def test_the_name_of_a_model_that_ends_with_fast_is_not_the_fast_encoder(tmp_path: Path) -> None:
    load("two-branch").save_pretrained(tmp_path / "two-branch-fast")
    assert load(tmp_path / "two-branch-fast").encoder.name == "deixis"
    assert load("two-branch-fast").encoder.name == "deixis-fast"
    with pytest.raises(DeixisError, match="no-model-fast"):
        load("no-model-fast")
