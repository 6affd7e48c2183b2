"""Add phrases with boxes to captions of MS COCO, for the tables that need regions with phrases.

python scripts/coco_regions.py DATA BOXES OUT [--split train dev]

DATA is a data set directory of COCO's photos with captions. BOXES has a photo a line, as JSON: its id, the boxes of its
things ([class, x1, y1, x2, y2], as fractions), and `complete`, without which only people have boxes; it may be
compressed with xz. OUT is a copy of DATA with the photos that have such phrases.

A noun phrase gets a box only if the picture leaves no doubt: its last words name a class in the singular and the photo
has one thing of this class, or in the plural and it has 2 to 5, whose boxes are all its own. So "a man" has a box if
there is one person. Phrases of one thing are a chain. These are not the regions of MS-COCO-region, which people named.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coco_texts import LARGEST_GROUP, plural

from deixis.data.dataset import Dataset
from deixis.data.derived import make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError
from deixis.language.entity_types import EntityTypes
from deixis.language.sentence import Sentence
from deixis.tokens import words

Shares = tuple[float, float, float, float]

PERSON = "person"
SYNONYMS: Mapping[str, Sequence[str]] = {
    PERSON: ("man", "woman", "boy", "girl", "child", "kid", "lady", "guy", "skier", "surfer", "snowboarder", "player"),
    "airplane": ("plane",),
    "bicycle": ("bike",),
    "motorcycle": ("motorbike",),
    "cell phone": ("cellphone", "phone"),
    "couch": ("sofa",),
    "tv": ("television",),
}
IRREGULAR = {"man": "men", "woman": "women", "child": "children"}
ALL_BOXED = "complete"


def names_of(classes: Sequence[str]) -> dict[tuple[str, ...], tuple[str, bool]]:
    """Return the words that name a class, with the class and whether they are a plural."""
    found = {}
    for kind in classes:
        for name in (kind, *SYNONYMS.get(kind, ())):
            found[tuple(name.split())] = kind, False
            many = tuple((IRREGULAR.get(name) or plural(name)).split())
            found.setdefault(many, (kind, True))
    return found


def read_boxes(path: Path) -> dict[int, dict[str, list[Shares]]]:
    """Return the boxes of each photo by class; of a photo that is not complete, those of people."""
    found: dict[int, dict[str, list[Shares]]] = {}
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for entry in map(json.loads, lines):
            boxes = found.setdefault(entry["id"], defaultdict(list))
            for kind, *box in entry["boxes"]:
                if entry[ALL_BOXED] or kind == PERSON:
                    boxes[kind].append(tuple(box))
    return found


def with_mentions(
    caption: Caption, boxes: Mapping[str, Sequence[Shares]], names: Mapping[tuple[str, ...], tuple[str, bool]]
) -> Caption:
    """Return a caption with the noun phrases that name things of the photo; the chain is that of the class."""
    mentions = []
    for phrase in Sentence.from_caption(caption).phrases:
        own = words(phrase.text)
        # "fire hydrant" is no "hydrant", and "teddy bear" no bear: the longest name counts.
        named = next((names[tuple(own[at:])] for at in range(len(own)) if tuple(own[at:]) in names), None)
        if named is None:
            continue
        kind, several = named
        if len(boxes.get(kind, ())) in (range(2, LARGEST_GROUP + 1) if several else (1,)):
            mentions.append(Mention(*phrase.span, kind, EntityTypes.shipped().types_of(own)))
    return replace(caption, mentions=tuple(mentions))


def with_boxes(
    photo: Photo, boxes: Mapping[str, Sequence[Shares]], names: Mapping[tuple[str, ...], tuple[str, bool]]
) -> Photo | None:
    """Return a photo with phrases that have boxes; None if it has none."""
    captions = tuple(with_mentions(caption, boxes, names) for caption in photo.captions)
    kinds = dict.fromkeys(str(mention.chain) for caption in captions for mention in caption.mentions)
    if not kinds or photo.width is None or photo.height is None:
        return None
    size = photo.width, photo.height, photo.width, photo.height
    found = tuple(
        Box(tuple(share * side for share, side in zip(box, size, strict=True)), (kind,), kind)  # type: ignore[arg-type]
        for kind in kinds
        for box in boxes[kind]
    )
    return replace(photo, captions=captions, chains=tuple(map(Chain, kinds)), boxes=found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("boxes", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", nargs="+", default=["train", "dev"], metavar="NAME")
    given = parser.parse_args(arguments)
    dataset, boxes = Dataset(given.data), read_boxes(given.boxes)
    names = names_of(sorted({kind for own in boxes.values() for kind in own}))

    def photos() -> Iterator[Photo]:
        for photo in dataset.photos:
            digits = "".join(filter(str.isdigit, photo.id[-12:]))
            own = boxes.get(int(digits)) if digits else None
            if own and set(photo.splits) & set(given.split):
                made = with_boxes(photo, own, names)
                if made:
                    yield made

    try:
        manifest = make_dataset(
            given.out,
            photos(),
            images=dataset.images,
            licence=dataset.manifest.licence,
            sources=[(source["kind"], Path(source["name"])) for source in dataset.manifest.sources],
            inputs=[given.data],
        )
    except DeixisError as error:
        print(f"coco_regions: {error}", file=sys.stderr)
        return 2
    print(f"{given.out}: {manifest.counts}, splits {manifest.splits}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
