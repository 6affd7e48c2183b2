"""The shipped weights were not trained on dev and record their training data."""

import hashlib
from pathlib import Path

import pytest

import deixis.vision
from deixis.storage.artifacts import read_config

MODELS = Path(deixis.vision.__file__).parent / "models"


@pytest.mark.parametrize("name", ["encoder", "head"])
def test_the_shipped_weights_were_not_trained_on_dev(name: str, real_data: Path) -> None:
    flickr8k, entities = real_data / "flickr8k", real_data / "flickr30k_entities"
    photos = [line.removesuffix(".jpg") for line in (flickr8k / "Flickr_8k.trainImages.txt").read_text().split()]
    captions = (entities / "train.txt").read_text().split()
    learned_from = read_config(MODELS / name)["provenance"]["learned_from"]
    assert learned_from == {"photo_ids": counted(photos), "caption_ids": counted(captions)}
    dev = {line.split("_")[0] for line in (flickr8k / "Flickr_8k.devImages.txt").read_text().split()}
    assert len(dev) == 1000
    assert not dev & {photo.split("_")[0] for photo in photos}
    assert not dev & set(captions)


def counted(ids: list[str]) -> dict[str, object]:
    return {"count": len(ids), "sha256": hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()}
