"""The weights that ship: learned from no photo of dev, and saying so."""

import hashlib
import json
from pathlib import Path

import pytest
from safetensors import safe_open

import deixis.vision

MODELS = Path(deixis.vision.__file__).parent / "models"


@pytest.mark.parametrize("name", ["encoder", "proposals"])
def test_what_ships_was_learned_from_no_photo_of_dev(name: str, real_data: Path) -> None:
    flickr8k, entities = real_data / "flickr8k", real_data / "flickr30k_entities"
    photos = [line.removesuffix(".jpg") for line in (flickr8k / "Flickr_8k.trainImages.txt").read_text().split()]
    captions = (entities / "train.txt").read_text().split()
    with safe_open(MODELS / f"{name}.safetensors", framework="np") as file:
        learned_from = json.loads(file.metadata()["learned_from"])
    assert learned_from == {"photo_ids": counted(photos), "caption_ids": counted(captions)}
    dev = {line.split("_")[0] for line in (flickr8k / "Flickr_8k.devImages.txt").read_text().split()}
    assert len(dev) == 1000
    assert not dev & {photo.split("_")[0] for photo in photos}
    assert not dev & set(captions)


def counted(ids: list[str]) -> dict[str, object]:
    return {"count": len(ids), "sha256": hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()}
