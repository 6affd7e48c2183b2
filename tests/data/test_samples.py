"""The sample photos are complete, small and attributed."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from deixis.data.checks import check_dataset
from deixis.data.dataset import Dataset
from deixis.data.imports import import_dataset
from deixis.data.samples import SAMPLES

ENTITIES = SAMPLES / "entities"
PHOTOS = sorted(path.stem for path in (SAMPLES / "images").iterdir())


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("samples") / "data"
    report = import_dataset(out, images=SAMPLES / "images", entities=ENTITIES)
    assert (report.without_photo, report.photos_without_caption, report.unreadable) == (0, 0, [])
    return Dataset(out)


def test_each_photo_has_one_caption_file_and_one_annotation_and_nothing_is_left_over() -> None:
    for folder, suffix in (
        (SAMPLES / "images", "jpg"),
        (ENTITIES / "Sentences", "txt"),
        (ENTITIES / "Annotations", "xml"),
    ):
        assert sorted(path.name for path in folder.iterdir()) == [f"{name}.{suffix}" for name in PHOTOS]


def test_the_annotations_have_no_problems(dataset: Dataset) -> None:
    """Boxes lie inside the photos, chains are mentioned and annotated, splits do not overlap, files can be decoded."""
    assert check_dataset(dataset, decode=True) == []
    assert sorted(dataset.photos.ids) == PHOTOS
    assert dataset.manifest.splits.keys() == {"train", "val", "test"}
    for photo in dataset.photos:
        assert photo.splits
        assert len(photo.captions) == 5
        assert all(bool(photo.boxes_of(chain.id)) != chain.no_box for chain in photo.chains)


@pytest.mark.parametrize("name", PHOTOS)
def test_the_photo_is_a_small_jpeg_without_metadata(name: str) -> None:
    with Image.open(SAMPLES / "images" / f"{name}.jpg") as photo:
        assert photo.format == "JPEG"
        assert max(photo.size) <= 640
        assert not photo.getexif()
        assert not {"icc_profile", "comment", "xmp", "photoshop"} & photo.info.keys()
        assert np.asarray(photo.convert("RGB"), dtype=float).std() > 10  # a picture, not an empty sheet


def test_the_readme_names_author_source_and_licence_of_every_photo() -> None:
    lines = (SAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert sorted(row[0] for row in rows) == [f"`{name}.jpg`" for name in PHOTOS]
    for _, *facts, licence in rows:
        assert len(facts) == 3
        assert all(facts)
        assert licence in {"public domain", "[CC0 1.0]", "[CC BY 2.0]", "[CC BY 4.0]"}
