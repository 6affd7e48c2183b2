"""ODVG, the grounding format of MMDetection and Open-GroundingDino: one caption, or the objects of a photo, per line.

The format has no chains: phrases of different captions with the same boxes are taken for one (`GroundedPhoto`). A
phrase whose tokens are apart becomes the span around them. Detection lines give boxes with labels.

Written is ``SPLIT.jsonl``, with a region for each box of each mention: its text and its offsets. Both programs read
this variant; the one with a list of boxes per region is read by MMDetection only. Boxes are clipped to the photo, and
boxes that are then narrower or lower than a pixel are dropped, as in MMDetection's converter. Photos without a split
are in ``rest``.

Not written: mentions without a box and captions without a region (Open-GroundingDino fails on them), photos of unknown
size, entity types, chains and labels of boxes. Captions are stripped, because MMDetection strips them without adjusting
the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from deixis import geometry
from deixis.data.documents import Value, parse_line
from deixis.data.formats.common import boxes_array, compact_number, copy_photos, file_name, splits_of, to_json
from deixis.data.formats.content import Content
from deixis.data.formats.grounded import GroundedPhoto, PhraseWithBoxes
from deixis.data.names import CaptionSource, PhotoIds
from deixis.data.records import AnnotationSource, Caption, Photo
from deixis.errors import DatasetError

KIND = "odvg"
FORM = 'ODVG lines ({"filename": …, "grounding": {"caption": …, "regions": […]}})'


def recognizes(content: Content) -> bool:
    match content.first_json:
        case {"filename": str(), "grounding": dict()} | {"filename": str(), "detection": dict()}:
            return True
    return False


def read(content: Content) -> CaptionSource:
    ids = PhotoIds()
    photos: dict[str, tuple[str, int | None, int | None, GroundedPhoto]] = {}
    for number, text in content.lines():
        line = parse_line(text, number, content.path)
        name = line["filename"].nonblank_text()
        size = line.side("width"), line.side("height")
        *_, photo = photos.setdefault(ids.get(name, line.error), (name, *size, GroundedPhoto()))
        if (grounding := line.get("grounding")) is not None:
            _add_caption(photo, grounding)
        elif (detection := line.get("detection")) is not None:
            for instance in detection.items_at("instances"):
                label = instance.text_at("category") or str(instance["label"].key())
                photo.labels[instance["bbox"].corners()] = label
        else:
            raise line.error('"grounding" is missing')
    return CaptionSource(KIND, _photos(photos), len(photos))


def _photos(photos: dict[str, tuple[str, int | None, int | None, GroundedPhoto]]) -> Iterator[Photo]:
    for photo_id, (name, width, height, photo) in photos.items():
        source = AnnotationSource(photo_id, name, width, height)
        yield Photo(photo_id, *photo.records(), width, height, annotated=source)


def _add_caption(photo: GroundedPhoto, grounding: Value) -> None:
    text = grounding["caption"].nonblank_text()
    number = len(photo.captions)
    photo.captions.append(text)
    boxes: dict[tuple[int, int], dict[geometry.XYXY, None]] = {}
    for region in grounding.items_at("regions"):
        found = boxes.setdefault(_span(region, text), {})
        bbox = region["bbox"]
        nested = isinstance(bbox.value, list) and bool(bbox.value) and isinstance(bbox.value[0], list)
        found.update(dict.fromkeys(map(Value.corners, bbox.items() if nested else [bbox])))
    photo.phrases += [PhraseWithBoxes(number, start, end, tuple(found)) for (start, end), found in boxes.items()]


def _span(region: Value, caption: str) -> tuple[int, int]:
    tokens = region.items_at("tokens_positive")
    if not tokens:
        phrase = region["phrase"].nonblank_text()
        start = caption.find(phrase)
        if start < 0:
            raise region.error("the caption does not contain the phrase")
        return start, start + len(phrase)
    ends = [[end.integer() for end in token.items()] for token in tokens]
    if any(len(pair) != 2 or not pair[0] < pair[1] <= len(caption) for pair in ends):
        raise region.error(f"expected [start, end] within the {len(caption)} characters of the caption")
    return min(pair[0] for pair in ends), max(pair[1] for pair in ends)


_MIN_SIDE = 1


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    files: dict[str, TextIO] = {}
    any_region = any_photo = False
    with ExitStack() as stack:
        for photo in copy_photos(photos, folder, images):
            any_photo = True
            for split in splits_of(photo):
                if split not in files:
                    path = folder / f"{split}.jsonl"
                    files[split] = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
                for line in _lines(photo):
                    files[split].write(to_json(line) + "\n")
                    any_region = True
    if any_photo and not any_region:
        raise DatasetError("nothing to write as odvg: no caption has a mention with a box")


def _lines(photo: Photo) -> Iterator[dict[str, Any]]:
    if photo.width is None or photo.height is None:
        return
    corners = _usable_boxes(photo, photo.width, photo.height)
    for caption in photo.captions:
        if regions := list(_regions(caption, corners)):
            yield {
                "filename": file_name(photo),
                "height": photo.height,
                "width": photo.width,
                "grounding": {"caption": caption.text.strip(), "regions": regions},
            }


def _usable_boxes(photo: Photo, width: int, height: int) -> dict[str | None, list[list[float]]]:
    """Return the clipped boxes of each chain that are large enough."""
    found: dict[str | None, list[list[float]]] = {}
    clipped = geometry.clip(boxes_array(photo), width, height).tolist()
    for box, (x1, y1, x2, y2) in zip(photo.boxes, clipped, strict=True):
        if x2 - x1 >= _MIN_SIDE and y2 - y1 >= _MIN_SIDE:
            for chain in box.chains:
                found.setdefault(chain, []).append([compact_number(value) for value in (x1, y1, x2, y2)])
    return found


def _regions(caption: Caption, corners: dict[str | None, list[list[float]]]) -> Iterator[dict[str, Any]]:
    stripped = len(caption.text) - len(caption.text.lstrip())
    for mention in caption.mentions:
        span = [max(0, mention.start - stripped), mention.end - stripped]
        for box in corners.get(mention.chain, ()):
            yield {"bbox": box, "phrase": caption.phrase(mention), "tokens_positive": [span]}
