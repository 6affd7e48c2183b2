"""How well models locate class names in photos of COCO: the first box, and the set of boxes.

    python benchmarks/class_names.py TEXTS PHOTOS [--model grounder] [--json]

TEXTS has `boxes.jsonl.xz` of COCO train2017 and the other files of ``scripts/coco_texts.py``, PHOTOS the photos by
COCO's id. Photos are those whose boxes of 70 classes are complete and that no model learns from: those of `dev.txt`,
and every fifth of those without any text. Each class of a photo is a phrase: its name ("a dog"), or its plural for
several boxes.

The gold box is the union of the boxes of the class (`union`) or each of them (`any`), at an IoU of 0.5. Set F1 compares
all boxes that a model gives with all of the class. The mean over classes counts those with a phrase. Intervals (95 %)
are bootstrapped over photos.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import scripts_path  # noqa: F401
from coco_texts import CocoPhoto, plural, read_located
from PIL import Image

import deixis
from deixis.cli.output import progress
from deixis.data.dataset import make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError


def records(photos: Sequence[CocoPhoto], folder: Path) -> Iterator[Photo]:
    """Yield photos with a caption and a chain for each class."""
    for photo in photos:
        file = f"{photo.id:012d}.jpg"
        try:
            with Image.open(folder / file) as opened:
                width, height = opened.size
        except OSError as error:
            raise DeixisError(f"{folder / file}: {error}") from None
        of_class: dict[str, list[tuple[float, float, float, float]]] = {}
        for name, box in photo.boxes:
            of_class.setdefault(name, []).append(box)
        texts = [f"a {name}" if len(boxes) == 1 else plural(name) for name, boxes in of_class.items()]
        yield Photo(
            f"{photo.id:012d}",
            tuple(
                Caption.from_text(text, (Mention(0, len(text), name, (name,)),))
                for text, name in zip(texts, of_class, strict=True)
            ),
            tuple(map(Chain, of_class)),
            tuple(
                Box((x1 * width, y1 * height, x2 * width, y2 * height), (name,))
                for name, boxes in of_class.items()
                for x1, y1, x2, y2 in boxes
            ),
            width,
            height,
            file,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--model", default="grounder", metavar="NAME|DIR")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scores = {}
    with tempfile.TemporaryDirectory() as made:
        data = Path(made) / "class_names.data"
        try:
            make_dataset(data, records(read_located(options.texts), options.photos), images=options.photos)
            for protocol in ("sets", "any"):
                with progress("phrases") as on_progress:
                    scores[protocol] = deixis.evaluate(
                        "grounding", data, model=options.model, protocol=protocol, on_progress=on_progress
                    )
        except DeixisError as error:
            raise SystemExit(f"class_names: {error}") from None
    if options.json:
        print(json.dumps(scores))
        return
    sets, each = scores["sets"], scores["any"]
    for name, found, key in (
        ("first box, union", sets, "r1"),
        ("first box, any", each, "r1"),
        ("mean over classes, union", sets, "macro_r1"),
        ("sets: F1", sets, "set_f1"),
        ("… one box", sets, "set_f1_1"),
        ("… two boxes", sets, "set_f1_2"),
        ("… three and more", sets, "set_f1_3"),
    ):
        low, high = found["interval"][key]
        print(f"{name:26} {found[key]:5.1f} [{low:.1f}, {high:.1f}]")


if __name__ == "__main__":
    main()
