"""Label Studio: ``tasks.json`` to import, ``config.xml`` with the labelling interface, and a ``README.md``.

Each photo is a task. Its captions are one text with a line each. Boxes are rectangles, mentions are labelled spans of
the text, and a relation connects each mention with each of its boxes. The note of a region names its chains, and for a
mention says whether its chain is a scene or has no box. Offsets are in code points, as in deixis.

Boxes are clipped to the photo. Mentions without a type are labelled "other". Not written: boxes of photos of unknown
size (the format needs percentages), trees, line breaks in captions, and whether a caption is a region phrase or about
another photo.
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
    OTHER_TYPE,
    boxes_array,
    categories_of_boxes,
    copy_photos,
    file_name,
    json_list,
    write_text,
)

SCENE, NO_BOX = "scene", "no box"
"""Lines of a mention's note."""

_SHOWN_BY = "shown by"
# Distinct on photos and behind black text.
_COLOURS = ("#f94144", "#f3a712", "#f9c74f", "#90be6d", "#43aa8b", "#4d96d9", "#b185db", "#adb5bd")
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Region = dict[str, Any]


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


def _task(photo: Photo, result: list[Region]) -> dict[str, Any]:
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


def _boxes(photo: Photo) -> list[Region]:
    if photo.width is None or photo.height is None:
        return []
    regions = []
    percent = geometry.rescale(boxes_array(photo), (photo.width, photo.height), to=(100, 100))
    # Clip after rescaling: Label Studio refuses 100.00000000000001.
    rectangles = geometry.to_xywh(geometry.clip(percent, 100, 100)).tolist()
    named = zip(photo.boxes, categories_of_boxes(photo), rectangles, strict=True)
    for index, (box, category, (x, y, width, height)) in enumerate(named):
        regions.append(
            {
                "id": f"box-{index}",
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
    flags: dict[str | None, tuple[str, ...]] = {
        chain.id: tuple(flag for flag, is_set in ((SCENE, chain.scene), (NO_BOX, chain.no_box)) if is_set)
        for chain in photo.chains
    }
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
                        "labels": list(dict.fromkeys(map(_label, mention.types))) or [OTHER_TYPE],
                    },
                }
                | _note(() if mention.chain is None else (mention.chain,), flags.get(mention.chain, ()))
            )
        line_start += len(caption.text) + 1
    return regions


def _note(chains: tuple[str, ...], flags: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"meta": {"text": [*(f"chain {chain}" for chain in chains), *flags]}} if chains else {}


def _relations(photo: Photo) -> Iterator[Region]:
    """Yield relations from mentions to boxes, by the ids of `_mentions` and `_boxes`."""
    mentions = (mention for caption in photo.captions for mention in caption.mentions)
    for number, mention in enumerate(mentions):
        for index, box in enumerate(photo.boxes):
            if mention.chain in box.chains:
                yield {
                    "type": "relation",
                    "from_id": f"mention-{number}",
                    "to_id": f"box-{index}",
                    "direction": "right",
                    "labels": [_SHOWN_BY],
                }


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
