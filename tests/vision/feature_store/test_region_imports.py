"""Import of region features and their boxes, in the layouts in which detectors give them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.io import savemat

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.vision.feature_store import FeatureStore, import_features
from tests.vision.feature_store.formats import write_hdf5

NAMES = ["one.jpg", "two.jpg"]
IDS = ["one", "two"]
COUNTS = [3, 2]
WIDTH, HEIGHT, SIZE = 40, 30, 5

RNG = np.random.default_rng(1)
FEATURES = [RNG.normal(size=(count, SIZE)).astype(np.float32) for count in COUNTS]
BOXES = [
    np.array([[0, 0, 20, 30], [10, 5, 40, 30], [2, 2, 8, 9]], dtype=np.float32),
    np.array([[1, 1, 30, 20], [0, 0, 40, 30]], dtype=np.float32),
]


def padded(arrays: list[np.ndarray]) -> np.ndarray:
    return np.stack([np.pad(each, [(0, 3 - len(each)), (0, 0)]) for each in arrays])


def folder_of(write: Callable[[Path, int], None], suffix: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        for number, photo in enumerate(IDS):
            write(path / f"{photo}{suffix}", number)

    return make


FLAT, FLAT_BOXES = np.concatenate(FEATURES), np.concatenate(BOXES)
LAYOUTS: dict[str, Callable[[Path], None]] = {
    "padded.npz": lambda path: np.savez(path, features=padded(FEATURES), boxes=padded(BOXES), ids=np.array(NAMES)),
    "counts.npz": lambda path: np.savez(
        path, x=padded(FEATURES) + 1 - 1, bbox=padded(BOXES), num_bbox=COUNTS, ids=np.array(NAMES)
    ),
    "flat.npz": lambda path: np.savez(path, feats=FLAT, boxes=FLAT_BOXES, counts=COUNTS, names=np.array(NAMES)),
    "bottom-up.h5": lambda path: write_hdf5(
        path, {"image_features": padded(FEATURES), "image_bb": padded(BOXES), "ids": NAMES}
    ),
    "adaptive.h5": lambda path: write_hdf5(
        path, {"image_features": FLAT, "image_bb": FLAT_BOXES, "pos_boxes": np.array([[0, 3], [3, 5]]), "ids": NAMES}
    ),
    "groups.h5": lambda path: write_hdf5(
        path,
        {f"{photo}/features": FEATURES[n] for n, photo in enumerate(IDS)}
        | {f"{photo}/boxes": BOXES[n] for n, photo in enumerate(IDS)},
    ),
    "groups.safetensors": lambda path: save_file(
        {f"{photo}/features": FEATURES[n] for n, photo in enumerate(IDS)}
        | {f"{photo}/boxes": BOXES[n] for n, photo in enumerate(IDS)},
        path,
    ),
    "padded.safetensors": lambda path: save_file(
        {"features": padded(FEATURES), "boxes": padded(BOXES)}, path, {"ids": json.dumps(NAMES)}
    ),
    "npz files": folder_of(lambda path, n: np.savez(path, x=FEATURES[n], bbox=BOXES[n], num_bbox=COUNTS[n]), ".npz"),
    "mat files": folder_of(lambda path, n: savemat(path, {"feat": FEATURES[n], "boxes": BOXES[n]}), ".mat"),
    "other size": folder_of(
        lambda path, n: np.savez(path, x=FEATURES[n], bbox=BOXES[n] * 3, image_w=WIDTH * 3, image_h=HEIGHT * 3), ".npz"
    ),
    "fractions": folder_of(
        lambda path, n: np.savez(path, x=FEATURES[n], bbox=BOXES[n] / [WIDTH, HEIGHT, WIDTH, HEIGHT]), ".npz"
    ),
}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    captions = (Caption.from_text("A dog."),)
    photos = [Photo(name, captions, file=f"{name}.webp", width=WIDTH, height=HEIGHT, sha256="ab" * 32) for name in IDS]
    make_dataset(tmp_path / "data", photos)
    return Dataset(tmp_path / "data")


def check(store: FeatureStore) -> None:
    for photo, vectors, boxes in zip(IDS, FEATURES, BOXES, strict=True):
        np.testing.assert_allclose(store.proposals(photo).boxes, boxes, atol=1e-3)
        np.testing.assert_array_equal(store.proposal_vectors(photo), vectors.astype(np.float16))


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_the_same_regions(dataset: Dataset, tmp_path: Path, name: str) -> None:
    LAYOUTS[name](tmp_path / name)
    report = import_features(tmp_path / "store", dataset, regions=tmp_path / name)
    assert (report.photos, report.new, report.skipped, report.unknown) == (2, 2, [], 0)
    store = FeatureStore(tmp_path / "store")
    check(store)
    assert (store.contents.proposer, store.contents.top, store.contents.channels) == ("imported", 3, SIZE)
    np.testing.assert_allclose(store.whole(IDS), [each.mean(axis=0) for each in FEATURES], atol=1e-6)


def test_photos_may_have_vectors_of_another_size(dataset: Dataset, tmp_path: Path) -> None:
    LAYOUTS["padded.npz"](tmp_path / "regions.npz")
    fc7 = np.arange(14, dtype=np.float32).reshape(2, 7)
    np.savez(tmp_path / "fc7.npz", feats=fc7, names=np.array(NAMES))
    import_features(tmp_path / "store", dataset, tmp_path / "fc7.npz", regions=tmp_path / "regions.npz")
    store = FeatureStore(tmp_path / "store")
    check(store)
    assert (store.contents.dimension, store.contents.channels) == (7, SIZE)
    assert np.array_equal(store.whole(IDS), fc7)


def test_boxes_may_be_in_a_file_of_their_own_and_have_width_and_height(dataset: Dataset, tmp_path: Path) -> None:
    sides = [np.hstack([each[:, :2], each[:, 2:] - each[:, :2]]) for each in BOXES]
    np.save(tmp_path / "ims.npy", padded(FEATURES))
    np.save(tmp_path / "boxes.npy", padded(sides))
    (tmp_path / "ids.txt").write_text("\n".join(NAMES))
    import_features(
        tmp_path / "store",
        dataset,
        regions=tmp_path / "ims.npy",
        boxes=tmp_path / "boxes.npy",
        ids=tmp_path / "ids.txt",
        box_format="xywh",
    )
    check(FeatureStore(tmp_path / "store"))


def test_the_most_probable_region_is_first_and_a_box_is_stored_once(dataset: Dataset, tmp_path: Path) -> None:
    boxes = np.concatenate([BOXES[0], BOXES[0][:1]])
    vectors = np.concatenate([FEATURES[0], FEATURES[0][:1] + 1])
    (tmp_path / "regions").mkdir()
    np.savez(tmp_path / "regions" / "one.npz", features=vectors, boxes=boxes, scores=[0.2, 0.9, 0.5, 0.1])
    report = import_features(tmp_path / "store", dataset, regions=tmp_path / "regions")
    assert [error.path for error in report.skipped] == ["two"]
    store = FeatureStore(tmp_path / "store")
    np.testing.assert_array_equal(store.proposals("one").boxes, BOXES[0][[1, 2, 0]])
    np.testing.assert_array_equal(store.proposal_vectors("one"), FEATURES[0][[1, 2, 0]].astype(np.float16))


def test_other_boxes_take_the_vector_of_the_nearest_region_and_there_is_no_map(
    dataset: Dataset, tmp_path: Path
) -> None:
    LAYOUTS["padded.npz"](tmp_path / "regions.npz")
    import_features(tmp_path / "store", dataset, regions=tmp_path / "regions.npz")
    store = FeatureStore(tmp_path / "store")
    found = store.regions("one", [[1, 0, 21, 30], [2, 2, 9, 9]])
    np.testing.assert_array_equal(found, FEATURES[0][[0, 2]].astype(np.float16))
    np.testing.assert_array_equal(store.whole_regions(["two"]), FEATURES[1][[1]].astype(np.float16))
    with pytest.raises(DeixisError, match="no maps"):
        store.map("one")


BROKEN: dict[str, tuple[dict[str, object], str]] = {
    "no boxes": ({"features": padded(FEATURES), "ids": np.array(NAMES)}, "no features and boxes"),
    "other photos": ({"features": padded(FEATURES), "boxes": padded(BOXES), "ids": np.array(["x", "y"])}, "matches"),
    "too few names": ({"features": padded(FEATURES), "boxes": padded(BOXES), "ids": np.array(["one"])}, "do not fit"),
    "outside": ({"features": padded(FEATURES), "boxes": padded(BOXES) * 2, "ids": np.array(NAMES)}, "one: boxes leave"),
    "infinite": (
        {"features": padded(FEATURES) + np.inf, "boxes": padded(BOXES), "ids": np.array(NAMES)},
        "one has a number that is not finite",
    ),
    "reversed ranges": (
        {"feats": FLAT, "boxes": FLAT_BOXES, "pos_boxes": [[0, 5], [5, 3]], "names": np.array(NAMES)},
        "do not fit",
    ),
    "negative counts": (
        {"feats": FLAT, "boxes": FLAT_BOXES, "counts": [6, -1], "names": np.array(NAMES)},
        "do not fit",
    ),
    "wrong counts": ({"feats": FLAT, "boxes": FLAT_BOXES, "counts": [3, 3], "names": np.array(NAMES)}, "do not fit"),
    "an empty box": (
        {"features": padded(FEATURES), "boxes": np.ones((2, 3, 4)), "ids": np.array(NAMES)},
        "one has no box with an area",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_invalid_file_is_named_and_nothing_is_written(dataset: Dataset, tmp_path: Path, name: str) -> None:
    arrays, message = BROKEN[name]
    np.savez(tmp_path / "regions.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(DeixisError, match=f"regions.npz: .*{message}"):
        import_features(tmp_path / "store", dataset, regions=tmp_path / "regions.npz")
    assert not (tmp_path / "store").exists()
