"""Other people's features, in every format, and everything that can be wrong with them."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.vision.store import FeatureStore, import_features
from tests.vision.store.formats import FORMATS, MATRIX, NAMES, PHOTOS


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    captions = (Caption.from_text("A dog."),)
    photos = [Photo(name, captions, file=f"{name}.webp", width=40, height=30, sha256="ab" * 32) for name in PHOTOS]
    make_dataset(tmp_path / "data", photos)
    return Dataset(tmp_path / "data")


def write_karpathy(path: Path) -> None:
    path.write_text(json.dumps({"dataset": "flickr8k", "images": [{"filename": name} for name in NAMES]}))


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
@pytest.mark.parametrize("turned", [False, True])
def test_names_may_be_in_a_file_of_their_own(dataset: Dataset, tmp_path: Path, form: str, turned: bool) -> None:
    ids = tmp_path / "ids"
    if form == "lines":
        ids.write_text("\ufeff" + "\r\n".join(NAMES) + "\r\n\r\n", encoding="utf-8")
    elif form == "list":
        ids.write_text(json.dumps(NAMES))
    else:
        write_karpathy(ids)
    np.save(tmp_path / "a.npy", MATRIX.T if turned else MATRIX)
    import_features(tmp_path / "store", dataset, tmp_path / "a.npy", ids=ids)
    assert np.array_equal(FeatureStore(tmp_path / "store").whole(PHOTOS), MATRIX)


def test_a_single_photo_is_enough(dataset: Dataset, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", MATRIX[:1])
    (tmp_path / "ids").write_text("25\n")
    report = import_features(tmp_path / "store", dataset, tmp_path / "a.npy", ids=tmp_path / "ids")
    assert report.photos == 1


def test_numbers_may_be_names_as_in_coco(dataset: Dataset, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=MATRIX[:2], image_ids=np.array([25, 77]))
    report = import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    assert FeatureStore(tmp_path / "store").ids == ["25"]
    assert report.unknown == 1


def test_numbers_may_be_names_in_safetensors_too(dataset: Dataset, tmp_path: Path) -> None:
    save_file({"x": MATRIX[:2]}, tmp_path / "a.safetensors", {"ids": "[25, 77]"})
    import_features(tmp_path / "store", dataset, tmp_path / "a.safetensors")
    assert FeatureStore(tmp_path / "store").ids == ["25"]


def test_photos_without_features_are_named_and_rows_without_a_photo_counted(dataset: Dataset, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / "ids").write_text("1000268201\nstranger.jpg\nholiday\n")
    report = import_features(tmp_path / "store", dataset, tmp_path / "a.npy", ids=tmp_path / "ids")
    assert (report.photos, report.unknown) == (2, 1)
    assert [(error.path, error.reason) for error in report.skipped] == [("25", f"not in {tmp_path / 'a.npy'}")]
    assert np.array_equal(FeatureStore(tmp_path / "store").whole(PHOTOS[:2]), MATRIX[[0, 2]])


def test_importing_again_does_nothing_and_other_features_do_not_mix(dataset: Dataset, tmp_path: Path) -> None:
    FORMATS["listed.npz"](tmp_path / "a.npz")
    import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    again = import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    assert (again.new, again.kept) == (0, 3)
    np.savez(tmp_path / "a.npz", feats=MATRIX + 1, names=np.array(NAMES))
    with pytest.raises(DeixisError, match="holds features of imported:.*do not mix with imported:"):
        import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    assert np.array_equal(FeatureStore(tmp_path / "store").whole(PHOTOS), MATRIX)


def test_imported_vectors_have_no_maps(dataset: Dataset, tmp_path: Path) -> None:
    FORMATS["listed.npz"](tmp_path / "a.npz")
    import_features(tmp_path / "store", dataset, tmp_path / "a.npz")
    with pytest.raises(DeixisError, match="holds no maps; make a store that does with: .*--encoder NAME"):
        FeatureStore(tmp_path / "store").map("25")


def with_number(value: float) -> np.ndarray:
    matrix = MATRIX.copy()
    matrix[1, 2] = value
    return matrix


WRONG: dict[str, tuple[Callable[[Path], object], str | None, str]] = {
    "no ids": (lambda p: np.save(p, MATRIX), None, "does not say which photo each row is of; give --ids FILE"),
    "too few ids": (lambda p: np.save(p, MATRIX), "25\nholiday\n", "3 × 4 numbers do not fit 2 names"),
    "twice": (lambda p: np.save(p, MATRIX), "25\n25.jpg\nholiday\n", r"photo 25 comes twice, in rows 1 \(25\) and 2"),
    "nan": (lambda p: np.save(p, with_number(np.nan)), "25\nholiday\nx\n", "row 2, photo holiday, holds a number that"),
    "infinite": (lambda p: np.save(p, with_number(np.inf)), "25\nholiday\nx\n", "row 2, photo holiday"),
    "beyond float32": (
        lambda p: np.save(p, MATRIX.astype(np.float64) * 1e39 + 1e39),
        "25\nholiday\nx\n",
        "row 1, photo 25, holds a number that",
    ),
    "no columns": (lambda p: np.save(p, MATRIX[:, :0]), "25\nholiday\nx\n", "its vectors hold no numbers"),
    "no numbers": (lambda p: save_keyed(p, MATRIX[:, :0]), None, "its vectors hold no numbers"),
    "large by name": (
        lambda p: save_keyed(p, MATRIX.astype(np.float64) + 1e39),
        None,
        "holds a number that is not finite",
    ),
    "a deep list": (lambda p: np.save(p, MATRIX), "[" * 200_000, "neither a JSON list of names nor Karpathy's"),
    "a number as ids": (lambda p: save_file({"x": MATRIX}, p, {"ids": "5"}), None, "its ids are not a list of names"),
    "ids in a table": (lambda p: save_file({"x": MATRIX}, p, {"ids": '{"a": 1}'}), None, "ids are not a list of names"),
    "lists as ids": (
        lambda p: save_file({"x": MATRIX}, p, {"ids": "[[1], 2, 3]"}),
        None,
        "ids are not a list of names",
    ),
    "deep ids": (lambda p: save_file({"x": MATRIX}, p, {"ids": "[" * 200_000}), None, "cannot be read"),
    "strangers": (lambda p: np.save(p, MATRIX), "a\nb\nc\n", r"none of its 3 names \('a', say\) is a photo of .*data"),
    "three axes": (lambda p: np.save(p, MATRIX.reshape(3, 2, 2)), "a\nb\nc\n", "expected one matrix"),
    "words": (lambda p: np.save(p, np.array(NAMES)), "a\nb\nc\n", "expected one matrix.*no numbers"),
    "objects": (lambda p: np.save(p, np.array([{}], dtype=object), allow_pickle=True), "a\n", "cannot be read"),
    "bad list": (lambda p: np.save(p, MATRIX), '{"pictures": []}', "neither a JSON list of names nor Karpathy's"),
    "truncated": (lambda p: p.write_bytes(npy_bytes()[:-8]), "a\nb\nc\n", "cannot be read"),
    "a lie": (lambda p: p.write_bytes(b"\x93NUMPY\x01\x00\xff\xff"), "a\n", "cannot be read"),
    "no zip": (lambda p: p.write_bytes(b"PK\x03\x04 and so on"), "a\n", "cannot be read"),
    "no safetensors": (lambda p: p.write_bytes(b"\xff" * 8 + b"{"), "a\n", "cannot be read"),
    "no mat": (lambda p: p.write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200)), "a\n", "cannot be read"),
    "a picture": (lambda p: p.write_bytes(b"\x89PNG and so on"), "a\n", "not a file of features that is known: npy"),
    "nothing": (lambda p: p.write_bytes(b""), "a\n", "not a file of features that is known"),
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
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_and_nothing_is_written(dataset: Dataset, tmp_path: Path, name: str) -> None:
    write, ids, words = WRONG[name]
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
def test_damage_anywhere_is_one_line_or_harmless(dataset: Dataset, tmp_path: Path, name: str) -> None:
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
