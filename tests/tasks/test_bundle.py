"""A bundle: saved whole, opened the same, and clear about what it cannot do."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.language.features.base import CHUNK
from deixis.language.saved import Saved
from deixis.models.saved import StoredModel
from deixis.tasks import bundle as module
from deixis.tasks.bundle import FILE, Bundle, EncoderOfBundle, LearnedFrom, load, new_bundle
from deixis.vision import encoders
from tests.tasks.coloured import fitted_bundle, make_coloured
from tests.test_house import modules_after
from tests.vision.store.small import colour_encoder

SENTENCES = ["A red wall.", "Everything here is blue.", "words nobody has seen", ""]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    return make_coloured(tmp_path)


@pytest.fixture
def bundle(dataset: Dataset) -> Bundle:
    return fitted_bundle(dataset)


@pytest.fixture
def folder(bundle: Bundle, tmp_path: Path) -> Path:
    bundle.save(tmp_path / "made.model")
    return tmp_path / "made.model"


def paths(dataset: Dataset) -> list[Path]:
    return [dataset.path_of(photo) for photo in dataset.photos]


def test_what_was_saved_gives_the_same_numbers(bundle: Bundle, folder: Path, dataset: Dataset) -> None:
    again = Bundle.load(folder)
    assert again.encoder == bundle.encoder
    np.testing.assert_array_equal(again.encode_images(paths(dataset)), bundle.encode_images(paths(dataset)))
    np.testing.assert_array_equal(again.encode_sentences(SENTENCES), bundle.encode_sentences(SENTENCES))


def test_photos_are_paths_or_open_images_and_any_number_of_them(bundle: Bundle, dataset: Dataset) -> None:
    from_paths = bundle.encode_images([str(path) for path in paths(dataset)])
    opened = [Image.open(path) for path in paths(dataset)]
    np.testing.assert_array_equal(bundle.encode_images(opened), from_paths)
    np.testing.assert_allclose(np.linalg.norm(from_paths, axis=1), 1, atol=1e-5)
    one_by_one = [bundle.encode_images([path])[0] for path in paths(dataset)]
    np.testing.assert_allclose(np.stack(one_by_one), from_paths, atol=1e-6)


def test_so_many_sentences_that_they_come_in_chunks_keep_their_order(bundle: Bundle) -> None:
    colours = ["red", "green", "blue"]
    many = [f"A {colours[number % 3]} wall." for number in range(CHUNK + 5)]
    vectors = bundle.encode_sentences(many)
    three = bundle.encode_sentences(many[:3])
    np.testing.assert_allclose(vectors, three[np.arange(len(many)) % 3], atol=1e-6)


def test_nothing_in_is_nothing_out(bundle: Bundle) -> None:
    assert bundle.encode_images([]).shape == bundle.encode_sentences([]).shape == (0, 2)


def test_similarity_is_the_dot_product_of_every_pair(bundle: Bundle, dataset: Dataset) -> None:
    photos, sentences = bundle.encode_images(paths(dataset)[:3]), bundle.encode_sentences(SENTENCES)
    plain = [[float(np.dot(photo, sentence)) for sentence in sentences] for photo in photos]
    np.testing.assert_allclose(bundle.similarity(photos, sentences), plain, atol=1e-6)


def test_crops_are_taken_where_the_model_learned_from_crops(bundle: Bundle, dataset: Dataset) -> None:
    cropped = Bundle(EncoderOfBundle("colours", "colours-1", crops=10), bundle.text, bundle.model)
    opened = [Image.open(path) for path in paths(dataset)]
    plain = bundle.model.prepare_visual(colour_encoder().encode_crops(opened))
    np.testing.assert_allclose(cropped.encode_images(opened), plain, atol=1e-6)
    assert not np.allclose(cropped.encode_images(opened), bundle.encode_images(opened))


def test_models_of_one_encoder_share_it_while_anybody_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_encoder(name: str) -> object:
        opened.append(name)
        return colour_encoder()

    monkeypatch.setattr(encoders, "open_encoder", open_encoder)
    fingerprint = colour_encoder().fingerprint
    one, other = (EncoderOfBundle("a test's own", fingerprint, crops).open() for crops in (0, 10))
    assert one is other
    assert len(opened) == 1
    del one, other
    gc.collect()
    EncoderOfBundle("a test's own", fingerprint).open()
    assert len(opened) == 2


@pytest.mark.parametrize("encode", ["encode_images", "encode_sentences"])
def test_one_string_is_not_taken_for_its_letters(bundle: Bundle, encode: str) -> None:
    with pytest.raises(DeixisError, match=r"^(photos|sentences): give a list of them, not one str$"):
        getattr(bundle, encode)("dog.jpg")


def test_a_photo_that_cannot_be_read_is_named(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(b"no photo")
    with pytest.raises(DeixisError, match="x.jpg: not a photo in a known format"):
        bundle.encode_images([tmp_path / "x.jpg"])


def test_another_version_of_the_encoder_is_one_line(
    folder: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder("colours-2"))
    again = Bundle.load(folder)
    assert again.encode_sentences(SENTENCES).shape == (4, 2)
    with pytest.raises(
        DeixisError,
        match=r"^the model learned from another version of the encoder colours \(colours-1, here is colours-2\); train",
    ):
        again.encode_images(paths(dataset))


def test_an_older_model_is_replaced_and_nothing_of_it_stays(bundle: Bundle, folder: Path) -> None:
    bundle.save(folder, card="# old")
    assert (folder / "README.md").read_text() == "# old"
    bundle.save(folder)
    assert {path.name for path in folder.iterdir() if path.name[0] != "."} == {FILE, "model", "text"}


def test_what_is_no_model_is_never_replaced(bundle: Bundle, dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "copied").mkdir()
    (tmp_path / "copied" / FILE).write_text("{}")
    for place in (dataset.path, tmp_path / "thesis"):
        with pytest.raises(DeixisError, match=f"{place.name}: not replaced, it is no model; give another name"):
            bundle.save(place)
    with pytest.raises(DeixisError, match="file: a file has this name"):
        bundle.save(tmp_path / "file")
    with pytest.raises(DeixisError, match="copied: not replaced, it was not made by deixis"):
        bundle.save(tmp_path / "copied")
    assert list(Dataset(dataset.path).photos) == list(dataset.photos)
    assert (tmp_path / "thesis" / "thesis.txt").exists()
    bundle.save(tmp_path / "thesis" / "inside")


def test_a_failure_leaves_the_older_model_whole(bundle: Bundle, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_bundle(folder) as unfinished:
        (unfinished / FILE).write_text("half")
        raise KeyboardInterrupt
    assert Bundle.load(folder).encoder == bundle.encoder
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, r"made.model: no model here \(bundle.json is missing\)"),
        ("{", "damaged, or not made by deixis"),
        ("[]", "not a model made by deixis train"),
        ('{"format": "deixis-model"}', "not a model made by deixis train"),
        ('{"format": "deixis-bundle", "version": 9}', "written for version 9, this deixis reads 1"),
        ('{"format": "deixis-bundle", "version": 1}', "damaged, or not made by deixis"),
        ('{"format": "deixis-bundle", "version": 1, "encoder": {"colour": 1}}', "damaged, or not made by deixis"),
        (
            '{"format": "deixis-bundle", "version": 1, "encoder": {"name": 1, "fingerprint": "x"}}',
            "damaged, or not made by deixis",
        ),
        ('{"format": "deixis-bundle", "version": 1, "encoder": {"name": "a", "fingerprint": "b"}}', "damaged, or not"),
        (
            '{"format": "deixis-bundle", "version": 1, "encoder": {"name": "a", "fingerprint": "b"}, '
            '"learned": {"learn": "nothing"}, "reads_words": false}',
            "damaged, or not made by deixis",
        ),
    ],
)
def test_damage_is_one_clear_line(folder: Path, text: str | None, complaint: str) -> None:
    (folder / FILE).unlink()
    if text is not None:
        (folder / FILE).write_text(text)
    with pytest.raises(DeixisError, match=complaint) as refusal:
        Bundle.load(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("part", ["model/settings.json", "model/weights.safetensors", "text/saved.json"])
def test_a_missing_part_is_named(folder: Path, part: str) -> None:
    (folder / part).unlink()
    with pytest.raises(DeixisError, match=f"made.model/{part.split('/')[0]}"):
        Bundle.load(folder)


def test_a_model_without_vectors_is_one_clear_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Judge(StoredModel):
        KIND = "judge"

        def saved(self) -> Saved:
            return Saved(self.KIND, {})

        @classmethod
        def from_saved(cls, saved: Saved) -> Judge:
            return cls()

    monkeypatch.setattr(module, "load_model", lambda path: Judge())
    with pytest.raises(DeixisError, match="model: holds a judge, which gives no vectors to compare"):
        Bundle.load(folder)


def test_the_file_says_which_encoder_it_needs(folder: Path) -> None:
    assert json.loads((folder / FILE).read_text())["encoder"] == {
        "name": "colours",
        "fingerprint": "colours-1",
        "crops": 0,
    }


def test_a_run_directory_opens_as_the_model_in_it(bundle: Bundle, tmp_path: Path) -> None:
    bundle.save(tmp_path / "run" / "model")
    (tmp_path / "run" / "log.jsonl").write_text("")
    np.testing.assert_array_equal(
        load(tmp_path / "run").encode_sentences(SENTENCES), bundle.encode_sentences(SENTENCES)
    )


def test_what_it_learned_from_is_remembered(bundle: Bundle, tmp_path: Path) -> None:
    learned = LearnedFrom("phrases", 2.5, "edge-boxes", 7, "abc")
    Bundle(bundle.encoder, bundle.text, bundle.model, learned).save(tmp_path / "other")
    assert Bundle.load(tmp_path / "other").learned == learned


def test_load_is_there_when_it_is_asked_for(folder: Path) -> None:
    assert isinstance(deixis.load(folder), Bundle)
    assert "load" in dir(deixis)
    assert modules_after("-c", "import deixis").isdisjoint({"numpy", "PIL", "torch"})
    assert "numpy" in modules_after("-c", "import deixis; deixis.load")


def test_a_name_that_is_no_model_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"^m: no such directory, and no model comes with deixis by this name \("):
        load("m")
    with pytest.raises(DeixisError, match="no model here"):
        load(tmp_path)
    with pytest.raises(
        AttributeError, match="deixis' has no attribute 'fly'; it has DeixisError, caption, describe, ground, load"
    ):
        deixis.fly  # noqa: B018
