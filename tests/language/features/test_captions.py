"""Vectors of captions: fitted to the training split, cached, and computed again after changes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.language.features import TfIdf, captions
from deixis.language.features.captions import KINDS, Recipe, build_caption_features, caption_vectors, recipe_of
from tests.unchecked import without_checksums


class Recorded(TfIdf):
    """Records the sentences that it is fitted to."""

    fitted_to: ClassVar[list[list[str]]] = []

    def fit(self, sentences):
        Recorded.fitted_to.append(list(sentences))
        return super().fit(sentences)


@pytest.fixture(autouse=True)
def forget() -> None:
    Recorded.fitted_to = []


RECIPE = Recipe("tfidf", "", lambda: Recorded(minimum=1))


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return make_data(tmp_path)


def make_data(folder: Path, dev: str = "A zebra .") -> Dataset:
    dog = Photo("1", (Caption.from_text("A dog ."), Caption.from_text("Two dogs .")), splits=("train",))
    zebra = Photo("2", (Caption.from_text(dev),), splits=("dev",))
    cat = Photo("3", (Caption.from_text("A cat ."),), splits=("train",))
    make_dataset(folder / "data", [dog, zebra, cat], replace_old=True)
    return Dataset(folder / "data")


def test_rows_are_in_the_order_of_the_captions_table(tmp_path: Path, dataset: Dataset) -> None:
    report = build_caption_features(tmp_path / "text", dataset, RECIPE)
    texts = ["A dog .", "Two dogs .", "A zebra .", "A cat ."]
    expected = TfIdf(minimum=1).fit([texts[0], texts[1], texts[3]]).transform(texts)
    vectors = caption_vectors(tmp_path / "text", dataset)
    assert isinstance(vectors, np.memmap)
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert (report.manifest.captions, report.manifest.dimension) == expected.shape


def test_only_the_training_split_is_fitted_and_a_second_run_computes_nothing(tmp_path: Path, dataset: Dataset) -> None:
    build_caption_features(tmp_path / "text", dataset, RECIPE)
    report = build_caption_features(tmp_path / "text", dataset, RECIPE)
    assert (report.fitted, report.transformed) == (False, False)
    assert Recorded.fitted_to == [["A dog .", "Two dogs .", "A cat ."]]


def test_new_captions_outside_the_training_split_are_transformed_without_fitting(tmp_path: Path) -> None:
    build_caption_features(tmp_path / "text", make_data(tmp_path), RECIPE)
    changed = make_data(tmp_path, dev="A dog .")
    with pytest.raises(DeixisError, match="run deixis features .* again"):
        caption_vectors(tmp_path / "text", changed)
    report = build_caption_features(tmp_path / "text", changed, RECIPE)
    assert (report.fitted, report.transformed) == (False, True)
    vectors = caption_vectors(tmp_path / "text", changed)
    np.testing.assert_allclose(vectors[2], vectors[0], rtol=1e-6)
    assert len(list((tmp_path / "text").glob("*.npy"))) == 1


def test_other_word_vectors_or_another_split_are_fitted_again(tmp_path: Path, dataset: Dataset) -> None:
    build_caption_features(tmp_path / "text", dataset, RECIPE)
    assert build_caption_features(tmp_path / "text", dataset, Recipe("tfidf", "others", RECIPE.make)).fitted
    assert build_caption_features(tmp_path / "text", dataset, RECIPE, train="dev").fitted
    assert Recorded.fitted_to[-1] == ["A zebra ."]
    assert len(list((tmp_path / "text").glob("fitted-*"))) == 1


def test_the_next_run_repairs_a_flipped_bit(tmp_path: Path, dataset: Dataset) -> None:
    file = tmp_path / "text" / build_caption_features(tmp_path / "text", dataset, RECIPE).manifest.file
    data = bytearray(file.read_bytes())
    data[-1] ^= 64
    file.write_bytes(data)
    report = build_caption_features(tmp_path / "text", dataset, RECIPE)
    assert (report.fitted, report.transformed) == (False, True)
    assert file.read_bytes() != data


def test_a_full_disk_keeps_the_fitted_features(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    with pytest.raises(DeixisError, match="disk"):
        build_caption_features(tmp_path / "text", dataset, RECIPE)
    monkeypatch.undo()
    report = build_caption_features(tmp_path / "text", dataset, RECIPE)
    assert (report.fitted, report.transformed, len(Recorded.fitted_to)) == (False, True, 1)


@pytest.mark.parametrize("text", ["{", "[" * 200_000])
def test_missing_splits_and_damaged_manifests_are_errors(tmp_path: Path, dataset: Dataset, text: str) -> None:
    with pytest.raises(DeixisError, match="'test'"):
        build_caption_features(tmp_path / "text", dataset, RECIPE, train="test")
    with pytest.raises(DeixisError, match="deixis features"):
        caption_vectors(tmp_path / "text", dataset)
    build_caption_features(tmp_path / "text", dataset, RECIPE)
    (tmp_path / "text" / "manifest.json").write_text(text)
    with pytest.raises(DeixisError, match="^[^\n]*manifest.json: damaged[^\n]*$"):
        caption_vectors(tmp_path / "text", dataset)


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(DeixisError, match=f"word2vec.*{', '.join(KINDS)}$"):
        recipe_of("word2vec")


def test_the_recipe_depends_on_the_word_vectors(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("dog 1 0\ncat 0 1\n")
    (tmp_path / "same.txt").write_text("dog 1 0\ncat 0 1\n")
    (tmp_path / "b.txt").write_text("dog 1 0\ncat 0 2\n")
    a, same, b = (recipe_of("mean", str(tmp_path / f"{name}.txt")).vectors for name in ("a", "same", "b"))
    assert a == same != b


def test_other_sizes_are_kept_beside_those_of_the_papers(tmp_path: Path, dataset: Dataset) -> None:
    (tmp_path / "words.txt").write_text("a 1 0 2\nzebra 0 1 3\ndog 2 1 1\n")
    words = str(tmp_path / "words.txt")
    usual, small = recipe_of("hglmm", words), recipe_of("hglmm", words, components=1, dimension=1)
    folders = [recipe.folder(dataset.path).name for recipe in (usual, small)]
    assert folders == ["text-hglmm", "text-hglmm,components=1,dim=1"]
    found = [build_caption_features(tmp_path / "text", dataset, recipe).manifest for recipe in (usual, small)]
    assert found[1].dimension == 1
    assert found[0].learned != found[1].learned
    assert recipe_of("mean", words, components=1, dimension=1).sizes == ""


def test_a_folder_with_other_files_is_an_error(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "fitted-shoes").mkdir(parents=True)
    (mine / "captions-of-mine.npy").write_bytes(b"years of work")
    with pytest.raises(DeixisError, match="mine"):
        build_caption_features(mine, make_data(tmp_path), RECIPE)
    assert sorted(child.name for child in mine.iterdir()) == ["captions-of-mine.npy", "fitted-shoes"]


def test_other_files_in_the_folder_are_never_removed(tmp_path: Path) -> None:
    build_caption_features(tmp_path / "text", make_data(tmp_path), RECIPE)
    (tmp_path / "text" / "fitted-shoes").mkdir()
    (tmp_path / "text" / "captions-of-mine.npy").write_bytes(b"years of work")
    report = build_caption_features(tmp_path / "text", make_data(tmp_path, dev="A dog ."), RECIPE, train="dev")
    assert report.fitted
    names = sorted(child.name for child in (tmp_path / "text").iterdir())
    fitted = f"fitted-{report.manifest.learned[:8]}"
    assert names == sorted(["captions-of-mine.npy", "fitted-shoes", "manifest.json", fitted, report.manifest.file])


@pytest.mark.parametrize(
    ("name", "value"), [("file", "../precious.npy"), ("file", 5), ("learned", "../../x"), ("version", 99)]
)
def test_a_manifest_with_other_file_names_is_an_error(
    tmp_path: Path, dataset: Dataset, name: str, value: object
) -> None:
    build_caption_features(tmp_path / "text", dataset, RECIPE)
    (tmp_path / "precious.npy").write_bytes(b"years of work")
    without_checksums(tmp_path / "text")
    path = tmp_path / "text" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(DeixisError, match="^[^\n]*manifest.json: damaged[^\n]*$"):
        build_caption_features(tmp_path / "text", dataset, RECIPE, train="dev")
    assert (tmp_path / "precious.npy").exists()


def test_missing_permissions_are_reported_as_such(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_caption_features(tmp_path / "text", dataset, RECIPE)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patched:
        patched.setattr(np, "load", refuse)
        with pytest.raises(DeixisError, match="npy: .*Permission denied"):
            caption_vectors(tmp_path / "text", dataset)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DeixisError, match="manifest.json: .*Permission denied"):
        caption_vectors(tmp_path / "text", dataset)


def test_an_emptied_array_is_an_error(tmp_path: Path, dataset: Dataset) -> None:
    (tmp_path / "text" / build_caption_features(tmp_path / "text", dataset, RECIPE).manifest.file).write_bytes(b"")
    with pytest.raises(DeixisError, match="npy: .*run deixis features .* again$"):
        caption_vectors(tmp_path / "text", dataset)


@pytest.mark.parametrize("version", ["CODE_VERSION", "TOKENIZER_VERSION"])
def test_a_new_version_of_the_code_is_fitted_again(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    build_caption_features(tmp_path / "text", dataset, RECIPE)
    monkeypatch.setattr(captions, version, getattr(captions, version) + 1)
    assert build_caption_features(tmp_path / "text", dataset, RECIPE).fitted


def test_files_of_an_interrupted_run_do_not_prevent_another_recipe(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(np.lib.format, "write_array_header_1_0", killed)
        with pytest.raises(KeyboardInterrupt):
            build_caption_features(tmp_path / "text", dataset, RECIPE)
    assert build_caption_features(tmp_path / "text", dataset, Recipe("tfidf", "others", RECIPE.make)).fitted
