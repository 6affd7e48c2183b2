"""Karpathy's ``dataset_flickr8k.json``, ``dataset_flickr30k.json`` and ``dataset_coco.json``."""

from __future__ import annotations

from collections.abc import Iterator

from deixis.data.readers.content import Content
from deixis.data.readers.gathered import split_name
from deixis.data.readers.names import Names
from deixis.data.readers.source import Source
from deixis.data.readers.values import Value
from deixis.data.records import Annotated, Caption, Photo

KIND = "karpathy"
FORM = "Karpathy's dataset_*.json (images with sentences and a split)"


def recognises(content: Content) -> bool:
    """Whether it is a document of ``images``, the first of which has ``sentences``."""
    match content.document:
        case {"images": [{"sentences": _}, *_]}:
            return True
    return False


def read(content: Content) -> Source:
    """Photos in the order of the document; ``split`` (train, val, test, restval) goes into `Photo.splits`."""
    images = Value(content.document, content.path)["images"].items()
    return Source(KIND, _photos(images), len(images))


def _photos(images: list[Value]) -> Iterator[Photo]:
    names = Names()
    for image in images:
        folder, split = image.get("filepath"), image.get("split")
        name = image["filename"].sentence()
        if folder is not None and folder.text():
            name = f"{folder.text()}/{name}"
        photo_id = names.new_id_of(name, image.wrong)
        yield Photo(
            photo_id,
            tuple(Caption.from_text(said["raw"].sentence()) for said in image["sentences"].items()),
            splits=() if split is None else (split_name(split.text(), split.wrong),),
            annotated=Annotated(photo_id, name),
        )
