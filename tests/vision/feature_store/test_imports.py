"""Import of feature files of other programs."""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.io import savemat

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.vision.feature_store import FeatureStore, containers, import_features
from deixis.vision.feature_store.containers import unpack_matlab
from deixis.vision.feature_store.imports import open_vectors
from tests.vision.feature_store.formats import FORMATS, MATRIX, NAMES, PHOTOS, write_matlab_73


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    captions = (Caption.from_text("A dog."),)
    photos = [Photo(name, captions, file=f"{name}.webp", width=40, height=30, sha256="ab" * 32) for name in PHOTOS]
    make_dataset(tmp_path / "data", photos)
    return Dataset(tmp_path / "data")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_store(dataset: Dataset, tmp_path: Path, name: str) -> None:
    FORMATS[name](tmp_path / name)
    report = import_features(tmp_path / "store", dataset, tmp_path / name)
    assert (report.photos, report.new, report.skipped, report.unknown) == (3, 3, [], 0)
    store = FeatureStore(tmp_path / "store")
    assert np.array_equal(store.whole(PHOTOS), MATRIX)
    assert store.sizes(["25"]).tolist() == [[40, 30]]
    assert store.contents.fingerprint.startswith("imported:")
    assert store.contents.encoder == store.contents.fingerprint


@pytest.mark.parametrize("form", ["lines", "list", "karpathy"])
@pytest.mark.parametrize("transposed", [False, True])
def test_names_may_be_in_a_file_of_their_own(dataset: Dataset, tmp_path: Path, form: str, transposed: bool) -> None:
    ids = tmp_path / "ids"
    if form == "lines":
        ids.write_text("\ufeff" + "\r\n".join(NAMES) + "\r\n\r\n", encoding="utf-8")
    elif form == "list":
        ids.write_text(json.dumps(NAMES))
    else:
        ids.write_text(json.dumps({"dataset": "flickr8k", "images": [{"filename": name} for name in NAMES]}))
    np.save(tmp_path / "a.npy", MATRIX.T if transposed else MATRIX)
    import_features(tmp_path / "store", dataset, tmp_path / "a.npy", ids=ids)
    assert np.array_equal(FeatureStore(tmp_path / "store").whole(PHOTOS), MATRIX)


@pytest.mark.parametrize("format", ["npz", "safetensors"])
def test_numbers_may_be_names_as_in_coco(dataset: Dataset, tmp_path: Path, format: str) -> None:
    path = tmp_path / f"a.{format}"
    if format == "npz":
        np.savez(path, features=MATRIX[:2], image_ids=np.array([25, 77]))
    else:
        save_file({"x": MATRIX[:2]}, path, {"ids": "[25, 77]"})
    report = import_features(tmp_path / "store", dataset, path)
    assert FeatureStore(tmp_path / "store").ids == ["25"]
    assert report.unknown == 1


def test_photos_without_features_are_named_and_rows_without_a_photo_counted(dataset: Dataset, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / "ids").write_text("1000268201\nstranger.jpg\nholiday\n")
    report = import_features(tmp_path / "store", dataset, tmp_path / "a.npy", ids=tmp_path / "ids")
    assert (report.photos, report.unknown) == (2, 1)
    assert [(error.path, error.reason) for error in report.skipped] == [("25", f"not in {tmp_path / 'a.npy'}")]
    assert np.array_equal(FeatureStore(tmp_path / "store").whole(PHOTOS[:2]), MATRIX[[0, 2]])


def test_importing_again_does_nothing_and_other_features_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    FORMATS["listed.npz"](tmp_path / "a.npz")
    import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    again = import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    assert (again.new, again.kept) == (0, 3)
    np.savez(tmp_path / "a.npz", feats=MATRIX + 1, names=np.array(NAMES))
    with pytest.raises(DeixisError, match="imported:.*imported:"):
        import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    assert np.array_equal(FeatureStore(tmp_path / "store").whole(PHOTOS), MATRIX)


def test_imported_vectors_have_no_maps(dataset: Dataset, tmp_path: Path) -> None:
    FORMATS["listed.npz"](tmp_path / "a.npz")
    import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    with pytest.raises(DeixisError, match="store.*--encoder NAME"):
        FeatureStore(tmp_path / "store").map("25")


def with_number(value: float) -> np.ndarray:
    matrix = MATRIX.copy()
    matrix[1, 2] = value
    return matrix


INVALID: dict[str, tuple[Callable[[Path], object], str | None, str]] = {
    "no ids": (lambda p: np.save(p, MATRIX), None, "features: .*--ids FILE"),
    "too few ids": (lambda p: np.save(p, MATRIX), "25\nholiday\n", "3 × 4 .*2 names"),
    "twice": (lambda p: np.save(p, MATRIX), "25\n25.jpg\nholiday\n", r"photo 25 .*rows 1 \(25\) and 2"),
    "nan": (lambda p: np.save(p, with_number(np.nan)), "25\nholiday\nx\n", "row 2, photo holiday"),
    "infinite": (lambda p: np.save(p, with_number(np.inf)), "25\nholiday\nx\n", "row 2, photo holiday"),
    "beyond float32": (
        lambda p: np.save(p, MATRIX.astype(np.float64) * 1e39 + 1e39),
        "25\nholiday\nx\n",
        "row 1, photo 25",
    ),
    "no columns": (lambda p: np.save(p, MATRIX[:, :0]), "25\nholiday\nx\n", "features: its vectors"),
    "no numbers": (lambda p: save_keyed(p, MATRIX[:, :0]), None, "features: its vectors"),
    "large by name": (lambda p: save_keyed(p, MATRIX.astype(np.float64) + 1e39), None, "not finite"),
    "a deep list": (lambda p: np.save(p, MATRIX), "[" * 200_000, "ids: "),
    "a number as ids": (lambda p: save_file({"x": MATRIX}, p, {"ids": "5"}), None, "features: ids"),
    "ids in a table": (lambda p: save_file({"x": MATRIX}, p, {"ids": '{"a": 1}'}), None, "features: ids"),
    "lists as ids": (lambda p: save_file({"x": MATRIX}, p, {"ids": "[[1], 2, 3]"}), None, "features: ids"),
    "deep ids": (lambda p: save_file({"x": MATRIX}, p, {"ids": "[" * 200_000}), None, "cannot be read"),
    "strangers": (lambda p: np.save(p, MATRIX), "a\nb\nc\n", r"ids: none of its 3 names .*'a'.*data"),
    "three axes": (lambda p: np.save(p, MATRIX.reshape(3, 2, 2)), "a\nb\nc\n", "expected one matrix"),
    "words": (lambda p: np.save(p, np.array(NAMES)), "a\nb\nc\n", "expected one matrix.*no numbers"),
    "objects": (lambda p: np.save(p, np.array([{}], dtype=object), allow_pickle=True), "a\n", "cannot be read"),
    "bad list": (lambda p: np.save(p, MATRIX), '{"pictures": []}', "ids: "),
    "truncated": (lambda p: p.write_bytes(npy_bytes()[:-8]), "a\nb\nc\n", "cannot be read"),
    "a lie": (lambda p: p.write_bytes(b"\x93NUMPY\x01\x00\xff\xff"), "a\n", "cannot be read"),
    "no zip": (lambda p: p.write_bytes(b"PK\x03\x04 and so on"), "a\n", "cannot be read"),
    "no safetensors": (lambda p: p.write_bytes(b"\xff" * 8 + b"{"), "a\n", "cannot be read"),
    "no mat": (lambda p: p.write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200)), "a\n", "cannot be read"),
    "a picture": (lambda p: p.write_bytes(b"\x89PNG and so on"), "a\n", "features: unknown format; use npy"),
    "nothing": (lambda p: p.write_bytes(b""), "a\n", "features: unknown format"),
    "not there": (lambda p: None, "a\n", "features: no such file"),
}


def save_keyed(path: Path, matrix: np.ndarray) -> None:
    with path.open("wb") as file:
        np.savez(file, **dict(zip(PHOTOS, matrix, strict=True)))


def npy_bytes() -> bytes:
    stream = io.BytesIO()
    np.save(stream, MATRIX)
    return stream.getvalue()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_file_is_named_and_nothing_is_written(dataset: Dataset, tmp_path: Path, name: str) -> None:
    write, ids, words = INVALID[name]
    written = tmp_path / "features.npy"
    write(written)
    path = tmp_path / "features"
    if written.exists():
        written.rename(path)
    if ids is not None:
        (tmp_path / "ids").write_text(ids)
    with pytest.raises(DeixisError, match=words) as error:
        import_features(tmp_path / "store", dataset, path, ids=tmp_path / "ids" if ids else None)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_damage_anywhere_raises_a_named_error_or_is_harmless(dataset: Dataset, tmp_path: Path, name: str) -> None:
    FORMATS[name](tmp_path / name)
    whole, chance = (tmp_path / name).read_bytes(), random.Random(name)
    for trial in range(3 if name in ("rows.mat", "columns.mat") else 60):  # these are read by a process each
        damaged = bytearray(whole)
        if trial % 3:
            for _ in range(chance.randint(1, 8)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        else:
            del damaged[chance.randrange(len(damaged)) :]
        (tmp_path / name).write_bytes(damaged)
        try:
            import_features(tmp_path / f"store{trial}", dataset, tmp_path / name)
        except DeixisError as error:
            assert "\n" not in str(error)


def test_a_square_matrix_has_a_row_for_each_photo(tmp_path: Path) -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    savemat(tmp_path / "a.mat", {"feats": square, "names": np.array(NAMES, dtype=object)})
    write_matlab_73(tmp_path / "73.mat", NAMES, square)
    for name in ("a.mat", "73.mat"):
        with open_vectors(tmp_path / name) as table:
            assert np.array_equal([table.read(1), table.read(2)], square[1:])


def test_the_error_about_several_matrices_lists_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=MATRIX, two=MATRIX, names=np.array(NAMES))
    with pytest.raises(DeixisError, match=r"a.npz: .*one 3×4, two 3×4"), open_vectors(tmp_path / "a.npz"):
        pass


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "SAFE_BYTES", 2**20)
    np.savez_compressed(tmp_path / "a.npz", feats=np.zeros((1000, 1000)))
    with pytest.raises(DeixisError, match="a.npz: refused.*8 MB"), open_vectors(tmp_path / "a.npz"):
        pass


def test_without_h5py_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n and so on")
    with pytest.raises(DeixisError, match="a.h5: .*pip install h5py"), open_vectors(tmp_path / "a.h5"):
        pass


@pytest.fixture
def matlab_file(tmp_path: Path) -> Path:
    savemat(tmp_path / "a.mat", {"feats": MATRIX, "names": np.array(NAMES, dtype=object), "other": {"a": 1}})
    return tmp_path / "a.mat"


def test_matlab_files_are_read_without_structures(matlab_file: Path, tmp_path: Path) -> None:
    found = unpack_matlab(matlab_file, tmp_path)
    assert sorted(found) == ["feats", "names"]
    assert np.array_equal(found["feats"], MATRIX)
    assert found["names"].tolist() == NAMES


def test_a_crash_of_the_reader_names_the_file(
    matlab_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(DeixisError, match="a.mat: "):
        unpack_matlab(matlab_file, tmp_path)
