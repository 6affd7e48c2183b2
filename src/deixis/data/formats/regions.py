"""Region phrases: a format of deixis, and Visual Genome's ``region_descriptions.json``.

The region–phrase data of the HM-LSTM paper is not public, so it is accepted in either of two formats. The first is a
document of images with regions, each with a box and one or more phrases::

    {"images": [{"file_name": "1.jpg", "width": 640, "height": 480,
                 "regions": [{"bbox": [x, y, width, height], "phrases": ["a red hat"]}]}]}

``width`` and ``height`` of the image are optional. The second is that of Visual Genome::

    [{"id": 1, "regions": [{"region_id": 1382, "image_id": 1, "x": 421, "y": 57,
                            "width": 82, "height": 139, "phrase": "the clock is green"}]}]

``image_id`` is accepted instead of ``id``; the file of photo 1 is ``1.jpg``.

Each region becomes a box and a chain. The chain id is the ``region_id``, or the number of the region in its image from
1. Each phrase becomes a caption with `region_phrase` set and one mention that spans it.
"""

from __future__ import annotations

from collections.abc import Iterator

from deixis.data.documents import Value
from deixis.data.formats.content import Content, xywh_to_corners
from deixis.data.names import CaptionSource, PhotoIds
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.geometry import XYXY

KIND = "region-phrases"
FORM = "region phrases (images with regions, or Visual Genome's region_descriptions.json)"


def recognizes(content: Content) -> bool:
    match content.document:
        case {"images": [{"regions": _}, *_]} | [{"regions": _}, *_]:
            return True
    return False


def read(content: Content) -> CaptionSource:
    """Return photos, regions and phrases in the order of the document."""
    document = Value(content.document, content.path)
    if isinstance(document.value, list):
        images = document.items()
        return CaptionSource(KIND, _visual_genome(images), len(images))
    images = document["images"].items()
    return CaptionSource(KIND, _photos(images), len(images))


_Region = tuple[str, XYXY, list[str]]
"""Number, box and phrases."""


def _photos(images: list[Value]) -> Iterator[Photo]:
    ids = PhotoIds()
    for image in images:
        name = image["file_name"].nonblank_text()
        photo_id = ids.add_new(name, image.error)
        size = image.side("width"), image.side("height")
        regions: list[_Region] = []
        for number, region in enumerate(image["regions"].items(), start=1):
            box = xywh_to_corners(region["bbox"].numbers(4), region)
            regions.append((str(number), box, [phrase.nonblank_text() for phrase in region["phrases"].items()]))
        yield _photo(AnnotationSource(photo_id, name, *size), regions)


def _visual_genome(images: list[Value]) -> Iterator[Photo]:
    ids = PhotoIds()
    for image in images:
        key = image.first_of(("id", "image_id"))
        if key is None:
            raise image.error('"id" is missing')
        name = f"{key.key()}.jpg"
        photo_id = ids.add_new(name, key.error)
        yield _photo(AnnotationSource(photo_id, name), list(_visual_genome_regions(image)))


def _visual_genome_regions(image: Value) -> Iterator[_Region]:
    seen = set()
    for position, region in enumerate(image["regions"].items(), start=1):
        region_id = region.get("region_id")
        number = str(position if region_id is None else region_id.key())
        if number in seen:
            raise region.error(f"duplicate region {number}")
        seen.add(number)
        phrase = region["phrase"].text().strip()
        if phrase:  # skip regions without a phrase instead of refusing the file
            xywh = [region[key].number() for key in ("x", "y", "width", "height")]
            yield number, xywh_to_corners(xywh, region), [phrase]


def _photo(annotated: AnnotationSource, regions: list[_Region]) -> Photo:
    captions = (
        Caption.from_text(phrase, (Mention(0, len(phrase), number),), region_phrase=True)
        for number, _, phrases in regions
        for phrase in phrases
    )
    chains = (Chain(number) for number, _, _ in regions)
    boxes = (Box(box, (number,)) for number, box, _ in regions)
    size = annotated.width, annotated.height
    return Photo(annotated.id, tuple(captions), tuple(chains), tuple(boxes), *size, annotated=annotated)
