"""A map without a model: photos of one colour, and sentences around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from deixis.search.map import SemanticMap

COLOURS = ("red", "lime", "blue", "yellow", "black", "white")


def small_map(folder: Path, count: int = 6, each: int = 2, sentence: str = "A photo of </script> {}") -> SemanticMap:
    files = []
    for number in range(count):
        file = folder / f"{number}.png"
        Image.new("RGB", (60, 40), COLOURS[number % len(COLOURS)]).save(file)
        files.append(file)
    generator = np.random.default_rng(0)
    photos = generator.random((count, 2)).astype(np.float32)
    owner = np.repeat(np.arange(count), each)
    near = np.clip(photos[owner] + generator.normal(0, 0.05, (count * each, 2)), 0, 1).astype(np.float32)
    sentences = tuple(sentence.format(COLOURS[number % len(COLOURS)]) for number in owner)
    return SemanticMap(tuple(files), sentences, owner, photos, near)
