"""Mirrored photos: their pixels, boxes and captions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from tests.scripts.conftest import Script


def make_data(folder: Path) -> Path:
    pixels = np.zeros((30, 40, 3), dtype=np.uint8)
    pixels[5:15, 2:12] = 255  # a white square on the left
    (folder / "images").mkdir()
    for name in ("a", "b"):
        Image.fromarray(pixels).save(folder / "images" / f"{name}.png")
    captions = (
        Caption.from_text("A white square.", (Mention(0, 14, "1", ("other",)),)),
        Caption.from_text("A square on the Left.", (Mention(0, 8, "1", ("other",)),)),
    )
    photos = [
        Photo(name, captions, (Chain("1"),), (Box((2, 5, 12, 15), ("1",)),), 40, 30, f"{name}.png", (split,))
        for name, split in (("a", "train"), ("b", "dev"))
    ]
    make_dataset(folder / "some.data", photos, images=folder / "images")
    return folder / "some.data"


def test_training_photos_get_a_mirrored_copy_with_captions_and_boxes(tmp_path: Path, script: Script) -> None:
    data = make_data(tmp_path)
    script("mirror_data.py", data, tmp_path / "both.data")
    dataset = Dataset(tmp_path / "both.data")
    assert list(dataset.split("dev").ids) == ["b"]
    [own, mirrored] = dataset.split("train")
    assert (own.id, mirrored.id) == ("a", "mirrored-a")
    assert [caption.text for caption in mirrored.captions] == ["A white square."]
    assert mirrored.captions[0].mentions == own.captions[0].mentions
    assert [box.xyxy for box in mirrored.boxes] == [(28, 5, 38, 15)]
    assert dataset.images is not None
    with Image.open(dataset.images / str(mirrored.file)) as photo:
        grey = np.asarray(photo.convert("L"))
    assert grey[5:15, 28:38].mean() > 200
    assert grey[5:15, 2:12].mean() < 50


def test_a_data_set_without_photos_is_one_line(tmp_path: Path, script: Script) -> None:
    make_dataset(tmp_path / "text.data", [Photo("a", (Caption.from_text("A dog."),), splits=("train",))])
    with pytest.raises(SystemExit, match=f"mirror_data: {tmp_path / 'text.data'}: has no photos"):
        script("mirror_data.py", tmp_path / "text.data", tmp_path / "out.data")
