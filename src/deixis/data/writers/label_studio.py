"""Label Studio: ``tasks.json`` to import, ``config.xml`` for the labelling interface, ``README.md`` on how to.

A photo is one task. Its captions are one text, a line each; boxes are rectangles, mentions are labelled spans of the
text, and a relation leads from each mention to each of its boxes. A region's note names its chains. Label Studio
counts characters as we do, in code points.

Lost: boxes of photos whose size is unknown (they are in percent of it), trees, line breaks in captions, which captions
are about another photo, which are phrases for a region, and what is said of chains without boxes. Boxes are cut at the
photo's border; mentions without a type are labelled "other".
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deixis import geometry
from deixis.data.records import ENTITY_TYPES, NOT_VISUAL, Photo
from deixis.data.writers.common import (
    OTHER,
    bring_along,
    categories_of_boxes,
    corners_of,
    file_name,
    json_list,
    write_text,
)

_SHOWN_BY = "shown by"
# Distinct on photos and behind black text.
_COLOURS = ("#f94144", "#f3a712", "#f9c74f", "#90be6d", "#43aa8b", "#4d96d9", "#b185db", "#adb5bd")
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Region = dict[str, Any]


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``tasks.json``, ``config.xml`` and ``README.md``."""
    # Dictionaries, for their order: labels are listed as they come, after the types that everybody may need.
    box_labels = dict.fromkeys(ENTITY_TYPES)
    mention_labels = dict.fromkeys((*ENTITY_TYPES, NOT_VISUAL))

    def tasks() -> Iterator[dict[str, Any]]:
        for photo in bring_along(photos, folder, images):
            boxes, mentions = _boxes(photo), _mentions(photo)
            for region in boxes:
                box_labels.update(dict.fromkeys(region["value"]["rectanglelabels"]))
            for region in mentions:
                mention_labels.update(dict.fromkeys(region["value"]["labels"]))
            yield _task(photo, [*boxes, *mentions, *_relations(photo, bool(boxes))])

    write_text(folder / "tasks.json", json_list(tasks()))
    write_text(folder / "config.xml", [_interface(box_labels, mention_labels)])
    write_text(folder / "README.md", [_README])


def _task(photo: Photo, result: list[Region]) -> dict[str, Any]:
    data = {
        "image": f"/data/local-files/?d=images/{quote(file_name(photo))}",
        "captions": _text(photo),
        "photo": photo.id,
        "splits": " ".join(photo.splits),
    }
    # An empty annotation would count as done.
    return {"data": data, "annotations": [{"result": result}] if result else []}


def _text(photo: Photo) -> str:
    """All captions, a line each; a line break inside one becomes a space, so that places stay."""
    return "\n".join(re.sub(r"[\r\n]", " ", caption.text) for caption in photo.captions)


def _boxes(photo: Photo) -> list[Region]:
    if photo.width is None or photo.height is None:
        return []
    regions = []
    percent = geometry.rescale(corners_of(photo), (photo.width, photo.height), to=(100, 100))
    # Cut last: a border that comes to 100.00000000000001 is refused by Label Studio.
    places = geometry.to_xywh(geometry.clip(percent, 100, 100)).tolist()
    named = zip(photo.boxes, categories_of_boxes(photo), places, strict=True)
    for place, (box, category, (x, y, width, height)) in enumerate(named):
        regions.append(
            {
                "id": f"box-{place}",
                "type": "rectanglelabels",
                "from_name": "boxes",
                "to_name": "image",
                "original_width": photo.width,
                "original_height": photo.height,
                "image_rotation": 0,
                "value": {
                    "x": x,
                    "y": y,
                    "width": width,
                    "height": height,
                    "rotation": 0,
                    "rectanglelabels": [_label(category)],
                },
            }
            | _note(box.chains)
        )
    return regions


def _mentions(photo: Photo) -> list[Region]:
    regions: list[Region] = []
    text, line_start = _text(photo), 0
    for caption in photo.captions:
        for mention in caption.mentions:
            start, end = line_start + mention.start, line_start + mention.end
            regions.append(
                {
                    "id": f"mention-{len(regions)}",
                    "type": "labels",
                    "from_name": "mentions",
                    "to_name": "captions",
                    "value": {
                        "start": start,
                        "end": end,
                        "text": text[start:end],
                        "labels": list(dict.fromkeys(map(_label, mention.types))) or [OTHER],
                    },
                }
                | _note(() if mention.chain is None else (mention.chain,))
            )
        line_start += len(caption.text) + 1
    return regions


def _note(chains: tuple[str, ...]) -> dict[str, Any]:
    return {"meta": {"text": [f"chain {chain}" for chain in chains]}} if chains else {}


def _relations(photo: Photo, has_boxes: bool) -> Iterator[Region]:
    """From each mention to each of its boxes, by the ids that `_mentions` and `_boxes` give."""
    if not has_boxes:
        return
    mentions = (mention for caption in photo.captions for mention in caption.mentions)
    for number, mention in enumerate(mentions):
        for place, box in enumerate(photo.boxes):
            if mention.chain in box.chains:
                yield {
                    "type": "relation",
                    "from_id": f"mention-{number}",
                    "to_id": f"box-{place}",
                    "direction": "right",
                    "labels": [_SHOWN_BY],
                }


def _label(name: str) -> str:
    """A name as XML gives an attribute back: on one line, without characters that XML forbids."""
    return " ".join(_NOT_IN_XML.sub("", name).split()) or OTHER


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
        f'    <Label value="{html.escape(name)}" background="{_COLOURS[place % len(_COLOURS)]}"/>'
        for place, name in enumerate(names)
    )


_README = """# Photos, captions and boxes for Label Studio

1. Put this folder where Label Studio runs. The photos belong into its folder `images`; they are there already if the
   data was converted with `--with-photos`.
2. Start Label Studio so that it may show them (DIR is the full path of this folder):

       LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=DIR label-studio start

3. Make a project. Under Settings, Labeling Interface, Code, paste `config.xml` and save.
4. Under Settings, Cloud Storage, add a source storage of the type "Local files" with the path `DIR/images`. Do not
   synchronise it: that would make a second, empty task of each photo.
5. Import `tasks.json`.

Each task is a photo. Its captions are one text, a line each. A relation leads from a mention to each of its boxes, and
the note of a mention or a box names its chains: mentions of the same thing have the same chain.
"""
