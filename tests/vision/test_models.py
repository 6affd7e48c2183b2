"""The shipped weights were not trained on dev and record their training data."""

import hashlib
from pathlib import Path

import pytest
from coco_texts import read_coco

import deixis.vision
from deixis.storage.artifacts import read_config

MODELS = Path(deixis.vision.__file__).parent / "models"


@pytest.mark.parametrize("name", ["encoder", "fast", "head"])
def test_the_shipped_weights_were_not_trained_on_dev(name: str, real_data: Path) -> None:
    flickr8k, entities, coco = real_data / "flickr8k", real_data / "flickr30k_entities", real_data / "coco"
    ids = {
        "flickr8k": stems(flickr8k / "Flickr_8k.trainImages.txt"),
        "flickr30k_more": stems(real_data / "flickr30k_more" / "ids.txt"),
        "coco": stems(coco / "train.txt"),
        "memorability": [file.stem for file in (real_data / "memorability" / "Images").iterdir()],
    }
    captioned, questioned, dev_2017 = read_coco(real_data / "coco_train2017")
    for source, photos in (("coco2017", captioned), ("coco2017_questions", questioned)):
        ids[source] = [f"{photo.id:012}" for photo in photos]
    captions = stems(entities / "train.txt")
    learned_from = read_config(MODELS / name)["provenance"]["learned_from"]
    assert {source: learned_from["photo_ids"][source] for source in ids} == {
        source: counted(photos) for source, photos in ids.items()
    }
    assert learned_from["caption_ids"] == counted(captions)
    dev = {photo.split("_")[0] for photo in stems(flickr8k / "Flickr_8k.devImages.txt")}
    assert len(dev) == 1000
    assert not dev & {photo.split("_")[0] for photo in ids["flickr8k"] + ids["flickr30k_more"] + captions}
    assert not set(stems(coco / "dev.txt")) & set(ids["coco"])
    dev_ids = {f"{photo.id:012}" for photo in dev_2017}
    assert len(dev_ids) == 1000
    assert not dev_ids & {*ids["coco"], *ids["coco2017"], *ids["coco2017_questions"]}


def stems(file: Path) -> list[str]:
    return [Path(line).stem for line in file.read_text().split()]


def counted(ids: list[str]) -> dict[str, object]:
    return {"count": len(ids), "sha256": hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()}
