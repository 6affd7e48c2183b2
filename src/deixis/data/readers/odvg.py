"""ODVG, the grounding format of MMDetection and Open-GroundingDino: one caption, or the objects of a photo, per line.

The format has no chains: phrases of different captions with the same boxes are taken for one (`GroundedPhoto`). A
phrase whose tokens are apart becomes the span around them. Detection lines give boxes with labels.
"""

from __future__ import annotations

from collections.abc import Iterator

from deixis.data.names import PhotoIds, Source
from deixis.data.readers.content import Content
from deixis.data.readers.grounded import XYXY, GroundedPhoto, GroundedPhrase
from deixis.data.readers.values import Value, parse_line
from deixis.data.records import AnnotationSource, Photo

KIND = "odvg"
FORM = 'ODVG lines ({"filename": …, "grounding": {"caption": …, "regions": […]}})'


def recognizes(content: Content) -> bool:
    match content.first_json:
        case {"filename": str(), "grounding": dict()} | {"filename": str(), "detection": dict()}:
            return True
    return False


def read(content: Content) -> Source:
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
                photo.labels[_corners(instance["bbox"])] = label
        else:
            raise line.error('"grounding" is missing')
    return Source(KIND, _photos(photos), len(photos))


def _photos(photos: dict[str, tuple[str, int | None, int | None, GroundedPhoto]]) -> Iterator[Photo]:
    for photo_id, (name, width, height, photo) in photos.items():
        source = AnnotationSource(photo_id, name, width, height)
        yield Photo(photo_id, *photo.records(), width, height, annotated=source)


def _add_caption(photo: GroundedPhoto, grounding: Value) -> None:
    text = grounding["caption"].nonblank_text()
    number = len(photo.captions)
    photo.captions.append(text)
    boxes: dict[tuple[int, int], dict[XYXY, None]] = {}
    for region in grounding.items_at("regions"):
        found = boxes.setdefault(_span(region, text), {})
        bbox = region["bbox"]
        nested = isinstance(bbox.value, list) and bool(bbox.value) and isinstance(bbox.value[0], list)
        found.update(dict.fromkeys(map(_corners, bbox.items() if nested else [bbox])))
    photo.phrases += [GroundedPhrase(number, start, end, tuple(found)) for (start, end), found in boxes.items()]


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


def _corners(value: Value) -> XYXY:
    x1, y1, x2, y2 = value.numbers(4)
    if x2 < x1 or y2 < y1:
        raise value.error("the box ends before it begins")
    return x1, y1, x2, y2
