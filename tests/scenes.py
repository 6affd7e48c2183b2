"""Photos of two coloured shapes with captions, mentions, chains and boxes, which every model can be trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from deixis.data.formats import jsonl
from deixis.data.records import Box, Caption, Chain, Mention, Photo

COLOURS = ("red", "black", "yellow", "green", "blue", "purple", "pink", "brown")
SHAPES = ("circle", "square", "fish", "hat")
TYPES = {"fish": "animals", "hat": "clothing"}
TEMPLATES = (
    "A {0} is to the left of a {1}.",
    "There are a {1} and a {0}.",
    "A {0} on the left and a {1} on the right.",
    "The picture shows a {0} beside a {1}.",
    "A {0} is near a {1}.",
)


def write_scenes(folder: Path, count: int, splits: Mapping[str, float]) -> None:
    """Write ``images/ID.png`` and ``photos.jsonl``; `splits` gives the fraction of each split."""
    (folder / "images").mkdir(parents=True)
    rng = np.random.default_rng(0)
    ends = [round(end * count) for end in accumulate(splits.values())]
    photos = []
    for number in range(count):
        split = next(name for name, end in zip(splits, ends, strict=True) if number < end)
        image, photo = make_scene(f"scene-{number:04d}", rng)
        file = f"{photo.id}.png"
        image.save(folder / "images" / file)
        photos.append(replace(photo, file=file, splits=(split,)))
    jsonl.write(photos, folder)


def make_scene(name: str, rng: np.random.Generator) -> tuple[Image.Image, Photo]:
    colours, shapes = rng.choice(COLOURS, 2, replace=False), rng.choice(SHAPES, 2)
    image = Image.new("RGB", (96, 96), "white")
    pen = ImageDraw.Draw(image)
    boxes = []
    for chain, (colour, shape) in enumerate(zip(colours, shapes, strict=True), start=1):
        side = int(rng.integers(20, 36))
        x, y = 48 * (chain - 1) + int(rng.integers(0, 48 - side)), int(rng.integers(0, 96 - side))
        outline = (x, y, x + side - 1, y + side - 1)
        if shape == "circle":
            pen.ellipse(outline, fill=str(colour))
        elif shape == "square":
            pen.rectangle(outline, fill=str(colour))
        else:  # a fish is a triangle on its side, a hat stands
            tip = (x + side - 1, y + side // 2) if shape == "fish" else (x + side // 2, y)
            pen.polygon(
                [(x, y + side - 1), tip, (x, y) if shape == "fish" else (x + side - 1, y + side - 1)], str(colour)
            )
        boxes.append(Box((float(x), float(y), float(x + side), float(y + side)), (str(chain),)))
    things = [f"{colour} {shape}" for colour, shape in zip(colours, shapes, strict=True)]
    kinds = [TYPES.get(str(shape), "other") for shape in shapes]
    captions = tuple(describe(template, things, kinds) for template in TEMPLATES)
    return image, Photo(name, captions, (Chain("1"), Chain("2")), tuple(boxes), 96, 96)


def describe(template: str, things: list[str], kinds: list[str]) -> Caption:
    text = template.format(*things)
    starts = {text.index(thing) - 2: number for number, thing in enumerate(things)}  # with the article
    mentions = (
        Mention(start, start + 2 + len(things[number]), str(number + 1), (kinds[number],))
        for start, number in sorted(starts.items())
    )
    return Caption.from_text(text, tuple(mentions))
