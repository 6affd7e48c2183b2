"""Label Studio's JSON export: tasks with an image, a text with a caption per line, rectangles and labelled spans.

The newest annotation that was not cancelled is read, or else the first prediction of a task. Notes such as "chain 7",
"scene" and "no box", which `deixis.data.writers.label_studio` writes, describe chains; otherwise relations connect
spans with rectangles, and spans with the same rectangles are one chain (`GroundedPhoto`). Rotated rectangles and other
regions are refused, because they would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from deixis.data.names import PhotoIds, Source, check_split_name
from deixis.data.readers.content import Content
from deixis.data.readers.grounded import XYXY, GroundedPhoto, GroundedPhrase
from deixis.data.readers.values import Value
from deixis.data.records import ENTITY_TYPES, AnnotationSource, Photo
from deixis.storage.files import is_file_name

KIND = "label-studio"
FORM = 'Label Studio\'s JSON export ([{"data": {"image": …}, "annotations": […]}])'

_TEXT_KEYS = ("captions", "caption", "text")
_CHAIN = re.compile(r"chain (.+)")
_UPLOADED = re.compile(r"[0-9a-f]{8}-(?=.)")


@dataclass(slots=True)
class _Regions:
    """The regions of a task by their ids."""

    boxes: dict[str, XYXY] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of boxes
    spans: list[tuple[str, Value]] = field(default_factory=list)
    shown_by: dict[str, list[str]] = field(default_factory=dict)  # boxes of a span, by relations
    size: tuple[int | None, int | None] = (None, None)


def recognizes(content: Content) -> bool:
    match content.document:
        case [{"data": {"image": str()}, "annotations": list()}, *_]:
            return True
        case [{"data": {"image": str()}, "predictions": list()}, *_]:
            return True
    return False


def read(content: Content) -> Source:
    tasks = Value(content.document, content.path).items()
    return Source(KIND, _photos(tasks), len(tasks))


def _photos(tasks: list[Value]) -> Iterator[Photo]:
    ids = PhotoIds()
    for task in tasks:
        data = task["data"]
        name = _file_name(data["image"])
        given = data.text_at("photo")
        photo_id = given if given and is_file_name(given) else ids.add_new(name, data.error)
        text = data.first_of(_TEXT_KEYS)
        regions = _read_regions(task)
        photo = _ground(text.text() if text is not None else "", regions)
        splits = tuple(check_split_name(split, data.error) for split in (data.text_at("splits") or "").split())
        source = AnnotationSource(photo_id, name, *regions.size)
        yield Photo(photo_id, *photo.records(), *regions.size, splits=splits, annotated=source)


def _file_name(image: Value) -> str:
    """Return the file of an address: ``/data/local-files/?d=images/dog.jpg``, ``/data/upload/1/0a1b2c3d-dog.jpg``."""
    address = urlsplit(image.nonblank_text())
    if "d=" in address.query:
        return unquote(address.query.partition("d=")[2]).removeprefix("images/")
    name = unquote(address.path).rpartition("/")[2]
    return _UPLOADED.sub("", name, count=1) if "/upload/" in address.path else name


def _read_regions(task: Value) -> _Regions:
    regions = _Regions()
    done = [each for each in task.items_at("annotations") if not each.flag_at("was_cancelled", False)]
    chosen = done[-1:] or task.items_at("predictions")[:1]
    for region in chosen[0].items_at("result") if chosen else ():
        kind = region["type"].text()
        if kind == "relation":
            source, target = region["from_id"].text(), region["to_id"].text()
            regions.shown_by.setdefault(source, []).append(target)
            regions.shown_by.setdefault(target, []).append(source)
        elif kind == "rectanglelabels":
            _add_box(regions, region)
        elif kind == "labels":
            regions.spans.append((region["id"].text(), region))
        else:
            raise region.error(f"a region of the type {kind} cannot be read; use rectangles and labelled text")
    return regions


def _add_box(regions: _Regions, region: Value) -> None:
    value, name = region["value"], region["id"].text()
    rotation = value.get("rotation")
    if rotation is not None and rotation.number():
        raise value.error("a rotated rectangle cannot be read")
    width, height = region["original_width"].integer(1), region["original_height"].integer(1)
    x, y, wide, high = (value[key].number() for key in ("x", "y", "width", "height"))
    if wide < 0 or high < 0:
        raise value.error("negative box size")
    regions.size = width, height
    corners = (x, y, x + wide, y + high)
    left, top, right, bottom = (
        round(side * size / 100, 6) for side, size in zip(corners, (width, height, width, height), strict=True)
    )
    regions.boxes[name] = (left, top, right, bottom)
    label = next((each.text() for each in value.items_at("rectanglelabels")), None)
    regions.labels[name] = None if label in ENTITY_TYPES else label
    regions.chains[name] = _chains(region)


def _note(region: Value) -> list[str]:
    """Return the lines of the note of a region."""
    meta = region.get("meta")
    lines = meta.items_at("text") if meta is not None and isinstance(meta.value, dict) else []
    return [line.text() for line in lines]


def _chains(region: Value) -> tuple[str, ...]:
    """Return the chains that the note of a region names."""
    return tuple(found[1] for line in _note(region) if (found := _CHAIN.fullmatch(line)))


def _ground(text: str, regions: _Regions) -> GroundedPhoto:
    photo = GroundedPhoto(text.split("\n") if text else [])
    for name, box in regions.boxes.items():
        label = regions.labels[name]
        if label is not None:
            photo.labels[box] = label
    starts = [0]
    for line in photo.captions:
        starts.append(starts[-1] + len(line) + 1)
    for name, region in regions.spans:
        value = region["value"]
        start, end = value["start"].integer(), value["end"].integer()
        caption = max((number for number, begin in enumerate(starts[:-1]) if begin <= start), default=-1)
        if caption < 0 or not start < end <= starts[caption] + len(photo.captions[caption]):
            raise value.error("the span is not inside one caption")
        chain = next(iter(_chains(region)), None)
        shown = [box for box, chains in regions.chains.items() if chain is not None and chain in chains]
        shown += [box for box in regions.shown_by.get(name, ()) if box in regions.boxes and box not in shown]
        types = tuple(label.text() for label in value.items_at("labels"))
        boxes = tuple(dict.fromkeys(regions.boxes[box] for box in shown))
        place = start - starts[caption], end - starts[caption]
        note = _note(region)
        photo.phrases.append(GroundedPhrase(caption, *place, boxes, types, chain, "scene" in note, "no box" in note))
    return photo
