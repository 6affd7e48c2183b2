"""Phrases that describe regions: a form of our own, and Visual Genome's ``region_descriptions.json``.

The region–phrase set of the HM-LSTM paper has no public file, so its data is taken in either of two forms.
The first is a document of images with their regions, each a box and one or more phrases::

    {"images": [{"file_name": "1.jpg", "width": 640, "height": 480,
                 "regions": [{"bbox": [x, y, width, height], "phrases": ["a red hat"]}]}]}

where ``width`` and ``height`` of the image may be missing. The second is Visual Genome's::

    [{"id": 1, "regions": [{"region_id": 1382, "image_id": 1, "x": 421, "y": 57,
                            "width": 82, "height": 139, "phrase": "the clock is green"}]}]

where ``image_id`` may stand for ``id``, and photo 1 is ``1.jpg``.

Each region becomes a box and a chain. The chain's id is the ``region_id``, or the region's place in its image
counted from 1. Each phrase becomes a caption with `region_phrase` set, whose one mention is all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deixis.data.readers.boxes import corners
from deixis.data.readers.content import Content
from deixis.data.readers.names import Names
from deixis.data.readers.source import Source
from deixis.data.readers.values import Value
from deixis.data.records import Annotated, Box, Caption, Chain, Mention, Photo

KIND = "region-phrases"
FORM = "region phrases (images with regions, or Visual Genome's region_descriptions.json)"


def recognises(content: Content) -> bool:
    """Whether it is either form."""
    match content.document:
        case {"images": [{"regions": _}, *_]} | [{"regions": _}, *_]:
            return True
    return False


def read(content: Content) -> Source:
    """Photos in the order of the document, regions and phrases in the order of their photo."""
    document = Value(content.document, content.path)
    if isinstance(document.value, list):
        images = document.items()
        return Source(KIND, _visual_genome(images), len(images))
    images = document["images"].items()
    return Source(KIND, _photos(images), len(images))


@dataclass(frozen=True, slots=True)
class _Region:
    number: str
    xywh: list[float]
    phrases: list[str]
    place: Value


def _photos(images: list[Value]) -> Iterator[Photo]:
    names = Names()
    for image in images:
        name = image["file_name"].sentence()
        photo_id = names.new_id_of(name, image.wrong)
        width, height = image.side("width"), image.side("height")
        regions = [
            _Region(
                str(number),
                region["bbox"].numbers(4),
                [phrase.sentence() for phrase in region["phrases"].items()],
                region,
            )
            for number, region in enumerate(image["regions"].items(), start=1)
        ]
        yield _photo(Annotated(photo_id, name, width, height), regions)


def _visual_genome(images: list[Value]) -> Iterator[Photo]:
    names = Names()
    for image in images:
        key = image.first_of(("id", "image_id"))
        if key is None:
            raise image.wrong('there is no "id"')
        name = f"{key.key()}.jpg"
        photo_id = names.new_id_of(name, key.wrong)
        yield _photo(Annotated(photo_id, name), list(_visual_genome_regions(image)))


def _visual_genome_regions(image: Value) -> Iterator[_Region]:
    seen = set()
    for place, region in enumerate(image["regions"].items(), start=1):
        given = region.get("region_id")
        number = str(place if given is None else given.key())
        if number in seen:
            raise region.wrong(f"region {number} comes a second time")
        seen.add(number)
        phrase = region["phrase"].text().strip()
        if phrase:  # a region that nothing is said of is no reason to refuse millions of others
            xywh = [region[key].number() for key in ("x", "y", "width", "height")]
            yield _Region(number, xywh, [phrase], region)


def _photo(annotated: Annotated, regions: list[_Region]) -> Photo:
    places = corners([region.xywh for region in regions], [region.place for region in regions])
    return Photo(
        annotated.id,
        tuple(
            Caption.from_text(phrase, (Mention(0, len(phrase), region.number),), region_phrase=True)
            for region in regions
            for phrase in region.phrases
        ),
        tuple(Chain(region.number) for region in regions),
        tuple(Box(xyxy, (region.number,)) for xyxy, region in zip(places, regions, strict=True)),
        annotated.width,
        annotated.height,
        annotated=annotated,
    )
