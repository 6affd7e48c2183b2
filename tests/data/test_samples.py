"""The sample photos are complete, small and attributed."""

import re
import xml.etree.ElementTree as ET
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SAMPLES = Path(str(files("deixis"))) / "data" / "samples"
ENTITIES = SAMPLES / "entities"
PHOTOS = sorted(path.stem for path in (SAMPLES / "images").iterdir())
TYPES = {"people", "bodyparts", "animals", "clothing", "instruments", "vehicles", "scene", "other"}
MENTION = re.compile(r"\[/EN#(\d+)/(\w+) ([^\[\]]+)\]")

each_photo = pytest.mark.parametrize("name", PHOTOS)


def photo_size(name: str) -> tuple[int, int]:
    with Image.open(SAMPLES / "images" / f"{name}.jpg") as photo:
        return photo.size


def captions(name: str) -> list[str]:
    return (ENTITIES / "Sentences" / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def mentions(name: str) -> list[tuple[int, str, str]]:
    """Chain, type and words of every marked phrase."""
    found = [mention for caption in captions(name) for mention in MENTION.findall(caption)]
    return [(int(chain), kind, words) for chain, kind, words in found]


def annotation(name: str) -> ET.Element:
    return ET.parse(ENTITIES / "Annotations" / f"{name}.xml").getroot()


def number(element: ET.Element, path: str) -> int:
    return int(element.findtext(path, default=""))


def boxes(name: str) -> np.ndarray:
    """All boxes as written: 1-based, both ends inclusive."""
    sides = ("xmin", "ymin", "xmax", "ymax")
    return np.array([[number(box, side) for side in sides] for box in annotation(name).iter("bndbox")])


def test_there_are_ten_to_sixteen_photos() -> None:
    assert 10 <= len(PHOTOS) <= 16


def test_the_samples_weigh_less_than_1_2_mb() -> None:
    weights = [path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file()]
    assert sum(weights) < 1_200_000


def test_each_photo_has_one_caption_file_and_one_annotation_and_nothing_is_left_over() -> None:
    assert sorted(path.name for path in (SAMPLES / "images").iterdir()) == [f"{name}.jpg" for name in PHOTOS]
    assert sorted(path.name for path in (ENTITIES / "Sentences").iterdir()) == [f"{n}.txt" for n in PHOTOS]
    assert sorted(path.name for path in (ENTITIES / "Annotations").iterdir()) == [f"{n}.xml" for n in PHOTOS]


def test_the_splits_divide_the_photos() -> None:
    train, val, test = ((ENTITIES / f"{split}.txt").read_text().split() for split in ("train", "val", "test"))
    assert train
    assert val
    assert test
    assert sorted(train + val + test) == PHOTOS


@each_photo
def test_the_photo_opens_and_is_at_most_640_pixels_long(name: str) -> None:
    with Image.open(SAMPLES / "images" / f"{name}.jpg") as photo:
        assert photo.format == "JPEG"
        assert max(photo.size) <= 640
        assert np.asarray(photo.convert("RGB"), dtype=float).std() > 10  # a picture, not an empty sheet


@each_photo
def test_the_photo_carries_no_metadata(name: str) -> None:
    with Image.open(SAMPLES / "images" / f"{name}.jpg") as photo:
        assert not photo.getexif()
        assert not {"icc_profile", "comment", "xmp", "photoshop"} & photo.info.keys()


@each_photo
def test_the_photo_has_five_different_tokenised_captions(name: str) -> None:
    assert len(set(captions(name))) == len(captions(name)) == 5
    for caption in captions(name):
        plain = MENTION.sub(r"\3", caption)
        assert not re.search(r"[\[\]#/]|  ", plain)
        assert plain.endswith(" .")
        assert not re.search(r"\w[.,]", plain)


@each_photo
def test_the_annotation_has_the_size_of_the_photo(name: str) -> None:
    root = annotation(name)
    assert root.findtext("filename") == f"{name}.jpg"
    assert (number(root, "size/width"), number(root, "size/height")) == photo_size(name)
    assert number(root, "size/depth") == 3


@each_photo
def test_every_box_lies_inside_the_photo(name: str) -> None:
    starts, ends = boxes(name)[:, :2], boxes(name)[:, 2:]
    assert (starts >= 1).all()
    assert (starts < ends).all()
    assert (ends <= photo_size(name)).all()


@each_photo
def test_the_chains_of_captions_and_annotation_are_the_same(name: str) -> None:
    mentioned = {chain for chain, kind, _ in mentions(name) if kind != "notvisual"}
    annotated = {int(element.text or "") for element in annotation(name).iter("name")}
    assert mentioned == annotated


@each_photo
def test_every_object_has_a_box_or_a_flag_and_flags_come_last(name: str) -> None:
    objects = annotation(name).findall("object")
    boxed = [thing.find("bndbox") is not None for thing in objects]
    flagged = [thing.findtext("nobndbox") == "1" for thing in objects]
    assert all(box != flag for box, flag in zip(boxed, flagged, strict=True))
    assert flagged == sorted(flagged)


@each_photo
def test_a_chain_is_boxed_or_flagged_but_not_both(name: str) -> None:
    objects = annotation(name).findall("object")
    boxed = {e.text for thing in objects if thing.find("bndbox") is not None for e in thing.iter("name")}
    flagged = {e.text for thing in objects if thing.find("bndbox") is None for e in thing.iter("name")}
    assert not boxed & flagged


def test_a_chain_belongs_to_one_photo_and_one_type() -> None:
    owners: dict[int, set[tuple[str, str]]] = {}
    for name in PHOTOS:
        for chain, kind, _ in mentions(name):
            assert (chain == 0) == (kind == "notvisual")
            if chain:
                assert kind in TYPES
                owners.setdefault(chain, set()).add((name, kind))
    assert all(len(places) == 1 for places in owners.values())


def test_the_readme_names_author_source_and_licence_of_every_photo() -> None:
    lines = (SAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert sorted(row[0] for row in rows) == [f"`{name}.jpg`" for name in PHOTOS]
    for _, *facts, licence in rows:
        assert len(facts) == 3
        assert all(facts)
        assert licence in {"public domain", "[CC0 1.0]", "[CC BY 2.0]", "[CC BY 4.0]"}
