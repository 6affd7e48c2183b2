"""Label Studio: its JSON export is read; ``tasks.json``, the interface ``config.xml`` and a ``README.md`` are written.

A task is a photo. Its captions are one text with a line each. Boxes are rectangles, mentions are labelled spans of the
text, and a relation connects a mention with each of its boxes. The note of a region names its chains, and for a mention
says whether its chain is a scene or has no box. Offsets are in code points.

Of a task, the newest annotation that was not cancelled is read, or else the first prediction. Without notes, relations
connect spans with rectangles, and spans with the same rectangles are one chain (`GroundedPhoto`). Rotated rectangles
and other regions are refused, because they would be lost.

Written boxes are clipped to the photo, and mentions without a type are labelled "other". Not written: boxes of photos
of unknown size (the format needs percentages), trees, line breaks in captions, and whether a caption is a region phrase
or about another photo.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from deixis import geometry
from deixis.data.documents import Value
from deixis.data.formats.common import (
    OTHER_TYPE,
    boxes_array,
    categories_of_boxes,
    copy_photos,
    file_name,
    json_list,
    write_text,
)
from deixis.data.formats.content import Content
from deixis.data.formats.grounded import GroundedPhoto, PhraseWithBoxes
from deixis.data.names import CaptionSource, PhotoIds, check_split_name
from deixis.data.records import ENTITY_TYPES, NOT_VISUAL, AnnotationSource, Photo
from deixis.storage.files import is_file_name
from deixis.storage.remote import split_url

KIND = "label-studio"
FORM = 'Label Studio\'s JSON export ([{"data": {"image": …}, "annotations": […]}])'

_TEXT_KEYS = ("captions", "caption", "text")
_CHAIN = re.compile(r"chain (.+)")
_UPLOADED = re.compile(r"[0-9a-f]{8}-(?=.)")


@dataclass(slots=True)
class _Regions:
    """The regions of a task by their ids."""

    boxes: dict[str, geometry.XYXY] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of boxes
    spans: list[tuple[str, Value]] = field(default_factory=list)
    shown_by: dict[str, list[str]] = field(default_factory=dict)  # boxes of a span, by relations
    size: tuple[int | None, int | None] = (None, None)


def recognizes(content: Content) -> bool:
    match content.document:
        case [{"data": {"image": str()}, **task}, *_]:
            return any(isinstance(task.get(key), list) for key in ("annotations", "predictions"))
    return False


def read(content: Content) -> CaptionSource:
    tasks = Value(content.document, content.path).items()
    return CaptionSource(KIND, _photos(tasks), len(tasks))


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
    address = split_url(image.nonblank_text())
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
        photo.phrases.append(PhraseWithBoxes(caption, *place, boxes, types, chain, SCENE in note, NO_BOX in note))
    return photo


SCENE, NO_BOX = "scene", "no box"
"""Lines of a mention's note."""

_SHOWN_BY = "shown by"
# Distinct on photos and behind black text.
_COLOURS = ("#f94144", "#f3a712", "#f9c74f", "#90be6d", "#43aa8b", "#4d96d9", "#b185db", "#adb5bd")
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

RegionJson = dict[str, Any]


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    # Dictionaries as ordered sets: entity types first, then other labels as they occur.
    box_labels = dict.fromkeys(ENTITY_TYPES)
    mention_labels = dict.fromkeys((*ENTITY_TYPES, NOT_VISUAL))

    def tasks() -> Iterator[dict[str, Any]]:
        for photo in copy_photos(photos, folder, images):
            boxes, mentions = _boxes(photo), _mentions(photo)
            for region in boxes:
                box_labels.update(dict.fromkeys(region["value"]["rectanglelabels"]))
            for region in mentions:
                mention_labels.update(dict.fromkeys(region["value"]["labels"]))
            yield _task(photo, [*boxes, *mentions, *(_relations(photo) if boxes else ())])

    write_text(folder / "tasks.json", json_list(tasks()))
    write_text(folder / "config.xml", [_interface(box_labels, mention_labels)])
    write_text(folder / "README.md", [_README])


def _task(photo: Photo, result: list[RegionJson]) -> dict[str, Any]:
    data = {
        "image": f"/data/local-files/?d=images/{quote(file_name(photo))}",
        "captions": _text(photo),
        "photo": photo.id,
        "splits": " ".join(photo.splits),
    }
    # Label Studio counts an empty annotation as done.
    return {"data": data, "annotations": [{"result": result}] if result else []}


def _text(photo: Photo) -> str:
    """Return all captions, one per line. Line breaks inside captions become spaces, which keeps offsets."""
    return "\n".join(re.sub(r"[\r\n]", " ", caption.text) for caption in photo.captions)


def _boxes(photo: Photo) -> list[RegionJson]:
    if photo.width is None or photo.height is None:
        return []
    regions = []
    percent = geometry.rescale(boxes_array(photo), (photo.width, photo.height), to=(100, 100))
    # Clip after rescaling: Label Studio refuses 100.00000000000001.
    rectangles = geometry.to_xywh(geometry.clip(percent, 100, 100)).tolist()
    size = {"original_width": photo.width, "original_height": photo.height, "image_rotation": 0}
    named = zip(photo.boxes, categories_of_boxes(photo), rectangles, strict=True)
    for index, (box, category, xywh) in enumerate(named):
        sides = dict(zip(("x", "y", "width", "height"), xywh, strict=True))
        value = sides | {"rotation": 0, "rectanglelabels": [_label(category)]}
        about = {"id": f"box-{index}", "type": "rectanglelabels", "from_name": "boxes", "to_name": "image"}
        regions.append(about | size | {"value": value} | _with_note(box.chains))
    return regions


def _mentions(photo: Photo) -> list[RegionJson]:
    regions: list[RegionJson] = []
    flags: dict[str | None, tuple[str, ...]] = {
        chain.id: tuple(flag for flag, is_set in ((SCENE, chain.scene), (NO_BOX, chain.no_box)) if is_set)
        for chain in photo.chains
    }
    text, line_start = _text(photo), 0
    for caption in photo.captions:
        for mention in caption.mentions:
            start, end = line_start + mention.start, line_start + mention.end
            labels = list(dict.fromkeys(map(_label, mention.types))) or [OTHER_TYPE]
            value = {"start": start, "end": end, "text": text[start:end], "labels": labels}
            about = {"id": f"mention-{len(regions)}", "type": "labels", "from_name": "mentions", "to_name": "captions"}
            note = _with_note(() if mention.chain is None else (mention.chain,), flags.get(mention.chain, ()))
            regions.append(about | {"value": value} | note)
        line_start += len(caption.text) + 1
    return regions


def _with_note(chains: tuple[str, ...], flags: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"meta": {"text": [*(f"chain {chain}" for chain in chains), *flags]}} if chains else {}


def _relations(photo: Photo) -> Iterator[RegionJson]:
    """Yield relations from mentions to boxes, by the ids of `_mentions` and `_boxes`."""
    mentions = (mention for caption in photo.captions for mention in caption.mentions)
    for number, mention in enumerate(mentions):
        for index, box in enumerate(photo.boxes):
            if mention.chain in box.chains:
                ends = {"from_id": f"mention-{number}", "to_id": f"box-{index}"}
                yield {"type": "relation", **ends, "direction": "right", "labels": [_SHOWN_BY]}


def _label(name: str) -> str:
    """Return a label that survives as an XML attribute: one line, without forbidden characters."""
    return " ".join(_NOT_IN_XML.sub("", name).split()) or OTHER_TYPE


def _interface(box_labels: Iterable[str], mention_labels: Iterable[str]) -> str:
    return f"""<View>
  <Style>.htx-text {{ white-space: pre-wrap; }}</Style>
  <Relations>
    <Relation value="{_SHOWN_BY}"/>
  </Relations>
  <Header value="Boxes"/>
  <RectangleLabels name="boxes" toName="image">
{_label_tags(box_labels)}
  </RectangleLabels>
  <Image name="image" value="$image" zoom="true"/>
  <Header value="Mentions"/>
  <Labels name="mentions" toName="captions" choice="multiple">
{_label_tags(mention_labels)}
  </Labels>
  <Text name="captions" value="$captions"/>
</View>
"""


def _label_tags(names: Iterable[str]) -> str:
    return "\n".join(
        f'    <Label value="{html.escape(name)}" background="{_COLOURS[index % len(_COLOURS)]}"/>'
        for index, name in enumerate(names)
    )


_README = """# Photos, captions and boxes for Label Studio

1. Copy this folder to the machine that runs Label Studio. Put the photos into its folder `images`, unless the data was
   converted with `--with-photos`.
2. Start Label Studio with access to the photos (DIR is the full path of this folder):

       LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=DIR label-studio start

3. Create a project. Under Settings, Labeling Interface, Code, paste `config.xml` and save.
4. Under Settings, Cloud Storage, add a source storage of the type "Local files" with the path `DIR/images`. Do not
   synchronize it: that would create a second, empty task for each photo.
5. Import `tasks.json`.

Each task is a photo. Its captions are one text, one per line. A relation connects a mention with each of its boxes. The
note of a mention or a box names its chains: mentions of the same entity have the same chain. The note also says if an
entity is a scene, or has no box.
"""
