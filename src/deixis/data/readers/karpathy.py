"""Karpathy's splits: ``dataset_flickr8k.json``, ``dataset_flickr30k.json`` and ``dataset_coco.json``."""

from __future__ import annotations

from collections.abc import Iterator

from deixis.data.names import PhotoIds, Source, check_split_name
from deixis.data.readers.content import Content
from deixis.data.readers.values import Value
from deixis.data.records import AnnotationSource, Caption, Photo

KIND = "karpathy"
FORM = "Karpathy's dataset_*.json (images with sentences and a split)"


def recognizes(content: Content) -> bool:
    match content.document:
        case {"images": [{"sentences": _}, *_]}:
            return True
    return False


def read(content: Content) -> Source:
    """Return photos in the order of the document; ``split`` (train, val, test, restval) becomes `Photo.splits`."""
    images = Value(content.document, content.path)["images"].items()
    return Source(KIND, _photos(images), len(images))


def _photos(images: list[Value]) -> Iterator[Photo]:
    ids = PhotoIds()
    for image in images:
        folder, split = image.text_at("filepath"), image.get("split")
        name = image["filename"].nonblank_text()
        if folder:
            name = f"{folder}/{name}"
        photo_id = ids.add_new(name, image.error)
        yield Photo(
            photo_id,
            tuple(Caption.from_text(each["raw"].nonblank_text()) for each in image["sentences"].items()),
            splits=() if split is None else (check_split_name(split.text(), split.error),),
            annotated=AnnotationSource(photo_id, name),
        )
